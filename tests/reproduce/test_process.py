"""`python -m studies`, as a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def studies(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "studies", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_help_names_the_papers_and_the_call() -> None:
    done = studies("--help")
    assert done.returncode == 0
    assert "python -m studies ties --quick" in done.stdout
    assert "reality-check" in done.stdout


def test_what_cannot_be_run_is_one_sentence(tmp_path: Path) -> None:
    done = studies("summary", "--pages", str(tmp_path))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == f"studies: {tmp_path} holds no page of `python -m studies`.\n"
