"""verify: a list of trials, with scores or embeddings, becomes a Result."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util.arrays import as_array
from truerank._util.errors import InputError, TruerankWarning, check_choice, shortened
from truerank._util.installed import __version__
from truerank._util.kernels import compiled
from truerank.core import metric as definitions
from truerank.core import registry
from truerank.core.metric import Metric
from truerank.core.score import Score, split_undefined
from truerank.distance import catalogue
from truerank.distance.base import Space
from truerank.distance.catalogue import build
from truerank.distance.probe import probe
from truerank.engine.blocks import DistanceBlock
from truerank.intervals.interval import IntervalRequest
from truerank.intervals.trials import TrialIntervals, TrialNames
from truerank.io.reading import as_matrix, read
from truerank.io.trials import (
    NO_PEOPLE,
    RowsById,
    Trials,
    number_people,
    people_by_ids,
    people_by_labels,
    read_scores,
    read_trials,
)
from truerank.io.vectors import chosen_distance
from truerank.metrics.thresholds.definitions import measure
from truerank.metrics.thresholds.family import Positives, Units
from truerank.metrics.thresholds.pair_pool import Pooled, PooledPairs, curves
from truerank.metrics.thresholds.verification import FoldedTrials
from truerank.result.result import Result
from truerank.task.labels import encode

FAMILIES = ("verification", "trials")
DEFAULT = ("auc", "eer", "min_dcf", "tar@far=0.01", "tar@far=0.001")


def verify(
    scores_or_embeddings: Any,
    pairs: Any = None,
    metrics: Iterable[str] | str | None = None,
    *,
    ids: Any = None,
    labels: Any = None,
    folds: Any = None,
    distance: str | None = None,
    layout: str = "auto",
    confidence: float | None = 0.95,
    seed: int = 0,
) -> Result:
    """Score an explicit list of verification trials (LFW, VoxCeleb, IJB, your own).

    Parameters
    ----------
    scores_or_embeddings : (T,) or (N, d), or a path, or None
        One score for each trial, or one embedding for each id; None where the list has scores. A
        text file with lines "left right score" (Kaldi) is joined to the trials by the pair.
    pairs : path, or sequence of (left, right, same)
        The trials. Ids are those of `ids`, those in the file of the embeddings, or row numbers. An
        id that is a path is also found by its file's name: Ann/Ann_0001.jpg by Ann_0001. Not needed
        where the file of scores is a list of trials itself, as WeSpeaker's is.
    metrics : strings, optional
        Of the verification family, and accuracy; "all" for each of them once. By default auc, eer,
        min_dcf, tar@far=0.01 and tar@far=0.001, and accuracy if the trials have folds.
    ids : (N,), optional
        Whose embedding each row is; with scores, whose label each of `labels` is.
    labels : (N,), or {id: label}, or a path of a file with the columns id and label, optional
        Which person each row or id shows. People are the unit of the intervals. Without labels they
        are those of LFW's layout, of the columns left_label and right_label of a CSV, of labels in
        the embeddings' file, or the part of an id before the first / or -, where every id has one
        and these agree with the trials.
    folds : (T,), optional
        The fold of each trial, for accuracy; the layout of LFW has its own.
    distance : str, optional
        For embeddings as in evaluate (cosine by default); for scores "similarity" (larger means
        the same, the default) or "precomputed" (smaller does).
    layout : str
        Of a file of trials: auto, lfw, voxceleb, ijb, kaldi, wespeaker or csv.
    confidence : float, optional
        Of the interval around each score, over people; None for no intervals.
    seed : int
        Recorded only: who leaves together for the intervals follows the trials alone.

    Returns
    -------
    Result
        A mapping from metric string to Score; `curve("roc")`, `curve("det")` and `curve("pr")`
        besides, and `curve("f1")` with best_f1.

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
    request = IntervalRequest.of(confidence, seed)
    values, trials = read_listed(scores_or_embeddings, pairs, layout)
    if folds is not None:
        trials = replace(trials, folds=_folds(folds, len(trials)))
    default = DEFAULT if trials.folds is None else ("accuracy", *DEFAULT)
    chosen = registry.parse_all(default if metrics is None else _all(metrics))
    for metric in chosen:
        if registry.definition(metric).family not in FAMILIES:
            raise InputError(
                f"a list of trials has no {metric}; ask for one of {', '.join(_names())}."
            )
    listed = place_listed(values, trials, ids, labels, distance)
    some = metrics is None or (isinstance(metrics, str) and metrics == "all")
    found = score_listed(listed, chosen, request, defined=some, started=started)
    for sentence in registry.warnings_about(found.values()):
        warnings.warn(sentence, TruerankWarning, stacklevel=2)
    return found


