"""verify: an explicit list of trials, with scores or embeddings, becomes a Result."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.arrays import as_array, as_matrix, as_plain
from truerank.core import registry
from truerank.core.score import split_undefined
from truerank.engine.distance_block import DistanceBlock
from truerank.errors import InputError, TruerankWarning
from truerank.families.family import Positives, Units
from truerank.families.pool import Pooled
from truerank.families.verification.curves import curves
from truerank.families.verification.pooled import PooledPairs
from truerank.files.trials import Trials, read_trials
from truerank.jit import compiled
from truerank.result import Result
from truerank.space import Space, build, catalogue, probe
from truerank.version import __version__

__all__ = ["verify"]

DEFAULT = ("auc", "eer", "min_dcf", "tar@far=0.01", "tar@far=0.001")


def verify(
    scores_or_embeddings: Any,
    pairs: Any,
    metrics: Iterable[str] | str | None = None,
    *,
    ids: Any = None,
    distance: str | None = None,
    layout: str = "auto",
) -> Result:
    """Score an explicit list of verification trials (LFW, VoxCeleb, IJB, your own).

    Parameters
    ----------
    scores_or_embeddings : (T,) or (N, d), or a path, or None
        One score for each trial, or one embedding for each id; None where the list has scores.
    pairs : path, or sequence of (left, right, same)
        The trials. Ids are those of `ids`, or row numbers of the embeddings.
    metrics : strings, optional
        Of the verification family; by default auc, eer, min_dcf, tar@far=0.01, tar@far=0.001.
    ids : (N,), optional
        Whose embedding each row is.
    distance : str, optional
        For embeddings as in evaluate (cosine by default); for scores "similarity" (larger means
        the same, the default) or "precomputed" (smaller does).
    layout : str
        Of a file of trials: auto, lfw, voxceleb, ijb or csv.

    Returns
    -------
    Result
        A mapping from metric string to Score; `curve("roc")` and `curve("det")` besides, and
        `curve("f1")` with best_f1.

    Examples
    --------
    >>> import truerank
    >>> trials = [("a", "b", True), ("a", "c", False), ("b", "c", False)]
    >>> truerank.verify([[1.0, 0], [1, 0.2], [0, 1]], trials, ids=["a", "b", "c"])["auc"].value
    1.0
    >>> truerank.verify([0.9, 0.1, 0.3], trials, "eer")["eer"].value
    0.0
    """
    started = time.perf_counter()
    trials = pairs if isinstance(pairs, Trials) else _trials(pairs, layout)
    chosen = registry.parse_all(DEFAULT if metrics is None else _all(metrics))
    for metric in chosen:
        if registry.definition(metric).family != "verification":
            raise InputError(
                f"a list of trials has no {metric}; ask for one of {', '.join(_names())}."
            )
    space, distances = _distances(scores_or_embeddings, trials, ids, distance)
    units = Units(space)
    pool = Pooled(
        Positives(np.zeros(int(trials.same.sum()), np.int64), distances[trials.same]),
        1,
        sample=np.empty(0),
        pairs=0,
        targets=[],
        thresholds=[units.cut(tau) for metric in chosen if (tau := metric.get("tau")) is not None],
        whole_curve=True,
        sweep=lambda observers: None,
    )
    for observer in pool.observers:
        observer.observe_at_once(DistanceBlock(np.zeros(1, np.int64), distances[None, :], compiled))
    judged = PooledPairs(pool, units, both_orders=False)
    scores = {}
    for metric in chosen:
        score = judged.score(metric)
        reason = "a list of trials names no classes" if score.reason is None else None
        scores[str(metric)] = replace(score, interval_reason=reason)
    for sentence in registry.warnings_about(scores.values()):
        warnings.warn(sentence, TruerankWarning, stacklevel=2)
    skipped: dict[str, str] = {}
    if metrics is None:
        scores, skipped = split_undefined(scores)
    provenance = {
        "version": __version__,
        "trials": {"positive": int(trials.same.sum()), "negative": int((~trials.same).sum())},
        "folds": None if trials.folds is None else _folds(trials.folds, trials, distances),
        "distance": space.facts.to_dict(),
        "seconds": round(time.perf_counter() - started, 3),
    }
    return Result(scores, skipped=skipped, provenance=provenance, curves=curves(judged, chosen))


def _names() -> list[str]:
    return [name for name in registry.names() if registry.entry(name).family == "verification"]


def _all(metrics: Iterable[str] | str) -> Iterable[str] | str:
    if isinstance(metrics, str) and metrics == "all":
        return [text for name in _names() for text in registry.entry(name).examples]
    return metrics


def _trials(pairs: Any, layout: str) -> Trials:
    if isinstance(pairs, (str, os.PathLike)):
        return read_trials(pairs, layout)
    if not isinstance(pairs, Sequence) and not isinstance(pairs, np.ndarray):
        raise InputError("pairs must be a path or a sequence of (left, right, same).")
    left, right, same = [], [], []
    for number, trial in enumerate(pairs):
        if not np.iterable(trial) or isinstance(trial, str) or len(list(trial)) != 3:
            raise InputError(f"trial {number} must be (left, right, same). Got {trial!r} instead.")
        one, two, flag = trial
        if flag not in (True, False, 0, 1):
            raise InputError(f"trial {number} must say True or False, not {flag!r}.")
        left.append(as_plain(one))
        right.append(as_plain(two))
        same.append(bool(flag))
    if not left:
        raise InputError("pairs is empty; at least one trial is needed.")
    return Trials(left, right, np.array(same, bool))


def _distances(
    values: Any, trials: Trials, ids: Any, distance: str | None
) -> tuple[Space, npt.NDArray[np.float64]]:
    if values is None:
        if trials.scores is None:
            raise InputError("the trials have no scores; pass scores or embeddings.")
        values = trials.scores
    if not isinstance(values, (str, os.PathLike)):
        array = as_array(values, "scores_or_embeddings")
        if array.ndim == 1:
            return _scores(array, trials, distance or "similarity")
        values = array
    distance = distance or "cosine"
    if distance not in catalogue.names(given=False):
        raise InputError(f"embeddings have no distance {distance!r}; choose cosine, euclidean, ...")
    rows = as_matrix(values, "embeddings")
    place = _places(ids, len(rows))
    left, right = (_find(side, place, ids is None) for side in (trials.left, trials.right))
    space = build(distance, rows)
    probe(space)
    return space, space.pairs(left, right)


def _scores(
    scores: npt.NDArray[Any], trials: Trials, distance: str
) -> tuple[Space, npt.NDArray[np.float64]]:
    if distance not in catalogue.names(given=True):
        raise InputError(
            "scores are of similarity (larger means the same) or precomputed distances. "
            f"Got {distance!r} instead."
        )
    if len(scores) != len(trials):
        raise InputError(f"there are {len(scores)} scores but {len(trials)} trials; pass as many.")
    space = build(distance, as_matrix(scores[:, None], "scores"))
    index = np.arange(len(scores))
    return space, space.pairs(index, np.zeros_like(index))


def _places(ids: Any, count: int) -> dict[Any, int]:
    if ids is None:
        return {number: number for number in range(count)}
    names = [as_plain(name) for name in (ids if isinstance(ids, list) else as_array(ids, "ids"))]
    if len(names) != count:
        raise InputError(f"ids must have one value a row ({count}). Got {len(names)}.")
    place = {name: number for number, name in enumerate(names)}
    if len(place) != count:
        raise InputError("ids name a row twice; every embedding needs an id of its own.")
    if not any(isinstance(name, str) for name in names):  # files of trials hold text
        place |= {str(name): number for name, number in place.items()}
    return place


def _find(side: list[Any], place: dict[Any, int], by_row: bool) -> npt.NDArray[np.int64]:
    found = np.empty(len(side), np.int64)
    for number, name in enumerate(side):
        key = int(name) if by_row and isinstance(name, str) and name.isdigit() else name
        if key not in place:
            what = "row numbers (no ids were given)" if by_row else "ids"
            raise InputError(f"trial {number} names {name!r}, which is not among the {what}.")
        found[number] = place[key]
    return found


def _folds(
    folds: npt.NDArray[Any], trials: Trials, distances: npt.NDArray[np.float64]
) -> dict[str, Any]:
    """Accuracy on each fold at the threshold that is best on the others: the protocol of LFW."""
    accuracies = []
    for fold in np.unique(folds):
        test = folds == fold
        order = np.argsort(distances[~test], kind="stable")
        near, same = distances[~test][order], trials.same[~test][order]
        right = np.concatenate([[0], np.cumsum(np.where(same, 1, -1))])
        ends = np.append(np.append(-np.inf, near)[:-1] != near, True)  # ties go together
        best = int(np.argmax(np.where(ends, right, -len(near))))
        cut = -np.inf if best == 0 else near[best - 1]
        accuracies.append(float(np.mean((distances[test] <= cut) == trials.same[test])))
    return {"accuracy": float(np.mean(accuracies)), "per_fold": accuracies}
