"""The summary: claims and verdicts of all papers that have a page, and the errors found.

A folder with pages comes in; summary.md goes out.
"""

from __future__ import annotations

import os
from pathlib import Path

from truerank.errors import InputError
from truerank.files import write_text
from truerank.reproduce.claims import VERDICTS
from truerank.reproduce.page import Page, read_page
from truerank.reproduce.runs import PAPERS
from truerank.typesetting import Table, escape_markdown, pipes
from truerank.wording import count

__all__ = ["summarise", "summary_of"]

PICTURES = {
    "ties": "tie-map-trained", "gom": "two-orders", "happier": "trade-off", "tcm": "pareto",
    "reality-check": "toy-spaces",
}  # fmt: skip
TOOLS = (
    "pytorch-metric-learning 2.9.0 casts labels to float32: four ids from 2^24 on, no two of one "
    "class, score P@1 = MAP@R = 1.",
    "torchmetrics 1.9.0 throws scores of 0 and below away: cosines .6, .2, -.1, -.3 with relevance "
    "1, 0, 1, 1 have AP 1.0 there; (1 + 2/3 + 3/4)/3 = .8056 is right.",
    "torchmetrics and open-metric-learning divide AP@k by the hits found: one hit at rank 1 of 4 "
    "mates, k = 2, is 1.0 there and 1/4 by the definition.",
    "ranx and pytrec_eval break ties by insertion order and by name: an all-tied run scores .079 "
    "to .156, or .057 to 1.0.",
    "The code of HAPPIER, ROADMAP and Smooth-AP drops the first column as oneself even where a "
    "duplicate stands before it.",
)
"""Errors of tools, each with its arithmetic; docs/what-other-tools-report.md runs them."""


def summarise(folder: str | os.PathLike[str]) -> Path:
    """Write summary.md from the pages in a folder."""
    target = Path(folder)
    pages = [read_page(target / f"{n}.json") for n in PAPERS if (target / f"{n}.json").is_file()]
    if not pages:
        raise InputError(f"{target} holds no page of `truerank reproduce`.")
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
        "# The papers, re-run: a summary",
        f"{count(len(rows), 'claim')} of {count(len(pages), 'paper')}, each judged by a rule that "
        f"stands on its page: {words}."
        + (f" Not yet run in full: {', '.join(missing)}." if missing else ""),
        "## Claims and verdicts",
        pipes(Table(["claim", "what it says", "verdict"], rows, words=(0, 1, 2))).rstrip("\n"),
        "## Pictures",
    ]
    for page in pages:
        for drawing in page.drawings:
            if drawing.name == PICTURES[page.name]:
                shown = drawing.caption.replace("[", "(").replace("]", ")")
                parts.append(
                    f"![{shown}]({page.name}/{drawing.name}.png)\n\n*{page.title}. "
                    f"{drawing.caption}*"
                )
    parts.append("## Found in the papers")
    for page in pages:
        if page.notes:
            notes = "\n".join(f"- {note}" for note in page.notes)
            parts.append(f"**{page.title}**\n\n{notes}")
    parts.append("## Errors found in tools")
    parts.append(
        "\n".join(f"- {one}" for one in TOOLS)
        + "\n\n[What other tools report](../../what-other-tools-report.md) runs each of them."
    )
    parts.append("Written by `truerank reproduce summary`.")
    return "\n\n".join(parts) + "\n"
