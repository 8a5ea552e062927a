"""The severity of errors: the level that each query shares with the item found first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from truerank.wording import count, level_name

if TYPE_CHECKING:
    from truerank.task import TaskRules

__all__ = ["NONE", "Severity"]

Integers = npt.NDArray[np.int64]
NONE = "none"


@dataclass(frozen=True)
class Severity:
    """Top-1 errors by the finest level that query and found item share; ties count as the worst."""

    queries: int
    errors: int
    by_level: dict[str, int]
    """Level name to number of errors; "none" where not even the coarsest level is shared."""
    by_class: dict[Any, dict[str, int]]
    """Errors by level for each finest label that has any."""

    @staticmethod
    def of(task: TaskRules, nearest: Integers, findable: npt.NDArray[np.bool_]) -> Severity:
        """Count the errors among the queries that have a mate of the finest level to find."""
        levels = task.named_levels
        depth = len(levels)
        names = [NONE, *levels.names[:-1]]
        wrong = (nearest < depth) & findable

        def tally(which: npt.NDArray[np.bool_]) -> dict[str, int]:
            found = np.bincount(nearest[which], minlength=depth).tolist()
            return {name: number for name, number in zip(names, found, strict=True) if number}

        values = levels.finest.values
        by_class = {
            values[code]: tally(wrong & (task.query_codes == code))
            for code in np.unique(task.query_codes[wrong]).tolist()
        }
        return Severity(int(findable.sum()), int(wrong.sum()), tally(wrong), by_class)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, without the classes."""
        return {"queries": self.queries, "errors": self.errors, "by_level": self.by_level}

    def __str__(self) -> str:
        if not self.errors:
            return f"No top-1 error in {count(self.queries, 'query')}."
        parts = [
            f"{number:,} share {'nothing' if name == NONE else level_name(name)}"
            for name, number in reversed(self.by_level.items())
        ]
        return f"Of {count(self.errors, 'top-1 error')}, {', '.join(parts)}."
