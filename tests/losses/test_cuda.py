"""On a GPU: the CPU's values, the same bits every time, and a batch of 4,000 within 6 GB."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from tests.losses import cases
from tests.losses.cases import EXAMPLES
from tests.losses.test_recordable import RECORDABLE
from truerank import losses
from truerank._util.errors import InputError

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


@pytest.mark.parametrize("name", sorted(RECORDABLE))
def test_a_recorded_batch_is_replayed_with_others(name: str) -> None:
    """Forward and backward as a CUDA graph, which refuses whatever waits."""
    if losses.entry(name).source != "truerank":
        pytest.importorskip("pytorch_metric_learning")
    examples = [EXAMPLES["uneven and unsorted"], cases.example([0, 1, 1, 2, 2, 2, 3, 3, 3, 3])]
    loss = cases.build(name).cuda()
    rows = examples[0].rows.cuda().requires_grad_()
    labels = examples[0].labels(name).cuda()
    assert loss.is_recordable(len(rows))

    def step() -> list[torch.Tensor]:
        value = loss(rows, labels)
        return [value.detach(), *torch.autograd.grad(value, [rows, *loss.parameters()])]

    with losses.trusted_labels():
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            recorded = step()
        for example in reversed(examples):
            with torch.no_grad():
                rows.copy_(example.rows)
                labels.copy_(example.labels(name))
            graph.replay()
            for found, wanted in zip(recorded, step(), strict=True):
                torch.testing.assert_close(found, wanted)


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
