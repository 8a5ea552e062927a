"""audit: what could make a score lie. Embeddings and labels in, findings out.

Each finding says how bad it is, how many rows it concerns, which ones for example, and what to do.
Clean data have no finding above a note. A check is a function that returns what it found; each
kind has a file.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from truerank.arrays import as_matrix
from truerank.auditing import classes, duplicates, geometry, half_precision, ties
from truerank.auditing.findings import SEVERITIES, Audit, Finding
from truerank.auditing.nearest import neighbours
from truerank.errors import TruerankWarning, check_choice, check_seed
from truerank.evaluation.checks import check_rows, check_threads
from truerank.files import read_side
from truerank.files.hdf5 import chosen_distance
from truerank.progress import check_progress, shown
from truerank.space import build, catalogue
from truerank.task import TaskRules

__all__ = ["Audit", "Finding", "audit"]


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
    """Look for what could make a score lie.

    Parameters
    ----------
    embeddings : (N, d) array, tensor or path
    labels : (N,) or (N, L), or the path of a file, optional
        Without them, and where the file of embeddings has none, nothing that concerns classes is
        looked for. Of several levels the finest makes the classes; ties are looked for at all.
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
        seen = neighbours(space, codes, codes, True, report)
        leaks = [] if known is None else [duplicates.leaks(rows, known, distance, report)]
    checks = [
        duplicates.equal_rows(space, codes, task is not None),
        duplicates.near_rows(seen, task is not None),
        *leaks,
    ]
    shape = geometry.measure(rows)
    checks += [
        geometry.zero_vectors(shape),
        geometry.constant_dimensions(shape),
        geometry.collapse(shape),
        geometry.norms(shape),
        geometry.hubness(seen.occurrences),
    ]
    if task is not None:
        checks += [
            classes.sizes(task),
            ties.left_open(task, rows, distance, threads),
            half_precision.rank_again(task, space, rows, distance, threads, seed),
        ]
    findings = [finding for found in checks for finding in found.findings]
    findings.sort(key=lambda finding: SEVERITIES.index(finding.severity))
    return Audit(
        findings,
        {name: fact for found in checks for name, fact in found.facts.items()},
        [sentence for found in checks for sentence in found.sentences],
    )
