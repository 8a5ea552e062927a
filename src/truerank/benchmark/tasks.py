"""Tasks that workers run: train a fold, compute features, fit baselines, score on the test split.

In the training of a fold the other folds train and this one says when to stop. Features of a
frozen trunk are computed once, of one split of the data at a time. Baselines are the untrained
trunk and its PCA, fitted on the development split. `separated` scores are those of the folds'
models one by one; `concat` is of their embeddings side by side, each of length 1. Results are
kept with their jackknife replicates over the test classes.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util.errors import InputError, OwnCodeError, TruerankWarning
from truerank._util.files import atomic_path, to_json, write_text
from truerank._util.types import Array
from truerank.benchmark.config import BenchmarkConfig
from truerank.benchmark.methods import OwnLoss, load_object, own_error, seed_of
from truerank.benchmark.workers import Half
from truerank.core import registry
from truerank.core.average import plain_mean
from truerank.core.metric import Metric
from truerank.core.score import Score
from truerank.datasets.base import Dataset
from truerank.evaluation.evaluate import evaluate
from truerank.io.reading import read_embeddings
from truerank.result.result import Result
from truerank.training.config import WITHOUT_WEIGHTS

SAVE_EVERY = 60.0
"""Seconds between two checkpoints of a training; one that is asked to stop saves itself at once."""

OF_THE_MACHINE = ("device", "workers", "pipeline")
"""Fields of a training that may differ when it goes on elsewhere."""
ADDED = (("augmentation", "square", False), ("optimiser", "lowest", 0.0),
         ("loss_optimiser", "lowest", 0.0), ("schedule", "by", "iteration"),
         ("training", "chunk", None))  # fmt: skip
"""Fields that folders of earlier versions lack, and values with which they change no training."""


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
        config = {name: dict(section) for name, section in self.config.items()}
        for name in OF_THE_MACHINE:
            config["training"].pop(name)
        if config["model"]["trunk"] in WITHOUT_WEIGHTS:
            config["model"]["pretrained"] = True  # as older folders have it, where it did as little
        for section, name, value in ADDED:
            if config[section].get(name) == value:
                config[section].pop(name, None)
        own = None if self.own is None else [Path(self.own.file).name, self.own.object]
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
        from truerank.training.loop import validation_score

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
        from truerank.training import devices

        assert self.own is not None
        known = {
            "num_classes": len(np.unique(train.fine_labels)),
            "embedding_size": self.config["model"]["dimensions"],
        }
        seed = self.config["training"]["seed"]
        with devices.borrowed(seed, devices.resolve("cpu")):  # its weights may be random
            return load_object(self.own, self.parameters, known)


@dataclass(frozen=True)
class TryLoss:
    """Build the loss of a training and run one batch of noise through it, forth and back."""

    training: TrainFold

    def run(self, half: Half) -> float:
        """See Task; the value of the loss."""
        import torch
        from torch.nn.functional import normalize

        from truerank.training import devices, objective
        from truerank.training.config import Config
        from truerank.training.sampler import make_sampler

        own, config = self.training.own, Config.of(self.training.config)
        device = devices.resolve(config.training.device)
        train = self.training.training_rows(half)
        codes = objective.path_codes(train.labels)
        with devices.borrowed(config.training.seed, device):
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
        return float(value.detach())


@dataclass(frozen=True)
class TimeTraining:
    """Measure how long a model takes for an image, forth and back, from random weights."""

    config: Mapping[str, Any]

    def run(self, half: Half) -> float:
        """See Task; seconds per image, without reading, loss and validation."""
        import torch

        from truerank.training import devices, trunks
        from truerank.training.config import Config

        config = Config.of(self.config)
        device = devices.resolve(config.training.device)
        precision = devices.precision(config.training.precision, device)
        size = config.augmentation.crop
        with devices.borrowed(config.training.seed, device):
            trunk = trunks.get(config.model.trunk, pretrained=False, size=size)
            model = trunks.Embedder(trunk, config.model.dimensions).to(device)
            images = torch.zeros(32 if device.type == "cuda" else 4, 3, size, size, device=device)
            batch, chunk = config.sampler.classes * config.sampler.samples, config.training.chunk
            passes = [False, True] if chunk is not None and chunk < batch else [True]
            for _ in range(2):  # the first round is slower: kernels are chosen and memory is found
                started = time.monotonic()
                mixed = precision is not torch.float32
                for with_graph in passes:  # in chunks, images go forth twice
                    with (
                        torch.set_grad_enabled(with_graph),
                        torch.autocast(device.type, precision, enabled=mixed),
                    ):
                        embeddings = model(images)
                total: torch.Tensor = embeddings.sum()
                total.backward()
                total.item()
        return (time.monotonic() - started) / len(images)


def checkpoint_hash(weights: Mapping[str, Any]) -> str:
    """SHA-256 of a model's weights: names, types, shapes and bytes, in the order of the names."""
    total = sha256()
    for name in sorted(weights):
        value = weights[name].detach().cpu().contiguous()
        total.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        total.update(value.numpy().tobytes())
    return total.hexdigest()


