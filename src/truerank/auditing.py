"""audit: what could make a score lie. Embeddings and labels in, findings out.

Each finding says how bad it is, how many rows it concerns, which ones for example, and what to do.
Clean data have no finding above a note.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank import tables
from truerank.arrays import as_matrix
from truerank.errors import InputError, TruerankWarning
from truerank.evaluation import evaluate_task
from truerank.neighbours import Nearest, Neighbours, neighbours
from truerank.result import Result
from truerank.space import Space, build, catalogue
from truerank.space.digests import as_keys
from truerank.space.fingerprint import mix
from truerank.task import TaskRules
from truerank.wording import count

__all__ = ["Audit", "Finding", "audit"]

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
SEVERITIES = ("error", "warning", "note")
EXAMPLES = 5

NEAR = 0.05
"""A near duplicate is at most this much of the usual nearest distance away (squared distances)."""
EXPECTED = 0.01
"""Near duplicates that chance alone may be expected to give in a whole data set."""
HUB_SKEW, WORSE_HUB_SKEW = 3.0, 6.0
"""Plain Gaussian noise of 128 dimensions has a skew near 3.5."""
NORM_DEVIATIONS, NORM_FACTOR = 8.0, 2.0
IMBALANCE = 20
SAMPLE_NUMBERS = 1 << 23
"""Scores recomputed in half precision: as many rows as fit this."""


@dataclass(frozen=True)
class Finding:
    """One thing that smells."""

    name: str
    severity: str
    """error: scores are wrong or misleading; warning: look at it; note: good to know."""
    count: int
    rows: tuple[tuple[int, ...], ...]
    """Examples: single rows, or pairs of rows that belong together."""
    message: str
    advice: str


@dataclass(frozen=True)
class Audit:
    """All findings, the worst first; it prints as a list."""

    findings: list[Finding]
    facts: dict[str, Any]
    """What was measured, flagged or not."""

    @property
    def clean(self) -> bool:
        """Whether nothing is worse than a note."""
        return all(finding.severity == "note" for finding in self.findings)

    def __getitem__(self, name: str) -> Finding:
        for finding in self.findings:
            if finding.name == name:
                return finding
        raise KeyError(f"nothing was found under {name!r}")

    def __contains__(self, name: object) -> bool:
        return any(finding.name == name for finding in self.findings)

    def __str__(self) -> str:
        lines = []
        for finding in self.findings:
            lines.append(f"{finding.severity}: {finding.message}")
            if finding.rows:
                shown = ", ".join(" and ".join(map(str, rows)) for rows in finding.rows)
                more = ", ..." if finding.count > len(finding.rows) else ""
                lines.append(f"  rows {shown}{more}")
            lines.append(f"  {finding.advice}")
        worst = "Nothing above a note." if self.clean else ""
        measured = [f"{name}: {value}" for name, value in self.facts.items()]
        return "\n".join([*lines, *([worst] if worst else []), "Measured:", *measured])

    __repr__ = __str__

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        findings = [
            vars(finding) | {"rows": [*map(list, finding.rows)]} for finding in self.findings
        ]
        return {"format": "truerank-audit", "findings": findings, "facts": self.facts}

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """The JSON text; written to `path` in one step if given."""
        text = json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n"
        if path is not None:
            from truerank.files import write_text

            write_text(path, text)
        return text


def audit(
    embeddings: Any,
    labels: Any = None,
    *,
    train: Any = None,
    distance: str = "cosine",
    threads: int | None = None,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Audit:
    """Look for what could make a score lie.

    Parameters
    ----------
    embeddings : (N, d) array, tensor or path
    labels : (N,) or (N, L), optional
        Without them, nothing that concerns classes is looked for. Of several levels the finest
        makes the classes; ties are looked for at all of them.
    train : (M, d) array, tensor or path, optional
        Embeddings of the training rows: test rows found among them are leaks.
    distance : str
        "cosine", "euclidean", or another that ranks as a euclidean distance of points does.
    threads, progress : as in evaluate
    seed : int
        Of the sample that is ranked again in half precision.

    Returns
    -------
    Audit
        Findings by name; `clean` if there is nothing above a note.

    Examples
    --------
    >>> import numpy as np, truerank
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(np.arange(20), 5)
    >>> x = rng.standard_normal((20, 16))[y] + rng.standard_normal((100, 16))
    >>> truerank.audit(x, y).clean
    True
    >>> x[50] = x[0]
    >>> truerank.audit(x, y)["duplicates across classes"].rows
    ((0, 50),)
    """
    known = catalogue.names(points=True)
    if not isinstance(distance, str) or distance not in known:
        raise InputError(
            f"The 'distance' parameter of audit must be one of {', '.join(known)}. "
            f"Got {distance!r} instead."
        )
    rows = as_matrix(embeddings, "embeddings")
    task = None if labels is None else TaskRules(labels)
    if task is not None and task.queries != len(rows):
        raise InputError(
            f"embeddings have {len(rows)} rows but there are {task.queries} labels; "
            "pass one label for each row."
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruerankWarning)
        space = build(distance, rows)
    codes = np.arange(len(rows)) if task is None else task.query_codes
    seen = neighbours(space, codes, codes, True, progress)
    found = _Findings()
    _duplicates(found, space, codes, task is not None)
    _near_duplicates(found, seen, codes, task is not None)
    if train is not None:
        _leaks(found, rows, as_matrix(train, "train"), distance, progress)
    _collapse(found, rows, space)
    _hubness(found, seen.occurrences)
    if task is not None:
        _classes(found, task)
        _ties(found, task, rows, distance, threads)
        _half_precision(found, task, rows, distance, threads, seed)
    order = sorted(found.findings, key=lambda finding: SEVERITIES.index(finding.severity))
    return Audit(order, found.facts)


class _Findings:
    """What has been found so far."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.facts: dict[str, Any] = {}

    def add(
        self,
        name: str,
        severity: str,
        number: int,
        rows: list[tuple[int, ...]],
        message: str,
        advice: str,
    ) -> None:
        some = tuple(tuple(int(row) for row in group) for group in rows[:EXAMPLES])
        self.findings.append(Finding(name, severity, number, some, message, advice))


