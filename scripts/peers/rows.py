"""What one tool reports, as JSON on stdout: the last step of every run_*.py in this folder."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version

from cases import EMBEDDING_CASES, SCORE_CASES, EmbeddingCase

Value = float | str  # a str is an error message


@dataclass(frozen=True)
class Measure:
    metric: str  # as truerank spells it
    function: str  # as the tool spells it
    compute: Callable[[Sequence[float], Sequence[int]], float]  # scores, relevance


@dataclass(frozen=True)
class Row:
    case: str
    metric: str
    function: str
    values: Mapping[str, Value | None]  # one for each arrangement; None is the tool's NaN
    why: str  # what the tool does, where this differs from the definition


def number(value: float) -> float | None:
    """JSON has no NaN."""
    return None if math.isnan(value) else float(value)


def score_rows(measures: Iterable[Measure], why: Mapping[str, str]) -> list[Row]:
    """Every case on one list of scores for which the tool has a measure."""
    measures = list(measures)
    return [
        Row(
            case.name,
            measure.metric,
            measure.function,
            {
                name: number(measure.compute(case.scores, relevance))
                for name, relevance in case.relevance.items()
            },
            why.get(case.name, ""),
        )
        for case in SCORE_CASES
        for answer in case.answers
        for measure in measures
        if measure.metric == answer.metric
    ]


def embedding_rows(
    names: Mapping[str, str],
    measure: Callable[[EmbeddingCase, Sequence[int], str], Value | None],
    why: Mapping[str, str],
) -> list[Row]:
    """Every case on embeddings that `why` names; `names` translates truerank's metrics."""
    return [
        Row(
            case.name,
            answer.metric,
            names[answer.metric],
            {
                order: measure(case, labels, names[answer.metric])
                for order, labels in case.labels.items()
            },
            why[case.name],
        )
        for case in EMBEDDING_CASES
        if case.name in why
        for answer in case.answers
    ]


def write(tool: str, rows: Sequence[Row], *, released: bool = True) -> None:
    shown = version(tool) if released else "none"
    print(json.dumps({"tool": tool, "version": shown, "rows": [asdict(row) for row in rows]}))
