"""What was measured on a GPU: written as it comes, as JSON; and the tables of it, in Markdown.

A run that is stopped loses nothing; scripts/document_performance.py puts the JSON into the docs.
"""

from __future__ import annotations

import json
import platform
import statistics
import time
from collections.abc import Callable
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench import machine

__all__ = ["RANKING", "Case", "Record", "describe_machine", "lines", "threshold_lines"]

BASE = "float64 GEMM"
RANKING = ("ranking", "ranking, float64 path")
"""What metrics over thresholds are compared with."""
HEAD = "| rows x dimensions | relevant | | ms | x float64 GEMM | peak GPU GB |"


class Record:
    """All measurements of one run, for which so many seconds are allowed."""

    def __init__(
        self, out: Path | None, device: str, seconds: float, *, go_on: bool = False
    ) -> None:
        """With `go_on`, what `out` has of the same machine is kept, until it is measured again."""
        self.device, self._out = device, out
        self._end = time.monotonic() + seconds
        self._held: dict[str, Any] = {
            "date": date.today().isoformat(),
            "machine": describe_machine(device),
            "measured": [],
            "left_out": [],
        }
        if go_on and out is not None and (out / "gpu.json").exists():
            kept = json.loads((out / "gpu.json").read_text(encoding="utf-8"))
            if kept["machine"] == self._held["machine"]:
                self._held = kept | {"date": self._held["date"]}
        print(self._held["machine"], HEAD, "|---|---:|---|---:|---:|---:|", sep="\n", flush=True)

    @property
    def measured(self) -> list[dict[str, Any]]:
        """Every measurement so far."""
        found: list[dict[str, Any]] = self._held["measured"]
        return found

    def fits(self, seconds: float, what: str) -> bool:
        """Whether so many seconds are left; what has no room is noted."""
        left = self._end - time.monotonic()
        if seconds <= left:
            return True
        self._held["left_out"].append(what)
        print(f"| {what}: left out, {left:.0f} s are left | | | | | |", flush=True)
        self._write()
        return False

    def add(self, entry: dict[str, Any]) -> None:
        """Take in a measurement, show it and write everything."""
        known = [(one["case"], one["name"]) for one in self.measured]
        if (entry["case"], entry["name"]) in known:
            self.measured[known.index((entry["case"], entry["name"]))] = entry
        else:
            self.measured.append(entry)
        print(lines({"measured": [entry]})[-1], flush=True)
        self._write()

    def put(self, name: str, value: Any) -> None:
        """Take in something of another form."""
        self._held[name] = value
        print(threshold_lines(value) if name == "thresholds" else f"{name}: {value}", flush=True)
        self._write()

    def _write(self) -> None:
        if self._out is None:
            return
        self._out.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self._held, indent=1) + "\n"
        (self._out / "gpu.json").write_text(text, encoding="utf-8")


class Case:
    """Measures work on one data set, beside the bare product of it."""

    def __init__(self, record: Record, rows: int, dimensions: int, mates: int, data: str) -> None:
        self._record = record
        self._case = {"rows": rows, "dimensions": dimensions, "mates": mates, "data": data}

    def __call__(
        self,
        name: str,
        work: Callable[[], Any],
        *,
        repeat: int = 5,
        scale: float = 1.0,
        expected: float = 1.0,
        warm: bool = True,
    ) -> None:
        """The median time of some calls, after one that compiles and allocates unless not `warm`.

        It is multiplied by `scale` where work is a part of the whole. Nothing is measured if less
        than the `expected` seconds are left.
        """
        rows, mates = self._case["rows"], self._case["mates"]
        if not self._record.fits(expected, f"{name}, {rows:,} rows, {mates} mates"):
            return
        _forget(self._record.device)
        seconds = []
        for turn in range(repeat + warm):
            _wait(self._record.device)
            start = time.perf_counter()
            work()
            _wait(self._record.device)
            if turn >= warm:
                seconds.append(scale * (time.perf_counter() - start))
        entry = {"case": self._case, "name": name, "seconds": seconds, "scaled": scale > 1}
        self._record.add(entry | {"gigabytes": _peak(self._record.device)})


def lines(record: dict[str, Any]) -> list[str]:
    """The Markdown table of a record: medians, each beside the product of the same data."""
    table = [HEAD, "|---|---:|---|---:|---:|---:|"]
    before = None
    for entry in record["measured"]:
        case = entry["case"]
        bases = [e for e in record["measured"] if e["case"] == case and e["name"] == BASE]
        median = statistics.median(entry["seconds"])
        ratio = f"{median / statistics.median(bases[0]['seconds']):.2f}" if bases else ""
        size = f"{case['rows']:,} x {case['dimensions']:,}"
        if case["data"] != "trained":
            size += f", {case['data']}"
        head = f"{size} | {case['mates']}" if case != before else " | "
        about = "~" if entry["scaled"] else ""
        table.append(
            f"| {head} | {entry['name']} | {about}{1000 * median:,.1f} | {ratio} | "
            f"{entry['gigabytes']:.1f} |"
        )
        before = case
    return table


def threshold_lines(found: dict[str, Any]) -> str:
    """The Markdown table of metrics over thresholds: medians, and medians of the ratios in each
    turn to the ranking and to its float64 path."""
    head = "ms | x ranking | x its float64 path"
    size = f"{found['rows']:,} x {found['dimensions']:,}"
    table = [f"| evaluate {size} | {head} | with intervals, {head} |", "|---|" + "---:|" * 6]
    for name, ways in found["seconds"].items():
        cells = []
        for way, mine in ways.items():
            cells.append(f"{1000 * statistics.median(mine):,.0f}")
            for base in RANKING:
                pairs = zip(mine, found["seconds"][base][way], strict=True)
                cells.append(f"{statistics.median(one / other for one, other in pairs):.2f}")
        table.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(table)


def describe_machine(device: str) -> str:
    """In words that stay meaningful elsewhere."""
    import torch

    name = torch.cuda.get_device_name(0) if device == "cuda" else "no GPU"
    triton = "" if find_spec("triton") is None else f", Triton {_version('triton')}"
    numba = "numba" if find_spec("numba") is not None else "no numba"
    return (
        f"{name}, {machine.cores()} CPU cores, Python {platform.python_version()}, "
        f"torch {torch.__version__}{triton}, {numba}"
    )


def _version(name: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return "?"


def _wait(device: str) -> None:
    import torch

    if device == "cuda":
        torch.cuda.synchronize()


def _forget(device: str) -> None:
    import torch

    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def _peak(device: str) -> float:
    import torch

    return torch.cuda.max_memory_allocated() / 1e9 if device == "cuda" else 0.0