# The linear lane: features of a frozen trunk once for all, of one half of the data at a time.


TITLE = "linear head, frozen features"


def base_of(config: BenchmarkConfig) -> dict[str, Any] | None:
    """What computes the features of the linear lane; None where the trunk is trained."""
    shared = config.shared
    if shared.model.trunk != "frozen":
        return None
    return {
        "trunk": shared.model.base,
        "pretrained": shared.model.pretrained,
        "augmentation": shared.augmentation.model_dump(mode="json"),
        "copies": shared.model.copies,
        "seed": seed_of(config.protocol.seed, "features"),
        "device": shared.training.device,
    }


@dataclass(frozen=True)
class ComputeFeatures:
    """Write the features of the half that a worker holds: the evaluation's crop, and copies."""

    base: Mapping[str, Any]
    path: Path

    def run(self, half: Half) -> dict[str, Any]:
        """The seconds that it took."""
        from truerank.training.devices import resolve

        started = time.monotonic()
        found = base_features(
            half.data, self.base, resolve(self.base["device"]), self.base["copies"]
        )
        with atomic_path(self.path) as partial, partial.open("wb") as file:
            np.save(file, found)
        return {"seconds": round(time.monotonic() - started, 3)}


def with_features(data: Dataset, path: Path) -> Dataset:
    """A data set with the features of a file in place of its images."""
    from truerank.training.embedding import FeatureArray

    return replace(data, images=FeatureArray(path))


