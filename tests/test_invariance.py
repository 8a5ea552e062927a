"""What must not move a single bit of any metric: each is covered once it is registered.

One data set full of ties (duplicates, zero rows, cameras, repeated ids, singletons) is evaluated as
it is and after each transformation that leaves the task the same; every field of every score, its
interval and replicates, every query's values and every curve have to agree exactly.
"""

from __future__ import annotations

import math
import struct
import warnings
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

import truerank
from tests.oracles import scores
from tests.transformations import (
    GALLERY_SIZES,
    METRICS,
    SLOW,
    TRANSFORMATIONS,
    VECTOR_DISTANCES,
    Data,
    few,
    untouched,
)
from truerank.core import metric as definitions
from truerank.core import registry
from truerank.evaluation.passes import OF_STRANGERS
from truerank.metrics.gallery_sizes import law_of

CLUSTERED = {"nmi", "ami", "pairwise_f1"}
"""k-means adds up components in floating point: these follow the order of the dimensions."""
FIELDS = (
    *("value", "lower", "expected", "upper", "chance", "attainable", "n", "reason", "threshold"),
    *("bracket", "interval", "interval_reason", "replicates"),
)
SETTINGS = ("leave one out", "query and gallery", "tree")


def unit_matters(metric: str, distance: str, transformation: str) -> bool:
    """Thresholds are in the distance's own unit, which scaling changes but for the cosine."""
    name = metric.partition("@")[0]
    names_a_threshold = name in ("threshold", "tau_max", "tau_nz") or "tau=" in metric
    fixed_axis = (
        name in definitions.names()
        and definitions.entry(name).family == "gom"
        and "scale=minmax" not in metric
    )
    return (
        transformation.startswith("scaled")
        and distance != "cosine"
        and (names_a_threshold or fixed_axis)
    )


def moves_points(distance: str, transformation: str) -> bool:
    """Whether k-means is given other numbers: in another order, or of another scale."""
    scaled = transformation.startswith("scaled") and distance != "cosine"
    return scaled or transformation == "dimensions permuted"


def renames_classes(transformation: str) -> bool:
    return transformation in ("labels permuted", "labels as strings", "labels as a list")


# --- the comparison -------------------------------------------------------------------------------


