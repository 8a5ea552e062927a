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
from tests.conftest import Within
from tests.oracles import openset
from tests.oracles import opis as oracle
from tests.test_brute_force import cases
from truerank import engine
from truerank.engine import settings as engine_settings
from truerank.families.family import Positives
from truerank.families.opis.sampled import draw
from truerank.organise import Task
from truerank.settings import limits
from truerank.space import build

EXAMPLES = 400 if settings().max_examples >= 10_000 else 25
NAMES = [
    "opis@far=0.1:0.6",
    "opis@c=2,far=0.1:0.6",
    "opis@far=0.1:0.6,utility=precision",
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
    for name, c, precise in (*zip(NAMES[:3], (1, 2, 1), (False, False, True), strict=True),):
        exact = oracle.mean_over(
            steps, low, high, place, lambda t, c=c, p=precise: oracle.variance(classes, t, c, p)
        )
        assert result[name].value == pytest.approx(exact, abs=1e-12), name
        assert result[name].bracket is None
        assert result[name].n == len(classes.names)
        assert result[name].value <= 0.25 + 1e-12
    exact = oracle.divide(classes, Fraction("0.4"), low, high, steps, place)
    assert result[NAMES[3]].value == pytest.approx(exact, abs=1e-9)


def clusters(seed: int, rows: int = 400, classes: int = 25) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=rows)
    noise = rng.uniform(0.5, 1.5, size=classes)[labels, None]
    data = rng.normal(size=(classes, 10))[labels] + noise * rng.normal(size=(rows, 10))
    labels[:5] = 1000 + np.arange(5)
    return data, labels


@pytest.mark.parametrize("setting", ["leave one out", "query and gallery"])
@pytest.mark.parametrize(
    "name",
    ["opis", "opis@eps=0.1", "opis@mean=pooled", "opis@utility=precision", "opis@grid=50"],
)
def test_the_bracket_holds_the_exact_value(
    monkeypatch: pytest.MonkeyPatch, name: str, setting: str, within: Within
) -> None:
    rows, labels = clusters(3)
    more: dict[str, Any] = {}
    if setting == "query and gallery":
        more = {"gallery": rows[150:], "gallery_labels": labels[150:]}
        rows, labels = rows[:150], labels[:150]
    exact = truerank.evaluate(rows, labels, metrics=name, **more)[name]
    assert exact.bracket is None
    within(limits(breakpoints=0))
    within(engine_settings(collected=0))
    passes = []
    sweep = engine.sweep
    with monkeypatch.context() as patch:
        patch.setattr(engine, "sweep", lambda *a, **k: passes.append(1) or sweep(*a, **k))
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
    rows, labels = clusters(5)
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


# --- negatives drawn at random --------------------------------------------------------------------


def drawn(rows: np.ndarray, labels: np.ndarray, each: int, seed: int = 0, **options: Any) -> Any:
    task, space = Task(labels, **options), build("cosine", rows)
    return draw(task, space, Positives.of(task.view, space), each, seed)


def by_class(rows: np.ndarray, labels: np.ndarray) -> dict[Any, tuple[list[Any], list[Any]]]:
    """Exact distances of the positives and negatives of every class, by hand."""
    space = build("cosine", rows)
    i, j = np.triu_indices(len(rows), 1)
    distance = space.pairs(i, j)
    same = labels[i] == labels[j]
    found = {}
    for name in np.unique(labels):
        ours = (labels[i] == name) | (labels[j] == name)
        found[name] = (distance[ours & same].tolist(), distance[ours & ~same].tolist())
    return found


def test_ten_negatives_for_each_positive() -> None:
    """So many, none twice, each of them a negative of its class."""
    rows, labels = clusters(21, 150, 12)
    sample = drawn(rows, labels, 3)
    names = np.unique(labels)
    for number, (positives, negatives) in enumerate(by_class(rows, labels).values()):
        mine = sample.distance[sample.code == number].tolist()
        assert len(mine) == min(3 * len(positives), len(negatives)), names[number]
        assert len(set(mine)) == len(mine)  # these distances are distinct
        assert set(mine) <= set(negatives)
    assert drawn(rows, labels, 3, seed=1).distance.tolist() != sample.distance.tolist()


