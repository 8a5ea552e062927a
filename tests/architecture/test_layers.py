"""The layers of docs/architecture.md, from the bottom up: nobody imports from a layer above.

Imports inside functions and for types alone count as any other.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

import truerank

SOURCE = Path(truerank.__file__).parent
LAYERS: tuple[tuple[str, ...], ...] = (
    (
        "errors",
        "cached",
        "kernel_cache",
        "jit",
        "wording",
        "typesetting",
        "notebook",
        "extras",
        "blas",
        "progress",
        "storage",
        "cluster",
        "settings",
        "removed",
        "version",
        "digest",
    ),
    ("core",),
    (
        "arrays",
        "arrow",
        "labels",
        "taxonomy",
        "pairs",
        "relevance",
        "task",
        "files",
        "checkpoint",
    ),
    ("space",),
    ("engine",),
    ("metrics", "growth", "families", "kmeans"),
    ("stats",),
    (
        "severity",
        "attributes",
        "bars",
        "curves",
        "saved_curves",
        "drawn_curves",
        "tables",
        "galleries",
        "extrapolation",
        "ranked",
        "schema",
        "result",
        "operating_marks",
        "parts",
    ),
    ("clustering", "scoring", "evaluation", "lists", "verification", "threshold"),
    (
        "neighbourhood",
        "cards",
        "exact_neighbours",
        "sharding",
        "auditing",
        "comparison",
        "compression",
        "conformance",
        "organise",
        "report",
        "plots",
    ),
    ("losses", "datasets", "compat", "integrations", "training", "demonstration"),
    ("benchmark",),
    ("reproduce",),
    ("cli", "__main__", ""),
)
LAYER = {name: number for number, names in enumerate(LAYERS) for name in names}


def modules() -> dict[str, Path]:
    """Every module of the package by its name below truerank."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imported(path: Path) -> set[str]:
    """The modules of the package that a file imports anywhere in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {_module(name) for name in names if name.split(".")[0] == "truerank"}


def _module(name: str) -> str:
    """The module that a dotted name lies in."""
    parts = name.split(".")[1:]
    while ".".join(parts) not in MODULES:
        parts.pop()
    return ".".join(parts)


IMPORTS = {name: imported(path) - {name} for name, path in MODULES.items()}


def layer(module: str) -> int:
    return LAYER[module.split(".")[0]]


def test_the_page_shows_these_layers() -> None:
    page = Path(__file__).parents[2] / "docs" / "architecture.md"
    table = page.read_text().partition("| layer | holds |\n|---|---|\n")[2].partition("\n\n")[0]
    rows = [line.split("|")[1].replace("/", "").split(",") for line in table.splitlines()]
    shown = [{name.strip() for name in row} for row in rows]
    assert shown == [set(names) - {"__main__", ""} for names in LAYERS]


def test_every_module_has_a_layer() -> None:
    assert {module.split(".")[0] for module in MODULES} == set(LAYER)


@pytest.mark.parametrize("module", MODULES)
def test_nothing_above_is_imported(module: str) -> None:
    above = {other for other in IMPORTS[module] if layer(other) > layer(module)}
    assert above == set()


def test_there_is_no_cycle() -> None:
    """Type-only imports included; the package's own door aside."""
    state: dict[str, int] = defaultdict(int)
    cycles = []

    def walk(module: str, trail: tuple[str, ...]) -> None:
        state[module] = 1
        for other in IMPORTS[module] - {""}:
            if state[other] == 1:
                cycles.append((*trail[trail.index(other) :], other))
            elif state[other] == 0:
                walk(other, (*trail, other))
        state[module] = 2

    for module in MODULES:
        if state[module] == 0:
            walk(module, (module,))
    assert cycles == []
