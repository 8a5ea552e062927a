"""Tests lie where the modules they test lie; tests/README.md names what has a place of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

import truerank

SOURCE = Path(truerank.__file__).parent
TESTS = Path(__file__).parents[1]
OWN = (
    *("architecture", "concurrency", "conformance", "docs", "examples", "fuzz", "mutants"),
    *("stored", "whole"),
)
"""Folders of tests that span modules."""
AT_THE_TOP = ("test_invariance.py", "test_skips.py")
"""Files of such tests; the latter is about conftest.py."""


def is_a_module(path: Path) -> bool:
    return (SOURCE / path).is_dir() or (SOURCE / path).with_suffix(".py").exists()


def test_folders_are_packages_or_modules() -> None:
    folders = {path.parent.relative_to(TESTS) for path in TESTS.rglob("test_*.py")}
    mirrored = {folder for folder in folders if folder.parts and folder.parts[0] not in OWN}
    assert Path("engine/cuda") in mirrored
    assert [folder for folder in sorted(mirrored) if not is_a_module(folder)] == []


def test_files_at_the_top_are_modules() -> None:
    names = {path.name for path in TESTS.glob("test_*.py")} - set(AT_THE_TOP)
    assert [name for name in sorted(names) if not is_a_module(Path(name[5:-3]))] == []


@pytest.mark.parametrize("name", OWN)
def test_what_spans_modules_is_named(name: str) -> None:
    assert f"`{name}/`" in (TESTS / "README.md").read_text(encoding="utf-8")
