"""One finished benchmark for all tests that look at what it left behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmark.small import start, write_config


@pytest.fixture(scope="session")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished benchmark, made with two jobs."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    process = start(write_config(folder), folder / "out", "--jobs", "2")
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    return folder / "out"
