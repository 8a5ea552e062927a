"""Exceptions and warnings of truerank by name, and checks that raise them.

Each message is a sentence that states what was received and what to do.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from numbers import Integral

LONGEST_WORD, LONGEST_MESSAGE = 300, 2000
"""Letters of a word, which may be a path, and of a sentence."""


class InputError(ValueError):
    """Input that cannot be evaluated; the message says in one line what to change.

    Parts of the input that the message repeats are cut where they are long.
    """

    __module__ = "truerank"

    def __init__(self, message: str) -> None:
        words = (_cut(word, LONGEST_WORD) for word in message.split())
        super().__init__(_cut(" ".join(words), LONGEST_MESSAGE))


def _cut(text: str, most: int) -> str:
    """A text without its middle where it is longer."""
    return text if len(text) <= most else f"{text[: most // 2]}...{text[-most // 4 :]}"


class UnknownMetricError(InputError, KeyError):
    """A result was asked for something that is no metric; a mapping calls that a KeyError."""

    __str__ = ValueError.__str__


class OwnCodeError(InputError):
    """Code that the user passed has failed; `trace` is its traceback, from the user's file on."""

    def __init__(self, message: str, trace: str) -> None:
        super().__init__(message)
        self.trace = trace.rstrip()

    def __str__(self) -> str:
        return f"{self.args[0]}\n{self.trace}"

    def __reduce__(self) -> tuple[type[OwnCodeError], tuple[str, str]]:
        return OwnCodeError, (self.args[0], self.trace)


class ExactnessError(RuntimeError):
    """This machine's arithmetic is not exact where truerank relies on it."""

    __module__ = "truerank"


class ClusterError(RuntimeError):
    """A cluster could not do what it was asked for, however often it was tried."""


class TruerankWarning(UserWarning):
    """A warning to read before you trust the numbers; the evaluation continues."""

    __module__ = "truerank"


def warn(sentence: str, category: type[Warning] = TruerankWarning) -> None:
    """Warn with the line of the caller outside truerank, however deep this is called.

    The import system is passed over as well; its bootstrap frames do not count as a level.
    """
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None:
        name = frame.f_globals.get("__name__", "")
        if name.split(".")[0] not in ("truerank", "importlib"):
            break
        level += "importlib._bootstrap" not in name
        frame = frame.f_back
    warnings.warn(sentence, category, stacklevel=level)


def shortened(value: object, most: int = 80) -> str:
    """What Python calls a value, cut where it is long: enough to recognise it in a sentence."""
    try:
        text = repr(value)
    except Exception:  # whatever a value's own repr raises
        text = f"a {type(value).__name__}"
    return text if len(text) <= most else f"{text[: most - 3]}..."


def check_choice(parameter: str, value: object, choices: Sequence[str], of: str = "") -> None:
    """Refuse what is none of the choices; `of` is the function whose parameter it is."""
    if not isinstance(value, str) or value not in choices:
        whose = f" of {of}" if of else ""
        raise InputError(
            f"The {parameter!r} parameter{whose} must be one of {', '.join(choices)}. "
            f"Got {shortened(value)} instead."
        )


def check_seed(seed: object) -> None:
    """Refuse what is no whole number from 0 on that 63 bits can hold."""
    if isinstance(seed, bool) or not isinstance(seed, Integral) or not 0 <= int(seed) < 2**63:
        raise InputError(
            "The 'seed' parameter must be an int >= 0 and below 2^63. "
            f"Got {shortened(seed)} instead."
        )
