"""The rules about GOM, on scores that were made to agree or to disagree."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from studies import gom
from studies.claims import IN_DIRECTION, NOT_REPRODUCED, REPRODUCED, UNDECIDED
from studies.gom import draw, metrics_of, with_unmated
from studies.trained import score_sheet

import truerank
from tests.reproduce.pretend import Pretended, pretend
from truerank._util.errors import InputError
from truerank.datasets.base import Dataset
from truerank.result.result import Result


@pytest.fixture(scope="module")
def whole() -> Result:
    """One result with curves; 30 items, so that B is 3 at a tenth of the gallery."""
    rng = np.random.default_rng(0)
    return truerank.evaluate(
        rng.random((40, 30)), np.arange(40), gallery_labels=np.arange(30) // 3,
        distance="precomputed", metrics=["mrep", "mfr@b=3"], confidence=None,
    )  # fmt: skip


def models(
    whole: Result, by_map: Sequence[float], by_vp: Sequence[float], by_rate: Sequence[float],
    spread: float = 1e-4,
) -> Pretended:  # fmt: skip
    """Models whose scores lie around these values, over five seeds, each in an order of its own."""
    away = spread * np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    scores = {}
    for number, (a, b, c) in enumerate(zip(by_map, by_vp, by_rate, strict=True)):
        around = dict.fromkeys(metrics_of(30, ("0.05",)), 0.5)
        around |= {metric: c for metric in around if metric.startswith("mfr")}
        around |= {"map": a, "mvp_max": b, "dir@far=0.05": 1 - c}
        scores[f"model {number}"] = {
            metric: (value + np.roll(away, number)).tolist() for metric, value in around.items()
        }
    return pretend("points", scores, whole=whole)


def test_pairs_in_one_order_show_no_inversion(whole: Result) -> None:
    one = models(whole, (0.5, 0.6, 0.7), (0.2, 0.3, 0.4), (0.1, 0.2, 0.3))
    assert gom.inversions(one) == []
    assert gom.judge([one], ["0.05"])[0].verdict == NOT_REPRODUCED


def test_a_clear_inversion_is_reproduced_and_a_doubtful_one_left_open(whole: Result) -> None:
    order = (0.5, 0.6, 0.7), (0.2, 0.4, 0.3), (0.1, 0.2, 0.3)
    clear, doubtful = models(whole, *order), models(whole, *order, spread=0.1)
    (pair,) = gom.inversions(clear)
    assert (pair["first"], pair["second"]) == ("model 1", "model 2")
    assert pair["p"] < 0.05
    assert gom.judge([clear], ["0.05"])[0].verdict == REPRODUCED
    (pair,) = gom.inversions(doubtful)
    assert pair["p of one"] > 0.05
    assert gom.judge([doubtful], ["0.05"])[0].verdict == UNDECIDED
    one_sided = models(whole, (0.5, 0.6, 0.9), (0.2, 0.4, 0.4 - 1e-5), (0.1, 0.2, 0.3), spread=1e-3)
    (pair,) = gom.inversions(one_sided)
    assert pair["p of one"] < 0.05 < pair["p"]
    assert gom.judge([one_sided], ["0.05"])[0].verdict == IN_DIRECTION
    assert gom.judge([clear, doubtful], ["0.05"])[0].verdict == REPRODUCED


def test_orders_that_contradict_each_other_are_not_reproduced(
    whole: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates = tuple(np.linspace(0.1, 0.8, 8))
    one = models(whole, rates, rates, rates)
    same = np.repeat(np.array(rates)[:, None], 5, axis=1)
    monkeypatch.setattr(gom, "rescaled", lambda *given: same)
    claim = gom.judge([one], ["0.05"])[1]
    assert claim.verdict == REPRODUCED
    monkeypatch.setattr(gom, "rescaled", lambda *given: -same)
    claim = gom.judge([one], ["0.05"])[1]
    assert claim.verdict == NOT_REPRODUCED
    noise = np.random.default_rng(1).normal(size=same.shape)
    monkeypatch.setattr(gom, "rescaled", lambda *given: same + noise)
    claim = gom.judge([one], ["0.05"])[1]
    assert claim.verdict == UNDECIDED
    assert claim.tell


def test_rescaled_rates_come_from_the_curves(whole: Result) -> None:
    one = models(whole, (0.5, 0.6), (0.2, 0.3), (0.1, 0.2))
    found = gom.rescaled(one, 3, 1.0)
    assert found.shape == (2, 5)
    assert found == pytest.approx(whole["mfr@b=3"].value, abs=2e-3)


def test_figures_and_tables(whole: Result) -> None:
    one = models(whole, (0.5, 0.6), (0.2, 0.3), (0.1, 0.2))
    names = [drawing.name for drawing in draw([one])]
    assert names == ["curves", "two-orders", "learning-points"]
    sheet = score_sheet(one, ["map", "mfr@b=3"])
    assert [row[0] for row in sheet.rows] == ["model 0", "model 1"]
    assert sheet.rows[0][1].startswith("50.0")
    assert sheet.header[2] == "mfr@b=3 (lower is better)"
    assert "5 seeds" in one.described()


def test_every_second_test_class_has_nothing_to_find() -> None:
    labels = np.repeat(np.arange(12), 4)
    rows = np.arange(48)
    data = Dataset(
        "points", np.zeros((48, 4, 4), np.uint8), labels, ("class",),
        groups=np.array([f"g{row % 4}" for row in rows]),
        splits={"train": rows < 16, "test": rows >= 16},
    )  # fmt: skip
    found = with_unmated(data)
    alone = [len(set(found.groups[labels == label].tolist())) == 1 for label in range(12)]
    assert alone == [False] * 4 + [False, True] * 4


def test_the_papers_table_2_is_recomputed() -> None:
    rows = {row[0]: row[1:] for row in gom.table_2().rows}
    assert rows["I"] == ["1.0000", "1.0000", "1.0000", "0.6667", "0.8165", "1.0000", "1.0000",
                         "1.0000", "", ""]  # fmt: skip
    assert rows["III"][:2] == ["0.8056", "0.7500"]
    assert rows["V"][-2:] == ["0.0000", "0.4000"]


def test_b_is_a_share_of_the_gallery() -> None:
    assert list(gom.limits_of(1000).values()) == [10, 100, 500]
    assert "mfr@b=100,far=0.01" in metrics_of(1000, ("0.01",))


def test_released_curves_give_the_sub_metrics(tmp_path: Path) -> None:
    """Two models, whose order by mAP is not that by mVP_max."""
    from scipy.io import savemat

    tau = np.linspace(0, 1, 101)
    savemat(
        tmp_path / "made.mat",
        {
            "CMC_list": np.array([[0.5, 0.6], [0.7, 0.8]]),
            "mRP_list": np.array([0.6 * tau, 0.8 * tau]),
            "mVP_list": np.array([0.4 * tau, np.minimum(tau, 0.3)]),
            "mReP_list": np.array([tau * (1 - tau), np.full(101, 0.25)]),
            "mFR_list": np.array([tau, tau >= 0.5]),
        },
    )
    [sheet] = gom.released_curves(tmp_path)
    mean = f"{100 * (1 / 6 - 1 / 60_000):.2f}"  # trapezoids of a parabola, h = .01: less h^2/6
    assert sheet.rows == [
        ["made 1", "50.00", "60.00", "40.00", "25.00", "50.00", mean, "50.00"],
        ["made 2", "70.00", "80.00", "30.00", "25.00", "0.00", "25.00", "50.50"],
    ]
    assert "1 of 1 pairs" in sheet.note
    assert gom.released_curves(None) == []
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no curves"):
        gom.released_curves(tmp_path / "empty")