@dataclass(frozen=True)
class Listed:
    """A list of trials, the distance of each, and who is on its sides where that is known."""

    trials: Trials
    space: Space
    distances: npt.NDArray[np.float64]
    people: npt.NDArray[np.int64] | None
    """(trials, 2): the number of each side's person."""


def score_listed(
    listed: Listed,
    chosen: Sequence[Metric],
    request: IntervalRequest | None,
    *,
    defined: bool = False,
    started: float | None = None,
) -> Result:
    """Score a list of trials, with intervals over people if they are asked for.

    With `defined`, metrics that are not defined here are left out, with the reason.
    """
    started = time.perf_counter() if started is None else started
    trials, space = listed.trials, listed.space
    distances, people = listed.distances, listed.people
    units = Units(space)
    judged = _pool(trials, distances, units, chosen)
    larger = catalogue.find(space.facts.distance).larger_is_nearer
    apart = space.in_unit(distances)
    folded = FoldedTrials(-apart if larger else apart, trials.same, trials.folds, larger)
    names = TrialNames.of(trials.left, trials.right, trials.same)
    spread = None
    if request is not None and people is not None:
        spread = TrialIntervals(distances, trials.same, people, units, request, names)
    scores: dict[str, Score] = {}
    skipped: dict[str, str] = {}
    for metric in chosen:
        score = measure(metric, folded) if _of_folds(metric) else judged.score(metric)
        if spread is not None:
            score = spread.put_on(score, metric, folded)
        elif request is not None and score.reason is None:
            score = replace(score, interval_reason=NO_PEOPLE)
        scores[str(metric)] = score
    if defined:
        scores, skipped = split_undefined(scores)
    provenance = {
        "version": __version__,
        "trials": {"positive": int(trials.same.sum()), "negative": int((~trials.same).sum())},
        "digests": {
            "trials": names.digest(),
            "people": None if people is None else names.digest_of(people),
            "folds": None if trials.folds is None else names.digest_of(trials.folds),
        },
        "people": None if people is None else len(np.unique(people)),
        "folds": None if folded.lacking is not None else folded.to_dict(),
        "distance": space.facts.to_dict(),
        "intervals": None if spread is None else spread.facts(),
        "seconds": round(time.perf_counter() - started, 3),
    }
    drawn = curves(judged, [one for one in chosen if not _of_folds(one)])
    drawn = drawn if spread is None else spread.banded(drawn)
    return Result(scores, skipped=skipped, provenance=provenance, curves=drawn)


def _of_folds(metric: Metric) -> bool:
    """Whether a metric is of the list's folds; the others are of its pairs."""
    return registry.definition(metric).family == "trials"


def _pool(
    trials: Trials, distances: npt.NDArray[np.float64], units: Units, metrics: Sequence[Metric]
) -> PooledPairs:
    """All trials as one pool of pairs."""
    pool = Pooled(
        Positives(np.zeros(int(trials.same.sum()), np.int64), distances[trials.same]),
        1,
        sample=np.empty(0),
        pairs=0,
        targets=[],
        thresholds=[units.cut(tau) for metric in metrics if (tau := metric.get("tau")) is not None],
        whole_curve=True,
        sweep=lambda observers: None,
    )
    for observer in pool.observers:
        rows = np.zeros(1, np.int64)
        observer.observe_at_once(DistanceBlock(rows, distances[None, :], compiled()))
    return PooledPairs(pool, units, both_orders=False)


def _names() -> list[str]:
    return [name for name in definitions.names() if definitions.entry(name).family in FAMILIES]


def _all(metrics: Iterable[str] | str) -> Iterable[str] | str:
    """Replace "all" by every metric of a list of trials, once, at its first example."""
    if isinstance(metrics, str) and metrics == "all":
        return [definitions.entry(name).examples[0] for name in _names()]
    return metrics


def read_listed(values: Any, pairs: Any, layout: str) -> tuple[Any, Trials]:
    """What judges the trials, and the trials, which may be in the file of scores."""
    if pairs is not None:
        return values, pairs if isinstance(pairs, Trials) else _trials(pairs, layout)
    if not isinstance(values, (str, os.PathLike)):
        raise InputError("pairs is missing: pass a path or a sequence of (left, right, same).")
    return None, _with_scores(values, layout)


def _with_scores(path: str | os.PathLike[str], layout: str) -> Trials:
    """The trials of a file that holds their scores as well."""
    try:
        found = read_trials(path, layout)
    except InputError as error:
        raise InputError(
            f"the trials are missing: pass pairs (--pairs FILE) as well; {error}"
        ) from error
    if found.scores is None:
        raise InputError(f"the trials in {path} have no scores; pass scores or embeddings as well.")
    return found


