"""The training of one fold, in a worker: other folds train, this one says when to stop."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from truerank.benchmark.methods import OwnLoss, load_object, own_error
from truerank.benchmark.worker import Half
from truerank.datasets.base import Dataset
from truerank.errors import InputError, OwnCodeError
from truerank.files import to_json, write_text
from truerank.training.config import WITHOUT_WEIGHTS

__all__ = ["FoldOutcome", "TrainFold", "TryLoss", "checkpoint_hash"]

SAVE_EVERY = 60.0
"""Seconds between two checkpoints of a training; one that is asked to stop saves itself at once."""

OF_THE_MACHINE = ("device", "workers", "pipeline")
"""Fields of a training that may differ when it goes on elsewhere."""


@dataclass(frozen=True)
class FoldOutcome:
    """What a training came to; `score` is 0 for one that diverged."""

    score: float
    epochs: int
    best_epoch: int
    state: str
    """finished or diverged."""
    seconds: float
    curve: list[list[float | None]]
    """Epoch, loss and validation metric, epoch 0 before training."""
    checkpoint: str | None = None
    """SHA-256 of the model's weights, where they were kept."""
    training: str | None = None
    """SHA-256 of the training's configuration, where its model was kept."""
    measures: dict[str, float] = field(default_factory=dict)
    """Further metrics of the best epoch's model on the fold, where a search asks for them."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return dict(self.__dict__)


@dataclass(frozen=True)
class TrainFold:
    """Train on all folds but one; the best epoch's model is kept if there is a `folder` for it."""

    method: str
    config: Mapping[str, Any]
    own: OwnLoss | None
    parameters: Mapping[str, Any]
    """Of a loss of the user's; others have theirs in the configuration."""
    fold: int
    scratch: Path
    """Where an unfinished training is kept."""
    folder: Path | None = None
    measures: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """SHA-256 of all that the training depends on; not of the data, nor of the machine."""
        training = self.config["training"]
        kept = {name: value for name, value in training.items() if name not in OF_THE_MACHINE}
        model = dict(self.config["model"])
        if model["trunk"] in WITHOUT_WEIGHTS:
            model["pretrained"] = True  # as older folders have it, where it did as little
        own = None if self.own is None else [Path(self.own.file).name, self.own.object]
        config = {**self.config, "training": kept, "model": model}
        content = [config, own, dict(self.parameters), self.fold]
        return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def run(self, half: Half) -> FoldOutcome:
        """Train to the end, from where an earlier try was stopped."""
        from truerank.training.loop import DivergedError

        started = time.monotonic()
        trainer = self._trainer(half)
        last, note = self.scratch / "last.pt", self.scratch / "training.txt"
        if last.exists() and note.exists() and note.read_text() == self.digest:
            trainer.resume(last)
        write_text(note, self.digest)
        state = "finished"
        try:
            trainer.fit()
        except DivergedError:
            state = "diverged"
        except Exception as error:
            if self.own is None or isinstance(error, (InputError, OSError)):
                raise
            raise own_error(self.own, "failed in training", error) from error
        checkpoint = None
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            trainer.save_best(self.folder / "best.pt")
            checkpoint = checkpoint_hash(trainer.best_model().state_dict())
        metric = trainer.config.training.metric
        best = trainer.best_value
        measured = self._measure(trainer, half) if state == "finished" else {}
        outcome = FoldOutcome(
            best if state == "finished" and best is not None else 0.0,
            trainer.epoch,
            trainer.best_epoch or 0,
            state,
            round(time.monotonic() - started, 3),
            [[one["epoch"], one["loss"], one.get(metric)] for one in trainer.history],
            checkpoint,
            None if self.folder is None else self.digest,
            measured,
        )
        if self.folder is not None:
            to_json(outcome.to_dict(), self.folder / "fold.json")
        for name in ("last.pt", "training.txt", "best.pt"):
            if self.scratch != self.folder or name != "best.pt":
                (self.scratch / name).unlink(missing_ok=True)
        return outcome

    def _measure(self, trainer: Any, half: Half) -> dict[str, float]:
        """The metrics that are asked for, of the best epoch's model on the fold."""
        from truerank.training.validation import validation_score

        if not self.measures:
            return {}
        kept_back = half.data.subset(half.folds[self.fold])
        embeddings = trainer.embed(trainer.best_model(), kept_back)
        return {
            metric: validation_score(embeddings, kept_back, metric, trainer.device)
            for metric in self.measures
        }

    def _trainer(self, half: Half) -> Any:
        from truerank.training.loop import Trainer

        train, loss = self.training_rows(half), None
        if self.own is not None:
            loss = self.own_loss(train)
        self.scratch.mkdir(parents=True, exist_ok=True)
        try:
            return Trainer(
                self.config, train, half.data.subset(half.folds[self.fold]), folder=self.scratch,
                loss=loss, save_every=SAVE_EVERY,
            )  # fmt: skip
        except InputError as error:
            raise InputError(f"the method {self.method!r}: {error}") from error

    def training_rows(self, half: Half) -> Dataset:
        """All folds but the one that is kept back."""
        rest = np.concatenate([f for n, f in enumerate(half.folds) if n != self.fold])
        return half.data.subset(np.sort(rest))

    def own_loss(self, train: Dataset) -> Any:
        """Build the loss of the user's for these rows."""
        from truerank.training import devices, randomness

        assert self.own is not None
        known = {
            "num_classes": len(np.unique(train.fine_labels)),
            "embedding_size": self.config["model"]["dimensions"],
        }
        seed = self.config["training"]["seed"]
        with randomness.borrowed(seed, devices.resolve("cpu")):  # its weights may be random
            return load_object(self.own, self.parameters, known)


