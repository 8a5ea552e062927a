"""The page of what indexes lose is that of the recorded run, in which the parts add up."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
RECORD = json.loads((ROOT / "docs/results/index-loss.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("index_loss", ROOT / "scripts/index_loss.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date(script: ModuleType) -> None:
    page = (ROOT / "docs/results/index-loss.md").read_text(encoding="utf-8")
    assert page == script.page(RECORD)


def test_three_kinds_at_three_settings_add_up(script: ModuleType) -> None:
    told = [(run["kind"], run["factory"], run["search"], run["k"]) for run in RECORD["runs"]]
    assert told == list(script.SETTINGS)
    assert {kind: sum(one[0] == kind for one in told) for kind, *_ in told} == dict.fromkeys(
        ("flat", "HNSW", "IVF-PQ"), 3
    )
    for run in RECORD["runs"]:
        for loss in run["losses"].values():
            for end in ("lower", "expected", "upper"):
                parts = sum(loss[part][end] for part in ("quantisation", "cut", "search"))
                whole = loss["full"][end] - loss["returned"][end]
                assert parts == pytest.approx(whole, abs=1e-15)
                assert loss["total"][end] == whole
