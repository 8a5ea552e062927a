"""Sweeps against evaluations of copies made here, and what is called not worse."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import numpy as np
import pytest

import truerank
from tests.engine.cuda.devices import needs_gpu
from truerank.analysis.compression import CompressionSweep, Copy, Kept
from truerank.analysis.differences import Difference

LABELS = np.repeat(np.arange(30), 4)
RNG = np.random.default_rng(3)
WEIGHT = np.r_[np.ones(8), np.full(8, 0.01)]
ROWS = (
    WEIGHT * (RNG.standard_normal((30, 16))[LABELS] + 0.5 * RNG.standard_normal((120, 16)))
).astype(np.float32)
FAST: dict[str, Any] = {"threads": 1, "device": "cpu"}


@pytest.fixture(scope="module")
def found() -> CompressionSweep:
    return truerank.compression_sweep(
        ROWS, LABELS, dims=[8], margin=0.02, metrics=["map@r", "hit@1"], **FAST
    )


def copy_of(found: CompressionSweep, dims: int, dtype: str) -> Kept:
    [one] = [one for one in found.copies if (one.copy.dims, one.copy.dtype) == (dims, dtype)]
    return one


def evaluated(rows: Any, distance: str = "cosine") -> truerank.Result:
    return truerank.evaluate(rows, LABELS, metrics=["map@r", "hit@1"], distance=distance, **FAST)


def test_prefixes_and_signs_score_as_evaluated_alone(found: CompressionSweep) -> None:
    whole = evaluated(ROWS)
    assert found.original.scores == {name: score.value for name, score in whole.items()}
    for one, result in (
        (copy_of(found, 8, "float32"), evaluated(ROWS[:, :8])),
        (copy_of(found, 16, "binary"), evaluated(ROWS > 0, "hamming")),
        (copy_of(found, 8, "binary"), evaluated(ROWS[:, :8] > 0, "hamming")),
    ):
        compared = truerank.compare(result, whole, metrics=["map@r", "hit@1"])
        for row in compared.differences:
            assert one.scores[row.metric] == result[row.metric].value
            mine = one.differences[row.metric]
            assert (mine.value, mine.interval) == (row.value, row.interval)


def test_a_copy_is_not_worse_if_every_lower_end_is_above_the_margin(
    found: CompressionSweep,
) -> None:
    for one in found.copies:
        lows = [row.interval[0] for row in one.differences.values() if row.interval is not None]
        assert one.not_worse == all(low > -0.02 for low in lows)
    assert {one.not_worse for one in found.copies} == {True, False}


def test_the_smallest_copy(found: CompressionSweep) -> None:
    fit = [one.copy.bytes for one in found.copies if one.not_worse]
    assert found.smallest.copy.bytes == min(fit)
    assert found.smallest.copy.dims == 8
    none = truerank.compression_sweep(ROWS, LABELS, dims=[2], dtypes=[], margin=0, **FAST)
    assert none.smallest is none.original
    assert "No smaller copy" in str(none)


def difference(metric: str, low: float, high: float) -> Difference:
    return Difference(metric, "a", "b", (low + high) / 2, (low, high), 0.5, 0.5)


@pytest.mark.parametrize(
    ("metric", "ends", "verdict"),
    [
        ("map@r", (-0.009, 0.0), True),
        ("map@r", (-0.01, 0.5), False),  # at the margin is not above it
        ("mfr", (-0.5, 0.009), True),  # of errors, fewer are better
        ("mfr", (-0.5, 0.011), False),
    ],
)
def test_the_margin_and_the_direction(
    metric: str, ends: tuple[float, float], verdict: bool
) -> None:
    class Compared:
        differences = (difference(metric, *ends),)

    kept = Kept.of(Copy(1, "int8", 1), {}, Compared(), 0.01)  # type: ignore[arg-type]
    assert kept.not_worse is verdict


def test_without_intervals_nothing_is_called_not_worse() -> None:
    few = truerank.compression_sweep(ROWS[:20], LABELS[:20], dtypes="float16", **FAST)
    assert [one.not_worse for one in few.copies] == [None]
    assert few.smallest is few.original
    assert "No interval:" in str(few)


def test_a_gallery_of_its_own_ids_and_groups() -> None:
    gallery, labels = ROWS[60:], LABELS[60:]
    queries = ROWS[60:] + np.float32(1e-3)
    found = truerank.compression_sweep(
        queries,
        labels,
        gallery=gallery,
        gallery_labels=labels,
        query_ids=np.arange(60),
        gallery_ids=np.arange(60),
        dtypes="binary",
        **FAST,
    )
    signs = truerank.evaluate(
        queries > 0,
        labels,
        gallery=gallery > 0,
        gallery_labels=labels,
        query_ids=np.arange(60),
        gallery_ids=np.arange(60),
        distance="hamming",
        metrics="map@r",
        **FAST,
    )
    assert copy_of(found, 16, "binary").scores["map@r"] == signs["map@r"].value


def test_codes_that_queries_and_gallery_share_are_no_mistake() -> None:
    """Each query's signs are those of a gallery item: of embeddings that would be refused."""
    gallery = np.abs(ROWS[:60, :2])
    found = truerank.compression_sweep(
        gallery + np.float32(0.5),
        LABELS[:60],
        gallery=gallery,
        gallery_labels=LABELS[:60],
        dtypes="binary",
        **FAST,
    )
    assert found.copies[0].scores["map@r"] == 0, "all tied"