@dataclass(frozen=True)
class TryLoss:
    """Build the loss of a training and run one batch of noise through it, forth and back."""

    training: TrainFold

    def run(self, half: Half) -> float:
        """See Task; the value of the loss."""
        import torch
        from torch.nn.functional import normalize

        from truerank.training import devices, objective, randomness
        from truerank.training.config import Config
        from truerank.training.sampler import make_sampler

        own, config = self.training.own, Config.of(self.training.config)
        device = devices.resolve(config.training.device)
        train = self.training.training_rows(half)
        codes = objective.path_codes(train.labels)
        with randomness.borrowed(config.training.seed, device):
            noise = torch.randn(config.sampler.classes * config.sampler.samples,
                                config.model.dimensions, device=device)  # fmt: skip
            try:
                rows = make_sampler(config, train).batch()
                if own is not None:
                    loss = self.training.own_loss(train)
                else:
                    loss = objective.build(config.loss, codes, config.model.dimensions)
                labels = codes[rows] if objective.takes_paths(loss) else codes[rows, -1]
                embeddings = normalize(noise[: len(rows)]).requires_grad_()
                value = loss.to(device)(embeddings, torch.from_numpy(labels).to(device))
                if not isinstance(value, torch.Tensor) or value.ndim:
                    got = tuple(value.shape) if isinstance(value, torch.Tensor) else repr(value)
                    raise InputError(
                        f"its forward must return a tensor with a single number. Got {got} instead."
                    )
                value.backward()
            except OwnCodeError:
                raise
            except InputError as error:
                raise InputError(f"the method {self.training.method!r}: {error}") from error
            except Exception as error:
                if own is None:
                    raise
                raise own_error(own, "failed on a batch of noise", error) from error
        return float(value)


def checkpoint_hash(weights: Mapping[str, Any]) -> str:
    """SHA-256 of a model's weights: names, types, shapes and bytes, in the order of the names."""
    total = sha256()
    for name in sorted(weights):
        value = weights[name].detach().cpu().contiguous()
        total.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        total.update(value.numpy().tobytes())
    return total.hexdigest()
