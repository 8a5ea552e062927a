"""Files of a competition with bytes changed, cut or doubled: read as they were, or refused."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from truerank import InputError, PublicTask, Task
from truerank.competition.leaderboards import check_log, leaderboard
from truerank.competition.task import check_revealed, is_task, reveal

LABELS = np.arange(80) % 20
IDS = [f"{number:02}" for number in range(80)]
CASES = 300


def write_log(task: Task, path: Path) -> None:
    rows = np.random.default_rng(0).standard_normal((80, 3))
    for name in ("a", "b"):
        np.savez(path.with_name(f"{name}.npz"), embeddings=rows, id=IDS)
    leaderboard(task, [path.with_name("a.npz"), path.with_name("b.npz")], log=path)


Writer = Callable[[Task, Path], Any]
Reader = Callable[[Task, Path], Any]
KINDS: dict[str, tuple[Writer, Reader]] = {
    "task": (lambda task, path: task.save(path), lambda task, path: Task.load(path).digest),
    "public task": (
        lambda task, path: task.public().save(path),
        lambda task, path: PublicTask.load(path).rows,
    ),
    "revealed task": (reveal, lambda task, path: check_revealed(path, task.commitment)),
    "log": (write_log, lambda task, path: check_log(path, task.commitment)),
    "name": (lambda task, path: task.save(path), lambda task, path: is_task(path)),
}


def damage(content: bytes, rng: random.Random) -> bytes:
    """One of the ways in which files go bad."""
    start = rng.randrange(len(content))
    some = content[start : start + rng.randrange(1, 40)]
    return rng.choice(
        (
            content[:start],
            content[:start] + bytes([rng.randrange(256)]) + content[start + 1 :],
            content[:start] + content[start + len(some) :],
            content[:start] + some + content[start:],
            content.replace(some[:1], bytes([rng.randrange(256)])),
        )
    )


@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_noticed_or_changes_nothing(kind: str, tmp_path: Path) -> None:
    write, read = KINDS[kind]
    task = Task(LABELS, ids=IDS)
    task.__dict__["salt"] = bytes(range(32))
    path = tmp_path / "file"
    write(task, path)
    content, known = path.read_bytes(), read(task, path)
    rng = random.Random(kind)
    refused = 0
    for _ in range(CASES):
        path.write_bytes(damage(content, rng))
        try:
            found = read(task, path)
        except InputError:
            refused += 1
        else:
            # a public task is a list of names: a changed name is a name
            assert found == known or kind in ("public task", "name")
    assert refused > CASES / 10 or kind == "name"
