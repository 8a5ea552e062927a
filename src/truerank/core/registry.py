"""Strings to metrics: parsing, aliases of other libraries, and names for tables and figures.

name@k,key=value        map@r   hit@10   map@10,divisor=min   hit@1,5,10 (three metrics)
cmc@5 is hit@5          tpr@fpr=0.01 is tar@far=0.01          f1 may be best_f1 or pairwise_f1

A name that another tool prints has the definition of that tool: nDCG@10 (ir_measures),
ndcg_cut_10 (trec_eval) and ndcg_at_10 (MTEB) have the grade itself as gain, ndcg_burges@10
(ranx) 2^grade - 1. In tables and figures metrics have the names of the field: MAP@R,
TAR@FAR=0.1%, NDCG@10.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from difflib import get_close_matches
from itertools import product
from typing import Any

import numpy as np

from truerank._util.errors import InputError, shortened
from truerank._util.old_names import REMOVED
from truerank._util.text import either
from truerank.core.metric import DEFINITIONS, Definition, Metric, RankingDefinition, entry, load
from truerank.core.parameters import Parameter, check_cut

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


def advice_about(texts: Iterable[str] | str, *, judged: bool) -> list[str]:
    """What to tell somebody who names these metrics, each sentence once.

    `judged` says that relevance comes from judgements, where Recall@k means recall@k.
    """
    texts = [texts] if isinstance(texts, str) else list(texts)
    named = [part for text in texts for part in divided(text)]
    said = [note(named), None if judged else _about_recall(named)]
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
    """Parse a metric from its string.

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


# Other names of metrics: those of the field and of other libraries, and what to suggest for more.


_ALIASES = {
    "mean_average_precision_at_r": "map@r",
    "mean_average_precision": "map",
    "average_precision": "map",
    "mean_reciprocal_rank": "mrr",
    "mean_inverse_negative_penalty": "minp",
    "ap": "map",
    "rp": "r_precision",
    "rprec": "r_precision",
    "r-precision": "r_precision",
    "precision@r": "r_precision",
    "recip_rank": "mrr",
    "rr": "mrr",
    "inp": "minp",
    "roc_auc": "auc",
    "auroc": "auc",
    "equal_error_rate": "eer",
    "mindcf": "min_dcf",
    "max_f1": "best_f1",
    "normalized_mutual_info": "nmi",
    "adjusted_mutual_info": "ami",
    "tpr": "tar",
    "tmr": "tar",
    "gar": "tar",
    "tpir": "dir",
}
_NUMBERED_ALIASES = {
    "hit": ("cmc", "rank", "hits", "hit_rate", "hr", "success", "top", "r"),
    "precision": ("p", "prec"),
    "ndcg": ("ndcg_burges",),
}
_NUMBERED = {alias: name for name, aliases in _NUMBERED_ALIASES.items() for alias in aliases}
_BEFORE_A_NUMBER = _NUMBERED | {"accuracy": "hit", "recall": "recall"}
"""What a number makes a metric of: rank-1, P.10, success_5, recall_1000, accuracy@1."""
_AT = {name: name for name in ("hit", "precision", "map", "mrr", "ndcg")}
_BEFORE_AT = _AT | _BEFORE_A_NUMBER | {"mean_average_precision": "map"}
"""What may stand before `_at` or `_cut` and a number: map_cut_10, precision_at_1."""
_LINEAR = r"\s*(nDCG(?![A-Za-z])|(?i:ndcg_(at|cut)[@_.-]?\d))"
"""Names of tools whose gain is the grade; ndcg has the gain 2^grade - 1, and so has NDCG."""
_CAPITAL = r"\s*NDCG(?![A-Za-z_])"
_PAIRS = ("tar", "fnmr", "threshold")
_RATES = {"fpr": _PAIRS, "fmr": _PAIRS, "fpir": ("dir", "fnir", "ttr")}
"""Other names of `far`, and the metrics in which they mean it."""
_MEANT = {
    ("accuracy", "acc"): ("precision@1", "hit@5", "auc", "eer"),
    ("f1", "fscore", "measure"): ("best_f1", "pairwise_f1"),
    ("frr", "fnr"): ("fnmr@far=0.01", "fnmr@tau=0.5", "eer"),
    ("fpr", "fpir", "fppi"): ("fmr@tau=0.5", "far@tau=0.5", "tar@far=0.01"),
    ("ari", "rand", "silhouette", "purity", "homogeneity"): ("nmi", "ami", "pairwise_f1"),
}
"""What people may mean by words that name no metric: a short list instead of a guess."""
_FORMS = ("map@r",)
"""Metrics with a cut-off whose names are also written without the sign: mapr."""
_SURELY, _CLOSE = 0.8, 0.65
_MOST = 3


