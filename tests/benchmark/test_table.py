"""The table: its numbers follow from reruns.csv alone, and its forms say the same."""

from __future__ import annotations

import csv
import json
import math
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from truerank import benchmark
from truerank._util.errors import InputError
from truerank.benchmark import tables
from truerank.benchmark.statistics import (
    compare_methods,
    difference,
    gain,
    mean_result,
    numbers,
    over_classes,
    spread,
    summarise,
    trend,
    verdict,
)
from truerank.core.jackknife import Replicates
from truerank.core.score import Score
from truerank.intervals.interval import from_replicates
from truerank.result.result import Result


def content(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "table.json").read_text())
    return found


def test_the_numbers_follow_from_reruns_csv_alone(uninterrupted: Path) -> None:
    """Written here anew from the definitions: means of folds, means of reruns, Student's t."""
    runs: dict[Any, list[float]] = defaultdict(list)
    with (uninterrupted / "reruns.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            part = "concatenated" if row["fold"] == "concat" else "separated"
            key = (row["method"], part, row["metric"], row["rerun"])
            runs[key].append(float(row["value"]))
    means: dict[Any, list[float]] = defaultdict(list)
    for (method, part, metric, rerun), values in runs.items():
        if rerun != "default":
            means[method, part, metric].append(statistics.fmean(values))
    checked = 0
    for row in content(uninterrupted)["rows"]:
        for part in ("concatenated", "separated"):
            for metric, shown in row[part].items():
                values = means.pop((row["method"], part, metric))
                assert shown["mean"] == pytest.approx(statistics.fmean(values), abs=1e-15)
                assert shown["n"] == len(values)
                if len(values) == 1:
                    assert shown["interval"] is None
                else:
                    # not stats.t.interval, which is NaN where all runs have one score
                    half = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)
                    ends = [statistics.fmean(values) - half, statistics.fmean(values) + half]
                    assert shown["interval"] == pytest.approx(ends, rel=1e-9)
                checked += 1
    assert checked == 4 * 2 * 3
    assert not means


def test_it_says_what_a_reader_must_know(uninterrupted: Path) -> None:
    table = content(uninterrupted)
    row = next(row for row in table["rows"] if row["method"] == "arcface")
    assert (row["name"], row["year"]) == ("ArcFace", 2019)
    assert set(row["parameters"]) == {"margin", "scale", "loss_lr", "lr"}
    assert row["default_parameters"]["margin"] == 28.6
    assert set(row["default"]["separated"]) == set(table["metrics"])
    assert row["ranks"]["separated"][0] >= 1
    assert table["openings"]["second_looks"] == 0
    assert any("all methods: lr searched" in one for one in table["deviations"])
    assert table["verdict"]["separated"]["best"] == "arcface"
    text = (uninterrupted / "table.json").read_text()
    assert "seconds" not in text
    assert str(uninterrupted) not in text


def test_forms(uninterrupted: Path) -> None:
    table = content(uninterrupted)
    markdown = tables.as_markdown(table)
    assert "| Concatenated (16-dim) | P@1 | RP | MAP@R | ranks |" in markdown
    assert "| Separated (8-dim) | P@1 | RP | MAP@R | ranks |" in markdown
    assert "Untrained + PCA" in markdown
    latex = tables.as_latex(table)
    assert latex.count(r" \\") == 2 + 4 + 1 + 2  # headings and rows; parameters of two methods
    assert r"\multicolumn{4}{c}{Separated (8-dim)}" in latex
    assert latex.count("P@1 & RP & MAP@R & ranks") == 2
    assert r"ArcFace & margin" in latex
    rows = list(csv.DictReader(tables.as_csv(table).splitlines()))
    assert len(rows) == 4 * 2 * 3
    first = next(r for r in rows if r["method"] == "arcface" and r["metric"] == "map@r")
    arcface = next(row for row in table["rows"] if row["method"] == "arcface")
    assert float(first["mean"]) == arcface["concatenated"]["map@r"]["mean"]
    assert json.loads(first["parameters"]) == arcface["parameters"]
    assert first["at_border"].split() == list(arcface["borders"])
    best = max(
        row["separated"]["map@r"]["mean"] for row in table["rows"] if row["kind"] != "untrained"
    )
    assert f"**{100 * best:.2f} ±" in markdown
    text = str(benchmark.Table(table))
    assert "8 test evaluations" in text
    assert "Untrained: all features of the trunk, without a head" in text
    assert f"  ArcFace: margin {arcface['parameters']['margin']:.4g}, scale" in text


NOTHING = {"searched": {"relative": None}, "default": {"relative": None}}
WITHOUT_ROWS = {
    "title": "t", "trials": 1, "folds": 2, "reruns": 1, "lane": "end to end", "deviations": [],
    "metric": "map@r", "rows": [], "spread": dict.fromkeys(("concatenated", "separated"), NOTHING),
    "trend": dict.fromkeys(("concatenated", "separated")),
    "openings": {"count": 4, "second_looks": 0},
}  # fmt: skip


