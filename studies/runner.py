"""run: the name of a paper and a folder in, a page out; and the summary of all pages.

The result is None where the time was over before. A ledger, one JSON file, keeps each computed
entry once, so that a resumed run computes only what is missing. A request says where the study
is kept, how much is run, and on which files.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from studies.claims import VERDICTS
from studies.page import Page, read_page
from truerank._util.errors import InputError
from truerank._util.files import to_json, write_text
from truerank._util.installed import install
from truerank._util.text import TextTable, count, escape_markdown, pipes
from truerank.io.reading import read_json

PAPERS = {
    "ties": "Nicolaou et al. 2018: ties and the order of rows",
    "gom": "Wang et al. 2020: retrieval and verification in one metric",
    "happier": "Ramzi et al. 2022: training for a tree of labels",
    "tcm": "Zhang et al. 2024: one threshold for all classes",
    "reality-check": "Musgrave et al. 2020: losses compared alike",
}
"""The papers by name, in the order of the summary."""


def run(
    paper: str,
    folder: str | os.PathLike[str],
    *,
    quick: bool = False,
    resume: bool = False,
    jobs: int = 1,
    time_limit: float | None = None,
    data: Mapping[str, str | os.PathLike[str]] | None = None,
    quiet: bool = True,
) -> Page | None:
    """Re-run a paper, or go on with a run.

    Parameters
    ----------
    paper : str
        A key of PAPERS.
    folder : path
        Where everything is kept; the page is written there as well.
    quick : bool
        Minutes on two cores, to see that it works; it decides nothing.
    resume : bool
        Go on with what is in the folder.
    jobs : int
        Trainings at a time, each in a process of its own.
    time_limit : float, optional
        Seconds after which to stop, with everything kept.
    data : mapping, optional
        Files by name: phocnet, grocery, quickdraw, emoji; benchmark, the folder of a finished one.
    quiet : bool
        Whether nothing is told about the progress.

    Returns
    -------
    Page or None
        None if the time was over; `resume=True` goes on.
    """
    if paper not in PAPERS:
        raise InputError(
            f"The 'paper' parameter of run must be one of {', '.join(PAPERS)}. "
            f"Got {paper!r} instead."
        )
    if not isinstance(jobs, int) or jobs < 1:
        raise InputError(f"The 'jobs' parameter of run must be an int >= 1. Got {jobs!r} instead.")
    target = _folder(folder, paper, quick, resume)
    files = {name: Path(path) for name, path in (data or {}).items()}
    request = Request(target, quick, jobs, Clock(time_limit), files, quiet)
    try:
        page: Page = _study(paper).run(request)
    except TimeOver:
        return None
    page = replace(page, runs=[*page.runs, *_remarks(target / "remarks.txt")])
    page.write(target)
    return page


def _remarks(path: Path) -> list[str]:
    """What a person has to say about a run: the lines of a file, if there is one."""
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip()]


def _folder(folder: str | os.PathLike[str], paper: str, quick: bool, resume: bool) -> Path:
    """The folder, which is new or holds a run that may go on."""
    target = Path(folder)
    mark = target / "reproduce.txt"
    wanted = f"{paper}, {'quick' if quick else 'full'}\n"
    try:
        target.mkdir(parents=True, exist_ok=True)
        found = mark.read_text(encoding="utf-8") if mark.exists() else None
        if found is None:
            mark.write_text(wanted, encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"cannot write to the folder {target}: {error.strerror or error}."
        ) from error
    if found is not None and found != wanted:
        raise InputError(f"{target} holds a run of {found.strip()}; name another folder.")
    if found is not None and not resume:
        raise InputError(
            f"{target} holds a run already; resume it (--resume, resume=True) or name another "
            "folder."
        )
    return target


def _study(paper: str) -> Any:
    module = f"studies.{paper.replace('-', '_')}"
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing == "truerank":
            raise
        raise InputError(f"a reproduction needs {missing}: {install('benchmark')}.") from error


# The summary: claims and verdicts of all papers that have a page, and the errors found.
#
# A folder with pages comes in; summary.md goes out.


PICTURES = {
    "ties": "tie-map-trained", "gom": "two-orders", "happier": "trade-off", "tcm": "pareto",
    "reality-check": "toy-spaces",
}  # fmt: skip
TOOLS = (
    "pytorch-metric-learning 2.9.0 casts labels to float32: four ids from 2^24 on, no two of one "
    "class, score P@1 = MAP@R = 1.",
    "torchmetrics 1.9.0 discards scores of 0 and below: cosines .6, .2, -.1, -.3 with relevance "
    "1, 0, 1, 1 have AP 1.0 there; the correct value is (1 + 2/3 + 3/4)/3 = .8056.",
    "torchmetrics and open-metric-learning divide AP@k by the hits found: one hit at rank 1 of 4 "
    "relevant items, k = 2, is 1.0 there and 1/4 by the definition.",
    "ranx breaks ties by insertion order and pytrec_eval by name: a run with all items tied scores "
    ".079 to .156, or .057 to 1.0.",
    "The code of HAPPIER, ROADMAP and Smooth-AP drops the first column as the query itself even if "
    "a duplicate is sorted before it.",
)
"""Errors of tools, each with its arithmetic; docs/results/other-tools.md runs them."""


def summarise(folder: str | os.PathLike[str]) -> Path:
    """Write summary.md from the pages in a folder."""
    target = Path(folder)
    pages = [read_page(target / f"{n}.json") for n in PAPERS if (target / f"{n}.json").is_file()]
    if not pages:
        raise InputError(f"{target} holds no page of `python -m studies`.")
    path = target / "summary.md"
    write_text(path, summary_of(pages))
    return path


def summary_of(pages: list[Page]) -> str:
    """The summary of some pages."""
    counted = dict.fromkeys(VERDICTS, 0)
    rows = []
    for page in pages:
        for claim in page.claims:
            counted[claim.verdict] += 1
            quick = " (quick run: decides nothing)" if page.quick else ""
            rows.append(
                [
                    f"[{page.name}]({page.name}.md) ({claim.key})",
                    escape_markdown(claim.statement),
                    claim.verdict + quick,
                ]
            )
    words = ", ".join(f"{number} {word}" for word, number in counted.items() if number)
    missing = [name for name in PAPERS if name not in {page.name for page in pages}]
    parts = [
        "# Summary of the re-run papers",
        "This page lists the verdicts on the claims that were re-run: "
        f"{count(len(rows), 'claim')} of {count(len(pages), 'paper')}, each judged by the rule on "
        f"its page: {words}." + (f" Not yet run in full: {', '.join(missing)}." if missing else ""),
        "## Claims and verdicts",
        pipes(TextTable(["claim", "what it says", "verdict"], rows, words=(0, 1, 2))).rstrip("\n"),
        "## Figures",
    ]
    for page in pages:
        for drawing in page.drawings:
            if drawing.name == PICTURES[page.name]:
                shown = drawing.caption.replace("[", "(").replace("]", ")")
                parts.append(
                    f"![{shown}]({page.name}/{drawing.name}.png)\n\n*{page.title}. "
                    f"{drawing.caption}*"
                )
    parts.append("## Errors found in the papers")
    for page in pages:
        if page.notes:
            notes = "\n".join(f"- {note}" for note in page.notes)
            parts.append(f"**{page.title}**\n\n{notes}")
    parts.append("## Errors found in tools")
    parts.append(
        "\n".join(f"- {one}" for one in TOOLS)
        + "\n\n[What other tools report](../other-tools.md) runs each of them."
    )
    parts.append("Generated by `python -m studies summary`.")
    return "\n\n".join(parts) + "\n"


# What a reproduction is asked for: where it is kept, how much is run, on which files.


@dataclass(frozen=True)
class Request:
    """One call of `python -m studies`."""

    folder: Path
    """Where all that is needed to go on is kept."""
    quick: bool = False
    jobs: int = 1
    clock: Clock = field(default_factory=lambda: Clock(None))
    files: Mapping[str, Path] = field(default_factory=dict)
    """Files of the user by name: phocnet, grocery, or a data set's own name."""
    quiet: bool = True

    def file(self, name: str) -> Path | None:
        """A file of the user, None if none was given."""
        return self.files.get(name)


