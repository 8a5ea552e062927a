"""What is trained, by the fair protocol: a benchmark in the run's folder, and what it left behind.

A configuration and a data set come in; a Finished goes out once the test half was opened, with the
results of every rerun. Where the time is over before, TimeOver is raised and everything is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from truerank import benchmark, losses
from truerank.benchmark.config import BenchmarkConfig
from truerank.benchmark.groups import difference, read_runs
from truerank.benchmark.layout import Layout
from truerank.benchmark.scoring import CONCAT, result_path
from truerank.cached import cached_property
from truerank.datasets.base import Dataset
from truerank.files import read_json
from truerank.reproduce.claims import Evidence
from truerank.reproduce.ledger import TimeOver
from truerank.reproduce.request import Request
from truerank.result import Result
from truerank.training.yaml_files import read_yaml

__all__ = [
    "PART",
    "Finished",
    "Make",
    "at_defaults",
    "few_of_each_class",
    "gain",
    "run_benchmark",
    "shifted",
]

Make = Callable[[], tuple[Mapping[str, Any], Dataset]]
"""What gives a configuration and its data, once they are needed."""
PART = "separated"
"""Scores are those of single models, as the papers have them: the mean over the folds' models."""


def at_defaults(loss: str, **parameters: Any) -> dict[str, Any]:
    """A loss's own parameters as its paper has them, so that its rates alone are searched."""
    entry = losses.entry(loss)
    return {name: entry.defaults[name] for name in entry.search} | parameters


def few_of_each_class(data: Dataset, count: int) -> Dataset:
    """The first images of each class."""
    _, codes = np.unique(data.fine_labels, return_inverse=True)
    order = np.argsort(codes, kind="stable")
    first = np.searchsorted(codes[order], np.arange(codes.max() + 1))
    place = np.empty(len(codes), np.int64)
    place[order] = np.arange(len(codes)) - first[codes[order]]
    return data.subset(np.flatnonzero(place < count))


def run_benchmark(request: Request, name: str, make: Make) -> Finished:
    """Run a benchmark in a folder of the request's, or go on with it.

    One that has ended is taken as it is: neither its data nor its models need be there.
    """
    layout = Layout(request.folder / name)
    if layout.table("json").is_file():
        kept = BenchmarkConfig.of(read_yaml(layout.config), str(layout.config))
        return Finished(name, kept, layout, read_json(layout.table("json")))
    request.clock.check()
    config, data = make()
    chosen = BenchmarkConfig.of(config)
    table = benchmark.run(
        chosen, layout.folder, data=data, resume=True, jobs=request.jobs,
        until=request.clock.left, display=benchmark.Display(quiet=request.quiet),
    )  # fmt: skip
    if table is None:
        raise TimeOver
    return Finished(name, chosen, layout, table.content)


