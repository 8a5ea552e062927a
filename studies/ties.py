"""Study of ties: embeddings in, a page out, without training.

mAP is computed as most code does it (scores in some precision, batch by batch, then a plain
sort) without any code of truerank. Collisions are neighbours in the order of distances that lie
closer than a bound: the paper's epsilon, the distance's own spread, or units in the last place
of float32.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from studies.claims import IN_DIRECTION, NOT_REPRODUCED, REPRODUCED, UNDECIDED, Claim, Evidence
from studies.page import COLOURS, INK, QUIET, Drawing, Page, Sheet, new_figure, panels
from studies.runner import Ledger, Request
from studies.trained import Embeddings, read_embedded
from truerank._util.errors import InputError
from truerank._util.types import Array, Flags, Integers
from truerank.core.student import quantile
from truerank.datasets.emoji import emoji
from truerank.evaluation.evaluate import evaluate

PAPER = "PHOCNET"
CITATION = (
    "Nicolaou, Dey, Christlein, Maier, Karatzas: Non-deterministic Behavior of Ranking-based "
    "Metrics when Evaluating Embeddings. RRPR 2018."
)
INTRODUCTION = (
    "This page tests four claims about ties: mAP depends on the order of the rows where "
    "distances are equal or rounded, and embeddings without any information can get a high "
    "score. The paper's word-spotting embeddings and two sets of emoji embeddings are scored by "
    "plain code in four precisions, and by truerank."
)


def run(request: Request) -> Page:
    """Measure, judge and put the page together."""
    size = QUICK if request.quick else FULL
    sets = [_paper(request), *emoji_embeddings()]
    if size.rows is not None:
        sets = [_fewer(some, size.rows) for some in sets]
    facts = {"size": size.__dict__, "sets": {some.name: some.digest for some in sets}}
    ledger = Ledger(request.folder / "ties-ledger.json", facts, request.clock)
    measure(sets, size, ledger)
    entries = ledger.entries
    claims = judge(entries, PAPER)
    return Page(
        "ties",
        "Ties: how the order of rows changes mAP",
        CITATION,
        INTRODUCTION,
        _runs(sets, size, entries),
        claims,
        [
            _orders_sheet(sets, entries),
            _released_sheet(sets[0].name, entries),
            _collision_sheet(sets, entries),
        ],
        draw(sets[0], sets, entries),
        NOTES,
        request.quick,
        {"facts": {"size": facts["size"]}, "entries": entries},
    )


NOTES = (
    "The paper's remedy shifts distances that are not relevant by an epsilon (Eq. 5 and 6), "
    "which must be smaller than every difference between two distances and still change a float. "
    "If two distances differ only in their last place, no such number exists. Bounds that are "
    "computed from tie groups need no epsilon.",
    "The paper says that the mean over all orders of tied items is costly to compute. It has a "
    "closed form (McSherry and Najork, ECIR 2008), which truerank reports as `expected` with "
    "every score.",
    "The released `get_map` divides AP by R + 1 if the first item is wrong: its recall at rank 1 "
    "is e/(R + e) with e = 1e-20, which is above 0 and counts as a step. A query of label 0 with "
    "items of labels 1 and 0, in this order, gets .25; the correct value is 1/2.",
    "It also drops the first column of each row as the query itself. Two rows of PHOCNET have "
    "different labels and a cosine distance of exactly 0, and the class of one has no other row. "
    "If the other row is sorted first, each of the two rows finds itself among its relevant "
    "items, and the row without a relevant item becomes a 900th query with an AP of 1. This "
    "explains the whole range of 95.34 to 95.36 %; the division by R + 1 explains its level. "
    "Section 3.1 has 899 queries for both ends; 900 x 95.3607 is 105.4 more than 899 x 95.3495.",
    "The division by R + 1 also explains the mean of 30 random systems in section 5.2, 10.4 %: "
    "with 99 relevant items among 999 in random order, the expectation with this division is "
    "10.402 %. The expectation of AP is 10.495 %, more than four standard errors (.053/sqrt(30) "
    "= .0097 points) above 10.45 %.",
    "Of its four rules for queries without a relevant item, 'balanced' is computed as 'perfect', "
    "an AP of 1, and 'null' sets all recalls to 0, so that AP is 0/0. `unmated=` has 'report', "
    "which is 'chop', and 'zero', which is what 'null' describes; a query without a relevant "
    "item never counts 1.",
    "Values in the paper's Figure 1 are truncated instead of rounded: .6667 is printed as 66.66 "
    "%, .3929 as 39.28 %, .6429 as 64.28 %.",
    "Section 3.2 has epsilon 10^-6 for random embeddings, section 3.3 has 10^-5; only the former "
    "is 10,000 times 10^-10. 'Greater than epsilon' should read 'smaller than'.",
    "The index d of Eq. 1 should be k. D + E of Eq. 6 is the upper bound for distances; for "
    "similarities, which the text includes, it is the lower one.",
)


def _paper(request: Request) -> Embeddings:
    path = request.file("phocnet")
    if path is None:
        raise InputError(
            "the embeddings of the paper are needed: --data phocnet=FILE, an .npz with the "
            "embeddings (rows, dimensions) and a label for each row."
        )
    return read_embedded(path, PAPER)


def _fewer(some: Embeddings, rows: int) -> Embeddings:
    """Rows evenly taken from a set."""
    if len(some.rows) <= rows:
        return some
    order = np.argsort(some.labels, kind="stable")[:rows]  # whole classes, so that mates remain
    return Embeddings(some.name, some.rows[order], some.labels[order])


def _runs(sets: list[Embeddings], size: Size, entries: dict[str, Any]) -> list[str]:
    devices = sorted({name.rpartition("/")[2] for name in entries if name.startswith("exact/")})
    lines = []
    for some in sets:
        lines.append(
            f"{some.name}: {len(some.rows):,} rows of {some.rows.shape[1]} dimensions, "
            f"{len(np.unique(some.labels)):,} classes, {int(some.has_mate.sum()):,} mated "
            f"queries, leave-one-out, cosine distance (SHA-256 {some.digest[:16]})."
        )
    batches = " or ".join(["all", *map(str, size.batch_sizes(0)[1:])])
    lines += [
        f"{size.orders} orders of the rows (the first as given) x batches of {batches} queries at "
        f"a time, in {', '.join(PRECISIONS)}, on {' and '.join(devices)}. Rows are sorted by the "
        "library's default; tf32 is emulated on the CPU by rounding to 10 bits.",
        f"Collisions: distances in float64, neighbours in the order of each row; random embeddings "
        f"are uniform in [0, 1), {size.random_sets} sets, intervals of Student's t.",
        "Nothing is trained.",
        "The thresholds of the four rules were set before the run; the conditions for 'in "
        "direction', and the condition that (c) needs all six comparisons, were set after the "
        "counts had been seen once.",
    ]
    if "cuda" not in devices:
        lines.append(
            "No GPU was available: its rows are missing. A run with --resume on a "
            "machine with a GPU adds them."
        )
    return lines


def _orders_sheet(sets: list[Embeddings], entries: dict[str, Any]) -> Sheet:
    rows = []
    for some in sets:
        for device in ("cpu", "cuda"):
            if f"exact/{some.name}/{device}" not in entries:
                continue
            for precision in PRECISIONS:
                runs = entries[f"orders/{some.name}/{precision}/{device}"]
                values = [value for batch in runs.values() for value in batch]
                orders = max(span(batch) for batch in runs.values())
                rows.append(
                    [
                        some.name, device, precision, f"{100 * min(values):.5f}",
                        f"{100 * max(values):.5f}", f"{100 * orders:.5f}",
                        f"{100 * span(values):.5f}",
                    ]
                )  # fmt: skip
            exact = entries[f"exact/{some.name}/{device}"]
            rows.append(
                [
                    some.name, device, "truerank", f"{100 * exact['lower']:.5f}",
                    f"{100 * exact['upper']:.5f}", f"0 ({exact['bits']} bits)",
                    f"0 ({exact['bits']} bits)",
                ]
            )  # fmt: skip
    header = ["set", "device", "scores", "lowest", "highest", "by order", "by order and batch"]
    return Sheet(
        "mAP over orders and batch sizes, in percent and points",
        header,
        rows,
        "For truerank, lowest and highest are the lower and the upper bound over all orders of "
        "tied items; they do not depend on the order of rows or the batch size.",
    )


def _released_sheet(name: str, entries: dict[str, Any]) -> Sheet:
    rows = [
        [
            one["drops"], one["divisor"],
            *(
                f"{100 * value:.4f} ({queries:,} queries)"
                for value, queries in zip(one["values"], one["queries"], strict=True)
            ),
        ]
        for one in entries[f"released/{name}"]
    ]  # fmt: skip
    return Sheet(
        f"The rules of the paper's released code on {name}: mAP in percent",
        ["left out of a list", "AP divided by", "relevant first in ties", "relevant last in ties"],
        rows,
        "Cosine distances in float64; values below 1e-12 are set to 0. The last line is the "
        "released code, the first line is the definition.",
    )


def _collision_sheet(sets: list[Embeddings], entries: dict[str, Any]) -> Sheet:
    bounds = list(entries["random"]["cosine"])
    kept = [bound for bound in bounds if bound not in ("neighbours", "spread")]
    rows = []
    for some in sets:
        for distance in DISTANCES:
            counts = entries[f"collisions/{some.name}"][distance]
            rows.append([some.name, distance, *(f"{counts[bound]:,.0f}" for bound in kept)])
    for distance in DISTANCES:
        counts = entries["random"][distance]
        rows.append(["random", distance, *(f"{counts[bound]['mean']:,.1f}" for bound in kept)])
    pairs = entries["random"]["cosine"]["neighbours"]["mean"]
    return Sheet(
        "Colliding neighbours, over all rows",
        ["set", "distance", *(bound.replace("places", "float32 places") for bound in kept)],
        rows,
        f"Of {pairs:,.0f} neighbours of PHOCNET and of each random set. 'Of spread': epsilon is "
        "multiplied by the standard deviation of the distance over that of cosine.",
    )


# What is measured for the paper on ties, entry by entry of a ledger.


EPSILONS = {"trained": 1e-10, "random": 1e-6}
"""Of the paper's Figure 2 and of its Figure 3."""
CLASSES, EACH = 10, 100
"""Of the embeddings that are all zero."""


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
    data = emoji()
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
        for device in devices():
            for precision in PRECISIONS:
                name = f"orders/{some.name}/{precision}/{device}"
                ledger.get(name, partial(_spans, some, size, precision, device))
            for variant in VARIANTS[1:]:
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


