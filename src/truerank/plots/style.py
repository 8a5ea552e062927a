"""How figures look: colours that all eyes tell apart, and dashes that differ besides."""

from __future__ import annotations

from typing import Any

from truerank.errors import InputError
from truerank.extras import install
from truerank.typesetting import visible

__all__ = ["COLOURS", "DASHES", "SIZE", "check_matplotlib", "new_axes", "plain_text", "tidy"]

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9")
"""Okabe and Ito's, as in the page."""
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 2, 1, 2)), (0, (9, 3)))
SIZE = (4.6, 3.4)
"""Inches: a column of a paper."""


def check_matplotlib() -> None:
    """Refuse to begin where nothing could be drawn."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise InputError(f"a plot needs matplotlib: {install('plot')}.") from error


def new_axes(size: tuple[float, float] = SIZE) -> Any:
    """Axes of a new figure, which a notebook shows."""
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=size, layout="constrained")[1]


def tidy(axes: Any) -> None:
    """A light grid behind, and no frame above and to the right."""
    axes.grid(visible=True, color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def plain_text(text: Any) -> Any:
    """A text of matplotlib's that shows names as they are.

    Dollar signs begin no formula, and control letters, which no SVG may hold, are written out.
    """
    text.set_parse_math(False)
    text.set_text(visible(text.get_text()))
    return text
