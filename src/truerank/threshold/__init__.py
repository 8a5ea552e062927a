"""choose_threshold: one threshold for a rate of errors, and all that a deployer needs at it.

The threshold is chosen on one set and judged on another; judged where it was chosen, it looks
better than it is, and the operating point says so. Rates are of pairs (1:1), where what users know
as `far` is the false match rate (FMR), or with a gallery of searches in it (1:N).
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np

from truerank.arrays import as_matrix
from truerank.core.parameters import RATE, Parameter
from truerank.errors import InputError, check_choice, shortened
from truerank.families.thresholds import NO_IMPOSTORS
from truerank.files import read_side
from truerank.space import catalogue
from truerank.threshold.judged import Trials
from truerank.threshold.pairs import PairTrials
from truerank.threshold.point import ClassRates, OperatingPoint
from truerank.threshold.search import Searches

__all__ = ["ClassRates", "OperatingPoint", "choose_threshold"]


def choose_threshold(
    embeddings: Any,
    labels: Any = None,
    *,
    far: float | str | None = None,
    frr: float | str | None = None,
    gallery: Any = None,
    gallery_labels: Any = None,
    apply: Any = None,
    apply_labels: Any = None,
    apply_gallery: Any = None,
    apply_gallery_labels: Any = None,
    distance: str = "cosine",
    device: str = "auto",
    threads: int | None = None,
) -> OperatingPoint:
    """A threshold for a rate of errors, chosen on one set and judged on another.

    Parameters
    ----------
    embeddings, labels : (N, d), (N,) or (N, L), or paths of files
        The set on which the threshold is chosen; all of its pairs count. Of several levels of
        labels only the finest counts.
    far : float or decimal text
        The pairs' false match rate (FMR): the share of pairs of two classes that may be accepted.
        With a gallery, the share of queries without a mate that may accept any item.
    frr : float or decimal text
        Instead, the share of pairs of one class that may be rejected. With a gallery, the share of
        queries with a mate for which it may not be both found first and accepted.
    gallery, gallery_labels : optional
        What the rows search in (1:N); without them pairs of rows are compared (1:1).
    apply, apply_labels : optional
        The set on which it is judged; without them the same one, which is optimistic.
    apply_gallery, apply_gallery_labels : optional
        What that set searches in, if it is another gallery.
    distance, device, threads
        As in evaluate.

    Examples
    --------
    >>> import numpy as np, truerank
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(np.arange(20), 5)
    >>> x = rng.normal(size=(20, 8))[y] + 0.5 * rng.normal(size=(100, 8))
    >>> seen, unseen = {"embeddings": x[:50], "labels": y[:50]}, (x[50:], y[50:])
    >>> point = truerank.choose_threshold(
    ...     **seen, far=0.01, apply=unseen[0], apply_labels=unseen[1]
    ... )
    >>> point.optimistic, round(point.threshold, 3), round(point.values["frr"], 3)
    (False, 0.232, 0.22)
    """
    check_choice("distance", distance, catalogue.names())
    rate, target = _target(far, frr)
    embeddings, labels = _side(embeddings, labels)
    gallery, gallery_labels = _side(gallery, gallery_labels)
    apply, apply_labels = _side(apply, apply_labels)
    apply_gallery, apply_gallery_labels = _side(apply_gallery, apply_gallery_labels)
    _check_together(gallery=gallery, gallery_labels=gallery_labels)
    _check_together(apply=apply, apply_labels=apply_labels)
    _check_together(apply_gallery=apply_gallery, apply_gallery_labels=apply_gallery_labels)
    if apply_gallery is not None and (apply is None or gallery is None):
        raise InputError("apply_gallery needs apply, and a gallery to choose the threshold in.")
    options = {"distance": distance, "device": device, "threads": threads}
    seen = as_matrix(embeddings, "embeddings")
    items = None if gallery is None else as_matrix(gallery, "gallery")
    chosen_on = _trials(seen, labels, items, gallery_labels, options)
    [threshold] = chosen_on.thresholds(rate, [target])
    if isinstance(threshold, str):
        named = f"{'an' if rate == 'frr' else 'a'} {rate.upper()} of {float(target):g}"
        hint = ""
        if threshold == NO_IMPOSTORS:
            hint = (
                ", and FAR is the share of queries without one that accept an item; choose by frr"
            )
        raise InputError(f"no threshold for {named}: {threshold}{hint}.")
    found = _threshold_interval(chosen_on, rate, threshold)
    judged_on, same = chosen_on, True
    if apply is not None:
        rows = as_matrix(apply, "apply")
        others, other_labels = items, gallery_labels
        if apply_gallery is not None:
            others = as_matrix(apply_gallery, "apply_gallery")
            other_labels = apply_gallery_labels
        judged_on = _trials(rows, apply_labels, others, other_labels, options)
        if len(rows) != judged_on.task.queries:
            raise InputError(
                f"apply has {len(rows)} rows but there are {judged_on.task.queries} labels in "
                "apply_labels; pass one label for each row."
            )
        same = np.array_equal(rows, seen) and apply_gallery is None
    if not judged_on.trials("frr"):
        raise InputError("no class has two rows: there is nothing to judge a threshold by.")
    written = chosen_on.written(threshold)
    judgement = judged_on.judge(float(written.text))
    levels = judged_on.task.levels
    return OperatingPoint(
        threshold,
        found,
        float(target),
        judgement.values,
        judgement.intervals,
        same,
        distance,
        judgement.classes,
        () if levels is None else tuple(levels.names),
        rate,
        gallery is not None,
        written.text,
        written.within,
    )


def _target(far: float | str | None, frr: float | str | None) -> tuple[str, Decimal]:
    """The rate that is asked for, and how large it may be."""
    if (far is None) == (frr is None):
        raise InputError("pass a target, as far or as frr, and only one of the two.")
    rate, asked = ("far", far) if frr is None else ("frr", frr)
    text = Parameter(rate, RATE, "").canonical(
        asked if isinstance(asked, str) else shortened(asked), "threshold"
    )
    if rate == "frr" and Decimal(text) == 1:
        raise InputError("an FRR of 1 rejects everything; pass less.")
    return rate, Decimal(text)


def _side(embeddings: Any, labels: Any) -> tuple[Any, Any]:
    """Rows and labels, read where they are paths."""
    side = read_side(embeddings, labels)
    return side.embeddings, side.labels


def _check_together(**pair: Any) -> None:
    if len({value is None for value in pair.values()}) > 1:
        raise InputError(f"{' and '.join(pair)} go together; pass both or neither.")


def _trials(
    rows: Any, labels: Any, gallery: Any, gallery_labels: Any, options: dict[str, Any]
) -> Trials:
    if gallery is None:
        return PairTrials(rows, labels, options)
    return Searches(rows, labels, gallery, gallery_labels, options)


def _threshold_interval(trials: Trials, rate: str, threshold: float) -> tuple[float, float] | None:
    """The thresholds at both ends of the interval of the rate that the chosen one has.

    This is the set of thresholds whose rate cannot be told from the target with so many classes
    (Woodruff's interval of a quantile); it needs no assumption on how distances are distributed.
    """
    ends = trials.interval(rate, threshold)
    if ends is None:
        return None
    resolved = 1 / trials.trials(rate)
    first, last = trials.thresholds(
        rate, [Decimal(f"{end:.4g}") if end > 1.001 * resolved else Decimal(0) for end in ends]
    )
    if isinstance(first, str) or isinstance(last, str):  # nothing is nearer than an impostor
        return None
    return min(first, last), max(first, last)
