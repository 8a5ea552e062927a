"""Errors found in the papers: the arithmetic of the notes, from the papers' printed numbers."""

from __future__ import annotations

import math
from fractions import Fraction
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from studies.page import read_page

import truerank
from truerank.benchmark.config import read
from truerank.datasets.catalogue import find

PAGES = Path(__file__).parents[2] / "docs/results/reproduce"
NOTES = {
    name: import_module("studies." + name.replace("-", "_")).NOTES
    for name in ("ties", "gom", "happier", "tcm", "reality-check")
}


def note(paper: str, start: str) -> str:
    """The one note of a paper that has these words."""
    [found] = [one for one in NOTES[paper] if start in one]
    return found


@pytest.mark.parametrize("paper", NOTES)
def test_pages_and_summary_have_every_note(paper: str) -> None:
    assert tuple(read_page(PAGES / f"{paper}.json").notes) == NOTES[paper]
    summary = (PAGES / "summary.md").read_text(encoding="utf-8")
    page = (PAGES / f"{paper}.md").read_text(encoding="utf-8")
    for one in NOTES[paper]:
        assert f"- {one}\n" in page
        assert f"- {one}\n" in summary


# --- ties -----------------------------------------------------------------------------------------


def expected_precision(items: int, relevant: int, ahead: int) -> float:
    """The expected sum of precisions at relevant items behind `ahead` irrelevant ones."""
    one = relevant / items
    two = one * (relevant - 1) / (items - 1)
    return math.fsum((one + i * two) / (i + 1 + ahead) for i in range(items))


def test_the_mean_of_random_systems_is_that_of_a_wrong_divisor() -> None:
    items, relevant = 999, 99
    whole = expected_precision(items, relevant, 0)
    wrong_first = (1 - relevant / items) * expected_precision(items - 1, relevant, 1)
    right_first = whole - wrong_first
    right = 100 * whole / relevant
    released = 100 * (right_first / relevant + wrong_first / (relevant + 1))
    zeros = truerank.evaluate(
        np.zeros((1000, 2)), np.arange(1000) % 10, metrics="map", confidence=None
    )
    assert right == pytest.approx(100 * zeros["map"].expected, rel=1e-12)
    text = note("ties", "30 random systems")
    assert f"the expectation with this division is {released:.3f} %" in text
    assert f"The expectation of AP is {right:.3f} %" in text
    error = 0.053 / math.sqrt(30)
    assert f"= {error:.4f} points".replace("= 0", "= ") in text
    assert right > 10.45 + 4 * error
    assert abs(released - 10.4) < 0.05


def test_the_900th_query() -> None:
    text = note("ties", "900th query")
    [sheet] = [one for one in read_page(PAGES / "ties.json").sheets if "released code" in one.title]
    low, high = (float(cell.split()[0]) for cell in sheet.rows[-1][2:])
    assert f"900 x {high} is {900 * high - 899 * low:.1f} more than 899 x {low}" in text


@pytest.mark.parametrize(("recall", "precision", "released"), [(1.0, 1.0, 1.0), (0.0, 0.0, None)])
def test_rules_for_queries_without_a_relevant_item(
    recall: float, precision: float, released: float | None
) -> None:
    """The mean of precisions where recall rises, for the constants that the released code sets."""
    recalls = [0.0, *[recall] * 3]
    steps = [precision for a, b in pairwise(recalls) if b > a]
    assert (sum(steps) / len(steps) if steps else None) == released
    assert "AP is 0/0" in note("ties", "four rules")
    matrix, labels = [[0.1, 0.2], [0.1, 0.2]], ["a", "x"]
    given = {"gallery_labels": ["a", "b"], "distance": "precomputed", "confidence": None}
    for rule, value in (("report", 1.0), ("zero", 0.5)):
        found = truerank.evaluate(matrix, labels, metrics="map", unmated=rule, **given)
        assert found["map"].value == value