# -- duplicates -------------------------------------------------------------------------------


def _duplicates(found: _Findings, space: Space, codes: Integers, labelled: bool) -> None:
    groups: dict[bytes, list[int]] = defaultdict(list)
    for row, digest in enumerate(as_keys(space.query_digests)):
        groups[digest].append(row)
    inside: list[list[int]] = []
    across: list[list[int]] = []
    for rows in groups.values():
        if len(rows) > 1:
            mixed = len({int(codes[row]) for row in rows}) > 1
            (across if mixed and labelled else inside).append(rows)
    for name, some, severity, what, advice in (
        (
            "duplicates across classes",
            across,
            "error",
            "equal to a row of another class",
            "One of the labels is wrong, or the rows show both classes: relabel or drop them.",
        ),
        (
            "duplicates",
            inside,
            "warning",
            "equal to another row of the class" if labelled else "equal to another row",
            "Copies find each other at rank 1 and lift every score: drop them, or pass ids that "
            "they share.",
        ),
    ):
        number = sum(len(rows) for rows in some)
        if some:
            pairs = [tuple(rows[:2]) for rows in some]
            found.add(name, severity, number, pairs, f"{count(number, 'row')} {what}.", advice)
    found.facts["rows that equal another"] = sum(len(rows) for rows in (*inside, *across))


def _near_duplicates(found: _Findings, seen: Neighbours, codes: Integers, labelled: bool) -> None:
    for name, kind, severity, what, advice in (
        (
            "near duplicates across classes",
            seen.other,
            "warning",
            "far nearer to a row of another class than rows usually are",
            "Look at these pairs: wrong labels, or one object under two names.",
        ),
        (
            "near duplicates",
            seen.same,
            "note",
            "far nearer to another row of the class than its rows usually are",
            "Shots of one moment are easy to find: consider ids that they share.",
        ),
    ):
        rows = _far_nearer(kind)
        if len(rows):
            plain = name if labelled else "near duplicates"
            pairs = sorted({tuple(sorted((int(r), int(kind.where[r])))) for r in rows})
            words = what if labelled else "far nearer to another row than rows usually are"
            found.add(
                plain, severity, len(rows), pairs, f"{count(len(rows), 'row')} {words}.", advice
            )


