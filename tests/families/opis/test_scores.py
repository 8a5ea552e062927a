"""OPIS against its definition, its bounds, and its own brackets."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import truerank
from tests.builders import uneven_clusters
from tests.conftest import Within
from tests.oracles import openset
from tests.oracles import opis as oracle
from tests.random_tasks import cases
from truerank._util.settings import limits
from truerank._util.settings import settings as engine_settings
from truerank.core import registry
from truerank.engine import runner

EXAMPLES = 400 if settings().max_examples >= 10_000 else 25
NAMES = [
    "opis@far=0.1:0.6",
    "opis@c=2,far=0.1:0.6",
    "opis@far=0.1:0.6,utility=precision",
    "opis@c=2,far=0.1:0.6,utility=precision",
    "opis@eps=0.4,far=0.1:0.6",
]


@pytest.mark.thorough
@pytest.mark.parametrize("distance", ["cosine", "euclidean", "precomputed", "hamming"])
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_by_definition(distance: str, data: st.DataObject) -> None:
    case = data.draw(cases(distance))
    case.options.pop("junk", None)  # what is junk in one order only is another matter
    if case.leave_one_out:
        case.options.pop("junk_labels", None)
        if distance == "precomputed":
            case.embeddings = np.maximum(case.embeddings, case.embeddings.T)
    result = case.evaluate(metrics=NAMES)
    reference = case.evaluate(metrics=NAMES, device="reference")
    for name in NAMES:
        assert str(result[name]) == str(reference[name])
    if case.labels is None:
        assert all("relevance" in score.reason for score in result.values())
        return
    items = case.labels if case.leave_one_out else case.options["gallery_labels"]
    pairs = [
        (row[g], case.labels[q], items[g])
        for q, (row, query) in enumerate(zip(case.distances(), case.queries(), strict=True))
        for g in query.items
        if not case.leave_one_out or q < g
    ]
    classes = oracle.Classes(pairs)
    trials = [(d, a == b) for d, a, b in pairs]
    if {positive for _, positive in trials} != {True, False} or not classes.names:
        assert all(score.reason for score in result.values())
        return
    low, high = (openset.tar_at_far(trials, Fraction(x))[1] for x in ("0.1", "0.6"))
    if low is None:
        low = min(d for d, positive in trials if not positive)
    if high is None or low >= high:
        assert all("no thresholds lie" in score.reason for score in result.values())
        return

    def place(d: Fraction) -> float:
        return math.sqrt(d) if distance in ("cosine", "euclidean") else float(d)

    steps = [d for d, _, _ in pairs]
    for name in NAMES[:-1]:
        options = (2 if "c=2" in name else 1, "precision" in name)
        exact = oracle.mean_over(
            steps, low, high, place, lambda t, o=options: oracle.variance(classes, t, *o)
        )
        assert result[name].value == pytest.approx(exact, abs=1e-12), name
        assert result[name].bracket is None
        assert result[name].n == len(classes.names)
        assert result[name].value <= 0.25 + 1e-12
    exact = oracle.divide(classes, Fraction("0.4"), low, high, steps, place)
    assert result[NAMES[-1]].value == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize("setting", ["leave one out", "query and gallery"])
@pytest.mark.parametrize("name", ["opis", "opis@eps=0.1", "opis@utility=precision"])
def test_the_bracket_holds_the_exact_value(
    monkeypatch: pytest.MonkeyPatch, name: str, setting: str, within: Within
) -> None:
    rows, labels = uneven_clusters(3)
    more: dict[str, Any] = {}
    if setting == "query and gallery":
        more = {"gallery": rows[150:], "gallery_labels": labels[150:]}
        rows, labels = rows[:150], labels[:150]
    exact = truerank.evaluate(rows, labels, metrics=name, **more)[name]
    assert exact.bracket is None
    within(limits(breakpoints=0))
    within(engine_settings(collected=0))
    passes = []
    sweep = runner.sweep
    with monkeypatch.context() as patch:
        patch.setattr(runner, "sweep", lambda *a, **k: passes.append(1) or sweep(*a, **k))
        two_passes = truerank.evaluate(rows, labels, metrics=name, **more)[name]
    assert len(passes) == 1  # the thresholds and the classes between them, all in one
    forced = name + (",integral=exact" if "@" in name else "@integral=exact")
    assert truerank.evaluate(rows, labels, metrics=forced, **more)[forced].value == exact.value
    within(limits(sampled_from=0, sampled_rows=100))
    one_pass = truerank.evaluate(rows, labels, metrics=name, **more)[name]
    for score in (two_passes, one_pass):
        low, high = score.bracket
        assert low <= exact.value <= high
        assert 0 < high - low < 0.02 * exact.value
        assert low < score.value < high


def test_the_sampled_range_does_not_follow_the_order_of_rows(
    within: Within,
) -> None:
    """Rows are sampled by content: the bracket is the same bits in any order, too."""
    rows, labels = uneven_clusters(5)
    within(limits(breakpoints=0, sampled_from=0, sampled_rows=100))
    within(engine_settings(collected=0))
    names = ["opis", "opis@eps=0.1", "auc", "threshold@far=0.01"]
    expected = truerank.evaluate(rows, labels, metrics=names)
    order = np.random.default_rng(7).permutation(len(rows))
    with engine_settings(query_rows=37, gallery_rows=33):
        moved = truerank.evaluate(rows[order][:, ::-1], -labels[order], metrics=names, threads=3)
    for name in names:  # but for the replicates of comparisons, which go by the labels' names
        assert replace(moved[name], replicates=None) == replace(expected[name], replicates=None)
        assert moved[name].bracket == expected[name].bracket


@pytest.mark.parametrize("target", ["0", "0.00001", "0.0001"])
def test_a_rate_that_the_sample_does_not_resolve(target: str, within: Within) -> None:
    """The range begins where no pair of the sample lies: classes are counted in a second pass."""
    rows, labels = uneven_clusters(5)
    name = str(registry.parse(f"opis@far={target}:0.1"))
    exact = truerank.evaluate(rows, labels, metrics=name)[name].value
    within(limits(sampled_from=0, sampled_rows=100))
    assert truerank.evaluate(rows, labels, metrics=name)[name].value == exact
    within(limits(breakpoints=0))
    low, high = truerank.evaluate(rows, labels, metrics=name)[name].bracket
    assert low <= exact <= high


@pytest.mark.filterwarnings("ignore:relevant items rank far lower")
def test_eps_does_not_follow_the_names_of_labels() -> None:
    """Twelve of thirty classes, of which eighteen are tied for the last three places."""
    group = np.repeat([0, 1, 2], [9, 18, 3])
    labels = np.repeat(np.arange(30), 2)
    number = group[labels]
    apart = np.array([[0.53, 0.31, 0.38], [0.31, 0.36, 0.52], [0.38, 0.52, 0.33]])
    own = np.array([0.44, 0.52, 0.49])
    same = labels[:, None] == labels
    matrix = np.where(same, own[number], apart[number][:, number])
    name = "opis@eps=0.4,far=0.05:0.9"
    found = set()
    for seed in range(10):
        names = np.random.default_rng(seed).permutation(30)
        score = truerank.evaluate(matrix, names[labels], metrics=name, distance="precomputed")[name]
        found.add((score.value, score.interval))
    assert len(found) == 1
    assert None not in found.pop()


def test_the_bracket_of_eps_does_not_follow_the_names_of_labels(within: Within) -> None:
    """Seven classes a side, whose rates are no binary fractions, added up in another order."""
    rows, labels = uneven_clusters(3)
    within(limits(breakpoints=0))
    name = "opis@eps=0.27"
    found = set()
    for seed in range(6):
        names = np.random.default_rng(seed).permutation(int(labels.max()) + 1)
        found.add(truerank.evaluate(rows, names[labels], metrics=name)[name].bracket)
    assert len(found) == 1
    assert None not in found


@pytest.mark.parametrize("option", ["grid=20", "mean=pooled"])
def test_removed_options_say_so(option: str) -> None:
    name = option.partition("=")[0]
    said = f"the {name} option of opis was removed: .*; leave {name}= out"
    with pytest.raises(truerank.InputError, match=said):
        truerank.evaluate(np.eye(4), [0, 0, 1, 1], metrics=f"opis@far=0.05:0.5,{option}")


def test_a_result_of_before_that_names_a_removed_option_still_reads() -> None:
    rows, labels = uneven_clusters(3)
    kept = truerank.evaluate(rows, labels, metrics=["opis", "map"]).to_dict()
    kept["scores"]["opis@grid=20"] = kept["scores"].pop("opis")
    read = truerank.Result.from_dict(kept)
    assert "OPIS@grid=20" in str(read)
    assert "OPIS@grid=20" in read.to_markdown()


# --- the bounds of the paper ----------------------------------------------------------------------


def one_against_many(perfect: int, random: int, size: int) -> tuple[np.ndarray, list[str]]:
    """Pairs on [0, 2]: some classes without an error, the others with distances at random.

    Query i of a class meets one item of its own class and one of another, at places of an even
    grid; what belongs to two different queries is junk.
    """
    grid = (np.arange(size) + 0.5) * (2 / size)
    rows, labels, items, names = [], [], [], []
    for number in range(perfect + random):
        for step in range(size):
            own, other = (0.0, 2.0) if number < perfect else (grid[step], grid[-1 - step])
            rows += [own, other]
            labels.append(f"c{number}")
            items += [f"c{number}", f"x{number}.{step}"]
    count = len(labels)
    matrix = np.ones((count, 2 * count))
    junk = np.ones((count, 2 * count), bool)
    for q in range(count):
        matrix[q, 2 * q : 2 * q + 2] = rows[2 * q : 2 * q + 2]
        junk[q, 2 * q : 2 * q + 2] = False
        names.append(labels[q])
    return matrix, [names, items, junk]


def test_the_realistic_upper_bound() -> None:
    """One class in ten is perfect, the others random, thresholds from .8 to 1.2: .0231072.

    The paper's formula gives 9.12e-2 for it, which is wrong: U of a random class is d (1 - d/2).
    """
    matrix, (labels, items, junk) = one_against_many(1, 9, 100)
    # FAR of the pool at d is 0.9 d/2, so that .36 and .54 are .8 and 1.2
    name = "opis@far=0.36:0.54"
    result = truerank.evaluate(
        matrix, labels, gallery_labels=items, junk=junk, distance="precomputed", metrics=name
    )
    assert result[name].value == pytest.approx(0.0231072, rel=0.001)
    assert result.consistency().low == pytest.approx(0.8, abs=0.02)
    assert result.consistency().high == pytest.approx(1.2, abs=0.02)


def test_the_absolute_upper_bound() -> None:
    """Half of the classes right and half wrong: .25, not the paper's .5."""
    matrix = np.array([[0.0, 3.0, 1, 2], [0.0, 3.5, 2, 1], [5, 4, 5.0, 0.5], [4, 5, 5.0, 0.6]])
    labels, items = ["a", "a", "b", "b"], ["a", "x", "b", "y"]
    junk = np.array([[0, 0, 1, 1], [0, 0, 1, 1], [1, 1, 0, 0], [1, 1, 0, 0]], bool)
    name = "opis@far=0.5:0.75"
    result = truerank.evaluate(
        matrix, labels, gallery_labels=items, junk=junk, distance="precomputed", metrics=name
    )
    assert result[name].value == 0.25


