"""The summary of pages, by the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from studies.__main__ import reproduce
from studies.claims import REPRODUCED, UNDECIDED, Claim
from studies.page import Drawing, Page
from studies.runner import summarise

from truerank._util.errors import InputError


def test_claims_pictures_and_errors_of_all_pages(tmp_path: Path) -> None:
    for name, verdict, picture in (
        ("ties", REPRODUCED, "tie-map-trained"),
        ("tcm", UNDECIDED, "pareto"),
    ):
        claim = Claim("a", f"What {name} says.", "if so", verdict)
        drawings = [Drawing(picture, f"A picture of {name}."), Drawing("other", "No.")]
        Page(name, name.title(), "X 2020.", "About.", ["Run."], [claim], [], drawings,
             [f"An error in {name}."]).write(tmp_path)  # fmt: skip
    done = CliRunner().invoke(reproduce, ["summary", "--pages", str(tmp_path)])
    assert done.exit_code == 0, done.output
    text = (tmp_path / "summary.md").read_text()
    for part in (
        "2 claims of 2 papers", "1 reproduced, 1 undecided", "Not yet run in full: gom, happier",
        "[ties](ties.md) (a)", "What tcm says.", "ties/tie-map-trained.png", "tcm/pareto.png",
        "An error in ties.", "pytorch-metric-learning",
    ):  # fmt: skip
        assert part in text
    assert "other" not in [line for line in text.splitlines() if line.startswith("![")]


def test_a_folder_without_pages_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no page"):
        summarise(tmp_path)
    done = CliRunner().invoke(reproduce, ["summary"])
    assert done.exit_code == 2
    assert "--pages FOLDER" in done.output
