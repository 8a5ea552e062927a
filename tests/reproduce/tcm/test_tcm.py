"""The study of TCM: its rows can be trained, its rules can come out either way."""

from __future__ import annotations

import json
import math
from pathlib import Path
from statistics import NormalDist, harmonic_mean, pvariance

import numpy as np
import pytest
from studies import tcm
from studies.claims import IN_DIRECTION, NOT_REPRODUCED, REPRODUCED, UNDECIDED
from studies.runner import Request
from studies.tcm import draw

import truerank
from tests.benchmark.small import write_drawings
from tests.reproduce.pretend import Pretended, pretend
from truerank.benchmark.config import BenchmarkConfig
from truerank.benchmark.methods import methods_of, training_config
from truerank.training.config import Config
from truerank.training.objective import build, path_codes

PAGE = Path(__file__).parents[3] / "docs/results/reproduce/tcm.json"
AWAY = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])


def test_every_row_can_be_trained_and_has_as_many_trials(tmp_path: Path) -> None:
    drawings = write_drawings(tmp_path / "drawings.npz")
    makers = tcm.benchmarks(Request(tmp_path, files={"quickdraw": drawings}))
    with pytest.warns(UserWarning, match="not complete"):
        parts = {name: make() for name, make in makers.items()}
    assert list(parts) == ["disjoint", "shared"]
    for given, data in parts.values():
        config = BenchmarkConfig.of(given)
        assert len(config.methods) == 12
        for method in methods_of(config):
            bare = method.name in tcm.BASES
            assert (method.objective is None) == bare
            own = {name for name in method.space if name not in ("lr", "loss_lr")}
            assert len(own) == (0 if bare else 3)
            training = Config.of(training_config(config, method, dict(method.defaults), 1))
            build(training.loss, path_codes(data.labels.reshape(-1, 1)), 8)


def rows(change: float, hit: float, control: float, spread: float = 1e-5) -> Pretended:
    """Four bases; what TCM changes in OPIS and hit@1, and what the control does in OPIS."""
    scores = {}
    for number, base in enumerate(tcm.BASES):
        for end, opis, accuracy in (
            ("", 0.02, 0.5),
            (tcm.TCM, 0.02 + change, 0.5 + hit),
            (tcm.CONTROL, 0.02 + control, 0.5),
        ):
            away = spread * np.roll(AWAY, number + len(end))
            scores[base + end] = {
                "opis": (opis + away).tolist(),
                "hit@1": (accuracy + away).tolist(),
                "map@r": (0.3 + away).tolist(),
            }
    facts = {"consistency": {"noise": 0.004}}
    whole = truerank.evaluate(
        np.random.default_rng(0).normal(size=(80, 6)), np.repeat(np.arange(16), 5),
        metrics=["opis@far=0.05:0.5"], confidence=None,
    )  # fmt: skip
    made = pretend("disjoint", scores, whole=whole, noise=0.0, facts=facts)
    whole.provenance["consistency"]["noise"] = 0.004
    return made


def test_what_the_paper_claims_is_reproduced() -> None:
    claims = tcm.judge([rows(-0.005, 0.001, -0.001)])
    assert [claim.verdict for claim in claims] == [REPRODUCED] * 3


def test_the_control_is_told_as_table_7_has_it() -> None:
    """In the paper the contrastive loss lowers OPIS more than TCM does, at a cost in recall@1."""
    _, _, control = tcm.judge([rows(-0.005, 0.001, -0.001)])
    assert "OPIS .17 and .10 x 1e-3, at recall@1 of 69.1 and 67.1 %" in control.statement
    page = json.loads(PAGE.read_text(encoding="utf-8"))
    assert control.statement in [claim["statement"] for claim in page["claims"]]


def test_a_rise_a_cost_and_a_better_control_are_not() -> None:
    claims = tcm.judge([rows(0.005, -0.03, -0.001)])
    assert [claim.verdict for claim in claims] == [NOT_REPRODUCED] * 3


def test_noise_leaves_it_open() -> None:
    claims = tcm.judge([rows(-0.001, 0.0, -0.0005, spread=0.02)])
    assert [claim.verdict for claim in claims] == [UNDECIDED] * 3
    assert all("seeds" in claim.tell for claim in claims)


def test_three_of_four_must_hold() -> None:
    yes, no, open_ = REPRODUCED, NOT_REPRODUCED, UNDECIDED
    assert tcm.most_of([yes, yes, yes, no], [-1, -1, -1, 1]) == REPRODUCED
    assert tcm.most_of([yes, yes, no, no], [-1, -1, 1, 1]) == NOT_REPRODUCED
    assert tcm.most_of([yes, open_, open_, open_], [-1, -1, -1, 1]) == IN_DIRECTION
    assert tcm.most_of([open_, open_, open_, open_], [-1, -1, -1, -1]) == UNDECIDED
    assert tcm.most_of([yes, open_, open_, no], [-1, -1, -1, 1]) == UNDECIDED
    assert tcm.most_of([yes, open_, open_, open_], [-1, 1, -1, 1]) == UNDECIDED


def test_the_noise_floor_is_taken_off_each_run() -> None:
    one = rows(-0.005, 0.0, 0.0)
    raw, net = one.runs["ArcFace"], tcm.above_noise(one, "ArcFace")
    for before, after in zip(raw, net, strict=True):
        assert after["opis"].value == pytest.approx(before["opis"].value - 0.004)
        kept, moved = before["opis"].replicates, after["opis"].replicates
        assert moved.standard_error() == pytest.approx(kept.standard_error())


def test_figures() -> None:
    names = [drawing.name for drawing in draw([rows(-0.005, 0.0, 0.0)])]
    assert names == ["pareto", "utility", "gaussians", "learning-disjoint"]


@pytest.mark.parametrize("threshold", [0.4, 0.8, 1.1, 1.3])
def test_gaussian_utilities_are_those_of_counted_pairs(threshold: float) -> None:
    positive, negative = (0.7, 0.2), (1.2, 0.1)
    shares = [(number + 0.5) / 20_000 for number in range(20_000)]
    accepted, wrongly = (
        sum(NormalDist(*pairs).inv_cdf(share) <= threshold for share in shares)
        for pairs in (positive, negative)
    )
    recall, specificity = accepted / 20_000, 1 - wrongly / 20_000
    precision = accepted / (accepted + wrongly)
    for of, other in (("specificity", specificity), ("precision", precision)):
        found = tcm.gaussian_utility(threshold, positive, negative, of=of)
        assert found == pytest.approx(harmonic_mean([recall, other]), abs=2e-4)


def test_opis_of_perfect_and_random_classes() -> None:
    assert tcm.opis_of_random_classes(0.1, 0.8, 1.2) == pytest.approx(2.31e-2, abs=5e-5)
    for share, low, high in ((0.25, 0.3, 1.9), (0.5, 0.99, 1.01)):
        perfect = round(share * 100)
        grid = [low + (high - low) * (number + 0.5) / 1000 for number in range(1000)]
        classes = [[1.0] * perfect + [d * (1 - d / 2)] * (100 - perfect) for d in grid]
        mean = sum(pvariance(utilities) for utilities in classes) / 1000
        assert tcm.opis_of_random_classes(share, low, high) == pytest.approx(mean, rel=1e-4)


def test_margins_are_cosines_at_the_ends_of_the_range() -> None:
    for distance, margin in zip(tcm.calibration_range(0.9, 0.5), (0.9, 0.5), strict=True):
        angle = 2 * math.asin(distance / 2)  # of the chord between two unit vectors
        assert math.cos(angle) == pytest.approx(margin)
