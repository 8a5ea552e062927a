"""sweep: embeddings in, how much of them can be saved before a score suffers.

Every copy (a prefix of the dimensions, fewer bits a component) is evaluated as the original is, and
paired with it class by class; a copy is not worse if even the lower end of the difference's
interval is above minus the margin.
"""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.comparison import compare
from truerank.compression.copies import DTYPES, OF_SIGNS, Copy, chosen_copies, make_copy
from truerank.compression.shown import Kept, Sweep
from truerank.core import registry
from truerank.errors import InputError, TruerankWarning, shortened
from truerank.evaluation import evaluate_task
from truerank.evaluation.prepared import prepare
from truerank.files.hdf5 import chosen_distance
from truerank.progress import shown
from truerank.result import Result
from truerank.space import catalogue
from truerank.task import TaskRules

__all__ = ["Copy", "Kept", "Sweep", "sweep", "sweep_task"]

Array = npt.NDArray[Any]


def sweep(
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
    no_mate: str = "report",
    unlabelled: str = "error",
    device: str = "auto",
    threads: int | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    units: str = "metric",
    progress: Callable[[int, int], None] | bool | None = None,
) -> Sweep:
    """The smallest copy of embeddings that is not worse than the original.

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
    Sweep
        It prints as a table; `smallest` is the smallest copy that is not worse.

    Examples
    --------
    >>> import numpy as np, truerank
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(np.arange(60), 5)
    >>> rows = rng.standard_normal((60, 64))[y] + 0.7 * rng.standard_normal((300, 64))
    >>> found = truerank.sweep(rows.astype(np.float32), y, dims=[8, 32], margin=0.02)
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
        no_mate=no_mate,
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
) -> Sweep:
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
        raise InputError("The 'confidence' parameter of sweep must be a number. Got None.")
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
    return Sweep(
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
            f"sweep takes embeddings of numbers; distance {distance!r} leaves nothing to compress."
        )


def _margin(margin: Any) -> float:
    known = isinstance(margin, numbers.Real) and not isinstance(margin, bool)
    if not known or not 0 <= margin <= 1:
        raise InputError(
            "The 'margin' parameter of sweep must be a number from 0 to 1. "
            f"Got {shortened(margin)}."
        )
    return float(margin)
