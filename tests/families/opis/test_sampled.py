"""OPIS from negatives drawn at random."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import truerank
from tests.builders import uneven_clusters
from tests.conftest import Within
from tests.oracles import openset
from tests.oracles import opis as oracle
from truerank._util.settings import limits
from truerank.competition.task import Task
from truerank.distance.catalogue import build
from truerank.metrics.thresholds.consistency import draw
from truerank.metrics.thresholds.family import Positives


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
    rows, labels = uneven_clusters(21, 150, 12)
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
    rows, labels = uneven_clusters(22, 90, 8)
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


def crowded(seed: int) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """Rows that come twice, junk labels, ids and cameras, and a mask that both sides share."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(9, size=48)
    rows = rng.integers(-3, 4, size=(48, 3)) + 3 * rng.normal(size=(9, 3)).round()[labels]
    rows[24:36] = rows[:12]
    mask = rng.random((48, 48)) < 0.1
    options: dict[str, Any] = {"junk_labels": [8]}
    if seed % 2:
        options |= {"query_ids": rng.integers(30, size=48), "junk": mask | mask.T}
    if seed % 3:
        options["query_groups"] = rng.integers(3, size=48)
    return rows, labels, options


def moved(order: np.ndarray, options: dict[str, Any]) -> dict[str, Any]:
    """The options of a task whose rows come in another order."""
    found = dict(options)
    for name in ("query_ids", "query_groups"):
        if name in options:
            found[name] = options[name][order]
    if "junk" in options:
        found["junk"] = options["junk"][np.ix_(order, order)]
    return found


@pytest.mark.parametrize("seed", range(6))
def test_by_enumeration_of_the_draw(seed: int) -> None:
    """Every pair that meets is listed, and classes take those with the lowest digests."""
    rows, labels, options = crowded(seed)
    name = f"opis@far=0.1:0.6,negatives=2,seed={seed}".removesuffix(",seed=0")
    space = build("euclidean", rows)
    prints = [int(one) for one in space.fingerprints()]
    ids, groups = options.get("query_ids", np.arange(48)), options.get("query_groups")
    junk = options.get("junk", np.zeros((48, 48), bool))
    positives: dict[int, list[Fraction]] = {int(one): [] for one in np.unique(labels)}
    negatives = []
    candidates = dict.fromkeys(positives, 0)
    for q in range(48):
        for g in range(48):
            squared = Fraction(int(((rows[q] - rows[g]) ** 2).sum()))
            ours = int(labels[q])
            candidates[ours] += labels[g] not in (ours, 8)
            if labels[g] == 8 or ids[q] == ids[g] or junk[q, g]:
                continue
            if labels[g] != ours:
                negatives.append((squared, ours, prints[q], prints[g]))
            elif groups is None or groups[q] != groups[g]:
                positives[ours].append(squared)
    wanted = {c: min(2 * -(-len(positives[c]) // 2), candidates[c]) for c in positives}
    classes = oracle.Classes([])
    classes.positives = positives
    classes.negatives = oracle.lowest_digests(negatives, wanted, seed)
    classes.names = [c for c in positives if positives[c] and classes.negatives[c]]
    trials = [(d, True) for c in positives for d in positives[c]]
    trials += [(d, False) for c in positives for d in classes.negatives[c]]
    low, high = (openset.tar_at_far(trials, Fraction(x))[1] for x in ("0.1", "0.6"))
    exact = oracle.mean_over(
        [d for d, _ in trials], low, high, math.sqrt, lambda t: oracle.variance(classes, t)
    )
    options |= {"distance": "euclidean", "confidence": None}
    score = truerank.evaluate(rows, labels, metrics=name, **options)[name]
    assert score.value == pytest.approx(exact, abs=1e-12)
    assert score.n == len(classes.names)
    for turn in range(6):
        order = np.random.default_rng(turn).permutation(48)
        again = truerank.evaluate(
            rows[order], 100 - labels[order], metrics=name,
            **(moved(order, options) | {"junk_labels": [92]}),
        )  # fmt: skip
        assert again[name].value == score.value


def test_with_all_negatives_drawn_it_is_opis() -> None:
    rows, labels = uneven_clusters(23, 120, 10)
    rows, labels = rows[5:], labels[5:]  # a class of one has no positives to draw for
    result = truerank.evaluate(rows, labels, metrics=["opis", "opis@negatives=10000"])
    assert result["opis@negatives=10000"].value == pytest.approx(result["opis"].value, abs=1e-15)


def test_how_many_are_drawn_at_a_time_cannot_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, labels = uneven_clusters(27, 90, 8)
    whole = drawn(rows, labels, 4)
    monkeypatch.setattr("truerank.metrics.thresholds.consistency._CHUNK", 7)
    parts = drawn(rows, labels, 4)
    assert parts.distance.tolist() == whole.distance.tolist()
    assert parts.code.tolist() == whole.code.tolist()


def test_every_negative_has_the_same_chance() -> None:
    rows, labels = uneven_clusters(24, 60, 5)
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
    rows, labels = uneven_clusters(25, 80, 6)
    ids = np.arange(80) // 2
    sample = drawn(rows, labels, 10000, ids=ids)
    apart = build("cosine", rows).pairs(np.arange(0, 80, 2), np.arange(1, 80, 2))
    assert not set(sample.distance.tolist()) & set(apart.tolist())


def test_sampling_is_refused_where_it_makes_no_sense(within: Within) -> None:
    rows, labels = uneven_clusters(26, 60, 5)
    with pytest.raises(truerank.InputError, match="seed without negatives"):
        truerank.evaluate(rows, labels, metrics="opis@seed=1")
    with pytest.raises(truerank.InputError, match="int >= 1"):
        truerank.evaluate(rows, labels, metrics="opis@negatives=0")
    name = "opis@negatives=10"
    other = truerank.evaluate(
        rows[:30], labels[:30], gallery=rows[30:], gallery_labels=labels[30:], metrics=name
    )
    assert "a separate gallery" in other[name].reason
    within(limits(drawn=100))
    assert "at most 100 are held" in truerank.evaluate(rows, labels, metrics=name)[name].reason
