"""choose_threshold: one threshold for a rate of errors, on labelled sets or on trial lists.

The threshold is chosen on one set and judged on another; judged where it was chosen it looks
better than it is, and the operating point says so. On a trial list it is chosen on the list's
pairs and judged on them or on those of another list. The classes of trials and of the operating
point are in operating_points.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util.errors import InputError, check_choice, shortened, warn
from truerank.analysis.operating_points import (
    Ends,
    Judgement,
    OpenSetSearches,
    OperatingPoint,
    PairTrials,
    TaskTrials,
    WrittenThreshold,
    as_decimal,
    found_threshold,
    kept_of,
    write_between,
)
from truerank.core import registry
from truerank.core.parameters import RATE, Parameter
from truerank.distance import catalogue
from truerank.distance.base import Distances
from truerank.engine.blocks import largest_float
from truerank.evaluation.task_input import prepare
from truerank.evaluation.trials import Listed, place_listed, read_listed, score_listed
from truerank.intervals.interval import IntervalRequest
from truerank.io.reading import is_path
from truerank.io.vectors import chosen_distance
from truerank.result.result import Result
from truerank.task.task import TaskRules

# choose_threshold: one threshold for a rate of errors, and all that a deployer needs at it.
#
# The threshold is chosen on one set and judged on another; judged where it was chosen, it looks
# better than it is, and the operating point says so. Rates are of pairs (1:1), where what users
# know as `far` is the false match rate (FMR), or with a gallery of searches in it (1:N). What a
# task excludes (rows that share an id, junk) is no trial.


GALLERY = ("gallery", "gallery_labels", "gallery_ids", "gallery_groups")
OF_A_SET = (
    "embeddings",
    "labels",
    *GALLERY,
    *("query_ids", "query_groups", "junk", "junk_labels", "relevance", "unlabelled"),
)
"""The keywords of evaluate that make a task of a set."""


def choose_threshold(
    embeddings: Any,
    labels: Any = None,
    *,
    far: float | str | None = None,
    frr: float | str | None = None,
    gallery: Any = None,
    gallery_labels: Any = None,
    query_ids: Any = None,
    gallery_ids: Any = None,
    query_groups: Any = None,
    gallery_groups: Any = None,
    junk: Any = None,
    junk_labels: Iterable[Any] = (),
    relevance: Any = None,
    unlabelled: str = "error",
    apply: Any = None,
    apply_labels: Any = None,
    apply_gallery: Any = None,
    apply_gallery_labels: Any = None,
    pairs: Any = None,
    apply_pairs: Any = None,
    distance: str | None = None,
    device: str = "auto",
    threads: int | None = None,
) -> OperatingPoint:
    """Choose a threshold for an error rate on one set, and evaluate it on another.

    Parameters
    ----------
    embeddings, labels : (N, d), (N,) or (N, L), or paths of files
        The set on which the threshold is chosen. Of several levels of labels only the finest
        counts. A file brings along the ids and groups (cameras) that it holds.
    far : float or decimal text
        The pairs' false match rate (FMR): the share of negative pairs that may be accepted. With a
        gallery, the share of unmated queries that may accept any item.
    frr : float or decimal text
        Instead, the share of positive pairs that may be rejected. With a gallery, the share of
        mated queries for which no relevant item may be both found first and accepted.
    gallery, gallery_labels : optional
        What the rows search in (1:N); without them pairs of rows are compared (1:1). A
        "precomputed" or "similarity" matrix with gallery_labels for its columns is a search, too.
    query_ids, gallery_ids, query_groups, gallery_groups, junk, junk_labels, relevance, unlabelled
        As in evaluate. A pair that they exclude counts in no rate, and a query whose relevant items
        are all junk is unmated.
    apply, apply_labels : optional
        The set on which it is judged; without them the same one, which is optimistic. `apply` may
        be a mapping of the keywords of a set, such as {"embeddings": x, "labels": y,
        "query_groups": cameras}. junk_labels and unlabelled are those of the first set, unless
        it has its own.
    apply_gallery, apply_gallery_labels : optional
        What that set searches in; without them the gallery of the first set.
    pairs, apply_pairs : path, or sequence of (left, right, same), optional
        Lists of trials, which are then the only pairs, as in verify: `embeddings` and `apply` may
        be scores, `query_ids` are the ids of rows, and `labels` the people that intervals are over.
    distance, device, threads
        As in evaluate; for scores similarity, or precomputed.

    Examples
    --------
    >>> import numpy as np, truerank
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(np.arange(20), 5)
    >>> x = rng.normal(size=(20, 8))[y] + 0.5 * rng.normal(size=(100, 8))
    >>> seen, unseen = ({"embeddings": x[s], "labels": y[s]} for s in (y < 10, y >= 10))
    >>> point = truerank.choose_threshold(**seen, far=0.01, apply=unseen)
    >>> point.optimistic, round(point.threshold, 3), round(point.values["frr"], 3)
    (False, 0.232, 0.22)
    """
    asked = distance
    distance = chosen_distance(distance, embeddings, gallery)
    check_choice("distance", distance, catalogue.names())
    target = target_of(far, frr)
    options = {"distance": distance, "device": device, "threads": threads}
    given = {
        "embeddings": embeddings,
        "labels": labels,
        "gallery": gallery,
        "gallery_labels": gallery_labels,
        "query_ids": query_ids,
        "gallery_ids": gallery_ids,
        "query_groups": query_groups,
        "gallery_groups": gallery_groups,
        "junk": junk,
        "junk_labels": junk_labels,
        "relevance": relevance,
        "unlabelled": unlabelled,
    }
    if pairs is not None:
        usual = dict.fromkeys(given) | {"junk_labels": (), "unlabelled": "error"}
        both = {"embeddings", "labels", "query_ids"}
        others = [name for name in given if name not in both and given[name] is not usual[name]]
        if others or not (apply_gallery is apply_gallery_labels is None):
            raise InputError(
                f"{', '.join(others) or 'apply_gallery'} is of a set in which all pairs are "
                "compared; with pairs pass query_ids and labels alone."
            )
        lists = _lists(given, pairs, apply, apply_labels, apply_pairs, asked)
        return choose_on_list(lists[0], *target, *lists[1:])
    if apply_pairs is not None:
        raise InputError("apply_pairs needs pairs, the list on which the threshold is chosen.")
    chosen_on = first_set(given, options)
    more = {"labels": apply_labels, "gallery": apply_gallery}
    other = applied(apply, more | {"gallery_labels": apply_gallery_labels})
    judged_on = None if other is None else another_set("apply", other, given, options)
    return choose(chosen_on, *target, judged_on)


def applied(apply: Any, more: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the keywords of the set on which a threshold is judged, None without one.

    `apply` is embeddings, or a mapping that holds all; `more` are the other keywords, None where
    they were not passed.
    """
    if apply is not None and not isinstance(apply, Mapping):
        return {"embeddings": apply, **more}
    names = " and ".join(f"apply_{name}" for name, value in more.items() if value is not None)
    if names and apply is None:
        raise InputError(f"{names} came without apply.")
    if names:
        raise InputError(
            f"apply is a mapping, which holds labels and gallery under these names; leave {names} "
            "out."
        )
    return apply


