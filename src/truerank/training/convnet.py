"""A small convolutional network for small images: four blocks, 0.4 million weights.

Batches of images (B, 3, S, S) come in, S at least 16; features (B, 256) go out.
"""

from __future__ import annotations

from torch import nn

__all__ = ["ConvNet"]


class ConvNet(nn.Sequential):
    """Convolution, batch normalisation, ReLU, four times; pooled by 2 between, by the mean last.

    Examples
    --------
    >>> import torch
    >>> from truerank.training.convnet import ConvNet
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
