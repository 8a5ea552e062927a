"""The claims about HAPPIER, judged by paired differences over seeds and test classes."""

from __future__ import annotations

from truerank.reproduce.claims import Claim, budget, combined, decide_above, decide_below
from truerank.reproduce.happier.configuration import FINE, SUMMED
from truerank.reproduce.trained import Finished, gain

__all__ = ["judge", "rivals"]

MOST_LOST = 0.03
"""Points of fine MAP@R that HAPPIER may lose."""
GAINS = {
    "the best fine-only": "10.7 to 16.1",
    "the best summed": "1.0 to 6.3",
    "CSL": "2.8 to 6.6",
}
"""Of HAPPIER in H-AP on the paper's three data sets (its Table 1)."""


def rivals(one: Finished) -> dict[str, str]:
    """The best fine-only and the best summed row, by validation, and CSL."""
    fine = [name for name in FINE if name in one.methods]
    summed = [name for name in SUMMED if name in one.methods]
    return {
        "the best fine-only": one.best(fine),
        "the best summed": one.best(summed),
        "CSL": "CSL",
    }


def judge(one: Finished) -> list[Claim]:
    """Claims (a) to (c), on the data set that decides."""
    return [_gains(one), _loss(one), _fine(one)]


def _gains(one: Finished) -> Claim:
    ours = one.runs["HAPPIER"]
    evidence = [
        gain(
            f"H-AP of HAPPIER less {words}{f' ({name})' if name != words else ''} (points)",
            ours,
            one.runs[name],
            "h_ap",
            paper=GAINS[words],
        )
        for words, name in rivals(one).items()
    ]
    return Claim(
        "a",
        "HAPPIER ranks better by H-AP than losses of the fine labels, than their sums over the "
        "levels, and than CSL (Table 1).",
        "Reproduced if the paired gain in H-AP over each of the best fine-only row, the best "
        "summed row and CSL has its lower end above 0. The best are chosen on validation folds.",
        combined([decide_above(item) for item in evidence]),
        evidence,
        tell=budget(evidence, len(one.seeds)),
    )


def _loss(one: Finished) -> Claim:
    name = rivals(one)["the best fine-only"]
    loss = gain(
        f"MAP@R of {name} (the best fine-only) less HAPPIER (points)", one.runs[name],
        one.runs["HAPPIER"], "map@r", paper="0.9 to 2.1 (AP)",
    )  # fmt: skip
    return Claim(
        "b",
        "What HAPPIER loses at the finest level is little (Tables 3 and 4).",
        f"Reproduced if its loss in fine MAP@R against the best fine-only row has its upper end "
        f"below {100 * MOST_LOST:g} points.",
        decide_below(loss, MOST_LOST),
        [loss],
        tell=budget([loss], len(one.seeds), MOST_LOST),
    )


def _fine(one: Finished) -> Claim:
    name = rivals(one)["the best fine-only"]
    less = gain(
        "MAP@R of HAPPIER_F less HAPPIER (points)", one.runs["HAPPIER_F"], one.runs["HAPPIER"],
        "map@r", paper="1.1 to 1.8 (AP)",
    )  # fmt: skip
    lost = gain(
        f"MAP@R of {name} less HAPPIER_F (points)", one.runs[name], one.runs["HAPPIER_F"], "map@r",
        paper="-0.2 to 0.3 (AP)",
    )  # fmt: skip
    return Claim(
        "c",
        "HAPPIER_F, with more weight on the fine levels, loses less there than HAPPIER (Tables 3 "
        "and 4).",
        "Reproduced if the paired difference HAPPIER_F less HAPPIER in fine MAP@R has its lower "
        "end above 0, not reproduced if its upper end is not, else undecided.",
        decide_above(less),
        [less, lost],
        tell=budget([less], len(one.seeds)),
    )
