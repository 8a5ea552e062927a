"""truerank task and leaderboard: from a table to a board, as organisers and participants do it."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import truerank
from tests.cli.driving import COMMAND, environment, run
from tests.files.samples import LABELS as SAMPLES
from tests.stored.files import FOLDER
from truerank._util import files
from truerank.competition.leaderboards import SubmissionLog
from truerank.competition.task import PublicTask

CLASSES, SIZE = 30, 4
RNG = np.random.default_rng(3)
LABELS = RNG.permutation(np.repeat([f"bird-{number}" for number in range(CLASSES)], SIZE))
IDS = np.array([f"{number:03}" for number in RNG.permutation(len(LABELS))])
MEANS = RNG.standard_normal((CLASSES, 8))[[int(name[5:]) for name in LABELS]]
ROWS = {
    "anna--1": MEANS + 1.5 * RNG.standard_normal(MEANS.shape),
    "anna--2": MEANS + 0.4 * RNG.standard_normal(MEANS.shape),
    "ben": MEANS + 1.5 * RNG.standard_normal(MEANS.shape),
    "same": np.ones((len(LABELS), 3)),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A table of labels, a hidden and a public task, and submissions."""
    lines = [f"{name},{label}" for name, label in zip(IDS, LABELS, strict=True)]
    (tmp_path / "labels.csv").write_text("\n".join(["id,label", *lines]) + "\n")
    for name, rows in ROWS.items():
        np.savez(tmp_path / f"{name}.npz", embeddings=rows, id=IDS)
    made = run(
        *("task", "make", tmp_path / "labels.csv", "-o", tmp_path / "hidden.task"),
        *("--public", tmp_path / "public.task"),
    )
    assert (made.status, made.err) == (0, "")
    return tmp_path


def board(folder: Path, *more: object) -> Any:
    files = [folder / f"{name}.npz" for name in ROWS]
    return run("leaderboard", folder / "hidden.task", *files, *more)


def test_a_task_is_made_from_a_table(folder: Path) -> None:
    task = truerank.Task.load(folder / "hidden.task")
    assert task.digest == truerank.Task(LABELS, ids=IDS).digest
    public = json.loads((folder / "public.task").read_text())
    assert public["commitment"] == task.commitment
    assert public["ids"] == sorted(IDS.tolist())
    assert "bird" not in (folder / "public.task").read_text()


def test_a_task_of_an_earlier_version_gets_a_salt(tmp_path: Path) -> None:
    old = FOLDER / "0.1.0" / "task-tree.npz"
    run("task", "make", old, "-o", tmp_path / "new.task")
    task = truerank.Task.load(tmp_path / "new.task")
    assert task.digest == truerank.Task.load(old).digest
    assert task.commitment is not None
    complaint = run("task", "make", old, "-o", tmp_path / "x", "--levels", "a").complaint()
    assert "is a task already" in complaint


def test_a_task_with_a_gallery_levels_and_rules(data: Path, tmp_path: Path) -> None:
    lines = (data / "all.csv").read_text().splitlines()
    for name, part in (("query", lines[1::2]), ("gallery", lines[2::2])):
        (tmp_path / f"{name}.csv").write_text("\n".join([lines[0], *part]))
    made = run(
        *("task", "make", tmp_path / "query.csv", "--gallery-labels", tmp_path / "gallery.csv"),
        *("--unmated", "zero", "--junk-label", SAMPLES[0], "-o", tmp_path / "hidden.task"),
    )
    assert made.status == 0, made.err
    task = truerank.Task.load(tmp_path / "hidden.task")
    assert (task.leave_one_out, task.unmated, task.junk_labels) == (False, "zero", [SAMPLES[0]])
    assert len(task.levels) == 2


@pytest.mark.parametrize("name", ["ben", "same"])
def test_a_participant_checks_a_submission(name: str, folder: Path) -> None:
    checked = run("task", "check", folder / f"{name}.npz", "--task", folder / "public.task")
    assert checked.status == 0
    assert "120 rows, as the task requires" in checked.out
    assert ("degenerate: constant" in checked.out) == (name == "same")


