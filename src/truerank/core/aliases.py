"""Other names of metrics: those of the field and of other libraries, and what to suggest for more.

cmc@5 is hit@5      tpr@fpr=0.01 is tar@far=0.01      f1 may be best_f1 or pairwise_f1

A name that another tool prints has the definition of that tool: nDCG@10 (ir_measures), ndcg_cut_10
(trec_eval) and ndcg_at_10 (MTEB) have the grade itself as gain, ndcg_burges@10 (ranx) 2^grade - 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

from truerank.wording import either

__all__ = ["aliases", "ambiguous", "note", "resolve", "suggestions"]

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


def _recall_like(texts: Iterable[str]) -> tuple[list[str], list[str]]:
    """What was asked for as R@k, and the numbers k."""
    found = [re.match(r"\s*(r(?:_at)?[@_.-]?\d[\d,\s]*)", text, re.IGNORECASE) for text in texts]
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
