"""What can go wrong, by name; each message is a sentence with what came and what to do."""

from __future__ import annotations

__all__ = ["ExactnessError", "InputError", "TruerankWarning"]


class InputError(ValueError):
    """The caller handed over something that cannot be evaluated; the message is one line."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


class ExactnessError(RuntimeError):
    """This machine's arithmetic did not give the exact result that truerank relies on."""


class TruerankWarning(UserWarning):
    """The evaluation goes on, but the user should read this before trusting the numbers."""
