"""Rankings that stay on a GPU, and scores from them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import truerank
from tests import registered
from tests.engine.cuda.devices import clustered, needs_gpu, tied_rows
from truerank._util.settings import settings

RANKING = registered.of_rankings()


@needs_gpu
@pytest.mark.parametrize("kind", ["tied", "clustered"])
@pytest.mark.parametrize("sort_share", [0.0, 0.05, 1.0])
def test_every_ranking_metric_of_a_tree(kind: str, sort_share: float) -> None:
    """Rankings that stay on the GPU, those with ties that do not, and counted ones."""
    rng = np.random.default_rng(2)
    labels = rng.integers(36, size=900)
    tree = np.column_stack([labels // 18, labels // 6, labels // 2, labels])
    rows = tied_rows(rng, 900, 6) if kind == "tied" else clustered(rng, labels, 6)
    with settings(sort_share=sort_share):
        first, second = (
            truerank.evaluate(rows, tree, device=device, metrics=RANKING)
            for device in ("cpu", "cuda")
        )
    assert first.provenance["ties"] == second.provenance["ties"]
    assert first.provenance["severity"] == second.provenance["severity"]
    for metric in RANKING:
        for end in ("lower", "expected", "upper"):
            np.testing.assert_array_equal(
                getattr(first[metric].per_query, end), getattr(second[metric].per_query, end)
            )
        np.testing.assert_array_equal(first[metric].value, second[metric].value)


@needs_gpu
def test_tensors_on_the_gpu() -> None:
    rng = np.random.default_rng(2)
    labels = np.arange(60) // 3
    rows = clustered(rng, labels, 8)
    tensor = torch.from_numpy(rows).cuda()
    on_gpu = truerank.evaluate(tensor, torch.from_numpy(labels).cuda(), device="cuda")
    assert on_gpu["map@r"] == truerank.evaluate(rows, labels, device="cpu")["map@r"]
