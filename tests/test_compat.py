"""The drop-ins against the originals: pytorch-metric-learning itself, and torchreid's protocol."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from pytorch_metric_learning.distances import LpDistance
from pytorch_metric_learning.utils import accuracy_calculator as original
from pytorch_metric_learning.utils.inference import CustomKNN

import truerank
from tests.refusals import assert_refused
from truerank.compat import AccuracyCalculator, evaluate_rank

METRICS = (
    "mean_average_precision",
    "mean_average_precision_at_r",
    "mean_reciprocal_rank",
    "precision_at_1",
    "r_precision",
)
RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((60, 8)).astype(np.float32)
MORE = RNG.standard_normal((80, 8)).astype(np.float32)
LABELS = np.repeat(np.arange(10), 6)
UNEVEN = np.sort(RNG.integers(0, 12, 60))
SINGLETONS = np.concatenate([np.arange(100, 108), RNG.integers(0, 6, 52)])
MORE_LABELS = np.concatenate([RNG.integers(0, 6, 70), np.arange(200, 210)])


def original_calculator(**options: Any) -> original.AccuracyCalculator:
    """Exhaustive search in torch: the original's default needs faiss, which is optional."""
    return original.AccuracyCalculator(
        include=options.pop("include", METRICS),
        device=torch.device("cpu"),
        knn_func=CustomKNN(LpDistance(normalize_embeddings=False, p=2, power=1)),
        kmeans_func=lambda *_: pytest.fail("no clustering was asked for"),
        **options,
    )


def assert_same(actual: dict[str, Any], expected: dict[str, Any]) -> None:
    assert sorted(actual) == sorted(expected)
    for name in expected:
        assert type(actual[name]) is type(expected[name])
        assert actual[name] == pytest.approx(expected[name], abs=1e-6, nan_ok=True), name


