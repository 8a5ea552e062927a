"""The rows of the study on thresholds: four losses, each alone, with TCM and with a control.

What is added is searched for the smallest OPIS of the validation folds among trials whose MAP@R is
at least that of the loss alone, less half a point.
"""

from __future__ import annotations

from typing import Any

from truerank.datasets.base import Dataset
from truerank.reproduce.request import Request
from truerank.reproduce.sets import grocery, quickdraw
from truerank.reproduce.trained import Make, at_defaults, few_of_each_class

__all__ = ["BASES", "CONTROL", "LESS", "TCM", "benchmarks"]

BASES = {
    "ProxyNCA": "proxy_nca",
    "ArcFace": "arcface",
    "Smooth-AP": "smooth_ap",
    "Recall@k": "recall_at_k",
}
TCM, CONTROL = "+tcm", "+contrastive"
LESS = 0.005
METRICS = ("opis", "opis@eps=0.1", "hit@1", "map@r")
WEIGHT = {"low": 0.1, "high": 10.0, "log": True}


def _rows(bases: dict[str, str]) -> list[dict[str, Any]]:
    found = []
    for name, loss in bases.items():
        base: dict[str, Any] = {"loss": loss, "parameters": at_defaults(loss)}
        objective = {"minimise": "opis", "of": name, "less": LESS}
        found.append({"name": name, **base})
        found.append(
            {
                "name": name + TCM, **base, "plus": [{"name": "tcm"}], "objective": objective,
                "search": {
                    "tcm.positive_margin": {"low": 0.6, "high": 1.0},
                    "tcm.negative_margin": {"low": 0.0, "high": 0.7},
                    "tcm.weight": WEIGHT,
                },
            }
        )  # fmt: skip
        found.append(
            {
                "name": name + CONTROL, **base, "plus": [{"name": "contrastive"}],
                "objective": objective,
                "search": {
                    "contrastive.positive_margin": {"low": 0.0, "high": 0.8},
                    "contrastive.negative_margin": {"low": 0.5, "high": 1.4},
                    "contrastive.weight": WEIGHT,
                },
            }
        )  # fmt: skip
    return found


def benchmarks(request: Request) -> dict[str, Make]:
    """What makes the configuration and the data of each part; the first one decides."""
    if request.quick:
        few = {name: BASES[name] for name in ("ArcFace", "Smooth-AP")}
        return {
            "disjoint": lambda: (
                _config("quickdraw", few, True, 28, "classes"),
                _small(quickdraw(request)),
            )
        }

    def drawings(split: str) -> tuple[dict[str, Any], Dataset]:
        config = _config("quickdraw", BASES, False, 28, split)
        return config, few_of_each_class(quickdraw(request), 50)

    found: dict[str, Make] = {
        "disjoint": lambda: drawings("classes"),
        "shared": lambda: drawings("images"),
    }
    if request.file("grocery") is not None or (request.folder / "grocery").is_dir():
        # A fold trains on 20 of its 81 classes.
        shop = _config("grocery", BASES, False, 56, "stratified", classes=16, trials=2)
        found["grocery"] = lambda: (shop, grocery(request))
    return found


def _small(data: Dataset) -> Dataset:
    """A few images of some classes, for training and for the test."""
    few = few_of_each_class(data, 10)
    rows = [row for split in ("train", "test") for row in few.splits[split][:400].tolist()]
    return few.subset(rows)


def _config(
    name: str, bases: dict[str, str], quick: bool, size: int, split: str, *, classes: int = 24,
    trials: int = 5,
) -> dict[str, Any]:  # fmt: skip
    return {
        "data": {"name": name, "split": split},
        "protocol": {
            "preset": "smoke" if quick else "standard", "folds": 2,
            "trials": 2 if quick else trials, "startup": 1 if quick else min(3, trials),
            "reruns": 2 if quick else 5, "metric": "map@r", "metrics": list(METRICS),
        },
        "shared": {
            "model": {"trunk": "convnet", "dimensions": 128},
            "augmentation": {"resize": size, "crop": size, "scale": [0.4, 1.0], "flip": 0},
            "sampler": {"classes": 8 if quick else classes, "samples": 4},
            "optimiser": {"name": "adam", "lr": 1e-3},
            "training": {
                "epochs": 1 if quick else 8, "iterations": 20 if quick else 200, "patience": 3,
                "precision": "float32", "deterministic": False,
            },
        },
        "methods": _rows(bases),
    }  # fmt: skip
