"""A metric is a value: it parses from a string, prints as that string, and knows its definition.

name@k,key=value        map@r   hit@10   map@10,divisor=min   cmc@5 (alias of hit@5)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from truerank.engine.counts import TieGroups
from truerank.errors import InputError

if TYPE_CHECKING:
    from truerank.evidence import Evidence
    from truerank.metrics.reduced import LeftOut
    from truerank.result import Score

__all__ = [
    "DEFAULT",
    "Definition",
    "Metric",
    "RankingDefinition",
    "Scale",
    "ThresholdDefinition",
    "definition",
    "entry",
    "examples",
    "names",
    "parse",
    "ranking",
    "register",
]

DEFAULT = ("precision@1", "hit@5", "hit@10", "r_precision", "map@r", "map", "mrr", "minp")
DEFAULT_HIERARCHY = ("h_ap", "asi", "ndcg")
DEFAULT_OPEN_SET = ("dir@far=0.01", "mrep", "mfr")
FAMILIES = (
    "ranking",
    "hierarchy",
    "verification",
    "openset",
    "gom",
    "consistency",
    "clustering",
)
_DECIMAL = r"-?(\d{1,12}(\.\d{0,18})?|\.\d{1,18})(e-?\d{1,2})?"
_LEAST = Decimal("1e-18")
KINDS = {
    "positive": (_LEAST, Decimal(100), False, "a number above 0 and up to 100"),
    "count": (Decimal(1), Decimal(2**31 - 1), True, "an int >= 1"),
    "seed": (Decimal(0), Decimal(2**31 - 1), True, "an int >= 0"),
    "rate": (Decimal(0), Decimal(1), False, "a number from 0 to 1"),
    "half": (_LEAST, Decimal("0.5"), False, "a number above 0 and up to 0.5"),
    "inner": (_LEAST, 1 - _LEAST, False, "a number between 0 and 1"),
    "threshold": (Decimal("-1e30"), Decimal("1e30"), False, "a number"),
}
"""Kinds of numbers an option may take: least, largest, whether whole, and in words."""


@dataclass(frozen=True)
class Metric:
    """One metric with its parameters, hashable; `str` gives the canonical string."""

    name: str
    cut: int | str | None = None
    options: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        parts = [] if self.cut is None else [str(self.cut)]
        parts += [f"{key}={value}" for key, value in self.options]
        return self.name + ("@" + ",".join(parts) if parts else "")

    def option(self, key: str) -> str | None:
        """The value of an option, None where it was left to its default."""
        return dict(self.options).get(key)

    def at_level(self, level: int) -> Metric:
        """The same metric at a level by number."""
        options = dict(self.options) | {"level": str(level)}
        return Metric(self.name, self.cut, tuple(sorted(options.items())))


@dataclass(frozen=True)
class Scale:
    """What the grades of a view mean: levels 1..L of a hierarchy, or judgements."""

    values: npt.NDArray[np.float64]
    judged: bool = False


Triple = npt.NDArray[np.float64]
"""Shape (3, queries): lower, expected, upper."""


@dataclass(frozen=True)
class Definition:
    """What is known about a metric."""

    name: str
    title: str
    definition: str
    citation: str
    cut: str = "none"
    """none, number (k must be given), number or none, or optional (nothing, r, or k)."""
    options: Mapping[str, tuple[str, ...] | str] = field(default_factory=dict)
    """Allowed values of each option, the default first; or what kind of number it takes."""
    defaults: Mapping[str, str] = field(default_factory=dict)
    """Default values of options that take a number."""
    one_of: tuple[str, ...] = ()
    """Options of which exactly one must be given."""
    apart: tuple[tuple[str, str], ...] = ()
    """Options that exclude each other."""
    needs: tuple[tuple[str, str], ...] = ()
    """Options that say something only beside another one."""
    unit: str = "share"
    """share, or distance for metrics that are thresholds themselves."""
    counted: str = "query"
    """What the n of a score counts, in the singular."""
    graded: bool = False
    """Whether grades matter: it is then computed over the whole hierarchy, not the finest label."""
    levels: bool = False
    """Whether it can be asked for at one level: level=2, level=genus, level=mean."""
    range: tuple[float, float] = (0.0, 1.0)
    higher_is_better: bool = True
    family: str = "ranking"
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RankingDefinition(Definition):
    """A mean over queries of a triple over ties."""

    per_query: Callable[[TieGroups, Metric, Scale], Triple]
    reduced: Callable[[LeftOut, Metric], npt.NDArray[np.float64]] | None = None
    """The headline value without each share of the gallery; None: from the groups left."""
    effort: Callable[[npt.NDArray[np.int64], npt.NDArray[np.int64]], float] | None = None
    """Steps that chance takes, where that can be very many."""


@dataclass(frozen=True, kw_only=True)
class ThresholdDefinition(Definition):
    """A metric over thresholds, measured on what the pass counted besides tie groups."""

    measure: Callable[[Evidence, Metric], Score]


_DEFINITIONS: dict[str, Definition] = {}

_ALIASES = {
    "mean_average_precision_at_r": "map@r",
    "mean_average_precision": "map",
    "mean_reciprocal_rank": "mrr",
    "mean_inverse_negative_penalty": "minp",
    "ap": "map",
    "rp": "r_precision",
    "rprec": "r_precision",
    "r-precision": "r_precision",
    "precision@r": "r_precision",
    "recip_rank": "mrr",
    "rr": "mrr",
}
_NUMBERED_ALIASES = {
    "hit": ("cmc", "rank", "hits", "hit_rate", "hit_at", "success", "top"),
    "precision": ("p", "precision_at", "prec"),
    "recall": ("recall_at",),
    "map": ("map_cut", "mean_average_precision_at"),
}
_NUMBERED = {alias: name for name, aliases in _NUMBERED_ALIASES.items() for alias in aliases}


def register(definition: Definition) -> None:
    """Add a metric; it is then parsed, computed, documented and tested like all others."""
    if definition.name in _DEFINITIONS:
        raise ValueError(f"metric {definition.name!r} is registered twice")
    _DEFINITIONS[definition.name] = definition


def _load() -> dict[str, Definition]:
    for family in FAMILIES:
        import_module(f"truerank.metrics.{family}")
    return _DEFINITIONS


def _in_order() -> list[Definition]:
    """All definitions, family by family, whichever module was imported first."""
    return sorted(_load().values(), key=lambda entry: FAMILIES.index(entry.family))


def names() -> list[str]:
    """The registered metric names."""
    return [entry.name for entry in _in_order()]


def examples() -> list[str]:
    """Metric strings that together exercise every registered metric."""
    return [text for entry in _in_order() for text in entry.examples]


def entry(name: str) -> Definition:
    """What is known about the metric of this name."""
    return _load()[name]


def definition(metric: Metric) -> Definition:
    """What is known about a metric."""
    return entry(metric.name)


def ranking(metric: Metric) -> RankingDefinition:
    """What is known about a metric that is a mean over queries of a triple over ties."""
    found = definition(metric)
    if not isinstance(found, RankingDefinition):
        raise TypeError(f"{metric} is no ranking metric")
    return found


def parse(text: str) -> Metric:
    """A metric from its string.

    Examples
    --------
    >>> str(parse("cmc@5")), str(parse("mean_average_precision_at_r"))
    ('hit@5', 'map@r')
    """
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"a metric is a string such as 'map@r' or 'hit@10'. Got {text!r} instead.")
    canonical = _resolve_alias(text.strip())
    name, *parts = [part.strip() for part in re.split("[@,]", canonical)]
    known = _load()
    if name not in known:
        _refuse_unknown(text, name)
    entry = known[name]
    cut: int | str | None = None
    options: dict[str, str] = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if equals and key.strip() in options:
            raise InputError(f"metric {text!r} gives {key.strip()!r} twice.")
        if equals:
            options[key.strip()] = _check_option(entry, key.strip(), value.strip())
        elif cut is None:
            cut = _check_cut(entry, part)
        else:
            raise InputError(f"metric {text!r} has two cut-offs; write it as name@k,key=value.")
    if entry.cut == "number" and cut is None:
        raise InputError(f"metric {text!r} needs a cut-off, for example {name}@10.")
    if "alpha" in options and "rel" in options:
        raise InputError(
            f"metric {text!r} gives both alpha and rel; relevances of your own need none."
        )
    if "divisor" in options and not isinstance(cut, int):
        raise InputError(f"the divisor option of {name} needs a number as cut-off: {name}@10.")
    given = [key for key in entry.one_of if key in options]
    if entry.one_of and len(given) != 1:
        choice = " or ".join(f"{key}=" for key in entry.one_of)
        raise InputError(f"metric {text!r} needs {choice}, for example {entry.examples[0]}.")
    for first, second in entry.apart:
        if first in options and second in options:
            raise InputError(f"metric {text!r} gives both {first} and {second}; choose one.")
    for key, other in entry.needs:
        if key in options and other not in options:
            raise InputError(f"metric {text!r} gives {key} without {other}; add {other}=.")
    kept = tuple(
        (key, options[key]) for key in sorted(options) if not _default(entry, key, options)
    )
    return Metric(name, cut, kept)


def _default(entry: Definition, key: str, options: Mapping[str, str]) -> bool:
    allowed = entry.options.get(key, "")
    return (isinstance(allowed, tuple) and options[key] == allowed[0]) or (
        options[key] == entry.defaults.get(key)
    )


def parse_all(metrics: Iterable[str] | str) -> list[Metric]:
    """Metrics from strings, each once, in the order given."""
    if not np.iterable(metrics):
        raise InputError(f"metrics must be strings such as 'map@r'. Got {metrics!r}.")
    texts = [metrics] if isinstance(metrics, str) else list(metrics)
    if not texts:
        raise InputError("metrics is empty; name at least one or leave it out for the default.")
    return list(dict.fromkeys(parse(text) for text in texts))


def _resolve_alias(text: str) -> str:
    """The canonical spelling; case matters only in the name of a level."""
    text, level, name = text.partition("level=")
    return _resolve_lower(text.lower()) + level + name


def _resolve_lower(text: str) -> str:
    if text in _ALIASES:
        return _ALIASES[text]
    match = re.fullmatch(r"([a-z_]+?)[@_-]?(\d+)(,.*)?", text)
    if match and match[1] in _NUMBERED:
        return f"{_NUMBERED[match[1]]}@{match[2]}{match[3] or ''}"
    name, at, rest = text.partition("@")
    if name in _NUMBERED:
        return f"{_NUMBERED[name]}{at}{rest}"
    if at and "@" not in _ALIASES.get(name, "@"):
        return f"{_ALIASES[name]}@{rest}"
    return text


def _refuse_unknown(text: str, name: str) -> None:
    near = get_close_matches(name, [*_DEFINITIONS, *_ALIASES, *_NUMBERED], n=1, cutoff=0.4)
    rest = text.strip()[len(name) :] if near and "@" not in near[0] else ""
    hint = f"did you mean {near[0] + rest!r}?" if near else f"known are {', '.join(_DEFINITIONS)}."
    raise InputError(f"unknown metric {text!r}; {hint}")


def _check_cut(entry: Definition, text: str) -> int | str:
    if entry.cut == "none":
        raise InputError(f"metric {entry.name!r} takes no cut-off. Got {text!r}.")
    if entry.cut == "optional" and text == "r":
        return "r"
    if not (text.isascii() and text.isdigit() and 1 <= int(text) < 2**31):
        expected = "an int >= 1" + (" or r" if entry.cut == "optional" else "")
        raise InputError(f"The 'k' parameter of {entry.name} must be {expected}. Got {text!r}.")
    return int(text)


def _check_option(entry: Definition, key: str, value: str) -> str:
    if key == "level" and entry.levels:
        return value
    allowed = entry.options.get(key)
    if allowed is None:
        known = [*entry.options, *(["level"] if entry.levels else [])]
        hint = f"known are {', '.join(known)}" if known else "it takes none"
        raise InputError(f"metric {entry.name!r} has no option {key!r}; {hint}.")
    if isinstance(allowed, tuple):
        if value in allowed:
            return value
        expected = f"one of {', '.join(allowed)}"
    elif allowed in KINDS:
        low, high, whole, expected = KINDS[allowed]
        if re.fullmatch(_DECIMAL, value):
            number = Decimal(value)
            if low <= number <= high and (not whole or number == int(number)):
                return f"{number.normalize() + 0:f}"
    elif allowed == "targets":
        if re.fullmatch(f"{_DECIMAL}:{_DECIMAL}", value):
            first, second = (Decimal(part) for part in value.split(":"))
            if 0 <= first < second <= 1:
                return f"{first.normalize() + 0:f}:{second.normalize():f}"
        expected = "two numbers from 0 to 1 such as 0.01:0.1, the smaller first"
    else:
        parts = value.split(":")
        if all(_is_number(part) for part in parts) and max(map(float, parts)) > 0:
            return value
        expected = "numbers >= 0 separated by colons, such as 1:2:3"
    raise InputError(
        f"The {key!r} option of {entry.name} must be {expected}. Got {value!r} instead."
    )


def _is_number(text: str) -> bool:
    return re.fullmatch(r"\d{1,6}(\.\d{1,12})?|\.\d{1,12}", text) is not None
