"""Every way to count, on data built to be ambiguous: the bits of the reference engine."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import truerank
from tests.conftest import Within
from tests.engine.ambiguous_rows import (
    KINDS,
    fingerprint,
    lattice_rows,
    near_tie_rows,
    random_rows,
    rows_with_zeros,
)
from tests.quiet import evaluate
from truerank._util.settings import METHODS, current_settings, limits, settings
from truerank.distance import cosine
from truerank.distance.catalogue import build
from truerank.engine import runner, schedule
from truerank.engine.schedule import method_of


@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("classes", [2, 40])
def test_every_method_gives_the_bits_of_the_reference(make: Any, classes: int) -> None:
    rng = np.random.default_rng(11)
    data, labels = make(rng, 150, 33), rng.integers(classes, size=150)
    expected = fingerprint(data, labels, device="reference")
    for method in METHODS:
        for sizes in ({"sort_share": 1.0}, {"gallery_rows": 32, "query_rows": 50}, {"side": 31}):
            with settings(method=method, **sizes):
                assert fingerprint(data, labels, device="cpu", threads=2) == expected, method


@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
def test_a_gallery_of_its_own(make: Any) -> None:
    rng = np.random.default_rng(12)
    data, labels = make(rng, 180, 20), rng.integers(30, size=180)
    sides = {"gallery": data[60:], "gallery_labels": labels[60:]}
    sides |= {"query_ids": np.arange(60), "gallery_ids": np.arange(30, 150)}
    sides |= {"query_groups": labels[:60] % 3, "gallery_groups": np.arange(120) % 3}
    expected = fingerprint(data[:60], labels[:60], device="reference", **sides)
    for method in METHODS:
        with settings(method=method, sort_share=1.0):
            assert fingerprint(data[:60], labels[:60], **sides) == expected


def test_junk_groups_and_singletons_with_each_pair_computed_once() -> None:
    rng = np.random.default_rng(13)
    data, labels = near_tie_rows(rng, 160, 12), rng.integers(60, size=160)
    labels[:20] = np.arange(1000, 1020)
    options = {"query_groups": rng.integers(3, size=160), "query_ids": np.arange(160) // 2}
    expected = fingerprint(data, labels, device="reference", **options)
    for junk in ((), (3,)):
        options["junk_labels"] = junk
        expected = fingerprint(data, labels, device="reference", **options)
        with settings(method="symmetric", side=25):
            assert fingerprint(data, labels, **options) == expected


def test_levels_of_a_tree_with_each_pair_computed_once() -> None:
    rng = np.random.default_rng(14)
    data, fine = lattice_rows(rng, 70, 9), rng.integers(40, size=70)
    labels = np.column_stack([fine // 10, fine // 3 + 100 * (fine // 10), fine])
    expected = truerank.evaluate(data, labels, device="reference").to_dict()["scores"]
    for sort_share in (0.1, 1.0):  # some rows sorted, or none
        with settings(method="symmetric", side=40, sort_share=sort_share):
            assert truerank.evaluate(data, labels).to_dict()["scores"] == expected


WATCHED = [
    "map",
    "auc",
    "eer",
    "min_dcf",
    "threshold@far=0.1",
    "dir@far=0.1",
    "opis@far=0.1:0.6",
    "opis@eps=0.3,far=0.1:0.6",
]


def thresholds(data: np.ndarray, labels: Any, **options: Any) -> str:
    """What observers count, to the last bit."""
    found = evaluate(data, labels, metrics=WATCHED, **options).to_dict()
    return json.dumps([found["scores"], found["provenance"]["consistency"]])


@pytest.mark.parametrize("form", ["exact", "two passes", "one pass"])
@pytest.mark.parametrize("distance", ["cosine", "euclidean", "dot", "hamming"])
@pytest.mark.parametrize("make", [lattice_rows, near_tie_rows, rows_with_zeros])
def test_watchers_see_each_pair_computed_once(
    make: Any, distance: str, form: str, within: Within
) -> None:
    rng = np.random.default_rng(15)
    data, labels = make(rng, 130, 14), rng.integers(30, size=130)
    if distance == "hamming":
        data = data > 0
    labels[:9] = np.arange(1000, 1009)
    if form != "exact":
        within(limits(breakpoints=0))
        within(settings(collected=0))
    if form == "one pass":
        within(limits(sampled_from=0, sampled_rows=40))
    options = {"query_groups": rng.integers(3, size=130), "query_ids": np.arange(130) // 2}
    for more in ({}, options, {"junk": rng.random((130, 130)) < 0.1}):
        more["distance"] = distance
        expected = thresholds(data, labels, device="reference", **more)
        for method in ("float64", "symmetric"):
            with settings(method=method, side=24, sort_share=1.0):
                assert thresholds(data, labels, threads=2, **more) == expected, method


def test_watched_tiles_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 9 x 9 tiles 45; where too many pairs never meet to hold them all, every one."""
    rng = np.random.default_rng(16)
    data, labels = random_rows(rng, 180, 6), rng.integers(30, size=180)
    seen: list[tuple[int, int]] = []
    block = cosine.Cosine.block

    def watched_block(self: Any, rows: np.ndarray) -> Any:
        tile = block(self, rows)
        return lambda *ends: seen.append(ends) or tile(*ends)

    monkeypatch.setattr(cosine.Cosine, "block", watched_block)
    side = int(20 / schedule.WIDER)
    sizes = {"side": side, "gallery_rows": 20, "query_rows": 20, "sort_share": 1.0}
    done: list[tuple[int, int]] = []
    for most, tiles in ((1 << 20, 45), (179, 81)):
        seen.clear()
        with settings(method="symmetric", symmetric_mates=most, **sizes):
            truerank.evaluate(
                data,
                labels,
                metrics=["map", "tar@tau=0.3"],
                confidence=None,
                progress=lambda *part: done.append(part),
            )
        assert len([ends for ends in seen if ends[1] - ends[0] == 20]) == tiles
        assert done[-1] == (180 * 180, 180 * 180)


