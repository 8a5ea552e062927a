"""Page about one paper: claims with verdicts, what was run, tables and figures.

A Page is written as Markdown, JSON and figures (matplotlib, without a display). It holds no
time and no path of a machine.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from studies.claims import UNDECIDED, Claim
from truerank._util import text
from truerank._util.errors import InputError
from truerank._util.files import atomic_path, to_json, write_text
from truerank._util.text import TextTable, escape_markdown, pipes
from truerank.io.reading import read_json


@dataclass(frozen=True)
class Sheet:
    """A table of a page."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    def to_markdown(self) -> str:
        """Title, table and note."""
        words = tuple(range(len(self.header)))
        cells = [[escape_markdown(cell) for cell in row] for row in self.rows]
        header = [escape_markdown(name) for name in self.header]
        parts = [f"**{self.title}**", pipes(TextTable(header, cells, words=words)).rstrip("\n")]
        return "\n\n".join([*parts, *([self.note] if self.note else [])])

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "title": self.title,
            "header": list(self.header),
            "rows": [list(row) for row in self.rows],
            "note": self.note,
        }


@dataclass(frozen=True)
class Drawing:
    """A figure of a page; `figure` is matplotlib's, None in a page that was read from JSON."""

    name: str
    caption: str
    figure: Any = None


@dataclass(frozen=True)
class Page:
    """All that is said about one paper."""

    name: str
    """As the command knows it: ties, gom, ..."""
    title: str
    citation: str
    introduction: str
    runs: Sequence[str]
    """What was run: data, seeds, budget, machine; a sentence each."""
    claims: Sequence[Claim]
    sheets: Sequence[Sheet] = field(default_factory=tuple)
    drawings: Sequence[Drawing] = field(default_factory=tuple)
    notes: Sequence[str] = field(default_factory=tuple)
    """Errors that were found in the paper, and what else a reader must know."""
    quick: bool = False
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """What the tables were made of."""

    def to_markdown(self) -> str:
        """The page as text, figures beside it in a folder of its name."""
        parts = [f"# {self.title}", self.introduction]
        if self.quick:
            parts.append(
                "**A quick run: it shows that everything works, and decides nothing.** The "
                "verdicts below are those of a budget far too small."
            )
        rows = [[f"({c.key})", escape_markdown(c.statement), c.verdict] for c in self.claims]
        table = TextTable(["", "claim", "verdict"], rows, words=(0, 1, 2))
        parts += ["## Verdicts", pipes(table).rstrip("\n")]
        parts += [part for claim in self.claims for part in _section(claim)]
        parts += ["## What was run", "\n".join(f"- {run}" for run in self.runs)]
        if self.sheets:
            parts += ["## Numbers", *(sheet.to_markdown() for sheet in self.sheets)]
        if self.drawings:
            parts.append("## Figures")
            for one in self.drawings:
                shown = one.caption.replace("[", "(").replace("]", ")")
                parts.append(f"![{shown}]({self.name}/{one.name}.png)\n\n*{one.caption}*")
        if self.notes:
            parts += ["## Found on the way", "\n".join(f"- {note}" for note in self.notes)]
        parts.append(f"The paper: {self.citation} Written by `python -m studies {self.name}`.")
        return "\n\n".join(parts) + "\n"

    def to_text(self, *, rule: bool = False) -> str:
        """Claims and verdicts, as wide as the screen."""
        rows = [[f"({c.key})", c.verdict, c.statement] for c in self.claims]
        table = TextTable(["", "verdict", "claim"], rows, words=(0, 1, 2))
        width = text.screen_width()
        return text.text(table, width, rule=rule).rstrip("\n")

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "name": self.name,
            "title": self.title,
            "citation": self.citation,
            "introduction": self.introduction,
            "runs": list(self.runs),
            "claims": [claim.to_dict() for claim in self.claims],
            "sheets": [sheet.to_dict() for sheet in self.sheets],
            "drawings": [{"name": d.name, "caption": d.caption} for d in self.drawings],
            "notes": list(self.notes),
            "quick": self.quick,
            "numbers": dict(self.numbers),
        }

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Page:
        """The inverse of to_dict, without figures."""
        return Page(
            **{
                **data,
                "claims": [Claim.from_dict(one) for one in data["claims"]],
                "sheets": [Sheet(**one) for one in data["sheets"]],
                "drawings": [Drawing(**one) for one in data["drawings"]],
            }
        )

    def write(self, folder: str | os.PathLike[str]) -> Path:
        """Write NAME.md, NAME.json and NAME/FIGURE.svg and .png; the path of the text."""
        target = Path(folder)
        try:
            target.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror or error
            raise InputError(f"cannot make the folder {target}: {reason}.") from error
        for one in self.drawings:
            if one.figure is not None:
                for kind in KINDS:
                    save_figure(one.figure, target / self.name / f"{one.name}.{kind}")
        to_json(self.to_dict(), target / f"{self.name}.json")
        path = target / f"{self.name}.md"
        write_text(path, self.to_markdown())
        return path


def _section(claim: Claim) -> list[str]:
    """What a page says of one claim, below the table of verdicts."""
    parts = [f"### ({claim.key}) {claim.verdict}", claim.statement, f"*Rule:* {claim.rule}"]
    if claim.evidence:
        rows = [[escape_markdown(e.what), e.shown(), e.paper] for e in claim.evidence]
        table = TextTable(["evidence", "here", "paper"], rows, words=(0, 1, 2))
        parts.append(pipes(table).rstrip("\n"))
    if claim.explanation:
        parts.append(claim.explanation)
    if claim.tell and claim.verdict == UNDECIDED:
        parts.append(f"*What would tell:* {claim.tell}")
    return parts


def read_page(path: str | os.PathLike[str]) -> Page:
    """A page from its JSON."""
    found = read_json(Path(path))
    try:
        return Page.from_dict(found)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{os.fspath(path)} is no page of `python -m studies`.") from error


# Figures by matplotlib, without a display: how they look, and how they are saved.


KINDS = ("svg", "png")
COLOURS = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6b7280", "#7c3aed",
    "#b91c1c", "#4d7c0f", "#0f766e", "#a16207",
)  # fmt: skip
INK, QUIET = "#1f2430", "#6b7280"
SALT = "truerank"
"""Of the ids inside an SVG: the same figure is the same file."""


def new_figure(width: float, height: float) -> Any:
    """An empty figure, of so many inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError(
            "figures need matplotlib: pip install matplotlib; finished work is kept; pass --resume "
            "to continue, here or elsewhere."
        ) from error
    return Figure(figsize=(width, height), layout="constrained")


def panels(rows: int, columns: int, *, width: float = 3.2, height: float = 2.6) -> tuple[Any, Any]:
    """A figure with a grid of axes, (rows, columns)."""
    figure = new_figure(width * columns, height * rows)
    return figure, figure.subplots(rows, columns, squeeze=False)


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure as the kind that its name ends in; the folder is made."""
    import matplotlib

    kind = path.suffix.removeprefix(".")
    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}[kind]
    with matplotlib.rc_context({"svg.hashsalt": SALT}), atomic_path(path) as partial:
        figure.savefig(partial, format=kind, dpi=130, metadata=metadata)
