"""The test half's scores, in workers that hold the test half: of each fold's model and of all.

`separated` scores are those of the folds' models, one by one; `concat` is of the four embeddings of
each image, each of length 1, side by side. Results are kept with their jackknife replicates over
the test classes, so that a comparison can weigh runs and classes without the embeddings.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.benchmark.baselines import project, read_projections, trunk_features
from truerank.benchmark.fold import checkpoint_hash
from truerank.benchmark.worker import Half
from truerank.datasets.base import Dataset
from truerank.errors import InputError, TruerankWarning
from truerank.evaluation import evaluate
from truerank.files import read_embeddings
from truerank.result import Result

__all__ = [
    "CONCAT",
    "ScoreBaselines",
    "ScoreFinished",
    "ScoreModels",
    "check_metrics",
    "read_finished",
    "result_path",
    "score",
]

CONCAT = "concat"
NOISE_DIMENSIONS = 4
Array = npt.NDArray[Any]
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
        from truerank.training.checkpoint import load_embedder
        from truerank.training.devices import resolve

        started = time.monotonic()
        device = resolve(self.device)
        data = half.data if self.base is None else _on_features(half, self.base, device)
        rows, scores = [], {}
        for fold, (path, wanted) in enumerate(zip(self.checkpoints, self.hashes, strict=True)):
            model, config = load_embedder(path)
            if checkpoint_hash(model.state_dict()) != wanted:
                raise InputError(f"{path} is not the model that was opened the test half for.")
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
            f"{path} must have a row for each of the {rows} images of the test half, in the order "
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
    arguments: dict[str, Any] = data.task_arguments()
    if "gallery_labels" in arguments:
        arguments["gallery"] = embeddings[data.splits["gallery"]]
        embeddings = embeddings[data.splits["query"]]
    result = evaluate(embeddings, **arguments, metrics=list(metrics), **options)
    for metric in metrics:
        if result[metric].reason is not None:
            raise InputError(f"{metric} is undefined on the test half: {result[metric].reason}.")
    return result


def _embed(model: Any, data: Dataset, config: Any, device: Any) -> Array:
    from truerank.training.embedding import embed_rows
    from truerank.training.features import FeaturePipeline
    from truerank.training.pipeline import Pipeline, open_pipeline

    pipeline: Pipeline
    if config.model.trunk == "frozen":
        pipeline = FeaturePipeline(data.images, device)
    else:
        pipeline = open_pipeline(data.images, config.augmentation.build(), device)
    return embed_rows(model, pipeline, np.arange(len(data)))


def _on_features(half: Half, base: Mapping[str, Any], device: Any) -> Dataset:
    """The test half with features in place of images, computed once in a worker."""
    from truerank.benchmark.linear import features_in_memory

    if "features" not in half.cache:
        half.cache["features"] = features_in_memory(half.data, base, device)
    found: Dataset = half.cache["features"]
    return found


def _unit(rows: Array) -> Array:
    wide = rows.astype(np.float64)
    length = np.sqrt((wide**2).sum(axis=1, keepdims=True))
    unit: Array = wide / np.where(length > 0, length, 1.0)
    return unit
