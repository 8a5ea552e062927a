"""Batches on which pytorch-metric-learning 2.9.0 returns something else (docs/reference/losses.md).

Each right answer is worked out in the comment beside it; what the other library gives is asserted
as well, so that a later release that agrees is noticed here.
"""

from __future__ import annotations

import math

import pytest
import torch
from pytorch_metric_learning import distances as library_distances
from pytorch_metric_learning import losses as library
from pytorch_metric_learning import miners as library_miners

from truerank import losses


def rows_at(*degrees: float) -> torch.Tensor:
    """Unit vectors in the plane, so that similarities are cosines of differences."""
    angles = torch.tensor(degrees, dtype=torch.float64).deg2rad()
    return torch.stack([angles.cos(), angles.sin()], 1)


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


# --- Smooth-AP: right there only if the number of classes is that of the samples of each


def test_smooth_ap_agrees_where_the_library_is_right() -> None:
    rows = torch.randn(9, 5, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(3).repeat_interleave(3)
    ours = losses.get("smooth_ap", query_in_list=True)(rows, labels)
    theirs = library.SmoothAPLoss()(rows, labels)
    torch.testing.assert_close(ours, theirs)


def test_smooth_ap_of_two_classes_of_three() -> None:
    # Both classes in perfect order, and wide apart: every negative trails by more than cos 40 -
    # cos 50 = .12, twelve temperatures. Each sigmoid below is under e^-12, so the loss is 0.
    rows, labels = rows_at(0, 5, 10, 60, 65, 70), torch.tensor([0, 0, 0, 1, 1, 1])
    assert losses.get("smooth_ap")(rows, labels).item() == pytest.approx(0, abs=1e-4)
    assert losses.get("smooth_ap", query_in_list=True)(rows, labels).item() == pytest.approx(
        0, abs=1e-4
    )
    assert library.SmoothAPLoss()(rows.float(), labels).item() > 0.2


def test_smooth_ap_of_unsorted_labels() -> None:
    # Four pairs at right angles to each other: the mate has 1, all others have 0. Loss 0.
    labels = torch.tensor([0, 1, 0, 1])
    rows = torch.eye(2, dtype=torch.float64)[labels]
    assert losses.get("smooth_ap")(rows, labels).item() == pytest.approx(0, abs=1e-12)
    assert library.SmoothAPLoss()(rows.float(), labels).item() > 0.2


def test_smooth_ap_of_uneven_classes() -> None:
    # Query 0: mates at 10 and 20 degrees, a negative at 90: AP 1. Its mates likewise.
    # Row 3 has no mate and does not count. Loss 0, up to sigmoids of -.6/.01.
    rows, labels = rows_at(0, 10, 20, 90), torch.tensor([4, 4, 4, 9])
    assert losses.get("smooth_ap")(rows, labels).item() == pytest.approx(0, abs=1e-4)
    with pytest.raises(ValueError, match="same number of elements"):
        library.SmoothAPLoss()(rows.float(), labels)


def test_smooth_ap_leaves_the_query_out_by_its_index() -> None:
    # Rows 0 and 1 are twins of different classes; dropping the first of a sorted list would as well
    # drop the twin. Row 0: twin 1, mate .5, other 0: the mate is second, 1/2. Row 1: row 0 (1) and
    # row 2 (.5) before its mate (0), 1/3. Row 2: row 3 (.87) before its mate (.5), which row 1
    # ties: 1/2.5. Row 3: row 2 before its mate (0), which row 0 ties: 1/2.5.
    rows, labels = rows_at(0, 0, 60, 90), torch.tensor([0, 1, 0, 1])
    wanted = 1 - (1 / 2 + 1 / 3 + 1 / 2.5 + 1 / 2.5) / 4
    assert losses.get("smooth_ap")(rows, labels).item() == pytest.approx(wanted, abs=1e-12)


# --- TCM: references are ignored there


def test_tcm_uses_its_references() -> None:
    # The batch's pair is at 60 degrees, the reference mate at 0: s = 1 > .9. The reference negative
    # is at 90: s = 0 < .5. Nothing is on the wrong side: 0, whatever the batch's own rows are.
    rows, labels = rows_at(0, 60), torch.tensor([0, 1])
    references, reference_labels = rows_at(0, 60, 90, 150), torch.tensor([0, 1, 2, 3])
    ours = losses.get("tcm", negative_margin=0.95)
    assert ours(rows, labels, None, references, reference_labels).item() == 0
    # Row 0 meets its mate's twin turned by 60: s = .5, .4 short of .9.
    turned, turned_labels = rows_at(60), torch.tensor([0])
    found = losses.get("tcm_plus")(rows[:1], labels[:1], None, turned, turned_labels)
    assert found.item() == pytest.approx(0.4)
    theirs = library.ThresholdConsistentMarginLoss()
    assert theirs(rows[:1], labels[:1], None, turned, turned_labels).item() == 0


# --- ProxyNCA: the softmax there counts the own proxy, and drops what underflows


def test_proxy_nca_leaves_the_own_proxy_out() -> None:
    # On its proxy, with the other at 90 degrees: d = 0 and 2. -log(e^0/e^-2) = -2.
    ours = losses.get("proxy_nca", num_classes=2, embedding_size=2).double()
    theirs = library.ProxyNCALoss(2, 2)
    for proxies in (ours.proxies, theirs.proxies):
        proxies.data.copy_(torch.eye(2))
    row, label = torch.tensor([[1.0, 0.0]]), torch.tensor([0])
    assert ours(row.double(), label).item() == pytest.approx(-2)
    # ProxyNCA++'s value: -log(1/(1 + e^-2)).
    assert theirs(row, label).item() == pytest.approx(math.log(1 + math.exp(-2)))


def test_proxy_nca_plus_plus_counts_the_hardest_rows() -> None:
    # Row 0 on the wrong side of the circle: d = 4 to its own proxy, 0 to the other. At scale 100
    # the loss is 400; row 1, on its own proxy, has 0. The mean is 200.
    ours = losses.get("proxy_nca_plus_plus", num_classes=2, embedding_size=2, scale=100.0)
    theirs = library.ProxyNCALoss(2, 2, softmax_scale=100)
    for proxies in (ours.proxies, theirs.proxies):
        proxies.data.copy_(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]))
    rows, labels = torch.tensor([[-1.0, 0.0], [-1.0, 0.0]]), torch.tensor([0, 1])
    assert ours(rows, labels).item() == pytest.approx(200)
    assert theirs(rows, labels).item() == 0


