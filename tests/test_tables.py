"""Results as tables, Markdown, LaTeX, CSV and frames."""

from __future__ import annotations

import csv
import io
import math
import sys
import warnings

import jsonschema
import numpy as np
import pytest

import truerank
from tests.results import FREE, GROUPS, RESULTS, SCHEMA, evaluate, undefined
from truerank import Result, Score
from truerank.core import metric as definitions
from truerank.result import tables


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
    assert "unmated queries left out" in text
    assert "1 singleton" in text
    assert "all relevant items junk" in text
    assert "Ties between relevant and irrelevant items" in text
    text = str(RESULTS["gallery"]())
    assert "against 6 gallery items, euclidean distance" in text
    assert "2 items with junk labels" in text
    assert "mean over classes" in str(RESULTS["groups"]())
    assert "counted as 0" in str(RESULTS["zero"]())
    assert "map, hit@1: not defined: no query has a relevant item" in str(undefined())
    assert repr(evaluate()) == str(evaluate())


def test_the_table_names_what_a_matrix_holds_and_counts_singletons() -> None:
    labels = ["a", "a", "b", "b", "b", "c", "d", "e"]
    assert "3 unmated queries left out: 3 singletons." in str(evaluate(labels=labels))
    matrix = 1 - np.eye(8)
    assert "leave-one-out, given distances," in str(evaluate(matrix, distance="precomputed"))
    assert "leave-one-out, given similarities," in str(evaluate(-matrix, distance="similarity"))


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


@pytest.mark.parametrize("metric", definitions.examples())
def test_an_arrow_marks_metrics_for_which_lower_is_better(metric: str) -> None:
    errors = ("eer", "min_dcf", "fmr", "fnmr", "fnir", "far", "ftr", "mfr", "opis")
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


@pytest.mark.filterwarnings("ignore::truerank.TruerankWarning")
def test_every_dash_has_its_reason() -> None:
    """In every table that people read; a comment in LaTeX, so that the tabular stays whole."""
    result = evaluate(labels=list("abcdefgh"), metrics=definitions.examples(), confidence=None)
    reasons = {name: score.reason for name, score in result.items() if score.reason}
    assert len(reasons) > 50
    text, markdown, latex = str(result), result.to_markdown(), result.to_latex()
    together = {
        reason: ", ".join(name for name in reasons if reasons[name] == reason)
        for reason in reasons.values()
    }
    assert len(together) < 20
    for reason, names in together.items():
        assert f"\n{names}: {reason}." in text
        assert f"\n- {names}: {reason}.\n" in markdown
        assert f"\n% {names}: {reason}.\n" in latex
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
