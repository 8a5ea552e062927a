"""What is measured for the paper on ties, entry by entry of a ledger."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank import datasets
from truerank.evaluation import evaluate
from truerank.reproduce.inputs import Embeddings
from truerank.reproduce.ledger import Ledger
from truerank.reproduce.ties import collisions, naive
from truerank.stats.student import quantile

__all__ = ["EPSILONS", "FULL", "QUICK", "Size", "emoji_embeddings", "measure", "random_rows"]

EPSILONS = {"trained": 1e-10, "random": 1e-6}
"""Of the paper's Figure 2 and of its Figure 3."""
CLASSES, EACH = 10, 100
"""Of the embeddings that are all zero."""
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Size:
    """How much is run."""

    orders: int
    batches: int
    random_sets: int
    rows: int | None = None
    """The most rows of a set, None for all."""

    def batch_sizes(self, rows: int) -> list[int]:
        """Some of: all queries at once, 128 at a time, 37 at a time."""
        return [rows, 128, 37][: self.batches]


FULL = Size(orders=20, batches=3, random_sets=20)
QUICK = Size(orders=4, batches=2, random_sets=3, rows=400)


def emoji_embeddings() -> list[Embeddings]:
    """The queries of the emoji data in the package, by both of its models."""
    data = datasets.emoji()
    _, codes = np.unique(data.labels[data.is_query], return_inverse=True)
    return [
        Embeddings(f"emoji, {model}", rows[data.is_query], codes.astype(np.int64))
        for model, rows in data.models.items()
    ]


def random_rows(shape: tuple[int, ...], seed: int) -> npt.NDArray[np.float32]:
    """Uniform in [0, 1), as the paper's random embeddings."""
    return np.random.default_rng([2018, seed]).random(shape, dtype=np.float32)


def measure(sets: Sequence[Embeddings], size: Size, ledger: Ledger) -> None:
    """Fill the ledger with all that can be measured here."""
    for some in sets:
        for device in naive.devices():
            for precision in naive.PRECISIONS:
                name = f"orders/{some.name}/{precision}/{device}"
                ledger.get(name, partial(_spans, some, size, precision, device))
            for variant in naive.VARIANTS[1:]:
                name = f"variants/{some.name}/{variant}/{device}"
                ledger.get(name, partial(_spans, some, size, "float32", device, variant))
            ledger.get(f"exact/{some.name}/{device}", partial(_exact, some, size, device))
        ledger.get(f"collisions/{some.name}", partial(_collisions, some.rows))
    ledger.get(f"released/{sets[0].name}", partial(_released, sets[0]))
    ledger.get("random", lambda: _random(sets[0].rows.shape, size))
    ledger.get("zero", lambda: _zero(size))


def _orders(rows: int, count: int) -> list[Array]:
    """Some orders of rows, the first as they are."""
    found = [np.arange(rows)]
    for seed in range(1, count):
        found.append(np.random.default_rng([2018, seed]).permutation(rows))
    return found


def _spans(
    some: Embeddings, size: Size, precision: str, device: str, variant: str = naive.VARIANTS[0]
) -> dict[str, list[float]]:
    """mAP for each batch size, over orders."""
    found: dict[str, list[float]] = {}
    for batch in size.batch_sizes(len(some.rows)):
        found[str(batch)] = [
            naive.naive_map(
                some.rows[order], some.labels[order], precision=precision, batch=batch,
                device=device, variant=variant,
            )
            for order in _orders(len(some.rows), size.orders)
        ]  # fmt: skip
    return found


