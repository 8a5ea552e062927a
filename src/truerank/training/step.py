"""One step of a training: a batch and the share of the learning rates in, the batch's loss out.

The optimisers live here, and the decision how much of a step is recorded (`recorded.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from truerank.losses.trust import trusted_labels
from truerank.training.config import Config
from truerank.training.embedder import Embedder
from truerank.training.optimisers import load_optimiser, make_optimiser, model_optimiser
from truerank.training.recorded import Update, WholeStep, records_steps, training_pass

__all__ = ["Step"]


class Step:
    """Updates a model and the parameters of its loss.

    Parameters
    ----------
    model : Embedder
    loss : torch module
    config : Config
    precision : torch.dtype
        In which the layers compute.
    may_record : bool
        False for a trunk or a loss of the user's own: they are called as they are.
    """

    def __init__(
        self,
        model: Embedder,
        loss: nn.Module,
        config: Config,
        precision: torch.dtype,
        *,
        may_record: bool = True,
    ) -> None:
        self.model, self.loss, self.config = model, loss, config
        self._precision, self._device = precision, next(model.parameters()).device
        self._optimisers = [model_optimiser(model, config.optimiser)]
        own = list(loss.parameters())
        if own:
            self._optimisers.append(make_optimiser(own, config.loss_optimiser))
        self._rates = [group["lr"] for o in self._optimisers for group in o.param_groups]
        self._scaler = torch.amp.GradScaler(self._device.type, enabled=precision is torch.float16)
        self._may_record = may_record
        self._pass: Callable[[torch.Tensor], torch.Tensor] = model
        self._whole: Update | None = None

    @property
    def rate(self) -> float:
        """The learning rate of the model's first parameters, as it is now."""
        return float(self._optimisers[0].param_groups[0]["lr"])

    def __call__(self, crops: torch.Tensor, labels: torch.Tensor, share: float) -> torch.Tensor:
        """The loss of a batch as a tensor, so that the device is not waited for."""
        rates = iter(self._rates)
        for optimiser in self._optimisers:
            for group in optimiser.param_groups:
                group["lr"] = next(rates) * share
        if self._whole is None:
            self._whole = self._recorded(crops, labels) if self._may_record else self._update
        return self._whole(crops, labels).detach()

    def _recorded(self, crops: torch.Tensor, labels: torch.Tensor) -> Update:
        """What updates: recorded as a whole, in its passes, or not at all."""
        if records_steps(crops, self.loss, self.config, self._precision):
            with torch.no_grad():  # what it says of the labels, a recording cannot
                self.loss(crops.new_ones(len(crops), self.config.model.dimensions), labels)
            modules = (self.model, self.loss)
            with trusted_labels():
                return WholeStep(self._update, crops, labels, modules, self._optimisers)
        self._pass = training_pass(self.model, crops, self.config, self._precision)
        return self._update

    def _update(self, crops: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Forward pass, loss, backward pass, and a step of the optimisers."""
        for optimiser in self._optimisers:
            optimiser.zero_grad()
        mixed = self._precision is not torch.float32
        with torch.autocast(self._device.type, self._precision, enabled=mixed):
            embeddings = self._pass(crops)
        loss: torch.Tensor = self.loss(embeddings, labels)
        if not self._scaler.is_enabled():
            loss.backward()
            for optimiser in self._optimisers:
                optimiser.step()
            return loss
        self._scaler.scale(loss).backward()
        for optimiser in self._optimisers:
            self._scaler.step(optimiser)
        self._scaler.update()
        return loss

    def state(self) -> dict[str, Any]:
        """What optimisers and scaler remember, for a checkpoint."""
        optimisers = [optimiser.state_dict() for optimiser in self._optimisers]
        return {"optimisers": optimisers, "scaler": self._scaler.state_dict()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state`; a recording is made anew."""
        for optimiser, saved in zip(self._optimisers, state["optimisers"], strict=True):
            load_optimiser(optimiser, saved)
        self._scaler.load_state_dict(state["scaler"])
        self._whole, self._pass = None, self.model
