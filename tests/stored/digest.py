"""One digest of whatever an evaluation gave: equal exactly when all bits are; every NaN is one."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from typing import Any

import numpy as np


def digest(value: Any) -> str:
    total = blake2b(digest_size=16)
    for part in parts(value):
        total.update(part)
    return total.hexdigest()


def parts(value: Any) -> Iterator[bytes]:
    """Every value with its kind and length before it, so that no two spell the same bytes."""
    if is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, np.ndarray):
        yield f"array {value.shape}".encode()
        if value.dtype.kind == "f":
            plain = value.astype("<f8")
            plain[np.isnan(plain)] = np.nan
            yield plain.tobytes()
        else:
            yield value.astype("<i8").tobytes()
    elif isinstance(value, Mapping):
        yield f"mapping {len(value)}".encode()
        for key in sorted(value):
            yield from parts(key)
            yield from parts(value[key])
    elif isinstance(value, (list, tuple)):
        yield f"sequence {len(value)}".encode()
        for part in value:
            yield from parts(part)
    elif isinstance(value, (float, np.floating)):
        number = float(value)
        yield b"float" + (b"nan" if number != number else struct.pack("<d", number))
    elif value is None or isinstance(value, (bool, int, np.integer, str)):
        plain = value.item() if isinstance(value, np.integer) else value
        text = str(plain).encode()
        yield f"{type(plain).__name__} {len(text)} ".encode() + text
    else:
        raise TypeError(f"no digest of {type(value).__name__}")
