"""Other names of metrics: those of the field and of other libraries, and what to suggest for more.

cmc@5 is hit@5      tpr@fpr=0.01 is tar@far=0.01      f1 may be best_f1 or pairwise_f1
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["aliases", "note", "resolve", "suggestions"]

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
    "hit": ("cmc", "rank", "hits", "hit_rate", "hit_at", "hr", "success", "top", "r"),
    "precision": ("p", "precision_at", "prec"),
    "recall": ("recall_at",),
    "map": ("map_cut", "mean_average_precision_at"),
}
_NUMBERED = {alias: name for name, aliases in _NUMBERED_ALIASES.items() for alias in aliases}
_RATES = {"fpr": ("tar", "threshold"), "fmr": ("tar", "threshold"), "fpir": ("dir", "ttr")}
"""Other names of `far`, and the metrics in which they mean it."""
_MEANT = {
    ("accuracy", "acc"): ("precision@1", "hit@5", "auc", "eer"),
    ("f1", "fscore", "measure"): ("best_f1", "pairwise_f1"),
    ("frr", "fnr", "fnir"): ("fnmr@tau=0.5", "tar@far=0.01", "eer"),
    ("fpr", "fpir", "fppi"): ("fmr@tau=0.5", "far@tau=0.5", "tar@far=0.01"),
    ("ari", "rand", "silhouette", "purity", "homogeneity"): ("nmi", "ami", "pairwise_f1"),
}
"""What people may mean by words that name no metric: a short list instead of a guess."""
_SURELY, _CLOSE = 0.8, 0.65
_MOST = 3


def resolve(text: str) -> str:
    """The canonical spelling of a metric string; case matters only in the name of a level.

    Examples
    --------
    >>> resolve("R@1"), resolve("TPR@FPR=0.01")
    ('hit@1', 'tar@far=0.01')
    """
    text, level, name = text.partition("level=")
    return _with_rates(_resolve_lower(text.lower())) + level + name


def note(texts: Iterable[str]) -> str | None:
    """What to tell somebody who names metrics by a word that is read in two ways."""
    found = [re.match(r"\s*(r[@_-]?\d[\d,\s]*)", text, re.IGNORECASE) for text in texts]
    asked = [re.sub(r"[\s,]+$", "", match[1]) for match in found if match is not None]
    if not asked:
        return None
    meant = ", ".join(f"hit@{cut}" for cut in re.findall(r"\d+", " ".join(asked)))
    return (
        f"{', '.join(asked)} {'is' if len(asked) == 1 else 'are'} read as {meant}, whether a mate "
        "is among the first k, which metric-learning papers call Recall@k; the share of all mates "
        "that is found is recall@k."
    )


def aliases(name: str) -> list[str]:
    """Other names of a metric; those of one of its forms with the form: 'ap', 'cmc@k'."""
    one_word = [alias for alias, meant in _ALIASES.items() if meant.partition("@")[0] == name]
    return one_word + [f"{alias}@k" for alias in _NUMBERED_ALIASES.get(name, ())]


def suggestions(name: str, known: Iterable[str]) -> list[str]:
    """Metrics that somebody may mean by a name that is none, at most a few."""
    name = name.lower()
    for some, meant in _MEANT.items():
        if set(some).intersection(re.findall("f1|[a-z]+", name)):
            return list(meant)
    words = [*known, *_ALIASES, *_NUMBERED]
    near = get_close_matches(name, words, n=1, cutoff=_SURELY)
    near = near or get_close_matches(name, words, n=_MOST, cutoff=_CLOSE)
    return list(dict.fromkeys(_ALIASES.get(one, _NUMBERED.get(one, one)) for one in near))


def _resolve_lower(text: str) -> str:
    if text in _ALIASES:
        return _ALIASES[text]
    match = re.fullmatch(r"([a-z_]+?)[@_-]?(\d+)(,.*)?", text)
    if match and match[1] in _NUMBERED:
        return f"{_NUMBERED[match[1]]}@{match[2]}{match[3] or ''}"
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
