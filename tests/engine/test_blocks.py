"""Blocks and tiles are as large as the settings say, and cannot be seen in the result."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import truerank
from tests.engine.tied_task import LABELS, ROWS, fingerprint
from truerank._util.settings import settings
from truerank.distance import inner_product
from truerank.distance.catalogue import build
from truerank.engine import runner


@pytest.mark.parametrize(
    "limits",
    [
        {"query_rows": 1},
        {"query_rows": 7, "gallery_rows": 11},
        {"gallery_rows": 1},
        {"mates": 1},
        {"mates": 100, "gallery_rows": 13},
        {"sort_share": 0.0, "query_rows": 7},
        {"sort_share": 0.0, "row_numbers": 200, "gallery_rows": 13},
        {"sort_share": 1.0, "query_rows": 7},
    ],
)
def test_settings_bound_the_blocks_and_change_nothing(limits: dict[str, Any]) -> None:
    view, space = truerank.Task(LABELS).view, build("cosine", ROWS)
    for device in ("cpu", "reference"):
        with settings(**limits) as current:
            blocks = [block.rows for block in runner.tie_groups(view, space, device=device)]
            assert fingerprint(device=device) == fingerprint()
        assert sorted(np.concatenate(blocks).tolist()) == list(range(90))
        for rows in blocks:
            assert len(rows) <= current.query_rows
            assert len(rows) == 1 or len(rows) * view.mates[rows].max() <= current.mates


@pytest.mark.parametrize("held", [True, False])
def test_tiles_are_as_wide_as_the_settings_say(held: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """But rows that are sorted are one product where the gallery is held in float64."""
    if not held:
        monkeypatch.setattr(inner_product, "KEPT_NUMBERS", 0)
    view, space = truerank.Task(LABELS).view, build("cosine", ROWS)
    assert space.holds_gallery is held
    widths: list[int] = []
    block = type(space).block

    def watched(self: Any, rows: np.ndarray) -> Any:
        tile = block(self, rows)

        def give(start: int, stop: int) -> np.ndarray:
            widths.append(stop - start)
            return tile(start, stop)

        return give

    fill_rows = type(space).fill_rows

    def filled(self: Any, rows: np.ndarray, out: np.ndarray) -> None:
        widths.append(out.shape[1])
        fill_rows(self, rows, out)

    monkeypatch.setattr(type(space), "block", watched)
    monkeypatch.setattr(type(space), "fill_rows", filled)
    for sort_share in (0.0, 1.0):
        widths.clear()
        with settings(gallery_rows=40, sort_share=sort_share):
            list(runner.tie_groups(view, space, device="cpu"))
        assert sorted(widths) == ([90] if held and sort_share == 0 else [10, 40, 40])


def test_means_do_not_depend_on_blocks() -> None:
    """A sanity check of the fingerprint itself: the value is the exact mean of the queries."""
    score = truerank.evaluate(ROWS, LABELS, metrics=["map"])["map"]
    values = [Fraction(value) for value in score.per_query.lower.tolist()]
    mean = sum(values) / len(values)
    assert score.lower == mean.numerator / mean.denominator
