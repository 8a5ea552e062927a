"""The losses written here, on any small batch: any labels, references and mined pairs."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.losses import cases
from tests.oracles import losses as oracles
from truerank import losses

OF_PAIRS = [
    name
    for name in losses.names()
    if losses.entry(name).source == "truerank" and losses.entry(name).kind != "classification"
]


@st.composite
def examples(draw: st.DrawFn) -> cases.Example:
    numbers = st.lists(st.integers(0, 4), min_size=1, max_size=9)
    others = draw(st.none() | numbers)
    return cases.example(draw(numbers), draw(st.integers(0, 10**6)), others)


@given(examples(), st.sampled_from(OF_PAIRS), st.sampled_from([None, 1, 20]))
def test_the_definition(example: cases.Example, name: str, block: int | None) -> None:
    options = {"block": block} if "block" in losses.entry(name).defaults else {}
    if not losses.entry(name).takes_references:
        example = cases.Example(example.rows, example.paths)
    wanted = cases.expected(name, example, **options)
    assert cases.value(name, example, **options) == pytest.approx(wanted, rel=1e-8, abs=1e-9)


MINED = {
    "smooth_ap": lambda lists: oracles.smooth_ap(lists, 0.01),
    "sup_ap": oracles.sup_ap,
    "recall_at_k": lambda lists: oracles.recall_at_k(lists, (1, 2, 4, 8, 16), 0.01, 1.0),
    "tcm": lambda lists: oracles.calibration(lists, 0.9, 0.5),
    "angular": lambda lists: oracles.angular(lists, 45.0),
    "nt_xent": lambda lists: oracles.nt_xent(lists, 0.07),
    "tuplet_margin": lambda lists: oracles.tuplet_margin(lists, 5.73, 64.0),
}


@given(examples(), st.sampled_from(sorted(MINED)), st.data())
def test_the_definition_over_mined_pairs(
    example: cases.Example, name: str, data: st.DataObject
) -> None:
    """A pair that was not mined is in nobody's list."""
    lists = cases.lists(example)
    pairs = [(q, j) for q in range(len(lists.rows)) for j in lists.items(q)]
    kept = set(data.draw(st.lists(st.sampled_from(pairs), unique=True))) if pairs else set()
    positive = [(q, j) for q, j in pairs if (q, j) in kept and j in lists.positives(q)]
    negative = [(q, j) for q, j in pairs if (q, j) in kept and j in lists.negatives(q)]
    indices = (
        *torch.tensor(positive, dtype=torch.int64).reshape(-1, 2).unbind(1),
        *torch.tensor(negative, dtype=torch.int64).reshape(-1, 2).unbind(1),
    )
    all_items = lists.items
    lists.items = lambda query: [j for j in all_items(query) if (query, j) in kept]
    loss = losses.get(name)
    found = loss(example.rows, example.labels(name), indices, **example.references(name))
    assert found.item() == pytest.approx(MINED[name](lists), rel=1e-8, abs=1e-9)
