"""The stops of the slider: at each what evaluate and choose_threshold give, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import truerank
from tests.engine.cuda.devices import pretend
from tests.report.pages import hierarchy, leave_one_out, open_set
from truerank.analysis.operating_points import on_axis
from truerank.analysis.thresholds import first_set
from truerank.report.details import look
from truerank.report.threshold_slider import stops_between

METRICS = {"far": "fmr", "frr": "fnmr", "tar": "tar", "dir": "dir", "open_set_far": "far"}
AXIS = {"vp": "mvp", "rep": "mrep"}


def stops_of(arguments: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    result = truerank.evaluate(**arguments, metrics=["map@r"], confidence=None)
    details = look(result)
    assert details is not None
    assert result.held is not None
    return details["stops"], result.held.at_hand().space


def chosen(count: int) -> list[int]:
    return [0, 1000, *np.random.default_rng(5).integers(0, 1001, count).tolist()]


@pytest.mark.parametrize(
    "arguments",
    [
        leave_one_out(),
        leave_one_out(noise=0.0),
        leave_one_out() | {"average": "class"},
        leave_one_out() | {"distance": "euclidean"},
        leave_one_out() | {"distance": "dot"},
        leave_one_out() | {"distance": "hamming", "embeddings": leave_one_out()["embeddings"] > 0},
        open_set(),
        open_set() | {"average": "class", "distance": "euclidean"},
        hierarchy(),
    ],
    ids=[
        "ties",
        "equal rows",
        "by class",
        "euclidean",
        "dot",
        "hamming",
        "open",
        "open by class",
        "levels",
    ],
)
def test_values_are_those_of_evaluate(arguments: dict[str, Any]) -> None:
    stops, space = stops_of(arguments)
    values = stops["values"]
    assert {"far", "frr", "tar", "dir"} <= set(values)
    assert all(len(column) == 1001 for column in values.values())
    for stop in chosen(6):
        tau = stops["threshold"][stop]
        asked = {name: f"{metric}@tau={tau}" for name, metric in METRICS.items() if name in values}
        if "vp" in values:
            axis = on_axis(space, space.unit_scale, tau)
            asked |= {name: f"{metric}@tau={axis}" for name, metric in AXIS.items()}
        scores = truerank.evaluate(**arguments, metrics=list(asked.values()), confidence=None)
        found = {name: scores[metric].value for name, metric in asked.items()}
        assert found == {name: values[name][stop] for name in found}


def rates(served: dict[str, Any], stop: int) -> list[tuple[Any, ...]]:
    """What the page makes of the counts, in its own words and order of operations."""
    found = []
    for text in served["worst"][stop].split(";"):
        place, first, second = map(int, text.split())
        of_first, of_second = served["trials"][place]
        if served["kind"] == "pairs":
            frr, far = 1 - first / of_first, second / of_second
            both = (1 - frr) + (1 - far)
            utility = 2 * (1 - frr) * (1 - far) / both if both > 0 else 0.0
        else:
            frr = first / of_first if of_first else None
            far = second / of_second if of_second else None
            utility = 1 - max(rate for rate in (frr, far) if rate is not None)
        found.append((served["labels"][place], frr, far, utility))
    return found


@pytest.mark.parametrize("kind", ["pairs", "searches"])
def test_worst_classes_are_those_of_choose_threshold(kind: str) -> None:
    options = {"distance": "cosine", "device": "auto", "threads": None}
    arguments = leave_one_out() if kind == "pairs" else open_set()
    trials = first_set(arguments, options)
    stops, _ = stops_of(arguments)
    served = stops["served"]
    assert served["kind"] == kind
    for stop in chosen(5):
        judged = trials.judge(float(stops["threshold"][stop])).classes
        listed = [(one.label, one.frr, one.far, one.utility) for one in judged]
        assert rates(served, stop) == listed[:5]
        utilities = sorted(one.utility for one in judged)
        assert served["median"][stop] == utilities[int(np.ceil(0.5 * (len(utilities) - 1)))]
        assert served["classes"] == len(judged)


def test_similarities_are_passed_from_strict_to_lenient() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(40, 40)).round(2)
    labels = np.arange(40) // 4
    arguments = {"embeddings": scores, "labels": labels, "distance": "similarity"}
    stops, _ = stops_of(arguments)
    thresholds = [float(text) for text in stops["threshold"]]
    assert thresholds == sorted(thresholds, reverse=True)
    assert "vp" not in stops["values"]
    for stop in chosen(4):
        name = f"fmr@tau={stops['threshold'][stop]}"
        score = truerank.evaluate(**arguments, metrics=[name], confidence=None)[name]
        assert score.value == stops["values"]["far"][stop]


def test_judgements_have_stops_and_no_classes() -> None:
    rng = np.random.default_rng(1)
    relevance = rng.random((12, 30)) < 0.2
    rows = {"embeddings": rng.normal(size=(12, 4)), "gallery": rng.normal(size=(30, 4))}
    stops, _ = stops_of(rows | {"relevance": csr_matrix(relevance)})
    assert stops["served"] is None
    assert stops["trials"] == {"positive": relevance.sum(), "negative": (~relevance).sum()}


@pytest.mark.parametrize(
    ("low", "high"), [(0.013, 0.29), (0.0, 0.0), (10.2, 14.9), (-3.1, 2.2), (1e-9, 3e-7), (5, 5)]
)
def test_stops_are_short_decimals_that_cover_the_range(low: float, high: float) -> None:
    stops = stops_between(low, high, 1001)
    assert len(set(stops)) == 1001
    assert float(stops[0]) <= low
    assert float(stops[-1]) >= high
    assert float(stops[-1] - stops[0]) <= 1.6 * ((high - low) or abs(high) or 1)
    assert max(len(str(stop).lstrip("-0.").split("E")[0]) for stop in stops) <= 6


@pytest.mark.parametrize(
    "options", [{"device": "reference"}, {"threads": 1}, {"threads": 3}], ids=str
)
@pytest.mark.parametrize("arguments", [leave_one_out(), open_set()], ids=["ties", "open"])
def test_no_path_moves_a_stop(arguments: dict[str, Any], options: dict[str, Any]) -> None:
    assert stops_of(arguments | options)[0] == stops_of(arguments)[0]


def test_a_gpu_moves_no_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = leave_one_out()
    usual = stops_of(arguments)[0]
    pretend(monkeypatch)
    assert stops_of(arguments | {"device": "cuda"})[0] == usual


def test_the_order_of_rows_does_not_show() -> None:
    arguments = leave_one_out()
    order = np.random.default_rng(3).permutation(len(arguments["labels"]))
    moved = {name: values[order] for name, values in arguments.items()}
    assert stops_of(moved)[0] == stops_of(arguments)[0]