def _lists(
    given: Mapping[str, Any],
    pairs: Any,
    apply: Any,
    apply_labels: Any,
    apply_pairs: Any,
    distance: str | None,
) -> list[ListedTrials]:
    """Read the list on which a threshold is chosen, and the one on which it is judged, if any."""
    options = {"ids": given["query_ids"], "distance": distance}
    first = ListedTrials(given["embeddings"], pairs, labels=given["labels"], **options)
    if apply is None and apply_pairs is None:
        return [first]
    if isinstance(apply, Mapping):
        raise InputError("with pairs, apply is scores or embeddings; their trials are apply_pairs.")
    values = given["embeddings"] if apply is None else apply
    labels = given["labels"] if apply_labels is None else apply_labels
    try:
        return [first, ListedTrials(values, apply_pairs, labels=labels, **options)]
    except InputError as error:
        raise InputError(f"apply: {error}") from error


def first_set(given: Mapping[str, Any], options: Mapping[str, Any]) -> TaskTrials:
    """Make the trials of a set from the keywords of evaluate."""
    return trials_of(*prepare(**given, distance=options["distance"]), options)


def another_set(
    name: str, other: Any, first: Mapping[str, Any], options: Mapping[str, Any]
) -> TaskTrials:
    """Make the trials of another set, under the rules and in the gallery of the first one.

    `other` is a mapping of the keywords of a set; a gallery, labels of one, and rules that it names
    go before those of the first set.
    """
    unknown = [key for key in other if key not in OF_A_SET]
    if unknown or other.get("embeddings") is None:
        got = f"Got {shortened(unknown[0])}" if unknown else "It has no embeddings"
        raise InputError(f"{name} is a mapping of {', '.join(OF_A_SET)}. {got}.")
    rules = {key: first[key] for key in ("junk_labels", "unlabelled")}
    if is_path(first["relevance"]):
        rules["relevance"] = first["relevance"]
    if all(other.get(key) is None for key in GALLERY):
        rules |= {key: first[key] for key in GALLERY}
    given = rules | {key: value for key, value in other.items() if value is not None}
    try:
        return first_set(given, options)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error


