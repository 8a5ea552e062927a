"""Test evaluations, after all searches and reruns: announced in a log, then scored.

Only workers that never train read test images. What has been scored is not scored again;
reruns.csv is written from what is kept. The log has one line per test evaluation, chained by
hashes and written before the evaluation. The same model scored again, after a crash, is no
second test evaluation; another model in its place is, and is counted.
"""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from truerank._util.errors import InputError
from truerank._util.files import write_text
from truerank.benchmark.config import RESERVED
from truerank.benchmark.layout import DEFAULT, Layout, write_csv
from truerank.benchmark.methods import Method
from truerank.benchmark.plan import Plan
from truerank.benchmark.tasks import (
    ScoreBaselines,
    ScoreFinished,
    ScoreModels,
    base_of,
    read_projections,
)

RERUN_COLUMNS = ("method", "rerun", "fold", "metric", "value")


# The log of every look at the test half: a line each, chained by hashes, so that changes show.
#
# It is written before the look that it announces. The same model looked at again, after a crash,
# is no second look; another model in the same place is, and is counted.


@dataclass(frozen=True)
class Opening:
    """One look: whose models, which rerun, and the hashes of their weights."""

    method: str
    rerun: str
    checkpoints: tuple[str, ...]
    test: str
    """The hash of the split."""


Look = tuple[Opening, Any]
"""What is announced, and the task that then scores it."""


def looks(
    plan: Plan, layout: Layout, finished: Sequence[Method], test: str, scored: bool = False
) -> list[Look]:
    """The looks that are left, in the order of the table; or those that have been taken."""
    config = plan.config
    metrics, base, units = config.metrics, base_of(config), config.protocol.units
    found: list[Look] = []
    trunks = read_projections(layout.projections)[1]
    for name in RESERVED:
        projections = layout.projections if name.endswith("pca") else None
        task: Any = ScoreBaselines(
            plan.untrained(), projections, metrics, layout.rerun(name, "0"), base, units
        )
        found.append((Opening(name, "0", (trunks,), test), task))
    for method in plan.methods:
        for rerun in plan.reruns:
            hashes = tuple(one.checkpoint or "" for one in plan.outcomes(method.name, rerun))
            folders = [layout.fold(method.name, rerun, fold) for fold in range(plan.folds)]
            task = ScoreModels(
                [folder / "best.pt" for folder in folders],
                hashes,
                metrics,
                layout.rerun(method.name, rerun),
                config.shared.training.device,
                base,
                units,
            )
            found.append((Opening(method.name, rerun, hashes, test), task))
    for method in finished:
        assert method.embeddings is not None
        digest = sha256(Path(method.embeddings).read_bytes()).hexdigest()
        task = ScoreFinished(method.embeddings, metrics, layout.rerun(method.name, "0"), units)
        found.append((Opening(method.name, "0", (digest,), test), task))
    return [look for look in found if _is_scored(layout, look[0], metrics) == scored]


def _is_scored(layout: Layout, opening: Opening, metrics: Sequence[str]) -> bool:
    kept = layout.scores(opening.method, opening.rerun)
    if kept is None or tuple(kept["checkpoints"]) != opening.checkpoints:
        return False
    return all(set(metrics) <= set(values) for values in kept["scores"].values())


def check_scored(openings: Openings, scored: Sequence[Look]) -> None:
    """Refuse scores whose opening is not in the log."""
    for opening, _ in scored:
        openings.check_announced(opening)


def write_reruns(layout: Layout, methods: Sequence[str], reruns: Sequence[str]) -> None:
    """Write reruns.csv from the scores that are kept, in the order of the table."""
    rows = []
    for method in [*RESERVED, *methods]:
        for rerun in reruns:
            kept = layout.scores(method, rerun)
            for fold, values in ({} if kept is None else kept["scores"]).items():
                for metric, value in values.items():
                    row = (method, rerun, fold, metric, repr(value))
                    rows.append(dict(zip(RERUN_COLUMNS, row, strict=True)))
    write_csv(layout.reruns, RERUN_COLUMNS, rows)


def read_reruns(path: Path) -> list[dict[str, Any]]:
    """The rows of reruns.csv, values as floats."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows: list[dict[str, Any]] = list(csv.DictReader(file))
        for row in rows:
            row["value"] = float(row["value"])
            row["default"] = row["rerun"] == DEFAULT
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} cannot be read as the reruns of a benchmark.") from error
    return rows


FIRST = "0" * 64


class Openings:
    """The openings so far.

    Parameters
    ----------
    path : path
        openings.jsonl; a file that does not follow from itself is refused.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: list[Opening] = []
        self.head = FIRST
        """The hash of the last line."""
        if path.exists():
            self._read()

    def announce(self, openings: Sequence[Opening]) -> None:
        """Log looks that are about to be taken; those that are logged already are not repeated."""
        known = set(self.entries)
        new = [opening for opening in openings if opening not in known]
        if not new:
            return
        text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        for opening in new:
            line = _line(opening, len(self.entries), self.head)
            self.head = line["hash"]
            self.entries.append(opening)
            text += json.dumps(line) + "\n"
        write_text(self.path, text)

    def check_announced(self, opening: Opening) -> None:
        """Refuse a score of a model without a test evaluation in the log."""
        if opening not in set(self.entries):
            raise InputError(
                f"{self.path} does not hold the test evaluation of {opening.method}, rerun "
                f"{opening.rerun}, which has been scored; the log is not complete."
            )

    @property
    def count(self) -> int:
        """The number of test evaluations."""
        return len(self.entries)

    def second_looks(self, method: str | None = None) -> int:
        """The number of repeated test evaluations, of another model in the place of one."""
        looks: dict[tuple[str, str], int] = defaultdict(int)
        for entry in self.entries:
            if method is None or entry.method == method:
                looks[entry.method, entry.rerun] += 1
        return sum(number - 1 for number in looks.values())

    def _read(self) -> None:
        lines = self.path.read_text(encoding="utf-8").splitlines()
        for number, text in enumerate(lines):
            try:
                given = json.loads(text)
                opening = Opening(
                    given["method"], given["rerun"], tuple(given["checkpoints"]), given["test"]
                )
                wanted = _line(opening, number, self.head)
            except (ValueError, KeyError, TypeError):
                wanted, given = {}, None
            if given != wanted:
                raise InputError(
                    f"{self.path} has been changed: line {number + 1} does not follow from the "
                    "lines before it, so that the number of test evaluations is unknown."
                )
            self.head = wanted["hash"]
            self.entries.append(opening)


def _line(opening: Opening, number: int, before: str) -> dict[str, Any]:
    content = {
        "number": number,
        "method": opening.method,
        "rerun": opening.rerun,
        "checkpoints": list(opening.checkpoints),
        "test": opening.test,
        "previous": before,
    }
    return {**content, "hash": sha256(json.dumps(content).encode()).hexdigest()}
