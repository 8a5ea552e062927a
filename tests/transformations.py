"""A data set full of ties, and what is done to it without a bit of its scores moving."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import truerank
from tests.in_process_cluster import in_process
from truerank.core import metric as definitions

METRICS = list(definitions.examples())
GALLERY_SIZES = (5, 23)
VECTOR_DISTANCES = ("cosine", "euclidean", "dot", "cityblock")
MATRIX_DISTANCES = ("precomputed", "similarity")
ALL_DISTANCES = (*VECTOR_DISTANCES, "hamming", *MATRIX_DISTANCES)


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
    spread: bool = False
    """Whether tasks of a cluster do it, which this process runs in no order."""
    shared: bool = False
    """Whether these tasks share large values."""

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
        arguments |= {"device": "cpu", "metrics": METRICS, "gallery_sizes": GALLERY_SIZES}
        arguments["units"] = "finer"  # the tree has 3 classes of its coarsest level
        arguments |= self.options
        arguments["distance"] = self.distance
        tiles = nullcontext() if self.tiles is None else truerank.engine.settings(**self.tiles)
        rows, labels = self.queries.embeddings, self.queries.labels
        cluster = in_process(shared=self.shared) if self.spread else nullcontext()
        if self.spread:
            arguments["cluster"] = "auto"
        with warnings.catch_warnings(), tiles, cluster:
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


def spread(**limits: Any) -> Callable[[Data], Data]:
    tiles = {"query_rows": 100, "gallery_rows": 50, "task_pairs": 100 * 100, **limits}
    return lambda data: replace(data, spread=True, tiles=tiles)


def shared(data: Data) -> Data:
    """Workers of one machine share all that was put there, and cannot write to it."""
    return replace(spread()(data), shared=True)


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
    reason = truerank.engine.cuda.front.unavailable()
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
    "spread over a cluster": (("cosine", "cityblock", "hamming", "precomputed"), spread()),
    "spread, rows sorted": (("cosine",), spread(sort_share=0.0)),
    "spread, float32 filter": (("cosine",), spread(method="filter")),
    "spread, large values shared": (("euclidean",), shared),
    "spread, resumed": (("cosine",), lambda data: replace(resumed(0.4)(data), spread=True)),
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
