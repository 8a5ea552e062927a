"""Every example in a docstring runs and prints what it says."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
from pathlib import Path

import pytest

import truerank
from tests.modules import module_names

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))


@pytest.mark.parametrize("name", list(module_names()))
def test_examples(name: str) -> None:
    failed, _ = doctest.testmod(importlib.import_module(name), raise_on_error=False)
    assert failed == 0


def test_the_front_doors_have_examples() -> None:
    finder = doctest.DocTestFinder(exclude_empty=True)
    for thing in (
        truerank.evaluate,
        truerank.Task,
        truerank.Task.evaluate,
        truerank.Result.by,
        truerank.compat.AccuracyCalculator,
        truerank.compat.evaluate_rank,
        truerank.metrics.parse,
    ):
        examples = [example for test in finder.find(thing) for example in test.examples]
        assert examples, thing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages(page: Path) -> None:
    failed, _ = doctest.testfile(str(page), module_relative=False)
    assert failed == 0


def test_the_page_of_metrics_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("pages", ROOT / "scripts/document_metrics.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8") == module.page()
