"""Workers of a cluster stand in for processes: the same outcomes, warnings and sentences."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.benchmark.small import settings, write_drawings
from tests.in_process_cluster import in_process
from truerank import benchmark
from truerank._util.cluster import Cluster
from truerank._util.errors import InputError, warn
from truerank.benchmark.config import BenchmarkConfig
from truerank.benchmark.layout import Layout, note_environment
from truerank.benchmark.workers import ClusterWorkers, Half, Stopped

pytest.importorskip("ray")
HALF = Half(np.arange(3), [1, 2])  # type: ignore[arg-type]


@dataclass(frozen=True)
class Ask:
    """A task that does as it is told."""

    what: str

    def run(self, half: Half) -> Any:
        if self.what == "warn":
            warn("this is rather slow")
        elif self.what == "refuse":
            raise InputError("this loss cannot be trained.")
        elif self.what == "stop":
            raise KeyboardInterrupt
        half.data[0] += 1  # a copy of this worker's own, which stays for its next task
        return half.data.tolist()


def test_outcomes_come_with_their_keys() -> None:
    with in_process(workers=2) as ray, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with ClusterWorkers(HALF, Cluster(ray, gpu=False)) as workers:
            assert (workers.free, workers.running) == (2, [])
            for key in ("a", "b"):
                workers.submit(key, Ask("warn"))
            assert (workers.free, workers.running) == (0, ["a", "b"])
            found = dict(workers.next() + workers.next())
            assert sorted(found) == ["a", "b"]
            assert sorted(found.values()) == [[1, 1, 2], [2, 1, 2]]
            workers.submit("c", Ask("stop"))
            ((key, outcome),) = workers.next(timeout=1.0)
            assert key == "c"
            assert isinstance(outcome, Stopped)
            workers.submit("d", Ask("refuse"))
            with pytest.raises(InputError, match="this loss cannot be trained"):
                workers.next()
            workers.submit("e", Ask("warn"))  # it is waited for
    assert [str(one.message) for one in told] == ["this is rather slow"]


def test_a_share_of_a_gpu_makes_room_for_several() -> None:
    with in_process() as ray:
        ray.cluster_resources = lambda: {"CPU": 4, "GPU": 2}  # type: ignore[method-assign]
        assert Cluster(ray, gpu=None, share=0.25).slots == 8
        assert Cluster(ray, gpu=None).slots == 2
        assert Cluster(ray, gpu=False, share=0.25).slots == 4


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"cluster": "auto", "jobs": 2}, "jobs are for one machine"),
        ({"gpu_share": 0}, "'gpu_share' parameter"),
        ({"gpu_share": 1.5}, "'gpu_share' parameter"),
        ({"cluster": "nonsense"}, "'cluster' parameter"),
    ],
)
def test_what_does_not_go_together(options: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    config = settings(write_drawings(tmp_path / "drawings.npz"))
    with pytest.raises(InputError, match=sentence):
        benchmark.run(config, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_workers_tell_their_environment(tmp_path: Path) -> None:
    """The machine that begins a run may be another kind of machine."""
    config = BenchmarkConfig.of(settings(write_drawings(tmp_path / "drawings.npz")))
    layout = Layout(tmp_path / "out")
    layout.folder.mkdir()
    with in_process(workers=1) as ray, ClusterWorkers(HALF, Cluster(ray, gpu=False)) as crew:
        for _ in range(2):
            note_environment(layout, config, crew, HALF)
        assert ray.calls == ["truerank.benchmark.workers:work"] * 2
    (facts,) = json.loads(layout.environment.read_text())
    assert facts["device"] == "cpu"
    assert "threads" not in facts
