"""RetrievalMetric in one process: the same numbers as evaluate, each sample once."""

from __future__ import annotations

import copy
import pickle
import sys
from typing import Any

import numpy as np
import pytest
import torch
from torchmetrics import MetricCollection

import truerank
from truerank import InputError
from truerank.compat.torchmetrics import RetrievalMetric
from truerank.core import registry

RNG = np.random.default_rng(0)
ROWS = torch.tensor(RNG.standard_normal((40, 6)), dtype=torch.float32)
LABELS = torch.tensor(RNG.integers(0, 7, 40))
IDS = torch.tensor(RNG.permutation(40) * 3 - 50)
PATHS = torch.stack([LABELS // 3, LABELS], 1)


def values(metric: RetrievalMetric) -> dict[str, float]:
    return {name: value.item() for name, value in metric.compute().items()}


def feed(metric: RetrievalMetric, labels: torch.Tensor = LABELS, order: Any = None) -> None:
    order = torch.arange(40) if order is None else order
    for chunk in order.split(7):
        metric.update(ROWS[chunk], labels[chunk], IDS[chunk])


def test_the_same_as_evaluate() -> None:
    metric = RetrievalMetric()
    feed(metric)
    wanted = truerank.evaluate(ROWS, LABELS, metrics=registry.DEFAULT)
    assert values(metric) == {name: score.value for name, score in wanted.items()}
    assert dict(metric.result["map@r"].to_dict(per_query=False)) == dict(
        wanted["map@r"].to_dict(per_query=False)
    )
    assert metric.compute()["map@r"].dtype == torch.float64


def test_per_query_values_are_in_the_order_of_the_ids() -> None:
    metric = RetrievalMetric(metrics=["map"])
    feed(metric)
    metric.compute()
    wanted = truerank.evaluate(ROWS, LABELS, metrics=["map"])["map"].per_query.lower
    order = np.argsort(IDS.numpy())
    assert metric.result["map"].per_query.lower.tolist() == pytest.approx(
        wanted[order].tolist(), nan_ok=True
    )


@pytest.mark.parametrize("distance", ["euclidean", "dot"])
def test_other_distances(distance: str) -> None:
    metric = RetrievalMetric(metrics=["map"], distance=distance)
    feed(metric)
    wanted = truerank.evaluate(ROWS, LABELS, distance=distance, metrics=["map"])
    assert values(metric) == {"map": wanted["map"].value}


def test_hierarchies() -> None:
    metric = RetrievalMetric(metrics=["h_ap", "map@r,level=1"], levels=2)
    feed(metric, PATHS)
    wanted = truerank.evaluate(ROWS, PATHS, metrics=["h_ap", "map@r,level=1"])
    assert values(metric) == {name: score.value for name, score in wanted.items()}


def test_repeated_samples_count_once_in_any_order() -> None:
    once = RetrievalMetric()
    feed(once)
    twice = RetrievalMetric()
    feed(twice, order=torch.randperm(40, generator=torch.Generator().manual_seed(0)))
    feed(twice, order=torch.arange(13))
    assert values(twice) == values(once)


def test_the_copy_that_is_kept_does_not_depend_on_the_order() -> None:
    """Copies differ in their last bits in practice; here by so much that the score would tell."""
    found = []
    for parts in ((slice(0, 40), slice(40, 53)), (slice(40, 53), slice(0, 40))):
        rows, labels = torch.cat([ROWS, -ROWS[:13]]), torch.cat([LABELS, LABELS[:13]])
        ids = torch.cat([IDS, IDS[:13]])
        metric = RetrievalMetric(metrics=["map"])
        for part in parts:
            metric.update(rows[part], labels[part], ids[part])
        found.append(values(metric)["map"])
    assert found[0] == found[1]
    assert found[0] != truerank.evaluate(ROWS, LABELS, metrics=["map"])["map"].value


def test_a_sample_cannot_have_two_labels() -> None:
    metric = RetrievalMetric()
    metric.update(ROWS, LABELS, IDS)
    metric.update(ROWS[:1], LABELS[:1] + 1, IDS[:1])
    with pytest.raises(InputError, match=f"sample id {IDS[0]} came with different labels"):
        metric.compute()


def test_half_precision_is_widened_exactly() -> None:
    half = ROWS.to(torch.bfloat16)
    metric = RetrievalMetric(metrics=["map"])
    metric.update(half, LABELS, IDS)
    assert values(metric) == {"map": truerank.evaluate(half, LABELS, metrics=["map"])["map"].value}


def test_double_precision_must_be_asked_for() -> None:
    with pytest.raises(InputError, match=r"pass dtype=torch.float64"):
        RetrievalMetric().update(ROWS.double(), LABELS, IDS)
    metric = RetrievalMetric(metrics=["map"], dtype=torch.float64)
    metric.update(ROWS.double() + 1e-12, LABELS, IDS)
    assert metric.embeddings[-1].dtype == torch.float64


def test_reset_forgets() -> None:
    metric = RetrievalMetric(metrics=["map"])
    metric.update(ROWS[:, :3], LABELS, IDS)
    metric.reset()
    feed(metric)  # of another width
    wanted = truerank.evaluate(ROWS, LABELS, metrics=["map"])["map"].value
    assert values(metric) == {"map": wanted}


def test_in_a_collection_and_through_pickle() -> None:
    metric = RetrievalMetric(metrics=["map"])
    feed(metric)
    wanted = values(metric)
    assert values(copy.deepcopy(metric)) == wanted
    assert values(pickle.loads(pickle.dumps(metric))) == wanted
    collection = MetricCollection({"retrieval": RetrievalMetric(metrics=["map"])})
    collection.update(ROWS, LABELS, IDS)
    assert {name: value.item() for name, value in collection.compute().items()} == wanted


def test_forward_gives_the_batch_and_keeps_the_rest() -> None:
    metric = RetrievalMetric(metrics=["map"])
    first = metric(ROWS[:20], LABELS[:20], IDS[:20])["map"].item()
    metric(ROWS[20:], LABELS[20:], IDS[20:])
    assert first == truerank.evaluate(ROWS[:20], LABELS[:20], metrics=["map"])["map"].value
    assert values(metric)["map"] == truerank.evaluate(ROWS, LABELS, metrics=["map"])["map"].value


def test_one_process_needs_no_ids() -> None:
    """Equal rows are different samples then, in batches, through forward and after a reset."""
    rows, labels = torch.cat([ROWS, ROWS[:5]]), torch.cat([LABELS, LABELS[:5]])
    wanted = truerank.evaluate(rows, labels, metrics=["map"])["map"]
    metric = RetrievalMetric(metrics=["map"])
    for chunk in torch.arange(45).split(7):
        metric(rows[chunk], labels[chunk])
    assert values(metric) == {"map": wanted.value}
    assert metric.result["map"].per_query == wanted.per_query  # in the order of arrival
    metric.reset()
    metric.update(rows, labels)
    assert values(metric) == {"map": wanted.value}


def test_ids_with_every_batch_or_with_none() -> None:
    metric = RetrievalMetric(metrics=["map"])
    metric.update(ROWS[:30], LABELS[:30])
    metric.update(ROWS[30:], LABELS[30:], IDS[30:])
    with pytest.raises(InputError, match="30 of 40 samples came without an id"):
        metric.compute()
    with pytest.raises(InputError, match="stands for none"):
        metric.update(ROWS, LABELS, torch.full((40,), torch.iinfo(torch.int64).min))


def test_several_processes_need_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    with pytest.raises(InputError, match=r"several processes take part.*pass ids"):
        RetrievalMetric(metrics=["map"]).update(ROWS, LABELS)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 1)  # torchrun with one
    metric = RetrievalMetric(metrics=["map"])
    metric.update(ROWS, LABELS)
    assert len(metric.ids[-1]) == 40


@pytest.mark.parametrize("name", ["RetrievalMetric", "RetrievalCallback"])
def test_without_torch_the_error_says_what_to_install(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    for module in ("torchmetrics", "lightning"):
        monkeypatch.delitem(sys.modules, f"truerank.compat.{module}", raising=False)
    with pytest.raises(ImportError, match=f"{name} needs torch: pip install torch torchmetrics"):
        getattr(truerank.compat, name)


def test_metrics_in_one_string() -> None:
    assert RetrievalMetric("map@r,hit@1,5").metrics == ("map@r", "hit@1", "hit@5")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dtype": torch.float16}, ["'dtype'", "float32 or float64"]),
        ({"levels": 0}, ["'levels'", ">= 1"]),
        ({"levels": True}, ["'levels'", "True"]),
        ({"metrics": "mapp"}, ["'mapp'", "map"]),
        ({"metrics": ["mapp"]}, ["'mapp'", "map"]),
        ({"distance": "manhattan"}, ["'distance'", "'manhattan'"]),
    ],
)
def test_options_that_are_refused(options: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        RetrievalMetric(**options)
    assert [word for word in words if word not in str(caught.value)] == [], caught.value


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((ROWS[0], LABELS, IDS), ["(rows, dimensions)", "(6,)"]),
        ((ROWS.int(), LABELS, IDS), ["floating-point", "int32"]),
        ((ROWS, LABELS[:3], IDS), ["labels", "(40,)", "(3,)"]),
        ((ROWS, PATHS, IDS), ["labels", "(40,)", "(40, 2)"]),
        ((ROWS, LABELS.float(), IDS), ["labels", "integers", "float32"]),
        ((ROWS, LABELS, IDS[:3]), ["ids", "(40,)", "(3,)"]),
        ((ROWS, LABELS, IDS.float()), ["ids", "integers"]),
    ],
)
def test_batches_that_are_refused(arguments: tuple[Any, ...], words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        RetrievalMetric().update(*arguments)
    assert [word for word in words if word not in str(caught.value)] == [], caught.value


def test_other_widths_and_nothing_at_all() -> None:
    metric = RetrievalMetric()
    with (
        pytest.warns(UserWarning, match="before"),  # torchmetrics' own
        pytest.raises(InputError, match="nothing was seen yet"),
    ):
        metric.compute()
    metric.update(ROWS, LABELS, IDS)
    with pytest.raises(InputError, match="5 dimensions; those before had 6"):
        metric.update(ROWS[:, :5], LABELS, IDS)


@pytest.mark.parametrize(
    ("name", "module", "missing"),
    [
        ("RetrievalMetric", "torchmetrics", ["torchmetrics"]),
        ("RetrievalCallback", "lightning", ["lightning.pytorch.callbacks", "pytorch_lightning"]),
    ],
)
def test_without_the_other_library(
    name: str, module: str, missing: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, f"truerank.compat.{module}", raising=False)
    for other in missing:
        monkeypatch.setitem(sys.modules, other, None)
    sentence = rf"{name} needs \w+: pip install [a-z ]+$"
    with pytest.raises(ImportError, match=sentence):
        getattr(truerank.compat, name)


def test_no_such_name() -> None:
    with pytest.raises(AttributeError, match=r"'truerank\.compat' has no attribute 'Metric'"):
        truerank.compat.Metric  # noqa: B018
