"""The study of the Reality Check: a finished benchmark by its own rule, and two figures.

The benchmark is run by `truerank benchmark`; its folder, or the table.json in it, is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from truerank.errors import InputError
from truerank.files import read_json
from truerank.reproduce.claims import (
    IN_DIRECTION,
    NOT_REPRODUCED,
    REPRODUCED,
    UNDECIDED,
    Claim,
    Evidence,
)
from truerank.reproduce.ledger import Ledger
from truerank.reproduce.page import Page, Sheet
from truerank.reproduce.reality_check import toys
from truerank.reproduce.reality_check.figures import draw
from truerank.reproduce.request import Request

__all__ = ["read_table", "run"]

CITATION = "Musgrave, Belongie, Lim: A Metric Learning Reality Check. ECCV 2020."
INTRODUCTION = (
    "Papers claim gains of tens of percent over the contrastive and the triplet loss. The Reality "
    "Check tuned all losses alike and found hardly any. It also showed that Recall@1, NMI and F1 "
    "miss or invent differences between embedding spaces, and proposed MAP@R."
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
        "rows": 10_000, "classes": list(toys.CLASSES)
    }  # fmt: skip
    ledger = Ledger(request.folder / "reality-check-ledger.json", sizes, request.clock)
    for name in toys.SPACES:
        ledger.get(f"toy/{name}", partial(toys.toy_scores, name))
    rows: Any = sizes["rows"]
    for classes in sizes["classes"]:  # type: ignore[attr-defined]
        ledger.get(f"random/{classes}", partial(toys.random_scores, rows, classes))
    entries = ledger.entries
    spaces = {name: entries[f"toy/{name}"] for name in toys.SPACES}
    chance = {int(k.partition("/")[2]): v for k, v in entries.items() if k.startswith("random/")}
    return Page(
        "reality-check",
        "The Reality Check: losses compared alike, and metrics that see",
        CITATION,
        INTRODUCTION,
        [
            _described(table),
            f"Random rows: {rows:,} of 64 dimensions. Toy spaces: four classes of {toys.EACH} "
            "points, Euclidean distance.",
        ],
        [_flat(table, read_longer(request)), _tuned(table), _toys(spaces), _chance(chance)],
        [_table(table), _toy_sheet(spaces)],
        draw(table, spaces, chance),
        NOTES,
        request.quick,
        {"table": table, "entries": entries},
    )


NOTES = ("Several of the paper's published optima lie at the ends of their ranges.",)


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
        f"openings has {looks['count']} lines, {looks['second_looks']} second looks, and ends in "
        f"`{looks['head'][:16]}`."
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
        "Tuned alike, the losses of a decade differ little: the field is flat (section 4.2).",
        "Fixed before the test half was opened: flat if the upper end of the simultaneous 95 % "
        "interval of best/contrastive - 1 in MAP@R (over runs and test classes) is below 10 %, not "
        "flat if the lower end is above, else undecided; for both the concatenated and the "
        "separated scores.",
        word,
        evidence,
        "" if longer is None else _with_more_iterations(longer, table["metric"]),
    )


def _with_more_iterations(longer: Mapping[str, Any], metric: str) -> str:
    """What longer trainings say on the folds of the search half, compared with contrastive."""
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
        "Most learning curves still rise when the budget ends, so it was asked whether the gap "
        "closes. Trained longer with the parameters found, on the search half alone, the "
        f"validation {metric} after {when} iterations is, in percent (against contrastive): "
        + "; ".join(sentences)
        + ". The rates were searched for the short budget."
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
        "Much of what separates published losses is how well each was tuned (sections 2 and 4).",
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
        Evidence(f"{name}: {toys.TOY_METRICS[metric]} (%)", found[metric], scale=100, digits=1)
        for name, found in spaces.items()
        for metric in toys.TOY_METRICS
    ]
    return Claim(
        "c",
        "MAP@R tells spaces apart that Recall@1 does not (Figure 1).",
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
        for metric in toys.RANDOM_METRICS
    ]  # fmt: skip
    return Claim(
        "d",
        "NMI is high for embeddings that mean nothing, and the higher the more classes there are "
        "(Figure 2).",
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
        "Ranks: what is left open once differences by Holm's correction are taken for real.",
    )


def _toy_sheet(spaces: Mapping[str, Mapping[str, float]]) -> Sheet:
    rows = [
        [name, *(f"{100 * found[metric]:.1f}" for metric in toys.TOY_METRICS)]
        for name, found in spaces.items()
    ]
    return Sheet("Three toy spaces, in percent", ["space", *toys.TOY_METRICS.values()], rows)
