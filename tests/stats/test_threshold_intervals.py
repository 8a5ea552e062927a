"""Intervals of threshold metrics: replicates against evaluations without each share, reasons."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import truerank
from truerank._util.settings import limits
from truerank.core.jackknife import FoldAssignment, Replicates
from truerank.intervals import estimation
from truerank.intervals.interval import ends

EXACT = [
    "tar@tau=0.5",
    "fnmr@tau=0.5",
    "dir@rank=5,tau=0.3",
    "fnir@rank=5,tau=0.3",
    "ttr@tau=0.3",
    "far@tau=0.3",
    "mrep@tau=0.3",
    "mrep@fp=frozen,tau=0.3",
    "mrep@integral=trapezoid",
    "mrep@fp=frozen,integral=trapezoid",
    "mvp@tau=0.3",
    "mvp@fp=frozen,tau=0.3",
    "mrp@tau=0.3",
    "mfr@b=5",
    "mfr@b=5,tau=0.3",
    "mfr@b=5,integral=trapezoid",
    "mfr",
]
"""Without a share these are exactly what an evaluation of the rest gives."""
NEARLY = [
    "auc",
    "eer",
    "min_dcf@p=0.5",
    "best_f1",
    "tar@far=0.1",
    "fnmr@far=0.1",
    "threshold@far=0.1",
    "fmr@tau=0.5",
    "mrep",
    "mrep@fp=frozen",
    "mrep_max",
    "mvp_max",
    "mrep_max@fp=frozen",
    "mvp_max@fp=frozen",
    "mrep_max@fp=frozen,integral=trapezoid",
    "mvp_max@integral=trapezoid",
    "opis",
    "opis@eps=0.1",
    "opis@far=0.05:0.5,frr=0.3",
    "opis@c=2,far=0.05:0.5,utility=precision",
]
"""These by counts on cells, or with pairs inside a share weighed a little off."""


def clusters(seed: int, classes: int = 40, strangers: int = 45) -> tuple[np.ndarray, np.ndarray]:
    """Classes of five with ties, and rows that are alone."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes), 5)
    x = rng.standard_normal((classes, 12))[labels] + 1.1 * rng.standard_normal((len(labels), 12))
    labels[: 4 * strangers : 4] = 100 + np.arange(strangers)
    return np.rint(4 * x), labels


def sides(x: np.ndarray, y: np.ndarray, separate: bool) -> tuple[Any, Any, dict[str, Any]]:
    if not separate:
        return x, y, {}
    return x[::2], y[::2], {"gallery": x[1::2], "gallery_labels": y[1::2]}


@pytest.fixture
def dealings(monkeypatch: pytest.MonkeyPatch) -> list[FoldAssignment]:
    """How the classes were dealt."""
    found: list[FoldAssignment] = []
    for name in ("deal", "deal_queries"):
        original = getattr(estimation, name)

        def kept(*arguments: Any, deal: Any = original) -> Any:
            found.append(deal(*arguments))
            return found[-1]

        monkeypatch.setattr(estimation, name, kept)
    return found


@pytest.mark.parametrize("average", ["query", pytest.param("class", marks=pytest.mark.slow)])
@pytest.mark.parametrize("separate", [False, True])
def test_replicates_are_the_scores_of_what_is_left(
    separate: bool, average: str, dealings: list[FoldAssignment]
) -> None:
    x, y, gallery = sides(*clusters(1), separate)
    names = [*EXACT, *NEARLY]
    result = truerank.evaluate(x, y, metrics=names, average=average, **gallery)
    share = dealings[-1].query[:, 0]
    columns = dealings[-1].columns
    assert dealings[-1].singly
    assert set(share) == set(range(columns))
    parts = []
    for k in range(columns):
        left = share != k
        parts.append(
            truerank.evaluate(
                x[left], y[left], metrics=names, average=average, confidence=None, **gallery
            )
        )
    for name in names:
        replicates = result[name].replicates
        if replicates is None:  # a mean over queries, which are drawn
            assert separate
            assert result[name].interval is not None
            continue
        expected = Replicates(tuple(part[name].value for part in parts))
        if name in EXACT:
            assert replicates.values == pytest.approx(expected.values, abs=1e-12), name
            continue
        together = np.corrcoef(replicates.values, expected.values)[0, 1]
        assert together > (0.8 if "eps" in name or name.startswith("threshold") else 0.9), name
        ratio = replicates.standard_error() / expected.standard_error()
        # a threshold and a crossing jump from pair to pair, where their replicates slide
        assert (0.5 if name.startswith(("threshold", "eer")) else 0.85) < ratio < 1.15, name


