"""Values without each fold, added up, against those of the tie groups that are left."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from truerank._util.kernels import interpreted
from truerank.core import jackknife, registry, tie_groups
from truerank.core import metric as definitions
from truerank.core.jackknife import ChangeSums
from truerank.core.metric import Scale
from truerank.core.tie_groups import LeftOut, SplitGroups, TieGroups
from truerank.metrics import ranking
from truerank.metrics.ranking import add_moves

NAMES = (
    "precision@1",
    "precision@3",
    "recall@4",
    "hit@5",
    "r_precision",
    "map@r",
    "map",
    "map@3",
    "map@3,divisor=min",
    "map@99999,divisor=min",
    "mrr",
    "mrr@1",
    "mrr@4",
    "minp",
)
FOLDS = 4


def lists_of(rng: np.random.Generator, queries: int, tied: bool) -> SplitGroups:
    """Random lists: each item has a place, a fold and whether it is a mate."""
    offsets, before, size, graded, candidates, counts = [0], [], [], [], [], []
    for _ in range(queries):
        items = int(rng.integers(2, 30))
        place = rng.integers(12, size=items) if tied else rng.permutation(items)
        mate, fold = rng.random(items) < 0.3, rng.integers(FOLDS, size=items)
        mate[0] = True
        reached = -1
        for at in np.unique(place[mate]):
            here, between = place == at, (place > reached) & (place < at)
            before.append(int((place < at).sum()))
            size.append(int(here.sum()))
            graded.append([int((here & mate).sum())])
            kinds = (between, here, here & mate)
            counts.append([np.bincount(fold[some], minlength=FOLDS) for some in kinds])
            reached = at
        offsets.append(len(before))
        candidates.append(items)
    groups = TieGroups(
        *(np.array(part, np.int64) for part in (offsets, before, size)),
        np.array(graded, np.int32),
        np.array(candidates),
    )
    table = np.ascontiguousarray(np.array(counts, np.uint8).transpose(1, 0, 2))
    return SplitGroups(np.arange(queries), groups, table, np.zeros((queries, FOLDS), int))


@pytest.mark.parametrize("none_counts", [False, True])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_moves_are_those_of_the_groups_that_are_left(
    tied: bool, weighted: bool, none_counts: bool
) -> None:
    """More queries than are added at a time, some with no mate left, not all of them wanted."""
    rng = np.random.default_rng([tied, weighted])
    split = lists_of(rng, 300, tied)
    count = len(split.queries)
    metrics = [registry.parse(name) for name in NAMES]
    wanted = rng.random((len(metrics), count)) < 0.8
    own = rng.integers(FOLDS, size=(count, 1))
    weights = rng.random(count) if weighted else np.ones(count)
    before = np.stack([_values(split.groups, metric) for metric in metrics])
    ways = [registry.ranking(metric).reduced(metric) for metric in metrics]
    left = LeftOut.of(split, 1)
    found = add_moves(left, ways, wanted, before, own, weights, none_counts=none_counts)
    for metric, mine, was, sums in zip(metrics, wanted, before, found, strict=True):
        change = np.full((count, FOLDS), 0.0 if none_counts else np.nan)
        for fold in range(FOLDS):
            kept, groups = split.without(fold)
            change[kept, fold] = _values(groups, metric)
        some = np.flatnonzero(mine)
        expected = ChangeSums(FOLDS)
        expected.add(change[some] - was[some, None], own[some], weights[some])
        np.testing.assert_array_equal(sums[[0, 1, 3]], expected.total[[0, 1, 3]], str(metric))
        # the last bit of a value may differ, and so one step of 2^-40 for each query
        np.testing.assert_allclose(sums[[2, 4]], expected.total[[2, 4]], rtol=0, atol=count)
        np.testing.assert_allclose(sums[5], expected.total[5], rtol=1e-6)


def test_interpreted_kernels_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """With counts that reach the end of their type, which numpy's own sums would overflow."""
    split = lists_of(np.random.default_rng(1), 12, True)
    more = np.array([200, 100, 0], np.uint8)[:, None, None]
    groups = replace(split.groups, before=split.groups.before + 4000, size=split.groups.size + 500)
    left = LeftOut.of(replace(split, counts=split.counts + more, groups=groups), 1)
    metrics = [registry.parse(name) for name in NAMES]
    ways = [registry.ranking(metric).reduced(metric) for metric in metrics]
    shape = (len(ways), len(split.queries))
    own, weights = np.zeros((len(split.queries), 1), int), np.ones(len(split.queries))
    given = (left, ways, np.ones(shape, bool), np.full(shape, 0.3), own, weights)
    compiled = add_moves(*given, none_counts=False)
    for module in (ranking, tie_groups, jackknife):
        for name, function in list(vars(module).items()):
            if hasattr(function, "py_func"):
                monkeypatch.setattr(module, name, interpreted(function))
    np.testing.assert_array_equal(add_moves(*given, none_counts=False), compiled)


def _values(groups: TieGroups, metric: definitions.Metric) -> np.ndarray:
    """The reported end of a metric that is better the higher it is."""
    return groups.values(metric, Scale(np.ones(1)), registry.ranking(metric))[0]
