"""That what is said about the package elsewhere is what pyproject.toml says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

import truerank
from truerank.extras import EXTRAS, install

ROOT = Path(__file__).parents[1]
DECLARED = re.findall(
    r"^(\w+) = \[(.*?)\]$",
    (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("optional-dependencies]")[2],
    re.MULTILINE | re.DOTALL,
)


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_is_what_the_project_declares(extra: str) -> None:
    (text,) = [packages for name, packages in DECLARED if name == extra]
    wanted = {re.match(r"[\w-]+", package)[0] for package in re.findall(r'"(.*?)"', text)}
    assert wanted - {"truerank"} == set(EXTRAS[extra])
    assert all(package in install(extra).split() for package in wanted - {"truerank"})


def test_no_message_names_a_package_that_no_index_has() -> None:
    """truerank itself is installed from a checkout, where `pip install truerank[io]` finds none."""
    for path in [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md")]:
        assert "truerank[" not in path.read_text(encoding="utf-8"), path


def test_the_citation_is_of_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert citation["cff-version"] == "1.2.0"
    assert citation["version"] == truerank.__version__
    assert [author["name"] for author in citation["authors"]] == ["truerank developers"]
    assert f'license = "{citation["license"]}"' in project
    assert all(f'"{word}"' in project for word in citation["keywords"])
