"""`a + w * b`, the sum over levels, and losses with a miner."""

from __future__ import annotations

import pytest
import torch
from pytorch_metric_learning import losses as library

from tests.losses import cases
from tests.losses.cases import EXAMPLES
from truerank import InputError, losses

EXAMPLE = EXAMPLES["uneven and unsorted"]
ROWS, PATHS = EXAMPLE.rows, EXAMPLE.paths
LABELS = PATHS[:, -1]


def test_a_weighted_sum_is_the_sum() -> None:
    a, b, c = (losses.get(name) for name in ("smooth_ap", "tcm", "multi_similarity"))
    parts = [one(ROWS, LABELS).item() for one in (a, b, c)]
    wanted = parts[0] + 0.5 * parts[1] + 2 * parts[2]
    for loss in (a + 0.5 * b + 2 * c, a + (b * 0.5 + c * 2), 0.5 * (2 * a + b) + 2 * c):
        assert loss(ROWS, LABELS).item() == pytest.approx(wanted)
    assert (a + 0.5 * b).weights == (1.0, 0.5)
    assert "weights=(1.0, 0.5)" in repr(a + 0.5 * b)


def test_gradients_and_parameters_of_a_sum() -> None:
    base = losses.get("arcface", classes=cases.CLASSES, embedding_size=cases.SIZE).double()
    loss = base + 3 * losses.get("tcm")
    assert list(loss.parameters()) == list(base.parameters())
    rows = ROWS.clone().requires_grad_()
    loss(rows, LABELS).backward()
    separate = ROWS.clone().requires_grad_()
    (base(separate, LABELS) + 3 * losses.get("tcm")(separate, LABELS)).backward()
    torch.testing.assert_close(rows.grad, separate.grad)


def test_a_loss_from_elsewhere_can_be_added() -> None:
    other = library.CircleLoss()
    ours = losses.get("tcm")
    wanted = other(ROWS, LABELS).item() + ours(ROWS, LABELS).item()
    assert (ours + other)(ROWS, LABELS).item() == pytest.approx(wanted)
    assert (other + ours)(ROWS, LABELS).item() == pytest.approx(wanted)


def test_a_binary_loss_beside_a_hierarchical_one() -> None:
    happier, tcm = losses.get("happier", cluster_weight=0), losses.get("tcm")
    wanted = happier(ROWS, PATHS).item() + tcm(ROWS, LABELS).item()
    assert (happier + tcm)(ROWS, PATHS).item() == pytest.approx(wanted)


def test_references_reach_every_part() -> None:
    example = cases.WITH_REFERENCES["references"]
    references = example.references("tcm")
    labels = example.labels("tcm")
    a, b = losses.get("smooth_ap"), losses.get("tcm")
    wanted = a(example.rows, labels, **references) + b(example.rows, labels, **references)
    assert (a + b)(example.rows, labels, **references).item() == pytest.approx(wanted.item())


@pytest.mark.parametrize("wrong", ["half", None, True, float("nan"), float("inf")])
def test_weights_that_are_refused(wrong: object) -> None:
    with pytest.raises(InputError, match="'weight' parameter"):
        losses.get("tcm") * wrong


def test_only_losses_can_be_added() -> None:
    with pytest.raises(InputError, match="only losses can be added"):
        losses.get("tcm") + 3


def test_sum_over_levels() -> None:
    loss = losses.get("triplet")
    wanted = loss(ROWS, PATHS[:, 0]).item() + loss(ROWS, PATHS[:, 1]).item()
    assert losses.sum_over_levels(loss)(ROWS, PATHS).item() == pytest.approx(wanted)
    assert losses.sum_over_levels(loss)(ROWS, LABELS).item() == loss(ROWS, LABELS).item()


def test_sum_over_levels_with_references() -> None:
    example = cases.WITH_REFERENCES["references"]
    loss = losses.get("smooth_ap")
    wanted = sum(
        loss(example.rows, example.paths[:, level], None, example.others,
             example.other_paths[:, level]).item()
        for level in range(2)
    )  # fmt: skip
    summed = losses.sum_over_levels(loss)
    found = summed(example.rows, example.paths, None, example.others, example.other_paths)
    assert found.item() == pytest.approx(wanted)


def test_sum_over_levels_with_proxies_needs_one_loss_for_each_level() -> None:
    coarse = losses.get("normalized_softmax", num_classes=3, embedding_size=cases.SIZE).double()
    fine = losses.get("normalized_softmax", classes=cases.CLASSES, embedding_size=cases.SIZE)
    fine = fine.double()
    summed = losses.sum_over_levels([coarse, fine])
    wanted = coarse(ROWS, PATHS[:, 0]).item() + fine(ROWS, LABELS).item()
    assert summed(ROWS, PATHS).item() == pytest.approx(wanted)
    assert len(list(summed.parameters())) == 2
    with pytest.raises(InputError, match="one such loss for each level"):
        losses.sum_over_levels(fine)
    with pytest.raises(InputError, match="2 losses, but labels have 1 levels"):
        summed(ROWS, LABELS)
    with pytest.raises(InputError, match="takes a loss"):
        losses.sum_over_levels([])


def test_a_sum_over_levels_can_be_composed_again() -> None:
    triplet, tcm = losses.get("triplet"), losses.get("tcm")
    loss = losses.sum_over_levels(triplet + 0.1 * tcm)
    wanted = sum(
        triplet(ROWS, PATHS[:, level]).item() + 0.1 * tcm(ROWS, PATHS[:, level]).item()
        for level in range(2)
    )
    assert loss(ROWS, PATHS).item() == pytest.approx(wanted)


def test_with_miner() -> None:
    loss, miner = losses.get("triplet"), losses.miner("batch_hard")
    mined = losses.with_miner(loss, miner)
    wanted = loss(ROWS, LABELS, miner(ROWS, LABELS)).item()
    assert mined(ROWS, LABELS).item() == pytest.approx(wanted)
    assert wanted != pytest.approx(loss(ROWS, LABELS).item())
    with pytest.raises(InputError, match="leave indices_tuple out"):
        mined(ROWS, LABELS, miner(ROWS, LABELS))


def test_names_are_no_losses_and_no_miners() -> None:
    for loss, miner in (("triplet", losses.miner("semihard")), (losses.get("triplet"), "semihard")):
        with pytest.raises(InputError, match="with_miner takes a loss and a miner"):
            losses.with_miner(loss, miner)  # type: ignore[arg-type]


def test_with_miner_and_references() -> None:
    example = cases.WITH_REFERENCES["references"]
    references = example.references("triplet")
    loss, miner = losses.get("triplet"), losses.miner("batch_hard")
    labels = example.labels("triplet")
    indices = miner(example.rows, labels, **references)
    wanted = loss(example.rows, labels, indices, **references).item()
    mined = losses.with_miner(loss, miner)
    assert mined(example.rows, labels, **references).item() == pytest.approx(wanted)


def test_a_state_dict_restores_a_composite() -> None:
    def build(seed: int) -> torch.nn.Module:
        torch.manual_seed(seed)
        proxies = losses.get("proxy_anchor", classes=cases.CLASSES, embedding_size=cases.SIZE)
        return (proxies + losses.get("tcm")).double()

    first, second = build(0), build(1)
    assert first(ROWS, LABELS).item() != second(ROWS, LABELS).item()
    second.load_state_dict(first.state_dict())
    assert first(ROWS, LABELS).item() == second(ROWS, LABELS).item()
