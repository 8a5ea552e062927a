"""Results of today are those that were stored, metric by metric: scores and intervals; curves.

A difference is a changed result. If it is meant to change, `python -m tests.stored.record METRIC`
stores it anew, in a commit that names the metric and the reason.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.stored.digest import digest
from tests.stored.entries import entries, split
from tests.stored.evaluations import EVALUATIONS, MORE_METRICS, evaluation, run
from tests.stored.others import BANDED, OTHERS
from tests.stored.reasons import key_of
from tests.stored.record import ALL, computed, stored
from truerank.core import metric as definitions
from truerank.core import registry

STORED = stored()


@pytest.mark.parametrize("name", ALL)
def test_the_result_is_the_stored_one(name: str) -> None:
    now = computed(name)
    changed = sorted(
        entry for entry in now.keys() | STORED[name] if now.get(entry) != STORED[name].get(entry)
    )
    assert not changed


def test_nothing_is_stored_in_vain() -> None:
    assert STORED.keys() == ALL.keys()
    assert len(STORED) >= 200


def test_every_metric_is_stored_with_a_value_and_an_interval() -> None:
    """Somewhere in the catalogue, but for what has no interval at all."""
    valued, spread = set(), set()
    some = ("many classes: cosine", "strangers: cosine", "tree: cosine", "gallery: cosine")
    some += ("trials in folds: cosine",)
    for name in (*some, *(f"strangers: {family} metrics" for family in MORE_METRICS)):
        scores, intervals = run(EVALUATIONS[name])
        names = [key for key in intervals if key != "provenance"]
        valued |= {registry.parse(key).name for key in names if scores[key]["reason"] is None}
        spread |= {registry.parse(key).name for key in names if intervals[key]["interval"]}
    assert valued == set(definitions.names())
    assert set(definitions.names()) - spread <= {"tau_max", "tau_nz"}


def test_every_curve_is_stored_with_its_bands() -> None:
    """But for those over the size of a gallery, and of GOM on a scale that follows extremes."""
    known = {name for name in BANDED if "minmax" not in name}
    banded = set()
    for shape in ("strangers", "a large tree"):
        _, intervals = run(OTHERS[f"bands: {shape}"])
        for name, held in intervals.items():
            edges = [held[band].values() for band in ("pointwise", "simultaneous")]
            if all(both and all(np.isfinite(one).any() for one in both) for both in edges):
                banded.add(name.removeprefix("curve "))
    assert banded == known


def test_a_changed_band_or_list_changes_its_entries_alone() -> None:
    bands = run(OTHERS["bands: a large tree"])
    lists = run(OTHERS["lists: gallery"])
    before = entries(bands), entries(lists)
    edge = bands[1]["curve severity"]["simultaneous"]["high"]
    edge[0] = np.nextafter(edge[0], 1)
    lists[0]["map"]["settles at"] += 1
    for found, was, name in zip((bands, lists), before, ("curve severity", "map"), strict=True):
        now = entries(found)
        assert {entry for entry in was if now[entry] != was[entry]} == {name}


def test_one_changed_bit_changes_the_digest() -> None:
    metrics = ["map@r", "auc", "mrep"]
    scores, intervals = run(lambda: evaluation("strangers", "cosine", {"metrics": metrics}))
    before = digest((scores, intervals))
    bands, replicates = intervals["auc"], intervals["auc"]["replicates"]
    arrays = [scores["map@r"]["per_query"].upper, scores["curve roc"]["tar"]]
    for array in arrays:
        kept = array[1]
        array[1] = np.nextafter(kept, np.inf)
        assert digest((scores, intervals)) != before
        array[1] = kept
    for held, name, other in (
        (scores["mrep"], "chance", 0.0),
        (scores["auc"], "value", np.nextafter(scores["auc"]["value"], 1)),
        (bands, "interval", (bands["interval"][0], np.nextafter(bands["interval"][1], 1))),
        (bands, "replicates", replace(replicates, noise=np.nextafter(replicates.noise, 1))),
        (bands, "replicates", replace(replicates, values=replicates.values[::-1])),
    ):
        kept, held[name] = held[name], other
        assert digest((scores, intervals)) != before
        held[name] = kept
    assert digest((scores, intervals)) == before


def test_a_change_of_one_metric_changes_its_entries_alone() -> None:
    metrics = ["map@r", "auc", "mrep"]
    found = run(lambda: evaluation("strangers", "cosine", {"metrics": metrics}))
    before = entries(found)
    found[0]["auc"]["value"] = np.nextafter(found[0]["auc"]["value"], 1)
    found[1]["mrep"]["interval"] = (0.0, 1.0)
    after = entries(found)
    changed = {entry for entry in before if before[entry] != after[entry]}
    assert changed == {"auc", "mrep"}
    assert before["auc"].split()[1] == after["auc"].split()[1]
    assert before["mrep"].split()[0] == after["mrep"].split()[0]


def test_reasons_are_stored_by_key() -> None:
    few, many = "9 classes with a query that counts; an interval needs at least 10", "self"
    scores = {"auc": {"value": 0.5, "reason": None}, "skipped": {"opis": "each row itself"}}
    assert split(scores)["opis"] == {"skipped": many}
    assert split({"auc": {"interval_reason": few}})["auc"] == {"interval_reason": "few-classes"}
    with pytest.raises(ValueError, match="no pattern"):
        key_of("a sentence that nobody wrote a line for")


def test_kinds_are_told_apart() -> None:
    alike = [None, "None", 1, 1.0, True, "1", [1], [[1]], {"a": 1}, ["a", 1], np.array([1]), ""]
    assert len({digest(value) for value in alike}) == len(alike)
    assert digest(float("nan")) == digest(-float("nan"))
    with pytest.raises(TypeError, match="no digest of set"):
        digest({1})


def test_device_and_time_are_no_part_of_a_result() -> None:
    options = {"metrics": ["map@r", "mrep"]}
    there, here = (
        run(lambda device=device: evaluation("strangers", "cosine", {**options, "device": device}))
        for device in ("reference", "cpu")
    )
    assert digest(there) == digest(here)
