"""Metrics as the field writes them in tables and figures: MAP@R, TAR@FAR=0.1%, NDCG@10.

Metric strings come in; names for people go out, and what those mean that are read in two ways.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from truerank.core import registry
from truerank.core.metric import Metric

__all__ = ["field_names", "meanings"]

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


def field_names(metrics: Iterable[str]) -> dict[str, str]:
    """The name of each metric of a table; no two share one.

    Examples
    --------
    >>> list(field_names(["map@r", "hit@1", "tar@far=0.001", "ndcg@10,gain=linear"]).values())
    ['MAP@R', 'Recall@1', 'TAR@FAR=0.1%', 'NDCG@10, gain=linear']
    >>> list(field_names(["hit@10", "recall@10"]).values())
    ['Hit@10', 'Recall@10']
    """
    parsed = {text: registry.of_result(text) for text in metrics}
    recall = any(metric.name == "recall" for metric in parsed.values())
    return {text: _written(metric, recall) for text, metric in parsed.items()}


def meanings(metrics: Iterable[str]) -> list[str]:
    """What is meant by the names that are read in two ways: 'Recall@k: share of ...'."""
    found = dict.fromkeys(registry.of_result(text).name for text in metrics)
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


def _percent(text: str) -> str:
    """Rates in decimal notation, or a range of them, in percent: 0.1%, 1%:10%."""
    rates = (100 * Decimal(part) for part in text.split(":"))
    return ":".join(f"{rate.normalize():f}%" for rate in rates)
