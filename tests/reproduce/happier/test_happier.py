"""The study of HAPPIER: its rows can be trained, its rules can come out either way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from studies import happier
from studies.claims import NOT_REPRODUCED, REPRODUCED, UNDECIDED
from studies.happier import draw, project
from studies.runner import Request

import truerank
from tests.reproduce.pretend import Pretended, pretend
from truerank.benchmark.config import BenchmarkConfig
from truerank.benchmark.methods import methods_of, training_config
from truerank.datasets.base import Dataset
from truerank.training.config import Config
from truerank.training.objective import build, path_codes

AWAY = 0.001 * np.array([-2.0, -1.0, 0.0, 1.0, 2.0])


def tree(path: Path) -> Path:
    """A file in the layout of the emoji families."""
    rng = np.random.default_rng(0)
    labels = [(f"c{n // 12}", f"s{n // 4}", f"emoji{n:02}") for n in range(48) for _ in range(4)]
    np.savez(
        path, images=rng.integers(0, 256, (192, 48, 48, 3), dtype=np.uint8),
        families=np.array([f"family{n % 4}" for n in range(192)]), labels=np.array(labels),
    )  # fmt: skip
    return path


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[dict[str, object], Dataset]]:
    folder = tmp_path_factory.mktemp("happier")
    request = Request(folder, files={"emoji": tree(folder / "emoji.npz")})
    with pytest.warns(UserWarning, match="not complete"):
        return {name: make() for name, make in happier.benchmarks(request).items()}


def test_every_row_is_a_loss_that_can_be_built(
    parts: dict[str, tuple[dict[str, object], Dataset]],
) -> None:
    names = {}
    for name, (given, data) in parts.items():
        config = BenchmarkConfig.of(given)
        codes = path_codes(data.labels)
        for method in methods_of(config):
            assert set(method.space) <= {"lr", "loss_lr"}  # rates alone are searched
            assert "lr" in method.space
            training = Config.of(training_config(config, method, dict(method.defaults), 1))
            assert training.sampler.kind == "hierarchical"
            build(training.loss, codes, 8)
        names[name] = [method.name for method in config.methods]
    main = [*happier.FINE, *happier.SUMMED, *happier.TREE]
    assert sorted(names["emoji"]) == sorted(main)
    assert set(happier.OPTIMISATION) <= set(names["ablations"])
    assert "alpha 5" in names["ablations"]


def rows(happier: tuple[float, float], fine: tuple[float, float], spread: float) -> Pretended:
    """H-AP and MAP@R of HAPPIER and of the best fine-only row; HAPPIER_F lies between."""
    between = ((happier[0] + fine[0]) / 2, (happier[1] + fine[1]) / 2)
    means = {
        "NSM": (0.3, 0.9), "Smooth-AP": fine, "sum TL": (0.35, 0.3), "CSL": (0.4, 0.35),
        "HAPPIER": happier, "HAPPIER_F": between,
    }  # fmt: skip
    scores = {
        name: {
            "h_ap": (h + spread * np.roll(AWAY, n)).tolist(),
            "map@r": (m + spread * np.roll(AWAY, 2 * n)).tolist(),
        }
        for n, (name, (h, m)) in enumerate(means.items())
    }
    validation = {"NSM": 0.2, "Smooth-AP": 0.5}
    return pretend("emoji", scores, validation=validation)


def test_the_best_rival_is_chosen_by_validation() -> None:
    found = happier.rivals(rows((0.5, 0.4), (0.45, 0.42), 1))
    assert found["the best fine-only"] == "Smooth-AP"  # NSM has the higher test score


def test_what_the_paper_claims_is_reproduced() -> None:
    claims = happier.judge(rows((0.5, 0.40), (0.45, 0.42), 1))
    assert [claim.verdict for claim in claims] == [REPRODUCED] * 3


def test_a_large_loss_at_the_finest_level_is_not_reproduced() -> None:
    a, b, c = happier.judge(rows((0.5, 0.30), (0.45, 0.42), 1))
    assert (a.verdict, b.verdict, c.verdict) == (REPRODUCED, NOT_REPRODUCED, REPRODUCED)


def test_noisy_seeds_leave_it_open() -> None:
    claims = happier.judge(rows((0.47, 0.41), (0.45, 0.42), 60))
    assert {claim.verdict for claim in claims} == {UNDECIDED}
    assert all(claim.tell for claim in claims)


def test_figures() -> None:
    emoji = truerank.datasets.emoji()
    some = np.flatnonzero(emoji.is_query)[:120]
    whole = truerank.evaluate(
        emoji.models["pixels"][some], emoji.levels[some], metrics=["h_ap"], confidence=None,
        unmated="report",
    )  # fmt: skip
    one = rows((0.5, 0.4), (0.45, 0.42), 1)
    one.__dict__["whole"] = whole
    rows_of_two = np.array([[1.0, 0.0, 0.1], [0.9, 0.1, 0.0], [0.0, 2.0, 0.0], [0.1, 1.0, 0.5]])
    labels = np.array([["a", "x"], ["a", "x"], ["b", "y"], ["b", "z"]])
    found = project(rows_of_two, labels)
    assert found["coarse"] == ["a", "b", "b"]
    x, y, z = np.array(found["points"])
    assert np.linalg.norm(y - z) < np.linalg.norm(x - y)
    names = [drawing.name for drawing in draw([one], {"HAPPIER": found})]
    assert names == ["severity", "trade-off", "centres", "learning-emoji"]
