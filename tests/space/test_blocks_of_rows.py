"""Whole rows that are filled in are the tiles of the same space."""

from __future__ import annotations

import numpy as np
import pytest

from tests.space.exact import VECTORS, make


@pytest.mark.parametrize("distance", [*VECTORS, "hamming"])
@pytest.mark.parametrize("kind", ["any", "some orthogonal", "some without a direction"])
def test_rows_are_the_tiles_of_the_whole_gallery(distance: str, kind: str) -> None:
    rng = np.random.default_rng(11)
    rows = rng.standard_normal((60, 8)).astype(np.float32)
    if kind == "some orthogonal":
        rows[::2, :4] = rows[1::2, 4:] = 0
    if kind == "some without a direction":
        rows[::7] = 0
    space = make(distance, rows > 0 if distance == "hamming" else rows)
    some = np.array([3, 0, 59, 17])
    out = np.full((4, 60), np.nan)
    space.fill_rows(some, out)
    assert out.tobytes() == np.ascontiguousarray(space.block(some)(0, 60)).tobytes()
    everyone = np.broadcast_to(np.arange(60), (4, 60)).ravel()
    assert out.ravel().tolist() == space.pairs(np.repeat(some, 60), everyone).tolist()