def _far_nearer(kind: Nearest) -> Integers:
    """Rows whose nearest of a kind is nearer than so many rows would have by chance.

    In data of intrinsic dimension m, squared distances to the nearest row fall below a share s of
    the median for about s^(m/2) ln 2 of the rows; m comes from the ratios of second to first
    nearest distances (Facco et al. 2017).
    """
    met = np.isfinite(kind.second) & (kind.first > 0)
    if np.count_nonzero(met) < 20:
        return np.empty(0, np.int64)
    first, second = kind.first[met], kind.second[met]
    dimension = 2 * len(first) / max(float(np.log(second / first).sum()), 1e-300)
    share = min(NEAR, (EXPECTED / (math.log(2) * len(first))) ** (2 / dimension))
    return np.flatnonzero(met & (kind.first < share * np.median(first)))


def _leaks(
    found: _Findings,
    rows: Array,
    train: Array,
    distance: str,
    progress: Callable[[int, int], None] | None,
) -> None:
    if train.shape[1] != rows.shape[1]:
        raise InputError(
            f"train must have {rows.shape[1]} dimensions like the embeddings. Got {train.shape[1]}."
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruerankWarning)
        space = build(distance, rows, train)
    where: dict[bytes, int] = {}
    for row, digest in enumerate(as_keys(space.gallery_digests)):
        where.setdefault(digest, row)
    pairs = [(r, where[d]) for r, d in enumerate(as_keys(space.query_digests)) if d in where]
    advice = "The model has seen them: drop them from the test set, and look for how they got in."
    if pairs:
        found.add(
            "leaks",
            "error",
            len(pairs),
            list(pairs),
            f"{count(len(pairs), 'row')} equal to a training row (test row and training row).",
            advice,
        )
    apart = np.arange(len(rows)), -1 - np.arange(len(train))
    seen = neighbours(space, *apart, False, progress).other
    near = _far_nearer(seen)
    if len(near):
        found.add(
            "near leaks",
            "warning",
            len(near),
            [(int(row), int(seen.where[row])) for row in near],
            f"{count(len(near), 'row')} far nearer to a training row than test rows usually are.",
            advice,
        )
    found.facts["rows found in the training set"] = len(pairs)


# -- geometry ---------------------------------------------------------------------------------


