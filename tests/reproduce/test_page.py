"""Pages: text, JSON and figures, none of which knows the machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from studies.claims import REPRODUCED, Claim, Evidence
from studies.page import Drawing, Page, Sheet, new_figure, read_page

from truerank._util.errors import InputError


def page() -> Page:
    figure = new_figure(2, 2)
    figure.subplots().plot([0, 1], [1, 0])
    claim = Claim(
        "a", "X | Y rises", "if above 0", REPRODUCED, (Evidence("gain", 0.5, (0.4, 0.6)),)
    )
    return Page(
        "ties", "A title", "Somebody 2020.", "What it is about.", ["One run."], [claim],
        [Sheet("Numbers of all", ["set", "value"], [["a", "1"]], "A note.")],
        [Drawing("one", "A line.", figure)], ["An error on page 3."], True, {"x": [1]},
    )  # fmt: skip


def test_a_page_is_written_whole(tmp_path: Path) -> None:
    path = page().write(tmp_path / "pages")
    text = path.read_text(encoding="utf-8")
    for part in (
        "# A title", "decides nothing", "(a) reproduced", "*Rule:* if above 0",
        "0.50 (0.40 to 0.60)", "Numbers of all", "A note.", "![A line.](ties/one.png)",
        "An error on page 3.", "2020.",
    ):  # fmt: skip
        assert part in text
    assert str(tmp_path) not in text + (path.parent / "ties.json").read_text()
    assert {file.name for file in (path.parent / "ties").iterdir()} == {"one.svg", "one.png"}


def test_the_same_page_gives_the_same_bytes(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        page().write(tmp_path / folder)
    for file in ("ties.md", "ties.json", "ties/one.svg", "ties/one.png"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_a_page_is_read_again(tmp_path: Path) -> None:
    page().write(tmp_path)
    again = read_page(tmp_path / "ties.json")
    assert again.to_dict() == json.loads((tmp_path / "ties.json").read_text())
    assert again.to_markdown() == (tmp_path / "ties.md").read_text()
    (tmp_path / "ties.json").write_text('{"name": "ties"}')
    with pytest.raises(InputError, match="is no page"):
        read_page(tmp_path / "ties.json")


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot make the folder"):
        page().write(tmp_path / "file" / "below")
