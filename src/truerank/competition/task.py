"""Task of a competition: kept by the organiser, saved, divided into parts, published, revealed.

The task file is a zip of plain arrays and JSON (numpy's .npz) with codes of labels, ids and
exclusion groups, their values, the pairs of the masks, and the salt; reading it runs no code.
Its classes are divided by the salt into a public and a private part, each row with its class;
gallery rows without a label are in both. Afterwards salt and labels are published, so that
anyone can check the commitment.
"""

from __future__ import annotations

import json
import os
import secrets
import warnings
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from hashlib import blake2b
from numbers import Real
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from truerank._util import text
from truerank._util.arrays import TooLargeError, as_plain, take
from truerank._util.cached import cached_property
from truerank._util.errors import InputError, TruerankWarning, check_choice, shortened
from truerank._util.files import atomic_path, check_readable, read_archive, to_json
from truerank._util.text import TextTable, count, reworded
from truerank._util.types import Integers
from truerank.competition.submissions import (
    Flaws,
    align,
    check_finite,
    evaluate_submission,
    rows_in_order,
)
from truerank.core import registry
from truerank.core.jackknife import FEWEST_CLASSES
from truerank.core.score import Score
from truerank.distance import catalogue
from truerank.evaluation.evaluate import evaluate_task
from truerank.intervals.interval import FEWEST_DRAWN
from truerank.io.reading import as_matrix, read_json
from truerank.result.result import Result
from truerank.task import task
from truerank.task.labels import MISSING, Encoded
from truerank.task.relevance import Mask, PairList
from truerank.task.task import SALT_BYTES, TaskRules

# Task: the rules of an evaluation that an organiser keeps, and what is published of it.


