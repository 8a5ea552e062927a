"""The log of every look at the test half: a line each, chained by hashes, so that changes show.

It is written before the look that it announces. The same model looked at again, after a crash, is
no second look; another model in the same place is, and is counted.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from truerank.errors import InputError
from truerank.files import write_text

__all__ = ["Opening", "Openings"]

FIRST = "0" * 64


@dataclass(frozen=True)
class Opening:
    """One look: whose models, which rerun, and the hashes of their weights."""

    method: str
    rerun: str
    checkpoints: tuple[str, ...]
    test: str
    """The hash of the split."""


class Openings:
    """The openings so far.

    Parameters
    ----------
    path : path
        openings.jsonl; a file that does not follow from itself is refused.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: list[Opening] = []
        self.head = FIRST
        """The hash of the last line."""
        if path.exists():
            self._read()

    def announce(self, openings: Sequence[Opening]) -> None:
        """Log looks that are about to be taken; those that are logged already are not repeated."""
        known = set(self.entries)
        new = [opening for opening in openings if opening not in known]
        if not new:
            return
        text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        for opening in new:
            line = _line(opening, len(self.entries), self.head)
            self.head = line["hash"]
            self.entries.append(opening)
            text += json.dumps(line) + "\n"
        write_text(self.path, text)

    def check_announced(self, opening: Opening) -> None:
        """Refuse a score of a model for which the test half was never opened."""
        if opening not in set(self.entries):
            raise InputError(
                f"{self.path} does not hold the opening of {opening.method}, rerun "
                f"{opening.rerun}, which has been scored; the log is not complete."
            )

    @property
    def count(self) -> int:
        """How often the test half was looked at."""
        return len(self.entries)

    def second_looks(self, method: str | None = None) -> int:
        """How often another model was looked at in the place of one that had been seen."""
        looks: dict[tuple[str, str], int] = defaultdict(int)
        for entry in self.entries:
            if method is None or entry.method == method:
                looks[entry.method, entry.rerun] += 1
        return sum(number - 1 for number in looks.values())

    def _read(self) -> None:
        lines = self.path.read_text(encoding="utf-8").splitlines()
        for number, text in enumerate(lines):
            try:
                given = json.loads(text)
                opening = Opening(
                    given["method"], given["rerun"], tuple(given["checkpoints"]), given["test"]
                )
                wanted = _line(opening, number, self.head)
            except (ValueError, KeyError, TypeError):
                wanted, given = {}, None
            if given != wanted:
                raise InputError(
                    f"{self.path} has been changed: line {number + 1} does not follow from the "
                    "lines before it, so that nobody knows how often the test half was opened."
                )
            self.head = wanted["hash"]
            self.entries.append(opening)


def _line(opening: Opening, number: int, before: str) -> dict[str, Any]:
    content = {
        "number": number,
        "method": opening.method,
        "rerun": opening.rerun,
        "checkpoints": list(opening.checkpoints),
        "test": opening.test,
        "previous": before,
    }
    return {**content, "hash": sha256(json.dumps(content).encode()).hexdigest()}
