"""That a skip no one expects fails the run, whether pytest runs alone or hands tests to workers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).with_name("conftest.py")

IN_A_TEST = """
import pytest

def test_passes():
    pass

def test_skips():
    pytest.skip("{reason}")

@pytest.mark.xfail(reason="known")
def test_fails_as_expected():
    assert False
"""
OF_A_MODULE = """
import pytest

pytest.skip("{reason}", allow_module_level=True)
"""


def run(folder: Path, workers: str) -> subprocess.CompletedProcess[str]:
    """Pytest on the tests of a folder, with our conftest.py and nothing of the run around it."""
    shutil.copy(CONFTEST, folder)
    (folder / "pytest.ini").touch()
    return subprocess.run(
        [sys.executable, "-m", "pytest", "--fail-on-unexpected-skip", workers],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def add_skips(folder: Path, name: str, reason: str) -> None:
    (folder / f"test_{name}.py").write_text(IN_A_TEST.format(reason=reason))
    (folder / f"test_{name}_module.py").write_text(OF_A_MODULE.format(reason=reason))


@pytest.mark.parametrize("workers", ["-n0", pytest.param("-n2", marks=pytest.mark.slow)])
def test_an_unexpected_skip_fails_the_run(tmp_path: Path, workers: str) -> None:
    add_skips(tmp_path, "expected", "no CUDA device: none")
    good = run(tmp_path, workers)
    assert good.returncode == 0, good.stdout
    add_skips(tmp_path, "other", "too lazy")
    bad = run(tmp_path, workers)
    assert bad.returncode == 1, bad.stdout
    listed = bad.stdout.partition(" unexpected skips ")[2].splitlines()[1:3]
    assert sorted(line.partition(": ")[0] for line in listed) == [
        "test_other.py::test_skips",
        "test_other_module.py",
    ]
    # The line that CI ends with.
    assert re.search(r"^=+ 2 passed, 4 skipped, 2 xfailed in [0-9.]+s.* =+$", bad.stdout, re.M)
