"""The weight of every query in a mean: each counts alike, or each class does."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from truerank.relevance import TreeView, View
from truerank.task import TaskRules

__all__ = ["QueryWeights"]

Reals = npt.NDArray[np.float64]


@dataclass
class QueryWeights:
    """Weights in means over queries, or over classes, of one notion of relevance.

    It remembers what it has computed; two threads may compute the same at once.
    """

    task: TaskRules
    view: View
    by_class: bool
    _of_grade: dict[int, Reals] = field(default_factory=dict)

    def of(self, grade: int) -> Reals:
        """The weights where mates from a grade on count; one over the class's queries that do."""
        if grade not in self._of_grade:
            if not self.by_class:
                return self._of_grade.setdefault(grade, np.ones(self.task.queries))
            codes, counts = self.task.query_codes, np.ones(self.task.queries, bool)
            if self.task.no_mate != "zero":
                is_tree = isinstance(self.view, TreeView) and grade > self.view.lowest
                view = self.task.tree_view(grade) if is_tree else self.view
                counts = view.mates > 0
            size = np.bincount(codes[counts], minlength=int(codes.max()) + 1)
            self._of_grade[grade] = 1.0 / np.maximum(size[codes], 1)
        return self._of_grade[grade]
