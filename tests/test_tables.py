"""Results as tables, Markdown, LaTeX, CSV and frames."""

from __future__ import annotations

import csv
import io
import math
import re
import sys
import warnings

import jsonschema
import numpy as np
import pytest

import truerank
from tests.results import FREE, GROUPS, RESULTS, SCHEMA, evaluate, undefined
from truerank import Result, Score
from truerank.core import metric as definitions
from truerank.core.registry import display_name
from truerank.result import tables


def rows_of(shown: str) -> dict[str, list[str]]:
    """The cells of each row below the header, by the metric's name."""
    table = shown.partition("\n\n- ")[0].splitlines()[1:]
    cells = [re.split(r"  +", line) for line in table if line and "  " in line]
    return {row[0]: row[1:] for row in cells}


def test_what_ties_could_add_is_shown_only_where_it_is_seen() -> None:
    tied, free = str(evaluate()), str(evaluate(FREE))
    assert tied.splitlines()[0].split() == ["metric", "score", "ties", "chance"]
    assert free.splitlines()[0].split() == ["metric", "score", "chance"]
    score = evaluate()["map"]
    assert rows_of(tied)["mAP"] == [
        f"{100 * score.value:.2f}",
        f"+{100 * (score.upper - score.value):.2f}",
        f"{100 * score.chance:.2f}",
    ]
    gains = {row[1] for row in rows_of(tied).values()}
    assert "0.00" in gains
    assert all(gain == "0.00" or gain.startswith("+") for gain in gains)
    assert "the gain if they counted for it" in " ".join(tied.split())
    assert "Ties" not in free
    lower = evaluate(metrics=["eer", "map"])
    gain = 100 * (lower["eer"].lower - lower["eer"].value)
    assert rows_of(str(lower))["EER \u2193"][1] == f"{gain:.2f}"


def test_verbose_shows_the_bounds_the_names_and_every_note() -> None:
    result = evaluate(metrics=["map", "hit@1", "nmi"])
    shown = result.to_text(verbose=True)
    assert shown.splitlines()[0].split() == [
        *("metric", "name", "score", "expected", "upper", "chance", "n")
    ]
    score = result["map"]
    ends = (score.value, score.expected, score.upper, score.chance)
    assert rows_of(shown)["mAP"] == ["map", *(f"{100 * end:.2f}" for end in ends), "7 queries"]
    assert rows_of(shown)["Recall@1 (hit@1)"][0] == "hit@1"
    words = " ".join(shown.split())
    assert all(" ".join(note.split()) in words for note in result.notes)


def test_the_headline_comes_first() -> None:
    lines = str(evaluate()).splitlines()
    named = [line.split("  ")[0] for line in lines[1:10]]
    assert named[:4] == ["Precision@1", "MAP@R", "mAP", ""]
    others = {"Recall@5 (hit@5)", "Recall@10 (hit@10)", "R-Precision", "MRR", "mINP"}
    assert set(named[4:]) == others
    few = str(evaluate(metrics=["mrr", "map@r", "minp"])).splitlines()
    assert [line.split("  ")[0] for line in few[1:4]] == ["MAP@R", "MRR", "mINP"]
    none = str(evaluate(metrics=["mrr", "minp"])).splitlines()
    assert [line.split("  ")[0] for line in none[1:3]] == ["MRR", "mINP"]
    assert "| MAP@R |" in evaluate(metrics=["mrr", "map@r"]).to_markdown().splitlines()[2]


def test_at_most_two_notes_are_shown_and_the_others_are_counted() -> None:
    result = evaluate(query_groups=GROUPS)
    assert len(result.notes) > 2
    shown = " ".join(str(result).split())
    for note in result.notes[:2]:
        assert note in shown
    for note in result.notes[2:]:
        assert note not in shown
    assert f"({len(result.notes) - 2} more notes: result.notes, --verbose)" in shown
    few = evaluate(FREE, labels=list("aabbccdd"), confidence=None, metrics="map")
    assert "more note" not in str(few)


def test_a_result_in_short() -> None:
    result = evaluate()
    values = {name: f"{name}={result[name].value:.3f}" for name in result}
    first = ", ".join(values[name] for name in ("precision@1", "map@r", "map"))
    assert repr(result) == f"Result({first}, ..., 8 metrics)"
    assert repr(evaluate(metrics=["mrr"])) == f"Result({values['mrr']})"
    assert repr(undefined()) == "Result(hit@1=nan, map=nan)"


def test_the_notes_say_what_was_ranked() -> None:
    result = evaluate(query_groups=GROUPS)
    text = "\n".join(result.notes)
    left = sum(result.provenance["no_mate"].values())
    assert text.startswith(f"{8 - left} of 8 queries scored (")
    assert "1 is alone in its class" in text
    assert "junk alone as relevant items" in text
    assert "leave-one-out, cosine distance. In percent. Ties count against the model" in text
    assert "Ties between relevant and irrelevant items" in text
    text = " ".join(str(RESULTS["gallery"]()).split())
    assert "against 6 gallery items, euclidean distance" in text
    assert "2 items with junk labels" in "".join(RESULTS["gallery"]().notes)
    assert "mean over classes" in str(RESULTS["groups"]())
    assert "8 queries scored, 1 of them as 0 (1 is alone in its class)," in str(RESULTS["zero"]())
    assert "mAP, Recall@1 (hit@1): not defined: no query has a relevant item" in "".join(
        undefined().notes
    )


