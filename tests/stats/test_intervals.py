"""Intervals: the counts behind them against a second evaluation, and what may not move them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import truerank
from tests.builders import clusters
from truerank._util.errors import InputError
from truerank._util.settings import limits
from truerank.core import metric as definitions
from truerank.core import registry
from truerank.core.jackknife import FEWEST_CLASSES, Replicates
from truerank.core.metric import DEFINITIONS, Metric, RankingDefinition, Scale
from truerank.core.tie_groups import TieGroups
from truerank.intervals.interval import FEWEST_DRAWN, ends

RANKING = [
    name
    for name in definitions.examples()
    if registry.find(name).family == "ranking" and name != "recall@1"
]


def unit_numbers(labels: np.ndarray) -> np.ndarray:
    """The column of every row, where each class is left out: its place in the order of names."""
    return np.unique(labels, return_inverse=True)[1]


@pytest.mark.parametrize("average", ["query", "class"])
def test_replicates_are_the_scores_of_what_is_left(average: str) -> None:
    """Each replicate is what evaluating without the share's rows gives, ties and all."""
    x, y = clusters(1, classes=33, size=5)
    x = np.rint(2 * x)  # ties
    y = y.copy()
    y[:7] = 40
    result = truerank.evaluate(x, y, metrics=RANKING, average=average)
    share = unit_numbers(y)
    assert all(len(result[name].replicates.values) == 33 for name in RANKING)
    for k in range(33):
        part = truerank.evaluate(
            x[share != k], y[share != k], metrics=RANKING, average=average, confidence=None
        )
        for name in RANKING:
            found = result[name].replicates.values[k]
            assert found == pytest.approx(part[name].value, abs=1e-11), (name, k)
    assert all(result[name].replicates.noise == 0 for name in RANKING)


UNITS = {
    "map": 3,
    "h_ap": 1,
    "asi": 1,
    "ndcg": 1,
    "sum_wap": 1,
    "sum_wap@weights=0:1:1": 2,
    "h_ap@rel=0:0:1": 3,
    "map@level=1": 1,
    "hit@1,level=2": 2,
    "map@level=3": 3,
    "map@level=mean": 1,
}
"""The coarsest level that each metric's relevance uses."""


@pytest.mark.parametrize("average", ["query", "class"])
def test_replicates_of_trees(average: str) -> None:
    """Whole classes leave of the level that a metric goes by; the sample is everybody here."""
    x, y = clusters(2, classes=40, size=4)
    paths = np.column_stack([y % 10, y % 20, y])
    metrics = [*UNITS]
    result = truerank.evaluate(x, paths, metrics=metrics, average=average)
    for level, count in ((1, 10), (2, 20), (3, 40)):
        names = [name for name in metrics if UNITS[name] == level]
        assert all(len(result[name].replicates.values) == count for name in names)
        for k in (0, 7):
            left = paths[:, level - 1] != k
            part = truerank.evaluate(
                x[left], paths[left], metrics=names, average=average, confidence=None
            )
            for name in names:
                found = result[name].replicates.values[k]
                assert found == pytest.approx(part[name].value, abs=1e-9), (name, k)


@pytest.mark.parametrize(("units", "level", "count"), [("finer", 2, 20), ("finest", 3, 40)])
def test_finer_classes_stand_in_for_too_few(units: str, level: int, count: int) -> None:
    """The coarsest level below with enough classes, or the finest; mates leave one by one."""
    x, y = clusters(2, classes=40, size=4)
    paths = np.column_stack([y % 5, y % 20, y])
    metrics = ["h_ap", "asi", "ndcg", "map@level=1", "hit@1,level=2", "map@level=mean", "map@r"]
    result = truerank.evaluate(x, paths, metrics=metrics, units=units)
    own = {"map@r": 3, "hit@1,level=2": 2}
    for k in (0, 7, 19):
        for taken in {level, *own.values()}:
            names = [name for name in metrics if own.get(name, level) == taken]
            left = paths[:, taken - 1] != k
            part = truerank.evaluate(x[left], paths[left], metrics=names, confidence=None)
            for name in names:
                found = result[name].replicates.values
                assert len(found) == {2: 20, 3: 40}[taken]
                assert found[k] == pytest.approx(part[name].value, abs=1e-9), (name, k)
    assert result.provenance["intervals"]["units"]["h_ap"] == f"level {level}"
    assert len(result["h_ap"].replicates.values) == count