@pytest.mark.parametrize("average", ["query", "class"])
@pytest.mark.parametrize("separate", [False, True])
def test_thresholds_set_by_a_rate_move_as_in_many_subsets(separate: bool, average: str) -> None:
    """Without a tenth of the classes at a time: a single one moves a quantile by an accident."""
    names = ["dir@far=0.25", "dir@far=0.25,rank=5", "ttr@far=0.25"]
    rng = np.random.default_rng(6)
    labels = np.append(np.repeat(np.arange(60), 4), 60 + np.arange(120))
    centres = rng.standard_normal((180, 12))
    x = centres[labels] + 0.5 * rng.standard_normal((len(labels), 12))
    gallery: dict[str, Any] = {"metrics": names, "average": average}
    if separate:
        items = centres[labels[:240]] + 0.5 * rng.standard_normal((240, 12))
        gallery |= {"gallery": items, "gallery_labels": labels[:240]}
    whole = truerank.evaluate(x, labels, **gallery)
    gone, draws = 18, 80
    moves = dict.fromkeys(names, 0.0)
    for _ in range(draws):
        left = ~np.isin(labels, rng.choice(180, gone, replace=False))
        for name, part in truerank.evaluate(
            x[left], labels[left], confidence=None, **gallery
        ).items():
            moves[name] += (part.value - whole[name].value) ** 2 / draws
    for name in names:
        expected = math.sqrt((180 - gone) / gone * moves[name])  # the delete-d jackknife
        ratio = whole[name].replicates.standard_error() / expected
        assert 0.65 < ratio < 1.55, (name, ratio)


@pytest.mark.parametrize("separate", [False, True])
def test_other_metrics_do_not_move_an_interval(separate: bool) -> None:
    x, y, gallery = sides(*clusters(2), separate)
    names = [*EXACT, *NEARLY, "dir@far=0.25", "ttr@far=0.25"]
    together = truerank.evaluate(x, y, metrics=names, **gallery)
    for name in names[::3]:
        alone = truerank.evaluate(x, y, metrics=name, **gallery)
        assert alone[name].interval == together[name].interval, name
        assert alone[name].replicates == together[name].replicates, name


@pytest.mark.parametrize("separate", [False, True])
def test_models_are_compared_by_threshold_metrics(separate: bool) -> None:
    """A model with more noise is told apart; a model is not told from itself."""
    x, y, gallery = sides(*clusters(3), separate)
    names = ["auc", "tar@far=0.1", "ttr@far=0.25", "mrep_max", "opis@far=0.05:0.5"]
    good = truerank.evaluate(x, y, metrics=names, **gallery)
    rng = np.random.default_rng(0)
    bad = truerank.evaluate(x + rng.normal(0, 6, x.shape), y, metrics=names, **gallery)
    found = truerank.compare(good, bad)
    for row in found.differences:
        low, high = row.interval
        assert low < row.value < high
    assert found.differences[0].p < 0.001
    assert all(row.p == 1 for row in truerank.compare(good, good).differences)


def test_thresholds_keep_their_unit_in_tables() -> None:
    x, y = clusters(9)
    name = "threshold@far=0.1"
    one, two = (
        truerank.evaluate(rows, y, metrics=name, distance="euclidean") for rows in (x, 2 * x)
    )
    low, high = one[name].interval
    assert f"{low:.6g} to {high:.6g}" in str(one)
    found = truerank.compare(one, two)
    assert f"{one[name].value:.6g}" in str(found)
    assert f"-{one[name].value:.6g}" in str(found)  # twice as large is as much more


def test_a_sample_of_queries_measures_what_everybody_would() -> None:
    x, y = clusters(4)
    whole = truerank.evaluate(x, y, metrics="mrep@tau=0.3")["mrep@tau=0.3"].replicates
    with limits(observed_pairs=0):
        part = truerank.evaluate(x, y, metrics="mrep@tau=0.3")["mrep@tau=0.3"].replicates
    assert whole.noise == 0 < part.noise
    off = sum((p - q) ** 2 for p, q in zip(whole.values, part.values, strict=True))
    assert 0.1 * part.noise < off < 5 * part.noise


