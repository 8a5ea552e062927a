"""Student's t against scipy."""

from __future__ import annotations

import pytest

from truerank.core.student import central, quantile


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 9, 19, 20, 101, 1000])
def test_students_t(freedom: int) -> None:
    t = pytest.importorskip("scipy.stats").t
    for confidence in (0.1, 0.5, 0.9, 0.95, 0.999):
        expected = t.ppf(0.5 + confidence / 2, freedom)
        assert quantile(confidence, freedom) == pytest.approx(expected, rel=1e-9)
    for value in (0.0, 0.3, -1.7, 4.0, 40.0):
        expected = t.cdf(abs(value), freedom) - t.cdf(-abs(value), freedom)
        assert central(value, freedom) == pytest.approx(expected, abs=1e-12)
