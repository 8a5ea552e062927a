"""Which metrics have a law of gallery size, and how many of its others a query keeps."""

from __future__ import annotations

from fractions import Fraction

from truerank.core import registry
from truerank.core.law import Law
from truerank.core.metric import Metric, RankingDefinition

__all__ = ["drawn_of", "known_law", "law_of", "why_no_law"]


def law_of(metric: Metric) -> Law | None:
    """The law of a metric, None if it has none."""
    known = registry.definition(metric)
    if not isinstance(known, RankingDefinition) or known.law is None:
        return None
    return known.law(metric)


def why_no_law(metric: Metric) -> str:
    """Why a metric is not told for smaller galleries."""
    known = registry.definition(metric)
    if known.graded:
        return "grades leave open which items would stay in a smaller gallery"
    if isinstance(known, RankingDefinition):
        return "its mean over smaller galleries has no closed form here"
    if known.family == "clustering":
        return "clusters of a smaller gallery would be others"
    if known.family == "openset":
        return "any item may be the accepted one, and which are drawn beside mates is not followed"
    return "it counts pairs, of which a smaller gallery has as large a share, or it is an integral"


def drawn_of(others: int, size: int, gallery: int) -> int:
    """m = round(M n / N) others of a query, halves to even."""
    return round(Fraction(others * size, gallery))


def known_law(metric: Metric) -> Law:
    """The law of a metric that has one."""
    law = law_of(metric)
    if law is None:
        raise TypeError(f"{metric} has no law of gallery size")
    return law
