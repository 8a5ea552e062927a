"""The rooms of docs/reference/architecture.md: what may import what, types included."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import truerank

SOURCE = Path(truerank.__file__).parent
STUDIES = SOURCE.parents[1] / "studies"

ROOMS: tuple[tuple[str, ...], ...] = (
    ("_util",),
    ("core",),
    ("task",),
    ("io",),
    ("distance",),
    ("engine",),
    ("metrics",),
    ("intervals",),
    ("result",),
    ("evaluation",),
    ("analysis",),
    ("plots", "report", "competition", "conformance", "compat"),
    ("losses", "datasets"),
    ("training",),
    ("benchmark",),
    ("cli",),
)
"""Lowest first. A room imports lower ones; rooms of one line do not import one another."""

SIDEWAYS = {("report", "competition")}
ONLY = {"losses": {"_util", "task", "io"}, "datasets": {"_util", "task", "io"}}
"""Rooms that import less than their height allows."""

ON_PURPOSE = {
    ("truerank.core.metric", "metrics"),  # load() imports all definitions
    ("truerank.result.result", "plots"),  # Result.plot
    ("truerank.result.result", "report"),  # Result.to_html
    ("truerank.analysis.compare", "plots"),  # Comparison.plot
    ("truerank.datasets.base", "competition"),  # Dataset.task
}
"""Who reaches up, in a function."""

HEIGHT = {room: height for height, rooms in enumerate(ROOMS) for room in rooms}


class Import(NamedTuple):
    module: str
    name: str | None
    when: str  # load, later or types


def module_name(path: Path) -> str:
    parts = list(path.relative_to(SOURCE.parent).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}
INSIDE = sorted(set(MODULES) - {"truerank", "truerank.__main__"})


def room(module: str) -> str:
    return module.split(".")[1]


def imports(body: list[ast.stmt], when: str = "load") -> Iterator[Import]:
    for node in body:
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, None, when) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name the whole path"
            yield from (Import(node.module or "", alias.name, when) for alias in node.names)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from imports(node.body, "types")
        else:
            within = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            for field in ("body", "orelse", "finalbody", "handlers", "cases"):
                yield from imports(getattr(node, field, []), "later" if within else when)


def imported(module: str) -> Iterator[Import]:
    """What a module imports of the package: by statements, and by names in strings."""
    for found in imports(MODULES[module].body):
        if f"{found.module}.{found.name}" in MODULES:
            yield Import(f"{found.module}.{found.name}", None, found.when)
        elif found.module in MODULES and found.module != "truerank":
            yield found
    if module == "truerank._util.old_names":  # a table of names, which imports nothing by itself
        return
    for node in ast.walk(MODULES[module]):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            name = node.value.partition(":")[0]
            if name in MODULES and name != "truerank":
                yield Import(name, None, "later")


@pytest.mark.parametrize("module", INSIDE)
def test_a_room_imports_lower_rooms_only(module: str) -> None:
    mine = room(module)
    for found in imported(module):
        theirs = room(found.module)
        if mine == theirs or (mine, theirs) in SIDEWAYS:
            continue
        if (module, theirs) in ON_PURPOSE:
            assert found.when != "load"
            continue
        assert HEIGHT[theirs] < HEIGHT[mine], f"{module} imports {found.module}"
        assert theirs in ONLY.get(mine, HEIGHT), f"{module} imports {found.module}"


def test_every_room_is_listed() -> None:
    folders = {path.parent.name for path in SOURCE.glob("*/*.py")}
    assert folders == set(HEIGHT)
    files = {path.name for path in SOURCE.iterdir() if path.is_file()}
    assert files == {"__init__.py", "__main__.py", "py.typed"}


def test_the_studies_are_imported_by_nobody() -> None:
    assert STUDIES.is_dir()
    for module in MODULES:
        names = {found.module.partition(".")[0] for found in imports(MODULES[module].body)}
        assert "studies" not in names, module


def test_no_module_needs_itself_to_be_loaded() -> None:
    needs: dict[str, set[str]] = defaultdict(set)
    for module in INSIDE:
        needs[module] = {one.module for one in imported(module) if one.when == "load"}
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join([*path[path.index(module) :], module])
        if module not in done:
            for other in sorted(needs[module] - {module}):
                visit(other, (*path, module))
            done.add(module)

    for module in INSIDE:
        visit(module, ())


def bound(body: list[ast.stmt]) -> Iterator[str]:
    """Names that a module binds by definitions and assignments, once for each statement."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Assign):
            targets = [name for target in node.targets for name in ast.walk(target)]
            yield from (n.id for n in targets if isinstance(n, ast.Name) and n.id != "_")
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


@pytest.mark.parametrize("module", sorted(MODULES))
def test_no_name_is_bound_twice(module: str) -> None:
    names = Counter(bound(MODULES[module].body))
    assert not [name for name, count in names.items() if count > 1]


def test_no_two_classes_share_a_name() -> None:
    where = defaultdict(list)
    for module, tree in MODULES.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                where[node.name].append(module)
    assert not {name: found for name, found in where.items() if len(found) > 1}
