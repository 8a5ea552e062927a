"""Parameters of what is added to a loss, by name: `tcm.positive_margin`, `tcm.weight`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from truerank import losses
from truerank.training.config import PartConfig

__all__ = ["defaults_of", "divided", "filled"]

Values = dict[str, Any]


def defaults_of(plus: Sequence[PartConfig]) -> Values:
    """What can be searched of the parts of a loss, and its value where nothing is said."""
    found: Values = {}
    for part in plus:
        known = {**losses.entry(part.name).defaults, **part.parameters, "weight": part.weight}
        found |= {f"{part.name}.{name}": value for name, value in known.items()}
    return found


def divided(parameters: Mapping[str, Any]) -> tuple[Values, dict[str, Values]]:
    """Parameters of the loss itself, and those of its parts by their names."""
    own: Values = {}
    of_parts: dict[str, Values] = {}
    for name, value in parameters.items():
        part, dot, parameter = name.partition(".")
        if dot:
            of_parts.setdefault(part, {})[parameter] = value
        else:
            own[name] = value
    return own, of_parts


def filled(plus: Sequence[Mapping[str, Any]], searched: Mapping[str, Values]) -> list[Values]:
    """The parts as a training's configuration has them, with searched values put in."""
    found = []
    for part in plus:
        values = dict(searched.get(part["name"], {}))
        weight = values.pop("weight", part["weight"])
        found.append({**part, "weight": weight, "parameters": {**part["parameters"], **values}})
    return found
