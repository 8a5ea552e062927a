"""Taxonomy: from the finest labels and a table of parents to label paths, coarse to fine."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping
from typing import Any

from truerank.arrays import as_array
from truerank.errors import InputError, shortened

__all__ = ["Taxonomy"]


class Taxonomy:
    """A forest by the parent of each node.

    Examples
    --------
    >>> from truerank import Taxonomy
    >>> tree = Taxonomy({"polar": "bear", "brown": "bear", "bear": "mammal", "monarch": "insect"})
    >>> tree.levels(["polar", "monarch"])
    [('mammal', 'bear', 'polar'), ('insect', 'monarch', 'monarch')]
    """

    def __init__(self, parents: Mapping[Any, Any]) -> None:
        try:
            self.parents = dict(parents)
        except (TypeError, ValueError):
            raise InputError(
                f"a taxonomy is a mapping from child to parent. Got {shortened(parents)}."
            ) from None
        if not all(isinstance(parent, Hashable) for parent in self.parents.values()):
            raise InputError("a taxonomy's nodes must be values such as int or str.")
        for node in self.parents:
            self.path(node)

    @staticmethod
    def read(path: str | os.PathLike[str]) -> Taxonomy:
        """From a CSV file with the columns child and parent."""
        from truerank.files.judgements import read_taxonomy

        return Taxonomy(read_taxonomy(path))

    def path(self, node: Any) -> list[Any]:
        """From the root down to the node."""
        steps = [node]
        while steps[-1] in self.parents:
            steps.append(self.parents[steps[-1]])
            if len(steps) > len(self.parents) + 1:
                raise InputError(f"the taxonomy has a cycle through {node!r}.")
        return steps[::-1]

    def levels(self, labels: Any) -> list[tuple[Any, ...]]:
        """The path of each label; shorter ones repeat their last node, so that all have one length.

        Pass the result as `labels` to evaluate.
        """
        finest = labels if isinstance(labels, list) else as_array(labels, "labels").tolist()
        if not isinstance(finest, list) or not all(isinstance(item, Hashable) for item in finest):
            raise InputError("labels must be one value a row, such as int or str.")
        if not finest:
            raise InputError("labels is empty; at least one row is needed.")
        known = set(self.parents) | set(self.parents.values())
        strangers = [label for label in dict.fromkeys(finest) if label not in known]
        if strangers:
            raise InputError(
                f"the taxonomy does not contain {shortened(strangers[0])}"
                f"{f' and {len(strangers) - 1} more labels' if len(strangers) > 1 else ''}."
            )
        paths = {label: self.path(label) for label in dict.fromkeys(finest)}
        depth = max(len(path) for path in paths.values())
        full = {
            label: tuple(path + [path[-1]] * (depth - len(path))) for label, path in paths.items()
        }
        return [full[label] for label in finest]
