"""Recorded passes of a small network: what the network itself would give, batch after batch."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests.training.sketches import settings, sketches, tiny
from truerank import losses
from truerank.training import trunks
from truerank.training.config import Config
from truerank.training.loop import (
    RECORDED_TRUNKS,
    Step,
    Trainer,
    WholeStep,
    recorded,
    records_steps,
    training_pass,
)
from truerank.training.pipeline import Augmentation, Resident, draw
from truerank.training.trunks import Embedder

on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def test_on_a_cpu_nothing_is_recorded() -> None:
    model = Embedder(trunks.get("convnet"), 8)
    batch = torch.zeros(4, 3, 28, 28)
    assert training_pass(model, batch, Config.of(settings()), torch.float32) is model


def small_model() -> Embedder:
    torch.manual_seed(0)
    return Embedder(trunks.get("convnet"), 8).cuda()


@on_a_gpu
def test_recording_leaves_the_model_as_it_was() -> None:
    model = small_model()
    before = copy.deepcopy(model.state_dict())
    recorded(model, torch.rand(4, 3, 28, 28, device="cuda"))
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name


@on_a_gpu
def test_steps_are_those_of_the_network_itself() -> None:
    eager = small_model()
    replayed = copy.deepcopy(eager)
    images = 255 * torch.rand(6, 4, 3, 28, 28, device="cuda")
    weights = torch.randn(4, 8, device="cuda")
    passes = recorded(replayed, images[0])
    for model, call in ((eager, eager), (replayed, passes)):
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
        for batch in images:
            optimiser.zero_grad()
            (call(batch) * weights).sum().backward()
            optimiser.step()
    # Sums in an order of their own, six steps through batch normalisation: weights are off by 2e-4.
    for name, value in replayed.state_dict().items():
        torch.testing.assert_close(value, eager.state_dict()[name], rtol=1e-2, atol=1e-3)
    copied = copy.deepcopy(replayed).eval()  # what is evaluated is no recording
    torch.testing.assert_close(copied(images[0]), replayed.eval()(images[0]))


@on_a_gpu
def test_a_training_learns_as_the_eager_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    data = sketches().subset("train")
    found = []
    for names in (RECORDED_TRUNKS, ()):
        monkeypatch.setattr("truerank.training.loop.RECORDED_TRUNKS", names)
        config = settings(training={"device": "cuda", "precision": "float32", "epochs": 2})
        trainer = Trainer(config, data).fit()
        found.append([record["loss"] for record in trainer.history[1:]])
    np.testing.assert_allclose(found[0], found[1], rtol=0.05)


def test_a_trunk_of_the_users_own_is_called_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise AssertionError("nothing of a custom trunk is recorded")

    monkeypatch.setattr(Step, "_recorded", refuse)
    config = settings(training={"epochs": 1, "iterations": 2})
    Trainer(config, sketches().subset("train"), trunk=tiny).fit()


def a_loss() -> torch.nn.Module:
    """One with proxies, so that there are two optimisers."""
    torch.manual_seed(1)
    made: torch.nn.Module = losses.get("arcface", num_classes=5, embedding_size=8)
    return made


def a_step(device: str, name: str) -> Step:
    torch.manual_seed(0)
    model = Embedder(trunks.get("convnet"), 8).to(device)
    chosen = {"name": name, "lr": 0.01}
    config = Config.of(settings(model={"dimensions": 8}, optimiser=chosen, loss_optimiser=chosen))
    return Step(model, a_loss().to(device), config, torch.float32)


def batches(device: str) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(2)
    return [
        (
            (255 * torch.rand(4, 3, 28, 28, generator=generator)).to(device),
            torch.randint(5, (4,), generator=generator).to(device),
        )
        for _ in range(5)
    ]


def played_back(once: Callable[[], None], undo: Callable[[], None]) -> Callable[[], None]:
    """A recording where there is no GPU: it is tried, taken back, and done again each time."""
    once()
    once()
    undo()
    return once


def numbers(step: Step) -> list[torch.Tensor]:
    modules = (step.model, step.loss)
    return [value.detach().cpu() for one in modules for value in one.state_dict().values()]


@pytest.mark.parametrize("name", ["rmsprop", "sgd", "adam", "adamw"])
@pytest.mark.parametrize("begun", [False, True])
def test_a_recorded_step_begins_where_the_training_stands(name: str, begun: bool) -> None:
    """What is tried for the recording leaves no trace, in optimisers that have begun or not."""
    plain, other = a_step("cpu", name), a_step("cpu", name)
    given = batches("cpu")
    for step in (plain, other) if begun else ():
        step(*given[0], 1.0)
    found = []
    other.model.train()
    modules = (other.model, other.loss)
    whole = WholeStep(other._update, *given[0], modules, other._optimisers, played_back)
    other._whole = whole
    for step in (plain, other):
        found.append([float(step(*one, 1.0)) for one in given])
    assert found[0] == found[1]
    for one, two in zip(numbers(plain), numbers(other), strict=True):
        assert torch.equal(one, two)


def test_what_is_recorded_as_a_whole() -> None:
    config = Config.of(settings())
    assert not records_steps(torch.zeros(1), a_loss(), config, torch.float32)  # no GPU

    class OnGPU:
        is_cuda = True

        def __len__(self) -> int:
            return 32

    batch: Any = OnGPU()
    assert records_steps(batch, a_loss(), config, torch.float32)
    assert not records_steps(batch, torch.nn.Identity(), config, torch.float32)
    assert not records_steps(batch, a_loss(), config, torch.bfloat16)
    for schedule in ({"warmup": 3}, {"name": "cosine"}, {"frozen_trunk": 2}):
        other = Config.of(settings(schedule=schedule))
        assert not records_steps(batch, a_loss(), other, torch.float32)


@on_a_gpu
@pytest.mark.parametrize("name", ["rmsprop", "sgd", "adam", "adamw"])
def test_whole_steps_on_a_gpu_are_those_without_a_recording(name: str) -> None:
    """But for the order of sums: where a gradient is nearly 0, an optimiser that divides by its
    size makes a whole step of its last bit, so single weights may go another way."""
    plain, other = a_step("cuda", name), a_step("cuda", name)
    plain._may_record = False
    found = [[float(step(*one, 1.0)) for one in batches("cuda")] for step in (plain, other)]
    assert isinstance(other._whole, WholeStep)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-3)
    for one, two in zip(numbers(plain), numbers(other), strict=True):
        near = torch.isclose(one.double(), two.double(), rtol=1e-2, atol=1e-3)
        assert near.double().mean() > 0.999
        torch.testing.assert_close(one, two, rtol=1e-2, atol=0.05)  # five steps of 0.01


def test_a_state_of_another_device_is_gone_on_with() -> None:
    """How steps are launched belongs to the device, not to the state."""
    step, other = a_step("cpu", "rmsprop"), a_step("cpu", "rmsprop")
    step(*batches("cpu")[0], 1.0)
    state = step.state()
    for optimiser in state["optimisers"]:
        for group in optimiser["param_groups"]:
            group["capturable"] = True
    other.restore(state)
    other(*batches("cpu")[1], 1.0)


@on_a_gpu
def test_many_batches_are_cut_as_one_by_one() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (50, 28, 28), dtype=np.uint8)
    chunks = [np.arange(start, start + 10) for start in range(0, 50, 10)]
    draws = draw(0, 0, 50)
    augmentation = Augmentation(28, 24)
    together = Resident(pixels, augmentation, torch.device("cuda"))
    alone = Resident(pixels, augmentation, torch.device("cpu"))
    pairs = zip(together.batches(chunks, draws), alone.batches(chunks, draws), strict=True)
    for on_gpu, on_cpu in pairs:
        torch.testing.assert_close(on_gpu.cpu(), on_cpu, rtol=1e-4, atol=0.01)
