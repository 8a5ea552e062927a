"""How a string becomes a metric, and what is known about it.

name@k,key=value        map@r   hit@10   map@10,divisor=min   cmc@5 (alias of hit@5)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

import numpy as np

from truerank.core.metric import (
    DEFINITIONS,
    Definition,
    Metric,
    RankingDefinition,
    entry,
    examples,
    load,
    names,
    register,
)
from truerank.core.parameters import Parameter, check_cut
from truerank.errors import InputError

__all__ = [
    "DEFAULT",
    "advice_about",
    "aliases",
    "definition",
    "entry",
    "examples",
    "find",
    "names",
    "parse",
    "ranking",
    "register",
    "warnings_about",
]

DEFAULT = ("precision@1", "hit@5", "hit@10", "r_precision", "map@r", "map", "mrr", "minp")
DEFAULT_HIERARCHY = ("h_ap", "asi", "ndcg")
DEFAULT_OPEN_SET = ("dir@far=0.01", "mrep", "mfr")
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


def definition(metric: Metric) -> Definition:
    """What is known about a metric."""
    return entry(metric.name)


def ranking(metric: Metric) -> RankingDefinition:
    """What is known about a metric that is a mean over queries of a triple over ties."""
    found = definition(metric)
    if not isinstance(found, RankingDefinition):
        raise TypeError(f"{metric} is no ranking metric")
    return found


def advice_about(metrics: Iterable[Metric]) -> list[str]:
    """What to tell somebody who names these metrics, each sentence once."""
    said = (definition(metric).advice(metric) for metric in metrics)
    return list(dict.fromkeys(sentence for sentence in said if sentence is not None))


def warnings_about(scores: Iterable[Any]) -> list[str]:
    """What looks wrong about these scores, each sentence once."""
    said = (find(score.metric).warning(score) for score in scores)
    return list(dict.fromkeys(sentence for sentence in said if sentence is not None))


def parse(text: str) -> Metric:
    """A metric from its string.

    Examples
    --------
    >>> str(parse("cmc@5")), str(parse("mean_average_precision_at_r"))
    ('hit@5', 'map@r')
    """
    known, parts = _named(text)
    name = known.name
    cut: int | str | None = None
    options: dict[str, str] = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if equals and key.strip() in options:
            raise InputError(f"metric {text!r} gives {key.strip()!r} twice.")
        if equals:
            parameter = _parameter(known, key.strip())
            options[parameter.name] = parameter.canonical(value.strip(), name)
        elif cut is None:
            cut = check_cut(known.cut, part, name)
        else:
            raise InputError(f"metric {text!r} has two cut-offs; write it as name@k,key=value.")
    _check_together(known, text, cut, options)
    kept = tuple(
        (parameter.name, options[parameter.name])
        for parameter in sorted(known.parameters, key=lambda parameter: parameter.name)
        if options.get(parameter.name, parameter.default) != parameter.default
    )
    return Metric(name, cut, kept)


def find(text: str) -> Definition:
    """What is known about the metric that a string names, whatever parameters it gives or lacks.

    Examples
    --------
    >>> find("cmc").name, find("map@10").name
    ('hit', 'map')
    """
    return _named(text)[0]


def aliases(name: str) -> list[str]:
    """Other names of a metric; those of one of its forms with the form: 'ap', 'cmc@k'."""
    one_word = [alias for alias, meant in _ALIASES.items() if meant.partition("@")[0] == name]
    return one_word + [f"{alias}@k" for alias in _NUMBERED_ALIASES.get(name, ())]


def _named(text: str) -> tuple[Definition, list[str]]:
    """The definition that a metric string names, and what else the string says."""
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"a metric is a string such as 'map@r' or 'hit@10'. Got {text!r} instead.")
    canonical = _resolve_alias(text.strip())
    name, *parts = [part.strip() for part in re.split("[@,]", canonical)]
    if name not in load():
        _refuse_unknown(text, name)
    return entry(name), parts


def _parameter(known: Definition, key: str) -> Parameter:
    parameter = known.parameter(key)
    if parameter is None:
        names = [parameter.name for parameter in known.parameters]
        hint = f"known are {', '.join(names)}" if names else "it takes none"
        raise InputError(f"metric {known.name!r} has no option {key!r}; {hint}.")
    return parameter


def _check_together(
    known: Definition, text: str, cut: int | str | None, options: Mapping[str, str]
) -> None:
    """Refuse what each parameter allows but their combination does not."""
    name = known.name
    if known.cut == "number" and cut is None:
        raise InputError(f"metric {text!r} needs a cut-off, for example {name}@10.")
    for parameter in known.parameters:
        if parameter.needs_cut and parameter.name in options and not isinstance(cut, int):
            raise InputError(
                f"the {parameter.name} option of {name} needs a number as cut-off: {name}@10."
            )
    if known.one_of and sum(key in options for key in known.one_of) != 1:
        choice = " or ".join(f"{key}=" for key in known.one_of)
        raise InputError(f"metric {text!r} needs {choice}, for example {known.examples[0]}.")
    for pair in known.exclusive:
        if pair.first in options and pair.second in options:
            raise InputError(
                f"metric {text!r} gives both {pair.first} and {pair.second}; {pair.advice}."
            )
    for key, other in known.needs:
        if key in options and other not in options:
            raise InputError(f"metric {text!r} gives {key} without {other}; add {other}=.")


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
    near = get_close_matches(name, [*DEFINITIONS, *_ALIASES, *_NUMBERED], n=1, cutoff=0.4)
    rest = text.strip()[len(name) :] if near and "@" not in near[0] else ""
    hint = f"did you mean {near[0] + rest!r}?" if near else f"known are {', '.join(DEFINITIONS)}."
    raise InputError(f"unknown metric {text!r}; {hint}")
