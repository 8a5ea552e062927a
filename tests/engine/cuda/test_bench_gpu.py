"""python -m bench --gpu in a small form: the tables that a GPU fills, on torch's CPU device."""

from __future__ import annotations

import json
from pathlib import Path
from threading import get_ident
from typing import Any

import numpy as np
import pytest
from bench import gpu, gpu_profile, gpu_timeline
from bench.gpu_record import RANKING, Case, Record, lines
from scripts.document_performance import gpu_table

from tests.engine.cuda.devices import pretend
from truerank.engine.cuda.worker import Worker
from truerank.evaluation import passes


@pytest.fixture(autouse=True)
def device(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch)


PAGE = """before
<!-- gpu: begin -->
old
<!-- gpu: end -->
between
<!-- gpu thresholds: begin -->
old
<!-- gpu thresholds: end -->
after"""


@pytest.mark.slow
def test_all_figures_are_written_and_go_into_the_docs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "TURNS", 1)
    monkeypatch.setattr(gpu, "NODES", (2, 8))
    gpu.run(tmp_path, device="cpu", rows=(200, 300), dimensions=8, tree=96)
    record = json.loads((tmp_path / "gpu.json").read_text())
    assert record["left_out"] == []
    names = {entry["name"] for entry in record["measured"]}
    for given in ("tensors", "arrays"):
        assert {f"truerank, evaluate {given}", f"truerank, evaluate {given}, intervals"} <= names
    sizes = {(e["case"]["rows"], e["case"]["mates"]) for e in record["measured"]}
    assert sizes == {(200, 4), (200, 49), (300, 4), (300, 49), (96, 32), (3000, 4)}
    assert record["checked, 3,000 rows"] == 1000
    seconds = record["thresholds"]["seconds"]
    assert list(seconds) == [*RANKING, *gpu.THRESHOLDS]
    assert all(len(spent) == 1 for ways in seconds.values() for spent in ways.values())
    page = gpu_table(PAGE, record)
    assert page.startswith("before\n<!-- gpu: begin -->\nMeasured on")
    between = "|\n<!-- gpu: end -->\nbetween\n<!-- gpu thresholds: begin -->\n"
    assert f"{between}| evaluate 200 x 8 |" in page
    assert page.endswith("|\n<!-- gpu thresholds: end -->\nafter")
    assert page.count("\n| ") == len(record["measured"]) + 1 + len(seconds) + 1
    assert "\nold\n" not in page


def test_parts_are_measured_one_after_the_other(tmp_path: Path) -> None:
    small = {"device": "cpu", "rows": (120, 150), "dimensions": 4}

    def measured(part: str) -> list[dict[str, Any]]:
        gpu.run(tmp_path, parts=[part], **small)
        record = json.loads((tmp_path / "gpu.json").read_text())
        assert "thresholds" not in record
        return list(record["measured"])

    calls = measured("calls")
    assert {entry["case"]["rows"] for entry in calls} == {120, 150}
    both = measured("ten")
    assert both[: len(calls)] == calls
    assert {entry["case"]["rows"] for entry in both[len(calls) :]} == {1500}
    again = measured("ten")
    assert [entry["name"] for entry in again] == [entry["name"] for entry in both]
    assert again[-1]["seconds"] != both[-1]["seconds"]


def test_what_has_no_time_is_named_and_nothing_is_lost(tmp_path: Path) -> None:
    record = Record(tmp_path, "cpu", 10.0)
    case = Case(record, 5, 2, 1, "trained")
    calls: list[str] = []
    case("float64 GEMM", lambda: calls.append("base"), repeat=3)
    case("half of it", lambda: calls.append("half"), repeat=2, warm=False, scale=2.0)
    case("too long", lambda: calls.append("long"), expected=11.0)
    assert calls == ["base"] * 4 + ["half"] * 2
    kept = json.loads((tmp_path / "gpu.json").read_text())
    assert kept["left_out"] == ["too long, 5 rows, 1 mates"]
    assert [entry["name"] for entry in kept["measured"]] == ["float64 GEMM", "half of it"]
    assert np.array([entry["seconds"] for entry in kept["measured"][:1]]).shape == (1, 3)
    assert "| half of it | ~" in lines(kept)[-1]


def test_the_profile_tells_every_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_profile, "TURNS", 1)
    told = gpu_profile.run(120, tmp_path, device="cpu", dimensions=8)
    assert (tmp_path / "profile.txt").read_text() == told
    for name in ("tensors, no intervals", "arrays, with intervals"):
        assert f"120 x 8, {name}: " in told
    assert told.count("threads=1: ") == told.count("query_rows=") // 3 == 2


def test_the_timeline_tells_when_steps_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_timeline, "TURNS", 1)
    told = gpu_timeline.run(120, tmp_path, device="cpu", dimensions=8)
    assert (tmp_path / "timeline.txt").read_text() == told
    assert told.count("  Worker.count") == 8
    assert told.count("  JackknifePlan.finish") == 4
    lines = told[told.index("tensors, no intervals, threads=None") :].splitlines()[2:]
    steps = lines[: lines.index("")]
    begin = [float(line.split()[0]) for line in steps]
    assert begin == sorted(begin)
    assert steps[0].endswith("prepare")
    assert not hasattr(Worker.count, "__wrapped__")


def test_the_profile_sees_what_threads_do() -> None:
    pool, here = passes.ThreadPoolExecutor, get_ident()
    with gpu_profile.in_one_thread(), passes.ThreadPoolExecutor(3) as threads:
        assert list(threads.map(lambda number: (number, get_ident()), range(3))) == [
            (number, here) for number in range(3)
        ]
        assert threads.submit(divmod, 7, 2).result() == (3, 1)
        with pytest.raises(ZeroDivisionError):
            threads.submit(divmod, 7, 0).result()
    assert passes.ThreadPoolExecutor is pool
