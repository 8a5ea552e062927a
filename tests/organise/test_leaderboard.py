"""Boards: what they show and hide, the parts of a task, the log, and names of any letters."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import truerank
from tests.refusals import assert_refused
from truerank import Task
from truerank.organise import check_log, leaderboard, list_entries
from truerank.organise.board import groups
from truerank.organise.log import Log
from truerank.organise.parts import divide

CLASSES, SIZE, WIDTH = 40, 4, 8
RNG = np.random.default_rng(11)
LABELS = RNG.permutation(np.repeat([f"class-{number}" for number in range(CLASSES)], SIZE))
IDS = np.array([f"{number:03}" for number in RNG.permutation(len(LABELS))])
CENTRES = dict(zip(np.unique(LABELS), RNG.standard_normal((CLASSES, WIDTH)), strict=True))
MEANS = np.array([CENTRES[label] for label in LABELS])
NOISE = RNG.standard_normal((3, len(LABELS), WIDTH))


def rows(spread: float, number: int = 0) -> np.ndarray:
    return MEANS + spread * NOISE[number]


class Competition:
    """A folder with a hidden task and submissions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.task = Task(LABELS, ids=IDS)
        self.task.save(folder / "hidden.task")
        self.log = folder / "hidden.task.log"

    def send(self, name: str, embeddings: Any, ids: Any = IDS) -> Path:
        path = self.folder / f"{name}.npz"
        np.savez(path, embeddings=embeddings, id=ids)
        return path

    def board(self, *files: Any, **options: Any) -> Any:
        return leaderboard(self.task, files, log=self.log, **options)


@pytest.fixture
def competition(tmp_path: Path) -> Competition:
    return Competition(tmp_path)


def scores(board: Any) -> dict[str, float]:
    return {row.participant: row.shown.score for row in board.rows}


# --- parts


def test_the_parts_share_no_class_and_no_row() -> None:
    task = Task(LABELS, ids=IDS)
    public, private = divide(task, 0.4)
    seen = [set(LABELS[part.queries]) for part in (public, private)]
    assert [len(names) for names in seen] == [16, 24] == [public.classes, private.classes]
    assert not seen[0] & seen[1]
    assert sorted([*public.queries, *private.queries]) == list(range(len(LABELS)))
    order = np.random.default_rng(0).permutation(len(LABELS))
    shuffled = Task(LABELS[order], ids=IDS[order])
    shuffled.__dict__["salt"] = task.salt
    assert set(LABELS[order][divide(shuffled, 0.4)[0].queries]) == seen[0]
    assert set(LABELS[divide(Task(LABELS, ids=IDS), 0.4)[0].queries]) != seen[0]


@pytest.mark.parametrize("side", [0, 1])
def test_a_part_scores_as_its_rows_alone_do(side: int) -> None:
    junk = scipy.sparse.random(160, 160, 0.02, rng=1).astype(bool)
    groups_ = np.arange(len(LABELS)) % 3
    task = Task(
        np.stack([[name[:7] for name in LABELS], LABELS], axis=1),
        ids=IDS,
        groups=groups_,
        junk=junk,
    )
    part = divide(task, 0.5)[side]
    order = np.random.default_rng(0).permutation(len(LABELS))
    found = part.evaluate(rows(1.0)[order], IDS[order], metrics=["map@r", "h_ap"])
    some = part.queries
    wanted = truerank.evaluate(
        rows(1.0)[some],
        np.stack([[name[:7] for name in LABELS], LABELS], axis=1)[some],
        query_ids=IDS[some],
        query_groups=groups_[some],
        junk=junk.tocsr()[some][:, some],
        metrics=["map@r", "h_ap"],
    )
    assert found.to_dict()["scores"] == wanted.to_dict()["scores"]


def test_distractors_of_a_gallery_are_in_both_parts() -> None:
    labels = [f"c{number}" for number in range(60)] * 2
    gallery = [*labels, None, *(f"extra{number}" for number in range(10))]
    task = Task(
        labels,
        ids=[f"q{number}" for number in range(len(labels))],
        gallery_labels=gallery,
        gallery_ids=[f"g{number}" for number in range(len(gallery))],
        unlabelled="distractor",
    )
    parts = divide(task, 0.5)
    assert [part.classes for part in parts] == [30, 30]
    assert all(len(labels) in part.items for part in parts)
    both = np.concatenate([part.items for part in parts])
    assert sorted(both) == sorted([*range(len(gallery)), len(labels)])


@pytest.mark.parametrize(
    ("make", "share", "words"),
    [
        (lambda: Task(LABELS), 0.1, ["public part has 4 classes", "need 10"]),
        (lambda: Task(LABELS), 0.9, ["private part has 4 classes"]),
        (lambda: Task(LABELS), 1.0, ["between 0 and 1", "1.0"]),
        (lambda: Task(LABELS), "half", ["between 0 and 1"]),
        (lambda: Task(None, relevance=np.eye(40)), 0.5, ["judgements"]),
    ],
)
def test_tasks_that_cannot_be_divided(
    make: Callable[[], Task], share: Any, words: list[str]
) -> None:
    assert_refused(lambda: divide(make(), share), words)


def test_a_task_without_a_salt_has_no_board(competition: Competition) -> None:
    competition.task.__dict__["salt"] = None
    competition.task.__dict__.pop("commitment", None)
    file = competition.send("anna", rows(1.0))
    assert_refused(lambda: competition.board(file), ["no salt", "task make"])
    assert not competition.log.exists()


# --- boards


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
        assert abs(row.shown.score - exact) <= row.shown.step / 2 + 1e-12
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
        competition.send("constant", np.ones((len(LABELS), 2))),
        competition.send("zero", np.zeros((len(LABELS), 2))),
        competition.send("repeated", repeated),
        competition.send("infinite", broken),
        competition.send("short", rows(1.0)[1:], IDS[1:]),
        competition.folder / "missing.npz",
    )
    flaws = {row.participant: row.flaws for row in board.rows}
    assert flaws == {
        "constant": ("constant: all rows are equal",),
        "zero": ("all rows are zero",),
        "repeated": ("3 of 160 rows equal another",),
    }
    assert list(board.refused) == ["infinite.npz", "short.npz", "missing.npz"]
    assert "1 missing" in board.refused["short.npz"]
    assert board.openings == 3


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


# --- the log


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
    log = Log(competition.log)
    log.append(record)
    log.write()
    assert_refused(lambda: competition.board(file), ["line 3", "no known kind"])


def test_two_runs_at_once_lose_no_line(tmp_path: Path) -> None:
    mine, theirs = Log(tmp_path / "log"), Log(tmp_path / "log")
    mine.append({"kind": "rules"})
    mine.write()
    theirs.append({"kind": "rules"})
    assert_refused(theirs.write, ["another run", "run this one again"])
    assert len(Log(tmp_path / "log").records) == 1


def add_lines(path: Path, count: int) -> None:
    for _ in range(count):
        while True:
            log = Log(path)
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
    assert len(Log(tmp_path / "log").records) == 30
