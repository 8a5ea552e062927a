"""The page itself: what the tools reported and the right answers in, Markdown out."""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cases import EMBEDDING_CASES, SCORE_CASES, Answer, Case

CASES: dict[str, Case] = {case.name: case for case in (*SCORE_CASES, *EMBEDDING_CASES)}

# Some tools compute in float32.
AGREEMENT = 1e-6

ANSWER = """# What other tools report

**The answer.** On small cases that can be checked by hand, tools of the field give other numbers
than the right one for reasons that fit into a sentence each, ties before all:
"""

INTRODUCTION = """
The same inputs, put to several tools and to truerank. Everything on this page is printed by

    {command}

which installs the tools, in the versions named below, into environments of their own, runs them,
runs truerank, and writes this page. It was last run in {date} on a {cores}-core {machine}
{system} machine with Python {python}.

These are good tools, made for more than what is asked of them here, and several of the differences
are conventions that their documentation states. The cases are small on purpose: each shows one
convention or one limit where it can be checked by hand. Other versions may well answer otherwise.

A ranking metric has one value when the scores settle the order. When scores are equal they do not,
and the right answer is a range: **lower / expected / upper**, the least value over all orders that
the scores allow, the mean over these orders, and the greatest. truerank prints all three; its
headline is the lower one. A query's *mates* are the items relevant to it, the *strangers* all
others.
"""

SAME = """## Where the tools and truerank agree

To six decimals, since some compute in float32; where scores tie, with the expected value.
"""

BY_HAND = """(by hand): worked out as the cases below are; truerank has no such metric yet.
"""

LARGE = """## The full mAP of 10,000 embeddings

10,000 seeded unit vectors of 128 dimensions in classes of ten, mean average precision over the
whole list, each tool in a process of its own, one run on the machine above. Other work may have run
beside it: CPU seconds (of all threads) say more than seconds. Memory is the peak of the process.
pytorch-metric-learning keeps every query's full neighbour list (`k=None`), so its memory grows with
the square of the number of rows; with `k="max_bin_count"` it needs far less and gives MAP@R, but
not the full mAP.
"""

CASES_TITLE = """## The cases and their answers

As data: `scripts/peers/cases.py`. truerank's answers to them are checked by
`tests/conformance/test_ranking_conformance.py`.
"""


def number(value: Any) -> str:
    return str(int(value)) if float(value).is_integer() else f"{float(value):.4f}"


def right_answer(answer: Answer, computed: bool) -> str:
    if answer.lower is None or answer.expected is None or answer.upper is None:
        shown = "undefined: no query has a mate"
    elif answer.lower == answer.upper:
        shown = number(answer.lower)
    else:
        shown = f"{number(answer.lower)} / {number(answer.expected)} / {number(answer.upper)}"
    return shown if computed else f"{shown} (by hand)"


def reported(values: Mapping[str, float | str | None]) -> str:
    def one(value: float | str | None) -> str:
        if value is None:
            return "nan"
        return f"`{value}`" if isinstance(value, str) else number(value)

    if len(set(values.values())) == 1:
        return one(next(iter(values.values())))
    return "<br>".join(f"{one(value)} ({name})" for name, value in values.items())


def agrees(values: Iterable[float | str | None], answer: Answer) -> bool:
    if answer.expected is None:
        return all(value is None for value in values)
    right = float(answer.expected)
    return all(isinstance(v, (int, float)) and abs(v - right) <= AGREEMENT for v in values)


def table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in rows) + "\n"


def summary(different: Sequence[Sequence[str]], same: Sequence[Sequence[str]]) -> str:
    """A row for each tool: how many answers differ, and the reasons, each once."""
    lines = []
    for tool, version in dict.fromkeys((row[0], row[1]) for row in (*different, *same)):
        mine = [row for row in different if row[0] == tool]
        agreed = sum(row[0] == tool for row in same)
        reasons = dict.fromkeys(re.split(r"(?<=[^.][.]) ", row[5])[0] for row in mine)
        lines.append([tool, version, f"{len(mine)} of {len(mine) + agreed}", "<br>".join(reasons)])
    return table(["tool", "version", "other answers", "because"], lines)


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


def render(
    command: str,
    tools: Sequence[Mapping[str, Any]],
    computed: Mapping[tuple[str, str], bool],
    large: Sequence[tuple[str, str, Mapping[str, float]]],
) -> str:
    """`computed`: whether truerank itself gave the answer to (case, metric)."""
    different, same = [], []
    for tool in tools:
        for row in tool["rows"]:
            case, values = CASES[row["case"]], row["values"]
            [answer] = [a for a in case.answers if a.metric == row["metric"]]
            right = right_answer(answer, computed[case.name, answer.metric])
            known = [tool["tool"], tool["version"], f"{case.title}: {answer.metric}"]
            found = f"{reported(values)}<br>`{row['function']}`"
            if agrees(values.values(), answer):
                same.append([*known, found, right])
            else:
                different.append([*known, found, right, row["why"]])
    columns = [
        "tool",
        "version",
        "case",
        "it reports",
        "right answer (truerank: lower / expected / upper)",
    ]
    parts = [
        ANSWER,
        summary(different, same) + INTRODUCTION.format(command=command, **machine()),
        "## Where they differ\n",
        folded(f"All {len(different)} answers that differ", table([*columns, "why"], different)),
        SAME,
        folded(f"All {len(same)} answers that agree", table(columns, same)),
    ]
    if not all(computed.values()):
        parts.append(BY_HAND)
    if large:
        parts += [
            LARGE,
            table(
                ["tool", "version", "mAP", "seconds", "CPU seconds", "peak memory, GB"],
                [
                    [
                        name,
                        version,
                        f"{m['map']:.7f}",
                        f"{m['seconds']:.1f}",
                        f"{m['cpu']:.1f}",
                        f"{m['gigabytes']:.2f}",
                    ]
                    for name, version, m in large
                ],
            ),
        ]
    parts.append(CASES_TITLE)
    cases = [
        f"- **{c.title[0].upper()}{c.title[1:]}.** Given: {c.given}. {c.why}\n"
        for c in CASES.values()
    ]
    parts.append(folded(f"All {len(cases)} cases", "".join(cases)))
    return "\n".join(parts)
