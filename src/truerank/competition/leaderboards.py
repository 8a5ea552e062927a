"""leaderboard: score submissions on the public part, log each, and rank the chosen at the end.

Each file is scored once and logged, whatever its score and even if it has none. At the end the
entries that the board shows, or those that participants chose, are scored on the private part.
The log is a file of JSON lines; each holds the hash of the line before it, so that no line can
be changed, moved or dropped without changing all that follow. Its first line fixes the rules:
metric, distance and share.
"""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from truerank._util.arrays import check_fits
from truerank._util.errors import InputError, TruerankWarning, check_choice, shortened
from truerank._util.files import as_path, check_readable, check_writable, write_text
from truerank._util.installed import __version__
from truerank._util.text import count
from truerank.analysis.compare import Comparison, compare
from truerank.competition.board import Board, Measured, Row, Rung, climb, groups, measure
from truerank.competition.submissions import (
    Entry,
    Flaws,
    check_finite,
    list_entries,
    places,
    read_chosen,
    usually_repeated,
)
from truerank.competition.task import PublicTask, Task, TaskPart, check_share, divide
from truerank.core import registry
from truerank.core.score import Score
from truerank.core.student import quantile
from truerank.distance import catalogue
from truerank.intervals.interval import IntervalRequest
from truerank.io.reading import as_matrix
from truerank.result.result import Result
from truerank.task.labels import MISSING
from truerank.task.task import TaskRules

Progress = Callable[[int, int], None]
OUT_OF_MEMORY = "it does not fit into memory; submit fewer dimensions."
COPIES = 4
"""Arrays of float64 of a submission's size that its scoring holds at once."""


def leaderboard(
    task: Task | str | os.PathLike[str],
    submissions: Iterable[str | os.PathLike[str]],
    *,
    log: str | os.PathLike[str],
    metric: str | None = None,
    public_share: float | None = None,
    distance: str | None = None,
    confidence: float | None = None,
    final: bool = False,
    choose: Mapping[str, str] | str | os.PathLike[str] | None = None,
    device: str = "auto",
    threads: int | None = None,
    progress: Progress | None = None,
) -> Board:
    """Score submissions and return the leaderboard, as coarse as the noise.

    Parameters
    ----------
    task : Task or path
        With a salt, which says which classes are public.
    submissions : paths, or texts NAME=PATH
        Files with embeddings and ids: the new ones, in the order in which they came, and those that
        the board already shows. anna--1.npz and anna--2.npz are entries of anna.
    log : path
        All scored submissions, one per line; it is made if there is none, and only grows.
    metric, public_share, distance, confidence : optional
        By default map@r, 0.5, cosine and 0.95; fixed by the first line of the log.
    final : bool
        Whether to score one entry of each participant on the private part, with exact numbers. That
        closes the log.
    choose : mapping or path, optional
        With `final`, which entry of each participant that is, {participant: entry}, or a CSV with
        the columns participant and entry. By default, and for who is not named, it is the entry
        that the board shows.
    device, threads, progress : as in evaluate

    Returns
    -------
    Board
        Rows with rounded scores, intervals and rank intervals; it prints as a table.
    """
    task = task if isinstance(task, Task) else Task.load(task)
    asked: dict[str, Any] = {
        "metric": None if metric is None else str(registry.parse(metric)),
        "public_share": public_share,
        "distance": distance,
        "confidence": confidence,
    }
    if not isinstance(final, bool):
        raise InputError(f"final must be True or False. Got {shortened(final)} instead.")
    if choose is not None and not final:
        raise InputError(
            "choose names the entries of the final board; pass final=True (--final) too."
        )
    chosen = {} if choose is None else read_chosen(choose)
    check_writable(log)
    kept = SubmissionLog(log)
    rules = agreed(kept, task, {name: value for name, value in asked.items() if value is not None})
    entries = list_entries(submissions)
    options = {"device": device, "threads": threads, "progress": progress}
    run = _Run(kept, rules, divide(task, rules.public_share), options)
    run.check_kept(entries)
    opened, refused = run.open_new(entries)
    board = run.board(opened, run.judged(chosen) if final else None, refused=refused)
    kept.write()
    return board


@dataclass(frozen=True)
class _Scored:
    """What is known of an entry on one part."""

    result: Result
    score: Score
    flaws: Flaws


