"""The rules of a board: its metric, distance and share; the first line of its log fixes them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from truerank.core import registry
from truerank.errors import InputError, check_choice
from truerank.organise.log import Log
from truerank.organise.parts import check_share
from truerank.organise.task import Task
from truerank.space import catalogue
from truerank.stats.intervals import IntervalRequest
from truerank.version import __version__

__all__ = ["BoardRules", "agreed"]

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


def agreed(log: Log, task: Task, asked: dict[str, Any]) -> BoardRules:
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
