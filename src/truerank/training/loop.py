"""The training loop: a configuration and data sets in, a trained embedder and its history out.

Stopped at any iteration, by the end of the process or by Ctrl-C, and resumed from its
checkpoint, it reaches the weights of the run that was never stopped, bit for bit on a CPU. On a
GPU a step can be recorded once and replayed as a CUDA graph; for a loss that reads its numbers,
only the passes of the network can be recorded. The validation score is MAP@R on the model's
device where the rules are plain, else that of `evaluate`.
"""

from __future__ import annotations

import copy
import math
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from truerank._util.errors import InputError
from truerank.datasets.base import Dataset
from truerank.distance.grid import unit_grid
from truerank.evaluation.evaluate import evaluate
from truerank.losses.base import Loss
from truerank.losses.registry import trusted_labels
from truerank.training import devices, embedding, objective, trunks
from truerank.training.config import Config
from truerank.training.embedding import FeaturePipeline, embed_rows, feature_rows
from truerank.training.logs import Log
from truerank.training.objective import load_optimiser, make_optimiser, model_optimiser, rate
from truerank.training.pipeline import Pipeline, draw, open_pipeline
from truerank.training.sampler import check_disjoint, make_sampler
from truerank.training.trunks import Embedder

Rows = npt.NDArray[np.int64]


class DivergedError(InputError):
    """The loss became NaN or infinite; a search counts such a run as a failure."""