def resolve(text: str) -> str:
    """The canonical spelling of a metric string; case matters in nDCG and in the name of a level.

    Examples
    --------
    >>> resolve("R@1"), resolve("TPR@FPR=0.01"), resolve("ndcg_cut_10")
    ('hit@1', 'tar@far=0.01', 'ndcg@10,gain=linear')
    """
    linear = re.match(_LINEAR, text) is not None
    text, level, name = text.partition("level=")
    found = _with_rates(_resolve_lower(text.lower()))
    if linear and "gain" not in found:
        found += ",gain=linear" if "@" in found else "@gain=linear"
    return found + level + name


def note(texts: Iterable[str]) -> str | None:
    """What to tell somebody who names metrics by a word that is read in two ways."""
    asked, cuts = _recall_like(texts)
    if not asked:
        return None
    meant = ", ".join(f"hit@{cut}" for cut in cuts)
    return (
        f"{', '.join(asked)} {'is' if len(asked) == 1 else 'are'} read as {meant}, whether a "
        "relevant item is among the first k, which metric-learning papers call Recall@k; the share "
        "of all relevant items that is found is recall@k."
    )


def _about_recall(texts: Iterable[str]) -> str | None:
    """What to tell somebody who writes recall as papers on metric learning write hit@k."""
    asked, cuts = _recall_like(texts, "Recall@")
    if not asked:
        return None
    read, meant = (", ".join(f"{name}@{cut}" for cut in cuts) for name in ("recall", "hit"))
    return (
        f"{', '.join(asked)} {'is' if len(asked) == 1 else 'are'} read as {read}, the share of all "
        f"relevant items that is found; metric-learning papers mean {meant} by Recall@k."
    )


def ambiguous(texts: Iterable[str]) -> str | None:
    """Why R@k or NDCG is refused where judgements say what is relevant; None if not asked for."""
    texts = list(texts)
    capital = next((text for text in texts if re.match(_CAPITAL, text)), None)
    if capital is not None and "gain" not in capital:
        own = resolve(capital)
        linear = f"{own}{',' if '@' in own else '@'}gain=linear"
        return (
            f"{capital.strip()} has two readings where relevance comes from judgements: the gain "
            "2^grade - 1, as in papers on metric learning, and the grade itself, as in ir_measures "
            f"and trec_eval. Ask for {own} or {linear}."
        )
    asked, cuts = _recall_like(texts)
    if not asked:
        return None
    both = either([f"{name}@{cut}" for cut in cuts for name in ("hit", "recall")])
    return (
        f"{', '.join(asked)} has two readings where relevance comes from judgements: hit@k, "
        "whether a relevant item is among the first k, and recall@k, the share of all relevant "
        f"items that is found there. Ask for {both}."
    )


def aliases(name: str) -> list[str]:
    """Other names of a metric; those of one of its forms with the form: 'ap', 'cmc@k'."""
    one_word = [alias for alias, meant in _ALIASES.items() if meant.partition("@")[0] == name]
    numbered = [f"{alias}@k" for alias, meant in _BEFORE_A_NUMBER.items() if meant == name != alias]
    with_at = [f"{name}_at_k"] if name in _BEFORE_AT.values() and name != "ndcg" else []
    trec = {"map": ["map_cut_k"], "recall": ["recall_k"]}
    return one_word + numbered + with_at + trec.get(name, [])


def suggestions(name: str, known: Iterable[str]) -> list[str]:
    """Metrics that somebody may mean by a name that is none, at most a few."""
    name = name.lower()
    for some, meant in _MEANT.items():
        if set(some).intersection(re.findall("f1|[a-z]+", name)):
            return list(meant)
    words = [*known, *_FORMS, *_ALIASES, *_NUMBERED]
    near = get_close_matches(name, words, n=1, cutoff=_SURELY)
    near = near or get_close_matches(name, words, n=_MOST, cutoff=_CLOSE)
    return list(dict.fromkeys(_ALIASES.get(one, _NUMBERED.get(one, one)) for one in near))


def _recall_like(
    texts: Iterable[str], start: str = "(?i:r(?:_at)?[@_.-]?)"
) -> tuple[list[str], list[str]]:
    """What was asked for as R@k, or as another name that begins so, and the numbers k."""
    found = [re.match(rf"\s*({start}\d[\d,\s]*)", text) for text in texts]
    asked = [re.sub(r"[\s,]+$", "", match[1]) for match in found if match is not None]
    return asked, re.findall(r"\d+", " ".join(asked))


def _resolve_lower(text: str) -> str:
    if text in _ALIASES:
        return _ALIASES[text]
    match = re.fullmatch(r"([a-z_]+?)(_at|_cut)?[@_.-]?(\d+|(?<=[_@])k)(,.*)?", text)
    if match:
        meant = (_BEFORE_AT if match[2] else _BEFORE_A_NUMBER).get(match[1])
        if meant is not None:
            return f"{meant}@{match[3]}{match[4] or ''}"
    name, at, rest = text.partition("@")
    name = name.strip()
    if name in _NUMBERED:
        return f"{_NUMBERED[name]}{at}{rest}"
    if at and "@" not in _ALIASES.get(name, "@"):
        return f"{_ALIASES[name]}@{rest}"
    return text


