"""The band of DIR over FAR is, at each rate, the interval of dir@far."""

from __future__ import annotations

import numpy as np
import pytest

import truerank
from tests.builders import clusters

RATES = (0.1, 0.25, 0.5)
METRICS = [f"dir@far={rate},rank={rank}" for rate in RATES for rank in (1, 5)]


def open_set(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rows, labels = clusters(seed, classes=100, size=4, noise=1.0)
    labels[:80] = 1000 + np.arange(80)
    return rows, labels


@pytest.mark.parametrize("gallery", [False, True])
def test_the_band_is_the_interval(gallery: bool) -> None:
    rows, labels = open_set(0)
    options = {}
    if gallery:
        own = np.arange(len(rows)) % 2 == 0
        options = {"gallery": rows[~own], "gallery_labels": labels[~own]}
        rows, labels = rows[own], labels[own]
    result = truerank.evaluate(rows, labels, metrics=METRICS, **options)
    for rank in (1, 5):
        curve = result.curve("dir" if rank == 1 else f"dir@rank={rank}")
        for rate in RATES:
            score = result[f"dir@far={rate},rank={rank}"]
            k = int(np.flatnonzero(curve["far"] == rate)[0])
            assert curve["lower"][k] == score.value
            if score.interval is not None:
                assert (curve["low"][k], curve["high"][k]) == pytest.approx(score.interval)
    told = np.isfinite(result.curve("dir")["low"])
    accepted = np.rint(result.curve("dir")["far"] * (len(told) - 1))
    assert np.array_equal(told, accepted >= 5)


def test_few_strangers_have_no_band() -> None:
    rows, labels = open_set(1)
    labels[8:80] = 0
    result = truerank.evaluate(rows, labels, metrics=["dir@far=0.5"])
    assert "low" not in result.curve("dir")
