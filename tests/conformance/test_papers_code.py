"""What released code of papers gives: formulas of that code, against truerank and the pages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import truerank

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "results" / "other-tools.md").read_text(encoding="utf-8")


def cells(code: str, case: str) -> list[str]:
    """The numbers of a line of the page's table."""
    [line] = [one for one in PAGE.splitlines() if code in one and case in one]
    return [cell.strip() for cell in line.strip("|").split("|")][2:]


def by_steps_of_recall(matches: Sequence[bool]) -> Fraction:
    """The mean precision at ranks where (found + e)/(R + e) is above that of the rank before."""
    tiny, found, before, steps = Fraction(1, 10**20), 0, Fraction(0), []
    for rank, match in enumerate(matches, 1):
        found += match
        recall = (found + tiny) / (sum(matches) + tiny)
        if recall > before:
            steps.append(Fraction(found, rank))
        before = recall
    return sum(steps, Fraction(0)) / len(steps)


def h_ap_by_relevance(levels: Sequence[int]) -> Fraction:
    """H-AP of HAPPIER's code at alpha 1: each item counts at all levels of its relevance."""
    top = max(levels)
    relevance = {
        level: Fraction(level, top * levels.count(level)) for level in set(levels) if level
    }
    given = [relevance.get(level, Fraction(0)) for level in levels]
    total = Fraction(0)
    for rank, own in enumerate(given, 1):
        for value in relevance.values():
            total += min(own, value) * given[:rank].count(value) / rank
    return total / sum(given)


def discounted(gains: Sequence[int]) -> float:
    return math.fsum(gain / math.log2(1 + rank) for rank, gain in enumerate(gains, 1))


def ndcg_of_returned(levels: Sequence[int], k: int) -> float:
    gains = [2**level - 1 for level in levels[:k]]
    return discounted(gains) / discounted(sorted(gains, reverse=True))


def score(levels: Sequence[int], metric: str) -> float:
    """truerank's value of one query whose items have these levels of two, best first."""
    path = {2: ("a", "x"), 1: ("a", "y"), 0: ("b", "z")}
    gallery = [[float(rank)] for rank in range(1, len(levels) + 1)]
    found = truerank.evaluate(
        [[0.0]], [path[2]], gallery=gallery, gallery_labels=[path[level] for level in levels],
        metrics=metric, distance="euclidean", confidence=None,
    )  # fmt: skip
    return float(found[metric].value)


def test_ap_of_the_tie_papers_code() -> None:
    given, right = cells("`get_map`", "items of labels 1 and 0")
    assert (float(given), float(right)) == (by_steps_of_recall([False, True]), score([0, 2], "map"))


def test_map_of_zero_embeddings_by_the_tie_papers_code() -> None:
    """All tie, so a stable sort keeps the order of rows; the first one is dropped."""
    labels = np.arange(1000) % 10
    values = {label: by_steps_of_recall((labels[1:] == label).tolist()) for label in range(10)}
    given, right = cells("all zero, classes in turn", "mAP")
    assert given == f"{float(sum(values.values()) / 10):.4f}"
    found = truerank.evaluate(np.zeros((1000, 2)), labels, metrics="map", confidence=None)
    one = found["map"]
    assert right == f"{one.lower:.4f} / {one.expected:.4f} / {one.upper:.0f}"


def test_h_ap_of_happiers_code_counts_an_item_once_per_level_of_equal_relevance() -> None:
    given, right = cells("`hap` of HAPPIER", "levels 2, 2, 1, 0")
    assert (int(given), int(right)) == (
        h_ap_by_relevance([2, 2, 1, 0]),
        score([2, 2, 1, 0], "h_ap"),
    )
    other = [1, 2, 0, 1, 1]  # level 1 has 1/2 / 3, level 2 has 1: no level is counted twice
    assert float(h_ap_by_relevance(other)) == pytest.approx(score(other, "h_ap"), abs=1e-15)


def test_ndcg_at_k_of_happiers_code_knows_the_returned_items_alone() -> None:
    given, right = cells("`ndcg(at_k=2)`", "levels 0, 2, 2, 1")
    assert given == f"{ndcg_of_returned([0, 2, 2, 1], 2):.4f}"
    assert right == f"{score([0, 2, 2, 1], 'ndcg@2'):.4f}"


def test_the_numbers_are_on_the_pages_of_the_papers_too() -> None:
    happier = (ROOT / "docs/results/reproduce/happier.md").read_text(encoding="utf-8")
    assert "levels 2, 2, 1, 0 in this perfect order have an H-AP of 2.0" in happier
    assert "NDCG at 2 of .6309; the correct value is .3869" in happier
    ties = (ROOT / "docs/results/reproduce/ties.md").read_text(encoding="utf-8")
    assert "A query of label 0 with items of labels 1 and 0, in this order, gets .25" in ties
