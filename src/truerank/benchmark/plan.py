"""Plan of a benchmark: the next task that may begin, what its outcome changes, and the cost.

The trials of a method follow one another; the folds of a trial and all reruns run side by side;
methods that are behind come first. Nothing here runs anything. `join` takes over, method by
method, the search and the models of a folder in which another machine is further.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from truerank._util.errors import InputError
from truerank._util.files import atomic_path, to_json
from truerank.benchmark.config import BenchmarkConfig, read
from truerank.benchmark.layout import DEFAULT, Layout, write_csv
from truerank.benchmark.methods import (
    Method,
    OwnLoss,
    methods_of,
    own_parameters,
    seed_of,
    training_config,
)
from truerank.benchmark.search import Studies
from truerank.benchmark.tasks import FitBaselines, FoldOutcome, TrainFold
from truerank.io.reading import read_json

Key = tuple[Any, ...]
"""("trial", method, number, fold), ("rerun", method, rerun, fold) or ("baselines",)."""
TRIAL_COLUMNS = ("method", "trial", "fold", "parameters", "score", "epochs", "state")


class Plan:
    """The trainings of a benchmark.

    Parameters
    ----------
    config : BenchmarkConfig
    methods : sequence of Method
        Those that are trained.
    studies : Studies
    layout : Layout
    only : collection of str, optional
        Names of the methods to which tasks are confined; the others are left to other machines.
    """

    def __init__(
        self,
        config: BenchmarkConfig,
        methods: Sequence[Method],
        studies: Studies,
        layout: Layout,
        only: Collection[str] | None = None,
    ) -> None:
        self.config, self.methods, self.studies, self.layout = config, methods, studies, layout
        self._mine = [method for method in methods if only is None or method.name in only]
        self.folds = config.protocol.folds
        self.reruns = [DEFAULT, *map(str, range(config.protocol.reruns))]
        self._ended: dict[tuple[str, str, int], FoldOutcome] = {}
        for method in methods:
            if studies.is_done(method.name):
                self._find_reruns(method)

    def _find_reruns(self, method: Method) -> None:
        """Take what an earlier call has trained, if it was trained with these parameters."""
        for rerun in self.reruns:
            for fold in range(self.folds):
                outcome = self.layout.outcome(method.name, rerun, fold)
                wanted = self._rerun(method, rerun, fold).digest
                if outcome is not None and outcome.training == wanted:
                    self._ended[method.name, rerun, fold] = outcome

    @property
    def total(self) -> int:
        """All trainings, those that are done included."""
        each = self.config.protocol.trials + len(self.reruns)
        return each * self.folds * len(self.methods)

    @property
    def done(self) -> int:
        """Trainings that have ended."""
        return sum(self.count(method.name) for method in self.methods)

    def count(self, name: str) -> int:
        """Trainings of one method that have ended."""
        searched = sum(len(trial.folds) for trial in self.studies.found[name])
        return searched + sum(method == name for method, _, _ in self._ended)

    @property
    def progress(self) -> tuple[int, int]:
        """Trainings that have ended, and all of them, of the methods that tasks are confined to."""
        each = self.total // max(1, len(self.methods))
        return sum(self.count(method.name) for method in self._mine), each * len(self._mine)

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to train."""
        return self.done == self.total and self.layout.projections.exists()

    def next(self, running: Collection[Any]) -> tuple[Key, Any] | None:
        """A task that may begin beside those that run; None if there is none now."""
        if not self.layout.projections.exists() and ("baselines",) not in running:
            return ("baselines",), self._baselines()
        behind = sorted(self._mine, key=lambda one: len(self.studies.finished(one.name)))
        for method in behind:
            beside = method.objective
            if beside is not None and not self.studies.is_done(beside.of):
                continue  # what it must keep up with is not known yet
            trial = self.studies.current(method.name)
            for fold in range(self.folds if trial is not None else 0):
                assert trial is not None
                key: Key = ("trial", method.name, trial.number, fold)
                if fold not in trial.folds and key not in running:
                    scratch = self.layout.trial(method.name, trial.number, fold)
                    seed = seed_of(self.config.protocol.seed, "fold", fold)
                    task = task_of(self.config, method, trial.parameters, seed, fold, scratch)
                    measures = () if beside is None else (beside.minimise,)
                    return key, replace(task, measures=measures)
        for method in self._mine:
            if not self.studies.is_done(method.name):
                continue
            for rerun in self.reruns:
                for fold in range(self.folds):
                    key = ("rerun", method.name, rerun, fold)
                    if (method.name, rerun, fold) not in self._ended and key not in running:
                        return key, self._rerun(method, rerun, fold)
        return None

    def record(self, key: Key, outcome: Any) -> None:
        """Keep what a task came to."""
        if key[0] == "rerun":
            self._ended[key[1], key[2], key[3]] = outcome
        elif key[0] == "trial":
            _, name, number, fold = key
            trial = self.studies.found[name][number]
            self.studies.record(name, trial, fold, outcome)
            if trial.score is not None:
                self.layout.drop_trial(name, number)
                self.write_trials()

    def write_trials(self) -> None:
        """Write trials.csv."""
        write_csv(self.layout.trials, TRIAL_COLUMNS, self.studies.rows())

    def ended(self, method: str, rerun: str, fold: int) -> FoldOutcome | None:
        """What one training of a rerun came to; None if it has not ended."""
        return self._ended.get((method, rerun, fold))

    def outcomes(self, method: str, rerun: str) -> list[FoldOutcome]:
        """What the trainings of a rerun came to, fold by fold."""
        return [self._ended[method, rerun, fold] for fold in range(self.folds)]

    def parameters(self, method: Method, rerun: str) -> dict[str, Any]:
        """The parameters of a rerun: the best trial's, or those that the search began with."""
        if rerun == DEFAULT:
            return dict(method.defaults)
        return self.studies.best(method.name).parameters

    def _rerun(self, method: Method, rerun: str, fold: int) -> TrainFold:
        seed = seed_of(self.config.protocol.seed, "rerun", method.name, rerun, fold)
        folder = self.layout.fold(method.name, rerun, fold)
        return task_of(
            self.config, method, self.parameters(method, rerun), seed, fold, folder, folder
        )

    def _baselines(self) -> FitBaselines:
        return FitBaselines(self.untrained(), self.layout.projections)

    def untrained(self) -> list[dict[str, Any]]:
        """The configurations whose trunks, before training, give the untrained rows."""
        method = Method("untrained", "embedding", {"name": "contrastive", "plus": []})
        return [
            training_config(
                self.config, method, {}, seed_of(self.config.protocol.seed, "fold", fold)
            )
            for fold in range(self.folds)
        ]


