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
from tests.cli.driving import run
from tests.fuzz.damage import changed_inside, damaged
from tests.fuzz.escapes import EMBEDDINGS, IDS, LABELS, ROWS, Escapes, small_task
from truerank.cli.commands import commands

QUICK, CASES = 40, 4_000
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
    ("lists",): ["lists.npy", "--labels", "y.csv", "--threads", "1"],
    ("compare",): ["a.json", "b.json"],
    ("threshold",): ["x.npz", "--far", "0.5"],
    ("plot",): ["drawn.json", "--curve", "cmc", "-o", "page.svg"],
    ("report",): ["a.json", "b.json", "-o", "page.html"],
    ("neighbors",): ["x.npz", "--query", "id-1", "--threads", "1"],
    ("shard",): ["x.npz", "-o", "shards", "--rows", "5"],
    ("audit",): ["x.npz", "--threads", "1"],
    ("explain",): ["x.npz", "--theirs", "50.0", "--metric", "hit@1", "--threads", "1"],
    ("task", "make"): ["y.csv", "-o", "made.task", "--public", "public.json"],
    ("task", "check"): ["x.npz", "--task", "t.task"],
    ("task", "reveal"): ["t.task", "-o", "revealed.json"],
    ("leaderboard",): ["hidden.task", "anna.npz", "ben.npz", "--threads", "1"],
    ("train",): ["run.yaml"],
    ("embed",): ["best.pt", "images.npy", "-o", "out.npy"],
    ("benchmark",): ["benchmark.yaml", "--dry-run"],
    ("data", "get"): ["emoji", "--from", "folder"],
    ("data", "list"): [],
    ("compression",): ["x.npz", "--dims", "2", "--dtypes", "int8", "--threads", "1"],
    ("metrics",): ["map@r"],
    ("conform",): ["judge.py:hit", "--like", "hit@1", "--call", "lists"],
    ("demo",): [],
}
REFUSED = [("train",), ("embed",), ("benchmark",), ("data", "get")]
"""Commands that would train, or download, were their files any good."""
SECONDS = [("demo",)]
"""Commands that take seconds and read no file."""
SUCCEEDING = [words for words in COMMANDS if words not in REFUSED + SECONDS]
FEW = {("demo",): 2, ("data", "list"): 50, ("metrics",): 1000, ("conform",): 500, ("plot",): 1000,
       ("compression",): 2000}  # fmt: skip
"""Commands that read no file, and have few words to go wrong (or many cases of their own)."""


def _write_good(folder: Path) -> None:
    np.save(folder / "x.npy", EMBEDDINGS)
    np.save(folder / "scores.npy", EMBEDDINGS[1:, 0])
    np.savez(folder / "x.npz", embeddings=EMBEDDINGS, labels=LABELS, ids=IDS)
    lists = (np.arange(ROWS)[:, None] + np.arange(4)) % ROWS
    np.save(folder / "lists.npy", lists)
    header = np.array(lists.shape, "<u4").tobytes()
    (folder / "lists.ibin").write_bytes(header + lists.astype("<i4").tobytes())
    (folder / "lists.run").write_text(
        "\n".join(f"{IDS[q]} Q0 {IDS[i]} 1 {-i} tag" for q, row in enumerate(lists) for i in row)
    )
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
    (folder / "benchmark.yaml").write_text(
        "data: {name: emoji}\nprotocol: {preset: smoke}\nmethods: [contrastive, arcface]\n"
    )
    (folder / "judge.py").write_text(
        "def hit(lists, relevant):\n"
        "    pairs = [(ids[:1], mates) for ids, mates in zip(lists, relevant) if mates]\n"
        "    return sum(bool(set(a) & set(b)) for a, b in pairs) / len(pairs) if pairs else None\n"
    )
    small_task().save(folder / "t.task")
    small_task().public().save(folder / "public.task")
    labels, ids = np.repeat(np.arange(40), 2), np.arange(80)
    truerank.Task(labels, ids=ids).save(folder / "hidden.task")
    noise = np.random.default_rng(0).standard_normal((2, 80, 4))
    for result, name, rows in zip(("a.json", "b.json"), ("anna", "ben"), noise, strict=True):
        scores = truerank.evaluate(rows, labels, metrics=["map@r", "auc"])
        scores.to_json(folder / result, curves=False)
        np.savez(folder / f"{name}.npz", embeddings=rows, ids=ids)
    scores.to_json(folder / "drawn.json", per_query=False)


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


class Kept:
    """The bytes of files, and how to have them back after a command has written over one."""

    def __init__(self, paths: list[Path]) -> None:
        self._bytes = {path: path.read_bytes() for path in paths if path.is_file()}
        self._when = {path: path.stat().st_mtime_ns for path in self._bytes}

    def restore(self) -> None:
        for path, content in self._bytes.items():
            if path.stat().st_mtime_ns != self._when[path]:
                path.write_bytes(content)
                self._when[path] = path.stat().st_mtime_ns


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
    options, kept = _options(words), Kept(files)
    values = [path.name for path in files] + WORDS

    def value() -> str:
        """A word, or a file, which may be damaged first."""
        return _damage_one(files, draw) if draw.random() < 0.25 else draw.choice(values)

    for _ in range(cases):
        arguments = list(GOOD.get(words, []))
        for _ in range(draw.choice([0, 1, 1, 2]) if arguments else 0):
            arguments[draw.randrange(len(arguments))] = value()
        for option in draw.sample(options, min(len(options), draw.choice([0, 0, 1, 2, 3]))):
            arguments.append(draw.choice(option.opts))
            if not option.is_flag:
                arguments.append(value())
        shown = " ".join(argument[:40] for argument in (*words, *arguments))
        escapes.command(shown, *words, *arguments)
        kept.restore()
    escapes.assert_none(cases)


@pytest.mark.parametrize("words", [one for one in COMMANDS if one not in SECONDS], ids=" ".join)
def test_a_few_cases(words: tuple[str, ...], files: list[Path]) -> None:
    _call(words, files, min(QUICK, FEW.get(words, QUICK)))


@pytest.mark.slow
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_thousands_of_cases(words: tuple[str, ...], files: list[Path]) -> None:
    _call(words, files, FEW.get(words, CASES))


def test_every_command_has_arguments_that_are_good() -> None:
    assert set(COMMANDS) == set(GOOD)


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    "words", [one for one in COMMANDS if one not in REFUSED + SECONDS], ids=" ".join
)
def test_a_command_whose_arguments_are_good_succeeds(words: tuple[str, ...]) -> None:
    """Otherwise the cases above would be refused for another reason than theirs."""
    outcome = run(*words, *GOOD[words])
    assert outcome.status == 0, outcome
