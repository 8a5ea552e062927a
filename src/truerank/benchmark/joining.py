"""Join what several machines have done: each has searched and rerun methods of one benchmark.

A folder takes over, method by method, the search and the models of a folder that is further.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from truerank.benchmark.config import BenchmarkConfig
from truerank.benchmark.config import read as read_config
from truerank.benchmark.layout import Layout
from truerank.benchmark.methods import methods_of
from truerank.benchmark.plan import Plan
from truerank.benchmark.study import Studies
from truerank.errors import InputError
from truerank.files import read_json, to_json

__all__ = ["join"]


def join(
    folder: str | os.PathLike[str], others: Sequence[str | os.PathLike[str]]
) -> dict[str, tuple[int, str]]:
    """Take over what other folders have of the benchmark in a folder, and this one has not.

    A method is taken as a whole, with its search and its reruns, from the folder that has trained
    most of it. All folders have one configuration and one split, and the test half is sealed.

    Parameters
    ----------
    folder : path
        The benchmark that goes on afterwards.
    others : sequence of path

    Returns
    -------
    dict
        For each method how many trainings are done, and in which folder they were.
    """
    target = Layout(folder)
    with target.locked():
        config = _config(target)
        if target.openings.exists():
            raise InputError(f"the test half of {target.folder} is open; nothing can be joined.")
        with _plan(target, config) as plan:
            here = str(target.folder)
            done = {method.name: (plan.count(method.name), here) for method in plan.methods}
        for other in others:
            source = Layout(other)
            with source.locked():
                _take(source, target, config, done)
    return done


def _take(
    source: Layout, target: Layout, config: BenchmarkConfig, done: dict[str, tuple[int, str]]
) -> None:
    """Replace every method of which the source has trained more."""
    _config(source)
    source.check(config)
    if source.openings.exists():
        raise InputError(f"the test half of {source.folder} is open; it cannot be joined.")
    if read_json(source.splits).get("digest") != read_json(target.splits).get("digest"):
        raise InputError(f"{source.folder} and {target.folder} split their data differently.")
    with _plan(source, config) as theirs, _plan(target, config) as ours:
        for method in theirs.methods:
            count = theirs.count(method.name)
            if count <= done[method.name][0]:
                continue
            ours.studies.replace(method.name, theirs.studies)
            shutil.rmtree(target.method(method.name), ignore_errors=True)
            if source.method(method.name).is_dir():
                shutil.copytree(source.method(method.name), target.method(method.name))
            done[method.name] = (count, str(source.folder))
    known = read_json(target.environment)
    added = [one for one in read_json(source.environment) if one not in known]
    to_json([*known, *added], target.environment)


def _config(layout: Layout) -> BenchmarkConfig:
    for path in (layout.config, layout.splits, layout.study):
        if not path.exists():
            raise InputError(f"{layout.folder} holds no benchmark: {path.name} is missing.")
    return read_config(layout.config)


@contextmanager
def _plan(layout: Layout, config: BenchmarkConfig) -> Iterator[Plan]:
    """What a folder has done."""
    trained = [method for method in methods_of(config) if method.is_trained]
    studies = Studies.of(config, layout.study, trained)
    try:
        yield Plan(config, trained, studies, layout)
    finally:
        studies.close()
