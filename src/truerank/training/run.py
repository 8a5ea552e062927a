"""train: a configuration in, a folder with everything about the run out.

config.yaml         every field, the defaults included
environment.json    versions, device, threads, seeds
log.csv, log.jsonl  one record per epoch
last.pt, best.pt    checkpoints: to resume from, and of the best epoch
test.npz            embeddings of the test images with labels, ids and exclusion groups
result.json         their scores
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import nn

from truerank._util.errors import InputError, TruerankWarning
from truerank._util.files import write_text
from truerank.datasets.base import Dataset
from truerank.datasets.catalogue import read
from truerank.evaluation.evaluate import evaluate
from truerank.result.result import Result
from truerank.training import devices, embedding
from truerank.training.config import Config
from truerank.training.embedding import write_embeddings
from truerank.training.logs import CsvLog, JsonLinesLog, Log
from truerank.training.loop import Trainer
from truerank.training.sampler import class_folds
from truerank.training.trunks import Embedder

Embeddings = npt.NDArray[np.float32]
MAY_CHANGE = {
    "data": {"root"},
    "training": {"epochs", "patience", "device", "workers", "pipeline", "channels_last"},
    "evaluation": {"metrics", "batch"},
}
"""What a resumed run may do differently without becoming another run."""


@dataclass(frozen=True, eq=False)
class Run:
    """A finished training run.

    Attributes
    ----------
    model : Embedder
        Of the best epoch, in evaluation mode.
    config : Config
    history : list of dict
        One record for each epoch; epoch 0 is before training.
    best_epoch : int
    result : Result or None
        Scores on the test split; None if the data set has none.
    folder : Path or None
    """

    model: Embedder
    config: Config
    history: list[dict[str, Any]]
    best_epoch: int
    result: Result | None
    folder: Path | None


def train(
    config: Config | Mapping[str, Any],
    *,
    data: Dataset | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
    trunk: Callable[[], nn.Module] | None = None,
    loss: nn.Module | None = None,
    logs: Sequence[Log] = (),
) -> Run:
    """Train a model, keep its best epoch, and score it on the test split.

    Parameters
    ----------
    config : Config or mapping
        What a YAML file would hold.
    data : Dataset, optional
        In place of reading the configuration's. Without splits of its own, the first half of its
        classes trains and the second half tests.
    folder : path, optional
        Where the run is kept; without it nothing is written.
    resume : bool
        Go on with the run in the folder, if there is one.
    trunk, loss : optional
        In place of the configuration's; see Trainer.
    logs : sequence of Log
        Beside the logs in the folder.

    Returns
    -------
    Run

    Examples
    --------
    >>> import numpy as np
    >>> from truerank.datasets import Dataset
    >>> from truerank.training import train
    >>> noise = np.random.default_rng(0).integers(0, 256, (80, 16, 16), dtype=np.uint8)
    >>> data = Dataset("noise", noise, np.repeat(np.arange(8), 10), ("class",))
    >>> run = train(
    ...     {
    ...         "data": {"name": "noise", "folds": 2},
    ...         "model": {"trunk": "convnet"},
    ...         "augmentation": {"resize": 16, "crop": 16},
    ...         "sampler": {"classes": 2, "samples": 4},
    ...         "loss": {"name": "contrastive"},
    ...         "training": {"epochs": 2, "iterations": 1, "device": "cpu"},
    ...     },
    ...     data=data,
    ... )
    >>> [record["epoch"] for record in run.history]
    [0, 1, 2]
    >>> 0 <= run.result["map@r"].value <= 1
    True
    """
    config = Config.of(config)
    if resume and folder is None:
        raise InputError("resume=True needs the folder of the run.")
    where = None if folder is None else Path(folder)
    begun = where is not None and (where / "last.pt").exists()
    if where is not None and begun:
        _check_resumable(where, config, resume)
    if data is None:
        data = read(config.data.name, config.data.root)
    data = _with_split(data)
    training, validation = _split(config, data)
    own: list[Log] = []
    if where is not None:
        own = [CsvLog(where / "log.csv"), JsonLinesLog(where / "log.jsonl")]
    trainer = Trainer(
        config, training, validation, folder=where, trunk=trunk, loss=loss, logs=[*own, *logs]
    )
    if where is not None:
        _make_folder(where)
        write_text(where / "config.yaml", config.to_yaml())
        facts = devices.describe(
            trainer.device, seed=config.training.seed, deterministic=config.training.deterministic
        )
        write_text(where / "environment.json", json.dumps(facts, indent=2) + "\n")
        if begun:
            trainer.resume(where / "last.pt")
    trainer.fit()
    model = trainer.best_model()
    result = _test(trainer, model, data, where)
    assert trainer.best_epoch is not None
    return Run(model, config, trainer.history, trainer.best_epoch, result, where)


def _with_split(data: Dataset) -> Dataset:
    """The data set's own split, or the protocol's: the first half of the classes trains."""
    if data.splits:
        return data
    train, test = class_folds(data.class_numbers, 2)
    return replace(data, splits={"train": train, "test": test})


def _split(config: Config, data: Dataset) -> tuple[Dataset, Dataset | None]:
    """Training images, and those for validation: a split, or a fold of the training classes."""
    part = data.subset(config.data.train)
    if config.data.validation is not None:
        if config.data.validation == "test":
            warnings.warn(
                "the best epoch is chosen on the test classes, so that the test score will be too "
                "good; leave data.validation out to choose it on training classes.",
                TruerankWarning,
                stacklevel=3,
            )
        return part, data.subset(config.data.validation)
    if config.data.fold is None:
        return part, None
    numbers = data.class_numbers[data.splits[config.data.train]]
    folds = class_folds(numbers, config.data.folds)
    rest = np.concatenate([rows for n, rows in enumerate(folds) if n != config.data.fold])
    return part.subset(np.sort(rest)), part.subset(folds[config.data.fold])


def _check_resumable(folder: Path, config: Config, resume: bool) -> None:
    if not resume:
        raise InputError(
            f"{folder} holds a run already; resume it (--resume, resume=True) or name another "
            "folder."
        )
    # A checkpoint of an earlier version lacks the fields that have come since.
    saved = Config.of(embedding.load(folder / "last.pt")["config"]).to_dict()
    for section, fields in config.to_dict().items():
        for field, value in fields.items():
            before = saved.get(section, {}).get(field)
            if before != value and field not in MAY_CHANGE.get(section, ()):
                raise InputError(
                    f"the run in {folder} was made with {section}.{field} = {before!r}, not "
                    f"{value!r}; resume it unchanged, or name another folder."
                )


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {folder}: {error.strerror or error}.") from error


def _test(trainer: Trainer, model: Embedder, data: Dataset, folder: Path | None) -> Result | None:
    """Embed and score what the data set's own protocol tests on."""
    sides = ("query", "gallery") if {"query", "gallery"} <= set(data.splits) else ("test",)
    if not set(sides) <= set(data.splits):
        return None
    parts = {}
    for side in sides:
        chosen = data.subset(side)
        parts[side] = trainer.embed(model, chosen)
        if folder is not None:
            _save_embeddings(folder / f"{side}.npz", parts[side], chosen)
    arguments = data.task_arguments()
    if "gallery" in parts:
        arguments["gallery"] = parts["gallery"]
    result = evaluate(parts[sides[0]], **arguments, metrics=trainer.config.evaluation.metrics)
    if folder is not None:
        result.to_json(folder / "result.json")
    return result


def _save_embeddings(path: Path, embeddings: Embeddings, data: Dataset) -> None:
    coarse = data.labels.reshape(len(data), -1).T[:-1]
    columns = {f"level{number}": column for number, column in enumerate(coarse, start=1)}
    if data.groups is not None:
        columns["group"] = data.groups
    write_embeddings(path, embeddings, ids=data.ids, label=data.fine_labels, **columns)