def _with_rates(text: str) -> str:
    """The metric string with `far` in place of its other names."""
    name = text.partition("@")[0].strip()
    known = [rate for rate, metrics in _RATES.items() if name in metrics]
    return re.sub(rf"([@,]\s*)({'|'.join(known)})(\s*=)", r"\1far\3", text) if known else text


# Metrics as the field writes them in tables and figures: MAP@R, TAR@FAR=0.1%, NDCG@10.
#
# Metric strings come in; names for people go out, and what those mean that are read in two ways.


_NAMES = {
    "precision": "Precision",
    "r_precision": "R-Precision",
    "map": "mAP",
    "hit": "Recall",
    "recall": "Recall",
    "mrr": "MRR",
    "minp": "mINP",
    "h_ap": "H-AP",
    "asi": "ASI",
    "ndcg": "NDCG",
    "auc": "AUC",
    "best_f1": "best F1",
    "eer": "EER",
    "min_dcf": "minDCF",
    "tar": "TAR",
    "threshold": "threshold",
    "fmr": "FMR",
    "fnmr": "FNMR",
    "dir": "DIR",
    "fnir": "FNIR",
    "far": "FAR",
    "ttr": "TTR",
    "ftr": "FTR",
    "mrp": "GOM RP",
    "mvp": "GOM VP",
    "mrep": "GOM ReP",
    "mfr": "GOM FR",
    "mrep_max": "best GOM ReP",
    "mvp_max": "best GOM VP",
    "opis": "OPIS",
    "nmi": "NMI",
    "ami": "AMI",
    "pairwise_f1": "pairwise F1",
    "accuracy": "accuracy",
}
_MEANINGS = {
    "hit": "share of queries with a relevant item among the first k",
    "recall": "share of a query's relevant items among the first k",
}
"""Metrics whose name in the field, Recall@k, is also that of the other one."""


def display_name(metric: str) -> str:
    """The name of a metric in the field; in parentheses its name here where nobody could guess it.

    Examples
    --------
    >>> [display_name(one) for one in ("precision@1", "map@r", "tar@far=0.001")]
    ['Precision@1', 'MAP@R', 'TAR@FAR=0.1%']
    >>> display_name("hit@10"), display_name("mrep"), display_name("mfr@b=10")
    ('Recall@10 (hit@10)', 'GOM ReP (mrep)', 'GOM FR@b=10 (mfr)')
    >>> display_name("recall@10")  # papers on metric learning mean hit@10 by Recall@10
    'Recall@10 (share found)'
    """
    asked = of_result(metric)
    written = _written(asked, recall=False)
    if asked.name == "recall":
        return f"{written} (share found)"
    if _letters(written.partition("@")[0]) == _letters(asked.name):
        return written
    return f"{written} ({asked.name if asked.options else asked})"


def field_names(metrics: Iterable[str]) -> dict[str, str]:
    """The names of metrics as columns of one table in a paper: short, and no two are the same.

    Examples
    --------
    >>> list(field_names(["map@r", "hit@1", "tar@far=0.001", "ndcg@10,gain=linear"]).values())
    ['MAP@R', 'Recall@1', 'TAR@FAR=0.1%', 'NDCG@10, gain=linear']
    >>> list(field_names(["hit@10", "recall@10"]).values())
    ['Hit@10', 'Recall@10']
    """
    parsed = {text: of_result(text) for text in metrics}
    recall = any(metric.name == "recall" for metric in parsed.values())
    return {text: _written(metric, recall) for text, metric in parsed.items()}


def meanings(metrics: Iterable[str]) -> list[str]:
    """What is meant by the names that are read in two ways: 'Recall@k: share of ...'."""
    found = dict.fromkeys(of_result(text).name for text in metrics)
    names = {"hit": "Hit@k" if "recall" in found else "Recall@k", "recall": "Recall@k"}
    return [f"{names[name]}: {_MEANINGS[name]}." for name in found if name in _MEANINGS]


def _written(metric: Metric, recall: bool) -> str:
    name = _NAMES.get(metric.name, metric.name)
    if metric.name == "hit" and recall:
        name = "Hit"
    if metric.name == "map" and metric.cut is not None:
        name = "MAP"
    parts = [] if metric.cut is None else [str(metric.cut).upper()]
    for key, value in metric.options:
        is_rate = key == "far"
        parts.append(f"{key.upper()}={_percent(value)}" if is_rate else f"{key}={value}")
    return f"{name}@{', '.join(parts)}" if parts else name


def _letters(name: str) -> str:
    """What a name has in common with other spellings of it: 'hap' of H-AP and of h_ap."""
    return re.sub("[^a-z0-9]", "", name.lower())


def _percent(text: str) -> str:
    """Rates in decimal notation, or a range of them, in percent: 0.1%, 1%:10%."""
    rates = (100 * Decimal(part) for part in text.split(":"))
    return ":".join(f"{rate.normalize():f}%" for rate in rates)
