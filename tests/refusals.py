"""That a call is refused, in one line that shows what came and the fix."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from truerank import InputError


def refusal(call: Callable[[], Any]) -> str:
    """The message of the InputError that the call must end in."""
    with pytest.raises(InputError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith((".", "?"))
    assert len(message) < 400
    return message


@contextmanager
def refused(words: str) -> Iterator[None]:
    """That what is done inside ends in a refusal with these words."""
    with pytest.raises(InputError) as caught:
        yield
    assert words in refusal(_raising(caught.value))


def _raising(error: Exception) -> Callable[[], None]:
    def call() -> None:
        raise error

    return call


def assert_refused(call: Callable[[], Any], words: Sequence[str]) -> None:
    message = refusal(call)
    assert [word for word in words if word not in message] == [], message
