"""The demo: two models side by side, and embeddings of zeros, on the emoji data."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from truerank._util import text
from truerank._util.text import TextTable
from truerank.analysis.compare import FEWEST, STARRED, Comparison, compare
from truerank.core.registry import display_name, field_names
from truerank.datasets.emoji import emoji
from truerank.evaluation.evaluate import evaluate
from truerank.intervals.interval import FINER
from truerank.report import write
from truerank.result import tables
from truerank.result.result import Result

MODELS = ("efficientnet", "pixels")
"""EfficientNet-lite0, trained on ImageNet photographs, and raw pixels."""
MEANINGS = {
    "precision@1": "the nearest item is relevant (also Recall@1, rank-1)",
    "map@r": "precision in the top R, rank-weighted (R relevant items)",
    "map": "average precision over the whole ranking",
    "hit@10": "a relevant item is among the 10 nearest",
    "mrr": "1 / rank of the first relevant item",
    "h_ap": "mAP in which items of related classes count in part",
}
"""The metrics that are printed, with what they measure; files and the page have all metrics."""
NEXT = """\
  truerank evaluate embeddings.npy --labels labels.csv -o a.json
  truerank compare a.json b.json"""


@dataclass(frozen=True)
class Demonstration:
    """What the demo shows."""

    results: dict[str, Result]
    comparison: Comparison
    zero: Result
    """Of embeddings that are all zero."""
    by_row: Result
    """Of the order of the rows, which is how a stable sort ranks embeddings that are all zero."""
    tasks: dict[str, dict[str, Any]]
    """What was evaluated: a page looks at it once more, and results keep no rows alive."""

    def to_text(self, *, rule: bool = False) -> str:
        """The finding, the scores, what they mean, and what to do next.

        At most 40 lines on a screen of 80 columns.
        """
        facts = next(iter(self.results.values())).provenance
        data = (
            f"Data: {facts['queries']:,} drawings of emoji, each searched among "
            f"{facts['gallery']:,} other drawings, by EfficientNet-lite0 (trained on photographs) "
            "and by raw pixels."
        )
        names = {metric: display_name(metric) for metric in MEANINGS}
        width = max(map(len, names.values()))
        meanings = [f"  {names[metric]:<{width}}  {text}" for metric, text in MEANINGS.items()]
        parts = [
            text.paragraph(self.comparison.finding, strong=rule),
            text.paragraph(data),
            tables.laid_out(self._table(), self._reading(), rule=rule),
            _section("What the metrics measure (formulas: truerank metrics NAME)", meanings, rule),
            _section("Sanity check: embeddings that are all zero", self._nothing(), rule),
            text.paragraph("Next: evaluate your embeddings", strong=rule) + f"\n{NEXT}",
        ]
        return "\n\n".join(parts)

    def write_report(self, path: str | os.PathLike[str]) -> None:
        """Write a page about both models, with pictures where Pillow is installed."""
        pictures = emoji().pictures() if find_spec("PIL") is not None else {}
        title = "Emoji: EfficientNet-lite0 against raw pixels"
        write(list(self.results.values()), path, names=self.results, title=title, **pictures)

    def _table(self) -> TextTable:
        """The comparison, with chance beside it."""
        pairs = self.comparison.side_by_side(MEANINGS)
        first = next(iter(self.results.values()))
        names = field_names(MEANINGS)
        metrics = tables.headline_first(metric for metric in first if metric in MEANINGS)
        rows = [
            [tables.marked(metric, names[metric]), *row[1:], tables.percent(first[metric].chance)]
            for metric, row in zip(metrics, pairs.rows, strict=True)
        ]
        return TextTable([*pairs.header, "chance"], rows, strong=pairs.strong)

    def _reading(self) -> list[str]:
        first, second = self.comparison.models
        return [
            f"In percent; difference: {first} minus {second}; p by paired tests (Holm), {STARRED} "
            f"is p < {FEWEST:g}; chance: expected score of a random ranking.",
            *(line.replace(FINER, "") for line in self.comparison.untested(MEANINGS)),
        ]

    def _nothing(self) -> list[str]:
        """What is made of embeddings that say nothing."""
        score, sorted_rows = self.zero["map"], self.by_row["map"]
        lower, upper = tables.percent(score.lower), tables.percent(score.upper)
        return [
            f"All distances are equal, so mAP is {lower} to {upper}, depending on the order of "
            f"tied items. Sorting the rows as they come (argsort) gives "
            f"{tables.percent(sorted_rows.value)}; truerank reports the lower bound, {lower}."
        ]


def _section(title: str, lines: list[str], rule: bool) -> str:
    """A title with lines below it."""
    return "\n".join([text.paragraph(title, strong=rule), *text.fill(lines, text.prose_width())])


def run() -> Demonstration:
    """Evaluate and compare."""
    data = emoji()
    tasks = {model: data.task(model, hierarchy=True) for model in MODELS}
    results = {model: evaluate(**task, progress=True) for model, task in tasks.items()}
    silent = data.task("pixels")
    queries, items = len(silent["embeddings"]), len(silent["gallery"])
    rows = np.arange(items, dtype=np.float64)[:, None]
    zero, by_row = (
        evaluate(
            **silent | {"embeddings": np.zeros((queries, 1)), "gallery": gallery},
            distance="euclidean",
            metrics=["map"],
            confidence=None,
        )
        for gallery in (np.zeros((items, 1)), rows)
    )
    comparison = compare(*results.values(), names=MODELS)
    return Demonstration(results, comparison, zero, by_row, tasks)
