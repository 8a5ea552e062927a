"""Comparisons: paired, corrected, and refused where tasks differ."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import truerank
from tests.builders import clusters
from tests.refusals import assert_refused
from truerank._util.errors import InputError
from truerank.analysis.compare import Comparison
from truerank.analysis.differences import Difference, correct
from truerank.core.student import central, quantile


def models(**options: Any) -> list[truerank.Result]:
    """Four models of one task: one good, two alike, one poor."""
    rng = np.random.default_rng(1)
    y = np.repeat(np.arange(40), 5)
    centres, noise, other = (rng.standard_normal((rows, 16)) for rows in (40, 200, 200))
    moved = (0.9 * noise, 1.2 * noise, 1.2 * other, 2.0 * noise)
    return [truerank.evaluate(centres[y] + some, y, **options) for some in moved]


def separate(noise: float) -> truerank.Result:
    rng = np.random.default_rng(2)
    y = np.repeat(np.arange(30), 6)
    x = rng.standard_normal((30, 16))[y] + noise * rng.standard_normal((180, 16))
    return truerank.evaluate(
        x[::2], y[::2], gallery=x[1::2], gallery_labels=y[1::2], metrics=["map", "hit@1"]
    )


def test_ranks_that_are_left_open() -> None:
    found = truerank.compare(*models(), metrics="map", names=["good", "b", "c", "poor"])
    ranks = {row.model: row.ranks for row in found.standings}
    assert ranks == {"good": (1, 1), "b": (2, 3), "c": (2, 3), "poor": (4, 4)}
    values = [row.value for row in found.standings]
    assert all(a >= b for a, b in pairwise(values))


@pytest.mark.parametrize("average", ["query", "class"])
def test_means_over_levels_are_drawn_level_by_level(average: str) -> None:
    """Coarse classes are drawn, four queries of five have coarse mates alone; by hand."""
    rng = np.random.default_rng(4)
    fine = np.repeat(np.arange(160), 2)
    labels, names = np.column_stack([fine // 4, fine]), [f"map@level={v}" for v in (1, 2, "mean")]
    known = fine % 5 == 0  # the others are not in the gallery
    centres = rng.standard_normal((160, 12)) + rng.standard_normal((40, 12))[np.arange(160) // 4]
    one, two = (
        truerank.evaluate(
            centres[fine] + noise * rng.standard_normal((320, 12)),
            labels,
            gallery=(centres[fine] + rng.standard_normal((320, 12)))[known],
            gallery_labels=labels[known],
            metrics=names,
            average=average,
        )
        for noise in (0.8, 1.0)
    )
    [row] = truerank.compare(one, two, metrics="map@level=mean").differences
    low, high = row.interval
    apart = [one[n].per_query.lower - two[n].per_query.lower for n in names[:2]]
    by_class = [[d[fine == c] for c in range(160)] for d in apart]
    drawn = []
    for _ in range(2000):
        chosen = [4 * u + c for u in rng.integers(40, size=40) for c in range(4)]
        levels = []
        for level in by_class:
            held = [level[c] for c in chosen if not np.isnan(level[c][0])]
            levels.append(np.mean([d.mean() for d in held] if average == "class" else held))
        drawn.append(np.mean(levels))
    error = np.std(drawn) * math.sqrt(40 / 39)
    assert (high - low) / 2 == pytest.approx(quantile(0.95, 31) * error, rel=0.1)


def test_a_difference_from_the_replicates_by_hand() -> None:
    one, two = models(metrics=["map"])[:2]
    [row] = truerank.compare(one, two).differences
    pairs = zip(one["map"].replicates.values, two["map"].replicates.values, strict=True)
    apart = np.array([a - b for a, b in pairs])
    freedom = len(apart) - 1
    error = math.sqrt(freedom / len(apart) * ((apart - apart.mean()) ** 2).sum())
    value = one["map"].value - two["map"].value
    assert row.value == value
    margin = quantile(0.95, freedom) * error
    assert row.interval == pytest.approx((value - margin, value + margin))
    assert row.p == pytest.approx(1 - central(value / error, freedom))
    assert row.adjusted_p == row.p  # a single test needs no correction


def test_pairing_helps() -> None:
    """Classes are hard for both models: their difference is surer than either score."""
    one, _, _, two = models(metrics=["map"])
    [row] = truerank.compare(one, two).differences
    own = one["map"].interval
    assert row.interval[1] - row.interval[0] < own[1] - own[0]


def test_rows_in_another_order_are_paired_all_the_same() -> None:
    rng = np.random.default_rng(3)
    x, y = clusters(4)
    worse = x + rng.standard_normal(x.shape)
    order = rng.permutation(len(y))
    one = truerank.evaluate(x, y)
    straight = truerank.compare(one, truerank.evaluate(worse, y))
    shuffled = truerank.compare(one, truerank.evaluate(worse[order], y[order]))
    assert straight.differences == shuffled.differences
    halves = {"gallery": x[1::2], "gallery_labels": y[1::2]}
    other = {"gallery": worse[1::2], "gallery_labels": y[1::2]}
    order = rng.permutation(len(y) // 2)
    one = truerank.evaluate(x[::2], y[::2], **halves)
    straight = truerank.compare(one, truerank.evaluate(worse[::2], y[::2], **other))
    shuffled = truerank.compare(one, truerank.evaluate(worse[::2][order], y[::2][order], **other))
    assert straight.differences == shuffled.differences


def test_the_same_model_twice() -> None:
    one = models()[0]
    for row in truerank.compare(one, one).differences:
        assert (row.value, row.p, row.adjusted_p) == (0.0, 1.0, 1.0)


def test_a_gallery_of_its_own() -> None:
    found = truerank.compare(separate(0.9), separate(1.6))
    row = found.differences[0]
    assert row.metric == "map"
    assert row.interval[0] > 0
    assert row.p < 0.001
    assert "conditional on this gallery" in "".join(found.notes)


@pytest.mark.parametrize("units", ["finer", "finest"])
def test_finer_units_of_a_gallery_of_its_own_are_drawn(units: str, tmp_path: Path) -> None:
    """Nine coarse classes are too few; the test is that of a metric of the finest level."""
    y = np.repeat(np.arange(40), 4)
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((40, 8))
    paths = np.column_stack([y % 9, y])
    metrics = ["map@level=1", "map@level=2", "ndcg"]
    results = []
    for noise in (0.9, 1.3):
        x = centres[y] + noise * rng.standard_normal((160, 8))
        sides = {"gallery": x[1::2], "gallery_labels": paths[1::2]}
        results.append(truerank.evaluate(x[::2], paths[::2], metrics=metrics, units=units, **sides))
    read = []
    for place, result in enumerate(results):
        path = tmp_path / f"{place}.json"
        path.write_text(result.to_json(per_query=True))
        read.append(truerank.Result.from_json(path))
    assert np.array_equal(read[0].level_units["level 2"], read[0].units)
    found = truerank.compare(*read)
    assert found == truerank.compare(*results)
    for name in metrics:
        (difference,) = (one for one in found.differences if one.metric == name)
        one, two = (read[place][name].per_query.lower for place in range(2))
        means = (one - two).reshape(40, 2).mean(axis=1)
        low, high = difference.interval
        expected = 2 * 2.0227 * means.std(ddof=1) / math.sqrt(40)
        assert high - low == pytest.approx(expected, rel=0.1), name


@pytest.mark.parametrize(("classes", "helps"), [(40, True), (20, False)])
def test_finer_units_are_named_where_they_help(classes: int, helps: bool) -> None:
    y = np.repeat(np.arange(classes), 4)
    rng = np.random.default_rng(0)
    paths = np.column_stack([y % 9, y])
    results = []
    for _ in range(2):
        x = rng.standard_normal((4 * classes, 8))
        sides = {"gallery": x[1::2], "gallery_labels": paths[1::2], "metrics": ["ndcg@10"]}
        results.append(truerank.evaluate(x[::2], paths[::2], **sides))
    (row,) = truerank.compare(*results).differences
    sentence = "9 classes of level 1: a test needs at least 30"
    finer = '; a finer level has enough: pass units="finer" (--units finer)'
    assert row.reason == sentence + (finer if helps else "")


def test_holm_by_hand() -> None:
    """Sorted .01 .02 .03 .5 times 4 3 2 1, and never falling."""
    rows = [Difference("map", "a", str(p), 0.1, None, p, None) for p in (0.03, 0.01, 0.5, 0.02)]
    rows.append(Difference("map", "a", "x", 0.1, None, None, None, "no test"))
    found = [row.adjusted_p for row in correct(rows)]
    assert found == pytest.approx([0.06, 0.04, 0.5, 0.06, None])


def test_runs_are_kept_apart() -> None:
    rng = np.random.default_rng(5)
    x, y = clusters(5)
    runs = [
        truerank.evaluate(x + 0.3 * rng.standard_normal(x.shape), y, metrics="map")
        for _ in range(4)
    ]
    other = truerank.evaluate(x + 2 * rng.standard_normal(x.shape), y, metrics="map")
    found = truerank.compare(runs, other, names=["four runs", "other"])
    best = found.standings[0]
    values = [run["map"].value for run in runs]
    assert best.runs == 4
    assert best.value == pytest.approx(np.mean(values))
    margin = quantile(0.95, 3) * np.std(values, ddof=1) / 2
    assert best.between_runs == pytest.approx((best.value - margin, best.value + margin))
    assert best.interval != best.between_runs
    assert found.standings[1].between_runs is None
    assert "Between runs" in str(found)


def runs_of(seed: int, differ: float, count: int = 3, **options: Any) -> list[truerank.Result]:
    """Runs of one method on one test set."""
    x, y = clusters(5)
    rng = np.random.default_rng(seed)
    return [
        truerank.evaluate(
            np.exp(differ * rng.standard_normal()) * rng.standard_normal(x.shape) + x,
            options.get("labels", y),
            metrics=options.get("metrics", "map"),
        )
        for _ in range(count)
    ]


def test_runs_and_classes_both_enter() -> None:
    """The variance of the difference by hand: over classes, and between runs what is more."""
    one, two = runs_of(1, 0.4), runs_of(2, 0.4, count=4)
    [row] = truerank.compare(one, two).differences
    tables = [np.array([run["map"].replicates.values for run in runs]) for runs in (one, two)]
    scores = [np.array([run["map"].value for run in runs]) for runs in (one, two)]

    def jackknife(values: np.ndarray) -> float:
        n = len(values)
        return (n - 1) / n * ((values - values.mean()) ** 2).sum()

    over_classes = jackknife(tables[0].mean(axis=0) - tables[1].mean(axis=0))
    between = [v.var(ddof=1) / len(v) for v in scores]
    both = sum(
        sum(jackknife(run - table.mean(axis=0)) for run in table) / len(table) / (len(table) - 1)
        for table in tables
    )
    assert sum(between) > both
    total = over_classes + sum(between) - both
    of_runs = sum(between) ** 2 / (between[0] ** 2 / 2 + between[1] ** 2 / 3)
    classes = tables[0].shape[1] - 1
    freedom = total**2 / (over_classes**2 / classes + sum(between) ** 2 / of_runs)
    margin = quantile(0.95, int(freedom)) * math.sqrt(total)
    assert row.interval == pytest.approx((row.value - margin, row.value + margin))
    assert row.p == pytest.approx(1 - central(row.value / math.sqrt(total), int(freedom)))


def test_two_samples_of_one_method_share_their_ranks() -> None:
    """Runs that differ much are told apart by the test set alone, and no longer with their own."""
    one, two = runs_of(3, 0.5), runs_of(6, 0.5)
    alone = [truerank.compare(a, b).differences[0].p for a, b in zip(one, two, strict=True)]
    assert min(alone) < 0.02
    found = truerank.compare(one, two)
    assert {row.ranks for row in found.standings} == {(1, 2)}
    for row in found.standings:
        own = one[0]["map"].interval
        assert row.interval[1] - row.interval[0] > own[1] - own[0]


def test_few_classes_leave_the_runs() -> None:
    """Nine coarse classes say nothing of others; several runs still tell methods apart."""
    _, y = clusters(5)
    options: dict[str, Any] = {"labels": np.column_stack([y % 9, y]), "metrics": "ndcg"}
    one, two = runs_of(1, 0.05, **options), runs_of(2, 0.05, **options)
    assert one[0]["ndcg"].interval is None
    found = truerank.compare(one, two)
    [row] = found.differences
    values = [np.array([run["ndcg"].value for run in runs]) for runs in (one, two)]
    error = math.sqrt(sum(v.var(ddof=1) / 3 for v in values))
    low, high = row.interval
    assert 2.7 * error < (high - low) / 2 < 4.4 * error  # t of 2 to 4 degrees
    assert all(row.interval is None for row in found.standings)
    alone = "Tests over runs on this very test set alone: 9 classes of level 1"
    assert any(note.startswith(alone) for note in found.notes)
    [single] = truerank.compare(one[0], two[0]).differences
    assert single.p is None
    assert "9 classes" in single.reason


def test_between_runs_stays_in_the_range() -> None:
    runs = []
    for value in (0.97, 1.0, 0.999):
        [run] = runs_of(1, 0.0, count=1)
        score = replace(run["map"], value=value)
        runs.append(truerank.Result({"map": score}, provenance=run.provenance, units=run.units))
    low, high = truerank.compare(runs, runs[:1]).standings[0].between_runs
    assert 0.9 < low < 0.99
    assert high == 1.0


def test_other_units_are_not_paired() -> None:
    x, y = clusters(5)
    paths = np.column_stack([y % 9, y])
    one = truerank.evaluate(x, paths, metrics="ndcg", units="finest")
    older = replace(one["ndcg"].replicates, values=one["ndcg"].replicates.values[:20])
    score = replace(one["ndcg"], replicates=older)
    other = truerank.Result({"ndcg": score}, provenance=one.provenance)
    assert "other units" in truerank.compare(one, other).differences[0].reason


def test_through_files(tmp_path: Path) -> None:
    results = models()
    paths = []
    for number, result in enumerate(results):
        paths.append(tmp_path / f"m{number}.json")
        result.to_json(paths[-1], per_query=False)
    direct = truerank.compare(*results, names=[path.stem for path in paths])
    assert truerank.compare(*paths) == direct
    one, two = separate(0.9), separate(1.6)
    one.to_json(tmp_path / "one.json")
    two.to_json(tmp_path / "two.json")
    direct = truerank.compare(one, two, names=["one", "two"])
    assert truerank.compare(tmp_path / "one.json", tmp_path / "two.json") == direct
    two.to_json(tmp_path / "two.json", per_query=False)
    found = truerank.compare(tmp_path / "one.json", tmp_path / "two.json")
    assert "without its per-query values" in found.differences[0].reason


def test_shown_in_every_form() -> None:
    found = truerank.compare(*models(metrics=["map", "minp"])[:2], names=["a_b", "c"])
    assert isinstance(found, Comparison)
    assert r"a\_b" in found.to_latex()
    assert found.to_latex().count(r"\begin{tabular}") == 1
    assert "\n| a_b | **54.05** |" in found.to_markdown()
    assert found._repr_markdown_() == found.to_markdown()
    data = json.loads(found.to_json())
    assert len(data["differences"]) == 2
    assert data["standings"][0]["ranks"] == [1, 1]


def test_the_finding_names_the_best_model_the_difference_and_how_sure_it_is() -> None:
    one, two, _ = models(metrics=["minp", "map@r"])[:3]
    found = truerank.compare(two, one, names=["two", "one"])
    [row] = [row for row in found.differences if row.metric == "map@r"]
    assert row.value < 0
    assert row.adjusted_p < 0.001
    low, high = row.interval
    start = (
        f"one is better than two in MAP@R: {100 * one['map@r'].value:.2f} against "
        f"{100 * two['map@r'].value:.2f}, difference +{-100 * row.value:.2f} (95 % interval "
        f"{-100 * high:.2f} to {-100 * low:.2f}, p < 0.001). Of 2 metrics, one is significantly "
    )
    assert found.finding.startswith(start)
    assert " ".join(str(found).split()).startswith(start)
    assert "***" in str(found)
    assert repr(found) == "Comparison(two, one: 2 metrics)"
    same = truerank.compare(one, one, names=["a", "b"], metrics="map@r").finding
    assert same == f"a and b score {100 * one['map@r'].value:.2f} in MAP@R."


def test_the_finding_without_significance_without_tests_and_of_three_models() -> None:
    x, y = clusters(1)
    moved = x + 1e-3 * np.random.default_rng(0).standard_normal(x.shape)
    options = {"metrics": ["map@r", "mrr", "threshold@far=0.05"]}
    one, near = (truerank.evaluate(rows, y, **options) for rows in (x, moved))
    far = truerank.evaluate(x + np.random.default_rng(1).standard_normal(x.shape), y, **options)
    found = truerank.compare(one, near, names=["one", "near"], metrics=["mrr", "map@r"])
    assert re.match(
        r"No significant difference between (one and near|near and one) in MAP@R: .*p = \d\.\d{3}\)"
        r"\. Of 2 metrics, none differs significantly \(p < 0\.05\)\.$",
        found.finding,
    )
    untested = truerank.compare(
        *(truerank.evaluate(rows, y, metrics="map@r", confidence=None) for rows in (x, moved)),
        names=["one", "near"],
    )
    start = r"\w+ has the best MAP@R, \w+ is second: "
    assert re.match(rf"{start}.* \(not tested\)\.$", untested.finding)
    three = truerank.compare(one, near, far, names=["one", "near", "far"], metrics="map@r")
    assert "far" not in three.finding
    assert three.finding.count("MAP@R") == 1
    thresholds = truerank.compare(one, near, metrics="threshold@far=0.05")
    assert thresholds.finding == "Thresholds are neither good nor bad: no model is better."


def test_verbose_shows_both_p_values_and_every_note() -> None:
    one, two, three = models(metrics=["map", "mrr"])[:3]
    for others in ((), (three,)):
        found = truerank.compare(one, two, *others)
        shown = found.to_text(verbose=True)
        assert "p (Holm)" in shown
        assert "p (Holm)" not in str(found)
        assert "< 0.0001" in shown
        words = " ".join(shown.split())
        assert "*** is p < 0.001" in " ".join(str(found).split())
        assert "***" not in words
        notes = [note.replace(", *** is p < 0.001", "") for note in found.notes]
        assert all(" ".join(note.split()) in words for note in notes)


def test_lower_is_better_is_marked_in_every_table() -> None:
    one, two, three = models(metrics=["map", "eer"])[:3]
    for others, rows in (((), 1), ((three,), 6)):
        lines = str(truerank.compare(one, two, *others)).splitlines()
        marked = [line.split()[:2] for line in lines if line.startswith("EER")]
        assert marked == rows * [["EER", "\u2193"]]
        assert any(line.startswith("In percent; \u2193 lower is better; ") for line in lines)
    found = truerank.compare(one, two, names=["one", "two"])
    assert found.to_markdown().startswith("| model | mAP | EER \u2193 |\n")
    assert r"model & mAP & EER $\downarrow$ \\" in found.to_latex()
    assert {row["metric"] for row in found.to_dict()["standings"]} == {"map", "eer"}
    assert "lower is better" not in str(truerank.compare(one, two, metrics="map"))


def test_what_is_not_compared_is_named_with_its_reason() -> None:
    one, two = (
        models(metrics=["map", "tar@far=0.000001", *more])[number]
        for number, more in enumerate(([], ["minp", "mrr"]))
    )
    found = truerank.compare(one, two, names=["one", "two"])
    reason = one["tar@far=0.000001"].reason
    assert found.skipped == {
        "tar@far=0.000001": f"one: {reason}",
        "minp": "one: evaluated without it",
        "mrr": "one: evaluated without it",
    }
    assert f"Skipped TAR@FAR=0.0001%: one: {reason}." in found.notes
    assert "Skipped mINP, MRR: one: evaluated without it." in found.notes
    assert found.to_dict()["skipped"] == found.skipped
    assert truerank.compare(one, two, metrics="map").skipped == {}
    others = [models(metrics=metric)[0] for metric in ("map", "mrr")]
    with pytest.raises(InputError, match="no metric in common"):
        truerank.compare(*others)


def test_without_intervals_there_is_no_test() -> None:
    found = truerank.compare(*models(confidence=None)[:2])
    assert found.differences[0].p is None
    assert found.differences[0].reason == "a result was evaluated without intervals"
    assert all(row.ranks == (1, 2) for row in found.standings)


def test_a_finding_without_tests_says_nothing_about_significance() -> None:
    results = models(confidence=None, metrics=["map", "mrr"])
    for several in (results[:2], results):
        found = truerank.compare(*several)
        assert "(not tested)." in found.finding
        assert "significant" not in found.finding
    assert truerank.compare(*results[:2]).finding.endswith("None of 2 metrics has a test.")


def evaluate(seed: int = 4, **options: Any) -> truerank.Result:
    x, y = clusters(seed, **{k: v for k, v in options.items() if k in ("classes", "size")})
    rest = {k: v for k, v in options.items() if k not in ("classes", "size", "labels")}
    return truerank.evaluate(x, options.get("labels", y), **rest)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"classes": 31}, "different tasks: 180 and 186 queries"),
        ({"labels": np.repeat(np.arange(31, 61), 6)}, "the labels of the queries differ"),
        ({"average": "class"}, "evaluated differently: means over query and means over class"),
        ({"unmated": "zero"}, "unmated=report and unmated=zero"),
        ({"metrics": ["ndcg"]}, "no metric in common"),
    ],
)
def test_different_tasks_are_refused(other: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        truerank.compare(evaluate(), evaluate(**other))


def test_bad_arguments() -> None:
    one = evaluate()
    for call, words in (
        (lambda: truerank.compare(one), "at least two"),
        (lambda: truerank.compare(one, 3), "takes results, paths"),
        (lambda: truerank.compare(one, []), "list of runs is empty"),
        (lambda: truerank.compare(one, one, names=["a"]), "2 distinct names"),
        (lambda: truerank.compare(one, one, names=["a", "a"]), "2 distinct names"),
        (lambda: truerank.compare(one, one, metrics="ndcg"), "not in every result"),
        (lambda: truerank.compare(one, one, confidence=None), "must be a number"),
        (lambda: truerank.compare(one, one.by("label")[0]), "part of a result"),
    ):
        with pytest.raises(InputError, match=words):
            call()


def test_results_that_left_out_other_folds() -> None:
    rows, labels = clusters(3)
    whole = truerank.evaluate(rows, labels, metrics="map@r")
    data = whole.to_dict()
    data["scores"]["map@r"]["replicates"]["values"].pop()
    other = truerank.Result.from_dict(data)
    assert "other units" in truerank.compare(whole, other).differences[0].reason


@pytest.mark.parametrize("key", ["queries", "gallery", "average", "leave_one_out"])
def test_a_result_that_does_not_say_of_what_it_is(key: str) -> None:
    rows, labels = clusters(3)
    whole = truerank.evaluate(rows, labels, metrics="map@r")
    data = whole.to_dict()
    del data["provenance"][key]
    assert_refused(
        lambda: truerank.compare(whole, truerank.Result.from_dict(data)), ["damaged", key]
    )


def numbered_classes(labels: Any, **options: Any) -> list[truerank.Result]:
    """Rows of 40 classes of 4, and noisier ones, by the same labels."""
    rng = np.random.default_rng(5)
    rows = np.repeat(rng.normal(size=(40, 6)), 4, axis=0) + 0.7 * rng.normal(size=(160, 6))
    noisy = rows + 0.5 * rng.normal(size=rows.shape)
    given = {"metrics": ["map@r", "auc"], **options}
    return [truerank.evaluate(one, labels, **given) for one in (rows, noisy)]


@pytest.mark.parametrize("gallery", [False, True])
@pytest.mark.parametrize("given", ["labels", "ids", "labels, ids and groups"])
def test_integers_and_the_text_that_spells_them_are_one_task(given: str, gallery: bool) -> None:
    """As where both have integers: the same differences, to the last bit.

    The text of these sorts in another order (8, 9, 10), and classes are dealt to folds in order.
    """
    integers = np.repeat(np.arange(-3, 37), 4)
    options = {"query_ids": 995 + np.arange(160), "query_groups": np.arange(160) % 12}
    if gallery:
        options |= {"gallery_labels": integers, "gallery_ids": options["query_ids"]}
        options |= {"gallery_groups": 1 + options["query_groups"]}
    as_text = {
        name: [str(value) for value in values] if name.split("_")[1] in given else values
        for name, values in options.items()
    }
    rows = np.random.default_rng(1).normal(size=(160, 6))
    kept = {"gallery": rows, "confidence": 0.9} if gallery else {"confidence": 0.9}
    labels = [str(value) for value in integers] if "labels" in given else integers
    first, second = numbered_classes(integers, **options, **kept)
    mixed = numbered_classes(labels, **as_text, **kept)[1]
    assert mixed.provenance["task_digest"] == first.provenance["task_digest"]
    found = truerank.compare(first, mixed, names=["a", "b"]).to_dict()
    wanted = truerank.compare(first, second, names=["a", "b"]).to_dict()
    assert found["differences"] == wanted["differences"]


def test_other_text_is_another_task() -> None:
    """Of a number written otherwise, of another number, and of what is no number."""
    integers = np.repeat(np.arange(40), 4)
    first = numbered_classes(integers)[0]
    for text in ("0{}", "+{}", " {}", "{}.0", "a{}"):
        other = numbered_classes([text.format(value) for value in integers])[1]
        with pytest.raises(truerank.InputError, match="the labels of the queries differ"):
            truerank.compare(first, other)


def test_what_differs_in_the_gallery_is_said_to() -> None:
    labels = np.repeat(np.arange(40), 4)
    gallery = np.random.default_rng(1).normal(size=(160, 6))
    first = numbered_classes(labels, gallery=gallery, gallery_labels=labels)[0]
    text = [str(label) for label in labels]
    other = numbered_classes(text, gallery=gallery, gallery_labels=["0", *text[1:-1], "0"])[1]
    with pytest.raises(truerank.InputError, match="in the gallery or row by row"):
        truerank.compare(first, other)
