"""The study of ties: embeddings in, a page out."""

from __future__ import annotations

from typing import Any

import numpy as np

from truerank.errors import InputError
from truerank.reproduce.inputs import Embeddings, read_embedded
from truerank.reproduce.ledger import Ledger
from truerank.reproduce.page import Page, Sheet
from truerank.reproduce.request import Request
from truerank.reproduce.ties import measure, verdicts
from truerank.reproduce.ties.collisions import DISTANCES
from truerank.reproduce.ties.figures import draw
from truerank.reproduce.ties.naive import PRECISIONS

__all__ = ["run"]

PAPER = "PHOCNET"
CITATION = (
    "Nicolaou, Dey, Christlein, Maier, Karatzas: Non-deterministic Behavior of Ranking-based "
    "Metrics when Evaluating Embeddings. RRPR 2018."
)
INTRODUCTION = (
    "Scores that collide leave a ranking undefined, and scores that depend on the order and the "
    "size of batches leave it to chance. The paper saw both in word-spotting embeddings, and "
    "showed that a model which says nothing can be made to score. Here its own embeddings and ours "
    "are scored by naive code in four precisions, and by truerank."
)


def run(request: Request) -> Page:
    """Measure, judge and put the page together."""
    size = measure.QUICK if request.quick else measure.FULL
    sets = [_paper(request), *measure.emoji_embeddings()]
    if size.rows is not None:
        sets = [_fewer(some, size.rows) for some in sets]
    facts = {"size": size.__dict__, "sets": {some.name: some.digest for some in sets}}
    ledger = Ledger(request.folder / "ties-ledger.json", facts, request.clock)
    measure.measure(sets, size, ledger)
    entries = ledger.entries
    claims = verdicts.judge(entries, PAPER)
    return Page(
        "ties",
        "Ties: what the order of rows does to mAP",
        CITATION,
        INTRODUCTION,
        _runs(sets, size, entries),
        claims,
        [
            _orders_sheet(sets, entries),
            _released_sheet(sets[0].name, entries),
            _collision_sheet(sets, entries),
        ],
        draw(sets[0], sets, entries),
        NOTES,
        request.quick,
        {"facts": {"size": facts["size"]}, "entries": entries},
    )


NOTES = (
    "The paper's remedy shifts distances that are not relevant by an epsilon (Eq. 5 and 6), which "
    "must be smaller than every difference between two distances and still change a float. Where "
    "two distances differ in their last place there is no such number. Bounds that are computed "
    "from the groups of tied items need none.",
    "The paper says that the mean over all orders of tied items is costly to compute. It has a "
    "closed form (McSherry and Najork, ECIR 2008): `expected` beside every score.",
    "The released `get_map` divides AP by R + 1 where the first item is wrong: its recall at rank "
    "1 is e/(R + e) with e = 1e-20, which is above 0 and counts as a step. A query of label 0 with "
    "items of labels 1 and 0, in this order, gets .25; 1/2 is right.",
    "It also drops the first column of each row as oneself. Two rows of PHOCNET have different "
    "labels and a cosine distance of exactly 0, and the class of one has no other row. Where the "
    "other row is sorted first, each of the two finds itself among its relevant items, and the "
    "row that has none becomes a 900th query with an AP of 1. This is the whole width of 95.34 to "
    "95.36 %, and the level is that of the division by R + 1.",
    "Values in the paper's Figure 1 are truncated and not rounded: .6667 is printed as 66.66 %, "
    ".3929 as 39.28 %, .6429 as 64.28 %.",
    "Section 3.2 has epsilon 10^-6 for random embeddings, section 3.3 has 10^-5; its 'greater than "
    "epsilon' should read 'smaller than'.",
)


def _paper(request: Request) -> Embeddings:
    path = request.file("phocnet")
    if path is None:
        raise InputError(
            "the embeddings of the paper are needed: --data phocnet=FILE, an .npz with the "
            "embeddings (rows, dimensions) and a label for each row."
        )
    return read_embedded(path, PAPER)


def _fewer(some: Embeddings, rows: int) -> Embeddings:
    """Rows evenly taken from a set."""
    if len(some.rows) <= rows:
        return some
    order = np.argsort(some.labels, kind="stable")[:rows]  # whole classes, so that mates remain
    return Embeddings(some.name, some.rows[order], some.labels[order])


