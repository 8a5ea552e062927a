"""Code blocks without prompts in the docs run, and print what their comments say.

The blocks of a page share one namespace. What they print stands behind them in lines that begin
with `#> `. A block behind the comment `<!-- not run -->` needs files or data that tests lack.
"""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import warnings
from pathlib import Path
from typing import Any

import pytest
import yaml
from matplotlib import pyplot as plt

from truerank.training import Config

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [ROOT / "docs" / "index.md", ROOT / "docs" / "results" / "comparison.md"]
    + [
        page
        for folder in ("start", "guides", "concepts", "reference", "data")
        for page in (ROOT / "docs" / folder).glob("*.md")
    ]
)
BLOCK = re.compile(r"(<!-- not run -->\n)?^```python\n(?!>>> )(.*?)^```$", flags=re.S | re.M)
WIDEST = 86
REFERENCE = runpy.run_path(str(ROOT / "scripts" / "build_site.py"), run_name="build_site")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_run_and_print_what_they_say(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", list(REFERENCE["REFERENCE"]))
def test_examples_of_the_api_pages_run(name: str) -> None:
    run(REFERENCE["reference"](name))


def run(page: str) -> None:
    """Run the blocks of a page, and compare what they print."""
    space: dict[str, Any] = {"__name__": "__main__"}
    for skipped, block in BLOCK.findall(page):
        if skipped:
            compile(block, "page", "exec")
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(block, "page", "exec"), space)
        plt.close("all")
        expected = re.findall(r"^#> ?(.*)$", block, flags=re.M)
        assert [line.rstrip() for line in printed.getvalue().splitlines()] == expected, block


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.name != "commands.md"],  # that one is generated
    ids=lambda page: page.name,
)
def test_code_is_no_wider_than_the_column(page: Path) -> None:
    blocks = re.findall(r"^```\w*\n(.*?)^```$", page.read_text(encoding="utf-8"), re.S | re.M)
    assert [line for block in blocks for line in block.splitlines() if len(line) > WIDEST] == []


def test_the_configuration_of_training_has_every_field_and_default() -> None:
    page = (ROOT / "docs/reference/training.md").read_text(encoding="utf-8")
    stated = yaml.safe_load(re.findall(r"^```yaml\n(.*?)^```$", page, re.S | re.M)[0])
    needed = {name: {"name": stated[name]["name"]} for name in ("data", "loss")}
    assert stated == Config(**needed).model_dump(mode="json")
