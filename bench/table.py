"""A record of measurements as one Markdown table."""

from __future__ import annotations

import statistics
from typing import Any

__all__ = ["describe", "lines", "median"]

BASES = ("float32 GEMM", "truerank", "truerank, one level, float64")
"""Whoever the others are compared with, where it was measured. Sorted rows need float64 scores, so
trees are compared with the ranking of one level by such scores too."""
Rounds = list[dict[str, Any]]


def lines(record: dict[str, Any]) -> list[str]:
    """Medians over the rounds; ratios are medians of the ratios of CPU seconds in each round."""
    bases = [base for base in BASES if any(e["contender"] == base for e in record["measured"])]
    head = ["case", "", "seconds", "CPU seconds", *(f"x {b}" for b in bases), "peak MB", "score"]
    table = ["| " + " | ".join(head) + " |", "|---|---|" + "---:|" * (len(head) - 2)]
    previous = None
    for entry in record["measured"]:
        case, rounds = entry["case"], entry["rounds"]
        peers = {e["contender"]: e["rounds"] for e in record["measured"] if e["case"] == case}
        scores = [r["score"] for r in rounds if r["score"] is not None]
        cells = [
            describe(case) if case != previous else "",
            entry["contender"],
            f"{median(rounds, 'seconds'):.2f}",
            f"{median(rounds, 'processor'):.2f}",
            *(_ratio(rounds, peers.get(base)) for base in bases),
            f"{median(rounds, 'megabytes'):,.0f}",
            f"{scores[0]:.4f}" if scores else "",
        ]
        table.append("| " + " | ".join(cells) + " |")
        previous = case
    return table


def describe(case: dict[str, Any]) -> str:
    """'20,000 x 512, 5 a class, trained'."""
    size = f"{case['rows']:,} x {case['dimensions']:,}"
    return f"{size}, {case['mates']} a class, {case['data']}"


def median(rounds: Rounds, field: str) -> float:
    """The median of one field."""
    return statistics.median(r[field] for r in rounds)


def _ratio(rounds: Rounds, base: Rounds | None) -> str:
    if base is None:
        return ""
    ratios = (a["processor"] / b["processor"] for a, b in zip(rounds, base, strict=True))
    return f"{statistics.median(ratios):.2f}"
