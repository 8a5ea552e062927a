"""One line of plain words for each metric: what a reader who never met it may take it for."""

from __future__ import annotations

from truerank.core import registry
from truerank.core.metric import Metric

__all__ = ["in_words"]

WORDS = {
    "r_precision": "Of the R nearest items, the share that are mates; R is how many mates there "
    "are.",
    "mrr": "One over the rank of the first mate.",
    "minp": "How soon the last, hardest mate is found.",
    "bpref": "How rarely a wrong item stands before a mate.",
    "h_ap": "Average precision in which a near miss counts in part.",
    "sum_wap": "Average precision at every level of the labels, weighted.",
    "asi": "How far the first items are the best that could stand there, over all depths.",
    "auc": "How often two of a kind are nearer than two of different kinds.",
    "eer": "The error rate at the threshold where both kinds of error are equally frequent.",
    "best_f1": "The best balance of precision and recall that one threshold gives.",
    "min_dcf": "The least cost of errors over all thresholds.",
    "mrep": "Ranking and accepting at once, over all thresholds.",
    "mfr": "How much queries with nothing to find accept, over all thresholds.",
    "mrep_max": "Ranking and accepting at once, at the best threshold.",
    "mvp_max": "How clean and complete the accepted items are, at the best threshold.",
    "opis": "How unevenly one threshold serves the classes.",
    "nmi": "How well clusters of the embeddings agree with the classes.",
    "ami": "How well clusters of the embeddings agree with the classes, less luck.",
    "pairwise_f1": "How well pairs in one cluster are pairs of one class.",
}


def in_words(text: str) -> str:
    """What a metric says, in one line.

    Examples
    --------
    >>> in_words("hit@5")
    'How often a mate is among the 5 nearest items.'
    """
    metric = registry.of_result(text)
    level = metric.get("level")
    known = _with_cut(metric) or _with_rate(metric) or WORDS.get(metric.name)
    if known is None:
        definition = registry.definition(metric).definition
        known = f"{definition[0].upper()}{definition[1:]}."
    return known if level is None else f"{known[:-1]} (level {metric.text('level')} of the labels)."


def _with_cut(metric: Metric) -> str | None:
    """Metrics up to a rank."""
    cut = metric.cut
    if (metric.name, cut) in (("precision", 1), ("hit", 1)):
        return "How often the nearest item is a mate."
    if metric.name == "precision":
        return f"Of the {cut} nearest items, the share that are mates."
    if metric.name == "hit":
        return f"How often a mate is among the {cut} nearest items."
    if metric.name == "recall":
        return f"The share of the mates that are among the {cut} nearest items."
    if metric.name == "map":
        if cut == "r":
            return "How purely the R nearest items are mates, sooner counts more; R mates exist."
        within = "" if cut is None else f" within the first {cut} items"
        return f"How early all mates are found{within}."
    if metric.name == "mrr" and cut is not None:
        return (
            f"One over the rank of the first relevant item, 0 if it is not among the first {cut}."
        )
    if metric.name == "ndcg":
        within = "" if cut is None else f", within the first {cut} items"
        return f"How near the order is to the best one, sooner counts more{within}."
    return None


def _with_rate(metric: Metric) -> str | None:
    """Metrics at a rate of false accepts."""
    far = metric.get("far")
    if far is None or isinstance(far, tuple):
        return None
    rate = f"{100 * float(far):g} %"
    return {
        "tar": f"Pairs of one class accepted while {rate} of the others are.",
        "fnmr": f"Positive pairs rejected while {rate} of the negative pairs are accepted.",
        "threshold": f"The distance up to which to accept, for {rate} of false accepts.",
        "dir": f"Mate found first and accepted while {rate} of strangers are let in.",
        "fnir": f"Mated queries not identified while {rate} of the unmated ones are accepted.",
        "ttr": f"Queries with a mate that accept anything while {rate} of strangers are let in.",
        "mrep": f"Ranking and accepting at once, while {rate} of strangers are let in.",
        "mvp": f"How clean and complete what is accepted is, while {rate} of strangers are let in.",
        "mrp": f"How early accepted mates are found, while {rate} of strangers are let in.",
        "mfr": f"How much strangers accept, where {rate} of them accept anything.",
    }.get(metric.name)
