"""The rows of the study on hierarchies: fine labels alone, sums over levels, the tree itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from truerank.datasets.base import Dataset
from truerank.reproduce.request import Request
from truerank.reproduce.sets import emoji, grocery
from truerank.reproduce.trained import Make, at_defaults

__all__ = ["ALPHAS", "FINE", "LAMBDAS", "OPTIMISATION", "SUMMED", "TREE", "benchmarks"]

FINE = ("TL_SH", "NSM", "NCA++", "Smooth-AP", "ROADMAP")
SUMMED = ("sum TL", "sum NSM", "sum NCA++")
TREE = ("CSL", "HAPPIER", "HAPPIER_F", "sigmoid H-AP")
ALPHAS = (0.5, 1.0, 2.0, 3.0, 5.0)
LAMBDAS = (0.0, 0.1, 0.3, 0.5, 0.9)
OPTIMISATION = ("HAPPIER", "no pull back", "no clusters", "sigmoids", "sum-wAP relevance")
"""Rows of the paper's Tables 5 and 6."""
METRICS = (
    "h_ap", "asi", "ndcg", "hit@1", "map@r", "map", "hit@1,level=1", "map@level=1",
    "hit@1,level=2", "map@level=2",
)  # fmt: skip


def _rows() -> dict[str, dict[str, Any]]:
    """Every row of the main table."""
    losses = {
        "TL_SH": "triplet", "NSM": "normalized_softmax", "NCA++": "proxy_nca_plus_plus",
        "Smooth-AP": "smooth_ap", "ROADMAP": "roadmap", "CSL": "csl", "HAPPIER": "happier",
        "HAPPIER_F": "happier_f", "sigmoid H-AP": "smooth_h_ap",
    }  # fmt: skip
    rows: dict[str, dict[str, Any]] = {
        name: {"loss": loss, "parameters": at_defaults(loss)} for name, loss in losses.items()
    }
    rows["TL_SH"]["miner"] = "semihard"
    for name, fine in (("sum TL", "TL_SH"), ("sum NSM", "NSM"), ("sum NCA++", "NCA++")):
        summed = {key: value for key, value in rows[fine].items() if key != "miner"}
        rows[name] = summed | {"every_level": True}
    return rows


def _ablations() -> dict[str, dict[str, Any]]:
    """Rows that change one thing of HAPPIER each."""

    def happier(**changed: Any) -> dict[str, Any]:
        return {"loss": "happier", "parameters": at_defaults("happier", **changed)}

    found = {
        "HAPPIER": happier(),
        "no pull back": happier(pull_back=False),
        "no clusters": happier(cluster_weight=0.0),
        "sigmoids": {"loss": "smooth_h_ap", "parameters": at_defaults("smooth_h_ap")},
        "sum-wAP relevance": {
            "loss": "happier_sum_wap",
            "parameters": at_defaults("happier_sum_wap"),
        },
    }
    found |= {f"alpha {a:g}": happier(alpha=a) for a in ALPHAS if a != 1.0}
    found |= {f"lambda {w:g}": happier(cluster_weight=w) for w in LAMBDAS if w not in (0.0, 0.1)}
    return found


def benchmarks(request: Request) -> dict[str, Make]:
    """What makes the configuration and the data of each part; the first one decides."""
    rows, ablations = _rows(), _ablations()
    if request.quick:
        some = {n: rows[n] for n in ("Smooth-AP", "sum TL", "CSL", "HAPPIER", "HAPPIER_F")}
        return {
            "emoji": lambda: (_config("emoji", some, True, 40, reruns=2), _small(emoji(request)))
        }
    found: dict[str, Make] = {
        "emoji": lambda: (_config("emoji", rows, False, 40, reruns=5), emoji(request)),
        "ablations": lambda: (
            _config("emoji", ablations, False, 40, reruns=3, trials=2),
            emoji(request),
        ),
    }
    if request.file("grocery") is not None or (request.folder / "grocery").is_dir():
        config = _config("grocery", rows, False, 56, reruns=5, trials=2)
        config["data"]["split"] = "stratified"
        found["grocery"] = lambda: (config, grocery(request))
    return found


def _config(
    name: str, rows: dict[str, dict[str, Any]], quick: bool, size: int, *, reruns: int,
    trials: int = 4,
) -> dict[str, Any]:  # fmt: skip
    classes, nodes = (8, 2) if quick else (32, 4)
    if name == "grocery":
        classes, nodes = 16, 2
    return {
        "data": {"name": name},
        "protocol": {
            "preset": "smoke" if quick else "standard", "folds": 2,
            "trials": 1 if quick else trials, "startup": 1 if quick else min(2, trials),
            "reruns": 2 if quick else reruns, "metric": "h_ap", "metrics": list(METRICS),
            "units": "finer",
        },
        "shared": {
            "model": {"trunk": "convnet", "dimensions": 128},
            "augmentation": {"resize": size + 4, "crop": size, "scale": [0.4, 1.0], "flip": 0},
            "sampler": {
                "kind": "hierarchical", "classes": classes, "samples": 4, "nodes": nodes,
                "level": 1,
            },
            "optimiser": {"name": "adam", "lr": 1e-3},
            "training": {
                "epochs": 1 if quick else 8, "iterations": 20 if quick else 200, "patience": 3,
                "precision": "float32", "deterministic": False,
            },
        },
        "methods": [{"name": row, **given} for row, given in rows.items()],
    }  # fmt: skip


def _small(data: Dataset) -> Dataset:
    """Some emoji of some categories, for training and for the test."""
    kept = []
    for split in ("train", "test"):
        rows = data.splits[split]
        labels = data.labels[rows]
        some = np.unique(labels[:, 0])[:4]
        for category in some.tolist():
            here = rows[labels[:, 0] == category]
            fine = np.unique(data.fine_labels[here])[:16]
            kept.append(here[np.isin(data.fine_labels[here], fine)])
    return data.subset(np.sort(np.concatenate(kept)))
