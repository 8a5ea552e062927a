"""Chosen submissions that ask a board for the hidden partition, one count of hits at a time.

A row *points* at an anchor if the anchor is its nearest neighbour. precision@1 then counts the
pointing rows that are mates of their anchor, and splitting the set of pointing rows again and again
finds them all.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from truerank.competition.board import Rung, climb, measure
from truerank.core.student import quantile

Integers = npt.NDArray[np.int64]
Oracle = Callable[[Integers], float]
"""From the anchor of each row (-1: points at nobody) to the score that the participant sees."""
Score = Callable[[Integers, Integers], float]
Decode = Callable[[float, int], int]
"""From a score and the number of pointing rows to the hits."""
NOBODY = -1


class OutOfSubmissionsError(Exception):
    """The attacker has sent all that were allowed."""


def embeddings(points: Integers) -> npt.NDArray[np.float64]:
    """Rows that point as they should: near the anchor's axis, each in a direction of its own.

    Rows that neither point nor are pointed at are zero: they tie with everything and never score.
    """
    count = len(points)
    rows = np.zeros((count, 2 * count))
    for row, anchor in enumerate(points.tolist()):
        if anchor != NOBODY:
            rows[row, anchor], rows[row, count + row] = 4.0, 3.0
            rows[anchor, anchor] = 1.0
    return rows


def precision(points: Integers, labels: Integers) -> float:
    """precision@1 of those rows: hits of the pointing rows, and of anchors all of whose are."""
    pointing = np.flatnonzero(points != NOBODY)
    anchors = points[pointing]
    hit = labels[pointing] == labels[anchors]
    missed = np.unique(anchors[~hit])
    return (int(hit.sum()) + len(np.unique(anchors)) - len(missed)) / len(points)


def fan(points: Integers) -> npt.NDArray[np.float64]:
    """Rows that point so that nothing but anchors and those who point at them is near.

    Each row has an axis of its own, and an anchor is the sum of the axes of its pointing rows.
    """
    rows = np.eye(len(points))
    for anchor in np.unique(points[points != NOBODY]).tolist():
        rows[anchor] = points == anchor
    return rows


def mean_precision(points: Integers, labels: Integers) -> float:
    """map@r of those rows, as the lower bound over ties: 1 / R for each pointing row that hits, and
    for an anchor whatever its pointing rows leave within the first R when those that miss come
    first."""
    total = 0.0
    for anchor in np.unique(points[points != NOBODY]).tolist():
        hits = labels[points == anchor] == labels[anchor]
        relevant = int((labels == labels[anchor]).sum()) - 1
        total += int(hits.sum()) / max(1, relevant)
        total += anchor_precision(int((~hits).sum()), int(hits.sum()), relevant)
    return total / len(points)


def anchor_precision(misses: int, hits: int, relevant: int) -> float:
    """Average precision within the first R of an anchor whose missing rows come first."""
    ranks = range(misses + 1, min(relevant, misses + hits) + 1)
    return sum((rank - misses) / rank for rank in ranks) / max(1, relevant)


class Board:
    """What one participant sees of a board: the exact score, or the rung of the ladder."""

    def __init__(
        self, labels: Integers, *, ladder: bool, most: int, score: Score | None = None
    ) -> None:
        self.labels, self.ladder, self.most = labels, ladder, most
        self.score = precision if score is None else score
        self.sent = 0
        self.rungs: list[Rung] = []
        self._t = quantile(0.95, len(np.unique(labels)) - 1)

    def __call__(self, points: Integers) -> float:
        if self.sent == self.most:
            raise OutOfSubmissionsError
        self.sent += 1
        value = self.score(points, self.labels)
        if not self.ladder:
            return round(value, 4)  # percent with two decimals
        # No interval: the least noise that a board ever assumes, so the attacker's best case.
        shown = self.rungs[-1] if self.rungs else None
        rung = climb(shown, measure(value, None, len(points), self._t), tries=self.sent)
        if rung is not None:
            self.rungs.append(rung)
        return self.rungs[-1].score


def hits_of_precision(count: int) -> Decode:
    """The hits in precision@1; the anchor itself scores where all of them hit."""
    return lambda value, pointing: min(round(value * count), pointing)


def hits_of_mean_precision(count: int, relevant: int) -> Decode:
    """The hits in map@r where all queries have the same number of relevant items."""

    def decode(value: float, pointing: int) -> int:
        sums = [
            hits / relevant + anchor_precision(pointing - hits, hits, relevant)
            for hits in range(min(pointing, relevant) + 1)
        ]
        return int(np.argmin(np.abs(np.array(sums) - value * count)))

    return decode


def split(oracle: Oracle, rows: Integers, decode: Decode | None = None) -> Integers:
    """The partition by counts: which rows of a set are mates of an anchor, half by half."""
    count = len(rows)
    found = np.full(count, NOBODY, np.int64)
    hits_in = hits_of_precision(count) if decode is None else decode

    def mates(some: Integers, anchor: int) -> int:
        points = np.full(count, NOBODY, np.int64)
        points[some] = anchor
        return hits_in(oracle(points), len(some))

    def search(some: Integers, number: int, anchor: int) -> None:
        if number <= 0:
            return
        if number >= len(some):
            found[some] = anchor
            return
        half, rest = some[: len(some) // 2], some[len(some) // 2 :]
        inside = min(number, mates(half, anchor))
        search(half, inside, anchor)
        search(rest, number - inside, anchor)

    for anchor in rows.tolist():
        left = rows[found[rows] == NOBODY]
        left = left[left != anchor]
        if found[anchor] == NOBODY and len(left):
            found[anchor] = anchor
            search(left, mates(left, anchor), anchor)
    return found


def pairs_found(guess: Integers, labels: Integers) -> tuple[float, float]:
    """Of the pairs that a guess calls mates the share that are; of all mates the share it names."""
    upper = np.triu_indices(len(labels), 1)
    guessed = ((guess[:, None] == guess[None, :]) & (guess != NOBODY)[:, None])[upper]
    true = (labels[:, None] == labels[None, :])[upper]
    both = int((guessed & true).sum())
    return both / max(1, int(guessed.sum())), both / int(true.sum())


def climb_blindly(oracle: Oracle, rng: np.random.Generator, rows: int, redrawn: int) -> Integers:
    """Redraw some anchors at random and keep what the board shows as better, until stopped."""
    best = _others(np.arange(rows), rng, rows)
    seen = oracle(best)
    try:
        while True:
            points = best.copy()
            some = rng.choice(rows, redrawn, replace=False)
            points[some] = _others(some, rng, rows)
            score = oracle(points)
            if score > seen:
                best, seen = points, score
    except OutOfSubmissionsError:
        return best


def climb_by_one(oracle: Oracle, rng: np.random.Generator, rows: int) -> dict[int, int]:
    """Let one more row point each time: if that moves the board, the row is its anchor's mate.

    This is the best that a ladder leaves: each pair costs a rung, and nothing else is certain.
    """
    known: dict[int, int] = {}
    seen = oracle(np.full(rows, NOBODY, np.int64))
    try:
        while True:
            points = np.full(rows, NOBODY, np.int64)
            points[list(known)] = list(known.values())
            for row in rng.permutation(np.setdiff1d(np.arange(rows), list(known))).tolist():
                points[row] = _others(np.array([row]), rng, rows)[0]
                score = oracle(points)
                if score > seen:
                    known[row], seen = int(points[row]), score
                    break
    except OutOfSubmissionsError:
        return known


def _others(some: Integers, rng: np.random.Generator, rows: int) -> Integers:
    """For each row another one."""
    drawn = rng.integers(0, rows - 1, len(some))
    return np.asarray(drawn + (drawn >= some), np.int64)
