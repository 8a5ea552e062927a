"""What leaves the organiser's house: a result without single queries, a task without labels."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from truerank.arrays import as_matrix
from truerank.core import registry
from truerank.core.score import Score
from truerank.errors import InputError, check_choice
from truerank.files import check_readable, read_json, to_json
from truerank.organise.flaws import Flaws
from truerank.organise.saved import plain_values
from truerank.organise.submissions import align, check_finite
from truerank.result import Result
from truerank.space import catalogue
from truerank.task import TaskRules

__all__ = ["PublicTask", "is_json", "public_result"]

FORMAT = "truerank-public-task"
FORMAT_VERSION = 1
TOLD = (
    "version",
    "queries",
    "gallery",
    "dimensions",
    "leave_one_out",
    "average",
    "excluded",
    "no_mate_option",
    "no_mate",
    "intervals",
    "task_commitment",
)
"""What a public result says of how it came about: the task and the options, no submission."""
NO_DISTANCES = "its value is the distance of one pair, and a public result names none"


def public_result(result: Result) -> Result:
    """The headline scores with intervals, chance and counts, and nothing of single queries.

    Left out are the classes of the queries, values and curves by query, scores without each share
    of the classes, thresholds (each is the distance of one pair), what ties leave open and how many
    there are, and the digest of the labels.
    """
    scores: dict[str, Score] = {}
    skipped = dict(result.skipped)
    for name, score in result.items():
        known = registry.find(name)
        if known.unit == "share":
            scores[name] = _headline(score, known.higher_is_better)
        else:
            skipped[name] = NO_DISTANCES
    facts = {name: result.provenance[name] for name in TOLD}
    distance = {name: result.provenance["distance"][name] for name in ("distance", "grid")}
    facts |= {"public": True, "distance": distance}
    return Result(scores, skipped=skipped, provenance=facts)


def _headline(score: Score, higher_is_better: bool) -> Score:
    """One number for the score; NaN for what ties leave open."""
    unknown = float("nan")
    return replace(
        score,
        lower=score.value if higher_is_better else unknown,
        expected=unknown,
        upper=unknown if higher_is_better else score.value,
        per_query=None,
        replicates=None,
        threshold=None,
    )


@dataclass(frozen=True)
class PublicTask:
    """What participants may know of a task: its ids, how many rows, and the commitment."""

    rows: int
    """Rows of a submission."""
    ids: list[Any] | None
    """Whose embeddings a submission holds, sorted; None where rows are taken in order."""
    commitment: str | None
    """Binds the organiser to the labels and tells nothing about them."""

    @staticmethod
    def of(task: TaskRules, commitment: str | None) -> PublicTask:
        """The public part of a task: ids in an order that says nothing about labels."""
        names = task.id_names
        if names is not None:
            ids = plain_values(names.values, "ids")
            return PublicTask(len(ids), sorted(ids), commitment)
        if not task.leave_one_out:
            raise InputError(
                "a public task needs ids where there is a gallery of its own, since a submission "
                "is one array; make the task with ids on both sides."
            )
        return PublicTask(task.queries, None, commitment)

    def check(self, embeddings: Any, ids: Any = None, *, distance: str = "cosine") -> Flaws:
        """Refuse what the organiser would refuse; name what makes a submission degenerate."""
        check_choice("distance", distance, catalogue.names(given=False))
        rows = as_matrix(embeddings, "embeddings")
        if self.ids is None:
            if ids is not None:
                raise InputError("this task has no ids; its rows are taken in order.")
            if len(rows) != self.rows:
                raise InputError(f"this task has {self.rows} rows. Got {len(rows)}.")
        elif ids is None:
            raise InputError(
                "this task aligns submissions by id, and this one has none; save a column or "
                "array id beside the embeddings, or pass ids=, one for each row."
            )
        else:
            align(self.ids, ids, len(rows))
        check_finite(rows, ids)
        return Flaws.of(rows, distance)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as JSON, for participants."""
        header = {"format": FORMAT, "version": FORMAT_VERSION}
        to_json(header | {"commitment": self.commitment, "rows": self.rows, "ids": self.ids}, path)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> PublicTask:
        """Read what save wrote."""
        data = read_json(path)
        known = isinstance(data, dict) and data.get("format") == FORMAT
        if not known or data.get("version") != FORMAT_VERSION:
            raise InputError(f"{path} is not a public task of version {FORMAT_VERSION}.")
        rows, ids, told = data.get("rows"), data.get("ids"), data.get("commitment")
        whole = isinstance(rows, int) and rows > 0 and isinstance(told, (str, type(None)))
        if not whole or not (ids is None or (isinstance(ids, list) and len(ids) == rows)):
            raise InputError(f"{path} is a damaged public task.")
        plain = all(isinstance(name, (str, int, float)) for name in ids or ())
        if not plain or len(set(ids or ())) < len(ids or ()):
            raise InputError(f"{path} is a damaged public task: its ids are not all distinct.")
        return PublicTask(rows, ids, told)


def is_json(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as a JSON object does."""
    check_readable(path)
    with Path(path).open("rb") as file:
        return file.read(64).lstrip()[:1] == b"{"
