"""Results of an evaluation; exports Result and Score."""

from __future__ import annotations

from truerank.core.score import Score
from truerank.result.result import Result

__all__ = ["Result", "Score"]
