"""Figures by matplotlib, without a display: how they look, and how they are saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from truerank.errors import InputError
from truerank.files import atomic_path

__all__ = ["COLOURS", "INK", "KINDS", "QUIET", "new_figure", "panels", "save_figure"]

KINDS = ("svg", "png")
COLOURS = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6b7280", "#7c3aed",
    "#b91c1c", "#4d7c0f", "#0f766e", "#a16207",
)  # fmt: skip
INK, QUIET = "#1f2430", "#6b7280"
SALT = "truerank"
"""Of the ids inside an SVG: the same figure is the same file."""


def new_figure(width: float, height: float) -> Any:
    """An empty figure, of so many inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError(
            "figures need matplotlib: pip install matplotlib; what is done is kept, and --resume "
            "goes on, here or elsewhere."
        ) from error
    return Figure(figsize=(width, height), layout="constrained")


def panels(rows: int, columns: int, *, width: float = 3.2, height: float = 2.6) -> tuple[Any, Any]:
    """A figure with a grid of axes, (rows, columns)."""
    figure = new_figure(width * columns, height * rows)
    return figure, figure.subplots(rows, columns, squeeze=False)


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure as the kind that its name ends in; the folder is made."""
    import matplotlib

    kind = path.suffix.removeprefix(".")
    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}[kind]
    with matplotlib.rc_context({"svg.hashsalt": SALT}), atomic_path(path) as partial:
        figure.savefig(partial, format=kind, dpi=130, metadata=metadata)
