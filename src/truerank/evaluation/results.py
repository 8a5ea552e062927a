"""From scores and what the passes saw to a Result that says where it comes from."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.attributes import Attribute
from truerank.core.score import Score, split_undefined
from truerank.galleries import growth_curve
from truerank.labels import encode
from truerank.ranked import HeldRows
from truerank.result import Result
from truerank.scoring import Findings
from truerank.space import Space
from truerank.task import TaskRules
from truerank.version import __version__

__all__ = ["provenance", "put_together"]


def provenance(
    task: TaskRules,
    space: Space,
    findings: Findings,
    *,
    average: str,
    dimensions: int | None,
    device: str,
    seconds: float,
) -> dict[str, Any]:
    """What was evaluated and how, and what the passes met."""
    consistency = findings.reports.get("consistency")
    return {
        "version": __version__,
        "queries": task.queries,
        "gallery": task.items,
        "dimensions": dimensions,
        "leave_one_out": task.leave_one_out,
        "distance": space.facts.to_dict(),
        "average": average,
        "excluded": task.exclusions(),
        "no_mate_option": task.no_mate,
        "no_mate": task.no_mate_counts(),
        "ties": findings.ties,
        "hierarchy": findings.hierarchy,
        "severity": None if findings.severity is None else findings.severity.to_dict(),
        "intervals": findings.intervals,
        "consistency": None if consistency is None else consistency.to_dict(),
        "task_digest": task.digest,
        "device": device,
        "seconds": round(seconds, 3),
    }


def put_together(
    task: TaskRules,
    scores: dict[str, Score],
    findings: Findings,
    provenance: dict[str, Any],
    *,
    skip_undefined: bool,
    found: dict[str, list[Any]] | None = None,
    held: HeldRows | None = None,
    names: list[Any] | None = None,
) -> Result:
    """A result; undefined scores are listed apart where nobody asked for them by name.

    `names` are the queries' ids where the task has none: a run may be all that names them.
    """
    ids = _ids(task, names)
    skipped: dict[str, str] = {}
    if skip_undefined:
        scores, skipped = split_undefined(scores)
    sizes = list(findings.at_sizes.values())
    if skip_undefined:
        sizes = [one.without_undefined() for one in sizes]
    return Result(
        scores,
        skipped=skipped,
        provenance=provenance,
        attributes=_attributes(task, ids),
        severity=findings.severity,
        units=_units(task, ids),
        level_units=findings.level_units,
        curves=findings.curves | ({"growth": growth_curve(sizes)} if sizes else {}),
        first_mates=findings.first_mates,
        consistency=findings.reports.get("consistency"),
        found=found,
        held=held,
        at_sizes=sizes,
    )


def _ids(task: TaskRules, names: list[Any] | None) -> Attribute | None:
    """The id of each query, if anything names it."""
    if task.id_names is not None:
        return Attribute(task.id_names.codes[0], task.id_names.values)
    if names is None:
        return None
    encoded = encode((names,), ("query_ids",))
    return Attribute(encoded.codes[0], encoded.values)


def _attributes(task: TaskRules, ids: Attribute | None) -> dict[str, Attribute]:
    attributes = {}
    if task.levels is not None:
        if len(task.levels) > 1:
            for name, level in zip(task.levels.names, task.levels.columns, strict=True):
                attributes[str(name)] = Attribute(level.codes[0], level.values)
        attributes["label"] = Attribute(task.query_codes, task.levels.finest.values)
    if task.group_names is not None:
        attributes["group"] = Attribute(task.group_names.codes[0], task.group_names.values)
    if ids is not None:
        attributes["id"] = ids
    return attributes


def _units(task: TaskRules, ids: Attribute | None) -> npt.NDArray[np.int64]:
    """What resampling draws: classes, or queries (by their ids, if they have any)."""
    if task.levels is not None:
        return task.query_codes
    return np.arange(task.queries) if ids is None else ids.codes
