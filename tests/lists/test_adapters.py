"""faiss (flat, HNSW, IVF-PQ) and usearch: what they return goes in as it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import truerank

INDEXES = ("flat", "hnsw", "ivfpq", "usearch")
METRICS = ["map@r", "hit@1", "recall@20"]
Found = dict[str, npt.NDArray[np.float64]]


def _vectors() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(7)
    labels = np.repeat(np.arange(40), 20)
    rows = 1.2 * random.standard_normal((40, 16))[labels] + random.standard_normal((800, 16))
    return rows.astype(np.float32), labels, np.arange(0, 800, 4)


ROWS, LABELS, QUERIES = _vectors()
SIDES = {
    "labels": LABELS[QUERIES],
    "gallery_labels": LABELS,
    "query_ids": QUERIES,
    "gallery_ids": np.arange(800),
}
"""Every fourth row is a query, and finds itself among the others."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    folder = tmp_path_factory.mktemp("indexes")
    np.savez(folder / "vectors.npz", queries=ROWS[QUERIES], gallery=ROWS)
    script = Path(__file__).with_name("searching.py")
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    subprocess.run(
        [sys.executable, script, folder / "vectors.npz", folder / "found.npz"],
        env=os.environ | threads,
        check=True,
        timeout=120,
    )
    with np.load(folder / "found.npz") as arrays:
        return dict(arrays)


@pytest.mark.parametrize("index", INDEXES)
def test_lists_and_scores_go_in_as_they_are(index: str, found: Found) -> None:
    lists = found[f"{index}-lists"]
    result = truerank.evaluate_lists(
        lists, scores=found[f"{index}-scores"], metrics=METRICS, **SIDES
    )
    facts = result.provenance["lists"]
    assert (facts["repeated"], facts["unknown"]) == (0, 0)
    assert facts["taken_out"] >= 0.7 * len(QUERIES)  # most find themselves
    whole = truerank.evaluate(
        ROWS[QUERIES], gallery=ROWS, distance="euclidean", metrics=METRICS, **SIDES
    )
    assert result["map@r"].lower < whole["map@r"].value + 0.02  # few misses help by luck
    if index == "flat":
        assert result["map@r"].value == pytest.approx(whole["map@r"].value, abs=1e-3)


@pytest.mark.parametrize("index", INDEXES)
def test_the_loss_of_each(index: str, found: Found) -> None:
    stored = found[f"{index}-stored"]
    loss = truerank.index_loss(
        found[f"{index}-lists"],
        embeddings=ROWS[QUERIES],
        gallery=ROWS,
        stored=stored,
        distance="euclidean",
        metrics=METRICS,
        k=10,
        **SIDES,
    )
    one = loss["map@r"]
    parts = one.quantisation.value + one.cut.value + one.search.value
    assert parts == pytest.approx(one.full.value - one.returned.value, abs=1e-15)
    if index == "ivfpq":
        assert one.quantisation.value > 0.01
        assert one.quantisation.interval is not None
        assert loss.full_recall.value < loss.stored_recall.value < 1.0
    else:
        np.testing.assert_array_equal(stored, ROWS)
        assert one.quantisation.value == 0.0
    if index == "flat":
        assert abs(one.search.value) < 1e-3  # float32 distances may swap neighbours
        assert loss.full_recall.value > 0.999
    if index == "hnsw":
        assert one.search.value > 0.0
        assert loss.full_recall.value < 1.0
    assert one.cut.value == one.cut.upper == 0.0  # 29 places hold every rank up to R = 19
    assert loss["recall@20"].cut.value == 0.0