def test_a_verdict_without_an_interval_shows_none() -> None:
    """As with fewer than ten test classes, or a single rerun."""
    found = {"best": "margin", "gain": 0.05, "interval": None, "verdict": "undecided"}
    table = {**WITHOUT_ROWS, "verdict": {"separated": found, "concatenated": None}}
    told = tables.legend(table)
    assert "Separated: margin against contrastive +5.0 % (no interval): undecided." in told
    assert not any(line.startswith("Untrained") for line in told)  # it has no such row


def test_a_verdict_names_contrastive_where_it_leads() -> None:
    """The best of the others is not the best of all."""
    found = {"best": "triplet", "gain": -0.245, "interval": [-0.3, -0.19], "verdict": "flat"}
    told = tables.legend({**WITHOUT_ROWS, "verdict": {"separated": found}})
    wanted = "Separated: triplet, the best beside contrastive, against it -24.5 %, -30.0 % to -19"
    assert any(line.startswith(wanted) and line.endswith(": flat.") for line in told)


def test_a_rerun_is_one_number() -> None:
    """Four folds that agree do not make an interval narrower; n is the number of reruns."""
    rows = [
        {"method": "m", "rerun": str(r), "fold": str(f), "metric": "map@r", "value": 0.1 * (r + 1),
         "default": False}
        for r in range(2) for f in range(4)
    ]  # fmt: skip
    found = numbers(rows)["m"]["separated"]["map@r"]
    assert found["n"] == 2
    half = stats.t.ppf(0.975, 1) * statistics.stdev([0.1, 0.2]) / math.sqrt(2)
    assert found["interval"] == pytest.approx([0.15 - half, 0.15 + half])
    assert summarise([0.3])["interval"] is None


def result(value: float, replicates: tuple[float, ...]) -> Result:
    score = Score("map@r", value, value, value, value, replicates=Replicates(replicates), n=9)
    return Result({"map@r": score}, provenance={"leave_one_out": True})


def test_a_mean_of_results_has_the_mean_replicates() -> None:
    mean = mean_result([result(0.2, (0.1, 0.3)), result(0.4, (0.5, 0.3))])["map@r"]
    assert mean.value == pytest.approx(0.3)
    assert mean.replicates is not None
    assert mean.replicates.values == pytest.approx((0.3, 0.3))


def test_an_interval_over_classes_is_that_of_the_mean_over_runs() -> None:
    runs = [result(0.30, (0.29, 0.30, 0.31, 0.30)), result(0.32, (0.31, 0.32, 0.33, 0.35))]
    means = (0.30, 0.31, 0.32, 0.325)
    error = math.sqrt(3 / 4 * sum((one - statistics.fmean(means)) ** 2 for one in means))
    ends = over_classes(runs, "map@r")
    assert ends is not None
    assert ends[0] < 0.31 < ends[1]
    for end in ends:  # each has the error of its own place, as those of truerank.evaluate have
        own = error * math.sqrt(end * (1 - end) / (0.31 * 0.69))
        assert abs(end - 0.31) == pytest.approx(stats.t.ppf(0.975, 3) * own, rel=1e-6)
    alone = Result({"map@r": Score("map@r", 0.3, 0.3, 0.3, 0.3, n=9)}, provenance={})
    assert over_classes([alone], "map@r") is None


def test_intervals_over_classes_stand_beside_those_over_reruns(uninterrupted: Path) -> None:
    """In JSON and CSV those of all metrics, in what is read that of the one that was searched for;
    tables of earlier versions have none."""
    table = content(uninterrupted)
    untrained = table["rows"][0]["concatenated"]
    kept = Result.from_json(next(uninterrupted.rglob("untrained/**/concat.json")))
    for metric, score in untrained.items():
        spread = kept[metric].replicates
        limits = (0.0, 1.0)
        found = from_replicates(score["mean"], spread, spread, 0.95, limits)
        assert score["classes"] == list(found.ends)
    low, high = untrained["map@r"]["classes"]
    half = f"{100 * (high - low) / 2:.2f}"
    markdown = tables.as_markdown(table)
    assert f" {100 * untrained['map@r']['mean']:.2f} (± {half}) |" in markdown
    assert f" {100 * untrained['precision@1']['mean']:.2f} |" in markdown
    assert "over the reruns, in brackets of MAP@R over test classes." in markdown
    assert rf"($\pm$ {half})" in tables.as_latex(table)
    for row in csv.DictReader(tables.as_csv(table).splitlines()):
        low, high = float(row["low_over_classes"]), float(row["high_over_classes"])
        assert low < float(row["mean"]) < high
    for row in table["rows"]:
        for part in ("concatenated", "separated"):
            for score in row[part].values():
                del score["classes"]
    assert "brackets" not in tables.as_markdown(table)
    assert "(±" not in tables.as_text(table)


