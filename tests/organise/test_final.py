"""The end of a competition: chosen entries, exact private scores, a closed log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import truerank
from tests.organise.competition import LABELS, Competition, rows
from tests.refusals import assert_refused
from truerank.competition.task import divide


def exact(competition: Competition, spread: float) -> tuple[float, tuple[float, float]]:
    """The score of the private rows alone, by an evaluation that knows no board."""
    private = divide(competition.task, 0.5)[1].queries
    result = truerank.evaluate(rows(spread)[private], LABELS[private], metrics=["map@r"])
    return result["map@r"].value, result["map@r"].interval


@pytest.fixture
def files(competition: Competition) -> list[Path]:
    """Two entries of anna, the second of which the ladder does not show, and one of ben."""
    spreads = {"anna--1": 1.5, "anna--2": 1.48, "ben": 2.0}
    sent = [competition.send(name, rows(spread)) for name, spread in spreads.items()]
    board = competition.board(*sent)
    assert {row.participant: row.entry for row in board.rows} == {"anna": "1", "ben": ""}
    return sent


def test_private_scores_are_exact(competition: Competition, files: list[Path]) -> None:
    final = competition.board(*files, final=True)
    for row, spread in zip(final.rows, (1.5, 2.0), strict=True):
        value, interval = exact(competition, spread)
        assert (row.shown.score, row.shown.low, row.shown.high) == (value, *interval)
        assert row.shown.step is None
        assert f"{100 * value:.2f}" in str(final)
    entry = final.to_dict()["rows"][0]
    assert (entry["score"], entry["resolution"]) == (exact(competition, 1.5)[0], None)
    assert "resolution" not in str(final)


@pytest.mark.parametrize("form", ["mapping", "table"])
def test_a_participant_chooses_the_entry_that_is_judged(
    form: str, competition: Competition, files: list[Path]
) -> None:
    choice: Any = {"anna": "2"}
    if form == "table":
        choice = competition.folder / "chosen.csv"
        choice.write_text("entry,participant\n2,anna\n")
    final = competition.board(*files, final=True, choose=choice)
    judged = {row.participant: row for row in final.rows}
    assert judged["anna"].entry == "2"
    assert judged["anna"].shown.score == exact(competition, 1.48)[0]
    assert judged["ben"].shown.score == exact(competition, 2.0)[0]
    assert competition.board(*files, final=True) == final  # the closed log knows what was chosen
    assert competition.board(*files, final=True, choose=choice) == final
    assert_refused(
        lambda: competition.board(*files, final=True, choose={"anna": "1"}), ["closed", "stay"]
    )


def test_an_entry_is_chosen_by_its_hash_where_names_repeat(
    competition: Competition, files: list[Path]
) -> None:
    kept = files[1].rename(competition.folder / "kept.npz")
    again = competition.send("anna--2", rows(3.0))
    sent = [files[0], again, files[2], f"anna={kept}"]
    competition.board(*sent)
    lines = [json.loads(line) for line in competition.log.read_text().splitlines()]
    hashes = [line["submission"] for line in lines[1:] if line["entry"] == "2"]
    assert len(hashes) == 2
    assert_refused(
        lambda: competition.board(*sent, final=True, choose={"anna": "2"}),
        ["the log has 2", "hash"],
    )
    final = competition.board(*sent, final=True, choose={"anna": hashes[0]})
    assert final.rows[0].shown.score == exact(competition, 1.48)[0]


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"anna": "3"}, ["anna chose '3'", "the log has 0", "of anna are '1', '2'. Name one"]),
        ({"cleo": "1"}, ["cleo", "the log has 0; it has no entry of cleo."]),
        ({"anna": 1}, ["choose", "text", "1"]),
        (["anna"], ["mapping or a CSV", "['anna']"]),
        ("participant,entry\nanna,1\nanna,2\n", ["each participant once", "'anna'"]),
        ("name,entry\nanna,1\n", ["columns participant and entry", "name"]),
    ],
)
def test_choices_that_are_refused(
    choice: Any, words: list[str], competition: Competition, files: list[Path]
) -> None:
    if isinstance(choice, str):
        path = competition.folder / "chosen.csv"
        path.write_text(choice)
        choice = path
    assert_refused(lambda: competition.board(*files, final=True, choose=choice), words)
    log = competition.log.read_text()
    assert '"final"' not in log


def test_choosing_is_for_the_end(competition: Competition, files: list[Path]) -> None:
    assert_refused(lambda: competition.board(*files, choose={"anna": "2"}), ["--final"])
