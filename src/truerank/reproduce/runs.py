"""run: the name of a paper and a folder in, a page out; None where the time was over before."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from truerank.errors import InputError
from truerank.extras import install
from truerank.reproduce.ledger import Clock, TimeOver
from truerank.reproduce.page import Page
from truerank.reproduce.request import Request

__all__ = ["PAPERS", "run"]

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
    until: float | None = None,
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
    until : float, optional
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
    request = Request(target, quick, jobs, Clock(until), files, quiet)
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
    module = f"truerank.reproduce.{paper.replace('-', '_')}.study"
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing == "truerank":
            raise
        raise InputError(f"a reproduction needs {missing}: {install('benchmark')}.") from error
