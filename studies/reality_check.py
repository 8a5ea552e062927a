"""Study of the Reality Check: a finished benchmark judged by its rule, and two figures.

`truerank benchmark` runs the benchmark; its folder, or the table.json in it, is the input. Toy
spaces and random rows follow the paper's Figures 1 and 2.
"""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt

from studies.claims import IN_DIRECTION, NOT_REPRODUCED, REPRODUCED, UNDECIDED, Claim, Evidence
from studies.page import COLOURS, INK, QUIET, Drawing, Page, Sheet, panels
from studies.runner import Ledger, Request
from truerank._util.errors import InputError
from truerank._util.text import count
from truerank.evaluation.evaluate import evaluate
from truerank.io.reading import read_json

CITATION = "Musgrave, Belongie, Lim: A Metric Learning Reality Check. ECCV 2020."
INTRODUCTION = (
    "This page tests four claims of the Reality Check: losses differ little when all are tuned "
    "by the same protocol, tuning explains much of the published gains, MAP@R shows differences "
    "between embedding spaces that Recall@1 does not, and NMI is high for random embeddings. "
    "Other papers claim gains of tens of percent over the contrastive and the triplet loss."
)
PAPER_GAINS = {
    "concatenated": "1.3 to 9.2; others' papers claim more than 100",
    "separated": "3.3 to 7.5; others' papers claim more than 100",
}
"""Best loss over contrastive in MAP@R, less 1, on CUB, Cars and SOP: Tables 3 to 5."""
WORDS = {"flat": REPRODUCED, "not flat": NOT_REPRODUCED, "undecided": UNDECIDED}


def run(request: Request) -> Page:
    """Judge a finished benchmark, and draw what metrics say of toy spaces."""
    table = read_table(request)
    sizes = {"rows": 1000, "classes": [10, 100, 500]} if request.quick else {
        "rows": 10_000, "classes": list(CLASSES)
    }  # fmt: skip
    ledger = Ledger(request.folder / "reality-check-ledger.json", sizes, request.clock)
    for name in SPACES:
        ledger.get(f"toy/{name}", partial(toy_scores, name))
    rows: Any = sizes["rows"]
    for classes in sizes["classes"]:  # type: ignore[attr-defined]
        ledger.get(f"random/{classes}", partial(random_scores, rows, classes))
    entries = ledger.entries
    spaces = {name: entries[f"toy/{name}"] for name in SPACES}
    chance = {int(k.partition("/")[2]): v for k, v in entries.items() if k.startswith("random/")}
    return Page(
        "reality-check",
        "The Reality Check: losses and metrics compared under one protocol",
        CITATION,
        INTRODUCTION,
        [
            _described(table),
            f"Random rows: {rows:,} of 64 dimensions. Toy spaces: four classes of {EACH} "
            "points, Euclidean distance.",
        ],
        [_flat(table, read_longer(request)), _tuned(table), _toys(spaces), _chance(chance)],
        [_table(table), _toy_sheet(spaces)],
        draw(table, spaces, chance),
        NOTES,
        request.quick,
        {"table": table, "entries": entries},
    )


NOTES = (
    "Several of the paper's published optima lie at the ends of their ranges.",
    "Section 1.4 has a miner choose negatives that are closer to the anchor than its hardest "
    "negative. No such negatives exist: the hardest negative is the closest. The "
    "multi-similarity miner compares negatives with the hardest positive.",
    "Section 3.1 crops 'a size between 40 and 256'. The released code has a scale from .16, which "
    "is 40/256 = .156, but a scale is a ratio of areas: the smallest square crop has a side of "
    "sqrt(.16) x 256 = 102.",
)


def read_table(request: Request) -> Mapping[str, Any]:
    """The table of a finished benchmark."""
    given = request.file("benchmark")
    if given is None:
        raise InputError(
            "a finished benchmark is needed: --data benchmark=FOLDER, the folder of `truerank "
            "benchmark` or the table.json in it."
        )
    path = given / "table.json" if given.is_dir() else Path(given)
    found = read_json(path)
    wanted = {"rows", "verdict", "spread", "metric", "openings"}
    if not isinstance(found, dict) or not wanted <= set(found):
        raise InputError(f"{path} is no table of a finished benchmark.")
    return found


def read_longer(request: Request) -> Mapping[str, Any] | None:
    """Learning curves of longer trainings, where `longer.json` lies beside the table."""
    given = request.file("benchmark")
    assert given is not None
    path = (given if given.is_dir() else Path(given).parent) / "longer.json"
    return read_json(path) if path.exists() else None


