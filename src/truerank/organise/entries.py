"""Files of submissions: whose each is, and a digest of what it holds."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from truerank.cached import cached_property
from truerank.errors import InputError, shortened
from truerank.files import check_readable, read
from truerank.files.paths import as_path
from truerank.files.tables import read_csv

__all__ = ["Entry", "list_entries", "read_chosen"]

DIVIDER = "--"


@dataclass(frozen=True)
class Entry:
    """A submission in a file."""

    participant: str
    name: str
    """What the participant calls this entry; may be empty."""
    path: Path

    @cached_property
    def digest(self) -> str:
        """A hash of the file, by which the log knows it."""
        check_readable(self.path)
        with self.path.open("rb") as file:
            total = blake2b(digest_size=32)
            while block := file.read(1 << 20):
                total.update(block)
        return total.hexdigest()

    def read(self) -> tuple[Any, Any]:
        """Embeddings and ids."""
        bundle = read(self.path)
        if bundle.embeddings is None:
            raise InputError("it holds no embeddings: expected a 2-D array called embeddings.")
        return bundle.embeddings, bundle.ids


def list_entries(files: Iterable[str | os.PathLike[str]]) -> list[Entry]:
    """The entries in files, in this order.

    The participant is what NAME=FILE says, otherwise the file's name without its ending, up to the
    first `--` if it has one: anna--1.npz and anna--larger.npz are both of anna.

    Examples
    --------
    >>> [(e.participant, e.name) for e in list_entries(["subs/anna--2.npz", "Bob=x/out.npz"])]
    [('anna', '2'), ('Bob', 'out')]
    """
    if isinstance(files, (str, bytes, os.PathLike)) or not np.iterable(files):
        raise InputError(f"submissions must be a list of files. Got {shortened(files)} instead.")
    entries = [_entry(str(as_path(file))) for file in files]
    if not entries:
        raise InputError("there are no submissions; pass their files.")
    seen: dict[tuple[str, str], Path] = {}
    for entry in entries:
        if not entry.participant.strip():
            raise InputError(f"{entry.path} names no participant; say whose it is with NAME=FILE.")
        other = seen.setdefault((entry.participant, entry.name), entry.path)
        if other != entry.path:
            raise InputError(
                f"{other} and {entry.path} are both called {entry.path.stem}; say whose each is "
                "with NAME=FILE."
            )
    return entries


def read_chosen(choice: Mapping[str, str] | str | os.PathLike[str]) -> dict[str, str]:
    """The entry that each participant chose, from a mapping or a table (participant, entry)."""
    if isinstance(choice, Mapping):
        return {_text(name): _text(entry) for name, entry in choice.items()}
    if not isinstance(choice, (str, os.PathLike)):
        raise InputError(
            f"choose must be a mapping or a CSV file. Got {shortened(choice)} instead."
        )
    path = as_path(choice)
    check_readable(path)
    columns = read_csv(path, frozenset({"participant", "entry"}))
    if set(columns) != {"participant", "entry"}:
        raise InputError(
            f"{path} must have the columns participant and entry. Got {shortened(list(columns))}."
        )
    chosen: dict[str, str] = {}
    for name, entry in zip(columns["participant"], columns["entry"], strict=True):
        if name is None or chosen.setdefault(_shown(name), _shown(entry or "")) != (entry or ""):
            raise InputError(
                f"{path} must name each participant once. Got {shortened(name)} without a name or "
                "with two entries."
            )
    return chosen


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise InputError(f"choose must hold names as text. Got {shortened(value)}.")
    return _shown(value)


def _entry(text: str) -> Entry:
    before, equals, after = text.partition("=")
    if equals and before and after and not Path(text).exists():
        return Entry(_shown(before), _shown(Path(after).stem), Path(after))
    participant, _, name = Path(text).stem.partition(DIVIDER)
    return Entry(_shown(participant), _shown(name), Path(text))


def _shown(name: str) -> str:
    """A name that no screen or page takes for more than letters."""
    return "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in name
    )
