"""audit: what could distort a score. Embeddings and labels in, findings out.

Checks are of classes, duplicate rows and leaks from a training set, the geometry of the vectors
(collapse, norms, hubness), half precision and ties. Each finding gives its severity, the number
of rows concerned, examples, and advice. One pass over all pairs, tile by tile, gives the
nearest rows.
"""

from __future__ import annotations

import math
import os
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util import text
from truerank._util.errors import InputError, TruerankWarning, check_choice, check_seed
from truerank._util.progress import check_progress, shown
from truerank._util.settings import current_settings
from truerank._util.text import count
from truerank._util.types import Array, Integers, Reals
from truerank.core.jackknife import random_numbers
from truerank.core.score import Score
from truerank.distance import catalogue
from truerank.distance.base import Space
from truerank.distance.catalogue import build
from truerank.distance.digests import Fingerprints, as_keys, classes_of_equals, mix, row_digests
from truerank.evaluation.evaluate import evaluate_task
from truerank.evaluation.task_input import check_rows, check_threads
from truerank.io.reading import as_matrix, read_side
from truerank.io.vectors import chosen_distance
from truerank.result import tables
from truerank.task.task import TaskRules

# audit: what could make a score lie. Embeddings and labels in, findings out.
#
# Each finding says how bad it is, how many rows it concerns, which ones for example, and what to
# do. Clean data have no finding above a note. A check is a function that returns what it found;
# each kind has a file.


