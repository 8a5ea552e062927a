"""Hyperparameter search of each method: Bayesian optimisation that can be resumed exactly.

Trials are kept in an Optuna database with one writer, this process. The parameters of trial k
are a function of the trials before it: a sampler is made anew for each, seeded by the method
and k, and gets the finished trials in order. So a search that was killed and resumed equals one
that was not.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from truerank._util.errors import InputError
from truerank._util.installed import install
from truerank.benchmark.config import BenchmarkConfig
from truerank.benchmark.methods import Method, Space, seed_of
from truerank.benchmark.tasks import FoldOutcome
from truerank.losses.registry import SearchChoice

BEHIND, DIVERGED = -1.0, -3.0
"""Scores of trials that miss what an objective demands, and of those that end in NaN."""


@dataclass
class Trial:
    """A set of parameters and what its folds have come to so far."""

    number: int
    parameters: dict[str, Any]
    identity: int
    """Of the trial in the database."""
    folds: dict[int, FoldOutcome] = field(default_factory=dict)
    score: float | None = None
    """The mean over the folds, 0 if one of them diverged, or what the method's objective makes of
    it; None while some are missing."""

    @property
    def state(self) -> str:
        """running, finished or diverged."""
        if self.score is None:
            return "running"
        diverged = any(fold.state == "diverged" for fold in self.folds.values())
        return "diverged" if diverged else "finished"


class Studies:
    """The searches of all methods.

    Parameters
    ----------
    path : path
        The database; made if there is none.
    methods : sequence of Method
    trials, startup, folds : int
        Trials of each method, how many of them are not yet modelled, and folds of a trial.
    seed : int
    """

    def __init__(
        self,
        path: Path,
        methods: Sequence[Method],
        *,
        trials: int,
        startup: int,
        folds: int,
        seed: int,
    ) -> None:
        self._optuna = _import_optuna()
        self.trials, self.startup, self.folds, self.seed = trials, startup, folds, seed
        self._methods = {method.name: method for method in methods}
        try:
            self._storage = self._optuna.storages.RDBStorage(f"sqlite:///{path}")
            self._studies = {name: self._open(name) for name in self._methods}
        except Exception as error:  # whatever sqlalchemy says of a full disk or a damaged file
            reason = " ".join(str(getattr(error, "orig", None) or error).split())[:200].rstrip(".")
            raise InputError(f"cannot open the searches in {path}: {reason}.") from error
        self.found: dict[str, list[Trial]] = {}
        for method in sorted(methods, key=lambda one: one.objective is not None):
            self.found[method.name] = self._read(method.name)  # objectives look at other searches
        self.found = {name: self.found[name] for name in self._methods}

    @classmethod
    def of(cls, config: BenchmarkConfig, path: Path, methods: Sequence[Method]) -> Studies:
        """The searches of a benchmark."""
        protocol = config.protocol
        return cls(
            path, methods, trials=protocol.trials, startup=protocol.startup, folds=protocol.folds,
            seed=protocol.seed,
        )  # fmt: skip

    def replace(self, name: str, other: Studies) -> None:
        """Take a method's search from other searches in place of the own one."""
        self._write(lambda: self._optuna.delete_study(study_name=name, storage=self._storage))
        self._write(lambda: self._optuna.copy_study(
            from_study_name=name, from_storage=other._storage, to_storage=self._storage
        ))  # fmt: skip

    def add(
        self, name: str, parameters: Mapping[str, Any], folds: Mapping[int, FoldOutcome]
    ) -> None:
        """Take in a trial of which the outcomes are known, behind those that are there."""
        trial = self._keep(name, len(self.found[name]), parameters)
        self.found[name].append(trial)
        for fold, outcome in folds.items():
            self.record(name, trial, fold, outcome)

    def close(self) -> None:
        """Let go of the database."""
        self._storage.remove_session()
        self._storage.engine.dispose()

    def current(self, name: str) -> Trial | None:
        """The trial under way, or the next one; None when all are done."""
        found = self.found[name]
        if found and found[-1].score is None:
            return found[-1]
        if len(found) >= self.trials:
            return None
        found.append(self._begin(name, len(found)))
        return found[-1]

    def is_done(self, name: str) -> bool:
        """Whether all trials of a method have ended."""
        return len(self.finished(name)) >= self.trials

    def finished(self, name: str) -> list[Trial]:
        """The trials that have ended, in order."""
        return [trial for trial in self.found[name] if trial.score is not None]

    def best(self, name: str) -> Trial:
        """The trial with the highest score, of equal ones the first."""
        return max(self.finished(name), key=lambda trial: (trial.score, -trial.number))

    def record(self, name: str, trial: Trial, fold: int, outcome: FoldOutcome) -> None:
        """Keep what a fold came to; with the last one the trial has its score."""
        trial.folds[fold] = outcome
        self._write(lambda: self._storage.set_trial_user_attr(
            trial.identity, f"fold-{fold}", outcome.to_dict()
        ))  # fmt: skip
        if len(trial.folds) == self.folds:
            trial.score = self._score(name, trial)
            complete = self._optuna.trial.TrialState.COMPLETE
            self._write(lambda: self._storage.set_trial_state_values(
                trial.identity, complete, [trial.score]
            ))  # fmt: skip

    def _score(self, name: str, trial: Trial) -> float:
        """What the search tries to raise.

        With an objective that is the metric to minimise, negative, where the validation score keeps
        up with that of the other method; trials that do not come behind all that do.
        """
        outcomes = [trial.folds[fold] for fold in range(self.folds)]
        diverged = any(outcome.state == "diverged" for outcome in outcomes)
        objective = self._methods[name].objective
        if objective is None:
            if diverged:
                return 0.0
            return math.fsum(outcome.score for outcome in outcomes) / self.folds
        if diverged:
            return DIVERGED
        short = self.floor(name) - math.fsum(outcome.score for outcome in outcomes) / self.folds
        if short > 0:
            return BEHIND - short
        return -math.fsum(one.measures[objective.minimise] for one in outcomes) / self.folds

    def floor(self, name: str) -> float:
        """The validation score that trials of a method with an objective must reach."""
        objective = self._methods[name].objective
        assert objective is not None
        reached = self.best(objective.of).score
        assert reached is not None
        return reached - objective.less

    def _write(self, act: Any) -> None:
        try:
            act()
        except Exception as error:
            reason = " ".join(str(getattr(error, "orig", None) or error).split())[:200].rstrip(".")
            raise InputError(
                f"cannot write to study.sqlite: {reason}; what is done is kept."
            ) from error

    def _open(self, name: str) -> int:
        study = self._optuna.create_study(
            study_name=name, storage=self._storage, direction="maximize", load_if_exists=True
        )
        identity: int = study._study_id
        return identity

    def _read(self, name: str) -> list[Trial]:
        """The kept trials; the last one may have folds missing."""
        trials: list[Trial] = []
        for kept in self._storage.get_all_trials(self._studies[name], deepcopy=False)[
            : self.trials
        ]:
            trial = Trial(len(trials), _as_given(self._methods[name], kept.params), kept._trial_id)
            for fold in range(self.folds):
                if f"fold-{fold}" in kept.user_attrs:
                    trial.folds[fold] = FoldOutcome(**kept.user_attrs[f"fold-{fold}"])
            if len(trial.folds) == self.folds:  # killed between the last fold and the score
                trial.score = self._score(name, trial)
                if not kept.state.is_finished():
                    complete = self._optuna.trial.TrialState.COMPLETE
                    self._storage.set_trial_state_values(kept._trial_id, complete, [trial.score])
            trials.append(trial)
        return trials

    def _begin(self, name: str, number: int) -> Trial:
        method = self._methods[name]
        parameters = dict(method.defaults)
        if number > 0 and method.space:
            parameters = self._propose(name, number, self._spaces(method))
        return self._keep(name, number, parameters)

    def _spaces(self, method: Method) -> dict[str, Any]:
        return {key: self._distribution(space) for key, space in method.space.items()}

    def _keep(self, name: str, number: int, parameters: Mapping[str, Any]) -> Trial:
        """Write down a trial that is under way."""
        method = self._methods[name]
        template = self._optuna.trial.create_trial(
            state=self._optuna.trial.TrialState.RUNNING,
            params=dict(parameters),
            distributions=self._spaces(method),
        )
        made: list[int] = []
        self._write(lambda: made.append(
            self._storage.create_new_trial(self._studies[name], template_trial=template)
        ))  # fmt: skip
        return Trial(number, _as_given(method, parameters), made[0])

    def _propose(self, name: str, number: int, spaces: Mapping[str, Any]) -> dict[str, Any]:
        """What a fresh sampler suggests after the finished trials."""
        from threadpoolctl import threadpool_limits

        optuna = self._optuna
        seed = seed_of(self.seed, "search", name, number)
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore")
            sampler = optuna.samplers.GPSampler(seed=seed, n_startup_trials=self.startup)
            study = optuna.create_study(sampler=sampler, direction="maximize")
            for trial in self.finished(name):
                study.add_trial(
                    optuna.trial.create_trial(
                        params=trial.parameters, distributions=dict(spaces), value=trial.score
                    )
                )
            asked: dict[str, Any] = study.ask(fixed_distributions=dict(spaces)).params
        return asked

    def _distribution(self, space: Space) -> Any:
        distributions = self._optuna.distributions
        if isinstance(space, SearchChoice):
            return distributions.CategoricalDistribution(space.values)
        if space.integer:
            return distributions.IntDistribution(int(space.low), int(space.high), log=space.log)
        return distributions.FloatDistribution(space.low, space.high, log=space.log)

    def rows(self) -> list[dict[str, Any]]:
        """A row for each fold of each trial, as in trials.csv."""
        rows = []
        for name, trials in self.found.items():
            for trial in trials:
                for fold, outcome in sorted(trial.folds.items()):
                    rows.append(
                        {
                            "method": name,
                            "trial": trial.number,
                            "fold": fold,
                            "parameters": json.dumps(trial.parameters),
                            "score": outcome.score,
                            "epochs": outcome.epochs,
                            "state": outcome.state,
                        }
                    )
        return rows


def _as_given(method: Method, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters in the order of the search space, whole numbers as ints."""
    return {name: parameters[name] for name in method.space}


def _import_optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise InputError(f"a benchmark needs optuna: {install('benchmark')}.") from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna
