"""A real LaTeX, where there is one: does a table compile, and what does the page say?"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

PAGE = r"""\documentclass{article}
\usepackage{booktabs}
\begin{document}
%s
\end{document}
"""


def typeset(body: str, folder: Path) -> str:
    """The log of a run that must succeed, without a missing letter; skips without LaTeX."""
    if shutil.which("pdflatex") is None or not _has("booktabs.sty"):
        pytest.skip("no LaTeX: pdflatex with booktabs is not installed")
    (folder / "page.tex").write_text(PAGE % body, encoding="utf-8")
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "page.tex"],
        cwd=folder,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=120,
        check=False,
    )
    log = (folder / "page.log").read_text(encoding="utf-8", errors="replace")
    assert done.returncode == 0, log[-2000:]
    assert "Missing character" not in log
    assert (folder / "page.pdf").stat().st_size > 1000
    return log


def _has(package: str) -> bool:
    finder = shutil.which("kpsewhich")
    if finder is None:
        return False
    return subprocess.run([finder, package], capture_output=True, check=False).returncode == 0
