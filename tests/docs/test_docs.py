"""Every example in a docstring runs and prints what it says."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

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


def test_documented_parameters_are_in_the_signature() -> None:
    for name, function in public_functions():
        documented = documented_parameters(function)
        signature = inspect.signature(function).parameters if documented else {}
        if not any(one.kind is one.VAR_KEYWORD for one in signature.values()):
            unknown = set(documented) - set(signature)
            assert not unknown, f"{name} has no {unknown}"


def public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Functions, classes and their methods in every public module, by name."""
    modules = [truerank]
    for module in modules:
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.ismodule(value):
                modules.append(value)
            elif inspect.isclass(value) or inspect.isfunction(value):
                yield name, value
            for method, one in inspect.getmembers(value, inspect.isfunction):
                if inspect.isclass(value) and not method.startswith("_"):
                    yield f"{name}.{method}", one


def documented_parameters(function: Callable[..., Any]) -> list[str]:
    """The names of a docstring's section of parameters."""
    _, _, section = (inspect.getdoc(function) or "").partition("Parameters\n----------\n")
    entries = re.split(r"\n\n?\w+\n---", section)[0]
    heads = [line for line in entries.splitlines() if line[:1].strip()]
    names = [name.strip("* ") for head in heads for name in head.split(" : ")[0].split(",")]
    return [name for name in names if name.isidentifier()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages(page: Path) -> None:
    failed, _ = doctest.testfile(str(page), module_relative=False)
    assert failed == 0


def test_the_page_of_metrics_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("pages", ROOT / "scripts/document_metrics.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8") == module.page()
