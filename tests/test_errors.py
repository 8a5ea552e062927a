"""Sentences of refusals: one line, and short whatever they repeat."""

from __future__ import annotations

import pytest

import truerank
from truerank._util.errors import InputError


def test_a_message_is_one_line() -> None:
    assert str(InputError("two\n  lines ")) == "two lines"


@pytest.mark.parametrize("value", ["a" * 100_000, "a " * 100_000, "x" * 3000])
def test_a_message_repeats_no_long_value(value: str) -> None:
    message = str(InputError(f"data must be a mapping. Got {value} instead."))
    assert len(message) < 2000
    assert message.startswith("data must be a mapping. Got ")
    assert message.endswith(" instead.")


def test_a_path_is_kept_whole() -> None:
    path = "/".join(["folder"] * 30)
    assert path in str(InputError(f"cannot read {path}: no such file."))


def test_a_long_metric_name_is_refused_briefly() -> None:
    with pytest.raises(InputError) as refusal:
        truerank.evaluate([[0.0], [1.0]], [0, 0], metrics="m" * 3000)
    assert len(str(refusal.value)) < 1000
