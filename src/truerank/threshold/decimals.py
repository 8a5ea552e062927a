"""Thresholds as decimal text, rounded so that they accept what was to be accepted."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction

import numpy as np

from truerank.core import registry
from truerank.space import Space, catalogue

__all__ = ["as_decimal", "on_axis"]


def as_decimal(space: Space, threshold: float) -> str:
    """A threshold as decimal text that accepts it: up to the next 10^-18, or 27th digit."""
    if space.unit_rounds:
        threshold = float(np.nextafter(threshold, np.inf))
    exact = Decimal(threshold)
    step = Decimal(1).scaleb(-min(18, 26 - exact.adjusted()))
    similar = catalogue.find(space.facts.distance).larger_is_nearer
    outward = ROUND_FLOOR if similar else ROUND_CEILING
    text = f"{exact.quantize(step, outward):f}"
    return registry.parse(f"far@tau={text}").text("tau")


def on_axis(space: Space, scale: float, tau: str) -> str:
    """A threshold on the axis of GOM, as decimal text."""
    exact = Fraction(space.raw(Fraction(tau))) * Fraction(scale)
    step = Decimal(1).scaleb(-18)
    text = (Decimal(exact.numerator) / Decimal(exact.denominator)).quantize(step, ROUND_CEILING)
    return registry.parse(f"mvp@tau={min(text, Decimal(1)):f}").text("tau")
