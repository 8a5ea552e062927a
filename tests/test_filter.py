"""Filter and refine: the float32 path decides only what it can prove, and changes no bit.

Bounds are checked against Python integers with sums in several orders, kernels against brute force,
and whole evaluations against the reference engine, on data built to be ambiguous.
"""

from __future__ import annotations

import importlib
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import truerank
from tests.conftest import Within
from truerank import engine
from truerank.engine import filter as filtering
from truerank.engine import filter_kernels, kernels
from truerank.engine.counts import Counts
from truerank.engine.schedule import method_of
from truerank.settings import current_settings, limits, settings
from truerank.space import build, inner
from truerank.space.single import SinglePrecision

# --- the data -------------------------------------------------------------------------------------


def random_rows(rng: np.random.Generator, rows: int, dimension: int) -> np.ndarray:
    return rng.standard_normal((rows, dimension)).astype(np.float32)


def positive_rows(rng: np.random.Generator, rows: int, dimension: int) -> np.ndarray:
    """All distances close together, all terms of one sign: sums round the same way."""
    return (1 + rng.random((rows, dimension)) / 64).astype(np.float32)


def outlier_rows(rng: np.random.Generator, rows: int, dimension: int) -> np.ndarray:
    """One dimension outweighs all others, which then hardly move a float32 sum."""
    data = rng.standard_normal((rows, dimension)).astype(np.float32)
    data[:, dimension // 3] = 1e3
    return data


def lattice_rows(rng: np.random.Generator, rows: int, dimension: int) -> np.ndarray:
    """Signs: distances take few values, each of them many times."""
    return rng.choice([-1.0, 1.0], size=(rows, dimension)).astype(np.float32)


def duplicate_rows(rng: np.random.Generator, rows: int, dimension: int) -> np.ndarray:
    return rng.standard_normal((5, dimension)).astype(np.float32)[rng.integers(5, size=rows)]


def near_tie_rows(rng: np.random.Generator, rows: int, dimension: int) -> np.ndarray:
    """Around a few points, a hair's breadth from each other: most of it within the bound."""
    centres = rng.standard_normal((4, dimension))
    noise = rng.standard_normal((rows, dimension)) * 10.0 ** rng.integers(-7, -2, (rows, 1))
    return centres[rng.integers(4, size=rows)] + noise


def rows_with_zeros(rng: np.random.Generator, rows: int, dimension: int) -> np.ndarray:
    data = lattice_rows(rng, rows, dimension)
    data[rng.choice(rows, rows // 4, replace=False)] = 0
    return data


KINDS = [
    random_rows,
    positive_rows,
    outlier_rows,
    lattice_rows,
    duplicate_rows,
    near_tie_rows,
    rows_with_zeros,
]

# --- the bound ------------------------------------------------------------------------------------


def sums(x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    """x @ y.T in float32, summed in several orders."""
    products = x[:, None, :] * y[None, :, :]
    ascending = np.take_along_axis(products, np.argsort(np.abs(products), axis=2), axis=2)
    fused = np.zeros(products.shape[:2], np.float32)
    for a, b in zip(x.T, y.T, strict=True):  # one rounding for product and sum
        fused = (fused.astype(np.float64) + np.outer(a.astype(np.float64), b)).astype(np.float32)
    return {
        "blas": x @ y.T,
        "first to last": np.cumsum(products, axis=2, dtype=np.float32)[:, :, -1],
        "last to first": np.cumsum(products[:, :, ::-1], axis=2, dtype=np.float32)[:, :, -1],
        "smallest first": np.cumsum(ascending, axis=2, dtype=np.float32)[:, :, -1],
        "largest first": np.cumsum(ascending[:, :, ::-1], axis=2, dtype=np.float32)[:, :, -1],
        "fused": fused,
    }


def space_of(data: np.ndarray, **options: Any) -> tuple[Any, SinglePrecision]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *args, **kwargs: None)
        space = build("cosine", data, **options)
    assert space.single is not None
    return space, space.single


def wrong_decisions(data: np.ndarray, single: SinglePrecision, space: Any) -> int:
    """Comparisons decided wrongly by scores outside the intervals, over orders of summation."""
    count = len(data)
    query, item = np.divmod(np.arange(count * count), count)
    exact = space.pairs(query, item).reshape(count, count)
    low, high = (ends.reshape(count, count) for ends in single.intervals(query, exact.ravel()))
    rows = single.items(0, count, np.empty((count, single.dimension), np.float32))
    wrong = 0
    for scores in sums(rows, rows).values():
        nearer = scores[:, :, None] > high[:, None, :]  # item against threshold
        farther = scores[:, :, None] < low[:, None, :]
        wrong += int((nearer & ~(exact[:, :, None] < exact[:, None, :])).sum())
        wrong += int((farther & ~(exact[:, :, None] > exact[:, None, :])).sum())
    return wrong


@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("dimension", [1, 3, 64, 700])
def test_no_order_of_summation_decides_wrongly(make: Any, dimension: int) -> None:
    data = make(np.random.default_rng(dimension), 24, dimension)
    space, single = space_of(data)
    assert wrong_decisions(data, single, space) == 0


def test_the_bound_is_needed() -> None:
    """With a hundredth of it, some order of summation decides wrongly: the tests above can fail."""
    wrong = 0
    for make in (positive_rows, outlier_rows, near_tie_rows):
        data = make(np.random.default_rng(5), 24, 700)
        space, single = space_of(data)
        single._factor /= 100
        wrong += wrong_decisions(data, single, space)
    assert wrong > 0


def test_the_bound_covers_the_worst_sum_there_is() -> None:
    """Terms just below half a step of the sum so far, each lost when added to it."""
    dimension = 4096
    lost = 0.499 * 2.0**-24  # half a step of a float32 from 1/2 to 1 is 2^-25
    terms = [0.5 + 2.0**-12, *[lost] * (dimension - 2)]
    x = np.sqrt(np.array([[*terms, 1 - sum(terms)]]))
    space, single = space_of(x)
    rows = single.items(0, 1, np.empty((1, dimension), np.float32))
    low, high = single.intervals(np.array([0]), np.array([0.0]))
    scores = [float(score.item()) for score in sums(rows, rows).values()]
    exact = sum(int(v) ** 2 for v in space._left.integers[0].tolist())
    assert all(low[0] <= score <= high[0] for score in scores)
    reach = (float(high[0]) - float(low[0])) / 2
    assert max(abs(score - exact) for score in scores) > 0.4 * reach  # no extravagance either


def test_intervals_are_rounded_outward() -> None:
    """Against exact fractions, for thresholds at every place of the float32 grid."""
    rng = np.random.default_rng(3)
    _, single = space_of(random_rows(rng, 50, 8))
    query = rng.integers(50, size=400)
    distance = np.floor(rng.random(400) * 2.0**52)
    low, high = single.intervals(query, distance)
    gamma = 10 * 2.0**-24
    for q, d, below, above in zip(query, distance, low, high, strict=True):
        square = int(single._query_square[q])
        reach = int(gamma * (square * single._largest) ** 0.5)
        assert 2 * int(below) <= square + single._smallest - int(d) - 2 * reach
        assert 2 * int(above) >= square + single._largest - int(d) + 2 * reach


# --- the kernel -----------------------------------------------------------------------------------


@st.composite
def tiles(draw: st.DrawFn) -> tuple[np.ndarray, Counts, np.ndarray, np.ndarray, np.ndarray]:
    """Scores, exact distances that agree with them outside intervals, and the intervals."""
    queries, items = draw(st.integers(1, 3)), draw(st.integers(1, 90))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    spread = draw(st.sampled_from([3, 30, 1000]))
    exact = rng.integers(0, spread, size=(queries, items)).astype(float)
    error = draw(st.sampled_from([0, 1, 5]))
    scores = (-exact + rng.integers(-error, error + 1, exact.shape)).astype(np.float32)
    mates = rng.random(exact.shape) < draw(st.sampled_from([0.0, 0.1, 0.9]))
    query, item = np.nonzero(mates)
    frame = Counts.frame(query, exact[query, item], np.ones(len(query), int), queries, 1)
    low = (-frame.distance - error).astype(np.float32)
    high = (-frame.distance + error).astype(np.float32)
    return scores, frame, low, high, exact


@given(tiles())
def test_certain_and_doubtful_entries_make_the_exact_counts(case: Any) -> None:
    scores, frame, low, high, exact = case
    expected = frame.empty_copy()
    kernels.count_tile(exact, expected.offsets, expected.distance, expected.between, expected.equal)
    counts = frame.empty_copy()
    query, item = np.empty((2, scores.size + scores.shape[1]), np.int64)
    taken, listed = filter_kernels.count_scores(
        scores, 0, frame.offsets, low, high, counts.between, query, item
    )
    query, item = query[:listed], item[:listed]
    assert taken == len(scores)
    assert len({*zip(query.tolist(), item.tolist(), strict=True)}) == listed
    kernels.count_pairs(
        query,
        exact[query, item],
        1,
        counts.offsets,
        counts.distance,
        counts.between,
        counts.equal,
    )
    np.testing.assert_array_equal(counts.between, expected.between)
    np.testing.assert_array_equal(counts.equal, expected.equal)


def test_rows_that_do_not_fit_the_lists_are_left() -> None:
    scores = np.zeros((5, 6), np.float32)
    frame = Counts.frame(np.arange(5), np.zeros(5), np.ones(5, int), 5, 1)
    low, high = np.full(5, -1, np.float32), np.ones(5, np.float32)
    query, item = np.empty((2, 15), np.int64)
    found = filter_kernels.count_scores(
        scores, 0, frame.offsets, low, high, frame.between, query, item
    )
    assert found == (2, 12)
    assert query[:12].tolist() == [0] * 6 + [1] * 6
    assert item[:12].tolist() == [*range(6)] * 2
    assert not frame.between.any()


# --- whole evaluations ----------------------------------------------------------------------------

METRICS = ["map", "map@r", "mrr", "minp", "precision@5", "hit@2", "r_precision"]


def fingerprint(data: np.ndarray, labels: Any, **options: Any) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *args, **kwargs: None)
        result = truerank.evaluate(data, labels, metrics=METRICS, **options)
    found = result.to_dict()
    return json.dumps([found["scores"], found["provenance"]["ties"]])


@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("classes", [2, 40])
def test_every_method_gives_the_bits_of_the_reference(make: Any, classes: int) -> None:
    rng = np.random.default_rng(11)
    data, labels = make(rng, 150, 33), rng.integers(classes, size=150)
    expected = fingerprint(data, labels, device="reference")
    for method in engine.METHODS:
        for sizes in ({"sort_share": 1.0}, {"gallery_rows": 32, "query_rows": 50}, {"side": 31}):
            with engine.settings(method=method, **sizes):
                assert fingerprint(data, labels, device="cpu", threads=2) == expected, method


@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
def test_a_gallery_of_its_own(make: Any) -> None:
    rng = np.random.default_rng(12)
    data, labels = make(rng, 180, 20), rng.integers(30, size=180)
    sides = {"gallery": data[60:], "gallery_labels": labels[60:]}
    sides |= {"query_ids": np.arange(60), "gallery_ids": np.arange(30, 150)}
    sides |= {"query_groups": labels[:60] % 3, "gallery_groups": np.arange(120) % 3}
    expected = fingerprint(data[:60], labels[:60], device="reference", **sides)
    for method in engine.METHODS:
        with engine.settings(method=method, sort_share=1.0):
            assert fingerprint(data[:60], labels[:60], **sides) == expected


def test_junk_groups_and_singletons_with_each_pair_computed_once() -> None:
    rng = np.random.default_rng(13)
    data, labels = near_tie_rows(rng, 160, 12), rng.integers(60, size=160)
    labels[:20] = np.arange(1000, 1020)
    options = {"query_groups": rng.integers(3, size=160), "query_ids": np.arange(160) // 2}
    expected = fingerprint(data, labels, device="reference", **options)
    for junk in ((), (3,)):
        options["junk_labels"] = junk
        expected = fingerprint(data, labels, device="reference", **options)
        with engine.settings(method="symmetric", side=25):
            assert fingerprint(data, labels, **options) == expected


def test_levels_of_a_tree_with_each_pair_computed_once() -> None:
    rng = np.random.default_rng(14)
    data, fine = lattice_rows(rng, 70, 9), rng.integers(40, size=70)
    labels = np.column_stack([fine // 10, fine // 3 + 100 * (fine // 10), fine])
    expected = truerank.evaluate(data, labels, device="reference").to_dict()["scores"]
    for sort_share in (0.1, 1.0):  # some rows sorted, or none
        with engine.settings(method="symmetric", side=40, sort_share=sort_share):
            assert truerank.evaluate(data, labels).to_dict()["scores"] == expected


WATCHED = [
    "map",
    "auc",
    "eer",
    "min_dcf",
    "threshold@far=0.1",
    "dir@far=0.1",
    "opis@far=0.1:0.6",
    "opis@eps=0.3,far=0.1:0.6",
]


def thresholds(data: np.ndarray, labels: Any, **options: Any) -> str:
    """What watchers count, to the last bit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *args, **kwargs: None)
        result = truerank.evaluate(data, labels, metrics=WATCHED, **options)
    found = result.to_dict()
    return json.dumps([found["scores"], found["provenance"]["consistency"]])


@pytest.mark.parametrize("form", ["exact", "two passes", "one pass"])
@pytest.mark.parametrize("distance", ["cosine", "euclidean", "dot", "hamming"])
@pytest.mark.parametrize("make", [lattice_rows, near_tie_rows, rows_with_zeros])
def test_watchers_see_each_pair_computed_once(
    make: Any, distance: str, form: str, within: Within
) -> None:
    rng = np.random.default_rng(15)
    data, labels = make(rng, 130, 14), rng.integers(30, size=130)
    if distance == "hamming":
        data = data > 0
    labels[:9] = np.arange(1000, 1009)
    if form != "exact":
        within(limits(breakpoints=0))
        within(settings(collected=0))
    if form == "one pass":
        within(limits(sampled_from=0, sampled_rows=40))
    options = {"query_groups": rng.integers(3, size=130), "query_ids": np.arange(130) // 2}
    for more in ({}, options, {"junk": rng.random((130, 130)) < 0.1}):
        more["distance"] = distance
        expected = thresholds(data, labels, device="reference", **more)
        for method in ("float64", "symmetric"):
            with engine.settings(method=method, side=24, sort_share=1.0):
                assert thresholds(data, labels, threads=2, **more) == expected, method


def test_watched_tiles_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 9 x 9 tiles 45; where too many pairs never meet to hold them all, every one."""
    rng = np.random.default_rng(16)
    data, labels = random_rows(rng, 180, 6), rng.integers(30, size=180)
    seen: list[tuple[int, int]] = []
    block = inner.Cosine.block

    def watched_block(self: Any, rows: np.ndarray) -> Any:
        tile = block(self, rows)
        return lambda *ends: seen.append(ends) or tile(*ends)

    monkeypatch.setattr(inner.Cosine, "block", watched_block)
    sizes = {"side": 20, "gallery_rows": 20, "query_rows": 20, "sort_share": 1.0}
    done: list[tuple[int, int]] = []
    for most, tiles in ((1 << 20, 45), (179, 81)):
        seen.clear()
        with engine.settings(method="symmetric", symmetric_mates=most, **sizes):
            truerank.evaluate(
                data,
                labels,
                metrics=["map", "tar@tau=0.3"],
                confidence=None,
                progress=lambda *part: done.append(part),
            )
        assert len([ends for ends in seen if ends[1] - ends[0] == 20]) == tiles
        assert done[-1] == (180 * 180, 180 * 180)


def count_tiles(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How many tiles were computed in each way from now on."""
    seen = {"scores": 0, "exact": 0}
    product, exact = filtering.Buffers.product, filtering.Filter.add_exact

    def watched_product(self: Any, *arguments: Any) -> Any:
        seen["scores"] += 1
        return product(self, *arguments)

    def watched_exact(self: Any, *arguments: Any) -> None:
        seen["exact"] += 1
        exact(self, *arguments)

    monkeypatch.setattr(filtering.Buffers, "product", watched_product)
    monkeypatch.setattr(filtering.Filter, "add_exact", watched_exact)
    return seen


@pytest.mark.parametrize(("method", "tiles"), [("symmetric", 45), ("filter", 81)])
def test_the_filter_is_given_up_where_it_decides_nothing(
    method: str, tiles: int, monkeypatch: pytest.MonkeyPatch, within: Within
) -> None:
    data, labels = duplicate_rows(np.random.default_rng(1), 180, 8), np.arange(180) % 60
    expected = fingerprint(data, labels, device="reference")
    within(settings(patience=4))
    seen = count_tiles(monkeypatch)
    with engine.settings(method=method, side=20, gallery_rows=20, query_rows=20, sort_share=1.0):
        assert fingerprint(data, labels, threads=1) == expected
    assert seen["scores"] < tiles / 2
    assert seen["exact"] > tiles / 2


@pytest.mark.parametrize(("method", "tiles"), [("symmetric", 45), ("filter", 81)])
def test_each_tile_is_multiplied_once(
    method: str, tiles: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, labels = random_rows(np.random.default_rng(1), 180, 8), np.arange(180) % 60
    seen = count_tiles(monkeypatch)
    with engine.settings(method=method, side=20, gallery_rows=20, query_rows=20, sort_share=1.0):
        fingerprint(data, labels, threads=2)
    assert seen == {"scores": tiles, "exact": 0}


def test_the_method_goes_by_cost() -> None:
    many = np.full(3000, 4)

    def chosen(space: Any, mates: np.ndarray) -> str:
        return method_of(space, mates, current_settings())

    data = random_rows(np.random.default_rng(0), 3000, 4)
    small, square = build("cosine", data[:100]), build("cosine", data)
    other = build("cosine", data[:2990], data)
    assert chosen(small, many[:100]) == "float64"
    assert chosen(square, many) == "symmetric"
    assert chosen(square, many[:1450]) == "filter"  # most rows have no mate: halving gains nothing
    assert chosen(other, many[:2990]) == "filter"
    assert chosen(build("euclidean", data), many) == "float64"
    now = current_settings()
    for space, wanted in ((square, "symmetric"), (other, "float64"), (small, "float64")):
        assert method_of(space, many[: space.queries], now, watched=True) == wanted
    assert method_of(build("euclidean", data), many, now, watched=True) == "symmetric"
    with engine.settings(symmetric_mates=11_999):
        assert chosen(square, many) == "filter"
    with engine.settings(method="float64"):
        assert chosen(square, many) == "float64"
    with engine.settings(method="symmetric"):
        assert chosen(other, many[:2990]) == "filter"


def test_a_method_that_does_not_exist() -> None:
    with (
        pytest.raises(truerank.InputError, match="method must be one of"),
        engine.settings(method="float16"),
    ):
        pass


def test_a_broken_product_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mate that is not met near its own distance: the product lied."""
    product = filtering.Buffers.product

    def lying(self: Any, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        scores = product(self, left, right)
        scores *= np.float32(0.9)
        return scores

    monkeypatch.setattr(filtering.Buffers, "product", lying)
    data, labels = random_rows(np.random.default_rng(2), 100, 16), np.arange(100) % 30
    for method in ("filter", "symmetric"):
        with (
            engine.settings(method=method, sort_share=1.0),
            pytest.raises(truerank.errors.ExactnessError),
        ):
            truerank.evaluate(data, labels)


def in_sixteen_bits(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """What a BLAS does that rounds float32 operands to bfloat16: fast, and out of bounds."""
    short = [
        (side.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32) for side in (left, right)
    ]
    return short[0] @ short[1].T


def test_a_product_of_lower_precision_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    data, labels = random_rows(np.random.default_rng(2), 100, 16), np.arange(100) % 30
    expected = fingerprint(data, labels, device="reference")
    seen = count_tiles(monkeypatch)
    monkeypatch.setattr(importlib.import_module("truerank.space.probe"), "product", in_sixteen_bits)
    with engine.settings(method="filter", sort_share=1.0):
        assert fingerprint(data, labels) == expected
        result = truerank.evaluate(data, labels)
    assert seen == {"scores": 0, "exact": 0}
    assert result.provenance["distance"]["notes"] == [
        "the float32 product of this machine breaks its error bound"
    ]


def test_blocks_of_a_symmetric_pass_are_bounded() -> None:
    labels = np.concatenate([np.arange(100) % 50, np.full(50, 99)])
    data = random_rows(np.random.default_rng(4), 150, 8)
    view, space = truerank.Task(labels).view, build("cosine", data)
    with engine.settings(method="symmetric", query_rows=40, mates=200, sort_share=1.0):
        blocks = list(engine.tie_groups(view, space))
    assert sorted(np.concatenate([block.rows for block in blocks]).tolist()) == list(range(150))
    for rows, groups in ((block.rows, block.groups) for block in blocks):
        assert len(rows) <= 40
        assert len(rows) == 1 or len(rows) * view.mates[rows].max() <= 200
        assert groups.mates.tolist() == view.mates[rows].tolist()
