"""Studies: papers re-run, their claims judged by rules that were fixed before the run.

Of `ties` only the thresholds were; what counts as "in direction" was chosen afterwards.

`run` takes the name of a paper and a folder and gives a Page with verdicts, tables and figures.

gom             Wang et al. (2020): GOM, retrieval and verification in one metric
happier         Ramzi et al. (2022): training for hierarchical average precision
reality_check   Musgrave et al. (2020): progress in metric learning, from finished benchmarks
tcm             Zhang et al. (2024): OPIS, and the threshold-consistent margin
ties            Nicolaou et al. (2018): what ties and rounding do to mAP, without training
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from truerank._util.errors import InputError
from truerank._util.installed import install

if TYPE_CHECKING:
    from studies.claims import Claim, Evidence
    from studies.page import Page, read_page
    from studies.runner import PAPERS, run, summarise

__all__ = [
    "PAPERS",
    "Claim",
    "Evidence",
    "Page",
    "read_page",
    "run",
    "summarise",
]

_HOME = {
    "PAPERS": "runner",
    "Claim": "claims",
    "Evidence": "claims",
    "Page": "page",
    "read_page": "page",
    "run": "runner",
    "summarise": "runner",
}
_EXTRA = ("PIL", "matplotlib", "optuna", "pydantic", "pytorch_metric_learning", "torch", "yaml")


def __getattr__(name: str) -> Any:
    """Load on demand: only a reproduction itself needs torch and its companions."""
    if name not in _HOME:
        raise AttributeError(f"module 'studies' has no attribute {name!r}")
    try:
        return getattr(import_module(f"studies.{_HOME[name]}"), name)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _EXTRA:
            raise
        raise InputError(f"a reproduction needs {missing}: {install('benchmark')}.") from error


def __dir__() -> list[str]:
    return __all__
