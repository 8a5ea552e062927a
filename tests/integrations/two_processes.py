"""What the tests run in processes of their own: Lightning on two CPU processes.

python -m tests.integrations.two_processes OUT
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Sampler

from tests.integrations.samples import SAMPLES, SHARES, data
from truerank.compat.lightning import RetrievalCallback
from truerank.compat.torchmetrics import RetrievalMetric


class Points(Dataset[Any]):
    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor, int]:
        rows, labels = data()
        return rows[index], labels[index], index


class Share(Sampler[int]):
    """A process's part of the samples, without padding."""

    def __init__(self, part: range) -> None:
        self.part = part

    def __iter__(self) -> Iterator[int]:
        return iter(self.part)

    def __len__(self) -> int:
        return len(self.part)


class Model(pl.LightningModule):
    """Embeds by the identity. Validates on padded shares, tests on uneven ones."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4, bias=False)
        torch.nn.init.eye_(self.layer.weight)

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        return self.layer(batch[0]).sum() * 0

    def validation_step(self, batch: Any, index: int) -> dict[str, torch.Tensor]:
        rows, labels, ids = batch
        return {"embeddings": self.layer(rows), "labels": labels, "ids": ids}

    test_step = validation_step

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.0)

    def train_dataloader(self) -> DataLoader[Any]:
        sampler = DistributedSampler(Points(), 2, self.trainer.global_rank, shuffle=False)
        return DataLoader(Points(), batch_size=4, sampler=sampler)

    val_dataloader = train_dataloader

    def test_dataloader(self) -> DataLoader[Any]:
        part = SHARES["uneven"][self.trainer.global_rank]
        return DataLoader(Points(), batch_size=4, sampler=Share(part))


class Report(pl.Callback):
    """Each process writes what it logged, and the callback's Result."""

    def __init__(self, out: Path) -> None:
        self.out = out

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        self.write(trainer, "val")

    def on_test_end(self, trainer: Any, pl_module: Any) -> None:
        self.write(trainer, "test")

    def write(self, trainer: Any, stage: str) -> None:
        result = next(c.result for c in trainer.callbacks if isinstance(c, RetrievalCallback))
        rank = trainer.global_rank
        found = {
            "shares": {kind: evaluate_share(parts[rank]) for kind, parts in SHARES.items()},
            "logged": {name: float(value) for name, value in trainer.callback_metrics.items()},
            "result": {name: score.value for name, score in result.items()},
            "seen": len(result["map"].per_query.lower),
        }
        (self.out / f"{stage}-{rank}.json").write_text(json.dumps(found))


def evaluate_share(part: range) -> dict[str, float]:
    """The metric by itself, while the processes are connected."""
    rows, labels = data()
    metric = RetrievalMetric(metrics=["map@r", "map"])
    for ids in torch.tensor(part, dtype=torch.int64).split(4):
        if len(ids):
            metric.update(rows[ids], labels[ids], ids)
    return {name: value.item() for name, value in metric.compute().items()}


def main(out: Path) -> None:
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_epochs=1,
        limit_train_batches=1,
        num_sanity_val_steps=1,
        use_distributed_sampler=False,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[RetrievalCallback(metrics=["precision@1", "map@r", "map"]), Report(out)],
    )
    model = Model()
    trainer.fit(model)
    trainer.test(model, verbose=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