def _described(table: Mapping[str, Any]) -> str:
    looks = table["openings"]
    return (
        f"{table['title']}: {table['trials']} trials x {table['folds']} folds for each method, "
        f"{table['reruns']} reruns, preset {table['preset']}, seed {table['seed']}. The log of "
        f"test evaluations has {looks['count']} entries, "
        f"{count(looks['second_looks'], 'repetition')}, and ends in `{looks['head'][:16]}`."
    )


def _flat(table: Mapping[str, Any], longer: Mapping[str, Any] | None = None) -> Claim:
    verdict = table["verdict"] or {}
    evidence, words = [], []
    for part, found in verdict.items():
        if found is None:
            continue
        ends = found["interval"]
        words.append(WORDS[found["verdict"]])
        evidence.append(
            Evidence(
                f"{part}: {found['best']} over contrastive in {table['metric']}, less 1 (%)",
                found["gain"],
                None if ends is None else (ends[0], ends[1]),
                PAPER_GAINS[part], 100, 1,
            )
        )  # fmt: skip
    if not words:
        word = UNDECIDED
    elif len(set(words)) == 1:
        word = words[0]
    else:
        word = UNDECIDED if UNDECIDED in words else IN_DIRECTION
    return Claim(
        "a",
        "If all are tuned by the same protocol, the losses of a decade differ little: the field "
        "is flat (section 4.2).",
        "Fixed before the test evaluation: flat if the upper end of the simultaneous 95 % "
        "interval of best/contrastive - 1 in MAP@R (over runs and test classes) is below 10 %, "
        "not flat if the lower end is above, else undecided; for both the concatenated and the "
        "separated scores.",
        word,
        evidence,
        "" if longer is None else _with_more_iterations(longer, table["metric"]),
    )


def _with_more_iterations(longer: Mapping[str, Any], metric: str) -> str:
    """Results of longer trainings on the folds of the development split, against contrastive."""
    curves = {
        name: [fmean(curve[epoch][2] for curve in folds) for epoch in range(len(folds[0]))]
        for name, folds in longer["curves"].items()
    }
    base = curves["contrastive"]
    points = [epoch for epoch in (10, 20, 30, 50, 100) if epoch < len(base)]
    sentences = []
    for name, values in curves.items():
        found = ", ".join(f"{100 * values[epoch]:.1f}" for epoch in points)
        gains = ", ".join(f"{100 * (values[epoch] / base[epoch] - 1):+.0f} %" for epoch in points)
        sentences.append(f"{name} {found}" + ("" if name == "contrastive" else f" ({gains})"))
    when = ", ".join(f"{epoch * longer['epoch']:,}" for epoch in points)
    return (
        "Most learning curves still rise when the budget ends, so the gap was measured again "
        "with longer training. After longer training with the parameters found, on the "
        f"development split only, the validation {metric} after {when} iterations is, in percent "
        "(against contrastive): "
        + "; ".join(sentences)
        + ". The learning rates were searched with the short budget."
    )


def _tuned(table: Mapping[str, Any]) -> Claim:
    evidence, narrower = [], []
    for part, found in table["spread"].items():
        searched, default = found["searched"], found["default"]
        if searched["relative"] is None or default["relative"] is None:
            continue
        narrower.append(searched["relative"] < default["relative"])
        for words, one in (("searched", searched), ("default", default)):
            evidence.append(
                Evidence(
                    f"{part}: best over worst method less 1, {words} parameters (%)",
                    one["relative"], scale=100, digits=1, reason="one search, no interval",
                )
            )  # fmt: skip
    return Claim(
        "b",
        "Much of the difference between published losses is due to how well each was tuned "
        "(sections 2 and 4).",
        "Reproduced if the methods lie closer together with searched parameters than with their "
        "default ones, for both the concatenated and the separated scores; in direction if for "
        "one.",
        UNDECIDED if not narrower else REPRODUCED if all(narrower)
        else IN_DIRECTION if any(narrower) else NOT_REPRODUCED,
        evidence,
    )  # fmt: skip


