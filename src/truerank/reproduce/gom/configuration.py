"""The two open sets of the study, and the eight models that are trained on each.

Half of the test classes are strangers: their images share one camera, so that all mates of such a
query are junk and it has nothing to find. All else is leave-one-out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from truerank.datasets.base import Dataset
from truerank.reproduce.request import Request
from truerank.reproduce.sets import emoji, quickdraw
from truerank.reproduce.trained import Make, at_defaults, few_of_each_class

__all__ = ["LOSSES", "RATES", "SHARES", "benchmarks", "limits_of", "metrics_of", "with_strangers"]

LOSSES = (
    "contrastive", "triplet", "multi_similarity", "smooth_ap", "recall_at_k",
    "normalized_softmax", "arcface", "proxy_nca_plus_plus",
)  # fmt: skip
RATES = ("0.01", "0.05")
"""FARs at which models are compared; the first is the paper's field's own."""
SHARES = (0.01, 0.1, 0.5)
"""B as a share of the gallery."""


def with_strangers(data: Dataset) -> Dataset:
    """A data set in whose test split every second class has nothing to find."""
    labels = data.fine_labels
    classes = np.unique(labels[data.splits["test"]])
    strangers = np.isin(labels, classes[1::2])
    own = data.groups.astype(str) if data.groups is not None else np.arange(len(data)).astype(str)
    alone = np.array([f"stranger {label}" for label in labels.tolist()])
    is_test = np.zeros(len(data), bool)
    is_test[data.splits["test"]] = True
    return replace(data, groups=np.where(strangers & is_test, alone, own))


def limits_of(gallery: int) -> dict[float, int]:
    """B for each share of the gallery."""
    return {share: max(1, round(share * gallery)) for share in SHARES}


def metrics_of(gallery: int, rates: tuple[str, ...]) -> list[str]:
    """What every model is scored by."""
    limits = limits_of(gallery)
    middle = limits[SHARES[1]]
    found = ["hit@1", "map", "minp", "mvp_max", "mrep_max", "tau_max", "mrep", "tau_nz"]
    found += [f"mfr@b={limit}" for limit in limits.values()]
    found += [f"mfr@b={middle},scale=minmax"]
    for rate in rates:
        found += [f"dir@far={rate}", f"mrep@far={rate}", f"mvp@far={rate}", f"mrp@far={rate}"]
        found += [f"mfr@b={middle},far={rate}"]
    return found


def benchmarks(request: Request) -> dict[str, Make]:
    """What makes the configuration and the data of each open set."""
    if request.quick:
        return {"emoji": lambda: _open_set("emoji", _small(emoji(request)), True)}
    return {
        "emoji": lambda: _open_set("emoji", emoji(request), False),
        "quickdraw": lambda: _open_set(
            "quickdraw", few_of_each_class(quickdraw(request), 50), False
        ),
    }


def _open_set(name: str, data: Dataset, quick: bool) -> tuple[dict[str, Any], Dataset]:
    """A configuration, and the data with strangers."""
    open_set = with_strangers(data)
    gallery = len(open_set.splits["test"])
    rates = ("0.1",) if quick else RATES
    names = LOSSES[:3] if quick else LOSSES
    size = {"emoji": 40, "quickdraw": 28}[name]
    config = {
        "data": {"name": name},
        "protocol": {
            "preset": "smoke" if quick else "standard", "folds": 2,
            "trials": 1 if quick else 4, "startup": 1 if quick else 2,
            "reruns": 2 if quick else 5, "metric": "map@r",
            "metrics": metrics_of(gallery, rates),
        },
        "shared": {
            "model": {"trunk": "convnet", "dimensions": 64},
            "augmentation": {"resize": size + 4, "crop": size, "scale": [0.4, 1.0], "flip": 0},
            "sampler": {"classes": 16, "samples": 4},
            "optimiser": {"name": "adam", "lr": 1e-3},
            "training": {
                "epochs": 1 if quick else 8, "iterations": 20 if quick else 200,
                "patience": 3, "precision": "float32", "deterministic": False,
            },
        },
        "methods": [{"name": loss, "parameters": at_defaults(loss)} for loss in names],
    }  # fmt: skip
    return config, open_set


def _small(data: Dataset) -> Dataset:
    """Some of the classes, as many to train on as to test."""
    kept = []
    for split in ("train", "test"):
        rows = data.splits[split]
        classes = np.unique(data.fine_labels[rows])[:60]
        kept.append(rows[np.isin(data.fine_labels[rows], classes)])
    return data.subset(np.sort(np.concatenate(kept)))
