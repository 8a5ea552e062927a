"""A missing compiler, a missing cache folder and a fork cannot be seen in the result."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import truerank
from tests.engine.tied_task import LABELS, METRICS, ROWS, fingerprint
from truerank import jit, progress

SOURCE = Path(truerank.__file__).parent.parent

SCRIPT = """
import json
import numpy as np
import truerank

rows = np.random.default_rng(0).standard_normal((90, 4)).astype(np.float32)
rows[70:] = rows[:20]
labels = np.concatenate([np.arange(40) % 10, np.full(50, 3)])

def fingerprint(**options):
    result = truerank.evaluate(rows, labels, metrics={metrics}, **options)
    return json.dumps(result.to_dict()["scores"])
"""


def python(code: str, metrics: list[str] = METRICS, **environment: str) -> list[str]:
    """The lines that a new interpreter prints when it runs the code after SCRIPT's definitions."""
    path = os.pathsep.join([str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", code.replace("SCRIPT", SCRIPT.replace("{metrics}", repr(metrics)))],
        env=os.environ | {"PYTHONPATH": path} | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_compiling_for_long_is_said_once() -> None:
    """More than two seconds in all, and callees are compiled within their callers."""
    clock, said = Clock(), []
    progress.show_notices(said.append)
    try:
        listener = jit.Compiling(clock)
        for seconds in (0.9, 0.9, 0.15):
            listener.on_start(None)
            listener.on_start(None)  # a kernel that it calls
            clock.now += seconds
            listener.on_end(None)
            listener.on_end(None)
            clock.now += 60  # spent on something else
        assert not said
        for _ in range(3):
            listener.on_start(None)
            clock.now += 0.2
            listener.on_end(None)
        assert said == [jit.COMPILING]
    finally:
        progress.show_notices(None)


@pytest.mark.slow  # compiles anew
def test_a_command_says_that_it_compiles(tmp_path: Path) -> None:
    """On stderr, once; not where kernels are loaded, and never in Python."""
    np.save(tmp_path / "rows.npy", np.eye(12, 4)[np.arange(12) // 3 * 3])
    (tmp_path / "labels.csv").write_text("label\n" + "\n".join("aaabbbcccddd"))
    command = [sys.executable, "-m", "truerank", "evaluate", str(tmp_path / "rows.npy")]
    command += ["--labels", str(tmp_path / "labels.csv"), "-m", "map@r,auc"]
    variables = {"PYTHONPATH": str(SOURCE), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    told = []
    for _ in range(2):
        done = subprocess.run(
            command,
            env=os.environ | variables,
            capture_output=True,
            text=True,
            timeout=600,
            check=True,
        )
        assert jit.COMPILING not in done.stdout
        told.append(done.stderr.count(f"truerank: {jit.COMPILING}\n"))
    assert told == [1, 0]


def test_without_numba_the_reference_engine_gives_the_same_bits() -> None:
    lines = python(
        """
import sys
sys.modules["numba"] = None
SCRIPT
print(fingerprint())
print(fingerprint(distance="euclidean"))
print(fingerprint(distance="cityblock"))
print(truerank.evaluate(rows, labels).provenance["device"])
try:
    fingerprint(device="cpu")
except truerank.InputError as error:
    print(error)
"""
    )
    assert lines[0] == fingerprint()
    assert lines[1] == fingerprint(distance="euclidean")
    assert lines[2] == fingerprint(distance="cityblock")
    assert lines[3] == "reference"
    assert lines[4] == "device='cpu' needs numba; install it or use device='reference'."
    assert len(lines) == 5


@pytest.mark.slow
def test_without_a_cache_folder_kernels_still_compile(tmp_path: Path) -> None:
    """Numba tries a folder of the user's choice, one beside the source and one in the home."""
    lines = python(
        """
import numba.core.caching as caching

class Unwritable:
    def TemporaryFile(self, *arguments, **options):
        raise PermissionError(13, "Permission denied")

caching.tempfile = Unwritable()
SCRIPT
print(fingerprint())
from truerank import jit
from truerank.engine import kernels
kernel = kernels.split_tile
print(jit.compiled, len(kernel.signatures), sum(kernel.stats.cache_hits.values()))
""",
        metrics=["hit@2"],
        NUMBA_CACHE_DIR=str(tmp_path / "cache"),
    )
    result = truerank.evaluate(ROWS, LABELS, metrics=["hit@2"])
    assert lines == [json.dumps(result.to_dict()["scores"]), "True 1 0"]
    assert not list(tmp_path.rglob("*.nb?"))


def test_kernels_on_disk_are_loaded_without_the_compiler() -> None:
    """Its parts, and scipy, take longer to import than an evaluation takes."""
    code = """
import sys
SCRIPT
print(fingerprint())
print([name for name in ("numba.np.arraymath", "scipy.linalg") if name in sys.modules])
print(json.dumps(truerank.evaluate(rows, labels, metrics="all").to_dict()["scores"]))
"""
    first, second = python(code), python(code)
    assert first[0] == fingerprint()
    assert second == [first[0], "[]", first[2]]


def test_a_cache_folder_that_cannot_be_made(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    lines = python("SCRIPT\nprint(fingerprint())", NUMBA_CACHE_DIR=str(in_the_way / "cache"))
    assert lines == [fingerprint()]


def test_a_fork_after_an_evaluation_can_evaluate() -> None:
    """Parallel loaders and job servers fork; a runtime that dislikes it would hang or kill here."""
    lines = python(
        """
import os, sys
SCRIPT
first = fingerprint(threads=2)
sys.stdout.flush()
child = os.fork()
if child == 0:
    same = fingerprint(threads=2) == first
    os._exit(0 if same else 1)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status))
print(fingerprint(threads=2) == first)
"""
    )
    assert lines == ["0", "True"]