def test_the_table_names_what_a_matrix_holds_and_counts_singletons() -> None:
    labels = ["a", "a", "b", "b", "b", "c", "d", "e"]
    assert "5 of 8 queries scored (3 are alone in their class)" in str(evaluate(labels=labels))
    matrix = 1 - np.eye(8)
    assert "leave-one-out, given distances." in evaluate(matrix, distance="precomputed").notes[0]
    assert "leave-one-out, given similarities." in evaluate(-matrix, distance="similarity").notes[0]


def test_what_is_missing_looks_alike_everywhere() -> None:
    assert rows_of(str(undefined())) == {"Recall@1 (hit@1)": ["-"], "mAP": ["-"]}
    result = evaluate(FREE, metrics=["map", "eer", "opis@far=0.05:0.9"])
    for table in (str(result), result.to_text(adjusted=True, verbose=True)):
        for row in rows_of(table).values():
            assert "" not in row
    assert rows_of(str(result))["OPIS@FAR=5%:90% \u2193"][-1] == "-"


def test_verbose_says_what_was_counted() -> None:
    """By hand: 8 rows in classes of 2, 3, 2 and 1 have 1 + 3 + 1 = 5 positive pairs of 28."""
    expected = {
        "map": "7 queries",
        "auc": "28 pairs",
        "tar@tau=0.5": "5 positive pairs",
        "fmr@tau=0.5": "23 negative pairs",
        "far@tau=0.5": "1 query",
        "opis@far=0.05:0.9": "3 classes",
        "nmi": "8 rows",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", truerank.TruerankWarning)
        result = evaluate(FREE, metrics=list(expected), confidence=None)
    header, rows = tables.cells(result, verbose=True)
    assert (header[1], header[-1]) == ("name", "n")
    assert {row[1]: row[-1] for row in rows} == expected
    many = Score("map", 1, 1, 1, 1, n=1_234_567)
    assert tables.cells(Result({"map": many}), verbose=True)[1][0][-1] == "1,234,567 queries"


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
    name = display_name(metric)
    assert tables.marked(metric) == (f"{name} \u2193" if lower else name)


def test_the_arrow_is_explained_and_becomes_what_can_be_printed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = evaluate(FREE, metrics=["map", "eer"])
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    assert "\nEER \u2193 " in str(result)
    assert "; \u2193 lower is better." in " ".join(str(result).split())
    assert "lower is better" not in str(evaluate(FREE, metrics=["map"]))
    assert "| EER \u2193 |" in result.to_markdown()
    assert r"EER $\downarrow$ & " in result.to_latex()
    for encoding in ("ascii", "cp1252"):
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding=encoding))
        assert "\nEER (-) " in str(result)
        assert "; (-) lower is better." in " ".join(str(result).split())
        sys.stdout.write(str(result))


@pytest.mark.filterwarnings("ignore::truerank.TruerankWarning")
def test_every_dash_has_its_reason() -> None:
    """In every table that people read; a comment in LaTeX, so that the tabular stays whole."""
    result = evaluate(labels=list("abcdefgh"), metrics=definitions.examples(), confidence=None)
    reasons = {name: score.reason for name, score in result.items() if score.reason}
    assert len(reasons) > 50
    markdown, latex = result.to_markdown(), result.to_latex()
    together = {
        reason: ", ".join(display_name(name) for name in reasons if reasons[name] == reason)
        for reason in reasons.values()
    }
    assert len(together) < 20
    for reason, names in together.items():
        assert f"{names}: {reason}." in result.notes
        assert f"\n- {names}: {reason}.\n" in markdown
        assert f"\n% {names}: {reason}.\n" in latex
        assert "\n" not in reason
    assert markdown.splitlines()[2 + len(result)] == ""
    assert result.notes[1].startswith(display_name(next(iter(reasons))))


def test_markdown() -> None:
    lines = evaluate().to_markdown().splitlines()
    assert lines[0] == "| metric | score | ties | chance |"
    assert lines[1] == "| --- | ---: | ---: | ---: |"
    assert len(lines) == 2 + len(evaluate())
    assert {line.count("|") for line in lines} == {5}
    assert evaluate()._repr_markdown_() == evaluate().to_markdown()


def test_latex() -> None:
    lines = evaluate(FREE).to_latex().splitlines()
    assert lines[0] == r"\begin{tabular}{lrr}"
    assert lines[1:4] == [r"\toprule", r"metric & score & chance \\", r"\midrule"]
    assert lines[-2:] == [r"\bottomrule", r"\end{tabular}"]
    assert any(line.startswith("R-Precision & ") for line in lines)
    assert any(line.startswith("Recall@5 & ") for line in lines)
    assert not any("_" in line for line in lines)


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