def audit(
    embeddings: Any,
    labels: Any = None,
    *,
    train: Any = None,
    distance: str | None = None,
    threads: int | None = None,
    seed: int = 0,
    progress: Callable[[int, int], None] | bool | None = None,
) -> Audit:
    """Check embeddings and labels for what makes scores misleading.

    Parameters
    ----------
    embeddings : (N, d) array, tensor or path
    labels : (N,) or (N, L), or the path of a file, optional
        Without them, and where the file of embeddings has none, nothing that concerns classes is
        checked. Of several levels the finest makes the classes; ties are checked at all levels.
    train : (M, d) array, tensor or path, optional
        Embeddings of the training rows: test rows found among them are leaks.
    distance : {"cosine", "euclidean"}, optional
        By default cosine, or what an HDF5 file of the rows says.
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
    distance = chosen_distance(distance, embeddings)
    check_choice("distance", distance, catalogue.names(points=True), of="audit")
    check_threads(threads)
    check_progress(progress)
    check_seed(seed)
    side = read_side(embeddings, labels)
    rows = as_matrix(side.embeddings, "embeddings")
    task = None if side.labels is None else TaskRules(side.labels)
    if task is not None:
        check_rows(task, rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruerankWarning)
        space = build(distance, rows)
    codes = np.arange(len(rows)) if task is None else task.query_codes
    known = None if train is None else as_matrix(train, "train")
    with shown(progress, "looking") as report:
        seen = neighbors(space, codes, codes, True, report)
        leaks = [] if known is None else [leaked_labels(rows, known, distance, report)]
    checks = [
        equal_rows(space, codes, task is not None),
        near_rows(seen, task is not None),
        *leaks,
    ]
    shape = measure(rows)
    checks += [
        zero_vectors(shape),
        constant_dimensions(shape),
        collapse(shape),
        norms(shape),
        hubness(seen.occurrences),
    ]
    if task is not None:
        checks += [
            sizes(task),
            left_open(task, rows, distance, threads),
            rank_again(task, space, rows, distance, threads, seed),
        ]
    findings = [finding for found in checks for finding in found.findings]
    findings.sort(key=lambda finding: SEVERITIES.index(finding.severity))
    return Audit(
        findings,
        {name: fact for found in checks for name, fact in found.facts.items()},
        [sentence for found in checks for sentence in found.sentences],
    )


# What the classes do to a score: rows alone in theirs, and one class that outweighs the rest.


IMBALANCE = 20


def sizes(task: TaskRules) -> Found:
    """Rows that are alone in their class, and classes of very different sizes."""
    found = Found()
    codes = task.query_codes
    if task.levels is not None and len(task.levels) > 1:
        finest = task.levels.names[-1]
        found.measure(
            "level of the classes, the finest",
            finest,
            f"Classes are those of the finest level, {finest}.",
        )
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
    found.measure(
        "largest and median class size",
        [largest, middle],
        f"The largest class has {count(largest, 'row')}, the median class {middle:g}.",
    )
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
    return found


# Rows that stand twice, or nearly: inside a class, across classes, and in the training set.


NEAR = 0.05
"""A near duplicate is at most this much of the usual nearest distance away (squared distances)."""
EXPECTED = 0.01
"""Near duplicates that chance alone may be expected to give in a whole data set."""


def equal_rows(space: Space, codes: Integers, labelled: bool) -> Found:
    """Rows that equal another; without labels they have no classes."""
    found = Found()
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
    equal = sum(len(rows) for rows in (*inside, *across))
    found.measure("rows that equal another", equal, f"{_number(equal, 'row')} equal to another.")
    return found


def near_rows(seen: NearestFound, labelled: bool) -> Found:
    """Rows far nearer to another than rows usually are."""
    found = Found()
    for name, kind, severity, what, advice in (
        (
            "near duplicates across classes",
            seen.other,
            "warning",
            "far nearer to a row of another class than rows usually are",
            "Check these pairs: wrong labels, or one object under two names.",
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
    return found


def _far_nearer(kind: TwoNearest) -> Integers:
    """Rows whose nearest of a kind is nearer than so many rows would have by chance.

    In data of intrinsic dimension m, squared distances to the nearest row fall below a share s of
    the median for about s^(m/2) ln 2 of the rows; m comes from the ratios of second to first
    nearest distances (Facco et al. 2017).
    """
    met = np.isfinite(kind.second) & (kind.first > 0)
    if np.count_nonzero(met) < 20:
        return np.empty(0, np.int64)
    first, second = kind.first[met], kind.second[met]
    dimension = 2 * len(first) / max(math.fsum(np.log(second / first)), 1e-300)
    share = min(NEAR, (EXPECTED / (math.log(2) * len(first))) ** (2 / dimension))
    return np.flatnonzero(met & (kind.first < share * np.median(first)))


def leaked_labels(
    rows: Array,
    train: Array,
    distance: str,
    progress: Callable[[int, int], None] | None,
) -> Found:
    """Test rows that are in the training set, or far nearer to it than usual."""
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
    found = Found()
    advice = "The model has seen them: drop them from the test set, and find out how they got in."
    if pairs:
        found.add(
            "leaks",
            "error",
            len(pairs),
            pairs,
            f"{count(len(pairs), 'row')} equal to a training row (test row and training row).",
            advice,
        )
    apart = np.arange(len(rows)), -1 - np.arange(len(train))
    seen = neighbors(space, *apart, False, progress).other
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
    found.measure(
        "rows found in the training set",
        len(pairs),
        f"{_number(len(pairs), 'row')} found in the training set.",
    )
    return found


def _number(number: int, noun: str) -> str:
    """'No row is', '1 row is', '1,200 rows are'."""
    if number == 0:
        return f"No {noun} is"
    return f"{count(number, noun)} {'is' if number == 1 else 'are'}"


# What an audit gives back: findings, the worst first, and what was measured.


SEVERITIES = ("error", "warning", "note")
EXAMPLES = 5


@dataclass(frozen=True)
class Finding:
    """One possible problem of the data."""

    name: str
    severity: str
    """error: scores are wrong or misleading; warning: check it; note: for information."""
    count: int
    rows: tuple[tuple[int, ...], ...]
    """Examples: single rows, or pairs of rows that belong together."""
    message: str
    advice: str

    def sentences(self) -> list[str]:
        """What was found, rows for example, and what to do."""
        shown = ", ".join(" and ".join(map(str, rows)) for rows in self.rows)
        more = ", ..." if self.count > len(self.rows) else ""
        return [self.message, *([f"rows {shown}{more}"] if self.rows else []), self.advice]


@dataclass(frozen=True)
class Found:
    """What one check found and measured."""

    findings: list[Finding] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    sentences: list[str] = field(default_factory=list)
    """The facts in words."""

    def measure(self, name: str, value: Any, sentence: str) -> None:
        """Add what was measured: as a plain value, and as a sentence."""
        self.facts[name] = value
        self.sentences.append(sentence)

    def add(
        self,
        name: str,
        severity: str,
        number: int,
        rows: Sequence[Sequence[int]],
        message: str,
        advice: str,
    ) -> None:
        """Add a finding that shows some of its rows."""
        some = tuple(tuple(int(row) for row in group) for group in rows[:EXAMPLES])
        self.findings.append(Finding(name, severity, number, some, message, advice))


@dataclass(frozen=True)
class Audit:
    """All findings, the worst first; prints as a list."""

    findings: list[Finding]
    facts: dict[str, Any]
    """What was measured, flagged or not."""
    sentences: list[str] = field(default_factory=list)
    """The same in words."""

    @property
    def clean(self) -> bool:
        """Whether nothing is worse than a note."""
        return all(finding.severity == "note" for finding in self.findings)

    @property
    def finding(self) -> str:
        """How many problems there are: 'Found 1 error and 2 warnings.'"""
        times = Counter(finding.severity for finding in self.findings)
        found = [count(times[kind], kind) for kind in ("error", "warning", "note") if times[kind]]
        if self.clean:
            return "No problems found" + (f", {found[0]}." if found else ".")
        return f"Found {' and '.join([', '.join(found[:-1])] * (len(found) > 1) + found[-1:])}."

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
            message, *others = finding.sentences()
            lines.append(f"{finding.severity}: {message}")
            lines += [f"  {sentence}" for sentence in others]
        lines = [self.finding, "", *lines] if lines else [self.finding]
        lines += ["", "Measured:", *(f"  {sentence}" for sentence in self.sentences)]
        return "\n".join(text.fill(lines, text.prose_width()))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        parts = [text.marked(found.severity, found.sentences()) for found in self.findings]
        measured = [text.heading("Measured"), text.paragraphs(self.sentences)]
        return text.block(text.heading(self.finding), *parts, *measured)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        findings = [
            vars(finding) | {"rows": [*map(list, finding.rows)]} for finding in self.findings
        ]
        return {"format": "truerank-audit", "findings": findings, "facts": self.facts}

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """The JSON text; written to `path` in one step if given."""
        from truerank._util.files import to_json

        return to_json(self.to_dict(), path)


# How the vectors lie in space: collapse, odd norms, and rows that are near to everything.


HUB_SKEW, WORSE_HUB_SKEW = 3.0, 6.0
"""Plain Gaussian noise of 128 dimensions has a skew near 3.5."""
GRID = 2.0**18
"""Directions are rounded to multiples of 1/GRID: whole numbers add up the same in any order."""
EXACT_ROWS = 1 << 17
"""Rows whose products of multiples of 1/GRID a float64 adds up exactly."""
NORM_DEVIATIONS, NORM_FACTOR = 8.0, 2.0


@dataclass(frozen=True)
class Shape:
    """What one walk over the rows measures; a direction is a row scaled to length 1."""

    norms: Reals
    low: Reals
    """The smallest and"""
    high: Reals
    """the largest value of each dimension."""
    mean: Reals
    """Of the directions,"""
    covariance: Reals
    """and how they vary around it."""


def measure(rows: Array) -> Shape:
    """The shape of a set of vectors, some of its rows at a time."""
    total, dimension = rows.shape
    norms = np.empty(total)
    mean = np.zeros(dimension, np.int64)
    moments = np.zeros((dimension, dimension), np.int64)
    low, high = np.full(dimension, np.inf), np.full(dimension, -np.inf)
    step = max(1, min(EXACT_ROWS, (1 << 21) // dimension))
    for start in range(0, total, step):
        some = np.asarray(rows[start : start + step], np.float64)
        scale = np.abs(some).max(axis=1)
        safe = np.where(scale > 0, scale, 1.0)[:, None]
        lengths = np.sqrt(((some / safe) ** 2).sum(axis=1)) * safe[:, 0]
        norms[start : start + step] = np.where(scale > 0, lengths, 0.0)
        unit = np.rint(GRID * (some / np.where(lengths > 0, lengths, 1.0)[:, None]))
        mean += unit.sum(axis=0).astype(np.int64)
        moments += (unit.T @ unit).astype(np.int64)
        low, high = np.minimum(low, some.min(axis=0)), np.maximum(high, some.max(axis=0))
    middle = mean / total / GRID
    covariance = moments / total / GRID**2 - np.outer(middle, middle)
    return Shape(norms, low, high, middle, covariance)


def zero_vectors(shape: Shape) -> Found:
    """Rows of zeros, which point nowhere."""
    found = Found()
    zero = np.flatnonzero(shape.norms == 0)
    if len(zero):
        found.add(
            "zero vectors",
            "error",
            len(zero),
            [(int(row),) for row in zero],
            f"{count(len(zero), 'row')} of zeros, which are equally near to everything.",
            "Compute them again: an all-zero vector usually is a failed input.",
        )
    return found


def constant_dimensions(shape: Shape) -> Found:
    """Dimensions in which all rows are equal."""
    found = Found()
    dimension = len(shape.mean)
    dead = np.flatnonzero(shape.low == shape.high)
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
    return found


def collapse(shape: Shape) -> Found:
    """Rows that all point one way, or vary in few dimensions."""
    found = Found()
    total, dimension = len(shape.norms), len(shape.mean)
    common = float(shape.mean @ shape.mean)
    found.measure(
        "cosine between random rows",
        round(common, 4),
        f"Two random rows have a cosine of {common:.4f} on average.",
    )
    if common > 0.9:
        found.add(
            "collapsed vectors",
            "error" if common > 0.999 else "warning",
            total,
            [],
            f"All rows point the same way: their cosines are {common:.4f} on average.",
            "Training has collapsed, or the embeddings need centring; low precision will hurt.",
        )
    rank = _effective_rank(shape.covariance)
    found.measure(
        "effective rank",
        round(rank, 1),
        f"The rows vary in about {rank:.1f} of {dimension} dimensions (effective rank).",
    )
    if dimension >= 8 and rank < max(2.0, 0.05 * min(dimension, total - 1)):
        found.add(
            "dimensional collapse",
            "warning",
            dimension,
            [],
            f"The rows vary in about {rank:.1f} of {dimension} dimensions (effective rank).",
            "The model wastes its dimensions; a smaller embedding may do as well.",
        )
    return found


def _effective_rank(covariance: Reals) -> float:
    """As many equal eigenvalues as would have the entropy of these."""
    values = np.clip(np.linalg.eigvalsh(covariance), 0.0, None)
    if values.sum() > 0:
        share = values[values > 0] / values.sum()
        return float(np.exp(-(share * np.log(share)).sum()))
    return 0.0


def norms(shape: Shape) -> Found:
    """Rows much longer or shorter than the others."""
    found = Found()
    positive = shape.norms > 0
    logs = np.log2(shape.norms[positive])
    if len(logs) < 20:
        return found
    centre = float(np.median(logs))
    spread = 1.4826 * float(np.median(np.abs(logs - centre)))
    bound = max(NORM_DEVIATIONS * spread, math.log2(NORM_FACTOR))
    with np.errstate(divide="ignore"):
        odd = np.flatnonzero((np.abs(np.log2(shape.norms) - centre) > bound) & positive)
    found.measure("median norm", float(f"{2**centre:.4g}"), f"The median norm is {2**centre:.4g}.")
    if len(odd):
        found.add(
            "norm anomalies",
            "warning",
            len(odd),
            [(int(row),) for row in odd],
            f"{count(len(odd), 'row')} with a norm far from the usual {2**centre:.3g}.",
            "Check these inputs; with euclidean or dot they distort the ranking.",
        )
    return found


def hubness(occurrences: Integers) -> Found:
    """Rows that are among the nearest of very many others."""
    found = Found()
    spread, skew = _spread_and_skew(occurrences)
    found.measure(
        "skew of occurrences among the ten nearest",
        round(skew, 2),
        f"How often a row is among the ten nearest of other rows has a skew of {skew:.2f} "
        "(hubness).",
    )
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
    return found


def _spread_and_skew(counts: Integers) -> tuple[float, float]:
    """Standard deviation and skew, from sums of whole numbers: no order of the rows shows."""
    total, values = len(counts), counts.tolist()
    one, two, three = (sum(value**power for value in values) for power in (1, 2, 3))
    square = total * two - one**2
    if not square:
        return 0.0, 0.0
    cube = total**2 * three - 3 * total * one * two + 2 * one**3
    return math.sqrt(square) / total, cube / square**1.5


# What becomes of a ranking whose scores are computed in half precision.


Booleans = npt.NDArray[np.bool_]

Floats = npt.NDArray[np.floating[Any]]

SAMPLE_NUMBERS = 1 << 23
"""Scores recomputed in half precision: as many rows as fit this."""


def rank_again(
    task: TaskRules, space: Space, rows: Array, distance: str, threads: int | None, seed: int
) -> Found:
    """Rank some queries again with scores as half-precision code computes them."""
    found = Found()
    queries = np.flatnonzero(task.n_relevant > 0)
    if not len(queries):
        return found
    most = max(16, SAMPLE_NUMBERS // len(rows))
    key = mix(_contents(task, space)[queries] + random_numbers(seed, 1)[0])
    chosen = np.sort(queries[np.argsort(key, kind="stable")[:most]])
    directions = catalogue.find(distance).points == "directions"
    points = np.ascontiguousarray(rows, np.float64)
    if directions:
        norms = np.sqrt((points * points).sum(axis=1, keepdims=True))
        points = points / np.where(norms > 0, norms, 1.0)
    labels = task.query_codes
    every = np.arange(len(rows))
    some = TaskRules(labels[chosen], gallery_labels=labels, ids=chosen, gallery_ids=every)
    number, times = classes_of_equals(row_digests((points + 0.0).view(np.int64)))
    points = points[np.argsort(number, kind="stable")[np.cumsum(times) - times]]
    exact = _scores(points, number, chosen, directions)
    right = _mean_average_precision(some, exact, threads)
    others = np.where(every[None, :] == chosen[:, None], -np.inf, exact)
    for name, rounded in (("float16", _float16), ("bfloat16", _bfloat16)):
        scores = rounded(_scores(rounded(points), number, chosen, directions))
        narrow = _mean_average_precision(some, scores, threads)
        changed = _first_changed(others, np.where(np.isinf(others), -np.inf, scores))
        _say(found, name, chosen, changed, right, narrow)
    return found


def _contents(task: TaskRules, space: Space) -> Fingerprints:
    """A number for each row, of what it and its class hold: no order and no name shows in it."""
    rows = space.fingerprints()
    total = np.zeros(int(task.query_codes.max()) + 1, np.uint64)
    np.add.at(total, task.query_codes, mix(rows))
    return mix(rows + mix(total)[task.query_codes])


def _scores(points: Floats, number: Integers, chosen: Integers, directions: bool) -> Floats:
    """Of the chosen rows with all, in the precision of the points; larger is nearer.

    Points are distinct and in an order of their own, and each row has the number of its point: the
    last bits of a product of matrices follow from where its lines stand.
    """
    asked, line = np.unique(number[chosen], return_inverse=True)
    scores: Floats = points[asked] @ points.T
    if not directions:
        squares = (points * points).sum(axis=1)
        scores = 2 * scores - squares[asked][:, None] - squares[None, :]
    return scores[line][:, number]


def _mean_average_precision(task: TaskRules, scores: Floats, threads: int | None) -> Score:
    options: dict[str, Any] = {"metrics": ["map"], "threads": threads, "confidence": None}
    return evaluate_task(task, scores, None, distance="similarity", **options)["map"]


def _say(
    found: Found, name: str, chosen: Integers, changed: Booleans, exact: Score, narrow: Score
) -> None:
    """Note what a precision makes of the chosen queries, and flag it where that is much."""
    other = int(changed.sum())
    found.measure(
        f"{name} scoring",
        {
            "queries": len(chosen),
            "map": exact.value,
            "map, lower and upper": [narrow.lower, narrow.upper],
            "queries with another or a tied nearest row": other,
        },
        f"Scored in {name}, {count(len(chosen), 'query')} would have a leave-one-out mAP of "
        f"{tables.percent(narrow.lower)} to {tables.percent(narrow.upper)} % instead of "
        f"{tables.percent(exact.value)} %, and {other:,} of them another nearest row, or a "
        "tied one.",
    )
    if max(narrow.upper - narrow.lower, abs(narrow.expected - exact.value)) > 0.005:
        found.add(
            f"{name} scoring",
            "note",
            int(changed.sum()),
            [(int(row),) for row in chosen[changed]],
            f"Scores computed in {name} would put the leave-one-out mAP of {len(chosen)} rows "
            f"anywhere from {tables.percent(narrow.lower)} to {tables.percent(narrow.upper)} % "
            f"instead of {tables.percent(exact.value)} %.",
            f"Do not rank in {name}: store embeddings in it if you must, score in float32.",
        )


def _first_changed(exact: Floats, rounded: Floats) -> Booleans:
    """Whether the nearest row is another one, or shares its score.

    Of several that are nearest, the one counts that comes out best.
    """
    first = exact == exact.max(axis=1, keepdims=True)
    best = rounded.max(axis=1)
    found = np.where(first, rounded, -np.inf).max(axis=1)
    changed: Booleans = (found < best) | ((rounded == best[:, None]).sum(axis=1) > 1)
    return changed


def _float16(values: Array) -> npt.NDArray[np.float32]:
    with np.errstate(over="ignore"):
        return values.astype(np.float16).astype(np.float32)


def _bfloat16(values: Array) -> npt.NDArray[np.float32]:
    """Round float32 to its upper 16 bits, ties to even."""
    bits = values.astype(np.float32).view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return (rounded & np.uint32(0xFFFF0000)).view(np.float32)


# One streaming pass over all pairs: what lies nearest to each row, and how often each row does.
#
# A tile of exact distances at a time; nothing of the size rows x rows is ever held.


NEAREST = 10


@dataclass(frozen=True)
class TwoNearest:
    """The two smallest distances of each row to rows of one kind, and where the first lies."""

    first: Reals
    second: Reals
    where: Integers

    @staticmethod
    def empty(rows: int) -> TwoNearest:
        """Nothing met yet."""
        return TwoNearest(np.full(rows, np.inf), np.full(rows, np.inf), np.full(rows, -1))

    def add(self, block: slice, distances: Reals, start: int) -> None:
        """Look at a tile; what does not count in it is infinite."""
        at = np.argmin(distances, axis=1)
        lines = np.arange(len(distances))
        first = distances[lines, at]
        kept = distances[lines, at]
        distances[lines, at] = np.inf
        second = distances.min(axis=1)
        distances[lines, at] = kept
        old, old_second = self.first[block].copy(), self.second[block].copy()
        nearer = first < old
        self.where[block] = np.where(nearer, at + start, self.where[block])
        self.first[block] = np.minimum(old, first)
        self.second[block] = np.minimum(np.maximum(old, first), np.minimum(old_second, second))


@dataclass(frozen=True)
class NearestFound:
    """What the pass saw. Distances are in the user's unit."""

    same: TwoNearest
    """Rows of the same label,"""
    other: TwoNearest
    """and of another label (all rows where there are no labels)."""
    occurrences: Integers
    """How often each item is among the ten nearest of another, or as near as the tenth."""


