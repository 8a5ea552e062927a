"""What is compared: the runs of each model, its name, one task, and metrics that all have."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from truerank.core import registry
from truerank.core.average import mean
from truerank.errors import InputError, shortened, warn
from truerank.labels import as_number
from truerank.result import Result

__all__ = [
    "Model",
    "check_same_task",
    "choose_metrics",
    "is_conditional",
    "is_of_trials",
    "mean_score",
    "read_model",
    "sampling_unit",
]

Model = list[Result]
"""The runs of one model."""


def read_model(result: Any) -> Model:
    """A result, the path of one, or a list of these."""
    if isinstance(result, (list, tuple)):
        if not result:
            raise InputError("a list of runs is empty; pass at least one result.")
        return [_read(run) for run in result]
    return [_read(result)]


def is_conditional(models: list[Model]) -> bool:
    """Whether a comparison holds for this gallery alone: it is one of its own, or was searched by
    somebody who returned lists."""
    runs = [run.provenance for model in models for run in model]
    if "trials" in runs[0]:
        return False
    return not runs[0]["leave_one_out"] or any("lists" in facts for facts in runs)


def is_of_trials(models: list[Model]) -> bool:
    """Whether what is compared are results of verify, whose units are people."""
    return "trials" in models[0][0].provenance


def sampling_unit(models: list[Model]) -> str:
    """What intervals draw or leave out as a whole: a class, or a query without labels."""
    intervals = models[0][0].provenance.get("intervals")
    way = intervals.get("method") if isinstance(intervals, dict) else None
    return "query" if isinstance(way, str) and way.startswith("query ") else "class"


def _read(result: Any) -> Result:
    if isinstance(result, Result):
        return result
    if isinstance(result, (str, os.PathLike)):
        return Result.from_json(result)
    raise InputError(
        f"compare takes results, paths of their JSON files, or lists of these. "
        f"Got {shortened(result)}."
    )


_NAMES = ("id", "label", "group")
_SETTINGS = {
    "average": "means over {}",
    "no_mate_option": "no_mate={}",
    "leave_one_out": "leave-one-out: {}",
}


def check_same_task(models: list[Model], names: list[str]) -> None:
    """Refuse results of which one is not of the task, or the settings, of the first."""
    runs = [(name, run) for name, model in zip(names, models, strict=True) for run in model]
    first_name, first = runs[0]
    of_trials = {"trials" in run.provenance: name for name, run in runs}
    if len(of_trials) > 1:
        raise InputError(
            f"{of_trials[True]} is of a list of trials and {of_trials[False]} is not; compare "
            "results of verify with each other, and those of evaluate."
        )
    if True in of_trials:
        _check_same_list(runs)
        return
    for name, run in runs:
        if run.public:
            raise InputError(
                f"{name} is a public result, which holds nothing to pair; compare full results "
                "(evaluate --task TASK --full FILE)."
            )
        if "task_digest" not in run.provenance or run.provenance.get("part"):
            raise InputError(f"{name} is a part of a result; compare whole results.")
        _check_provenance(name, run)
        mine, other = first.provenance, run.provenance
        for key in ("queries", "gallery"):
            if key == "gallery" and None in (_gallery_size(mine), _gallery_size(other)):
                continue  # the gallery of a run is of any size unless it was said
            if mine[key] != other[key]:
                raise InputError(
                    f"{first_name} and {name} are of different tasks: {mine[key]:,} and "
                    f"{other[key]:,} {'queries' if key == 'queries' else 'gallery items'}."
                )
        if mine["task_digest"] != other["task_digest"]:
            raise InputError(
                f"{first_name} and {name} are of different tasks of the same size: "
                f"{_what_differs(first, run)} (digests {mine['task_digest'][:8]} and "
                f"{other['task_digest'][:8]})."
            )
        for key, words in _SETTINGS.items():
            if mine[key] != other[key]:
                raise InputError(
                    f"{first_name} and {name} were evaluated differently: "
                    f"{words.format(mine[key])} and {words.format(other[key])}."
                )
    _warn_of_sizes(runs)


def _warn_of_sizes(runs: list[tuple[str, Result]]) -> None:
    """Warn where some runs were evaluated with the size of the gallery and others without it."""
    unsized = {name: _gallery_size(run.provenance) is None for name, run in runs}
    if len(set(unsized.values())) > 1:
        sized, other = (next(n for n in unsized if unsized[n] is way) for way in (False, True))
        warn(
            f"{sized} was evaluated with gallery_size and {other} without it. Without a cut, as in "
            "map, mrr and ndcg, an item that was not returned earns a little in the one and "
            "nothing in the other. Evaluate both with it, or both without it."
        )


def _what_differs(first: Result, run: Result) -> str:
    """In what two tasks of the same size differ, as far as the results know."""
    mine, other = (
        {name: Counter(map(as_number, column)) for name, column in one.queries().items()}
        for one in (first, run)
    )
    names = [name for name in _NAMES if name in mine or name in other]
    if any(name not in mine or name not in other for name in names):
        return "one was given ids, labels or groups that the other was not"
    found = [name for name in names if mine[name] != other[name]]
    if found:
        return f"the {' and '.join(f'{name}s' for name in found)} of the queries differ"
    given = "labels" if "label" in mine else "judgements"
    return f"{given}, ids, groups or junk differ, in the gallery or row by row"


def _check_same_list(runs: list[tuple[str, Result]]) -> None:
    """Refuse results of verify of which one is not of the list of the first."""
    first_name, first = runs[0]
    for name, run in runs:
        mine, other = (one.provenance.get("digests") for one in (first, run))
        if not isinstance(other, Mapping) or not isinstance(other.get("trials"), str):
            raise InputError(
                f"{name} was written by a version of truerank that kept neither which trials were "
                "judged nor how scores move without each person; run verify again and compare "
                "the new results."
            )
        assert mine is not None  # the first one was looked at before
        if mine["trials"] != other["trials"]:
            counts = [one.provenance["trials"] for one in (first, run)]
            shown = [f"{c['positive']:,} positive and {c['negative']:,} negative" for c in counts]
            alike = "with other pairs" if shown[0] == shown[1] else f"{shown[0]}, and {shown[1]}"
            raise InputError(
                f"{first_name} and {name} are of different lists of trials ({alike}); the pairs "
                "(left, right, same) must be the same, in any order."
            )
        if None not in (mine.get("folds"), other.get("folds")) and mine["folds"] != other["folds"]:
            raise InputError(
                f"{first_name} and {name} were evaluated differently: the folds of the trials "
                "differ."
            )


def _gallery_size(facts: dict[str, Any]) -> Any:
    """The gallery's size, None if nobody knows it: the result is of a run."""
    lists = facts.get("lists")
    return lists.get("gallery_size", 0) if isinstance(lists, dict) else facts["gallery"]


