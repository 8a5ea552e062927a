"""The page itself: what the kit says about the tools and the right answers in, Markdown out."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cases import EMBEDDING_CASES, SCORE_CASES, Answer, Case

CASES: dict[str, Case] = {case.name: case for case in (*SCORE_CASES, *EMBEDDING_CASES)}

ANSWER = """# What other tools report

**The answer.** On small cases that can be checked by hand, tools of the field give other numbers
than the right one for reasons that fit into a sentence each, ties before all. This is what
[`truerank conform`](../reference/conformance.md) finds out about each by calling it:
"""

INTRODUCTION = """
Everything on this page is printed by

    {command}

which puts the kit's cases to the tools as they are installed beside truerank for its tests (one of
them in an environment of its own), and writes this page. It was last run in {date} on a
{cores}-core {machine} {system} machine with Python {python}.

These are good tools, made for more than what is asked of them here, and several of the differences
are conventions that their documentation states. The cases are small on purpose: each shows one
convention or one limit where it can be checked by hand. Other versions may well answer otherwise.

A ranking metric has one value when the scores settle the order. When scores are equal they do not,
and the right answer is a range: **lower / expected / upper**, the least value over all orders that
the scores allow, the mean over these orders, and the greatest. truerank prints all three; its
headline is the lower one. Brackets hold items whose scores are equal
([glossary](../reference/glossary.md)).

## What the kit says, function by function

Each convention that is not truerank's comes with the smallest case that shows it; below it stands
what the function does as truerank does.
"""

NOTES = {
    "pytorch-metric-learning": "The mean reciprocal rank is missing from the list of metrics that "
    "need neighbours, so it works only beside another that asks for them.",
    "torchmetrics": "A relevant item counts as found only if its score is above 0: the "
    "documentation asks for probabilities, which cosine similarities are not.",
    "ranx": "It refuses a run and qrels of different queries, and says what to do: with "
    "`make_comparable=True` it counts them as truerank does.",
    "pytrec_eval-terrier": "The mean is that over the queries which it returns, as trec_eval takes "
    "it unless told `-c`.",
    "first column dropped": "A protocol, not a tool: sort each row, drop the first column as the "
    "query itself. These lines are ours, and stand for released evaluation code that does so: "
    "that of HAPPIER, ROADMAP and Smooth-AP.",
    "open-metric-learning": "Its documentation says what it divides by.",
}

MORE = """## More cases

Lists that are longer, and numbers that are known from elsewhere, to four decimals. Under "right
answer" stands what truerank gives.
"""

PAPERS = """## Released code of papers

Code that is published with a paper cannot be installed as a package, so the script does not call
it. The numbers below are those of its formulas; `tests/conformance/test_papers_code.py` computes
them from the formulas, and the right answers with truerank.
"""
PAPER_CASES = (
    ("`get_map` of the tie paper (Nicolaou et al. 2018)",
     "a query of label 0, items of labels 1 and 0 in this order: AP", "0.2500", "0.5000"),
    ("", "embeddings that are all zero, classes in turn: mAP", "0.1031", "0.0518 / 0.1050 / 1"),
    ("`hap` of HAPPIER (Ramzi et al. 2022)",
     "levels 2, 2, 1, 0 in this perfect order: H-AP", "2", "1"),
    ("`ndcg(at_k=2)` of HAPPIER", "levels 0, 2, 2, 1 in this order: NDCG at 2", "0.6309", "0.3869"),
)  # fmt: skip
WHY_PAPERS = """\
- **AP of the tie paper.** Recall at rank i is (found + e)/(R + e) with e = 1e-20, and AP is the
  mean precision at the ranks where recall rises. It rises at rank 1 even if the first item is
  wrong, so AP is divided by R + 1 there. The first column of each row is dropped as oneself, even
  where another row at distance 0 stands in it. On the paper's own embeddings the first rule gives
  the published level of mAP and the second one its width
  ([Ties: what came out](reproduce/ties.md)).
- **H-AP of HAPPIER.** An item of level l has the relevance (l/L)^alpha divided by the number of
  items of level l. The code finds the level of an item by its relevance, so an item counts once
  for each level of equal relevance. Here levels 1 and 2 both have 1/2: every precision is doubled.
- **NDCG at k of HAPPIER.** The ideal order is that of the k items returned and not of all items.
  No table of the paper uses it.
"""

LARGE = """## The full mAP of 10,000 embeddings