def test_only_one_epsilon_is_10_000_times_the_other() -> None:
    assert Fraction(1, 10**6) / Fraction(1, 10**10) == 10_000
    assert Fraction(1, 10**5) / Fraction(1, 10**10) == 100_000


# --- GOM ------------------------------------------------------------------------------------------

USERS = {  # Table 3's and Table 5's MREP on Market-1501, the rating of users
    "MobileNetV2": (43.7, 44.7, 2.26),
    "HA-CNN": (46.3, 47.4, 2.37),
    "AlignedReID": (53.7, 55.1, 3.53),
    "FastReID": (52.9, 53.9, 4.12),
    "AGW": (54.8, 55.7, 4.32),
}


def test_mrep_of_the_user_study() -> None:
    text = note("gom", "Table 5")
    first, second, ratings = zip(*USERS.values(), strict=True)
    assert f"{', '.join(map(str, second))} instead of {', '.join(map(str, first))}" in text
    gaps = [f"{b - a:.1f}".removeprefix("0") for a, b in zip(first, second, strict=True)]
    assert f"{min(gaps)} to {max(gaps)} more" in text
    for scores in (first, second):
        assert scores[2] > scores[3]
    assert ratings[2] < ratings[3]
    [sheet] = [one for one in read_page(PAGES / "gom.json").sheets if "released" in one.title]
    place = sheet.header.index("MREP")
    known = {f"{float(row[place]):.1f}" for row in sheet.rows if "market" in row[0]}
    assert known >= set(map(str, first))
    assert not known >= set(map(str, second))


def test_images_of_market_1501() -> None:
    parts = find("market-1501").expected
    total = parts["train"][0] + parts["gallery"][0]
    assert f"add up to {total:,}" in note("gom", "32,688")
    assert total != 32_688


# --- HAPPIER --------------------------------------------------------------------------------------


def test_gains_of_the_text_and_of_the_tables() -> None:
    gains = note("happier", "12.7 points")
    pairs = ((47.9, 37.2), (37.0, 32.0), (43.8, 42.6), (38.0, 36.9), (91.5, 88.1))
    for ours, other in pairs:
        assert f"{ours} - {other} = {ours - other:.1f}" in gains


def test_precision_at_all_ranks_is_no_average_precision() -> None:
    labels = {"gallery_labels": ["a", "b"], "distance": "precomputed", "confidence": None}
    matrix, first = np.array([[0.1, 0.2]]), [1, Fraction(1, 2)]
    assert "1 + 1/2" in note("happier", "formula of AP")
    assert sum(first) == Fraction(3, 2)
    assert truerank.evaluate(matrix, ["a"], metrics="map", **labels)["map"].value == 1


# --- TCM ------------------------------------------------------------------------------------------


def test_the_realistic_bound() -> None:
    alpha, text = 0.1, note("tcm", "9.12e-2")

    def bound(low: float, high: float) -> tuple[float, float, float]:
        """By definition of a variance over classes, by our formula, by the paper's second line."""
        at = np.linspace(low, high, 20_001)
        random = at * (1 - at / 2)
        mean = alpha + (1 - alpha) * random
        variance = (1 - alpha) * (mean - random) ** 2 + alpha * (1 - mean) ** 2
        ours = alpha * (1 - alpha) / 4 * (1 + (at - 1) ** 2) ** 2
        theirs = alpha * (1 - alpha) * (1 + (at - 1) ** 2)
        return variance.mean(), ours.mean(), theirs.mean()

    def last_step(low: float, high: float) -> float:
        return alpha * (1 - alpha) / 3 * (high**2 + low**2 + high * low)

    exact, ours, theirs = bound(0.8, 1.2)
    assert exact == pytest.approx(ours, rel=1e-12)
    assert f"{exact:.2e}".replace("e-0", "e-") in text
    assert f"{last_step(0.8, 1.2):.2e}".replace("e-0", "e-") in text
    assert theirs == pytest.approx(last_step(0.8, 1.2), rel=1e-3)
    exact, ours, theirs = bound(0.5, 1.0)
    assert exact == pytest.approx(ours, rel=1e-12)
    assert abs(theirs / last_step(0.5, 1.0) - 1) > 0.5


