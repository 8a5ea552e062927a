"""What importing the package costs, and what it offers."""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import truerank
from tests.modules import module_names

PACKAGE = Path(truerank.__file__).parent


def loaded_modules(code: str) -> set[str]:
    """The top-level modules that a new interpreter has after running the code."""
    path = os.pathsep.join([str(PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return {name.partition(".")[0] for name in done.stdout.split()}


HEAVY = {"numba", "torch", "pandas", "scipy", "pyarrow", "sklearn", "ray", "plotly", "optuna"}


def test_importing_truerank_imports_nothing_heavy() -> None:
    loaded = loaded_modules("import truerank; truerank.__version__; dir(truerank)")
    assert loaded & (HEAVY | {"numpy", "click", "rich", "threadpoolctl"}) == set()


def test_numba_is_loaded_by_what_needs_it(tmp_path: Path) -> None:
    """Comparing saved results does not, nor does importing what evaluates."""
    rows = np.random.default_rng(0).standard_normal((2, 200, 4))
    labels = np.arange(200) // 5
    paths = [str(tmp_path / name) for name in ("a.json", "b.json")]
    for one, path in zip(rows, paths, strict=True):
        truerank.evaluate(one, labels, metrics="all").to_json(path)
    code = f"""
import truerank, truerank.cli, truerank.evaluation, truerank.report
results = [truerank.Result.from_json(path) for path in {paths}]
print(truerank.compare(*results), results[0], results[0].to_dict())
"""
    assert "numba" not in loaded_modules(code)


def test_evaluating_imports_no_extra() -> None:
    loaded = loaded_modules(
        "import truerank; print(truerank.evaluate([[0., 1], [1, 0], [1, 1]], [0, 0, 1]))"
    )
    assert "numba" in loaded
    assert loaded & (HEAVY - {"numba", "scipy"}) == set()


@pytest.mark.parametrize("name", list(module_names()))
def test_every_module_says_what_it_offers(name: str) -> None:
    module = importlib.import_module(name)
    assert isinstance(module.__all__, list)
    assert len(set(module.__all__)) == len(module.__all__)
    for offered in module.__all__:
        assert getattr(module, offered) is not None
    assert module.__doc__


def test_modules_offer_what_others_take_from_them() -> None:
    """`__all__` is complete: no module imports a name of another one that it does not list."""
    missing = defaultdict(set)
    known = set(module_names())
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or node.module not in known:
                continue
            module = importlib.import_module(node.module)
            for alias in node.names:
                is_module = (
                    PACKAGE.parent / node.module.replace(".", "/") / alias.name
                ).is_dir() or (
                    PACKAGE.parent / node.module.replace(".", "/") / f"{alias.name}.py"
                ).is_file()
                if not is_module and alias.name not in module.__all__:
                    missing[node.module].add(alias.name)
    assert dict(missing) == {}


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