def _trials(pairs: Any, layout: str) -> Trials:
    if isinstance(pairs, (str, os.PathLike)):
        return read_trials(pairs, layout)
    if not isinstance(pairs, Sequence) and not (isinstance(pairs, np.ndarray) and pairs.ndim):
        raise InputError("pairs must be a path or a sequence of (left, right, same).")
    left, right, same = [], [], []
    for number, trial in enumerate(pairs):
        parts = [] if isinstance(trial, str) or not np.iterable(trial) else list(trial)
        if len(parts) != 3:
            raise InputError(
                f"trial {number} must be (left, right, same). Got {shortened(trial)} instead."
            )
        one, two, flag = map(_scalar, parts)
        if not isinstance(flag, (bool, int, float)) or flag not in (0, 1):
            raise InputError(
                f"the third value of trial {number} must be True or False. Got {shortened(flag)}."
            )
        left.append(one)
        right.append(two)
        same.append(bool(flag))
    if not left:
        raise InputError("pairs is empty; at least one trial is needed.")
    return Trials(left, right, np.array(same, bool))


def _folds(folds: Any, count: int) -> npt.NDArray[np.int64]:
    given = as_array(folds, "folds")
    if given.shape != (count,):
        raise InputError(f"folds must have one value per trial ({count}). Got shape {given.shape}.")
    codes = encode((given,), ("folds",)).codes[0]
    if len(np.unique(codes)) < 2:
        raise InputError("folds must hold at least two distinct values. Got one.")
    return codes


def _scalar(value: Any) -> Any:
    """A number that numpy or torch holds as Python's own; anything else as it is."""
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        return value.item()
    return value


def place_listed(
    values: Any, trials: Trials, ids: Any, labels: Any, distance: str | None
) -> Listed:
    """The trials with their distances, by scores or by embeddings, and their people."""
    if values is None:
        if trials.scores is None:
            raise InputError("the trials have no scores; pass scores or embeddings.")
        values = trials.scores
    held, source = None, values
    if isinstance(values, (str, os.PathLike)):
        values, held, ids = _read(values, trials, ids)
    array = as_array(values, "scores_or_embeddings")
    if array.ndim == 1:
        distance = "similarity" if distance is None else distance
        space, distances = _scores(array, trials, distance)
        return Listed(trials, space, distances, _people(trials, labels, ids))
    distance = chosen_distance(distance, source)
    check_choice("distance", distance, catalogue.names(given=False), of="verify with embeddings")
    rows = as_matrix(array, "embeddings")
    place = RowsById.of(ids, len(rows))
    left, right = place.find(trials.left), place.find(trials.right)
    people = _people(trials, labels, ids, len(rows), held)
    space = build(distance, rows)
    probe(space)
    return Listed(trials, space, space.pairs(left, right), people)


def _read(path: str | os.PathLike[str], trials: Trials, ids: Any) -> tuple[Any, Any, Any]:
    """Scores of the trials, or embeddings with the labels and ids that are in their file."""
    scores = read_scores(path, trials)
    if scores is not None:
        return scores, None, ids
    bundle = read(path)
    if bundle.embeddings is None:
        raise InputError(f"{path} holds no embeddings: expected an array of that name.")
    return bundle.embeddings, bundle.labels, bundle.ids if ids is None else ids


def _people(
    trials: Trials, labels: Any, ids: Any, rows: int | None = None, held: Any = None
) -> npt.NDArray[np.int64] | None:
    """(trials, 2): the number of each side's person; None if nothing says who it is.

    They are those of `labels`, else of the list's columns, else of labels beside the embeddings,
    else of the ids' beginnings.
    """
    if labels is not None:
        return people_by_labels(labels, ids, trials, rows)
    if trials.people is not None:
        return number_people(trials, trials.people)
    if held is not None and not isinstance(held, dict):
        try:
            return people_by_labels(held, ids, trials, rows)
        except InputError:  # labels of something else than people
            pass
    return people_by_ids(trials)


def _scores(
    scores: npt.NDArray[Any], trials: Trials, distance: str
) -> tuple[Space, npt.NDArray[np.float64]]:
    if not isinstance(distance, str) or distance not in catalogue.names(given=True):
        raise InputError(
            "scores are of similarity (larger means the same) or precomputed distances. "
            f"Got {shortened(distance)} instead."
        )
    if len(scores) != len(trials):
        raise InputError(f"there are {len(scores)} scores but {len(trials)} trials; pass as many.")
    space = build(distance, as_matrix(scores[:, None], "scores"))
    index = np.arange(len(scores))
    return space, space.pairs(index, np.zeros_like(index))
