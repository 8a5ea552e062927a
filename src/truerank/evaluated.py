"""What a result was computed from, held by reference: to look at its rows again later."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from truerank.errors import InputError, TruerankWarning
from truerank.space import Space, build
from truerank.task import TaskRules

__all__ = ["Evaluated"]


@dataclass(frozen=True, eq=False)
class Evaluated:
    """The task and the rows of an evaluation, and how they were compared."""

    task: TaskRules
    rows: npt.NDArray[Any]
    items: npt.NDArray[Any] | None
    """Rows of the gallery; None where the queries are their own, or distances were given."""
    distance: str
    average: str
    device: str
    threads: int | None
    digest: str
    """Of the rows, as they were."""

    def space(self) -> Space:
        """The space of the rows, made again; refused if they have been changed in between."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TruerankWarning)  # the evaluation has told them
            space = build(
                self.distance, self.rows, self.items, self.task.columns, threads=self.threads
            )
        if space.facts.input_digest != self.digest:
            raise InputError(
                "the embeddings have been changed since they were evaluated; evaluate them again."
            )
        return space
