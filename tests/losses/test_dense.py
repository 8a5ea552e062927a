"""Borrowed losses without lists of pairs: the library's values and gradients, batch by batch.

The library itself is the oracle; tests/losses/test_values.py holds both to the definitions.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pytorch_metric_learning.losses import base_metric_loss_function as base_loss
from pytorch_metric_learning.utils import loss_and_miner_utils as lmu
from torch import Tensor

from truerank import losses
from truerank.losses import pml, ranking

SIZE, CLASSES = 5, [-7, 0, 3, 2**40]
MARGINS = st.sampled_from([-0.2, 0.0, 0.05, 0.5, 1.0, 2.0])
OPTIONS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "contrastive": {"positive_margin": MARGINS, "negative_margin": MARGINS},
    "triplet": {"margin": MARGINS},
    "margin": {
        "margin": MARGINS,
        "beta": MARGINS,
        "nu": st.sampled_from([0.0, 0.3]),
        "learn_beta": st.booleans(),
        "classes": st.sampled_from([None, CLASSES]),
    },
    "normalized_softmax": {"temperature": st.sampled_from([0.05, 1.0])},
    "cosface": {"margin": st.sampled_from([0.0, 0.35]), "scale": st.sampled_from([1.0, 64.0])},
    "fastap": {"bins": st.sampled_from([2, 10, 37])},
    "multi_similarity": {
        "alpha": st.sampled_from([0.1, 2.0]),
        "beta": st.sampled_from([1.0, 50.0]),
        "base": st.sampled_from([0.0, 0.5]),
    },
    "multi_similarity_mined": {"epsilon": st.sampled_from([-0.3, 0.0, 0.1, 1.0])},
    "soft_triple": {
        "centers_per_class": st.sampled_from([1, 3]),
        "gamma": st.sampled_from([0.1, 2.0]),
        "margin": st.sampled_from([0.01, 0.5]),
        "regularizer": st.sampled_from([0.0, 0.2]),
    },
}


@st.composite
def batches(draw: st.DrawFn, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Rows on a small grid or anywhere, equal ones and zeros among them, of few or many classes."""
    counts = st.integers(1, 9)
    if dtype == torch.float64:
        # Torch has another way to distances from 26 rows on. In float32 the library's own sums,
        # over thousands of triplets one after the other, are wrong in the fifth digit.
        counts |= st.just(30)
    count = draw(counts)
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10**6)))
    number = torch.randint(draw(st.integers(1, len(CLASSES))), (count,), generator=generator)
    rows = torch.randn(count, SIZE, generator=generator, dtype=torch.float64)
    kind = draw(st.sampled_from(["spread", "apart", "grid"]))
    if kind == "apart":  # nothing offends
        rows = 1e-3 * rows + torch.eye(len(CLASSES), SIZE, dtype=torch.float64)[number]
    if kind == "grid":  # equal rows, and zeros
        rows = rows.round()
    return rows.to(dtype), torch.tensor(CLASSES)[number]


def build(name: str, dtype: torch.dtype, **options: Any) -> Any:
    given = {"embedding_size": SIZE, "num_classes": CLASSES}
    for need in losses.entry(name).needs:
        options.setdefault(need if need != "num_classes" else "classes", given[need])
    torch.manual_seed(1)
    return losses.get(name, **options).to(dtype)


def as_the_library(loss: Any) -> Any:
    """The same loss, with lists of pairs."""
    loss = copy.deepcopy(loss)
    if isinstance(loss, pml.Borrowed):
        loss.dense = None
        return loss
    loss.loss.dense = None
    return losses.with_miner(loss.loss, loss.miner)


def sharpness(options: dict[str, Any]) -> float:
    """What a loss multiplies a cosine by before it takes exponentials, and its rounding with it."""
    factors = [options.get("scale", 1.0), options.get("beta", 1.0), 20.0 / options.get("gamma", 20)]
    return max(1.0, 1 / options.get("temperature", 1.0), *factors)