def compare(*arguments: Any, options: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    options = options or {}
    ours = AccuracyCalculator(include=METRICS, **options).get_accuracy(*arguments, **more)
    theirs = original_calculator(**options).get_accuracy(*arguments, **more)
    assert_same(ours, theirs)
    return ours


SHAPES: list[dict[str, Any]] = [{}, {"avg_of_avgs": True}, {"return_per_class": True}]


@pytest.mark.parametrize("options", SHAPES)
@pytest.mark.parametrize("labels", [LABELS, UNEVEN, SINGLETONS], ids=["even", "uneven", "singles"])
def test_leave_one_out(labels: np.ndarray, options: dict[str, Any]) -> None:
    found = compare(ROWS, labels, options=options)
    assert set(found) == set(METRICS)


@pytest.mark.parametrize("options", SHAPES)
@pytest.mark.parametrize("labels", [UNEVEN, SINGLETONS], ids=["uneven", "singles"])
def test_against_a_reference(labels: np.ndarray, options: dict[str, Any]) -> None:
    """The queries are elsewhere; some labels are on one side only."""
    found = compare(ROWS, labels, MORE, MORE_LABELS, options=options)
    assert set(found) == set(METRICS)


@pytest.mark.parametrize("options", SHAPES)
def test_against_a_reference_that_begins_with_the_queries(options: dict[str, Any]) -> None:
    reference = np.concatenate([ROWS, MORE])
    labels = np.concatenate([SINGLETONS, MORE_LABELS])
    named = compare(ROWS, SINGLETONS, reference, labels, ref_includes_query=True, options=options)
    placed = compare(ROWS, SINGLETONS, reference, labels, True, options=options)
    alone = compare(ROWS, LABELS, ROWS, LABELS, ref_includes_query=True, options=options)
    assert set(named) == set(placed) == set(alone) == set(METRICS)


def test_a_reference_that_includes_the_queries_unannounced() -> None:
    """Then every query finds itself first, in the original as here."""
    found = compare(
        ROWS, UNEVEN, np.concatenate([ROWS, MORE]), np.concatenate([UNEVEN, MORE_LABELS])
    )
    assert found["precision_at_1"] == 1.0


@pytest.mark.parametrize("options", SHAPES)
@pytest.mark.parametrize("k", [None, "max_bin_count", 59, 30])
def test_any_depth_that_holds_all_mates(k: Any, options: dict[str, Any]) -> None:
    for rows in ((ROWS, UNEVEN), (ROWS, SINGLETONS), (ROWS, UNEVEN, MORE, MORE_LABELS)):
        found = compare(*rows, options=options | {"k": k})
        assert set(found) == set(METRICS)


@pytest.mark.parametrize("options", SHAPES)
@pytest.mark.parametrize("k", [1, 2, 5])
def test_a_depth_that_cuts_mates_off(k: int, options: dict[str, Any]) -> None:
    """Those metrics that a short list leaves meaningful: the first mate may be out of block."""
    shallow = ("mean_average_precision", "mean_reciprocal_rank", "precision_at_1")
    options = options | {"k": k, "include": shallow}
    ours = AccuracyCalculator(**options).get_accuracy(ROWS, UNEVEN)
    assert_same(ours, original_calculator(**options).get_accuracy(ROWS, UNEVEN))
    full = AccuracyCalculator(**options | {"k": None}).get_accuracy(ROWS, UNEVEN)
    assert ours["mean_reciprocal_rank"] != full["mean_reciprocal_rank"]


@pytest.mark.parametrize("options", SHAPES)
def test_labels_of_two_columns(options: dict[str, Any]) -> None:
    """Two rows match if every column does: what the original is told by a comparison function."""
    labels = np.stack([UNEVEN % 3, UNEVEN], axis=1)
    theirs = original_calculator(**options, label_comparison_fn=lambda x, y: (x == y).all(dim=-1))
    ours = AccuracyCalculator(**options)
    assert_same(ours.get_accuracy(ROWS, labels), theirs.get_accuracy(ROWS, labels))
    if not options:  # the order of classes is another one
        assert ours.get_accuracy(ROWS, labels) == ours.get_accuracy(ROWS, UNEVEN)


def test_tensors_lists_and_columns_of_labels() -> None:
    expected = AccuracyCalculator().get_accuracy(ROWS, UNEVEN)
    calculator = AccuracyCalculator(device=torch.device("cpu"))
    assert calculator.get_accuracy(torch.tensor(ROWS), torch.tensor(UNEVEN)) == expected
    assert calculator.get_accuracy(ROWS.tolist(), UNEVEN.tolist()) == expected
    assert calculator.get_accuracy(ROWS, UNEVEN[:, None]) == expected
    assert calculator.get_accuracy(ROWS, [f"label {n}" for n in UNEVEN]) == expected


def test_no_query_has_a_mate() -> None:
    found = compare(ROWS, np.arange(60))
    assert all(math.isnan(value) for value in found.values())
    found = compare(ROWS, UNEVEN, MORE, np.arange(300, 380), options={"avg_of_avgs": True})
    assert all(math.isnan(value) for value in found.values())


def test_choosing_metrics() -> None:
    assert sorted(AccuracyCalculator().get_curr_metrics()) == sorted(METRICS)
    chosen = AccuracyCalculator(include=("r_precision", "precision_at_1"))
    assert sorted(chosen.get_curr_metrics()) == ["precision_at_1", "r_precision"]
    assert list(chosen.get_accuracy(ROWS, LABELS, exclude=["r_precision"])) == ["precision_at_1"]
    assert list(chosen.get_accuracy(ROWS, LABELS, include=["r_precision"])) == ["r_precision"]
    rest = AccuracyCalculator(exclude=("AMI", "NMI", "mean_reciprocal_rank"))
    assert sorted(rest.get_curr_metrics()) == sorted(set(METRICS) - {"mean_reciprocal_rank"})


def test_cosine_on_request() -> None:
    unit = ROWS / np.linalg.norm(ROWS, axis=1, keepdims=True)
    cosine = AccuracyCalculator(distance="cosine")
    assert_same(
        cosine.get_accuracy(3 * ROWS, UNEVEN), original_calculator().get_accuracy(unit, UNEVEN)
    )


def test_ties_count_against_the_model() -> None:
    rows, labels = np.ones((6, 2)), [0, 0, 0, 1, 1, 1]
    found = AccuracyCalculator().get_accuracy(rows, labels)
    assert found["precision_at_1"] == 0.0
    assert found["mean_reciprocal_rank"] == 1 / 4


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"label_comparison_fn": torch.eq}, ["label_comparison_fn", "relevance="]),
        ({"knn_func": lambda *_: None}, ["knn_func", "distance"]),
        ({"kmeans_func": lambda *_: None}, ["kmeans_func", "clustering"]),
        ({"device": torch.device("cuda")}, ["CPU", "cuda"]),
        ({"device": "cuda:1"}, ["CPU", "cuda:1"]),
        ({"avg_of_avgs": True, "return_per_class": True}, ["avg_of_avgs", "return_per_class"]),
        ({"k": 0}, ["k must be", "int >= 1", "max_bin_count", "0"]),
        ({"k": -3}, ["k must be", "-3"]),
        ({"k": 2.5}, ["k must be", "2.5"]),
        ({"k": True}, ["k must be", "True"]),
        ({"k": "all"}, ["k must be", "'all'"]),
        ({"include": ("NMI",)}, ["NMI", "cluster", "not offered"]),
        ({"include": ("AMI", "r_precision")}, ["AMI", "not offered"]),
        ({"include": ("recall",)}, ["'recall'", "known are", "r_precision"]),
        ({"exclude": ("recall",)}, ["'recall'", "known are"]),
        ({"include": "r_precision"}, ["tuples or lists", "'r_precision'"]),
        ({"exclude": {"r_precision"}}, ["tuples or lists"]),
        ({"distance": "manhattan"}, ["'distance' parameter", "'manhattan'"]),
    ],
)
def test_arguments_that_are_refused(options: dict[str, Any], words: list[str]) -> None:
    assert_refused(lambda: AccuracyCalculator(**options).get_accuracy(ROWS, LABELS), words)


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((ROWS, LABELS[:5]), {}, ["60 rows", "5 labels"]),
        ((ROWS, LABELS, MORE), {}, ["reference_labels"]),
        ((ROWS, LABELS, MORE[:60]), {}, ["reference_labels"]),
        ((ROWS, LABELS, MORE, LABELS), {}, ["80", "60"]),
        ((ROWS, LABELS, MORE[:, :3], MORE_LABELS), {}, ["(60, 8)", "(80, 3)"]),
        (
            (ROWS, LABELS, MORE, MORE_LABELS),
            {"ref_includes_query": True},
            ["ref_includes_query", "first rows of reference"],
        ),
        (
            (ROWS, LABELS, ROWS[:30], LABELS[:30]),
            {"ref_includes_query": True},
            ["ref_includes_query", "first rows of reference"],
        ),
        (
            (ROWS, LABELS, ROWS, LABELS + 1),
            {"ref_includes_query": True},
            ["reference_labels", "queries and their labels"],
        ),
        ((ROWS, LABELS, None, MORE_LABELS), {}, ["reference_labels", "reference"]),
        ((ROWS, LABELS), {"include": "r_precision"}, ["tuples or lists"]),
        ((ROWS, LABELS), {"include": ["nonsense"]}, ["'nonsense'", "known are"]),
        ((ROWS, LABELS), {"include": ["NMI"]}, ["NMI", "not offered"]),
    ],
)
def test_calls_that_are_refused(
    arguments: tuple[Any, ...], options: dict[str, Any], words: list[str]
) -> None:
    assert_refused(lambda: AccuracyCalculator().get_accuracy(*arguments, **options), words)


@pytest.mark.parametrize("metric", ["r_precision", "mean_average_precision_at_r"])
def test_a_depth_with_which_a_metric_would_be_wrong(metric: str) -> None:
    """The original warns and returns a wrong number."""
    assert_refused(
        lambda: AccuracyCalculator(include=(metric,), k=4).get_accuracy(ROWS, LABELS),
        ["k=4", "mates (5)", metric, "k=None"],
    )
    AccuracyCalculator(include=(metric,), k=5).get_accuracy(ROWS, LABELS)


def test_every_argument_of_the_original_is_known() -> None:
    """Obeyed or refused: a new argument of a later version would be a TypeError here."""
    from inspect import signature

    for method in ("__init__", "get_accuracy"):
        theirs = list(signature(getattr(original.AccuracyCalculator, method)).parameters)
        ours = list(signature(getattr(AccuracyCalculator, method)).parameters)
        assert ours[: len(theirs)] == theirs


# --- torchreid ------------------------------------------------------------------------------------


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
        ["no query has a mate", "all mates junk", "query's own camera", "q_camids and g_camids"],
    )
    data = people(11)
    data["q_pids"] += 100
    assert_refused(lambda: evaluate_rank(**data), ["no query has a mate", "40 not in gallery"])


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
