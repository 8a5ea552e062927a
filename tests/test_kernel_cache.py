"""Kernels that several processes compile at once: each gets the code of its own types."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

KERNEL = """
import sys, time
from pathlib import Path
from numba.core.caching import IndexDataCacheFile
from truerank.jit import kernel

@kernel
def half(x):
    return x / 2 if isinstance(x, float) else x // 2

kind, folder = (int, float)[sys.argv[1] == "float"], Path(sys.argv[2])
"""
TOGETHER = """
load, calls = IndexDataCacheFile._load_index, []

def patient(self):
    # The first look is for code to load. Before it writes its own, each waits until the other has
    # had its second look as well; that never comes where one waits for the other's lock.
    found = load(self)
    calls.append(1)
    if len(calls) == 2:
        (folder / sys.argv[1]).touch()
        until = time.monotonic() + 2
        while len(list(folder.iterdir())) < 2 and time.monotonic() < until:
            time.sleep(0.01)
    return found

write = IndexDataCacheFile._save_data

def slow(self, *rest):
    time.sleep(1)  # the other's index is there, and its code, before this one's code is
    write(self, *rest)

if sys.argv[3] == "save":
    IndexDataCacheFile._load_index = patient
    IndexDataCacheFile._save_data = slow if kind is int else write
"""
KILLED = """
import os
if sys.argv[3] == "killed":
    IndexDataCacheFile._save_data = lambda *rest: os._exit(9)
"""
RUN = "print(half(kind(3)))"


def begin(code: str, home: Path, *arguments: str) -> subprocess.Popen[str]:
    script = home / "script.py"
    script.write_text(KERNEL + code + RUN)
    return subprocess.Popen(
        [sys.executable, str(script), *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"NUMBA_CACHE_DIR": str(home / "cache")},
    )


def said(process: subprocess.Popen[str]) -> str:
    return process.communicate(timeout=120)[0].strip()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "met").mkdir()
    return tmp_path


def test_two_processes_compile_one_kernel_for_different_types(folder: Path) -> None:
    met = str(folder / "met")
    both = [begin(TOGETHER, folder, kind, met, "save") for kind in ("int", "float")]
    assert [said(process) for process in both] == ["1", "1.5"]
    after = [begin(TOGETHER, folder, kind, met, "load") for kind in ("int", "float")]
    assert [said(process) for process in after] == ["1", "1.5"]  # from what was kept


def test_killed_while_it_keeps_its_code(folder: Path) -> None:
    """The file of an earlier version of the kernel is still there under the name it would use."""
    met = str(folder / "met")
    assert said(begin("", folder, "int", met, "")) == "1"
    later = "\ndef unused(): pass\n"  # another source: what is kept is of no more use
    assert said(begin(later + KILLED, folder, "float", met, "killed")) == ""
    assert said(begin(later + KILLED, folder, "float", met, "")) == "1.5"
    assert said(begin(later + KILLED, folder, "int", met, "")) == "1"


STEPS = """
from truerank.jit import kernel

@kernel
def step(x):
    return x + {step}
"""
WALK = """
from truerank.jit import kernel
from steps import step

@kernel
def twice(x):
    return step(step(x))
"""


def test_a_kernel_that_another_file_changes_is_compiled_again(tmp_path: Path) -> None:
    """Two files away: the script's kernel calls `twice`, which calls `step`."""
    (tmp_path / "walk.py").write_text(WALK)
    script = tmp_path / "script.py"
    script.write_text(
        "from truerank.jit import kernel\nfrom walk import twice\n\n@kernel\n"
        "def more(x):\n    return twice(x)\n\nprint(more(1))\n"
    )
    printed = []
    for step in (1, 10):
        (tmp_path / "steps.py").write_text(STEPS.format(step=step))
        done = subprocess.run(
            [sys.executable, str(script)],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")},
        )
        printed.append(done.stdout.strip())
    assert printed == ["3", "21"]


def test_a_new_kernel_calls_one_from_disk(tmp_path: Path) -> None:
    """The compiler is made ready after code was loaded without it."""
    (tmp_path / "steps.py").write_text(STEPS.format(step=1))
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nimport numpy as np\n"
        "from truerank.jit import kernel\nfrom steps import step\n\n"
        "print(step(1), 'numba.np.arraymath' in sys.modules)\n"
        "if sys.argv[1:]:\n    @kernel\n    def added(x):\n"
        "        rows = np.ones(3)\n        return rows.sum() + step(x)\n\n    print(added(1))\n"
    )
    printed = [
        subprocess.run(
            [sys.executable, str(script), *more],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")},
        ).stdout.split()
        for more in ([], ["more"])
    ]
    assert printed == [["2", "True"], ["2", "False", "5.0"]]
