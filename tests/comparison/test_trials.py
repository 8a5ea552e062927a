"""Comparisons of results of verify: one list of trials, paired over people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import truerank
from tests.cli.driving import run
from tests.refusals import assert_refused
from truerank.core.student import quantile

Trial = tuple[str, str, bool]


def speakers(
    seed: int, people: int = 40, same: int = 500, other: int = 700
) -> tuple[list[Trial], list[np.ndarray]]:
    """Trials of recordings named person/recording, and the scores of two systems that share half
    of their noise; the second is a little worse."""
    rng = np.random.default_rng(seed)
    pairs: set[tuple[int, int]] = set()
    while len(pairs) < same + other:
        one, two = rng.integers(people, size=2)
        two = one if len(pairs) < same else two
        if (one == two) == (len(pairs) < same):
            first, second = rng.choice(6, 2, replace=False)
            pairs.add((int(6 * one + first), int(6 * two + second)))
    chosen = np.array(sorted(pairs))
    who = np.repeat(np.arange(people), 6)
    centres = rng.standard_normal((people, 8))
    loud = np.exp(0.35 * rng.standard_normal(people))[who, None]
    shared, first, second = rng.standard_normal((3, len(who), 8))
    scores = []
    for worse, own in ((1.0, first), (1.15, second)):
        x = centres[who] + worse * loud * (shared + own) / np.sqrt(2)
        x /= np.linalg.norm(x, axis=1)[:, None]
        scores.append((x[chosen[:, 0]] * x[chosen[:, 1]]).sum(axis=1))
    names = [f"spk{number // 6:03d}/{number % 6}.wav" for number in range(len(who))]
    flags = who[chosen[:, 0]] == who[chosen[:, 1]]
    trials = [(names[a], names[b], bool(s)) for (a, b), s in zip(chosen, flags, strict=True)]
    return trials, scores


def listed(folder: Path, trials: list[Trial], name: str = "trials.txt") -> Path:
    path = folder / name
    path.write_text("".join(f"{int(s)} {a} {b}\n" for a, b, s in trials), encoding="utf-8")
    return path


def people_of(trials: list[Trial]) -> list[tuple[str, str]]:
    return [(a.split("/")[0], b.split("/")[0]) for a, b, _ in trials]


def auc(scores: np.ndarray, same: np.ndarray) -> float:
    """The share of pairs of a positive and a negative trial in the right order, by all of them."""
    apart = scores[same][:, None] - scores[~same][None, :]
    return float(((apart > 0) + (apart == 0) / 2).mean())


def auc_influence(scores: np.ndarray, same: np.ndarray) -> np.ndarray:
    """What each trial adds to the AUC, around its mean, from its placements (Sen 1960)."""
    apart = scores[same][:, None] - scores[~same][None, :]
    right = (apart > 0) + (apart == 0) / 2
    found = np.empty(len(scores))
    found[same] = (right.mean(axis=1) - right.mean()) / same.sum()
    found[~same] = (right.mean(axis=0) - right.mean()) / (~same).sum()
    return found


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_error_of_a_difference_is_that_of_dyads(seed: int, tmp_path: Path) -> None:
    """By hand: products of the influences of all trials that share a person, each pair once."""
    trials, scores = speakers(seed)
    path = listed(tmp_path, trials)
    a, b = (truerank.verify(values, path, "auc") for values in scores)
    [found] = truerank.compare(a, b).differences
    same = np.array([s for _, _, s in trials])
    assert found.value == pytest.approx(auc(scores[0], same) - auc(scores[1], same), abs=1e-12)
    moved = auc_influence(scores[0], same) - auc_influence(scores[1], same)
    sides = people_of(trials)
    shared = np.array([[bool({*one} & {*two}) for two in sides] for one in sides])
    error = np.sqrt(moved @ shared @ moved)
    given = found.interval[1] - found.value
    freedom = a["auc"].replicates.minus(b["auc"].replicates).freedom
    assert given / quantile(0.95, freedom) == pytest.approx(error, rel=0.06)


def test_the_jackknife_over_people_by_hand(tmp_path: Path) -> None:
    """Leave each person's trials out, compute both AUCs again, and take the difference.

    This counts what trials of two people contribute once for either of them, so its error is a
    little larger; person by person it is the same but for its scale, and one differs by chance.
    """
    trials, scores = speakers(3)
    path = listed(tmp_path, trials)
    names = ["auc", "tar@tau=0.5"]
    a, b = (truerank.verify(values, path, names) for values in scores)
    same = np.array([s for _, _, s in trials])
    sides = np.array(people_of(trials))
    rest = [(sides != person).all(axis=1) for person in np.unique(sides)]
    by_hand = [auc(scores[0][k], same[k]) - auc(scores[1][k], same[k]) for k in rest]
    kept = a["auc"].replicates.minus(b["auc"].replicates)
    assert len(kept.values) == 40
    both = np.corrcoef(sorted(kept.values), sorted(by_hand))[0, 1]
    assert both > 0.99
    error = np.sqrt(39 / 40 * ((by_hand - np.mean(by_hand)) ** 2).sum())
    assert 0.75 * error < kept.standard_error() < 1.05 * error
    # Only positive trials count here, and each is of one person: the very same numbers.
    tar = [[(s[k & same] >= 0.5).mean() for k in rest] for s in scores]
    exact = sorted(x - y for x, y in zip(*tar, strict=True))
    kept = a["tar@tau=0.5"].replicates.minus(b["tar@tau=0.5"].replicates)
    assert sorted(kept.values) == pytest.approx(exact, abs=1e-12)


def test_more_people_than_replicates(tmp_path: Path) -> None:
    """700 people in 400 jackknife groups have the error of single people, by the same dyads."""
    trials, scores = speakers(4, people=700, same=2500, other=3500)
    path = listed(tmp_path, trials)
    a, b = (truerank.verify(values, path, "auc")["auc"].replicates for values in scores)
    assert len(a.values) == len(a.shares) == 400
    same = np.array([s for _, _, s in trials])
    moved = auc_influence(scores[0], same) - auc_influence(scores[1], same)
    sums: dict[Any, float] = {}
    for (one, two), move in zip(people_of(trials), moved, strict=True):
        for key in {one, two, (min(one, two), max(one, two))}:
            sums[key] = sums.get(key, 0.0) + move
    single = sum(v**2 for key, v in sums.items() if isinstance(key, str))
    double = sum(v**2 for key, v in sums.items() if not isinstance(key, str) and key[0] != key[1])
    assert a.minus(b).standard_error() == pytest.approx(np.sqrt(single - double), rel=0.15)


def test_order_and_names_do_not_matter(tmp_path: Path) -> None:
    """The second system wrote its scores in another order, into another list, and its
    people come from labels under other names: not one bit of the comparison changes."""
    trials, scores = speakers(5)
    ids = sorted({name for a, b, _ in trials for name in (a, b)})
    names = ["auc", "eer", "tar@far=0.1"]
    a, b = (truerank.verify(values, listed(tmp_path, trials), names) for values in scores)
    order = np.random.default_rng(0).permutation(len(trials))
    moved = [trials[k] for k in order]
    labels = {name: 1000 - int(name[3:6]) for name in ids}
    people = ([labels[x] for x, _, _ in moved], [labels[y] for _, y, _ in moved])
    given = truerank.io.trials.Trials(
        [x for x, _, _ in moved], [y for _, y, _ in moved], np.array([s for _, _, s in moved]),
        people=people,
    )  # fmt: skip
    other = truerank.verify(scores[1][order], given, names)
    assert [repr(score) for score in other.values()] == [repr(score) for score in b.values()]
    wanted, found = (truerank.compare(a, one, names=["a", "b"]) for one in (b, other))
    assert found.to_dict() == wanted.to_dict()
    assert found.method == "jackknife of the paired people"


def test_one_system_beside_itself_and_seeds(tmp_path: Path) -> None:
    trials, scores = speakers(6)
    path = listed(tmp_path, trials)
    a, b = (truerank.verify(values, path, ["auc", "eer"]) for values in scores)
    for row in truerank.compare(a, a).differences:
        assert (row.value, row.p) == (0.0, 1.0)
    rng = np.random.default_rng(1)
    runs = [truerank.verify(scores[0] + 0.02 * rng.normal(size=len(trials)), path, ["auc", "eer"])
            for _ in range(3)]  # fmt: skip
    several = truerank.compare(runs, b, names=["a", "b"])
    [alone] = [row for row in truerank.compare(a, b).differences if row.metric == "auc"]
    [row] = [row for row in several.differences if row.metric == "auc"]
    assert row.value == pytest.approx(alone.value, abs=0.01)
    assert row.interval[1] - row.value == pytest.approx(alone.interval[1] - alone.value, rel=0.2)


def test_what_cannot_be_compared(tmp_path: Path) -> None:
    trials, scores = speakers(7)
    path = listed(tmp_path, trials)
    a, b = (truerank.verify(values, path, "auc") for values in scores)

    def against(*changed: Trial, **options: Any) -> Any:
        other = truerank.verify(scores[1][: len(changed)], list(changed), "auc", **options)
        return lambda: truerank.compare(a, other, names=["a", "b"])

    first, *rest = trials
    assert_refused(
        against(*trials[:-1]), ["a and b are of different lists", "500 positive", "and 499"]
    )
    exchanged = (first[1], first[0], first[2])
    assert_refused(against(exchanged, *rest), ["different lists", "with other pairs", "any order"])
    rows = np.random.default_rng(0).normal(size=(40, 4))
    searched = truerank.evaluate(rows, np.arange(40) // 4, metrics="auc")
    assert_refused(lambda: truerank.compare(a, searched), ["list of trials", "is not"])
    old = a.to_dict()
    del old["provenance"]["digests"]
    older = truerank.Result.from_dict(old)
    for given in ((older, b), (b, older)):
        words = ["written by a version", "run verify again"]
        assert_refused(lambda given=given: truerank.compare(*given), words)
    nobody = truerank.verify(scores[1], path, "auc", confidence=None)
    [row] = truerank.compare(a, nobody).differences
    assert row.p is None
    assert row.reason == "a result was evaluated without intervals"
    folds = np.arange(len(trials)) % 3
    dealt, otherwise = (
        truerank.verify(s, path, ["auc", "accuracy"], folds=f)
        for s, f in zip(scores, (folds, np.arange(len(trials)) % 2), strict=True)
    )
    assert_refused(lambda: truerank.compare(dealt, otherwise), ["folds of the trials differ"])
    named = truerank.verify(scores[1], path, ["auc", "accuracy"], folds=(folds + 1) % 3)
    assert truerank.compare(dealt, named).skipped == {}
    assert [row.metric for row in truerank.compare(a, named).differences] == ["auc"]


def test_commands(tmp_path: Path) -> None:
    """verify -o, compare and report: the page holds the table of differences."""
    trials, scores = speakers(8)
    path = listed(tmp_path, trials)
    for name, values in zip("ab", scores, strict=True):
        np.save(tmp_path / f"{name}.npy", values)
        ran = run(
            "verify", tmp_path / f"{name}.npy", "--pairs", path, "-o", tmp_path / f"{name}.json"
        )
        assert ran.status == 0, ran.err
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    ran = run("compare", *files, "-m", "auc,eer", "--format", "json")
    assert ran.status == 0, ran.err
    found = json.loads(ran.out)
    whole = truerank.compare(*files, metrics=["auc", "eer"])
    assert found == json.loads(whole.to_json())
    assert found["method"] == "jackknife of the paired people"
    page = tmp_path / "page.html"
    ran = run("report", *files, "-o", page)
    assert ran.status == 0, ran.err
    text = page.read_text(encoding="utf-8")
    assert "jackknife of the paired people" in text
