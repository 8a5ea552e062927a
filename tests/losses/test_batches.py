"""Batches that training meets: no positives, one class, twins, zeros, half precision, any order."""

from __future__ import annotations

import itertools
import re
import warnings
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tests.losses import cases
from tests.losses.cases import EXAMPLES, NAMES
from tests.oracles import losses as oracles
from truerank import InputError, TruerankWarning, losses

OF_PAIRS = [name for name in NAMES if losses.entry(name).kind != "classification"]
RANKING = ["smooth_ap", "recall_at_k", "sup_ap", "roadmap", "happier"]


def assert_finite(loss: torch.Tensor, rows: torch.Tensor) -> None:
    assert loss.ndim == 0
    assert bool(loss.isfinite())
    loss.backward()
    assert rows.grad is not None
    assert bool(rows.grad.isfinite().all())


def ranking_only(name: str) -> dict[str, Any]:
    return {"cluster_weight": 0} if name.startswith("happier") else {}


def labels_of(name: str, labels: torch.Tensor) -> torch.Tensor:
    """One label, or a path in which the fine labels share no parent."""
    return torch.stack([labels, labels], 1) if losses.entry(name).labels == "path" else labels


def named_as_not_zero() -> set[str]:
    """Losses that, says docs/reference/losses.md, have a value in a batch without positives."""
    page = (Path(__file__).parents[2] / "docs/reference/losses.md").read_text(encoding="utf-8")
    sentences = page.partition("**No positives**")[2].partition("Losses with proxies")[0]
    return set(re.findall(r"`(\w+)`", sentences))


@pytest.mark.parametrize("name", OF_PAIRS)
def test_no_positives_is_zero_with_a_graph(name: str) -> None:
    """Of close rows with a label each: zero but for the losses that the page names."""
    around, apart = torch.randn(1, cases.SIZE), torch.randn(5, cases.SIZE)
    rows = (around + 0.3 * apart).double().requires_grad_()
    labels = labels_of(name, torch.tensor([4, 3, 2, 1, 0]))
    needs = {"num_classes": 5, "embedding_size": cases.SIZE} if name.startswith("happier") else {}
    loss = losses.get(name, **needs).double()(rows, labels)
    loss.backward()
    assert rows.grad is not None
    assert (loss.item() != 0) == (name in named_as_not_zero())
    assert bool(rows.grad.any()) == (name in named_as_not_zero())
    assert bool(loss.isfinite())


@pytest.mark.parametrize("name", ["happier", "happier_f", "happier_sum_wap", "n_pairs"])
def test_without_the_further_term_no_positives_is_zero(name: str) -> None:
    rows = torch.ones(5, cases.SIZE, dtype=torch.float64, requires_grad=True)
    options = ranking_only(name) or {"regularizer": 0.0}
    loss = cases.build(name, **options)(rows, labels_of(name, torch.tensor([9, 7, 5, 3, 1])))
    assert loss.item() == 0


@pytest.mark.parametrize("name", OF_PAIRS)
@pytest.mark.parametrize("count", [1, 2, 6])
def test_one_class_only(name: str, count: int) -> None:
    rows = torch.randn(count, cases.SIZE, dtype=torch.float64, requires_grad=True)
    labels = labels_of(name, torch.full((count,), 3))
    assert_finite(cases.build(name, **ranking_only(name))(rows, labels), rows)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_narrow_dtypes(name: str, dtype: torch.dtype) -> None:
    """Finite, in float32, near the float64 value of the same numbers; own parameters stay as is."""
    example = EXAMPLES["uneven and unsorted"]
    rows = example.rows.to(dtype).requires_grad_()
    loss = cases.build(name).float()
    value = loss(rows, example.labels(name))
    assert value.dtype == torch.float32
    assert_finite(value, rows)
    assert {parameter.dtype for parameter in loss.parameters()} <= {torch.float32}
    wide = cases.build(name)(rows.detach().double(), example.labels(name))
    assert value.item() == pytest.approx(wide.item(), rel=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_under_autocast(name: str) -> None:
    example = EXAMPLES["uneven and unsorted"]
    loss = cases.build(name).float()
    rows = example.rows.float().requires_grad_()
    plain = loss(rows, example.labels(name)).item()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = loss(rows, example.labels(name))
    assert value.item() == plain
    assert_finite(value, rows)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["twins", "zeros", "opposite", "tiny", "huge"])
