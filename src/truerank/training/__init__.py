"""Training: from images with labels to an embedding, by a protocol that can be repeated.

`train` takes a configuration and gives a Run; `embed` takes a checkpoint and images and gives
the embeddings. The parts (trunks, samplers, augmentation, the loop) can be used separately.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from truerank._util.errors import InputError
from truerank._util.installed import install

if TYPE_CHECKING:
    from truerank.training import trunks
    from truerank.training.config import Config, read_config
    from truerank.training.embedding import (
        check_target,
        embed,
        list_images,
        load_embedder,
        write_embeddings,
    )
    from truerank.training.logs import CsvLog, JsonLinesLog, Log, ProgressLine, TensorBoardLog
    from truerank.training.loop import DivergedError, Trainer
    from truerank.training.run import Run, train
    from truerank.training.sampler import ClassSampler, HierarchicalSampler, class_folds
    from truerank.training.trunks import Embedder

__all__ = [
    "ClassSampler",
    "Config",
    "CsvLog",
    "DivergedError",
    "Embedder",
    "HierarchicalSampler",
    "JsonLinesLog",
    "Log",
    "ProgressLine",
    "Run",
    "TensorBoardLog",
    "Trainer",
    "check_target",
    "class_folds",
    "embed",
    "list_images",
    "load_embedder",
    "read_config",
    "train",
    "trunks",
    "write_embeddings",
]

_HOME = {
    "ClassSampler": "sampler",
    "Config": "config",
    "CsvLog": "logs",
    "DivergedError": "loop",
    "Embedder": "trunks",
    "HierarchicalSampler": "sampler",
    "JsonLinesLog": "logs",
    "Log": "logs",
    "ProgressLine": "logs",
    "Run": "run",
    "TensorBoardLog": "logs",
    "Trainer": "loop",
    "check_target": "embedding",
    "class_folds": "sampler",
    "embed": "embedding",
    "list_images": "embedding",
    "load_embedder": "embedding",
    "read_config": "config",
    "train": "run",
    "write_embeddings": "embedding",
}
_EXTRA = {
    "PIL": "Pillow",
    "pydantic": "pydantic",
    "pytorch_metric_learning": "pytorch-metric-learning",
    "torch": "torch",
    "yaml": "PyYAML",
}


def __getattr__(name: str) -> Any:
    """Load on demand: only training itself needs torch and its companions."""
    if name not in __all__:
        raise AttributeError(f"module 'truerank.training' has no attribute {name!r}")
    try:
        module = import_module(f"truerank.training.{_HOME.get(name, name)}")
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _EXTRA:
            raise
        raise InputError(f"training needs {_EXTRA[missing]}: {install('train')}.") from error
    return getattr(module, name) if name in _HOME else module


def __dir__() -> list[str]:
    return __all__
