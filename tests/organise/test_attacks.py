"""Attacks on a board by map@r, each in the attacker's best case, and what they find."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest

import truerank
from tests.organise.attack import (
    NOBODY,
    Board,
    Integers,
    OutOfSubmissionsError,
    fan,
    hits_of_mean_precision,
    mean_precision,
    pairs_found,
    split,
)
from tests.organise.competition import IDS, LABELS, Competition, rows
from truerank.competition.board import Measured, Rung, climb, measure

ROWS, SIZE = 120, 4
SENT = 10_000


def hidden(seed: int) -> Integers:
    return np.random.default_rng(seed).permutation(np.arange(ROWS) % (ROWS // SIZE))


@pytest.mark.parametrize("seed", range(3))
def test_the_simulated_score_is_that_of_a_real_submission(seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(40), rng.integers(2, 5, 40))  # classes of 2 to 4
    points = np.full(len(labels), NOBODY, np.int64)
    anchors, others = np.split(rng.permutation(len(labels)), [15])
    points[others[:60]] = rng.choice(anchors, 60)
    full = np.flatnonzero(labels == labels[anchors[0]])
    points[np.setdiff1d(full, anchors)] = anchors[0]
    found = truerank.evaluate(fan(points), labels, metrics=["map@r"], confidence=None)["map@r"]
    assert found.value == pytest.approx(mean_precision(points, labels), abs=1e-12)
    assert found.value > 0


@pytest.mark.parametrize("seed", range(3))
def test_halving_finds_all_classes_in_exact_scores_and_none_on_a_board(seed: int) -> None:
    labels, rng = hidden(seed), np.random.default_rng(seed)
    decode = hits_of_mean_precision(ROWS, SIZE - 1)
    exact = Board(labels, ladder=False, most=SENT, score=mean_precision)
    assert pairs_found(split(exact, rng.permutation(ROWS), decode), labels) == (1.0, 1.0)
    assert exact.sent < 1000

    board = Board(labels, ladder=True, most=SENT, score=mean_precision)
    votes = np.zeros((ROWS, ROWS), np.int64)
    try:
        while True:
            guess = split(board, rng.permutation(ROWS), decode)
            votes += (guess[:, None] == guess[None, :]) & (guess != NOBODY)[:, None]
    except OutOfSubmissionsError:
        assert board.sent == SENT
    assert len(board.rungs) == 1
    upper = np.triu_indices(ROWS, 1)
    same = (labels[:, None] == labels[None, :])[upper]
    most = np.argsort(-votes[upper], kind="stable")[: int(same.sum())]
    assert same[most].mean() < (SIZE - 1) / (ROWS - 1) + 0.05


def test_sizes_of_classes_show_in_exact_scores_and_not_on_a_board() -> None:
    """The attacker knows one relevant item of every row: a row that points at it scores 1 / R."""
    rng = np.random.default_rng(0)
    labels = rng.permutation(np.repeat(np.arange(40), rng.permutation(np.arange(40) % 3 + 2)))
    count = len(labels)
    known = np.array(
        [
            np.flatnonzero((labels == label) & (np.arange(count) != row))[0]
            for row, label in enumerate(labels)
        ]
    )

    def sizes(oracle: Callable[[Integers], float]) -> list[int]:
        """R of each row, from a submission in which it alone points."""
        found = []
        for row in range(count):
            points = np.full(count, NOBODY, np.int64)
            points[row] = known[row]
            value = oracle(points) * count
            steps = [2 / relevant for relevant in (1, 2, 3)]  # the row and the one it points at
            found.append(int(np.argmin(np.abs(np.array(steps) - value))) + 1)
        return found

    relevant = [int((labels == label).sum()) - 1 for label in labels]
    exact = Board(labels, ladder=False, most=SENT, score=mean_precision)
    assert sizes(exact) == relevant
    board = Board(labels, ladder=True, most=SENT, score=mean_precision)
    while board.sent + count <= SENT:
        found = sizes(board)
    assert len(board.rungs) == 1
    assert len(set(found)) == 1  # the same for every row


def test_copies_and_other_orders_of_a_submission_never_climb(competition: Competition) -> None:
    rng = np.random.default_rng(0)
    files = [competition.send("anna--first", rows(1.0))]
    for number in range(1, 13):
        order = rng.permutation(len(LABELS)) if number % 2 else np.arange(len(LABELS))
        sent = rows(1.0)[order] * 2.0**number  # another file, the same directions
        files.append(competition.send(f"anna--{number}", sent, IDS[order]))
    board = competition.board(*files, files[0])
    lines = [json.loads(line) for line in competition.log.read_text().splitlines()]
    assert len({line["submission"] for line in lines[1:]}) == len(files) == board.openings
    assert [line["shown"] is None for line in lines[1:]] == [False] + [True] * 12
    assert board.rows[0].entry == "first"


@pytest.mark.parametrize("value", [0.0, 0.3, 1.0])
def test_ten_thousand_copies_show_one_rung(value: float) -> None:
    """Also where rounding shows a first entry below its score."""
    shown: list[Rung] = []
    for tries in range(1, SENT + 1):
        measured: Measured = measure(value, None, 120, 2.0)
        rung = climb(shown[-1] if shown else None, measured, tries=tries)
        shown.extend([] if rung is None else [rung])
    assert len(shown) == 1