def neighbors(
    space: Space,
    query_codes: Integers,
    gallery_codes: Integers,
    leave_one_out: bool,
    progress: Callable[[int, int], None] | None = None,
) -> NearestFound:
    """Look at every query x item once; without labels all codes are to be distinct."""
    queries, items = space.queries, space.gallery
    same, other = TwoNearest.empty(queries), TwoNearest.empty(queries)
    occurrences = np.zeros(items, np.int64)
    sizes = current_settings()
    tall, wide = sizes.neighbor_rows, sizes.neighbor_items
    for top in range(0, queries, tall):
        rows = np.arange(top, min(top + tall, queries))
        block = slice(top, top + len(rows))
        tile = space.block(rows)
        best = np.full((len(rows), 0), np.inf)
        best_at = np.zeros((len(rows), 0), np.int64)
        for start in range(0, items, wide):
            stop = min(start + wide, items)
            distances = tile(start, stop)
            if leave_one_out:
                own = rows[(rows >= start) & (rows < stop)]
                distances[own - top, own - start] = np.inf
            matches = query_codes[rows][:, None] == gallery_codes[None, start:stop]
            same.add(block, np.where(matches, distances, np.inf), start)
            other.add(block, np.where(matches, np.inf, distances), start)
            count = min(NEAREST + 1, distances.shape[1])
            at = np.argpartition(distances, count - 1, axis=1)[:, :count]
            best = np.hstack([best, np.take_along_axis(distances, at, axis=1)])
            best_at = np.hstack([best_at, at + start])
            keep = np.argsort(best, axis=1, kind="stable")[:, : NEAREST + 1]
            best = np.take_along_axis(best, keep, axis=1)
            best_at = np.take_along_axis(best_at, keep, axis=1)
        tied = _tied(best)
        clear = ~tied[:, None] & np.isfinite(best[:, :NEAREST])
        np.add.at(occurrences, best_at[:, :NEAREST][clear], 1)
        if tied.any():
            _count_tied(space, rows[tied], best[tied, NEAREST - 1], leave_one_out, occurrences)
        if progress is not None:
            progress(top + len(rows), queries)
    for kind in (same, other):
        for values in (kind.first, kind.second):
            met = np.isfinite(values)
            values[met] = space.in_unit(values[met])
    return NearestFound(same, other, occurrences)


