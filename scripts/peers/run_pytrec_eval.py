"""pytrec_eval (trec_eval) on the cases of cases.py, items named in the order given; prints JSON."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytrec_eval
from rows import Measure, score_rows, write

BY_NAME = "Ties are broken by document id, the greater id first: trec_eval's own rule."

WHY = {
    "all-tied": BY_NAME,
    "equal-best": BY_NAME,
    "close-scores": "Scores are held as float32, in which the three are equal; then the greater "
    "document id comes first.",
}


def call(measure: str, scores: Sequence[float], relevance: Sequence[int]) -> float:
    names = [f"d{i:03d}" for i in range(len(scores))]
    evaluator = pytrec_eval.RelevanceEvaluator(
        {"query": dict(zip(names, relevance, strict=True))}, {measure}
    )
    found = evaluator.evaluate({"query": dict(zip(names, scores, strict=True))})
    return float(found["query"][measure.replace(".", "_")])


NAMES = {
    "map": "map",
    "map@2": "map_cut.2",
    "map@4": "map_cut.4",
    "recall@4": "recall.4",
    "hit@1": "success.1",
    "ndcg": "ndcg",
}

if __name__ == "__main__":
    write(
        "pytrec_eval-terrier",
        score_rows((Measure(ours, name, partial(call, name)) for ours, name in NAMES.items()), WHY),
    )