def test_degenerate_rows(name: str, kind: str) -> None:
    numbers = [0, 1, 0, 2, 1, 0, 2, 2]
    example = cases.example(numbers, seed=5)
    rows = {
        "twins": cases.example(sorted(numbers), seed=5).rows[[0, 3, 0, 6, 3, 0, 6, 6]],
        "zeros": torch.zeros(8, cases.SIZE),
        "opposite": example.rows[:1] * torch.tensor([[1.0], [-1.0]]).repeat(4, 1),
        "tiny": example.rows * 1e-15,
        "huge": example.rows * 1e10,
    }[kind]
    rows = rows.float().detach().requires_grad_()
    assert_finite(cases.build(name).float()(rows, example.labels(name)), rows)


@pytest.mark.parametrize("scale", [1e18, 1e-18, 1e-30])
@pytest.mark.parametrize("size", [cases.SIZE, 512])
def test_n_pairs_of_long_and_of_short_rows(scale: float, size: int) -> None:
    """In float32 as in Python's floats; gradients by that of the largest logit, and softmax."""
    labels = torch.tensor([0, 1, 0, 2, 1, 0, 2, 2])
    rows = torch.randn(8, size, generator=torch.Generator().manual_seed(3)) * scale
    lists = oracles.Lists(rows.tolist(), labels.tolist(), None, None)
    given = rows.clone().requires_grad_()
    value = losses.get("n_pairs")(given, labels)
    assert value.item() == pytest.approx(oracles.n_pairs(lists, 0.002), rel=1e-5)
    assert_finite(value, given)
    wide = rows.double().requires_grad_()
    losses.get("n_pairs")(wide, labels).backward()
    torch.testing.assert_close(given.grad.double() / scale, wide.grad / scale)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_some_rows_are_zero(name: str, dtype: torch.dtype) -> None:
    """One of a class, a whole class, and a row of equal components that rounding may spread."""
    example = cases.example([0, 1, 0, 2, 1, 0, 2, 2, 3, 3], seed=5)
    rows = example.rows.to(dtype)
    rows[[0, 8, 9]] = 0.0
    rows[1] = 0.1
    rows = rows.detach().requires_grad_()
    assert_finite(cases.build(name).to(dtype)(rows, example.labels(name)), rows)


@pytest.mark.parametrize("without", [0.0, 0.1, 1e6])
def test_an_anchor_without_variance_is_left_out(without: float) -> None:
    """It still is somebody's mate."""
    example = cases.example([0, 1, 0, 2, 1, 0, 2, 2], seed=5)
    example.rows[[1, 5]] = without
    exact = [row if len(set(row)) > 1 else [0.0] * len(row) for row in example.rows.tolist()]
    lists = oracles.Lists(exact, example.paths[:, -1].tolist(), None, None)
    options = {"positive_margin": 0.2, "negative_margin": 2.0, "regularizer": 0.0}
    wanted = oracles.snr_contrastive(lists, **options)
    found = losses.get("snr_contrastive", **options)(example.rows, example.paths).item()
    assert found == pytest.approx(wanted, rel=1e-4 if without > 1 else 1e-9)


@pytest.mark.parametrize("name", [n for n in NAMES if losses.entry(n).kind == "classification"])
def test_rows_on_their_proxies(name: str) -> None:
    """Where the angle to the own proxy is 0, and its gradient infinite."""
    if losses.entry(name).labels == "path":
        loss = losses.get(name, hierarchy=[[0, 0], [0, 1], [1, 2]], embedding_size=4)
    else:
        loss = losses.get(name, num_classes=3, embedding_size=4)
    own = next(loss.parameters())
    per_class = 10 if name == "soft_triple" else 1
    proxies = own.detach().T if own.shape[0] == 4 and own.shape[1] % 3 == 0 else own.detach()
    rows = proxies[::per_class].clone().requires_grad_()
    assert rows.shape == (3, 4)
    labels = torch.tensor([[0, 0], [0, 1], [1, 2]])
    path = losses.entry(name).labels == "path"
    assert_finite(loss(rows, labels if path else labels[:, 1]), rows)


@pytest.mark.parametrize("name", [n for n in NAMES if n != "n_pairs"])  # takes first pairs
def test_the_order_of_rows_does_not_matter(name: str) -> None:
    example = EXAMPLES["uneven and unsorted"]
    loss = cases.build(name)
    wanted = loss(example.rows, example.labels(name)).item()
    order = torch.randperm(len(example.rows), generator=torch.Generator().manual_seed(1))
    shuffled = loss(example.rows[order], example.labels(name)[order]).item()
    assert shuffled == pytest.approx(wanted, rel=1e-10)