def _tied(best: Reals) -> npt.NDArray[np.bool_]:
    """Which rows have an eleventh item as near as the tenth."""
    if best.shape[1] <= NEAREST:
        return np.zeros(len(best), bool)
    tied: npt.NDArray[np.bool_] = best[:, NEAREST] == best[:, NEAREST - 1]
    return tied & np.isfinite(best[:, NEAREST])


def _count_tied(
    space: Space, rows: Integers, limit: Reals, leave_one_out: bool, occurrences: Integers
) -> None:
    """Count every item that is as near as the tenth: none of them is before another."""
    tile, wide = space.block(rows), current_settings().neighbor_items
    for start in range(0, space.gallery, wide):
        stop = min(start + wide, space.gallery)
        near = tile(start, stop) <= limit[:, None]
        if leave_one_out:
            own = (rows >= start) & (rows < stop)
            near[np.flatnonzero(own), rows[own] - start] = False
        occurrences[start:stop] += np.count_nonzero(near, axis=0)


# How much of a score the order of tied rows decides, where the rows are searched in themselves.
#
# The metric is called by a name that says so: beside it may stand a result of queries that search
# these rows, with another value under the plain name.


def left_open(task: TaskRules, rows: Array, distance: str, threads: int | None) -> Found:
    """The metric of which ties leave most open."""
    found = Found()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruerankWarning)
        result = evaluate_task(
            task, rows, None, distance=distance, threads=threads, confidence=None
        )
    gaps = {name: score.upper - score.lower for name, score in result.items()}
    worst = max(gaps, key=lambda name: gaps[name], default=None)
    gap = 0.0 if worst is None else gaps[worst]
    name = f"leave-one-out {worst}"
    found.measure(
        "largest gap left open by ties",
        gap,
        f"Ties leave at most {tables.percent(gap)} points of a metric open"
        + (f" ({name})." if gap else "."),
    )
    tied = None if worst is None else result[worst].per_query
    if worst is None or gaps[worst] == 0 or tied is None:
        return found
    score = result[worst]
    open_rows = np.flatnonzero(tied.lower < tied.upper)
    found.add(
        "ties",
        "error" if gaps[worst] > 0.01 else "warning" if gaps[worst] > 0.001 else "note",
        len(open_rows),
        [(int(row),) for row in open_rows],
        f"Because of ties, the {name} of these rows is anywhere from "
        f"{tables.percent(score.lower)} to {tables.percent(score.upper)} %: row order alone can "
        f"gain {tables.percent(score.upper - score.lower)} points in a tool that sorts.",
        "Report the lower bound; check for equal rows, coarse scores or too low a precision.",
    )
    return found
