"""A missing compiler, a missing cache folder and a fork cannot be seen in the result."""

from __future__ import annotations

import inspect
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import truerank
from tests.engine.tied_task import LABELS, METRICS, ROWS, fingerprint
from truerank._util import kernels, progress
from truerank._util.kernels import interpreted, kernel
from truerank.metrics import double_double_kernels

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
        listener = kernels.Compiling(clock)
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
        assert said == [kernels.COMPILING]
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
        assert kernels.COMPILING not in done.stdout
        told.append(done.stderr.count(f"truerank: {kernels.COMPILING}\n"))
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


def test_numba_that_does_not_load(tmp_path: Path) -> None:
    """It is of another numpy's time, say: the same bits, and a sentence about it."""
    (tmp_path / "numba.py").write_text("raise ImportError('Numba needs NumPy 1.0 or less')")
    lines = python(
        f"""
import sys, warnings
sys.path.insert(0, {str(tmp_path)!r})
SCRIPT
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    print(fingerprint())
    print(fingerprint(device="reference"))
print(*[warning.message for warning in caught if "numba" in str(warning.message)])
"""
    )
    assert lines[:2] == [fingerprint()] * 2
    assert lines[2:] == [
        "numba is installed but does not load (Numba needs NumPy 1.0 or less), so truerank "
        "computes without it, slowly; install a numba that goes with this Python and numpy."
    ]


@kernel
def plus_one(x: Any) -> Any:
    """x + 1."""
    return x + 1


@kernel
def by_name(x: Any) -> Any:
    return plus_one(x) * 2


@kernel
def by_module(x: Any) -> Any:
    return double_double_kernels.two_sum(x, 1e-30)[1]


@kernel
def by_argument(function: Any, x: Any) -> Any:
    return function(x) + function(2 * x)


@kernel
def by_itself(n: Any) -> Any:
    if n < 2:
        return 1
    return n * by_itself(n - 1)


@numba.njit(inline="always")
def put_in_place(x: Any) -> Any:
    return x + 5


@kernel
def by_a_loop_of_numba(values: Any) -> Any:
    total = 0
    for i in numba.prange(len(values)):
        total += put_in_place(values[i])
    return total


def test_kernels_call_kernels() -> None:
    assert by_name(3) == 8
    assert by_name(x=0.5) == 3.0
    assert by_module(1.0) == 1e-30
    assert by_argument(plus_one, 3) == 11
    assert by_argument(by_name, 3) == 22
    assert by_itself(5) == 120
    assert by_a_loop_of_numba(np.arange(4)) == 26
    assert interpreted(plus_one)(np.arange(2)).tolist() == [1, 2]


def test_a_kernel_is_still_its_function_to_others() -> None:
    assert pickle.loads(pickle.dumps(plus_one)) is plus_one
    assert (plus_one.__name__, plus_one.__doc__) == ("plus_one", "x + 1.")
    assert list(inspect.signature(plus_one).parameters) == ["x"]


def test_the_first_calls_of_many_threads_at_once(tmp_path: Path) -> None:
    """Some call kernels that others, which are being compiled, call: no thread waits for ever, and
    each kernel is compiled once."""
    lines = python(
        """
import sys, threading
from truerank._util.kernels import kernel
from truerank.core import average, tie_group_kernels
from truerank.metrics import double_double_kernels

@kernel
def one(x): return double_double_kernels.two_sum(x, 1.0)[0]
@kernel
def two(x): return one(x) + one(x)
@kernel
def three(x): return two(x) + one(x)
@kernel
def four(x): return three(x) + two(x)

assert "numba" not in sys.modules
kernels = [four, one, three, two]
barrier, found = threading.Barrier(12), []

def call(at):
    barrier.wait()
    for step in range(4):
        found.append(kernels[(at + step) % 4](1.0))

threads = [threading.Thread(target=call, args=(at,), daemon=True) for at in range(12)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(sorted(found) == sorted([10.0, 2.0, 6.0, 4.0] * 12))
print([len(kernel.compiled.signatures) for kernel in kernels])
from numba.core import event
print(len(event._registered["numba:compile"]))
""",
        NUMBA_CACHE_DIR=str(tmp_path / "cache"),
    )
    assert lines == ["True", "[1, 1, 1, 1]", "1"]


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
from truerank._util import kernels as loaded

def holds_no_code(locator):  # the folder beside the source may hold what other tests compiled
    raise FileNotFoundError

loaded._check_that_it_holds_code = holds_no_code
SCRIPT
print(fingerprint())
from truerank.engine import count_kernels
kernel = count_kernels.split_tile.compiled
print(loaded.compiled(), len(kernel.signatures), sum(kernel.stats.cache_hits.values()))
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
