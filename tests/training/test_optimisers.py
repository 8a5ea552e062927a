"""Rates and groups: what the head, the trunk and the loss learn at, and when the trunk rests."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from tests.training.sketches import settings, sketches, tiny
from truerank._util.errors import InputError
from truerank.training.config import Config, ModelOptimiserConfig, ScheduleConfig
from truerank.training.logs import Log
from truerank.training.loop import Trainer
from truerank.training.objective import make_optimiser, model_optimiser, plateau, rate
from truerank.training.trunks import Embedder, get


def trained(log: Log | None = None, **sections: Any) -> Trainer:
    data = sketches().subset("train")
    fold = np.unique(data.labels)[:8]
    kept = np.isin(data.labels, fold)
    trainer = Trainer(
        settings(**sections),
        data.subset(~kept),
        data.subset(kept),
        trunk=tiny,
        logs=[] if log is None else [log],
    )
    if log is not None:
        log.trainer = trainer  # type: ignore[attr-defined]
    return trainer.fit()


class Watch(Log):
    """Notes the weights of the trunk and of the head after each iteration."""

    trainer: Trainer

    def __init__(self) -> None:
        self.trunk: list[torch.Tensor] = []
        self.head: list[torch.Tensor] = []

    def step(self, iteration: int, total: int) -> None:
        model = self.trainer.model
        self.trunk.append(model.trunk[2].weight.detach().clone())
        self.head.append(model.linear.weight.detach().clone())


def test_the_trunk_rests_while_the_head_learns() -> None:
    watch = Watch()
    trained(watch, schedule={"frozen_trunk": 7})
    moves = [not torch.equal(a, b) for a, b in zip(watch.trunk, watch.trunk[1:], strict=False)]
    assert moves == [False] * 6 + [True] * 8
    assert all(not torch.equal(a, b) for a, b in zip(watch.head, watch.head[1:], strict=False))


def test_a_resting_trunk_keeps_its_statistics() -> None:
    model = Embedder(get("convnet"), 4)
    model.rest_trunk(True)
    model.train()
    before = {name: value.clone() for name, value in model.trunk.state_dict().items()}
    model(torch.rand(4, 3, 16, 16) * 255)
    assert all(torch.equal(before[name], value) for name, value in model.trunk.state_dict().items())
    model.rest_trunk(False)
    assert model.trunk.training
    model(torch.rand(4, 3, 16, 16) * 255)
    assert not torch.equal(before["1.running_mean"], model.trunk.state_dict()["1.running_mean"])


def test_groups_of_rates() -> None:
    model = Embedder(get("convnet"), 4)
    optimiser = model_optimiser(model, ModelOptimiserConfig(lr=0.25, head_lr=0.5))
    trunk, head = optimiser.param_groups
    assert (trunk["lr"], head["lr"]) == (0.25, 0.5)
    assert [parameter.shape for parameter in head["params"]] == [(4, 256), (4,)]
    every = {id(p) for group in optimiser.param_groups for p in group["params"]}
    assert every == {id(p) for p in model.parameters()}


def test_nesterov_looks_ahead() -> None:
    """The second step of a constant gradient g is (1 + m + m^2) g lr, not (1 + m) g lr."""
    weight = torch.nn.Parameter(torch.zeros(1))
    config = ModelOptimiserConfig(name="sgd", lr=1.0, momentum=0.5, nesterov=True, weight_decay=0)
    optimiser = make_optimiser([weight], config)
    moved = []
    for _ in range(2):
        weight.grad = torch.ones(1)
        optimiser.step()
        moved.append(-weight.item())
    assert moved == [1.5, 1.5 + 1.75]


@pytest.mark.parametrize("given", [{"name": "adam"}, {"name": "sgd", "momentum": 0}])
def test_nesterov_is_for_sgd_with_momentum(given: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="nesterov needs the optimiser sgd and a momentum above 0"):
        Config.of(settings(optimiser={**given, "nesterov": True}))


def test_steps_and_plateaus() -> None:
    steps = ScheduleConfig(name="step", every=2, factor=0.5)
    assert [rate(steps, 0, 9, epoch=epoch) for epoch in range(5)] == [1, 1, 0.5, 0.5, 0.25]
    waits = ScheduleConfig(name="plateau", every=2, factor=0.5)
    values = [0.1, 0.3, 0.2, 0.3, 0.2, 0.3, 0.4]
    shares = [rate(waits, 0, 9, values=values[:n]) for n in range(len(values) + 1)]
    assert shares == [1, 1, 1, 1, 0.5, 0.5, 0.25, 0.25]
    assert plateau([], 1) == 0
    assert plateau([math.nan], 1) == 1


def test_a_cosine_by_epoch_stays_within_one() -> None:
    """Torch's scheduler is the oracle, stepped at the end of 4 epochs of 3 iterations."""
    schedule = ScheduleConfig(name="cosine", by="epoch")
    weight = torch.nn.Parameter(torch.zeros(1))
    peer = torch.optim.lr_scheduler.CosineAnnealingLR(torch.optim.SGD([weight], lr=1.0), T_max=4)
    for epoch in range(4):
        shares = [rate(schedule, 3 * epoch + i, 12, epoch=epoch, begun=3 * epoch) for i in range(3)]
        assert shares == pytest.approx(peer.get_last_lr() * 3)
        peer.optimizer.step()
        peer.step()