# mAP as most code computes it: scores in some precision, batch by batch, then a plain sort.
#
# Rows in some order, a batch size, a precision and a device come in; one number goes out. Nothing
# of truerank's own is used: what it is compared with must not share its code.


VARIANTS = ("oneself found by number", "first column dropped", "lengths divided out")


def _spans(
    some: Embeddings, size: Size, precision: str, device: str, variant: str = VARIANTS[0]
) -> dict[str, list[float]]:
    """mAP for each batch size, over orders."""
    found: dict[str, list[float]] = {}
    for batch in size.batch_sizes(len(some.rows)):
        found[str(batch)] = [
            naive_map(
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
    for drops, divisor in itertools.product(DROPS, DIVISORS):
        ends = [
            released_map(some.rows, some.labels, drops=drops, divisor=divisor, relevant_first=first)
            for first in (True, False)
        ]
        values, queries = zip(*ends, strict=True)
        found.append(
            {"drops": drops, "divisor": divisor, "values": list(values), "queries": list(queries)}
        )
    return found


def _collisions(rows: Array) -> dict[str, dict[str, float]]:
    """Collisions by distance and bound: each epsilon, the same by spread, and last places."""
    ranked = {distance: distance_rows(rows, distance) for distance in DISTANCES}
    unit = spread(ranked["cosine"])
    found: dict[str, dict[str, float]] = {}
    for distance, distances in ranked.items():
        own = spread(distances) / unit
        counts: dict[str, float] = {
            "neighbours": float(distances.shape[0] * (distances.shape[1] - 1))
        }
        for epsilon in EPSILONS.values():
            counts[f"epsilon {epsilon:g}"] = count_collisions(distances, epsilon)
            counts[f"epsilon {epsilon:g} of spread"] = count_collisions(distances, epsilon * own)
        for places in (0, 1):
            counts[f"places {places}"] = count_collisions(distances, places=places)
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
        "first column dropped, R + 1": {"drops": "first column", "divisor": DIVISORS[1]},
    }
    naively = {
        way: {name: zero_map(labels, **how) for name, labels in orders.items()}
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


PRECISIONS = ("float16", "bfloat16", "tf32", "float32")
"""How the products of unit rows are computed; tf32 is imitated where there is no GPU."""

DROPS = ("oneself", "first column")
"""What is left out of each query's list; the released code takes the first column for oneself."""
DIVISORS = ("R", "R + 1 where the first item is wrong")
"""What AP is divided by; the released code counts a step of recall at rank 1 in any case."""
SAME = 1e-12
"""A cosine distance below this is 0, so that rounding does not order equal directions."""
Reals = npt.NDArray[np.floating[Any]]


def devices() -> list[str]:
    """Where scores can be computed here."""
    import torch

    return ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def naive_map(
    rows: Reals,
    labels: Integers,
    *,
    precision: str,
    batch: int,
    device: str = "cpu",
    variant: str = VARIANTS[0],
) -> float:
    """mAP of leave-one-out search by cosine distance; classes of one row are no queries.

    The distances of a batch of queries are one product of matrices, and each line is sorted by the
    library's default sort. In the variants oneself is dropped as the first of each line, as the
    paper does, or products are divided by the lengths of the rows afterwards.
    """
    import torch

    place = torch.device(device)
    given = torch.from_numpy(np.ascontiguousarray(rows))
    lengths = torch.linalg.vector_norm(given, dim=1).to(place)
    divides = variant == "lengths divided out"
    units = given if divides else torch.nn.functional.normalize(given, dim=1)
    units = _narrowed(units.to(place), precision)
    found = torch.from_numpy(np.ascontiguousarray(labels)).to(place)
    numbers = torch.arange(len(labels), device=place)
    parts = []
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    try:
        for start in range(0, len(labels), batch):
            some = slice(start, start + batch)
            products = units[some] @ units.T
            if divides:
                products = products / (lengths[some, None] * lengths)
            order = _sorted(1 - products)
            if variant == "first column dropped":
                others = order[:, 1:]
            else:
                others = order[order != numbers[some, None]].reshape(len(order), -1)
            parts.append(_average_precisions(found[others] == found[some, None]))
    finally:
        torch.set_float32_matmul_precision(before)
    values = torch.cat(parts)
    _, codes, counts = torch.unique(found, return_inverse=True, return_counts=True)
    return float(values[counts[codes] > 1].mean())


def _narrowed(units: Any, precision: str) -> Any:
    import torch

    if precision in ("float16", "bfloat16"):
        return units.to(getattr(torch, precision))
    if precision == "tf32" and units.device.type == "cpu":  # a tensor core keeps 10 bits of each
        bits = units.numpy().view(np.uint32)
        rounded = (bits + np.uint32(0xFFF) + ((bits >> 13) & 1)) & np.uint32(0xFFFFE000)
        return torch.from_numpy(rounded.view(np.float32))
    return units


def _sorted(distances: Any) -> Any:
    """The order of each line by the default sort: numpy's on the CPU, torch's on a GPU."""
    import torch

    if distances.device.type != "cpu":
        return torch.argsort(distances, dim=1)
    return torch.from_numpy(np.argsort(distances.float().numpy(), axis=1))


def _average_precisions(matches: Any) -> Any:
    """AP of each line in float64, 0 where nothing matches."""
    import torch

    hits = matches.to(torch.float64)
    ranks = torch.arange(1, hits.shape[1] + 1, device=hits.device, dtype=torch.float64)
    precision = torch.cumsum(hits, dim=1) / ranks
    return (precision * hits).sum(dim=1) / hits.sum(dim=1).clamp(min=1)


def released_map(
    rows: Reals, labels: Integers, *, drops: str, divisor: str, relevant_first: bool
) -> tuple[float, int]:
    """mAP by cosine distance with the two rules of the paper's released code, and its queries.

    Where distances are equal, the relevant items are first or last: the released code's optimistic
    and pessimistic modes, which shift them by 1e-20. A query without a relevant item left in its
    list is no query.
    """
    given = rows.astype(np.float64)
    units = given / np.maximum(np.linalg.norm(given, axis=1, keepdims=True), SAME)
    distances = 1 - units @ units.T
    distances[distances < SAME] = 0.0
    relevant = labels[:, None] == labels
    order = np.lexsort((relevant != relevant_first, distances))
    matches = np.take_along_axis(relevant, order, axis=1)
    if drops == "first column":
        matches = matches[:, 1:]
    else:
        others = order != np.arange(len(labels))[:, None]
        matches = matches[others].reshape(len(labels), -1)
    matches = matches[matches.any(axis=1)]
    return float(_divided(matches, divisor).mean()), len(matches)


def zero_map(labels: Integers, *, drops: str, divisor: str = DIVISORS[0]) -> float:
    """mAP of embeddings that are all zero, by a stable sort; oneself is dropped by place or index.

    With all distances equal a stable sort keeps the rows' own order for every query.
    """
    values = []
    numbers = np.arange(len(labels))
    for query, label in enumerate(labels.tolist()):
        kept = numbers[1:] if drops == "first column" else numbers[numbers != query]
        values.append(float(_divided((labels[kept] == label)[None], divisor)[0]))
    return float(np.mean(values))


def _divided(matches: npt.NDArray[np.bool_], divisor: str) -> npt.NDArray[np.float64]:
    """AP of each line: its precisions at matches, added up and divided."""
    precision = np.cumsum(matches, axis=1) / np.arange(1, matches.shape[1] + 1)
    steps = matches.sum(axis=1)
    if divisor != "R":
        steps = steps + ~matches[:, 0]
    return np.asarray((precision * matches).sum(axis=1) / steps)


# Collisions: neighbours in the order of distances that lie closer together than some bound.


DISTANCES = ("cosine", "euclidean", "cityblock")


def distance_rows(rows: npt.NDArray[Any], distance: str) -> Reals:
    """(N, N - 1): each row's distances to all others in float64, ascending."""
    import torch

    points = torch.from_numpy(np.ascontiguousarray(rows, np.float64))
    if distance == "cosine":
        units = torch.nn.functional.normalize(points, dim=1)
        found = (1 - units @ units.T).numpy()
    else:
        power = {"euclidean": 2.0, "cityblock": 1.0}[distance]
        direct = "donot_use_mm_for_euclid_dist"  # as scipy does: differences, not products
        found = torch.cdist(points, points, p=power, compute_mode=direct).numpy()
    others = found[~np.eye(len(found), dtype=bool)].reshape(len(found), -1)
    return np.sort(others, axis=1)


def spread(ranked: Reals) -> float:
    """The standard deviation of all distances."""
    return float(ranked.std())


def _close(ranked: Reals, epsilon: float | None, places: int) -> Flags:
    """Which neighbours collide: nearer than epsilon, or within so many last places of float32."""
    if epsilon is not None:
        return np.asarray(np.diff(ranked, axis=1) < epsilon)
    bits = np.maximum(ranked, 0.0).astype(np.float32).view(np.int32).astype(np.int64)
    return np.asarray(np.diff(bits, axis=1) <= places)


def count_collisions(ranked: Reals, epsilon: float | None = None, places: int = 0) -> int:
    """Neighbours that collide, over all rows."""
    return int(_close(ranked, epsilon, places).sum())


def collision_map(ranked: Reals, epsilon: float | None = None, places: int = 0) -> Flags:
    """(N, N - 1): whether the item at each rank collides with the one before or behind it."""
    close = _close(ranked, epsilon, places)
    nothing = np.zeros((len(ranked), 1), bool)
    return np.asarray(np.hstack([close, nothing]) | np.hstack([nothing, close]), bool)


# The four claims about ties, judged from the ledger's entries alone.


Entries = Mapping[str, Any]
LEAST_SPAN, LEAST_RATIO, LEAST_ZERO = 1e-4, 10.0, 0.05


def judge(entries: Entries, paper: str) -> list[Claim]:
    """Claims (a) to (d); `paper` names the set of the paper's own embeddings."""
    return [
        _moves(entries, paper),
        _units(entries, paper),
        _trained(entries, paper),
        _judged_zero(entries),
    ]


def span(values: Sequence[float]) -> float:
    """The largest less the smallest."""
    return max(values) - min(values)


def _moves(entries: Entries, paper: str) -> Claim:
    evidence, spans = [], []
    for name, by_batch in entries.items():
        kind, _, rest = name.partition("/")
        if kind not in ("orders", "variants") or not rest.startswith(f"{paper}/"):
            continue
        _, what, device = rest.rsplit("/", 2)
        if kind == "orders" and what != "float32":
            continue
        batch, widest = max(by_batch.items(), key=lambda one: span(one[1]))
        spans.append(span(widest))
        how = "float32" if kind == "orders" else f"float32, {what}"
        evidence.append(
            Evidence(
                f"{how}, {device}: largest less smallest mAP over {len(widest)} orders, batches of "
                f"{batch} (points)",
                spans[-1], paper="0.02", scale=100, digits=4,
            )
        )  # fmt: skip
    exact = [v for k, v in entries.items() if k.startswith(f"exact/{paper}/")]
    evidence.append(
        Evidence(
            "truerank: bits in which the orders differ", max(e["bits"] for e in exact), digits=0
        )
    )
    widest_span = max(spans)
    if widest_span >= LEAST_SPAN:
        verdict = REPRODUCED
    else:
        verdict = IN_DIRECTION if widest_span > 0 else NOT_REPRODUCED
    first = exact[0]
    return Claim(
        "a",
        "The measured mAP of PHOCNET depends on the order in which rows are evaluated: 95.34 to "
        "95.36 % (section 3.1).",
        "Reproduced if naive float32 mAP changes by at least 0.01 points with the order of the "
        "rows, at one batch size, on any device; in direction if it changes by less.",
        verdict,
        evidence,
        f"The exact mAP of these embeddings is {100 * first['lower']:.5f} to "
        f"{100 * first['upper']:.5f} % ({100 * first['expected']:.5f} % expected), the same bits "
        f"in every order. {_level(entries[f'released/{paper}'])} Besides the plain product of "
        "unit rows, two variants were tried to find a larger change with the order of rows: "
        "dropping the first column as the query itself, as the paper does, and dividing products "
        "by lengths afterwards. In half precision the change is far larger (see the table).",
    )  # fmt: skip


def _level(released: Sequence[Mapping[str, Any]]) -> str:
    """Which of the released code's two rules gives which level."""

    def shown(number: int) -> str:
        first, last = (f"{100 * value:.4f}" for value in released[number]["values"])
        return f"{first} %" if first == last else f"{first} % to {last} %"

    return (
        "The published values are those of the paper's released code (from relevant items first "
        f"to relevant items last among equal distances): {shown(3)}. It divides AP by R + 1 if "
        f"the first item is wrong; this alone gives {shown(1)} instead of {shown(0)}. It also "
        f"drops the first column as the query itself; this alone gives {shown(2)}."
    )


def _units(entries: Entries, paper: str) -> Claim:
    trained, random = entries[f"collisions/{paper}"], entries["random"]
    evidence, factors, orders = [], [], []
    for what, epsilon in EPSILONS.items():
        for bound in (f"epsilon {epsilon:g}", f"epsilon {epsilon:g} of spread", "places 0"):
            counts = [
                trained[d][bound] if what == "trained" else random[d][bound]["mean"]
                for d in DISTANCES
            ]
            factor = counts[0] / counts[1] if counts[1] else None
            words = _words(bound)
            title = "PHOCNET" if what == "trained" else "random"
            shown = ", ".join(f"{d} {c:,.0f}" for d, c in zip(DISTANCES, counts, strict=True))
            evidence.append(
                Evidence(
                    f"{title}, {words}: cosine over euclidean ({shown})", factor,
                    paper="about 20" if bound == f"epsilon {epsilon:g}" else "",
                    reason="no collision under euclidean" if factor is None else "",
                )
            )  # fmt: skip
            if what == "trained" and "spread" not in bound:
                factors.append(factor is None or factor >= LEAST_RATIO)
                orders.append(counts[0] > counts[1] > counts[2])
    if all(factors) and all(orders):
        verdict = REPRODUCED
    else:
        verdict = IN_DIRECTION if all(orders) else NOT_REPRODUCED
    bound = f"epsilon {EPSILONS['trained']:g}"
    plain = trained["cosine"][bound] / max(1, trained["euclidean"][bound])
    fair = trained["cosine"][f"{bound} of spread"] / max(
        1, trained["euclidean"][f"{bound} of spread"]
    )
    last = trained["cosine"]["places 0"] / max(1, trained["euclidean"]["places 0"])
    return Claim(
        "b",
        "Cosine distance collides about 20 times as often as euclidean, and that more often than "
        "city-block (section 3.3).",
        "Reproduced if, on the paper's embeddings, cosine collides at least 10 times as often as "
        "euclidean and euclidean more often than city-block, at the paper's epsilon and in units "
        "of the last place (distances equal in float32); in direction if only the order of the "
        "three distances holds, in both.",
        verdict,
        evidence,
        "The same epsilon is applied to three units: the distances of PHOCNET spread over "
        f"{trained['cosine']['spread']:.2f} (cosine), {trained['euclidean']['spread']:.2f} and "
        f"{trained['cityblock']['spread']:.2f}. The factor of {plain:.1f} between cosine and "
        f"euclidean at the paper's epsilon is {fair:.1f} if epsilon is scaled by the spread of "
        f"each distance, and {last:.1f} if a collision means equal numbers in float32: most of "
        "the difference is due to the unit.",
    )


def _words(bound: str) -> str:
    kind, _, rest = bound.partition(" ")
    if kind == "places":
        return "equal in float32"
    return f"epsilon {rest.replace('of spread', 'in units of the spread of cosine')}"


def _trained(entries: Entries, paper: str) -> Claim:
    trained, random = entries[f"collisions/{paper}"], entries["random"]
    evidence, more = [], {}
    for epsilon in EPSILONS.values():
        bound = f"epsilon {epsilon:g}"
        for distance in DISTANCES:
            ours, theirs = trained[distance][bound], random[distance][bound]
            more[distance, epsilon] = ours > theirs["interval"][1]
            evidence.append(
                Evidence(
                    f"{distance}, epsilon {epsilon:g}: collisions of random embeddings "
                    f"(PHOCNET: {ours:,.0f})",
                    theirs["mean"],
                    (theirs["interval"][0], theirs["interval"][1]),
                    digits=1,
                )
            )
    if all(more.values()):
        verdict = REPRODUCED
    else:
        cosine = [above for (distance, _), above in more.items() if distance == "cosine"]
        verdict = IN_DIRECTION if all(cosine) else NOT_REPRODUCED
    lost = [f"{d} at {e:g}" for (d, e), above in more.items() if not above]
    return Claim(
        "c",
        "Trained embeddings collide far more often than random ones of the same size (section 3.3: "
        "10,000 times, by the epsilon that makes collisions visible).",
        "Reproduced if, at both of the paper's epsilons and for all three distances, PHOCNET has "
        "more collisions than the upper end of the 95 % interval over random embeddings; in "
        "direction if that holds for cosine.",
        verdict,
        evidence,
        ""
        if not lost
        else f"It does not hold for {' and '.join(lost)}: very few neighbours collide there, and "
        "their number is due to chance; sums of 504 numbers of 24 bits are occasionally "
        "equal in any data.",
    )


def _judged_zero(entries: Entries) -> Claim:
    found = entries["zero"]
    evidence, spans = [], []
    for way, values in found["naive"].items():
        low, high = min(values.values()), max(values.values())
        spans.append(high - low)
        evidence.append(
            Evidence(
                f"{way}: mAP over {len(values)} orders, from {100 * low:.2f} to "
                f"{100 * high:.2f} % (points between)",
                high - low, paper="8.36 (10.32 to 18.68)", scale=100,
            )
        )  # fmt: skip
    lower, expected, upper = found["ours"]
    evidence.append(Evidence("truerank: bits in which the orders differ", found["bits"], digits=0))
    widest = max(spans)
    verdict = REPRODUCED if widest >= LEAST_ZERO else NOT_REPRODUCED
    if widest == 0:
        verdict = UNDECIDED
    return Claim(
        "d",
        "Embeddings that are all zero get a mAP of 10.32 to 18.68 % from the order of the rows "
        "alone (section 5.2).",
        "Reproduced if naive mAP of all-zero embeddings, 10 classes of 100, spans at least 5 "
        "points over orders of the rows.",
        verdict,
        evidence,
        f"truerank reports {100 * lower:.4f} (lower bound) to {100 * upper:.0f} % (upper bound), "
        f"{100 * expected:.4f} % expected, in every order. The value reported first is the lower "
        "bound, so a model gains nothing from ties. The paper's released code divides AP by R + "
        "1 if the first item is wrong.",
    )


# The figures about ties: tie maps as in the paper's Figures 2 to 4, and what orders do to mAP.


SHOWN_FROM = 650
"""The paper leaves the first rows out of its pictures."""
BINS = 240


def draw(
    paper: Embeddings, sets: Sequence[Embeddings], entries: Mapping[str, Any]
) -> list[Drawing]:
    """All figures of the page."""
    random = Embeddings("random", random_rows(paper.rows.shape, 0), paper.labels)
    return [
        Drawing(
            "tie-map-trained",
            "Tie maps as in the paper's Figure 2: the paper's embeddings, one line per query, "
            f"ranks from left to right; dark where neighbours lie within {EPSILONS['trained']:g} "
            "of each other (above) or are equal in float32 (below).",
            _maps(paper, EPSILONS["trained"]),
        ),
        Drawing(
            "tie-map-random",
            "The same maps for random embeddings, with the epsilon of the paper's Figure 3, "
            f"{EPSILONS['random']:g}.",
            _maps(random, EPSILONS["random"]),
        ),
        Drawing(
            "distances-and-relevance",
            "As in the paper's Figure 4: cosine distances D of some of the rows, in the order of "
            "their labels, and E, which is added to the distances of irrelevant items.",
            _matrices(paper),
        ),
        Drawing(
            "orders",
            "mAP by naive code over row orders and batch sizes, a dot each; the line is the "
            "exact mAP, which does not depend on the order.",
            _drawn_orders(sets, entries),
        ),
        Drawing(
            "all-zero",
            "mAP of embeddings that are all zero, 10 classes of 100, by the order of the rows.",
            _drawn_zero(entries["zero"]),
        ),
    ]


def _part(some: Embeddings) -> npt.NDArray[np.int64]:
    """The rows that are shown, in the order of their labels."""
    rows = np.arange(len(some.rows))
    if len(rows) >= 2 * BINS + SHOWN_FROM:
        rows = rows[SHOWN_FROM:]
    return rows[np.argsort(some.labels[rows], kind="stable")]


def _binned(flags: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """The share of flags in each of at most BINS x BINS parts."""
    lines, columns = (np.arange(n) * min(n, BINS) // n for n in flags.shape)
    total = np.zeros((lines.max() + 1, columns.max() + 1))
    met = np.zeros_like(total)
    np.add.at(total, (lines[:, None], columns[None, :]), flags)
    np.add.at(met, (lines[:, None], columns[None, :]), 1)
    return total / met


def _maps(some: Embeddings, epsilon: float) -> Any:
    figure, axes = panels(2, 3, width=3.4, height=2.9)
    rows = _part(some)
    for column, distance in enumerate(DISTANCES):
        ranked = distance_rows(some.rows, distance)[rows]
        for line, found in enumerate(
            (
                collision_map(ranked, epsilon),
                collision_map(ranked, places=0),
            )
        ):
            place = axes[line, column]
            shares = _binned(found)
            place.imshow(
                np.sqrt(shares), cmap="Greys", vmin=0, vmax=1, aspect="auto",
                interpolation="nearest", extent=(1, ranked.shape[1], len(rows), 0),
            )  # fmt: skip
            what = f"epsilon {epsilon:g}" if line == 0 else "equal in float32"
            place.set_title(f"{distance}, {what}: {100 * found.mean():.2g} %", fontsize=9)
            place.set_xlabel("rank", fontsize=8)
            place.set_ylabel("query", fontsize=8)
            place.tick_params(labelsize=7)
    return figure


def _matrices(some: Embeddings) -> Any:
    rows = _part(some)
    points = some.rows[rows].astype(np.float64)
    lengths = np.sqrt((points**2).sum(axis=1, keepdims=True))
    units = points / np.where(lengths > 0, lengths, 1)
    figure, axes = panels(1, 2, width=4.2, height=3.6)
    shown = axes[0, 0].imshow(1 - units @ units.T, cmap="viridis", interpolation="nearest")
    figure.colorbar(shown, ax=axes[0, 0], shrink=0.8)
    axes[0, 0].set_title("D: cosine distance", fontsize=9)
    relevant = some.labels[rows][:, None] == some.labels[rows][None, :]
    axes[0, 1].imshow(~relevant, cmap="Greys_r", interpolation="nearest")
    axes[0, 1].set_title("E: 0 where relevant (black), else epsilon", fontsize=9)
    for place in axes[0]:
        place.set_xlabel("sample", fontsize=8)
        place.set_ylabel("query", fontsize=8)
        place.tick_params(labelsize=7)
    return figure


def _drawn_orders(sets: Sequence[Embeddings], entries: Mapping[str, Any]) -> Any:
    figure, axes = panels(1, len(sets), width=3.6, height=3.4)
    for place, some in zip(axes[0], sets, strict=True):
        devices = [d for d in ("cpu", "cuda") if f"orders/{some.name}/float32/{d}" in entries]
        for number, precision in enumerate(PRECISIONS):
            for shift, device in enumerate(devices):
                runs = entries[f"orders/{some.name}/{precision}/{device}"]
                values = [100 * value for batch in runs.values() for value in batch]
                at = number + (shift - (len(devices) - 1) / 2) * 0.3
                spread = np.linspace(-0.1, 0.1, len(values))
                place.plot(at + spread, values, ".", color=COLOURS[shift], markersize=3,
                           label=device if number == 0 else None)  # fmt: skip
        exact = entries[f"exact/{some.name}/{devices[0]}"]
        place.axhspan(100 * exact["lower"], 100 * exact["upper"], color=INK, alpha=0.6, lw=1)
        place.set_xticks(range(len(PRECISIONS)), PRECISIONS, fontsize=8)
        place.set_title(f"{some.name} (line: exact)", fontsize=9)
        place.set_ylabel("mAP [%]", fontsize=8)
        place.tick_params(labelsize=7)
        place.ticklabel_format(axis="y", useOffset=False)
        if len(devices) > 1:
            place.legend(fontsize=7)
    return figure


def _drawn_zero(found: Mapping[str, Any]) -> Any:
    figure = new_figure(7.2, 2.6)
    axes = figure.subplots()
    for number, (_way, values) in enumerate(found["naive"].items()):
        for name, value in values.items():
            named = not name.startswith("at random")
            axes.plot([100 * value], [number], "o" if named else ".", color=COLOURS[number])
            if named:
                axes.annotate(name, (100 * value, number), textcoords="offset points",
                              xytext=(0, 8), ha="center", fontsize=7, color=QUIET)  # fmt: skip
    lower, expected, _ = found["ours"]
    top = len(found["naive"])
    axes.plot([100 * lower], [top], "D", color=INK)
    axes.plot([100 * expected], [top], "|", color=INK, markersize=12)
    axes.annotate("lower (the headline), expected; upper is 100", (100 * expected, top),
                  textcoords="offset points", xytext=(8, -3), fontsize=7, color=QUIET)  # fmt: skip
    names = [f"naive, {way}" for way in found["naive"]]
    axes.set_yticks(range(top + 1), [*names, "ours, any order"], fontsize=8)
    axes.set_ylim(-0.6, top + 0.6)
    axes.set_xlim(0, 25)
    axes.set_xlabel("mAP [%]", fontsize=8)
    return figure
