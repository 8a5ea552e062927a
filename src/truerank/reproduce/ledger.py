"""The ledger of a reproduction: what has been computed, in one JSON file, each entry once.

A run that was stopped, or goes on where there is a GPU, computes what is missing and nothing else.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from truerank.errors import InputError
from truerank.files import read_json, to_json

__all__ = ["Clock", "Ledger", "TimeOver"]


class TimeOver(Exception):  # noqa: N818 (no error: the time that was given is over)
    """The time is over; what is done is kept."""


class Clock:
    """The seconds that a call may take."""

    def __init__(self, until: float | None) -> None:
        self._end = None if until is None else time.monotonic() + until

    @property
    def left(self) -> float | None:
        """Seconds that are left, None without a limit."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    def check(self) -> None:
        """Stop if the time is over."""
        if self.left == 0.0:
            raise TimeOver


class Ledger:
    """Entries by name.

    Parameters
    ----------
    path : path
        The file; read if it is there.
    facts : mapping
        What the entries depend on; a file with others is refused.
    """

    def __init__(self, path: str | os.PathLike[str], facts: dict[str, Any], clock: Clock) -> None:
        self.path, self.facts, self._clock = Path(path), facts, clock
        self.entries: dict[str, Any] = {}
        if self.path.exists():
            found = read_json(self.path)
            if not isinstance(found, dict) or not isinstance(found.get("entries"), dict):
                raise InputError(f"{self.path} is no ledger of `truerank reproduce`.")
            if found.get("facts") != facts:
                raise InputError(
                    f"{self.path} was made with other data or another size of run; name another "
                    "folder."
                )
            self.entries = found["entries"]

    def get(self, name: str, compute: Callable[[], Any]) -> Any:
        """An entry, computed and kept if it is missing; plain JSON values."""
        if name not in self.entries:
            self._clock.check()
            self.entries[name] = compute()
            to_json({"facts": self.facts, "entries": self.entries}, self.path)
        return self.entries[name]
