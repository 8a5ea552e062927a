"""Shards that a cluster holds, on the GPUs of its workers: had piece by piece, copied nowhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import truerank
from tests.engine.cuda.devices import mixed_rows, pretend, tied_rows
from tests.in_process_cluster import in_process
from tests.test_checkpoint import bits
from truerank._util.settings import settings
from truerank.engine.cuda import rows, transfer

pytest.importorskip("ray")
pytestmark = [
    pytest.mark.filterwarnings("ignore:float64 input"),
    pytest.mark.filterwarnings("ignore:pairs that belong together"),
]
RNG = np.random.default_rng(6)
LABELS = np.arange(120) % 24
KINDS = {"tied": tied_rows(RNG, 120, 6), "mixed": mixed_rows(RNG, 120, 6)}
METRICS = ["map@r", "auc"]
TILES = {"query_rows": 2, "gallery_rows": 1, "task_pairs": 40 * 40}


@pytest.fixture(params=["rows stay on the device", "rows are sent in tiles"])
def gpus(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers with a GPU each, that has room for all rows or for none."""
    pretend(monkeypatch)
    monkeypatch.setattr(transfer, "_NUMBERS", 150)
    if request.param == "rows are sent in tiles":
        monkeypatch.setattr(rows, "free_bytes", lambda device: 100)


@pytest.mark.usefixtures("gpus")
@pytest.mark.parametrize(
    ("distance", "kind"),
    [("cosine", "tied"), ("cosine", "mixed"), ("euclidean", "mixed"), ("cityblock", "tied")],
)
def test_the_bits_are_those_of_arrays(distance: str, kind: str, tmp_path: Path) -> None:
    rows = KINDS[kind]
    options: dict[str, Any] = {"metrics": METRICS, "distance": distance}
    manifest = truerank.shard(rows, tmp_path, rows=33)
    with settings(**TILES):
        alone = bits(truerank.evaluate(rows, LABELS, device="cpu", **options))
        with in_process() as ray, patch("truerank.io.shards.Shards._part", side_effect=OSError):
            ray.cluster_resources = lambda: {"CPU": 3.0, "GPU": 2.0}  # type: ignore[method-assign]
            there = bits(truerank.evaluate(manifest, LABELS, cluster="auto", **options))
    assert there.replace('"device": "cuda"', '"device": "cpu"') == alone
    assert '"device": "cuda"' in there


@pytest.mark.usefixtures("gpus")
@pytest.mark.parametrize("distance", ["cosine", "dot", "cityblock"])
def test_neighbours_are_those_of_arrays(distance: str, tmp_path: Path) -> None:
    rows = KINDS["tied"]
    manifest = truerank.shard(rows, tmp_path, rows=33)
    expected = truerank.exact_neighbors(rows[:50], rows, 9, distance=distance, device="cpu")
    with in_process() as ray:
        ray.cluster_resources = lambda: {"CPU": 3.0, "GPU": 2.0}  # type: ignore[method-assign]
        found = truerank.exact_neighbors(rows[:50], manifest, 9, distance=distance, cluster="auto")
    assert found.distance.tobytes() == expected.distance.tobytes()
    np.testing.assert_array_equal(found.item, expected.item)
    np.testing.assert_array_equal(found.tied, expected.tied)
