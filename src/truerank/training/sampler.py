"""Samplers of batches, C classes with M images each, and class-disjoint splits.

Labels come in, one label or a path of labels per image; row numbers go out, batch by batch,
dealt from decks. Every process deals from the same seed and keeps its own share of the classes.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from truerank._util.errors import InputError, TruerankWarning
from truerank.datasets.base import Dataset, class_numbers

if TYPE_CHECKING:
    from truerank.training.config import Config


Rows = npt.NDArray[np.int64]
State = dict[str, Any]


class Deck:
    """A deck of cards 0 to n - 1, dealt in random order and shuffled anew when all are out.

    At any moment no card has been dealt more than once more often than another. No hand holds a
    card twice, also where it takes the last cards of one round and the first of the next.
    """

    def __init__(self, cards: int, seed: int, stream: int) -> None:
        self.cards = cards
        self.key = np.array([seed, stream], np.uint64)
        self.rounds = 0
        self.left: Rows = np.empty(0, np.int64)

    def deal(self, number: int) -> Rows:
        """The next hand; `number` is at most the number of cards."""
        hand, self.left = self.left[:number], self.left[number:]
        missing = number - len(hand)
        if missing > 0:
            # Rounds differ in the counter's second word, 2^64 draws away: they share no number.
            counter = np.array([0, self.rounds, 0, 0], np.uint64)
            generator = np.random.Generator(np.random.Philox(key=self.key, counter=counter))
            fresh = generator.permutation(self.cards)
            self.rounds += 1
            held = np.zeros(self.cards, bool)
            held[hand] = True
            stays = np.ones(self.cards, bool)
            stays[np.flatnonzero(~held[fresh])[:missing]] = False
            hand = np.concatenate([hand, fresh[~stays]])
            self.left = fresh[stays]
        return hand

    def state(self) -> State:
        """The position in the deck as plain numbers, for a checkpoint."""
        return {"rounds": self.rounds, "left": self.left.tolist()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state`."""
        self.rounds = int(state["rounds"])
        self.left = np.array(state["left"], np.int64)