@pytest.mark.parametrize("t", [-5.0, -0.5, 0.0, 1.0])
def test_the_approximation_of_utilities(t: float) -> None:
    own, other = math.erf(t), math.erf(-6)  # erf(t_neg) is -1
    by_rates = (1 + own) * (1 - other) / (2 + own - other)  # Eq. 9
    by_precision = 2 * (1 + own) / (4 + own + other)  # Eq. 10
    right, printed = 2 * (1 + own) / (3 + own), 2 / (3 + own)
    assert by_rates == pytest.approx(right, abs=1e-9)
    assert by_precision == pytest.approx(right, abs=1e-9)
    assert (right == pytest.approx(printed)) == (t == 0)
    assert "2 (1 + erf(t_pos)) / (3 + erf(t_pos)), which is 1 for erf(t_pos) = 1" in note(
        "tcm", "approximation"
    )


def test_the_average_utility() -> None:
    alpha, d = 0.1, 0.8
    assert "the mean utility is (1 - alpha) d (1 - d/2) + alpha" in note("tcm", "Eq. 13")
    classes = [1.0] * 10 + [d * (1 - d / 2)] * 90
    assert np.mean(classes) == pytest.approx((1 - alpha) * d * (1 - d / 2) + alpha)
    assert np.mean(classes) != pytest.approx((1 - alpha) * (1 - d / 2) + alpha)  # as printed


def test_images_of_cars() -> None:
    counts, text = find("cars-196").expected, note("tcm", "Table 1")
    (train, train_classes), (test, test_classes) = counts["train"], counts["test"]
    assert f"{train:,} and {test:,} images" in text
    official = find("cars-196-official").expected
    wanted = [official[split][0] for split in ("train", "test")]
    assert " and ".join(f"{images:,}" for images in wanted) in text
    assert (train_classes, test_classes) == (98, 98)
    assert [f"{n / 196:.1f}" for n in (train, test)] == ["41.1", "41.5"]  # its images per class
    assert train + test == sum(wanted)


def test_gains_of_vit_b() -> None:
    assert f"84.8 - 83.9 = {84.8 - 83.9:.1f}".replace("= 0.", "= .") in note("tcm", "HMC")


@pytest.mark.parametrize(("margin", "distance"), [(0.9, math.sqrt(0.2)), (0.5, 1.0), (0.0, 2**0.5)])
def test_margins_and_distances(margin: float, distance: float) -> None:
    """Section 4 has the range sqrt(2 - 2m); A.3.1's formula is not its inverse."""
    assert distance == pytest.approx(math.sqrt(2 - 2 * margin))
    assert margin == pytest.approx(1 - distance**2 / 2)
    printed = math.sqrt(max(0.0, 2 - distance**2)) / 2
    assert (printed == pytest.approx(margin, abs=1e-7)) == (margin in (0.5, 0.0))
    assert "m+ = 1 - d_min^2/2" in note("tcm", "A.3.1")


# --- the Reality Check ----------------------------------------------------------------------------


def test_no_negative_is_closer_than_the_hardest_one() -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(24) % 4
    rows = rng.normal(size=(24, 8))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    scores, same = rows @ rows.T, labels[:, None] == labels
    hardest = np.where(same, -np.inf, scores).max(axis=1, keepdims=True)
    assert not (~same & (scores > hardest)).any()
    positive = np.where(same & ~np.eye(24, dtype=bool), scores, np.inf).min(axis=1, keepdims=True)
    assert (~same & (scores > positive)).any()


def test_the_smallest_crop() -> None:
    text = note("reality-check", "3.1")
    assert f"40/256 = {40 / 256:.3f}".replace("= 0", "= ") in text
    assert f"sqrt(.16) x 256 = {math.sqrt(0.16) * 256:.0f}" in text
    assert read("reality-check/table-3").shared.augmentation.scale[0] == 0.16
