"""How a string becomes a metric, and what is known about it.

name@k,key=value        map@r   hit@10   map@10,divisor=min   hit@1,5,10 (three metrics)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

import numpy as np

from truerank.core.aliases import aliases, ambiguous, note, resolve, suggestions
from truerank.core.metric import (
    DEFINITIONS,
    Definition,
    Metric,
    RankingDefinition,
    entry,
    examples,
    load,
    names,
    plainest,
    register,
)
from truerank.core.parameters import Parameter, check_cut
from truerank.errors import InputError, shortened
from truerank.removed import REMOVED
from truerank.wording import either

__all__ = [
    "DEFAULT",
    "advice_about",
    "aliases",
    "asked",
    "check_judged",
    "definition",
    "divided",
    "entry",
    "examples",
    "find",
    "names",
    "of_result",
    "parse",
    "parse_all",
    "parse_among",
    "plainest",
    "ranking",
    "register",
    "said_side_by_side",
    "spelled_out",
    "warnings_about",
]

DEFAULT = ("precision@1", "hit@5", "hit@10", "r_precision", "map@r", "map", "mrr", "minp")
DEFAULT_HIERARCHY = ("h_ap", "asi", "ndcg")
DEFAULT_OPEN_SET = ("dir@far=0.01", "mrep@far=0.01", "mrep", "mfr")
OPEN_SET_FROM = 20
"""Queries without a mate that make a task an open set; a stray singleton does not."""


def definition(metric: Metric) -> Definition:
    """What is known about a metric."""
    return entry(metric.name)


def ranking(metric: Metric) -> RankingDefinition:
    """What is known about a metric that is a mean over queries of a triple over ties."""
    found = definition(metric)
    if not isinstance(found, RankingDefinition):
        raise TypeError(f"{metric} is no ranking metric")
    return found


def advice_about(texts: Iterable[str] | str) -> list[str]:
    """What to tell somebody who names these metrics, each sentence once."""
    texts = [texts] if isinstance(texts, str) else list(texts)
    said = [note(part for text in texts for part in divided(text))]
    said += [definition(metric).advice(metric) for metric in parse_all(texts)]
    return list(dict.fromkeys(sentence for sentence in said if sentence is not None))


def check_judged(texts: Iterable[str] | str) -> None:
    """Refuse names that have two meanings where judgements say what is relevant."""
    texts = [texts] if isinstance(texts, str) else texts
    reason = ambiguous(part for text in texts for part in divided(text))
    if reason is not None:
        raise InputError(reason)


def said_side_by_side(metrics: Iterable[Metric]) -> list[str]:
    """What to know where two models' scores of these metrics meet, each sentence once."""
    said = (definition(metric).side_by_side(metric) for metric in metrics)
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
    name = _still_there(known).name
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

    Results of earlier versions hold metrics that were removed: `asked` refuses these.

    Examples
    --------
    >>> find("cmc").name, find("map@10").name
    ('hit', 'map')
    """
    return _named(text)[0]


def asked(text: str) -> Definition:
    """What is known about the metric that somebody asks for by a string."""
    return _still_there(_named(text)[0])


def of_result(text: str) -> Metric:
    """The metric of a result's score, which an earlier version may have named.

    Examples
    --------
    >>> str(of_result("cmc@5")), str(of_result("opis@grid=20"))
    ('hit@5', 'opis@grid=20')
    """
    try:
        return parse(text)
    except InputError:
        name, _, rest = text.partition("@")
        options = (part.partition("=") for part in rest.split(",") if "=" in part)
        return Metric(name, None, tuple((key, value) for key, _, value in options))


def _named(text: str) -> tuple[Definition, list[str]]:
    """The definition that a metric string names, and what else the string says."""
    if not isinstance(text, str) or not text.strip():
        raise InputError(
            f"a metric is a string such as 'map@r' or 'hit@10'. Got {shortened(text)} instead."
        )
    canonical = resolve(text.strip())
    name, *parts = [part.strip() for part in re.split("[@,]", canonical)]
    if name not in load() and name not in REMOVED:
        _refuse_unknown(text, name)
    return entry(name), parts


def _still_there(known: Definition) -> Definition:
    if known.name in REMOVED:
        raise InputError(REMOVED[known.name])
    return known


def _parameter(known: Definition, key: str) -> Parameter:
    parameter = known.parameter(key)
    if parameter is None and key in dict(known.removed):
        raise InputError(
            f"the {key} option of {known.name} was removed: {dict(known.removed)[key]}; "
            f"leave {key}= out."
        )
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
    return list(dict.fromkeys(map(parse, _texts(metrics))))


def _texts(metrics: Iterable[str] | str) -> list[str]:
    if not np.iterable(metrics):
        raise InputError(f"metrics must be strings such as 'map@r'. Got {shortened(metrics)}.")
    texts = [metrics] if isinstance(metrics, str) else list(metrics)
    if not texts:
        raise InputError("metrics is empty; name at least one or leave it out for the default.")
    return [one for text in texts for one in spelled_out(text)]


def parse_among(metrics: Iterable[str] | str, computed: Iterable[str]) -> list[str]:
    """The names of metrics, all of which must be among those that were computed."""
    known = list(computed)
    texts = _texts(metrics)
    names = list(dict.fromkeys(one if one in known else str(parse(one)) for one in texts))
    for name in names:
        if name not in known:
            raise InputError(f"{name!r} was not computed; there are {', '.join(known)}.")
    return names


def spelled_out(text: str) -> list[str]:
    """One string for each metric that a string stands for: of a list, of cut-offs or values.

    Examples
    --------
    >>> spelled_out("map@r,hit@1,5"), spelled_out("tar@far=0.1,0.01")
    (['map@r', 'hit@1', 'hit@5'], ['tar@far=0.1', 'tar@far=0.01'])
    """
    return [one for part in divided(text) for one in _one_by_one(part)]


def divided(text: str) -> list[str]:
    """The metrics of a list with commas; of those that belong to one of them it makes nothing."""
    return re.split(_BEFORE_A_NAME, text) if isinstance(text, str) else [text]


_VALUE = r"\s*(?:[^,@\s]+\s*=|[\d.][^,\s]*\s*(?:,|$)|r\s*(?:,|$))"
_BEFORE_A_NAME = rf",(?!{_VALUE})(?=\s*[A-Za-z])"
"""A comma that divides metrics: not before key=value, a number or r."""


def _one_by_one(text: str) -> list[str]:
    """A metric with several cut-offs, or values of a parameter, as one string for each."""
    known, parts = _named(text)
    places: list[list[str]] = []
    cut: list[str] | None = None
    for part in parts:
        key, equals, _ = places[-1][0].partition("=") if places else ("", "", "")
        if "=" in part:
            places.append([part])
        elif cut is None and (known.cut != "none" or not equals):
            cut = [part]
            places.append(cut)
        else:  # it goes with what stands before it
            places[-1].append(f"{key}={part}" if equals else part)
    if all(len(place) == 1 for place in places):
        return [text]
    return [f"{known.name}@{','.join(chosen)}" for chosen in product(*places)]


def _refuse_unknown(text: str, name: str) -> None:
    found = suggestions(name, DEFINITIONS)
    rest = text.strip()[len(name) :]
    if not found:
        hint = f"known are {', '.join(DEFINITIONS)}."
    elif len(found) == 1 and "@" not in found[0]:
        hint = f"did you mean {found[0] + rest!r}?"
    else:
        hint = f"did you mean {either([repr(one) for one in found])}?"
    raise InputError(f"unknown metric {text!r}; {hint}")
