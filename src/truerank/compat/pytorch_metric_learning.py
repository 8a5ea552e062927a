"""AccuracyCalculator: pytorch-metric-learning's class of this name, with exact scores.

Its metrics come from truerank.evaluate. For a user's own function of neighbors (`knn_func`, or
methods calculate_* of a subclass) neighbor lists are made, at their cost. Labels match by
value (1 is 1.0), rows of a label matrix as a whole, or as a function of two tensors of labels
says.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util.arrays import as_array
from truerank._util.cached import cached_property
from truerank._util.errors import InputError, TruerankWarning, shortened
from truerank._util.text import either
from truerank._util.threads import available_cores
from truerank._util.types import Array, Flags, Integers, Reals
from truerank.core.average import class_mean, mean
from truerank.distance import catalogue
from truerank.distance.base import Space
from truerank.distance.catalogue import build
from truerank.evaluation.clustering import cluster
from truerank.evaluation.evaluate import evaluate
from truerank.io.reading import as_matrix
from truerank.metrics.clustering import FORMULAS, Contingency
from truerank.task.labels import encode
from truerank.task.relevance import count_matches

LOGGER = logging.getLogger("truerank")
LOGGER.addHandler(logging.NullHandler())  # what a warning says is not printed twice
SEED = 0
"""Of k-means; that of truerank.evaluate."""


class _WrongTypeError(InputError, TypeError):
    """What the original calls a TypeError."""


class _NotOfferedError(InputError, NotImplementedError):
    """What the original calls a NotImplementedError."""


class AccuracyCalculator:
    """Replace pytorch-metric-learning's AccuracyCalculator (version 2.9).

    Parameters
    ----------
    include, exclude : sequences of metric names
        As in the original: AMI, NMI and five retrieval metrics, and those of a subclass, which are
        its methods called calculate_ and a name.
    avg_of_avgs, return_per_class : bool
        Mean over classes instead of queries; or a list with one value for each class that has a
        mated query, in the order of the labels.
    k : int, "max_bin_count" or None
        Depth of the ranking. The whole ranking (None) costs nothing extra here.
    label_comparison_fn : callable, optional
        Which rows are relevant to each other, as a function of two tensors of labels.
    device : str or torch.device, optional
        "cpu" or "cuda". By default a GPU for tasks large enough to gain by it; the bits are the
        same. Tensors for your own functions are made there.
    knn_func, kmeans_func : callable, optional
        Called as in the original; the scores are then those of the lists and clusters that come
        back. By default rankings are exact, and clusters those of truerank's k-means.
    distance : str
        Not in the original, whose default is euclidean as here; "cosine" for normalised search.

    Examples
    --------
    >>> from truerank.compat import AccuracyCalculator
    >>> calculator = AccuracyCalculator(include=("precision_at_1", "NMI"))
    >>> calculator.get_accuracy([[0.0, 1], [0, 2], [3, 0], [4, 0]], [0, 0, 1, 1])
    {'NMI': 1.0, 'precision_at_1': 1.0}
    """

    function_keyword = "calculate_"

    def __init__(
        self,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        avg_of_avgs: bool = False,
        return_per_class: bool = False,
        k: int | str | None = None,
        label_comparison_fn: Callable[[Any, Any], Any] | None = None,
        device: Any = None,
        knn_func: Callable[..., Any] | None = None,
        kmeans_func: Callable[..., Any] | None = None,
        *,
        distance: str = "euclidean",
    ) -> None:
        methods = [name for name in dir(self) if name.startswith(self.function_keyword)]
        self.original_function_dict: dict[str, Callable[..., Any]] = {
            name.removeprefix(self.function_keyword): getattr(self, name) for name in methods
        }
        self.check_primary_metrics(include, exclude)
        self.original_function_dict = self.get_function_dict(include, exclude)
        self.curr_function_dict = self.get_function_dict()
        if avg_of_avgs and return_per_class:
            raise InputError("avg_of_avgs and return_per_class exclude each other; choose one.")
        if k not in (None, "max_bin_count") and not (
            isinstance(k, int) and not isinstance(k, bool) and k > 0
        ):
            raise InputError(
                f"k must be an int >= 1, None or 'max_bin_count'. Got {shortened(k)} instead."
            )
        if device is not None and str(device).partition(":")[0] not in ("cpu", "cuda"):
            raise InputError(f"device must be cpu or cuda. Got {shortened(device)} instead.")
        for name, function in (
            ("label_comparison_fn", label_comparison_fn),
            ("knn_func", knn_func),
            ("kmeans_func", kmeans_func),
        ):
            if function is not None and not callable(function):
                raise InputError(f"{name} must be a function. Got {shortened(function)} instead.")
        catalogue.find(distance)
        self.avg_of_avgs, self.return_per_class, self.k = avg_of_avgs, return_per_class, k
        self.knn_func, self.kmeans_func, self.distance = knn_func, kmeans_func, distance
        self._compare, self._device = label_comparison_fn, device
        clustered = [name for name in self.requires_clustering() if name in self.get_curr_metrics()]
        if label_comparison_fn is not None and clustered:
            raise _NotOfferedError(
                f"{either(clustered)} compares clusters with classes, and label_comparison_fn "
                "makes none; exclude AMI and NMI."
            )

    @property
    def label_comparison_fn(self) -> Callable[[Any, Any], Any]:
        """The function that compares labels; torch.eq where none was given."""
        if self._compare is not None:
            return self._compare
        import torch

        return torch.eq

    @property
    def device(self) -> Any:
        """Where tensors for the user's own functions are made."""
        import torch

        if self._device is None:
            return torch.device("cuda" if torch.cuda.is_available() else "cpu")
        return torch.device(self._device)

    # -- which metrics ------------------------------------------------------------------------

    def check_primary_metrics(
        self, include: Sequence[str] = (), exclude: Sequence[str] = ()
    ) -> None:
        """Refuse names that no method has."""
        for names in (include, exclude):
            if not isinstance(names, (tuple, list)):
                raise _WrongTypeError(
                    f"include and exclude must be tuples or lists. Got {shortened(names)} instead."
                )
        for name in (*include, *exclude):
            if name not in self.original_function_dict:
                known = ", ".join(self.original_function_dict)
                raise InputError(f"unknown metric {shortened(name)}; known are {known}.")

    def get_function_dict(
        self, include: Sequence[str] = (), exclude: Sequence[str] = ()
    ) -> dict[str, Callable[..., Any]]:
        """The methods by metric name."""
        return {
            name: function
            for name, function in self.original_function_dict.items()
            if (not include or name in include) and name not in exclude
        }

    def get_curr_metrics(self) -> list[str]:
        """The metrics that will be computed."""
        return list(self.curr_function_dict)

    def requires_clustering(self) -> list[str]:
        """The metrics that are given cluster_labels."""
        return ["NMI", "AMI"]

    def requires_knn(self) -> list[str]:
        """The metrics that are given lists of neighbors."""
        return list(METRICS)

    def description(self) -> str:
        """What the original adds to the name of a record."""
        return "avg_of_avgs" if self.avg_of_avgs else ""

    # -- the scores ---------------------------------------------------------------------------

    def get_accuracy(
        self,
        query: Any,
        query_labels: Any,
        reference: Any = None,
        reference_labels: Any = None,
        ref_includes_query: bool = False,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Scores by metric name.

        Without a reference each query is searched among all the others. With
        `ref_includes_query` the first rows of the reference must be the queries, and each query
        skips its own row; without it a query in the reference does find itself, as in the original.
        """
        self.check_primary_metrics(include, exclude)
        self.curr_function_dict = self.get_function_dict(include, exclude)
        sides = SearchSides.of(
            query, query_labels, reference, reference_labels, ref_includes_query, self._compare
        )
        chosen = self.get_curr_metrics()
        ranked = [name for name in chosen if name in METRICS and self._is_own(name)]
        if self.knn_func is not None:
            ranked = []
        called = {name: f for name, f in self.curr_function_dict.items() if name not in ranked}
        depth = 0
        if ranked or any(name in self.requires_knn() for name in called):
            own = int(sides.includes_query)
            bins = np.maximum(sides.mates, 0) + own
            depth = int(self.determine_k(bins, len(sides.reference), sides.includes_query))
            LOGGER.info("ranking %d queries, %d deep", len(sides.query), depth)
        found = {}
        if ranked:
            where = "auto" if self._device is None else str(self._device).partition(":")[0]
            values = per_query(sides, ranked, depth, distance=self.distance, device=where)
            found = {name: self._average(values[name], sides.classes) for name in ranked}
        if called:
            found |= self._get_accuracy(called, **self._arguments(sides, called, depth))
        return {name: found[name] for name in chosen}

    def determine_k(
        self, bin_counts: Any, num_reference_embeddings: int, ref_includes_query: bool
    ) -> int:
        """The depth of the rankings; warns where that is less than a metric needs."""
        own = int(ref_includes_query)
        most = int(as_array(bin_counts, "bin_counts").max()) - own
        if self.k == "max_bin_count":
            return most
        if not isinstance(self.k, int):
            return num_reference_embeddings - own
        short = [name for name in SHORT if name in self.curr_function_dict]
        if self.k < most and short:
            sentence = (
                f"k={self.k} is smaller than the largest number of relevant items ({most}), so "
                "that "
                f"{' and '.join(short)} {'counts' if len(short) == 1 else 'count'} relevant "
                f"items among the first {self.k} only; pass k=None, which costs nothing extra."
            )
            LOGGER.warning(sentence)
            warnings.warn(sentence, TruerankWarning, stacklevel=3)
        return self.k

    def get_cluster_labels(self, query: Any, query_labels: Any, **kwargs: Any) -> Any:
        """A cluster for each query, of as many as there are labels."""
        count = len(np.unique(as_array(query_labels, "query_labels"), axis=0))
        if self.kmeans_func is not None:
            return self.kmeans_func(query, count)
        space = build(self.distance, as_array(query, "query"))
        points = space.vectors()
        if points is None:
            needed = either(catalogue.names(points=True))
            raise InputError(f"k-means needs the {needed} distance. Got {self.distance!r}.")
        return cluster(space, points, count, SEED, available_cores())

    def _get_accuracy(
        self, function_dict: Mapping[str, Callable[..., Any]], **kwargs: Any
    ) -> dict[str, Any]:
        return {name: function(**kwargs) for name, function in function_dict.items()}

    def _is_own(self, name: str) -> bool:
        """Whether a metric is this class's, not that of a subclass under the same name."""
        method = self.function_keyword + name
        return getattr(type(self), method, None) is getattr(AccuracyCalculator, method, None)

    def _arguments(
        self, sides: SearchSides, called: Mapping[str, Any], depth: int
    ) -> dict[str, Any]:
        """What methods calculate_* are called with: the original's arguments."""
        clustered = [name for name in called if name in self.requires_clustering()]
        plain = all(name in ("NMI", "AMI") and self._is_own(name) for name in called)
        if plain and self.kmeans_func is None:  # no need of torch
            arguments: dict[str, Any] = {"query": sides.query, "query_labels": sides.codes[0]}
        else:
            arguments = tensors(sides, self.device, self.label_comparison_fn)
        if any(name in self.requires_knn() for name in called):
            arguments |= neighbors(sides, depth, arguments, self.knn_func, self.distance)
        if clustered:
            arguments["cluster_labels"] = self.get_cluster_labels(**arguments)
        return arguments

    def _average(self, values: Reals, classes: npt.NDArray[np.int64]) -> float | list[float]:
        counts = ~np.isnan(values)
        if self.return_per_class:
            numbers = np.unique(classes[counts] if counts.any() else classes)
            return [mean(values[counts & (classes == number)]) for number in numbers]
        if self.avg_of_avgs:
            return class_mean(values[counts], classes[counts])
        return mean(values[counts])

    # -- metrics of lists and clusters, as a user's function or subclass calls them -----------

    def calculate_NMI(self, query_labels: Any, cluster_labels: Any, **kwargs: Any) -> float:  # noqa: N802
        """Normalised mutual information of classes and clusters."""
        return _clustering("nmi", query_labels, cluster_labels)

    def calculate_AMI(self, query_labels: Any, cluster_labels: Any, **kwargs: Any) -> float:  # noqa: N802
        """Adjusted mutual information of classes and clusters."""
        return _clustering("ami", query_labels, cluster_labels)

    def calculate_precision_at_1(self, **kwargs: Any) -> float | list[float]:
        """Share of queries whose first neighbour is relevant."""
        return self._of_lists(precision_at_1, **kwargs)

    def calculate_mean_reciprocal_rank(self, **kwargs: Any) -> float | list[float]:
        """Mean of one over the place of the first relevant item."""
        return self._of_lists(reciprocal_rank, **kwargs)

    def calculate_mean_average_precision(self, **kwargs: Any) -> float | list[float]:
        """Mean of the precisions at the relevant items in the lists."""
        return self._of_lists(average_precision, **kwargs)

    def calculate_mean_average_precision_at_r(self, **kwargs: Any) -> float | list[float]:
        """Mean of the precisions at the relevant items among the first R places."""
        return self._of_lists(
            lambda same, mates: average_precision(same, mates, at_r=True), **kwargs
        )

    def calculate_r_precision(self, **kwargs: Any) -> float | list[float]:
        """Share of relevant items among the first R places."""
        return self._of_lists(r_precision, **kwargs)

    def _of_lists(
        self,
        formula: Callable[..., Reals],
        knn_labels: Any,
        query_labels: Any,
        not_lone_query_mask: Any,
        label_counts: tuple[Any, Any],
        ref_includes_query: bool = False,
        **kwargs: Any,
    ) -> float | list[float]:
        kept = np.flatnonzero(as_array(not_lone_query_mask, "not_lone_query_mask"))
        known, counts = (as_array(part, "label_counts") for part in label_counts)
        if not len(kept):
            nan = float("nan")
            return [nan] * len(known) if self.return_per_class else nan
        labels = query_labels[kept]
        if self._compare is None:
            same = as_array(labels[:, None] == knn_labels[kept], "knn_labels")
            same = np.asarray(same.all(axis=-1)) if same.ndim == 3 else same
            itself: Any = 1
        else:
            same = as_array(self._compare(labels[:, None], knn_labels[kept]), "knn_labels")
            itself = as_array(self._compare(labels, labels), "query_labels").astype(np.int64)
        own = as_array(labels, "query_labels")
        joined = np.concatenate([known.astype(np.float64), own.astype(np.float64)])
        codes = np.unique(joined, axis=0, return_inverse=True)[1].ravel()
        number = np.zeros(int(codes.max()) + 1, np.int64)
        number[codes[: len(known)]] = counts
        classes = codes[len(known) :]
        mates = number[classes] - (itself if ref_includes_query else 0)
        return self._average(formula(same.astype(bool), mates), classes)


def _clustering(name: str, labels: Any, clusters: Any) -> float:
    both = (as_array(labels, "query_labels"), as_array(clusters, "cluster_labels"))
    codes = [np.unique(part, axis=0, return_inverse=True)[1].ravel() for part in both]
    return FORMULAS[name](Contingency.of(*codes))


# What a user's own functions are called with: the original's arguments, as tensors.


def tensors(sides: SearchSides, device: Any, compare: Callable[[Any, Any], Any]) -> dict[str, Any]:
    """Rows and labels of both sides, and what was said about them."""
    query, reference = sides.tensors(device)
    labels, others = sides.label_tensors(device)
    return {
        "query": query,
        "reference": reference,
        "query_labels": labels,
        "reference_labels": others,
        "ref_includes_query": sides.includes_query,
        "label_comparison_fn": compare,
    }


def neighbors(
    sides: SearchSides,
    depth: int,
    given: Mapping[str, Any],
    knn_func: Callable[..., Any] | None,
    distance: str,
) -> dict[str, Any]:
    """Lists of neighbors, by the user's function or exact ones, and how many mates there are."""
    import torch

    labels, others = given["query_labels"], given["reference_labels"]
    device = labels.device
    if knn_func is not None:
        apart, places = knn_func(given["query"], depth, given["reference"], sides.includes_query)
    else:
        gallery = None if sides.reference is sides.query else sides.reference
        far, near = nearest(sides, build(distance, sides.query, gallery), depth)
        if catalogue.find(distance).points == "rows":  # squared, as the original's euclidean
            far = far * far
        apart = torch.tensor(far, dtype=torch.float32, device=device)
        places = torch.tensor(near, device=device)
    near_labels = others[places]
    near_labels[places < 0] = float("nan")  # faiss: fewer neighbors than asked for
    lone = torch.tensor(sides.mates <= 0, device=device)
    distinct = torch.tensor(sides.distinct, device=device)
    return {
        "label_counts": (labels[distinct], torch.tensor(sides.counts, device=device)),
        "knn_labels": near_labels,
        "knn_distances": apart,
        "lone_query_labels": labels[distinct][lone[distinct]],
        "not_lone_query_mask": ~lone,
    }


# The five retrieval metrics of AccuracyCalculator by truerank.evaluate, query by query.


METRICS = {
    "mean_average_precision": "map",
    "mean_average_precision_at_r": "map@r",
    "mean_reciprocal_rank": "mrr",
    "precision_at_1": "precision@1",
    "r_precision": "r_precision",
}
SHORT = {"mean_average_precision_at_r": "map", "r_precision": "precision"}
"""What a metric at R becomes, at k, for queries with more than k mates."""


def per_query(
    sides: SearchSides, chosen: Sequence[str], depth: int, *, distance: str, device: str
) -> dict[str, Reals]:
    """The values of each query by metric, NaN for queries without a mate.

    Rankings end after `depth` items: what comes later is not found.
    """
    depth = max(depth, 1)
    whole = depth >= len(sides.reference) - int(sides.includes_query)
    cut_off = sides.mates > depth
    wanted: dict[str, list[str]] = {}
    for name in chosen:
        metric = METRICS[name]
        wanted[name] = [f"map@{depth}" if metric == "map" and not whole else metric]
        if name in SHORT and cut_off.any():
            wanted[name].append(f"{SHORT[name]}@{depth}")
    metrics = list(dict.fromkeys(metric for some in wanted.values() for metric in some))
    result = evaluate(
        sides.query,
        **_task(sides),
        distance=distance,
        metrics=metrics,
        device=device,
        confidence=None,
    )
    found = {}
    for name in chosen:
        first, *short = (_lower(result[metric], len(sides.query)) for metric in wanted[name])
        if short:
            first = np.where(cut_off, short[0], first)
        if name == "mean_reciprocal_rank":  # NaN stays: it is smaller than nothing
            first = np.where(first < 1 / depth, 0.0, first)
        found[name] = first
    return found


def _lower(score: Any, queries: int) -> Reals:
    rows: Reals = np.full(queries, np.nan) if score.per_query is None else score.per_query.lower
    return rows


def _task(sides: SearchSides) -> dict[str, Any]:
    """The arguments of evaluate but for the queries; a query and its own row share an id."""
    count, items = len(sides.query), len(sides.reference)
    first = 0 if sides.includes_query else count
    ids = {"query_ids": np.arange(count), "gallery_ids": np.arange(first, first + items)}
    if sides.compare is not None:
        relevance = sides.relevant(np.arange(count))
        return {"gallery": sides.reference, "relevance": relevance, **ids}
    own, others = sides.codes if sides.labels[0].ndim == 2 else sides.labels
    if sides.includes_query and sides.reference is sides.query:
        return {"labels": own}
    return {"labels": own, "gallery": sides.reference, "gallery_labels": others, **ids}


# Lists of neighbors: how they are made where nobody else makes them, and what they score.
#
# `same` is (queries, places): whether the neighbor in each place is a mate. `mates` is how many
# mates each query has in all, found or not.


HELD = 1 << 22
"""Distances held at a time while lists are made."""


def nearest(sides: SearchSides, space: Space, depth: int) -> tuple[Reals, Integers]:
    """The nearest rows of the reference, and how far they are; of equally near ones mates last."""
    items = len(sides.reference)
    depth = min(depth, items - int(sides.includes_query))
    distances = np.empty((len(sides.query), depth))
    places = np.empty((len(sides.query), depth), np.int64)
    step = max(1, HELD // items)
    for top in range(0, len(sides.query), step):
        rows = np.arange(top, min(top + step, len(sides.query)))
        block = np.array(space.block(rows)(0, items))
        if sides.includes_query:
            block[np.arange(len(rows)), rows] = np.inf
        order = np.lexsort((sides.relevant(rows), block))[:, :depth]
        places[rows] = order
        distances[rows] = np.take_along_axis(block, order, axis=1)
    shape = distances.shape
    return np.asarray(space.in_unit(distances.ravel()).reshape(shape), np.float64), places


def precision_at_1(same: Flags, mates: Integers) -> Reals:
    """1 where the first neighbor is a mate."""
    return np.asarray(same[:, :1].any(axis=1), np.float64)


def reciprocal_rank(same: Flags, mates: Integers) -> Reals:
    """One over the place of the first mate; 0 where there is none in the list."""
    found = same.any(axis=1)
    first = same.argmax(axis=1) if same.shape[1] else np.zeros(len(same), np.int64)
    return np.where(found, 1.0 / (first + 1), 0.0)


def average_precision(same: Flags, mates: Integers, *, at_r: bool = False) -> Reals:
    """Sum of the precisions at the mates found, over the number of mates.

    At R only the first places count, as many as there are mates.
    """
    rank = np.arange(1, same.shape[1] + 1)
    counted = same & (rank <= mates[:, None]) if at_r else same
    precision = np.cumsum(counted, axis=1) / rank
    return np.asarray((precision * counted).sum(axis=1) / mates, np.float64)


def r_precision(same: Flags, mates: Integers) -> Reals:
    """Share of mates among the first R places, or among all where the list is shorter."""
    places = np.minimum(mates, same.shape[1])
    counted = same & (np.arange(same.shape[1]) < mates[:, None])
    return np.asarray(counted.sum(axis=1) / np.maximum(places, 1), np.float64)


# Queries, what they are searched among, and who is a mate of whom, for AccuracyCalculator.


EXACT_IN_FLOAT32 = 2**24
NAMES = ("query_labels", "reference_labels")


@dataclass(frozen=True, eq=False)
class SearchSides:
    """Both sides of a search, checked."""

    query: Array
    reference: Array
    labels: tuple[Array, Array]
    """Labels of the queries and of the reference, of one kind."""
    includes_query: bool
    """Whether the first rows of the reference are the queries, each of which skips its own."""
    compare: Callable[[Any, Any], Any] | None

    @staticmethod
    def of(
        query: Any,
        query_labels: Any,
        reference: Any,
        reference_labels: Any,
        includes_query: bool,
        compare: Callable[[Any, Any], Any] | None,
    ) -> SearchSides:
        """Both sides from what a user passes; without a reference the queries are their own."""
        if (reference is None) != (reference_labels is None):
            raise InputError("reference and reference_labels come together; pass both or neither.")
        rows = as_matrix(query, "query")
        own = as_array(query_labels, NAMES[0])
        _check_length(rows, own, "query")
        if reference is None:
            items, others, includes_query = rows, own, True
        else:
            items = as_matrix(reference, "reference")
            others = as_array(reference_labels, NAMES[1])
            _check_length(items, others, "reference")
        labels = _of_one_kind(own, others)
        if rows.shape[1] != items.shape[1]:
            raise InputError(
                "query and reference must have the same number of dimensions. "
                f"Got {rows.shape} and {items.shape}."
            )
        if includes_query and not _begins_with(items, rows, labels):
            raise InputError(
                "with ref_includes_query the first rows of reference and reference_labels must "
                "be the queries and their labels."
            )
        if compare is not None and labels[0].dtype.kind not in "biuf":
            raise InputError(
                "label_comparison_fn is given labels as tensors, as in the original, so they must "
                f"be numbers. Got {labels[0].dtype} instead."
            )
        return SearchSides(rows, items, labels, bool(includes_query), compare)

    @cached_property
    def codes(self) -> tuple[Integers, Integers]:
        """A number for each label, equal for equal labels, ascending with them."""
        own, others = self.labels
        if own.ndim == 2:
            joined = np.concatenate([own, others])
            codes = np.unique(joined, axis=0, return_inverse=True)[1].ravel().astype(np.int64)
            return codes[: len(own)], codes[len(own) :]
        found = encode((own, others), NAMES).codes
        return found[0], found[1]

    @cached_property
    def classes(self) -> Integers:
        """The place of each query's label among the distinct ones."""
        return np.unique(self.codes[0], return_inverse=True)[1].astype(np.int64)

    @cached_property
    def distinct(self) -> Integers:
        """A query of each distinct label, in the labels' order."""
        return np.unique(self.codes[0], return_index=True)[1].astype(np.int64)

    @cached_property
    def counts(self) -> Integers:
        """How many rows of the reference match each distinct label, the query's own included."""
        if self.compare is not None:
            return np.asarray(self._table.sum(axis=1), np.int64)
        own, others = self.codes
        return count_matches([own[self.distinct]], [others])

    @cached_property
    def mates(self) -> Integers:
        """How many rows of the reference each query should find; not itself."""
        found = self.counts[self.classes]
        if not self.includes_query:
            return found
        rows = np.arange(len(found))
        itself = 1 if self.compare is None else self._table[self.classes, rows].astype(np.int64)
        return np.asarray(found - itself, np.int64)

    def relevant(self, rows: Integers) -> npt.NDArray[np.bool_]:
        """(rows, reference): which rows of the reference match each of these queries."""
        if self.compare is not None:
            return np.asarray(self._table[self.classes[rows]])
        own, others = self.codes
        return np.asarray(own[rows, None] == others)

    @cached_property
    def _table(self) -> npt.NDArray[np.bool_]:
        """(distinct labels, reference): what the user's function says, a label at a time."""
        if self.compare is None:
            raise TypeError("labels that match by value need no table")
        own, others = self.label_tensors("cpu")
        table = np.empty((len(self.distinct), len(others)), bool)
        for place, row in enumerate(self.distinct.tolist()):
            same = as_array(self.compare(own[row : row + 1], others), "label_comparison_fn")
            if same.shape != (len(others),):
                raise InputError(
                    "label_comparison_fn must say of each label whether it matches: of "
                    f"{len(others)} labels it made an array of shape {same.shape}."
                )
            table[place] = same
        return table

    def tensors(self, device: Any) -> tuple[Any, Any]:
        """Both sides' rows as the original hands them to functions: float32 tensors."""
        query = _tensor(self.query, device)
        return query, query if self.reference is self.query else _tensor(self.reference, device)

    def label_tensors(self, device: Any) -> tuple[Any, Any]:
        """Both sides' labels as tensors of floats that hold them exactly; text by its number."""
        labels = self.codes if self.labels[0].dtype.kind not in "biuf" else self.labels
        wide = any(not _fits_float32(side) for side in labels)
        own, others = (_tensor(side, device, wide) for side in labels)
        return own, others


def _check_length(rows: Array, labels: Array, name: str) -> None:
    if labels.shape[:1] != rows.shape[:1]:
        raise InputError(
            f"{name} has {len(rows)} rows but {name}_labels has shape {labels.shape}; pass one "
            "label for each row."
        )


def _of_one_kind(own: Array, others: Array) -> tuple[Array, Array]:
    """Integers and floats as numbers; a column of labels as a row of them."""
    sides = [
        side[:, 0] if side.ndim == 2 and side.shape[1] == 1 else side for side in (own, others)
    ]
    if sides[0].shape[1:] != sides[1].shape[1:] or sides[0].ndim > 2:
        raise InputError(
            "query_labels and reference_labels must have the same number of columns. "
            f"Got shapes {own.shape} and {others.shape}."
        )
    kinds = {side.dtype.kind for side in sides}
    if kinds & set("f") and kinds <= set("biuf"):
        sides = [side.astype(np.float64) for side in sides]
    return sides[0], sides[1]


def _begins_with(items: Array, rows: Array, labels: tuple[Array, Array]) -> bool:
    """Whether the queries stand first in the reference, but for last bits, with their labels."""
    count = len(rows)
    return (
        len(items) >= count
        and (items is rows or np.allclose(rows, items[:count]))
        and np.array_equal(labels[0], labels[1][:count])
    )


def _fits_float32(labels: Array) -> bool:
    if labels.dtype.kind == "f":
        return bool(np.array_equal(labels, labels.astype(np.float32)))
    return bool(np.abs(labels.astype(np.float64)).max(initial=0.0) <= EXACT_IN_FLOAT32)


def _tensor(values: Array, device: Any, wide: bool = False) -> Any:
    import torch

    return torch.tensor(values.astype(np.float64 if wide else np.float32), device=device)