def test_a_gain_has_both_variances() -> None:
    """Over classes by the jackknife of the ratio, over runs by the spread of both."""
    a = [result(0.30, (0.29, 0.30, 0.31, 0.30)), result(0.32, (0.31, 0.32, 0.33, 0.32))]
    b = [result(0.20, (0.20, 0.19, 0.20, 0.21)), result(0.21, (0.21, 0.20, 0.21, 0.22))]
    found = gain(a, b, "map@r", 0.95)
    ratio = 0.31 / 0.205
    means = [(0.30, 0.205), (0.31, 0.195), (0.32, 0.205), (0.31, 0.215)]
    quotients = [x / y for x, y in means]
    centre = statistics.fmean(quotients)
    classes = 3 / 4 * sum((q - centre) ** 2 for q in quotients)
    runs = [0.02**2 / 2 / 2 / 0.205**2, ratio**2 * 0.01**2 / 2 / 2 / 0.205**2]
    variance = classes + sum(runs)
    freedom = variance**2 / (classes**2 / 3 + runs[0] ** 2 + runs[1] ** 2)
    half = stats.t.ppf(0.975, math.floor(freedom)) * math.sqrt(variance)
    assert found["gain"] == pytest.approx(ratio - 1)
    assert found["interval"] == pytest.approx([ratio - 1 - half, ratio - 1 + half], rel=1e-6)
    assert gain(a[:1], b, "map@r", 0.95)["interval"] is None


def test_a_difference_has_both_variances() -> None:
    a = [result(0.30, (0.29, 0.30, 0.31, 0.30)), result(0.32, (0.31, 0.32, 0.33, 0.32))]
    b = [result(0.20, (0.20, 0.19, 0.20, 0.21)), result(0.21, (0.21, 0.20, 0.21, 0.22))]
    found = difference(a, b, "map@r")
    apart = [0.30 - 0.205, 0.31 - 0.195, 0.32 - 0.205, 0.31 - 0.215]
    classes = 3 / 4 * sum((one - statistics.fmean(apart)) ** 2 for one in apart)
    runs = [0.02**2 / 2 / 2, 0.01**2 / 2 / 2]
    variance = classes + sum(runs)
    freedom = math.floor(variance**2 / (classes**2 / 3 + runs[0] ** 2 + runs[1] ** 2))
    assert found["difference"] == pytest.approx(0.105)
    assert found["p"] == pytest.approx(
        2 * stats.t.sf(0.105 / math.sqrt(variance), freedom), rel=1e-6
    )
    reason = "a single rerun gives no variance between reruns"
    assert difference(a[:1], b, "map@r")["reason"] == reason


def test_ranks_are_what_holm_leaves_open() -> None:
    def runs(value: float) -> list[Result]:
        return [
            result(value + d, tuple(value + d + s for s in (-1e-3, 0, 1e-3, 0)))
            for d in (0, 1e-4, 2e-4)
        ]

    found = compare_methods({"low": runs(0.1), "twin": runs(0.1001), "high": runs(0.2)}, "map@r")
    assert found["ranks"] == {"low": [2, 3], "twin": [2, 3], "high": [1, 1]}
    raw = {(pair["first"], pair["second"]): pair for pair in found["pairs"]}
    twins = raw["low", "twin"]
    assert twins["adjusted_p"] == twins["p"]  # the largest of three is multiplied by 1
    assert raw["low", "high"]["adjusted_p"] >= raw["low", "high"]["p"]


@pytest.mark.parametrize(
    ("best", "word"), [(0.2001, "flat"), (0.3, "not flat"), (0.2205, "undecided")]
)
def test_the_rule_of_flatness(best: float, word: str) -> None:
    runs = {
        name: [
            result(v + d, tuple(v + d + s for s in (-0.003, 0.0, 0.003, 0.0))) for d in (0, 1e-3)
        ]
        for name, v in (("contrastive", 0.2), ("other", best))
    }
    found = verdict(runs, "map@r")
    assert found is not None
    assert (found["verdict"], found["best"]) == (word, "other")
    assert verdict({"other": runs["other"]}, "map@r") is None


def test_a_damaged_file_of_reruns_is_refused(tmp_path: Path) -> None:
    from truerank.benchmark.holdout import read_reruns

    (tmp_path / "reruns.csv").write_text("method,rerun,fold,metric,value\na,0,0,map@r,x\n")
    with pytest.raises(InputError, match="cannot be read as the reruns of a benchmark"):
        read_reruns(tmp_path / "reruns.csv")


def test_spread_and_trend() -> None:
    """Years 2000, 2010, 2020 with means 1, 2, 3: a slope of 0.1 a year, 5 % of the mean."""
    rows = [
        {"year": year, "separated": {"map@r": {"mean": mean}},
         "default": {"separated": {"map@r": {"mean": mean / 4}}}}
        for year, mean in ((2000, 1.0), (2010, 2.0), (2020, 3.0))
    ]  # fmt: skip
    found = trend(rows, "separated", "map@r")
    assert found is not None
    assert found["per_year"] == pytest.approx(0.05)
    assert found["correlation"] == pytest.approx(1.0)
    assert trend(rows[:1], "separated", "map@r") is None
    apart = spread(rows, "separated", "map@r")
    assert apart["searched"] == {"low": 1.0, "high": 3.0, "relative": 2.0}
    assert apart["default"]["high"] == 0.75