10,000 seeded unit vectors of 128 dimensions in classes of ten, mean average precision over the
whole list, each tool in a process of its own, one run on the machine above. Other work may have run
beside it: CPU seconds (of all threads) say more than seconds. Memory is the peak of the process.
pytorch-metric-learning keeps every query's full neighbour list (`k=None`), so its memory grows with
the square of the number of rows; with `k="max_bin_count"` it needs far less and gives MAP@R, but
not the full mAP.
"""

GIVEN = """The cases, as data in `scripts/peers/cases.py`; truerank's answers to them are checked by
`tests/conformance/test_ranking_conformance.py`.
"""


def number(value: Any) -> str:
    return str(int(value)) if float(value).is_integer() else f"{float(value):.4f}"


def right_answer(answer: Answer) -> str:
    if answer.lower is None or answer.expected is None or answer.upper is None:
        return "undefined: no query has a relevant item"
    if answer.lower == answer.upper:
        return number(answer.lower)
    return f"{number(answer.lower)} / {number(answer.expected)} / {number(answer.upper)}"


def reported(values: Mapping[str, float]) -> str:
    if len({number(value) for value in values.values()}) == 1:
        return number(next(iter(values.values())))
    return "<br>".join(f"{number(value)} ({name})" for name, value in values.items())


def table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in rows) + "\n"


def folded(title: str, text: str) -> str:
    """Text that opens on a click, on a code host as well."""
    return f'<details markdown="1">\n<summary>{title}</summary>\n\n{text}\n</details>\n'


def machine() -> dict[str, str]:
    return {
        "date": time.strftime("%B %Y"),
        "cores": str(os.cpu_count()),
        "machine": platform.machine().replace("_", "-"),
        "system": platform.system(),
        "python": ".".join(platform.python_version_tuple()[:2]),
    }


def summary(tools: Sequence[Mapping[str, Any]]) -> str:
    """A row for the functions of a tool that do the same otherwise."""
    lines = []
    for tool in tools:
        alike: dict[str, list[str]] = {}
        for one in tool["verdicts"]:
            own = [sentence[0].upper() + sentence[1:] + "." for sentence in one["own"]]
            if one["fails"]:
                own = ["Fails on every plain case."]
            elif one["unexplained"]:
                own.append("Gives more that no known convention explains.")
            name = f"`{one['function']}` as {one['like']}"
            alike.setdefault("<br>".join(own) or "none: it conforms", []).append(name)
        for place, (own_ones, names) in enumerate(alike.items()):
            who = [tool["tool"], tool["version"]] if place == 0 else ["", ""]
            lines.append([*who, "<br>".join(names), own_ones])
    return table(["tool", "version", "function", "conventions of its own"], lines)


def verdicts(tool: Mapping[str, Any]) -> str:
    """The kit's own words about each function of a tool."""
    shown = "\n\n".join(one["text"] for one in tool["verdicts"])
    note = NOTES.get(tool["tool"])
    name = tool["tool"] + ("" if tool["version"] == "none" else f" {tool['version']}")
    text = (f"{note}\n\n" if note else "") + f"```text\n{shown}\n```\n"
    return folded(name, text)


def more(tools: Sequence[Mapping[str, Any]]) -> str:
    """The cases of cases.py, and what the tools give for them."""
    lines = []
    for tool in tools:
        for row in tool["large"]:
            case = CASES[row["case"]]
            [answer] = [a for a in case.answers if a.metric == row["metric"]]
            name = f"{case.title}: {answer.metric}"
            found = f"{reported(row['values'])}<br>`{row['function']}`"
            lines.append([tool["tool"], name, found, right_answer(answer)])
    return table(["tool", "case", "it reports", "right answer"], lines)


def released_code() -> list[str]:
    """The section about code that comes with papers."""
    head = ["code", "case", "it gives", "right answer"]
    return [PAPERS, table(head, PAPER_CASES), WHY_PAPERS]


def render(
    command: str,
    tools: Sequence[Mapping[str, Any]],
    large: Sequence[tuple[str, str, Mapping[str, float]]],
) -> str:
    """The whole page."""
    parts = [ANSWER, summary(tools) + INTRODUCTION.format(command=command, **machine())]
    parts += map(verdicts, tools)
    cases = [
        f"- **{c.title[0].upper()}{c.title[1:]}.** Given: {c.given}. {c.why}\n"
        for c in CASES.values()
    ]
    parts += [MORE, more(tools), GIVEN, "".join(cases), *released_code()]
    if large:
        rows = [
            [name, version, f"{m['map']:.7f}", f"{m['seconds']:.1f}", f"{m['cpu']:.1f}",
             f"{m['gigabytes']:.2f}"]
            for name, version, m in large
        ]  # fmt: skip
        head = ["tool", "version", "mAP", "seconds", "CPU seconds", "peak memory, GB"]
        parts += [LARGE, table(head, rows)]
    return "\n".join(parts)
