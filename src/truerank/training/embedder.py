"""The model: a trunk, one linear layer (after a layer norm, if wanted), and a unit sphere.

Images (B, 3, S, S) with levels from 0 to 255 come in, L2-normalised embeddings go out; the trunk's
own mean and std are part of the model, so that a checkpoint needs nothing beside it.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from truerank.errors import InputError, check_choice
from truerank.training.trunks import Trunk

__all__ = ["Embedder"]


class Embedder(nn.Module):
    """A trunk and its linear embedder.

    Parameters
    ----------
    trunk : Trunk
        From `truerank.training.trunks.get`.
    dimensions : int
        Of the embedding.
    head : {"linear", "layernorm"}
        With "layernorm" the features are standardised, image by image, before the linear layer.
    freeze_batchnorm : bool, optional
        Keep the running statistics of the trunk's batch normalisation; its scale and shift still
        train. By default that is done for pretrained trunks, whose statistics mean something.

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
        freeze_batchnorm: bool | None = None,
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

    def rest_trunk(self, resting: bool) -> None:
        """Keep the trunk as it is, its statistics included, or let it train again."""
        if resting != self.resting:
            self.resting = resting
            self.trunk.requires_grad_(not resting)
            self.train(self.training)

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
            for module in self.trunk.modules():
                if isinstance(module, nn.modules.batchnorm._BatchNorm):
                    module.eval()
        return self


def _levels(colour: tuple[float, ...]) -> torch.Tensor:
    return 255 * torch.tensor(colour).reshape(3, 1, 1)
