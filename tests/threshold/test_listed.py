"""A threshold chosen on a list of trials, and judged on another."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import truerank
from tests.cli.driving import run
from tests.refusals import assert_refused

Trial = tuple[str, str, bool]


def listed(seed: int, people: int = 30) -> tuple[list[Trial], np.ndarray]:
    """Trials of recordings named person/recording, and their scores."""
    rng = np.random.default_rng(seed)
    found: dict[Trial, float] = {}
    while len(found) < 900:
        one, two = (int(x) for x in rng.choice(people, 2, replace=False))
        two = one if rng.random() < 0.3 else two
        trial = (f"p{one}/{rng.integers(3)}", f"p{two}/{rng.integers(3, 6)}", one == two)
        found.setdefault(trial, rng.normal() + 2 * (one == two))
    return list(found), np.array(list(found.values()))


def chosen(trials: list[Trial], scores: np.ndarray, rate: str, target: Fraction) -> float:
    """By hand, the score of the last trial that a target allows to accept."""
    same = np.array([s for _, _, s in trials])
    values = sorted(scores.tolist(), reverse=True)
    if rate == "far":
        met = [
            v
            for v in values
            if Fraction(int((scores[~same] >= v).sum()), int((~same).sum())) <= target
        ]
        return met[-1]
    return next(
        v for v in values if Fraction(int((scores[same] < v).sum()), int(same.sum())) <= target
    )


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("rate", "target"), [("far", "0.01"), ("far", "0.05"), ("frr", "0.1")])
def test_the_threshold_and_its_rates_by_hand(sign: int, rate: str, target: str) -> None:
    trials, scores = listed(0)
    others, other_scores = listed(1)
    distance = {1: "similarity", -1: "precomputed"}[sign]
    options: dict[str, Any] = {rate: target, "pairs": trials, "distance": distance}
    point = truerank.choose_threshold(
        sign * scores, apply=sign * other_scores, apply_pairs=others, **options
    )
    wanted = chosen(trials, scores, rate, Fraction(target))
    assert point.threshold == sign * wanted
    assert (point.listed, point.optimistic, point.distance) == (True, False, distance)
    # What a program accepts by the printed decimal are the very same trials.
    same = np.array([s for _, _, s in others])
    accepted = sign * other_scores * sign >= sign * float(point.decimal)
    assert point.values["far"] == accepted[~same].mean()
    assert point.values["frr"] == (~accepted[same]).mean()
    for name in ("far", "frr"):
        low, high = point.intervals[name]
        assert low < point.values[name] < high
    low, high = point.threshold_interval
    assert low <= point.threshold <= high
    assert "over people" in str(point)
    assert "false accepts among negative trials (FAR)" in str(point)
    again = truerank.choose_threshold(sign * scores, **options)
    assert again.optimistic
    assert again.values[rate] <= float(target)
    assert "on the same data" in str(again)


def test_embeddings_and_people() -> None:
    """Rows by their ids; the distances are those of all pairs, which labels alone would give."""
    rng = np.random.default_rng(2)
    person = np.repeat(np.arange(20), 3)
    rows = (rng.normal(size=(20, 8))[person] + 0.6 * rng.normal(size=(60, 8))).astype(np.float32)
    ids = [f"r{n}" for n in range(60)]
    pairs = [
        (ids[a], ids[b], bool(person[a] == person[b])) for a in range(60) for b in range(a + 1, 60)
    ]
    by_pair = truerank.choose_threshold(
        rows, dict(zip(ids, person, strict=True)), query_ids=ids, pairs=pairs, far=0.05
    )
    by_label = truerank.choose_threshold(rows, person, far=0.05)
    assert (by_pair.threshold, by_pair.decimal) == (by_label.threshold, by_label.decimal)
    for name in ("far", "frr"):
        assert by_pair.values[name] == by_label.values[name]
    assert by_pair.intervals["frr"] is not None
    nobody = truerank.choose_threshold(rows, query_ids=ids, pairs=pairs, far=0.05)
    assert nobody.threshold == by_pair.threshold
    assert nobody.threshold_interval is None
    assert set(nobody.intervals.values()) == {None}


def test_what_is_refused() -> None:
    trials, scores = listed(3)

    def choose(*arguments: Any, **options: Any) -> Any:
        return lambda: truerank.choose_threshold(*arguments, **{"far": 0.01} | options)

    positive = [row for row in trials if row[2]]
    assert_refused(choose(np.ones(len(positive)), pairs=positive), ["positive ones alone"])
    assert_refused(choose(scores, pairs=trials, far=0.0001), ["no threshold for a FAR of 0.0001"])
    assert_refused(choose(scores, pairs=trials, gallery=scores), ["gallery is of a set", "pairs"])
    assert_refused(choose(scores, apply_pairs=trials), ["apply_pairs needs pairs"])
    assert_refused(choose(scores[:5], pairs=trials), ["5 scores but 900 trials"])
    short = choose(scores, pairs=trials, apply=scores[:5], apply_pairs=trials)
    assert_refused(short, ["apply: there are 5 scores"])


def test_the_command(tmp_path: Path) -> None:
    """Kaldi's files, one of them judged on WeSpeaker's; and options that do not go with a list."""
    (trials, scores), (others, other_scores) = listed(4), listed(5)
    pairs, values, both = (tmp_path / n for n in ("trials", "a.scores", "b.score"))
    pairs.write_text("".join(f"{a} {b} {'' if s else 'non'}target\n" for a, b, s in trials))
    unique = {(a, b): v for (a, b, _), v in zip(trials, scores.tolist(), strict=True)}
    values.write_text("".join(f"{a} {b} {v!r}\n" for (a, b), v in unique.items()))
    both.write_text("".join(
        f"{a} {b} {v!r} {'' if s else 'non'}target\n"
        for (a, b, s), v in zip(others, other_scores.tolist(), strict=True)
    ))  # fmt: skip
    joined = np.array([unique[a, b] for a, b, _ in trials])
    wanted = truerank.choose_threshold(
        joined, pairs=trials, far="0.02", apply=other_scores, apply_pairs=others
    )
    out = tmp_path / "point.json"
    start = ("threshold", values, "--pairs", pairs, "--far", "0.02")
    ran = run(*start, "--apply-pairs", both, "--apply", both, "-o", out)
    assert ran.status == 0, ran.err
    assert json.loads(out.read_text(encoding="utf-8")) == json.loads(wanted.to_json())
    assert ran.out.startswith("Accept a pair if its similarity is at least")
    alone = run(*start, "--apply", both)
    assert alone.out == ran.out
    assert "--gallery is of a set" in run(*start, "--gallery", values).complaint()
    assert "leave --card, --by-class and CSV out" in run(*start, "--by-class").complaint()
    assert (
        "apply_pairs needs pairs"
        in run("threshold", values, "--far", "0.1", "--apply-pairs", pairs).complaint()
    )
