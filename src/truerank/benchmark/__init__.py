"""Benchmark: every loss searched, rerun and tested under the same conditions.

`run` takes a configuration and a folder and gives a Table; the folder keeps the searches, the
models of the reruns, the log of test evaluations, tables and figures. `score_table` makes a table
of models that are not trained here, from files or of untrained networks.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from truerank._util.errors import InputError
from truerank._util.installed import install

if TYPE_CHECKING:
    from truerank.benchmark.config import BenchmarkConfig
    from truerank.benchmark.config import read as read_config
    from truerank.benchmark.papers import tables as paper_tables
    from truerank.benchmark.plan import join
    from truerank.benchmark.runner import Display, describe_plan, run
    from truerank.benchmark.scored import (
        ScoredConfig,
        ScoredTable,
        describe_scored,
        read_scored,
        score_table,
    )
    from truerank.benchmark.tables import Table, paper_figure

__all__ = [
    "BenchmarkConfig",
    "Display",
    "ScoredConfig",
    "ScoredTable",
    "Table",
    "describe_plan",
    "describe_scored",
    "join",
    "paper_figure",
    "paper_tables",
    "read_config",
    "read_scored",
    "run",
    "score_table",
]

_HOME = {
    "BenchmarkConfig": ("config", "BenchmarkConfig"),
    "Display": ("runner", "Display"),
    "ScoredConfig": ("scored", "ScoredConfig"),
    "ScoredTable": ("scored", "ScoredTable"),
    "Table": ("tables", "Table"),
    "describe_plan": ("runner", "describe_plan"),
    "describe_scored": ("scored", "describe_scored"),
    "join": ("plan", "join"),
    "paper_figure": ("tables", "paper_figure"),
    "paper_tables": ("papers", "tables"),
    "read_config": ("config", "read"),
    "read_scored": ("scored", "read_scored"),
    "run": ("runner", "run"),
    "score_table": ("scored", "score_table"),
}
_EXTRA = ("PIL", "pydantic", "pytorch_metric_learning", "torch", "yaml")


def __getattr__(name: str) -> Any:
    """Load on demand: only a benchmark itself needs torch and its companions."""
    if name not in _HOME:
        raise AttributeError(f"module 'truerank.benchmark' has no attribute {name!r}")
    module, attribute = _HOME[name]
    try:
        return getattr(import_module(f"truerank.benchmark.{module}"), attribute)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _EXTRA:
            raise
        raise InputError(f"a benchmark needs {missing}: {install('benchmark')}.") from error


def __dir__() -> list[str]:
    return __all__
