"""Recorded passes of a small network: what the network itself would give, batch after batch."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from tests.training.sketches import settings, sketches, tiny
from truerank.training import Embedder, trunks
from truerank.training.augmentation import Augmentation, draw
from truerank.training.config import Config
from truerank.training.loop import Trainer
from truerank.training.pipeline import Resident
from truerank.training.recorded import RECORDED_TRUNKS, recorded, training_pass

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
    for name, value in replayed.state_dict().items():
        torch.testing.assert_close(value, eager.state_dict()[name], rtol=1e-3, atol=1e-4)
    copied = copy.deepcopy(replayed).eval()  # what is evaluated is no recording
    torch.testing.assert_close(copied(images[0]), replayed.eval()(images[0]))


@on_a_gpu
def test_a_training_learns_as_the_eager_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    data = sketches().subset("train")
    found = []
    for names in (RECORDED_TRUNKS, ()):
        monkeypatch.setattr("truerank.training.recorded.RECORDED_TRUNKS", names)
        config = settings(training={"device": "cuda", "precision": "float32", "epochs": 2})
        trainer = Trainer(config, data).fit()
        found.append([record["loss"] for record in trainer.history[1:]])
    np.testing.assert_allclose(found[0], found[1], rtol=0.05)


def test_a_trunk_of_the_users_own_is_called_as_it_is() -> None:
    trainer = Trainer(settings(), sketches().subset("train"), trunk=tiny)
    assert trainer._pass is trainer.model


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
