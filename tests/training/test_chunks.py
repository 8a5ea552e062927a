"""Batches in chunks: the gradient of the whole batch, whatever the loss, and the same training."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.training.sketches import settings, sketches, tiny
from tests.training.test_loop import StopAt, assert_same, weights
from truerank.training import objective, trunks
from truerank.training.config import Config
from truerank.training.loop import Step, Trainer
from truerank.training.run import train
from truerank.training.trunks import Embedder

CODES = np.array([[0, 0], [0, 0], [0, 1], [0, 1], [1, 2], [1, 2]])
LABELS = torch.from_numpy(np.tile(CODES, (3, 1)))  # 18 images of 3 classes in 2 coarse ones


on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def images() -> torch.Tensor:
    return 255 * torch.rand(len(LABELS), 3, 28, 28, generator=torch.Generator().manual_seed(1))


def a_step(
    chunk: int | None, loss: dict[str, Any], model: Embedder, precision: torch.dtype = torch.float32
) -> Step:
    given = settings(loss=loss, training={"chunk": chunk}, optimiser={"name": "sgd", "lr": 0.5})
    config = Config.of(given)
    torch.manual_seed(2)
    built = objective.build(config.loss, CODES, config.model.dimensions)
    own = copy.deepcopy(model).train()
    return Step(own, built.to(own.mean.device), config, precision, may_record=False)


def gradients(step: Step) -> dict[str, torch.Tensor]:
    """Those of the last step, of the network and of the loss's own parameters."""
    named = [*step.model.named_parameters(), *step.loss.named_parameters("loss")]
    return {name: one.grad.clone() for name, one in named if one.grad is not None}


def assert_close(found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> None:
    assert found.keys() == wanted.keys()
    for name, one in wanted.items():
        length = float(one.norm())
        assert length > 0, name
        assert float((found[name] - one).norm()) <= 1e-5 * length, name


def frozen_statistics() -> Embedder:
    torch.manual_seed(0)
    return Embedder(trunks.get("convnet"), 16, freeze_batchnorm=True)


LOSSES: dict[str, dict[str, Any]] = {
    "own weights": {"name": "arcface"},
    "pairs": {"name": "contrastive"},
    "ranks": {"name": "fastap"},
    "every level": {"name": "normalized_softmax", "every_level": True},
    "a hierarchy": {"name": "happier"},
    "a sum": {"name": "proxy_nca", "plus": [{"name": "tcm"}]},
    "a miner": {"name": "triplet", "miner": "semihard"},
    "a miner that draws": {"name": "margin", "miner": "distance_weighted"},
}


@pytest.mark.parametrize("chunk", [1, 5, 17])
@pytest.mark.parametrize("loss", LOSSES.values(), ids=list(LOSSES))
def test_the_gradient_is_that_of_the_whole_batch(loss: dict[str, Any], chunk: int) -> None:
    model, found = frozen_statistics(), []
    for most in (None, chunk):
        step = a_step(most, loss, model)
        torch.manual_seed(3)
        found.append((step(images(), LABELS, 1.0), gradients(step)))
    (value, wanted), (same, other) = found
    torch.testing.assert_close(same, value, rtol=1e-5, atol=1e-7)
    assert_close(other, wanted)


class Noisy(nn.Sequential):
    """Convolution, batch normalisation that trains, and dropout."""

    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(3, 8, 5, stride=4),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Dropout(0.5),
            nn.Flatten(),
            nn.Linear(8 * 36, 12),
        )


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=on_a_gpu)])
def test_a_chunk_meets_the_same_random_numbers_and_statistics_twice(device: str) -> None:
    """Chunks of at most 5 of 18 images are 5, 5, 4 and 4; each counts once in the statistics."""
    torch.manual_seed(0)
    model = Embedder(trunks.get(Noisy, size=28), 16, freeze_batchnorm=False).to(device)
    step = a_step(5, {"name": "arcface"}, model)
    oracle = a_step(None, {"name": "arcface"}, model)
    generator = torch.cuda if device == "cuda" else torch
    labels = LABELS.to(device)
    torch.manual_seed(3)
    parts = images().to(device).split([5, 5, 4, 4])
    loss = oracle.loss(torch.cat([oracle.model(part) for part in parts]), labels)
    loss.backward()
    after = generator.get_rng_state()
    torch.manual_seed(3)
    value = step(images().to(device), labels, 1.0)
    torch.testing.assert_close(value, loss.detach())
    assert_close(gradients(step), gradients(oracle))
    assert torch.equal(generator.get_rng_state(), after)
    for (name, buffer), kept in zip(
        step.model.named_buffers(), oracle.model.buffers(), strict=True
    ):
        torch.testing.assert_close(buffer, kept, msg=name)
    assert int(step.model.trunk[1].num_batches_tracked) == 4


@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float16])
def test_lower_precisions_go_through_chunks(precision: torch.dtype) -> None:
    """With float16 gradients are scaled up, here by 64, and down again in the update."""
    torch.manual_seed(0)
    model = Embedder(trunks.get(lambda: nn.Sequential(*list(tiny())[:-1]), size=28), 16)
    steps = [a_step(most, {"name": "arcface"}, model, precision) for most in (None, 4)]
    for step in steps:
        state = step.state()
        step.restore(state | {"scaler": state["scaler"] and state["scaler"] | {"scale": 64.0}})
        step(images(), LABELS, 0.01)
    for name, before in model.named_parameters():
        whole, chunked = (step.model.get_parameter(name).data - before.data for step in steps)
        assert float(whole.norm()) > 0, name
        assert float((chunked - whole).norm()) < 0.05 * float(whole.norm()), name


@pytest.mark.parametrize(("chunk", "sizes"), [(None, {18}), (5, {5, 4}), (9, {9})])
def test_activations_are_kept_for_one_chunk_at_a_time(chunk: int | None, sizes: set[int]) -> None:
    kept: set[int] = set()

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.ndim == 4 and not isinstance(tensor, nn.Parameter):
            kept.add(len(tensor))
        return tensor

    step = a_step(chunk, {"name": "contrastive"}, frozen_statistics())
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        step(images(), LABELS, 1.0)
    assert kept == sizes


def test_a_batch_of_one_chunk_is_a_batch() -> None:
    data = sketches().subset("train")
    plain = Trainer(settings(), data, trunk=tiny).fit()
    assert_same(
        weights(plain.model),
        weights(Trainer(settings(training={"chunk": 16}), data, trunk=tiny).fit().model),
    )


def test_steps_in_chunks_are_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise AssertionError("recorded")

    monkeypatch.setattr(Step, "_recorded", refuse)
    data = sketches().subset("train")
    Trainer(settings(training={"chunk": 15, "epochs": 1, "iterations": 1}), data).fit()
    with pytest.raises(AssertionError, match="recorded"):
        Trainer(settings(training={"chunk": 16, "epochs": 1, "iterations": 1}), data).fit()


@pytest.mark.parametrize("iteration", [4, 10])
def test_a_run_in_chunks_is_resumed_to_the_same_weights(iteration: int, tmp_path: Path) -> None:
    config = settings(
        loss={"name": "margin", "miner": "distance_weighted"}, training={"chunk": 6, "epochs": 2}
    )
    options: dict[str, Any] = {"data": sketches(), "trunk": tiny}
    whole = train(config, **options)
    with pytest.raises(ConnectionAbortedError):
        train(config, folder=tmp_path, logs=[StopAt(iteration, "power")], **options)
    parts = train(config, folder=tmp_path, resume=True, **options)
    assert_same(weights(whole.model), weights(parts.model))