@pytest.mark.parametrize("name", ["opis@far=0.1:0.6,negatives=2", "opis@negatives=2,seed=5"])
def test_sampled_by_definition(name: str) -> None:
    rows, labels = clusters(22, 90, 8)
    seed = 5 if "seed" in name else 0
    sample = drawn(rows, labels, 2, seed)
    names, known = np.unique(labels), by_class(rows, labels)
    classes = oracle.Classes([])
    classes.positives = {n: [Fraction(d) for d in known[n][0]] for n in names}
    classes.negatives = {
        n: [Fraction(d) for d in sample.distance[sample.code == i]] for i, n in enumerate(names)
    }
    classes.names = [n for n in names if classes.positives[n] and classes.negatives[n]]
    trials = [(d, True) for n in names for d in classes.positives[n]]
    trials += [(d, False) for n in names for d in classes.negatives[n]]
    targets = ("0.1", "0.6") if "far" in name else ("0.01", "0.1")
    low, high = (openset.tar_at_far(trials, Fraction(x))[1] for x in targets)
    exact = oracle.mean_over(
        [d for d, _ in trials], low, high, math.sqrt, lambda t: oracle.variance(classes, t)
    )
    score = truerank.evaluate(rows, labels, metrics=name)[name]
    assert score.value == pytest.approx(exact, abs=1e-12)
    assert score.n == len(classes.names) == 8


def test_with_all_negatives_drawn_it_is_opis() -> None:
    rows, labels = clusters(23, 120, 10)
    rows, labels = rows[5:], labels[5:]  # a class of one has no positives to draw for
    result = truerank.evaluate(rows, labels, metrics=["opis", "opis@negatives=10000"])
    assert result["opis@negatives=10000"].value == pytest.approx(result["opis"].value, abs=1e-15)


def test_how_many_are_drawn_at_a_time_cannot_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, labels = clusters(27, 90, 8)
    whole = drawn(rows, labels, 4)
    monkeypatch.setattr("truerank.families.opis.sampled._CHUNK", 7)
    parts = drawn(rows, labels, 4)
    assert parts.distance.tolist() == whole.distance.tolist()
    assert parts.code.tolist() == whole.code.tolist()


def test_every_negative_has_the_same_chance() -> None:
    rows, labels = clusters(24, 60, 5)
    number = np.unique(labels).tolist().index(labels[30])
    negatives = np.sort(by_class(rows, labels)[labels[30]][1])
    times = np.zeros(len(negatives))
    for seed in range(400):
        sample = drawn(rows, labels, 1, seed)
        times[np.searchsorted(negatives, sample.distance[sample.code == number])] += 1
    share = times.sum() / times.size / 400
    spread = np.sqrt(400 * share * (1 - share))
    assert np.abs(times - 400 * share).max() < 4.5 * spread


def test_pairs_that_never_meet_are_not_drawn() -> None:
    rows, labels = clusters(25, 80, 6)
    ids = np.arange(80) // 2
    sample = drawn(rows, labels, 10000, ids=ids)
    apart = build("cosine", rows).pairs(np.arange(0, 80, 2), np.arange(1, 80, 2))
    assert not set(sample.distance.tolist()) & set(apart.tolist())


def test_sampling_is_refused_where_it_makes_no_sense(within: Within) -> None:
    rows, labels = clusters(26, 60, 5)
    with pytest.raises(truerank.InputError, match="seed without negatives"):
        truerank.evaluate(rows, labels, metrics="opis@seed=1")
    with pytest.raises(truerank.InputError, match="both negatives and mean"):
        truerank.evaluate(rows, labels, metrics="opis@negatives=10,mean=pooled")
    with pytest.raises(truerank.InputError, match="int >= 1"):
        truerank.evaluate(rows, labels, metrics="opis@negatives=0")
    name = "opis@negatives=10"
    other = truerank.evaluate(
        rows[:30], labels[:30], gallery=rows[30:], gallery_labels=labels[30:], metrics=name
    )
    assert "a gallery of its own" in other[name].reason
    within(limits(drawn=100))
    assert "at most 100 are held" in truerank.evaluate(rows, labels, metrics=name)[name].reason


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
    rows, labels = clusters(9)
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
    text = str(result)
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
    rows, labels = clusters(seed, 60, 6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", truerank.TruerankWarning)
        result = truerank.evaluate(rows, labels, metrics=["opis", "opis@eps=0.5"])
    assert 0 <= result["opis"].value <= 0.25
    assert 0 <= result["opis@eps=0.5"].value <= 1
