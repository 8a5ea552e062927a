"""What the Reality Check says about its methods: their names, years, and the gains they claimed."""

from __future__ import annotations

import re

from truerank.benchmark.methods import Method

__all__ = ["CLAIMED", "SOURCE", "TABLE_6", "shown_name", "year_of"]

SOURCE = "Musgrave, Belongie & Lim, A Metric Learning Reality Check, ECCV 2020"
TABLE_6 = {
    "contrastive": ("Contrastive", 2006),
    "triplet": ("Triplet", 2006),
    "proxy_nca": ("ProxyNCA", 2017),
    "margin": ("Margin", 2017),
    "normalized_softmax": ("N. Softmax", 2017),
    "cosface": ("CosFace", 2018),
    "arcface": ("ArcFace", 2019),
    "fastap": ("FastAP", 2019),
    "snr_contrastive": ("SNR", 2019),
    "multi_similarity": ("MS", 2019),
    "multi_similarity_mined": ("MS+Miner", 2019),
    "soft_triple": ("SoftTriple", 2019),
}
_LATER = {"smooth_ap": "Smooth-AP", "roadmap": "ROADMAP", "recall_at_k": "Recall@k"}
CLAIMED = {"contrastive": 1.0, "triplet": 0.5}
"""Relative gains over a baseline that many papers claim to exceed, as section 4.2 says."""


def shown_name(method: Method) -> str:
    """The paper's name of a method that is one of its losses, else the method's own."""
    loss = method.loss.get("name") if isinstance(method.loss, dict) else None
    if loss != method.name:
        return method.name
    if method.name in TABLE_6:
        return TABLE_6[method.name][0]
    return _LATER.get(method.name, method.name)


def year_of(method: Method) -> int | None:
    """When a method was proposed: as the paper's Table 6 has it, else from its citation."""
    loss = method.loss.get("name") if isinstance(method.loss, dict) else None
    if loss in TABLE_6:
        return TABLE_6[loss][1]
    found = re.findall(r"\b(?:19|20)\d\d\b", method.citation)
    return int(found[-1]) if found else None
