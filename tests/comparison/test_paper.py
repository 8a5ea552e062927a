"""The table to paste: marks by hand, names of any letters, and a page that LaTeX sets."""

from __future__ import annotations

import csv
import io
import math
import re
import sys
from pathlib import Path

import pytest

import truerank
from tests.builders import clusters
from tests.comparison.latex import typeset
from truerank._util.errors import InputError
from truerank.analysis.compare import Comparison, judge
from truerank.analysis.differences import Difference, Standing
from truerank.core import metric as definitions
from truerank.core.registry import display_name, field_names

NAMES = ["ours_v2 <best> | \\input{x}", "ResNet-50 & 100%", "a--b ~ x^2 {q} $5 #1", '[x] "y" é']


def compared(
    scores: dict[str, dict[str, float]],
    p: dict[tuple[str, str, str], float | None],
    confidence: float = 0.95,
) -> Comparison:
    """A comparison with these scores and corrected p-values, by (metric, first, second)."""
    standings = [
        Standing(metric, model, value, None, 1, None, (1, len(by_model)))
        for metric, by_model in scores.items()
        for model, value in by_model.items()
    ]
    differences = [
        Difference(metric, one, two, scores[metric][one] - scores[metric][two], None, at, at)
        for (metric, one, two), at in p.items()
    ]
    return Comparison(standings, differences, confidence, "jackknife")


EER = {"a": 0.3, "b": 0.1, "c": 0.2, "d": 0.4}
FOUND = compared(
    {"map@r": {"a": 0.5, "b": 0.5, "c": 0.4, "d": 0.1}, "eer": EER},
    {
        ("map@r", "a", "b"): 1.0,
        ("map@r", "a", "c"): 0.01,  # told from a, but not from b, which shares the best score
        ("map@r", "a", "d"): 0.0004,
        ("map@r", "b", "c"): 0.2,
        ("map@r", "b", "d"): 0.0005,
        ("map@r", "c", "d"): 0.3,
        ("eer", "a", "b"): 0.03,
        ("eer", "a", "c"): 0.9,
        ("eer", "a", "d"): 0.9,
        ("eer", "b", "c"): None,
        ("eer", "b", "d"): 0.009,
        ("eer", "c", "d"): 0.9,
    },
)


def test_every_model_is_judged_against_the_best() -> None:
    judged = judge(FOUND.standings, FOUND.differences, 0.95)
    assert [judged[model, "map@r"].best for model in "abcd"] == [True, True, False, False]
    assert judged["c", "map@r"].tied
    assert [judged[model, "map@r"].stars for model in "abcd"] == [0, 0, 0, 3]
    assert judged["b", "eer"].best  # lower is better
    assert [judged[model, "eer"].stars for model in "abcd"] == [1, 0, 0, 2]
    assert judged["c", "eer"].untested


def test_stars_follow_the_level_of_the_tests() -> None:
    scores, p = {"map@r": {"a": 0.5, "b": 0.4}}, {("map@r", "a", "b"): 0.03}
    for confidence, stars, tied in ((0.95, 1, False), (0.99, 0, True), (0.8, 2, False)):
        found = compared(scores, p, confidence)
        mark = judge(found.standings, found.differences, confidence)["b", "map@r"]
        assert (mark.stars, mark.tied) == (stars, tied)


def test_markdown() -> None:
    assert FOUND.to_markdown().splitlines() == [
        "| model | MAP@R | EER ↓ |",
        "| --- | ---: | ---: |",
        r"| a | **50.00** | 30.00\* |",
        "| b | **50.00** | **10.00** |",
        "| c | _40.00_ | 20.00† |",
        r"| d | 10.00\*\*\* | 40.00\*\* |",
        "",
        "Scores in percent; ↓ lower is better. Best in bold. In italics: no significant "
        r"difference from the best (p ≥ 0.05). \*, \*\*, \*\*\*: worse than the best (p &lt; "
        "0.05, 0.01, 0.001). "
        "†: no test against the best. Paired tests by jackknife, corrected for 11 tests (Holm).",
    ]


