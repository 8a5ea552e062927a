"""Every loss against its definition in plain loops, and its gradient against differences."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from tests.losses import cases
from tests.losses.cases import EXAMPLES, NAMES, WITH_REFERENCES
from truerank import InputError, losses

VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("contrastive", {"positive_margin": 0.4, "negative_margin": 1.5}),
    ("triplet", {"margin": 0.5}),
    ("margin", {"margin": 0.1, "beta": 0.9}),
    ("margin", {"learn_beta": False}),
    ("snr_contrastive", {"positive_margin": 0.6, "negative_margin": 2.0, "regularizer": 0.0}),
    ("proxy_nca", {"scale": 30.0}),
    ("proxy_nca_plus_plus", {"scale": 100.0}),
    ("arcface", {"margin": 80.0, "scale": 3.0}),
    ("arcface", {"margin": 0.0}),
    ("sphereface", {"margin": 3, "scale": 2.5}),
    ("sphereface", {"margin": 1}),
    ("soft_triple", {"centers_per_class": 3, "gamma": 2.0, "margin": 0.3}),
    ("soft_triple", {"centers_per_class": 1}),
    ("fastap", {"bins": 37}),
    ("multi_similarity_mined", {"epsilon": -0.2}),
    ("smooth_ap", {"temperature": 0.3}),
    ("smooth_ap", {"query_in_list": True}),
    ("recall_at_k", {"k": (3,), "temperature": 0.2, "cut_temperature": 0.5}),
    ("recall_at_k", {"k": (1, 2, 6), "cut_temperature": 10.0}),
    ("sup_ap", {"offset": 1.44, "rho": 3.0, "delta": 0.2, "temperature": 0.1}),
    ("roadmap", {"calibration_weight": 0.25, "negative_margin": 0.1}),
    ("tcm", {"positive_margin": 0.2, "negative_margin": -0.3, "positive_weight": 2.0}),
    ("tcm_prime", {"denominator": "hard"}),
    ("happier", {"cluster_weight": 0.0}),
    ("happier", {"pull_back": False, "alpha": 3.0}),
    ("happier", {"relevance": "sum_wap", "cluster_weight": 1.0, "temperature": 0.2}),
    ("csl", {"margins": (0.5, 0.1), "scale": 4.0}),
    ("csl", {"shift": -0.1, "spread": 2.5}),
    ("nt_xent", {"temperature": 0.5}),
    ("smooth_h_ap", {"alpha": 3.0, "temperature": 0.2}),
    ("smooth_h_ap", {"relevance": "sum_wap"}),
]


def test_every_loss_has_a_definition() -> None:
    assert sorted(cases.ORACLES) == sorted(NAMES)


@pytest.mark.parametrize("which", EXAMPLES)
@pytest.mark.parametrize("name", NAMES)
def test_values(name: str, which: str) -> None:
    example = EXAMPLES[which]
    assert cases.value(name, example) == pytest.approx(cases.expected(name, example), rel=1e-9)


@pytest.mark.parametrize("which", WITH_REFERENCES)
@pytest.mark.parametrize("name", NAMES)
def test_references_are_used_or_refused(name: str, which: str) -> None:
    example = WITH_REFERENCES[which]
    if losses.entry(name).takes_references:
        wanted = cases.expected(name, example)
        assert cases.value(name, example) == pytest.approx(wanted, rel=1e-9)
    else:
        with pytest.raises(InputError, match="leave ref_emb and ref_labels out"):
            cases.value(name, example)


@pytest.mark.parametrize("which", EXAMPLES)
@pytest.mark.parametrize(("name", "parameters"), VARIANTS)
def test_other_parameters(name: str, parameters: dict[str, Any], which: str) -> None:
    example = EXAMPLES[which]
    wanted = cases.expected(name, example, **parameters)
    assert cases.value(name, example, **parameters) == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_gradients(name: str) -> None:
    """Of the embeddings and of the loss's own parameters, in float64."""
    example = EXAMPLES["uneven and unsorted"]
    loss = cases.build(name)
    labels = example.labels(name)
    own = [parameter.detach().clone().requires_grad_() for parameter in loss.parameters()]
    keys = [key for key, _ in loss.named_parameters()]
    rows = example.rows.clone().requires_grad_()

    def call(rows: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        given = dict(zip(keys, parameters, strict=True))
        return torch.func.functional_call(loss, given, (rows, labels))

    assert torch.autograd.gradcheck(call, (rows, *own), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("which", WITH_REFERENCES)
@pytest.mark.parametrize("name", [n for n in NAMES if losses.entry(n).takes_references])
def test_gradients_of_references(name: str, which: str) -> None:
    example = WITH_REFERENCES[which]
    loss = cases.build(name)
    labels, reference_labels = example.labels(name), example.references(name)["ref_labels"]

    def call(rows: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
        return loss(rows, labels, None, others, reference_labels)

    rows, others = example.rows.clone().requires_grad_(), example.others.clone().requires_grad_()
    assert torch.autograd.gradcheck(call, (rows, others), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", [n for n in NAMES if losses.entry(n).has_parameters])
def test_own_parameters_get_a_gradient(name: str) -> None:
    example = EXAMPLES["uneven and unsorted"]
    loss = cases.build(name)
    loss(example.rows, example.labels(name)).backward()
    parameters = list(loss.parameters())
    assert parameters
    assert all(bool(parameter.grad.abs().sum() > 0) for parameter in parameters)


@pytest.mark.parametrize("name", [n for n in NAMES if not losses.entry(n).has_parameters])
def test_other_losses_have_no_parameters(name: str) -> None:
    assert list(cases.build(name).parameters()) == []


# --- golden values


def test_golden_calibration() -> None:
    """S+ = .95 .8 .7 and S- = .6 .4 .55, margins .9 and .5: .15 + .075, or .1 + .05 over all."""
    from truerank.losses.pairs import shortfall

    positive = torch.tensor([0.95, 0.8, 0.7], dtype=torch.float64)
    negative = torch.tensor([0.6, 0.4, 0.55], dtype=torch.float64)
    every = torch.ones(3, dtype=torch.bool)
    for denominator, wanted in (("hard", 0.225), ("all", 0.15)):
        below = shortfall(0.9 - positive, every, denominator, True)
        above = shortfall(negative - 0.5, every, denominator, True)
        assert (below + above).item() == pytest.approx(wanted, abs=1e-12)


def test_golden_steps() -> None:
    from truerank.losses.ranking import Ahead, behind

    x = torch.tensor([-0.01, 0.01, 0.1], dtype=torch.float64)
    assert Ahead()(x).tolist() == pytest.approx([0.268941, 1.231059, 6.493307], abs=1e-6)
    assert Ahead(offset=1.44)(x[2]).item() == pytest.approx(6.44, abs=1e-12)
    x = torch.tensor([-0.1, 0.01, 0.05], dtype=torch.float64)
    assert behind(x).tolist() == pytest.approx([-1.0, 0.75, 1.0], abs=1e-12)


def test_golden_smooth_ap_by_hand() -> None:
    """Right angles: all others of a query score 0, so that every comparison is a half.

    Four rows, two classes of two. Each query has one mate among three items: AP = 1/(1 + 2/2).
    """
    labels = torch.tensor([1, 2, 1, 2])
    assert losses.get("smooth_ap")(torch.eye(4), labels).item() == pytest.approx(0.5)


def test_golden_signal_to_noise_by_hand() -> None:
    """a = (1, -1), b = (4, -2): var(b - a) = var(3, -1) = 8, var(a) = 2, var(b) = 18.

    Positive pairs 8/2 = 4 and 8/18; mean 20/9. Sums 0 and 2, of which a tenth of the mean is .1.
    """
    rows = torch.tensor([[1.0, -1.0], [4.0, -2.0]], dtype=torch.float64)
    loss = losses.get("snr_contrastive")
    assert loss(rows, torch.tensor([7, 7])).item() == pytest.approx(20 / 9 + 0.1)
    unit = torch.nn.functional.normalize(rows)
    assert loss(unit, torch.tensor([7, 7])).item() != pytest.approx(20 / 9 + 0.1, rel=0.1)


def test_golden_recall_is_cut_at_k_by_hand() -> None:
    """Six rows of one class at right angles: each positive has the rank 1 + 4/2 = 3.

    At k = 1 and a cut of temperature 10, five times sigmoid(-.2) = .450166 are found: cut at 1, a
    loss of 0, and nothing to train. At k = 8 they are sigmoid(.5) = .622459 of five.
    """
    rows = torch.eye(6, dtype=torch.float64, requires_grad=True)
    labels = torch.zeros(6, dtype=torch.int64)
    soft = {"cut_temperature": 10.0, "temperature": 0.01}
    loss = losses.get("recall_at_k", k=(1,), **soft)(rows, labels)
    loss.backward()
    assert loss.item() == pytest.approx(0, abs=1e-12)
    assert not rows.grad.any()
    wide = losses.get("recall_at_k", k=(8,), **soft)(rows, labels)
    assert wide.item() == pytest.approx(1 - 0.622459, abs=1e-6)


@pytest.mark.parametrize("cut_temperature", [0.1, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("classes", [1, 3, 9])
def test_recall_at_k_is_never_negative(classes: int, cut_temperature: float) -> None:
    """At both ends of what is searched."""
    rows = torch.randn(36, 4, generator=torch.Generator().manual_seed(classes))
    loss = losses.get("recall_at_k", cut_temperature=cut_temperature)
    assert -1e-6 < loss(rows, torch.arange(36) % classes).item() < 1


@pytest.mark.parametrize(("nearest", "wanted"), [(0.50, 0.397101), (0.55, 0.182961)])
def test_golden_happier_by_hand(nearest: float, wanted: float) -> None:
    """One query, and at cosines `nearest`, .54 and .3 an item of each level, 2 to 0.

    Relevance 1, .5 and 0. At .50 the mate trails by .04: H/rank is (1 + .5)/(1 + 1.482014) for it,
    and (.5 - .5 x .4)/1 for the other. At .55 it leads by .01: 1/(1 + .268941) and
    (.5 + .5 x .75)/2.
    """
    cosines = torch.tensor([nearest, 0.54, 0.3], dtype=torch.float64)
    items = torch.stack([cosines, (1 - cosines**2).sqrt()], 1)
    query = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    paths = torch.tensor([[0, 0], [0, 1], [1, 2]])
    loss = losses.get("happier", cluster_weight=0)(query, paths[:1], None, items, paths)
    assert loss.item() == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize(
    ("depth", "fine_to_coarse"),
    [
        (1, [0.25]),
        (2, [0.25, 0.45]),
        (3, [0.25, 0.35, 0.45]),
        (4, [0.25, 0.35, 0.45, 0.55]),
        (7, [0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75]),
    ],
)
def test_margins_of_csl_as_released(depth: int, fine_to_coarse: list[float]) -> None:
    """Four levels were never released. A chain of two classes is told apart at every level."""
    paths = torch.tensor([[0] * depth, [1] * depth])
    rows = torch.eye(2, dtype=torch.float64)
    loss = losses.get("csl", hierarchy=paths, embedding_size=2).double()
    loss.proxies.data.copy_(torch.eye(2))
    assert list(reversed(loss.margins)) == pytest.approx(fine_to_coarse)
    wanted = sum(math.log1p(math.exp(-32 + 32 * margin)) for margin in fine_to_coarse)
    assert loss(rows, paths).item() == pytest.approx(wanted)