@pytest.mark.parametrize("name", [n for n in NAMES if losses.entry(n).normalizes])
def test_the_length_of_rows_does_not_matter(name: str) -> None:
    example = EXAMPLES["even"]
    loss = cases.build(name)
    lengths = torch.linspace(0.1, 30, len(example.rows), dtype=torch.float64).unsqueeze(1)
    scaled = loss(example.rows * lengths, example.labels(name)).item()
    assert scaled == pytest.approx(loss(example.rows, example.labels(name)).item(), rel=1e-9)


@pytest.mark.parametrize("name", [n for n in NAMES if not losses.entry(n).normalizes])
def test_the_length_of_rows_matters(name: str) -> None:
    example = EXAMPLES["even"]
    loss = cases.build(name)
    scaled = loss(example.rows * 3, example.labels(name)).item()
    assert scaled != pytest.approx(loss(example.rows, example.labels(name)).item(), rel=1e-3)


@pytest.mark.parametrize("name", [n for n in NAMES if losses.entry(n).labels == "one"])
def test_binary_losses_take_the_finest_label_of_a_path(name: str) -> None:
    example = EXAMPLES["even"]
    loss = cases.build(name)
    assert loss(example.rows, example.paths) == loss(example.rows, example.paths[:, -1])


def test_labels_that_float32_cannot_tell_apart() -> None:
    rows = torch.randn(4, 3)
    labels = torch.tensor([2**24, 2**24 + 1, 2**24 + 2, 2**24 + 3])
    assert losses.get("smooth_ap")(rows, labels).item() == 0  # no row has a mate
    assert losses.get("triplet")(rows, labels).item() == 0


# --- blocks


@pytest.mark.parametrize("block", [1, 7, 30, 10_000])
@pytest.mark.parametrize(
    ("name", "options"),
    [(name, ranking_only(name)) for name in RANKING] + [("recall_at_k", {"cut_temperature": 3.0})],
)
def test_the_size_of_blocks_does_not_matter(name: str, options: dict[str, Any], block: int) -> None:
    example = cases.example([0] * 7 + [1, 2, 2, 1, 1, 4, 0, 3], seed=8)
    results = []
    for size in (None, block):
        rows = example.rows.clone().requires_grad_()
        loss = cases.build(name, block=size, **options)
        value = loss(rows, example.labels(name))
        value.backward()
        results.append((value.item(), rows.grad))
    assert results[1][0] == pytest.approx(results[0][0], rel=1e-12)
    torch.testing.assert_close(results[1][1], results[0][1], rtol=1e-10, atol=1e-14)


class LargestTensor(TorchDispatchMode):
    """Notes the number of elements of the largest tensor that any operation returns."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(out):
            if isinstance(leaf, torch.Tensor):
                stored = leaf.untyped_storage().nbytes() // leaf.element_size()
                self.elements = max(self.elements, stored)
        return out


@pytest.mark.parametrize("name", RANKING)
def test_nothing_larger_than_a_block_or_the_similarities_is_made(name: str) -> None:
    rows_count, block = 60, 2_000
    rows = torch.randn(rows_count, 8, requires_grad=True)
    labels = labels_of(name, torch.arange(rows_count) % 3)
    loss = losses.get(name, block=block, **ranking_only(name))
    with LargestTensor() as largest:
        loss(rows, labels).backward()
    assert largest.elements <= 2 * rows_count**2  # coordinates of all positive pairs
    assert rows.grad is not None


def test_signal_to_noise_makes_no_cube() -> None:
    """Nothing of (rows, rows, dimensions), neither on the way nor kept for backward."""
    rows = torch.randn(40, 64, requires_grad=True)
    with LargestTensor() as largest:
        losses.get("snr_contrastive")(rows, torch.arange(40) % 8).backward()
    assert largest.elements <= rows.numel()
    assert rows.grad is not None


class Kept:
    """A tensor that a graph holds until backward."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor


@pytest.mark.parametrize("name", RANKING)
def test_backward_keeps_no_block(name: str) -> None:
    """What the graph holds until backward is a few matrices of rows x rows, for one large class."""
    rows_count = 48
    rows = torch.randn(rows_count, 8, requires_grad=True)
    labels = labels_of(name, torch.zeros(rows_count, dtype=torch.int64))
    made: weakref.WeakSet[Kept] = weakref.WeakSet()

    def pack(tensor: torch.Tensor) -> Kept:
        kept = Kept(tensor)
        made.add(kept)
        return kept

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda kept: kept.tensor):
        value = losses.get(name, **ranking_only(name))(rows, labels)
    assert 0 < sum(kept.tensor.numel() for kept in made) <= 6 * rows_count**2
    value.backward()


