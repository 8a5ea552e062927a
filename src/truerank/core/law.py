"""How a ranking metric is made of its mates' ranks: what the law of gallery size needs to know.

A metric has a law if it is a sum over mates of something that depends on the mate's number among
them and on the others before it, divided by what the gallery does not change.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Law"]


@dataclass(frozen=True)
class Law:
    """What each mate contributes, which mates do, and what the sum is divided by."""

    term: str
    """precision: of the items up to the mate, if it is within the cut; found: whether it is;
    before: the others before it, up to R."""
    mates: str = "all"
    """all, first or last."""
    divisor: str = "r"
    """r, cut, smaller (of R and the cut) or one; preference: 1 - sum / (R min(R, others))."""
    up_to_r: bool = False
    """Whether it looks at the first R items, whatever its cut."""
