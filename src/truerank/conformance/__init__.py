"""conformance: a metric function in, the conventions that it follows out.

The function is called with a battery of small cases (ties, duplicates, unmated queries, k
beyond the list, large labels, ...). Every known convention, and every known bug, is a small
model of a metric. The verdict is the models that explain all answers, and the smallest cases
that show where they differ from truerank.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from truerank._util.errors import InputError, shortened
from truerank._util.old_names import warn_of_new_name
from truerank._util.text import either
from truerank.conformance.battery import LARGEST_CUT, LARGEST_OF_ROWS
from truerank.conformance.cases import CALLS
from truerank.conformance.conventions import QUESTIONS
from truerank.conformance.diagnosis import Caller, Conformance, diagnose, load
from truerank.conformance.model import FORMULAS
from truerank.core import registry
from truerank.core.metric import Metric

__all__ = [
    "CALLS",
    "Conformance",
    "assert_conforms",
    "check",
    "load",
]


def check(
    function: Callable[..., Any],
    like: str = "map@r",
    call: str = "embeddings",
    *,
    arrays: str = "numpy",
    one_query: bool = False,
    arguments: Mapping[str, Any] | None = None,
    allow: Iterable[str] = (),
    name: str | None = None,
) -> Conformance:
    """Find the conventions of a metric function, and whether they are truerank's.

    Parameters
    ----------
    function : callable
        Called with two arguments, as `call` says; it returns a number.
    like : str
        What it is meant to compute: precision@k, r_precision, map, map@r, map@k, recall@k, hit@k,
        mrr, mrr@k, minp, ndcg or ndcg@k, with k up to 1000 (20 with embeddings).
    call : {"embeddings", "scores", "lists", "qrels"}
        f(embeddings, labels): rows of length 1, each searched among all others;
        f(scores, relevance): two (queries, items) matrices, greater scores first;
        f(lists, relevant): for each query the ids that were returned, best first, and the relevant
        ones;
        f(qrels, run): dictionaries of dictionaries, as pytrec_eval and ranx take them.
        Parameters whose names are known (y_true, preds, run, ...) may stand the other way round.
    arrays : {"numpy", "torch", "lists"}
        What embeddings, labels, scores and relevance are passed as.
    one_query : bool
        Whether scores and lists are those of a single query: rows instead of matrices.
    arguments : mapping, optional
        Further arguments by name, such as {"top_k": 2}.
    allow : iterable of str
        Conventions that are intended, as the verdict names them: "unmated=zero", "divisor=min".
    name : str, optional
        What the verdict calls the function.

    Returns
    -------
    Conformance
        It prints as the verdict; `conforms`, `conventions`, `findings`, `to_dict()`, `to_json()`.

    Examples
    --------
    >>> from truerank import conformance
    >>> def mine(scores, relevance, k=2):
    ...     best = sorted(zip(scores, relevance), key=lambda pair: -pair[0])[:k]
    ...     ranks = [rank for rank, (_, mate) in enumerate(best, start=1) if mate]
    ...     hits = [found / rank for found, rank in enumerate(ranks, start=1)]
    ...     return sum(hits) / len(hits) if hits else 0.0
    >>> verdict = conformance.check(mine, like="map@2", call="scores", one_query=True)
    >>> verdict.conforms, verdict.conventions["divisor"], verdict.conventions["ties"]
    (False, 'found', 'input')
    """
    caller = Caller(function, call, arrays, one_query, arguments)
    metric = _metric(like, call)
    allowed = _allowed(allow)
    if call == "embeddings" and metric.name == "ndcg":
        raise InputError("ndcg needs grades; check it with call='scores' or call='qrels'.")
    if name is not None and not isinstance(name, str):
        raise InputError(f"The 'name' parameter must be a text. Got {shortened(name)}.")
    known = name or _name(function)
    return Conformance(known, metric, call, diagnose(metric, caller, allowed), allowed)


def assert_conforms(
    function: Callable[..., Any], like: str = "map@r", call: str = "embeddings", **options: Any
) -> None:
    """Raise an AssertionError with the findings and smallest cases if a function does not conform.

    Takes what `check` takes.

    Examples
    --------
    >>> from truerank import conformance
    >>> def hit(lists, relevant, k=2):
    ...     pairs = [pair for pair in zip(lists, relevant) if pair[1]]
    ...     if not pairs:
    ...         return None
    ...     return sum(not set(ids[:k]).isdisjoint(mates) for ids, mates in pairs) / len(pairs)
    >>> conformance.assert_conforms(hit, like="hit@2", call="lists")
    """
    found = check(function, like, call, **options)
    if not found.conforms:
        raise AssertionError(str(found))


def _metric(like: str, call: str) -> Metric:
    metric = registry.parse(like)
    if metric.name not in FORMULAS:
        raise InputError(f"{metric} is not checked here; known are {either(list(FORMULAS))}.")
    if metric.get("level") is not None:
        raise InputError("functions are checked on one level of labels; leave level= out.")
    largest = LARGEST_OF_ROWS if call == "embeddings" else LARGEST_CUT
    if isinstance(metric.cut, int) and metric.cut > largest:
        raise InputError(
            f"cases are small, to be checked by hand: take a k of at most {largest:,}, with a "
            f"function of the same. Got {metric}."
        )
    return metric


def _allowed(allow: Iterable[str]) -> tuple[str, ...]:
    if isinstance(allow, str):
        allow = (allow,)
    try:
        given = tuple(map(_renamed, allow))
    except TypeError:
        raise InputError(
            f"The 'allow' parameter must hold texts. Got {shortened(allow)}."
        ) from None
    known = [
        f"{question.name}={answer.key}" for question in QUESTIONS for answer in question.answers
    ]
    for one in given:
        if not isinstance(one, str) or one not in known:
            raise InputError(
                f"a convention to allow is named as in the verdict, such as unmated=zero. "
                f"Got {shortened(one)}; known are {', '.join(known)}."
            )
    return given


def _renamed(convention: Any) -> Any:
    """A convention by its name, where 0.1 had another."""
    if not isinstance(convention, str) or not convention.startswith("no-mates="):
        return convention
    warn_of_new_name("the convention no-mates", "unmated")
    return convention.replace("no-mates", "unmated", 1)


def _name(function: Callable[..., Any]) -> str:
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None)
    return str(name or type(function).__name__)
