"""Each loss teaches a tiny network: MAP@R of classes that it never saw goes up.

The network is one linear layer, 24 -> 16. Inputs are class centres in 8 directions and strong noise
in 16 others, rotated; a projection that ignores the noise serves unseen classes as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import truerank
from truerank import losses

CLASSES, EACH, IN, OUT, SIGNAL = 48, 16, 24, 16, 8
STEPS = 120


def make() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Rows and paths of the first half of the classes, for training, and of the second half."""
    rng = np.random.default_rng(11)
    parents = rng.standard_normal((CLASSES // 4, SIGNAL)) * 1.2
    labels = np.repeat(np.arange(CLASSES), EACH)
    centres = parents[np.arange(CLASSES) // 4] + rng.standard_normal((CLASSES, SIGNAL))
    signal = centres[labels] + 0.35 * rng.standard_normal((len(labels), SIGNAL))
    noise = 2.0 * rng.standard_normal((len(labels), IN - SIGNAL))
    rotation = np.linalg.qr(rng.standard_normal((IN, IN)))[0]
    rows = torch.tensor(np.concatenate([signal, noise], 1) @ rotation, dtype=torch.float32)
    paths = torch.tensor(np.stack([labels // 4, labels], 1))
    seen = torch.tensor(labels < CLASSES // 2)
    return rows[seen], paths[seen], rows[~seen], paths[~seen]


TRAIN, TRAIN_PATHS, TEST, TEST_PATHS = make()


def map_at_r(network: torch.nn.Module) -> float:
    with torch.no_grad():
        embeddings = network(TEST)
    return truerank.evaluate(embeddings, TEST_PATHS[:, -1], metrics=["map@r"])["map@r"].value


def build(name: str) -> Any:
    entry = losses.entry(name)
    given = {
        "num_classes": CLASSES // 2,
        "embedding_size": OUT,
        "hierarchy": torch.unique(TRAIN_PATHS, dim=0),
    }
    loss = losses.get(name, **{need: given[need] for need in entry.needs})
    if entry.kind == "regulariser":  # it is made to be added to another
        loss = losses.get("smooth_ap") + loss
    return loss


@pytest.mark.parametrize("name", losses.names())
def test_map_at_r_of_unseen_classes_goes_up(name: str) -> None:
    torch.manual_seed(0)
    network = torch.nn.Linear(IN, OUT)
    before = map_at_r(network)
    loss = build(name)
    groups = [{"params": network.parameters(), "lr": 0.02}]
    if losses.entry(name).has_parameters:
        groups.append({"params": loss.parameters(), "lr": 0.02})
    optimiser = torch.optim.Adam(groups)
    labels = TRAIN_PATHS if losses.entry(name).labels == "path" else TRAIN_PATHS[:, -1]
    for _ in range(STEPS):
        batch = torch.randperm(len(TRAIN))[:48]
        optimiser.zero_grad()
        value = loss(network(TRAIN[batch]), labels[batch])
        value.backward()
        optimiser.step()
    after = map_at_r(network)
    assert after > before + 0.2, (before, after)