def _collapse(found: _Findings, rows: Array, space: Space) -> None:
    total, dimension = rows.shape
    norms = np.empty(total)
    mean = np.zeros(dimension)
    moments = np.zeros((dimension, dimension))
    low, high = np.full(dimension, np.inf), np.full(dimension, -np.inf)
    step = max(1, (1 << 21) // dimension)
    for start in range(0, total, step):
        some = np.asarray(rows[start : start + step], np.float64)
        scale = np.abs(some).max(axis=1)
        safe = np.where(scale > 0, scale, 1.0)[:, None]
        lengths = np.sqrt(((some / safe) ** 2).sum(axis=1)) * safe[:, 0]
        norms[start : start + step] = np.where(scale > 0, lengths, 0.0)
        unit = some / np.where(lengths > 0, lengths, 1.0)[:, None]
        mean += unit.sum(axis=0)
        moments += unit.T @ unit
        low, high = np.minimum(low, some.min(axis=0)), np.maximum(high, some.max(axis=0))
    mean /= total
    zero = np.flatnonzero(norms == 0)
    if len(zero):
        found.add(
            "zero vectors",
            "error",
            len(zero),
            [(int(row),) for row in zero],
            f"{count(len(zero), 'row')} of zeros, which are as near to everything as to anything.",
            "Compute them again: an all-zero vector usually is a failed input.",
        )
    dead = np.flatnonzero(low == high)
    if len(dead):
        found.add(
            "constant dimensions",
            "warning" if len(dead) > dimension // 2 else "note",
            len(dead),
            [],
            f"{len(dead)} of {dimension} dimensions are constant ({', '.join(map(str, dead[:8]))}"
            f"{', ...' if len(dead) > 8 else ''}).",
            "They carry nothing; a dead unit, or padding.",
        )
    common = float(mean @ mean)
    found.facts["cosine between random rows"] = round(common, 4)
    if common > 0.9:
        found.add(
            "collapsed vectors",
            "error" if common > 0.999 else "warning",
            total,
            [],
            f"All rows point the same way: their cosines are {common:.4f} on average.",
            "Training has collapsed, or the embeddings need centring; low precision will hurt.",
        )
    values = np.linalg.eigvalsh(moments / total - np.outer(mean, mean))
    values = np.clip(values, 0.0, None)
    rank = 0.0
    if values.sum() > 0:
        share = values[values > 0] / values.sum()
        rank = float(np.exp(-(share * np.log(share)).sum()))
    found.facts["effective rank"] = round(rank, 1)
    if dimension >= 8 and rank < max(2.0, 0.05 * min(dimension, total - 1)):
        found.add(
            "dimensional collapse",
            "warning",
            dimension,
            [],
            f"The rows vary in about {rank:.1f} of {dimension} dimensions (effective rank).",
            "The model wastes its dimensions; a smaller embedding may do as well.",
        )
    _norms(found, norms)


def _norms(found: _Findings, norms: Reals) -> None:
    logs = np.log2(norms[norms > 0])
    if len(logs) < 20:
        return
    centre = float(np.median(logs))
    spread = 1.4826 * float(np.median(np.abs(logs - centre)))
    bound = max(NORM_DEVIATIONS * spread, math.log2(NORM_FACTOR))
    with np.errstate(divide="ignore"):
        odd = np.flatnonzero((np.abs(np.log2(norms) - centre) > bound) & (norms > 0))
    found.facts["median norm"] = float(f"{2**centre:.4g}")
    if len(odd):
        found.add(
            "norm anomalies",
            "warning",
            len(odd),
            [(int(row),) for row in odd],
            f"{count(len(odd), 'row')} with a norm far from the usual {2**centre:.3g}.",
            "Look at these inputs; with euclidean or dot they distort the ranking.",
        )


def _hubness(found: _Findings, occurrences: Integers) -> None:
    spread = float(occurrences.std())
    skew = 0.0
    if spread > 0:
        skew = float((((occurrences - occurrences.mean()) / spread) ** 3).mean())
    found.facts["skew of occurrences among the ten nearest"] = round(skew, 2)
    if skew > HUB_SKEW and len(occurrences) > 50:
        hubs = np.argsort(-occurrences, kind="stable")
        top = int(occurrences[hubs[0]])
        found.add(
            "hubness",
            "warning" if skew > WORSE_HUB_SKEW else "note",
            int((occurrences > occurrences.mean() + 5 * spread).sum()),
            [(int(row),) for row in hubs[:EXAMPLES]],
            f"A few rows are near to everything (skew {skew:.1f}; one is among the ten nearest of "
            f"{top} rows).",
            "Centre or whiten the embeddings, or rescale scores locally (CSLS).",
        )


# -- classes and ranking ----------------------------------------------------------------------


def _classes(found: _Findings, task: TaskRules) -> None:
    codes = task.query_codes
    if task.levels is not None and len(task.levels) > 1:
        found.facts["level of the classes, the finest"] = task.levels.names[-1]
    size = np.bincount(codes)
    alone = np.flatnonzero(size[codes] == 1)
    if len(alone):
        found.add(
            "singletons",
            "warning" if 10 * len(alone) > len(codes) else "note",
            len(alone),
            [(int(row),) for row in alone],
            f"{count(len(alone), 'row')} alone in the class: nothing to find for them.",
            "They count as distractors only; check that no label is misspelt.",
        )
    middle, largest = float(np.median(size)), int(size.max())
    found.facts["largest and median class size"] = [largest, middle]
    if largest > IMBALANCE * middle:
        found.add(
            "class imbalance",
            "warning",
            largest,
            [(int(row),) for row in np.flatnonzero(codes == size.argmax())[:EXAMPLES]],
            f"The largest class has {largest} rows, the median class {middle:g}: means over "
            "queries are mostly about it.",
            "Report average='class' as well.",
        )


def _ties(
    found: _Findings, task: TaskRules, rows: Array, distance: str, threads: int | None
) -> None:
    result = _evaluate(task, rows, distance, threads)
    gaps = {name: score.upper - score.lower for name, score in result.items()}
    worst = max(gaps, key=lambda name: gaps[name], default=None)
    found.facts["largest gap left open by ties"] = 0.0 if worst is None else gaps[worst]
    tied = None if worst is None else result[worst].per_query
    if worst is None or gaps[worst] == 0 or tied is None:
        return
    score = result[worst]
    open_rows = np.flatnonzero(tied.lower < tied.upper)
    found.add(
        "ties",
        "error" if gaps[worst] > 0.01 else "warning" if gaps[worst] > 0.001 else "note",
        len(open_rows),
        [(int(row),) for row in open_rows],
        f"Ties leave {worst} anywhere from {tables.percent(score.lower)} to "
        f"{tables.percent(score.upper)} %: row order alone can gain "
        f"{tables.percent(score.upper - score.lower)} points in a tool that sorts.",
        "Report the lower bound; look for equal rows, coarse scores or too low a precision.",
    )


def _evaluate(task: TaskRules, rows: Array, distance: str, threads: int | None) -> Result:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruerankWarning)
        return evaluate_task(task, rows, None, distance=distance, threads=threads, confidence=None)


