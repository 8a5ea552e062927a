"""Scores at one size of the gallery, and why others have none there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from truerank.core.score import Score, split_undefined

__all__ = ["AtSize"]


@dataclass(frozen=True)
class AtSize:
    """The metrics that have a law at one gallery size, and the reasons why the others do not."""

    size: int
    scores: Mapping[str, Score]
    reasons: Mapping[str, str]

    def without_undefined(self) -> AtSize:
        """The same with undefined scores among the reasons."""
        scores, reasons = split_undefined(self.scores)
        return AtSize(self.size, scores, self.reasons).but(reasons)

    def but(self, reasons: Mapping[str, str]) -> AtSize:
        """The same with further metrics that have no score here."""
        return AtSize(self.size, self.scores, {**self.reasons, **reasons})

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; values of single queries are left out."""
        return {
            "size": self.size,
            "scores": {name: score.to_dict(per_query=False) for name, score in self.scores.items()},
            "skipped": dict(self.reasons),
        }

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> AtSize:
        """The inverse of to_dict."""
        scores = {name: Score.from_dict(name, score) for name, score in data["scores"].items()}
        return AtSize(int(data["size"]), scores, dict(data["skipped"]))
