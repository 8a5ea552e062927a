"""That what is said about the package elsewhere is what pyproject.toml says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

import truerank
from truerank._util.installed import EXTRAS, install

ROOT = Path(__file__).parents[1]
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
DECLARED = dict(
    re.findall(
        r"^(\w+) = \[(.*?)\]$",
        PROJECT.partition("optional-dependencies]")[2],
        re.MULTILINE | re.DOTALL,
    )
)


def packages(extra: str) -> set[str]:
    """What pip installs for an extra: its own packages and those of the extras that it includes."""
    found = set()
    for wanted in re.findall(r'"(.*?)"', DECLARED[extra]):
        name, included = re.match(r"([\w-]+)(?:\[(.*)\])?", wanted).groups()
        if name == "truerank":
            found |= set().union(*(packages(one) for one in included.split(",")))
        else:
            found.add(name)
    return found


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_is_what_the_project_declares(extra: str) -> None:
    assert packages(extra) == set(EXTRAS[extra])
    assert packages(extra) <= set(install(extra).split())


@pytest.mark.parametrize("extra", EXTRAS)
def test_a_message_names_the_extra_and_its_packages(extra: str) -> None:
    """The docs install extras from the checkout; packages alone work in any environment."""
    from_checkout, anywhere = install(extra).split(", or ")
    assert from_checkout == f"pip install '.[{extra}]' in the checkout"
    assert anywhere == f"pip install {' '.join(EXTRAS[extra])}"


def test_a_benchmark_needs_what_a_training_needs() -> None:
    assert packages("train") < packages("benchmark")


def test_no_message_names_a_package_that_no_index_has() -> None:
    """truerank itself is installed from a checkout, where `pip install truerank[io]` finds none."""
    for path in [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md")]:
        assert "truerank[" not in path.read_text(encoding="utf-8"), path


def test_the_citation_is_of_this_project() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["cff-version"] == "1.2.0"
    assert [author["name"] for author in citation["authors"]] == ["truerank developers"]
    assert f'license = "{citation["license"]}"' in PROJECT
    assert all(f'"{word}"' in PROJECT for word in citation["keywords"])


def test_the_build_reads_the_version_where_it_is() -> None:
    path = re.search(r'\[tool\.hatch\.version\]\npath = "(.+)"', PROJECT)
    assert path is not None
    assert f'__version__ = "{truerank.__version__}"' in (ROOT / path[1]).read_text(encoding="utf-8")
