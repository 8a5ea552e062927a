"""Kernels that several processes compile at once: each gets the code of its own types."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from truerank._util.kernels import _stamps
from truerank.metrics.thresholds.gom_kernels import exact

KERNEL = """
import sys, time
from pathlib import Path
from numba.core.caching import IndexDataCacheFile
from truerank._util.kernels import kernel

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
from truerank._util.kernels import kernel

@kernel
def step(x):
    return x + {step}
"""
WALK = """
from truerank._util.kernels import kernel
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
        "from truerank._util.kernels import kernel\nfrom walk import twice\n\n@kernel\n"
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


CHANGED_MEANWHILE = """
import sys
from pathlib import Path
from walk import twice

Path("steps.py").write_text(sys.argv[1])
print(twice(1))
"""


def test_a_file_that_changes_before_the_first_call(tmp_path: Path) -> None:
    """What is compiled from the old text is kept for no other text."""
    (tmp_path / "walk.py").write_text(WALK)
    (tmp_path / "script.py").write_text(CHANGED_MEANWHILE)
    (tmp_path / "steps.py").write_text(STEPS.format(step=1))
    printed = []
    for later in (10, 20, 20):
        done = subprocess.run(
            [sys.executable, "-B", "script.py", STEPS.format(step=later)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")},
        )
        printed.append(done.stdout.strip())
    assert printed == ["3", "21", "41"]


SCALED = """
import sys
import steps
from sizes import SIZE
from truerank._util.kernels import kernel

@kernel
def scaled(x):
    return steps.step(x) * SIZE

print(scaled(1))
"""


def test_what_a_kernel_names_of_other_modules(tmp_path: Path) -> None:
    """A number that was imported, and a kernel by way of its module."""
    (tmp_path / "script.py").write_text(SCALED)
    printed = []
    for step, size in ((1, 1), (1, 7), (2, 7)):
        (tmp_path / "steps.py").write_text(STEPS.format(step=step))
        (tmp_path / "sizes.py").write_text(f"SIZE = {size}")
        done = subprocess.run(
            [sys.executable, "-B", "script.py"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")},
        )
        printed.append(done.stdout.strip())
    assert printed == ["2", "14", "21"]


def test_files_of_one_name_are_told_apart() -> None:
    """By their paths in the package, wherever that is."""
    places = [place for place, _ in _stamps(exact.py_func)]  # type: ignore[attr-defined]
    assert [place for place in places if place.endswith(".py")] == [
        "metrics/thresholds/gom_kernels.py"
    ]


def test_a_new_kernel_calls_one_from_disk(tmp_path: Path) -> None:
    """The compiler is made ready after code was loaded without it."""
    (tmp_path / "steps.py").write_text(STEPS.format(step=1))
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nimport numpy as np\n"
        "from truerank._util.kernels import kernel\nfrom steps import step\n\n"
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


# --- caches that cannot be written to, and that two versions share


COUNTED = "print(half(kind(3)), sum(half.compiled.stats.cache_hits.values()))"
LOCKED_LATER = """
import os
for path, folders, names in os.walk(folder):
    os.chmod(path, 0o555)
"""


def bound_by_permissions() -> list[str]:
    """What a command begins with so that permissions hold for root as well."""
    if os.geteuid():
        return []
    tool = shutil.which("setpriv")
    if tool is None:
        pytest.skip("root may write anywhere, and there is no setpriv to change that")
    rights = "-dac_override,-dac_read_search"
    return [tool, f"--bounding-set={rights}", f"--inh-caps={rights}"]


def lock(folder: Path, mode: int = 0o555) -> None:
    for path in [folder, *folder.rglob("*")]:
        path.chmod(mode if path.is_dir() else mode & 0o666)


def run_there(home: Path, code: str, *arguments: str) -> str:
    script = home / "script.py"
    if not script.exists():
        script.write_text(KERNEL + code)
    done = subprocess.run(
        [*bound_by_permissions(), sys.executable, "-B", str(script), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=os.environ | {"NUMBA_CACHE_DIR": str(home / "cache"), "HOME": str(home)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_cache_that_cannot_be_written_to_is_read(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    assert run_there(home, COUNTED, "int", ".") == "1 0"
    lock(home)
    try:
        assert run_there(home, COUNTED, "int", ".") == "1 1"  # from the cache
        assert run_there(home, COUNTED, "float", ".") == "1.5 0"  # compiled for this process
    finally:
        lock(home, 0o755)


def test_a_cache_that_is_locked_after_the_import(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    try:
        assert run_there(home, LOCKED_LATER + COUNTED, "int", str(home)) == "1 0"
    finally:
        lock(home, 0o755)


def versions(folder: Path, step: int) -> Path:
    """A package of two files; those of two versions differ in one digit alone."""
    folder.mkdir(exist_ok=True)
    (folder / "steps.py").write_text(STEPS.format(step=step))
    script = folder / "script.py"
    script.write_text(WALK + "\nprint(twice(1), sum(twice.compiled.stats.cache_hits.values()))\n")
    for path in (folder / "steps.py", script):
        os.utime(path, (10**9, 10**9))  # as archives are unpacked that anybody can build anew
    return script


def run_version(script: Path, cache: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-B", str(script)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"NUMBA_CACHE_DIR": str(cache)},
    )
    return done.stdout.strip()


def test_one_version_takes_the_place_of_another(tmp_path: Path) -> None:
    """Their files have one size and one time."""
    printed = [
        run_version(versions(tmp_path / "package", step), tmp_path / "cache")
        for step in (1, 5, 5, 1)
    ]
    assert printed == ["3 0", "11 0", "11 1", "3 0"]


def test_two_versions_side_by_side_share_a_cache(tmp_path: Path) -> None:
    scripts = [versions(tmp_path / f"version{step}", step) for step in (1, 5)]
    printed = [run_version(script, tmp_path / "cache") for script in scripts + scripts]
    assert printed == ["3 0", "11 0", "3 1", "11 1"]
