"""Join what several machines have done: each has searched and rerun methods of one benchmark.

A folder takes over, method by method, the search and the models of a folder that is further.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from truerank.benchmark.config import BenchmarkConfig
from truerank.benchmark.config import read as read_config
from truerank.benchmark.layout import Layout
from truerank.benchmark.methods import Method
from truerank.benchmark.plan import open_plan
from truerank.benchmark.study import Studies
from truerank.errors import InputError
from truerank.files import atomic_path, read_json, to_json

__all__ = ["join"]


def join(
    folder: str | os.PathLike[str],
    others: Sequence[str | os.PathLike[str]],
    *,
    config: BenchmarkConfig | str | os.PathLike[str] | None = None,
) -> dict[str, tuple[int, str]]:
    """Take over what other folders have of the benchmark in a folder, and this one has not.

    A method is taken as a whole, with its search and its reruns, from the folder that has trained
    most of it; with it goes the method that it has to keep up with. All folders have one
    configuration and one split, and the test half is sealed. Interrupted, it can be done again.

    Parameters
    ----------
    folder : path
        The benchmark that goes on afterwards.
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
        own = read_config(target.config)
        if config is not None:
            target.check(config if isinstance(config, BenchmarkConfig) else read_config(config))
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
        raise InputError(f"the test half of {layout.folder} is open; nothing can be joined.")


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
