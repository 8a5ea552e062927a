"""All metrics by name. Definitions are found by family, and load nothing that computes over pairs.

What a definition says is needed by a metric itself (the defaults of its parameters), so this file
knows definitions only; how a string becomes a metric is told in registry.py.
"""

from __future__ import annotations

from importlib import import_module

from truerank.core.definition import Definition

__all__ = ["DEFINITIONS", "FAMILIES", "entry", "examples", "in_order", "load", "names", "register"]

FAMILIES = {
    "ranking": "truerank.metrics.ranking",
    "hierarchy": "truerank.metrics.hierarchy",
    "verification": "truerank.families.verification.definitions",
    "openset": "truerank.families.openset.definitions",
    "gom": "truerank.families.gom.definitions",
    "consistency": "truerank.families.opis.definitions",
    "clustering": "truerank.metrics.clustering_definitions",
}
"""Where the metrics of each family are defined, in the order in which they are listed."""

DEFINITIONS: dict[str, Definition] = {}
"""What was registered so far."""


def register(definition: Definition) -> None:
    """Add a metric; it is then parsed, computed, documented and tested like all others."""
    if definition.name in DEFINITIONS:
        raise ValueError(f"metric {definition.name!r} is registered twice")
    DEFINITIONS[definition.name] = definition


def load() -> dict[str, Definition]:
    """All definitions by name."""
    for module in FAMILIES.values():
        import_module(module)
    return DEFINITIONS


def in_order() -> list[Definition]:
    """All definitions, family by family, whichever module was imported first."""
    return sorted(load().values(), key=lambda entry: list(FAMILIES).index(entry.family))


def names() -> list[str]:
    """The registered metric names."""
    return [entry.name for entry in in_order()]


def examples() -> list[str]:
    """Metric strings that together exercise every registered metric."""
    return [text for entry in in_order() for text in entry.examples]


def entry(name: str) -> Definition:
    """What is known about the metric of this name."""
    return load()[name]
