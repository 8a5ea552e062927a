"""The folder of a benchmark on a page: its tables, and its figures as text in the page itself."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from truerank.errors import InputError
from truerank.report.cells import column, metric_column, page_table

__all__ = ["benchmark_data", "is_benchmark"]

KINDS = {".svg": "svg+xml", ".png": "png"}
PARTS = {"concatenated": "Concatenated", "separated": "Separated"}


def is_benchmark(path: Path) -> bool:
    """Whether a path is the folder of a benchmark."""
    return path.is_dir() and (path / "config.yaml").is_file()


def benchmark_data(folder: Path) -> dict[str, Any]:
    """The tables of a finished benchmark, the sentences below them, and all its figures."""
    table = folder / "table.json"
    if not table.is_file():
        raise InputError(f"{folder} holds no table: the benchmark is not finished; --resume it.")
    content = json.loads(table.read_text(encoding="utf-8"))
    return {
        "name": folder.resolve().name,
        "tables": [*(_scores(content, part) for part in PARTS), _parameters(content)],
        "notes": _notes(folder / "table.md"),
        "figures": [_inlined(path) for path in _figures(folder / "figures")],
    }


def _scores(content: Mapping[str, Any], part: str) -> dict[str, Any]:
    """A row a method: the mean over reruns and half its interval, metric by metric, and ranks."""
    columns = [column("method")]
    for metric in content["metrics"]:
        mean = metric_column(metric)
        columns += [mean, {**mean, "name": "\N{PLUS-MINUS SIGN}", "hint": "half the 95 % interval"}]
    rows = []
    for row in content["rows"]:
        cells = [row["name"]]
        for metric in content["metrics"]:
            cells += _mean_and_half(row[part].get(metric))
        rows.append([*cells, _ranks(row, part)])
    columns.append(column(f"ranks by {content['metric']}", hint="those that the tests leave open"))
    return page_table(PARTS[part], columns, rows, file=f"benchmark {part}")


def _mean_and_half(score: Mapping[str, Any] | None) -> list[float | None]:
    if score is None:
        return [None, None]
    ends = score["interval"]
    return [score["mean"], None if ends is None else (ends[1] - ends[0]) / 2]


def _ranks(row: Mapping[str, Any], part: str) -> str:
    if "ranks" not in row:
        return ""
    first, last = row["ranks"][part]
    return str(first) if first == last else f"{first}-{last}"


def _parameters(content: Mapping[str, Any]) -> dict[str, Any]:
    """What the searches found, and what it gains over the default parameters."""
    metric = content["metric"]
    columns = [column("method"), column("parameters found"), column("notes")]
    for name in ("default", "searched"):
        columns.append({**metric_column(metric), "name": name, "hint": f"{metric}, separated"})
    rows = []
    for row in content["rows"]:
        if "parameters" not in row:
            continue
        found = ", ".join(f"{name} {_short(value)}" for name, value in row["parameters"].items())
        scores = (row["default"]["separated"].get(metric), row["separated"].get(metric))
        means = [None if score is None else score["mean"] for score in scores]
        rows.append([row["name"], found, "; ".join(row["notes"]), *means])
    return page_table("Parameters", columns, rows, file="benchmark parameters")


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _notes(path: Path) -> list[str]:
    """The sentences below the table that the benchmark wrote for people."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [line.removeprefix("- ") for line in lines if line.startswith("- ")]


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