def test_evaluation_without_gradients() -> None:
    example = EXAMPLES["even"]
    for name in RANKING:
        loss = cases.build(name, **ranking_only(name))
        with torch.no_grad():
            value = loss(example.rows, example.labels(name))
        assert not value.requires_grad
        rows = example.rows.clone().requires_grad_()
        assert value.item() == loss(rows, example.labels(name)).item()


# --- what a miner chose


def everything(labels: torch.Tensor) -> tuple[torch.Tensor, ...]:
    same = labels.unsqueeze(1) == labels
    off = ~torch.eye(len(labels), dtype=torch.bool)
    return (*(same & off).nonzero(as_tuple=True), *(~same).nonzero(as_tuple=True))


@pytest.mark.parametrize("name", [n for n in OF_PAIRS if n not in ("multi_similarity_mined",)])
def test_all_pairs_named_is_no_mining(name: str) -> None:
    example = EXAMPLES["even"]
    loss = cases.build(name, **ranking_only(name))
    wanted = loss(example.rows, example.labels(name)).item()
    indices = everything(example.paths[:, -1])
    assert loss(example.rows, example.labels(name), indices).item() == pytest.approx(wanted)


@pytest.mark.parametrize("name", ["smooth_ap", "sup_ap", "recall_at_k", "tcm", "tuplet_margin"])
def test_pairs_not_mined_are_not_there(name: str) -> None:
    """Leaving a row out of every pair is leaving it out of the batch."""
    example = EXAMPLES["uneven and unsorted"]
    labels = example.paths[:, -1]
    a, p, b, n = everything(labels)
    first, second = (a > 0) & (p > 0), (b > 0) & (n > 0)
    indices = (a[first], p[first], b[second], n[second])
    loss = cases.build(name)
    mined = loss(example.rows, labels, indices).item()
    assert mined == pytest.approx(loss(example.rows[1:], labels[1:]).item())
    assert mined != loss(example.rows, labels).item()


def test_triplets_name_two_pairs_each() -> None:
    rows = torch.tensor([[1.0, 0], [0.8, 0.6], [0.6, 0.8], [0.0, 1.0]], dtype=torch.float64)
    labels = torch.tensor([0, 0, 1, 1])
    one = torch.tensor([0]), torch.tensor([1]), torch.tensor([2])
    # Positive pair .8, negative pair .6, margins .9 and .5.
    assert losses.get("tcm")(rows, labels, one).item() == pytest.approx(0.1 + 0.1)


def test_references_are_not_rows_when_rows_are_weighed() -> None:
    """The clustering term of happier weighs the batch's rows, by the anchors alone."""
    example = cases.WITH_REFERENCES["references"]
    loss = cases.build("happier", cluster_weight=1.0)
    call = (example.rows, example.paths)
    references = (example.others, example.other_paths)
    row, mate, other = torch.tensor([1, 1]), torch.tensor([6, 3]), torch.tensor([1, 2])
    only_row_1 = loss(call[0][1:2], call[1][1:2]).item() / len(example.rows)
    for indices in ((row, mate, other), (row, mate, row, other)):
        assert loss(*call, indices, *references).item() == pytest.approx(only_row_1)


@pytest.mark.parametrize("name", ["proxy_nca", "arcface", "csl", "normalized_softmax", "cosface"])
def test_proxy_losses_weigh_rows_by_how_often_they_were_mined(name: str) -> None:
    example = EXAMPLES["even"]
    loss = cases.build(name)
    labels = example.labels(name)
    each = [
        loss(example.rows[row : row + 1], labels[row : row + 1]).item()
        for row in range(len(labels))
    ]
    indices = torch.tensor([0, 0]), torch.tensor([1, 2]), torch.tensor([3, 3])
    wanted = (each[0] + each[3] + each[1] / 2 + each[2] / 2) / len(labels)
    assert loss(example.rows, labels, indices).item() == pytest.approx(wanted)


# --- what is refused