# The ledger of a reproduction: what has been computed, in one JSON file, each entry once.


class TimeOver(Exception):  # noqa: N818 (no error: the time that was given is over)
    """The time is over; what is done is kept."""


class Clock:
    """The seconds that a call may take."""

    def __init__(self, until: float | None) -> None:
        self._end = None if until is None else time.monotonic() + until

    @property
    def left(self) -> float | None:
        """Seconds that are left, None without a limit."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    def check(self) -> None:
        """Stop if the time is over."""
        if self.left == 0.0:
            raise TimeOver


class Ledger:
    """Entries by name.

    Parameters
    ----------
    path : path
        The file; read if it is there.
    facts : mapping
        What the entries depend on; a file with others is refused.
    """

    def __init__(self, path: str | os.PathLike[str], facts: dict[str, Any], clock: Clock) -> None:
        self.path, self.facts, self._clock = Path(path), facts, clock
        self.entries: dict[str, Any] = {}
        if self.path.exists():
            found = read_json(self.path)
            if not isinstance(found, dict) or not isinstance(found.get("entries"), dict):
                raise InputError(f"{self.path} is no ledger of `python -m studies`.")
            if found.get("facts") != facts:
                raise InputError(
                    f"{self.path} was made with other data or another size of run; name another "
                    "folder."
                )
            self.entries = found["entries"]

    def get(self, name: str, compute: Callable[[], Any]) -> Any:
        """An entry, computed and kept if it is missing; plain JSON values."""
        if name not in self.entries:
            self._clock.check()
            self.entries[name] = compute()
            to_json({"facts": self.facts, "entries": self.entries}, self.path)
        return self.entries[name]
