"""Compression of embeddings: the smallest copy that is not worse than the original.

Every copy (the first dimensions, fewer bits per component) is evaluated as the original is and
paired with it class by class. A copy is not worse if even the lower end of the difference's
interval is above minus the margin.
"""

from __future__ import annotations

import numbers
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from truerank._util import text
from truerank._util.errors import InputError, TruerankWarning, shortened
from truerank._util.old_names import renamed_keywords
from truerank._util.progress import shown
from truerank._util.text import LOWER, TextTable, either
from truerank._util.types import Array
from truerank.analysis.compare import Comparison, compare
from truerank.analysis.differences import Difference
from truerank.core import registry
from truerank.distance import catalogue
from truerank.evaluation.evaluate import evaluate_task
from truerank.evaluation.task_input import prepare
from truerank.io.vectors import chosen_distance
from truerank.result import tables
from truerank.result.result import Result
from truerank.task.task import TaskRules

# Smaller copies of embeddings: the first dimensions, and components of fewer bits.
#
# In: rows and gallery items as they are stored. Out: the same as a smaller index would hold them,
# both sides alike, with the distance that goes with them and the bytes that one vector takes.


DTYPES = ("float16", "int8", "binary")
"""What components may become."""


@renamed_keywords(no_mate="unmated")
def compression_sweep(
    embeddings: Any,
    labels: Any = None,
    *,
    dims: Iterable[int] | int | None = None,
    dtypes: Iterable[str] | str = DTYPES,
    margin: float = 0.005,
    metrics: Iterable[str] | str = "map@r",
    gallery: Any = None,
    gallery_labels: Any = None,
    query_ids: Any = None,
    gallery_ids: Any = None,
    query_groups: Any = None,
    gallery_groups: Any = None,
    junk: Any = None,
    junk_labels: Iterable[Any] = (),
    relevance: Any = None,
    distance: str | None = None,
    average: str = "query",
    unmated: str = "report",
    unlabelled: str = "error",
    device: str = "auto",
    threads: int | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    units: str = "metric",
    progress: Callable[[int, int], None] | bool | None = None,
) -> CompressionSweep:
    """Find the smallest copy of embeddings that is not worse than the original.

    Parameters
    ----------
    embeddings, labels, gallery, gallery_labels, query_ids, gallery_ids, query_groups : optional
        As for evaluate, and so are all parameters that are not named here.
    dims : numbers, optional
        Prefixes to try beside all dimensions, for embeddings of which the first dimensions are
        meant to do (Matryoshka).
    dtypes : some of "float16", "int8", "binary"
        What components become: half precision; int8 with one scale a dimension, at which the
        99.9 % quantile of the gallery's absolute values is 127; signs, compared by the hamming
        distance. Prefixes are tried as they are stored, too. Queries and gallery are kept alike.
    margin : float
        How much a copy may lose: it is not worse if the lower end of the paired difference's
        interval is above -margin, in every metric.
    metrics : strings
        By default map@r.
    confidence : float
        Of the intervals of the differences.

    Returns
    -------
    CompressionSweep
        It prints as a table; `smallest` is the smallest copy that is not worse.

    Examples
    --------
    >>> import numpy as np, truerank
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(np.arange(60), 5)
    >>> rows = rng.standard_normal((60, 64))[y] + 0.7 * rng.standard_normal((300, 64))
    >>> found = truerank.compression_sweep(rows.astype(np.float32), y, dims=[8, 32], margin=0.02)
    >>> str(found.smallest.copy), found.original.copy.bytes
    ('64 x int8', 256)
    """
    distance = chosen_distance(distance, embeddings, gallery)
    task, rows, items = prepare(
        embeddings,
        labels,
        gallery=gallery,
        gallery_labels=gallery_labels,
        query_ids=query_ids,
        gallery_ids=gallery_ids,
        query_groups=query_groups,
        gallery_groups=gallery_groups,
        junk=junk,
        junk_labels=junk_labels,
        relevance=relevance,
        distance=distance,
        unmated=unmated,
        unlabelled=unlabelled,
    )
    return sweep_task(
        task,
        rows,
        items,
        dims=dims,
        dtypes=dtypes,
        margin=margin,
        metrics=metrics,
        distance=distance,
        average=average,
        device=device,
        threads=threads,
        confidence=confidence,
        seed=seed,
        units=units,
        progress=progress,
    )


