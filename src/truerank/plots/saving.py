"""Figures as files: the same bytes from the same numbers, and never half a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from truerank.files import atomic_path

__all__ = ["save_figure"]

NO_DATE: dict[str, dict[str, None]] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}


def save_figure(figure: Any, path: Path, **options: Any) -> None:
    """Write a figure, in the format of the file's ending, in one step."""
    from matplotlib import rc_context

    kind = path.suffix.lower().removeprefix(".")
    # ids of an SVG's parts are random unless they are salted
    with rc_context({"svg.hashsalt": "truerank"}), atomic_path(path) as partial:
        figure.savefig(partial, format=kind, dpi=200, metadata=NO_DATE.get(kind), **options)