def task_of(
    config: BenchmarkConfig,
    method: Method,
    parameters: Mapping[str, Any],
    seed: int,
    fold: int,
    scratch: Path,
    folder: Path | None = None,
) -> TrainFold:
    """One training of a method with these parameters."""
    own = method.loss if isinstance(method.loss, OwnLoss) else None
    searched = {k: v for k, v in parameters.items() if k in method.space}
    given = own_parameters(config, {**method.fixed, **searched})
    training = training_config(config, method, parameters, seed)
    return TrainFold(method.name, training, own, given, fold, scratch, folder)


@contextmanager
def open_plan(
    config: BenchmarkConfig, layout: Layout, only: Collection[str] | None = None
) -> Iterator[Plan]:
    """The plan of a folder: what its searches and reruns have come to, and what is left."""
    trained = [method for method in methods_of(config) if method.is_trained]
    studies = Studies.of(config, layout.study, trained)
    try:
        _check_begin(trained, studies, layout)
        yield Plan(config, trained, studies, layout, only)
    finally:
        studies.close()


def _check_begin(methods: Sequence[Method], studies: Studies, layout: Layout) -> None:
    """Refuse searches of a user's loss that began elsewhere than at the loss's own defaults."""
    for method in methods:
        if not isinstance(method.loss, OwnLoss) or not studies.found[method.name]:
            continue
        began = studies.found[method.name][0].parameters
        if began != method.defaults:
            raise InputError(
                f"the search of {method.name} in {layout.folder} began with {began}, and not with "
                f"the loss's own defaults, {method.defaults}: earlier versions took the middle of "
                "the ranges. Name another folder, or finish this one with the version that began "
                "it."
            )


# What a benchmark has cost: trainings and seconds of each method, added up over all calls.


PHASES = ("search", "reruns")


def write_cost(layout: Layout, plan: Plan) -> dict[str, Any]:
    """Write cost.json; the seconds are those of finished trainings, side by side or not."""
    methods = {}
    for method in plan.methods:
        trials = plan.studies.found[method.name]
        searched = [fold for trial in trials for fold in trial.folds.values()]
        again = [
            outcome
            for rerun in plan.reruns
            for fold in range(plan.folds)
            if (outcome := plan.ended(method.name, rerun, fold)) is not None
        ]
        methods[method.name] = {
            "search": _sum(searched),
            "reruns": _sum(again),
            "scoring_seconds": round(
                sum(
                    kept.get("seconds", 0.0)
                    for rerun in plan.reruns
                    if (kept := layout.scores(method.name, rerun)) is not None
                ),
                3,
            ),
        }
    total = {
        "trainings": sum(one[p]["trainings"] for one in methods.values() for p in PHASES),
        "seconds": round(sum(one[p]["seconds"] for one in methods.values() for p in PHASES), 3),
    }
    cost = {"methods": methods, "total": total}
    to_json(cost, layout.cost)
    return cost