def sweep_task(
    task: TaskRules,
    rows: Array,
    items: Array | None,
    *,
    dims: Any = None,
    dtypes: Any = DTYPES,
    margin: float = 0.005,
    metrics: Iterable[str] | str | None = "map@r",
    distance: str = "cosine",
    confidence: float = 0.95,
    seed: int = 0,
    progress: Callable[[int, int], None] | bool | None = None,
    **options: Any,
) -> CompressionSweep:
    """The same for the rows (and gallery items) of a task, in its order."""
    _check_distance(distance)
    allowed = _margin(margin)
    if not isinstance(metrics, str) and np.iterable(metrics):
        metrics = list(metrics)
    asked = "map@r" if metrics is None else metrics
    chosen = [str(metric) for metric in registry.parse_all(asked)]
    if task.levels is None:
        registry.check_judged(asked)
    if confidence is None:
        raise InputError(
            "The 'confidence' parameter of compression_sweep must be a number. Got None."
        )
    original, copies = chosen_copies(rows, dims, dtypes)
    task = task.numbered()  # intervals then look at the same queries in every copy
    with shown(progress, "sweeping") as report:

        def evaluated(number: int, copy: Copy | None) -> Result:
            told = None
            if report is not None:
                told = _part(report, number, len(copies) + 1)
            if copy is None:
                queries, gallery, way = rows, items, distance
            else:
                queries, gallery, way = make_copy(copy, rows, items, distance)
            return evaluate_task(
                task,
                queries,
                gallery,
                distance=way,
                metrics=chosen,
                confidence=confidence,
                seed=seed,
                progress=told,
                copied=copy is not None,
                **options,
            )

        whole = evaluated(0, None)
        for name in chosen:
            if whole[name].reason is not None:
                raise InputError(f"metric {name!r} is undefined here: {whole[name].reason}.")
        kept = []
        for number, copy in enumerate(copies, start=1):
            with warnings.catch_warnings():  # what is to be said was said of the original
                warnings.simplefilter("ignore", TruerankWarning)
                result = evaluated(number, copy)
            compared = compare(
                result,
                whole,
                names=[str(copy), "original"],
                metrics=chosen,
                confidence=confidence,
                seed=seed,
            )
            kept.append(Kept.of(copy, result, compared, allowed))
    return CompressionSweep(
        Kept.of(original, whole, None, allowed),
        tuple(kept),
        tuple(chosen),
        allowed,
        float(confidence),
        distance,
        compared.method,
    )


def _part(
    report: Callable[[int, int], None], number: int, parts: int
) -> Callable[[int, int], None]:
    """Progress of one evaluation as that of all."""
    return lambda done, total: report(number * total + done, parts * total)


def _check_distance(distance: str) -> None:
    if catalogue.find(distance).given or distance == OF_SIGNS:
        raise InputError(
            "compression_sweep takes embeddings of numbers; "
            f"distance {distance!r} leaves nothing to compress."
        )


def _margin(margin: Any) -> float:
    known = isinstance(margin, numbers.Real) and not isinstance(margin, bool)
    if not known or not 0 <= margin <= 1:
        raise InputError(
            "The 'margin' parameter of compression_sweep must be a number from 0 to 1. "
            f"Got {shortened(margin)}."
        )
    return float(margin)


QUANTILE = 0.999
"""Of the absolute values of a dimension; it becomes 127, and what lies beyond is cut."""
LEVELS = 127
ROWS, COLUMNS = 65_536, 32

OF_SIGNS = "hamming"
"""The distance of binary copies; embeddings that have it already hold nothing but signs."""