ROWS = torch.randn(4, 3)
LABELS = torch.tensor([0, 0, 1, 1])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((ROWS.tolist(), LABELS), ["embeddings", "tensor", "list"]),
        ((ROWS.int(), LABELS), ["embeddings", "floating-point", "int32"]),
        ((ROWS[0], LABELS), ["embeddings", "(rows, dimensions)", "(3,)"]),
        ((ROWS[:0], LABELS[:0]), ["embeddings", "at least one", "(0, 3)"]),
        ((ROWS[:, :0], LABELS), ["embeddings", "at least one", "(4, 0)"]),
        ((ROWS, ["a", "b", "c", "d"]), ["labels", "tensor of integers"]),
        ((ROWS, LABELS[:3]), ["labels", "(4,)", "(3,)"]),
        ((ROWS, LABELS.float()), ["labels", "integers", "float32"]),
        ((ROWS, LABELS.bool()), ["labels", "integers", "bool"]),
        ((ROWS, LABELS.reshape(2, 2)), ["labels", "(4, levels)", "(2, 2)"]),
        ((ROWS, LABELS, None, ROWS), ["ref_emb and ref_labels come together"]),
        ((ROWS, LABELS, None, None, LABELS), ["ref_emb and ref_labels come together"]),
        ((ROWS, LABELS, None, ROWS[:, :2], LABELS), ["dimensions", "(4, 3)", "(4, 2)"]),
        ((ROWS, LABELS, None, ROWS[:2], LABELS), ["ref_labels", "(2,)", "(4,)"]),
        (
            (ROWS, LABELS, None, ROWS[:2], torch.zeros(2, 2, dtype=torch.int64)),
            ["1 levels", "ref_labels 2"],
        ),
        ((ROWS, LABELS, (LABELS, LABELS)), ["indices_tuple", "three", "four"]),
    ],
)
def test_wrong_calls(arguments: tuple[Any, ...], words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        losses.get("smooth_ap")(*arguments)
    message = str(caught.value)
    assert message.endswith(".")
    assert [word for word in words if word not in message] == [], message


def test_labels_may_be_lists_and_narrow_integers() -> None:
    loss = losses.get("smooth_ap")
    wanted = loss(ROWS, LABELS).item()
    for labels in (LABELS.tolist(), LABELS.to(torch.uint8), LABELS.to(torch.int32), LABELS.numpy()):
        assert loss(ROWS, labels).item() == wanted


@pytest.mark.parametrize("label", [-1, -100, 3, 2**40])
@pytest.mark.parametrize("name", [n for n in NAMES if "num_classes" in losses.entry(n).needs])
def test_labels_without_a_proxy_are_refused(name: str, label: int) -> None:
    loss = losses.get(name, num_classes=3, embedding_size=3)
    labels = torch.tensor([0, 1, 2, label])
    labels = torch.stack([labels, labels], 1) if losses.entry(name).labels == "path" else labels
    with pytest.raises(InputError, match=f"label {label} is not one of the 3 classes"):
        loss(ROWS, labels)


@pytest.mark.parametrize("name", [n for n in NAMES if "num_classes" in losses.entry(n).needs])
def test_classes_may_be_any_integers_in_any_order(name: str) -> None:
    """The same numbers under other names: proxies belong to the sorted labels."""
    rows = torch.randn(6, 4)
    plain, named = torch.tensor([0, 1, 2, 2, 1, 0]), torch.tensor([-7, 5, 2**33, 2**33, 5, -7])
    path = losses.entry(name).labels == "path"
    values = []
    for labels, options in (
        (plain, {"num_classes": 3}),
        (named, {"classes": [5, -7, 2**33]}),
        (named, {"classes": torch.tensor([2**33, 5, -7, 5])}),
    ):
        torch.manual_seed(0)
        loss = losses.get(name, embedding_size=4, **options)
        values.append(loss(rows, torch.stack([labels * 0, labels], 1) if path else labels).item())
    assert values[1] == values[2] == pytest.approx(values[0])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_what_is_not_finite_shows(name: str, wrong: float) -> None:
    """In one row that a mask might hide, and in all of them."""
    example = EXAMPLES["even"]
    for some in (slice(1), slice(None)):
        rows = example.rows.clone()
        rows[some, 0] = wrong
        assert cases.build(name)(rows, example.labels(name)).isnan()


def test_classes_are_integers() -> None:
    with pytest.raises(InputError, match="must list integer labels"):
        losses.get("arcface", embedding_size=4, classes=["a", "b"])


def test_every_pair_of_losses_keeps_to_its_own_state() -> None:
    """No loss changes a batch, or another loss's value."""
    example = EXAMPLES["even"]
    rows = example.rows.clone()
    before = {name: cases.value(name, example) for name in NAMES}
    for first, second in itertools.pairwise(NAMES):
        cases.value(first, example)
        assert cases.value(second, example) == before[second]
    assert torch.equal(example.rows, rows)


@pytest.mark.parametrize("name", ["happier", "smooth_h_ap"])
def test_levels_in_the_wrong_order_are_warned_of_once(name: str) -> None:
    rows = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    paths = torch.tensor([[0, 0], [0, 1], [0, 2], [1, 3], [1, 4], [1, 5]])
    loss = losses.get(name, **ranking_only(name))
    with pytest.warns(TruerankWarning, match="levels go from coarse to fine"):
        loss(rows, paths.flip(1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss(rows, paths.flip(1))
        losses.get(name, **ranking_only(name))(rows, paths)
