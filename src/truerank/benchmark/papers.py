"""Configurations of the papers' tables by name: one YAML file for each paper, one entry per table.

The `config` of an entry is laid over that of the file; `rows` names the methods of its table. A
table that trains nothing has `scored` in place of `config`. `published` has what the paper states
where the configuration has something else, so that it is listed as a difference below every table;
null in an entry means "as here". `figures` has what is drawn from the finished table: columns or a
parameter as x, y and lines.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from truerank._util.errors import InputError
from truerank.datasets import catalogue
from truerank.training.config import read_yaml

FOLDER = Path(__file__).with_name("configurations")


@dataclass(frozen=True)
class PaperTable:
    """The configuration of a table, or what all tables of a paper share."""

    name: str
    reproduces: str
    needs: str
    config: dict[str, Any]
    published: dict[str, Any]
    figures: dict[str, dict[str, Any]]
    """What is drawn from its table, by the figure's name."""

    @property
    def data(self) -> str:
        """The name of its data set."""
        return str(self.config.get("data", {}).get("name", ""))


def tables() -> list[PaperTable]:
    """All tables, in the order of papers and tables."""
    return [one for path in sorted(FOLDER.glob("*.yaml")) for one in _paper(path.stem)[1]]


def find(name: str) -> PaperTable | None:
    """The table of this name; None for what looks like the path of a file."""
    known = {one.name: one for one in tables()}
    if name in known or name.endswith((".yaml", ".yml")):
        return known.get(name)
    if name.partition("/")[0] not in {path.stem for path in FOLDER.glob("*.yaml")}:
        return None
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.0)
    raise InputError(
        f"there is no configuration {name!r}; the nearest are {', '.join(near)}, and "
        "`truerank benchmark --list` has all."
    )


def given(path: str | os.PathLike[str]) -> Any:
    """The configuration in a YAML file, or of the table of this name."""
    named = None if Path(path).is_file() else find(os.fspath(path))
    return read_yaml(path) if named is None else named.config


def is_scored(config: Any) -> bool:
    """Whether it is the configuration of a table that trains nothing."""
    return isinstance(config, Mapping) and "rows" in config and "methods" not in config


def reference(name: str, data: str) -> PaperTable:
    """What a configuration is compared with: a table, or a paper's first table on these data.

    Where the paper has none on these data, it is what all of its tables share.
    """
    paper, _, table = name.partition("/")
    papers = {path.stem: _paper(path.stem)[0] for path in sorted(FOLDER.glob("*.yaml"))}
    trained = [one for one, shared in papers.items() if "methods" in shared.config]
    found = find(name) if table and paper in trained else None
    if paper not in trained or (found is not None and is_scored(found.config)):
        known = ", ".join(trained)
        raise InputError(
            f"paper must be one of {known}, or one of their tables of trainings. Got {name!r}."
        )
    if found is not None:
        return found
    shared, every = _paper(paper)
    entries = [one for one in every if not is_scored(one.config)]
    same = (one for one in entries if _canonical(one.data) == _canonical(data))
    return next(same, shared)


def find_figure(name: str) -> dict[str, Any]:
    """What a paper's figure shows of tables, by a name such as tcm/figure-3."""
    known: dict[str, dict[str, Any]] = {}
    for one in tables():
        paper = one.name.partition("/")[0]
        known |= {f"{paper}/{figure}": spec for figure, spec in one.figures.items()}
    if name not in known:
        raise InputError(f"there is no figure {name!r} of tables; there are {', '.join(known)}.")
    return known[name]


def _canonical(data: str) -> str:
    try:
        return catalogue.find(data).name
    except InputError:
        return data


@lru_cache
def _paper(name: str) -> tuple[PaperTable, list[PaperTable]]:
    """What all tables of a paper share, and its tables."""
    given = read_yaml(FOLDER / f"{name}.yaml")
    common = {**given.get("config", {}), "paper": name}
    published = given.get("published", {})
    figures = given.get("figures", {})
    shared = PaperTable(name, given["source"], given["needs"], common, published, figures)
    entries = []
    for table, entry in given["tables"].items():
        whole = f"{name}/{table}"
        if "scored" in entry:
            over = {**entry["scored"], "paper": whole}
            config = _laid_over(given.get("scored", {}), over)
        else:
            config = _laid_over(common, {**entry.get("config", {}), "paper": whole})
            rows = entry.get("rows", config["methods"])
            config["methods"] = {row: config["methods"][row] for row in rows}
        stated = {**published, **entry.get("published", {})}
        entries.append(
            PaperTable(
                whole, entry["reproduces"], entry.get("needs", given["needs"]), config,
                {key: value for key, value in stated.items() if value is not None},
                {**figures, **entry.get("figures", {})},
            )
        )  # fmt: skip
    return shared, entries


def _laid_over(below: Any, above: Any) -> Any:
    """A mapping with the fields of another one, section by section."""
    if not isinstance(below, Mapping) or not isinstance(above, Mapping):
        return below if above is None else above
    keys = dict.fromkeys([*below, *above])
    return {key: _laid_over(below.get(key), above.get(key)) for key in keys}
