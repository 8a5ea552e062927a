"""Drop-in replacements: other libraries' calls, truerank's exact numbers.

Every argument of the original is obeyed or refused with a sentence, never ignored. Where scores
tie, the value is the lower bound, as everywhere in truerank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.arrays import as_array, as_matrix
from truerank.core.average import class_mean, mean
from truerank.core.score import Score
from truerank.errors import InputError
from truerank.evaluation import evaluate
from truerank.labels import encode
from truerank.pairs import count_matches

__all__ = ["AccuracyCalculator", "evaluate_rank"]

_METRICS = {
    "mean_average_precision": "map",
    "mean_average_precision_at_r": "map@r",
    "mean_reciprocal_rank": "mrr",
    "precision_at_1": "precision@1",
    "r_precision": "r_precision",
}
_CLUSTERING = ("AMI", "NMI")


class AccuracyCalculator:
    """The shape of pytorch-metric-learning's class of this name (version 2.9).

    Parameters
    ----------
    include, exclude : sequences of metric names
        As in the original; AMI and NMI (clustering) are not offered, so by default the five
        retrieval metrics are computed.
    avg_of_avgs, return_per_class : bool
        Mean over classes instead of queries; or a list with one value for each class that has a
        query with a mate, in the order of the labels.
    k : int, "max_bin_count" or None
        Depth of the ranking for mean_average_precision and mean_reciprocal_rank. The whole ranking
        (None) costs nothing extra here.
    device : None or "cpu"
    distance : str
        Not in the original, whose default is euclidean as here; "cosine" for normalised search.

    Examples
    --------
    >>> from truerank.compat import AccuracyCalculator
    >>> calculator = AccuracyCalculator(include=("precision_at_1",))
    >>> calculator.get_accuracy([[0.0, 1], [0, 2], [1, 0], [2, 0]], [0, 0, 1, 1])
    {'precision_at_1': 1.0}
    """

    def __init__(
        self,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        avg_of_avgs: bool = False,
        return_per_class: bool = False,
        k: int | str | None = None,
        label_comparison_fn: Any = None,
        device: Any = None,
        knn_func: Any = None,
        kmeans_func: Any = None,
        *,
        distance: str = "euclidean",
    ) -> None:
        for name, value, instead in (
            ("label_comparison_fn", label_comparison_fn, "truerank.evaluate(relevance=...)"),
            ("knn_func", knn_func, "the distance argument"),
            ("kmeans_func", kmeans_func, "a clustering library"),
        ):
            if value is not None:
                raise InputError(f"{name} is not supported by this replacement; use {instead}.")
        if device is not None and str(device) != "cpu":
            raise InputError(f"this replacement computes on the CPU. Got device {device!r}.")
        if avg_of_avgs and return_per_class:
            raise InputError("avg_of_avgs and return_per_class exclude each other; choose one.")
        if k not in (None, "max_bin_count") and not (
            isinstance(k, int) and not isinstance(k, bool) and k > 0
        ):
            raise InputError(f"k must be an int >= 1, None or 'max_bin_count'. Got {k!r} instead.")
        self.avg_of_avgs, self.return_per_class, self.k = avg_of_avgs, return_per_class, k
        self.distance = distance
        self._metrics = _select(list(_METRICS), include, exclude)

    def get_curr_metrics(self) -> list[str]:
        """The metrics that will be computed."""
        return list(self._metrics)

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
        chosen = _select(self._metrics, include, exclude)
        if (reference is None) != (reference_labels is None):
            raise InputError("reference and reference_labels come together; pass both or neither.")
        labels, gallery_labels = _codes(query_labels, reference_labels)
        if reference is None:
            sides: dict[str, Any] = {}
            most = _largest_class(labels, labels) - 1
        else:
            rows = as_matrix(query, "query")
            gallery = as_matrix(reference, "reference")
            count = len(rows)
            if len(gallery_labels) != len(gallery):
                raise InputError(
                    f"reference has {len(gallery)} rows but reference_labels {len(gallery_labels)}."
                )
            if ref_includes_query and not (
                len(gallery) >= count
                and np.array_equal(rows, gallery[:count])
                and np.array_equal(labels, gallery_labels[:count])
            ):
                raise InputError(
                    "with ref_includes_query the first rows of reference and reference_labels must "
                    "be the queries and their labels."
                )
            first = 0 if ref_includes_query else count
            sides = {
                "gallery": gallery,
                "gallery_labels": gallery_labels,
                "query_ids": np.arange(count),
                "gallery_ids": np.arange(first, first + len(gallery)),
            }
            most = _largest_class(labels, gallery_labels) - int(ref_includes_query)
        depth = most if self.k == "max_bin_count" else self.k
        self._check_depth(chosen, depth, most)
        names = [self._metric(name, depth) for name in chosen]
        result = evaluate(
            query,
            labels,
            **sides,
            distance=self.distance,
            metrics=list(dict.fromkeys(names)),
            average="class" if self.avg_of_avgs else "query",
            confidence=None,
        )
        classes = np.unique(labels, return_inverse=True)[1]
        return {
            name: self._value(result[metric], name, depth, classes)
            for name, metric in zip(chosen, names, strict=True)
        }

    @staticmethod
    def _metric(name: str, depth: Any) -> str:
        if name == "mean_average_precision" and depth is not None:
            return f"map@{max(depth, 1)}"
        return _METRICS[name]

    @staticmethod
    def _check_depth(chosen: list[str], depth: Any, most: int) -> None:
        deep = [name for name in chosen if name in ("r_precision", "mean_average_precision_at_r")]
        if depth is not None and depth < most and deep:
            raise InputError(
                f"k={depth} is smaller than the largest number of mates ({most}), with which "
                f"{deep[0]} would be wrong; pass k=None, which costs nothing extra."
            )

    def _value(
        self, score: Score, name: str, depth: Any, classes: npt.NDArray[np.int64]
    ) -> float | list[float]:
        limited = name == "mean_reciprocal_rank" and depth is not None
        if score.per_query is None or not (limited or self.return_per_class):
            return score.value
        values = score.per_query.lower
        if limited:  # a first mate beyond rank k is not found
            values = np.where(
                values >= 1 / max(depth, 1), values, np.where(values > 0, 0.0, values)
            )
        counts = ~np.isnan(values)
        if self.return_per_class:
            return [
                mean(values[counts & (classes == number)]) for number in np.unique(classes[counts])
            ]
        if self.avg_of_avgs:
            return class_mean(values[counts], classes[counts])
        return mean(values[counts])


def _codes(labels: Any, gallery_labels: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Labels of both sides as one column each; rows of a label matrix match as a whole."""
    own = as_array(labels, "query_labels")
    other = own if gallery_labels is None else as_array(gallery_labels, "reference_labels")
    if own.ndim != 2 or other.ndim != 2 or own.shape[1] != other.shape[1]:
        return own, other
    codes = np.unique(np.concatenate([own, other]), axis=0, return_inverse=True)[1].ravel()
    return codes[: len(own)], codes[len(own) :]