# --- beside the number ----------------------------------------------------------------------------


def test_what_stands_beside_it() -> None:
    rows, labels = uneven_clusters(9)
    result = truerank.evaluate(rows, labels, metrics=["opis", "threshold@far=0.01"])
    report = result.consistency()
    assert report.classes == 25
    assert report.left_out == 5
    assert report.low == result["threshold@far=0.01"].value
    assert 0 < report.noise < result["opis"].value
    means = [one.mean for one in report.ranked]
    assert means == sorted(means)
    assert len(means) == 25
    for one in report.ranked:
        assert one.mean <= one.best <= 1
        assert report.low <= one.best_threshold <= report.high
    text = " ".join(result.notes)
    assert "25 classes" in text
    assert "noise" in text
    with pytest.raises(truerank.InputError, match="opis"):
        truerank.evaluate(rows, labels, metrics="map").consistency()


def test_classes_that_differ_by_chance_only_stay_near_the_noise() -> None:
    """All classes alike: what OPIS sees is mostly the noise floor; unlike ones stand out."""
    rng = np.random.default_rng(1)
    labels = np.repeat(np.arange(40), 8)
    data = rng.normal(size=(40, 30))[labels] + 1.5 * rng.normal(size=(320, 30))
    alike = truerank.evaluate(data, labels, metrics="opis")
    assert alike["opis"].value < 6 * alike.consistency().noise


@settings(max_examples=30)
@given(st.integers(0, 10**6))
def test_between_zero_and_a_quarter(seed: int) -> None:
    rows, labels = uneven_clusters(seed, 60, 6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", truerank.TruerankWarning)
        result = truerank.evaluate(rows, labels, metrics=["opis", "opis@eps=0.5"])
    assert 0 <= result["opis"].value <= 0.25
    assert 0 <= result["opis@eps=0.5"].value <= 1
