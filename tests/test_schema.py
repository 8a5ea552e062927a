"""Results from files: what is refused when they are read, in one sentence that names the place."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import truerank
from tests.refusals import assert_refused
from truerank import Result

RNG = np.random.default_rng(0)
LABELS = [f"{name}/{number}" for name in "abcdef" for number in range(2) for _ in range(3)]
RESULT = truerank.evaluate(
    RNG.standard_normal((36, 4)),
    {"family": [name[0] for name in LABELS], "class": LABELS},
    metrics=["map", "h_ap", "eer", "threshold@far=0.1", "opis"],
)
DATA = json.loads(json.dumps(RESULT.to_dict()))


def changed(path: str, value: Any) -> dict[str, Any]:
    data = copy.deepcopy(DATA)
    place: Any = data
    *folders, last = [int(key) if key.isdigit() else key for key in path.split("/")]
    for key in folders:
        place = place[key]
    place[last] = value
    return data


def test_a_whole_result_is_read() -> None:
    assert Result.from_dict(DATA) == RESULT
    undefined = changed("scores/map/value", None)
    undefined["scores"]["map"]["reason"] = "no query has a relevant item"
    assert np.isnan(Result.from_dict(undefined)["map"].value)


@pytest.mark.parametrize("value", [5.0, -3, 1e308, True, "", "0.9", [1], {}])
@pytest.mark.parametrize("field", ["value", "lower", "expected", "upper"])
def test_a_score_is_a_number_in_its_metrics_range(field: str, value: Any) -> None:
    words = ["damaged at scores.map." + field, "expected", repr(value)]
    assert_refused(lambda: Result.from_dict(changed(f"scores/map/{field}", value)), words)


def test_a_threshold_may_be_any_number() -> None:
    data = changed("scores/threshold@far=0.1/value", 7.5)
    assert Result.from_dict(data)["threshold@far=0.1"].value == 7.5


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("provenance/hierarchy", 3),
        ("provenance/severity", "none"),
        ("provenance/severity/by_level", []),
        ("provenance/queries", 0),
        ("provenance/intervals/confidence", 2),
        ("provenance/intervals", {}),
        ("provenance/hierarchy", {}),
        ("provenance/severity", {}),
        ("provenance/ties", {}),
        ("provenance/distance", {}),
        ("provenance/distance/rounded_alike", "0.9"),
        ("provenance/consistency", {}),
        ("provenance/consistency/low", "0.9"),
        ("provenance/consistency/classes", None),
        ("provenance/consistency/worst", "0.9"),
        ("provenance/consistency/worst/0", {}),
        ("provenance/consistency/best/0/label", 3),
        ("scores/map/interval_reason", ["why"]),
        ("scores/map/interval", [0.1]),
        ("scores/map/interval", [0.1, 1.5]),
        ("scores/map/interval", [0.1, "0.2"]),
        ("scores/map/replicates/values", "0.1"),
        ("scores/map/replicates/values/3", "0.1"),
        ("scores/map/replicates/noise", -1.0),
        ("scores/map/n", 1.5),
        ("scores/map/reason", 1),
        ("scores/map/chance", float("inf")),
        ("scores/map/per_query/value/2", "0.5"),
        ("scores/map/per_query/value/2", True),
        ("scores/map", None),
        ("scores", []),
        ("skipped", {"auc": 1}),
        ("units", [0.5]),
        ("details", 1),
    ],
)
def test_every_type_is_checked(path: str, value: Any) -> None:
    where = path.replace("/", ".")
    assert_refused(
        lambda: Result.from_dict(changed(path, value)), ["damaged at", *where.split(".")[:2]]
    )


def deleted(path: str) -> dict[str, Any]:
    *above, last = path.split("/")
    data = changed(path, None)
    place: Any = data
    for key in above:
        place = place[int(key) if key.isdigit() else key]
    del place[int(last) if last.isdigit() else last]
    return data


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("units/3", ["damaged at", "36 values, one for each query"]),
        ("scores/map/per_query/value/3", ["scores.map.per_query.value", "36 values"]),
        ("scores/h_ap/per_query/value/0", ["scores.h_ap.per_query.value", "36 values"]),
        ("attributes/label/codes/0", ["attributes.label.codes", "36 values"]),
        ("attributes/label/values/0", ["attributes.label.codes", "numbers below 11"]),
        *(
            (f"provenance/{name}", ["damaged at provenance", f"an object with '{name}'"])
            for name in ("distance", "average", "leave_one_out", "gallery", "excluded", "no_mate")
        ),
        ("provenance/distance/distance", ["provenance.distance", "an object with 'distance'"]),
    ],
)
def test_what_lacks_a_value_is_refused(path: str, words: list[str]) -> None:
    assert_refused(lambda: Result.from_dict(deleted(path)), words)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("scores/map/replicates/values/0", 1e308, ["near the metric's range, 0 to 1"]),
        ("scores/threshold@far=0.1/replicates/values/0", -1e308, ["near the metric's range"]),
        ("scores/threshold@far=0.1/value", 10**400, ["scores.threshold@far=0.1.value"]),
        ("scores/map/replicates/values", [], ["at least 2 numbers"]),
        ("scores/map/replicates/shares", [0.5], ["numbers, as there are values"]),
        ("scores/opis/value", None, ["a number, or a reason why there is none"]),
        ("attributes/label/codes/0", 99, ["numbers below 12, the number of its values"]),
        ("attributes/label/values/0", ["a"], ["attributes.label.values.0"]),
        ("provenance/average", "mean", ["provenance.average", "query or class"]),
        ("provenance/seconds", 10**400, ["provenance.seconds"]),
    ],
)
def test_what_other_values_contradict_is_refused(path: str, value: Any, words: list[str]) -> None:
    assert_refused(lambda: Result.from_dict(changed(path, value)), ["damaged at", *words])


def test_trials_and_folds() -> None:
    names = [f"{name}-{number}" for number, name in enumerate(LABELS)]
    pairs = [(a, b, a[0] == b[0]) for a, b in zip(names, names[2:] + names[:2], strict=True)]
    rows = RNG.standard_normal((36, 4))
    result = truerank.verify(rows, pairs, ids=names, metrics="auc", folds=[0, 1, 2] * 12)
    data = json.loads(result.to_json())
    for name, inner, value in (
        ("folds", "per_fold", [0.5]),
        ("folds", "per_fold", [0.5, -1e308]),
        ("folds", "accuracy", [0.5]),
        ("digests", "people", [1]),
        ("folds", None, None),
        ("distance", None, None),
    ):
        facts = dict(data["provenance"])
        if inner is not None:
            facts[name] = {**facts[name], inner: value}
        else:
            del facts[name]
        assert_refused(lambda: Result.from_dict({**data, "provenance": facts}), ["provenance"])  # noqa: B023


def test_replicates_without_their_shares_are_not_paired() -> None:
    names = [f"{name}-{number}" for number, name in enumerate("abcdefghijkl" * 6)]
    pairs = [(a, b, a[0] == b[0]) for a in names[:36] for b in names[36::5]]
    whole = truerank.verify(RNG.standard_normal((72, 4)), pairs, ids=names, metrics="auc")
    data = json.loads(whole.to_json())
    del data["scores"]["auc"]["replicates"]["shares"]
    for models in ((whole, Result.from_dict(data)), (Result.from_dict(data), whole)):
        assert "different sampling units" in truerank.compare(*models).differences[0].reason


def test_results_of_huge_distances_have_no_test() -> None:
    """Distances of 1e160 are allowed in a matrix; their squares overflow."""
    labels = np.repeat(np.arange(20), 3)
    results = [
        truerank.evaluate(
            1e160 * np.random.default_rng(seed).random((60, 60)),
            labels,
            distance="precomputed",
            metrics=["threshold@far=0.1"],
        )
        for seed in range(2)
    ]
    (row,) = truerank.compare(*(Result.from_dict(one.to_dict()) for one in results)).differences
    assert row.p is None
    assert "variances overflow" in row.reason


def test_units_that_differ_have_no_test() -> None:
    """A file in which one query was given another class than in the result beside it."""
    rows = np.random.default_rng(0).standard_normal((2, 70, 4))
    labels = np.arange(70) // 2
    sides = {"gallery": rows[0], "gallery_labels": labels, "metrics": ["map"]}
    whole = truerank.evaluate(rows[1], labels, **sides)
    for number in (0, 10**15):
        data = json.loads(whole.to_json())
        data["units"][2:4] = [number] * 2
        compared = truerank.compare(whole, Result.from_dict(data))
        assert (compared.differences[0].p is None) == (number == 0)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_of_a_file_are_finite(number: str, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    text = json.dumps(changed("details", {"version": 1, "ties": {"x": "HERE"}}))
    path.write_text(text.replace('"HERE"', number))
    assert_refused(lambda: Result.from_json(path), ["result.json", number, "no finite number"])


def test_what_is_refused_is_shortened() -> None:
    data = changed("scores/map/value", "9" * 10_000)
    with pytest.raises(truerank.InputError) as refusal:
        Result.from_dict(data)
    assert len(str(refusal.value)) < 300