def _largest_class(labels: npt.NDArray[Any], gallery_labels: npt.NDArray[Any]) -> int:
    """The most gallery items any query's label has."""
    codes = encode((labels, gallery_labels), ("query_labels", "reference_labels")).codes
    return int(count_matches([codes[0]], [codes[1]]).max())


def _select(known: Sequence[str], include: Sequence[str], exclude: Sequence[str]) -> list[str]:
    for names in (include, exclude):
        if not isinstance(names, (tuple, list)):
            raise InputError(f"include and exclude must be tuples or lists. Got {names!r} instead.")
    for name in include:
        if name in _CLUSTERING:
            raise InputError(f"{name} clusters the embeddings, which is not offered here.")
    for name in (*include, *exclude):
        if name not in _METRICS and name not in _CLUSTERING:
            raise InputError(f"unknown metric {name!r}; known are {', '.join(_METRICS)}.")
    return [name for name in known if (not include or name in include) and name not in exclude]


def evaluate_rank(
    distmat: Any,
    q_pids: Any,
    g_pids: Any,
    q_camids: Any,
    g_camids: Any,
    max_rank: int = 50,
    use_metric_cuhk03: bool = False,
    use_cython: bool = True,
) -> tuple[npt.NDArray[np.float64], float]:
    """torchreid's evaluate_rank: the CMC curve up to max_rank, and mAP.

    Gallery items with the query's identity and camera are junk; queries without another mate do
    not count. `use_cython` chooses between two speeds in the original and changes no value there or
    here. The cuhk03 protocol draws random galleries and is refused.

    Examples
    --------
    >>> from truerank.compat import evaluate_rank
    >>> cmc, mean_ap = evaluate_rank([[0.1, 0.4], [0.7, 0.2]], [0, 1], [0, 1], [0, 0], [1, 1], 2)
    >>> cmc.tolist(), mean_ap
    ([1.0, 1.0], 1.0)
    """
    if use_metric_cuhk03:
        raise InputError(
            "use_metric_cuhk03 samples random galleries, so its numbers change from run to run; "
            "evaluate the fixed new cuhk03 split instead."
        )
    if not isinstance(max_rank, (int, np.integer)) or max_rank < 1:
        raise InputError(f"max_rank must be an int >= 1. Got {max_rank!r} instead.")
    matrix = as_matrix(distmat, "distmat")
    for name, values, expected in (
        ("q_pids", q_pids, matrix.shape[0]),
        ("q_camids", q_camids, matrix.shape[0]),
        ("g_pids", g_pids, matrix.shape[1]),
        ("g_camids", g_camids, matrix.shape[1]),
    ):
        given = as_array(values, name)
        if given.shape != (expected,):
            raise InputError(
                f"distmat of shape {matrix.shape} needs {expected} {name}, one each. "
                f"Got shape {given.shape}."
            )
    ranks = min(int(max_rank), matrix.shape[1])
    result = evaluate(
        matrix,
        q_pids,
        gallery_labels=g_pids,
        query_groups=q_camids,
        gallery_groups=g_camids,
        distance="precomputed",
        metrics=["map", *(f"hit@{rank}" for rank in range(1, ranks + 1))],
        confidence=None,
    )
    if result["map"].reason is not None:
        counts = ", ".join(f"{n} {why}" for why, n in result.provenance["no_mate"].items())
        raise InputError(
            f"no query has a mate in the gallery ({counts}); mates seen by the query's own camera "
            "are junk, so check q_camids and g_camids."
        )
    cmc = np.array([result[f"hit@{rank}"].value for rank in range(1, ranks + 1)])
    return cmc, result["map"].value
