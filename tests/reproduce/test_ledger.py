"""A ledger computes what is missing, once, and stops when the time is over."""

from __future__ import annotations

from pathlib import Path

import pytest
from studies.runner import Clock, Ledger, TimeOver

from truerank._util.errors import InputError


def test_an_entry_is_computed_once_and_kept(tmp_path: Path) -> None:
    path, asked = tmp_path / "ledger.json", []

    def compute() -> list[int]:
        asked.append(1)
        return [1, 2]

    assert Ledger(path, {"size": 3}, Clock(None)).get("a", compute) == [1, 2]
    again = Ledger(path, {"size": 3}, Clock(None))
    assert again.get("a", compute) == [1, 2]
    assert len(asked) == 1
    with pytest.raises(InputError, match="other data or another size"):
        Ledger(path, {"size": 4}, Clock(None))
    path.write_text("[]")
    with pytest.raises(InputError, match="no ledger"):
        Ledger(path, {"size": 3}, Clock(None))


def test_when_the_time_is_over_nothing_new_begins(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    Ledger(path, {}, Clock(None)).get("a", lambda: 1)
    late = Ledger(path, {}, Clock(0.0))
    assert late.get("a", lambda: 2) == 1
    with pytest.raises(TimeOver):
        late.get("b", lambda: 2)
    assert "b" not in Ledger(path, {}, Clock(None)).entries
