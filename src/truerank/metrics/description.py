"""Descriptions of metrics: a table of all, or all facts about one, in several formats."""

from __future__ import annotations

import json
import textwrap
from typing import Any

from truerank._util import text
from truerank._util.text import TextTable, plural
from truerank.core import registry
from truerank.core.metric import FAMILIES, Definition, in_order
from truerank.core.parameters import Parameter

WIDTH = 100
"""Of a text without a screen, and on screens that are wider still."""
ROOM = 20
"""Columns that the parameters need to stand beside the rest of their row."""
_CUTS = {
    "number": "k",
    "number or none": "[k]",
    "optional": "[k or r]",
}
_CUTS_IN_WORDS = {
    "number": "whole number, an int >= 1; must be given: the rank up to which items count",
    "number or none": "whole number, an int >= 1: the rank up to which items count; all if left "
    "out",
    "optional": "whole number, an int >= 1, or r, the query's number of relevant items: the rank "
    "up to which items count; all if left out",
}


def describe(name: str | None = None) -> str:
    """Describe all metrics, those of one family, or one metric in full.

    Examples
    --------
    >>> print(describe("mrr").splitlines()[0])
    mrr: mean reciprocal rank
    """
    if name is None or name in FAMILIES:
        return _overview([name] if name else list(FAMILIES))
    return _everything(registry.asked(name))


def as_json(name: str | None = None) -> str:
    """What is known about these metrics, as a JSON list."""
    return json.dumps([_facts(one) for one in _chosen(name)], indent=1) + "\n"


def as_csv(name: str | None = None) -> str:
    """These metrics as comma-separated values."""
    rows = [(one.name, one.family, *_row(one)[1:], " ".join(one.examples)) for one in _chosen(name)]
    return text.separated(("name", "family", *_HEADER[1:], "examples"), rows)


def as_markdown(name: str | None = None) -> str:
    """These metrics as a Markdown table."""
    rows = [list(_row(one)) for one in _chosen(name)]
    return text.markdown(TextTable(list(_HEADER), rows, words=(0, 1, 2, 3)))


def _chosen(name: str | None) -> list[Definition]:
    if name is None or name in FAMILIES:
        return [one for one in in_order() if name in (None, one.family)]
    return [registry.asked(name)]


def _facts(known: Definition) -> dict[str, Any]:
    return {
        "name": known.name,
        "family": known.family,
        "title": known.title,
        "definition": known.definition,
        "better": direction(known),
        "range": list(known.range) if known.unit == "share" else None,
        "counts": known.counted,
        "ties": known.ties,
        "source": known.citation,
        "aliases": registry.aliases(known.name),
        "cut": known.cut,
        "parameters": [
            {"name": one.name, "expected": one.kind.expected, "default": one.default,
             "help": one.help}
            for one in known.parameters
        ],
        "examples": list(known.examples),
    }  # fmt: skip


def parameters(definition: Definition) -> str:
    """The parameters in short: 'k, divisor=r, [level]'; brackets for what may be left out."""
    required = " or ".join(definition.one_of)
    others = [
        f"[{one.name}]" if one.default is None else f"{one.name}={one.default}"
        for one in definition.parameters
        if one.name not in definition.one_of
    ]
    return ", ".join(part for part in (_CUTS.get(definition.cut), required, *others) if part)


def direction(definition: Definition) -> str:
    """Which scores are better, if any are."""
    if definition.unit == "distance":
        return "neither"
    return "higher" if definition.higher_is_better else "lower"


def span(definition: Definition) -> str:
    """The range, and which end of it is better."""
    if definition.unit == "distance":
        return "a distance"
    low, high = definition.range
    return f"{low:g} to {high:g}, {direction(definition)} is better"


_HEADER = ("name", "what it is", "better", "parameters")


def _row(known: Definition) -> tuple[str, ...]:
    return known.name, known.title, direction(known), parameters(known)


def _overview(families: list[str]) -> str:
    rows = {
        family: [_row(one) for one in in_order() if one.family == family] for family in families
    }
    every = [_HEADER, *(row for some in rows.values() for row in some)]
    widths = [max(len(row[column]) for row in every) for column in range(len(_HEADER))]
    beside = sum(widths[:-1]) + 2 * len(widths) + min(ROOM, widths[-1]) <= _width()
    lines = [_aligned(_HEADER, widths, beside)]
    for family, some in rows.items():
        lines += ["", family, *(_aligned(row, widths, beside) for row in some)]
    return "\n".join(lines)


def _aligned(row: tuple[str, ...], widths: list[int], beside: bool) -> str:
    """A row of the table, its parameters beside the rest or below it."""
    *first, last = row
    cells = [cell.ljust(width) for cell, width in zip(first, widths, strict=False)]
    start = "  " + "".join(f"{cell}  " for cell in cells)
    if not last:
        return start.rstrip()
    if beside:
        return _wrapped(last, start)
    return f"{start.rstrip()}\n{_wrapped(last, ' ' * (widths[0] + 6))}"


def _everything(known: Definition) -> str:
    counted = plural(known.counted)
    if known.counted == "query":
        counted = f"mated {counted}" if known.with_mate else f"unmated {counted}"
    facts = [
        ("family", known.family),
        ("range", span(known)),
        ("n counts", counted),
        ("ties", known.ties),
        ("source", known.citation),
        ("also called", ", ".join(registry.aliases(known.name))),
        ("examples", "  ".join(known.examples)),
    ]
    lines = [f"{known.name}: {known.title}", "", _wrapped(known.definition, "  "), ""]
    lines += [_entry(*fact) for fact in facts if fact[1]]
    given = [("k", _CUTS_IN_WORDS[known.cut])] if known.cut in _CUTS_IN_WORDS else []
    given += [(one.name, _told(one)) for one in known.parameters]
    if given:
        lines += ["", "parameters", *(_entry(*one) for one in given), *_rules(known)]
    return "\n".join(lines)


def _told(parameter: Parameter) -> str:
    """A parameter's kind, range, default and purpose."""
    kind, default = parameter.kind, parameter.default
    start = f"{kind.title}, {kind.expected}" + ("" if default is None else f"; default {default}")
    return f"{start}: {parameter.help}"


def _rules(known: Definition) -> list[str]:
    """The rules that parameters obey together."""
    rules = [f"{one.name} needs a number k" for one in known.parameters if one.needs_cut]
    if known.one_of:
        rules.append(" or ".join(f"{key}=" for key in known.one_of) + " must be given")
    rules += [f"{pair.first} and {pair.second} exclude each other" for pair in known.exclusive]
    rules += [f"{key} needs {other}" for key, other in known.needs]
    return [_entry("together", "; ".join(rules))] if rules else []


def _entry(name: str, text: str) -> str:
    return _wrapped(text, f"  {name:<13}")


def _wrapped(text: str, start: str) -> str:
    rest = " " * len(start)
    return textwrap.fill(
        text,
        _width(),
        initial_indent=start,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _width() -> int:
    return min(text.screen_width() or WIDTH, WIDTH)
