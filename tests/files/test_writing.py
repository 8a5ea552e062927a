"""What is written is whole or not there; what was there before survives every failure."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import truerank
from tests.cli.driving import environment
from tests.files.samples import EMBEDDINGS, IDS, LABELS
from truerank._util.files import atomic_path, check_writable, write_text
from truerank.cli.outputs import write_per_query

OLD = "what was there before"


@pytest.fixture(scope="module")
def result() -> truerank.Result:
    return truerank.evaluate(EMBEDDINGS, LABELS, metrics="map@r")


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "target.json"
    path.write_text(OLD)
    return path


def assert_untouched(target: Path) -> None:
    assert target.read_text() == OLD
    assert os.listdir(target.parent) == [target.name]


def write_half(target: Path, error: BaseException) -> None:
    with atomic_path(target) as partial:
        partial.write_text("half of wh")
        assert partial.parent == target.parent  # else renaming would not be one step
        assert target.read_text() == OLD
        raise error


class Stop(BaseException):
    """Not an Exception, as KeyboardInterrupt is not."""


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, Stop, MemoryError])
def test_a_failure_in_the_middle_changes_nothing(error: type[BaseException], target: Path) -> None:
    with pytest.raises(error):
        write_half(target, error())
    assert_untouched(target)


def test_a_full_disk_is_one_sentence(target: Path) -> None:
    with pytest.raises(truerank.InputError) as caught:
        write_half(target, OSError(errno.ENOSPC, "No space left on device"))
    assert str(caught.value) == f"cannot write {target}: No space left on device."
    assert_untouched(target)


def test_a_failed_rename_changes_nothing(
    target: Path, result: truerank.Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    for name in ("replace", "rename"):
        monkeypatch.setattr(os, name, refuse)
    with pytest.raises(truerank.InputError, match="Operation not permitted"):
        result.to_json(target)
    assert_untouched(target)


def test_a_task_that_cannot_be_finished_leaves_the_old_one(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(file: Any, *arrays: Any, **named: Any) -> None:
        file.write(b"PK\x03\x04 half of it")
        raise OSError(errno.ENOSPC, "No space left on device")

    for name in ("savez", "savez_compressed"):
        monkeypatch.setattr(np, name, half)
    with pytest.raises(truerank.InputError, match="No space left"):
        truerank.Task(LABELS, ids=range(len(LABELS))).save(target)
    assert_untouched(target)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_table_that_cannot_be_finished_leaves_the_old_one(
    suffix: str, tmp_path: Path, result: truerank.Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    import csv

    from pyarrow import parquet

    def refuse(*arguments: Any, **options: Any) -> Any:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(csv, "writer", refuse)
    monkeypatch.setattr(parquet, "write_table", refuse)
    path = tmp_path / f"table{suffix}"
    path.write_text(OLD)
    with pytest.raises(truerank.InputError, match="Input/output error"):
        write_per_query(result, IDS, path)
    assert_untouched(path)


def test_success_replaces_the_old_file(target: Path, result: truerank.Result) -> None:
    text = result.to_json(target)
    assert target.read_text(encoding="utf-8") == text
    assert os.listdir(target.parent) == [target.name]


def test_new_files_have_the_usual_permissions(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        write_text(tmp_path / "new.txt", "a")
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "new.txt").stat().st_mode) == 0o640


def test_text_is_utf8_with_plain_newlines(tmp_path: Path) -> None:
    write_text(tmp_path / "new.txt", "é\n")
    assert (tmp_path / "new.txt").read_bytes() == b"\xc3\xa9\n"


UNWRITABLE: dict[str, tuple[Callable[[Path], Path], str]] = {
    "a folder": (lambda folder: folder, "folder"),
    "in no folder": (lambda folder: folder / "nowhere" / "x.json", "No such file or directory"),
    "below a file": (lambda folder: folder / "target.json" / "x.json", "Not a directory"),
    "name too long": (lambda folder: folder / ("n" * 300), "name too long"),
    "no name": (lambda folder: folder / "a\0b", "null"),
}


@pytest.mark.parametrize("kind", UNWRITABLE)
def test_what_cannot_be_written_is_refused_beforehand_and_afterwards(
    kind: str, target: Path, result: truerank.Result
) -> None:
    make, words = UNWRITABLE[kind]
    path = make(target.parent)
    with pytest.raises(truerank.InputError, match=words):
        check_writable(path)
    with pytest.raises(truerank.InputError, match="cannot write"):
        result.to_json(path)
    assert_untouched(target)


def test_asking_changes_nothing(target: Path) -> None:
    check_writable(target)
    check_writable(target.parent / "other.json")
    assert_untouched(target)


def test_any_name_the_file_system_takes_is_taken(tmp_path: Path) -> None:
    """The temporary name must not be the one that is too long."""
    path = tmp_path / ("n" * 250 + ".json")
    path.write_text(OLD)
    write_text(path, "new")
    assert path.read_text() == "new"


def test_a_link_is_replaced_and_what_it_leads_to_is_not_touched(target: Path) -> None:
    """`latest.json -> run-7.json` may be a trap, or point at something of value."""
    (target.parent / "elsewhere").mkdir()
    link = target.parent / "elsewhere" / "latest.json"
    link.symlink_to(target)
    check_writable(link)
    assert link.is_symlink()
    write_text(link, "new")
    assert not link.is_symlink()
    assert link.read_text() == "new"
    assert target.read_text() == OLD


def test_a_link_to_nothing_makes_nothing_there(tmp_path: Path) -> None:
    link = tmp_path / "latest.json"
    link.symlink_to(tmp_path / "elsewhere.json")
    write_text(link, "new")
    assert link.read_text() == "new"
    assert os.listdir(tmp_path) == ["latest.json"]


def test_standard_output_in_a_file_is_never_replaced(tmp_path: Path) -> None:
    """As /dev/stdout is a link into /proc, which leads to wherever it was redirected."""
    with (tmp_path / "out.txt").open("w") as file:
        link = tmp_path / "stdout"
        link.symlink_to(f"/proc/self/fd/{file.fileno()}")
        with pytest.raises(truerank.InputError, match="device"):
            write_text(link, "new")
        assert link.is_symlink()


KILLED = """
import os, signal, sys
from truerank._util.files import atomic_path
with atomic_path(sys.argv[1]) as partial:
    partial.write_text("half of wh")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_is_removed_at_the_next_start(tmp_path: Path) -> None:
    target, other = tmp_path / "result.json.checkpoint", tmp_path / "other.json.checkpoint"
    for path in (target, target, other):
        subprocess.run([sys.executable, "-c", KILLED, path], check=False, env=environment())
    left = sorted(os.listdir(tmp_path))
    assert len(left) >= 2, left
    assert all(fnmatch(name, ".truerank-*.checkpoint") for name in left)
    check_writable(target)
    assert len(os.listdir(tmp_path)) == 1, "that of another file is not ours to remove"
    check_writable(other)
    assert os.listdir(tmp_path) == []


def test_what_is_being_written_is_not_removed(target: Path) -> None:
    with atomic_path(target) as first:
        first.write_text("first")
        write_text(target, "second")
        check_writable(target)
        assert target.read_text() == "second"
        assert first.read_text() == "first"
    assert target.read_text() == "first"
    assert os.listdir(target.parent) == [target.name]


def test_a_special_file_is_never_replaced(tmp_path: Path) -> None:
    """/dev/null and /dev/stdout, run as root, would become plain files for everyone."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        for write in (check_writable, lambda path: write_text(path, "new")):
            with contextlib.suppress(truerank.InputError):
                write(pipe)
            assert stat.S_ISFIFO(pipe.lstat().st_mode)
    finally:
        os.close(reader)
