"""The plan: trials one after another, folds and reruns side by side, each training once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.benchmark.small import settings
from truerank._util.errors import InputError
from truerank._util.files import to_json
from truerank.benchmark.config import BenchmarkConfig
from truerank.benchmark.layout import Layout
from truerank.benchmark.methods import methods_of
from truerank.benchmark.plan import Plan
from truerank.benchmark.search import Studies
from truerank.benchmark.tasks import FoldOutcome


def config(**protocol: Any) -> BenchmarkConfig:
    return BenchmarkConfig.of(
        settings(Path("drawings.npz"), protocol={"preset": "smoke", **protocol})
    )


class Bench:
    """A plan whose tasks end at once, with a score that their parameters decide."""

    def __init__(self, folder: Path, chosen: BenchmarkConfig) -> None:
        self.layout = Layout(folder)
        self.layout.folder.mkdir(exist_ok=True)
        protocol = chosen.protocol
        self.studies = Studies(
            self.layout.study, methods_of(chosen), trials=protocol.trials, startup=protocol.startup,
            folds=protocol.folds, seed=0,
        )  # fmt: skip
        self.plan = Plan(chosen, methods_of(chosen), self.studies, self.layout)
        self.order: list[Any] = []

    def finish(self, key: Any, task: Any) -> None:
        if key == ("baselines",):
            self.layout.projections.parent.mkdir(parents=True)
            self.layout.projections.touch()
            return
        rate = task.config["optimiser"]["lr"]
        folder = task.folder
        outcome = FoldOutcome(
            rate, 1, 1, "finished", 1.0, [], "weights", task.digest if folder else None
        )
        if folder is not None:
            folder.mkdir(parents=True)
            to_json(outcome.to_dict(), folder / "fold.json")
            (folder / "best.pt").touch()
        self.plan.record(key, outcome)

    def run(self, jobs: int = 1) -> None:
        running: list[Any] = []
        while True:
            while len(running) < jobs:
                found = self.plan.next([key for key, _ in running])
                if found is None:
                    break
                self.order.append(found[0])
                running.append(found)
            if not running:
                self.studies.close()
                return
            self.finish(*running.pop(0))


@pytest.mark.parametrize("jobs", [1, 5])
def test_everything_is_done_once(tmp_path: Path, jobs: int) -> None:
    bench = Bench(tmp_path / "out", config())
    bench.run(jobs)
    assert bench.plan.is_complete
    assert bench.plan.done == bench.plan.total == 2 * 2 * (3 + 2 + 1)
    assert len(bench.order) == len(set(bench.order)) == 1 + bench.plan.total


def test_a_trial_begins_when_the_one_before_has_ended(tmp_path: Path) -> None:
    """With more jobs than folds, both methods are at work, and each at one trial at a time."""
    bench = Bench(tmp_path / "out", config())
    running: list[Any] = []
    while (found := bench.plan.next([key for key, _ in running])) is not None:
        running.append(found)
    assert [key for key, _ in running] == [
        ("baselines",),
        ("trial", "contrastive", 0, 0), ("trial", "contrastive", 0, 1),
        ("trial", "arcface", 0, 0), ("trial", "arcface", 0, 1),
    ]  # fmt: skip
    for one in running[:3]:
        bench.finish(*one)
    found = bench.plan.next([key for key, _ in running[3:]])
    assert found is not None
    assert found[0] == ("trial", "contrastive", 1, 0)
    bench.studies.close()


def test_reruns_have_the_best_parameters_and_seeds_of_their_own(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "out", config())
    bench.run()
    method = bench.plan.methods[0]
    best = max(trial.parameters["lr"] for trial in bench.studies.found[method.name])
    tasks = [bench.plan._rerun(method, rerun, fold) for rerun in "01" for fold in range(2)]
    assert {task.config["optimiser"]["lr"] for task in tasks} == {best}
    assert len({task.config["training"]["seed"] for task in tasks}) == 4
    default = bench.plan._rerun(method, "default", 0)
    assert default.config["optimiser"]["lr"] == 1e-3


def test_fewer_trials_while_the_test_half_is_sealed(tmp_path: Path) -> None:
    """Reruns of parameters that are no longer the best are done again; others stay."""
    out = tmp_path / "out"
    first = Bench(out, config(trials=6))
    first.layout.write_config(config(trials=6))
    first.run()
    best = {m.name: first.studies.best(m.name).number for m in first.plan.methods}
    first.layout.admit(config(trials=2), resume=True)
    first.layout.write_config(config(trials=2))
    second = Bench(out, config(trials=2))
    for method in second.plan.methods:
        assert len(second.studies.found[method.name]) == 2
        kept = second.plan.ended(method.name, "0", 0) is not None
        assert kept == (second.studies.best(method.name).number == best[method.name])
        assert second.plan.ended(method.name, "default", 0) is not None
    second.studies.close()
    first.layout.openings.touch()
    with pytest.raises(InputError, match=r"was made with protocol.trials = 2, not 6"):
        first.layout.admit(config(trials=6), resume=True)


def test_a_training_is_known_by_what_it_depends_on(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "out", config())
    found = bench.plan.next([("baselines",)])
    assert found is not None
    task = found[1]
    here = {**task.config, "training": {**task.config["training"], "device": "cuda"}}
    other = {**task.config, "training": {**task.config["training"], "seed": 1}}
    assert type(task)(**{**vars(task), "config": here}).digest == task.digest
    assert type(task)(**{**vars(task), "config": other}).digest != task.digest
    older = {**task.config, "model": {**task.config["model"], "pretrained": True}}
    assert type(task)(**{**vars(task), "config": older}).digest == task.digest
    for section, name, changed in (
        ("augmentation", "square", True), ("optimiser", "lowest", 1e-9), ("training", "chunk", 3),
    ):  # fmt: skip
        fields = task.config[section]
        lacks = {**task.config, section: {k: v for k, v in fields.items() if k != name}}
        has = {**task.config, section: {**fields, name: changed}}
        assert type(task)(**{**vars(task), "config": lacks}).digest == task.digest
        assert type(task)(**{**vars(task), "config": has}).digest != task.digest
    bench.studies.close()
