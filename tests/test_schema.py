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
    assert Result.from_dict(changed("scores/map/value", None))["map"].value != 0  # not defined


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
