"""Scores in smaller galleries, which are stored rounded, against every sub-gallery."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.oracles import sub_galleries as oracle
from tests.stored import others
from tests.stored.evaluations import run

CLOSE = Fraction(1, 10**12)
ROUNDED = [name for name in others.OTHERS if name.startswith(("gallery sizes", "threshold card"))]


def drawn(count: int, size: int, items: int) -> list[int]:
    """The number of `count` items nearest to their share of a gallery; both, if it is a half."""
    share = Fraction(count * size, items)
    away = {m: abs(share - m) for m in range(count + 1)}
    return [m for m in away if away[m] == min(away.values())]


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_every_sub_gallery(first: int) -> None:
    checked = 0
    for seed in range(first, first + 20):
        sizes, task = others.tiny(seed)
        result = run(lambda seed=seed: others.tiny_result(seed))
        for size in sizes:
            for metric in others.TINY:
                if metric in result.at_gallery(size):
                    check(result.at_gallery(size)[metric], metric, task, size)
                    checked += 1
    assert checked > 1000


def check(score: Any, metric: str, task: dict[str, Any], size: int) -> None:
    """Each query's values, then their mean."""
    table, items = task["embeddings"], len(task["gallery_labels"])
    met = np.ones(table.shape, bool) if task["junk"] is None else ~task["junk"]
    whole = []
    for q, label in enumerate(task["labels"]):
        relevant = (task["gallery_labels"] == label)[met[q]].tolist()
        numbers = drawn(len(relevant) - sum(relevant), size, items)
        distances = table[q, met[q]].astype(int).tolist()
        truths = [oracle.query(metric, distances, relevant, m) for m in numbers]
        here = [getattr(score.per_query, end)[q] for end in others.ENDS]
        if truths[0] is None:
            assert np.isnan(here).all()
            continue
        agree = [truth for truth in truths if truth is not None and close(here, truth)]
        assert agree, (metric, size, q)
        whole.append(agree[0])
    means = [sum(ends, Fraction(0)) / len(whole) for ends in zip(*whole, strict=True)]
    if score.value != score.lower:  # where lower is better, the pessimistic end is the upper one
        assert score.value == score.upper
    assert close([getattr(score, end) for end in others.ENDS], means), (metric, size)


def close(values: Iterable[float], exact: Iterable[Fraction]) -> bool:
    return all(abs(Fraction(v) - e) <= CLOSE for v, e in zip(values, exact, strict=True))


@pytest.mark.parametrize("name", ROUNDED)
def test_other_last_bits_are_rounded_alike(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes are chosen for it: a digest should not move because a sum was taken in other order."""
    doubtful = []
    round_value = others.rounded

    def watched(value: Any, digits: int) -> Any:
        if isinstance(value, float) and not math.isnan(value):
            error = 1e-14 if digits == others.DIGITS else 1e-11
            ends = {round_value(value * (1 + sign * error), digits) for sign in (-1, 1)}
            doubtful.extend([value] if len(ends) > 1 else [])
        return round_value(value, digits)

    monkeypatch.setattr(others, "rounded", watched)
    run(others.OTHERS[name])
    assert not doubtful
