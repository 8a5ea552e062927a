"""AccuracyCalculator against pytorch-metric-learning's own."""

from __future__ import annotations

import logging
import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from pytorch_metric_learning.distances import LpDistance
from pytorch_metric_learning.utils import accuracy_calculator as original
from pytorch_metric_learning.utils.inference import CustomKNN

from tests.refusals import assert_refused
from truerank._util.errors import TruerankWarning
from truerank.compat.pytorch_metric_learning import AccuracyCalculator

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
    ours = AccuracyCalculator(include=METRICS, **options)
    assert_same(ours.get_accuracy(ROWS, labels), theirs.get_accuracy(ROWS, labels))
    if not options:  # the order of classes is another one
        assert ours.get_accuracy(ROWS, labels) == ours.get_accuracy(ROWS, UNEVEN)


def test_tensors_lists_and_columns_of_labels() -> None:
    expected = AccuracyCalculator(include=METRICS).get_accuracy(ROWS, UNEVEN)
    calculator = AccuracyCalculator(include=METRICS, device=torch.device("cpu"))
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
    everything = sorted([*METRICS, "AMI", "NMI"])
    assert AccuracyCalculator().get_curr_metrics() == everything
    assert original.AccuracyCalculator().get_curr_metrics() == everything
    chosen = AccuracyCalculator(include=("r_precision", "precision_at_1"))
    assert sorted(chosen.get_curr_metrics()) == ["precision_at_1", "r_precision"]
    assert list(chosen.get_accuracy(ROWS, LABELS, exclude=["r_precision"])) == ["precision_at_1"]
    assert list(chosen.get_accuracy(ROWS, LABELS, include=["r_precision"])) == ["r_precision"]
    rest = AccuracyCalculator(exclude=("AMI", "NMI", "mean_reciprocal_rank"))
    assert sorted(rest.get_curr_metrics()) == sorted(set(METRICS) - {"mean_reciprocal_rank"})


def test_cosine_on_request() -> None:
    unit = ROWS / np.linalg.norm(ROWS, axis=1, keepdims=True)
    cosine = AccuracyCalculator(include=METRICS, distance="cosine")
    assert_same(
        cosine.get_accuracy(3 * ROWS, UNEVEN), original_calculator().get_accuracy(unit, UNEVEN)
    )


def test_ties_count_against_the_model() -> None:
    rows, labels = np.ones((6, 2)), [0, 0, 0, 1, 1, 1]
    found = AccuracyCalculator(include=METRICS).get_accuracy(rows, labels)
    assert found["precision_at_1"] == 0.0
    assert found["mean_reciprocal_rank"] == 1 / 4


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"label_comparison_fn": torch.eq}, ["NMI or AMI", "exclude AMI and NMI"]),
        ({"label_comparison_fn": 3, "include": METRICS}, ["label_comparison_fn", "function", "3"]),
        ({"knn_func": "faiss"}, ["knn_func", "function", "'faiss'"]),
        ({"kmeans_func": 5}, ["kmeans_func", "function", "5"]),
        ({"device": "mps"}, ["cpu or cuda", "'mps'"]),
        ({"device": torch.device("meta")}, ["cpu or cuda", "meta"]),
        ({"avg_of_avgs": True, "return_per_class": True}, ["avg_of_avgs", "return_per_class"]),
        ({"k": 0}, ["k must be", "int >= 1", "max_bin_count", "0"]),
        ({"k": -3}, ["k must be", "-3"]),
        ({"k": 2.5}, ["k must be", "2.5"]),
        ({"k": True}, ["k must be", "True"]),
        ({"k": "all"}, ["k must be", "'all'"]),
        ({"distance": "dot"}, ["k-means", "cosine or euclidean", "'dot'"]),
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
        ((ROWS, LABELS[:5]), {}, ["60 rows", "query_labels", "(5,)"]),
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
        ((ROWS, np.stack([LABELS, LABELS], 1), MORE, MORE_LABELS), {}, ["number of columns"]),
    ],
)
def test_calls_that_are_refused(
    arguments: tuple[Any, ...], options: dict[str, Any], words: list[str]
) -> None:
    assert_refused(lambda: AccuracyCalculator().get_accuracy(*arguments, **options), words)


