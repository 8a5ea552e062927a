"""What is known of each query besides its scores (id, label, group), by which a result is split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.errors import InputError, shortened
from truerank.files.tables import NAMES

__all__ = ["Attribute", "as_choice", "named", "plain_attributes", "read_attributes"]


@dataclass(frozen=True)
class Attribute:
    """A property of the queries: the place of each query's value among the values."""

    codes: npt.NDArray[np.int64]
    values: list[Any]


def named(attributes: Mapping[str, Attribute], name: str) -> Attribute | None:
    """Find an attribute by its name, or by what a file may call it, as a camera is a group."""
    if name in attributes:
        return attributes[name]
    known = (field.removesuffix("s") for field, names in NAMES.items() if name.lower() in names)
    return next((attributes[field] for field in known if field in attributes), None)


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


def as_choice(values: Any) -> set[Any] | None:
    """The values to which a user limits an attribute; None for all."""
    try:
        return None if values is None else set(values)
    except TypeError:
        message = f"values must be a list or a set of values. Got {shortened(values)}."
        raise InputError(message) from None