class _Run:
    """One run of a board: the log, the rules, and the two parts."""

    def __init__(
        self,
        log: SubmissionLog,
        rules: BoardRules,
        parts: tuple[TaskPart, TaskPart],
        options: dict[str, Any],
    ) -> None:
        self.log, self.rules, self._options = log, rules, options
        self.public, self.private = parts
        self.known = registry.find(rules.metric)
        self._shown = {
            one["participant"]: one for one in self._openings() if one["shown"] is not None
        }
        """The opening that the board shows of each participant."""
        self._tries = Counter(one["participant"] for one in self._openings())
        self._scored: dict[str, _Scored] = {}
        """Entries scored on the public part in this run and shown, by digest."""
        self._time = datetime.now(timezone.utc).isoformat(timespec="seconds")
        """One time for all lines of a run, so that they do not tell how long an entry took."""

    # -- opening ------------------------------------------------------------------------------

    def check_kept(self, entries: list[Entry]) -> None:
        """Refuse to open anything where an entry that the board shows is not among the files.

        Asked later, it would depend on whether a new one takes its place.
        """
        known = set()
        for entry in entries:
            with contextlib.suppress(InputError):  # what cannot be read is refused by itself, later
                known.add(entry.digest)
        for name, one in self._shown.items():
            if one["submission"] not in known:
                raise self._lacking(name, one["submission"])

    def open_new(self, entries: list[Entry]) -> tuple[list[Entry], dict[str, str]]:
        """Score what the log does not know; gives what is open, and why the rest is not."""
        opened: list[Entry] = []
        refused: dict[str, str] = {}
        closed = self._closing() is not None
        seen = {(one["participant"], one["submission"]) for one in self._openings()}
        for entry in entries:
            try:
                fresh = (entry.participant, entry.digest) not in seen
                if fresh and closed:
                    raise InputError("the final board has closed the log: nothing more is opened.")
                if fresh:
                    self._open(entry)
            except InputError as error:
                refused[entry.path.name] = str(error)
                continue
            except MemoryError:
                refused[entry.path.name] = OUT_OF_MEMORY
                continue
            opened.append(entry)
            seen.add((entry.participant, entry.digest))
        if not opened:
            name, why = next(iter(refused.items()))
            raise InputError(f"no submission can be opened; {name}: {why}")
        return opened, refused

    def _open(self, entry: Entry) -> None:
        """Score an entry and log it; what is refused here follows from the file and the ids alone.

        Whether a score is defined may depend on labels, so that an entry without one counts as a
        try and is told nothing else than one that does not climb.
        """
        scored = self._score(entry, self.public)
        self._tries[entry.participant] += 1
        rung = None
        if scored.score.reason is None:
            shown = self._shown.get(entry.participant)
            rung = climb(
                None if shown is None else Rung.from_dict(shown["shown"]),
                self._measure(self.public, scored.result),
                tries=self._tries[entry.participant],
                confidence=self.rules.confidence,
                higher=self.known.higher_is_better,
            )
        self.log.append(
            {
                "kind": "opening",
                "time": self._time,
                "participant": entry.participant,
                "entry": entry.name,
                "submission": entry.digest,
                "flaws": scored.flaws.words(),
                "shown": None if rung is None else rung.to_dict(),
            }
        )
        if rung is not None:
            self._scored[entry.digest] = scored
            self._shown[entry.participant] = self.log.records[-1]

    def _score(self, entry: Entry, part: TaskPart) -> _Scored:
        """Read an entry and score it on a part."""
        embeddings, ids = entry.read()
        rows = as_matrix(embeddings, "embeddings")
        size = COPIES * 8 * rows.shape[0] * rows.shape[1]
        check_fits(f"scoring {rows.shape[1]:,} dimensions", size, "submit fewer dimensions")
        place = places(self.public.whole, rows, ids)
        check_finite(rows, ids)
        flaws = Flaws.of(rows, self.rules.distance).reordered(place)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TruerankWarning)
            result = part.evaluate(
                rows,
                ids,
                metrics=[self.rules.metric],
                distance=self.rules.distance,
                confidence=self.rules.confidence,
                **self._options,
            )
        return _Scored(result, result[self.rules.metric], flaws)

    def _measure(self, part: TaskPart, result: Result) -> Measured:
        score = result[self.rules.metric]
        t = quantile(self.rules.confidence, part.classes - 1)
        return measure(score.value, score.interval, part.findable, t, self.known.range)

    # -- standing -----------------------------------------------------------------------------

    def _openings(self) -> list[dict[str, Any]]:
        return [one for one in self.log.records if one["kind"] == "opening"]

    def _closing(self) -> dict[str, Any] | None:
        """The line that closed the log."""
        return next((one for one in self.log.records if one["kind"] == "final"), None)

    def judged(self, chosen: Mapping[str, str]) -> dict[str, dict[str, Any]]:
        """The opening of each participant that the final board judges.

        Once the log is closed these are the ones in its last line.
        """
        judged = dict(self._shown)
        for participant, name in chosen.items():
            found = [
                one
                for one in self._openings()
                if one["participant"] == participant and name in (one["entry"], one["submission"])
            ]
            if len(found) != 1:
                entries = [
                    one["entry"] for one in self._openings() if one["participant"] == participant
                ]
                shown = ", ".join(map(shortened, entries[:5])) + ", ..." * (len(entries) > 5)
                raise InputError(
                    f"{participant} chose {shortened(name)}, of which the log has {len(found)}; "
                    + (
                        f"its entries of {participant} are {shown}. Name one of them, or the hash "
                        "of its submission as the log has it."
                        if entries
                        else f"it has no entry of {participant}."
                    )
                )
            judged[participant] = found[0]
        closing = self._closing()
        if closing is None:
            return judged
        closed = {name: one["submission"] for name, one in closing["entries"].items()}
        if any(closed.get(name) != judged[name]["submission"] for name in chosen):
            raise InputError(f"{self.log.path} was closed with other entries, which stay chosen.")
        return {
            one["participant"]: one
            for one in self._openings()
            if closed.get(one["participant"]) == one["submission"]
        }

    def board(
        self,
        entries: list[Entry],
        judged: dict[str, dict[str, Any]] | None,
        *,
        refused: dict[str, str],
    ) -> Board:
        """The participants as they stand; on the private part if there are entries to judge."""
        final = judged is not None
        part = self.private if final else self.public
        openings = self._shown if judged is None else judged
        scored: dict[str, _Scored] = {}
        for name, opening in openings.items():
            one = self._again(part, name, opening["submission"], entries)
            if final and one.score.reason is not None:
                label = f"{name}--{opening['entry']}" if opening["entry"] else name
                refused[label] = f"no score on the private part: {one.score.reason}."
                continue
            scored[name] = one
        results = {name: one.result for name, one in scored.items()}
        public = {
            name: Rung.from_dict(self._shown[name]["shown"])
            for name in scored
            if name in self._shown
        }
        rungs = {name: self._exact(scored[name]) for name in scored} if final else public
        if final:
            self._close(openings, rungs)
        compared = self._compared(results)
        ranks = {name: (1, len(results)) for name in results}
        if compared is not None:
            ranks = {row.model: row.ranks for row in compared.standings}
        sign = -1 if self.known.higher_is_better else 1
        order = sorted(rungs, key=lambda name: (sign * rungs[name].score, name))
        letters = groups(order, _told_apart(compared, self.rules.confidence))
        equal = usually_repeated([one.flaws for one in scored.values()])
        rows = [
            Row(
                name,
                openings[name]["entry"],
                rungs[name],
                public.get(name) if final else None,
                ranks[name],
                letters[name],
                self._tries[name],
                tuple(scored[name].flaws.words(equal)),
            )
            for name in order
        ]
        return Board(
            rows,
            rules=asdict(self.rules),
            commitment=self.log.records[0]["commitment"],
            final=final,
            classes=part.classes,
            queries=part.task.queries,
            openings=self._tries.total(),
            head=self.log.head,
            refused=refused,
            equal_items=0 if equal is None else int(np.count_nonzero(equal)),
        )

    def _exact(self, scored: _Scored) -> Rung:
        measured = self._measure(self.private, scored.result)
        interval = scored.score.interval or (measured.low, measured.high)
        return Rung.exact(scored.score.value, interval)

    def _again(self, part: TaskPart, name: str, digest: str, entries: list[Entry]) -> _Scored:
        """What a part says of an entry that the log knows."""
        if part is self.public and digest in self._scored:
            return self._scored[digest]
        for entry in entries:
            if entry.digest == digest:
                return self._score(entry, part)
        raise self._lacking(name, digest)

    def _lacking(self, name: str, digest: str) -> InputError:
        return InputError(
            f"the board needs an entry of {name} ({digest[:8]} in {self.log.path}) that is not "
            "among the submissions: keep every file that was opened and pass them all."
        )

    def _compared(self, results: dict[str, Result]) -> Comparison | None:
        if len(results) < 2:
            return None
        return compare(
            *results.values(),
            names=list(results),
            metrics=[self.rules.metric],
            confidence=self.rules.confidence,
        )

    def _close(self, judged: dict[str, dict[str, Any]], rungs: dict[str, Rung]) -> None:
        if self._closing() is not None:
            return
        self.log.append(
            {
                "kind": "final",
                "time": self._time,
                "entries": {
                    name: {
                        "submission": judged[name]["submission"],
                        "shown": rungs[name].to_dict() if name in rungs else None,
                    }
                    for name in sorted(judged)
                },
            }
        )


