"""Trunks by name: networks that turn images into features, before the linear embedder.

`get("convnet")`, `get("efficientnet_lite0")`, `get("timm:resnet50")`, `get("torchvision:resnet50")`
or `get(callable)` give a Trunk: the network, its number of features, and the colours it expects.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from truerank.errors import InputError
from truerank.training.convnet import ConvNet
from truerank.training.efficientnet import EfficientNetLite0, load_imagenet_weights

__all__ = ["Trunk", "check", "get", "names", "of_features"]

Colour = tuple[float, float, float]
IMAGENET_MEAN: Colour = (0.485, 0.456, 0.406)
IMAGENET_STD: Colour = (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Trunk:
    """A network (B, 3, S, S) to (B, features), and the mean and std of its input, white = 1.

    A trunk of features that are computed already has neither mean nor std.
    """

    network: nn.Module
    features: int
    mean: Colour | tuple[()]
    std: Colour | tuple[()]
    pretrained: bool


def of_features(features: int) -> Trunk:
    """In place of a trunk, for features that are computed already."""
    return Trunk(nn.Identity(), features, (), (), False)


def names() -> list[str]:
    """The trunks that need no further package, and the forms of those that do."""
    return [*_OWN, "timm:NAME", "torchvision:NAME"]


def get(name: str | Callable[[], nn.Module], *, pretrained: bool = True, size: int = 64) -> Trunk:
    """Build a trunk.

    Parameters
    ----------
    name : str or callable
        "convnet", "efficientnet_lite0", "timm:NAME", "torchvision:NAME", or any callable (a class,
        a function) that returns a network from images (B, 3, S, S) to features (B, F).
        A network may say which colours it expects by attributes `mean` and `std`.
    pretrained : bool
        Start from ImageNet weights, where the trunk has any; a callable does as it likes.
    size : int
        The side of the images that it will see. A blank one is tried where a network does not say
        how many features it has.

    Returns
    -------
    Trunk

    Examples
    --------
    >>> from truerank.training import trunks
    >>> trunks.get("convnet").features
    256
    """
    if callable(name):
        return _from_callable(name, size)
    if not isinstance(name, str):
        raise InputError(f"a trunk is a name or a callable. Got {type(name).__name__} instead.")
    if name in _OWN:
        return _OWN[name](pretrained)
    check(name)
    package, _, model = name.partition(":")
    return _BORROWED[package](model, pretrained, size)


def check(name: str) -> None:
    """Refuse a name that no trunk has, without building any."""
    package, _, model = name.partition(":")
    if model and package in _MODELS:
        _MODELS[package](model)
    elif name not in _OWN:
        close = difflib.get_close_matches(name, [*_OWN], n=1)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise InputError(f"unknown trunk {name!r}; there are {', '.join(names())}.{hint}")


def _convnet(pretrained: bool) -> Trunk:
    return Trunk(ConvNet(), ConvNet.features, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5), False)


def _efficientnet_lite0(pretrained: bool) -> Trunk:
    network = EfficientNetLite0()
    if pretrained:
        load_imagenet_weights(network)
    # Its weights were trained on (level - 127) / 128, levels from 0 to 255.
    mean, std = 127 / 255, 128 / 255
    return Trunk(
        network, EfficientNetLite0.features, (mean, mean, mean), (std, std, std), pretrained
    )


def _timm_with(model: str) -> Any:
    timm = _import("timm")
    if not timm.is_model(model):
        raise InputError(f"timm {timm.__version__} has no model {model!r}; see timm.list_models().")
    return timm


def _from_timm(model: str, pretrained: bool, size: int) -> Trunk:
    timm = _timm_with(model)
    network = _build(
        f"timm:{model}", lambda: timm.create_model(model, pretrained=pretrained, num_classes=0)
    )
    colours = timm.data.resolve_model_data_config(network)
    return Trunk(
        network, network.num_features, tuple(colours["mean"]), tuple(colours["std"]), pretrained
    )


def _torchvision_with(model: str) -> Any:
    models = _import("torchvision.models")
    if model not in models.list_models():
        raise InputError(
            f"torchvision has no model {model!r}; see torchvision.models.list_models()."
        )
    return models


def _from_torchvision(model: str, pretrained: bool, size: int) -> Trunk:
    models = _torchvision_with(model)
    weights = "DEFAULT" if pretrained else None
    network = _build(f"torchvision:{model}", lambda: models.get_model(model, weights=weights))
    for head in ("fc", "classifier", "head", "heads"):
        if hasattr(network, head):
            setattr(network, head, nn.Identity())
            break
    else:
        raise InputError(f"torchvision:{model} is no classifier of images; choose another trunk.")
    return Trunk(network, _count_features(network, size), IMAGENET_MEAN, IMAGENET_STD, pretrained)


def _from_callable(make: Callable[[], nn.Module], size: int) -> Trunk:
    network = make()
    if not isinstance(network, nn.Module):
        raise InputError(
            f"a trunk's callable must return a torch nn.Module. Got {type(network).__name__}."
        )
    mean = getattr(network, "mean", IMAGENET_MEAN)
    std = getattr(network, "std", IMAGENET_STD)
    return Trunk(network, _count_features(network, size), tuple(mean), tuple(std), True)


def _count_features(network: nn.Module, size: int) -> int:
    """The number of features that come out for one blank image."""
    was_training = network.training
    network.eval()
    try:
        with torch.no_grad():
            out = network(torch.zeros(1, 3, size, size))
    except (RuntimeError, ValueError, TypeError) as error:
        reason = " ".join(str(error).split())[:200].rstrip(".")
        raise InputError(
            f"the trunk does not take images (B, 3, {size}, {size}): {reason}."
        ) from error
    network.train(was_training)
    if not isinstance(out, torch.Tensor) or out.ndim != 2 or len(out) != 1:
        shape = tuple(out.shape) if isinstance(out, torch.Tensor) else type(out).__name__
        raise InputError(
            "a trunk must turn images (B, 3, S, S) into features (B, F). "
            f"Got {shape} for one image."
        )
    return out.shape[1]


def _import(name: str) -> Any:
    from importlib import import_module

    package = name.partition(".")[0]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise InputError(f"{package} cannot be imported: {error}.") from error
        raise InputError(
            f"trunks named {package}:... need the package {package}: pip install {package}."
        ) from error
    except (ImportError, OSError, RuntimeError) as error:  # built for another torch
        reason = " ".join(str(error).split())[:200].rstrip(".")
        raise InputError(
            f"{package} is installed but does not import beside torch {torch.__version__}: "
            f"{reason}."
        ) from error


def _build(name: str, make: Callable[[], Any]) -> Any:
    """Make a network; whatever goes wrong while weights are fetched is said in one sentence."""
    try:
        return make()
    except MemoryError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
        raise InputError(
            f"cannot build the trunk {name}: {reason}; without a network, set pretrained to false."
        ) from error


_OWN: dict[str, Callable[[bool], Trunk]] = {
    "convnet": _convnet,
    "efficientnet_lite0": _efficientnet_lite0,
}
_BORROWED: dict[str, Callable[[str, bool, int], Trunk]] = {
    "timm": _from_timm,
    "torchvision": _from_torchvision,
}
_MODELS: dict[str, Callable[[str], Any]] = {"timm": _timm_with, "torchvision": _torchvision_with}
"""The package of each, if it has a model of that name."""
