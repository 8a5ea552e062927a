"""The training loop: a configuration and data sets in, a trained embedder and its history out.

Stopped at any iteration, by an end of the process or by Ctrl-C, and resumed from its checkpoint, it
goes on to the weights of the run that was never stopped, bit for bit on a CPU.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from truerank.datasets.base import Dataset
from truerank.errors import InputError
from truerank.training import checkpoint, devices, objective, randomness, trunks
from truerank.training.augmentation import draw
from truerank.training.config import Config
from truerank.training.embedder import Embedder
from truerank.training.embedding import embed_rows
from truerank.training.features import FeaturePipeline, feature_rows
from truerank.training.interrupts import Interrupts
from truerank.training.logs import Log
from truerank.training.optimisers import rate
from truerank.training.pace import Pace
from truerank.training.pipeline import Pipeline, open_pipeline
from truerank.training.sampler import make_sampler
from truerank.training.splits import check_disjoint
from truerank.training.step import Step
from truerank.training.validation import validation_score

__all__ = ["DivergedError", "Trainer"]

Rows = npt.NDArray[np.int64]


class DivergedError(InputError):
    """The loss is no longer a number; a search counts such a run as a failure."""


class Trainer:
    """Trains one embedder.

    Parameters
    ----------
    config : Config or mapping
    train : Dataset
        Its labels are classes, or paths from coarse to fine for losses that use them.
    validation : Dataset, optional
        Of other classes. Without it there is no early stopping, and the last model is the best.
    folder : path, optional
        Where `last.pt` and `best.pt` go; without it nothing is written.
    trunk : callable, optional
        Makes a trunk, in place of the configuration's.
    loss : torch module, optional
        In place of the configuration's. One of truerank's takes labels as paths; another one, of
        pytorch-metric-learning for example, is called as loss(embeddings, labels) with classes.
    logs : sequence of Log
    save_every : float
        Seconds between two checkpoints at least; what is interrupted is saved in any case.

    Attributes
    ----------
    model : Embedder
        As trained so far.
    history : list of dict
        One record for each epoch.
    best_epoch, best_value
        Of the validation metric.
    """

    def __init__(
        self,
        config: Config | Mapping[str, Any],
        train: Dataset,
        validation: Dataset | None = None,
        *,
        folder: str | Path | None = None,
        trunk: Callable[[], nn.Module] | None = None,
        loss: nn.Module | None = None,
        logs: Sequence[Log] = (),
        save_every: float = 0.0,
    ) -> None:
        self.config = config = Config.of(config)
        self._save_every, self._saved_at = save_every, time.monotonic()
        self.device = devices.resolve(config.training.device)
        self.logs = list(logs)
        self.folder = None if folder is None else Path(folder)
        self.validation = validation
        self._custom_trunk = trunk is not None
        if validation is not None:
            check_disjoint(train, validation)
        self._sampler = make_sampler(config, train)
        codes = objective.path_codes(train.labels)
        with randomness.borrowed(config.training.seed, self.device):
            if config.model.trunk == "frozen":
                built = trunks.of_features(feature_rows(train.images)[0].features)
            else:
                built = trunks.get(
                    config.model.trunk if trunk is None else trunk,
                    pretrained=config.model.pretrained,
                    size=config.augmentation.crop,
                )
            self.model = Embedder(
                built,
                config.model.dimensions,
                head=config.model.head,
                freeze_batchnorm=config.model.freeze_batchnorm,
            ).to(self.device)
            own = trunk is not None or loss is not None
            if loss is None:
                loss = objective.build(config.loss, codes, config.model.dimensions)
            self._random = randomness.capture(self.device)
        self.loss = loss.to(self.device)
        labels = codes if objective.takes_paths(loss) else codes[:, -1]
        self._labels = torch.from_numpy(np.ascontiguousarray(labels)).to(self.device)
        if config.training.channels_last:
            self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if config.schedule.name == "plateau" and validation is None:
            raise InputError("the schedule plateau goes by the validation metric; there is none.")
        precision = devices.precision(config.training.precision, self.device)
        self._pace = Pace(self.device)
        self._step = Step(self.model, self.loss, config, precision, may_record=not own)
        self._images = self._open(train)
        self._validated = None if validation is None else (validation, self._open(validation))

        self.epoch = 0
        self.history: list[dict[str, Any]] = []
        self.best_epoch: int | None = None
        self.best_value: float | None = None
        self._best_weights: dict[str, Any] = {}
        self._done = 0
        self._loss_sum = torch.zeros((), dtype=torch.float64, device=self.device)
        self._sampler_at_start = self._sampler.state()

    @property
    def finished(self) -> bool:
        """Whether all epochs are done, or the metric has not risen for `patience` epochs.

        Epoch 0 is not waited for: a loss with new proxies may begin below it, and rise for long.
        """
        settings, patience = self.config.training, self.config.training.patience
        if patience is None or self.validation is None or self.epoch <= patience:
            return self.epoch >= settings.epochs
        values = [record[settings.metric] for record in self.history[1:]]
        waited = max(values[-patience:]) <= max(values[:-patience])
        return waited or self.epoch >= settings.epochs

    @property
    def iteration(self) -> int:
        """Iterations done in all."""
        return self.epoch * self.config.training.iterations + self._done

    def fit(self) -> Trainer:
        """Train to the end; Ctrl-C stops after the iteration under way, with all of it saved."""
        with self._at_work(), Interrupts() as interrupts:
            if not self.history:
                self._end_epoch(loss=None, speed=None, started=time.monotonic())
            while not self.finished:
                started = time.monotonic()
                images = self._train_epoch(interrupts)
                self._pace.catch_up()
                loss = float(self._loss_sum) / self.config.training.iterations
                if not math.isfinite(loss):
                    raise DivergedError(
                        f"the loss is {loss} in epoch {self.epoch + 1}; lower the learning rate."
                    )
                speed = images / (time.monotonic() - started)
                self.epoch += 1
                self._done = 0
                self._loss_sum.zero_()
                self._sampler_at_start = self._sampler.state()
                self._end_epoch(loss, speed, started)
                if interrupts.requested:
                    self._save()
                    raise KeyboardInterrupt
        if self._save_every and self.folder is not None:
            self.save_best(self.folder / "best.pt")
        return self

    def _open(self, data: Dataset) -> Pipeline:
        settings = self.config.training
        if self.config.model.trunk == "frozen":
            return FeaturePipeline(data.images, self.device)
        return open_pipeline(
            data.images,
            self.config.augmentation.build(),
            self.device,
            kind=settings.pipeline,
            workers=settings.workers,
        )

    def embed(self, model: Embedder, data: Dataset) -> npt.NDArray[np.float32]:
        """Embeddings of a data set's images by a model of this run."""
        return embed_rows(
            model, self._open(data), np.arange(len(data)), batch=self.config.evaluation.batch
        )

    def best_model(self) -> Embedder:
        """The model of the best epoch, for evaluation."""
        if self.best_epoch is None:
            raise InputError("nothing has been trained yet; call fit() first.")
        model = copy.deepcopy(self.model)
        model.load_state_dict(self._best_weights)
        return model.eval()

    def save_best(self, path: str | Path) -> None:
        """Write the model of the best epoch, as `load_embedder` reads it."""
        best = {"model": self._best_weights, "epoch": self.best_epoch}
        checkpoint.save(path, self._model_state() | best)

    def resume(self, path: str | Path) -> Trainer:
        """Go on from a checkpoint, which was written with the same configuration and data."""
        state = checkpoint.load(path)
        if "random" not in state:
            raise InputError(f"{path} holds a model alone; resume from last.pt of the run.")
        try:
            self.model.load_state_dict(state["model"])
            self.loss.load_state_dict(state["loss"])
            self._step.restore(state)
        except (RuntimeError, ValueError) as error:
            raise InputError(f"{path} belongs to another model, loss or data set.") from error
        self._sampler_at_start = state["sampler"]
        self._random = state["random"]
        self.epoch, self._done = state["epoch"], state["done"]
        self._loss_sum.fill_(state["loss_sum"])
        self.history = state["history"]
        self.best_epoch, self.best_value = state["best_epoch"], state["best_value"]
        self._best_weights = state["best_model"]
        return self

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """Determinism, the run's own random numbers, and logs that are closed whatever happens."""
        settings = self.config.training
        with (
            randomness.deterministic(settings.deterministic),
            randomness.borrowed(self._random, self.device),
        ):
            for log in self.logs:
                log.begin(self.history)
            try:
                yield
            except torch.OutOfMemoryError as error:
                raise InputError(
                    "the device's memory is full; lower sampler.classes, sampler.samples or "
                    "augmentation.crop."
                ) from error
            finally:
                self._random = randomness.capture(self.device)
                for log in self.logs:
                    log.close()

    def _train_epoch(self, interrupts: Interrupts) -> int:
        """Train the rest of the epoch, from iteration `_done`; returns the number of images."""
        settings = self.config.training
        self._sampler.restore(self._sampler_at_start)
        chunks = [self._sampler.batch() for _ in range(settings.iterations)]
        size = len(chunks[0])
        draws = draw(settings.seed, self.epoch, settings.iterations * size)
        chunks, draws = chunks[self._done :], draws[self._done * size :]
        self.model.train()
        self.loss.train()
        labels = self._labels[torch.from_numpy(np.concatenate(chunks)).to(self.device)]
        parts = labels.split(size)
        with closing(self._images.batches(chunks, draws)) as batches:
            for crops, classes in zip(self._saved_on_failure(batches), parts, strict=True):
                self.model.rest_trunk(self.iteration < self.config.schedule.frozen_trunk)
                self._loss_sum += self._step(crops, classes, self._share())
                self._pace.launched()
                self._done += 1
                for log in self.logs:
                    log.step(self.iteration, settings.epochs * settings.iterations)
                if interrupts.requested and self._done < settings.iterations:
                    self._save()
                    raise KeyboardInterrupt
        return len(chunks) * size

    def _share(self) -> float:
        """The share of the learning rates in this iteration."""
        settings = self.config.training
        return rate(
            self.config.schedule, self.iteration, settings.epochs * settings.iterations,
            epoch=self.epoch, values=[record.get(settings.metric, 0.0) for record in self.history],
        )  # fmt: skip

    def _saved_on_failure(self, batches: Iterator[torch.Tensor]) -> Iterator[torch.Tensor]:
        """The batches; an image that cannot be read stops the run where it can be resumed."""
        try:
            yield from batches
        except InputError:
            self._save()
            raise

    def _end_epoch(self, loss: float | None, speed: float | None, started: float) -> None:
        """Validate, note, and write both checkpoints; epoch 0 is the model before training."""
        metric = self.config.training.metric
        record: dict[str, Any] = {
            "epoch": self.epoch,
            "iteration": self.iteration,
            "loss": loss,
            "lr": self._step.rate,
        }
        better = True
        if self._validated is not None:
            value = self._validate(*self._validated, metric)
            better = self.best_value is None or value > self.best_value
            record[metric] = value
            if better:
                self.best_value = value
        if better:
            self.best_epoch = self.epoch
            self._best_weights = checkpoint.copy_weights(self.model)
        record |= {
            "best": better,
            "images_per_second": None if speed is None else round(speed, 1),
            "seconds": round(time.monotonic() - started, 3),
        }
        self.history.append(record)
        if time.monotonic() - self._saved_at >= self._save_every:
            if self.folder is not None and better:
                self.save_best(self.folder / "best.pt")
            self._save()
        for log in self.logs:
            log.record(record)

    def _validate(self, data: Dataset, images: Pipeline, metric: str) -> float:
        embeddings = embed_rows(
            self.model,
            images,
            np.arange(len(data)),
            batch=self.config.evaluation.batch,
        )
        if not np.isfinite(embeddings).all():
            raise DivergedError(
                f"the embeddings are not finite after epoch {self.epoch}; lower the learning rate."
            )
        return validation_score(embeddings, data, metric, self.device)

    def _model_state(self) -> dict[str, Any]:
        return {
            "config": self.config.to_dict(),
            "custom_trunk": self._custom_trunk,
            "model": self.model.state_dict(),
            "epoch": self.epoch,
            "best_epoch": self.best_epoch,
            "best_value": self.best_value,
        }

    def _save(self) -> None:
        """Save everything that the next iteration depends on."""
        if self.folder is None:
            return
        self._saved_at = time.monotonic()
        checkpoint.save(
            self.folder / "last.pt",
            {
                **self._model_state(),
                "best_model": self._best_weights,
                "loss": self.loss.state_dict(),
                **self._step.state(),
                "sampler": self._sampler_at_start,
                "random": randomness.capture(self.device),
                "done": self._done,
                "loss_sum": float(self._loss_sum),
                "history": self.history,
            },
        )