def _exact(some: Embeddings, size: Size, device: str) -> dict[str, Any]:
    """Ours: lower, expected and upper over orders, and in how many bits the runs differ."""
    values = []
    for order in _orders(len(some.rows), size.orders):
        with warnings.catch_warnings():  # of merged rows and singletons: not what is shown here
            warnings.simplefilter("ignore")
            score = evaluate(
                some.rows[order], some.labels[order], metrics=["map"], confidence=None,
                device=device,
            )["map"]  # fmt: skip
        values.append([score.lower, score.expected, score.upper])
    bits = np.array(values).view(np.uint64)
    differing = np.bitwise_or.reduce(bits ^ bits[0], axis=None)
    return {
        "lower": values[0][0],
        "expected": values[0][1],
        "upper": values[0][2],
        "bits": int(differing).bit_count(),
        "orders": len(values),
    }


def _released(some: Embeddings) -> list[dict[str, Any]]:
    """mAP with and without the two rules of the released code, relevant items first and last."""
    found = []
    for drops, divisor in itertools.product(naive.DROPS, naive.DIVISORS):
        ends = [
            naive.released_map(
                some.rows, some.labels, drops=drops, divisor=divisor, relevant_first=first
            )
            for first in (True, False)
        ]
        values, queries = zip(*ends, strict=True)
        found.append(
            {"drops": drops, "divisor": divisor, "values": list(values), "queries": list(queries)}
        )
    return found


def _collisions(rows: Array) -> dict[str, dict[str, float]]:
    """Collisions by distance and bound: each epsilon, the same by spread, and last places."""
    ranked = {
        distance: collisions.distance_rows(rows, distance) for distance in collisions.DISTANCES
    }
    unit = collisions.spread(ranked["cosine"])
    found: dict[str, dict[str, float]] = {}
    for distance, distances in ranked.items():
        own = collisions.spread(distances) / unit
        counts: dict[str, float] = {
            "neighbours": float(distances.shape[0] * (distances.shape[1] - 1))
        }
        for epsilon in EPSILONS.values():
            counts[f"epsilon {epsilon:g}"] = collisions.count_collisions(distances, epsilon)
            counts[f"epsilon {epsilon:g} of spread"] = collisions.count_collisions(
                distances, epsilon * own
            )
        for places in (0, 1):
            counts[f"places {places}"] = collisions.count_collisions(distances, places=places)
        counts["spread"] = own * unit
        found[distance] = counts
    return found


def _random(shape: tuple[int, ...], size: Size) -> dict[str, dict[str, dict[str, Any]]]:
    """The same for random embeddings: mean and interval over sets."""
    sets = [_collisions(random_rows(shape, seed)) for seed in range(size.random_sets)]
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for distance in sets[0]:
        found[distance] = {}
        for bound in sets[0][distance]:
            values = [one[distance][bound] for one in sets]
            mean = math.fsum(values) / len(values)
            squares = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
            margin = quantile(0.95, len(values) - 1) * math.sqrt(squares / len(values))
            found[distance][bound] = {"mean": mean, "interval": [mean - margin, mean + margin]}
    return found


def _zero(size: Size) -> dict[str, Any]:
    """mAP of embeddings that are all zero, over orders of their rows."""
    by_class = np.repeat(np.arange(CLASSES), EACH)
    orders = {"by class": by_class, "classes in turn": np.tile(np.arange(CLASSES), EACH)}
    for seed in range(1, size.orders):
        orders[f"at random {seed}"] = np.random.default_rng([5, seed]).permutation(by_class)
    ways = {
        "first column dropped": {"drops": "first column"},
        "oneself dropped": {"drops": "oneself"},
        "first column dropped, R + 1": {"drops": "first column", "divisor": naive.DIVISORS[1]},
    }
    naively = {
        way: {name: naive.zero_map(labels, **how) for name, labels in orders.items()}
        for way, how in ways.items()
    }
    ours = []
    for labels in orders.values():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            score = evaluate(np.zeros((len(labels), 4)), labels, metrics=["map"], confidence=None)[
                "map"
            ]
        ours.append([score.lower, score.expected, score.upper])
    bits = np.array(ours).view(np.uint64)
    differing = np.bitwise_or.reduce(bits ^ bits[0], axis=None)
    return {"naive": naively, "ours": ours[0], "bits": int(differing).bit_count()}
