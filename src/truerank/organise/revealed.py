"""Afterwards: salt and labels are published, so that anyone can check what was committed to."""

from __future__ import annotations

import os
from typing import Any

from truerank import digest
from truerank.errors import InputError
from truerank.files import read_json, to_json
from truerank.organise.task import Task

__all__ = ["check_revealed", "is_revealed", "reveal"]

FORMAT = "truerank-revealed-task"
FORMAT_VERSION = 1


def reveal(task: Task, path: str | os.PathLike[str] | None = None) -> str:
    """The JSON text with salt, rules and rows of a task, and the commitment they add up to."""
    if task.salt is None:
        raise InputError(
            "this task was saved by an earlier version and has no salt, so that nothing was "
            "committed to."
        )
    rules, text = task.committed
    told = {"format": FORMAT, "version": FORMAT_VERSION, "commitment": task.commitment}
    return to_json(told | {"salt": task.salt.hex(), "rules": rules, "text": text}, path)


def is_revealed(data: Any) -> bool:
    """Whether a JSON value is what `reveal` wrote."""
    return isinstance(data, dict) and data.get("format") == FORMAT


def check_revealed(path: str | os.PathLike[str], commitment: str | None) -> int:
    """Refuse salt and labels that are not those of the commitment; gives the number of rows."""
    data = read_json(path)
    if not is_revealed(data) or data.get("version") != FORMAT_VERSION:
        raise InputError(f"{path} is not a revealed task of version {FORMAT_VERSION}.")
    if commitment is None:
        raise InputError("the public task holds no commitment, so there is nothing to check.")
    try:
        salt, rules, text = bytes.fromhex(data["salt"]), data["rules"], data["text"]
        found = digest.commitment(salt, rules, text)
        rows = sum(line.startswith("(") for line in str(text).split("\n"))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path} is a damaged revealed task ({error}).") from error
    if found != commitment:
        raise InputError(
            f"{path} does not hold the labels that were committed to: its hash is {found[:16]}..., "
            f"the commitment {commitment[:16]}...."
        )
    return rows
