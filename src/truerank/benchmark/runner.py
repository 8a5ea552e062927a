"""run: a configuration in, a folder with searches, reruns, test evaluations and a table out.

The order is the protocol: the data are split, the development split goes to the workers, every
method is searched and its best is trained again, and only then is the test split read. A live
table, or lines where there is no terminal, shows the progress.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from truerank._util.cluster import Cluster, connect
from truerank._util.errors import InputError
from truerank._util.old_names import renamed_keywords
from truerank._util.progress import Estimate
from truerank.benchmark.config import BenchmarkConfig, read
from truerank.benchmark.holdout import Openings, check_scored, looks, write_reruns
from truerank.benchmark.layout import Layout, note_environment
from truerank.benchmark.methods import Method, methods_of, seed_of
from truerank.benchmark.plan import Plan, open_plan, task_of, write_cost
from truerank.benchmark.splits import (
    Splits,
    check_images,
    check_unchanged,
    extract,
    half_of,
    make_splits,
    write_splits,
)
from truerank.benchmark.tables import Table, draw_figures, make_table
from truerank.benchmark.tasks import (
    ComputeFeatures,
    TimeTraining,
    TryLoss,
    base_of,
    check_metrics,
    read_finished,
    with_features,
)
from truerank.benchmark.workers import ClusterWorkers, Crew, Half, Stopped, Workers
from truerank.datasets.base import Dataset
from truerank.datasets.catalogue import official
from truerank.datasets.catalogue import read as catalogue_read
from truerank.losses.registry import SearchChoice

Hire = Callable[[Half], Crew]
"""Who gives workers for one half of the data."""
TICK = 0.5
"""Seconds between two looks at the clock."""


@renamed_keywords(until="time_limit")
def run(
    config: BenchmarkConfig | Mapping[str, Any] | str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    data: Dataset | None = None,
    resume: bool = False,
    jobs: int = 1,
    time_limit: float | None = None,
    display: Display | None = None,
    cluster: str | None = None,
    gpu_share: float = 1.0,
    only: Collection[str] | None = None,
) -> Table | None:
    """Run or resume a benchmark.

    Parameters
    ----------
    config : BenchmarkConfig, mapping, path of a YAML file, or name of a paper's table
    folder : path
        Where everything is kept.
    data : Dataset, optional
        In place of reading the configuration's.
    resume : bool
        Go on with the benchmark in the folder, if there is one.
    jobs : int
        Number of trainings at a time, each in a separate process with one thread.
    time_limit : float, optional
        Seconds after which to stop, with everything kept; `resume=True` continues.
    display : Display, optional
        How the progress is shown.
    cluster : str, optional
        The Ray cluster that trains and scores, "auto" or an address, as many at a time as it has
        room for; all of its machines must see the folder. The table is the same.
    gpu_share : float
        The part of a GPU that a training takes on a cluster that has some.
    only : collection of str, optional
        Search and rerun these methods alone, where other machines run the rest; `join` puts
        their folders together.

    Returns
    -------
    Table or None
        None if the time was over, or only some methods were done, before the test half could be
        opened and scored.
    """
    chosen = _config(config)
    _check_names(chosen, only)
    if jobs < 1:
        raise InputError(f"The 'jobs' parameter of run must be an int >= 1. Got {jobs!r} instead.")
    if not isinstance(gpu_share, (int, float)) or not 0 < gpu_share <= 1:
        raise InputError(
            "The 'gpu_share' parameter of run must be a number above 0 and up to 1. "
            f"Got {gpu_share!r} instead."
        )
    if cluster is not None and jobs != 1:
        raise InputError("jobs are for one machine; a cluster fills its resources. Leave jobs out.")
    # Workers of a cluster are at work in folders of their own.
    layout = Layout(folder if cluster is None else os.path.abspath(folder))
    shown = display or Display(quiet=True)
    with ExitStack() as stack:
        hire: Hire = partial(Workers, jobs=jobs)
        if cluster is not None:
            gpu = {"auto": None, "cuda": True}.get(chosen.shared.training.device, False)
            hire = partial(
                _spread, stack.enter_context(connect(cluster, gpu=gpu, share=float(gpu_share)))
            )
        call = _Call(chosen, layout, hire, _Clock(time_limit), shown)
        return _locked(call, data, resume, only)


def _spread(cluster: Cluster, half: Half) -> ClusterWorkers:
    return ClusterWorkers(half, cluster)


class _Clock:
    """The time that a call may take."""

    def __init__(self, until: float | None) -> None:
        self.end = None if until is None else time.monotonic() + until

    @property
    def is_over(self) -> bool:
        return self.end is not None and time.monotonic() >= self.end


@dataclass(frozen=True)
class _Call:
    """What stays the same during one call of `run`."""

    config: BenchmarkConfig
    layout: Layout
    hire: Hire
    clock: _Clock
    display: Display


def _locked(
    call: _Call, data: Dataset | None, resume: bool, only: Collection[str] | None
) -> Table | None:
    """Run it, as long as nobody else writes to the folder."""
    with call.layout.locked():
        call.layout.admit(call.config, resume)
        whole = _read(call.config, data)
        splits = _check(call.config, whole, call.layout)
        call.layout.write_config(call.config)
        if not call.layout.splits.exists():
            write_splits(splits, call.layout.splits)
        half = Half(extract(whole, splits.search), splits.folds)
        test = extract(whole, splits.test) if data is not None else None
        del whole, data
        return _run(call, half, splits, test, only)


def _check_names(config: BenchmarkConfig, only: Collection[str] | None) -> None:
    known = {method.name: method for method in methods_of(config) if method.is_trained}
    if only is not None and not only:
        raise InputError("no method is named; leave 'only' out to train all.")
    for name in only or ():
        if name not in known:
            raise InputError(f"no method {name!r} is trained here; there are {', '.join(known)}.")
        beside = known[name].objective
        if beside is not None and beside.of not in (only or ()):
            raise InputError(f"{name} has to keep up with {beside.of}: name both.")


def _config(given: Any) -> BenchmarkConfig:
    """The configuration, whose trunk there is: nothing is written for one that there is not."""
    from truerank.training import trunks

    is_path = isinstance(given, (str, os.PathLike))  # or the name of a paper's table
    config = read(given) if is_path else BenchmarkConfig.of(given)
    model = config.shared.model
    trunks.check(model.base if model.trunk == "frozen" else model.trunk)
    return config


def _read(config: BenchmarkConfig, data: Dataset | None) -> Dataset:
    if data is not None:
        return data
    name = official(config.data.name) if config.data.split == "official" else config.data.name
    return catalogue_read(name, config.data.root)


def _check(config: BenchmarkConfig, data: Dataset, layout: Layout) -> Splits:
    """Halve the data as before; what would fail in the tenth hour is found now."""
    splits = make_splits(data, config.data.split, config.protocol.folds)
    if layout.splits.exists():
        check_unchanged(splits, layout.splits)
    else:
        check_metrics(half_of(data, splits.test), config.metrics)
        check_images(data)
    for method in methods_of(config):
        if method.embeddings is not None:
            read_finished(method.embeddings, len(splits.test))
    return splits


def _run(
    call: _Call, half: Half, splits: Splits, test: Dataset | None, only: Collection[str] | None
) -> Table | None:
    config, layout, clock = call.config, call.layout, call.clock
    methods = methods_of(config)
    finished = [method for method in methods if not method.is_trained]
    openings = Openings(layout.openings)
    with open_plan(config, layout, only) as plan:
        with call.hire(half) as crew:
            note_environment(layout, config, crew, half)
        try:
            with call.display:
                if not plan.is_complete:
                    _train(call, half, plan)
                del half
                if plan.is_complete and not clock.is_over:
                    _open(call, plan, finished, splits, test, openings)
        finally:
            plan.write_trials()
            write_cost(layout, plan)
        write_reruns(layout, [method.name for method in methods], plan.reruns)
        if not plan.is_complete or looks(plan, layout, finished, splits.digest):
            return None
        check_scored(openings, looks(plan, layout, finished, splits.digest, scored=True))
        table = make_table(config, layout, methods, plan, openings)
        table.write(layout)
        draw_figures(config, layout, methods, plan, table)
        return table


def _train(call: _Call, half: Half, plan: Plan) -> None:
    """Search and rerun until nothing is left or the time is over."""
    layout, clock = call.layout, call.clock
    base = base_of(call.config)
    if base is not None:
        if not layout.features.exists():
            with call.hire(half) as workers:
                workers.submit("features", ComputeFeatures(base, layout.features))
                workers.next()
        half = Half(with_features(half.data, layout.features), half.folds)
    with call.hire(half) as workers:
        stopping = False
        while True:
            while not stopping and workers.free > 0:
                found = plan.next(workers.running)
                if found is None:
                    break
                workers.submit(*found)
            if not workers.running:
                return
            call.display.show(plan, workers.running)
            for key, outcome in workers.next(None if clock.end is None else TICK):
                if not isinstance(outcome, Stopped):
                    plan.record(key, outcome)
            if clock.is_over and not stopping:
                stopping = True
                workers.stop()


def _open(
    call: _Call,
    plan: Plan,
    finished: list[Method],
    splits: Splits,
    test: Dataset | None,
    openings: Openings,
) -> None:
    """Announce all looks, then take those that are missing."""
    layout = call.layout
    left = looks(plan, layout, finished, splits.digest)
    check_scored(openings, looks(plan, layout, finished, splits.digest, scored=True))
    if not left:
        return
    if test is None:
        whole = _read(call.config, None)
        test = extract(whole, splits.test)
        del whole
    openings.announce([opening for opening, _ in left])
    total = len(left)
    with call.hire(Half(test, [])) as workers:
        while left or workers.running:
            while left and workers.free > 0 and not call.clock.is_over:
                opening, task = left.pop(0)
                workers.submit(opening, task)
            if not workers.running:
                return
            call.display.opened(total - len(left) - len(workers.running), total)
            for opening, outcome in workers.next(TICK):
                if not isinstance(outcome, Stopped):
                    kept = {"checkpoints": list(opening.checkpoints), **outcome}
                    layout.write_scores(opening.method, opening.rerun, kept)


def describe_plan(
    config: BenchmarkConfig | Mapping[str, Any] | str | os.PathLike[str],
    data: Dataset | None = None,
) -> str:
    """Describe what a benchmark would do, and try its losses on noise.

    Each loss is built with the parameters that its search starts from, in a worker as in training,
    and is given one batch of noise with the labels of a real one.
    """
    from truerank.benchmark.methods import deviations
    from truerank.training.devices import resolve

    chosen = _config(config)
    methods = methods_of(chosen)
    whole = _read(chosen, data)
    splits = make_splits(whole, chosen.data.split, chosen.protocol.folds)
    check_metrics(half_of(whole, splits.test), chosen.metrics)
    trained = [method for method in methods if method.is_trained]
    protocol = chosen.protocol
    searched = len(trained) * protocol.trials * protocol.folds
    again = len(trained) * (protocol.reruns + 1) * protocol.folds
    classes = [len(set(whole.fine_labels[rows].tolist())) for rows in (splits.search, splits.test)]
    training = chosen.shared.training
    lines = [
        f"{whole.name}: {len(splits.search):,} images of {classes[0]:,} classes in the "
        f"development split, {len(splits.test):,} of {classes[1]:,} in the test split.",
        f"{searched:,} trainings of the search ({len(trained)} methods x {protocol.trials} trials "
        f"x {protocol.folds} folds), {again:,} of reruns and of default parameters.",
        f"A training has up to {training.epochs * training.iterations:,} iterations of "
        f"{chosen.shared.batch} images.",
    ]
    for method in methods:
        spaces = ", ".join(
            f"{name} {_range(space)} from {json.dumps(method.defaults[name])}"
            if protocol.trials > 1
            else f"{name} {json.dumps(method.defaults[name])}"
            for name, space in method.space.items()
        )
        lines.append(f"  {method.name} ({method.kind}): {spaces or 'nothing to search'}")
    lines.append("Every loss was built and took a batch of noise.")
    with Workers(Half(extract(whole, splits.search), splits.folds), jobs=1) as workers:
        for method in trained:
            seed = seed_of(protocol.seed, "fold", 0)
            task = task_of(chosen, method, method.defaults, seed, 0, Path())
            workers.submit(method.name, TryLoss(task))
            ((_, value),) = workers.next()
            if not math.isfinite(value):
                lines[-1] += f" {method.name} gave {value} on it."
        if trained and chosen.shared.model.trunk != "frozen":
            workers.submit("time", TimeTraining(task.config))
            ((_, seconds),) = workers.next()
            device = resolve(training.device).type
            seconds *= chosen.shared.batch
            hours = seconds * training.epochs * training.iterations * (searched + again) / 3600
            lines.append(
                f"At most {_rounded(hours)} hours of training on this machine ({device}), one "
                f"training at a time: {_rounded(seconds)} s per iteration, without validation."
            )
    lines += [f"Deviates from the paper: {one}." for one in deviations(chosen)]
    return "\n".join(lines)


def _rounded(value: float) -> str:
    """A number with two digits, or with all digits before the point."""
    return f"{value:.2g}" if value < 100 else f"{value:,.0f}"


def _range(space: Any) -> str:
    if isinstance(space, SearchChoice):
        return json.dumps(list(space.values))
    return f"{'log ' if space.log else ''}[{space.low:g}, {space.high:g}]"


# What a person sees of a running benchmark: a live table on a terminal, else lines.


LOG_SECONDS = 30.0


class Display:
    """Progress of a benchmark: method, trial, fold, best score and time left."""

    def __init__(self, stream: IO[str] | None = None, *, quiet: bool = False) -> None:
        self.stream = sys.stderr if stream is None else stream
        self.quiet = quiet
        self._live: Any = None
        self._estimate = Estimate()
        self._told = -LOG_SECONDS

    def __enter__(self) -> Display:
        if not self.quiet and self.stream.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(file=self.stream), transient=True, auto_refresh=False)
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def show(self, plan: Plan, running: Collection[Any]) -> None:
        """Show the progress of the trainings."""
        if self.quiet:
            return
        done, total = plan.progress
        left = self._estimate.text(done, total, of="training")  # the test half is scored after it
        text = f"{done:,} of {total:,} trainings: {left}"
        if self._live is not None:
            self._live.update(self._table(plan, running, text), refresh=True)
        else:
            best = max(self._bests(plan), default=None)
            leader = "" if best is None else f"; best so far {best[1]} {100 * best[0]:.2f} %"
            self._log(text + leader)

    def opened(self, done: int, total: int) -> None:
        """Report how many models have been scored on the test split."""
        if self.quiet:
            return
        text = f"test evaluations: {done:,} of {total:,}"
        if self._live is not None:
            from rich.text import Text

            self._live.update(Text(text), refresh=True)
        else:
            self._log(text)

    def _log(self, text: str) -> None:
        now = time.monotonic()
        if now - self._told >= LOG_SECONDS:
            self._told = now
            self.stream.write(f"truerank: {text}\n")
            self.stream.flush()

    def _bests(self, plan: Plan) -> list[tuple[float, str]]:
        found = []
        for method in plan.methods:
            if plan.studies.finished(method.name):
                found.append((plan.studies.best(method.name).score or 0.0, method.name))
        return found

    def _table(self, plan: Plan, running: Collection[Any], title: str) -> Any:
        from rich.table import Table

        table = Table(title=title, title_justify="left")
        for column in ("method", "trial", "running folds", "reruns", "best so far"):
            table.add_column(column)
        bests = {name: value for value, name in self._bests(plan)}
        for method in plan.methods:
            name = method.name
            done = len(plan.studies.finished(name))
            folds = [str(key[3]) for key in running if key[0] != "baselines" and key[1] == name]
            again = sum(
                plan.ended(name, rerun, fold) is not None
                for rerun in plan.reruns
                for fold in range(plan.folds)
            )
            best = f"{100 * bests[name]:.2f} %" if name in bests else ""
            table.add_row(
                name,
                f"{done} of {plan.studies.trials}",
                ", ".join(folds),
                f"{again} of {len(plan.reruns) * plan.folds}",
                best,
            )
        return table
