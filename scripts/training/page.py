"""Write docs/results/training.md from the scores: one table for each question of the experiments.

python scripts/training/page.py docs/results/training.json docs/results/training.md
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import textwrap
from pathlib import Path
from typing import Any

T_975 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776}
"""Student's t for a 95 % interval, by the number of seeds."""

TITLES = {
    "precision@1": "hit@1",
    "r_precision": "R-precision",
    "map@r": "MAP@R",
    "opis": "OPIS x 1000",
    "h_ap": "H-AP",
    "asi": "ASI",
    "ndcg": "NDCG",
}
NAMES = {
    "pretrained": "ImageNet features (PCA)",
    "arcface": "ArcFace",
    "smooth_ap": "Smooth-AP",
    "multi_similarity": "multi-similarity",
    "arcface+tcm": "ArcFace + TCM",
    "smooth_ap+tcm": "Smooth-AP + TCM",
    "roadmap": "ROADMAP (fine labels)",
    "happier": "HAPPIER (three levels)",
}
TABLES = (
    (
        "Losses on QuickDraw-345",
        "quickdraw",
        ("pretrained", "arcface", "smooth_ap", "multi_similarity"),
        ("precision@1", "r_precision", "map@r"),
    ),
    (
        "Losses on the emoji families",
        "emoji",
        ("pretrained", "arcface", "smooth_ap", "multi_similarity"),
        ("precision@1", "r_precision", "map@r"),
    ),
    (
        "Training with the hierarchy, or with the finest labels alone",
        "emoji",
        ("pretrained", "smooth_ap", "roadmap", "happier"),
        ("h_ap", "asi", "ndcg", "map@r"),
    ),
    (
        "One threshold for all classes: TCM on QuickDraw-345",
        "quickdraw",
        ("arcface", "arcface+tcm", "smooth_ap", "smooth_ap+tcm"),
        ("precision@1", "map@r", "opis"),
    ),
    (
        "One threshold for all classes: TCM on the emoji families",
        "emoji",
        ("arcface", "arcface+tcm", "smooth_ap", "smooth_ap+tcm"),
        ("precision@1", "map@r", "opis"),
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scores", type=Path)
    parser.add_argument("page", type=Path)
    options = parser.parse_args()
    options.page.write_text(page(json.loads(options.scores.read_text())))


def page(facts: dict[str, Any]) -> str:
    runs = facts["runs"]
    trained = [run for run in runs if "config" in run]
    lines = ["# What the trainer reaches", "", *introduction(facts, trained)]
    for title, data, names, metrics in TABLES:
        rows = [row for name in names if (row := cells(runs, f"{data}-{name}", name, metrics))]
        there = [metric for metric in metrics if any(row[1].get(metric) for row in rows)]
        if not rows or not there:
            continue
        lines += ["", f"## {title}", ""]
        lines.append("| | " + " | ".join(TITLES[metric] for metric in there) + " |")
        lines.append("|---|" + "---:|" * len(there))
        for name, row in rows:
            lines.append(f"| {name} | " + " | ".join(row.get(m, "") for m in there) + " |")
    lines += ["", *configurations(facts, trained)]
    wrapped = [line if line[:1] in "|# " else textwrap.fill(line, 100) for line in lines]
    return "\n".join(wrapped) + "\n"


def introduction(facts: dict[str, Any], trained: list[dict[str, Any]]) -> list[str]:
    first = trained[0]
    config, environment = first["config"], first["environment"]
    training, sampler = config["training"], config["sampler"]
    images = training["epochs"] * training["iterations"] * sampler["classes"] * sampler["samples"]
    seeds = sorted({run["seed"] for run in trained})
    machine = environment.get("gpu", environment["processor"])
    return [
        "EfficientNet-lite0 with ImageNet weights, one linear layer to "
        f"{config['model']['dimensions']} dimensions, trained on half of the classes (emoji: three "
        "quarters) and tested on the others, leave-one-out, cosine distance. In percent, except "
        f"OPIS, which is better when smaller. Mean of {len(seeds)} seeds and 95 % interval "
        "(Student's t): it covers the seeds alone, not the choice of classes or of the "
        "configuration.",
        "",
        f"Every run saw {images:,} images of {config['augmentation']['crop']} pixels in "
        f"{training['epochs'] * training['iterations']} iterations: enough to compare, not enough "
        "to call any loss done. The learning rate of each row was chosen from three on a quarter "
        "of the training classes; a row with TCM has the rate of the row without. "
        f"{len(trained)} runs and the search took {facts['seconds'] / 60:.1f} minutes on one "
        f"{machine} (torch {environment['versions']['torch']}). Scores are those of embeddings "
        "rounded to 8 bits a component, as they were saved; for the model of the tutorial that "
        "moved hit@1 by 0.03 and MAP@R by less than 0.001.",
    ]


def cells(
    runs: list[dict[str, Any]], key: str, name: str, metrics: tuple[str, ...]
) -> tuple[str, dict[str, str]] | None:
    mine = [run["scores"] for run in runs if run["key"] == key]
    if not mine:
        return None
    found = {}
    for metric in metrics:
        values = [scores[metric] for scores in mine if scores.get(metric) is not None]
        if values:
            found[metric] = interval(
                [value * (1000 if metric == "opis" else 100) for value in values]
            )
    return NAMES[name], found


def interval(values: list[float]) -> str:
    mean = statistics.fmean(values)
    if len(values) < 2:
        return f"{mean:.2f}"
    half = T_975[len(values)] * statistics.stdev(values) / math.sqrt(len(values))
    return f"{mean:.2f} ± {half:.2f}"


def configurations(facts: dict[str, Any], trained: list[dict[str, Any]]) -> list[str]:
    lines = ["## Configurations", "", "| run | loss | batch | learning rate | searched |"]
    lines.append("|---|---|---|---:|---|")
    seen = set()
    for run in trained:
        if run["key"] in seen:
            continue
        seen.add(run["key"])
        loss, sampler = run["config"]["loss"], run["config"]["sampler"]
        plus = "".join(f" + {part['weight']:g} {part['name']}" for part in loss["plus"])
        batch = f"{sampler['classes']} x {sampler['samples']}"
        if sampler["kind"] == "hierarchical":
            batch += f" of {sampler['nodes']} categories"
        tried = [
            f"{s['rate']:g}: {100 * s['validation']:.2f}"
            for s in sorted(facts["search"], key=lambda s: s["rate"])
            if s["key"] == run["key"]
        ]
        shown = ", ".join(tried) or "as without TCM"
        lines.append(
            f"| {run['key']} | {loss['name']}{plus} | {batch} | {run['rate']:g} | {shown} |"
        )
    lines += [
        "",
        "`searched`: MAP@R in percent on the first fold of the training classes, after half of the "
        "iterations. Everything else is the same in all rows; `training.json` beside this page has "
        "every field of every run, and each seed's scores.",
        "",
        "    python scripts/training/carry.py carry          # data, weights and packages",
        "    python scripts/training/run.py OUT --site carry/site",
        "    python scripts/training/score.py OUT docs/results/training.json",
        "    python scripts/training/page.py docs/results/training.json docs/results/training.md",
    ]
    return lines


if __name__ == "__main__":
    main()