def test_a_cosine_ends_at_the_lowest_rate_of_each_optimiser() -> None:
    """Torch's scheduler is the oracle; a rate that is lower than `lowest` stays where it is."""
    rates: list[list[float]] = []

    class Rates(Watch):
        def step(self, iteration: int, total: int) -> None:
            groups = [o.param_groups for o in self.trainer._step._optimisers]
            rates.append([group["lr"] for some in groups for group in some])

    trained(
        Rates(),
        optimiser={"name": "adam", "lr": 1e-3, "head_lr": 1e-5, "lowest": 1e-4},
        loss_optimiser={"name": "sgd", "lr": 0.5, "lowest": 0.1},
        schedule={"name": "cosine", "by": "epoch"},
        training={"epochs": 3, "iterations": 2},
    )
    trunk, head, own = zip(*rates, strict=True)
    for found, highest, lowest in ((trunk, 1e-3, 1e-4), (own, 0.5, 0.1)):
        weight = torch.nn.Parameter(torch.zeros(1))
        optimiser = torch.optim.SGD([weight], lr=highest)
        peer = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=3, eta_min=lowest)
        wanted = []
        for _ in range(3):
            wanted += peer.get_last_lr() * 2
            optimiser.step()
            peer.step()
        assert list(found) == pytest.approx(wanted)
    assert list(head) == pytest.approx([1e-5] * 6)


def test_scale_and_shift_of_batch_normalisation_rest_where_all_is_frozen() -> None:
    def moved(frozen: Any) -> set[str]:
        trainer = Trainer(
            settings(
                model={"freeze_batchnorm": frozen},
                schedule={"frozen_trunk": 1},  # what rested wakes up
                training={"epochs": 1, "iterations": 2},
            ),
            sketches().subset("train"),
        )
        before = {name: value.clone() for name, value in trainer.model.state_dict().items()}
        after = trainer.fit().model.state_dict()
        return {name for name, value in after.items() if not torch.equal(value, before[name])}

    statistics = {f"trunk.{layer}.{name}" for layer in (1, 5, 9, 13)
                  for name in ("running_mean", "running_var", "num_batches_tracked")}  # fmt: skip
    affine = {f"trunk.{layer}.{name}" for layer in (1, 5, 9, 13) for name in ("weight", "bias")}
    everything = moved(False)
    assert statistics | affine < everything
    assert moved(True) == everything - statistics
    assert moved("all") == everything - statistics - affine
    with pytest.raises(InputError, match=r"'model\.freeze_batchnorm' must be .* Got 'some'"):
        Config.of(settings(model={"freeze_batchnorm": "some"}))


def test_a_plateau_needs_a_validation() -> None:
    data = sketches().subset("train")
    with pytest.raises(InputError, match="the schedule plateau goes by the validation metric"):
        Trainer(settings(schedule={"name": "plateau"}), data, trunk=tiny)


def test_the_rate_of_a_plateau_falls() -> None:
    trainer = trained(
        optimiser={"name": "adam", "lr": 1e-12},
        loss_optimiser={"name": "sgd", "lr": 1e-12},
        schedule={"name": "plateau", "every": 1, "factor": 0.5},
        training={"epochs": 3, "iterations": 2},
    )
    assert [record["lr"] for record in trainer.history] == [1e-12, 1e-12, 5e-13, 2.5e-13]


@pytest.mark.parametrize(
    ("loss", "sampler", "batch"),
    [
        ("arcface", {}, (32, 1)),
        ("ProxyNCA", {}, (32, 1)),
        ("triplet", {}, (8, 4)),
        ("recall_at_k", {}, (8, 4)),
        ("happier", {}, (8, 4)),
        ("arcface", {"classes": 16}, (16, 4)),
        ("arcface", {"few": "drop"}, (32, 1)),
        ("arcface", {"classes": 16, "samples": 2}, (16, 2)),
    ],
)
def test_the_batch_goes_by_the_kind_of_loss(
    loss: str, sampler: dict[str, Any], batch: tuple[int, int]
) -> None:
    config = Config(data={"name": "emoji"}, loss={"name": loss}, sampler=sampler)
    assert (config.sampler.classes, config.sampler.samples) == batch
    again = Config.of(config.to_dict())
    assert again == config


def test_a_layer_norm_head_standardises_the_features() -> None:
    model = Embedder(get("convnet"), 8, head="layernorm").eval()
    images = torch.rand(2, 3, 16, 16) * 255
    with torch.no_grad():
        features = model.trunk((images - model.mean) / model.std)
        centred = features - features.mean(1, keepdim=True)
        standard = centred / (centred.square().mean(1, keepdim=True) + 1e-5).sqrt()
        wanted = torch.nn.functional.normalize(model.linear(standard), dim=1)
        assert torch.allclose(model(images), wanted, atol=1e-6)
    with pytest.raises(InputError, match="'head' parameter of Embedder must be one of"):
        Embedder(get("convnet"), 8, head="batchnorm")
