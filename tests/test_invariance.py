"""What must not move a single bit of any metric: each is covered once it is registered.

One data set full of ties (duplicates, zero rows, cameras, repeated ids, singletons) is evaluated as
it is and after each transformation that leaves the task the same; every field of every score, its
interval and replicates, every query's values and every curve have to agree exactly.
"""

from __future__ import annotations

import math
import struct
import tempfile
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import truerank
from tests.oracles import scores
from truerank.core import registry

VECTOR_DISTANCES = ("cosine", "euclidean", "dot", "cityblock")
MATRIX_DISTANCES = ("precomputed", "similarity")
ALL_DISTANCES = (*VECTOR_DISTANCES, "hamming", *MATRIX_DISTANCES)

METRICS = list(registry.examples())
SEEDED = {"nmi", "ami", "pairwise_f1"}
"""k-means starts from random rows: these follow their seed and not only the task."""
FIELDS = (
    *("value", "lower", "expected", "upper", "chance", "attainable", "n", "reason", "threshold"),
    *("bracket", "interval", "interval_reason", "replicates"),
)
SETTINGS = ("leave one out", "query and gallery", "tree")


@dataclass(frozen=True, eq=False)
class Side:
    """The queries, or the gallery."""

    embeddings: Any
    labels: Any
    groups: Any
    ids: Any

    def take(self, order: np.ndarray) -> Side:
        return Side(self.embeddings[order], self.labels[order], self.groups[order], self.ids[order])


@dataclass(frozen=True, eq=False)
class Data:
    """One call of evaluate(). A matrix of scores stands in the place of the queries' embeddings."""

    distance: str
    queries: Side
    gallery: Side | None
    options: dict[str, Any] = field(default_factory=dict)
    tiles: dict[str, Any] | None = None
    query_order: np.ndarray | None = None
    """Which query of the untouched data stands in each row; None when none has moved."""
    stopped_at: float | None = None
    """The share of all pairs after which it is interrupted, to go on from its checkpoint."""

    def map_embeddings(self, change: Callable[[Any], Any]) -> Data:
        gallery = self.gallery
        if gallery is not None and gallery.embeddings is not None:
            gallery = replace(gallery, embeddings=change(gallery.embeddings))
        return replace(
            self,
            queries=replace(self.queries, embeddings=change(self.queries.embeddings)),
            gallery=gallery,
        )

    def map_names(self, name: str, change: Callable[[Any], Any]) -> Data:
        gallery = self.gallery
        if gallery is not None:
            gallery = replace(gallery, **{name: change(getattr(gallery, name))})
        return replace(
            self,
            queries=replace(self.queries, **{name: change(getattr(self.queries, name))}),
            gallery=gallery,
        )

    def evaluate(self) -> truerank.Result:
        arguments: dict[str, Any] = {
            "query_groups": self.queries.groups,
            "query_ids": self.queries.ids,
        }
        if self.gallery is not None:
            arguments |= {
                "gallery_labels": self.gallery.labels,
                "gallery_groups": self.gallery.groups,
                "gallery_ids": self.gallery.ids,
            }
            if self.gallery.embeddings is not None:
                arguments["gallery"] = self.gallery.embeddings
        arguments |= {"device": "cpu", "metrics": METRICS} | self.options
        arguments["distance"] = self.distance
        tiles = nullcontext() if self.tiles is None else truerank.engine.settings(**self.tiles)
        rows, labels = self.queries.embeddings, self.queries.labels
        with warnings.catch_warnings(), tiles:
            warnings.simplefilter("ignore", truerank.TruerankWarning)
            if self.stopped_at is None:
                return truerank.evaluate(rows, labels, **arguments)
            return self._resumed(
                lambda **more: truerank.evaluate(rows, labels, **arguments, **more)
            )

    def _resumed(self, evaluate: Callable[..., truerank.Result]) -> truerank.Result:
        def progress(done: int, total: int) -> None:
            if done >= self.stopped_at * total:
                raise Stop

        kept = {"checkpoint_worth": 0, "chapter_pairs": 40 * 230, "chapter_growth": 1}
        with tempfile.TemporaryDirectory() as folder, truerank.engine.settings(**kept):
            path = Path(folder, "counts")
            with pytest.raises(Stop):
                evaluate(checkpoint=path, progress=progress)
            assert path.exists()
            return evaluate(checkpoint=path)


