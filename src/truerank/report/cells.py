"""Tables as the page takes them: columns with a kind, rows of plain values, a name for the file."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

from truerank.core import registry

__all__ = ["column", "file_name", "metric_column", "page_table", "shortened"]

KINDS = ("text", "count", "percent", "number")
KEPT = 6
"""Decimals of a share that a page keeps, or as many more as it takes to print it right."""


def column(name: str, kind: str = "text", *, decimals: int = 2, hint: str = "") -> dict[str, Any]:
    """A column: text, a count, a share shown in percent, or a number (as text: as it is)."""
    assert kind in KINDS
    return {"name": name, "kind": kind, "decimals": decimals, "hint": hint}


def metric_column(metric: str) -> dict[str, Any]:
    """The column of a metric's values."""
    known = registry.find(metric)
    arrow = "" if known.higher_is_better else " \N{DOWNWARDS ARROW}"
    kind = "percent" if known.unit == "share" else "number"
    return column(metric + arrow, kind, decimals=known.decimals, hint=known.title)


def page_table(
    title: str,
    columns: Sequence[dict[str, Any]],
    rows: Iterable[Sequence[Any]],
    *,
    note: str = "",
    sorted_by: tuple[int, str] | None = None,
    file: str | None = None,
) -> dict[str, Any]:
    """A table that the page sorts, searches and writes as CSV."""
    return {
        "title": title,
        "columns": list(columns),
        "rows": [list(row) for row in rows],
        "note": note,
        "sorted": None if sorted_by is None else list(sorted_by),
        "file": file_name(file or title),
    }


def file_name(text: str) -> str:
    """A name that any system takes, whatever the text holds.

    Examples
    --------
    >>> file_name("group <b>/../x")
    'group-b-x.csv'
    """
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-").lower()[:60]
    return f"{plain or 'table'}.csv"


def shortened(value: float | None, decimals: int = 2) -> float | None:
    """A share with few decimals that still prints, in percent, as it does with all of them."""
    if value is None or not math.isfinite(value):
        return None
    shown = f"{100 * value:.{decimals}f}"
    for kept in (decimals + 4, KEPT + 4, 12):
        short = round(value, kept)
        if f"{100 * short:.{decimals}f}" == shown:
            return short
    return value
