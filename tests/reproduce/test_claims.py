"""Verdicts follow from evidence, and pages keep both."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from studies.claims import (
    IN_DIRECTION,
    NOT_REPRODUCED,
    REPRODUCED,
    UNDECIDED,
    Claim,
    Evidence,
    budget,
    combined,
    decide_above,
    decide_below,
)


@pytest.mark.parametrize(
    ("interval", "above", "below"),
    [
        ((0.1, 0.3), REPRODUCED, NOT_REPRODUCED),
        ((-0.1, 0.3), UNDECIDED, UNDECIDED),
        ((-0.3, -0.1), NOT_REPRODUCED, REPRODUCED),
        ((0.0, 0.2), UNDECIDED, NOT_REPRODUCED),
        ((-0.2, 0.0), NOT_REPRODUCED, UNDECIDED),
        (None, UNDECIDED, UNDECIDED),
    ],
)
def test_a_bound_decides_by_the_interval_alone(
    interval: tuple[float, float] | None, above: str, below: str
) -> None:
    evidence = Evidence("a gain", 0.0 if interval is None else sum(interval) / 2, interval)
    assert decide_above(evidence) == above
    assert decide_below(evidence) == below


def test_the_parts_of_a_claim_are_weighed_together() -> None:
    assert combined([REPRODUCED, REPRODUCED]) == REPRODUCED
    assert combined([REPRODUCED, NOT_REPRODUCED]) == IN_DIRECTION
    assert combined([NOT_REPRODUCED, NOT_REPRODUCED]) == NOT_REPRODUCED
    assert combined([REPRODUCED, UNDECIDED]) == UNDECIDED
    assert combined([NOT_REPRODUCED, UNDECIDED]) == UNDECIDED
    assert combined([]) == UNDECIDED


def test_evidence_is_shown_in_its_unit() -> None:
    assert Evidence("gain", 0.0123, (0.01, 0.02), scale=100).shown() == "1.23 (1.00 to 2.00)"
    assert Evidence("tiny", 3e-9).shown() == "3.00e-09"
    assert Evidence("count", 0, digits=0).shown() == "0"
    assert Evidence("gone", None, reason="one seed").shown() == "one seed"
    assert Evidence("alone", 0.5, reason="one seed").shown() == "0.50 (one seed)"


def test_claims_survive_json() -> None:
    claim = Claim("a", "says", "if", REPRODUCED, (Evidence("x", 1.0, (0.5, 1.5)),), "so", "more")
    assert Claim.from_dict(claim.to_dict()) == claim
    with pytest.raises(ValueError, match="no verdict"):
        Claim("a", "says", "if", "proved")


def test_the_budget_of_a_rule_that_needs_only_some() -> None:
    """Of three, two have to be above; the one that lies at the bound is not waited for."""

    def decide(found: Sequence[Evidence]) -> str:
        verdicts = [decide_above(one) for one in found]
        for verdict in (REPRODUCED, NOT_REPRODUCED):
            if verdicts.count(verdict) >= 2:
                return verdict
        return UNDECIDED

    wide, at_it = Evidence("gain", 0.1, (-0.1, 0.3)), Evidence("gain", 0.0, (-0.1, 0.1))
    sure, contrary = Evidence("gain", 0.1, (0.05, 0.15)), Evidence("gain", -0.1, (-0.2, 0.0))
    told = budget([wide, at_it, sure], 5, decide=decide)
    assert told.startswith("About 20 seeds instead of 5 (then *reproduced*, ")
    lost = Evidence("gain", -0.1, (-0.3, 0.1))
    assert "About 20 seeds instead of 5 (then *not reproduced*" in budget(
        [lost, at_it, contrary], 5, decide=decide
    )
    assert budget([at_it, at_it, sure], 5, decide=decide).startswith("No number of seeds")


def test_the_budget_that_would_tell() -> None:
    half_as_far = Evidence("gain", 0.1, (-0.1, 0.3))
    assert budget([half_as_far], 5).startswith("About 20 seeds instead of 5")
    assert budget([Evidence("gain", 0.1, (0.05, 0.15))], 5).startswith("About 5 seeds")
    assert budget([Evidence("gain", 0.0, (-0.1, 0.1))], 5).startswith("No number of seeds")
    assert budget([Evidence("loss", 0.25, (-0.25, 0.75))], 4, 0.5).startswith("About 16 seeds")
