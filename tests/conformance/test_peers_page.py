"""docs/results/other-tools.md is what the kit says today about the tools installed here."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "results" / "other-tools.md").read_text(encoding="utf-8")
QUICK = ["pytrec_eval-terrier", "scikit-learn", "first column dropped"]
SLOW = ["pytorch-metric-learning", "torchmetrics", "ranx"]


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> Any:
    """scripts/peers/judged.py as a module."""
    folder = ROOT / "scripts" / "peers"
    monkeypatch.syspath_prepend(str(folder))
    spec = importlib.util.spec_from_file_location("judged", folder / "judged.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.modules.pop("cases", None)


@pytest.mark.parametrize(
    "tool", [*QUICK, *(pytest.param(one, marks=pytest.mark.slow) for one in SLOW)]
)
def test_the_page_holds_every_verdict(tool: str, judged: Any) -> None:
    functions = [one for one in judged.TOOLS[tool]() if one.judged]
    assert functions
    for one in functions:
        found = judged.verdict(one)
        assert found["headline"] in PAGE
        for sentence in found["own"]:
            assert sentence[1:] in PAGE
        if not found["fails"] and tool not in ("ranx", "torchmetrics"):
            # Where ties go by the sort, the values shown may differ between machines.
            assert found["text"] in PAGE
