"""Code lines of each room of src/truerank, and of studies/: what is allowed, and what there is.

`python -m tests.architecture.budget` writes what there is into budget.json.
"""

from __future__ import annotations

import ast
import io
import json
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "truerank"
STUDIES = ROOT / "studies"
BUDGET = Path(__file__).with_name("budget.json")

HAVE_DOCSTRINGS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def code_lines(text: str) -> int:
    """Count the lines with code: those of docstrings and comments, and blank ones, have none."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, HAVE_DOCSTRINGS) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            lines.difference_update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return len(lines)


def files() -> dict[str, list[Path]]:
    """The files of each room by its name; "truerank" are those beside the rooms."""
    found: dict[str, list[Path]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).parts
        found.setdefault(parts[0] if len(parts) > 1 else "truerank", []).append(path)
    found["studies"] = sorted(STUDIES.rglob("*.py"))
    return found


def measured() -> dict[str, int]:
    """The code lines of each room."""
    return {
        room: sum(code_lines(path.read_text(encoding="utf-8")) for path in paths)
        for room, paths in sorted(files().items())
    }


def allowed() -> dict[str, int]:
    """The code lines that each room may have."""
    found: dict[str, int] = json.loads(BUDGET.read_text(encoding="utf-8"))
    return found


if __name__ == "__main__":
    BUDGET.write_text(json.dumps(measured(), indent=1) + "\n", encoding="utf-8")