class Trainer:
    """The training of one model.

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
        with devices.borrowed(config.training.seed, self.device):
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
            self._random = devices.capture(self.device)
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
        embedding.save(path, self._model_state() | best)

    def resume(self, path: str | Path) -> Trainer:
        """Go on from a checkpoint, which was written with the same configuration and data."""
        state = embedding.load(path)
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
            devices.deterministic(settings.deterministic),
            devices.borrowed(self._random, self.device),
        ):
            for log in self.logs:
                log.begin(self.history)
            try:
                yield
            except torch.OutOfMemoryError as error:
                raise InputError(
                    "the device's memory is full; set training.chunk, or lower sampler.classes, "
                    "sampler.samples or augmentation.crop."
                ) from error
            finally:
                self._random = devices.capture(self.device)
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
            epoch=self.epoch, begun=self.epoch * settings.iterations,
            values=[record.get(settings.metric, 0.0) for record in self.history],
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
            self._best_weights = embedding.copy_weights(self.model)
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
        embedding.save(
            self.folder / "last.pt",
            {
                **self._model_state(),
                "best_model": self._best_weights,
                "loss": self.loss.state_dict(),
                **self._step.state(),
                "sampler": self._sampler_at_start,
                "random": devices.capture(self.device),
                "done": self._done,
                "loss_sum": float(self._loss_sum),
                "history": self.history,
            },
        )


# One step of a training: a batch and the share of the learning rates in, the batch's loss out.
#
# The optimisers live here, and the decision how much of a step is recorded as a CUDA graph.


class Step:
    """Updates a model and the parameters of its loss.

    Parameters
    ----------
    model : Embedder
    loss : torch module
    config : Config
    precision : torch.dtype
        In which the layers compute.
    may_record : bool
        False for a trunk or a loss of the user's own: they are called as they are.
    """

    def __init__(
        self,
        model: Embedder,
        loss: nn.Module,
        config: Config,
        precision: torch.dtype,
        *,
        may_record: bool = True,
    ) -> None:
        self.model, self.loss, self.config = model, loss, config
        self._precision, self._device = precision, next(model.parameters()).device
        sections, ends = (config.optimiser, config.loss_optimiser), config.schedule.name == "cosine"
        self._optimisers = [model_optimiser(model, config.optimiser)]
        own = list(loss.parameters())
        if own:
            self._optimisers.append(make_optimiser(own, config.loss_optimiser))
        self._rates = [
            (group["lr"], min(group["lr"], section.lowest if ends else 0.0))
            for section, optimiser in zip(sections, self._optimisers, strict=False)
            for group in optimiser.param_groups
        ]
        self._scaler = torch.amp.GradScaler(self._device.type, enabled=precision is torch.float16)
        self._may_record = may_record
        self._pass: Callable[[torch.Tensor], torch.Tensor] = model
        self._whole: Update | None = None

    @property
    def rate(self) -> float:
        """The learning rate of the model's first parameters, as it is now."""
        return float(self._optimisers[0].param_groups[0]["lr"])

    def __call__(self, crops: torch.Tensor, labels: torch.Tensor, share: float) -> torch.Tensor:
        """The loss of a batch as a tensor, so that the device is not waited for.

        Steps in chunks are not recorded: dropout has to repeat its random numbers.
        """
        rates = iter(self._rates)
        for optimiser in self._optimisers:
            for group in optimiser.param_groups:
                highest, lowest = next(rates)
                group["lr"] = lowest + (highest - lowest) * share
        if self._whole is None:
            records = self._may_record and not self._chunks(crops)
            self._whole = self._recorded(crops, labels) if records else self._update
        return self._whole(crops, labels).detach()

    def _recorded(self, crops: torch.Tensor, labels: torch.Tensor) -> Update:
        """What updates: recorded as a whole, in its passes, or not at all."""
        if records_steps(crops, self.loss, self.config, self._precision):
            with torch.no_grad():  # what it says of the labels, a recording cannot
                self.loss(crops.new_ones(len(crops), self.config.model.dimensions), labels)
            modules = (self.model, self.loss)
            with trusted_labels():
                return WholeStep(self._update, crops, labels, modules, self._optimisers)
        self._pass = training_pass(self.model, crops, self.config, self._precision)
        return self._update

    def _update(self, crops: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Forward pass, loss, backward pass, and a step of the optimisers."""
        for optimiser in self._optimisers:
            optimiser.zero_grad()
        chunks = self._chunks(crops)
        if chunks:
            loss = self._backward_in_chunks(crops.tensor_split(chunks), labels)
        else:
            loss = self.loss(self._embed(crops), labels)
            self._scaler.scale(loss).backward()
        for optimiser in self._optimisers:
            self._scaler.step(optimiser)
        self._scaler.update()
        return loss

    def _embed(self, crops: torch.Tensor) -> torch.Tensor:
        mixed = self._precision is not torch.float32
        with torch.autocast(self._device.type, self._precision, enabled=mixed):
            return self._pass(crops)

    def _chunks(self, crops: torch.Tensor) -> int:
        """The number of chunks that a batch is divided into; 0 where it is not."""
        most = self.config.training.chunk
        return 0 if most is None or len(crops) <= most else math.ceil(len(crops) / most)

    def _backward_in_chunks(
        self, chunks: Sequence[torch.Tensor], labels: torch.Tensor
    ) -> torch.Tensor:
        """The loss and the gradient of the whole batch, in the memory of one chunk.

        The loss needs the embeddings of all images at once, the network does not. So they are
        computed without a graph, the loss is differentiated with respect to them, and each chunk
        goes through the network again, with that gradient (gradient caching: Gao, Zhang, Han &
        Callan, Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup, 2021). The
        second pass repeats the first: its random numbers and statistics begin at the same state.
        """
        begun, parts = [], []
        with torch.no_grad(), kept_statistics(self.model):
            for chunk in chunks:
                begun.append(devices.capture(self._device))
                parts.append(self._embed(chunk))
        embeddings = torch.cat(parts).requires_grad_()
        loss: torch.Tensor = self.loss(embeddings, labels)
        self._scaler.scale(loss).backward()
        whole = torch.zeros_like(embeddings) if embeddings.grad is None else embeddings.grad
        gradients = whole.tensor_split(len(chunks))
        for chunk, state, gradient in zip(chunks, begun, gradients, strict=True):
            with devices.borrowed(state, self._device):
                self._embed(chunk).backward(gradient)
        return loss

    def state(self) -> dict[str, Any]:
        """What optimisers and scaler remember, for a checkpoint."""
        optimisers = [optimiser.state_dict() for optimiser in self._optimisers]
        return {"optimisers": optimisers, "scaler": self._scaler.state_dict()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state`; a recording is made anew."""
        for optimiser, saved in zip(self._optimisers, state["optimisers"], strict=True):
            load_optimiser(optimiser, saved)
        self._scaler.load_state_dict(state["scaler"])
        self._whole, self._pass = None, self.model


# Steps recorded once and replayed as CUDA graphs: what would be launched in, one launch out.
#
# A small network keeps a GPU waiting for Python, which launches some hundred short kernels for
# each batch. Recorded, a whole step is one launch: forward pass, loss, backward pass and update.
# A loss that looks at its numbers and decides cannot be recorded; then the two passes of the
# network are.


Update = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Crops and labels in, the loss out; the weights are changed."""
Record = Callable[[Callable[[], None], Callable[[], None]], Callable[[], None]]
"""What is to be done, and what takes back that it was done, in; what does it again out."""

RECORDED_TRUNKS = ("convnet", "frozen")
"""Trunks whose passes are short and the same for every batch of one shape."""
WARM_UP = 3
"""Steps before a recording, in which libraries choose their kernels."""


class _Passes(nn.Module):
    """A stand-in, so that the model itself keeps its own forward for evaluation and copies."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.model(batch)
        return made


def training_pass(
    model: Embedder, batch: torch.Tensor, config: Config, precision: torch.dtype
) -> Callable[[torch.Tensor], torch.Tensor]:
    """What turns batches like this one into embeddings in training: recorded where that pays.

    That is on a GPU, for a small network of ours that trains as a whole in float32: larger ones and
    lower precisions keep the GPU busy as they are.
    """
    records = batch.is_cuda and precision is torch.float32 and config.schedule.frozen_trunk == 0
    if not records or config.model.trunk not in RECORDED_TRUNKS:
        return model
    return recorded(model, batch)


def recorded(model: nn.Module, batch: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    """What calls a model in training mode, as it is now, on batches of the shape of this one.

    The weights stay where they are: an optimiser and `load_state_dict` change what is replayed.
    Recording runs the model a few times; statistics that this changes are put back.
    """
    sample = torch.zeros_like(batch, memory_format=torch.contiguous_format)
    with kept_statistics(model):
        replayed: Any = torch.cuda.make_graphed_callables(_Passes(model), (sample,))
    passes: Callable[[torch.Tensor], torch.Tensor] = replayed
    return passes


@contextmanager
def kept_statistics(model: nn.Module) -> Iterator[None]:
    """Run a model in training mode; its statistics are put back afterwards."""
    before = [buffer.clone() for buffer in model.buffers()]
    yield
    with torch.no_grad():
        for buffer, kept in zip(model.buffers(), before, strict=True):
            buffer.copy_(kept)


def records_steps(
    batch: torch.Tensor, loss: nn.Module, config: Config, precision: torch.dtype
) -> bool:
    """Whether whole steps are recorded: a small network on a GPU, a loss that reads nothing back.

    A recording holds the learning rates, which therefore have to stay.
    """
    schedule = config.schedule
    stays = schedule.name == "constant" and schedule.warmup == 0 and schedule.frozen_trunk == 0
    small = config.model.trunk in RECORDED_TRUNKS and precision is torch.float32
    return (
        batch.is_cuda
        and stays
        and small
        and isinstance(loss, Loss)
        and loss.is_recordable(len(batch))
    )


class WholeStep:
    """An update of the weights, recorded with its first batch and replayed with all others.

    Parameters
    ----------
    update : callable
        One step as it would be without a recording.
    crops, labels : tensors
        A batch; all others have its shape.
    modules : sequence of torch modules
        Whose weights and statistics the update changes.
    optimisers : sequence of torch optimisers
    record : callable
        What records.
    """

    def __init__(
        self,
        update: Update,
        crops: torch.Tensor,
        labels: torch.Tensor,
        modules: Sequence[nn.Module],
        optimisers: Sequence[torch.optim.Optimizer],
        record: Record | None = None,
    ) -> None:
        self._crops = crops.clone(memory_format=torch.contiguous_format)
        self._labels = labels.clone()
        self._loss = torch.zeros((), device=crops.device)
        before = _State(modules, optimisers)
        self._replay = (record or graph)(lambda: self._once(update), before.restore)

    def _once(self, update: Update) -> None:
        self._loss.copy_(update(self._crops, self._labels).detach())

    def __call__(self, crops: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The loss of a batch, before its update; the next call overwrites it."""
        self._crops.copy_(crops)
        self._labels.copy_(labels)
        self._replay()
        return self._loss


def graph(once: Callable[[], None], undo: Callable[[], None]) -> Callable[[], None]:
    """Record as a CUDA graph what is done once; in the end nothing has been done."""
    beside = torch.cuda.Stream()
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):
        for _ in range(WARM_UP):
            once()
    torch.cuda.current_stream().wait_stream(beside)
    undo()
    made = torch.cuda.CUDAGraph()
    # threads that load images may use the GPU meanwhile
    with torch.cuda.graph(made, capture_error_mode="thread_local"):
        once()
    replay: Callable[[], None] = made.replay
    return replay


class _State:
    """Weights, statistics and what optimisers remember, as they are now."""

    def __init__(
        self, modules: Sequence[nn.Module], optimisers: Sequence[torch.optim.Optimizer]
    ) -> None:
        self._optimisers = optimisers
        self._tensors = [
            (tensor, tensor.detach().clone())
            for module in modules
            for tensor in (*module.parameters(), *module.buffers())
        ]
        self._remembered = {
            id(value): value.clone()
            for optimiser in optimisers
            for state in optimiser.state.values()
            for value in state.values()
            if isinstance(value, torch.Tensor)
        }

    def restore(self) -> None:
        """Put everything back where it is; what an optimiser has since begun begins at 0."""
        with torch.no_grad():
            for tensor, kept in self._tensors:
                tensor.copy_(kept)
            for optimiser in self._optimisers:
                optimiser.zero_grad()
                for state in optimiser.state.values():
                    for value in state.values():
                        if isinstance(value, torch.Tensor):
                            value.copy_(self._remembered.get(id(value), torch.zeros_like(value)))


# Waiting for a GPU asleep: a process that asks for a number keeps a core busy until it is there.
#
# Batches are launched some way ahead of the GPU and no further, and what is waited for is an event
# that wakes the process. Where several trainings share a machine, the cores are free for others.


AHEAD = 32
"""Batches that may be launched and not yet done: the GPU never waits for the next one."""


class Pace:
    """How far the launching of batches may be ahead of a device; on a CPU they never are."""

    def __init__(self, device: torch.device) -> None:
        self._waits = device.type == "cuda"
        self._launched: deque[Any] = deque()

    def launched(self) -> None:
        """Say that a batch was launched; waits for one of long ago."""
        if not self._waits:
            return
        event = torch.cuda.Event(blocking=True)
        event.record()
        self._launched.append(event)
        if len(self._launched) > AHEAD:
            self._launched.popleft().synchronize()

    def catch_up(self) -> None:
        """Wait for all that was launched."""
        while self._launched:
            self._launched.popleft().synchronize()


# Ctrl-C and SIGTERM as a request: the step under way ends, the state is saved, then it stops.
#
# A second Ctrl-C does not wait. Outside the main thread nothing is changed, as Python demands.


class Interrupts:
    """Notes Ctrl-C and SIGTERM in a `with` block; ask `interrupts.requested` between steps."""

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True


# The validation score of an epoch: MAP@R on the model's own device, else by `evaluate`.
#
# On the device the rows are those of the exact cosine, integers whose products and sums a float64
# holds: the ranking is that of `evaluate`, ties included, and only the mean may differ in its last
# bits. Mates of the query's own group are junk there too. Whatever has other rules, such as junk
# labels, shared ids or a gallery of its own, is left to `evaluate`.


ROWS = 512
"""Queries at a time."""


def validation_score(
    embeddings: npt.NDArray[np.float32], data: Dataset, metric: str, device: torch.device
) -> float:
    """The value of a metric of embeddings of a data set's images."""
    if metric == "map@r" and _is_plain(data):
        value = map_at_r(embeddings, data.fine_labels, device, data.groups)
        if value is not None:
            return value
    arguments = data.task_arguments()
    score = evaluate(embeddings, **arguments, metrics=[metric], confidence=None)[metric]
    if math.isnan(score.value):
        raise InputError(f"{metric} is undefined on the validation classes: {score.reason}")
    return score.value


def _is_plain(data: Dataset) -> bool:
    """Whether every image is searched for among all others, by its finest label and its group."""
    if data.junk_labels or data.splits:
        return False
    return data.ids is None or len(set(data.ids.tolist())) == len(data)


def map_at_r(
    embeddings: Any, labels: Any, device: torch.device, groups: Any = None
) -> float | None:
    """MAP@R of leave-one-out search by cosine, pessimistic where distances tie.

    Mates of the query's own group count as neither right nor wrong. None where this is not the
    place to compute it: rows without a direction or at right angles, which have rules of their own,
    labels without a mate, or a device without float64.

    Examples
    --------
    >>> import torch
    >>> from truerank.training.loop import map_at_r
    >>> rows = [[1.0, 0.1], [1.0, 0.2], [0.1, 1.0], [0.2, 1.0]]
    >>> map_at_r(rows, ["a", "a", "b", "b"], torch.device("cpu"))
    1.0
    """
    if device.type == "mps":
        return None
    integers, zero = unit_grid(np.asarray(embeddings, np.float64))
    codes = np.unique(np.asarray(labels), return_inverse=True)[1]
    unseen = _within(codes, groups)
    mates = np.bincount(codes)[codes] - np.bincount(unseen)[unseen]
    if zero.any() or not mates.any():
        return None
    rows = torch.from_numpy(integers).to(device, torch.float64)
    squares = (rows * rows).sum(1)
    classes = torch.from_numpy(codes).to(device)
    junk = torch.from_numpy(unseen).to(device)
    wanted = torch.from_numpy(mates).to(device)
    depth = int(mates.max())
    places = torch.arange(1, depth + 1, device=device, dtype=torch.float64)
    parts = []
    for start in range(0, len(rows), ROWS):
        part = slice(start, start + ROWS)
        products = rows[part] @ rows.T
        if bool((products == 0).any()):
            return None
        distances = squares[part, None] + squares - 2 * products
        same = classes[part, None] == classes
        keys = 2 * distances.to(torch.int64) + same  # of equal ones, those of other classes first
        keys[junk[part, None] == junk] = torch.iinfo(torch.int64).max
        first = keys.topk(depth, dim=1, largest=False, sorted=True).values
        found = ((first & 1) == 1) & (places <= wanted[part, None])
        found &= first != torch.iinfo(torch.int64).max
        hits = found.cumsum(1).to(torch.float64)
        parts.append((found * hits / places).sum(1) / wanted[part].clamp_min(1))
    values = torch.cat(parts).cpu().numpy()[mates > 0]
    return math.fsum(values.tolist()) / len(values)


def _within(codes: npt.NDArray[np.intp], groups: Any) -> npt.NDArray[np.intp]:
    """Numbers that a query shares with the rows it never meets: itself, mates of its group."""
    if groups is None:
        return np.arange(len(codes))
    pairs = np.stack([codes, np.unique(np.asarray(groups), return_inverse=True)[1]], axis=1)
    return np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1)
