"""One cluster of separate processes on this machine, from its first worker to a killed node.

Every metric, interval and curve, and scores at gallery sizes, are compared, bit by bit, with the
run of a single process. It is one test because it is one cluster: starting it takes longer than
most of what is asked of it.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import truerank
from tests.refusals import refused
from tests.test_checkpoint import Stop, bits
from tests.test_invariance import fingerprints, moved, untouched_fingerprints
from tests.transformations import untouched
from truerank._util.cluster import Call, connect, fetch
from truerank._util.settings import settings

ray = pytest.importorskip("ray")

TILES = {"query_rows": 40, "gallery_rows": 30, "task_pairs": 40 * 60}
RNG = np.random.default_rng(3)
ROWS = RNG.integers(-3, 4, size=(300, 6)).astype(np.float32)
LABELS = np.arange(300) % 60
WIDE = RNG.normal(size=(300, 512)).astype(np.float32)
"""Rows of which a shard is too large to pass through the process that began the run."""


class Nodes:
    """A cluster that grows, shrinks and is damaged."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        self._small = {"num_cpus": 1, "object_store_memory": 200 << 20}
        self._cluster = Cluster(
            initialize_head=True, head_node_args={**self._small, "include_dashboard": False}
        )
        self._others: list[Any] = []
        self.address = self._cluster.address

    def add(self) -> None:
        self._others.append(self._cluster.add_node(**self._small))
        self._cluster.wait_for_nodes()

    def kill(self, *, gently: bool = False) -> None:
        self._cluster.remove_node(self._others.pop(), allow_graceful=gently)

    def end(self) -> None:
        ray.shutdown()
        self._cluster.shutdown()


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Nodes]:
    root = str(Path(__file__).parents[2])
    paths = [str(Path(truerank.__file__).parents[1]), root, os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = Nodes()
        try:
            ray.init(address=found.address, log_to_driver=False, logging_level="ERROR")
            yield found
        finally:
            found.end()


@pytest.mark.slow
def test_a_benchmark_has_the_table_of_one_machine(nodes: Nodes, tmp_path: Path) -> None:
    """Folds and reruns are tasks; it is stopped, and goes on with another worker."""
    from tests.benchmark.small import settings as benchmark_of
    from tests.benchmark.small import write_drawings
    from truerank import benchmark

    config = benchmark_of(write_drawings(tmp_path / "drawings.npz"))
    benchmark.run(config, tmp_path / "alone")
    began: list[int] = []

    class Stopping(benchmark.Display):
        """It is interrupted at its third look."""

        def show(self, plan: Any, running: Any) -> None:
            began.append(len(running))
            if len(began) == 3:
                raise KeyboardInterrupt

    there = tmp_path / "there"
    with pytest.raises(KeyboardInterrupt):
        benchmark.run(config, there, cluster="auto", display=Stopping(quiet=True))
    assert not (there / "table.json").exists()
    nodes.add()
    assert benchmark.run(config, there, cluster="auto", resume=True) is not None
    tables = [(tmp_path / name / "table.json").read_bytes() for name in ("alone", "there")]
    assert tables[0] == tables[1]


def spread(distance: str, setting: str, **tiles: Any) -> dict[str, list[str]]:
    """The fields of every metric and curve that a cluster gives otherwise than one process."""
    data = replace(untouched(distance, setting), options={"cluster": "auto"}, tiles=TILES | tiles)
    return moved(untouched_fingerprints(distance, setting), fingerprints(data), distance, "cluster")


def ranked(**options: Any) -> truerank.Result:
    return truerank.evaluate(ROWS, LABELS, metrics=["map@r", "mrr", "ndcg"], **options)


def sharded(manifest: Path, **options: Any) -> truerank.Result:
    return truerank.evaluate(manifest, LABELS, metrics=["map@r", "auc", "mrep"], **options)


def after(calls: int, act: Callable[[], None]) -> Callable[[int, int], None]:
    """A progress that acts once, when it is told for the so manyth time."""
    heard = []

    def progress(done: int, total: int) -> None:
        heard.append(done)
        if len(heard) == calls:
            act()

    return progress


def stop() -> None:
    raise Stop


def lose_once(held: list[Any], seen: Path) -> Any:
    """A task whose worker cannot get a value when it first asks for it."""
    if not seen.exists():
        seen.touch()
        with (
            patch("ray.get", side_effect=ray.exceptions.ObjectLostError("0" * 56, None, "")),
            patch("truerank._util.cluster.LOOK_SECONDS", 0.0),
        ):
            fetch(ray.put(1))
    return fetch(ray.put(2))


def test_a_cluster_gives_the_bits_of_one_process(nodes: Nodes, tmp_path: Path) -> None:
    alone = bits(ranked())
    alone_wide = bits(sharded(WIDE))  # type: ignore[arg-type]
    kept = tmp_path / "counts"
    folder = tmp_path / "shards"
    manifest = truerank.shard(WIDE, folder, rows=60, base=f"file://{folder}")
    whole = (folder / "rows-00003.npy").read_bytes()
    with settings(**TILES, checkpoint_worth=0.0):
        # One worker; the driver is stopped in the middle of a block, and of the pass.
        assert spread("cosine", "leave one out") == {}
        assert bits(ranked(cluster="auto")) == alone
        with pytest.raises(Stop):
            ranked(cluster="auto", checkpoint=kept, progress=after(7, stop))
        # Two workers go on from there.
        nodes.add()
        assert bits(ranked(cluster="auto", checkpoint=kept)) == alone
        assert not kept.exists()
        assert spread("euclidean", "query and gallery") == {}
        # Workers read shards; one of these is cut off, and mended.
        assert bits(sharded(manifest, cluster="auto")) == alone_wide
        for distance, metric in (("cityblock", "map@r"), ("cosine", "ami")):
            given: dict[str, Any] = {"distance": distance, "metrics": [metric]}
            there = truerank.evaluate(manifest, LABELS, cluster="auto", **given)
            assert bits(there) == bits(truerank.evaluate(WIDE, LABELS, **given))
        near = truerank.exact_neighbors(manifest, manifest, 5, cluster="auto")
        expected = truerank.exact_neighbors(WIDE, WIDE, 5)
        assert near.distance.tobytes() == expected.distance.tobytes()
        assert np.array_equal(near.item, expected.item)
        ranked_alone = {"metrics": ["map@r"], "cluster": "auto", "checkpoint": kept}
        with pytest.raises(Stop):
            truerank.evaluate(manifest, LABELS, progress=after(9, stop), **ranked_alone)
        (folder / "rows-00003.npy").write_bytes(whole[:-1] + b"\1")
        with refused("rows-00003.npy does not hold what it held"):
            truerank.evaluate(manifest, LABELS, **ranked_alone)
        assert kept.exists()
        (folder / "rows-00003.npy").write_bytes(whole)
        # Three go on; one leaves, one comes.
        nodes.add()
        mended = truerank.evaluate(manifest, LABELS, **ranked_alone)
        assert bits(mended) == bits(truerank.evaluate(WIDE, LABELS, metrics=["map@r"]))
        assert not kept.exists()
        assert spread("cosine", "tree", sort_share=0.02) == {}
        with settings(method="filter"):
            assert bits(ranked(cluster=nodes.address)) == alone
        with connect("auto") as cluster:
            lost = Call("lost", f"{__name__}:lose_once", given=(tmp_path / "seen",))
            assert dict(cluster.gather([lost])) == {"lost": 2}
        nodes.kill(gently=True)
        nodes.add()
        # One is killed while it is at work.
        killed = ranked(cluster="auto", progress=after(5, nodes.kill))
        assert bits(killed) == alone
        # And another, with shards that it holds.
        assert bits(sharded(manifest, cluster="auto", progress=after(5, nodes.kill))) == alone_wide
