"""Searches for the smallest of one metric that keep up in another, and parameters of parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.benchmark.small import settings
from truerank._util.errors import InputError
from truerank.benchmark.config import BenchmarkConfig
from truerank.benchmark.layout import Layout
from truerank.benchmark.methods import methods_of, training_config
from truerank.benchmark.plan import Plan
from truerank.benchmark.search import BEHIND, Studies
from truerank.benchmark.tasks import FoldOutcome

WITH = {
    "name": "triplet+tcm",
    "loss": "triplet",
    "parameters": {"margin": 0.1},
    "plus": [{"name": "tcm", "weight": 2.0, "parameters": {"negative_margin": 0.3}}],
    "search": {
        "tcm.positive_margin": {"low": 0.6, "high": 1.0},
        "tcm.weight": {"low": 0.1, "high": 10.0, "log": True},
    },
    "objective": {"minimise": "opis", "of": "triplet", "less": 0.005},
}


def config(method: dict[str, Any] = WITH, **shared: Any) -> BenchmarkConfig:
    given = settings(Path("drawings.npz"), methods=[method, "triplet"])
    given["shared"] |= shared
    return BenchmarkConfig.of(given)


def outcome(score: float, opis: float | None = None, state: str = "finished") -> FoldOutcome:
    measures = {} if opis is None else {"opis": opis}
    return FoldOutcome(score, 1, 1, state, 0.0, [], measures=measures)


def test_parts_are_searched_by_their_names() -> None:
    method = methods_of(config())[0]
    assert set(method.space) == {"tcm.positive_margin", "tcm.weight", "lr"}
    assert method.defaults["tcm.positive_margin"] == 0.9
    assert method.defaults["tcm.weight"] == 2.0
    found = training_config(
        config(), method, {"tcm.positive_margin": 0.7, "tcm.weight": 0.5, "lr": 1e-3}, seed=1
    )
    assert found["loss"]["parameters"] == {"margin": 0.1}
    (part,) = found["loss"]["plus"]
    assert part["weight"] == 0.5
    assert part["parameters"] == {"negative_margin": 0.3, "positive_margin": 0.7}
    with pytest.raises(InputError, match=r"'tcm.size', which is no parameter"):
        methods_of(config(WITH | {"search": {"tcm.size": {"low": 0, "high": 1}}}))


def test_one_sampler_for_all_takes_the_place_of_the_losses_own() -> None:
    sampler = {"classes": 4, "samples": 2}
    for method in methods_of(config(sampler=sampler)):
        found = training_config(config(sampler=sampler), method, dict(method.defaults), seed=1)
        assert (found["sampler"]["classes"], found["sampler"]["samples"]) == (4, 2)


@pytest.mark.parametrize(
    ("objective", "says"),
    [
        ({"minimise": "map@r", "of": "triplet"}, "better when lower"),
        ({"minimise": "opis", "of": "nobody"}, "no trained method without an objective"),
        ({"minimise": "opis", "of": "triplet+tcm"}, "no trained method without an objective"),
    ],
)
def test_objectives_that_cannot_be_are_refused(objective: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        config(WITH | {"objective": objective})


def open_studies(path: Path) -> Studies:
    return Studies(path, methods_of(config()), trials=4, startup=2, folds=2, seed=0)


def test_trials_that_keep_up_are_ranked_by_the_other_metric(tmp_path: Path) -> None:
    studies = open_studies(tmp_path / "study.sqlite")
    for score in (0.5, 0.4, 0.3, 0.2):
        trial = studies.current("triplet")
        assert trial is not None
        for fold in range(2):
            studies.record("triplet", trial, fold, outcome(score))
    assert studies.floor("triplet+tcm") == pytest.approx(0.495)
    ended = [(0.6, 0.03), (0.4951, 0.01), (0.49, 0.001)]
    for score, opis in ended:
        trial = studies.current("triplet+tcm")
        assert trial is not None
        studies.record("triplet+tcm", trial, 0, outcome(score, opis))
        studies.record("triplet+tcm", trial, 1, outcome(score, opis + 0.002))
    trial = studies.current("triplet+tcm")
    assert trial is not None
    studies.record("triplet+tcm", trial, 0, outcome(0.6, 0.001))
    studies.record("triplet+tcm", trial, 1, outcome(0.0, state="diverged"))
    scores = [trial.score for trial in studies.found["triplet+tcm"]]
    assert scores[:2] == pytest.approx([-0.031, -0.011])
    assert scores[2] == pytest.approx(BEHIND - 0.005)
    assert scores[3] == min(scores)
    assert studies.best("triplet+tcm").number == 1
    studies.close()
    again = open_studies(tmp_path / "study.sqlite")
    assert [trial.score for trial in again.found["triplet+tcm"]] == scores
    again.close()


def test_a_method_waits_for_the_one_it_must_keep_up_with(tmp_path: Path) -> None:
    chosen = config()
    layout = Layout(tmp_path)
    protocol = chosen.protocol
    studies = Studies(
        layout.study, methods_of(chosen), trials=protocol.trials, startup=protocol.startup,
        folds=protocol.folds, seed=0,
    )  # fmt: skip
    plan = Plan(chosen, methods_of(chosen), studies, layout)
    layout.projections.parent.mkdir(parents=True)
    layout.projections.touch()
    order = []
    while (found := plan.next([])) is not None and found[0][0] == "trial":
        key, task = found
        order.append(key[1])
        assert task.measures == (("opis",) if key[1] == "triplet+tcm" else ())
        plan.record(key, outcome(0.5, 0.01))
    assert order == ["triplet"] * 6 + ["triplet+tcm"] * 6
    studies.close()
