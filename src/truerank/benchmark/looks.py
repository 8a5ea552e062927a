"""The opening of the test half, after all searches and reruns: announced, then scored.

Only here are test images read, by workers that never train. What has been scored is not scored
again; reruns.csv is written from what is kept.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from truerank.benchmark.baselines import read_projections
from truerank.benchmark.config import RESERVED
from truerank.benchmark.layout import DEFAULT, Layout, write_csv
from truerank.benchmark.linear import base_of
from truerank.benchmark.methods import Method
from truerank.benchmark.openings import Opening, Openings
from truerank.benchmark.plan import Plan
from truerank.benchmark.scoring import ScoreBaselines, ScoreFinished, ScoreModels
from truerank.errors import InputError

__all__ = ["RERUN_COLUMNS", "Look", "check_scored", "looks", "read_reruns", "write_reruns"]

RERUN_COLUMNS = ("method", "rerun", "fold", "metric", "value")
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
