"""Kernels are called as attributes of modules that only a GPU imports: each exists there."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from truerank.engine.cuda import torch_kernels

FOLDER = Path(torch_kernels.__file__).parent
CALLERS = {
    "exact_kernels": (("rows", "worker", "front"), {"kernels", "_kernels"}),
    "filter_kernels": (("counting", "filtered_count"), {"filters", "_filters"}),
    "search_kernels": (("search",), {"filters", "_filters"}),
}
"""For each module of Triton kernels the modules that call them, and by what names they have it."""


def defined(module: str) -> set[str]:
    """The names that a module binds at its top level, read without importing it."""
    names: set[str] = set()
    for node in ast.parse((FOLDER / f"{module}.py").read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def called(module: str, held: set[str]) -> set[str]:
    """The attributes that a module takes from a module of kernels, as `filters.compare`."""
    found = set()
    for node in ast.walk(ast.parse((FOLDER / f"{module}.py").read_text())):
        if isinstance(node, ast.Attribute):
            owner = node.value
            name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
            if name in held:
                found.add(node.attr)
    return found


@pytest.mark.parametrize("kernels", CALLERS)
def test_triton_and_torch_have_every_kernel_that_is_called(kernels: str) -> None:
    callers, held = CALLERS[kernels]
    names = set().union(*(called(module, held) for module in callers))
    assert len(names) >= 4, "the callers have other names for the kernels now"
    assert names <= defined(kernels)
    assert names <= set(vars(torch_kernels))
