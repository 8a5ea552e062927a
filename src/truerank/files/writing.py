"""Writing in one step: a temporary file beside the target, renamed when complete."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from truerank.errors import InputError
from truerank.files.paths import as_path

__all__ = ["atomic_path", "check_writable", "to_json", "write_text"]


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path to write to; it becomes `path` if the block ends well and vanishes otherwise."""
    target = _resolve(path)
    name = _new_file_beside(target)
    try:
        yield Path(name)
        _give_usual_mode(name)
        os.replace(name, target)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(name)
        if isinstance(error, OSError):
            raise InputError(f"cannot write {target}: {error.strerror or error}.") from error
        raise


def check_writable(path: str | os.PathLike[str]) -> None:
    """Refuse now what could not be written later."""
    target = _resolve(path)
    os.unlink(_new_file_beside(target))


def _resolve(path: str | os.PathLike[str]) -> Path:
    """Where to write: links are followed; what is no plain file is refused, not replaced."""
    path = as_path(path)
    try:
        target = Path(os.path.realpath(path))
        mode = target.stat().st_mode
    except FileNotFoundError:
        return target
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot write {path}: {reason}.") from error
    if stat.S_ISDIR(mode):
        raise InputError(f"cannot write {path}: it is a folder.")
    if not stat.S_ISREG(mode):
        raise InputError(f"cannot write {path}: it is a device or a pipe and no plain file.")
    return target


def _new_file_beside(target: Path) -> str:
    try:
        handle, name = tempfile.mkstemp(
            dir=target.parent, prefix=".truerank-", suffix=target.suffix[:16]
        )
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror or error}.") from error
    os.close(handle)
    return name


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