def test_a_participant_is_told_what_is_wrong(folder: Path) -> None:
    wrong = folder / "wrong.npz"
    rows = ROWS["ben"].copy()
    rows[7, 2] = np.nan
    for arrays, words in (
        ({"embeddings": rows, "id": IDS}, ["NaN", "row 7"]),
        ({"embeddings": rows[1:], "id": IDS[1:]}, ["1 missing"]),
        ({"embeddings": rows}, ["pass ids="]),
        ({"id": IDS, "label": LABELS}, ["holds no embeddings"]),
    ):
        np.savez(wrong, **arrays)
        complaint = run("task", "check", wrong, "--task", folder / "public.task").complaint()
        assert all(word in complaint for word in words), complaint


def test_a_final_board_judges_chosen_entries(folder: Path) -> None:
    assert board(folder).status == 0  # shows the second entry of anna
    chosen = folder / "chosen.csv"
    chosen.write_text("participant,entry\nanna,1\n")
    assert "--final" in board(folder, "--choose", chosen).complaint()
    final = json.loads(board(folder, "--final", "--choose", chosen, "--format", "json").out)
    rows = {row["participant"]: row for row in final["rows"]}
    assert (rows["anna"]["entry"], rows["anna"]["resolution"]) == ("1", None)
    assert rows["anna"]["score"] < 0.5 < rows["anna"]["public_score"]


