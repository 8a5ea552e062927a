"""Score and Result: tables, JSON and frames; and what importing the package costs and offers."""

from __future__ import annotations

import ast
import csv
import importlib
import io
import json
import math
import os
import struct
import subprocess
import sys
import warnings
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import truerank
from tests.modules import module_names
from truerank import InputError, Result, Score, tables
from truerank.core import registry
from truerank.core.average import class_mean, mean
from truerank.core.registry import DEFAULT
from truerank.core.score import PerQuery

PACKAGE = Path(truerank.__file__).parent
SCHEMA = json.loads((PACKAGE / "result.schema.json").read_text(encoding="utf-8"))

TIED = np.array([[1.0, 0], [1, 0], [1, 0], [0, 1], [0.25, 1], [3, 1], [1, 3], [-1, 0]])
FREE = np.random.default_rng(1).standard_normal((8, 3)).astype(np.float32)
LABELS = ["a", "a", "b", "b", "b", "c", "c", "alone"]
GROUPS = [1, 2, 1, 2, 2, 1, 1, 2]


def evaluate(rows: Any = TIED, labels: Any = LABELS, **options: Any) -> Result:
    options = {"metrics": registry.DEFAULT} | options
    return truerank.evaluate(rows, labels, **options)


def undefined() -> Result:
    return evaluate(labels=list("abcdefgh"), metrics=["map", "hit@1"])


RESULTS = {
    "tied": evaluate,
    "without ties": lambda: evaluate(FREE),
    "all metrics": lambda: evaluate(metrics="all"),
    "undefined": undefined,
    "skipped": lambda: evaluate(labels=list("abcdefgh"), metrics=None),
    "zero": lambda: evaluate(no_mate="zero"),
    "groups": lambda: evaluate(query_groups=GROUPS, average="class"),
    "gallery": lambda: evaluate(
        gallery=FREE[:, :2], gallery_labels=LABELS, junk_labels=["c"], distance="euclidean"
    ),
    "matrix": lambda: truerank.evaluate(
        np.arange(12.0).reshape(3, 4), relevance=np.eye(3, 4), distance="similarity"
    ),
    "float64": lambda: noted(),
}


def noted() -> Result:
    with pytest.warns(truerank.TruerankWarning):
        return evaluate(np.random.default_rng(2).random((8, 3)), distance="euclidean")


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
    assert "no query has a mate" in data["reason"]
    assert data["per_query"] == {"value": [None] * 8}


def test_default_metrics_that_are_not_defined_are_skipped() -> None:
    result = RESULTS["skipped"]()
    assert list(result) == ["mfr"]  # all that queries without a mate can have
    assert "no query has a mate" in result.skipped["map@r"]
    assert "Skipped map@r: " in str(result)
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


# --- tables ---------------------------------------------------------------------------------------


def test_bounds_are_shown_only_where_ties_leave_them_open() -> None:
    tied, free = str(evaluate()).splitlines(), str(evaluate(FREE)).splitlines()
    assert tied[0].split() == ["metric", "score", "expected", "upper", "chance", "queries"]
    assert free[0].split() == ["metric", "score", "chance", "queries"]
    rows = {line.split()[0]: line.split() for line in tied[1:11]}
    score = evaluate()["map"]
    assert rows["map"] == [
        "map",
        f"{100 * score.value:.2f}",
        f"{100 * score.expected:.2f}",
        f"{100 * score.upper:.2f}",
        f"{100 * score.chance:.2f}",
        "7",
    ]
    open_metrics = {name for name, score in evaluate().items() if score.tied}
    assert {name for name, row in rows.items() if len(row) == 6} == open_metrics
    assert 0 < len(open_metrics) < 9


def test_the_table_says_what_was_ranked() -> None:
    text = str(evaluate(query_groups=GROUPS))
    assert "8 queries leave-one-out, cosine distance, mean over queries" in text
    assert "lower bound over ties, in percent" in text
    assert "queries without a mate left out" in text
    assert "1 singleton" in text
    assert "all mates junk" in text
    assert "Ties between relevant and other items" in text
    text = str(RESULTS["gallery"]())
    assert "against 6 gallery items, euclidean distance" in text
    assert "2 items with junk labels" in text
    assert "mean over classes" in str(RESULTS["groups"]())
    assert "counted as 0" in str(RESULTS["zero"]())
    assert "map: not defined: no query has a mate" in str(undefined())
    assert repr(evaluate()) == str(evaluate())


def test_the_table_of_undefined_scores_has_dashes() -> None:
    line = str(undefined()).splitlines()[1].split()
    assert line == ["map", "-", "0"]