@dataclass(frozen=True, eq=False)
class Finished:
    """A benchmark whose test half was opened."""

    name: str
    config: BenchmarkConfig
    layout: Layout
    table: Mapping[str, Any]

    @property
    def methods(self) -> list[str]:
        """The trained methods, in the order of the configuration."""
        return [method.name for method in self.config.methods if method.embeddings is None]

    @property
    def seeds(self) -> list[str]:
        """The reruns of the best parameters."""
        return [str(number) for number in range(self.config.protocol.reruns)]

    @cached_property
    def runs(self) -> dict[str, list[Result]]:
        """The result of each rerun by method, with replicates over the test classes."""
        folds = self.config.protocol.folds
        found: dict[str, list[Result]] = read_runs(self.layout, self.methods, self.seeds, folds)[
            PART
        ]
        return found

    def saved(self, method: str, seed: str, fold: int | None = None) -> Result:
        """One whole result, of a fold's model or of all together, with its curves."""
        part = CONCAT if fold is None else str(fold)
        return Result.from_json(result_path(self.layout.rerun(method, seed), part))

    def facts(self, method: str, read: Callable[[Mapping[str, Any]], float]) -> list[float]:
        """Something in the provenance of each rerun's results, as the mean over its folds."""
        found = []
        for seed in self.seeds:
            values = [
                read(self.saved(method, seed, fold).provenance)
                for fold in range(self.config.protocol.folds)
            ]
            found.append(math.fsum(values) / len(values))
        return found

    def mean(self, method: str, metric: str) -> float:
        """The mean over reruns."""
        values = [run[metric].value for run in self.runs[method]]
        return math.fsum(values) / len(values)

    def validation(self, method: str) -> float:
        """The validation score by which a method's parameters were chosen."""
        row = next(row for row in self.table["rows"] if row["method"] == method)
        return float(row["validation"]["score"])

    def best(self, methods: Sequence[str]) -> str:
        """The method with the highest validation score: the test half has no say in it."""
        return max(methods, key=self.validation)

    def summary(self, method: str, metric: str) -> Mapping[str, Any]:
        """Mean over reruns and its interval, as the benchmark's table has them."""
        row = next(row for row in self.table["rows"] if row["method"] == method)
        found: Mapping[str, Any] = row[PART][metric]
        return found

    def curves(self, method: str) -> list[list[list[float | None]]]:
        """Epoch, loss and validation metric of every training of the reruns."""
        folds = range(self.config.protocol.folds)
        paths = [self.layout.fold(method, s, f) / "fold.json" for s in self.seeds for f in folds]
        return [read_json(path)["curve"] for path in paths]

    @property
    def trainings(self) -> int:
        """How many trainings there were."""
        protocol = self.config.protocol
        return len(self.methods) * protocol.folds * (protocol.trials + protocol.reruns + 1)

    def numbers(self) -> dict[str, Any]:
        """The table and every field of the configuration, for the page's JSON."""
        return {**self.table, "config": self.config.to_dict()}

    def described(self) -> str:
        """Data, seeds and budget in a sentence."""
        protocol, shared = self.config.protocol, self.config.shared
        training = shared.training
        looks = self.table["openings"]
        return (
            f"{self.name}: {len(self.methods)} rows, {protocol.trials} trials x {protocol.folds} "
            f"folds each by validation {protocol.metric}, {protocol.reruns} seeds, the default "
            "parameters once, "
            f"{self.trainings:,} trainings of up to {training.epochs} x {training.iterations} "
            f"batches of {_batch(self.config)}; {shared.model.trunk}, {shared.model.dimensions} "
            f"dimensions; split: {self.config.data.split}; seed {protocol.seed}. The log of "
            f"openings has {looks['count']} lines, {looks['second_looks']} second looks, and ends "
            f"in `{looks['head'][:16]}`."
        )


def _batch(config: BenchmarkConfig) -> str:
    sampler = config.shared.sampler
    if sampler is None:
        return f"{config.shared.batch} images"
    return f"{sampler.classes} classes x {sampler.samples} images"


def shifted(result: Result, metric: str, by: float) -> Result:
    """A result with one score and its replicates moved by a constant."""
    score = result[metric]
    kept = score.replicates
    moved = None
    if kept is not None:
        moved = replace(kept, values=tuple(value + by for value in kept.values))
    changed = replace(
        score, value=score.value + by, lower=score.lower + by, expected=score.expected + by,
        upper=score.upper + by, interval=None, replicates=moved,
    )  # fmt: skip
    return Result({metric: changed}, provenance=result.provenance)


def gain(
    what: str,
    ours: Sequence[Result],
    theirs: Sequence[Result],
    metric: str,
    *,
    scale: float = 100,
    paper: str = "",
    digits: int = 2,
) -> Evidence:
    """How far one method is above another, paired over test classes, over runs and classes."""
    found = difference(ours, theirs, metric)
    ends = found["interval"]
    return Evidence(
        what,
        found["difference"],
        None if ends is None else (ends[0], ends[1]),
        paper,
        scale,
        digits,
        found["reason"] or "",
    )
