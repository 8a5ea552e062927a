"""The folder of a benchmark on a page: its table, and its figures as text in the page itself."""

from __future__ import annotations

import base64
import csv
from pathlib import Path
from typing import Any

from truerank.errors import InputError
from truerank.report.cells import column, page_table

__all__ = ["benchmark_data", "is_benchmark"]

KINDS = {".svg": "svg+xml", ".png": "png"}


def is_benchmark(path: Path) -> bool:
    """Whether a path is the folder of a benchmark."""
    return path.is_dir() and (path / "config.yaml").is_file()


def benchmark_data(folder: Path) -> dict[str, Any]:
    """The table of a finished benchmark and all its figures."""
    table = folder / "table.csv"
    if not table.is_file():
        raise InputError(f"{folder} holds no table: the benchmark is not finished; --resume it.")
    with table.open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    return {
        "name": folder.resolve().name,
        "table": page_table("Benchmark", [column(name) for name in header], rows),
        "figures": [_inlined(path) for path in _figures(folder / "figures")],
    }


def _figures(folder: Path) -> list[Path]:
    """One file of each name, drawn in lines where there is a choice."""
    found: dict[str, Path] = {}
    for kind in KINDS:
        for path in sorted(folder.glob(f"*{kind}")):
            found.setdefault(path.stem, path)
    return [found[name] for name in sorted(found)]


def _inlined(path: Path) -> dict[str, str]:
    data = base64.b64encode(path.read_bytes()).decode()
    return {"name": path.stem, "image": f"data:image/{KINDS[path.suffix]};base64,{data}"}