def test_the_last_column_says_what_was_counted() -> None:
    """By hand: 8 rows in classes of 2, 3, 2 and 1 have 1 + 3 + 1 = 5 positive pairs of 28."""
    expected = {
        "map": "7 queries",
        "auc": "28 pairs",
        "tar@tau=0.5": "5 positive pairs",
        "fmr@tau=0.5": "23 negative pairs",
        "far@tau=0.5": "1 query",
        "opis@far=0.05:0.9": "3 classes",
        "nmi": "8 rows",
        "tar@far=0.0001": "0",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", truerank.TruerankWarning)
        result = evaluate(FREE, metrics=list(expected), confidence=None)
    header, rows = tables.cells(result)
    assert header[-1] == "n"
    assert {row[0].split()[0]: row[-1] for row in rows} == expected
    for names, unit, number in (
        (["map", "hit@5", "tar@far=0.0001"], "queries", "7"),
        (["eer", "min_dcf"], "pairs", "28"),
        (["tar@far=0.0001"], "queries", "0"),
    ):
        header, rows = tables.cells(evaluate(FREE, metrics=names))
        assert (header[-1], rows[0][-1]) == (unit, number)
    many = Score("map", 1, 1, 1, 1, n=1_234_567)
    assert tables.cells(Result({"map": many}))[1][0][-1] == "1,234,567"


def test_what_was_counted_is_written_and_need_not_be() -> None:
    """Results written before `counted` was are read as ever."""
    result = evaluate(FREE, metrics=["map", "eer", "opis@far=0.05:0.9"])
    data = result.to_dict()
    counted = {name: score.pop("counted") for name, score in data["scores"].items()}
    assert counted == {"map": "query", "eer": "pair", "opis@far=0.05:0.9": "class"}
    jsonschema.Draft202012Validator(SCHEMA).validate(data)
    assert Result.from_dict(data).to_dict() == result.to_dict()
    rows = list(csv.DictReader(io.StringIO(result.to_csv())))
    assert [row["counted"] for row in rows] == list(counted.values())


@pytest.mark.parametrize("metric", registry.examples())
def test_an_arrow_marks_metrics_for_which_lower_is_better(metric: str) -> None:
    errors = ("eer", "min_dcf", "fmr", "fnmr", "far", "ftr", "mfr", "opis")
    lower = metric.split("@")[0] in errors
    assert tables.marked(metric) == (f"{metric} \u2193" if lower else metric)


def test_the_arrow_is_explained_and_becomes_what_can_be_printed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = evaluate(FREE, metrics=["map", "eer"])
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    assert "\neer \u2193 " in str(result)
    assert "\n\u2193 lower is better.\n" in str(result)
    assert "lower is better" not in str(evaluate(FREE, metrics=["map"]))
    assert "| eer \u2193 |" in result.to_markdown()
    assert r"eer $\downarrow$ & " in result.to_latex()
    for encoding in ("ascii", "cp1252"):
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding=encoding))
        assert "\neer (-) " in str(result)
        assert "\n(-) lower is better.\n" in str(result)
        sys.stdout.write(str(result))


def test_every_dash_has_its_reason() -> None:
    """In every table that people read; a comment in LaTeX, so that the tabular stays whole."""
    result = evaluate(labels=list("abcdefgh"), metrics="all", confidence=None)
    reasons = {name: score.reason for name, score in result.items() if score.reason}
    assert len(reasons) > 50
    text, markdown, latex = str(result), result.to_markdown(), result.to_latex()
    for name, reason in reasons.items():
        assert f"\n{name}: {reason}." in text
        assert f"\n- {name}: {reason}.\n" in markdown
        assert f"\n% {name}: {reason}.\n" in latex
        assert "\n" not in reason
    assert markdown.splitlines()[2 + len(result)] == ""
    assert text.splitlines()[1 + len(result)].startswith(next(iter(reasons)))


def test_markdown() -> None:
    lines = evaluate().to_markdown().splitlines()
    assert lines[0] == "| metric | score | expected | upper | chance | queries |"
    assert lines[1] == "| --- | ---: | ---: | ---: | ---: | ---: |"
    assert len(lines) == 2 + len(evaluate())
    assert {line.count("|") for line in lines} == {7}
    assert evaluate()._repr_markdown_() == evaluate().to_markdown()


def test_latex() -> None:
    lines = evaluate(FREE).to_latex().splitlines()
    assert lines[0] == r"\begin{tabular}{lrrr}"
    assert lines[1:4] == [r"\toprule", r"metric & score & chance & queries \\", r"\midrule"]
    assert lines[-2:] == [r"\bottomrule", r"\end{tabular}"]
    assert any(line.startswith(r"r\_precision & ") for line in lines)
    assert not any("_" in line.replace(r"\_", "") for line in lines)


