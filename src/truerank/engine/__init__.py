"""Engine: passes over queries x gallery that yield tie groups and fill reducers.

The public names are loaded when they are first used. engine/runner.py shows how a pass proceeds.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from truerank._util.settings import METHODS, Settings, settings
    from truerank._util.threads import available_cores
    from truerank.core.jackknife import GalleryFolds
    from truerank.core.tie_groups import Block, SplitGroups, TieGroups
    from truerank.engine.counts import Counts
    from truerank.engine.runner import (
        keeping,
        keeps_observed,
        prepare,
        run,
        sweep,
        tie_groups,
    )
    from truerank.engine.schedule import DEVICES, resolve_device, rounding_device

_HOME = {
    "DEVICES": "truerank.engine.schedule",
    "METHODS": "truerank._util.settings",
    "Block": "truerank.core.tie_groups",
    "Counts": "truerank.engine.counts",
    "GalleryFolds": "truerank.core.jackknife",
    "Settings": "truerank._util.settings",
    "SplitGroups": "truerank.core.tie_groups",
    "TieGroups": "truerank.core.tie_groups",
    "available_cores": "truerank._util.threads",
    "keeping": "truerank.engine.runner",
    "keeps_observed": "truerank.engine.runner",
    "prepare": "truerank.engine.runner",
    "resolve_device": "truerank.engine.schedule",
    "rounding_device": "truerank.engine.schedule",
    "run": "truerank.engine.runner",
    "settings": "truerank._util.settings",
    "sweep": "truerank.engine.runner",
    "tie_groups": "truerank.engine.runner",
}

__all__ = [
    "DEVICES",
    "METHODS",
    "Block",
    "Counts",
    "GalleryFolds",
    "Settings",
    "SplitGroups",
    "TieGroups",
    "available_cores",
    "keeping",
    "keeps_observed",
    "prepare",
    "resolve_device",
    "rounding_device",
    "run",
    "settings",
    "sweep",
    "tie_groups",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'truerank.engine' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