def test_large_sets_are_paired_query_by_query() -> None:
    """Intervals of many classes look at a sample of the queries: the same one in every copy."""
    labels = np.repeat(np.arange(1100), 3)
    rows = RNG.standard_normal((1100, 8))[labels] + RNG.standard_normal((3300, 8))
    found = truerank.compression_sweep(rows.astype(np.float32), labels, dtypes="float16", **FAST)
    low, high = found.copies[0].differences["map@r"].interval or (-1, 1)
    assert -0.002 < low <= high < 0.002
    assert found.smallest is not found.original


@needs_gpu
def test_a_gpu_finds_the_same() -> None:
    options: dict[str, Any] = {"dims": [8], "margin": 0.02, "metrics": ["map@r", "hit@1"]}
    on_cpu = truerank.compression_sweep(ROWS, LABELS, device="cpu", **options)
    assert (
        truerank.compression_sweep(ROWS, LABELS, device="cuda", **options).to_json()
        == on_cpu.to_json()
    )


def test_every_form_says_the_same(found: CompressionSweep) -> None:
    data = json.loads(found.to_json())
    lines = list(csv.DictReader(io.StringIO(found.to_csv())))
    frame = found.to_frame()
    assert len(data["copies"]) == len(lines) == len(frame) == 2 * (len(found.copies) + 1)
    for record, line in zip(data["copies"], lines, strict=True):
        assert float(line["value"]) == record["value"]
        assert int(line["bytes"]) == record["bytes"]
    assert [one["dtype"] for one in data["copies"] if one["smallest"]] == [
        found.smallest.copy.dtype
    ] * 2
    assert data["smallest"]["bytes"] == found.smallest.copy.bytes
    assert str(found.smallest.copy) in found.to_markdown()
    assert r"\begin{tabular}" in found.to_latex()
    assert "<table" in found._repr_html_()


def test_progress_goes_through_all_copies() -> None:
    told: list[float] = []
    truerank.compression_sweep(
        ROWS, LABELS, dtypes=["int8"], progress=lambda d, n: told.append(d / n), **FAST
    )
    assert told == sorted(told)
    assert 0 < told[0] <= 0.5
    assert told[-1] == 1.0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"distance": "hamming"}, "leaves nothing to compress"),
        ({"distance": "precomputed"}, "leaves nothing to compress"),
        ({"margin": -0.1}, "must be a number from 0 to 1"),
        ({"margin": "wide"}, "must be a number from 0 to 1"),
        ({"confidence": None}, "must be a number"),
        ({"metrics": "map@q"}, "must be an int"),
    ],
)
def test_bad_input(options: dict[str, Any], sentence: str) -> None:
    rows = ROWS[:, :1] > 0 if options.get("distance") == "hamming" else ROWS
    if options.get("distance") == "precomputed":
        rows = np.abs(ROWS @ ROWS.T)
    with pytest.raises(truerank.InputError, match=sentence):
        truerank.compression_sweep(rows, LABELS, **options)


def test_a_metric_without_a_value_is_refused() -> None:
    with pytest.raises(truerank.InputError, match="undefined here"):
        truerank.compression_sweep(ROWS, np.arange(120), **FAST)