def features_in_memory(data: Dataset, base: Mapping[str, Any], device: Any) -> Dataset:
    """A data set with features in place of its images, which no file holds afterwards."""
    import tempfile

    found = base_features(data, base, device, 0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "features.npy"
        np.save(path, found)
        made = with_features(data, path)
        made.images.on(device)  # type: ignore[attr-defined]
    return made


def base_features(data: Dataset, base: Mapping[str, Any], device: Any, copies: int) -> Any:
    """(1 + copies, N, F): features of the evaluation's crop, then of random ones."""
    from truerank.training import devices, trunks
    from truerank.training.config import AugmentationConfig
    from truerank.training.embedding import compute_features

    augmentation = AugmentationConfig(**base["augmentation"]).build()
    with devices.borrowed(int(base["seed"]), device):
        trunk = trunks.get(base["trunk"], pretrained=base["pretrained"], size=augmentation.crop)
    return compute_features(
        trunk, data.images, augmentation, device, copies=copies, seed=int(base["seed"])
    )


# The rows that nothing was trained for: features of the untrained trunk, and their PCA.
#
# The PCA is fitted on the search half, before the test half is opened. `separated` is a fold's own
# trunk in the model's dimensions, `concatenated` that of all folds in as many as all models have.


Floats = npt.NDArray[np.float64]
Features = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Projection:
    """A PCA: what is taken off a row, and the directions it is then seen from."""

    mean: Floats
    directions: Floats


@dataclass(frozen=True)
class FitBaselines:
    """Fit the PCAs of the untrained trunks on the search half, and keep them in a file."""

    configs: Sequence[Mapping[str, Any]]
    """A training's configuration for each fold, whose seed gives the trunk its weights."""
    path: Path

    def run(self, half: Half) -> dict[str, Any]:
        """The hash of the trunks' weights, and the seconds that it took."""
        started = time.monotonic()
        features, hashes = [], []
        for config in self.configs:
            rows, weights = trunk_features(config, half.data)
            features.append(rows)
            hashes.append(weights)
        dimensions = int(self.configs[0]["model"]["dimensions"])
        fitted = [fit_pca(rows, dimensions) for rows in features]
        fitted.append(fit_pca(np.hstack(features), dimensions * len(features)))
        arrays: Any = {}
        for number, one in enumerate(fitted):
            arrays |= {f"mean{number}": one.mean, f"directions{number}": one.directions}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(self.path) as partial, partial.open("wb") as file:
            np.savez(file, **arrays, hash=np.array(sha256("".join(hashes).encode()).hexdigest()))
        return {"seconds": round(time.monotonic() - started, 3)}


def trunk_features(config: Mapping[str, Any], data: Dataset) -> tuple[Features, str]:
    """The features of a training's trunk before its first iteration, and its weights' hash."""
    import torch

    from truerank.training import devices, trunks
    from truerank.training.config import Config
    from truerank.training.embedding import compute_features, feature_rows

    chosen = Config.of(config)
    device = devices.resolve(chosen.training.device)
    if chosen.model.trunk == "frozen":
        array, rows = feature_rows(data.images)
        features: Features = array.on(device)[0].cpu().numpy()[rows]
        return features, sha256(b"frozen").hexdigest()
    with devices.borrowed(chosen.training.seed, device), torch.no_grad():
        trunk = trunks.get(
            chosen.model.trunk, pretrained=chosen.model.pretrained, size=chosen.augmentation.crop
        )
        found = compute_features(
            trunk, data.images, chosen.augmentation.build(), device, copies=0, seed=0
        )
    return found[0], checkpoint_hash(trunk.network.state_dict())


def fit_pca(rows: Features, dimensions: int) -> Projection:
    """The directions in which unit rows vary most, at most as many as they have numbers."""
    return principal(_units(rows), dimensions)


def principal(rows: Floats, dimensions: int) -> Projection:
    """The directions in which rows vary most, as they are."""
    mean = rows.mean(axis=0)
    centred = rows - mean
    _, vectors = np.linalg.eigh(centred.T @ centred)
    return Projection(mean, np.ascontiguousarray(vectors[:, ::-1][:, :dimensions]))


def project(projection: Projection, rows: Features) -> Floats:
    """Rows in the directions of a PCA."""
    seen: Floats = (_units(rows) - projection.mean) @ projection.directions
    return seen


def read_projections(path: Path) -> tuple[list[Projection], str]:
    """The PCAs of the folds and, last, of all together; and the hash of the trunks' weights."""
    with np.load(path) as arrays:
        count = sum(name.startswith("mean") for name in arrays.files)
        fitted = [
            Projection(arrays[f"mean{number}"], arrays[f"directions{number}"])
            for number in range(count)
        ]
        return fitted, str(arrays["hash"])


def _units(rows: Features) -> Floats:
    wide = rows.astype(np.float64)
    length = np.sqrt((wide**2).sum(axis=1, keepdims=True))
    return wide / np.where(length > 0, length, 1.0)


# The test half's scores, in workers that hold the test half: of each fold's model and of all.


CONCAT = "concat"
NOISE_DIMENSIONS = 4
Scores = dict[str, dict[str, float]]


@dataclass(frozen=True)
class ScoreModels:
    """Score the models of one rerun: `checkpoints` are their files, `hashes` what was logged."""

    checkpoints: Sequence[Path]
    hashes: Sequence[str]
    metrics: Sequence[str]
    folder: Path
    device: str
    base: Mapping[str, Any] | None = None
    """For heads on frozen features: what computes the test half's features."""
    units: str = "metric"
    """What intervals leave out, as `evaluate` has it."""

    def run(self, half: Half) -> dict[str, Any]:
        """Values by fold or "concat" and metric, and the seconds that it took."""
        from truerank.training.devices import resolve
        from truerank.training.embedding import load_embedder

        started = time.monotonic()
        device = resolve(self.device)
        data = half.data if self.base is None else _on_features(half, self.base, device)
        rows, scores = [], {}
        for fold, (path, wanted) in enumerate(zip(self.checkpoints, self.hashes, strict=True)):
            model, config = load_embedder(path)
            if checkpoint_hash(model.state_dict()) != wanted:
                raise InputError(f"{path} is not the model whose test evaluation was announced.")
            rows.append(_embed(model.to(device), data, config, device))
            scores[str(fold)] = score(
                rows[-1], data, self.metrics, self.folder, str(fold), self.units
            )
        together = np.hstack(rows)
        scores[CONCAT] = score(together, data, self.metrics, self.folder, CONCAT, self.units)
        return {"scores": scores, "seconds": round(time.monotonic() - started, 3)}


@dataclass(frozen=True)
class ScoreBaselines:
    """Score the untrained trunks' features, as they are or through the PCAs of the search half."""

    configs: Sequence[Mapping[str, Any]]
    projections: Path | None
    metrics: Sequence[str]
    folder: Path
    base: Mapping[str, Any] | None = None
    units: str = "metric"

    def run(self, half: Half) -> dict[str, Any]:
        """See ScoreModels."""
        from truerank.training.devices import resolve

        started = time.monotonic()
        data = half.data
        if self.base is not None:
            device = resolve(self.configs[0]["training"]["device"])
            data = _on_features(half, self.base, device)
        rows: list[Array] = [trunk_features(config, data)[0] for config in self.configs]
        together: Array = np.hstack([_unit(one) for one in rows])
        if self.projections is not None:
            fitted, _ = read_projections(self.projections)
            together = project(fitted[-1], np.hstack(rows))
            rows = [project(fitted[fold], one) for fold, one in enumerate(rows)]
        scores = {
            str(fold): score(one, data, self.metrics, self.folder, str(fold), self.units)
            for fold, one in enumerate(rows)
        }
        scores[CONCAT] = score(together, data, self.metrics, self.folder, CONCAT, self.units)
        return {"scores": scores, "seconds": round(time.monotonic() - started, 3)}


@dataclass(frozen=True)
class ScoreFinished:
    """Score embeddings of the test half that somebody brought along."""

    path: str
    metrics: Sequence[str]
    folder: Path
    units: str = "metric"

    def run(self, half: Half) -> dict[str, Any]:
        """See ScoreModels."""
        started = time.monotonic()
        embeddings = read_finished(self.path, len(half.data))
        found = score(embeddings, half.data, self.metrics, self.folder, CONCAT, self.units)
        scores = {CONCAT: found}
        return {"scores": scores, "seconds": round(time.monotonic() - started, 3)}


def read_finished(path: str, rows: int) -> Array:
    """Embeddings that somebody brought along: a row for each image of the test half."""
    embeddings = np.asarray(read_embeddings(path))
    if embeddings.ndim != 2 or len(embeddings) != rows:
        raise InputError(
            f"{path} must have a row for each of the {rows} images of the test split, in the order "
            f"of splits.json. Got shape {embeddings.shape} instead."
        )
    return embeddings


def result_path(folder: Path, part: str) -> Path:
    """Where the result of a fold's model, or of all together, is kept."""
    return folder / f"{CONCAT}.json" if part == CONCAT else folder / f"fold-{part}" / "result.json"


def score(
    embeddings: Array,
    data: Dataset,
    metrics: Sequence[str],
    folder: Path,
    part: str,
    units: str = "metric",
) -> dict[str, float]:
    """The values of the metrics; the whole result is kept in the folder."""
    result = _evaluate(embeddings, data, metrics, units=units)
    path = result_path(folder, part)
    path.parent.mkdir(parents=True, exist_ok=True)
    result.to_json(path, per_query=False)
    return {metric: float(result[metric].value) for metric in metrics}


def check_metrics(data: Dataset, metrics: Sequence[str]) -> None:
    """Refuse metrics that are undefined on the test half; its labels tell, whatever the model."""
    noise = np.random.default_rng(0).standard_normal((len(data), NOISE_DIMENSIONS))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruerankWarning)  # noise is what it would warn of
        _evaluate(noise, data, metrics, device="cpu", confidence=None)


