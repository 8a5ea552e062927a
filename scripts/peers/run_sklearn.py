"""scikit-learn's ranking metrics on the cases of cases.py; prints JSON."""

from __future__ import annotations

from collections.abc import Sequence

from rows import Measure, score_rows, write
from sklearn.metrics import (
    average_precision_score,
    label_ranking_average_precision_score,
    ndcg_score,
    top_k_accuracy_score,
)

WHY = {
    "all-tied": "A tie group is taken whole, each mate with the precision at the group's "
    "end: the value does not depend on the order, but it is not the AP of a ranking.",
    "tied-mates": "A tie group is taken whole: both mates get the precision 2/3 of the "
    "group's end, more than any order of the items allows.",
    "equal-best": "Among equal scores the class of the highest index comes first, as documented.",
}


def average_precision(scores: Sequence[float], relevance: Sequence[int]) -> float:
    return float(average_precision_score(relevance, scores))


def label_ranking(scores: Sequence[float], relevance: Sequence[int]) -> float:
    return float(label_ranking_average_precision_score([relevance], [scores]))


def ndcg(scores: Sequence[float], relevance: Sequence[int]) -> float:
    return float(ndcg_score([relevance], [scores]))


def top_1_accuracy(scores: Sequence[float], relevance: Sequence[int]) -> float:
    """The one mate is the right class of a one-sample classification."""
    classes = list(range(len(scores)))
    return float(top_k_accuracy_score([relevance.index(1)], [scores], k=1, labels=classes))


MEASURES = (
    Measure("map", "average_precision_score", average_precision),
    Measure("map", "label_ranking_average_precision_score", label_ranking),
    Measure("ndcg", "ndcg_score", ndcg),
    Measure("hit@1", "top_k_accuracy_score, k=1", top_1_accuracy),
)

if __name__ == "__main__":
    write("scikit-learn", score_rows(MEASURES, WHY))