@dataclass(frozen=True)
class Copy:
    """How vectors are stored: the number of dimensions, and the type of a component."""

    dims: int
    dtype: str
    """One of DTYPES, or that of the embeddings as they are."""
    bytes: int
    """That one vector takes."""

    def __str__(self) -> str:
        return f"{self.dims} x {self.dtype}"


def chosen_copies(rows: Array, dims: Any, dtypes: Any) -> tuple[Copy, list[Copy]]:
    """The original, and every choice of dimensions with every kind of component, smallest first."""
    width, stored = int(rows.shape[1]), str(rows.dtype)
    widths = [*dict.fromkeys(_dims(dims, width)), width]
    kinds = [*dict.fromkeys(_dtypes(dtypes)), stored]
    sizes = {"float16": lambda d: 2 * d, "int8": lambda d: d, "binary": lambda d: -(-d // 8)}
    of_stored: Callable[[int], int] = lambda d: d * rows.dtype.itemsize  # noqa: E731
    copies = {Copy(d, kind, sizes.get(kind, of_stored)(d)) for d in widths for kind in kinds}
    original = Copy(width, stored, of_stored(width))
    smaller = [copy for copy in copies if copy.bytes < original.bytes]
    if not smaller:
        raise InputError(
            f"nothing here is smaller than the embeddings, {original}; name fewer dims, or dtypes "
            "of fewer bits."
        )
    return original, sorted(smaller, key=lambda copy: (copy.bytes, copy.dims))


def _dims(dims: Any, width: int) -> list[int]:
    given = [] if dims is None else _listed(dims, "dims")
    for one in given:
        if isinstance(one, bool) or not isinstance(one, (int, np.integer)) or not 0 < one <= width:
            raise InputError(
                f"dims are numbers from 1 to {width}, the dimensions of the embeddings. "
                f"Got {shortened(one)}."
            )
    return [int(one) for one in given]


def _dtypes(dtypes: Any) -> list[str]:
    given = _listed(dtypes, "dtypes")
    for one in given:
        if not isinstance(one, str) or one not in DTYPES:
            raise InputError(f"dtypes are {either(DTYPES)}. Got {shortened(one)}.")
    return given


def _listed(values: Any, name: str) -> list[Any]:
    if isinstance(values, (str, int, np.integer)):
        return [values]
    try:
        return list(values)
    except TypeError:
        raise InputError(
            f"The '{name}' parameter must hold several. Got {shortened(values)}."
        ) from None


def make_copy(
    copy: Copy, rows: Array, items: Array | None, distance: str
) -> tuple[Array, Array | None, str]:
    """Queries, gallery items and the distance between them.

    Cosine copies are of vectors of length 1, as an index for cosine holds them; each prefix is
    brought to length 1 anew. The scales of int8 come from the gallery, which is what an index has
    before any query comes.
    """
    sides = [rows] if items is None else [rows, items]
    cut = [side[:, : copy.dims] for side in sides]
    if copy.dtype not in DTYPES:
        made: Sequence[Array] = cut
    elif copy.dtype == "binary":
        made, distance = [side > 0 for side in cut], OF_SIGNS
    else:
        turns = catalogue.find(distance).points == "directions"  # lengths do not count
        real = [_unit(side) for side in cut] if turns else cut
        made = _in_int8(real) if copy.dtype == "int8" else [_in_float16(side) for side in real]
    return made[0], None if items is None else made[1], distance


def _blocks(count: int, size: int) -> Iterator[slice]:
    """Parts of rows or columns: what is worked on in float64 stays small."""
    return (slice(start, start + size) for start in range(0, count, size))


def _unit(side: Array) -> Array:
    """Rows of length 1 in float32; zero rows stay what they are."""
    found = np.empty(side.shape, np.float32)
    for block in _blocks(len(side), ROWS):
        real = side[block].astype(np.float64)
        largest = np.abs(real).max(axis=1, keepdims=True)
        real /= np.where(largest > 0, largest, 1.0)  # so that no square overflows or vanishes
        length = np.sqrt((real * real).sum(axis=1, keepdims=True))
        found[block] = real / np.where(length > 0, length, 1.0)
    return found


def _in_float16(side: Array) -> Array:
    with np.errstate(over="ignore"):
        found = side.astype(np.float16)
    if not np.isfinite(found).all():
        raise InputError(
            "float16 holds numbers up to 65504, and some components are larger; scale the "
            "embeddings, or leave float16 out."
        )
    return found


def _in_int8(sides: Sequence[Array]) -> list[Array]:
    """Each dimension by one scale, from the side that is searched; as numbers again."""
    searched = sides[-1]
    scale = np.concatenate(
        [
            np.quantile(np.abs(searched[:, block].astype(np.float64)), QUANTILE, axis=0)
            for block in _blocks(searched.shape[1], COLUMNS)
        ]
    )
    scale /= LEVELS
    steps = np.where(scale > 0, scale, 1.0)
    made = []
    for side in sides:
        found = np.empty(side.shape, np.float64 if side.dtype == np.float64 else np.float32)
        for block in _blocks(len(side), ROWS):
            found[block] = np.clip(np.rint(side[block] / steps), -LEVELS, LEVELS) * scale
        made.append(found)
    return made


# What a sweep found: every copy beside the original, as a table, CSV, a frame or JSON.


@dataclass(frozen=True)
class Kept:
    """A copy, its scores, and their differences from the original's."""

    copy: Copy
    scores: dict[str, float]
    differences: dict[str, Difference]
    """Copy minus original, by metric; none of the original itself."""
    not_worse: bool | None
    """None where there is no interval to tell by."""

    @classmethod
    def of(cls, copy: Copy, result: Result, compared: Comparison | None, margin: float) -> Kept:
        """From a copy's result and its comparison with the original."""
        scores = {name: result[name].value for name in result}
        if compared is None:
            return cls(copy, scores, {}, True)
        differences = {row.metric: row for row in compared.differences}
        judged = [_not_worse(row, margin) for row in differences.values()]
        verdict = None if None in judged else all(judged)
        return cls(copy, scores, differences, False if False in judged else verdict)


def _not_worse(row: Difference, margin: float) -> bool | None:
    if row.interval is None:
        return None
    low, high = row.interval
    higher = registry.find(row.metric).higher_is_better
    return (low if higher else -high) > -margin


@dataclass(frozen=True)
class CompressionSweep:
    """All copies of a sweep, the smallest first."""

    original: Kept
    copies: tuple[Kept, ...]
    metrics: tuple[str, ...]
    margin: float
    confidence: float
    distance: str
    method: str
    """What gives the differences their intervals."""

    @property
    def smallest(self) -> Kept:
        """The fewest bytes that are not worse, of equally many the best; at worst the original."""
        fit = [one for one in self.copies if one.not_worse]
        if not fit:
            return self.original
        least = min(one.copy.bytes for one in fit)
        first = self.metrics[0]
        sign = 1 if registry.find(first).higher_is_better else -1
        alike = [one for one in fit if one.copy.bytes == least]
        return max(alike, key=lambda one: sign * one.scores[first])

    def __str__(self) -> str:
        return self.to_text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        table, notes = text.table(self._table()), text.paragraphs(self.notes)
        return text.block(text.heading(self.finding), table, notes)

    def to_text(self, *, rule: bool = False) -> str:
        """Plain text as wide as the screen: the finding, and every copy."""
        finding = text.paragraph(self.finding, strong=rule)
        return f"{finding}\n\n{tables.laid_out(self._table(), self.notes, rule=rule)}"

    def to_markdown(self) -> str:
        """A Markdown table and the sentences below it."""
        notes = map(text.escape_markdown, [self.finding, *self.notes])
        return text.markdown(self._table()) + "\n" + "\n".join(notes) + "\n"

    def to_latex(self) -> str:
        """A LaTeX table (booktabs)."""
        return text.latex(self._table())

    def _table(self) -> TextTable:
        several = len(self.metrics) > 1
        header = ["copy", "bytes", "of all", *(["metric"] if several else [])]
        header += ["score" if several else tables.marked(self.metrics[0])]
        header += ["difference", f"its {100 * self.confidence:g} % interval", "not worse"]
        rows = []
        for one in (*self.copies, self.original):
            for number, metric in enumerate(self.metrics):
                shown = tables.number(metric)
                row = one.differences.get(metric)
                share = f"{100 * one.copy.bytes / self.original.copy.bytes:.1f} %"
                cells = [str(one.copy), f"{one.copy.bytes:,}", share] if not number else [""] * 3
                cells += [tables.marked(metric)] if several else []
                cells += [shown(one.scores[metric]), *_apart(row, shown)]
                rows.append([*cells, _verdict(one) if not number else ""])
        words = (0, 3, len(header) - 1) if several else (0, len(header) - 1)
        return TextTable(header, rows, words=words)

    @property
    def _points(self) -> str:
        return f"{100 * self.margin:g} " + ("point" if self.margin == 0.01 else "points")

    @property
    def finding(self) -> str:
        """The smallest copy that is not worse than the original."""
        found = self.smallest
        if found is self.original:
            return f"No smaller copy is shown to be within {self._points} of the original."
        share = self.original.copy.bytes / found.copy.bytes
        return (
            f"Smallest copy that is not worse: {found.copy}, {found.copy.bytes:,} bytes per "
            f"vector, {share:.3g} times smaller."
        )

    @property
    def notes(self) -> list[str]:
        """How to read it."""
        scale = "In percent"
        if tables.is_lower_better(self.metrics):
            scale += f"; {LOWER} lower is better"
        lines = [
            f"{scale}. Not worse: the {100 * self.confidence:g} % interval of the paired "
            f"difference (copy minus original, by {self.method}) ends less than {self._points} "
            "below the original; each interval is by itself.",
        ]
        reasons = {row.reason for one in self.copies for row in one.differences.values()}
        lines += [f"No interval: {reason}." for reason in sorted(filter(None, reasons))]
        return lines

    def _records(self) -> list[dict[str, Any]]:
        found = []
        for one in (*self.copies, self.original):
            for metric in self.metrics:
                row = one.differences.get(metric)
                low, high = (None, None) if row is None or row.interval is None else row.interval
                found.append(
                    {
                        "dims": one.copy.dims,
                        "dtype": one.copy.dtype,
                        "bytes": one.copy.bytes,
                        "metric": metric,
                        "value": one.scores[metric],
                        "difference": None if row is None else row.value,
                        "interval_low": low,
                        "interval_high": high,
                        "not_worse": one.not_worse,
                        "smallest": one is self.smallest,
                        "reason": None if row is None else row.reason,
                    }
                )
        return found

    def to_csv(self) -> str:
        """Comma-separated values, in fractions; a row for each copy and metric, original last."""
        rows = self._records()
        return text.separated(list(rows[0]), [list(row.values()) for row in rows])

    def to_frame(self) -> Any:
        """The same as a pandas DataFrame."""
        try:
            import pandas
        except ImportError as error:
            raise ImportError("to_frame needs pandas: pip install pandas") from error
        return pandas.DataFrame.from_records(self._records())

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        smallest = self.smallest.copy
        return {
            "distance": self.distance,
            "metrics": list(self.metrics),
            "margin": self.margin,
            "confidence": self.confidence,
            "method": self.method,
            "original": {"dims": self.original.copy.dims, "dtype": self.original.copy.dtype,
                         "bytes": self.original.copy.bytes},
            "smallest": {"dims": smallest.dims, "dtype": smallest.dtype, "bytes": smallest.bytes},
            "copies": self._records(),
        }  # fmt: skip

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """The JSON text; written to `path` in one step if given."""
        from truerank._util.files import to_json

        return to_json(self.to_dict(), path)


def _apart(row: Difference | None, shown: Any) -> list[str]:
    if row is None:
        return [tables.MISSING] * 2
    return ["-+"[row.value >= 0] + shown(abs(row.value)), tables.ends(row.interval, shown)]


def _verdict(one: Kept) -> str:
    if not one.differences:
        return "the original"
    return {True: "yes", False: "no", None: tables.MISSING}[one.not_worse]
