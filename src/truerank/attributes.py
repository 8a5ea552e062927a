"""What is known of each query besides its scores (id, label, group), by which a result is split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.core import registry

__all__ = ["Attribute", "nobody_counts", "plain_attributes", "read_attributes"]


@dataclass(frozen=True)
class Attribute:
    """A property of the queries: the place of each query's value among the values."""

    codes: npt.NDArray[np.int64]
    values: list[Any]


def plain_attributes(attributes: Mapping[str, Attribute]) -> dict[str, Any]:
    """The attributes whose values JSON has, as plain values."""
    return {
        name: {"codes": attribute.codes.tolist(), "values": attribute.values}
        for name, attribute in attributes.items()
        if all(type(value) in (str, int, float, bool) for value in attribute.values)
    }


def read_attributes(data: Mapping[str, Any]) -> dict[str, Attribute]:
    """The inverse of plain_attributes."""
    return {
        name: Attribute(np.array(one["codes"], np.int64), list(one["values"]))
        for name, one in data.items()
    }


def nobody_counts(metric: str, levels: int = 1) -> str:
    """Why no query of a part counts."""
    if levels > 1:
        return "there is a level at which no query of this part has a mate"
    if registry.find(metric).with_mate:
        return "no query of this part has a mate"
    return "every query of this part has a mate"