def _toys(spaces: Mapping[str, Mapping[str, float]]) -> Claim:
    a, b, c = spaces.values()
    rises = a["map@r"] < b["map@r"] < c["map@r"]
    blind = b["hit@1"] >= 0.99 * c["hit@1"]
    evidence = [
        Evidence(f"{name}: {TOY_METRICS[metric]} (%)", found[metric], scale=100, digits=1)
        for name, found in spaces.items()
        for metric in TOY_METRICS
    ]
    return Claim(
        "c",
        "MAP@R distinguishes embedding spaces that Recall@1 does not (Figure 1).",
        "Reproduced if MAP@R rises from each of three spaces to the next, while Recall@1 of the "
        "second is within 1 % of that of the third.",
        REPRODUCED if rises and blind else IN_DIRECTION if rises else NOT_REPRODUCED,
        evidence,
    )


def _chance(found: Mapping[int, Mapping[str, float]]) -> Claim:
    few, many = min(found), max(found)
    rises = found[many]["nmi"] - found[few]["nmi"]
    evidence = [
        Evidence(f"{metric}: at {many:,} classes less at {few:,} (points)",
                 found[many][metric] - found[few][metric], scale=100, digits=1)
        for metric in RANDOM_METRICS
    ]  # fmt: skip
    return Claim(
        "d",
        "NMI is high for random embeddings, and increases with the number of classes (Figure 2).",
        "Reproduced if NMI of random embeddings with random labels rises by at least 50 points "
        "from the fewest classes to the most; in direction if it rises.",
        REPRODUCED if rises >= 0.5 else IN_DIRECTION if rises > 0 else NOT_REPRODUCED,
        evidence,
        f"NMI reaches {100 * found[many]['nmi']:.1f} %; MAP@R stays at "
        f"{100 * max(one['map@r'] for one in found.values()):.1f} % or below. Where every cluster "
        "of S rows holds S classes, NMI is 1 - log S/log C for C classes of S rows: 84.9 % for "
        "10,000 classes of 4. AMI corrects for that.",
    )


def _table(table: Mapping[str, Any]) -> Sheet:
    metric = table["metric"]
    rows = []
    for row in table["rows"]:
        cells = []
        for part in ("concatenated", "separated"):
            score = row[part].get(metric)
            if score is None:
                cells.append("")
                continue
            text = f"{100 * score['mean']:.2f}"
            if score["interval"] is not None:
                text += f" ± {50 * (score['interval'][1] - score['interval'][0]):.2f}"
            cells.append(text)
        default = row.get("default", {}).get("separated", {}).get(metric)
        cells.append("" if default is None else f"{100 * default['mean']:.2f}")
        ranks = row.get("ranks", {}).get("separated")
        cells.append("" if ranks is None else " to ".join(map(str, sorted(set(ranks)))))
        rows.append([row["name"], *cells, "; ".join(row.get("notes", []))])
    return Sheet(
        f"{table['title']}: {metric} in percent, mean over reruns and its 95 % interval",
        ["method", "concatenated", "separated", "default, separated", "ranks, separated", "notes"],
        rows,
        "Ranks: the range that is possible given the significant differences (by Holm's "
        "correction).",
    )


def _toy_sheet(spaces: Mapping[str, Mapping[str, float]]) -> Sheet:
    rows = [
        [name, *(f"{100 * found[metric]:.1f}" for metric in TOY_METRICS)]
        for name, found in spaces.items()
    ]
    return Sheet("Three toy spaces, in percent", ["space", *TOY_METRICS.values()], rows)


# Spaces that only some metrics distinguish, and scores of random rows.
#
# After the paper's Figures 1 and 2.


Disc = tuple[float, float, float]
"""Centre and radius."""
SPACES: dict[str, list[Disc]] = {
    "touching": [(x, y, 1.0) for x in (-1.0, 1.0) for y in (-1.0, 1.0)],
    "a little apart": [(x, y, 1.0) for x in (-1.3, 1.3) for y in (-1.3, 1.3)],
    "well apart": [(x, y, 1.0) for x in (-3.0, 3.0) for y in (-3.0, 3.0)],
}
TOY_METRICS = {
    "hit@1": "Recall@1", "nmi": "NMI", "pairwise_f1": "F1", "r_precision": "R-precision",
    "map@r": "MAP@R",
}  # fmt: skip
RANDOM_METRICS = ("nmi", "pairwise_f1", "ami", "precision@1", "map@r")
CLASSES = (10, 30, 100, 300, 1000, 2500, 5000)
EACH = 40


