"""Text files: what can be read at all, and the text of UTF-8 files, which gzip may have packed."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from pathlib import Path

from truerank.errors import InputError
from truerank.files.paths import as_path
from truerank.storage import check_fits

__all__ = ["check_readable", "first_line", "read_text"]


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