def _half_precision(
    found: _Findings, task: TaskRules, rows: Array, distance: str, threads: int | None, seed: int
) -> None:
    """Rank some queries again with scores as half-precision code computes them."""
    queries = np.flatnonzero(task.mates > 0)
    if not len(queries):
        return
    most = max(16, SAMPLE_NUMBERS // len(rows))
    chosen = np.sort(queries[np.argsort(mix(queries + 1 + (seed << 32)), kind="stable")[:most]])
    unit = np.asarray(rows, np.float64)
    directions = catalogue.find(distance).points == "directions"
    if directions:
        norms = np.sqrt((unit * unit).sum(axis=1, keepdims=True))
        unit = unit / np.where(norms > 0, norms, 1.0)
    labels = task.query_codes
    options: dict[str, Any] = {"metrics": ["map"], "threads": threads, "confidence": None}
    every = np.arange(len(rows))
    some = TaskRules(labels[chosen], gallery_labels=labels, ids=chosen, gallery_ids=every)
    for name, rounded in (("float16", _float16), ("bfloat16", _bfloat16)):
        narrow = rounded(unit)
        scores = narrow[chosen] @ narrow.T
        if not directions:
            squares = (narrow * narrow).sum(axis=1)
            scores = 2 * scores - squares[chosen][:, None] - squares[None, :]
        scores = rounded(scores)
        exact = _exact_scores(unit, chosen, directions)
        pair = [
            evaluate_task(some, matrix, None, distance="similarity", **options)["map"]
            for matrix in (exact, scores)
        ]
        same = np.where(every[None, :] == chosen[:, None], -np.inf, exact)
        changed = _first_changed(same, np.where(np.isinf(same), -np.inf, scores))
        found.facts[f"{name} scoring"] = {
            "queries": len(chosen),
            "map": pair[0].value,
            "map, lower and upper": [pair[1].lower, pair[1].upper],
            "queries with another or a tied nearest row": int(changed.sum()),
        }
        moved = max(pair[1].upper - pair[1].lower, abs(pair[1].expected - pair[0].value))
        if moved > 0.005:
            found.add(
                f"{name} scoring",
                "note",
                int(changed.sum()),
                [(int(row),) for row in chosen[changed]],
                f"Scores computed in {name} would put mAP of {len(chosen)} queries anywhere from "
                f"{tables.percent(pair[1].lower)} to {tables.percent(pair[1].upper)} % instead of "
                f"{tables.percent(pair[0].value)} %.",
                f"Do not rank in {name}: store embeddings in it if you must, score in float32.",
            )


def _exact_scores(unit: Reals, chosen: Integers, directions: bool) -> Reals:
    scores: Reals = unit[chosen] @ unit.T
    if not directions:
        squares = (unit * unit).sum(axis=1)
        scores = 2 * scores - squares[chosen][:, None] - squares[None, :]
    return scores


def _first_changed(exact: Reals, rounded: Reals) -> npt.NDArray[np.bool_]:
    """Whether the nearest row is another one, or shares its score."""
    at = exact.argmax(axis=1)
    lines = np.arange(len(exact))
    best = rounded.max(axis=1)
    changed: npt.NDArray[np.bool_] = (rounded[lines, at] < best) | (
        (rounded == best[:, None]).sum(axis=1) > 1
    )
    return changed


def _float16(values: Array) -> npt.NDArray[np.float32]:
    with np.errstate(over="ignore"):
        return values.astype(np.float16).astype(np.float32)


def _bfloat16(values: Array) -> npt.NDArray[np.float32]:
    """Round float32 to its upper 16 bits, ties to even."""
    bits = values.astype(np.float32).view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return (rounded & np.uint32(0xFFFF0000)).view(np.float32)
