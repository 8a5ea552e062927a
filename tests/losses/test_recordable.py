"""Losses that a CUDA graph may record: no number read back, the same operations in every batch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from tests.losses import cases
from truerank import InputError, losses
from truerank.losses.base import Batch

READS = {
    "_local_scalar_dense",
    "_unique2",
    "equal",
    "is_nonzero",
    "masked_select",
    "nonzero",
    "unique_consecutive",
    "unique_dim",
}
"""Operations whose answer, or its shape, a program must wait for."""
RECORDABLE = {
    *("contrastive", "triplet", "margin", "normalized_softmax", "cosface", "fastap"),
    *("multi_similarity", "multi_similarity_mined", "soft_triple", "proxy_nca", "arcface"),
    *("proxy_nca_plus_plus", "snr_contrastive", "smooth_ap", "recall_at_k", "sup_ap", "roadmap"),
    *("calibration", "tcm", "tcm_plus", "tcm_minus", "tcm_prime", "csl"),
    *("happier", "happier_f", "happier_sum_wap", "smooth_h_ap"),
}
WHOLE = 2**24
"""A block of a GPU's size, so that the CPU takes the GPU's way."""


class Watch(TorchDispatchMode):
    """Notes each operation with the shapes it is given, and fails on one that reads back."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, tuple[tuple[int, ...], ...]]] = []

    def __torch_dispatch__(
        self, function: Any, types: Any, arguments: Any = (), options: Any = None
    ) -> Any:
        name = function.overloadpacket.__name__
        tensors = [one for one in torch.utils._pytree.tree_leaves(arguments) if is_tensor(one)]
        by_mask = name.startswith("index") and any(
            is_tensor(one) and one.dtype in (torch.bool, torch.uint8)
            for one in torch.utils._pytree.tree_leaves(arguments[1])
        )
        assert name not in READS, f"{name} waits for a GPU"
        assert not by_mask, f"{name} by a mask waits for a GPU"
        self.seen.append((name, tuple(tuple(one.shape) for one in tensors)))
        return function(*arguments, **(options or {}))


def is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


def build(name: str) -> Any:
    blocks = {"block": WHOLE} if "block" in losses.entry(name).defaults else {}
    return cases.build(name, **blocks)


def watched(loss: Any, rows: Tensor, labels: Tensor) -> list[Any]:
    """What forward and backward do."""
    rows = rows.clone().requires_grad_()
    loss.zero_grad()
    with losses.trusted_labels(), Watch() as watch:
        loss(rows, labels).backward()
    return watch.seen


SPREAD = cases.example([3, 0, 1, 0, 3, 2, 0, 1, 4, 0], seed=1)
ALIKE = cases.Example(torch.ones(10, cases.SIZE).double(), SPREAD.paths[:1].expand(10, -1))
"""One class of equal rows: nothing offends that can, and no row has a negative."""


def test_which_losses_are_recordable() -> None:
    assert {name for name in cases.NAMES if build(name).is_recordable(10)} == RECORDABLE


@pytest.mark.parametrize("name", sorted(RECORDABLE))
def test_batches_of_one_shape_are_the_same_operations(name: str) -> None:
    loss = build(name)
    first, second = (watched(loss, one.rows, one.labels(name)) for one in (SPREAD, ALIKE))
    assert first == second


@pytest.mark.parametrize("name", sorted(set(cases.NAMES) - RECORDABLE))
def test_the_others_do_read_back(name: str) -> None:
    with pytest.raises(AssertionError, match="waits for a GPU"):
        watched(build(name), SPREAD.rows, SPREAD.labels(name))


@pytest.mark.parametrize("name", sorted(RECORDABLE))
def test_no_number_is_needed_and_nothing_comes_from_another_device(name: str) -> None:
    """Tensors of the meta device have no numbers, and meet no others."""
    variants = [build(name)]
    if name == "margin":
        variants += [cases.build(name, classes=cases.CLASSES), cases.build(name, learn_beta=False)]
    for loss in variants:
        rows, paths = SPREAD.rows.to("meta").requires_grad_(), SPREAD.paths.to("meta")
        with losses.trusted_labels():
            loss.to("meta").compute(Batch(rows, paths, rows, paths)).backward()
        assert rows.grad is not None


def test_a_composition_is_recordable_if_all_its_parts_are() -> None:
    yes, no, other = losses.get("contrastive"), losses.get("nt_xent"), torch.nn.Identity()
    for parts, wanted in (((yes, yes), True), ((yes, no), False), ((yes, other), False)):
        assert (parts[0] + 2 * parts[0] + parts[1]).is_recordable(10) is wanted
        assert losses.sum_over_levels(parts).is_recordable(10) is wanted
    assert not losses.with_miner(yes, losses.miner("batch_hard")).is_recordable(10)
    composed = losses.sum_over_levels(yes + 0.5 * losses.get("tcm"))
    seen = [watched(composed, one.rows, one.paths) for one in (SPREAD, ALIKE)]
    assert seen[0] == seen[1]


@pytest.mark.parametrize("name", ["triplet", "smooth_ap", "recall_at_k", "roadmap", "smooth_h_ap"])
def test_a_cube_of_more_than_a_block_is_not_recordable(name: str) -> None:
    loss = losses.get(name)
    assert loss.is_recordable(256)
    assert not loss.is_recordable(257)


def test_a_smaller_block_is_a_smaller_batch() -> None:
    assert losses.get("sup_ap", block=1000).is_recordable(10)
    assert not losses.get("sup_ap", block=999).is_recordable(10)


@pytest.mark.parametrize("name", ["cosface", "margin", "arcface", "happier", "csl"])
def test_trusted_labels_change_no_value(name: str) -> None:
    loss = cases.build(name)
    wanted = loss(SPREAD.rows, SPREAD.labels(name)).item()
    with losses.trusted_labels():
        assert loss(SPREAD.rows, SPREAD.labels(name)).item() == wanted


def test_labels_are_trusted_within_the_context_alone() -> None:
    loss = losses.get("cosface", num_classes=2, embedding_size=3)
    with losses.trusted_labels():
        loss(torch.eye(3), torch.tensor([0, 1, 7]))
        with pytest.raises(InputError, match="embedding_size=3"), losses.trusted_labels():
            loss(torch.eye(4), torch.tensor([0, 1, 0, 1]))
        loss(torch.eye(3), torch.tensor([0, 1, 7]))
    with pytest.raises(InputError, match="label 7 is not one of the 2 classes"):
        loss(torch.eye(3), torch.tensor([0, 1, 7]))