def _sum(outcomes: list[Any]) -> dict[str, Any]:
    return {
        "trainings": len(outcomes),
        "epochs": sum(outcome.epochs for outcome in outcomes),
        "seconds": round(sum(outcome.seconds for outcome in outcomes), 3),
    }


# Join what several machines have done: each has searched and rerun methods of one benchmark.


def join(
    folder: str | os.PathLike[str],
    others: Sequence[str | os.PathLike[str]],
    *,
    config: BenchmarkConfig | str | os.PathLike[str] | None = None,
) -> dict[str, tuple[int, str]]:
    """Copy finished trainings of a benchmark from other folders.

    A method is taken as a whole, with its search and its reruns, from the folder that has trained
    most of it; with it goes the method that it has to keep up with. All folders have one
    configuration and one split, and the test half is sealed. Interrupted, it can be done again.

    Parameters
    ----------
    folder : path
        The benchmark that continues afterwards.
    others : sequence of path
    config : BenchmarkConfig or path of a YAML file, optional
        What the benchmark is to go on with: another one than the folder's is refused before
        anything is taken.

    Returns
    -------
    dict
        For each method how many trainings are done, and in which folder they were.
    """
    target, sources = Layout(folder), [Layout(other) for other in others]
    for layout in (target, *sources):
        _check(layout)
    if any(source.folder.resolve() == target.folder.resolve() for source in sources):
        raise InputError(f"{target.folder} cannot be joined with itself.")
    with target.locked():
        own = read(target.config)
        if config is not None:
            target.check(config if isinstance(config, BenchmarkConfig) else read(config))
        with open_plan(own, target) as plan:
            here = str(target.folder)
            done = {method.name: (plan.count(method.name), here) for method in plan.methods}
        for source in sources:
            with source.locked():
                _take(source, target, own, done)
    return done


def _check(layout: Layout) -> None:
    """Refuse what is no benchmark, and one whose test half is open."""
    for path in (layout.config, layout.splits, layout.study, layout.environment):
        if not path.exists():
            raise InputError(f"{layout.folder} holds no benchmark: {path.name} is missing.")
    if layout.openings.exists():
        raise InputError(f"the test split of {layout.folder} is evaluated; nothing can be joined.")


def _take(
    source: Layout, target: Layout, config: BenchmarkConfig, done: dict[str, tuple[int, str]]
) -> None:
    """Replace all methods of which the source has trained more."""
    source.check(config)
    if read_json(source.splits) != read_json(target.splits):
        raise InputError(f"{source.folder} and {target.folder} split their data differently.")
    with open_plan(config, source) as theirs:
        counts = {method.name: theirs.count(method.name) for method in theirs.methods}
        taken = [
            name
            for unit in _units(theirs.methods)
            for name in unit
            if sum(counts[one] for one in unit) > sum(done[one][0] for one in unit)
        ]
        if not taken:
            return
        for name in taken:
            _copy_runs(source.method(name), target.method(name))
        with atomic_path(target.study) as partial:
            shutil.copy(target.study, partial)
            ours = Studies.of(config, partial, theirs.methods)
            try:
                for name in taken:
                    ours.replace(name, theirs.studies)
            finally:
                ours.close()
    known = read_json(target.environment)
    added = [one for one in read_json(source.environment) if one not in known]
    to_json([*known, *added], target.environment)
    done.update({name: (counts[name], str(source.folder)) for name in taken})


def _units(methods: Sequence[Method]) -> list[list[str]]:
    """Names of methods that go together: one, and those that have to keep up with it."""
    units: dict[str, list[str]] = {}
    for method in methods:
        first = method.name if method.objective is None else method.objective.of
        units.setdefault(first, []).append(method.name)
    return list(units.values())


def _copy_runs(source: Path, target: Path) -> None:
    """Put the models of a method in the place of others, whole or not at all."""
    fresh = target.with_name(f".joining-{target.name}")
    shutil.rmtree(fresh, ignore_errors=True)
    if source.is_dir():
        shutil.copytree(source, fresh)
    shutil.rmtree(target, ignore_errors=True)
    if fresh.is_dir():
        fresh.rename(target)
