"""choose_threshold: one threshold for a rate of errors, and all that a deployer needs at it.

The threshold is chosen on one set and judged on another; judged where it was chosen, it looks
better than it is, and the operating point says so. Rates are of pairs (1:1), where what users know
as `far` is the false match rate (FMR), or with a gallery of searches in it (1:N). What a task
excludes (rows that share an id, junk) is no trial.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.core.parameters import RATE, Parameter
from truerank.errors import InputError, check_choice, shortened, warn
from truerank.evaluation.prepared import prepare
from truerank.files import is_path
from truerank.files.hdf5 import chosen_distance
from truerank.space import catalogue
from truerank.task import TaskRules
from truerank.threshold.judged import Trials, found_threshold
from truerank.threshold.listed import ListedTrials, choose_on_list
from truerank.threshold.pairs import PairTrials
from truerank.threshold.point import ClassRates, OperatingPoint
from truerank.threshold.search import Searches

__all__ = [
    "ClassRates",
    "OperatingPoint",
    "another_set",
    "applied",
    "check_alike",
    "choose",
    "choose_threshold",
    "first_set",
    "target_of",
    "trials_of",
]

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
    """Choose a threshold for a rate of errors on one set, and judge it on another.

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
        "query_groups": cameras}. junk_labels and unlabelled are those of the first set, unless it
        names others.
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


def first_set(given: Mapping[str, Any], options: Mapping[str, Any]) -> Trials:
    """Make the trials of a set from the keywords of evaluate."""
    return trials_of(*prepare(**given, distance=options["distance"]), options)


def another_set(
    name: str, other: Any, first: Mapping[str, Any], options: Mapping[str, Any]
) -> Trials:
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
) -> Trials:
    """Make the trials of a task: pairs of its rows, or searches in a gallery."""
    kind = PairTrials if task.leave_one_out else Searches
    return kind(task, rows, items, options)


def check_alike(first: Trials, name: str, other: Trials) -> None:
    """Check that a set is judged as the first one was: by pairs or searches; warn of groups."""
    if first.task.leave_one_out != other.task.leave_one_out:
        has = ("a gallery", "none") if first.task.leave_one_out else ("no gallery", "one")
        raise InputError(
            f"{name} has {has[0]} and the set on which the threshold is chosen has {has[1]}; a "
            "threshold for pairs of rows says nothing of searches: pass both a gallery, or neither."
        )
    if (first.task.group_names is None) != (other.task.group_names is None):
        warn(
            f"of {name} and of the set on which the threshold is chosen, only one has groups "
            "(cameras): rates with and without pairs of one camera are not comparable."
        )


def choose(
    chosen_on: Trials, rate: str, target: Decimal, judged_on: Trials | None = None
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


def _both(trials: Trials) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
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