def run(loss: Any, rows: Tensor, labels: Tensor) -> list[Tensor]:
    """The value and the gradients of the rows and of what the loss learns."""
    rows = rows.clone().requires_grad_()
    value = loss(rows, labels)
    value.backward()
    own = [torch.zeros_like(p) if p.grad is None else p.grad for p in loss.parameters()]
    return [value.detach(), rows.grad, *own]


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-12)], ids=["32", "64"]
)
@pytest.mark.parametrize("name", OPTIONS)
@settings(max_examples=60)
@given(data=st.data())
def test_the_library_agrees(
    name: str, dtype: torch.dtype, tolerance: float, data: st.DataObject
) -> None:
    options = {key: data.draw(values, label=key) for key, values in OPTIONS[name].items()}
    loss = build(name, dtype, **options)
    rows, labels = data.draw(batches(dtype))
    wanted = run(as_the_library(loss), rows, labels)
    for found, one in zip(run(loss, rows, labels), wanted, strict=True):
        assert found.dtype == one.dtype
        size = one.abs().amax(-1, keepdim=True) if one.ndim else one.abs()
        error = (found - one).abs() / size.clamp_min(1.0)
        assert float(error.max()) <= tolerance * sharpness(options)


@pytest.fixture
def without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("a list of pairs was made")

    monkeypatch.setattr(lmu, "get_matches_and_diffs", refuse)
    monkeypatch.setattr(base_loss.BaseMetricLossFunction, "forward", refuse)


ROWS, LABELS = torch.randn(12, SIZE), torch.tensor(CLASSES).repeat(3)


@pytest.mark.usefixtures("without_the_library")
@pytest.mark.parametrize("name", OPTIONS)
def test_no_list_is_made(name: str) -> None:
    assert build(name, torch.float32)(ROWS, LABELS).isfinite()


@pytest.mark.usefixtures("without_the_library")
@pytest.mark.parametrize("name", OPTIONS)
def test_what_was_mined_and_references_stay_with_the_library(name: str) -> None:
    loss = build(name, torch.float32)
    if name != "multi_similarity_mined":
        pair = (torch.tensor([0]), torch.tensor([4]), torch.tensor([0]), torch.tensor([1]))
        with pytest.raises(AssertionError, match="list of pairs"):
            loss(ROWS, LABELS, pair)
    if losses.entry(name).takes_references:
        with pytest.raises(AssertionError, match="list of pairs"):
            loss(ROWS, LABELS, None, ROWS[:5], LABELS[:5])


@pytest.mark.usefixtures("without_the_library")
def test_a_cube_larger_than_a_block_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ranking.BLOCK, "cpu", 11**3)
    build("contrastive", torch.float32)(ROWS, LABELS)
    build("triplet", torch.float32)(ROWS[:11], LABELS[:11])
    with pytest.raises(AssertionError, match="list of pairs"):
        build("triplet", torch.float32)(ROWS, LABELS)


@pytest.mark.parametrize("name", ["margin", "normalized_softmax", "cosface", "soft_triple"])
def test_a_copy_computes_with_parameters_of_its_own(name: str) -> None:
    loss = build(name, torch.float32)
    before = loss(ROWS, LABELS).item()
    copied = copy.deepcopy(loss)
    with torch.no_grad():
        next(copied.parameters()).mul_(-0.5)
    assert loss(ROWS, LABELS).item() == before != copied(ROWS, LABELS).item()


def test_a_fixed_beta_goes_where_the_loss_goes() -> None:
    loss = losses.get("margin", learn_beta=False)
    assert loss.to("meta").inner.beta.is_meta
    assert not loss.state_dict()
    assert not list(loss.parameters())


@pytest.mark.parametrize("classes", [None, CLASSES])
@pytest.mark.parametrize("numbers", [[0, 0, 1, 1], [0, 0, 0, 0], [0, 1, 2, 3]])
def test_what_beta_costs_where_nothing_offends(
    classes: list[int] | None, numbers: list[int]
) -> None:
    """One beta costs nu where there is a triplet; of many only those of terms above 0 do."""
    loss = build("margin", torch.float64, beta=0.7, margin=0.1, nu=0.3, classes=classes)
    rows, labels = torch.eye(SIZE, dtype=torch.float64)[numbers], torch.tensor(CLASSES)[numbers]
    found, wanted = run(loss, rows, labels), run(as_the_library(loss), rows, labels)
    torch.testing.assert_close(found, wanted)
    costs = classes is None and numbers == [0, 0, 1, 1]
    assert found[0].item() == pytest.approx(0.21 if costs else 0.0)
