"""What the classes do to a score: rows alone in theirs, and one class that outweighs the rest."""

from __future__ import annotations

import numpy as np

from truerank.auditing.findings import EXAMPLES, Found
from truerank.task import TaskRules
from truerank.wording import count

__all__ = ["sizes"]

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
