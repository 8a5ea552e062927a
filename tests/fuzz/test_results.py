"""Saved results of every kind with random damage: each prints and compares, or is refused."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

import truerank
from tests.fuzz.damage import JUNK
from tests.fuzz.escapes import Escapes

MOST = 2_000
"""Cases of each kind; 200 in a fast run."""
RNG = np.random.default_rng(40)
CLASSES = 40
LABELS = np.repeat(np.arange(CLASSES), 3)
PATHS = {"family": [f"f{label % 12}" for label in LABELS], "class": [f"c{one}" for one in LABELS]}


def _rows(noise: float) -> Any:
    rng = np.random.default_rng(1)
    return rng.standard_normal((CLASSES, 6))[LABELS] + noise * RNG.standard_normal((120, 6))


def _alone(noise: float) -> truerank.Result:
    metrics = ["map", "h_ap", "ndcg", "eer", "threshold@far=0.1", "tar@far=0.1", "hit@1"]
    return truerank.evaluate(_rows(noise), PATHS, metrics=metrics, query_ids=np.arange(120))


def _opis(noise: float) -> truerank.Result:
    return truerank.evaluate(_rows(noise), LABELS, metrics=["opis", "map@r"], gallery_sizes=[60])


def _gallery(noise: float) -> truerank.Result:
    sides = {"gallery": _rows(noise), "gallery_labels": PATHS, "average": "class"}
    return truerank.evaluate(_rows(noise), PATHS, metrics=["map", "h_ap", "tar@far=0.1"], **sides)


def _lists(noise: float) -> truerank.Result:
    draw = random.Random(noise)
    run = {f"q{q}": {f"d{draw.randrange(60)}": draw.random() for _ in range(8)} for q in range(35)}
    judged = {f"q{q}": {f"d{q}": 1, f"d{q + 1}": 2} for q in range(35)}
    return truerank.evaluate_lists(run, relevance=judged, metrics="map,ndcg", settle=0.5)


def _trials(noise: float) -> truerank.Result:
    draw = random.Random(7)
    pairs = [(draw.randrange(120), draw.randrange(120)) for _ in range(600)]
    pairs += [(3 * label, 3 * label + 1) for label in range(CLASSES)]
    names = [f"c{label}-{row}" for row, label in enumerate(LABELS)]
    trials = [(names[a], names[b], bool(LABELS[a] == LABELS[b])) for a, b in pairs if a != b]
    folds = [place % 4 for place in range(len(trials))]
    options = {"ids": names, "metrics": "eer,tar@far=0.1,accuracy,threshold@far=0.1"}
    return truerank.verify(_rows(noise), trials, folds=folds, **options)


KINDS: dict[str, Callable[[float], truerank.Result]] = {
    "evaluate": _alone,
    "opis": _opis,
    "gallery": _gallery,
    "lists": _lists,
    "verify": _trials,
}
NUMBERS: list[Any] = [1e308, -1e308, 1e150, 5e-324, 10**400, -1, 0, 1, 2, None, 10**15]
VALUES = NUMBERS + [one for one in JUNK if one == one]
"""NaN, which no file may hold, is refused before any of this."""


def _damage(value: Any, draw: random.Random) -> Any:
    """A copy in which one value, at any depth, is deleted or replaced."""
    is_object = isinstance(value, dict)
    if not value or not isinstance(value, (dict, list)):
        return draw.choice(VALUES)
    keys = list(value) if is_object else range(len(value))
    key = draw.choice(keys)
    copy: Any = dict(value) if is_object else list(value)
    inner = copy[key]
    if draw.random() < (0.1 if isinstance(inner, (dict, list)) else 0.5):
        if draw.random() < 0.5:
            del copy[key]
        else:
            copy[key] = draw.choice(VALUES)
    else:
        copy[key] = _damage(inner, draw)
    return copy


def _use(data: dict[str, Any], other: truerank.Result) -> None:
    """Read it, print it in every form and compare it with another one, on either side."""
    read = truerank.Result.from_dict(data)
    for text in (read.to_markdown(), read.to_latex(), read.to_csv(), str(read), read.to_json()):
        assert text
    read.queries()
    for pair in ((read, other), (other, read)):
        found = truerank.compare(*pair, names=["one", "other"])
        assert str(found)
        assert found.to_json()


def _difference(whole: Any, changed: Any, where: str = "") -> str:
    """Where the damage is, and what it is."""
    if isinstance(whole, dict) and isinstance(changed, dict):
        for key in whole:
            if key not in changed:
                return f"{where}.{key} deleted"
            if whole[key] is not changed[key]:
                return _difference(whole[key], changed[key], f"{where}.{key}")
    if isinstance(whole, list) and isinstance(changed, list) and len(whole) == len(changed):
        for place, (one, another) in enumerate(zip(whole, changed, strict=True)):
            if one is not another:
                return _difference(one, another, f"{where}.{place}")
    return f"{where} is {changed!r:.60}"


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
def test_damaged_results_are_used_or_refused(kind: str) -> None:
    escapes, draw = Escapes(), random.Random(kind)
    whole, other = (json.loads(KINDS[kind](noise).to_json()) for noise in (0.8, 1.0))
    beside = truerank.Result.from_dict(other)
    _use(whole, beside)
    cases = min(MOST, settings.default.max_examples)
    for case in range(cases):
        changed = _damage(whole, draw)
        escapes.attempt(
            f"{kind}, case {case}: {_difference(whole, changed)}",
            lambda changed=changed: _use(changed, beside),
        )
    escapes.assert_none(cases)