def test_a_task_is_made_whole_or_not_at_all(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(PublicTask, "save", full_disk)
    hidden, public = folder / "new.task", folder / "new-public.task"
    made = run("task", "make", folder / "labels.csv", "-o", hidden, "--public", public)
    assert made.status != 0
    assert "No space left" in made.err
    assert not hidden.exists()
    assert not public.exists()


def test_values_by_query_of_a_hidden_task_need_the_full_result(folder: Path) -> None:
    values = folder / "values.csv"
    task = ("evaluate", "--task", folder / "hidden.task", folder / "ben.npz", "--per-query", values)
    assert "--full FILE" in run(*task).complaint()
    assert not values.exists()
    assert run(*task, "--full", folder / "full.json").status == 0
    assert len(values.read_text().splitlines()) == len(LABELS) + 1


def test_labels_are_revealed_and_checked(folder: Path) -> None:
    revealed, public = folder / "revealed.json", folder / "public.task"
    assert run("task", "reveal", folder / "hidden.task", "-o", revealed).status == 0
    checked = run("task", "check", revealed, "--task", public)
    assert "120 rows are what was committed to" in checked.out
    revealed.write_text(revealed.read_text().replace("bird-1", "bird-2", 1))
    complaint = run("task", "check", revealed, "--task", public).complaint()
    assert "does not hold the labels that were committed to" in complaint


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["task", "make", "labels.csv"], ["--output"]),
        (["task", "make", "nowhere.csv", "-o", "x.task"], ["nowhere.csv"]),
        (["task", "make", "labels.csv", "-o", "labels.csv"], ["-o writes .task or .json"]),
        (["task", "make", "hidden.task", "-o", "hidden.task"], ["written over the input"]),
        (["task", "make", "labels.csv", "-o", "x", "--public", "x"], ["-o and --public"]),
        (["task", "make", "ben.npz", "-o", "x.task"], ["no labels"]),
        (["task", "check", "ben.npz", "--task", "labels.csv"], ["not a truerank task"]),
        (["task", "check", "ben.npz", "--task", "nowhere"], ["nowhere"]),
        (["task", "check", "public.task", "--task", "public.task"], ["no line of"]),
        (["task", "reveal", "hidden.task", "-o", "x.csv"], [".json"]),
        (["task", "reveal", "public.task", "-o", "x.json"], ["not a truerank task"]),
        (["leaderboard", "hidden.task"], ["SUBMISSIONS"]),
        (["leaderboard", "public.task", "ben.npz"], ["not a truerank task"]),
        (["leaderboard", "hidden.task", "ben.npz", "-o", "b.csv"], [".html, .md or .json"]),
        (["leaderboard", "hidden.task", "ben.npz", "-o", "ben.npz"], [".html, .md or .json"]),
        (["leaderboard", "hidden.task", "ben.npz", "--log", "ben.npz"], ["over the input"]),
        (["leaderboard", "hidden.task", "ben.npz", "-m", "maq"], ["'maq'"]),
        (["leaderboard", "hidden.task", "ben.npz", "--public-share", "2"], ["between 0 and 1"]),
        (["leaderboard", "hidden.task", "ben.npz", "--public-share", "0.1"], ["3 classes"]),
        (["leaderboard", "hidden.task", "ben.npz", "--distance", "similarity"], ["similarity"]),
        (["leaderboard", "hidden.task", "labels.csv"], ["labels.csv", "no embeddings"]),
        (["evaluate", "ben.npz", "--task", "hidden.task", "--by", "label"], ["--full"]),
        (["evaluate", "ben.npz", "--labels", "labels.csv", "--full", "x"], ["--full", "--task"]),
    ],
)
def test_one_line_and_status_2(
    arguments: list[str], words: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    message = run(*arguments).complaint()
    assert all(word in message for word in words), message
    assert sorted(folder.iterdir()) == before


def test_the_full_result_and_parts_are_for_the_organiser(folder: Path) -> None:
    full = folder / "full.json"
    asked = run(
        *("evaluate", folder / "ben.npz", "--task", folder / "hidden.task", "--full", full),
        *("--by", "label", "-o", folder / "public.json"),
    )
    assert asked.status == 0
    assert "bird-" in asked.out
    assert "bird-" not in (folder / "public.json").read_text()
    assert truerank.Result.from_json(full).units is not None


@pytest.mark.parametrize("ending", ["html", "md", "json"])
def test_a_board_is_written_and_printed(ending: str, folder: Path) -> None:
    path = folder / f"board.{ending}"
    outcome = board(folder, "-o", path)
    assert (outcome.status, outcome.err) == (0, "")
    log = f"{folder / 'hidden.task'}.log"
    assert [line.split()[1] for line in outcome.wrote] == [log, str(path)]
    assert board(folder).wrote == ()  # the log has all submissions already
    assert "anna" in outcome.out
    text = path.read_text()
    assert "anna" in text
    assert "bird" not in text + outcome.out
    assert "constant: all rows are equal" in text
    assert SubmissionLog(folder / "hidden.task.log").head in text
    checked = run("task", "check", folder / "hidden.task.log", "--task", folder / "public.task")
    assert "chain of 4 scored submissions is intact" in checked.out


def test_a_final_board(folder: Path) -> None:
    assert board(folder, "--log", folder / "log", "-m", "precision@1").status == 0
    outcome = board(folder, "--log", folder / "log", "--final", "--format", "json")
    final = json.loads(outcome.out)
    assert final["final"]
    assert final["metric"] == "precision@1"
    assert [row["participant"] for row in final["rows"]][-1] == "same"
    assert SubmissionLog(folder / "log").records[-1]["kind"] == "final"


def test_a_board_that_could_not_be_written_comes_out_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(files, "write_text", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
        assert board(folder, "-o", folder / "board.json").status == 1
    assert not (folder / "board.json").exists()
    log = (folder / "hidden.task.log").read_bytes()
    assert board(folder, "-o", folder / "board.json").status == 0
    assert (folder / "hidden.task.log").read_bytes() == log


@pytest.mark.slow
def test_killed_boards_leave_whole_files(folder: Path) -> None:
    """Boards are killed at any moment of their making: log and board are whole or not there."""
    path, log = folder / "board.json", folder / "hidden.task.log"
    command = [*COMMAND, "leaderboard", folder / "hidden.task"]
    command += [folder / f"{name}.npz" for name in ROWS] + ["-o", path]

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            list(map(str, command)),
            env=environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    began = time.monotonic()
    assert start().wait(120) == 0
    usual = time.monotonic() - began
    wanted = json.loads(path.read_text())["rows"]
    rng = random.Random(5)
    killed = 0
    for _ in range(40):
        for file in (path, log):
            file.unlink(missing_ok=True)
        process, began = start(), time.monotonic()
        try:
            process.wait(usual * rng.uniform(0.3, 1.1))
            usual = min(usual, time.monotonic() - began)  # the first run may have been a slow one
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            killed += 1
        if log.exists():
            assert len(SubmissionLog(log).records) == 1 + len(ROWS)
        if path.exists():
            assert log.exists()
            assert json.loads(path.read_text())["rows"] == wanted
    assert killed >= 10
    assert start().wait(120) == 0
    assert json.loads(path.read_text())["rows"] == wanted
