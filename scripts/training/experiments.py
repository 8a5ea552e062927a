"""What is trained for docs/results/training.md: data sets, losses, learning rates, seeds.

An Experiment and a seed give the configuration of one run; nothing here needs torch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

SEEDS = (0, 1, 2)
RATES = (1e-4, 3e-4, 1e-3)
"""Learning rates to choose from, by MAP@R on the first fold of the training classes."""

TCM = [{"name": "tcm", "weight": 1.0}]
CLASSES = {"kind": "classes", "classes": 64, "samples": 4}
NODES = {"kind": "hierarchical", "classes": 64, "samples": 4, "nodes": 2, "level": 1}


@dataclass(frozen=True)
class Experiment:
    """A row of a table."""

    name: str
    data: str
    loss: dict[str, Any]
    sampler: dict[str, Any] = field(default_factory=lambda: CLASSES)
    rate_of: str | None = None
    """The experiment whose learning rate it shares: with a regulariser, nothing else changes."""

    @property
    def key(self) -> str:
        """Its name in files."""
        return f"{self.data}-{self.name}"

    def config(
        self, *, rate: float, seed: int, epochs: int, iterations: int, trial: bool = False
    ) -> dict[str, Any]:
        """The configuration of one run; training classes are all used, so `fold` is None.

        A trial has small images and batches, to see on any machine that all of it works.
        """
        side = 32 if trial else 96
        batch = {"classes": 4, "samples": 2} if trial else {}
        return {
            "data": {"name": self.data, "fold": None},
            "model": {"trunk": "efficientnet_lite0", "dimensions": 128},
            "augmentation": {"resize": side, "crop": side, "scale": [0.4, 1.0]},
            "sampler": self.sampler | batch,
            "loss": self.loss,
            "optimiser": {"name": "adamw", "lr": rate},
            "loss_optimiser": {"name": "adamw", "lr": 10 * rate},
            "schedule": {"name": "cosine", "warmup": min(50, epochs * iterations // 4)},
            "training": {
                "epochs": epochs,
                "iterations": iterations,
                "patience": None,
                "seed": seed,
                "deterministic": False,
            },
            "evaluation": {"batch": 1024},
        }


def _losses(data: str) -> list[Experiment]:
    return [
        Experiment("arcface", data, {"name": "arcface"}),
        Experiment("smooth_ap", data, {"name": "smooth_ap"}),
        Experiment("multi_similarity", data, {"name": "multi_similarity"}),
        Experiment("arcface+tcm", data, {"name": "arcface", "plus": TCM}, rate_of="arcface"),
        Experiment("smooth_ap+tcm", data, {"name": "smooth_ap", "plus": TCM}, rate_of="smooth_ap"),
    ]


EXPERIMENTS = [
    *_losses("quickdraw"),
    *_losses("emoji"),
    Experiment("roadmap", "emoji", {"name": "roadmap"}),
    Experiment("happier", "emoji", {"name": "happier"}, NODES),
]