class Sampler(ABC):
    """The base of samplers: decks of images, parts of a batch, and a state to resume from.

    Every process of a distributed run builds the same sampler with its own `rank`. All deal the
    same batch, and each keeps the images of every world-th class: parts never overlap, a class
    is never torn, and together they are the batch of a single process.
    """

    def __init__(
        self,
        codes: Rows,
        decks_before: int,
        *,
        classes: int,
        samples: int,
        seed: int,
        few: str,
        rank: int,
        world: int,
    ) -> None:
        for name, value in (("classes", classes), ("samples", samples), ("world", world)):
            if not isinstance(value, (int, np.integer)) or value < 1:
                raise InputError(
                    f"The {name!r} parameter of a sampler must be an int >= 1. "
                    f"Got {value!r} instead."
                )
        if few not in ("repeat", "drop"):
            raise InputError(
                "The 'few' parameter of a sampler must be one of repeat, drop. "
                f"Got {few!r} instead."
            )
        if not 0 <= rank < world:
            raise InputError(f"rank must be from 0 to world - 1 = {world - 1}. Got {rank} instead.")
        if classes % world:
            raise InputError(
                f"{classes} classes in a batch cannot be shared by {world} processes; take a "
                f"multiple of {world}."
            )
        self.classes, self.samples = classes, samples
        self.rank, self.world = rank, world
        self.members = _members(codes, samples, few)
        if len(self.members) < classes:
            raise InputError(
                f"a batch of {classes} different classes cannot be dealt from the "
                f"{len(self.members)} to train on; lower the number of classes in a batch."
            )
        self._decks = [
            Deck(len(rows), seed, decks_before + number) for number, rows in enumerate(self.members)
        ]

    @abstractmethod
    def _choose(self) -> list[int]:
        """The classes of the next batch, as numbers into `members`; all are different."""

    @abstractmethod
    def _all_decks(self) -> list[Deck]:
        """All decks in a fixed order, for the sampler's state."""

    def batch(self) -> Rows:
        """The rows of the next batch, class after class; of several processes, this one's part."""
        hands = [self._hand(number) for number in self._choose()]
        return np.concatenate(hands[self.rank :: self.world])

    def _hand(self, number: int) -> Rows:
        """M images of a class, all different if it has that many."""
        rows, deck = self.members[number], self._decks[number]
        hands = []
        missing = self.samples
        while missing > 0:
            hands.append(deck.deal(min(missing, len(rows))))
            missing -= len(hands[-1])
        return rows[np.concatenate(hands)]

    def state(self) -> State:
        """The position of all decks, for a checkpoint; equal in every process."""
        return {"decks": [deck.state() for deck in self._all_decks()]}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state` of a sampler with the same labels."""
        decks = self._all_decks()
        if len(state["decks"]) != len(decks):
            raise InputError(
                "the checkpoint's sampler was made for other labels; resume with the data set "
                "and the sampler that the run began with."
            )
        for deck, saved in zip(decks, state["decks"], strict=True):
            deck.restore(saved)


def _members(codes: Rows, samples: int, few: str) -> list[Rows]:
    """The rows of each class that takes part; a warning says what was done about small ones."""
    order = np.argsort(codes, kind="stable")
    members = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)
    small = [rows for rows in members if len(rows) < samples]
    if not small:
        return members
    singles = sum(len(rows) == 1 for rows in small)
    done = (
        "their images are repeated, each time with another augmentation"
        if few == "repeat"
        else "these classes are left out"
    )
    warnings.warn(
        f"{len(small)} of {len(members)} classes have fewer than {samples} images "
        f"({singles} of them a single one); {done}.",
        TruerankWarning,
        stacklevel=4,
    )
    return members if few == "repeat" else [rows for rows in members if len(rows) >= samples]


class ClassSampler(Sampler):
    """Draw batches of M images of each of C classes.

    Coverage: classes are dealt from a deck, and each class's images from a deck of its own. So no
    class comes more than once more often than another, and no image of a class comes again before
    all others of that class have come.

    Parameters
    ----------
    labels : (N,) array
        The class of each image.
    classes, samples : int
        C and M. A batch has C * M rows, class after class.
    seed : int
        Two samplers with one seed deal the same rows.
    few : {"repeat", "drop"}
        Classes with fewer than M images repeat theirs (each time with another augmentation), or
        are left out. How many there are is said in a warning.
    rank, world : int
        With `world` processes, each deals the same batch and keeps C / world of its classes.

    Examples
    --------
    >>> from truerank.training import ClassSampler
    >>> sampler = ClassSampler(["a", "a", "b", "b", "c", "c"], classes=3, samples=2)
    >>> sorted(sampler.batch().tolist())
    [0, 1, 2, 3, 4, 5]
    """

    def __init__(
        self,
        labels: Any,
        *,
        classes: int = 8,
        samples: int = 4,
        seed: int = 0,
        few: str = "repeat",
        rank: int = 0,
        world: int = 1,
    ) -> None:
        labels = np.asarray(labels)
        if labels.ndim != 1:
            raise InputError(
                f"a class sampler needs one label for each image. Got shape {labels.shape} instead."
            )
        super().__init__(
            _codes(labels[:, None]), 1,
            classes=classes, samples=samples, seed=seed, few=few, rank=rank, world=world,
        )  # fmt: skip
        self._order = Deck(len(self.members), seed, 0)

    def _choose(self) -> list[int]:
        chosen: list[int] = self._order.deal(self.classes).tolist()
        return chosen

    def _all_decks(self) -> list[Deck]:
        return [self._order, *self._decks]


class HierarchicalSampler(Sampler):
    """Draw batches of M images of each of C classes, taken from a few coarse nodes.

    With classes drawn at random, two of one batch seldom share a coarse node where there are many.
    HAPPIER's code fills each half of a batch from one node; so does this, with `nodes` of them,
    each giving C / nodes classes. A node that has fewer gives all, and further nodes fill up.

    Coverage: nodes, the classes of a node and the images of a class are dealt from decks. Classes
    of small nodes come more often than those of large ones, since nodes come equally often.

    Parameters
    ----------
    labels : (N, L) array
        From coarse to fine.
    nodes : int
        Coarse nodes in a batch.
    level : int
        Which level's nodes: 1 is the coarsest.
    classes, samples, seed, few, rank, world
        As of ClassSampler.
    """

    def __init__(
        self,
        labels: Any,
        *,
        nodes: int = 2,
        level: int = 1,
        classes: int = 8,
        samples: int = 4,
        seed: int = 0,
        few: str = "repeat",
        rank: int = 0,
        world: int = 1,
    ) -> None:
        labels = np.asarray(labels)
        if labels.ndim != 2 or not 1 <= level < labels.shape[1]:
            raise InputError(
                "a hierarchical sampler needs labels (N, L) from coarse to fine and a level from "
                f"1 to L - 1. Got labels of shape {labels.shape} and level {level}."
            )
        if not isinstance(nodes, (int, np.integer)) or not 1 <= nodes <= classes:
            raise InputError(
                "The 'nodes' parameter of a hierarchical sampler must be an int from 1 to the "
                f"number of classes in a batch. Got {nodes!r} instead."
            )
        node_of_row = _codes(labels[:, :level])
        nodes_in_all = int(node_of_row.max(initial=-1)) + 1
        super().__init__(
            _codes(labels), 1 + nodes_in_all,
            classes=classes, samples=samples, seed=seed, few=few, rank=rank, world=world,
        )  # fmt: skip
        self.nodes = nodes
        node_of_class = np.array([node_of_row[rows[0]] for rows in self.members], np.int64)
        below = [np.flatnonzero(node_of_class == node) for node in range(nodes_in_all)]
        self.below = [inside for inside in below if len(inside)]
        self._order = Deck(len(self.below), seed, 0)
        self._nodes = [
            Deck(len(inside), seed, 1 + number) for number, inside in enumerate(self.below)
        ]

    def _choose(self) -> list[int]:
        quota = -(-self.classes // self.nodes)
        wanted: dict[int, int] = {}
        missing = self.classes
        while missing > 0 and len(wanted) < len(self.below):
            node = int(self._order.deal(1)[0])
            if node not in wanted:  # a new round of the deck may begin inside a batch
                wanted[node] = min(quota, len(self.below[node]), missing)
                missing -= wanted[node]
        for node in wanted:  # every node is in, and some still have classes to give
            more = min(missing, len(self.below[node]) - wanted[node])
            wanted[node] += more
            missing -= more
        return [
            int(chosen)
            for node, number in wanted.items()
            for chosen in self.below[node][self._nodes[node].deal(number)]
        ]

    def _all_decks(self) -> list[Deck]:
        return [self._order, *self._nodes, *self._decks]


def make_sampler(config: Config, train: Dataset) -> Sampler:
    """The sampler that a configuration describes."""
    settings = config.sampler
    if settings.kind == "hierarchical":
        return HierarchicalSampler(
            train.labels, nodes=settings.nodes, level=settings.level, classes=settings.classes,
            samples=settings.samples, seed=config.training.seed, few=settings.few,
        )  # fmt: skip
    return ClassSampler(
        train.fine_labels, classes=settings.classes, samples=settings.samples,
        seed=config.training.seed, few=settings.few,
    )  # fmt: skip


def _codes(labels: npt.NDArray[Any]) -> Rows:
    """A number for each path of labels: the same name under two parents is two classes."""
    codes = np.zeros(len(labels), np.int64)
    for column in labels.T:
        _, inner = np.unique(column, return_inverse=True)
        _, codes = np.unique(codes * (int(inner.max(initial=0)) + 1) + inner, return_inverse=True)
    return codes


# Class-disjoint splits, always the same ones: classes in order, cut into equal parts.


def class_folds(labels: Any, folds: int) -> list[npt.NDArray[np.int64]]:
    """Return the rows of each fold: ranges of classes in order, whose sizes differ by at most one.

    Parameters
    ----------
    labels : (N,) array
        A label for each row. Classes that are numbered are in the order of their numbers, also
        where the numbers are text ("2" before "10"); others are in the order of their names.
    folds : int

    Returns
    -------
    list of row numbers

    Examples
    --------
    >>> from truerank.training.sampler import class_folds
    >>> [rows.tolist() for rows in class_folds(["b", "a", "c", "a", "d"], 2)]
    [[0, 1, 3], [2, 4]]
    >>> [rows.tolist() for rows in class_folds(["10", "2", "1", "30"], 2)]
    [[1, 2], [0, 3]]
    """
    codes = class_numbers(labels)
    classes = int(codes.max(initial=-1)) + 1
    if classes < folds:
        raise InputError(
            f"{classes} classes cannot be cut into {folds} folds; lower data.folds, or set "
            "data.fold to null to train without validation."
        )
    fold_of_class = np.empty(classes, np.int64)
    for number, part in enumerate(np.array_split(np.arange(classes), folds)):
        fold_of_class[part] = number
    return [np.flatnonzero(fold_of_class[codes] == number) for number in range(folds)]


def check_disjoint(train: Dataset, validation: Dataset) -> None:
    """Refuse a class that is both trained on and validated on."""
    shared = np.intersect1d(train.fine_labels, validation.fine_labels)
    if len(shared):
        raise InputError(
            f"{len(shared)} classes are in both training and validation, {shared[0]!r} for one; "
            "use distinct classes for validation."
        )
