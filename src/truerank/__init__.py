"""truerank: exact scores of embedding models, with ties, chance and confidence intervals.

The public names are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from truerank._util.old_names import (
    MOVED,
    REMOVED,
    RENAMED,
    serve_old_paths,
    warn_of_new_name,
)

if TYPE_CHECKING:
    from truerank import benchmark, conformance, datasets, engine, losses, metrics, report, training
    from truerank._util.errors import ExactnessError, InputError, TruerankWarning
    from truerank._util.installed import __version__
    from truerank.analysis.audit import Audit, audit
    from truerank.analysis.compare import Comparison, compare
    from truerank.analysis.compression import CompressionSweep, compression_sweep
    from truerank.analysis.neighbors import ExactNeighbors, exact_neighbors, neighbors
    from truerank.analysis.thresholds import choose_threshold
    from truerank.competition.board import Board
    from truerank.competition.leaderboards import leaderboard
    from truerank.competition.task import PublicTask, Task
    from truerank.conformance.explanation import Explanation, explain
    from truerank.core.score import Score
    from truerank.evaluation.evaluate import evaluate
    from truerank.evaluation.index_loss import IndexLoss, index_loss
    from truerank.evaluation.lists import evaluate_lists
    from truerank.evaluation.trials import verify
    from truerank.io.judgements import Taxonomy
    from truerank.io.sharding import shard
    from truerank.plots import plot
    from truerank.report.threshold_card import ThresholdCard, threshold_card
    from truerank.result.ranked_rows import Neighbors
    from truerank.result.result import Result

__all__ = [
    "Audit",
    "Board",
    "Comparison",
    "CompressionSweep",
    "ExactNeighbors",
    "ExactnessError",
    "Explanation",
    "IndexLoss",
    "InputError",
    "Neighbors",
    "PublicTask",
    "Result",
    "Score",
    "Task",
    "Taxonomy",
    "ThresholdCard",
    "TruerankWarning",
    "__version__",
    "audit",
    "benchmark",
    "choose_threshold",
    "compare",
    "compat",
    "compression_sweep",
    "conformance",
    "datasets",
    "engine",
    "evaluate",
    "evaluate_lists",
    "exact_neighbors",
    "explain",
    "index_loss",
    "leaderboard",
    "losses",
    "metrics",
    "neighbors",
    "plot",
    "report",
    "shard",
    "threshold_card",
    "training",
    "verify",
]

_HOME = {
    "Audit": "truerank.analysis.audit",
    "audit": "truerank.analysis.audit",
    "Comparison": "truerank.analysis.compare",
    "compare": "truerank.analysis.compare",
    "CompressionSweep": "truerank.analysis.compression",
    "compression_sweep": "truerank.analysis.compression",
    "ExactnessError": "truerank._util.errors",
    "InputError": "truerank._util.errors",
    "TruerankWarning": "truerank._util.errors",
    "Result": "truerank.result.result",
    "Score": "truerank.core.score",
    "Board": "truerank.competition",
    "PublicTask": "truerank.competition",
    "Task": "truerank.competition",
    "leaderboard": "truerank.competition",
    "Taxonomy": "truerank.io.judgements",
    "__version__": "truerank._util.installed",
    "choose_threshold": "truerank.analysis.thresholds",
    "ThresholdCard": "truerank.report.threshold_card",
    "threshold_card": "truerank.report.threshold_card",
    "evaluate": "truerank.evaluation.evaluate",
    "ExactNeighbors": "truerank.analysis.neighbors",
    "Explanation": "truerank.conformance.explanation",
    "explain": "truerank.conformance.explanation",
    "exact_neighbors": "truerank.analysis.neighbors",
    "IndexLoss": "truerank.evaluation.index_loss",
    "evaluate_lists": "truerank.evaluation.lists",
    "index_loss": "truerank.evaluation.index_loss",
    "Neighbors": "truerank.result.ranked_rows",
    "neighbors": "truerank.analysis.neighbors",
    "plot": "truerank.plots",
    "shard": "truerank.io.sharding",
    "verify": "truerank.evaluation.trials",
}


def __getattr__(name: str) -> Any:
    """Load what is asked for when it is asked for: importing truerank costs next to nothing."""
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    if name in __all__:
        return import_module(f"truerank.{name}")
    if name in RENAMED:
        warn_of_new_name(f"truerank.{name}", f"truerank.{RENAMED[name]}")
        return __getattr__(RENAMED[name])
    if f"truerank.{name}" in MOVED:
        return import_module(f"truerank.{name}")
    if f"truerank.{name}" in REMOVED:
        raise AttributeError(REMOVED[f"truerank.{name}"])
    raise AttributeError(f"module 'truerank' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__


serve_old_paths()
