"""The study of HAPPIER: the emoji tree decides, ablations explain, the grocery store is shown."""

from __future__ import annotations

from functools import partial
from typing import Any

from truerank.reproduce.happier import configuration, verdicts
from truerank.reproduce.happier.centres import centre_map, has_model
from truerank.reproduce.happier.figures import draw
from truerank.reproduce.ledger import Ledger
from truerank.reproduce.page import Page
from truerank.reproduce.request import Request
from truerank.reproduce.tables import score_sheet
from truerank.reproduce.trained import Finished, Make, run_benchmark

__all__ = ["run"]

CITATION = (
    "Ramzi, Audebert, Thome, Rambour, Bitot: Hierarchical Average Precision Training for Pertinent "
    "Image Retrieval. ECCV 2022."
)
INTRODUCTION = (
    "Where labels form a tree, a near miss should cost less than a bad one. The paper defines "
    "hierarchical average precision (H-AP), trains for it, and claims to beat losses of the fine "
    "labels, their sums over levels and CSL, at little cost in the finest level."
)
RUNS = (
    "One hierarchical sampler and one budget for all rows; each loss has its paper's parameters, "
    "and its learning rates are searched with as many trials for all, by validation H-AP.",
    "TL_SH is the triplet loss with semihard triplets; its sum over levels has none, because a "
    "miner goes by one level.",
    "The emoji have 9 categories, too few to leave out for an interval of H-AP: intervals leave "
    "out subcategories, the level below, and say nothing about other categories. The grocery store "
    "has 3 coarse classes: no usable interval there either; it is shown and decides nothing.",
)
NOTES = (
    "Eq. 4's relevance is not monotone where a finer level is much larger than a coarser one: with "
    "10 fine and 2 coarse relevant items, coarse-first scores 1.0 and fine-first .826.",
    "Figure 3's ranks (5/3 and 4/3) hold only with rel = l/L, not with Eq. 4. Figure 1 cannot be "
    "recomputed: its lists are not given.",
    "The text has a gain of 12.7 points over the best fine-only row on iNat-full, where Table 1 "
    "has 47.9 - 37.2 = 10.7; for DyML it has 4.8, .9 and 1.8 points over other hierarchical rows, "
    "where Table 2 has 37.0 - 32.0 = 5.0, 43.8 - 42.6 = 1.2 and 38.0 - 36.9 = 1.1.",
    "The released code counts the query in its own finest level and ranks in half precision. Its "
    "H-AP finds levels by their relevance, so that an item counts once for each level of equal "
    "relevance: levels 2, 2, 1, 0 in this perfect order have an H-AP of 2.0. Its ndcg(at_k) takes "
    "the ideal from the k items returned: levels 0, 2, 2, 1 have an NDCG at 2 of .6309; .3869 is "
    "right. No table of the paper uses it.",
)


def run(request: Request) -> Page:
    """Train, judge and put the page together."""
    makers = configuration.benchmarks(request)
    finished = [run_benchmark(request, name, make) for name, make in makers.items()]
    maps = _maps(request, finished[0], makers["emoji"])
    runs = [*(one.described() for one in finished), *RUNS]
    if not any(one.name == "grocery" for one in finished):
        runs.append("The grocery store was not run: no file was given (--data grocery=FILE).")
    return Page(
        "happier",
        "HAPPIER: training for the tree",
        CITATION,
        INTRODUCTION,
        runs,
        verdicts.judge(finished[0]),
        [score_sheet(one, one.config.metrics) for one in finished],
        draw(finished, maps),
        NOTES,
        request.quick,
        {one.name: one.numbers() for one in finished},
    )


def _maps(request: Request, one: Finished, make: Make) -> dict[str, Any]:
    """Class centres of HAPPIER and of its best rival, kept once they are known."""
    ledger = Ledger(request.folder / "happier-ledger.json", {"quick": request.quick}, request.clock)
    shown = (verdicts.rivals(one)["the best fine-only"], "HAPPIER")
    missing = [name for name in shown if f"centres/{name}" not in ledger.entries]
    if missing and all(has_model(one, name) for name in missing):
        data = make()[1]
        for name in missing:
            ledger.get(f"centres/{name}", partial(centre_map, one, name, data))
    return {n: ledger.entries[f"centres/{n}"] for n in shown if f"centres/{n}" in ledger.entries}
