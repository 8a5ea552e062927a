"""The tests see mistakes; `python -m pytest tests/mutants -m slow -k NAME` tries one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import truerank
from tests.mutants import Mutant, mutants

ROOT = Path(__file__).parents[2]
PACKAGE = Path(truerank.__file__).parent
MUTANTS = mutants()


def test_there_are_twenty() -> None:
    assert len(MUTANTS) >= 20


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_a_mistake_in_one_place(mutant: Mutant) -> None:
    assert mutant.sentence.endswith(".")
    assert mutant.old
    assert mutant.old != mutant.new
    assert len(mutant.places(PACKAGE)) == 1
    assert mutant.tests
    assert [path for path in mutant.tests if not (ROOT / path.partition("::")[0]).exists()] == []


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, with the kernels that are compiled already."""
    source = tmp_path_factory.mktemp("mutants") / "src"
    return Path(shutil.copytree(PACKAGE, source / "truerank"))


@pytest.fixture
def mistaken(mutant: Mutant, copy: Path) -> Iterator[Path]:
    path = mutant.put_into(copy)
    yield copy
    shutil.copy2(PACKAGE / path.relative_to(copy), path)


def run(package: Path, *tests: str) -> subprocess.CompletedProcess[str]:
    """Some tests, of this package and with the first failure that is found."""
    variables = {
        "PYTHONPATH": str(package.parent),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HYPOTHESIS_PROFILE": "first",
    }
    options = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-m", "not slow", "--tb=line"]
    code = (
        "import sys, pytest, truerank\n"
        f"assert truerank.__file__ == {str(package / '__init__.py')!r}\n"
        f"sys.exit(pytest.main({[*options, *tests]!r}))"
    )
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_without_a_mistake_all_pass(copy: Path) -> None:
    done = run(copy, *sorted({path for mutant in MUTANTS for path in mutant.tests}))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_tests_see_it(mutant: Mutant, mistaken: Path) -> None:
    done = run(mistaken, *mutant.tests)
    assert done.returncode == 1, f"{mutant.sentence}\n{done.stdout[-3000:]}{done.stderr}"
    assert re.search(r"\b1 failed\b", done.stdout), done.stdout[-3000:] + done.stderr
