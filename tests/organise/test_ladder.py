"""The ladder: what it rounds, what it shows, and that chosen submissions get nothing out of it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import truerank
from tests.organise.attack import (
    NOBODY,
    Board,
    OutOfSubmissionsError,
    climb_blindly,
    climb_by_one,
    embeddings,
    pairs_found,
    precision,
    split,
)
from tests.refusals import assert_refused
from truerank.competition.board import Measured, Rung, climb, measure, patience, resolution

ROWS, CLASSES = 120, 12
SENT = 10_000
CHANCE = (ROWS / CLASSES - 1) / (ROWS - 1)
"""Of two rows drawn blindly, how often they are mates: 7.6 %."""


def hidden(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).permutation(np.arange(ROWS) % CLASSES)


# --- the attack


@pytest.mark.parametrize("seed", range(3))
def test_the_simulated_score_is_that_of_a_real_submission(seed: int) -> None:
    rng, labels = np.random.default_rng(seed), hidden(seed)
    points = np.full(ROWS, NOBODY, np.int64)
    pointing = rng.choice(ROWS, 40, replace=False)
    anchors = np.setdiff1d(np.arange(ROWS), pointing)
    points[pointing] = rng.choice(anchors[:15], 40)
    mates = np.flatnonzero(labels == labels[anchors[20]])  # an anchor whose rows are all mates
    points[np.setdiff1d(mates, anchors)] = anchors[20]
    task = truerank.Task(labels)
    found = task.evaluate(embeddings(points), metrics=["precision@1"], confidence=None)
    assert found["precision@1"].value == precision(points, labels) > 0


@pytest.mark.parametrize("seed", range(3))
def test_exact_scores_give_the_partition_away(seed: int) -> None:
    """Two decimals of a percentage, read some three hundred times."""
    labels = hidden(seed)
    board = Board(labels, ladder=False, most=SENT)
    guess = split(board, np.random.default_rng(seed).permutation(ROWS))
    assert pairs_found(guess, labels) == (1.0, 1.0)
    assert board.sent < 350


@pytest.mark.parametrize("seed", range(2))
def test_the_ladder_gives_nothing_away(seed: int) -> None:
    """Ten thousand submissions of the same attack, started anew whenever it ends."""
    labels, rng = hidden(seed), np.random.default_rng(seed)
    board = Board(labels, ladder=True, most=SENT)
    votes = np.zeros((ROWS, ROWS), np.int64)
    try:
        while True:
            guess = split(board, rng.permutation(ROWS))
            votes += (guess[:, None] == guess[None, :]) & (guess != NOBODY)[:, None]
    except OutOfSubmissionsError:
        assert board.sent == SENT
    assert len(board.rungs) <= 2
    upper = np.triu_indices(ROWS, 1)
    mates = (labels[:, None] == labels[None, :])[upper]
    most = np.argsort(-votes[upper], kind="stable")[: int(mates.sum())]
    assert mates[most].mean() < CHANCE + 0.05


@pytest.mark.parametrize("redrawn", [20, 60, 120])
def test_blind_climbing_soon_stands_still(redrawn: int) -> None:
    labels, rng = hidden(redrawn), np.random.default_rng(redrawn)
    board = Board(labels, ladder=True, most=SENT)
    best = climb_blindly(board, rng, ROWS, redrawn)
    assert len(board.rungs) <= 3
    assert (labels[best] == labels).mean() < 0.25


def test_a_certain_pair_costs_a_rung() -> None:
    labels, rng = hidden(), np.random.default_rng(0)
    board = Board(labels, ladder=True, most=SENT)
    known = climb_by_one(board, rng, ROWS)
    assert all(labels[row] == labels[anchor] for row, anchor in known.items())
    assert len(known) == len(board.rungs) - 1 <= 3  # of 540 pairs


# --- rungs


def test_a_first_entry_is_shown_and_an_equal_one_is_not() -> None:
    first = climb(None, Measured(0.5, 0.375, 0.625))
    assert first == Rung(0.5, 0.3, 0.7, 0.1)
    assert climb(first, Measured(0.5, 0.375, 0.625), tries=2) is None
    assert climb(first, Measured(0.3, 0.2, 0.4), tries=2) is None


@pytest.mark.parametrize("tries", [2, 10, 1000])
def test_a_gain_is_shown_from_the_noise_on(tries: int) -> None:
    first, noise = Rung(0.5, 0.4, 0.6, 0.05), 0.06
    reach = noise * patience(tries)
    for gain, seen in ((reach - 0.001, False), (reach + 0.001, True)):
        value = 0.5 + gain
        measured = Measured(value, value - noise, value + noise)
        assert (climb(first, measured, tries=tries) is not None) == seen
        lower = Measured(0.5 - gain, 0.5 - gain - noise, 0.5 - gain + noise)
        assert (climb(first, lower, tries=tries, higher=False) is not None) == seen
        assert climb(first, lower, tries=tries) is None


def test_patience_grows_and_grows_slowly() -> None:
    """Bonferroni: z of 0.05/(2 k) over that of 0.05/2, by tables 5.03 and 1.96 at k = 10^5."""
    grown = [patience(tries) for tries in (1, 2, 4, 8, 1024, 1 << 17)]
    assert grown == sorted(grown)
    assert grown[0] == 1.0
    assert 2.5 < grown[-1] < 2.7


@pytest.mark.parametrize(
    ("noise", "step"),
    [(0.0199, "0.01"), (0.02, "0.02"), (0.049, "0.02"), (0.05, "0.05"), (0.1, "0.1"), (3, "2")],
)
def test_the_resolution_is_1_2_or_5_below_the_noise(noise: float, step: str) -> None:
    assert resolution(noise) == Fraction(step)


@pytest.mark.parametrize("noise", [0.0, -1.0, float("nan"), float("inf")])
def test_there_is_no_resolution_without_noise(noise: float) -> None:
    assert_refused(lambda: resolution(noise), ["noise above 0"])


def test_ends_are_rounded_outward_and_the_score_to_the_nearest() -> None:
    rung = Rung.of(Measured(0.6149, 0.561, 0.6451))
    assert (rung.score, rung.low, rung.high, rung.step) == (0.62, 0.56, 0.66, 0.02)
    assert Rung.from_dict(rung.to_dict()) == rung


@pytest.mark.parametrize("value", [0.0, 1.0, 0.5])
def test_the_noise_is_never_below_that_of_independent_queries(value: float) -> None:
    """Wilson's interval of 100 queries at z = 2: 0 to 3.8 %, 40.2 to 59.8 %, 96.2 to 100 %."""
    wanted = {0.0: (0.0, 0.0385), 0.5: (0.4019, 0.5981), 1.0: (0.9615, 1.0)}[value]
    for interval in (None, (value, value)):
        found = measure(value, interval, 100, 2.0)
        assert (found.low, found.high) == pytest.approx(wanted, abs=1e-4)
    own = measure(value, (-0.5, 1.5), 100, 2.0)
    assert (own.low, own.high) == (-0.5, 1.5)


@pytest.mark.parametrize("data", [None, {}, {"score": "x", "low": 0, "high": 1, "step": 1}])
def test_what_is_no_rung(data: object) -> None:
    assert_refused(lambda: Rung.from_dict(data), ["not the rung"])
