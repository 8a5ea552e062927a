"""Paths, text files and .npz archives, and files that are written in one step.

A file is written as a temporary file beside its target and renamed when it is complete, so that
nothing that truerank writes is ever half a file.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from truerank._util.arrays import check_fits
from truerank._util.errors import InputError, shortened
from truerank._util.types import Array

# Paths as users pass them: text or path objects, and nothing else.


def as_path(path: object) -> Path:
    """The path, or one sentence on what is none."""
    if isinstance(path, (str, os.PathLike)):
        text = os.fspath(path)
        if isinstance(text, str):
            return Path(text)
    raise InputError(f"a path must be text or a pathlib.Path. Got {shortened(path)} instead.")


# Writing in one step: a temporary file beside the target, renamed when complete.


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path to write to; it becomes `path` if the block ends well and vanishes otherwise."""
    target = _target(path)
    with _new_file_beside(target) as name:
        try:
            yield Path(name)
            _give_usual_mode(name)
            os.replace(name, target)
        except OSError as error:
            raise InputError(f"cannot write {target}: {error.strerror or error}.") from error


def check_writable(path: str | os.PathLike[str]) -> None:
    """Refuse now what could not be written later."""
    with _new_file_beside(_target(path)):
        pass


def _target(path: str | os.PathLike[str]) -> Path:
    """Where to write: a link is replaced and not followed; what is no plain file is refused."""
    target = as_path(path)
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:  # nothing there, or a link to nothing
        return target
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot write {target}: {reason}.") from error
    if stat.S_ISDIR(mode):
        raise InputError(f"cannot write {target}: it is a folder.")
    if not stat.S_ISREG(mode) or (target.is_symlink() and os.readlink(target).startswith("/proc/")):
        raise InputError(f"cannot write {target}: it is a device or a pipe and no plain file.")
    return target


@contextmanager
def _new_file_beside(target: Path) -> Iterator[str]:
    """A temporary file beside the target, gone at the end unless it was renamed.

    It is locked, so that who finds one that is not knows that its process was killed; those are
    removed first.
    """
    key = blake2b(target.name.encode("utf-8", "surrogateescape"), digest_size=6).hexdigest()
    prefix, suffix = f".truerank-{key}-", target.suffix[:16]
    try:
        _remove_abandoned(target.parent, prefix)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=prefix, suffix=suffix)
        while _lock(handle) is False or not os.fstat(handle).st_nlink:  # taken for abandoned
            os.close(handle)
            handle, name = tempfile.mkstemp(dir=target.parent, prefix=prefix, suffix=suffix)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot write {target}: {reason}.") from error
    try:
        yield name
    finally:
        with suppress(OSError):
            os.unlink(name)
        os.close(handle)


def _remove_abandoned(folder: Path, prefix: str) -> None:
    """Remove what killed processes left of the same target."""
    for entry in os.scandir(folder):
        if entry.name.startswith(prefix) and entry.is_file(follow_symlinks=False):
            with suppress(OSError):
                handle = os.open(entry.path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
                try:
                    if _lock(handle) is True:
                        os.unlink(entry.path)
                finally:
                    os.close(handle)


def _lock(handle: int) -> bool | None:
    """Lock an open file until it is closed: False if another has, None where there are no locks."""
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return None
    return True


def _give_usual_mode(name: str) -> None:
    """Temporary files are private; the finished one gets the permissions any new file would."""
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(name, 0o666 & ~mask)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write UTF-8 text in one step."""
    with atomic_path(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")


def to_json(value: Any, path: str | os.PathLike[str] | None = None) -> str:
    """The JSON text of plain values; written to `path` in one step if given."""
    text = json.dumps(value, indent=1, allow_nan=False) + "\n"
    if path is not None:
        write_text(path, text)
    return text


_MAPPED = "save a large array as .npy, which is read piece by piece"


def read_archive(path: str | os.PathLike[str]) -> dict[str, Array]:
    """The arrays of an .npz, each checked before memory is set aside for it."""
    arrays = {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            with archive.open(member) as file:
                version = np.lib.format.read_magic(file)
                header = {
                    (1, 0): np.lib.format.read_array_header_1_0,
                    (2, 0): np.lib.format.read_array_header_2_0,
                }.get(version)
                if header is None:
                    raise InputError(f"array {name!r} of {path} has an unknown .npy version.")
                shape, _, dtype = header(file)
            if dtype.hasobject:
                raise InputError(
                    f"array {name!r} of {path} holds Python objects, which could run code; save "
                    "text as numpy.array(values, dtype=str)."
                )
            size = math.prod(shape) * dtype.itemsize
            if size > member.file_size:
                raise InputError(f"array {name!r} of {path} is cut off: shape {shape}.")
            check_fits(f"array {name!r} of {path}, of shape {shape},", size, _MAPPED)
            with archive.open(member) as file:
                arrays[name] = np.lib.format.read_array(file, allow_pickle=False)
    return arrays


# Text files: what can be read at all, and the text of UTF-8 files, which gzip may have packed.


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of a UTF-8 file, which may be packed by gzip."""
    check_readable(path)
    try:
        return b"".join(_pieces(as_path(path))).decode("utf-8-sig")
    except (OSError, EOFError, ValueError, zlib.error) as error:
        broken = isinstance(error, (EOFError, zlib.error, gzip.BadGzipFile))
        why = "it is no whole gzip file" if broken else "it is not UTF-8 text"
        raise InputError(
            f"cannot read {path}: {getattr(error, 'strerror', None) or why}."
        ) from error


def first_line(path: Path) -> str:
    """The first line of a text file, which may be packed by gzip, as far as it is short."""
    return next(_pieces(path, 1 << 12), b"").decode("utf-8-sig").lstrip().partition("\n")[0]


def _pieces(path: Path, size: int = 1 << 24) -> Iterator[bytes]:
    """What is in a file, unpacked, some of it at a time; more than memory holds is refused."""
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    seen = 0
    with gzip.open(path, "rb") if packed else path.open("rb") as file:
        while piece := file.read(size):
            seen += len(piece)
            if packed:  # its text and lines take up several times as much
                check_fits(f"what {path} unpacks to", 4 * seen, "unpack it in parts")
            yield piece


def check_readable(path: str | os.PathLike[str]) -> None:
    """Refuse what is missing, empty, a folder, or not ours to read."""
    path = as_path(path)
    try:
        if path.is_dir():
            raise InputError(f"{path} is a folder; pass a file.")
        if path.stat().st_size == 0:
            raise InputError(f"{path} is empty.")
        with path.open("rb"):
            pass
    except InputError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read {path}: {reason}.") from error
