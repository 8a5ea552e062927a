"""YAML files of configurations: numbers as they look, settings on top, errors in one sentence."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from truerank.errors import InputError, shortened

__all__ = ["apply_settings", "describe_error", "read_yaml"]


MALFORMED = (AttributeError, LookupError, OverflowError, TypeError, ValueError)
"""What values that are not what their tag says make the parser raise."""


def read_yaml(path: str | os.PathLike[str]) -> Any:
    """What a YAML file holds; one that cannot be read ends in a sentence."""
    try:
        with open(path, encoding="utf-8") as file:
            return yaml.load(file, _Loader)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InputError(f"cannot read {path}: {reason}.") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or "it cannot be parsed"
        raise InputError(f"{path} is not valid YAML{where}: {problem[:200]}.") from error
    except RecursionError as error:
        raise InputError(f"{path} is not valid YAML: it nests too deeply.") from error
    except MALFORMED as error:  # such as a date of month 13
        reason = " ".join(str(error).split())[:200].rstrip(".")
        raise InputError(f"{path} is not valid YAML: {reason}.") from error


def apply_settings(given: Any, settings: Iterable[str]) -> Any:
    """Lay "section.field=value" over a mapping; the value is read as YAML reads it."""
    changed = _copy({} if given is None else given)
    if not isinstance(changed, dict):
        return given
    for setting in settings:
        name, equals, text = setting.partition("=")
        keys = name.strip().split(".")
        if not equals or not all(keys):
            raise InputError(f"a setting is section.field=value. Got {shortened(setting)} instead.")
        try:
            value = yaml.load(text, _Loader)
        except (yaml.YAMLError, RecursionError, *MALFORMED) as error:
            raise InputError(
                f"the value of the setting {shortened(setting)} is not valid YAML."
            ) from error
        place = changed
        for key in keys[:-1]:
            if not isinstance(place.setdefault(key, {}), dict):
                raise InputError(
                    f"the setting {shortened(setting)} goes below {shortened(key)}, which is a "
                    "value."
                )
            place = place[key]
        place[keys[-1]] = value
    return changed


def _copy(value: Any) -> Any:
    return {key: _copy(inner) for key, inner in value.items()} if isinstance(value, dict) else value


# YAML 1.1 takes 1e-6 for text, for want of a dot; here it is the number that it looks like.
_Loader: Any = type("_Loader", (yaml.SafeLoader,), {})
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+$"), list("-+0123456789")
)


LONGEST = 120
"""Letters of a field's name in a sentence."""
_KINDS = {
    "bool": "true or false",
    "dict": "a mapping",
    "float": "a number",
    "int": "an int",
    "list": "a list",
    "model": "a mapping",
    "string": "text",
    "tuple": "a list",
}


def describe_error(error: ValidationError, source: str, model: type[BaseModel]) -> str:
    """A sentence about the first thing that is wrong: the field's name and what came."""
    first = error.errors(include_url=False)[0]
    # A union reports each alternative that failed; the field is what comes before them.
    path = [str(part) for part in first["loc"] if not re.match(r"(list\[|str$)", str(part))]
    field, got = ".".join(path), shortened(first["input"])
    field = field if len(field) <= LONGEST else f"{field[:LONGEST]}..."
    if first["type"] == "missing":
        return f"{source} lacks the field '{field}'."
    if first["type"] == "extra_forbidden":
        known = _fields_at(model, path[:-1])
        close = difflib.get_close_matches(path[-1], known, n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"the fields there: {', '.join(known)}."
        hint = hint if known else "there are no fields there."
        return f"{source} has a field '{field}' that is not known; {hint}"
    if first["type"] == "value_error":
        reason = str(first["ctx"]["error"]).rstrip(".")
        end = "" if reason.endswith("?") else "."
        return f"{source}: {f'the section {field}: ' if field else ''}{reason}{end}"
    if first["type"] in ("too_long", "too_short"):
        wanted = first["ctx"].get("max_length", first["ctx"].get("min_length"))
        what = f"a list of {wanted}"
    elif first["type"].partition("_")[0] in _KINDS and first["type"] != "int_parsing_size":
        what = _KINDS[first["type"].partition("_")[0]]
    else:
        what = first["msg"].removeprefix("Input should be ")
    return f"{source}: the field '{field}' must be {what}. Got {got} instead."


def _fields_at(outermost: type[BaseModel], path: list[str]) -> list[str]:
    model: Any = outermost
    for name in path:
        if name in getattr(model, "model_fields", {}):
            model = model.model_fields[name].annotation
            model = next((kind for kind in get_args(model) if hasattr(kind, "model_fields")), model)
    return list(getattr(model, "model_fields", {}))
