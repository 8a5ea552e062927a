"""AccuracyCalculator: pytorch-metric-learning's class of this name, with exact scores.

Its own metrics come from truerank.evaluate. Where a user brings a function of neighbours
(`knn_func`, methods calculate_* of a subclass), lists of neighbours are made for it, at their cost.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank import engine
from truerank.arrays import as_array
from truerank.clustering import cluster
from truerank.compat import exact, lists
from truerank.compat.arguments import neighbours, tensors
from truerank.compat.sides import Sides
from truerank.core.average import class_mean, mean
from truerank.errors import InputError, TruerankWarning, shortened
from truerank.metrics.clustering import FORMULAS, Contingency
from truerank.space import build, catalogue
from truerank.wording import either

__all__ = ["AccuracyCalculator"]

LOGGER = logging.getLogger("truerank")
LOGGER.addHandler(logging.NullHandler())  # what a warning says is not printed twice
Array = npt.NDArray[Any]
Reals = npt.NDArray[np.float64]
SEED = 0
"""Of k-means; that of truerank.evaluate."""


class _WrongTypeError(InputError, TypeError):
    """What the original calls a TypeError."""


class _NotOfferedError(InputError, NotImplementedError):
    """What the original calls a NotImplementedError."""


class AccuracyCalculator:
    """The shape of pytorch-metric-learning's class of this name (version 2.9).

    Parameters
    ----------
    include, exclude : sequences of metric names
        As in the original: AMI, NMI and five retrieval metrics, and those of a subclass, which are
        its methods called calculate_ and a name.
    avg_of_avgs, return_per_class : bool
        Mean over classes instead of queries; or a list with one value for each class that has a
        query with a mate, in the order of the labels.
    k : int, "max_bin_count" or None
        Depth of the ranking. The whole ranking (None) costs nothing extra here.
    label_comparison_fn : callable, optional
        Who is a mate of whom, as a function of two tensors of labels.
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
        """The metrics that are given lists of neighbours."""
        return list(exact.METRICS)

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
        sides = Sides.of(
            query, query_labels, reference, reference_labels, ref_includes_query, self._compare
        )
        chosen = self.get_curr_metrics()
        ranked = [name for name in chosen if name in exact.METRICS and self._is_own(name)]
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
            values = exact.per_query(sides, ranked, depth, distance=self.distance, device=where)
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
        short = [name for name in exact.SHORT if name in self.curr_function_dict]
        if self.k < most and short:
            sentence = (
                f"k={self.k} is smaller than the largest number of mates ({most}), so that "
                f"{' and '.join(short)} {'counts' if len(short) == 1 else 'count'} mates among "
                f"the first {self.k} only; pass k=None, which costs nothing extra."
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
        return cluster(space, points, count, SEED, engine.available_cores())

    def _get_accuracy(
        self, function_dict: Mapping[str, Callable[..., Any]], **kwargs: Any
    ) -> dict[str, Any]:
        return {name: function(**kwargs) for name, function in function_dict.items()}

    def _is_own(self, name: str) -> bool:
        """Whether a metric is this class's, not that of a subclass under the same name."""
        method = self.function_keyword + name
        return getattr(type(self), method, None) is getattr(AccuracyCalculator, method, None)

    def _arguments(self, sides: Sides, called: Mapping[str, Any], depth: int) -> dict[str, Any]:
        """What methods calculate_* are called with: the original's arguments."""
        clustered = [name for name in called if name in self.requires_clustering()]
        plain = all(name in ("NMI", "AMI") and self._is_own(name) for name in called)
        if plain and self.kmeans_func is None:  # no need of torch
            arguments: dict[str, Any] = {"query": sides.query, "query_labels": sides.codes[0]}
        else:
            arguments = tensors(sides, self.device, self.label_comparison_fn)
        if any(name in self.requires_knn() for name in called):
            arguments |= neighbours(sides, depth, arguments, self.knn_func, self.distance)
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
        """Share of queries whose first neighbour is a mate."""
        return self._of_lists(lists.precision_at_1, **kwargs)

    def calculate_mean_reciprocal_rank(self, **kwargs: Any) -> float | list[float]:
        """Mean of one over the place of the first mate."""
        return self._of_lists(lists.reciprocal_rank, **kwargs)

    def calculate_mean_average_precision(self, **kwargs: Any) -> float | list[float]:
        """Mean of the precisions at the mates in the lists."""
        return self._of_lists(lists.average_precision, **kwargs)

    def calculate_mean_average_precision_at_r(self, **kwargs: Any) -> float | list[float]:
        """Mean of the precisions at the mates among the first R places."""
        return self._of_lists(
            lambda same, mates: lists.average_precision(same, mates, at_r=True), **kwargs
        )

    def calculate_r_precision(self, **kwargs: Any) -> float | list[float]:
        """Share of mates among the first R places."""
        return self._of_lists(lists.r_precision, **kwargs)

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
