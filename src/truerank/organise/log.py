"""The log of a leaderboard: every opening of a submission, in a chain of hashes.

A file of JSON lines. Each holds the hash of the line before it, so that none can be changed, moved
or dropped without changing all that follow, the last of which every board names. It holds nothing
that a board does not show.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

from truerank.errors import InputError
from truerank.files import check_readable, write_text
from truerank.files.paths import as_path

__all__ = ["START", "Log"]

START = "0" * 64
"""What the first line names as the hash of the line before it."""
Record = dict[str, Any]


class Log:
    """The lines of a log, checked; new ones are written together in one step."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = as_path(path)
        self.records: list[Record] = []
        self._written = 0
        if os.path.lexists(self.path):
            self.records = _read(self.path)
            self._written = len(self.records)

    @property
    def head(self) -> str:
        """The hash of the last line."""
        return START if not self.records else str(self.records[-1]["hash"])

    def append(self, record: Record) -> None:
        """Add a line, which `write` writes."""
        linked = record | {"number": len(self.records), "previous": self.head}
        self.records.append(linked | {"hash": _hash(linked)})

    def write(self) -> None:
        """Write all lines in one step; refused if another run has added lines in the meantime."""
        if len(self.records) == self._written:
            return
        with _alone(self.path):
            there = _read(self.path) if os.path.lexists(self.path) else []
            if there != self.records[: self._written]:
                raise InputError(
                    f"another run has written to {self.path} in the meantime; run this one again."
                )
            write_text(self.path, "".join(f"{json.dumps(one)}\n" for one in self.records))
        self._written = len(self.records)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold the folder of a file, where the system can, so that nobody else writes there."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):
            folder = os.open(path.resolve().parent, os.O_RDONLY)
            held.callback(os.close, folder)
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield


def _read(path: Path) -> list[Record]:
    """The lines of a file, each checked against the one before it."""
    check_readable(path)
    records: list[Record] = []
    previous = START
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not the log of a leaderboard.") from error
    for number, line in enumerate(lines):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict) or not isinstance(record.get("hash"), str):
            raise InputError(f"{path}, line {number + 1}, is no line of a leaderboard's log.")
        body = {key: value for key, value in record.items() if key != "hash"}
        linked = body.get("number") == number and body.get("previous") == previous
        if not linked or _hash(body) != record["hash"]:
            raise InputError(
                f"{path} was changed at line {number + 1}: its hash does not fit the chain."
            )
        records.append(record)
        previous = record["hash"]
    return records


def _hash(record: Record) -> str:
    text = json.dumps(record, sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=32).hexdigest()
