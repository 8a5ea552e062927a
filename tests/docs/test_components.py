"""The page of all components of the papers: its tests, configurations, pages and counts exist."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from truerank import benchmark

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/results/components.md"
TEXT = PAGE.read_text(encoding="utf-8")
PAPERS = {"The Reality Check": 65, "Ties": 24, "GOM": 36, "HAPPIER": 42, "TCM and OPIS": 52}
STATUSES = ("works", "ready", "differs", "impossible here", "partly")
SECTIONS = dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", TEXT, flags=re.M | re.S))
MOST_PARTLY = 10


def rows_of(paper: str) -> list[list[str]]:
    """Number, component, status and evidence of every row."""
    lines = [line for line in SECTIONS[paper].splitlines() if re.match(r"\| \d", line)]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


ROWS = [(paper, *row) for paper in PAPERS for row in rows_of(paper)]


def with_status(status: str) -> list[tuple[str, str]]:
    """The paper and number of these rows, and their evidence."""
    return [(f"{paper} {row[0]}", row[3]) for paper, *row in ROWS if row[2] == status]


@cache
def functions(path: str) -> set[str]:
    """The functions of a file, those of classes included."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("paper", PAPERS)
def test_components_are_numbered_and_have_a_status(paper: str) -> None:
    rows = rows_of(paper)
    assert [int(row[0]) for row in rows] == list(range(1, PAPERS[paper] + 1))
    for number, component, status, evidence in rows:
        assert component, number
        assert status in STATUSES, number
        assert evidence, number


def test_the_counts_of_the_first_lines() -> None:
    start = TEXT.partition("\n## ")[0]
    assert f"| paper | components | {' | '.join(STATUSES)} |" in start
    for paper in (*PAPERS, "all"):
        counts = Counter(row[3] for row in ROWS if paper in (row[0], "all"))
        cells = [counts.total(), *(counts[status] for status in STATUSES)]
        assert f"| {paper} | {' | '.join(map(str, cells))} |" in start
    assert len(ROWS) == sum(PAPERS.values()) == 219
    assert len(with_status("partly")) <= MOST_PARTLY


def test_tests_that_are_named_exist() -> None:
    for paper, number, _, status, evidence in ROWS:
        named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", evidence)
        assert named or status != "works", (paper, number)
        for path, function in named:
            assert (ROOT / path).is_file(), (paper, number, path)
            assert function in functions(path), (paper, number, path, function)


def test_configurations_that_are_named_exist() -> None:
    known = {table.name for table in benchmark.paper_tables()}
    papers = "|".join(sorted({name.partition("/")[0] for name in known}))
    for paper, number, _, status, evidence in ROWS:
        named = re.findall(rf"`((?:{papers})/[\w.-]+)`", evidence)
        assert named or status != "ready", (paper, number)
        assert set(named) <= known, (paper, number)


def test_pages_that_say_why_exist() -> None:
    """Anchors, too, are checked with those of all pages."""
    for row, evidence in with_status("differs"):
        links = re.findall(r"\]\(([^)#]*)(?:#[\w-]+)?\)", evidence)
        assert links, row
        for page in filter(None, links):
            assert (PAGE.parent / page).is_file(), (row, page)


@pytest.mark.parametrize("status", ["impossible here", "partly"])
def test_a_reason_is_given(status: str) -> None:
    assert all(len(evidence.split()) > 4 for _, evidence in with_status(status))