def trials_of(
    task: TaskRules,
    rows: npt.NDArray[Any],
    items: npt.NDArray[Any] | None,
    options: Mapping[str, Any],
) -> TaskTrials:
    """Make the trials of a task: pairs of its rows, or searches in a gallery."""
    kind = PairTrials if task.leave_one_out else OpenSetSearches
    return kind(task, rows, items, options)


def check_alike(first: TaskTrials, name: str, other: TaskTrials) -> None:
    """Check that a set is judged as the first one was: by pairs or searches; warn of groups."""
    if first.task.leave_one_out != other.task.leave_one_out:
        has = ("a gallery", "none") if first.task.leave_one_out else ("no gallery", "one")
        raise InputError(
            f"{name} has {has[0]} and the set on which the threshold is chosen has {has[1]}; a "
            "threshold for pairs of rows is none for searches: pass both a gallery, or neither."
        )
    if (first.task.group_names is None) != (other.task.group_names is None):
        warn(
            f"of {name} and of the set on which the threshold is chosen, only one has groups "
            "(cameras): rates with and without pairs of one camera are not comparable."
        )


def choose(
    chosen_on: TaskTrials, rate: str, target: Decimal, judged_on: TaskTrials | None = None
) -> OperatingPoint:
    """Choose a threshold on trials, and judge it on others, or on the same."""
    if judged_on is not None:
        check_alike(chosen_on, "apply", judged_on)
    threshold, found = found_threshold(chosen_on, rate, target)
    same = judged_on is None or all(
        np.array_equal(one, other)
        for one, other in zip(_both(judged_on), _both(chosen_on), strict=True)
    )
    judged_on = chosen_on if judged_on is None else judged_on
    if not judged_on.trials("frr"):
        raise InputError(
            "nothing is relevant to any row, or all of it is excluded: there is nothing to judge a "
            "threshold by."
        )
    written = chosen_on.written(threshold)
    judgement = judged_on.judge(float(written.text))
    levels, excluded = judged_on.task.levels, judged_on.task.exclusions()
    if judged_on.task.leave_one_out and judged_on.task.id_names is None:
        del excluded[0]  # a row is no pair with itself
    return OperatingPoint(
        threshold,
        found,
        float(target),
        judgement.values,
        judgement.intervals,
        same,
        chosen_on.options["distance"],
        judgement.classes,
        () if levels is None else tuple(levels.names),
        rate,
        not chosen_on.task.leave_one_out,
        written.text,
        written.within,
        tuple(excluded),
    )


