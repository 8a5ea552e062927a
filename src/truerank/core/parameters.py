"""Parameters of metrics: how a value is checked, parsed and printed.

Text becomes canonical text (one spelling per value) or a typed value. Numbers are read as the
rational numbers that their decimal text denotes, never as floats.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Protocol

from truerank._util.errors import InputError

_DECIMAL = r"-?(\d{1,12}(\.\d{0,18})?|\.\d{1,18})(e-?\d{1,2})?"
_PLAIN = r"\d{1,6}(\.\d{1,12})?|\.\d{1,12}"
_LEAST = Decimal("1e-18")
_LARGEST = 2**31 - 1


class Kind(Protocol):
    """What values a parameter takes."""

    @property
    def title(self) -> str:
        """The kind's name."""
        ...

    @property
    def expected(self) -> str:
        """The kind's values in words, for a sentence that ends in 'must be ...'."""
        ...

    def canonical(self, text: str) -> str | None:
        """The one spelling of a value, None if the text is no value of this kind."""
        ...

    def value(self, text: str) -> Any:
        """What canonical text stands for."""
        ...


@dataclass(frozen=True)
class Number:
    """A number in decimal notation within bounds, both of them included."""

    title: str
    expected: str
    low: Decimal
    high: Decimal

    def canonical(self, text: str) -> str | None:
        """See Kind."""
        if re.fullmatch(_DECIMAL, text):
            number = Decimal(text)
            if self.low <= number <= self.high and self._fits(number):
                return _plain(number)
        return None

    def value(self, text: str) -> Fraction | int:
        """See Kind."""
        return Fraction(text)

    def _fits(self, number: Decimal) -> bool:
        return True


def _plain(number: Decimal) -> str:
    """A number as text without an exponent, a needless zero, or a sign of zero."""
    return f"{number.normalize() + 0:f}"


@dataclass(frozen=True)
class Whole(Number):
    """A whole number within bounds."""

    def value(self, text: str) -> int:
        """See Kind."""
        return int(text)

    def _fits(self, number: Decimal) -> bool:
        return number == int(number)


@dataclass(frozen=True)
class Targets:
    """Two shares, the smaller first."""

    title: str = "two FAR targets"
    expected: str = "two numbers from 0 to 1 such as 0.01:0.1, the smaller first"

    def canonical(self, text: str) -> str | None:
        """See Kind."""
        if re.fullmatch(f"{_DECIMAL}:{_DECIMAL}", text):
            first, second = (Decimal(part) for part in text.split(":"))
            if 0 <= first < second <= 1:
                return f"{_plain(first)}:{_plain(second)}"
        return None

    def value(self, text: str) -> tuple[Fraction, Fraction]:
        """See Kind."""
        first, second = text.split(":")
        return Fraction(first), Fraction(second)


@dataclass(frozen=True)
class Numbers:
    """A number for each level, some of them positive."""

    title: str = "numbers"
    expected: str = "numbers >= 0 separated by colons, such as 1:2:3"

    def canonical(self, text: str) -> str | None:
        """See Kind."""
        parts = text.split(":")
        given = all(re.fullmatch(_PLAIN, part) for part in parts) and max(map(Decimal, parts)) > 0
        return text if given else None

    def value(self, text: str) -> tuple[Fraction, ...]:
        """See Kind."""
        return tuple(Fraction(part) for part in text.split(":"))


@dataclass(frozen=True)
class Choice:
    """One of some words."""

    words: tuple[str, ...]
    title: str = "choice"

    @property
    def expected(self) -> str:
        """See Kind."""
        return f"one of {', '.join(self.words)}"

    def canonical(self, text: str) -> str | None:
        """See Kind."""
        return text if text in self.words else None

    def value(self, text: str) -> str:
        """See Kind."""
        return text


@dataclass(frozen=True)
class Level:
    """A level of the labels; which there are only a task knows."""

    title: str = "level"
    expected: str = "a level's number (1 is the coarsest), its name, or mean"

    def canonical(self, text: str) -> str | None:
        """See Kind."""
        return text

    def value(self, text: str) -> str:
        """See Kind."""
        return text


COUNT = Whole("whole number", "an int >= 1", Decimal(1), Decimal(_LARGEST))
SEED = Whole("seed", "an int >= 0", Decimal(0), Decimal(_LARGEST))
RATE = Number("rate", "a number from 0 to 1", Decimal(0), Decimal(1))
HALF = Number("rate", "a number above 0 and up to 0.5", _LEAST, Decimal("0.5"))
INNER = Number("rate", "a number between 0 and 1", _LEAST, 1 - _LEAST)
POSITIVE = Number("positive number", "a number above 0 and up to 100", _LEAST, Decimal(100))
THRESHOLD = Number("threshold", "a number", Decimal("-1e30"), Decimal("1e30"))
TARGETS = Targets()
NUMBERS = Numbers()


@dataclass(frozen=True)
class Parameter:
    """One parameter of a metric."""

    name: str
    kind: Kind
    help: str
    default: str | None = None
    """Canonical text; None where leaving it out means something of its own, or is not allowed."""
    needs_cut: bool = False
    """Whether it says something only beside a number as cut-off."""

    def canonical(self, text: str, metric: str) -> str:
        """The one spelling of a value given to the metric of this name."""
        found = self.kind.canonical(text)
        if found is None:
            raise InputError(
                f"The {self.name!r} option of {metric} must be {self.kind.expected}. "
                f"Got {text!r} instead."
            )
        return found

    def value(self, text: str | None = None) -> Any:
        """What canonical text, or the default in its place, stands for; None without either."""
        text = self.default if text is None else text
        return None if text is None else self.kind.value(text)


LEVEL = Parameter("level", Level(), "the level of the labels at which items are relevant")


def check_cut(allowed: str, text: str, metric: str) -> int | str:
    """The cut-off given to the metric of this name: a rank, or r for the number of mates."""
    if allowed == "none":
        raise InputError(f"metric {metric!r} takes no cut-off. Got {text!r}.")
    if allowed == "optional" and text == "r":
        return "r"
    whole = Decimal(text) if text.isascii() and text.isdigit() else Decimal(0)  # of any length
    if not 1 <= whole <= _LARGEST:
        expected = "an int >= 1" + (" or r" if allowed == "optional" else "")
        raise InputError(f"The 'k' parameter of {metric} must be {expected}. Got {text!r}.")
    return int(whole)
