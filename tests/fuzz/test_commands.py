"""Every command with malformed files and options: status 0, or 2 and one line."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

import truerank
from tests.fuzz.damage import changed_inside, damaged
from tests.fuzz.escapes import EMBEDDINGS, IDS, LABELS, ROWS, Escapes, small_task
from truerank.cli.commands import commands

QUICK, CASES = 40, 10_000
WORDS = [
    *("1", "0", "-1", "0.5", "1e999", "nan", "a", "", "a,b", "²", "9" * 5000, "é", "\udcff", "--"),
    *("cosine", "similarity", "class", "zero", "json", "csv", "latex", "all", "hit@1", "auc"),
    *("map@r,hit@5", "label", "level1", "training.seed=1", "out.json", "out.tex", "out.npy", "/"),
]


def _leaves(group: click.Group, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words that call each command, those of a group of commands too."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from _leaves(command, (*before, name))
        else:
            yield (*before, name)


def _options(words: tuple[str, ...]) -> list[click.Option]:
    command: Any = commands
    for word in words:
        command = command.commands[word]
    return [option for option in command.params if isinstance(option, click.Option)]


COMMANDS = list(_leaves(commands))
GOOD: dict[tuple[str, ...], list[str]] = {
    ("evaluate",): ["x.npz", "-m", "map@r", "--threads", "1"],
    ("verify",): ["x.npz", "--pairs", "trials.csv"],
    ("compare",): ["a.json", "b.json"],
    ("threshold",): ["x.npz", "--far", "0.5"],
    ("audit",): ["x.npz", "--threads", "1"],
    ("train",): ["run.yaml"],
    ("embed",): ["best.pt", "images.npy", "-o", "out.npy"],
    ("data", "get"): ["emoji", "--from", "folder"],
    ("data", "list"): [],
    ("metrics",): ["map@r"],
    ("demo",): [],
}
FEW = {("demo",): 2, ("data", "list"): 50, ("metrics",): 1000}
"""Commands that read no file, and have few words to go wrong."""


def _write_good(folder: Path) -> None:
    np.save(folder / "x.npy", EMBEDDINGS)
    np.save(folder / "scores.npy", EMBEDDINGS[1:, 0])
    np.savez(folder / "x.npz", embeddings=EMBEDDINGS, labels=LABELS, ids=IDS)
    np.save(folder / "images.npy", np.zeros((3, 8, 8), np.uint8))
    (folder / "y.csv").write_text(
        "\n".join(["label,id", *map(",".join, zip(LABELS, IDS, strict=True))])
    )
    trials = [f"{IDS[n]},{IDS[n + 1]},{int(n % 3 < 2)},{n / 9}" for n in range(ROWS - 1)]
    (folder / "trials.csv").write_text("\n".join(["left,right,same,score", *trials]))
    (folder / "scores.txt").write_text("\n".join(f"{n / 9}" for n in range(ROWS - 1)))
    (folder / "qrels.txt").write_text("\n".join(f"{a} 0 {b} 1" for a, b in pairwise(IDS)))
    (folder / "tree.csv").write_text("child,parent\n0,a\n1,a\n2,b\n3,b\n")
    (folder / "run.yaml").write_text("data:\n  name: nowhere\n  root: .\nloss:\n  name: triplet\n")
    small_task().save(folder / "t.task")
    labels = np.repeat(np.arange(40), 4)
    noise = np.random.default_rng(0).standard_normal((2, 160, 8))
    for name, rows in zip(("a.json", "b.json"), noise, strict=True):
        truerank.evaluate(rows, labels, metrics=["map@r", "auc"]).to_json(folder / name)


def _write_bad(folder: Path) -> None:
    shutil.copy(folder / "x.npz", folder / "zip.npy")
    (folder / "cut.npy").write_bytes((folder / "x.npy").read_bytes()[:70])
    (folder / "latin.txt").write_bytes(b"\xff\xfe 1\n\xe9\n")
    (folder / "squared.csv").write_text("left,right,same\n²,1,1\n0,²,0\n")
    (folder / "deep.csv").write_text(f"level1,level{'9' * 5000}\na,b\n")
    (folder / "long.txt").write_text("1," + "x" * 200_000 + ",1\n")
    (folder / "empty.csv").write_bytes(b"")
    (folder / "folder").mkdir()
    (folder / "loop").symlink_to(folder / "loop")
    short = json.loads((folder / "b.json").read_text())
    for score in short["scores"].values():
        score["replicates"]["values"].pop()
    (folder / "short.json").write_text(json.dumps(short))


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Good and bad files of all kinds, in the folder in which commands run; and no npm."""
    _write_good(tmp_path)
    _write_bad(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("TRUERANK_CACHE", str(tmp_path / "cache"))
    return sorted(tmp_path.iterdir())


def _damage_one(files: list[Path], draw: random.Random) -> str:
    """Another file, damaged, and its name."""
    whole = draw.choice([path for path in files if path.is_file() and path.stat().st_size])
    path = Path(f"damaged{whole.suffix}")
    if whole.suffix == ".json" and draw.random() < 0.8:
        path.write_text(json.dumps(changed_inside(json.loads(whole.read_text()), draw)))
    else:
        path.write_bytes(damaged(whole.read_bytes(), draw))
    return path.name


def _call(words: tuple[str, ...], files: list[Path], cases: int) -> None:
    escapes, draw = Escapes(), random.Random(" ".join(words))
    options = _options(words)
    names = [path.name for path in files]
    for _ in range(cases):
        values = [*names, *WORDS, *[_damage_one(files, draw)] * 20]
        arguments = list(GOOD.get(words, []))
        for _ in range(draw.choice([0, 1, 1, 2]) if arguments else 0):
            arguments[draw.randrange(len(arguments))] = draw.choice(values)
        for option in draw.sample(options, min(len(options), draw.choice([0, 0, 1, 2, 3]))):
            arguments.append(draw.choice(option.opts))
            if not option.is_flag:
                arguments.append(draw.choice(values))
        shown = " ".join(argument[:40] for argument in (*words, *arguments))
        escapes.command(shown, *words, *arguments)
    escapes.assert_none(cases)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_few_cases(words: tuple[str, ...], files: list[Path]) -> None:
    _call(words, files, min(QUICK, FEW.get(words, QUICK)))


@pytest.mark.slow
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_ten_thousand_cases(words: tuple[str, ...], files: list[Path]) -> None:
    _call(words, files, FEW.get(words, CASES))


def test_every_command_has_arguments_that_are_good() -> None:
    assert set(COMMANDS) == set(GOOD)
