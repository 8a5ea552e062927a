"""Miners against brute force over all pairs and triplets."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch

from tests.losses import cases
from tests.oracles import losses as oracles
from truerank import InputError, losses

EXAMPLES = {**cases.EXAMPLES, **cases.WITH_REFERENCES}


def mine(name: str, example: cases.Example, **parameters: Any) -> tuple[list[int], ...]:
    labels = example.paths[:, -1]
    indices = losses.miner(name, **parameters)(example.rows, labels, **example.references("tcm"))
    return tuple(part.tolist() for part in indices)


@pytest.mark.parametrize("which", EXAMPLES)
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.5])
def test_multi_similarity(which: str, epsilon: float) -> None:
    example = EXAMPLES[which]
    lists = cases.lists(example)
    a, p, b, n = mine("multi_similarity", example, epsilon=epsilon)
    positives, negatives = set(), set()
    for q in range(len(lists.rows)):
        near, far = lists.positives(q), lists.negatives(q)
        if near and far:
            hardest = max(lists.score(q, j) for j in far)
            easiest = min(lists.score(q, j) for j in near)
            positives |= {(q, j) for j in near if lists.score(q, j) < hardest + epsilon}
            negatives |= {(q, j) for j in far if lists.score(q, j) > easiest - epsilon}
    assert set(zip(a, p, strict=True)) == positives
    assert set(zip(b, n, strict=True)) == negatives


@pytest.mark.parametrize("which", EXAMPLES)
@pytest.mark.parametrize("margin", [0.05, 0.2, 1.0])
def test_semihard(which: str, margin: float) -> None:
    example = EXAMPLES[which]
    lists = cases.lists(example)
    wanted = {
        (a, p, n)
        for a, p, n in lists.triplets()
        if 0 < lists.apart(a, n) - lists.apart(a, p) <= margin
    }
    assert set(zip(*mine("semihard", example, margin=margin), strict=True)) == wanted


@pytest.mark.parametrize("which", EXAMPLES)
def test_batch_hard(which: str) -> None:
    example = EXAMPLES[which]
    lists = cases.lists(example)
    wanted = set()
    for q in range(len(lists.rows)):
        near, far = lists.positives(q), lists.negatives(q)
        if near and far:
            wanted.add(
                (
                    q,
                    max(near, key=lambda j: lists.apart(q, j)),
                    min(far, key=lambda j: lists.apart(q, j)),
                )
            )
    assert set(zip(*mine("batch_hard", example), strict=True)) == wanted


@pytest.mark.parametrize("which", EXAMPLES)
def test_distance_weighted_takes_each_positive_pair_once(which: str) -> None:
    example = EXAMPLES[which]
    lists = cases.lists(example)
    a, p, n = mine("distance_weighted", example, farthest=2.0)
    assert Counter(zip(a, p, strict=True)) == Counter(
        (q, j) for q, j in lists.pairs() if lists.negatives(q)
    )
    assert all(j in lists.negatives(q) for q, j in zip(a, n, strict=True))


def test_distance_weighted_draws_by_the_inverse_density() -> None:
    """On the sphere in 6 dimensions q(d) = d^4 (1 - d^2/4)^1.5; closer than .8 counts as .8."""
    example = cases.example([0, 0, 1, 1, 2, 2, 3, 3, 4, 4], seed=9)
    lists = oracles.Lists(example.rows.tolist(), example.paths[:, -1].tolist(), None, None)
    wanted = {}
    for n in lists.negatives(0):
        d = max(lists.apart(0, n), 0.8)
        wanted[n] = 1 / (d**4 * (1 - d**2 / 4) ** 1.5) if lists.apart(0, n) < 1.5 else 0.0
    total = sum(wanted.values())
    torch.manual_seed(0)
    miner = losses.miner("distance_weighted", cutoff=0.8, farthest=1.5)
    found: Counter[int] = Counter()
    for _ in range(4_000):
        a, _, n = miner(example.rows, example.paths[:, -1])
        found[n[a == 0].item()] += 1
    for n, weight in wanted.items():
        share = weight / total
        spread = (share * (1 - share) / 4_000) ** 0.5
        assert found[n] / 4_000 == pytest.approx(share, abs=5 * spread + 1e-12)


def test_distance_weighted_in_high_dimensions() -> None:
    """One close negative pair in 512 dimensions must not silence all other anchors."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.nn.functional.normalize(torch.randn(12, 512, generator=generator))
    rows[3] = rows[4] + 0.001 * torch.randn(512, generator=generator)
    labels = torch.arange(3).repeat(4)
    miner = losses.miner("distance_weighted", farthest=1.6)
    assert set(miner(rows, labels)[0].tolist()) == set(range(12))


def test_nothing_to_mine() -> None:
    rows = torch.randn(4, 3)
    for name in losses.miners():
        for labels in (torch.arange(4), torch.zeros(4, dtype=torch.int64)):
            assert all(len(part) == 0 for part in losses.miner(name)(rows, labels)), name


def test_unknown_miners_and_parameters() -> None:
    with pytest.raises(InputError, match=r"'semi-hard' is no miner\. Did you mean 'semihard'"):
        losses.miner("semi-hard")
    with pytest.raises(InputError, match="'epsilon' is no parameter of semihard"):
        losses.miner("semihard", epsilon=1)
    for cutoff, farthest in ((0.5, 2.1), (1.5, 1.4)):
        with pytest.raises(InputError, match="cutoff < farthest <= 2"):
            losses.miner("distance_weighted", cutoff=cutoff, farthest=farthest)
    assert losses.miners() == ["multi_similarity", "semihard", "batch_hard", "distance_weighted"]
