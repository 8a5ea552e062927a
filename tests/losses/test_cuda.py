"""On a GPU: the CPU's values, the same bits every time, and a batch of 4,000 within 6 GB."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from tests.losses import cases
from tests.losses.cases import EXAMPLES
from truerank import losses
from truerank.errors import InputError

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")

OURS = [name for name in losses.names() if losses.entry(name).source == "truerank"]
LIMIT = 6 * 2**30


def call(name: str, device: str) -> tuple[float, torch.Tensor]:
    example = EXAMPLES["uneven and unsorted"]
    rows = example.rows.to(device, copy=True).requires_grad_()
    value = cases.build(name).to(device)(rows, example.labels(name).to(device))
    value.backward()
    return value.item(), rows.grad.cpu()


@pytest.mark.parametrize("name", OURS)
def test_the_same_as_on_the_cpu(name: str) -> None:
    value, gradient = call(name, "cuda")
    wanted, wanted_gradient = call(name, "cpu")
    assert value == pytest.approx(wanted, rel=1e-9)
    torch.testing.assert_close(gradient, wanted_gradient, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("smooth_ap", {}),
        ("recall_at_k", {}),
        ("roadmap", {}),
        ("happier", {"num_classes": 1_000, "embedding_size": 512}),
    ],
)
def test_a_batch_of_4000(name: str, options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    fine = torch.arange(4_000, device="cuda") // 4
    labels = torch.stack([fine % 12, fine], 1) if name == "happier" else fine
    loss = losses.get(name, **options).cuda()
    start = torch.randn(4_000, 512, device="cuda")
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    gradients = []
    for _ in range(2):
        rows = start.clone().requires_grad_()
        loss(rows, labels).backward()
        gradients.append(rows.grad)
    assert torch.cuda.max_memory_allocated() <= LIMIT
    assert bool(gradients[0].isfinite().all())
    assert torch.equal(gradients[0], gradients[1])


def test_an_unknown_label_is_refused_one_batch_later() -> None:
    loss = losses.get("proxy_nca", num_classes=3, embedding_size=4).cuda()
    rows = torch.randn(2, 4, device="cuda")
    known, unknown = (torch.tensor(labels, device="cuda") for labels in ([0, 2], [1, 7]))
    loss(rows, known)
    loss(rows, unknown)
    copied = copy.deepcopy(loss)
    with pytest.raises(InputError, match="label 7 is not one of the 3 classes"):
        loss(rows, known)
    loss(rows, known)
    copied(rows, known)
