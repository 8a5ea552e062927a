"""Metrics as they are registered, so that a new one is tested at once."""

from __future__ import annotations

from truerank.core import metric as definitions
from truerank.core import registry
from truerank.core.metric import Definition, RankingDefinition, ThresholdDefinition

__all__ = ["of_rankings", "of_thresholds", "ranking"]


def ranking() -> list[str]:
    """The examples of ranking metrics, for labels of one level."""
    return [
        text
        for text in definitions.examples()
        if registry.find(text).family == "ranking" and "level=" not in text
    ]


def of_rankings() -> list[str]:
    """The examples of all metrics that look at rankings, those of trees and of levels too."""
    return _defined_as(RankingDefinition)


def of_thresholds() -> list[str]:
    """The examples of all metrics over thresholds."""
    return _defined_as(ThresholdDefinition)


def _defined_as(kind: type[Definition]) -> list[str]:
    return [
        text
        for text in definitions.examples()
        if isinstance(registry.definition(registry.parse(text)), kind)
    ]