def space(discs: list[Disc]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Points scattered evenly over each disc, on a grid of 1/64, and their classes."""
    dice = random.Random(2020)
    points = []
    for x, y, radius in discs:
        inside = 0
        while inside < EACH:
            across, up = dice.uniform(-1, 1), dice.uniform(-1, 1)
            if math.hypot(across, up) <= 1:
                points.append((round(64 * (x + radius * across)), round(64 * (y + radius * up))))
                inside += 1
    return np.array(points) / 64, np.repeat(np.arange(len(discs)), EACH)


def _scores(rows: Any, labels: Any, metrics: list[str], distance: str) -> dict[str, float]:
    with warnings.catch_warnings():  # that clustering metrics say little is what is shown here
        warnings.simplefilter("ignore")
        found = evaluate(rows, labels, metrics=metrics, distance=distance, confidence=None)
    return {metric: float(found[metric].value) for metric in metrics}


def toy_scores(name: str) -> dict[str, float]:
    """What each metric says of a space, by Euclidean distance."""
    return _scores(*space(SPACES[name]), list(TOY_METRICS), "euclidean")


def random_scores(rows: int, classes: int) -> dict[str, float]:
    """What each metric says of random rows of 64 dimensions with random labels."""
    rng = np.random.default_rng([2020, rows, classes])
    labels = rng.permutation(np.arange(rows) % classes)
    return _scores(rng.standard_normal((rows, 64)), labels, list(RANDOM_METRICS), "cosine")


# The figures of the Reality Check: toy spaces, random embeddings, default against tuned.


Scores = Mapping[str, float]


def draw(
    table: Mapping[str, Any], spaces: Mapping[str, Scores], chance: Mapping[int, Scores]
) -> list[Drawing]:
    """All figures of the page."""
    return [
        Drawing(
            "toy-spaces",
            "Three embedding spaces as in the paper's Figure 1, and their scores in percent.",
            _spaces(spaces),
        ),
        Drawing(
            "random-embeddings",
            "Scores of random embeddings with random labels by the number of classes, as in the "
            "paper's Figure 2.",
            _drawn_chance(chance),
        ),
        Drawing(
            "default-and-tuned",
            "Each method with its default parameters (cross) and with searched ones (dot, with its "
            "interval over reruns), separated scores.",
            _drawn_tuned(table),
        ),
    ]


def _spaces(scores: Mapping[str, Scores]) -> Any:
    figure, axes = panels(1, len(scores), width=3.2, height=3.8)
    for place, (name, found) in zip(axes[0], scores.items(), strict=True):
        points, labels = space(SPACES[name])
        for label in range(labels.max() + 1):
            mine = points[labels == label]
            place.plot(mine[:, 0], mine[:, 1], ".", color=COLOURS[label], markersize=3)
        place.set_aspect("equal")
        place.set_xticks([])
        place.set_yticks([])
        words = [f"{TOY_METRICS[m]} {100 * found[m]:.1f}" for m in TOY_METRICS]
        place.set_title(name, fontsize=9)
        place.set_xlabel("\n".join(words), fontsize=8)
    return figure


def _drawn_chance(found: Mapping[int, Scores]) -> Any:
    figure, axes = panels(1, 1, width=6, height=3.4)
    place = axes[0, 0]
    classes = sorted(found)
    for metric, colour in zip(RANDOM_METRICS, COLOURS, strict=False):
        values = [100 * found[count][metric] for count in classes]
        place.plot(classes, values, "o-", color=colour, markersize=3, lw=1.2, label=metric)
    place.set_xscale("log")
    place.set_xlabel("number of classes", fontsize=8)
    place.set_ylabel("score of random embeddings [%]", fontsize=8)
    place.legend(fontsize=7)
    return figure


def _drawn_tuned(table: Mapping[str, Any]) -> Any:
    metric = table["metric"]
    rows = [row for row in table["rows"] if "parameters" in row]
    figure, axes = panels(1, 1, width=6.4, height=0.8 + 0.28 * len(rows))
    place = axes[0, 0]
    for number, row in enumerate(rows):
        score, default = row["separated"][metric], row["default"]["separated"].get(metric)
        if score["interval"] is not None:
            place.hlines(number, *(100 * end for end in score["interval"]), color=INK, lw=1)
        place.plot([100 * score["mean"]], [number], "o", color=COLOURS[0], markersize=4)
        if default is not None:
            place.plot([100 * default["mean"]], [number], "x", color=QUIET)
    place.set_yticks(range(len(rows)), [row["name"] for row in rows], fontsize=8)
    place.invert_yaxis()
    place.set_xlabel(f"{metric} [%]", fontsize=8)
    return figure