def _evaluate(embeddings: Array, data: Dataset, metrics: Sequence[str], **options: Any) -> Result:
    if data.tests:
        result = _evaluate_by_level(embeddings, data, metrics, options)
    else:
        result = _evaluate_test(embeddings, data, None, metrics, options)
    for metric in metrics:
        if result[metric].reason is not None:
            raise InputError(f"{metric} is undefined on the test split: {result[metric].reason}.")
    return result


def _evaluate_test(
    embeddings: Array,
    data: Dataset,
    level: str | None,
    metrics: Sequence[str],
    options: Mapping[str, Any],
) -> Result:
    """Score on the only test, or on the separate one of a level."""
    arguments: dict[str, Any] = data.task_arguments(level)
    if "gallery_labels" in arguments:
        end = "" if level is None else f"-{level}"
        arguments["gallery"] = embeddings[data.splits[f"gallery{end}"]]
        embeddings = embeddings[data.splits[f"query{end}"]]
    return evaluate(embeddings, **arguments, metrics=list(metrics), **options)


def _evaluate_by_level(
    embeddings: Array, data: Dataset, metrics: Sequence[str], options: Mapping[str, Any]
) -> Result:
    """Score on separate tests, each metric on that of its level, or by the mean over all."""
    wanted: dict[str, list[str]] = {level: [] for level in data.tests}
    parts: dict[str, list[tuple[str, str]]] = {}
    for text in metrics:
        metric = registry.parse(text)
        # the labels of a test are one level, which is number 1 there
        there = str(metric if metric.get("level") is None else metric.at_level(1))
        parts[text] = [(level, there) for level in _tests_of(metric, data)]
        for level, _ in parts[text]:
            wanted[level].append(there)
    results = {
        level: _evaluate_test(embeddings, data, level, list(dict.fromkeys(some)), options)
        for level, some in wanted.items()
        if some
    }
    scores = {
        text: _mean_score(text, [results[level][there] for level, there in some])
        for text, some in parts.items()
    }
    facts = list(results.values())[-1].provenance
    return Result(scores, provenance={**facts, "tests": list(results)})


