"""Settings hold within their block, and those that cannot be are refused."""

from __future__ import annotations

from typing import Any

import pytest

import truerank
from truerank._util.settings import settings


def test_settings_end_with_their_block() -> None:
    with settings() as default:
        pass
    with settings(query_rows=3) as outer:
        assert outer.query_rows == 3
        with settings(mates=5) as inner:
            assert (inner.query_rows, inner.mates) == (3, 5)
    with pytest.raises(KeyError), settings(query_rows=3):
        raise KeyError
    with settings() as after:
        assert after == default


@pytest.mark.parametrize(
    "name",
    [
        "query_rows",
        "gallery_rows",
        "mates",
        "row_numbers",
        "observed_numbers",
        "side",
        "symmetric_mates",
    ],
)
@pytest.mark.parametrize("value", [0, -1, 1.5])
def test_settings_that_cannot_be(name: str, value: Any) -> None:
    """Blocks of no rows would never come to an end."""
    with pytest.raises(truerank.InputError, match=name), settings(**{name: value}):
        pass


def test_a_method_that_does_not_exist() -> None:
    with (
        pytest.raises(truerank.InputError, match="method must be one of"),
        settings(method="float16"),
    ):
        pass