# --- gradients where two vectors agree


def test_arcface_has_a_gradient_on_the_proxy() -> None:
    rows = torch.randn(50, 8, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(50)
    ours = losses.get("arcface", num_classes=50, embedding_size=8)
    theirs = library.ArcFaceLoss(50, 8)
    ours.proxies.data.copy_(2 * rows)
    theirs.W.data.copy_(2 * rows.T)
    finite = []
    for loss in (ours, theirs):
        leaf = rows.clone().requires_grad_()
        loss(leaf, labels).backward()
        finite.append(bool(leaf.grad.isfinite().all()))
    assert finite == [True, False]


def test_tuplet_margin_of_twins() -> None:
    # Six pairs of twins: cos is 1 up to rounding, where acos is NaN above 1.
    rows = torch.randn(6, 8, generator=torch.Generator().manual_seed(0)).repeat(2, 1)
    labels = torch.arange(6).repeat(2)
    assert bool(losses.get("tuplet_margin")(rows, labels).isfinite())
    assert bool(library.TupletMarginLoss()(rows, labels).isnan())


# --- angular: negatives are not normalised there


def test_angular_does_not_depend_on_the_negatives_length() -> None:
    rows, labels = rows_at(0, 20, 90), torch.tensor([0, 0, 1])
    # tan^2 45 = 1: exponent 4 (cos 90 + cos 70) - 4 cos 20 for either anchor.
    wanted = math.log(1 + math.exp(4 * math.cos(math.radians(70)) - 4 * math.cos(math.radians(20))))
    longer = rows * torch.tensor([[1.0], [1.0], [5.0]])
    assert losses.get("angular")(rows, labels).item() == pytest.approx(wanted)
    assert losses.get("angular")(longer, labels).item() == pytest.approx(wanted)
    theirs = library.AngularLoss(alpha=45)
    assert theirs(rows, labels).item() == pytest.approx(wanted)
    assert theirs(longer, labels).item() > wanted + 0.5


# --- lifted structure: with references, rows of the batch are taken for references


def test_lifted_structure_with_references() -> None:
    # Query at 0; its mate at 90 (d = sqrt 2), a negative at 180 (d = 2). The mate has no negative
    # in the batch. log e^(1 - 2) + sqrt 2 = .4142; squared and halved .0858.
    rows, labels = rows_at(0), torch.tensor([0])
    references, reference_labels = rows_at(180, 90), torch.tensor([1, 0])
    wanted = (math.sqrt(2) - 1) ** 2 / 2
    ours = losses.get("lifted_structure")
    assert ours(rows, labels, None, references, reference_labels).item() == pytest.approx(wanted)
    two = rows_at(0, 45), torch.tensor([0, 5])
    # A row of another class at 45 degrees: now the mate's negative, d = 2 sin 22.5 from it.
    apart = 2 * math.sin(math.radians(22.5))
    with_it = (math.log(math.exp(-1) + math.exp(1 - apart)) + math.sqrt(2)) ** 2 / 2
    assert ours(*two, None, references, reference_labels).item() == pytest.approx(with_it)
    theirs = library.LiftedStructureLoss()(*two, None, references, reference_labels)
    assert theirs.item() != pytest.approx(with_it, rel=0.1)


# --- one pair is a pair


@pytest.mark.parametrize(
    ("name", "theirs", "wanted"),
    [
        ("contrastive", library.ContrastiveLoss(), math.sqrt(2)),  # d of a right angle, margin 0
        (
            "multi_similarity",
            library.MultiSimilarityLoss(),
            math.log(1 + math.exp(-2 * (0 - 0.5))) / 2,  # one positive, no negative
        ),
    ],
)
def test_a_single_pair_counts(name: str, theirs: torch.nn.Module, wanted: float) -> None:
    call = (rows_at(0), torch.tensor([0]), None, rows_at(90), torch.tensor([0]))
    assert losses.get(name)(*call).item() == pytest.approx(wanted)
    assert theirs(*call).item() == 0


# --- half precision


def test_proxies_stay_in_float32() -> None:
    rows, labels = torch.randn(4, 8).half(), torch.tensor([0, 1, 2, 0])
    ours = losses.get("cosface", num_classes=3, embedding_size=8)
    theirs = library.CosFaceLoss(3, 8)
    ours(rows, labels)
    theirs(rows, labels)
    assert ours.inner.W.dtype == torch.float32
    assert theirs.W.dtype == torch.float16


# --- N-pairs: dot products of the embeddings themselves


def test_n_pairs_does_not_normalise() -> None:
    # Pairs along two axes with lengths 2 and 3: dots 4 and 9 with the own positive, 0 with the
    # other. Losses log(1 + e^-4) and log(1 + e^-9).
    labels = torch.tensor([0, 0, 1, 1])
    rows = torch.eye(2, dtype=torch.float64)[labels] * torch.tensor([[2.0], [2.0], [3.0], [3.0]])
    wanted = (math.log1p(math.exp(-4)) + math.log1p(math.exp(-9))) / 2
    ours = losses.get("n_pairs", regularizer=0.0)
    assert ours(rows, labels).item() == pytest.approx(wanted)
    assert library.NPairsLoss()(rows, labels).item() == pytest.approx(math.log1p(math.exp(-1)))


# --- signal-to-noise ratio: of the embeddings themselves, and an anchor may be 0


def test_signal_to_noise_does_not_normalise() -> None:
    rows, labels = torch.randn(12, 8, dtype=torch.float64), torch.arange(12) % 3
    raw = library.SignalToNoiseRatioContrastiveLoss(
        distance=library_distances.SNRDistance(normalize_embeddings=False)
    )
    ours = losses.get("snr_contrastive", regularizer=0.0)
    theirs = library.SignalToNoiseRatioContrastiveLoss()
    assert ours(rows, labels).item() == pytest.approx(raw(rows, labels).item())
    assert ours(rows, labels).item() != pytest.approx(theirs(rows, labels).item(), rel=1e-3)
    rows[0] = 0.0
    for loss, sound in ((ours, True), (theirs, False)):
        given = rows.clone().requires_grad_()
        loss(given, labels).backward()
        assert bool(given.grad.isfinite().all()) is sound


# --- the distance-weighted miner: one normaliser for all anchors


def test_every_anchor_with_a_negative_is_mined() -> None:
    generator = torch.Generator().manual_seed(0)
    rows = torch.nn.functional.normalize(torch.randn(12, 512, generator=generator))
    rows[3] = rows[4] + 0.001 * torch.randn(512, generator=generator)
    labels = torch.arange(3).repeat(4)
    ours = losses.miner("distance_weighted", farthest=1.6)(rows, labels)
    theirs = library_miners.DistanceWeightedMiner(nonzero_loss_cutoff=1.6)(rows, labels)
    assert set(ours[0].tolist()) == set(range(12))
    assert len(set(theirs[0].tolist())) < 12


# --- SoftTriple's regulariser


def test_soft_triple_at_the_size_of_stanford_online_products() -> None:
    # 11,318 classes x 10 centres: the library's masks would have 1.3e10 entries each.
    loss = losses.get("soft_triple", num_classes=11_318, embedding_size=4)
    assert bool(loss(torch.randn(2, 4), torch.tensor([0, 11_317])).isfinite())
