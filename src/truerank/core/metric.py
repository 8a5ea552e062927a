"""A metric is a value: hashable, and printed as the string that it parses from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from truerank.core import catalogue

__all__ = ["Metric"]


@dataclass(frozen=True)
class Metric:
    """One metric with its parameters, hashable; `str` gives the canonical string.

    Examples
    --------
    >>> Metric("mfr")["b"], Metric("mfr", None, (("b", "5"),))["b"]
    (3000, 5)
    """

    name: str
    cut: int | str | None = None
    options: tuple[tuple[str, str], ...] = ()
    """The parameters that differ from their defaults, as canonical text."""

    def __str__(self) -> str:
        parts = [] if self.cut is None else [str(self.cut)]
        parts += [f"{key}={value}" for key, value in self.options]
        return self.name + ("@" + ",".join(parts) if parts else "")

    def __getitem__(self, key: str) -> Any:
        """A parameter's value, its default where it was left out, None where it has none."""
        parameter = catalogue.entry(self.name).parameter(key)
        if parameter is None:
            raise KeyError(key)
        return parameter.value(dict(self.options).get(key))

    def get(self, key: str) -> Any:
        """The same, and None for metrics that have no such parameter."""
        return self[key] if catalogue.entry(self.name).parameter(key) is not None else None

    def text(self, key: str) -> str:
        """A parameter's value, or its default, as canonical text; a KeyError if it has neither."""
        parameter = catalogue.entry(self.name).parameter(key)
        text = dict(self.options).get(key, None if parameter is None else parameter.default)
        if text is None:
            raise KeyError(key)
        return text

    def at_level(self, level: int) -> Metric:
        """The same metric at a level by number."""
        options = dict(self.options) | {"level": str(level)}
        return Metric(self.name, self.cut, tuple(sorted(options.items())))
