"""A gallery that does not fit a device stays there in half precision: rows in doubt are sent."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import truerank
from tests.engine.cuda.devices import clustered, needs_gpu, pretend
from tests.test_checkpoint import bits
from truerank._util.settings import settings
from truerank.engine.cuda import filtered_count, front, rows, torch_kernels, transfer
from truerank.io.sharding import shard

COUNT, DIMENSION, QUERIES = 1200, 16, 60
LABELS = np.random.default_rng(2).integers(COUNT // 5, size=COUNT)
ROWS = clustered(np.random.default_rng(3), LABELS, DIMENSION)
SMALL = np.random.default_rng(4).integers(-3, 4, size=(COUNT, DIMENSION)).astype(np.float32)
METRICS = ["map", "map@r", "precision@1", "ndcg"]


@pytest.fixture
def small_device(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A device that has room for the gallery in half precision and not as integers; which also
    counts the numbers that are sent as integer rows."""
    pretend(monkeypatch)
    given = {"devices": ["cpu"], "kernels": torch_kernels, "filters": torch_kernels}
    monkeypatch.setattr(front, "Engine", partial(front.Engine.func, **given))  # type: ignore[attr-defined]
    monkeypatch.setattr("truerank.distance.rows.round_units", lambda side: None)
    monkeypatch.setattr(rows, "free_bytes", lambda device: 4 * COUNT * DIMENSION)
    monkeypatch.setattr(front, "STRIP", 256)
    monkeypatch.setattr(filtered_count, "PRODUCTS", 1024)
    monkeypatch.setattr(rows, "_NUMBERS", 256 * DIMENSION)
    sent: list[int] = []
    send = transfer.sent

    def listen(array: Any, device: Any) -> Any:
        if array.ndim == 2:
            sent.append(array.size)
        return send(array, device)

    monkeypatch.setattr(rows, "sent", listen)
    return sent


def evaluated(gallery: Any, rows: np.ndarray, device: str) -> Any:
    with settings(method="filter", query_rows=2):
        found = bits(
            truerank.evaluate(
                rows[:QUERIES],
                LABELS[:QUERIES],
                gallery=gallery,
                gallery_labels=LABELS,
                query_ids=np.arange(QUERIES),
                gallery_ids=np.arange(COUNT),
                metrics=METRICS,
                device=device,
            )
        )
    return found.replace('"device": "cuda"', '"device": "cpu"')


def test_a_mapped_gallery_is_sent_once(small_device: list[int], tmp_path: Path) -> None:
    """Eight parts of the queries, and the gallery crosses over once, with a few rows in doubt."""
    np.save(tmp_path / "gallery.npy", ROWS)
    mapped = np.load(tmp_path / "gallery.npy", mmap_mode="r")
    found = evaluated(mapped, ROWS, "cuda")
    gallery = COUNT * DIMENSION
    assert gallery < sum(small_device) < 5 * gallery
    assert found == evaluated(ROWS, ROWS, "cpu")


@pytest.mark.usefixtures("small_device")
@pytest.mark.parametrize("name", ["ROWS", "SMALL"])
def test_shards_on_a_small_device(name: str, tmp_path: Path) -> None:
    rows = globals()[name]
    manifest = shard(rows, tmp_path, rows=500)
    assert evaluated(manifest, rows, "cuda") == evaluated(rows, rows, "cpu")


@needs_gpu
def test_on_a_gpu_that_is_full(monkeypatch: pytest.MonkeyPatch, triton_kernels: Any) -> None:
    monkeypatch.setattr("truerank.distance.rows.round_units", lambda side: None)
    monkeypatch.setattr(rows, "free_bytes", lambda device: 4 * COUNT * DIMENSION)
    assert evaluated(ROWS, ROWS, "cuda") == evaluated(ROWS, ROWS, "cpu")
