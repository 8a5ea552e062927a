"""Checkpoints: written in one step, read without running any code that they might contain.

`last.pt` of a run holds all that it takes to go on as if nothing had happened, also if `best.pt`,
the model of the best epoch, is lost. Both name their trunk: `load_embedder` needs nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from truerank.errors import InputError
from truerank.files import atomic_path
from truerank.training import trunks
from truerank.training.config import Config
from truerank.training.embedder import Embedder

__all__ = ["copy_weights", "load", "load_embedder", "save"]

FORMAT = 1


def copy_weights(model: nn.Module) -> dict[str, Any]:
    """A model's weights as they are now, on the CPU."""
    return {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}


def save(path: str | os.PathLike[str], state: Mapping[str, Any]) -> None:
    """Write a state of tensors and plain values; the file is the old or the new one, never half."""
    with atomic_path(path) as partial, partial.open("wb") as file:
        try:
            torch.save({"format": FORMAT, **state}, file)
        except RuntimeError as error:
            if isinstance(error.__context__, OSError):  # a full disk, in torch's words
                raise error.__context__ from None
            raise
        file.flush()
        os.fsync(file.fileno())


def load(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a checkpoint onto the CPU; anything else ends in a sentence."""
    try:
        with open(path, "rb") as file:
            state = torch.load(file, map_location="cpu", weights_only=True)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}.") from error
    except MemoryError:
        raise
    except Exception as error:  # torch has many ways to say that a file is not its own
        raise InputError(f"{path} is no checkpoint of truerank, or it is damaged.") from error
    if not isinstance(state, dict) or not {"format", "config", "model"} <= set(state):
        raise InputError(f"{path} is no checkpoint of truerank.")
    if state["format"] != FORMAT:
        raise InputError(
            f"{path} was written by another version of truerank (format {state['format']}, "
            f"this version reads {FORMAT})."
        )
    return state


def load_embedder(
    path: str | os.PathLike[str], *, trunk: Callable[[], nn.Module] | None = None
) -> tuple[Embedder, Config]:
    """The trained model, ready for evaluation, and the configuration that it was trained with.

    Parameters
    ----------
    path : path
        `best.pt` or `last.pt` of a run.
    trunk : callable, optional
        What made the trunk, if it was no trunk with a name.
    """
    state = load(path)
    config = Config.of(state["config"], f"the configuration in {os.fspath(path)}")
    if trunk is None and state["custom_trunk"]:
        raise InputError(f"{path} was trained with a trunk of your own; pass trunk= to load it.")
    if config.model.trunk == "frozen":
        built = trunks.of_features(state["model"]["linear.weight"].shape[1])
    else:
        built = trunks.get(
            config.model.trunk if trunk is None else trunk,
            pretrained=False,
            size=config.augmentation.crop,
        )
    model = Embedder(built, config.model.dimensions, head=config.model.head)
    try:
        model.load_state_dict(state["model"])
    except RuntimeError as error:
        raise InputError(f"the weights in {path} do not fit the trunk that was given.") from error
    return model.eval(), config
