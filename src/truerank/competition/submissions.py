"""Submissions to a task: read, aligned by id, checked for degenerate rows and scored."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util.arrays import as_plain, name_rows, take
from truerank._util.cached import cached_property
from truerank._util.errors import InputError, TruerankWarning, shortened
from truerank._util.files import as_path, check_readable
from truerank._util.text import count
from truerank._util.types import Array, Flags, Integers
from truerank.distance import catalogue
from truerank.distance.catalogue import build
from truerank.distance.digests import classes_of_equals
from truerank.evaluation.evaluate import evaluate_task
from truerank.io.reading import as_matrix, read
from truerank.io.tables import read_csv
from truerank.result.result import Result
from truerank.task.labels import MISSING, encode, missing_rows
from truerank.task.task import TaskRules

# Submissions: rows in any order with their ids, put into the order of the task and scored.


def evaluate_submission(
    task: TaskRules, embeddings: Any, ids: Any, *, gallery: Any = None, **options: Any
) -> Result:
    """Align a submission to the task and score it; the result holds everything."""
    if catalogue.find(options.get("distance", "cosine")).given:
        matrix, items = _matrix_in_order(task, embeddings, ids, gallery), None
        return evaluate_task(task, matrix, items, **options)
    rows, items = rows_in_order(task, embeddings, ids, gallery)
    return evaluate_task(task, rows, items, **options)


def rows_in_order(
    task: TaskRules, embeddings: Any, ids: Any = None, gallery: Any = None
) -> tuple[Array, Array | None]:
    """The rows of the queries and of a separate gallery, each in the order of the task."""
    rows = as_matrix(embeddings, "embeddings")
    place = places(task, rows, ids, gallery)
    check_finite(rows, ids)
    known = task.id_names
    if known is None or place is None:
        items = None if gallery is None else as_matrix(gallery, "gallery")
        if (items is None) != task.leave_one_out:
            need = "takes no gallery" if task.leave_one_out else "needs gallery= as well"
            raise InputError(f"this task {need}.")
        return rows, items
    items = None if task.leave_one_out else take(rows, place[known.codes[-1]])
    return take(rows, place[known.codes[0]]), items


def check_finite(rows: Array, ids: Any) -> None:
    """Refuse NaN and infinity by the rows as they were submitted, and their ids."""
    if rows.dtype.kind != "f":
        return
    step = max(1, (1 << 22) // rows.shape[1])
    starts = range(0, len(rows), step)
    bad = np.concatenate(
        [
            np.flatnonzero(~np.isfinite(rows[start : start + step]).all(axis=1)) + start
            for start in starts
        ]
    )
    if not len(bad):
        return
    named = "" if ids is None else f" (id {shortened(as_plain(ids[bad[0]]))})"
    if named and len(bad) > 1:
        named = named.replace("(id", "(the first has id")
    raise InputError(
        f"NaN or infinity in {name_rows(bad)} of the {len(rows):,} submitted{named}; rows count "
        "from 0, and every number must be finite: compute those rows again."
    )


def _matrix_in_order(task: TaskRules, matrix: Any, ids: Any, gallery: Any) -> Array:
    """A matrix of distances, its rows and columns in the order of the task."""
    rows = as_matrix(matrix, "embeddings")
    known, place = task.id_names, places(task, rows, ids, gallery)
    if known is None or place is None:
        if gallery is not None:
            raise InputError("this task takes no gallery.")
        return rows
    if rows.shape[1] != len(rows):
        raise InputError(
            f"a matrix submitted with ids must be square, one row and one column for each id. "
            f"Got {rows.shape}."
        )
    ordered: Array = rows[np.ix_(place[known.codes[0]], place[known.codes[-1]])]
    return ordered


def places(task: TaskRules, rows: Array, ids: Any, gallery: Any = None) -> Integers | None:
    """For each id of the task the submitted row that carries it; None for a task without ids."""
    known = task.id_names
    if known is None:
        if ids is not None:
            raise InputError("this task has no ids, so its rows are taken in order; leave ids out.")
        return None
    if ids is None:
        raise InputError(
            "this task aligns submissions by id, and this one has none; save a column or "
            "array id beside the embeddings, or pass ids=, one for each row."
        )
    if gallery is not None:
        raise InputError("a submission to a task with ids is one array; leave gallery out.")
    for codes in known.codes:
        if len(np.unique(codes)) < len(codes):
            raise InputError(
                "this task repeats ids, so ids do not identify embeddings; "
                "organisers need distinct ids."
            )
    return align(known.values, ids, len(rows))


def align(wanted: Sequence[Any], ids: Any, count: int) -> Integers:
    """For each wanted id the row of the submission that carries it."""
    submitted = encode((ids, wanted), ("ids", "the task's ids"))
    rows, targets = submitted.codes
    if len(rows) != count:
        raise InputError(f"ids must have one value per row ({count}). Got {len(rows)}.")
    if (rows == MISSING).any():
        raise InputError(f"None or NaN in ids {missing_rows(rows)}; give each row its id.")
    names = submitted.values
    repeated = [names[code] for code, times in Counter(rows.tolist()).items() if times > 1]
    missing = [names[code] for code in np.setdiff1d(targets, rows)]
    extra = [names[code] for code in np.setdiff1d(rows, targets)]
    problems = [
        f"{len(found)} {what} ({', '.join(map(shortened, found[:3]))}{', ...' * (len(found) > 3)})"
        for what, found in (("repeated", repeated), ("missing", missing), ("unknown", extra))
        if found
    ]
    if problems:
        raise InputError(
            f"the submission's ids do not match the task's {len(wanted)}: {'; '.join(problems)}."
        )
    place = np.empty(len(names), np.int64)
    place[rows] = np.arange(count)
    result: Integers = place[targets]
    return result


# Files of submissions: whose each is, and a digest of what it holds.


DIVIDER = "--"


@dataclass(frozen=True)
class Entry:
    """A submission in a file."""

    participant: str
    name: str
    """What the participant calls this entry; may be empty."""
    path: Path

    @cached_property
    def digest(self) -> str:
        """A hash of the file, by which the log knows it."""
        check_readable(self.path)
        with self.path.open("rb") as file:
            total = blake2b(digest_size=32)
            while block := file.read(1 << 20):
                total.update(block)
        return total.hexdigest()

    def read(self) -> tuple[Any, Any]:
        """Embeddings and ids."""
        bundle = read(self.path)
        if bundle.embeddings is None:
            raise InputError("it holds no embeddings: expected a 2-D array called embeddings.")
        return bundle.embeddings, bundle.ids


def list_entries(files: Iterable[str | os.PathLike[str]]) -> list[Entry]:
    """The entries in files, in this order.

    The participant is what NAME=FILE says, otherwise the file's name without its ending, up to the
    first `--` if it has one: anna--1.npz and anna--larger.npz are both of anna.

    Examples
    --------
    >>> [(e.participant, e.name) for e in list_entries(["subs/anna--2.npz", "Bob=x/out.npz"])]
    [('anna', '2'), ('Bob', 'out')]
    """
    if isinstance(files, (str, bytes, os.PathLike)) or not np.iterable(files):
        raise InputError(f"submissions must be a list of files. Got {shortened(files)} instead.")
    entries = [_entry(str(as_path(file))) for file in files]
    if not entries:
        raise InputError("there are no submissions; pass their files.")
    seen: dict[tuple[str, str], Path] = {}
    for entry in entries:
        if not entry.participant.strip():
            raise InputError(f"{entry.path} names no participant; pass NAME=FILE.")
        other = seen.setdefault((entry.participant, entry.name), entry.path)
        if other != entry.path:
            raise InputError(
                f"{other} and {entry.path} are both called {entry.path.stem}; pass NAME=FILE "
                "for each."
            )
    return entries


def read_chosen(choice: Mapping[str, str] | str | os.PathLike[str]) -> dict[str, str]:
    """The entry that each participant chose, from a mapping or a table (participant, entry)."""
    if isinstance(choice, Mapping):
        return {_text(name): _text(entry) for name, entry in choice.items()}
    if not isinstance(choice, (str, os.PathLike)):
        raise InputError(
            f"choose must be a mapping or a CSV file. Got {shortened(choice)} instead."
        )
    path = as_path(choice)
    check_readable(path)
    columns = read_csv(path, frozenset({"participant", "entry"}))
    if set(columns) != {"participant", "entry"}:
        raise InputError(
            f"{path} must have the columns participant and entry. Got {shortened(list(columns))}."
        )
    chosen: dict[str, str] = {}
    for name, entry in zip(columns["participant"], columns["entry"], strict=True):
        if name is None or chosen.setdefault(_shown(name), _shown(entry or "")) != (entry or ""):
            raise InputError(
                f"{path} must name each participant once. Got {shortened(name)} without a name or "
                "with two entries."
            )
    return chosen


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise InputError(f"choose must hold names as text. Got {shortened(value)}.")
    return _shown(value)


def _entry(text: str) -> Entry:
    before, equals, after = text.partition("=")
    if equals and before and after and not Path(text).exists():
        return Entry(_shown(before), _shown(Path(after).stem), Path(after))
    participant, _, name = Path(text).stem.partition(DIVIDER)
    return Entry(_shown(participant), _shown(name), Path(text))


def _shown(name: str) -> str:
    """A name that no screen or page takes for more than letters."""
    return "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in name
    )


# Degenerate submissions: constant, of zeros, of repeated rows.


@dataclass(frozen=True, eq=False)
class Flaws:
    """What is degenerate about the rows of a submission."""

    repeated: Flags
    """Whether each row equals another, as far as the distance can tell."""
    constant: bool
    """Whether all rows are equal."""
    zero: int
    """Rows of zeros alone."""

    @property
    def rows(self) -> int:
        """Submitted rows."""
        return len(self.repeated)

    @staticmethod
    def of(rows: npt.NDArray[Any], distance: str) -> Flaws:
        """Look at all rows; what is not finite is refused."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TruerankWarning)
            space = build(distance, rows)
        number, times = classes_of_equals(space.query_digests)
        constant = len(times) == 1 and len(rows) > 1
        return Flaws(times[number] > 1, constant, space.facts.zero_rows)

    def reordered(self, place: npt.NDArray[np.int64] | None) -> Flaws:
        """The same of rows in another order; None leaves them as they are."""
        return self if place is None else replace(self, repeated=self.repeated[place])

    def words(self, items: Flags | None = None) -> list[str]:
        """Each flaw in a few words; nothing for a submission without any.

        `items` are rows whose items are equal themselves, so that equal rows are no flaw there.

        Examples
        --------
        >>> flaws = Flaws(np.array([True, True, False, False]), constant=False, zero=0)
        >>> flaws.words(), flaws.words(np.array([True, True, False, False]))
        (['2 of 4 rows equal another'], [])
        """
        if self.constant:
            return ["all rows are zero" if self.zero else "constant: all rows are equal"]
        found = []
        if self.zero:
            found.append(f"{count(self.zero, 'row')} of zeros")
        equal = np.count_nonzero(self.repeated if items is None else self.repeated & ~items)
        if equal:
            found.append(f"{equal:,} of {self.rows:,} rows equal another")
        return found


def usually_repeated(submissions: Collection[Flaws]) -> Flags | None:
    """Rows that equal another in most of the submissions that are not constant.

    Equal test images have equal rows in every honest submission: that is said of the data. None
    where all submissions are constant.
    """
    repeated = [flaws.repeated for flaws in submissions if not flaws.constant]
    return 2 * np.sum(repeated, axis=0) > len(repeated) if repeated else None
