"""Before and after: what an organiser or a participant should notice about a task's files."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np

from truerank.errors import InputError, TruerankWarning
from truerank.labels import MISSING
from truerank.organise.log import Log
from truerank.organise.public import PublicTask
from truerank.task import TaskRules
from truerank.wording import count

__all__ = ["check_log", "check_submission", "warn_of_giveaways"]

SHORTEST = 3
"""Letters of a label that an id holds by accident less often than not."""


def warn_of_giveaways(task: TaskRules) -> None:
    """Warn where ids, or the order of rows, tell labels."""
    if task.levels is None:
        return
    finest, names = task.levels.finest, task.id_names
    if names is None:
        codes = finest.codes[0]
        sorted_by_class = np.count_nonzero(np.diff(codes)) + 1 == len(np.unique(codes))
        if task.leave_one_out and sorted_by_class and len(np.unique(codes)) < len(codes):
            warnings.warn(
                "the rows are sorted by class and have no ids, so that their order tells the "
                "labels; shuffle them, or give them ids.",
                TruerankWarning,
                stacklevel=2,
            )
        return
    told = 0
    for codes, ids in zip(finest.codes, names.codes, strict=False):
        for code, name in zip(codes.tolist(), ids.tolist(), strict=True):
            label = "" if code == MISSING else str(finest.values[code]).casefold()
            told += len(label) >= SHORTEST and label in str(names.values[name]).casefold()
    if told:
        warnings.warn(
            f"{count(told, 'id')} of the task contain the row's label; participants see ids, so "
            "rename them.",
            TruerankWarning,
            stacklevel=2,
        )


def check_submission(public: PublicTask, embeddings: Any, ids: Any, distance: str) -> str:
    """What a participant should know of a submission that the organiser will take."""
    flaws = public.check(embeddings, ids, distance=distance)
    words = flaws.words(flaws.repeated)
    told = f"; degenerate: {'; '.join(words)}" if words else ""
    equal = int(np.count_nonzero(flaws.repeated))
    if equal and not flaws.constant:
        told += f"; {equal:,} equal another, as rows of equal items do"
    return f"{count(flaws.rows, 'row')}, as the task wants them{told}."


def check_log(path: str | os.PathLike[str], commitment: str | None) -> tuple[int, str]:
    """The number of openings in a log and the hash of its last line, if nothing was changed."""
    log = Log(path)
    if not log.records or log.records[0].get("commitment") != commitment:
        raise InputError(f"{path} is the log of another task: the commitments differ.")
    return sum(one.get("kind") == "opening" for one in log.records), log.head
