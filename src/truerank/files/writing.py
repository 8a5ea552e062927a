"""Writing in one step: a temporary file beside the target, renamed when complete."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

from truerank.errors import InputError
from truerank.files.paths import as_path

__all__ = ["atomic_path", "check_writable", "to_json", "write_text"]


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
