"""Every example in a help text runs, in a folder with small files of these names."""

from __future__ import annotations

import glob
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import pytest

import truerank
from tests.benchmark import small
from tests.cli.driving import run
from truerank.cli.commands import commands

NEEDS = {
    "--cluster": "a Ray cluster",
    "data get": "the network",
    "benchmark config.yaml -o": "some minutes of training",
    "benchmark config.yaml --set": "some minutes of training",
    "--data CUB": "a data set",
    "report benchmarks/": "a finished benchmark",
}
"""Examples that do not run here, by a part of their text, with what they need."""

CONFIG = """\
data: {name: folder, root: classes, fold: null}
model: {trunk: convnet, dimensions: 8}
augmentation: {resize: 28, crop: 28}
sampler: {classes: 4, samples: 2}
loss: {name: contrastive}
optimiser: {name: adam, lr: 1e-3}
training: {epochs: 1, iterations: 1, device: cpu}
"""
FUNCTIONS = """\
def average_precision(scores, relevance, k=2):
    order = sorted(range(len(scores)), key=lambda item: -scores[item])[:k]
    found = [relevance[item] for item in order]
    return sum(sum(found[: n + 1]) / (n + 1) for n in range(len(found)) if found[n]) / k

def hit_rate(lists, relevant, k=3):
    return sum(bool(set(a[:k]) & set(b)) for a, b in zip(lists, relevant)) / len(lists)

def mean_average_precision(embeddings, labels):
    return 0.5
"""
CLASSES, EACH, DIMENSIONS = 40, 5, 256


