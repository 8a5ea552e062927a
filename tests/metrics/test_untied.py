"""Long rankings without ties have the bits of the kernels that know ties."""

from __future__ import annotations

import numpy as np
import pytest

from truerank.core import registry
from truerank.core.metric import Scale
from truerank.core.tie_groups import TieGroups, UntiedGroups

METRICS = ("h_ap", "h_ap@alpha=0.5", "h_ap@rel=3:1:1:2", "h_ap@rel=0:0:0:2", "sum_wap", "asi")
GAINS = ("ndcg", "ndcg@1", "ndcg@77", "ndcg@100000", "ndcg@gain=linear")
GRADES = 4
SHARES = {
    "few": (0.98, 0.01, 0.005, 0.003, 0.002),
    "mostly coarse": (0.3, 0.55, 0.1, 0.04, 0.01),
    "everything": (0.0, 0.4, 0.3, 0.2, 0.1),
    "the finest are many": (0.2, 0.1, 0.1, 0.1, 0.5),
    "a grade is missing": (0.4, 0.0, 0.4, 0.0, 0.2),
}


def rankings(kind: str) -> list[np.ndarray]:
    """Grades by rank: any order, the best one, the worst one, coarse items first, and one item."""
    rng = np.random.default_rng(len(kind))
    sizes = (1, 3, 511, 512, 513, 2000, 3100)
    rows = [rng.choice(GRADES + 1, size=size, p=SHARES[kind]) for size in sizes]
    rows += [np.sort(rows[5])[::-1], np.sort(rows[5])]
    coarse_first = rows[6][np.lexsort((rng.random(3100), rows[6] > 1, rows[6] == 0))]
    rows += [coarse_first, np.concatenate([rows[5], np.zeros(500, int)])]
    for row in rows:
        row[-1] = max(row[-1], 1)
    return rows


def groups(rows: list[np.ndarray]) -> TieGroups:
    before = np.concatenate([np.flatnonzero(row) for row in rows])
    own = np.concatenate([row[row > 0] for row in rows]).astype(np.int8)
    offsets = np.concatenate([[0], np.cumsum([np.count_nonzero(row) for row in rows])])
    return UntiedGroups(offsets, before, own, GRADES, np.array([len(row) for row in rows]))


def as_if_tied(found: TieGroups) -> TieGroups:
    """The same groups, on which nobody relies to tie with nothing."""
    plain = TieGroups(found.offsets, found.before, found.size, found.graded, found.candidates)
    vars(plain)["untied"] = False
    return plain


@pytest.mark.parametrize("metric", [*METRICS, *GAINS])
@pytest.mark.parametrize("kind", SHARES)
def test_bits_are_those_of_tie_groups(kind: str, metric: str) -> None:
    name = registry.parse(metric)
    definition = registry.ranking(name)
    scale = Scale(np.arange(1.0, GRADES + 1))
    found = groups(rankings(kind))
    plain = definition.per_query(as_if_tied(found), name, scale)
    for _ in range(2):
        assert definition.per_query(found, name, scale).tobytes() == plain.tobytes()


def test_ranks_beyond_short_numbers() -> None:
    """From rank 2^26 on, products are split in another way."""
    before = np.array([5, (1 << 26) - 2, (1 << 26) - 1, 1 << 26, 1 << 40])
    own = np.array([1, 2, 1, 1, 3], np.int8)
    found = UntiedGroups(np.array([0, 5]), before, own, GRADES, np.array([1 << 41]))
    for metric in ("h_ap", "sum_wap"):
        name = registry.parse(metric)
        plain = registry.ranking(name).per_query(as_if_tied(found), name, Scale(np.arange(1.0, 5)))
        fast = registry.ranking(name).per_query(found, name, Scale(np.arange(1.0, 5)))
        assert fast.tobytes() == plain.tobytes()
