"""The rules about ties: each verdict can come out, from the numbers alone."""

from __future__ import annotations

from typing import Any

import pytest
from studies.claims import IN_DIRECTION, NOT_REPRODUCED, REPRODUCED
from studies.ties import judge

BOUNDS = (
    "neighbors", "epsilon 1e-10", "epsilon 1e-10 of spread", "epsilon 1e-06",
    "epsilon 1e-06 of spread", "places 0", "places 1", "spread",
)  # fmt: skip


def counts(cosine: float, euclidean: float, cityblock: float) -> dict[str, dict[str, float]]:
    return {
        "cosine": dict.fromkeys(BOUNDS, cosine),
        "euclidean": dict.fromkeys(BOUNDS, euclidean),
        "cityblock": dict.fromkeys(BOUNDS, cityblock),
    }


def entries(**changes: Any) -> dict[str, Any]:
    random = {
        distance: {bound: {"mean": 1.0, "interval": [0.5, 1.5]} for bound in BOUNDS}
        for distance in ("cosine", "euclidean", "cityblock")
    }
    return {
        "orders/P/float32/cpu": {"64": [0.9534, 0.9536], "8": [0.9535, 0.9535]},
        "orders/P/float16/cpu": {"64": [0.5, 0.9]},
        "exact/P/cpu": {"lower": 0.95, "expected": 0.95, "upper": 0.95, "bits": 0, "orders": 2},
        "collisions/P": counts(100.0, 10.0, 5.0),
        "random": random,
        "released/P": [
            {"drops": drops, "divisor": divisor, "values": ends, "queries": [9, 10]}
            for drops, divisor, ends in (
                ("oneself", "R", [0.95549, 0.95549]),
                ("oneself", "R + 1 where the first item is wrong", [0.9535, 0.9535]),
                ("first column", "R", [0.95549, 0.9556]),
                ("first column", "R + 1 where the first item is wrong", [0.9535, 0.95361]),
            )
        ],
        "zero": {"naive": {"oneself": {"a": 0.1, "b": 0.18}}, "ours": [0.05, 0.1, 1], "bits": 0},
        **changes,
    }


def verdicts(**changes: Any) -> dict[str, str]:
    return {claim.key: claim.verdict for claim in judge(entries(**changes), "P")}


def test_what_the_paper_says_is_reproduced() -> None:
    assert verdicts() == dict.fromkeys("abcd", REPRODUCED)


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([0.95, 0.95005], IN_DIRECTION),
        ([0.95, 0.95], NOT_REPRODUCED),
        ([0.95, 0.9502], REPRODUCED),
    ],
)
def test_a_is_about_the_order_at_one_batch_size(values: list[float], verdict: str) -> None:
    by_batch = {"64": values, "8": [value + 0.01 for value in values]}
    assert verdicts(**{"orders/P/float32/cpu": by_batch})["a"] == verdict


def test_a_says_which_rule_of_the_released_code_gives_the_level() -> None:
    explanation = judge(entries(), "P")[0].explanation
    assert "95.3500 % to 95.3610 %" in explanation
    assert "alone gives 95.3500 % instead of 95.5490 %" in explanation
    assert "alone gives 95.5490 % to 95.5600 %" in explanation


def test_b_needs_the_factor_and_the_order_in_both_units() -> None:
    assert verdicts(**{"collisions/P": counts(90.0, 10.0, 5.0)})["b"] == IN_DIRECTION
    reversed_in_places = counts(100.0, 10.0, 5.0)
    reversed_in_places["cosine"]["places 0"] = 1.0
    assert verdicts(**{"collisions/P": reversed_in_places})["b"] == NOT_REPRODUCED


def test_c_compares_with_the_upper_end_of_random_sets() -> None:
    assert verdicts(**{"collisions/P": counts(100.0, 10.0, 1.2)})["c"] == IN_DIRECTION
    assert verdicts(**{"collisions/P": counts(1.4, 10.0, 5.0)})["c"] == NOT_REPRODUCED


def test_d_needs_five_points() -> None:
    narrow = {"naive": {"oneself": {"a": 0.1, "b": 0.149}}, "ours": [0.05, 0.1, 1], "bits": 0}
    assert verdicts(zero=narrow)["d"] == NOT_REPRODUCED
