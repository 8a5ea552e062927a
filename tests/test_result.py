"""Score and Result: JSON, parts, and a mapping of scores."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from tests.results import FREE, GROUPS, LABELS, RESULTS, SCHEMA, TIED, evaluate, undefined
from truerank import InputError, Result, Score
from truerank.core.average import class_mean, mean
from truerank.core.registry import DEFAULT
from truerank.core.score import PerQuery


@pytest.fixture(params=RESULTS, scope="module")
def result(request: pytest.FixtureRequest) -> Result:
    return RESULTS[request.param]()


def bits(value: Any) -> Any:
    """A value in which every float is replaced by its bits, so that NaN equals NaN."""
    if isinstance(value, (float, np.floating)):
        return "nan" if math.isnan(value) else struct.pack(">d", value)
    if isinstance(value, np.ndarray):
        return [bits(item) for item in value.tolist()]
    if isinstance(value, (list, tuple)):
        return [bits(item) for item in value]
    if isinstance(value, Mapping):
        return {name: bits(item) for name, item in value.items()}
    if isinstance(value, (Score, PerQuery)):
        return {name: bits(item) for name, item in vars(value).items()}
    return value


# --- JSON -----------------------------------------------------------------------------------------


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    version = SCHEMA["properties"]["schema_version"]["const"]
    assert evaluate().to_dict()["schema_version"] == version


@pytest.mark.parametrize("per_query", [True, False])
def test_json_fits_the_schema(result: Result, per_query: bool) -> None:
    text = result.to_json(per_query=per_query)
    data = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    jsonschema.Draft202012Validator(SCHEMA).validate(data)
    assert ("per_query" in text) == (per_query and len(result) > 0)
    for score in data["scores"].values():
        assert (score["value"] is None) == (score["reason"] is not None)


def test_json_comes_back_bit_for_bit(result: Result, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    text = result.to_json(path)
    assert path.read_text(encoding="utf-8") == text
    again = Result.from_json(path)
    assert bits(dict(again)) == bits(dict(result))
    assert again.skipped == result.skipped
    assert again.provenance == result.provenance
    assert again.to_json() == text
    assert str(again) == str(result)
    again = Result.from_dict(json.loads(result.to_json(per_query=False)))
    assert all(score.per_query is None for score in again.values())
    assert again.to_json() == result.to_json(per_query=False)


def test_what_is_not_defined_is_null_with_a_reason() -> None:
    score = undefined()["map"]
    assert math.isnan(score.value)
    assert (score.n, score.chance) == (0, None)
    data = undefined().to_dict()["scores"]["map"]
    for name in ("value", "lower", "expected", "upper", "chance", "interval"):
        assert data[name] is None
    assert "no query has a relevant item" in data["reason"]
    assert data["per_query"] == {"value": [None] * 8}


def test_default_metrics_that_are_not_defined_are_skipped() -> None:
    result = RESULTS["skipped"]()
    assert list(result) == []
    assert "no query has a relevant item" in result.skipped["map@r"]
    skipped = "Recall@10 (hit@10), R-Precision, MAP@R, mAP, MRR, mINP: not defined"
    assert skipped in " ".join(result.notes)
    assert undefined().skipped == {}


def test_per_query_values_that_agree_are_written_once() -> None:
    tied, free = evaluate().to_dict()["scores"], evaluate(FREE).to_dict()["scores"]
    assert list(tied["map"]["per_query"]) == ["lower", "expected", "upper"]
    assert list(free["map"]["per_query"]) == ["value"]
    assert free["map"]["per_query"]["value"][7] is None
    assert len(free["map"]["per_query"]["value"]) == 8


def test_a_result_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text("old")
    evaluate().to_json(path)
    assert [file.name for file in tmp_path.iterdir()] == ["result.json"]
    with pytest.raises(InputError, match="cannot write"):
        evaluate().to_json(tmp_path / "no such folder" / "result.json")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, ["cannot read", "result.json"]),
        ("", ["empty"]),
        ("not json", ["not a JSON file"]),
        ("{", ["not a JSON file"]),
        ("[1, 2]", ["not a truerank result"]),
        ("null", ["not a truerank result"]),
        ("{}", ["not a truerank result", "format"]),
        ('{"format": "truerank-result", "schema_version": 99}', ["version 99", "version 1"]),
        ('{"format": "truerank-result", "schema_version": 1}', ["scores"]),
        (
            '{"format": "truerank-result", "schema_version": 1, "scores": {"map": {}}, '
            '"skipped": {}, "provenance": {}}',
            ["map"],
        ),
    ],
)
def test_files_that_hold_no_result(content: str | None, words: list[str], tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InputError) as caught:
        Result.from_json(path)
    message = str(caught.value)
    assert "\n" not in message
    assert [word for word in words if word not in message] == [], message


# --- parts ----------------------------------------------------------------------------------------


def test_parts_by_label() -> None:
    result = evaluate(metrics=list(DEFAULT))
    parts = result.by("label")
    assert list(parts) == ["a", "alone", "b", "c"]
    for label, part in parts.items():
        chosen = np.array(LABELS) == label
        for name, score in part.items():
            rows = result[name].per_query
            assert score.n == (0 if label == "alone" else chosen.sum())
            if label != "alone":
                assert score.lower == score.value == mean(rows.lower[chosen])
                assert score.expected == mean(rows.expected[chosen])
                assert score.upper == mean(rows.upper[chosen])
    assert math.isnan(parts["alone"]["map"].value)
    assert "no query of this part has a relevant item" in parts["alone"]["map"].reason
    assert "no query of this part" in str(parts["alone"])
    parts = evaluate(metrics=["far@tau=1"]).by("label")
    assert parts["alone"]["far@tau=1"].n == 1
    assert parts["a"]["far@tau=1"].reason == "every query of this part has a relevant item"


def test_parts_by_group_and_by_array() -> None:
    result = evaluate(query_groups=GROUPS)
    by_group, by_array = result.by("group"), result.by(GROUPS)
    assert list(by_group) == list(by_array) == [1, 2]
    for group in (1, 2):
        assert bits(dict(by_group[group])) == bits(dict(by_array[group]))
    assert list(result.by(np.array(["x"] * 4 + ["y"] * 4))) == ["x", "y"]
    halves = result.by(np.arange(8) < 4)
    assert halves[1]["map"].n + halves[0]["map"].n == result["map"].n


def test_parts_of_a_class_mean_are_class_means() -> None:
    result = evaluate(average="class")
    codes = np.unique(LABELS, return_inverse=True)[1]
    part = result.by(np.arange(8) < 4)[1]["hit@5"]
    values = result["hit@5"].per_query.lower
    assert part.value == class_mean(values[:4], codes[:4])
    assert evaluate(average="class").by("label")["b"]["map"].value == mean(
        result["map"].per_query.lower[2:5]
    )


def test_parts_by_a_path_of_labels() -> None:
    labels = [("x", "a"), ("x", "a"), ("x", "b"), ("x", "b"), ("y", "c"), ("y", "c")]
    assert list(evaluate(TIED[:6], labels).by("label")) == ["a", "b", "c"]


def test_a_part_tells_its_own_number_of_queries() -> None:
    assert "8 queries" not in str(evaluate().by("label")["a"])


def test_a_part_can_be_written_too(tmp_path: Path) -> None:
    for part in evaluate(query_groups=GROUPS).by("group").values():
        data = json.loads(part.to_json(tmp_path / "part.json"))
        jsonschema.Draft202012Validator(SCHEMA).validate(data)
        assert bits(dict(Result.from_json(tmp_path / "part.json"))) == bits(dict(part))


@pytest.mark.parametrize(
    ("result", "attribute", "words"),
    [
        (evaluate, "camera", ["no attribute 'camera'", "known are label", "one value for each"]),
        (evaluate, "group", ["no attribute 'group'", "label"]),
        (RESULTS["matrix"], "label", ["no attribute 'label'", "none"]),
        (
            lambda: Result.from_dict(evaluate().to_dict(per_query=False)),
            "label",
            ["no attribute 'label'", "none"],
        ),
        (evaluate, [1, 2], ["8 queries", "Got 2"]),
        (evaluate, np.zeros((8, 2)), ["attribute", "(8, 2)"]),
        (evaluate, [1, "x"] * 4, ["attribute", "int", "str"]),
    ],
)
def test_parts_that_cannot_be(result: Any, attribute: Any, words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        result().by(attribute)
    message = str(caught.value)
    assert [word for word in words if word not in message] == [], message


# --- a mapping of scores --------------------------------------------------------------------------


def test_a_result_is_a_mapping() -> None:
    result = evaluate(metrics=None)
    assert isinstance(result, Mapping)
    assert list(result) == [
        "precision@1", "hit@5", "hit@10", "r_precision", "map@r", "map", "mrr", "minp",
    ]  # fmt: skip
    assert len(result) == 8
    assert dict(result).keys() == result.keys()
    assert result.get("hit@7") is None
    assert all(result[name] is score for name, score in result.items())


def test_any_spelling_finds_a_score() -> None:
    result = evaluate()
    for alias, name in (
        ("cmc@5", "hit@5"),
        ("rank-10", "hit@10"),
        ("P@1", "precision@1"),
        ("mean_average_precision_at_r", "map@r"),
        ("AP", "map"),
        ("precision@R", "r_precision"),
    ):
        assert result[alias] is result[name]
        assert alias in result
    asked = evaluate(metrics=["cmc@3", "mean_average_precision"])
    assert list(asked) == ["hit@3", "map"]


def test_what_is_not_in_a_result() -> None:
    result = evaluate()
    with pytest.raises(KeyError, match=r"'hit@7' was not computed; there are precision@1, "):
        result["hit@7"]
    with pytest.raises(InputError, match=r"did you mean"):
        result["hitt@5"]
    for key in ("hit@7", "nonsense", "hit@0", 5, None, ""):
        assert key not in result


def test_results_can_be_compared() -> None:
    assert evaluate() == evaluate()
    assert evaluate() != evaluate(FREE)
    assert evaluate()["map"] == evaluate()["map"]
    assert evaluate()["map"] != evaluate(FREE)["map"]


def test_a_score_is_a_number() -> None:
    score = evaluate()["map"]
    assert float(score) == score.value == score.lower
    assert score.lower < score.expected < score.upper
    assert score.tied
    assert not evaluate(FREE)["map"].tied
    assert not undefined()["map"].tied
    assert f"value={score.value}" in repr(score)
    assert "array" not in repr(score)


def test_per_query_values_are_in_input_order() -> None:
    order = np.array([5, 0, 7, 2, 6, 1, 4, 3])
    shuffled = evaluate(TIED[order], [LABELS[i] for i in order])
    for name, score in evaluate().items():
        for end in ("lower", "expected", "upper"):
            values = getattr(score.per_query, end)
            np.testing.assert_array_equal(getattr(shuffled[name].per_query, end), values[order])
        left_out = list(range(7)) if name == "mfr" else [7]
        assert np.flatnonzero(np.isnan(score.per_query.lower)).tolist() == left_out