def bits(value: Any) -> Any:
    """A value that compares equal exactly when the bits do; all NaNs are one."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, tuple):
        return tuple(bits(part) for part in value)
    number = float(value)
    return "nan" if math.isnan(number) else struct.pack("<d", number).hex()


def fingerprint(score: Any, order: np.ndarray | None) -> dict[str, Any]:
    """Every field of a score, with the per-query values in the order of the untouched queries."""
    found = {name: bits(getattr(score, name)) for name in FIELDS if name != "replicates"}
    kept = score.replicates
    found["replicates"] = None if kept is None else bits((*kept.values, kept.noise))
    parts = {"per_query": score.per_query}
    for level, part in enumerate(getattr(score.per_query, "levels", ()), start=1):
        parts[f"per_query.level {level}"] = part
    for name, part in parts.items():
        for bound in ("lower", "expected", "upper"):
            values = getattr(part, bound, None)
            if values is None:
                found[f"{name}.{bound}"] = None
                continue
            values = np.asarray(values, dtype="float64")
            if order is not None:
                back = np.empty_like(values)
                back[order] = values
                values = back
            found[f"{name}.{bound}"] = [bits(value) for value in values]
    return found


CURVES = [
    "cmc",
    "roc",
    "det",
    "pr",
    "f1",
    "scores",
    "utility",
    "dir",
    "mrp",
    "mvp",
    "mrep",
    "mfr",
    "mrep@scale=minmax",
]
AXIS_CURVES = {"mrp", "mvp", "mrep", "mfr"}
"""Curves over thresholds in [0, 1], where of all distances of the data only these lie."""
AXIS_DISTANCES = {"cosine", "precomputed"}


def has_sizes(metric: str) -> bool:
    """Whether a metric is told for smaller galleries."""
    parsed = registry.parse(metric)
    return parsed.name in OF_STRANGERS or law_of(parsed) is not None


def names(distance: str) -> set[str]:
    """What fingerprints() finds of the untouched data."""
    growing = [metric for metric in METRICS if has_sizes(metric)]
    return {
        *METRICS,
        *(f"{metric} at {size}" for metric in growing for size in GALLERY_SIZES),
        *(f"curve {n}" for n in CURVES if n not in AXIS_CURVES or distance in AXIS_DISTANCES),
    }


def compared(distance: str, transformation: str) -> set[str]:
    """The metrics and curves of which no bit may move."""
    return {
        name
        for name in names(distance)
        if not (name in CLUSTERED and moves_points(distance, transformation))
        and not unit_matters(name.removeprefix("curve "), distance, transformation)
    }


def fingerprints(data: Data) -> dict[str, dict[str, Any]]:
    """Of every metric and of every curve."""
    result = data.evaluate()
    found = {metric: fingerprint(result[metric], data.query_order) for metric in METRICS}
    for size in result.gallery_sizes:
        for metric, score in result.at_gallery(size).items():
            found[f"{metric} at {size}"] = fingerprint(score, data.query_order)
    for name in CURVES:
        if name in AXIS_CURVES and result["mrep"].reason is not None:
            continue  # these distances do not lie on the axis
        columns = result.curve(name)
        found[f"curve {name}"] = {
            column: columns[column].tobytes()
            for column in columns
            if not column.startswith("class ")  # which go by the names of labels
        }
        around = result.curve(name, band="simultaneous")
        for end in ("low", "high") if "low" in around else ():
            found[f"curve {name}"][f"simultaneous {end}"] = around[end].tobytes()
    return found


def may_differ(transformation: str, distance: str) -> set[str]:
    """Thresholds have a unit, which scaling changes; replicates are paired by the classes' names,
    so that two models of one task can be compared."""
    scaled = transformation.startswith("scaled") and distance != "cosine"
    return ({"threshold", "distance", "from"} if scaled else set()) | (
        {"replicates"} if renames_classes(transformation) else set()
    )


@cache
def untouched_fingerprints(distance: str, setting: str) -> dict[str, dict[str, Any]]:
    return fingerprints(untouched(distance, setting))


TREES = (
    *("rows permuted", "queries reversed", "labels permuted", "float16 as float32", "one thread"),
    *("tiles of 7 x 13", "float32 filter", "each pair computed once", "rows sorted", "two threads"),
    *(
        "spread over a cluster",
        "spread, rows sorted",
        "five threads",
        "resumed early",
        "resumed late",
        "resumed, each pair once",
    ),
    *("reference engine", "CUDA", "CUDA in tiles of 8 x 24", "CUDA, tensors there"),
    "CUDA, resumed",
)
CASES = [
    (setting, name, distance)
    for setting in SETTINGS
    for name, (distances, _) in TRANSFORMATIONS.items()
    for distance in (distances if setting != "tree" else ("cosine",) if name in TREES else ())
    if setting != "query and gallery" or name != "resumed, each pair once"
]
TASKS = ("leave one out", "query and gallery")
FEW = [(setting, name, "cosine") for setting in TASKS for name in SLOW]
WITH_JUNK = [(setting, distance) for setting in TASKS for distance in ("cosine", "precomputed")]
MOVED_WITH_JUNK = ("rows permuted", "tiles of 7 x 13")


def paths() -> Iterator[tuple[str, str, str]]:
    """The task, transformation and distance of every comparison below."""
    for setting, name, distance in CASES:  # `make test` leaves the slow ones out
        yield f"{setting}, slow" if name in SLOW else setting, name, distance
    yield from ((f"{setting}, a few rows", name, distance) for setting, name, distance in FEW)
    for setting, distance in WITH_JUNK:
        yield from ((f"{setting}, junk labels", name, distance) for name in MOVED_WITH_JUNK)


def moved(
    expected: dict[str, dict[str, Any]],
    actual: dict[str, dict[str, Any]],
    distance: str,
    transformation: str,
) -> dict[str, list[str]]:
    """The fields that are not the same, of every metric and curve that has any."""
    assert expected.keys() == names(distance)
    assert actual.keys() <= expected.keys()
    free = may_differ(transformation, distance)
    found = {
        metric: [
            name
            for name in expected[metric]
            if name not in free and actual[metric][name] != expected[metric][name]
        ]
        for metric in compared(distance, transformation)
    }
    return {metric: fields for metric, fields in found.items() if fields}


@pytest.mark.parametrize(
    ("setting", "transformation", "distance"),
    [pytest.param(*case, marks=[pytest.mark.slow] if case[1] in SLOW else []) for case in CASES],
)
def test_not_one_bit_changes(setting: str, transformation: str, distance: str) -> None:
    expected = untouched_fingerprints(distance, setting)
    actual = fingerprints(TRANSFORMATIONS[transformation][1](untouched(distance, setting)))
    assert moved(expected, actual, distance, transformation) == {}


@pytest.mark.parametrize(("setting", "transformation", "distance"), FEW)
def test_not_one_bit_changes_of_a_few_rows(
    setting: str, transformation: str, distance: str
) -> None:
    data = few(untouched(distance, setting))
    score = data.evaluate()["map"]
    assert score.lower < score.expected < score.upper
    assert 0 < score.n < len(score.per_query.lower)
    actual = fingerprints(TRANSFORMATIONS[transformation][1](data))
    assert moved(fingerprints(data), actual, distance, transformation) == {}


@pytest.mark.parametrize(("setting", "distance"), WITH_JUNK)
def test_not_one_bit_changes_with_junk_labels(setting: str, distance: str) -> None:
    """Rows that are no items of the gallery, so that places among the rows are no columns."""
    data = replace(untouched(distance, setting), options={"junk_labels": [1, 5, 20]})
    expected = fingerprints(data)
    assert expected["map"]["value"] != untouched_fingerprints(distance, setting)["map"]["value"]
    sampled = expected["opis@far=0.05:0.5,negatives=10"]["reason"]
    assert (sampled is None) == (setting == "leave one out")
    for name in MOVED_WITH_JUNK:
        changed = TRANSFORMATIONS[name][1](data)
        assert moved(expected, fingerprints(changed), distance, name) == {}, name


@pytest.mark.parametrize("setting", SETTINGS)
def test_there_are_smaller_galleries_to_move(setting: str) -> None:
    result = untouched("cosine", setting).evaluate()
    for size in result.gallery_sizes:
        score = result.at_gallery(size)["map"]
        assert score.lower < score.expected < score.upper
        assert score.interval is not None
        assert result["map"].value < score.value
        assert result.at_gallery(size)["dir@rank=5,tau=0.5"].interval is not None


def test_trees_go_through_what_exists() -> None:
    assert set(TREES) <= TRANSFORMATIONS.keys()


@pytest.mark.parametrize("setting", TASKS)
def test_the_data_are_worth_the_name(setting: str) -> None:
    """Without ties and queries without a mate the invariances above would prove little."""
    result = untouched("cosine", setting).evaluate()
    score = result["map"]
    assert score.lower < score.expected < score.upper
    assert 0 < score.n < len(score.per_query.lower)
    tied = np.flatnonzero(score.per_query.lower < score.per_query.upper)
    assert len(tied) > score.n // 4


@pytest.mark.parametrize("setting", TASKS)
def test_there_are_intervals_to_move(setting: str) -> None:
    """All metrics have one but for those at a limit, of few queries, or for a reason of theirs."""
    result = untouched("cosine", setting).evaluate()
    known = ("every query scores", "the score is", "at least", "minmax", "tau_", "are a sample")
    without = [n for n, score in result.items() if score.interval is None and not score.reason]
    for name in without:
        about = f"{name}: {result[name].interval_reason}"
        assert any(words in about for words in known), about
    assert len(without) < 0.4 * len(METRICS)


# --- grids at their edges -------------------------------------------------------------------------


def places(
    distance: str, query: np.ndarray, gallery: np.ndarray, device: str
) -> list[tuple[float, float]]:
    """For each gallery item, 1 / its last and 1 / its first possible rank."""
    items = np.arange(len(gallery))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", truerank.TruerankWarning)
        score = truerank.evaluate(
            np.tile(query, (len(gallery), 1)),
            items,
            gallery=gallery,
            gallery_labels=items,
            query_ids=-1 - items,
            gallery_ids=items,
            distance=distance,
            device=device,
            metrics=["mrr"],
        )["mrr"]
    lower, upper = score.per_query.lower.tolist(), score.per_query.upper.tolist()
    return list(zip(lower, upper, strict=True))


def true_places(distance: str, query: np.ndarray, gallery: np.ndarray) -> list[tuple[float, float]]:
    [row] = scores.distances(distance, [query.tolist()], gallery.tolist())
    return [(1 / sum(d <= mine for d in row), 1 / (1 + sum(d < mine for d in row))) for mine in row]


@pytest.mark.parametrize("distance", VECTOR_DISTANCES)
@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_rows_finer_than_the_grid(distance: str, device: str) -> None:
    """Full doubles, all nearly at one distance: the dimensions may be summed in any order.

    The supports of query and gallery are disjoint and all L1 norms nearly 1, so that sums of
    rounded components reach the largest number that the grid allows for, and a little beyond.
    """
    rng = np.random.default_rng(31)
    query, gallery = np.zeros(40), np.zeros((150, 40))
    query[:20], gallery[:, 20:] = rng.random(20), rng.random((150, 20))
    for rows in (query[None], gallery):
        rows /= rows.sum(axis=1, keepdims=True)
        while any(longer := [sum(map(Fraction, row)) > 1 for row in rows.tolist()]):
            rows[longer] *= 1 - 2.0**-53
    expected = true_places(distance, query, gallery)
    for _ in range(5):
        order = rng.permutation(40)
        assert places(distance, query[order], gallery[:, order], device) == expected


@pytest.mark.parametrize("distance", VECTOR_DISTANCES)
@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_wide_rows_close_together(distance: str, device: str) -> None:
    """A thousand dimensions leave plenty of room for a sum to depend on its order."""
    rng = np.random.default_rng(41)
    query = rng.standard_normal(1000)
    gallery = query + 1e-5 * rng.standard_normal((30, 1000))
    query, gallery = query.astype("float32"), gallery.astype("float32")
    assert places(distance, query, gallery, device) == true_places(distance, query, gallery)


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_cityblock_distances_beyond_two(device: str) -> None:
    """Rows of L1 norm 1 may round to a little more: their distances still differ by single units.

    Each of ``count`` components of 3/4 of a unit rounds up to one, which makes the row longer by a
    quarter of ``count``: the distances are 2 and 5, 2, 1 and 0 units.
    """
    unit = 2.0**-52
    query = np.array([1.0] + [0.0] * 21)
    gallery = np.zeros((4, 22))
    for row, count in zip(gallery, (20, 8, 4, 0), strict=True):
        row[1], row[2 : 2 + count] = 1 - 0.75 * count * unit, 0.75 * unit
    assert places("cityblock", query, gallery, device) == [
        (1 / 4, 1 / 4),
        (1 / 3, 1 / 3),
        (1 / 2, 1 / 2),
        (1, 1),
    ]


def halfway_row(numerator: int, width: int) -> list[int]:
    """A row whose first component over its length is numerator / 2^26: between grid points.

    The length is 2^26 exactly, as a sum of squares that takes the largest that fits each time.
    """
    row, left = [numerator], 2**52 - numerator**2
    while left:
        row.append(math.isqrt(left))
        left -= row[-1] ** 2
    return row + [0] * (width - len(row))


def halfway_rows(rng: np.random.Generator, width: int) -> np.ndarray:
    """Such rows, the same with the first component moved by the least amount, and multiples."""
    numerators = 2 * rng.integers(2**20, 2**24, size=12) + 1
    exact = np.array([halfway_row(int(numerator), width) for numerator in numerators], dtype=float)
    assert all((row**2).sum() == 2.0**52 for row in exact)
    above, below = exact.copy(), exact.copy()
    above[:, 0], below[:, 0] = np.nextafter(exact[:, 0], np.inf), np.nextafter(exact[:, 0], 0)
    return np.concatenate([exact, above, below, 3 * exact, -exact])


@pytest.mark.parametrize("distance", ["cosine", "euclidean", "dot"])
@pytest.mark.parametrize("width", [16, 300])
@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_halfway_between_grid_points(device: str, width: int, distance: str) -> None:
    """Exactly halfway the even neighbour is taken; a unit in the last place decides the rest.

    That unit also decides on which side of a power of two the length is, and so the row's own grid.
    """
    rng = np.random.default_rng(37)
    gallery = halfway_rows(rng, width)
    for query in (gallery[0], gallery[13], np.eye(width)[0]):
        expected = true_places(distance, query, gallery)
        order = rng.permutation(width)
        assert places(distance, query, gallery, device) == expected
        assert places(distance, query[order], gallery[:, order], device) == expected