def _tests_of(metric: Metric, data: Dataset) -> tuple[str, ...]:
    """The levels on whose tests a metric is computed; the finest level's where it names none."""
    level = metric.get("level")
    if level == "mean":
        return data.tests
    if level is None and registry.definition(metric).graded:
        raise InputError(
            f"{metric} needs a tree of labels, and each test of {data.name} has the labels of one "
            "level alone; pass a metric of a level, such as map@level=mean."
        )
    names = dict(enumerate(data.level_names, 1))
    name = data.level_names[-1] if level is None else names.get(_number(level), level)
    if name not in data.tests:
        raise InputError(
            f"{metric} needs the test of a level of {data.name}; those with one are "
            f"{', '.join(data.tests)}."
        )
    return (name,)


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 10 else 0


def _mean_score(metric: str, parts: Sequence[Score]) -> Score:
    """A score of one test, or the plain mean of those of several."""
    if len(parts) == 1:
        return replace(parts[0], metric=metric)

    def averaged(field: str) -> Any:
        values = [getattr(part, field) for part in parts]
        return None if None in values else plain_mean(values)

    fields = ("value", "lower", "expected", "upper", "chance", "attainable")
    return Score(
        metric,
        **{field: averaged(field) for field in fields},
        interval_reason="it is a mean over separate tests",
        n=sum(part.n for part in parts),
        reason=next((part.reason for part in parts if part.reason is not None), None),
    )


def _embed(model: Any, data: Dataset, config: Any, device: Any) -> Array:
    from truerank.training.embedding import FeaturePipeline, embed_rows
    from truerank.training.pipeline import Pipeline, open_pipeline

    pipeline: Pipeline
    if config.model.trunk == "frozen":
        pipeline = FeaturePipeline(data.images, device)
    else:
        pipeline = open_pipeline(data.images, config.augmentation.build(), device)
    return embed_rows(model, pipeline, np.arange(len(data)))


def _on_features(half: Half, base: Mapping[str, Any], device: Any) -> Dataset:
    """The test half with features in place of images, computed once in a worker."""

    if "features" not in half.cache:
        half.cache["features"] = features_in_memory(half.data, base, device)
    found: Dataset = half.cache["features"]
    return found


def _unit(rows: Array) -> Array:
    wide = rows.astype(np.float64)
    length = np.sqrt((wide**2).sum(axis=1, keepdims=True))
    unit: Array = wide / np.where(length > 0, length, 1.0)
    return unit
