"""leaderboard: submissions in, a board out that chosen submissions learn nothing from.

Each file is scored once on the public part, goes up the ladder or not, and into the log, whatever
its score is and even if it has none. The board follows from the log and the entries that it shows;
at the end, those, or the ones that participants chose, are scored on the private part.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any

import numpy as np

from truerank.arrays import as_matrix
from truerank.comparison import Comparison, compare
from truerank.core import registry
from truerank.core.score import Score
from truerank.errors import InputError, TruerankWarning, shortened
from truerank.files import check_writable
from truerank.organise.board import Board, Row, groups
from truerank.organise.entries import Entry, list_entries, read_chosen
from truerank.organise.flaws import Flaws, usually_repeated
from truerank.organise.ladder import Measured, Rung, climb, measure
from truerank.organise.log import Log
from truerank.organise.parts import Part, divide
from truerank.organise.rules import BoardRules, agreed
from truerank.organise.submissions import check_finite, places
from truerank.organise.task import Task
from truerank.result import Result
from truerank.stats.student import quantile
from truerank.storage import check_fits

__all__ = ["leaderboard"]

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
    """Open submissions and show where they stand, as coarsely as the noise is.

    Parameters
    ----------
    task : Task or path
        With a salt, which says which classes are public.
    submissions : paths, or texts NAME=PATH
        Files with embeddings and ids: the new ones, in the order in which they came, and those that
        the board already shows. anna--1.npz and anna--2.npz are entries of anna.
    log : path
        All openings so far, one to a line; it is made if there is none, and only grows.
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
        raise InputError("choose says what the final board judges; pass final=True (--final) too.")
    chosen = {} if choose is None else read_chosen(choose)
    check_writable(log)
    kept = Log(log)
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
        self, log: Log, rules: BoardRules, parts: tuple[Part, Part], options: dict[str, Any]
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

    def _score(self, entry: Entry, part: Part) -> _Scored:
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

    def _measure(self, part: Part, result: Result) -> Measured:
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
                raise InputError(
                    f"{participant} chose {shortened(name)}, of which the log has {len(found)}; "
                    f"its entries of {participant} are {shortened(entries)}. Name one of them, or "
                    "the hash of its submission as the log has it."
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

    def _again(self, part: Part, name: str, digest: str, entries: list[Entry]) -> _Scored:
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