def test_latex() -> None:
    assert FOUND.to_latex().splitlines() == [
        r"% Needs \usepackage{booktabs}.",
        r"\begin{table}",
        r"\centering",
        r"\caption{Scores in percent; $\downarrow$ lower is better.",
        "  Best in bold.",
        r"  Underlined: no significant difference from the best ($p \geq 0.05$).",
        "  $^{*}$, $^{**}$, $^{***}$: worse than the best ($p < 0.05$, 0.01, 0.001).",
        r"  $^{\dagger}$: no test against the best.",
        r"  Paired tests by jackknife, corrected for 11 tests (Holm).}\smallskip",
        r"\begin{tabular}{lrr}",
        r"\toprule",
        r"model & MAP@R & EER $\downarrow$ \\",
        r"\midrule",
        r"a & $\mathbf{50.00}^{\phantom{***}}$ & $30.00^{*\phantom{*}}$ \\",
        r"b & $\mathbf{50.00}^{\phantom{***}}$ & $\mathbf{10.00}^{\phantom{**}}$ \\",
        r"c & $\underline{40.00}^{\phantom{***}}$ & $20.00^{\dagger\phantom{*}}$ \\",
        r"d & $10.00^{***}$ & $40.00^{**}$ \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]


def test_thresholds_are_neither_good_nor_bad() -> None:
    metric = "threshold@far=0.01"
    found = compared({metric: {"a": 0.5, "b": 0.25}}, {(metric, "a", "b"): 0.001})
    assert found.to_markdown().splitlines()[2:] == [
        "| a | 0.5 |",
        "| b | 0.25 |",
        "",
        "Distances. Paired tests by jackknife.",
    ]


RUNS = {"one": (0.30, 0.32, 0.37), "two": (0.20, 0.20, 0.26)}
"""Means .33 and .22. Squares of the distances from them: 9 + 1 + 16 and 4 + 4 + 16, in 1e-4."""


def of_runs() -> Comparison:
    """Two models with three runs each, of which the first has an interval."""
    standings = [
        Standing("map@r", "one", 0.33, (0.3, 0.36), 3, None, (1, 1), RUNS["one"], 0.9),
        Standing("map@r", "two", 0.22, None, 3, None, (2, 2), RUNS["two"], 0.9),
    ]
    differences = [Difference("map@r", "one", "two", 0.11, None, 0.005, 0.005)]
    return Comparison(standings, differences, 0.95, "jackknife")


def test_cells_of_runs_have_the_standard_deviation() -> None:
    """sqrt(26/2) and sqrt(24/2) hundredths: 3.6056 and 3.4641."""
    found = of_runs()
    assert found.to_markdown("runs").splitlines()[2:] == [
        "| one | **33.00** ± 3.61 |",
        r"| two | 22.00\*\* ± 3.46 |",
        "",
        "Scores in percent, means of 3 runs. ±: standard deviation over runs. Best in bold. "
        r"\*, \*\*, \*\*\*: worse than the best (p &lt; 0.05, 0.01, 0.001). "
        "Paired tests by jackknife.",
    ]
    lines = found.to_latex("runs").splitlines()
    assert r"one & $\mathbf{33.00}^{\phantom{**}} \pm 3.61$ \\" in lines
    assert r"two & $22.00^{**} \pm 3.46$ \\" in lines
    assert r"  $\pm$: standard deviation over runs." in lines


def test_cells_of_intervals_say_their_level() -> None:
    found = of_runs()
    assert found.to_markdown("interval").splitlines()[2:4] == [
        "| one | **33.00** [30.00, 36.00] |",
        r"| two | 22.00\*\* |",
    ]
    assert "In brackets: intervals of 90 % over test sets and runs." in found.to_markdown(
        "interval"
    )
    latex = found.to_latex("interval")
    assert r"one & $\mathbf{33.00}^{\phantom{**}}\;[30.00, 36.00]$ \\" in latex.splitlines()
    assert r"  In brackets: intervals of 90 \% over test sets and runs." in latex.splitlines()


def test_cells_of_intervals_tell_single_runs_from_several() -> None:
    found = of_runs()
    found.standings[1] = Standing("map@r", "two", 0.22, (0.1, 0.3), 1, None, (2, 2), (0.22,), 0.9)
    assert (
        "intervals of 90 % over test sets and runs, of single runs over test sets alone."
        in found.to_markdown("interval")
    )
    assert r"| two | 22.00\*\* |" in found.to_markdown("runs")


def test_cells_that_nothing_can_fill_are_refused() -> None:
    with pytest.raises(InputError, match="every model here has a single one; pass several runs"):
        FOUND.to_latex("runs")
    with pytest.raises(InputError, match="no score here has an interval"):
        FOUND.to_markdown("interval")
    with pytest.raises(InputError, match="one of value, interval, runs"):
        FOUND.to_markdown("both")


def test_intervals_of_single_runs_have_the_level_of_their_evaluation(tmp_path: Path) -> None:
    one, two = (
        truerank.evaluate(*clusters(2, noise=noise), metrics=["map@r"], confidence=0.9)
        for noise in (0.5, 1.5)
    )
    found = truerank.compare(one, two, names=["one", "two"])
    low, high = one["map@r"].interval
    cell = f"**{100 * one['map@r'].value:.2f}** [{100 * low:.2f}, {100 * high:.2f}]"
    assert f"| one | {cell} |" in found.to_markdown("interval")
    assert "In brackets: intervals of 90 % over test sets." in found.to_markdown("interval")
    typeset(found.to_latex("interval") + "\n" + of_runs().to_latex("runs"), tmp_path)


def test_metrics_have_the_names_of_the_field() -> None:
    names = {
        "precision@1": "Precision@1", "hit@10": "Recall@10", "r_precision": "R-Precision",
        "map": "mAP", "map@r": "MAP@R", "map@100": "MAP@100", "mrr": "MRR", "minp": "mINP",
        "ndcg": "NDCG", "ndcg@10": "NDCG@10", "h_ap": "H-AP", "asi": "ASI", "auc": "AUC",
        "tar@far=0.001": "TAR@FAR=0.1%", "dir@far=0.01": "DIR@FAR=1%",
        "tar@far=0.00001": "TAR@FAR=0.001%", "dir@far=0.1,rank=5": "DIR@FAR=10%, rank=5",
        "mrep": "GOM ReP", "opis": "OPIS", "eer": "EER", "map@r,level=genus": "MAP@R, level=genus",
    }  # fmt: skip
    assert field_names(names) == names
    both = field_names(["hit@5", "recall@5"])
    assert both == {"hit@5": "Hit@5", "recall@5": "Recall@5"}
    scores = {"hit@1": {"a": 0.5, "b": 0.25}}
    shown = compared(scores, {("hit@1", "a", "b"): 0.5}).to_markdown()
    assert "| model | Recall@1 |" in shown
    assert "Recall@k: share of queries with a relevant item among the first k." in shown


@pytest.mark.parametrize("example", definitions.examples())
def test_every_metric_has_a_name_that_no_other_has(example: str) -> None:
    names = field_names(definitions.examples())
    assert [text for text, name in names.items() if name == names[example]] == [example]
    shown = [text for text in names if display_name(text) == display_name(example)]
    assert shown == [example]


def test_a_display_name_tells_the_name_to_ask_for_where_it_is_another_one() -> None:
    shown = {
        "map@r": "MAP@R", "hit@10": "Recall@10 (hit@10)", "recall@10": "Recall@10 (share found)",
        "cmc@5": "Recall@5 (hit@5)", "mrep": "GOM ReP (mrep)", "dir@far=0.01": "DIR@FAR=1%",
        "mrep@far=0.01": "GOM ReP@FAR=1% (mrep)", "best_f1": "best F1",
    }  # fmt: skip
    assert {metric: display_name(metric) for metric in shown} == shown


def real() -> Comparison:
    """Four models with names that nobody should have."""
    results = [
        truerank.evaluate(*clusters(2, noise=noise), metrics=["map@r", "r_precision", "eer"])
        for noise in (0.5, 1.0, 1.5, 2.5)
    ]
    return truerank.compare(*results, names=NAMES)


def test_a_page_with_any_name_compiles(tmp_path: Path) -> None:
    found = real()
    result = truerank.evaluate(*clusters(2), metrics=["r_precision", "eer", "opis"])
    (tmp_path / "x.tex").write_text(r"\errmessage{a name was obeyed}")
    body = [found.to_latex(), FOUND.to_latex(), result.to_latex(adjusted=True)]
    log = typeset("\n\n".join(body), tmp_path)
    assert "x.tex" not in log


def test_names_are_escaped_in_both_languages() -> None:
    found = real()
    assert r"ours\_v2 \textless{}best\textgreater{} \textbar{} \textbackslash{}input\{x\} &" in (
        found.to_latex()
    )
    rows = found.to_markdown().splitlines()
    assert rows[2].startswith(r"| ours_v2 &lt;best&gt; \| \\input{x} | ")
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows[:6]} == {5}


