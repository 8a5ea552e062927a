"""1 - SupAP and 1 - HAPPIER's ranking term never exceed the true metric of a tie-free batch."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import truerank
from truerank import losses

ROUNDING = 1e-9


@st.composite
def batches(draw: st.DrawFn) -> tuple[torch.Tensor, torch.Tensor]:
    """Some rows of a tree of three levels, in any order; the rows' directions are all different."""
    depth = draw(st.integers(1, 3))
    rows = draw(st.integers(2, 12))
    paths = draw(st.lists(st.tuples(*[st.integers(0, 2)] * depth), min_size=rows, max_size=rows))
    # As one label may not stand under two parents, the path to a node is its name.
    named = [
        [sum(3**i * (step + 1) for i, step in enumerate(path[:end])) for end in range(1, depth + 1)]
        for path in paths
    ]
    seed = draw(st.integers(0, 2**32 - 1))
    generator = torch.Generator().manual_seed(seed)
    embeddings = torch.randn(rows, 3, generator=generator, dtype=torch.float64)
    # Between nearly parallel rows (all leads near 0) and well spread ones.
    embeddings[:, 0] += draw(st.sampled_from([0.0, 3.0, 30.0]))
    return embeddings, torch.tensor(named)


def true_value(embeddings: torch.Tensor, labels: torch.Tensor, metric: str) -> float | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", truerank.TruerankWarning)
        score = truerank.evaluate(embeddings, labels, metrics=[metric], confidence=None)[metric]
    assert score.lower == score.upper or score.n == 0, "a tie"
    return None if score.n == 0 else score.lower


@given(batches())
def test_sup_ap_bounds_average_precision(batch: tuple[torch.Tensor, torch.Tensor]) -> None:
    embeddings, labels = batch[0], batch[1][:, -1]
    truth = true_value(embeddings, labels, "map")
    loss = losses.get("sup_ap")(embeddings, labels).item()
    assert loss == 0 if truth is None else 1 - loss <= truth + ROUNDING


@pytest.mark.thorough
@given(batches(), st.sampled_from([0.5, 1, 3, 5]), st.booleans())
def test_happier_bounds_hierarchical_average_precision(
    batch: tuple[torch.Tensor, torch.Tensor], alpha: float, pull_back: bool
) -> None:
    embeddings, labels = batch
    metric = f"h_ap@alpha={alpha}"
    options: dict[str, Any] = {"alpha": float(alpha), "pull_back": pull_back}
    check(embeddings, labels, metric, options)


@given(batches(), st.booleans())
def test_happier_with_sum_wap_bounds_sum_wap(
    batch: tuple[torch.Tensor, torch.Tensor], pull_back: bool
) -> None:
    embeddings, labels = batch
    check(embeddings, labels, "sum_wap", {"relevance": "sum_wap", "pull_back": pull_back})


def check(
    embeddings: torch.Tensor, labels: torch.Tensor, metric: str, options: dict[str, Any]
) -> None:
    truth = true_value(embeddings, labels, metric)
    loss = losses.get("happier", cluster_weight=0, **options)(embeddings, labels).item()
    assert loss == 0 if truth is None else 1 - loss <= truth + ROUNDING


@pytest.mark.parametrize("name", ["sup_ap", "happier"])
def test_the_bound_is_reached_by_a_perfect_batch(name: str) -> None:
    """Four classes at right angles: negatives trail by 1, where the surrogate is e^-100."""
    labels = torch.arange(4).repeat_interleave(2)
    embeddings = torch.eye(4, dtype=torch.float64)[labels]
    paths = torch.stack([labels // 4, labels], dim=1)
    if name == "happier":
        loss = losses.get("happier", cluster_weight=0)(embeddings, paths[:, 1:]).item()
    else:
        loss = losses.get(name)(embeddings, labels).item()
    assert loss == pytest.approx(0, abs=1e-12)


def test_the_released_offset_is_no_longer_continuous() -> None:
    from truerank.losses.ranking import Ahead

    edge = torch.tensor([0.05, 0.05 + 1e-12], dtype=torch.float64)
    ours, released = Ahead()(edge).tolist(), Ahead(offset=1.44)(edge).tolist()
    assert ours[0] == pytest.approx(ours[1], abs=1e-9)
    assert released[1] < released[0] - 0.05