def test_csv_holds_fractions_at_full_precision() -> None:
    for result in (evaluate(), undefined()):
        rows = list(csv.DictReader(io.StringIO(result.to_csv())))
        assert [row["metric"] for row in rows] == list(result)
        for row in rows:
            score = result[row["metric"]]
            for name in ("value", "lower", "expected", "upper", "chance"):
                value = getattr(score, name)
                if value is None or math.isnan(value):
                    assert row[name] == ""
                else:
                    assert float(row[name]) == value
            assert int(row["n"]) == score.n
            assert row["reason"] == (score.reason or "")


def test_frames() -> None:
    frame = evaluate().to_frame()
    assert list(frame.index) == list(evaluate())
    for name, score in evaluate().items():
        for column in ("value", "lower", "expected", "upper", "chance", "n"):
            expected = getattr(score, column)
            if expected is None:
                assert np.isnan(frame.loc[name, column])
            else:
                assert frame.loc[name, column] == expected
    assert "per_query" not in frame
    assert undefined().to_frame().isna().loc["map", "value"]


def test_frames_need_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="to_frame needs pandas: pip install"):
        evaluate().to_frame()


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
    assert "no query of this part has a mate" in parts["alone"]["map"].reason
    assert "no query of this part" in str(parts["alone"])
    parts = evaluate(metrics=["far@tau=1"]).by("label")
    assert parts["alone"]["far@tau=1"].n == 1
    assert parts["a"]["far@tau=1"].reason == "every query of this part has a mate"


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
            lambda: Result.from_dict(evaluate().to_dict()),
            "label",
            ["no attribute 'label'", "read back from JSON"],
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
        "precision@1", "hit@5", "hit@10", "r_precision", "map@r", "map", "mrr", "minp", "mrep",
        "mfr",
    ]  # fmt: skip
    assert len(result) == 10
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


# --- the package ----------------------------------------------------------------------------------


def loaded_modules(code: str) -> set[str]:
    """The top-level modules that a new interpreter has after running the code."""
    path = os.pathsep.join([str(PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return {name.partition(".")[0] for name in done.stdout.split()}


HEAVY = {"numba", "torch", "pandas", "scipy", "pyarrow", "sklearn", "ray", "plotly", "optuna"}


def test_importing_truerank_imports_nothing_heavy() -> None:
    loaded = loaded_modules("import truerank; truerank.__version__; dir(truerank)")
    assert loaded & (HEAVY | {"numpy", "click", "rich", "threadpoolctl"}) == set()


def test_evaluating_imports_no_extra() -> None:
    loaded = loaded_modules(
        "import truerank; print(truerank.evaluate([[0., 1], [1, 0], [1, 1]], [0, 0, 1]))"
    )
    assert "numba" in loaded
    assert loaded & (HEAVY - {"numba", "scipy"}) == set()


@pytest.mark.parametrize("name", list(module_names()))
def test_every_module_says_what_it_offers(name: str) -> None:
    module = importlib.import_module(name)
    assert isinstance(module.__all__, list)
    assert len(set(module.__all__)) == len(module.__all__)
    for offered in module.__all__:
        assert getattr(module, offered) is not None
    assert module.__doc__


def test_modules_offer_what_others_take_from_them() -> None:
    """`__all__` is complete: no module imports a name of another one that it does not list."""
    missing = defaultdict(set)
    known = set(module_names())
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or node.module not in known:
                continue
            module = importlib.import_module(node.module)
            for alias in node.names:
                is_module = (
                    PACKAGE.parent / node.module.replace(".", "/") / alias.name
                ).is_dir() or (
                    PACKAGE.parent / node.module.replace(".", "/") / f"{alias.name}.py"
                ).is_file()
                if not is_module and alias.name not in module.__all__:
                    missing[node.module].add(alias.name)
    assert dict(missing) == {}


def test_the_public_names() -> None:
    assert set(truerank.__all__) >= {
        "ExactnessError", "InputError", "Result", "Score", "Task", "TruerankWarning",
        "__version__", "compat", "engine", "evaluate", "metrics",
    }  # fmt: skip
    assert dir(truerank) == truerank.__all__ == sorted(truerank.__all__)
    namespace: dict[str, Any] = {}
    exec("from truerank import *", namespace)
    assert namespace["evaluate"] is truerank.evaluate
    assert issubclass(truerank.InputError, ValueError)
    assert issubclass(truerank.ExactnessError, RuntimeError)
    with pytest.raises(AttributeError, match="'truerank' has no attribute 'evalute'"):
        truerank.evalute  # noqa: B018