def test_means_of_runs_are_named() -> None:
    runs = [truerank.evaluate(*clusters(seed), metrics="map") for seed in (1, 1, 1)]
    found = truerank.compare(runs, runs[0], names=["three", "one"])
    assert "Scores in percent, means of 1 to 3 runs." in found.to_latex()


def test_csv_and_frame_hold_scores_and_differences() -> None:
    found = real()
    rows = list(csv.DictReader(io.StringIO(found.to_csv())))
    assert len(rows) == 3 * 4 + 3 * 6
    for row, standing in zip(rows, found.standings, strict=False):
        assert (row["metric"], row["model"]) == (standing.metric, standing.model)
        assert (float(row["value"]), row["against"]) == (standing.value, "")
        assert [float(row["interval_low"]), float(row["interval_high"])] == list(standing.interval)
    for row, one in zip(rows[12:], found.differences, strict=True):
        assert (row["model"], row["against"]) == (one.first, one.second)
        assert float(row["adjusted_p"]) == one.adjusted_p
    frame = found.to_frame()
    assert list(frame.columns) == list(rows[0])
    assert frame.value.tolist() == [float(row["value"]) for row in rows]
    assert math.isnan(frame.p[0])


def test_frames_need_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="to_frame needs pandas"):
        FOUND.to_frame()
