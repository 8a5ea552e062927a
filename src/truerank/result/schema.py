"""Checks of results that are read from files: types by the schema, ranges by the metrics, and
lengths that agree."""

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
ENDS = ("value", "lower", "expected", "upper")
SLACK = 1e-9
"""A mean of doubles may leave its range by their rounding."""
LARGEST = 2.0**1000
"""Of a score without a range: differences of two stay finite."""
MOST_BITS = 64
WIDTHS = 100
"""How far replicates, which are estimates, may leave the range of their metric: in its widths."""
PRINTED = (
    *("gallery", "leave_one_out", "distance", "average", "excluded", "no_mate_option", "no_mate"),
)
"""What the sentences below a table name of every result with queries."""


def check_result(data: Mapping[str, Any]) -> None:
    """Refuse a result in which a value is of another type, or a score beyond its metric's range.

    What is known of each query has one length, and the provenance has what tables print of it.
    """
    _check(data, _schema(), "")
    facts = data.get("provenance", {})
    needed = ("distance", "folds") if "trials" in facts else PRINTED if "queries" in facts else ()
    lacking = [] if facts.get("part") else [name for name in needed if name not in facts]
    if lacking:
        raise _damaged("provenance", f"an object with {lacking[0]!r}", dict(facts))
    _check_lengths(data)
    scores = [("scores", data.get("scores", {}))]
    for number, size in enumerate(data.get("gallery_sizes", ())):
        scores.append((f"gallery_sizes.{number}.scores", size.get("scores", {})))
    for where, found in scores:
        for name, score in found.items():
            _check_score(name, score, f"{where}.{name}")


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
    if "enum" in schema and value not in schema["enum"]:
        raise _damaged(where, " or ".join(schema["enum"]), value)
    kinds = schema.get("type", ())
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_is(value, kind) for kind in kinds):
        raise _damaged(where, " or ".join(kinds), value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if "minimum" in schema and value < schema["minimum"]:
            raise _damaged(where, f"a number >= {schema['minimum']}", value)
        if "maximum" in schema and value > schema["maximum"]:
            raise _damaged(where, f"a number <= {schema['maximum']}", value)
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
    free = not {"minimum", "maximum"} & items.keys()
    if free and set(map(type, values)) <= {float} and all(map(math.isfinite, values)):
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
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        return False
    if kind == "object":
        return isinstance(value, Mapping)
    return isinstance(value, KINDS[kind])


def _check_lengths(data: Mapping[str, Any]) -> None:
    """Refuse values of single queries that are more or fewer than others, or than the queries."""
    columns = [("units", data["units"])] if data.get("units") is not None else []
    columns += [(f"level_units.{name}", one) for name, one in data.get("level_units", {}).items()]
    for name, one in data.get("attributes", {}).items():
        codes, known = one.get("codes", ()), len(one.get("values", ()))
        columns.append((f"attributes.{name}.codes", codes))
        for code in (min(codes, default=-1), max(codes, default=-1)):
            if not -1 <= code < known:
                expected = f"numbers below {known}, the number of its values"
                raise _damaged(f"attributes.{name}.codes", expected, code)
    for name, score in data.get("scores", {}).items():
        rows = score.get("per_query", {})
        for place, one in enumerate([rows, *rows.get("levels", ())]):
            where = f"scores.{name}.per_query" + (f".levels.{place - 1}" if place else "")
            columns += [(f"{where}.{end}", one[end]) for end in ENDS if end in one]
    count = data.get("provenance", {}).get("queries")
    for where, values in columns:
        count = len(values) if count is None else count
        if len(values) != count:
            raise _damaged(where, f"{count} values, one for each query", values)


def _check_score(name: str, score: Mapping[str, Any], where: str) -> None:
    """Refuse numbers beyond the metric's range, and what is missing where others need it."""
    if score.get("value") is None and score.get("reason") is None:
        raise _damaged(f"{where}.value", "a number, or a reason why there is none", None)
    try:
        low, high = registry.find(name).range
    except InputError:  # a metric of somebody else, or of another version
        low, high = -math.inf, math.inf
    low, high = max(low, -LARGEST), min(high, LARGEST)
    bounds = [(field, score.get(field)) for field in ENDS]
    bounds += [("interval", end) for end in score.get("interval") or ()]
    for field, value in bounds:
        if value is not None and not low - SLACK <= value <= high + SLACK:
            raise _damaged(f"{where}.{field}", f"a number from {low:g} to {high:g}", value)
    replicates = score.get("replicates")
    if replicates is None:
        return
    beyond = WIDTHS * (high - low) if high < LARGEST else 0.0
    values, shares = replicates.get("values", ()), replicates.get("shares")
    if len(values) < 2:
        raise _damaged(f"{where}.replicates.values", "at least 2 numbers", values)
    if shares is not None and len(shares) != len(values):
        expected = f"{len(values)} numbers, as there are values"
        raise _damaged(f"{where}.replicates.shares", expected, shares)
    for field, numbers in (("values", values), ("shares", shares or ())):
        for value in numbers:
            if not low - beyond <= value <= high + beyond:
                expected = f"numbers near the metric's range, {low:g} to {high:g}"
                raise _damaged(f"{where}.replicates.{field}", expected, value)


def _damaged(where: str, expected: str, value: Any) -> InputError:
    place = where if len(where) <= 80 else f"{where[:77]}..."
    return InputError(
        f"this truerank result is damaged at {place}: expected {expected}. Got {shortened(value)}."
    )
