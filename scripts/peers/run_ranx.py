"""ranx on the cases of cases.py, items inserted in the order given; prints JSON."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial

from ranx import Qrels, Run, evaluate
from rows import Measure, score_rows, write

ORDER = "Equal scores stay in the order that the sort leaves them in, which depends on insertion."

WHY = {"all-tied": ORDER, "equal-best": ORDER}


def call(metric: str, scores: Sequence[float], relevance: Sequence[int]) -> float:
    """The mates have the same names in every arrangement: only the insertion order changes."""
    mates, strangers = iter(range(len(scores))), iter(range(len(scores)))
    names = [f"mate{next(mates)}" if r else f"stranger{next(strangers)}" for r in relevance]
    judged = {name: 1 for name, r in zip(names, relevance, strict=True) if r}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numba's, on ranx's own integer types
        return float(
            evaluate(
                Qrels({"query": judged}),
                Run({"query": dict(zip(names, scores, strict=True))}),
                metric,
            )
        )


NAMES = {
    "map": "map",
    "map@2": "map@2",
    "map@4": "map@4",
    "recall@4": "recall@4",
    "hit@1": "hit_rate@1",
    "ndcg": "ndcg",
}

if __name__ == "__main__":
    write(
        "ranx",
        score_rows((Measure(ours, name, partial(call, name)) for ours, name in NAMES.items()), WHY),
    )
