"""evaluate_rank against torchreid's protocol, one query at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import truerank
from tests.refusals import assert_refused
from truerank.compat.torchreid import evaluate_rank


def market1501(
    distmat: np.ndarray,
    q_pids: np.ndarray,
    g_pids: np.ndarray,
    q_camids: np.ndarray,
    g_camids: np.ndarray,
    max_rank: int,
) -> tuple[list[float], float]:
    """The protocol one query at a time: sort, drop same person and camera, CMC and AP."""
    curves, precisions = [], []
    for q in range(len(distmat)):
        order = [
            int(g)
            for g in np.argsort(distmat[q])
            if not (g_pids[g] == q_pids[q] and g_camids[g] == q_camids[q])
        ]
        matches = [bool(g_pids[g] == q_pids[q]) for g in order]
        if not any(matches):
            continue
        curves.append([any(matches[: rank + 1]) for rank in range(max_rank)])
        ranks = [rank for rank, match in enumerate(matches, 1) if match]
        precisions.append(sum(sum(matches[:rank]) / rank for rank in ranks) / len(ranks))
    cmc = [sum(curve[rank] for curve in curves) / len(curves) for rank in range(max_rank)]
    return cmc, sum(precisions) / len(precisions)


def people(seed: int, queries: int = 40, items: int = 120) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "distmat": rng.random((queries, items)),
        "q_pids": rng.integers(0, 15, queries),
        "g_pids": rng.integers(0, 14, items),
        "q_camids": rng.integers(0, 3, queries),
        "g_camids": rng.integers(0, 3, items),
    }


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("max_rank", [1, 20, 50])
def test_the_reidentification_protocol(seed: int, max_rank: int) -> None:
    data = people(seed)
    assert len(np.unique(data["distmat"])) == data["distmat"].size
    cmc, mean_ap = evaluate_rank(**data, max_rank=max_rank)
    expected, expected_ap = market1501(**data, max_rank=max_rank)
    assert cmc.dtype == np.float64
    np.testing.assert_allclose(cmc, expected, rtol=0, atol=1e-12)
    assert mean_ap == pytest.approx(expected_ap, abs=1e-12)
    assert type(mean_ap) is float


def test_the_default_depth_and_the_cython_switch() -> None:
    data = people(7)
    cmc, mean_ap = evaluate_rank(*data.values())
    assert len(cmc) == 50
    for use_cython in (True, False):
        again, again_ap = evaluate_rank(*data.values(), 50, False, use_cython)
        np.testing.assert_array_equal(again, cmc)
        assert again_ap == mean_ap


def test_a_gallery_shorter_than_the_curve() -> None:
    cmc, _ = evaluate_rank(**people(8, queries=9, items=30))
    assert len(cmc) == 30


def test_text_tensors_and_lists() -> None:
    data = people(9)
    cmc, mean_ap = evaluate_rank(**data)
    named = {name: [f"{value}" for value in data[name]] for name in list(data)[1:]}
    as_lists = {name: values.tolist() for name, values in data.items()}
    tensors = {name: torch.tensor(values) for name, values in data.items()}
    for other in (data | named, as_lists, tensors, data | {"distmat": tensors["distmat"]}):
        again, again_ap = evaluate_rank(**other)
        np.testing.assert_array_equal(again, cmc)
        assert again_ap == mean_ap


def test_tied_distances_count_against_the_model() -> None:
    """The original takes them in the order of the gallery, so that shuffling changes the score."""
    cmc, mean_ap = evaluate_rank([[1.0, 1, 1, 2]], [0], [0, 1, 1, 1], [0], [1, 1, 1, 1], 4)
    assert cmc.tolist() == [0, 0, 1, 1]
    assert mean_ap == 1 / 3


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"use_metric_cuhk03": True}, ["use_metric_cuhk03", "random galleries", "new cuhk03"]),
        ({"max_rank": 0}, ["max_rank", "int >= 1", "0"]),
        ({"max_rank": 2.5}, ["max_rank", "2.5"]),
        ({"distmat": np.ones(3)}, ["distmat", "(3,)"]),
        ({"distmat": np.full((40, 120), np.nan)}, ["NaN"]),
        ({"q_pids": np.zeros(3, int)}, ["40", "3"]),
        ({"g_pids": np.zeros(3, int)}, ["120", "3"]),
        ({"q_camids": np.zeros(3, int)}, ["40", "3"]),
        ({"g_camids": np.zeros(3, int)}, ["120", "3"]),
        ({"q_camids": None}, ["q_camids", "40"]),
    ],
)
def test_arguments_of_evaluate_rank_that_are_refused(
    changes: dict[str, Any], words: list[str]
) -> None:
    assert_refused(lambda: evaluate_rank(**people(10) | changes), words)


def test_queries_without_a_mate_on_another_camera() -> None:
    data = people(11)
    data["q_camids"][:], data["g_camids"][:] = 5, 5
    assert_refused(
        lambda: evaluate_rank(**data),
        [
            "no query has a relevant item",
            "all relevant items junk",
            "query's camera",
            "q_camids and g_camids",
        ],
    )
    data = people(11)
    data["q_pids"] += 100
    assert_refused(
        lambda: evaluate_rank(**data), ["no query has a relevant item", "40 not in gallery"]
    )


def test_the_same_task_by_the_front_door() -> None:
    data = people(12)
    cmc, mean_ap = evaluate_rank(**data)
    result = truerank.evaluate(
        data["distmat"],
        data["q_pids"],
        gallery_labels=data["g_pids"],
        query_groups=data["q_camids"],
        gallery_groups=data["g_camids"],
        distance="precomputed",
        metrics=["map", "rank-5"],
    )
    assert (result["map"].value, result["hit@5"].value) == (mean_ap, cmc[4])
