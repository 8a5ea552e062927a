"""What can go wrong, by name; each message is a sentence with what came and what to do."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence

__all__ = [
    "ExactnessError",
    "InputError",
    "TruerankWarning",
    "UnknownMetricError",
    "check_choice",
    "warn",
]


class InputError(ValueError):
    """The caller handed over something that cannot be evaluated; the message is one line."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


class UnknownMetricError(InputError, KeyError):
    """A result was asked for something that is no metric; a mapping calls that a KeyError."""

    __str__ = ValueError.__str__


class ExactnessError(RuntimeError):
    """This machine's arithmetic did not give the exact result that truerank relies on."""


class TruerankWarning(UserWarning):
    """The evaluation goes on, but the user should read this before trusting the numbers."""


def warn(sentence: str) -> None:
    """Warn with the line of the caller outside truerank, however deep this is called."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(sentence, TruerankWarning, stacklevel=level)


def _is_ours(module: str) -> bool:
    return module.split(".")[0] == "truerank"


def check_choice(parameter: str, value: object, choices: Sequence[str], of: str = "") -> None:
    """Refuse what is none of the choices; `of` is the function whose parameter it is."""
    if not isinstance(value, str) or value not in choices:
        whose = f" of {of}" if of else ""
        raise InputError(
            f"The {parameter!r} parameter{whose} must be one of {', '.join(choices)}. "
            f"Got {value!r} instead."
        )
