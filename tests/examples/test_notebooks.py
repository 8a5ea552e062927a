"""The cells of docs/notebooks run in order, and print what is stored below them."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def cells(path: Path) -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return loaded


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_prints_what_is_stored(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    space: dict[str, Any] = {"__name__": "__main__"}
    for cell in cells(path):
        if cell["cell_type"] == "code":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile("".join(cell["source"]), f"{path.name}:{cell['id']}", "exec"), space)
            stored = "".join(line for output in cell["outputs"] for line in output["text"])
            assert printed.getvalue() == stored, cell["id"]


def test_notebooks_are_short_and_their_links_hold() -> None:
    assert len(NOTEBOOKS) == 3
    for path in NOTEBOOKS:
        text = "\n".join("".join(cell["source"]) for cell in cells(path))
        assert len(text.split()) <= 350, path.name
        assert max(map(len, text.splitlines())) <= 200
        code = ["".join(cell["source"]) for cell in cells(path) if cell["cell_type"] == "code"]
        assert all(len(line) <= 88 for block in code for line in block.splitlines())
        links = [part.partition(")")[0] for part in text.split("](")[1:]]
        assert [link for link in links if not (FOLDER / link).exists()] == []
