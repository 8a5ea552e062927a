"""Cases of "What other tools report" beside the kit's: larger ones, or known by their numbers.

In: nothing; the standard library alone, so that any tool's environment can import this file.
Out: SCORE_CASES (one query's scores and who is relevant) and EMBEDDING_CASES (rows and labels,
leave-one-out). Each answer is worked out here by hand or in fractions, never by a ranking library.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Answer:
    """The bounds over all orders that the scores allow, and the mean over these orders."""

    metric: str  # as truerank spells it
    lower: Fraction | float | None  # None: undefined
    expected: Fraction | float | None
    upper: Fraction | float | None


@dataclass(frozen=True)
class Case:
    name: str
    title: str
    given: str  # the input, in words
    why: str  # why the answer is right, with its definition
    answers: tuple[Answer, ...]


@dataclass(frozen=True)
class ScoreCase(Case):
    scores: tuple[float, ...]
    relevance: Mapping[str, tuple[int, ...]]  # one entry for each arrangement of the same items


@dataclass(frozen=True)
class EmbeddingCase(Case):
    embeddings: tuple[tuple[float, ...], ...]  # compared by euclidean distance
    labels: Mapping[str, tuple[int, ...]]  # one entry for each arrangement of the same rows


def exactly(metric: str, value: Fraction | float) -> Answer:
    return Answer(metric, value, value, value)


def undefined(metric: str) -> Answer:
    return Answer(metric, None, None, None)


def tied_average_precision(metric: str, size: int, mates: int, cut: int) -> Answer:
    """AP of a list in which every score is equal, summed over the first `cut` positions.

    Position p holds a mate with probability mates/size; given that, each of the p - 1 items before
    it is one of the other mates with probability (mates - 1)/(size - 1).
    """
    irrelevant = size - mates
    last = (Fraction(i, irrelevant + i) for i in range(1, mates + 1) if irrelevant + i <= cut)
    density = Fraction(mates - 1, size - 1)
    expected = sum(((1 + (p - 1) * density) / p for p in range(1, cut + 1)), Fraction(0)) / size
    return Answer(
        metric, sum(last, Fraction(0)) / mates, expected, Fraction(min(cut, mates), mates)
    )


def tied_ndcg(size: int, mates: int) -> Answer:
    discounts = [1 / math.log2(1 + rank) for rank in range(1, size + 1)]
    ideal = math.fsum(discounts[:mates])
    lower = math.fsum(discounts[size - mates :]) / ideal
    return Answer("ndcg", lower, math.fsum(discounts) * mates / size / ideal, 1.0)


def arrangements(size: int, mates: int) -> dict[str, tuple[int, ...]]:
    step = size // mates
    return {
        "relevant first": (1,) * mates + (0,) * (size - mates),
        "relevant last": (0,) * (size - mates) + (1,) * mates,
        "relevant spread": tuple(int(i % step == 0) for i in range(size)),
    }


def row_orders(classes: int, per_class: int) -> dict[str, tuple[int, ...]]:
    blocks = tuple(label for label in range(classes) for _ in range(per_class))
    shuffled = list(blocks)
    random.Random(0).shuffle(shuffled)
    return {
        "class by class": blocks,
        "classes in turn": tuple(range(classes)) * per_class,
        "shuffled": tuple(shuffled),
    }


FIVE = (0.9, 0.8, 0.7, 0.6, 0.5)

SCORE_CASES = (
    ScoreCase(
        name="one-mate-found",
        title="AP@4, the second of two relevant items just missed",
        given="scores .9 .8 .7 .6 .5, relevance 1 0 0 0 1, cut at 4",
        why="R = 2, one relevant item found at rank 1: AP@4 = (1/1)/2.",
        answers=(exactly("map@4", Fraction(1, 2)),),
        scores=FIVE,
        relevance={"": (1, 0, 0, 0, 1)},
    ),
    ScoreCase(
        name="two-mates-found",
        title="AP@4, the second of two relevant items just found",
        given="scores .9 .8 .7 .6 .5, relevance 1 0 0 1 0, cut at 4",
        why="R = 2, found at ranks 1 and 4: AP@4 = (1/1 + 2/4)/2. A better list than the one "
        "before must not score less than it.",
        answers=(exactly("map@4", Fraction(3, 4)),),
        scores=FIVE,
        relevance={"": (1, 0, 0, 1, 0)},
    ),
    ScoreCase(
        name="all-tied",
        title="a constant score",
        given="100 items of score .5, 10 of them relevant, in three arrangements: the relevant "
        "items first, last or at every tenth place (of the input; for ranx, of insertion; for "
        "pytrec_eval, of ids)",
        why="The scores say nothing about the order, so every order is as right as another: the "
        "answer is the least, the mean and the greatest value over all orders "
        "(McSherry & Najork 2008), whatever the arrangement.",
        answers=(tied_average_precision("map", 100, 10, 100), tied_ndcg(100, 10)),
        scores=(0.5,) * 100,
        relevance=arrangements(100, 10),
    ),
    ScoreCase(
        name="equal-best",
        title="four candidates of equal score, one of them right",
        given="scores .25 .25 .25 .25, the relevant item first or last",
        why="The first place goes to the relevant item in a quarter of the orders.",
        answers=(Answer("hit@1", Fraction(0), Fraction(1, 4), Fraction(1)),),
        scores=(0.25,) * 4,
        relevance={"relevant first": (1, 0, 0, 0), "relevant last": (0, 0, 0, 1)},
    ),
)

ON_A_LINE = ((0.0,), (1.0,), (4.0,), (10.0,))

EMBEDDING_CASES = (
    EmbeddingCase(
        name="large-labels",
        title="four rows, four different labels from 2^24 on",
        given="points 0, 1, 4, 10 on a line, labels 16777216 to 16777219",
        why="No two labels are equal, so no query has a relevant item and there is nothing to "
        "average.",
        answers=(undefined("precision@1"), undefined("map@r")),
        embeddings=ON_A_LINE,
        labels={"": tuple(range(2**24, 2**24 + 4))},
    ),
    EmbeddingCase(
        name="constant-embeddings",
        title="embeddings that are all zero",
        given="1,000 zero vectors, 10 classes of 100, in three row orders",
        why="Each query ties with all 999 others, 99 of them relevant: the least, mean and "
        "greatest value over all orders, whatever the order of the rows.",
        answers=(
            tied_average_precision("map", 999, 99, 999),
            tied_average_precision("map@r", 999, 99, 99),
        ),
        embeddings=((0.0, 0.0),) * 1000,
        labels=row_orders(10, 100),
    ),
)
