"""The public and the private part of a task: its classes, divided by the salt.

A row goes where its class goes, as query and as gallery item, so that no row counts in both;
gallery rows without a label, which are relevant to nobody, are in both.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from hashlib import blake2b
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.core.folds import FEWEST_CLASSES
from truerank.errors import InputError, TruerankWarning, shortened
from truerank.evaluation import evaluate_task
from truerank.labels import MISSING, Encoded
from truerank.organise.submissions import rows_in_order
from truerank.organise.task import Task
from truerank.pairs import Mask
from truerank.result import Result
from truerank.stats.bootstrap import FEWEST_DRAWN
from truerank.storage import take
from truerank.wording import count

__all__ = ["Part", "check_share", "divide"]

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Part:
    """Some classes of a task, and which rows of the task they are."""

    name: str
    whole: Task
    task: Task
    queries: Integers
    items: Integers

    @property
    def classes(self) -> int:
        """Classes with a query that counts."""
        return len(np.unique(self.task.query_codes[self.task.mates > 0]))

    @property
    def findable(self) -> int:
        """Queries with a mate to find."""
        return int(np.count_nonzero(self.task.mates))

    def evaluate(self, embeddings: Any, ids: Any, **options: Any) -> Result:
        """Score the rows of a whole submission that belong to this part."""
        rows, items = rows_in_order(self.whole, embeddings, ids)
        if items is not None:
            items = take(items, self.items)
        return evaluate_task(self.task, take(rows, self.queries), items, **options)


def check_share(share: object) -> float:
    """The share of the classes that is public, a number between 0 and 1."""
    try:
        number = float(share) if isinstance(share, Real) and not isinstance(share, bool) else 0.0
    except OverflowError:
        number = 0.0
    if not 0 < number < 1:
        raise InputError(
            f"the public share must be a number between 0 and 1. Got {shortened(share)}."
        )
    return number


def divide(task: Task, share: float) -> tuple[Part, Part]:
    """The public part, of this share of the classes, and the private part.

    Which class goes where follows from the salt and the class's own name: nobody can tell before
    the salt is revealed, and anybody can check it then.
    """
    if task.salt is None:
        raise InputError(
            "this task has no salt, which the division of its classes needs: it was saved by an "
            "earlier version; give it one with truerank task make OLD -o NEW."
        )
    if task.levels is None:
        raise InputError(
            "a leaderboard divides the classes of a task, and judgements name none: make the task "
            "from labels."
        )
    share = check_share(share)
    finest = task.levels.finest
    public = _chosen(finest, task.salt, share)
    parts = (_part("public", task, public), _part("private", task, ~public))
    fewest = FEWEST_CLASSES if task.leave_one_out else FEWEST_DRAWN
    for part in parts:
        if part.classes < fewest:
            raise InputError(
                f"the {part.name} part has {count(part.classes, 'class')} with a mate to find, and "
                f"intervals need {fewest}: choose another public share, or add classes."
            )
    return parts


def _chosen(finest: Encoded, salt: bytes, share: float) -> npt.NDArray[np.bool_]:
    """Which classes are public: those with queries, and those without, by the same share."""
    draws = [
        blake2b(repr(value).encode(), key=salt, digest_size=32, person=b"truerank split").digest()
        for value in finest.values
    ]
    order = np.array(sorted(range(len(draws)), key=draws.__getitem__), np.int64)
    asked = np.isin(order, finest.codes[0])
    public = np.zeros(len(draws), bool)
    for some in (order[asked], order[~asked]):
        public[some[: round(share * len(some))]] = True
    return public


def _part(name: str, task: Task, classes: npt.NDArray[np.bool_]) -> Part:
    codes = task.named_levels.finest.codes
    queries = np.flatnonzero(classes[codes[0]])
    items = np.flatnonzero((codes[-1] == MISSING) | classes[codes[-1]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruerankWarning)
        part = Task(**_arguments(task, queries, items))
    return Part(name, task, part, queries, items)


def _arguments(task: Task, queries: Integers, items: Integers) -> dict[str, Any]:
    """What makes a task of some of the rows."""
    sides = {"": queries} if task.leave_one_out else {"": queries, "gallery_": items}
    levels = task.named_levels
    arguments: dict[str, Any] = {}
    for side, (prefix, rows) in enumerate(sides.items()):
        arguments[f"{prefix}labels"] = {
            name: _values(level, side, rows)
            for name, level in zip(levels.names, levels.columns, strict=True)
        }
        for what, names in (("ids", task.id_names), ("groups", task.group_names)):
            if names is not None:
                arguments[f"{prefix}{what}"] = _values(names, side, rows)
    for name, mask in task.masks.items():
        pairs, grades = mask.pairs(queries, items), mask.grades(queries, items)
        arguments[name] = Mask.of_pairs(name, (len(queries), len(items)), pairs, grades)
    return arguments | {
        "junk_labels": task.junk_labels,
        "no_mate": task.no_mate,
        "unlabelled": task.unlabelled,
        "leave_one_out": task.leave_one_out,
    }


def _values(names: Encoded, side: int, rows: Integers) -> list[Any]:
    codes = names.codes[side][rows].tolist()
    return [None if code == MISSING else names.values[code] for code in codes]