def _check_provenance(name: str, run: Result) -> None:
    """Refuse a result that does not say of what it is, as a file may that was changed."""
    kinds = (("queries", int), ("gallery", int), ("task_digest", str), ("average", str),
             ("no_mate_option", str), ("leave_one_out", bool))  # fmt: skip
    for key, kind in kinds:
        if not isinstance(run.provenance.get(key), kind):
            raise InputError(f"{name} is a damaged result: its provenance lacks {key}.")


def choose_metrics(
    models: list[Model], names: list[str], metrics: Iterable[str] | str | None
) -> tuple[list[str], dict[str, str]]:
    """The metrics to compare, and why others of the results are not compared."""
    runs = [run for model in models for run in model]
    if metrics is None:
        whose = [name for name, model in zip(names, models, strict=True) for _ in model]
        skipped: dict[str, str] = {}
        for name in dict.fromkeys(name for run in runs for name in run):
            for model, run in zip(whose, runs, strict=True):
                missing = run.skipped.get(name, "evaluated without it")
                reason = run[name].reason if name in run else missing
                if reason is not None:
                    skipped.setdefault(name, f"{model}: {reason}")
        common = [name for name in runs[0] if name not in skipped]
        if not common:
            raise InputError("the results have no metric in common.")
        return common, skipped
    chosen = [str(metric) for metric in registry.parse_all(metrics)]
    for name in chosen:
        for run in runs:
            if name not in run:
                raise InputError(
                    f"metric {name!r} is not in every result; evaluate all models with it."
                )
            if run[name].reason is not None:
                raise InputError(f"metric {name!r} is undefined here: {run[name].reason}.")
    return chosen, {}


def mean_score(model: Model, metric: str) -> float:
    """The mean over the runs."""
    return mean(np.array([run[metric].value for run in model]))
