"""The demo: two models side by side, and embeddings of zeros, on the emoji data."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from truerank._util import text
from truerank._util.text import TextTable
from truerank.analysis.compare import Comparison, compare
from truerank.datasets.emoji import emoji
from truerank.evaluation.evaluate import evaluate
from truerank.report import write
from truerank.result import tables
from truerank.result.result import Result

MODELS = ("efficientnet", "pixels")
"""EfficientNet-lite0, trained on ImageNet photographs, and raw pixels."""
TOO_WIDE = "mrep@far=0.01"
"""Not in the printed table: its name alone would need a screen of 81 columns, and with so few
unmated queries it has no test. Files have it."""
MEANINGS = {
    "precision@1": "the nearest item is relevant (Recall@1, rank-1)",
    "hit@10": "a relevant item is among the 10 nearest",
    "map@r": "the R nearest are relevant, early ones count more (R relevant items)",
    "h_ap": "average precision in which a near miss counts in part",
    "mfr": "false accepts of unmated queries, over all thresholds",
}


@dataclass(frozen=True)
class Demonstration:
    """What the demo shows."""

    results: dict[str, Result]
    comparison: Comparison
    zero: Result
    """Of embeddings that are all zero."""
    tasks: dict[str, dict[str, Any]]
    """What was evaluated: a page looks at it once more, and results keep no rows alive."""

    def to_text(self, *, rule: bool = False) -> str:
        """At most 40 lines on a screen of 80 columns."""
        width = text.screen_width()
        facts = next(iter(self.results.values())).provenance
        opening = (
            f"{facts['queries']:,} drawings of emoji, each searched among {facts['gallery']:,} "
            "other drawings, by EfficientNet-lite0 (trained on photographs) and by raw pixels."
        )
        return "\n\n".join(
            [
                "\n".join(text.fill([opening], width)),
                tables.laid_out(self._table(), self._reading(), rule=rule),
                "\n".join(text.fill([self._nothing(), *_meanings()], width)),
            ]
        )

    def write_report(self, path: str | os.PathLike[str]) -> None:
        """Write a page about both models."""
        write(list(self.results.values()), path, names=self.results)

    def _table(self) -> TextTable:
        """The comparison, with chance beside it."""
        pairs = self.comparison.side_by_side()
        first = next(iter(self.results.values()))
        chance = [tables.percent(score.chance) for score in first.values()]
        rows = [[*row[:3], at, *row[3:]] for row, at in zip(pairs.rows, chance, strict=True)]
        rows = [row for row in rows if row[0] != TOO_WIDE]
        return TextTable([*pairs.header[:3], "chance", *pairs.header[3:]], rows)

    def _reading(self) -> list[str]:
        return [
            "In percent; \N{DOWNWARDS ARROW} lower is better; chance is what a scorer that ignores "
            "its input gets. Differences with intervals of "
            f"{100 * self.comparison.confidence:g} %, by {self.comparison.method}; "
            "p corrected for all tests (Holm).",
            *self.comparison.untested(besides=(TOO_WIDE,)),
        ]

    def _nothing(self) -> str:
        """The zero model, in one line."""
        score = self.zero["map"]
        lower, upper = tables.percent(score.lower), tables.percent(score.upper)
        return f"Zero embeddings tie everything: mAP {lower} to {upper}, so the score is {lower}."


def _meanings() -> list[str]:
    lines = [f"  {metric:<12} {meaning}" for metric, meaning in MEANINGS.items()]
    return ["", "What the numbers mean (details: truerank metrics NAME):", *lines]


def run() -> Demonstration:
    """Evaluate and compare."""
    data = emoji()
    tasks = {model: data.task(model, hierarchy=True) for model in MODELS}
    results = {model: evaluate(**task) for model, task in tasks.items()}
    silent = data.task("pixels", hierarchy=True)
    for side in ("embeddings", "gallery"):
        silent[side] = np.zeros_like(silent[side])
    zero = evaluate(**silent, metrics=["map"], confidence=None)
    return Demonstration(results, compare(*results.values(), names=MODELS), zero, tasks)
