"""What a board refuses, and that no refusal depends on labels."""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from tests.organise.competition import IDS, LABELS, Competition, rows
from tests.refusals import assert_refused
from truerank._util import arrays
from truerank.competition.task import PublicTask, TaskPart, divide

ROWS = len(LABELS)


def near(pairs: list[tuple[int, int]]) -> np.ndarray:
    """Rows at right angles, but for these pairs."""
    found = np.zeros((ROWS, ROWS + len(pairs)))
    found[np.arange(ROWS), np.arange(ROWS)] = 1
    for axis, pair in enumerate(pairs, ROWS):
        found[list(pair), axis] = 1
    return found


def public_pairs(competition: Competition) -> tuple[list[Any], list[Any]]:
    """Pairs of one class and of two classes in the public part, in an order drawn once."""
    public = divide(competition.task, 0.5)[0].queries.tolist()
    pairs = np.random.default_rng(3).permutation(list(combinations(public, 2))).tolist()
    return (
        [pair for pair in pairs if LABELS[pair[0]] == LABELS[pair[1]]],
        [pair for pair in pairs if LABELS[pair[0]] != LABELS[pair[1]]],
    )


@pytest.mark.parametrize("metric", ["opis@far=0.01:0.1", "opis@eps=0.1"])
def test_probes_whose_score_is_not_defined_tell_no_label(
    metric: str, competition: Competition
) -> None:
    """As many negatives of the public part are near as leave OPIS undefined; one pair more defines
    it if that pair is negative too. All else equal, the board must not tell which pairs are."""
    positives, negatives = public_pairs(competition)
    base = negatives[: -(-len(negatives) // 100) - 1]
    probes = positives[:12] + negatives[len(base) : len(base) + 12]
    files = [competition.send("eve--first", near(negatives[-60:]))]  # the best that scores: 0
    for number, pair in enumerate(probes):
        files.append(competition.send(f"eve--{number:02}", near([*base, pair])))
    board = competition.board(*files, metric=metric)
    assert board.refused == {}
    assert board.openings == len(files)
    assert [row.entry for row in board.rows] == ["first"]
    lines = [json.loads(line) for line in competition.log.read_text().splitlines()][2:]
    assert [line["entry"] for line in lines] == [f"{number:02}" for number in range(len(probes))]
    seen = {json.dumps([line["shown"], line["flaws"], line["time"]]) for line in lines}
    assert len(seen) == 1, "lines differ in more than names and hashes"
    assert lines[0]["shown"] is None


def test_a_first_entry_without_a_score_counts_and_is_not_on_the_board(
    competition: Competition,
) -> None:
    file = competition.send("eve", near([]))
    board = competition.board(file, metric="opis@far=0.01:0.1")
    assert (board.rows, board.refused, board.openings) == ([], {}, 1)
    assert "1 scored submission" in str(board)
    assert competition.board(file) == board  # it is not scored again
    better = competition.send("eve--2", rows(1.0))
    assert [row.openings for row in competition.board(file, better).rows] == [2]


def test_a_final_board_names_an_entry_without_a_private_score(competition: Competition) -> None:
    public = divide(competition.task, 0.5)[0].queries
    hidden = near([])
    hidden[np.ix_(public, np.arange(8))] += rows(1.0)[public]
    files = [competition.send("anna", rows(1.0)), competition.send("eve", hidden)]
    board = competition.board(*files, metric="opis@far=0.01:0.1")
    assert {row.participant for row in board.rows} == {"anna", "eve"}
    final = competition.board(*files, final=True)
    assert [row.participant for row in final.rows] == ["anna"]
    assert "no score on the private part" in final.refused["eve"]
    assert competition.board(*files, final=True) == final


def test_shown_files_are_asked_for_before_anything_is_scored(
    competition: Competition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked for afterwards, a refusal, which counts as no try, would tell that nothing climbed."""
    first = competition.send("anna--1", rows(1.5))
    competition.board(first)
    log = competition.log.read_bytes()
    monkeypatch.setattr(TaskPart, "evaluate", lambda *a, **k: pytest.fail("an entry was scored"))
    for number, spread in enumerate((0.3, 3.0), 2):  # one that climbs, and one that does not
        files = [competition.send(f"anna--{number}", rows(spread)), competition.folder / "none.npz"]
        assert_refused(lambda files=files: competition.board(*files), ["anna", "keep every file"])
    assert competition.log.read_bytes() == log


def test_all_lines_of_a_run_have_one_time(competition: Competition) -> None:
    """How long an entry takes may depend on labels."""
    files = [competition.send(f"anna--{number}", rows(1.0 + number)) for number in range(3)]
    competition.board(*files)
    lines = [json.loads(line) for line in competition.log.read_text().splitlines()]
    assert len({line["time"] for line in lines[1:]}) == 1


def test_a_row_that_is_not_finite_is_named_as_it_was_sent(competition: Competition) -> None:
    """Not by its place in the task, whose order is the organiser's."""
    order = np.random.default_rng(5).permutation(ROWS)
    broken, ids = rows(1.0)[order], IDS[order]
    broken[37, 2] = np.nan
    wanted = f"row 37 of the 160 submitted (id '{ids[37]}')"
    file = competition.send("broken", broken, ids)
    board = competition.board(competition.send("anna", rows(1.0)), file)
    assert wanted in board.refused["broken.npz"]
    public: PublicTask = competition.task.public()
    assert_refused(lambda: public.check(broken, ids), [wanted])
    assert_refused(lambda: competition.task.evaluate(broken, ids=ids), [wanted])
    broken[[5, 90]] = np.inf
    assert_refused(
        lambda: public.check(broken, ids), ["rows 5, 37 and 90", f"the first has id '{ids[5]}'"]
    )


def test_an_entry_that_does_not_fit_is_its_own_refusal(
    competition: Competition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of some kilobytes may hold millions of zeros."""
    path = competition.folder / "wide.npz"
    np.savez_compressed(path, embeddings=np.zeros((ROWS, 20_000), np.float32), id=IDS)
    assert path.stat().st_size < 100_000
    monkeypatch.setattr(arrays, "available", lambda: 50 << 20)
    board = competition.board(path, competition.send("anna", rows(1.0)))
    assert list(board.refused) == ["wide.npz"]
    assert "20,000 dimensions" in board.refused["wide.npz"]
    assert [row.participant for row in board.rows] == ["anna"]


def test_running_out_of_memory_ends_an_entry_and_no_board(
    competition: Competition, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = TaskPart.evaluate

    def evaluate(part: TaskPart, embeddings: Any, ids: Any, **options: Any) -> Any:
        if embeddings.shape[1] == 9:
            raise MemoryError
        return original(part, embeddings, ids, **options)

    monkeypatch.setattr(TaskPart, "evaluate", evaluate)
    large = competition.send("large", np.ones((ROWS, 9)))
    board = competition.board(large, competition.send("anna", rows(1.0)))
    assert "does not fit into memory" in board.refused["large.npz"]
    assert [row.participant for row in board.rows] == ["anna"]
