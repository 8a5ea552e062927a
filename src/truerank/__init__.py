"""truerank gives an embedding model the score it deserves."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from truerank.removed import REMOVED

if TYPE_CHECKING:
    from truerank import (
        benchmark,
        compat,
        conformance,
        datasets,
        engine,
        integrations,
        losses,
        metrics,
        report,
        reproduce,
        training,
    )
    from truerank.auditing import Audit, audit
    from truerank.cards import ThresholdCard, threshold_card
    from truerank.comparison import Comparison, compare
    from truerank.compression import Sweep, sweep
    from truerank.core.score import Score
    from truerank.errors import ExactnessError, InputError, TruerankWarning
    from truerank.evaluation import evaluate
    from truerank.exact_neighbours import Truth, truth
    from truerank.lists import IndexLoss, evaluate_lists, index_loss
    from truerank.neighbourhood import neighbours
    from truerank.organise import Board, PublicTask, Task, leaderboard
    from truerank.plots import plot
    from truerank.ranked import Neighbours
    from truerank.result import Result
    from truerank.sharding import shard
    from truerank.taxonomy import Taxonomy
    from truerank.threshold import choose_threshold
    from truerank.verification import verify
    from truerank.version import __version__

__all__ = [
    "Audit",
    "Board",
    "Comparison",
    "ExactnessError",
    "IndexLoss",
    "InputError",
    "Neighbours",
    "PublicTask",
    "Result",
    "Score",
    "Sweep",
    "Task",
    "Taxonomy",
    "ThresholdCard",
    "TruerankWarning",
    "Truth",
    "__version__",
    "audit",
    "benchmark",
    "choose_threshold",
    "compare",
    "compat",
    "conformance",
    "datasets",
    "engine",
    "evaluate",
    "evaluate_lists",
    "index_loss",
    "integrations",
    "leaderboard",
    "losses",
    "metrics",
    "neighbours",
    "plot",
    "report",
    "reproduce",
    "shard",
    "sweep",
    "threshold_card",
    "training",
    "truth",
    "verify",
]

_HOME = {
    "Audit": "truerank.auditing",
    "audit": "truerank.auditing",
    "Comparison": "truerank.comparison",
    "compare": "truerank.comparison",
    "Sweep": "truerank.compression",
    "sweep": "truerank.compression",
    "ExactnessError": "truerank.errors",
    "InputError": "truerank.errors",
    "TruerankWarning": "truerank.errors",
    "Result": "truerank.result",
    "Score": "truerank.result",
    "Board": "truerank.organise",
    "PublicTask": "truerank.organise",
    "Task": "truerank.organise",
    "leaderboard": "truerank.organise",
    "Taxonomy": "truerank.taxonomy",
    "__version__": "truerank.version",
    "choose_threshold": "truerank.threshold",
    "ThresholdCard": "truerank.cards",
    "threshold_card": "truerank.cards",
    "evaluate": "truerank.evaluation",
    "Truth": "truerank.exact_neighbours",
    "truth": "truerank.exact_neighbours",
    "IndexLoss": "truerank.lists",
    "evaluate_lists": "truerank.lists",
    "index_loss": "truerank.lists",
    "Neighbours": "truerank.ranked",
    "neighbours": "truerank.neighbourhood",
    "plot": "truerank.plots",
    "shard": "truerank.sharding",
    "verify": "truerank.verification",
}


def __getattr__(name: str) -> Any:
    """Load what is asked for when it is asked for: importing truerank costs next to nothing."""
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    if name in __all__:
        return import_module(f"truerank.{name}")
    if f"truerank.{name}" in REMOVED:
        raise AttributeError(REMOVED[f"truerank.{name}"])
    raise AttributeError(f"module 'truerank' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
