"""Checks of results that are read from files: types by the schema, ranges by the metrics."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any

from truerank._util.errors import InputError, shortened
from truerank.core import registry

KINDS: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list, tuple),
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
    "integer": (int,),
    "number": (int, float),
}
BOUNDED = ("value", "lower", "expected", "upper")
SLACK = 1e-9
"""A mean of doubles may leave its range by their rounding."""


def check_result(data: Mapping[str, Any]) -> None:
    """Refuse a result in which a value is of another type, or a score beyond its metric's range."""
    _check(data, _schema(), "")
    scores = [("scores", data.get("scores", {}))]
    for number, size in enumerate(data.get("gallery_sizes", ())):
        scores.append((f"gallery_sizes.{number}.scores", size.get("scores", {})))
    for where, found in scores:
        for name, score in found.items():
            _check_range(name, score, f"{where}.{name}")


@lru_cache(maxsize=1)
def _schema() -> dict[str, Any]:
    text = files("truerank.result").joinpath("result.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def _check(value: Any, schema: dict[str, Any], where: str) -> None:
    """Compare a value with what the schema says of types, ranges and lengths.

    What earlier versions left out is no error here; they left out nothing within a fact of the
    provenance.
    """
    if "$ref" in schema:
        for part in schema["$ref"].split("/"):
            schema = _schema() if part == "#" else schema[part]
    if "anyOf" in schema:
        fitting = [one for one in schema["anyOf"] if _fits(value, one)]
        if not fitting:
            raise _damaged(where, "an array of numbers or of text", value)
        return
    kinds = schema.get("type", ())
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_is(value, kind) for kind in kinds):
        raise _damaged(where, " or ".join(kinds), value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if "minimum" in schema and value < schema["minimum"]:
            raise _damaged(where, f"a number >= {schema['minimum']}", value)
        low, high = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
        if low is not None and high is not None and not low < value < high:
            raise _damaged(where, f"a number between {low} and {high}", value)
    elif isinstance(value, (list, tuple)):
        _check_items(value, schema, where)
    elif isinstance(value, Mapping):
        lacking = [name for name in schema.get("required", ()) if name not in value]
        if lacking and where.startswith("provenance."):
            raise _damaged(where, f"an object with {lacking[0]!r}", value)
        known, others = schema.get("properties", {}), schema.get("additionalProperties")
        for name, inner in value.items():
            if name in known:
                _check(inner, known[name], f"{where}.{name}" if where else name)
            elif isinstance(others, dict):
                _check(inner, others, f"{where}.{name}" if where else name)


def _check_items(values: Sequence[Any], schema: dict[str, Any], where: str) -> None:
    fewest, most = schema.get("minItems", 0), schema.get("maxItems", len(values))
    if not fewest <= len(values) <= most:
        raise _damaged(where, f"{fewest} items", values)
    items = schema.get("items")
    if items is None:
        return
    if set(map(type, values)) <= {float} and all(map(math.isfinite, values)):
        values = values[:1]  # millions of numbers: all are what one is
    for place, inner in enumerate(values):
        _check(inner, items, f"{where}.{place}")


def _fits(value: Any, schema: dict[str, Any]) -> bool:
    try:
        _check(value, schema, "")
    except InputError:
        return False
    return True


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if isinstance(value, float) and not math.isfinite(value):
        return False
    if kind == "object":
        return isinstance(value, Mapping)
    return isinstance(value, KINDS[kind])


def _check_range(name: str, score: Mapping[str, Any], where: str) -> None:
    try:
        low, high = registry.find(name).range
    except InputError:  # a metric of somebody else, or of another version
        return
    bounds = [(field, score.get(field)) for field in BOUNDED]
    bounds += [("interval", end) for end in score.get("interval") or ()]
    for field, value in bounds:
        if value is not None and not low - SLACK <= value <= high + SLACK:
            raise _damaged(f"{where}.{field}", f"a number from {low:g} to {high:g}", value)


def _damaged(where: str, expected: str, value: Any) -> InputError:
    place = where if len(where) <= 80 else f"{where[:77]}..."
    return InputError(
        f"this truerank result is damaged at {place}: expected {expected}. Got {shortened(value)}."
    )
