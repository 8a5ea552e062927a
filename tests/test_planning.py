"""Plans: the model against what was measured on one GPU, and what it says beyond that."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.driving import run
from tests.refusals import assert_refused
from truerank.planning import PATHS, plan, seconds_a_pair

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"


def measured() -> list[tuple[int, int, int, str, float]]:
    """(rows, dimensions, mates, path, seconds) of the table of one GPU."""
    found, size = [], (0, 0, 0)
    for line in PAGE.read_text(encoding="utf-8").partition("## On a GPU")[2].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != 6:
            continue
        head = re.fullmatch(r"([\d,]+) x (\d+)", cells[0])
        if head and cells[1].isdigit():
            size = (int(head[1].replace(",", "")), int(head[2]), int(cells[1]))
        kind = re.fullmatch(r"truerank, (filter|float64) path", cells[2])
        if kind:
            found.append((*size, kind[1], float(cells[3].lstrip("~").replace(",", "")) / 1000))
    return [one for one in found if one[0] >= 60_000]


def test_there_is_something_to_compare_with() -> None:
    assert len(measured()) >= 8
    assert {one[3] for one in measured()} == set(PATHS)


@pytest.mark.parametrize(("rows", "dimensions", "mates", "path", "seconds"), measured())
def test_counting_is_what_was_measured(
    rows: int, dimensions: int, mates: int, path: str, seconds: float
) -> None:
    told = rows * rows * seconds_a_pair(dimensions, mates, path)
    assert 0.7 < told / seconds < 1.3


def test_the_arithmetic_by_hand() -> None:
    """1e16 pairs x 5.4 ps over 64 GPUs; 2e8 rows; 1,526 tasks in 24 rounds of 204.8 GB."""
    found = plan(1e8, 1e8, 512, 64)
    assert found.product == pytest.approx(1e16 * 5.4e-12 / 64)
    assert found.host == pytest.approx(2e8 * (5.1e-6 + 512 * 3.8e-9))
    assert (found.tasks, found.machines) == (1526, 8)
    assert found.streamed == pytest.approx(24 * 1e8 * 512 * 4 / 7.9e9)
    assert found.held == 4 * 2e8 * 512
    assert found.sent == pytest.approx(found.held / 12.5e9)
    assert found.scheduling == pytest.approx(3.052)
    parts = found.product + found.streamed + found.host + found.read + found.sent
    assert found.seconds == pytest.approx(parts)


def test_both_sides_go_to_a_gpu_where_they_fit() -> None:
    """A million x a million rows in 16 tasks; each of 8 GPUs is sent 4.1 GB twice."""
    assert plan(1e6, 1e6, 512, 8).streamed == pytest.approx(2 * 2e6 * 512 * 4 / 7.9e9)
    assert plan(1e6, None, 512, 8).streamed == pytest.approx(2 * 1e6 * 512 * 4 / 7.9e9)
    assert plan(1e6, None, 512, 1).streamed == pytest.approx(1e6 * 512 * 4 / 7.9e9)


def test_shards_by_hand() -> None:
    """8 machines read 51.2 GB each and round it, and take in 7 / 8 of 409.6 GB."""
    found, arrays = plan(1e8, 1e8, 512, 64, sharded=True), plan(1e8, 1e8, 512, 64)
    assert found.read == pytest.approx(51.2e9 / 2e9)
    assert found.rounded == pytest.approx(2e8 * 512 * 3.8e-9 / 8)
    assert found.host == pytest.approx(2e8 * 5.1e-6)
    assert found.host + 8 * found.rounded == pytest.approx(arrays.host)
    assert found.sent == pytest.approx(409.6e9 * 7 / 8 / 12.5e9)
    assert found.held == arrays.held == pytest.approx(409.6e9)
    assert (found.product, found.streamed) == (arrays.product, arrays.streamed)
    parts = found.product + found.streamed + found.host
    parts += found.rounded + found.read + found.sent
    assert found.seconds == pytest.approx(parts)
    alone = plan(1e6, None, 512, 1, sharded=True)
    assert alone.sent == 0
    assert alone.seconds == pytest.approx(plan(1e6, None, 512, 1).seconds)


def test_leave_one_out_has_one_side_and_more_gpus_are_never_slower() -> None:
    assert plan(1e6, None, 512, 1).held == plan(1e6, 1e6, 512, 1).held / 2
    times = [plan(1e8, None, 512, gpus).seconds for gpus in (1, 8, 64, 512)]
    assert times == sorted(times, reverse=True)


def test_what_was_not_measured_says_so() -> None:
    near = {line.what: line.known for line in plan(1e6, None, 512, 1).lines()}
    far = {line.what: line.known for line in plan(1e8, None, 512, 8).lines()}
    assert "measured" in near["in all"]
    assert "extrapolated" in far["in all"]
    assert "extrapolated" in far["counting, filter path"]
    assert all("measured" not in far[name] for name in ("reading files", "sending rows"))


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"queries": 0}, "queries"),
        ({"queries": 1.5}, "queries"),
        ({"queries": float("nan")}, "queries"),
        ({"gallery": -1}, "gallery"),
        ({"dimensions": 0}, "dim"),
        ({"gpus": 0}, "gpus"),
        ({"gpus_per_machine": 0}, "gpus per machine"),
        ({"network": 0}, "network"),
        ({"disk": float("inf")}, "disk"),
        ({"queries": 1e300}, "queries"),
        ({"path": "fast"}, "path"),
    ],
)
def test_impossible_plans(change: dict[str, Any], name: str) -> None:
    given = {"queries": 1e6, "gallery": None, "dimensions": 8, "gpus": 1} | change
    assert_refused(lambda: plan(**given), [name])


def test_the_command_prints_it() -> None:
    asked = ("--queries", "1e8", "--gallery", "1e8", "--dim", 512, "--gpus", 64)
    done = run("plan", *asked)
    assert done.status == 0, done.err
    assert "1e+16" in done.out
    assert "extrapolated from 1,000,000 rows on one GPU" in done.out
    told = json.loads(run("plan", *asked, "--format", "json").out)
    assert told["seconds"] == plan(1e8, 1e8, 512, 64).seconds
    assert run("plan", "--queries", "0", "--dim", 8, "--gpus", 1).status == 2