@pytest.mark.parametrize("square", [False, True])
def test_judgements_draw_queries(square: bool) -> None:
    """Without labels the gallery stays, even where it is the queries themselves."""
    rng = np.random.default_rng(13)
    relevant = rng.random((60, 60)) < 0.1
    relevant = np.triu(relevant, 1) | np.triu(relevant, 1).T
    scores = rng.random((60, 60)) + 0.5 * relevant
    rows: dict[str, Any] = {"relevance": relevant, "distance": "similarity"}
    if square:
        scores, rows = rng.standard_normal((60, 8)), {"relevance": relevant}
    names = ["auc", "eer", "tar@far=0.1"]
    result = truerank.evaluate(scores, metrics=names, **rows)
    for name in names:
        low, high = result[name].interval
        assert low < result[name].value < high, name
    assert result.provenance["intervals"]["truth"] == "conditional on this gallery"
    assert "the queries, each left out" in result.provenance["intervals"]["method"]


# --- where there is none --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("tar@far=0.0001", "1 negative pair below its threshold"),
        ("dir@far=0.05", "unmated queries below its threshold"),
        ("tau_max", "the place of a maximum jumps"),
        ("tau_nz", "the smallest of all distances"),
        ("mrep@scale=minmax", "scale=minmax follows"),
    ],
)
def test_reasons(name: str, words: str) -> None:
    x, y = clusters(5)
    score = truerank.evaluate(x, y, metrics=name)[name]
    assert score.interval is None
    assert words in score.interval_reason
    assert score.value >= 0


@pytest.mark.parametrize("separate", [False, True])
def test_few_classes_have_no_interval(separate: bool) -> None:
    classes = 29 if separate else 9
    x, y, gallery = sides(*clusters(6, classes=classes, strangers=0), separate)
    names = ["auc", "fmr@tau=0.5", "mrep", "mrep_max", "opis", "ttr@tau=0.3"]
    for score in truerank.evaluate(x, y, metrics=names, **gallery).values():
        assert score.interval is None
        assert f"{classes} classes" in score.interval_reason
    x, y = clusters(6, classes=20, strangers=0)
    score = truerank.evaluate(x, y, metrics="opis")["opis"]
    assert "20 classes to compare" in score.interval_reason


def test_impostors_of_few_classes_have_no_interval() -> None:
    x, y = clusters(7, strangers=9)
    for name in ("far@tau=0.3", "mfr@b=5"):
        reason = truerank.evaluate(x, y, metrics=name)[name].interval_reason
        assert "9 classes" in reason
        assert "at least 10" in reason


def test_a_perfect_score_has_no_interval() -> None:
    _, y = clusters(8, strangers=0)
    result = truerank.evaluate(np.eye(40)[y], y, metrics=["auc", "eer", "mrep_max"])
    for score in result.values():
        assert score.interval is None
        assert "the spread cannot be estimated" in score.interval_reason


# --- ends and degrees of freedom ------------------------------------------------------------------


def test_steep_ends_are_even_in_log_odds() -> None:
    for value, error in ((0.5, 0.1), (0.03, 0.02), (0.98, 0.01), (0.999, 0.3)):
        low, high = ends(value, error, 2.1, (0.0, 1.0), steep=True)
        assert 0 <= low < value < high <= 1
        if high < 1:
            odds = [math.log(p / (1 - p)) for p in (low, value, high)]
            assert odds[1] - odds[0] == pytest.approx(odds[2] - odds[1], rel=1e-6)
            assert odds[2] - odds[1] == pytest.approx(2.1 * error / (value * (1 - value)), rel=1e-6)
    assert ends(3.0, 0.5, 2.0, (-math.inf, math.inf), steep=True) == (2.0, 4.0)


def test_freedom_falls_where_one_share_moves_the_score() -> None:
    even = Replicates((0.4, 0.6) * 10)
    assert even.heavy_freedom == even.freedom == 19
    one = Replicates((0.5,) * 19 + (0.6,))
    assert one.heavy_freedom == 3 < one.freedom
    normal = Replicates(tuple(np.random.default_rng(0).standard_normal(20).tolist()))
    assert 10 <= normal.heavy_freedom <= 19
