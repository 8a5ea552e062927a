"""The log: every opening, in a chain that shows what was changed."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import truerank
from tests.organise.competition import Competition, rows
from tests.refusals import assert_refused
from truerank.competition.leaderboards import SubmissionLog, check_log


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_log_tells_every_opening_in_a_chain(competition: Competition) -> None:
    files = [competition.send("anna--1", rows(1.5)), competition.send("anna--2", rows(1.5, 1))]
    board = competition.board(*files)
    first, second, third = lines_of(competition.log)
    assert first["kind"] == "rules"
    assert first["commitment"] == competition.task.commitment
    assert [second["participant"], second["entry"]] == ["anna", "1"]
    assert second["previous"] == first["hash"]
    assert third["previous"] == second["hash"]
    assert third["shown"] is None
    assert board.head == third["hash"]
    assert check_log(competition.log, competition.task.commitment) == (2, third["hash"])
    assert_refused(lambda: check_log(competition.log, "0" * 64), ["another task"])


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: lines[:1] + lines[2:],
        lambda lines: [lines[0], lines[2], lines[1]],
        lambda lines: [*lines[:2], lines[2].replace("ben", "eve")],
        lambda lines: [*lines[:1], lines[1].replace('"score": 0', '"score": 1'), *lines[2:]],
        lambda lines: [lines[0].replace("0.5", "0.6"), *lines[1:]],
        lambda lines: [*lines, lines[-1]],
        lambda lines: [*lines, "{"],
        lambda lines: [*lines, "[]"],
    ],
)
def test_a_changed_log_is_noticed(change: Any, competition: Competition) -> None:
    files = [competition.send("anna", rows(1.0)), competition.send("ben", rows(2.0))]
    competition.board(*files)
    lines = competition.log.read_text().splitlines()
    competition.log.write_text("\n".join(change(lines)) + "\n")
    assert competition.log.read_text().splitlines() != lines
    assert_refused(lambda: competition.board(*files), ["hidden.task.log", "line"])


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"kind": "other"},
        {"kind": ["opening"]},
        {"kind": "opening"},
        {"kind": "final", "entries": 3},
        {"kind": "opening", "participant": [], "entry": "", "submission": "", "flaws": []},
    ],
)
def test_a_line_of_no_known_kind_is_refused(
    record: dict[str, Any], competition: Competition
) -> None:
    """The chain holds, but nobody here wrote that."""
    file = competition.send("anna", rows(1.0))
    competition.board(file)
    log = SubmissionLog(competition.log)
    log.append(record)
    log.write()
    assert_refused(lambda: competition.board(file), ["line 3", "unknown kind"])


def test_two_runs_at_once_lose_no_line(tmp_path: Path) -> None:
    mine, theirs = SubmissionLog(tmp_path / "log"), SubmissionLog(tmp_path / "log")
    mine.append({"kind": "rules"})
    mine.write()
    theirs.append({"kind": "rules"})
    assert_refused(theirs.write, ["another run", "run this one again"])
    assert len(SubmissionLog(tmp_path / "log").records) == 1


def add_lines(path: Path, count: int) -> None:
    for _ in range(count):
        while True:
            log = SubmissionLog(path)
            log.append({"kind": "opening"})
            try:
                log.write()
            except truerank.InputError:
                continue
            break


def test_many_writers_leave_one_whole_chain(tmp_path: Path) -> None:
    with ThreadPoolExecutor(3) as pool:
        done = [pool.submit(add_lines, tmp_path / "log", 10) for _ in range(3)]
    assert [one.result() for one in done] == [None] * 3
    assert len(SubmissionLog(tmp_path / "log").records) == 30
