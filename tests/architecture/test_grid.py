"""No metric is dropped from a path of the invariance suite unnoticed."""

from __future__ import annotations

from itertools import product

from tests.architecture.grid import Pair, folded, pairs, stored, unfolded

WRITE = "`python -m tests.architecture.grid` writes what there is into grid.json"


def complaint(found: set[Pair], known: set[Pair]) -> str | None:
    """What is wrong with the pairs, and what to do about it."""
    for which, words in (
        (known - found, "no longer compared; compare them, or say in the commit why they go"),
        (found - known, "compared, and not yet in the record"),
    ):
        if which:
            metric, path = min(which)
            return f"{metric} on {path}, of {len(which):,} such pairs: {words}. {WRITE}."
    return None


def test_the_invariance_suite_compares_what_it_did() -> None:
    wrong = complaint(pairs(), stored())
    assert wrong is None, wrong


def test_a_pair_that_comes_or_goes_is_named() -> None:
    known = set(product(["map", "nmi"], ["tree / one thread / cosine", "tree / CUDA / cosine"]))
    gone = ("nmi", "tree / CUDA / cosine")
    assert complaint(known, known) is None
    lost, new = complaint(known - {gone}, known), complaint(known, known - {gone})
    assert "nmi on tree / CUDA / cosine, of 1 such pairs: no longer compared" in str(lost)
    assert "nmi on tree / CUDA / cosine, of 1 such pairs: compared, and not yet" in str(new)


def test_the_record_holds_exactly_the_pairs() -> None:
    every = set(product("ab", ["x / p", "x / q", "y / p"]))
    for left_out in (set(), {("a", "x / p")}, {("a", "x / q"), ("b", "y / p")}):
        assert unfolded(folded(every - left_out)) == every - left_out
