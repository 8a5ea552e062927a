"""Bars say what scores and severity say."""

from __future__ import annotations

import numpy as np
import pytest

import truerank
from tests.builders import clusters
from truerank.intervals.interval import from_replicates
from truerank.result.curves import bars_of

METRICS = ["precision@1,level=1", "precision@1", "h_ap"]


@pytest.fixture(scope="module")
def result() -> truerank.Result:
    rows, labels = clusters(0, classes=40, noise=1.6)
    return truerank.evaluate(rows, np.column_stack([labels // 4, labels]), metrics=METRICS)


@pytest.mark.parametrize("read", [False, True])
def test_levels_and_severity(result: truerank.Result, read: bool) -> None:
    one = truerank.Result.from_dict(result.to_dict()) if read else result
    assert {"levels", "severity"} <= set(one.curves)
    levels = one.curve("levels")
    assert levels["level"].tolist() == ["1", "finest"]
    scores = [one["precision@1,level=1"], one["precision@1"]]
    assert levels["lower"].tolist() == [score.value for score in scores]
    ends = [score.interval or (np.nan, np.nan) for score in scores]
    assert np.array_equal(np.stack([levels["low"], levels["high"]], 1), ends, equal_nan=True)
    wide = one.curve("levels", band="simultaneous")
    for place, score in enumerate(scores):
        own = score.replicates
        assert own is not None
        expected = from_replicates(score.value, own, own, 0.975, (0.0, 1.0)).ends  # of two bars
        assert (wide["low"][place], wide["high"][place]) == pytest.approx(expected, rel=1e-9)
    severity, known = one.curve("severity"), result.severity()
    assert severity["shared"].tolist() == ["none", "1"]
    assert severity["value"].sum() * known.queries == pytest.approx(known.errors)
    assert severity.band_reason is None
    assert (severity["low"] < severity["value"]).all()
    assert (severity["high"] > severity["value"]).all()
    assert np.array_equal(severity["low"], result.curve("severity")["low"])
    assert severity["value"][0] == known.by_level["none"] / known.queries


def test_without_levels_there_are_none() -> None:
    rows, labels = clusters(0)
    result = truerank.evaluate(rows, labels)
    assert bars_of(result, result.provenance) == {}
