"""Names of earlier versions, for one release: what moved, was renamed or was removed."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

from truerank._util.errors import warn

MOVED: dict[str, tuple[str, ...]] = {
    "truerank.auditing": ("truerank.analysis.audit",),
    "truerank.cards": ("truerank.report.threshold_card",),
    "truerank.clustering": ("truerank.evaluation.clustering",),
    "truerank.comparison": ("truerank.analysis.compare", "truerank.analysis.differences"),
    "truerank.compression": ("truerank.analysis.compression",),
    "truerank.datasets.images": ("truerank.datasets.base",),
    "truerank.errors": ("truerank._util.errors",),
    "truerank.exact_neighbours": ("truerank.analysis.neighbors",),
    "truerank.extrapolation": ("truerank.result.gallery_sizes",),
    "truerank.families": ("truerank.metrics.thresholds.verification",),
    "truerank.families.thresholds": ("truerank.metrics.thresholds.definitions",),
    "truerank.families.verification": ("truerank.metrics.thresholds.verification",),
    "truerank.families.verification.pair_metric": ("truerank.metrics.thresholds.verification",),
    "truerank.integrations": ("truerank.compat",),
    "truerank.integrations.callback": ("truerank.compat.lightning",),
    "truerank.integrations.metric": ("truerank.compat.torchmetrics",),
    "truerank.lists": ("truerank.evaluation.lists", "truerank.evaluation.index_loss"),
    "truerank.neighbourhood": ("truerank.analysis.neighbors",),
    "truerank.organise": ("truerank.competition",),
    "truerank.organise.board": ("truerank.competition.board",),
    "truerank.organise.ladder": ("truerank.competition.board",),
    "truerank.organise.task": ("truerank.competition.task",),
    "truerank.parts": ("truerank.result.tables",),
    "truerank.ranked": ("truerank.result.ranked_rows",),
    "truerank.settings": ("truerank._util.settings",),
    "truerank.sharding": ("truerank.io.sharding",),
    "truerank.space": ("truerank.distance",),
    "truerank.space.sourced": ("truerank.distance.cosine",),
    "truerank.taxonomy": ("truerank.io.judgements",),
    "truerank.threshold": ("truerank.analysis.thresholds", "truerank.analysis.operating_points"),
    "truerank.verification": ("truerank.evaluation.trials",),
    "truerank.version": ("truerank._util.installed",),
}
"""Where the names of a module of 0.1 are now."""

RENAMED = {
    "Neighbours": "Neighbors",
    "Sweep": "CompressionSweep",
    "Truth": "ExactNeighbors",
    "neighbours": "neighbors",
    "sweep": "compression_sweep",
    "truth": "exact_neighbors",
}
"""Public names of truerank."""

RENAMED_COMMANDS = {"neighbours": "neighbors", "sweep": "compression", "truth": "neighbors --all"}
RENAMED_OPTIONS = {"--no-mate": "--unmated", "--until": "--time-limit"}


REMOVED = {
    name: f"{name} was removed: {instead}."
    for name, instead in {
        "truerank.planning": "docs/results/scale.md has the figures to calculate with",
        "truerank plan": "docs/results/scale.md has the figures to calculate with",
        "truerank.reproduce": "python -m studies runs it, from a checkout of the repository",
        "truerank reproduce": "python -m studies runs it, from a checkout of the repository",
        "set_precision": "mrp@tau= is the mean precision at the relevant items accepted at tau",
        "set_recall": "tar@tau= is the share of the positive pairs accepted at the distance tau",
    }.items()
}
"""The sentence about each module ("truerank.NAME"), command ("truerank NAME") and metric."""

WITHOUT_BAND = {
    "mrp": "this curve has no band (mrp@tau= or mrp@far= has an interval at each threshold).",
    "mvp": "this curve has no band (mvp@tau= or mvp@far= has an interval at each threshold).",
    "utility": "this curve has no band (opis has an interval).",
}
"""What to use instead of the bands that curves had in earlier versions."""


class _OldNames(MetaPathFinder, Loader):
    """Asked first: a folder that is left of an old module would be found as a namespace."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name in REMOVED:
            raise ImportError(REMOVED[name], name=name)
        # As packages, with an empty path: no old submodule is found but those in the table.
        return ModuleSpec(name, self, is_package=True) if name in MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        old = module.__name__
        homes = " and ".join(MOVED[old])
        warn(f"the module {old} is now {homes}; its old path goes in 0.3.0.", DeprecationWarning)
        vars(module)["__getattr__"] = _in_new_places(old)


def serve_old_paths() -> None:
    """Let `import` find old module paths; truerank calls it once."""
    sys.meta_path.insert(0, _OldNames())


def _in_new_places(old: str) -> Callable[[str], Any]:
    def look_up(name: str) -> Any:
        for home in MOVED[old]:
            found = import_module(home)
            for spelling in (name, RENAMED.get(name, name)):
                if hasattr(found, spelling):
                    return getattr(found, spelling)
        raise AttributeError(f"module {old!r} has no attribute {name!r}")

    return look_up


Given = ParamSpec("Given")
Value = TypeVar("Value")
_warned: set[tuple[str, str]] = set()


def warn_of_new_name(old: str, new: str) -> None:
    """Say once per process what an old name is called now."""
    if (old, new) not in _warned:
        _warned.add((old, new))
        warn(f"{old} is now {new}; the old name goes in 0.3.0.", DeprecationWarning)


def renamed_keywords(
    **new_names: str,
) -> Callable[[Callable[Given, Value]], Callable[Given, Value]]:
    """Let a function take keywords by their old names, with a warning."""

    def decorate(function: Callable[Given, Value]) -> Callable[Given, Value]:
        @functools.wraps(function)
        def call(*args: Given.args, **kwargs: Given.kwargs) -> Value:
            for old, new in new_names.items():
                if old in kwargs:
                    warn_of_new_name(f"{old}=", f"{new}=")
                    if new in kwargs:
                        raise TypeError(f"{old}= and {new}= are one keyword: pass {new}= alone.")
                    kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call

    return decorate


class RenamedAttribute:
    """An attribute by its old name, with a warning."""

    def __init__(self, new: str) -> None:
        self._new = new

    def __set_name__(self, owner: type, name: str) -> None:
        self._old = name

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        warn_of_new_name(f"{owner.__name__}.{self._old}", f"{owner.__name__}.{self._new}")
        return getattr(instance, self._new)
