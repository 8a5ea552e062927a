"""leaderboard: submissions in, a board out that chosen submissions learn nothing from.

Each file is scored once on the public part, goes up the ladder or not, and into the log. The board
follows from the log and the entries that it shows; at the end, those are scored on the private
part.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any

from truerank.comparison import Comparison, compare
from truerank.core import registry
from truerank.errors import InputError, TruerankWarning, check_choice, shortened
from truerank.files import check_writable
from truerank.organise.board import Board, Row, groups
from truerank.organise.entries import Entry, list_entries
from truerank.organise.flaws import Flaws
from truerank.organise.ladder import Measured, Rung, climb, measure
from truerank.organise.log import Log
from truerank.organise.parts import Part, check_share, divide
from truerank.organise.submissions import rows_in_order
from truerank.organise.task import Task
from truerank.result import Result
from truerank.space import catalogue
from truerank.stats.intervals import IntervalRequest
from truerank.stats.student import quantile
from truerank.version import __version__

__all__ = ["BoardRules", "leaderboard"]

Progress = Callable[[int, int], None]
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
        Whether to score the shown entries on the private part. That closes the log.
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
    check_writable(log)
    kept = Log(log)
    rules = _agreed(kept, task, {name: value for name, value in asked.items() if value is not None})
    entries = list_entries(submissions)
    options = {"device": device, "threads": threads, "progress": progress}
    run = _Run(kept, rules, divide(task, rules.public_share), options)
    opened, refused = run.open_new(entries)
    board = run.board(opened, final=final, refused=refused)
    kept.write()
    return board


def _agreed(log: Log, task: Task, asked: dict[str, Any]) -> BoardRules:
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
            raise InputError(f"{log.path}, line {record['number'] + 1}, is of no known kind.")
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


class _Run:
    """One run of a board: the log, the rules, and the two parts."""

    def __init__(
        self, log: Log, rules: BoardRules, parts: tuple[Part, Part], options: dict[str, Any]
    ) -> None:
        self.log, self.rules, self._options = log, rules, options
        self.public, self.private = parts
        self.known = registry.definition(registry.parse(rules.metric))
        self._shown = {
            one["participant"]: one for one in self._openings() if one["shown"] is not None
        }
        """The opening that the board shows of each participant."""
        self._tries = Counter(one["participant"] for one in self._openings())
        self._results: dict[str, Result] = {}
        """Results on the public part of entries opened in this run and shown, by digest."""

    # -- opening ------------------------------------------------------------------------------

    def open_new(self, entries: list[Entry]) -> tuple[list[Entry], dict[str, str]]:
        """Score what the log does not know; gives what is open, and why the rest is not."""
        opened: list[Entry] = []
        refused: dict[str, str] = {}
        closed = any(one["kind"] == "final" for one in self.log.records)
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
            opened.append(entry)
            seen.add((entry.participant, entry.digest))
        if not opened:
            name, why = next(iter(refused.items()))
            raise InputError(f"no submission can be opened; {name}: {why}")
        return opened, refused

    def _open(self, entry: Entry) -> None:
        embeddings, ids = entry.read()
        rows, items = rows_in_order(self.public.whole, embeddings, ids)
        flaws = Flaws.of(rows, self.rules.distance).words()
        if items is not None:
            flaws += [f"gallery: {word}" for word in Flaws.of(items, self.rules.distance).words()]
        result = self._evaluate(self.public, embeddings, ids)
        shown = self._shown.get(entry.participant)
        best = None if shown is None else Rung.from_dict(shown["shown"])
        rung = climb(
            best,
            self._measure(self.public, result),
            tries=self._tries[entry.participant] + 1,
            confidence=self.rules.confidence,
            higher=self.known.higher_is_better,
        )
        self._tries[entry.participant] += 1
        if rung is not None:
            self._results[entry.digest] = result
        self.log.append(
            {
                "kind": "opening",
                "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
                "participant": entry.participant,
                "entry": entry.name,
                "submission": entry.digest,
                "flaws": flaws,
                "shown": None if rung is None else rung.to_dict(),
            }
        )
        if rung is not None:
            self._shown[entry.participant] = self.log.records[-1]

    def _evaluate(self, part: Part, embeddings: Any, ids: Any) -> Result:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TruerankWarning)
            result = part.evaluate(
                embeddings,
                ids,
                metrics=[self.rules.metric],
                distance=self.rules.distance,
                confidence=self.rules.confidence,
                **self._options,
            )
        score = result[self.rules.metric]
        if score.reason is not None:
            raise InputError(f"{self.rules.metric} is not defined here: {score.reason}.")
        return result

    def _measure(self, part: Part, result: Result) -> Measured:
        score = result[self.rules.metric]
        t = quantile(self.rules.confidence, part.classes - 1)
        return measure(score.value, score.interval, part.findable, t, self.known.range)

    # -- standing -----------------------------------------------------------------------------

    def _openings(self) -> list[dict[str, Any]]:
        return [one for one in self.log.records if one["kind"] == "opening"]

    def board(self, entries: list[Entry], *, final: bool, refused: dict[str, str]) -> Board:
        """The participants as they stand."""
        shown = self._shown
        part = self.private if final else self.public
        results = {
            participant: self._result(part, participant, opening["submission"], entries)
            for participant, opening in shown.items()
        }
        rungs = {name: Rung.from_dict(opening["shown"]) for name, opening in shown.items()}
        public = rungs
        if final:
            rungs = {name: Rung.of(self._measure(part, result)) for name, result in results.items()}
            self._close(shown, rungs)
        compared = self._compared(results)
        ranks = {name: (1, len(results)) for name in results}
        if compared is not None:
            ranks = {row.model: row.ranks for row in compared.standings}
        sign = -1 if self.known.higher_is_better else 1
        order = sorted(rungs, key=lambda name: (sign * rungs[name].score, name))
        letters = groups(order, _told_apart(compared, self.rules.confidence))
        rows = [
            Row(
                name,
                shown[name]["entry"],
                rungs[name],
                public[name] if final else None,
                ranks[name],
                letters[name],
                self._tries[name],
                tuple(shown[name]["flaws"]),
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
        )

    def _result(self, part: Part, name: str, digest: str, entries: list[Entry]) -> Result:
        if part is self.public and digest in self._results:
            return self._results[digest]
        for entry in entries:
            if entry.digest == digest:
                return self._evaluate(part, *entry.read())
        raise InputError(
            f"the board shows an entry of {name} ({digest[:8]} in {self.log.path}) that is not "
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

    def _close(self, shown: dict[str, dict[str, Any]], rungs: dict[str, Rung]) -> None:
        if any(one["kind"] == "final" for one in self.log.records):
            return
        self.log.append(
            {
                "kind": "final",
                "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
                "entries": {
                    name: {"submission": shown[name]["submission"], "shown": rungs[name].to_dict()}
                    for name in sorted(shown)
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
