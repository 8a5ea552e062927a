"""Checkpoint of an evaluation: the counts so far in a file, to resume after an interruption.

Code that holds a state names its arrays; they are filled from the file at once and written to
it from time to time. The file is replaced in one step. It belongs to one evaluation (task,
embeddings, metrics, version) and is refused for any other.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from truerank._util.arrays import TooLargeError
from truerank._util.errors import InputError
from truerank._util.files import as_path, atomic_path, check_readable, check_writable, read_archive
from truerank._util.settings import current_settings
from truerank._util.types import Array, Integers

FORMAT = "truerank-checkpoint"
_SEEN = "@"


def fill(array: Array, kept: Array) -> None:
    """Copy a kept array into one of the same shape and type; a ValueError if it is another."""
    if array.shape != kept.shape or array.dtype != kept.dtype:
        raise ValueError("an array of another kind was kept")
    array[...] = kept


class Checkpoint:
    """Named arrays, kept in a file; without a path, in no file.

    Parameters
    ----------
    path : the file; None keeps nothing
    identity : what the counts depend on, by the name a user would give it
    """

    def __init__(
        self, path: str | os.PathLike[str] | None = None, identity: dict[str, str] | None = None
    ) -> None:
        self._path = None if path is None else as_path(path)
        self._identity = identity or {}
        self._held: dict[str, dict[str, Array]] = {}
        self._stored: dict[str, Array] = {}
        sizes = current_settings()
        self._seconds, self._worth = sizes.checkpoint_seconds, sizes.checkpoint_worth
        self._wait = self._seconds
        self._begun = self._written = time.monotonic()
        if self._path is not None:
            check_writable(self._path)
            if self._path.exists():
                self._stored = self._read(self._path)

    @property
    def is_kept(self) -> bool:
        """Whether the arrays are kept in a file."""
        return self._path is not None

    def restore(self, key: str, arrays: dict[str, Array]) -> None:
        """Fill these arrays with what the file held under this key."""
        for name, array in arrays.items():
            stored = self._stored.pop(f"{key}/{name}", None)
            if stored is not None:
                with self._whole():
                    fill(array, stored)

    def restore_seen(
        self, key: str, arrays: dict[str, Array], give: Callable[[dict[str, Array]], None]
    ) -> dict[str, Array]:
        """Fill arrays, and give observers back what they had seen; all of it, or nothing."""
        names = [name for name in self._stored if name.startswith(f"{key}/")]
        stored = {name[len(key) + 1 :]: self._stored.pop(name) for name in names}
        if stored:
            with self._whole():
                for name, array in arrays.items():
                    fill(array, stored[name])
                give({name[1:]: stored[name] for name in stored if name.startswith(_SEEN)})
        return stored

    @staticmethod
    def with_seen(arrays: dict[str, Array], seen: dict[str, Array]) -> dict[str, Array]:
        """Arrays to hold, with what observers have seen of the same queries."""
        return arrays | {f"{_SEEN}{name}": array for name, array in seen.items()}

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Refuse the file where arrays are missing or are not what they should be."""
        try:
            yield
        except (KeyError, ValueError):
            message = f"{self._path} is a damaged checkpoint: delete it to start anew."
            raise InputError(message) from None

    def hold(self, key: str, arrays: dict[str, Array]) -> None:
        """Hold arrays under a key: they belong together and may be written from now on."""
        self._held[key] = arrays

    def release(self, key: str) -> None:
        """No longer write the arrays of a key, which change or are of no more use."""
        self._held.pop(key, None)

    def due(self) -> bool:
        """Whether it is time to write."""
        return self._path is not None and time.monotonic() - self._written >= self._wait

    def save(self) -> None:
        """Write what is held."""
        if self._path is None:
            return
        started = time.monotonic()
        header = json.dumps({"format": FORMAT, **self._identity}).encode()
        arrays = {
            f"{key}/{name}": array
            for key, arrays in self._held.items()
            for name, array in arrays.items()
        }
        with atomic_path(self._path) as partial, partial.open("wb") as file:
            np.savez(file, header=np.frombuffer(header, np.uint8), **arrays)  # type: ignore[arg-type]
        self._written = time.monotonic()
        self._wait = max(self._seconds, 20 * (self._written - started))

    def abandon(self) -> None:
        """Write what is held of a stopped evaluation, unless starting anew is as quick."""
        if self._path is not None and (
            self._path.exists() or time.monotonic() - self._begun >= self._worth
        ):
            self.save()

    @contextmanager
    def kept_if_stopped(self) -> Iterator[None]:
        """Abandon the evaluation where what is done within is stopped, or fails."""
        try:
            yield
        except BaseException:
            self.abandon()
            raise

    def remove(self) -> None:
        """Delete the file, for the evaluation is complete."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def _read(self, path: Path) -> dict[str, Array]:
        check_readable(path)
        try:
            arrays = read_archive(path)
            header = json.loads(arrays.pop("header").tobytes())
        except (MemoryError, TooLargeError):
            raise
        except Exception as error:  # whatever a malformed archive makes numpy, zlib or json say
            raise InputError(f"{path} is not a truerank checkpoint ({error}).") from error
        if not isinstance(header, dict) or header.get("format") != FORMAT:
            raise InputError(f"{path} is not a truerank checkpoint.")
        for name, value in self._identity.items():
            if header.get(name) != value:
                raise InputError(
                    f"{path} is the checkpoint of another evaluation (another {name}); delete it "
                    "to start anew, or name another file."
                )
        return arrays


def chapters(queries: Integers, gallery: int, seconds: float | None) -> Iterator[Integers]:
    """Queries in chapters that take some seconds each; all at once without a limit."""
    sizes = current_settings()
    count = len(queries) if seconds is None else max(1, sizes.chapter_pairs // gallery)
    least = count
    while len(queries):
        if len(queries) < count + least // 2:  # no chapter for a rest
            count = len(queries)
        started = time.monotonic()
        yield queries[:count]
        queries = queries[count:]
        if seconds is not None:
            spent = max(time.monotonic() - started, 1e-3)
            count = max(least, min(sizes.chapter_growth * count, int(count * seconds / spent)))
