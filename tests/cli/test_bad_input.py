"""Input that cannot be evaluated: exit status 2, one line on stderr, nothing on stdout or disk."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import truerank
from tests.cli.driving import run
from tests.files.samples import EMBEDDINGS, LABELS, ROWS
from truerank.cli import inputs

ARGUMENTS: dict[str, tuple[list[str], list[str]]] = {
    "unknown command": (["evalute"], ["evalute", "evaluate"]),
    "unknown option": (["evaluate", "x.npy", "--lables", "y.csv"], ["--lables", "--labels"]),
    "no file": (["evaluate"], ["EMBEDDINGS"]),
    "two files": (["evaluate", "x.npy", "y.npy"], ["y.npy"]),
    "option without a value": (["evaluate", "x.npy", "--labels"], ["--labels"]),
    "missing embeddings": (["evaluate", "nowhere.npy", "--labels", "{labels}"], ["nowhere.npy"]),
    "missing labels": (["evaluate", "{x}", "--labels", "nowhere.csv"], ["nowhere.csv"]),
    "no labels": (["evaluate", "{x}"], ["no labels", "--labels"]),
    "folder": (["evaluate", "{folder}", "--labels", "{labels}"], ["folder"]),
    "unknown metric": (["evaluate", "{x}", "--labels", "{labels}", "-m", "mapp"], ["'map'"]),
    "metric without cut": (["evaluate", "{x}", "--labels", "{labels}", "-m", "hit"], ["hit@10"]),
    "cut of zero": (["evaluate", "{x}", "--labels", "{labels}", "-m", "hit@0"], ["'k'", "'0'"]),
    "no metric": (["evaluate", "{x}", "--labels", "{labels}", "-m", " "], ["metrics is empty"]),
    "unknown distance": (
        ["evaluate", "{x}", "--labels", "{labels}", "--distance", "cosin"],
        ["distance", "cosine"],
    ),
    "unknown average": (
        ["evaluate", "{x}", "--labels", "{labels}", "--average", "macro"],
        ["average", "class"],
    ),
    "unknown no-mate": (
        ["evaluate", "{x}", "--labels", "{labels}", "--unmated", "skip"],
        ["--unmated", "report"],
    ),
    "unknown device": (
        ["evaluate", "{x}", "--labels", "{labels}", "--device", "gpu"],
        ["device", "cpu"],
    ),
    "unknown format": (
        ["evaluate", "{x}", "--labels", "{labels}", "--format", "xml"],
        ["xml", "markdown"],
    ),
    "no threads": (["evaluate", "{x}", "--labels", "{labels}", "--threads", "0"], ["threads", "0"]),
    "threads in words": (
        ["evaluate", "{x}", "--labels", "{labels}", "--threads", "two"],
        ["threads", "two"],
    ),
    "hamming of floats": (
        ["evaluate", "{x}", "--labels", "{labels}", "--distance", "hamming"],
        ["hamming", "float64"],
    ),
    "a matrix that is not square": (
        ["evaluate", "{x}", "--labels", "{labels}", "--distance", "precomputed"],
        ["square"],
    ),
    "gallery labels alone": (
        ["evaluate", "{x}", "--labels", "{labels}", "--gallery-labels", "{labels}"],
        ["--gallery"],
    ),
    "gallery without labels": (
        ["evaluate", "{x}", "--labels", "{labels}", "--gallery", "{gallery}"],
        ["--gallery-labels"],
    ),
    "queries in the gallery": (
        [
            *("evaluate", "{x}", "--labels", "{labels}"),
            *("--gallery", "{x}", "--gallery-labels", "{labels}"),
        ],
        ["the gallery contains the queries"],
    ),
    "groups on one side": (
        [
            *("evaluate", "{query}", "--labels", "{query_all}"),
            *("--gallery", "{gallery}", "--gallery-labels", "{gallery_labels}"),
        ],
        ["query_groups", "gallery_groups"],
    ),
    "unknown level": (
        ["evaluate", "{x}", "--labels", "{all}", "--levels", "genus,label"],
        ["'genus'", "'level1'"],
    ),
    "every label junk": (
        ["evaluate", "{query}", "--labels", "{same}", "--junk-label", "a"],
        ["junk_labels"],
    ),
    "wrong table": (
        ["evaluate", "{x}", "--labels", "{labels}", "--per-query", "q.xlsx"],
        [".csv", ".parquet", "q.xlsx"],
    ),
    "labels for a task": (
        ["evaluate", "{x}", "--labels", "{labels}", "--task", "{task}"],
        ["--task"],
    ),
    "no-mate for a task": (
        ["evaluate", "{submission}", "--task", "{task}", "--unmated", "error"],
        ["--task"],
    ),
    "unlabelled for a task": (
        ["evaluate", "{submission}", "--task", "{task}", "--unlabelled", "distractor"],
        ["--task"],
    ),
    "missing task": (["evaluate", "{x}", "--task", "nowhere.task"], ["nowhere.task"]),
    "no task": (["evaluate", "{x}", "--task", "{x}"], ["not a truerank task"]),
    "submission without ids": (["evaluate", "{x}", "--task", "{task}"], ["id"]),
    "one file for two outputs": (
        ["evaluate", "{x}", "--labels", "{labels}", "-o", "{out}.csv", "--per-query", "{out}.csv"],
        ["--per-query"],
    ),
    "output over the input": (
        ["evaluate", "{copy}", "--labels", "{labels}", "-o", "{copy}"],
        ["copy.npy"],
    ),
}


@pytest.fixture
def places(data: Path, tmp_path: Path) -> dict[str, Path]:
    rows = [f"{label},1" for label in LABELS[1::2]]
    (tmp_path / "query_all.csv").write_text("\n".join(["label,group", *rows]))
    (tmp_path / "same.csv").write_text("a\n" * (ROWS // 2))
    (tmp_path / "copy.npy").write_bytes((data / "embeddings.npy").read_bytes())
    return {
        "x": data / "embeddings.npy",
        "labels": data / "labels.csv",
        "all": data / "all.csv",
        "query": data / "query.npy",
        "query_all": tmp_path / "query_all.csv",
        "same": tmp_path / "same.csv",
        "gallery": data / "gallery.npy",
        "gallery_labels": data / "gallery.csv",
        "task": data / "hidden.task",
        "submission": data / "submission.npz",
        "folder": data,
        "copy": tmp_path / "copy.npy",
        "out": tmp_path / "out",
    }


@pytest.mark.parametrize("kind", ARGUMENTS)
def test_one_line_and_status_2(kind: str, places: dict[str, Path], tmp_path: Path) -> None:
    before = sorted(os.listdir(tmp_path))
    arguments, words = ARGUMENTS[kind]
    message = run(*(argument.format(**places) for argument in arguments)).complaint()
    assert all(word in message for word in words), message
    assert len(message) < 400, message
    assert sorted(os.listdir(tmp_path)) == before
    if kind == "output over the input":
        assert np.array_equal(np.load(places["copy"]), EMBEDDINGS)


def test_no_command_shows_the_help_as_help() -> None:
    """A person who types `truerank` alone wants to see the commands, on lines of their own."""
    outcome = run()
    shown = outcome.out + outcome.err
    assert outcome.status in (0, 2)
    assert "\nScore:\n" in shown
    assert any(line.strip().startswith("evaluate ") for line in shown.splitlines())
    assert run("help").out == shown
    assert run("help", "task", "make").out == run("task", "make", "--help").out
    assert "no such command 'evalute'" in run("help", "evalute").err.lower()


# --- submissions


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda ids, rows: (ids[1:], rows[1:]), ["1 missing"]),
        (lambda ids, rows: (["other", *ids[1:]], rows), ["1 missing", "1 unknown", "'other'"]),
        (lambda ids, rows: ([ids[1], *ids[1:]], rows), ["1 repeated", "1 missing"]),
        (lambda ids, rows: ([*ids, "more"], [*rows, rows[0]]), ["1 unknown", "'more'"]),
        (lambda ids, rows: (list(range(ROWS)), rows), ["int", "str"]),
        (lambda ids, rows: (ids[1:], rows), ["36", "35"]),
    ],
    ids=["missing", "renamed", "repeated", "extra", "numbers", "too few ids"],
)
def test_ids_that_do_not_match_a_task(
    change: Callable[[Any, Any], tuple[Any, Any]], words: list[str], data: Path, tmp_path: Path
) -> None:
    names = [f"image-{row:03d}" for row in range(ROWS)]
    ids, rows = change(names, EMBEDDINGS.tolist())
    path = tmp_path / "submission.npz"
    np.savez(path, embeddings=np.array(rows), ids=np.array(ids))
    message = run("evaluate", path, "--task", data / "hidden.task").complaint()
    assert all(word in message for word in words), message


def test_a_complaint_about_a_submission_betrays_no_label(data: Path, tmp_path: Path) -> None:
    """Labels are secret: a participant learns ids from a message and nothing else."""
    task = tmp_path / "secret.task"
    truerank.Task([f"secret-{label}" for label in LABELS], ids=range(ROWS)).save(task)
    for name in ("embeddings.npy", "submission.npz"):
        assert "secret-" not in run("evaluate", data / name, "--task", task).complaint()


# --- outputs that cannot be written, before anything is computed


@pytest.mark.parametrize("option", ["-o", "--per-query"])
@pytest.mark.parametrize("place", ["file/result.csv", "nowhere/result.csv", "folder.csv"])
def test_an_unwritable_output_is_refused_before_computing(
    option: str, place: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def computed(**options: Any) -> Any:
        raise AssertionError("computed although the result cannot be written")

    monkeypatch.setattr(inputs, "evaluate_files", computed)
    (tmp_path / "file").write_text("a file and no folder")
    (tmp_path / "folder.csv").mkdir()
    path = tmp_path / place
    message = run(
        "evaluate", data / "embeddings.npy", "--labels", data / "labels.csv", option, path
    ).complaint()
    assert str(path) in message
    assert message.startswith("cannot write")
    assert sorted(os.listdir(tmp_path)) == ["file", "folder.csv"]


def test_a_folder_one_may_not_write_to(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tempfile

    folder = tmp_path / "locked"
    folder.mkdir()
    folder.chmod(0o555)
    if os.access(folder, os.W_OK):  # the superuser may write everywhere

        def refuse(*arguments: Any, **options: Any) -> Any:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(tempfile, "mkstemp", refuse)
    monkeypatch.setattr(inputs, "evaluate_files", None)
    message = run(
        *("evaluate", data / "embeddings.npy", "--labels", data / "labels.csv"),
        *("-o", folder / "result.json"),
    ).complaint()
    assert message == f"cannot write {folder / 'result.json'}: Permission denied."


# --- what a message may hold


@pytest.mark.parametrize(
    "options",
    [
        *((name, "d d" * 3000) for name in ("--distance", "--device", "--threads", "--format")),
        ("--average=" + "d" * 9000,),
        ("--" + "d" * 9000,),
    ],
    ids=lambda options: options[0][:12],
)
def test_long_values_are_shortened(options: tuple[str, ...], data: Path) -> None:
    outcome = run("evaluate", data / "embeddings.npy", *options)
    assert outcome.status == 2
    assert len(outcome.err) < 400
    assert "dd" in outcome.err


def test_a_name_with_line_breaks_and_escapes_stays_on_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a\nb\x1b[31mred.npy"
    path.write_bytes(b"\x89PNG" + bytes(40))
    message = run("evaluate", path, "--labels", path).complaint()
    assert "PNG" in message


def test_a_name_that_is_not_unicode(data: Path) -> None:
    name = os.fsdecode(b"caf\xe9.npy")
    message = run("evaluate", data / name, "--labels", data / "labels.csv").complaint()
    assert "No such file" in message


@pytest.mark.parametrize(
    "command", [["train", "run.yaml", "-o"], ["data", "get", "emoji", "--from"]]
)
def test_a_name_that_no_file_can_have(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRUERANK_CACHE", str(tmp_path / "cache"))  # nothing was fetched before
    config = tmp_path / "run.yaml"
    config.write_text("data:\n  name: nowhere\n  root: .\nloss:\n  name: triplet\n")
    words = [str(config) if word == "run.yaml" else word for word in command]
    assert "too long" in run(*words, "n" * 5000).complaint()