class Task(TaskRules):
    __doc__ = TaskRules.__doc__

    def __repr__(self) -> str:
        return "\n".join(["Task", *(f"  {name}: {value}" for name, value in self.facts())])

    def _repr_html_(self) -> str:
        rows = [list(fact) for fact in self.facts()]
        return text.block(text.table(TextTable(["Task", ""], rows, words=(0, 1))))

    def facts(self) -> list[tuple[str, str]]:
        """Facts about a task that name no label, id or group."""
        gallery = "the queries, each without itself"
        facts = [("queries", f"{self.queries:,}")]
        facts.append(("gallery", gallery if self.leave_one_out else count(self.items, "item")))
        if self.levels is not None:
            counts = [len(set(level.codes[0].tolist())) for level in self.levels.columns]
            facts.append(("classes of the queries", " / ".join(f"{n:,}" for n in counts)))
        else:
            facts.append(("relevance", "by judgements"))
        facts += (
            [("never ranked", ", ".join(map(reworded, self.exclusions())))]
            if self.exclusions()
            else []
        )
        without = [
            f"{number:,} {reworded(reason)}" for reason, number in self.unmated_counts().items()
        ]
        facts += [("unmated queries", f"{', '.join(without)} ({self.unmated})")] if without else []
        return [*facts, ("commitment", self.commitment or "none")]

    @cached_property
    def salt(self) -> bytes | None:
        """The secret that seals the commitment; None for a task of a file without one."""
        return secrets.token_bytes(task.SALT_BYTES)

    @property
    def committed(self) -> tuple[dict[str, Any], str]:
        """The rules and the rows, as text, that the commitment binds to."""
        names = [] if self.levels is None else [str(name) for name in self.levels.names]
        rules = {"levels": names, "no_mate": self.unmated, "unlabelled": self.unlabelled}
        text = task.canonical_text(self.counted_records(), self.junk_labels, self.mask_records())
        return rules, text

    @cached_property
    def commitment(self) -> str | None:
        """A salted hash of labels and rules, to be published before; None without a salt."""
        return None if self.salt is None else task.commitment(self.salt, *self.committed)

    def public(self) -> PublicTask:
        """What participants may have: ids and commitment, no label."""
        return PublicTask.of(self, self.commitment)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the task, hidden labels and salt included, to one file that holds no code.

        A task that came from a file without a salt gets one.
        """
        if self.salt is None:
            del self.__dict__["salt"]
            self.__dict__.pop("commitment", None)
        assert self.salt is not None
        save_task(self, self.salt, path)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Task:
        """Read what save wrote; the digest is checked."""
        task, salt = load_task(path, Task)
        task.__dict__["salt"] = salt
        return task

    def evaluate(
        self, embeddings: Any, ids: Any = None, *, full: bool = False, **options: Any
    ) -> Result:
        """Score a submission.

        Parameters
        ----------
        embeddings : (N, d)
            One row for each id of the task, in any order.
        ids : (N,)
            Whose embedding each row is. Missing, extra and repeated ids are refused. A task
            without ids takes its rows in order, a separate gallery's as `gallery=`.
        full : bool
            Whether the result holds what is known of single queries, as that of
            truerank.evaluate does. It reveals the hidden labels.
        **options
            gallery, distance, metrics, average, device, threads, confidence, seed, units, progress,
            checkpoint, cluster as in evaluate; gallery_sizes only with `full`, because scores at
            many sizes reveal the ranks of relevant items.

        Examples
        --------
        >>> from truerank import Task
        >>> task = Task(["cat", "cat", "dog", "dog"], ids=["a", "b", "c", "d"])
        >>> submission = [[1.0, 0], [0, 1], [0, 2], [2, 0]]
        >>> result = task.evaluate(submission, ids=["d", "a", "b", "c"])
        >>> result["hit@1"].value, result["hit@1"].per_query
        (1.0, None)
        """
        if not full and "gallery_sizes" in options:
            raise InputError(
                "scores at gallery sizes reveal the ranks of relevant items of a hidden task, as a "
                "curve does; pass full=True to compute them."
            )
        result = evaluate_submission(self, embeddings, ids, **options)
        result.provenance["task_commitment"] = self.commitment
        return result if full else public_result(result)


# A task in a file that the organiser keeps: labels, rules and salt.


TASK_FORMAT = "truerank-task"
FORMAT_VERSION = 1
Made = TypeVar("Made", bound=TaskRules)


def save_task(task: TaskRules, salt: bytes, path: str | os.PathLike[str]) -> None:
    """Write a task and its salt."""
    arrays: dict[str, npt.NDArray[Any]] = {}
    header: dict[str, Any] = {
        "format": TASK_FORMAT,
        "version": FORMAT_VERSION,
        "digest": task.digest,
        "salt": salt.hex(),
        "leave_one_out": task.leave_one_out,
        "no_mate": task.unmated,
        "unlabelled": task.unlabelled,
        "junk_labels": plain_values(task.junk_labels, "junk_labels"),
        "levels": [] if task.levels is None else task.levels.names,
        "masks": {},
    }
    levels = [] if task.levels is None else task.levels.columns
    columns = {f"level{number}": level for number, level in enumerate(levels)}
    for name, encoded in (("ids", task.id_names), ("groups", task.group_names)):
        if encoded is not None:
            columns[name] = encoded
    for name, encoded in columns.items():
        header[f"{name}_values"] = plain_values(encoded.values, name)
        for side, codes in enumerate(encoded.codes):
            arrays[f"{name}_{side}"] = codes
    for name, mask in task.masks.items():
        header["masks"][name] = list(mask.shape)
        rows = np.arange(task.queries)
        pairs = mask.pairs(rows, None)
        arrays[f"{name}_query"], arrays[f"{name}_item"] = pairs.query, pairs.item
        arrays[f"{name}_grade"] = mask.grades(rows, None)
    header["check"] = _check(header)
    text = json.dumps(header).encode()
    with atomic_path(path) as partial, partial.open("wb") as file:
        np.savez_compressed(file, header=np.frombuffer(text, np.uint8), **arrays)  # type: ignore[arg-type]


def _check(header: dict[str, Any]) -> str:
    """A hash of the header, options included."""
    rest = {key: value for key, value in header.items() if key != "check"}
    return blake2b(json.dumps(rest, sort_keys=True).encode(), digest_size=16).hexdigest()


def plain_values(values: Iterable[Any], what: str) -> list[Any]:
    """Text and numbers as JSON can hold them; anything else is refused."""
    plain = [as_plain(value) for value in values]
    for value in plain:
        if not isinstance(value, (str, int, float, bool)):
            raise InputError(
                f"a saved task holds text and numbers; {what} holds {value!r} "
                f"({type(value).__name__}): convert to str first."
            )
    return plain


def is_task(path: str | os.PathLike[str]) -> bool:
    """Whether a file looks like what save_task wrote."""
    check_readable(path)
    try:
        with zipfile.ZipFile(path) as archive:
            return "header.npy" in archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return False


def load_task(path: str | os.PathLike[str], make: Callable[..., Made]) -> tuple[Made, bytes | None]:
    """Read a task, check that it is the one that was saved, and give it with its salt.

    Files from before there were salts have none.
    """
    arrays, header = _read(path)
    try:
        task = make(**_saved_arguments(arrays, header))
        salt = None if header.get("salt") is None else bytes.fromhex(header["salt"])
    except InputError as error:
        raise InputError(f"{path} is not a truerank task: {error}") from error
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InputError(f"{path} is a damaged truerank task ({error}).") from error
    whole = salt is None or len(salt) == SALT_BYTES
    if task.digest != header.get("digest") or header.get("check") != _check(header) or not whole:
        raise InputError(f"{path} was changed after it was saved: its digest does not match.")
    return task, salt


def _saved_arguments(arrays: dict[str, npt.NDArray[Any]], header: dict[str, Any]) -> dict[str, Any]:
    """What the task was made of."""
    sides = range(1 if header["leave_one_out"] else 2)

    def column(name: str, side: int) -> list[Any]:
        values = header[f"{name}_values"]
        codes = arrays[f"{name}_{side}"].tolist()
        return [None if code == MISSING else values[code] for code in codes]

    def labels(side: int) -> Any:
        return {
            name: column(f"level{number}", side) for number, name in enumerate(header["levels"])
        }

    arguments: dict[str, Any] = {"labels": None}
    for side in sides:
        if header["levels"]:
            arguments["labels" if side == 0 else "gallery_labels"] = labels(side)
        for name in ("ids", "groups"):
            if f"{name}_values" in header:
                arguments[name if side == 0 else f"gallery_{name}"] = column(name, side)
    for name, shape in header["masks"].items():
        pairs = PairList(arrays[f"{name}_query"], arrays[f"{name}_item"])
        grade = arrays[f"{name}_grade"]
        arguments[name] = Mask.of_pairs(name, (shape[0], shape[1]), pairs, grade)
    rules = ("junk_labels", "unlabelled", "leave_one_out")
    return arguments | {name: header[name] for name in rules} | {"unmated": header["no_mate"]}


def _read(path: str | os.PathLike[str]) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    check_readable(path)
    try:
        arrays = read_archive(path)
        header = json.loads(arrays.pop("header").tobytes())
    except (MemoryError, TooLargeError):
        raise
    except Exception as error:  # whatever a malformed archive makes numpy, zlib or json say
        raise InputError(f"{path} is not a truerank task ({error}).") from error
    if not isinstance(header, dict):
        raise InputError(f"{path} is not a truerank task.")
    if header.get("format") != TASK_FORMAT or header.get("version") != FORMAT_VERSION:
        raise InputError(f"{path} is not a truerank task of version {FORMAT_VERSION}.")
    return arrays, header


# What leaves the organiser's house: a result without single queries, a task without labels.


PUBLIC_FORMAT = "truerank-public-task"

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
    """The public part of a task: ids, number of rows and commitment."""

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
                "a public task needs ids where there is a separate gallery, since a submission "
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
        header = {"format": PUBLIC_FORMAT, "version": FORMAT_VERSION}
        to_json(header | {"commitment": self.commitment, "rows": self.rows, "ids": self.ids}, path)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> PublicTask:
        """Read what save wrote."""
        data = read_json(path)
        known = isinstance(data, dict) and data.get("format") == PUBLIC_FORMAT
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


# The public and the private part of a task: its classes, divided by the salt.


@dataclass(frozen=True)
class TaskPart:
    """Some classes of a task, and which rows of the task they are."""

    name: str
    whole: Task
    task: Task
    queries: Integers
    items: Integers

    @property
    def classes(self) -> int:
        """Classes with a query that counts."""
        return len(np.unique(self.task.query_codes[self.task.n_relevant > 0]))

    @property
    def findable(self) -> int:
        """Queries with a mate to find."""
        return int(np.count_nonzero(self.task.n_relevant))

    def evaluate(self, embeddings: Any, ids: Any, **options: Any) -> Result:
        """Score the rows of a whole submission that belong to this part."""
        rows, items = rows_in_order(self.whole, embeddings, ids)
        if items is not None:
            items = take(items, self.items)
        return evaluate_task(self.task, take(rows, self.queries), items, **options)


def check_share(share: object) -> float:
    """The share of the classes that is public, a number between 0 and 1."""
    try:
        number = float(share) if isinstance(share, Real) and not isinstance(share, bool) else 0.0
    except OverflowError:
        number = 0.0
    if not 0 < number < 1:
        raise InputError(
            f"the public share must be a number between 0 and 1. Got {shortened(share)}."
        )
    return number


def divide(task: Task, share: float) -> tuple[TaskPart, TaskPart]:
    """The public part, of this share of the classes, and the private part.

    Which class goes where follows from the salt and the class's own name: nobody can tell before
    the salt is revealed, and anybody can check it then.
    """
    if task.salt is None:
        raise InputError(
            "this task has no salt, which the division of its classes needs: it was saved by an "
            "earlier version; give it one with truerank task make OLD -o NEW."
        )
    if task.levels is None:
        raise InputError(
            "a leaderboard divides the classes of a task, and judgements name none: make the task "
            "from labels."
        )
    share = check_share(share)
    finest = task.levels.finest
    public = _chosen(finest, task.salt, share)
    parts = (_part("public", task, public), _part("private", task, ~public))
    fewest = FEWEST_CLASSES if task.leave_one_out else FEWEST_DRAWN
    for part in parts:
        if part.classes < fewest:
            raise InputError(
                f"the {part.name} part has {count(part.classes, 'class')} of mated queries, and "
                f"intervals need {fewest}: choose another public share, or add classes."
            )
    return parts


def _chosen(finest: Encoded, salt: bytes, share: float) -> npt.NDArray[np.bool_]:
    """Which classes are public: those with queries, and those without, by the same share."""
    draws = [
        blake2b(repr(value).encode(), key=salt, digest_size=32, person=b"truerank split").digest()
        for value in finest.values
    ]
    order = np.array(sorted(range(len(draws)), key=draws.__getitem__), np.int64)
    asked = np.isin(order, finest.codes[0])
    public = np.zeros(len(draws), bool)
    for some in (order[asked], order[~asked]):
        public[some[: round(share * len(some))]] = True
    return public


def _part(name: str, task: Task, classes: npt.NDArray[np.bool_]) -> TaskPart:
    codes = task.named_levels.finest.codes
    queries = np.flatnonzero(classes[codes[0]])
    items = np.flatnonzero((codes[-1] == MISSING) | classes[codes[-1]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruerankWarning)
        part = Task(**_arguments(task, queries, items))
    return TaskPart(name, task, part, queries, items)


def _arguments(task: Task, queries: Integers, items: Integers) -> dict[str, Any]:
    """What makes a task of some of the rows."""
    sides = {"": queries} if task.leave_one_out else {"": queries, "gallery_": items}
    levels = task.named_levels
    arguments: dict[str, Any] = {}
    for side, (prefix, rows) in enumerate(sides.items()):
        arguments[f"{prefix}labels"] = {
            name: _values(level, side, rows)
            for name, level in zip(levels.names, levels.columns, strict=True)
        }
        for what, names in (("ids", task.id_names), ("groups", task.group_names)):
            if names is not None:
                arguments[f"{prefix}{what}"] = _values(names, side, rows)
    for name, mask in task.masks.items():
        pairs, grades = mask.pairs(queries, items), mask.grades(queries, items)
        arguments[name] = Mask.of_pairs(name, (len(queries), len(items)), pairs, grades)
    return arguments | {
        "junk_labels": task.junk_labels,
        "unmated": task.unmated,
        "unlabelled": task.unlabelled,
        "leave_one_out": task.leave_one_out,
    }


def _values(names: Encoded, side: int, rows: Integers) -> list[Any]:
    codes = names.codes[side][rows].tolist()
    return [None if code == MISSING else names.values[code] for code in codes]


# Afterwards: salt and labels are published, so that anyone can check what was committed to.


REVEALED_FORMAT = "truerank-revealed-task"


def reveal(task: Task, path: str | os.PathLike[str] | None = None) -> str:
    """The JSON text with salt, rules and rows of a task, and the commitment they add up to."""
    if task.salt is None:
        raise InputError(
            "this task was saved by an earlier version and has no salt, so that nothing was "
            "committed to."
        )
    rules, text = task.committed
    told = {"format": REVEALED_FORMAT, "version": FORMAT_VERSION, "commitment": task.commitment}
    return to_json(told | {"salt": task.salt.hex(), "rules": rules, "text": text}, path)


def is_revealed(data: Any) -> bool:
    """Whether a JSON value is what `reveal` wrote."""
    return isinstance(data, dict) and data.get("format") == REVEALED_FORMAT


def check_revealed(path: str | os.PathLike[str], commitment: str | None) -> int:
    """Refuse salt and labels that are not those of the commitment; gives the number of rows."""
    data = read_json(path)
    if not is_revealed(data) or data.get("version") != FORMAT_VERSION:
        raise InputError(f"{path} is not a revealed task of version {FORMAT_VERSION}.")
    if commitment is None:
        raise InputError("the public task holds no commitment, so there is nothing to check.")
    try:
        salt, rules, text = bytes.fromhex(data["salt"]), data["rules"], data["text"]
        found = task.commitment(salt, rules, text)
        rows = sum(line.startswith("(") for line in str(text).split("\n"))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path} is a damaged revealed task ({error}).") from error
    if found != commitment:
        raise InputError(
            f"{path} does not hold the labels that were committed to: its hash is {found[:16]}..., "
            f"the commitment {commitment[:16]}...."
        )
    return rows
