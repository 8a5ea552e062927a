"""The papers, re-run: their claims judged by rules that were fixed before, on data to be had.

`run` takes the name of a paper and a folder and gives a Page with verdicts, tables and figures.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from truerank.errors import InputError
from truerank.extras import install

if TYPE_CHECKING:
    from truerank.reproduce.claims import Claim, Evidence
    from truerank.reproduce.page import Page, read_page
    from truerank.reproduce.runs import PAPERS, run
    from truerank.reproduce.summary import summarise

__all__ = ["PAPERS", "Claim", "Evidence", "Page", "read_page", "run", "summarise"]

_HOME = {
    "PAPERS": "runs",
    "Claim": "claims",
    "Evidence": "claims",
    "Page": "page",
    "read_page": "page",
    "run": "runs",
    "summarise": "summary",
}
_EXTRA = ("PIL", "matplotlib", "optuna", "pydantic", "pytorch_metric_learning", "torch", "yaml")


def __getattr__(name: str) -> Any:
    """Load on demand: only a reproduction itself needs torch and its companions."""
    if name not in _HOME:
        raise AttributeError(f"module 'truerank.reproduce' has no attribute {name!r}")
    try:
        return getattr(import_module(f"truerank.reproduce.{_HOME[name]}"), name)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _EXTRA:
            raise
        raise InputError(f"a reproduction needs {missing}: {install('benchmark')}.") from error


def __dir__() -> list[str]:
    return __all__
