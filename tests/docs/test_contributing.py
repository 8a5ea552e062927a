"""The worked examples of CONTRIBUTING.md run, one after the other, in a process of their own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_the_worked_examples_run() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
    assert len(blocks) == len(re.findall(r"^## An? ", PAGE, flags=re.MULTILINE)) == 6
    assert all("assert " in block for block in blocks)
    code = "\n".join(blocks)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_files_and_folders_are_where_it_says() -> None:
    named = re.findall(r"`((?:src|tests|scripts|docs)/[\w/.]+)`", PAGE)
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []
