"""No pass, sample or limit can be seen in the scores."""

from __future__ import annotations

from typing import Any

import pytest

import truerank
from tests.conftest import Within
from tests.families.rates import spread
from truerank._util.settings import limits, settings
from truerank.engine import runner

NAMES = ["auc", "min_dcf", "best_f1", "eer", "tar@far=0.01", "threshold@far=0.001", "fmr@tau=0.61"]


def fields(result: Any) -> dict[str, Any]:
    return {name: (s.value, s.threshold, s.n, s.reason) for name, s in result.items()}


@pytest.mark.parametrize("setting", ["leave one out", "query and gallery"])
def test_a_sample_foretells_and_never_decides(
    monkeypatch: pytest.MonkeyPatch, setting: str, within: Within
) -> None:
    """With every pair kept, a good sample, a sample of a few rows, and none: the same numbers."""
    rows, labels = spread(11, 400, 30)
    more = {}
    if setting == "query and gallery":
        more = {"gallery": rows[150:], "gallery_labels": labels[150:]}
        rows, labels = rows[:150], labels[:150]

    def run() -> dict[str, Any]:
        return fields(truerank.evaluate(rows, labels, metrics=NAMES, **more))

    expected = run()
    sweeps = []
    original = runner.sweep
    monkeypatch.setattr(runner, "sweep", lambda *a, **k: (sweeps.append(1), original(*a, **k))[1])
    within(settings(collected=0))
    assert run() == expected
    assert sweeps  # without a sample a second pass was needed
    within(limits(sampled_from=0))
    for rows_sampled in (3, 100):
        within(limits(sampled_rows=rows_sampled))
        assert run() == expected


def test_thinned_cuts_bracket_the_area_and_what_is_best_over_cuts(within: Within) -> None:
    rows, labels = spread(13, 300, 5)
    exact = truerank.evaluate(rows, labels, metrics=NAMES)
    within(limits(edges=50))
    thinned = truerank.evaluate(rows, labels, metrics=NAMES)
    low, high = thinned["auc"].bracket
    assert low < exact["auc"].value < high
    assert high - low < 0.05
    assert exact["auc"].bracket is None
    for name in NAMES[3:]:
        assert fields(thinned)[name] == fields(exact)[name]
    for name in ("min_dcf", "best_f1"):
        low, high = thinned[name].bracket or (thinned[name].value,) * 2
        assert low <= exact[name].value <= high
    low, high = thinned["best_f1"].bracket
    assert low == thinned["best_f1"].value < high < low + 0.05
    assert exact["best_f1"].bracket is None
    assert thinned.curve("f1")["f1"].max() == low


def test_tiles_and_threads_cannot_be_seen() -> None:
    rows, labels = spread(17, 200, 20)
    expected = fields(truerank.evaluate(rows, labels, metrics=NAMES))
    for sizes in ({"observed_numbers": 1}, {"observed_numbers": 700, "gallery_rows": 13}):
        with settings(**sizes):
            assert fields(truerank.evaluate(rows, labels, metrics=NAMES, threads=3)) == expected