class Stop(KeyboardInterrupt):
    """Ctrl-C."""


# --- the data -------------------------------------------------------------------------------------


def tied_side(rng: np.random.Generator, rows: int, first_id: int, classes: int) -> Side:
    """Rows of 8 significant bits, in clusters, with duplicates, zero rows and singletons."""
    centres = np.random.default_rng(1).integers(-40, 41, size=(classes, 12))
    labels = rng.integers(classes, size=rows)
    embeddings = (centres[labels] + rng.integers(-24, 25, size=(rows, 12))) / 8
    copied = rng.choice(rows, size=(2, rows // 5), replace=False)
    embeddings[copied[0]] = embeddings[copied[1]]
    doubled = rng.choice(rows, size=(2, rows // 10), replace=False)
    embeddings[doubled[0]] = 2 * embeddings[doubled[1]]
    embeddings[rng.choice(rows, size=5, replace=False)] = 0
    labels[rng.choice(rows, size=10, replace=False)] = 1000 + first_id + np.arange(10)
    ids = np.arange(first_id, first_id + rows)
    ids[rng.choice(rows, size=20, replace=False)] = np.repeat(
        np.arange(10), 2
    )  # crops of ten items
    return Side(embeddings.astype("float16"), labels, rng.integers(3, size=rows), ids)


@cache
def untouched(distance: str, setting: str) -> Data:
    rng = np.random.default_rng(5)
    if setting in ("leave one out", "tree"):
        queries, gallery = tied_side(rng, 230, 100, 35), None
        columns = 230
        if setting == "tree":
            paths = np.column_stack([queries.labels // 12, queries.labels // 3, queries.labels])
            queries = replace(queries, labels=paths)
    else:
        queries, gallery = (tied_side(rng, n, first, 40) for n, first in ((130, 100), (170, 1000)))
        columns = 170
    data = Data(distance, queries, gallery)
    if distance == "hamming":
        return data.map_embeddings(lambda x: (x > 0.5).astype("int8") + (x > 3))
    if distance in MATRIX_DISTANCES:
        matrix = (rng.integers(0, 65, size=(len(queries.labels), columns)) / 64).astype("float16")
        if gallery is not None:
            data = replace(data, gallery=replace(gallery, embeddings=None))
        return replace(data, queries=replace(queries, embeddings=matrix))
    return data


def few(data: Data) -> Data:
    """The same task with the first rows of each side alone: too few classes for OPIS's interval."""
    rows = np.arange(80)
    gallery = None if data.gallery is None else data.gallery.take(rows)
    return replace(data, queries=data.queries.take(rows), gallery=gallery)


# --- the transformations --------------------------------------------------------------------------


def permute_rows(data: Data) -> Data:
    rng = np.random.default_rng(17)
    order = rng.permutation(len(data.queries.labels))
    columns = order
    queries, gallery = data.queries.take(order), data.gallery
    if gallery is not None:
        columns = rng.permutation(len(gallery.labels))
        if gallery.embeddings is None:
            gallery = replace(gallery, embeddings=np.zeros(len(columns)))
            gallery = replace(gallery.take(columns), embeddings=None)
        else:
            gallery = gallery.take(columns)
    if data.distance in MATRIX_DISTANCES:
        queries = replace(queries, embeddings=queries.embeddings[:, columns])
    return replace(data, queries=queries, gallery=gallery, query_order=order)


def reverse_rows(data: Data) -> Data:
    order = np.arange(len(data.queries.labels))[::-1]
    queries = data.queries.take(order)
    if data.distance in MATRIX_DISTANCES and data.gallery is None:
        queries = replace(queries, embeddings=queries.embeddings[:, ::-1])
    return replace(data, queries=queries, query_order=order)


def permute_dimensions(data: Data) -> Data:
    order = np.random.default_rng(19).permutation(data.queries.embeddings.shape[1])
    return data.map_embeddings(lambda x: x[:, order])


def permute_labels(data: Data) -> Data:
    names = np.random.default_rng(23).permutation(3000) - 1500
    return data.map_names("labels", lambda labels: names[labels])


def name_labels(data: Data) -> Data:
    return data.map_names(
        "labels", lambda labels: np.array([f"{(7 * label) % 3001:04d}" for label in labels])
    )


def hashable_labels(data: Data) -> Data:
    return data.map_names("labels", lambda labels: [f"class {label}" for label in labels])


def name_groups_and_ids(data: Data) -> Data:
    data = data.map_names("groups", lambda groups: np.array(["north", "south", "door"])[groups])
    return data.map_names("ids", lambda ids: [f"{99999 - i}.jpg" for i in ids])


def widen(dtype: str) -> Callable[[Data], Data]:
    return lambda data: data.map_embeddings(lambda x: x.astype(dtype))


def scale(factor: float) -> Callable[[Data], Data]:
    return lambda data: data.map_embeddings(lambda x: x.astype("float64") * factor)


def scale_rows(data: Data) -> Data:
    rng = np.random.default_rng(29)
    return data.map_embeddings(
        lambda x: np.ldexp(x.astype("float64"), rng.integers(-30, 31, size=(len(x), 1)))
    )


def options(**more: Any) -> Callable[[Data], Data]:
    return lambda data: replace(data, options=more)


def tiles(query_rows: int, gallery_rows: int) -> Callable[[Data], Data]:
    return lambda data: replace(
        data, tiles={"query_rows": query_rows, "gallery_rows": gallery_rows}
    )


def method(name: str, **limits: Any) -> Callable[[Data], Data]:
    return lambda data: replace(data, tiles={"method": name, **limits})


def resumed(share: float, **limits: Any) -> Callable[[Data], Data]:
    return lambda data: replace(data, stopped_at=share, tiles={"query_rows": 40, **limits})


def every_other(x: np.ndarray) -> np.ndarray:
    """The same values, as a view of every other row and every third column of a larger array."""
    larger = np.full((2 * x.shape[0], 3 * x.shape[1]), 77, dtype=x.dtype)
    larger[::2, 1::3] = x
    return larger[::2, 1::3]


def read_only(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x.flags.writeable = False
    return x


def layout(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Data], Data]:
    return lambda data: data.map_embeddings(change)


def as_torch(data: Data, change: Callable[[Any], Any] = lambda x: x) -> Data:
    torch = pytest.importorskip("torch")
    data = data.map_embeddings(lambda x: change(torch.from_numpy(np.ascontiguousarray(x))))
    for name in ("labels", "groups", "ids"):
        data = data.map_names(name, torch.from_numpy)
    return data


def torch_strided(data: Data) -> Data:
    return as_torch(data, lambda x: x.t().contiguous().t())


def torch_bfloat16(data: Data) -> Data:
    return as_torch(data, lambda x: x.bfloat16())


def torch_with_gradient(data: Data) -> Data:
    return as_torch(data, lambda x: x.float().requires_grad_())


def on_gpu(data: Data) -> Data:
    reason = truerank.engine.cuda.unavailable()
    if reason is not None:
        pytest.skip(f"no CUDA device: {reason}")
    return replace(data, options={"device": "cuda"})


def on_gpu_in_tiles(data: Data) -> Data:
    return replace(on_gpu(data), tiles={"query_rows": 1, "gallery_rows": 3})


def on_gpu_resumed(data: Data) -> Data:
    return resumed(0.6)(on_gpu(data))


def on_gpu_as_tensors(data: Data) -> Data:
    on_gpu(data)
    return on_gpu(as_torch(data, lambda x: x.cuda()))


FLOATS = (*VECTOR_DISTANCES, *MATRIX_DISTANCES)
TRANSFORMATIONS: dict[str, tuple[tuple[str, ...], Callable[[Data], Data]]] = {
    "rows permuted": (ALL_DISTANCES, permute_rows),
    "queries reversed": (ALL_DISTANCES, reverse_rows),
    "dimensions permuted": ((*VECTOR_DISTANCES, "hamming"), permute_dimensions),
    "labels permuted": (ALL_DISTANCES, permute_labels),
    "labels as strings": (ALL_DISTANCES, name_labels),
    "labels as a list": (("cosine",), hashable_labels),
    "groups and ids renamed": (("cosine", "precomputed"), name_groups_and_ids),
    "float16 as float32": (FLOATS, widen("float32")),
    "float16 as float64": (FLOATS, widen("float64")),
    "big-endian": (("cosine", "precomputed"), widen(">f8")),
    "int8 as int64": (("hamming",), widen("int64")),
    "scaled by 2^20": (FLOATS, scale(2.0**20)),
    "scaled by 2^-20": (FLOATS, scale(2.0**-20)),
    "scaled by 2^400": (FLOATS, scale(2.0**400)),
    "scaled by 2^-400": (FLOATS, scale(2.0**-400)),
    "scaled by 2^900": (("cosine",), scale(2.0**900)),
    "scaled to subnormal numbers": (("cosine",), scale(2.0**-1060)),
    "scaled by 3": (("cosine",), scale(3.0)),
    "rows scaled by powers of two": (("cosine",), scale_rows),
    "tiles of 7 x 13": (ALL_DISTANCES, tiles(7, 13)),
    "tiles of 1 x 1": (("cosine",), tiles(1, 1)),
    "tiles larger than the data": (ALL_DISTANCES, tiles(4096, 4096)),
    "float32 filter": (("cosine",), method("filter", gallery_rows=29)),
    "each pair computed once": (
        ("cosine", "euclidean", "dot", "hamming"),
        method("symmetric", side=23),
    ),
    "rows sorted": (("cosine", "euclidean"), method("auto", sort_share=0.0, row_numbers=3000)),
    "one thread": (ALL_DISTANCES, options(threads=1)),
    "two threads": (ALL_DISTANCES, options(threads=2)),
    "five threads": (("cosine",), options(threads=5)),
    "resumed early": (("cosine", "precomputed"), resumed(0.2)),
    "resumed late": (("cosine",), resumed(0.9)),
    "resumed, each pair once": (("cosine",), resumed(0.5, method="symmetric", side=40)),
    "reference engine": (ALL_DISTANCES, options(device="reference")),
    "CUDA": (ALL_DISTANCES, on_gpu),
    "CUDA in tiles of 8 x 24": (("cosine", "euclidean"), on_gpu_in_tiles),
    "CUDA, tensors there": (("cosine",), on_gpu_as_tensors),
    "CUDA, resumed": (("cosine",), on_gpu_resumed),
    "automatic device": (("cosine",), options(device="auto")),
    "Fortran order": (ALL_DISTANCES, layout(np.asfortranarray)),
    "strided": (ALL_DISTANCES, layout(every_other)),
    "read-only": (("cosine", "precomputed"), layout(read_only)),
    "torch tensors": (ALL_DISTANCES, as_torch),
    "torch, strided": (("cosine", "precomputed"), torch_strided),
    "torch, bfloat16": (VECTOR_DISTANCES, torch_bfloat16),
    "torch, with gradient": (("cosine",), torch_with_gradient),
}

SLOW = ["tiles of 1 x 1"]
"""What takes long with all rows, and is tried with a few of them wherever the others are."""


def unit_matters(metric: str, distance: str, transformation: str) -> bool:
    """Thresholds are in the distance's own unit, which scaling changes but for the cosine."""
    name = metric.partition("@")[0]
    names_a_threshold = name in ("threshold", "tau_max", "tau_nz") or "tau=" in metric
    fixed_axis = (
        name in registry.names()
        and registry.entry(name).family == "gom"
        and "scale=minmax" not in metric
    )
    return (
        transformation.startswith("scaled")
        and distance != "cosine"
        and (names_a_threshold or fixed_axis)
    )


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
    for bound in ("lower", "expected", "upper"):
        values = getattr(score.per_query, bound, None)
        if values is None:
            found[f"per_query.{bound}"] = None
            continue
        values = np.asarray(values, dtype="float64")
        if order is not None:
            back = np.empty_like(values)
            back[order] = values
            values = back
        found[f"per_query.{bound}"] = [bits(value) for value in values]
    return found


CURVES = ["cmc", "roc", "det", "f1", "dir", "mrp", "mvp", "mrep", "mfr", "mrep@scale=minmax"]


def fingerprints(data: Data) -> dict[str, dict[str, Any]]:
    """Of every metric and of every curve."""
    result = data.evaluate()
    found = {metric: fingerprint(result[metric], data.query_order) for metric in METRICS}
    for name in CURVES:
        if name in ("mrp", "mvp", "mrep", "mfr") and result["mrep"].reason is not None:
            continue  # these distances do not lie on the axis
        columns = result.curve(name)
        found[f"curve {name}"] = {column: columns[column].tobytes() for column in columns}
    return found


def may_differ(transformation: str, distance: str) -> set[str]:
    """Thresholds have a unit, which scaling changes; replicates are paired by the classes' names,
    so that two models of one task can be compared."""
    scaled = transformation.startswith("scaled") and distance != "cosine"
    return ({"threshold"} if scaled else set()) | (
        {"replicates"} if renames_classes(transformation) else set()
    )


@cache
def untouched_fingerprints(distance: str, setting: str) -> dict[str, dict[str, Any]]:
    return fingerprints(untouched(distance, setting))


TREES = (
    *("rows permuted", "queries reversed", "labels permuted", "float16 as float32", "one thread"),
    *("tiles of 7 x 13", "float32 filter", "each pair computed once", "rows sorted", "two threads"),
    *("five threads", "resumed early", "resumed late", "resumed, each pair once"),
    *("reference engine", "CUDA", "CUDA in tiles of 8 x 24", "CUDA, tensors there"),
    "CUDA, resumed",
)
CASES = [
    pytest.param(setting, name, distance, marks=[pytest.mark.slow] if name in SLOW else [])
    for setting in SETTINGS
    for name, (distances, _) in TRANSFORMATIONS.items()
    for distance in (distances if setting != "tree" else ("cosine",) if name in TREES else ())
    if setting != "query and gallery" or name != "resumed, each pair once"
]


def moved(
    expected: dict[str, dict[str, Any]],
    actual: dict[str, dict[str, Any]],
    distance: str,
    transformation: str,
) -> dict[str, list[str]]:
    """The fields that are not the same, of every metric and curve that has any."""
    free = may_differ(transformation, distance)
    found = {
        metric: [
            name
            for name in expected[metric]
            if name not in free and actual[metric][name] != expected[metric][name]
        ]
        for metric in expected.keys() | actual.keys()
        if metric.partition("@")[0] not in SEEDED
        and not unit_matters(metric.removeprefix("curve "), distance, transformation)
    }
    return {metric: fields for metric, fields in found.items() if fields}


@pytest.mark.parametrize(("setting", "transformation", "distance"), CASES)
def test_not_one_bit_changes(setting: str, transformation: str, distance: str) -> None:
    expected = untouched_fingerprints(distance, setting)
    actual = fingerprints(TRANSFORMATIONS[transformation][1](untouched(distance, setting)))
    assert moved(expected, actual, distance, transformation) == {}


@pytest.mark.parametrize("setting", ["leave one out", "query and gallery"])
@pytest.mark.parametrize("transformation", SLOW)
def test_not_one_bit_changes_of_a_few_rows(transformation: str, setting: str) -> None:
    data = few(untouched("cosine", setting))
    score = data.evaluate()["map"]
    assert score.lower < score.expected < score.upper
    assert 0 < score.n < len(score.per_query.lower)
    actual = fingerprints(TRANSFORMATIONS[transformation][1](data))
    assert moved(fingerprints(data), actual, "cosine", transformation) == {}


def test_trees_go_through_what_exists() -> None:
    assert set(TREES) <= TRANSFORMATIONS.keys()


@pytest.mark.parametrize("setting", ["leave one out", "query and gallery"])
def test_the_data_are_worth_the_name(setting: str) -> None:
    """Without ties and queries without a mate the invariances above would prove little."""
    result = untouched("cosine", setting).evaluate()
    score = result["map"]
    assert score.lower < score.expected < score.upper
    assert 0 < score.n < len(score.per_query.lower)
    tied = np.flatnonzero(score.per_query.lower < score.per_query.upper)
    assert len(tied) > score.n // 4


@pytest.mark.parametrize("setting", ["leave one out", "query and gallery"])
def test_there_are_intervals_to_move(setting: str) -> None:
    """All metrics have one but for those at a limit, of few queries, or for a reason of theirs."""
    result = untouched("cosine", setting).evaluate()
    known = ("every query scores", "the score is", "at least", "minmax", "tau_", "are a sample")
    without = [n for n, score in result.items() if score.interval is None and not score.reason]
    for name in without:
        about = f"{name}: {result[name].interval_reason}"
        assert any(words in about for words in known), about
    assert len(without) < 30 < len(METRICS) - 30


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
