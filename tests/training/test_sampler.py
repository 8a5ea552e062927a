"""Samplers: coverage, classes with few images, shares of processes, resuming."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
import torch.multiprocessing as multiprocessing
from hypothesis import given
from hypothesis import strategies as st

from truerank._util.errors import InputError, TruerankWarning
from truerank.training.sampler import ClassSampler, Deck, HierarchicalSampler


@given(
    cards=st.integers(1, 12),
    hands=st.lists(st.integers(1, 12), max_size=20),
    seed=st.integers(0, 5),
)
def test_a_deck_is_fair_at_every_moment(cards: int, hands: list[int], seed: int) -> None:
    deck = Deck(cards, seed, 0)
    dealt = np.zeros(cards, int)
    for number in hands:
        hand = deck.deal(min(number, cards))
        assert len(set(hand.tolist())) == len(hand)
        dealt[hand] += 1
        assert dealt.max() - dealt.min() <= 1


def test_decks_of_one_seed_differ_by_stream_and_round() -> None:
    first, again, other = Deck(50, 7, 0), Deck(50, 7, 0), Deck(50, 7, 1)
    rounds = [first.deal(50).tolist() for _ in range(3)]
    assert rounds == [again.deal(50).tolist() for _ in range(3)]
    assert rounds[0] != other.deal(50).tolist()
    assert len(set(map(tuple, rounds))) == 3


@given(
    sizes=st.lists(st.integers(3, 9), min_size=4, max_size=10),
    samples=st.integers(1, 3),
    batches=st.integers(1, 30),
)
def test_coverage_of_classes_and_images(sizes: list[int], samples: int, batches: int) -> None:
    labels = np.repeat(np.arange(len(sizes)), sizes)
    sampler = ClassSampler(labels, classes=4, samples=samples, seed=1)
    seen = np.zeros(len(labels), int)
    for _ in range(batches):
        rows = sampler.batch()
        assert len(set(rows.tolist())) == 4 * samples  # all classes are large enough
        assert (np.unique(labels[rows], return_counts=True)[1] == samples).all()
        seen[rows] += 1
    of_class = np.bincount(labels, seen) / samples
    assert of_class.max() - of_class.min() <= 1
    for rows in np.split(seen, np.cumsum(sizes)[:-1]):
        assert rows.max() - rows.min() <= 1


def test_the_order_of_images_does_not_matter_to_the_classes() -> None:
    labels = np.array(["b", "a", "c", "a", "b", "c"])
    rows = ClassSampler(labels, classes=3, samples=2).batch()
    assert sorted(rows.tolist()) == [0, 1, 2, 3, 4, 5]
    assert (labels[rows].reshape(3, 2)[:, 0] == labels[rows].reshape(3, 2)[:, 1]).all()


def test_classes_with_few_images_repeat_them_and_it_is_said() -> None:
    labels = ["a"] * 5 + ["b"] * 2 + ["c"]
    with pytest.warns(TruerankWarning) as said:
        sampler = ClassSampler(labels, classes=3, samples=4)
    assert str(said[0].message) == (
        "2 of 3 classes have fewer than 4 images (1 of them a single one); their images are "
        "repeated, each time with another augmentation."
    )
    rows = sampler.batch()
    assert len(rows) == 12
    assert np.bincount(rows, minlength=8)[[5, 6, 7]].tolist() == [2, 2, 4]


def test_classes_with_few_images_are_left_out_on_request() -> None:
    labels = ["a"] * 5 + ["b"] * 4 + ["c"]
    with pytest.warns(TruerankWarning, match="these classes are left out"):
        sampler = ClassSampler(labels, classes=2, samples=4, few="drop")
    assert all((sampler.batch() < 9).all() for _ in range(10))


def test_single_images_are_fine_where_one_is_asked_for() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = ClassSampler(["a", "b", "c"], classes=3, samples=1).batch()
    assert sorted(rows.tolist()) == [0, 1, 2]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"classes": 4}, "a batch of 4 different classes cannot be dealt from the 3 to train on"),
        ({"classes": 0}, "The 'classes' parameter of a sampler must be an int >= 1. Got 0"),
        ({"samples": 1.5}, "The 'samples' parameter of a sampler must be an int >= 1. Got 1.5"),
        ({"few": "x"}, "The 'few' parameter of a sampler must be one of repeat, drop. Got 'x'"),
        ({"world": 2}, "3 classes in a batch cannot be shared by 2 processes"),
        ({"rank": 3, "world": 3}, "rank must be from 0 to world - 1 = 2. Got 3 instead."),
    ],
)
def test_refusals(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        ClassSampler(["a", "a", "b", "b", "c", "c"], **{"classes": 3, "samples": 2} | options)
    assert str(refused.value).startswith(sentence)


def test_one_label_for_each_image() -> None:
    with pytest.raises(InputError, match="one label for each image"):
        ClassSampler([["a", "b"]], classes=1, samples=1)


TREE = np.array([[f"n{node}", f"c{c}"] for node in range(5) for c in range(4) for _ in range(3)])


def test_a_hierarchical_batch_has_few_nodes_equally_often() -> None:
    labels = np.stack([TREE[:, 0], np.char.add(TREE[:, 0], TREE[:, 1])], axis=1)
    sampler = HierarchicalSampler(labels, nodes=2, classes=6, samples=2, seed=3)
    nodes_seen: dict[str, int] = {}
    for _ in range(25):
        rows = sampler.batch()
        fine, counts = np.unique(labels[rows, 1], return_counts=True)
        assert len(fine) == 6
        assert (counts == 2).all()
        nodes, sizes = np.unique(labels[rows, 0], return_counts=True)
        assert sizes.tolist() == [6, 6]  # three classes of each node, two images of each class
        for node in nodes.tolist():
            nodes_seen[node] = nodes_seen.get(node, 0) + 1
    assert sorted(nodes_seen.values()) == [10] * 5


def test_the_same_name_under_two_parents_is_two_classes() -> None:
    sampler = HierarchicalSampler(TREE, nodes=5, classes=20, samples=3)
    rows = sampler.batch()
    assert sorted(rows.tolist()) == list(range(len(TREE)))


@given(
    sizes=st.lists(st.integers(1, 4), min_size=2, max_size=5),
    nodes=st.integers(1, 4),
    classes=st.integers(1, 8),
)
def test_small_nodes_are_filled_up_by_others(sizes: list[int], nodes: int, classes: int) -> None:
    labels = [[node, 10 * node + c] for node, size in enumerate(sizes) for c in range(size)]
    classes = min(classes, len(labels))
    sampler = HierarchicalSampler(labels, nodes=min(nodes, classes), classes=classes, samples=1)
    for _ in range(6):
        rows = sampler.batch()
        assert len(set(rows.tolist())) == classes


@pytest.mark.parametrize(
    ("labels", "options", "sentence"),
    [
        (["a", "b"], {}, "needs labels (N, L)"),
        (TREE, {"level": 2}, "a level from 1 to L - 1"),
        (TREE, {"nodes": 9}, "The 'nodes' parameter of a hierarchical sampler must be"),
    ],
)
def test_hierarchical_refusals(labels: object, options: dict[str, int], sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        HierarchicalSampler(labels, classes=4, **options)
    assert sentence in str(refused.value)


@pytest.mark.parametrize("kind", ["classes", "hierarchical"])
def test_a_state_goes_on_where_it_was_taken(kind: str) -> None:
    def make() -> ClassSampler | HierarchicalSampler:
        if kind == "classes":
            return ClassSampler(TREE[:, 1], classes=3, samples=2, seed=5)
        return HierarchicalSampler(TREE, classes=4, samples=2, seed=5)

    sampler = make()
    for _ in range(7):
        sampler.batch()
    state = sampler.state()
    expected = [sampler.batch().tolist() for _ in range(9)]
    other = make()
    other.restore(state)
    assert [other.batch().tolist() for _ in range(9)] == expected


def test_a_state_of_other_labels_is_refused() -> None:
    state = ClassSampler(["a", "b"], classes=1, samples=1).state()
    with pytest.raises(InputError, match="made for other labels"):
        ClassSampler(["a", "b", "c"], classes=1, samples=1).restore(state)


def shares(world: int) -> list[list[list[int]]]:
    """The batches of each rank, one after another in this process."""
    return [_batches(rank, world) for rank in range(world)]


def _batches(rank: int, world: int) -> list[list[int]]:
    sampler = HierarchicalSampler(TREE, classes=4, samples=2, seed=9, rank=rank, world=world)
    return [sampler.batch().tolist() for _ in range(10)]


@pytest.mark.parametrize("world", [2, 4])
def test_shares_are_disjoint_and_make_up_the_batch(world: int) -> None:
    (whole,) = shares(1)
    for batch, parts in zip(whole, zip(*shares(world), strict=True), strict=True):
        together = list(itertools.chain(*parts))
        assert len(set(together)) == len(together)
        assert sorted(together) == sorted(batch)
        for part in parts:  # no class is torn
            paths = ["/".join(path) for path in TREE[part].tolist()]
            assert (np.unique(paths, return_counts=True)[1] == 2).all()


def _work(rank: int, address: str, answers: object) -> None:
    """One of two processes: gather everyone's batches and hand over what this one saw."""
    import torch
    import torch.distributed as distributed

    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=address, rank=rank, world_size=2)
    mine = torch.tensor(_batches(distributed.get_rank(), distributed.get_world_size()))
    gathered = [torch.empty_like(mine) for _ in range(2)]
    distributed.all_gather(gathered, mine)
    if rank == 0:
        answers.put([part.tolist() for part in gathered])
    distributed.barrier()
    distributed.destroy_process_group()


def test_two_processes_share_every_batch(tmp_path: object) -> None:
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    address = f"file://{tmp_path}/store"
    workers = [context.Process(target=_work, args=(rank, address, answers)) for rank in range(2)]
    for worker in workers:
        worker.start()
    try:
        gathered = answers.get(timeout=120)
        for worker in workers:
            worker.join(timeout=120)
    finally:
        for worker in workers:
            if worker.is_alive():
                worker.terminate()
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert gathered == shares(2)
