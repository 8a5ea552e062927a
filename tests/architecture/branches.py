"""Branches of each module that `make test` does not take, kernels excluded.

`python -m tests.architecture.branches` runs the fast tests with coverage.py, which takes about
twice as long as they do, and writes branches.json: for each module with such branches, how many.
A rewrite compares its rooms before and after; what other processes run is not seen.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
BRANCHES = Path(__file__).with_name("branches.json")


def measured(*options: str) -> dict[str, int]:
    """The branches of each module that the tests do not take; options are pytest's."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "coverage.json"
        command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "worksteal", "-q"]
        command += ["-m", "not slow"]
        command += ["--cov=truerank", "--cov-branch", f"--cov-report=json:{report}"]
        subprocess.run([*command, *options], cwd=ROOT, check=True)
        files = json.loads(report.read_text(encoding="utf-8"))["files"]
    missing = {
        Path(name).relative_to("src/truerank").as_posix(): found["summary"]["missing_branches"]
        for name, found in sorted(files.items())
        if not name.endswith("_kernels.py")
    }
    return {name: number for name, number in missing.items() if number}


if __name__ == "__main__":
    BRANCHES.write_text(json.dumps(measured(*sys.argv[1:]), indent=1) + "\n", encoding="utf-8")
