"""Cosine distances of pairs that know better than the grid: orthogonal ones, and short rows."""

from __future__ import annotations

import numpy as np
import pytest

from tests.oracles import scores
from tests.space.exact import exact, make, pairs, tile
from truerank.distance import cosine, grid
from truerank.distance.cosine import Cosine
from truerank.distance.probe import probe

ROWS = {
    "words": lambda rng: rng.poisson(0.1, (40, 60)),
    "counts": lambda rng: rng.poisson(3, (40, 12)),
    "bits": lambda rng: rng.random((40, 30)) < 0.2,
    "ternary": lambda rng: rng.integers(-1, 2, (40, 16)),
    "bytes": lambda rng: rng.integers(-127, 128, (40, 24)),
    "disjoint weights": lambda rng: rng.random((40, 30)) * (rng.random((40, 30)) < 0.1),
    "some short": lambda rng: np.where(
        rng.random((40, 1)) < 0.5, rng.integers(0, 3, (40, 9)), rng.random((40, 9))
    ),
}


@pytest.mark.parametrize("kind", list(ROWS))
@pytest.mark.parametrize("compiled", [True, False])
def test_distances_against_rational_numbers(
    kind: str, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cosine, "compiled", lambda: compiled)
    rows = ROWS[kind](np.random.default_rng(3)).astype(np.float64)
    for queries, gallery in ((rows, None), (rows[:9], rows[9:])):
        space = make("cosine", queries, gallery)
        other = None if gallery is None else gallery.tolist()
        assert exact(space) == scores.distances("cosine", queries.tolist(), other)
        np.testing.assert_array_equal(pairs(space), tile(space))


def test_a_gallery_has_the_distances_of_each_of_its_parts() -> None:
    """Whether a row is short is its own affair: other rows cannot change a distance."""
    rows = ROWS["some short"](np.random.default_rng(4))
    whole = tile(make("cosine", rows))
    np.testing.assert_array_equal(tile(make("cosine", rows[:7], rows[20:])), whole[:7, 20:])


def test_float32_scores_decide_nothing_wrongly() -> None:
    for kind in ROWS:
        rows = ROWS[kind](np.random.default_rng(5)).astype(np.float64)
        space = make("cosine", rows)
        assert isinstance(space, Cosine)
        probe(space)
        assert space.single is not None
        matrix = tile(space)
        grid = space.grids[0].integers.astype(np.int64)
        made = grid @ grid.T
        for query in range(len(rows)):
            low, high = space.single.intervals(np.full(len(rows), query), matrix[query])
            assert (made[query][None, :] <= high[:, None])[
                matrix[query] >= matrix[query][:, None]
            ].all()
            assert (made[query][None, :] >= low[:, None])[
                matrix[query] <= matrix[query][:, None]
            ].all()


def test_a_machine_without_exact_float32_is_asked_for_float64(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Some machines round the operands of a float32 product to fewer bits."""
    made = grid.short_tile

    def rounded(product: np.ndarray, *squares: np.ndarray) -> np.ndarray:
        if product.dtype == np.float32:
            product = np.rint(product / 64) * 64
        return made(product, *squares)

    monkeypatch.setattr(cosine, "short_tile", rounded)
    rows = ROWS["bytes"](np.random.default_rng(6)).astype(np.float64)
    space = make("cosine", rows)
    probe(space)
    np.testing.assert_array_equal(tile(space), pairs(space))