def test_errors_are_of_the_original_types() -> None:
    with pytest.raises(TypeError, match="tuples or lists"):
        AccuracyCalculator(include="r_precision")  # type: ignore[arg-type]
    with pytest.raises(NotImplementedError, match="label_comparison_fn"):
        AccuracyCalculator(label_comparison_fn=torch.eq)


@pytest.mark.parametrize("options", SHAPES)
@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("metric", ["r_precision", "mean_average_precision_at_r"])
def test_a_depth_below_the_number_of_mates(metric: str, k: int, options: dict[str, Any]) -> None:
    """Computed as the original does, with a warning that it is not what its name says."""
    options = options | {"k": k, "include": (metric,)}
    for rows in ((ROWS, UNEVEN), (ROWS, SINGLETONS, MORE, MORE_LABELS)):
        with pytest.warns(TruerankWarning, match=rf"k={k} is smaller .* {metric} .* k=None"):
            ours = AccuracyCalculator(**options).get_accuracy(*rows)
        assert_same(ours, original_calculator(**options).get_accuracy(*rows))


def test_the_warning_goes_to_the_log_as_well(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.warns(TruerankWarning, match="so that r_precision counts relevant items"):
        AccuracyCalculator(include=("r_precision",), k=4).get_accuracy(ROWS, LABELS)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    caplog.clear()
    with warnings.catch_warnings(), caplog.at_level(logging.INFO):
        warnings.simplefilter("error")
        AccuracyCalculator(include=("r_precision",), k=5).get_accuracy(ROWS, LABELS)
    assert [record.levelname for record in caplog.records] == ["INFO"]


def test_whole_numbers_equal_floats() -> None:
    expected = compare(ROWS, UNEVEN, MORE, MORE_LABELS)
    assert compare(ROWS, UNEVEN, MORE, MORE_LABELS.astype(np.float64)) == expected
    assert compare(ROWS, UNEVEN.astype(np.float32), MORE, MORE_LABELS) == expected
    large = 2**24  # whose successor float32 does not have: the original takes both for one label
    ours = AccuracyCalculator(include=METRICS)
    assert ours.get_accuracy(ROWS, UNEVEN + large, MORE, MORE_LABELS + float(large)) == expected


def test_a_reference_that_is_the_queries_unannounced() -> None:
    """The very same array: every query finds itself."""
    assert compare(ROWS, UNEVEN, ROWS, UNEVEN)["precision_at_1"] == 1.0


def test_a_reference_that_begins_with_the_queries_but_for_last_bits() -> None:
    """As another batch size gives them; each query still skips its own row."""
    reference = np.concatenate([np.nextafter(ROWS, 9), MORE])
    labels = np.concatenate([UNEVEN, MORE_LABELS])
    found = compare(ROWS, UNEVEN, reference, labels, ref_includes_query=True)
    assert found["precision_at_1"] < 0.5


def test_no_class_has_a_mate() -> None:
    found = compare(ROWS, UNEVEN, MORE, UNEVEN[0] + np.arange(300, 380), options=SHAPES[2])
    assert all(len(value) == len(np.unique(UNEVEN)) for value in found.values())


def test_every_argument_of_the_original_is_known() -> None:
    """Obeyed or refused: a new argument of a later version would be a TypeError here."""
    from inspect import signature

    for method in ("__init__", "get_accuracy"):
        theirs = list(signature(getattr(original.AccuracyCalculator, method)).parameters)
        ours = list(signature(getattr(AccuracyCalculator, method)).parameters)
        assert ours[: len(theirs)] == theirs