def _both(trials: TaskTrials) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the rows and what they are compared with."""
    return trials.rows, trials.rows if trials.items is None else trials.items


def target_of(
    far: float | str | None = None, frr: float | str | None = None
) -> tuple[str, Decimal]:
    """Return the rate that is asked for, and how large it may be."""
    if (far is None) == (frr is None):
        raise InputError("pass a target, as far or as frr, and only one of the two.")
    rate, asked = ("far", far) if frr is None else ("frr", frr)
    text = Parameter(rate, RATE, "").canonical(
        asked if isinstance(asked, str) else shortened(asked), "threshold"
    )
    if rate == "frr" and Decimal(text) == 1:
        raise InputError("an FRR of 1 rejects everything; pass less.")
    return rate, Decimal(text)


# A threshold on a list of trials: chosen on its pairs, judged on them or on another list's.


REQUEST = IntervalRequest(0.95, 0)


class ListedTrials:
    """The trials of a list. Intervals of their rates are over people, where they are known."""

    def __init__(
        self,
        values: Any,
        pairs: Any = None,
        *,
        ids: Any = None,
        labels: Any = None,
        distance: str | None = None,
        layout: str = "auto",
    ) -> None:
        """Scores or embeddings, and trials, as verify takes them."""
        values, trials = read_listed(values, pairs, layout)
        self._listed: Listed = place_listed(values, trials, ids, labels, distance)
        self._space, same = self._listed.space, trials.same
        if same.all() or not same.any():
            kind = "positive" if same.all() else "negative"
            raise InputError(
                f"a threshold needs positive and negative trials; the list has {kind} ones alone."
            )
        self.distance = self._space.facts.distance
        self._positives = np.sort(self._listed.distances[same])

    def __eq__(self, other: object) -> bool:
        """Whether these are the same distances of the same trials."""
        return isinstance(other, ListedTrials) and all(
            np.array_equal(getattr(mine, name), getattr(its, name))
            for mine, its, name in (
                (self._listed, other._listed, "distances"),
                (self._listed.trials, other._listed.trials, "same"),
            )
        )

    __hash__ = None  # type: ignore[assignment]

    def thresholds(self, rate: str, targets: Sequence[Decimal]) -> list[float | str]:
        """Return thresholds at which a rate is at most each target, or why there are none."""
        if rate == "far":
            names = [f"threshold@far={target:f}" for target in targets]
            scores = [self._scored([name], None) for name in names]
            return [s.reason or s.value for one in scores for s in one.values()]
        found: list[float | str] = []
        for target in targets:
            kept = kept_of(len(self._positives), target, "positive trials")
            if isinstance(kept, str):
                found.append(kept)
            else:
                found.append(float(self._space.in_unit(self._positives[kept - 1 : kept])[0]))
        return found

    def interval(self, rate: str, threshold: float) -> Ends | None:
        """Return the interval of a rate at a threshold, over people."""
        return self.judge(threshold).intervals[rate]

    def trials(self, rate: str) -> int:
        """Return the number of trials that a rate is a share of."""
        positives = len(self._positives)
        return positives if rate == "frr" else len(self._listed.trials) - positives

    def written(self, threshold: float) -> WrittenThreshold:
        """Return the threshold as a decimal that accepts the same trials in any arithmetic."""

        def around(low: Fraction, high: Fraction) -> Distances:
            first, last = (largest_float(self._space.raw(end)) for end in (low, high))
            distances = self._listed.distances
            return np.sort(distances[(distances >= first) & (distances <= last)])

        return write_between(self._space, threshold, around)

    def judge(self, threshold: float) -> Judgement:
        """Return all that a threshold leads to."""
        tau = as_decimal(self._space, threshold)
        names = {"far": f"fmr@tau={tau}", "frr": f"fnmr@tau={tau}"}
        scores = self._scored(list(names.values()), REQUEST)
        values = {key: scores[name].value for key, name in names.items()}
        return Judgement(values, {key: scores[name].interval for key, name in names.items()}, [])

    def _scored(self, names: list[str], request: IntervalRequest | None) -> Result:
        return score_listed(self._listed, registry.parse_all(names), request)


def choose_on_list(
    chosen_on: ListedTrials, rate: str, target: Decimal, judged_on: ListedTrials | None = None
) -> OperatingPoint:
    """Choose a threshold on a list of trials, and judge it on another, or on the same."""
    if judged_on is not None and judged_on.distance != chosen_on.distance:
        raise InputError(
            f"apply has {judged_on.distance} and the list on which the threshold is chosen "
            f"{chosen_on.distance}; judge both by the same distance."
        )
    threshold, ends = found_threshold(chosen_on, rate, target)
    written = chosen_on.written(threshold)
    other = chosen_on if judged_on is None else judged_on
    judgement = other.judge(float(written.text))
    return OperatingPoint(
        threshold,
        ends,
        float(target),
        judgement.values,
        judgement.intervals,
        other == chosen_on,
        chosen_on.distance,
        [],
        rate=rate,
        decimal=written.text,
        within=written.within,
        listed=True,
    )
