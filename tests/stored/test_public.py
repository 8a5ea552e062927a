"""What users may write down is what was stored: names, signatures, commands, options, keys.

A difference is a change of the interface. If it is meant, `python -m tests.stored.public` stores it
anew, and the changelog says so.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import truerank
from tests.stored.public import FOLDER, texts
from truerank._util.old_names import REMOVED
from truerank.losses.catalogue import LOSSES

PACKAGE = Path(truerank.__file__).parent
PATH = re.compile(r"\btruerank(?:\.\w+)+(?::\w+)?")
OWN_NAME = ast.dump(ast.parse('f"{__name__}"', mode="eval").body.values[0])  # type: ignore[attr-defined]


@pytest.mark.filterwarnings("ignore")
def test_the_interface_is_the_stored_one() -> None:
    before = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()}
    now = texts()
    assert before.keys() == now.keys()
    changed = [
        line
        for name in now
        for line in difflib.unified_diff(
            before[name].splitlines(), now[name].splitlines(), name, name, n=1, lineterm=""
        )
    ]
    assert not changed, "\n".join(changed)


# --- text that names modules


def named() -> Iterator[tuple[str, str]]:
    """Where text in the code names something of the package, and the path that it names.

    Comments and docstrings aside. `f"{__name__}:name"` names something of the module that it is in.
    """
    for file in sorted(PACKAGE.rglob("*.py")):
        place = file.relative_to(PACKAGE.parent)
        module = ".".join(place.with_suffix("").parts).removesuffix(".__init__")
        tree = ast.parse(file.read_text(encoding="utf-8"))
        said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                if id(node) not in said:
                    yield from ((f"{place}:{node.lineno}", p) for p in PATH.findall(node.value))
            elif isinstance(node, ast.JoinedStr) and len(node.values) == 2:
                first, last = node.values
                if ast.dump(first) == OWN_NAME and isinstance(last, ast.Constant):
                    yield f"{place}:{node.lineno}", f"{module}{last.value}"


def find(path: str) -> object:
    """What a path names: a module, or "module:name", or something in a module."""
    module, _, name = path.partition(":")
    try:
        found: object = importlib.import_module(module)
    except ModuleNotFoundError as error:
        above, dot, last = module.rpartition(".")
        if not dot or error.name != module:
            raise
        found = getattr(find(above), last)
    return getattr(found, name) if name else found


def test_text_that_names_modules_names_what_is_there() -> None:
    """Calls for a cluster, names that are loaded when asked for, commands for processes."""
    paths, missing = list(named()), []
    for place, path in paths:
        if path in REMOVED:
            continue
        try:
            find(path)
        except (ImportError, AttributeError) as error:
            missing.append(f"{place}: {path} ({error})")
    assert not missing
    assert len(paths) > 50


@pytest.mark.parametrize("name", list(LOSSES))
def test_losses_are_built_by_what_is_there(name: str) -> None:
    build = LOSSES[name].build
    if isinstance(build, str):
        module, _, _ = build.partition(":")
        assert callable(find(f"truerank.losses.{build}")), module


def test_the_entry_point_is_there() -> None:
    """And is what pyproject.toml says."""
    project = (PACKAGE.parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    (path,) = re.findall(r'^truerank = "(truerank[\w.]*:\w+)"$', project, re.MULTILINE)
    assert callable(find(path))