def test_units_where_labels_form_no_tree() -> None:
    """Graded metrics go by paths, levels by their labels."""
    x, y = clusters(2, classes=36, size=6)
    labels = np.column_stack([y % 12, np.arange(len(y)) % 40])
    result = truerank.evaluate(x, labels, metrics=["ndcg", "map@level=1", "map"])
    for name, column in (("ndcg", 0), ("map@level=1", 0), ("map", 1)):
        left = labels[:, column] != 3
        part = truerank.evaluate(x[left], labels[left], metrics=name, confidence=None)
        found = result[name].replicates.values[3]
        assert found == pytest.approx(part[name].value, abs=1e-9), name


def _fall_out(groups: TieGroups, metric: Metric, scale: Scale) -> np.ndarray:
    """Others before the first mate, of all others that a query can rank."""
    first = groups.offsets[:-1]
    others = np.maximum(groups.candidates - groups.mates, 1)
    return np.stack([1 - groups.before[first] / others] * 3)


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("sort_share", [0.0, 1.0])
def test_a_metric_that_looks_at_the_candidates(
    device: str, sort_share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a share there are fewer of them, by its items but for those excluded anyway."""
    new = RankingDefinition("fall_out", "fall-out", "as above", "nobody", per_query=_fall_out)
    monkeypatch.setitem(DEFINITIONS, "fall_out", new)
    x, y = clusters(5, classes=24, size=6)
    groups = np.random.default_rng(0).integers(9, size=len(y))
    with truerank.engine.settings(sort_share=sort_share):
        result = truerank.evaluate(
            x, y, metrics=["fall_out", "mrr"], query_groups=groups, device=device
        )
    share = unit_numbers(y)
    for k in (0, 7, 19):
        left = share != k
        part = truerank.evaluate(
            x[left], y[left], query_groups=groups[left], metrics=["fall_out"], confidence=None
        )
        found = result["fall_out"].replicates.values[k]
        assert found == pytest.approx(part["fall_out"].value, abs=1e-11), k


def test_the_interval_from_the_replicates_by_hand() -> None:
    found = Replicates((0.5, 0.6, 0.7, 0.6))
    assert found.standard_error() == pytest.approx(math.sqrt(3 / 4 * 0.02))
    assert found.freedom == 3


def test_ends_have_the_error_of_their_own_place() -> None:
    """Both ends p satisfy |p - value| = t error sqrt(p (1 - p) / (value (1 - value)))."""
    for value, error in ((0.5, 0.1), (0.03, 0.02), (0.98, 0.01), (0.999, 0.3)):
        low, high = ends(value, error, 2.1, (0.0, 1.0))
        assert 0 <= low < value < high <= 1
        for p in (low, high):
            own = error * math.sqrt(p * (1 - p) / (value * (1 - value)))
            assert abs(p - value) == pytest.approx(2.1 * own)
    assert ends(3.0, 0.5, 2.0, (-math.inf, math.inf)) == (2.0, 4.0)
    assert ends(0.6, 0.02, 2.0, (0.0, 2.0)) == pytest.approx(
        [2 * end for end in ends(0.3, 0.01, 2.0, (0.0, 1.0))]
    )


def test_noise_is_taken_out_and_paid_for() -> None:
    plain, noisy = Replicates((0.1, 0.3) * 10), Replicates((0.1, 0.3) * 10, noise=0.1)
    assert noisy.standard_error() == pytest.approx(plain.standard_error() * math.sqrt(0.5))
    assert (plain.freedom, noisy.freedom) == (19, 4)


def test_a_sample_measures_what_everybody_would() -> None:
    """The same replicates from half of the queries, within the noise that it states."""
    x, y = clusters(3, classes=100, size=8)
    whole = truerank.evaluate(x, y, metrics=["map", "precision@1"])
    with limits(counted=100):
        part = truerank.evaluate(x, y, metrics=["map", "precision@1"])
    for name in whole:
        a, b = whole[name].replicates, part[name].replicates
        assert b.noise > 0
        off = sum((p - q) ** 2 for p, q in zip(a.values, b.values, strict=True))
        assert 0.2 * b.noise < off < 4 * b.noise
        assert a.values != b.values


# --- what may not move them -----------------------------------------------------------------------


@pytest.mark.parametrize("most", [1000, 25])
def test_no_seed_moves_an_interval(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which classes leave together, and which queries are sampled, follows the data alone."""
    deal_into(most, monkeypatch)
    x, y = clusters(4)
    with limits(counted=20):
        one, two = (truerank.evaluate(x, y, seed=seed) for seed in (0, 1))
    for name in one:
        assert one[name].interval == two[name].interval
        assert one[name].value == two[name].value
        assert one[name].replicates == two[name].replicates
        assert one[name].interval[0] < one[name].value < one[name].interval[1]


def test_folds_go_by_ids_where_there_are_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a seed nor the embeddings' last bits change which classes leave together."""
    deal_into(25, monkeypatch)
    x, y = clusters(4)
    ids = np.random.default_rng(0).permutation(len(y))
    one, two = (truerank.evaluate(x, y, query_ids=ids, seed=seed) for seed in (0, 1))
    order = np.random.default_rng(1).permutation(len(y))
    renamed = np.random.default_rng(2).permutation(y.max() + 1)[y]
    moved = truerank.evaluate(x[order], renamed[order], query_ids=ids[order])
    close = truerank.evaluate(x * (1 + 1e-9), y, query_ids=ids)
    for name in one:
        assert one[name].interval == two[name].interval == moved[name].interval
        assert one[name].interval == pytest.approx(close[name].interval, abs=1e-4)


def deal_into(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most so many columns, own folds and paired ones together."""
    monkeypatch.setattr("truerank.intervals.jackknife_groups.MOST_SINGLY", most)


@pytest.mark.parametrize("name", ["map", "precision@1"])
def test_shares_measure_what_single_classes_do(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean variance over many deals into folds is that of leaving out each class."""
    x, y = clusters(12, classes=120, size=4)
    low, high = truerank.evaluate(x, y, metrics=name)[name].interval
    deal_into(40, monkeypatch)
    widths = []
    for seed in range(24):
        ids = np.random.default_rng(seed).permutation(len(y))  # they say which leave together
        ends_of = truerank.evaluate(x, y, metrics=name, query_ids=ids)[name].interval
        widths.append((ends_of[1] - ends_of[0]) ** 2)
    assert np.mean(widths) == pytest.approx((high - low) ** 2, rel=0.15)
    assert np.std(widths) > 0.1 * np.mean(widths)


def test_other_metrics_do_not_move_an_interval() -> None:
    x, y = clusters(5)
    alone = truerank.evaluate(x, y, metrics="map")
    assert alone["map"].interval == truerank.evaluate(x, y)["map"].interval
    sides = {"gallery": x[1::2], "gallery_labels": y[1::2]}
    alone = truerank.evaluate(x[::2], y[::2], metrics="map", **sides)
    assert alone["map"].interval == truerank.evaluate(x[::2], y[::2], **sides)["map"].interval


def test_intervals_widen_with_confidence() -> None:
    x, y = clusters(6)
    widths = []
    for confidence in (0.5, 0.9, 0.99):
        low, high = truerank.evaluate(x, y, metrics="map", confidence=confidence)["map"].interval
        widths.append(high - low)
    assert widths[0] < widths[1] < widths[2]


@pytest.mark.parametrize("ids", [False, True])
@pytest.mark.parametrize("average", ["query", "class"])
def test_dealt_folds_are_the_same_on_every_path(
    average: str, ids: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows in another order, other names, sorted rows, another engine: not one bit."""
    deal_into(30, monkeypatch)
    rng = np.random.default_rng(3)
    x, y = clusters(13, classes=36, size=4)
    x = np.rint(3 * x)
    y[:20:5] = 100 + np.arange(4)  # rows that are alone
    metrics = ["map", "precision@1", "minp", "r_precision", "auc", "dir@far=0.5", "mrep", "opis"]
    numbers = rng.permutation(len(y))

    def widths(order: Any, labels: np.ndarray, **options: Any) -> list[Any]:
        more = {"query_ids": numbers[order]} if ids else {}
        result = truerank.evaluate(
            x[order], labels[order], metrics=metrics, average=average, **more, **options
        )
        return [score.interval for score in result.values()]

    everyone = np.arange(len(y))
    whole = widths(everyone, y)
    assert whole.count(None) <= 2
    assert widths(rng.permutation(len(y)), y) == whole
    assert widths(everyone, rng.permutation(y.max() + 1)[y]) == whole
    assert widths(everyone, y, device="reference") == whole
    with truerank.engine.settings(sort_share=0.0, query_rows=7):
        assert widths(everyone, y) == whole


# --- units ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("separate", [False, True])
def test_too_few_coarse_classes(separate: bool) -> None:
    """No interval, with the reason; on request the finest classes, which are named."""
    x, y = clusters(7, classes=40, size=4)
    sides: dict[str, Any] = {}
    paths = np.column_stack([y % 9, y])
    if separate:
        sides = {"gallery": x[1::2], "gallery_labels": paths[1::2]}
        x, paths = x[::2], paths[::2]
    metrics = ["map", "ndcg", "map@level=1"]
    result = truerank.evaluate(x, paths, metrics=metrics, **sides)
    assert result["map"].interval is not None
    fewest = FEWEST_DRAWN if separate else FEWEST_CLASSES
    for name in metrics[1:]:
        assert result[name].interval is None
        assert result[name].interval_reason == (
            f"9 classes of level 1 with a query that counts; an interval needs at least {fewest}; "
            'a finer level has enough: pass units="finer" (--units finer)'
        )
    finest = truerank.evaluate(x, paths, metrics=metrics, units="finest", **sides)
    assert all(score.interval is not None for score in finest.values())
    assert finest["map"] == result["map"]
    assert finest.provenance["intervals"]["units"] == dict.fromkeys(metrics[1:], "level 2")
    assert "Classes of level 2 for NDCG, mAP@level=1." in finest.notes


def test_coarse_classes_are_drawn_with_a_gallery_of_its_own() -> None:
    """Where coarse classes are alike inside and differ, drawing fine ones is far too sure."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(160), 4)
    paths = np.column_stack([y // 4, y])
    spread = np.where(np.arange(40) % 2, 0.2, 3.0)[paths[:, 0], None]
    x = rng.standard_normal((40, 12))[paths[:, 0]] + spread * rng.standard_normal((640, 12))
    result = truerank.evaluate(
        x[::2],
        paths[::2],
        gallery=x[1::2],
        gallery_labels=paths[1::2],
        metrics=["map@level=1", "map@level=2", "ndcg"],
    )
    assert result.provenance["intervals"]["units"] == {
        "map@level=1": "level 1",
        "ndcg": "level 1",
    }
    score = result["map@level=1"]
    values = score.per_query.lower.reshape(40, 8).mean(axis=1)
    low, high = score.interval
    expected = 2 * 2.0227 * values.std(ddof=1) / math.sqrt(40)
    assert high - low == pytest.approx(expected, rel=0.1)
    assert np.array_equal(result.level_units["level 1"], paths[::2, 0])


@pytest.mark.parametrize("units", ["coarse", "fine", None, 3])
def test_bad_units(units: Any) -> None:
    x, y = clusters(10)
    with pytest.raises(InputError, match="units"):
        truerank.evaluate(x, y, units=units)


# --- where there is none --------------------------------------------------------------------------


@pytest.mark.parametrize("separate", [False, True])
def test_few_classes_have_no_interval(separate: bool) -> None:
    fewest = FEWEST_DRAWN if separate else FEWEST_CLASSES
    x, y = clusters(7, classes=fewest - 1)
    sides: dict[str, Any] = {}
    if separate:
        sides = {"gallery": x[1::2], "gallery_labels": y[1::2]}
        x, y = x[::2], y[::2]
    result = truerank.evaluate(x, y, **sides)
    for score in result.values():
        assert score.interval is None
        assert f"{fewest - 1} classes" in score.interval_reason
        assert f"at least {fewest}" in score.interval_reason
    assert f"No interval: {fewest - 1} classes" in "".join(result.notes)


def test_a_perfect_score_has_no_interval() -> None:
    _, y = clusters(8)
    result = truerank.evaluate(np.eye(30)[y], y, metrics=["map", "precision@10"])
    assert result["map"].interval is None
    assert "every query scores 100 %" in result["map"].interval_reason
    assert "the same without any class" in result["precision@10"].interval_reason
    assert any(note.startswith("No interval for mAP: every query") for note in result.notes)


def test_without_a_confidence_nothing_is_said() -> None:
    x, y = clusters(9)
    result = truerank.evaluate(x, y, confidence=None)
    assert all(s.interval is None and s.interval_reason is None for s in result.values())
    assert result.provenance["intervals"] is None
    assert "nterval" not in str(result)


@pytest.mark.parametrize("confidence", [0, 1, 95, -0.5, True, "high", float("nan"), [0.9]])
def test_bad_confidence(confidence: Any) -> None:
    x, y = clusters(10)
    with pytest.raises(InputError, match="'confidence' parameter must be a number between 0 and 1"):
        truerank.evaluate(x, y, confidence=confidence)


@pytest.mark.parametrize("seed", [-1, 0.5, True, "0", None, 2**63])
def test_bad_seed(seed: Any) -> None:
    x, y = clusters(10)
    with pytest.raises(InputError, match="'seed' parameter must be an int >= 0"):
        truerank.evaluate(x, y, seed=seed)


def test_chance_adjusted_scores() -> None:
    x, y = clusters(14, classes=20, size=4)
    result = truerank.evaluate(x, y, metrics=["precision@10", "map@r", "recall@1", "ndcg"])
    score = result["precision@10"]
    assert score.attainable == pytest.approx(0.3)
    assert score.chance == pytest.approx(3 / 79)
    assert score.adjusted == pytest.approx((score.value - 3 / 79) / (0.3 - 3 / 79))
    assert result["recall@1"].attainable == pytest.approx(1 / 3)
    assert result["ndcg"].attainable == 1.0
    perfect = truerank.evaluate(np.eye(20)[y], y, metrics=["precision@10", "map@r"])
    assert all(score.adjusted == 1.0 for score in perfect.values())
    assert "adjusted" in result.to_markdown(adjusted=True)
    assert "adjusted" not in result.to_markdown()


def test_units_of_a_finer_level_are_named_only_where_they_help() -> None:
    """Queries of too few classes of the only level: nothing finer has more."""
    rng = np.random.default_rng(3)
    labels = np.append(np.arange(40), 100 + np.arange(12))
    rows = rng.normal(size=(52, 6))
    result = truerank.evaluate(
        rows, labels, gallery=rows[:40] + 1, gallery_labels=labels[:40], metrics="far@tau=0.3"
    )
    reason = result["far@tau=0.3"].interval_reason
    assert reason == "12 classes with a query that counts; an interval needs at least 30"
    tree = np.column_stack([labels % 4, labels])
    coarse = truerank.evaluate(
        rows, tree, gallery=rows[:40] + 1, gallery_labels=tree[:40], metrics="ndcg"
    )
    assert coarse["ndcg"].interval_reason.endswith('pass units="finer" (--units finer)')