def test_the_method_goes_by_cost() -> None:
    many = np.full(3000, 4)

    def chosen(space: Any, mates: np.ndarray) -> str:
        return method_of(space, mates, current_settings())

    data = random_rows(np.random.default_rng(0), 3000, 4)
    small, square = build("cosine", data[:100]), build("cosine", data)
    other = build("cosine", data[:2990], data)
    assert chosen(small, many[:100]) == "float64"
    assert chosen(square, many) == "symmetric"
    assert chosen(square, many[:1450]) == "filter"  # most rows have no mate: halving gains nothing
    assert chosen(other, many[:2990]) == "filter"
    assert chosen(build("euclidean", data), many) == "float64"
    now = current_settings()
    for space, wanted in ((square, "symmetric"), (other, "float64"), (small, "float64")):
        assert method_of(space, many[: space.queries], now, observed=True) == wanted
    assert method_of(build("euclidean", data), many, now, observed=True) == "symmetric"
    with settings(symmetric_mates=11_999):
        assert chosen(square, many) == "filter"
    with settings(method="float64"):
        assert chosen(square, many) == "float64"
    with settings(method="symmetric"):
        assert chosen(other, many[:2990]) == "filter"


def test_blocks_of_a_symmetric_pass_are_bounded() -> None:
    labels = np.concatenate([np.arange(100) % 50, np.full(50, 99)])
    data = random_rows(np.random.default_rng(4), 150, 8)
    view, space = truerank.Task(labels).view, build("cosine", data)
    with settings(method="symmetric", query_rows=40, mates=200, sort_share=1.0):
        blocks = list(runner.tie_groups(view, space))
    assert sorted(np.concatenate([block.rows for block in blocks]).tolist()) == list(range(150))
    for rows, groups in ((block.rows, block.groups) for block in blocks):
        assert len(rows) <= 40
        assert len(rows) == 1 or len(rows) * view.mates[rows].max() <= 200
        assert groups.mates.tolist() == view.mates[rows].tolist()