def examples(
    group: click.Group = commands, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Each command with each of its examples, without the name of the program."""
    for name, command in group.commands.items():
        here = (*path, name)
        if isinstance(command, click.Group):
            yield from examples(command, here)
        else:
            text = (command.epilog or "").replace("\\\n", " ")
            lines = [" ".join(line.split()) for line in text.splitlines()]
            for line in lines:
                if line.startswith("truerank "):
                    yield here, line.removeprefix("truerank ")


def vectors(seed: int, noise: float = 1.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(0).standard_normal((CLASSES, DIMENSIONS))
    rows = np.repeat(centres, EACH, axis=0) + noise * rng.standard_normal((200, DIMENSIONS))
    return rows.astype(np.float32)


def fbin(path: Path, rows: np.ndarray) -> None:
    path.write_bytes(np.array(rows.shape, np.uint32).tobytes() + rows.tobytes())


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of 200 rows in 40 classes, under every name that an example uses."""
    folder = tmp_path_factory.mktemp("examples")
    labels = np.repeat(np.arange(CLASSES), EACH)
    ids = np.array([f"person{row // EACH}_{row % EACH + 1:04d}" for row in range(len(labels))])
    rows = vectors(1)
    half = {"query": slice(1, None, 2), "gallery": slice(0, None, 2)}
    for name, seed in (("embeddings", 1), ("ours", 2), ("theirs", 3), ("calib", 4), ("test", 5),
                       ("other", 6), ("train", 7)):  # fmt: skip
        np.save(folder / f"{name}.npy", vectors(seed))
        np.savez(folder / f"{name}.npz", embeddings=vectors(seed), labels=labels, ids=ids)
    table = [f"{label},{name}" for label, name in zip(labels, ids, strict=True)]
    for name, part in (*half.items(), ("labels", slice(None)), ("calib", slice(None))):
        (folder / f"{name}.csv").write_text("\n".join(["label,id", *table[part]]) + "\n")
    for name, part in half.items():
        np.save(folder / f"{name}.npy", rows[part])
        known = np.where(labels[part] % 2, labels[part], -1) if name == "gallery" else labels[part]
        np.savez(folder / f"{name}.npz", embeddings=rows[part], labels=known, ids=ids[part])
        fbin(folder / f"{name}.fbin", rows[part])
    write_searches(folder, rows, ids)
    write_trials(folder, labels, ids)
    write_models(folder, labels, ids)
    return folder


def write_searches(folder: Path, rows: np.ndarray, ids: np.ndarray) -> None:
    queries, gallery = rows[1::2], rows[::2]
    np.save(folder / "matrix.npy", np.linalg.norm(queries[:, None] - gallery[None], axis=2))
    fbin(folder / "queries.fbin", queries)
    fbin(folder / "decoded.fbin", gallery.astype(np.float16).astype(np.float32))
    near = np.linalg.norm(queries[:, None] - gallery[None], axis=2).argsort(1)[:, :20]
    (folder / "neighbors.ibin").write_bytes(
        np.array(near.shape, np.uint32).tobytes() + near.astype(np.int32).tobytes()
    )
    own = np.linalg.norm(rows[:, None] - rows[None], axis=2)
    np.fill_diagonal(own, np.inf)
    np.save(folder / "neighbors.npy", own.argsort(1)[:, :20])
    (folder / "system.run").write_text(
        "\n".join(
            f"{ids[2 * query + 1]} Q0 {ids[2 * item]} {place + 1} {100 - place} system"
            for query, items in enumerate(near)
            for place, item in enumerate(items)
        )
    )
    (folder / "judgements.qrels").write_text(
        "\n".join(
            f"{ids[query]} 0 {ids[item]} 1"
            for query in range(1, len(ids), 2)
            for item in range(0, len(ids), 2)
            if query // EACH == item // EACH
        )
    )


def write_trials(folder: Path, labels: np.ndarray, ids: np.ndarray) -> None:
    rng = np.random.default_rng(8)
    left = np.arange(len(ids))
    right = np.where(left % 2, left // EACH * EACH + (left + 1) % EACH, (left + 50) % len(ids))
    same = labels[left] == labels[right]
    values = same + rng.standard_normal(len(ids))
    for name in ("scores", "other"):
        np.save(folder / f"{name}.npy", values)
    (folder / "scores.txt").write_text("\n".join(map(str, values)))
    pairs = [(ids[a], ids[b]) for a, b in zip(left, right, strict=True)]
    listed = list(zip(pairs, same, values, strict=True))
    for name, head, line in (
        ("trials.csv", ["left,right,same"], "{a},{b},{same:d}"),
        ("trials-with-scores.csv", ["left,right,same,score"], "{a},{b},{same:d},{score}"),
        ("trials.txt", [], "{same:d} {a} {b}"),
        ("other.txt", [], "{same:d} {a} {b}"),
        ("system.scores", [], "{a} {b} {score}"),
        ("trials.kaldi", [], "{a} {b} {word}"),
        ("wespeaker.score", [], "{a} {b} {score} {word}"),
    ):
        lines = [
            line.format(a=a, b=b, same=one, score=score, word="target" if one else "nontarget")
            for (a, b), one, score in listed
        ]
        (folder / name).write_text("\n".join([*head, *lines]) + "\n")
    (folder / "utt2spk.csv").write_text((folder / "labels.csv").read_text())
    (folder / "pairs.txt").write_text(
        "\n".join(
            ["1\t20"]
            + [f"person{number}\t1\t2" for number in range(20)]
            + [f"person{number}\t1\tperson{number + 1}\t2" for number in range(20)]
        )
    )


def write_models(folder: Path, labels: np.ndarray, ids: np.ndarray) -> None:
    """Results, photos, a hidden task with submissions, and sources of commands that train."""
    from PIL import Image

    metrics = ["map@r", "hit@1", "eer"]
    names = ["result", "a", "b", "c", "runs/a/result", "runs/b/result", "a-0", "a-1", "b-0", "b-1"]
    for seed, name in enumerate(names):
        path = folder / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        truerank.evaluate(vectors(seed, 2.0), labels, metrics=metrics, query_ids=ids).to_json(path)
    bytes_of = np.random.default_rng(9).integers(0, 255, (len(ids), 28, 28, 3), np.uint8)
    np.save(folder / "images.npy", bytes_of[:8])
    for row, name in enumerate(ids):
        for target in (folder / "photos", folder / "classes" / str(labels[row])):
            target.mkdir(parents=True, exist_ok=True)
            Image.fromarray(bytes_of[row]).save(target / f"{name}.png")
    for path in ("a/embeddings", "b/embeddings", "submissions/anna--1", "submissions/ben",
                 "submission"):  # fmt: skip
        (folder / path).parent.mkdir(exist_ok=True)
        np.savez(folder / f"{path}.npz", embeddings=vectors(len(path)), ids=ids)
    task = truerank.Task(labels, ids=ids)
    task.save(folder / "hidden.task")
    task.save(folder / "old.task")
    task.public().save(folder / "public.task")
    (folder / "chosen.csv").write_text("participant,entry\nanna,1\n")
    (folder / "cub.yaml").write_text(CONFIG)
    (folder / "metrics.py").write_text(FUNCTIONS)
    (folder / "mypackage").mkdir()
    (folder / "mypackage" / "__init__.py").write_text("")
    (folder / "mypackage" / "metrics.py").write_text(FUNCTIONS)


BEFORE = {
    "task check revealed.json": "task reveal hidden.task -o revealed.json",
    "task check hidden.task.log": "leaderboard hidden.task submissions/ben.npz",
    "report result.json -o page.html --images": "evaluate embeddings.npz --report page.html "
    "-o result.json",
    "shard shards/manifest.json": "shard embeddings.npy --labels labels.csv -o shards",
    "embed ": "train cub.yaml -o runs/cub",
    "train cub.yaml -o runs/cub --resume": "train cub.yaml -o runs/cub",
}
"""What must run before an example, by its beginning."""


@pytest.fixture
def here(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the files as the current folder."""
    folder = tmp_path / "here"
    shutil.copytree(files, folder)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    return folder


def words(example: str) -> list[str]:
    """The arguments, with patterns that are not quoted expanded as by a shell."""
    found: list[str] = []
    for word in shlex.split(example, posix=False):
        plain = word.strip("'")
        found += sorted(glob.glob(plain)) if "*" in word and word == plain else [plain]
    return found


SLOW = ("demo", "train", "embed", "benchmark")


@pytest.mark.parametrize(
    ("path", "example"),
    [
        pytest.param(*one, id=one[1], marks=[pytest.mark.slow] if one[0][0] in SLOW else [])
        for one in examples()
        if not any(part in one[1] for part in NEEDS)
    ],
)
def test_an_example_runs(path: tuple[str, ...], example: str, here: Path) -> None:
    if path[0] in ("train", "embed", "benchmark"):
        pytest.importorskip("torch")
    if path == ("benchmark",):
        small.write_config(here)
        (here / "models").mkdir()
        sides = {f"{side}_label": np.arange(3) for side in ("query", "gallery")}
        np.savez(here / "models" / "AGW.npz", distmat=1 - np.eye(3), **sides)
    if "sklearn" in example:
        pytest.importorskip("sklearn")
    if "parquet" in example:
        pa = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        for number, rows in enumerate(np.split(np.load("embeddings.npy"), 2)):
            table = pa.table({"embedding": list(rows)})
            parquet.write_table(table, here / f"part-{number}.parquet")
    for start, first in BEFORE.items():
        if example.startswith(start):
            assert run(*words(first)).status == 0
    outcome = run(*words(example))
    assert "truerank: error" not in outcome.err
    allowed = (0, 1) if path == ("conform",) else (0,)  # 1: another convention
    assert outcome.status in allowed, outcome
    assert outcome.out or outcome.wrote


def test_every_command_has_an_example_that_runs() -> None:
    """All but those that fetch from the network or need hours."""
    run_here = {path for path, line in examples() if not any(part in line for part in NEEDS)}
    assert {path for path, _ in examples()} - run_here == {("data", "get")}