def _runs(sets: list[Embeddings], size: measure.Size, entries: dict[str, Any]) -> list[str]:
    devices = sorted({name.rpartition("/")[2] for name in entries if name.startswith("exact/")})
    lines = []
    for some in sets:
        lines.append(
            f"{some.name}: {len(some.rows):,} rows of {some.rows.shape[1]} dimensions, "
            f"{len(np.unique(some.labels)):,} classes, {int(some.has_mate.sum()):,} queries with a "
            f"mate, leave-one-out, cosine distance (SHA-256 {some.digest[:16]})."
        )
    batches = " or ".join(["all", *map(str, size.batch_sizes(0)[1:])])
    lines += [
        f"{size.orders} orders of the rows (the first as given) x batches of {batches} queries at "
        f"a time, in {', '.join(PRECISIONS)}, on {' and '.join(devices)}. Sorting is the library's "
        "default; tf32 is imitated on the CPU by rounding to 10 bits.",
        f"Collisions: distances in float64, neighbours in the order of each row; random embeddings "
        f"are uniform in [0, 1), {size.random_sets} sets, intervals of Student's t.",
        "Nothing is trained.",
        "The thresholds of the four rules were set before anything ran; what counts as in "
        "direction, and that (c) asks for all six comparisons, was settled after a first look at "
        "the counts.",
    ]
    if "cuda" not in devices:
        lines.append("No GPU was there: its rows are missing, and --resume on one adds them.")
    return lines


def _orders_sheet(sets: list[Embeddings], entries: dict[str, Any]) -> Sheet:
    rows = []
    for some in sets:
        for device in ("cpu", "cuda"):
            if f"exact/{some.name}/{device}" not in entries:
                continue
            for precision in PRECISIONS:
                runs = entries[f"orders/{some.name}/{precision}/{device}"]
                values = [value for batch in runs.values() for value in batch]
                orders = max(verdicts.span(batch) for batch in runs.values())
                rows.append(
                    [
                        some.name, device, precision, f"{100 * min(values):.5f}",
                        f"{100 * max(values):.5f}", f"{100 * orders:.5f}",
                        f"{100 * verdicts.span(values):.5f}",
                    ]
                )  # fmt: skip
            exact = entries[f"exact/{some.name}/{device}"]
            rows.append(
                [
                    some.name, device, "truerank", f"{100 * exact['lower']:.5f}",
                    f"{100 * exact['upper']:.5f}", f"0 ({exact['bits']} bits)",
                    f"0 ({exact['bits']} bits)",
                ]
            )  # fmt: skip
    header = ["set", "device", "scores", "lowest", "highest", "by order", "by order and batch"]
    return Sheet(
        "mAP over orders and batch sizes, in percent and points",
        header,
        rows,
        "Of truerank, lowest and highest are the bounds that true ties leave open; no order and no "
        "batch moves them.",
    )


def _released_sheet(name: str, entries: dict[str, Any]) -> Sheet:
    rows = [
        [
            one["drops"], one["divisor"],
            *(
                f"{100 * value:.4f} ({queries:,} queries)"
                for value, queries in zip(one["values"], one["queries"], strict=True)
            ),
        ]
        for one in entries[f"released/{name}"]
    ]  # fmt: skip
    return Sheet(
        f"The rules of the paper's released code on {name}: mAP in percent",
        ["left out of a list", "AP divided by", "relevant first in ties", "relevant last in ties"],
        rows,
        "Cosine distances in float64, below 1e-12 taken as 0. The last line is the released code; "
        "the first one is the definition.",
    )


def _collision_sheet(sets: list[Embeddings], entries: dict[str, Any]) -> Sheet:
    bounds = list(entries["random"]["cosine"])
    kept = [bound for bound in bounds if bound not in ("neighbours", "spread")]
    rows = []
    for some in sets:
        for distance in DISTANCES:
            counts = entries[f"collisions/{some.name}"][distance]
            rows.append([some.name, distance, *(f"{counts[bound]:,.0f}" for bound in kept)])
    for distance in DISTANCES:
        counts = entries["random"][distance]
        rows.append(["random", distance, *(f"{counts[bound]['mean']:,.1f}" for bound in kept)])
    pairs = entries["random"]["cosine"]["neighbours"]["mean"]
    return Sheet(
        "Colliding neighbours, over all rows",
        ["set", "distance", *(bound.replace("places", "float32 places") for bound in kept)],
        rows,
        f"Of {pairs:,.0f} neighbours of PHOCNET and of each random set. 'Of spread': epsilon is "
        "multiplied by the standard deviation of the distance over that of cosine.",
    )
