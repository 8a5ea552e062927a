"""Boards: what they show and hide, whose a file is, and names of any letters."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tests.organise.competition import IDS, LABELS, Competition, rows
from tests.refusals import assert_refused
from truerank import Task
from truerank.competition.board import groups
from truerank.competition.leaderboards import leaderboard
from truerank.competition.submissions import list_entries
from truerank.competition.task import divide


def scores(board: Any) -> dict[str, float]:
    return {row.participant: row.shown.score for row in board.rows}


def test_a_task_without_a_salt_has_no_board(competition: Competition) -> None:
    competition.task.__dict__["salt"] = None
    competition.task.__dict__.pop("commitment", None)
    file = competition.send("anna", rows(1.0))
    assert_refused(lambda: competition.board(file), ["no salt", "task make"])
    assert not competition.log.exists()


def test_a_board_shows_rounded_public_scores_and_rank_intervals(competition: Competition) -> None:
    files = [
        competition.send("anna", rows(0.8)),
        competition.send("ben", rows(0.8, 1)),
        competition.send("cleo", rows(2.5)),
    ]
    board = competition.board(*files, metric="map@r")
    public = divide(competition.task, 0.5)[0]
    sent = {"anna": rows(0.8), "ben": rows(0.8, 1), "cleo": rows(2.5)}
    for row in board.rows:
        exact = public.evaluate(sent[row.participant], IDS, metrics=["map@r"])["map@r"]
        assert abs(row.shown.score - exact.value) <= row.shown.step / 2 + 1e-12
        assert row.shown.low <= exact.interval[0] < exact.interval[1] <= row.shown.high
    ranks = {row.participant: row.ranks for row in board.rows}
    assert ranks == {"anna": (1, 2), "ben": (1, 2), "cleo": (3, 3)}
    letters = {row.participant: row.groups for row in board.rows}
    assert letters["anna"] == letters["ben"] != letters["cleo"]
    for row in board.rows:
        for number in (row.shown.score, row.shown.low, row.shown.high):
            assert abs(number / row.shown.step - round(number / row.shown.step)) < 1e-9


def test_equal_shown_scores_stand_in_the_order_of_names(competition: Competition) -> None:
    """The order of what is shown as equal would tell which is better."""
    files = [competition.send(name, rows(0.8 + 0.01 * n)) for n, name in enumerate("zyx")]
    board = competition.board(*files)
    assert len(set(scores(board).values())) == 1
    assert [row.participant for row in board.rows] == ["x", "y", "z"]


def test_a_new_entry_is_shown_only_beyond_noise(competition: Competition) -> None:
    first = competition.send("anna--1", rows(1.5))
    seen = scores(competition.board(first))
    slightly = competition.send("anna--2", rows(1.48))
    board = competition.board(first, slightly)
    assert scores(board) == seen
    assert (board.rows[0].entry, board.rows[0].openings) == ("1", 2)
    better = competition.send("anna--3", rows(0.5))
    board = competition.board(first, slightly, better)
    assert (board.rows[0].entry, board.rows[0].openings) == ("3", 3)
    assert scores(board)["anna"] > seen["anna"]
    worse = competition.send("anna--4", rows(3.0))
    again = competition.board(first, slightly, better, worse)
    assert scores(again) == scores(board)


def test_a_board_is_the_same_when_nothing_is_new(competition: Competition) -> None:
    files = [competition.send("anna", rows(1.0)), competition.send("ben", rows(2.0))]
    board, log = competition.board(*files), competition.log.read_bytes()
    assert competition.board(*files) == board
    assert competition.log.read_bytes() == log
    renamed = competition.folder / "other--name.npz"
    files[0].rename(renamed)
    assert scores(competition.board(f"anna={renamed}", files[1])) == scores(board)


def test_files_that_the_board_shows_must_be_kept(competition: Competition) -> None:
    file = competition.send("anna", rows(1.0))
    competition.board(file)
    other = competition.send("ben", rows(1.0, 1))
    assert_refused(lambda: competition.board(other), ["anna", "pass them all"])
    competition.send("anna", rows(1.01))  # written over
    assert_refused(lambda: competition.board(file), ["anna", "keep every file"])


def test_the_final_board_scores_the_private_part_and_closes_the_log(
    competition: Competition,
) -> None:
    files = [competition.send("anna", rows(0.8)), competition.send("ben", rows(2.0))]
    before = competition.board(*files)
    final = competition.board(*files, final=True)
    private = divide(competition.task, 0.5)[1]
    for row, spread in zip(final.rows, (0.8, 2.0), strict=True):
        exact = private.evaluate(rows(spread), IDS, metrics=["map@r"])["map@r"].value
        assert row.shown.score == exact
        assert row.public.score == scores(before)[row.participant]
    assert final.head != before.head
    assert competition.board(*files, final=True) == final
    late = competition.send("cleo", rows(0.5))
    board = competition.board(*files, late, final=True)
    assert list(board.refused) == ["cleo.npz"]
    assert scores(board) == scores(final)


def test_degenerate_submissions_are_named_and_wrong_ones_not_opened(
    competition: Competition,
) -> None:
    repeated = rows(1.0).copy()
    repeated[1:3] = repeated[0]
    broken = rows(1.0).copy()
    broken[5, 5] = np.inf
    board = competition.board(
        competition.send("honest", rows(1.0)),
        competition.send("constant", np.ones((len(LABELS), 2))),
        competition.send("zero", np.zeros((len(LABELS), 2))),
        competition.send("repeated", repeated),
        competition.send("infinite", broken),
        competition.send("short", rows(1.0)[1:], IDS[1:]),
        competition.folder / "missing.npz",
    )
    flaws = {row.participant: row.flaws for row in board.rows}
    assert flaws == {
        "honest": (),
        "constant": ("constant: all rows are equal",),
        "zero": ("all rows are zero",),
        "repeated": ("3 of 160 rows equal another",),
    }
    assert list(board.refused) == ["infinite.npz", "short.npz", "missing.npz"]
    assert "1 missing" in board.refused["short.npz"]
    assert board.openings == 4


def test_equal_items_are_said_of_the_data_and_of_no_entry(competition: Competition) -> None:
    """Two pictures of a test are one: every honest submission has equal rows for them."""
    files = []
    for number, name in enumerate(("anna", "ben", "cleo")):
        sent = rows(1.0, number).copy()
        sent[8] = sent[3]
        files.append(competition.send(name, sent))
    shifted = rows(1.0).copy()  # this one hides that those items are equal, and repeats others
    shifted[20] = shifted[21]
    files.append(competition.send("dave", shifted))
    board = competition.board(*files)
    flaws = {row.participant: row.flaws for row in board.rows}
    dave = ("2 of 160 rows equal another",)
    assert flaws == {"anna": (), "ben": (), "cleo": (), "dave": dave}
    assert board.equal_items == 2
    assert "2 rows equal another in most of the entries" in " ".join(str(board).split())
    assert board.to_dict()["equal_items"] == 2
    assert competition.board(*files) == board


def test_a_board_of_nothing_is_refused(competition: Competition) -> None:
    assert_refused(lambda: competition.board(), ["no submissions"])
    short = competition.send("short", rows(1.0)[1:], IDS[1:])
    assert_refused(lambda: competition.board(short), ["short.npz", "1 missing"])
    assert not competition.log.exists()


def test_the_first_run_fixes_the_rules(competition: Competition) -> None:
    file = competition.send("anna", rows(1.0))
    board = competition.board(file, metric="precision@1", public_share=0.3, distance="euclidean")
    assert competition.board(file).rules == board.rules
    assert board.classes == 12
    for options, words in (
        ({"metric": "map"}, ["metric precision@1, not map"]),
        ({"public_share": 0.5}, ["public_share 0.3, not 0.5"]),
        ({"distance": "cosine"}, ["distance euclidean"]),
        ({"confidence": 0.9}, ["confidence 0.95"]),
    ):
        assert_refused(lambda options=options: competition.board(file, **options), words)
    assert_refused(
        lambda: leaderboard(Task(LABELS, ids=IDS), [file], log=competition.log), ["another task"]
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"metric": "threshold@far=0.01"}, ["distance of one pair"]),
        ({"metric": "maq"}, ["'maq'"]),
        ({"distance": "precomputed"}, ["distance"]),
        ({"confidence": 1.5}, ["confidence"]),
    ],
)
def test_boards_that_are_refused(
    options: dict[str, Any], words: list[str], competition: Competition
) -> None:
    file = competition.send("anna", rows(1.0))
    assert_refused(lambda: competition.board(file, **options), words)


def test_lower_is_better_goes_down_the_ladder(competition: Competition) -> None:
    files = [competition.send("anna--1", rows(2.0)), competition.send("anna--2", rows(0.4))]
    board = competition.board(*files, competition.send("ben", rows(2.0)), metric="eer")
    assert [row.participant for row in board.rows] == ["anna", "ben"]
    assert board.rows[0].entry == "2"
    assert "lower is better" in str(board)


# --- names and forms


def test_whose_a_file_is() -> None:
    found = list_entries(["a/anna.npz", "anna--2.npz", "Ben=x/out.npz", "c=", "\x1b[31mred.npz"])
    assert [(entry.participant, entry.name) for entry in found] == [
        ("anna", ""),
        ("anna", "2"),
        ("Ben", "out"),
        ("c=", ""),
        ("\N{REPLACEMENT CHARACTER}[31mred", ""),
    ]
    assert_refused(lambda: list_entries(["a/x.npz", "b/x.npz"]), ["both called x", "NAME=FILE"])
    assert_refused(lambda: list_entries(["--x.npz"]), ["names no participant"])


def test_groups_are_runs_that_cannot_be_told_apart() -> None:
    pairs = {frozenset(pair) for pair in ("ad", "ac")}
    assert groups(list("abcd"), pairs) == {"a": "a", "b": "ab", "c": "b", "d": "b"}
    assert groups(["a"], set()) == {"a": "a"}
    every = [str(number) for number in range(28)]
    apart = {frozenset((a, b)) for a in every for b in every if a != b}
    assert list(groups(every, apart).values())[-2:] == ["(27)", "(28)"]


def test_names_are_escaped_on_every_form(competition: Competition) -> None:
    name = "<script>alert(1)</script>|*x*"
    file = competition.send("plain", rows(1.0))
    board = competition.board(f"{name}={file}")
    page = board.to_html()
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "http" not in page.replace("http-equiv", "")
    assert "src=" not in page
    line = next(line for line in board.to_markdown().splitlines() if "script" in line)
    assert r"\|\*x\*" in line
    assert board.to_dict()["rows"][0]["participant"] == name
    assert json.loads(board.to_json())["head"] == board.head


def test_no_form_tells_more_digits_than_the_noise(competition: Competition) -> None:
    file = competition.send("anna", rows(1.0))
    board = competition.board(file)
    exact = divide(competition.task, 0.5)[0].evaluate(rows(1.0), IDS, metrics=["map@r"])["map@r"]
    told = [str(board), board.to_markdown(), board.to_html(), board.to_json()]
    told.append(competition.log.read_text())
    for text in told:
        for number in (exact.value, *exact.interval):
            assert f"{number:.4f}"[2:] not in text
            assert f"{100 * number:.1f}" not in text
