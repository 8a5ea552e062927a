"""bench.cluster_bits: what it compares on a GPU, on workers without one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from bench.cluster_bits import differing, spelled

pytest.importorskip("ray")


def test_one_bit_is_seen() -> None:
    def score(value: float) -> dict[str, object]:
        parts = (value, np.array([1.0, np.nan]))
        return {"score": spelled(parts), "curve": spelled({"x": np.arange(3)})}

    one, other = score(0.1), score(0.1)
    assert differing(one, other) == []
    assert differing(one, score(float(np.nextafter(0.1, 1)))) == ["score"]
    assert differing(one, {}) == ["curve", "score"]


@pytest.mark.slow
def test_workers_without_a_gpu_give_the_bits_of_one_process(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "bench.cluster_bits", "--cpu", "--no-benchmark"]
    command += ["--rows", "150", "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    lines = json.loads((tmp_path / "cluster_bits.json").read_text())["lines"]
    assert [line["different"] for line in lines] == [[]] * 10