def _told_apart(compared: Comparison | None, confidence: float) -> set[frozenset[str]]:
    """Pairs of participants whose difference is more than noise."""
    if compared is None:
        return set()
    return {
        frozenset((row.first, row.second))
        for row in compared.differences
        if row.adjusted_p is not None and row.adjusted_p < 1 - confidence
    }


# The log of a leaderboard: every opening of a submission, in a chain of hashes.


START = "0" * 64
"""What the first line names as the hash of the line before it."""
Record = dict[str, Any]


class SubmissionLog:
    """The lines of a log, checked; new ones are written together in one step."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = as_path(path)
        self.records: list[Record] = []
        self._written = 0
        if os.path.lexists(self.path):
            self.records = _read(self.path)
            self._written = len(self.records)

    @property
    def head(self) -> str:
        """The hash of the last line."""
        return START if not self.records else str(self.records[-1]["hash"])

    def append(self, record: Record) -> None:
        """Add a line, which `write` writes."""
        linked = record | {"number": len(self.records), "previous": self.head}
        self.records.append(linked | {"hash": _hash(linked)})

    def write(self) -> None:
        """Write all lines in one step; refused if another run has added lines in the meantime."""
        if len(self.records) == self._written:
            return
        with _alone(self.path):
            there = _read(self.path) if os.path.lexists(self.path) else []
            if there != self.records[: self._written]:
                raise InputError(
                    f"another run has written to {self.path} in the meantime; run this one again."
                )
            write_text(self.path, "".join(f"{json.dumps(one)}\n" for one in self.records))
        self._written = len(self.records)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold the folder of a file, where the system can, so that nobody else writes there."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):
            folder = os.open(path.resolve().parent, os.O_RDONLY)
            held.callback(os.close, folder)
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield


def _read(path: Path) -> list[Record]:
    """The lines of a file, each checked against the one before it."""
    check_readable(path)
    records: list[Record] = []
    previous = START
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not the log of a leaderboard.") from error
    for number, line in enumerate(lines):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict) or not isinstance(record.get("hash"), str):
            raise InputError(f"{path}, line {number + 1}, is no line of a leaderboard's log.")
        body = {key: value for key, value in record.items() if key != "hash"}
        linked = body.get("number") == number and body.get("previous") == previous
        if not linked or _hash(body) != record["hash"]:
            raise InputError(
                f"{path} was changed at line {number + 1}: its hash does not fit the chain."
            )
        records.append(record)
        previous = record["hash"]
    return records


def _hash(record: Record) -> str:
    text = json.dumps(record, sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=32).hexdigest()


# Before and after: what an organiser or a participant should notice about a task's files.


SHORTEST = 3
"""Letters of a label that an id holds by accident less often than not."""


def warn_of_giveaways(task: TaskRules) -> None:
    """Warn where ids, or the order of rows, reveal labels."""
    if task.levels is None:
        return
    finest, names = task.levels.finest, task.id_names
    if names is None:
        codes = finest.codes[0]
        sorted_by_class = np.count_nonzero(np.diff(codes)) + 1 == len(np.unique(codes))
        if task.leave_one_out and sorted_by_class and len(np.unique(codes)) < len(codes):
            warnings.warn(
                "the rows are sorted by class and have no ids, so that their order reveals the "
                "labels; shuffle them, or give them ids.",
                TruerankWarning,
                stacklevel=2,
            )
        return
    told = 0
    for codes, ids in zip(finest.codes, names.codes, strict=False):
        for code, name in zip(codes.tolist(), ids.tolist(), strict=True):
            label = "" if code == MISSING else str(finest.values[code]).casefold()
            told += len(label) >= SHORTEST and label in str(names.values[name]).casefold()
    if told:
        warnings.warn(
            f"{count(told, 'id')} of the task contain the row's label; participants see ids, so "
            "rename them.",
            TruerankWarning,
            stacklevel=2,
        )


def check_submission(public: PublicTask, embeddings: Any, ids: Any, distance: str) -> str:
    """What a participant should know of a submission that the organiser will take."""
    flaws = public.check(embeddings, ids, distance=distance)
    words = flaws.words(flaws.repeated)
    told = f"; degenerate: {'; '.join(words)}" if words else ""
    equal = int(np.count_nonzero(flaws.repeated))
    if equal and not flaws.constant:
        told += f"; {equal:,} equal another, as rows of equal items do"
    return f"{count(flaws.rows, 'row')}, as the task requires{told}."


def check_log(path: str | os.PathLike[str], commitment: str | None) -> tuple[int, str]:
    """The number of scored submissions in a log and its last hash, if nothing was changed."""
    log = SubmissionLog(path)
    if not log.records or log.records[0].get("commitment") != commitment:
        raise InputError(f"{path} is the log of another task: the commitments differ.")
    return sum(one.get("kind") == "opening" for one in log.records), log.head


# The rules of a board: its metric, distance and share; the first line of its log fixes them.


KINDS: dict[str, dict[str, type | tuple[type, ...]]] = {
    "opening": {
        "participant": str,
        "entry": str,
        "submission": str,
        "flaws": list,
        "shown": (dict, type(None)),
    },
    "final": {"entries": dict},
}
"""What lines of a log hold, after the first."""


@dataclass(frozen=True)
class BoardRules:
    """What a board is made by; the first line of its log fixes it."""

    metric: str = "map@r"
    public_share: float = 0.5
    distance: str = "cosine"
    confidence: float = 0.95

    def checked(self) -> BoardRules:
        """The same, if a board can be made so."""
        metric = registry.parse(self.metric)
        known = registry.definition(metric)
        if known.unit != "share":
            raise InputError(
                f"a leaderboard cannot be by {metric}, whose value is the distance of one pair."
            )
        check_choice("distance", self.distance, catalogue.names(given=False))
        if IntervalRequest.of(self.confidence, 0) is None:
            raise InputError("a leaderboard needs intervals; confidence must be a number.")
        share = check_share(self.public_share)
        return BoardRules(str(metric), share, self.distance, float(self.confidence))


def agreed(log: SubmissionLog, task: Task, asked: dict[str, Any]) -> BoardRules:
    """The rules in the log, which nobody changes later; new ones where there is no log yet."""
    rules = BoardRules(**asked).checked()
    if not log.records:
        first = {"kind": "rules", "version": __version__, "commitment": task.commitment}
        log.append(first | {"queries": task.queries} | asdict(rules))
        return rules
    first = log.records[0]
    for record in log.records[1:]:
        fields = KINDS.get(str(record.get("kind")))
        if fields is None or not all(
            isinstance(record.get(name), kind) for name, kind in fields.items()
        ):
            raise InputError(f"{log.path}, line {record['number'] + 1}, is of an unknown kind.")
    if first.get("kind") != "rules" or first.get("commitment") != task.commitment:
        raise InputError(f"{log.path} is the log of another task: the commitments differ.")
    try:
        fixed: dict[str, Any] = {name: first[name] for name in asdict(BoardRules())}
    except KeyError as error:
        raise InputError(f"{log.path} is no log of a leaderboard: it lacks {error}.") from error
    for name, value in asked.items():
        if value != fixed[name]:
            raise InputError(
                f"{log.path} is of a board with {name} {fixed[name]}, not {value}; leave that out, "
                "or begin another log."
            )
    return BoardRules(**fixed).checked()
