"""What importing the package costs, and what it offers."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import truerank
from tests.modules import module_names

PACKAGE = Path(truerank.__file__).parent


def loaded_modules(code: str) -> set[str]:
    """The modules that a new interpreter has after running the code."""
    path = os.pathsep.join([str(PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return set(done.stdout.splitlines()[-1].split())


HEAVY = {"numba", "torch", "pandas", "scipy", "pyarrow", "sklearn", "ray", "plotly", "optuna"}


def test_importing_truerank_imports_nothing_heavy() -> None:
    loaded = loaded_modules("import truerank; truerank.__version__; dir(truerank)")
    assert loaded & (HEAVY | {"numpy", "click", "rich", "threadpoolctl"}) == set()


@pytest.mark.parametrize("module", ["truerank.result", "truerank.analysis.compare"])
def test_results_need_neither_engine_nor_numba(module: str) -> None:
    assert not loaded_modules(f"import {module}") & {"numba", "truerank.engine"}


def test_comparing_files_needs_neither_engine_nor_numba(tmp_path: Path) -> None:
    """Nor does importing what evaluates need numba."""
    rows = np.random.default_rng(0).standard_normal((2, 200, 4))
    labels = np.arange(200) // 5
    paths = [str(tmp_path / name) for name in ("a.json", "b.json")]
    for one, path in zip(rows, paths, strict=True):
        truerank.evaluate(one, labels, metrics="all").to_json(path)
    code = f"""
import truerank
results = [truerank.Result.from_json(path) for path in {paths}]
print(truerank.compare(*results), results[0], results[0].to_dict())
"""
    assert not loaded_modules(code) & {"numba", "truerank.engine"}
    command = "import contextlib\nfrom truerank.cli import main\nwith contextlib.suppress("
    command += f"SystemExit):\n    main(['compare', *{paths}])"
    assert not loaded_modules(command) & {"numba", "truerank.engine"}
    code += "import truerank.cli.commands, truerank.evaluation.evaluate, truerank.report\n"
    assert "numba" not in loaded_modules(code)


def test_evaluating_imports_no_extra() -> None:
    loaded = loaded_modules(
        "import truerank; print(truerank.evaluate([[0., 1], [1, 0], [1, 1]], [0, 0, 1]))"
    )
    assert "numba" in loaded
    assert loaded & (HEAVY - {"numba", "scipy"}) == set()


@pytest.mark.parametrize("name", list(module_names()))
def test_every_module_has_a_docstring(name: str) -> None:
    assert importlib.import_module(name).__doc__


def test_the_public_names() -> None:
    assert set(truerank.__all__) >= {
        "ExactnessError", "InputError", "Result", "Score", "Task", "TruerankWarning",
        "__version__", "compat", "engine", "evaluate", "metrics",
    }  # fmt: skip
    assert dir(truerank) == truerank.__all__ == sorted(truerank.__all__)
    namespace: dict[str, Any] = {}
    exec("from truerank import *", namespace)
    assert namespace["evaluate"] is truerank.evaluate
    assert issubclass(truerank.InputError, ValueError)
    assert issubclass(truerank.ExactnessError, RuntimeError)
    with pytest.raises(AttributeError, match="'truerank' has no attribute 'evalute'"):
        truerank.evalute  # noqa: B018
