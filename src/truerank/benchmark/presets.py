"""The three sizes of the protocol, and what each fills in where a configuration says nothing."""

from __future__ import annotations

from typing import Any

__all__ = ["PRESETS", "fill_in"]

PRESETS: dict[str, dict[str, Any]] = {
    "smoke": {"folds": 2, "trials": 3, "startup": 2, "reruns": 2},
    "standard": {"folds": 4, "trials": 25, "startup": 5, "reruns": 5},
    "paper": {"folds": 4, "trials": 50, "startup": 10, "reruns": 10},
}
_SHARED: dict[str, dict[str, dict[str, Any]]] = {
    "smoke": {"optimiser": {"lr": 1e-3}, "training": {"epochs": 2, "iterations": 20}},
    "standard": {"optimiser": {"lr": 3e-4}},
    "paper": {},
}


def fill_in(given: dict[str, Any]) -> dict[str, Any]:
    """A configuration with what its preset says, where it does not say otherwise itself."""
    protocol = given.get("protocol", {})
    preset = protocol.get("preset", "standard") if isinstance(protocol, dict) else None
    if not isinstance(preset, str) or preset not in PRESETS:
        return given
    shared = given.get("shared", {})
    if not isinstance(shared, dict):
        return given
    filled = dict(shared)
    for section, fields in _SHARED[preset].items():
        own = filled.get(section, {})
        filled[section] = {**fields, **own} if isinstance(own, dict) else own
    return {**given, "protocol": {**PRESETS[preset], **protocol}, "shared": filled}
