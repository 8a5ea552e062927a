"""Labels and paths of labels, right and wrong, in any container."""

from __future__ import annotations

import tracemalloc
import warnings
from decimal import Decimal
from typing import Any

import numpy as np
import pandas
import pytest
import torch

import truerank
from tests.refusals import assert_refused
from tests.task.small import LABELS, NAN, PATHS, ROWS, evaluate, pairs_of
from truerank import Task


@pytest.mark.parametrize(
    ("labels", "gallery_labels", "words"),
    [
        (LABELS, ["0", "1", "02", "2"], ["labels holds int", "gallery_labels holds str"]),
        (LABELS, ["0", "1", "2", 2], ["labels holds int", "gallery_labels holds str"]),
        (list("aabbcc"), [0, 1, 2, 2], ["labels holds str", "gallery_labels holds int"]),
        (np.array(LABELS), np.array(list("abcc")), ["int", "str"]),
        ([0, 0, 1, 1, "2", 2], None, ["int", "str"]),
        (np.array([0, 0, 1, 1, "2", 2], object), None, ["int", "str"]),
        ([0, 0, 1, 1, 2.0, 2], None, ["int", "float"]),
        (LABELS, [0.0, 1, 2, 2], ["int", "float"]),
        ([b"a", b"a", "b", "b", "c", "c"], None, ["bytes", "str"]),
        (np.array([b"a", b"b"] * 3), ["a", "b", "c", "c"], ["bytes", "str"]),
    ],
)
def test_labels_of_two_types(labels: Any, gallery_labels: Any, words: list[str]) -> None:
    assert_refused(
        lambda: Task(labels, gallery_labels=gallery_labels),
        ["different types never match", "convert both to one type", *words],
    )


@pytest.mark.parametrize("turned", [False, True])
def test_integers_and_text_that_spells_them(turned: bool) -> None:
    """A file of text beside an array of integers: the same task as integers on both sides."""
    numbers, text = [10, 2, -3, 10, 2, 0], ["10", "2", "-3", "2", "7", None]
    rows = np.random.default_rng(0).standard_normal((6, 3))
    others = np.random.default_rng(1).standard_normal((6, 3))
    options = {"junk_labels": [2], "unlabelled": "distractor", "metrics": ["map"]}
    alike = [None if value is None else int(value) for value in text]
    gallery = numbers if turned else text
    queries = [value or "7" for value in text] if turned else numbers
    found = truerank.evaluate(rows, queries, gallery=others, gallery_labels=gallery, **options)
    queries, gallery = ([int(value) for value in queries], numbers if turned else alike)
    wanted = truerank.evaluate(rows, queries, gallery=others, gallery_labels=gallery, **options)
    assert found == wanted
    assert found.provenance["task_digest"] == wanted.provenance["task_digest"]
    assert found.queries()["label"] == queries


@pytest.mark.parametrize(
    "labels",
    [
        np.eye(2)[LABELS[:4]],
        np.eye(3)[LABELS],
        np.eye(3, dtype=bool)[LABELS],
        np.eye(100, dtype=np.int64)[LABELS],
        torch.eye(3)[LABELS],
        np.eye(3, dtype=int)[LABELS].tolist(),
        pandas.DataFrame(np.eye(3)[LABELS]),
    ],
    ids=["two columns", "three", "bool", "a hundred", "tensor", "lists", "frame"],
)
def test_one_hot_labels(labels: Any) -> None:
    assert_refused(lambda: Task(labels), ["one-hot", "labels", "argmax"])


@pytest.mark.parametrize(
    "labels",
    [np.zeros((6, 2, 2)), np.float64(3), np.empty((6, 0)), [[]] * 6, pandas.DataFrame([[]] * 6)],
    ids=["3-D", "a number", "no columns", "empty lists", "empty frame"],
)
def test_labels_of_another_shape(labels: Any) -> None:
    assert_refused(lambda: Task(labels), ["labels"])


def test_label_paths_of_unequal_length() -> None:
    assert_refused(lambda: Task([("a", "b"), ("a",)]), ["labels", "number of levels", "[1, 2]"])
    assert_refused(
        lambda: Task(np.zeros((3, 3), int) + 2, gallery_labels=np.zeros((3, 2), int) + 2),
        ["number of label levels", "labels has 3", "gallery_labels has 2"],
    )


def test_labels_that_cannot_be_compared() -> None:
    assert_refused(lambda: Task([{1: 2}, {2: 1}]), ["labels", "hashable", "int or str"])


MULTI_HOT = np.array([[1, 0, 1], [1, 1, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0], [0, 1, 1]])


@pytest.mark.parametrize(
    "labels",
    [
        MULTI_HOT,
        MULTI_HOT.astype(bool),
        MULTI_HOT.astype(np.float32),
        MULTI_HOT.tolist(),
        torch.tensor(MULTI_HOT),
        pandas.DataFrame(MULTI_HOT),
        [[0, 1], [1, 1]],
        np.ones((3, 4), int) - np.eye(3, 4, dtype=int),
    ],
    ids=["int", "bool", "float", "lists", "tensor", "frame", "two rows", "mostly 1"],
)
def test_multi_hot_labels(labels: Any) -> None:
    words = ["labels", "levels", "multi-hot", "relevance=", "tree"]
    assert_refused(lambda: Task(labels), words)
    assert_refused(lambda: Task(labels, gallery_labels=labels), words)


def test_what_the_message_of_multi_hot_labels_proposes() -> None:
    """Its two ways: rows that share a tag, by a loop over sets; and named levels, as before."""
    y = MULTI_HOT
    rows = np.random.default_rng(0).normal(size=(6, 4))
    found = truerank.evaluate(rows, relevance=(y @ y.T) > 0, metrics="map", confidence=None)
    tags = [set(np.flatnonzero(row)) for row in y]
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    values = []
    for query in range(6):
        order = sorted(set(range(6)) - {query}, key=lambda item: -(unit[query] @ unit[item]))
        hits = [bool(tags[query] & tags[item]) for item in order]
        at = [sum(hits[: k + 1]) / (k + 1) for k, hit in enumerate(hits) if hit]
        values.append(sum(at) / len(at))
    assert found["map"].value == pytest.approx(np.mean(values), abs=1e-12)
    with pytest.warns(truerank.TruerankWarning, match="more than one parent"):
        task = Task({"coarse": y[:, 0], "fine": y[:, 1]})
    assert task.levels.names == ["coarse", "fine"]
    with pytest.warns(truerank.TruerankWarning, match="more than one parent"):
        Task(pandas.DataFrame({"coarse": y[:, 0], "fine": y[:, 1]}))


@pytest.mark.parametrize(
    "labels",
    [
        [[0, 0], [0, 0], [1, 1], [1, 1]],
        np.array([[False, False], [True, True], [True, True]]),
        [["0", "0"], ["0", "1"], ["1", "0"], ["1", "1"]],
        [[0, 2], [1, 2], [0, 1], [1, 1]],
    ],
    ids=["a tree", "a tree of booleans", "text", "other numbers"],
)
def test_labels_of_two_levels_that_are_not_multi_hot(labels: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", truerank.TruerankWarning)
        assert len(Task(labels).levels) == 2


@pytest.mark.parametrize("kind", [set, frozenset])
def test_labels_that_are_sets(kind: type) -> None:
    sets = [kind({1, 2}), kind({2}), kind({1})]
    words = ["labels holds sets", "multi-hot", "path of levels", "relevance="]
    assert_refused(lambda: Task(sets), words)
    assert_refused(lambda: Task(np.array([*sets, None])[:3]), words)
    assert_refused(lambda: Task([1, 2, sets[0]]), words)
    assert_refused(lambda: Task([(1, sets[0]), (1, sets[1])]), words)
    assert_refused(lambda: Task({"a": [1, 2, 3], "b": pandas.Series(sets)}), words)
    assert_refused(lambda: Task([1], gallery_labels=sets), ["gallery_labels holds sets"])


@pytest.mark.parametrize("missing", [None, NAN, np.float64("nan")])
@pytest.mark.parametrize("label", [1, "a", 1.5])
def test_missing_labels_are_named(missing: Any, label: Any) -> None:
    """A missing query label is always refused, a missing gallery label unless it is allowed."""
    labels = [label, missing, label, missing]
    words = ["labels rows 1 and 3", "None or NaN", "label them or leave those rows out"]
    assert_refused(lambda: Task(labels), words)
    assert_refused(lambda: Task(labels, gallery_labels=[label]), words)
    assert_refused(lambda: Task(labels, unlabelled="distractor"), words)
    assert_refused(
        lambda: Task([label, label], gallery_labels=labels),
        ["gallery_labels rows 1 and 3", "None or NaN", "unlabelled='distractor'"],
    )
    task = Task([label, label], gallery_labels=labels, unlabelled="distractor")
    assert task.n_relevant.tolist() == [2, 2]


def test_float_labels_with_nan_and_frames_with_holes() -> None:
    assert_refused(lambda: Task(np.array([1.0, NAN, 1.0])), ["labels row 1"])
    frame = pandas.DataFrame({"coarse": ["x", "x", None], "fine": ["p", None, "q"]})
    assert_refused(lambda: Task(frame), ["labels rows 1 and 2"])
    assert_refused(lambda: Task([("x", "p"), (None, "p")]), ["labels row 1"])


def test_distractors_are_ranked_and_relevant_to_nobody() -> None:
    gallery_labels = ["a", None, None]
    arguments: dict[str, Any] = {"gallery_labels": gallery_labels, "distance": "precomputed"}
    result = evaluate([[0.5, 0.1, 0.2]], ["a"], **arguments, unlabelled="distractor")
    assert result["map"].value == 1 / 3
    paths = [("x", "p"), ("x", None), (None, None)]
    task = Task(paths[:1], gallery_labels=paths, unlabelled="distractor")
    assert task.n_relevant.tolist() == [1]


BIG = 2**63


@pytest.mark.parametrize(
    "values",
    [
        [2**24, 2**24 + 1, 2**24 + 2, 2**24 + 3],
        [2**53, 2**53 + 1, 2**53 + 2, 2**53 + 3],
        [BIG - 1, BIG - 2, -BIG, 1 - BIG],
        [BIG - 1, BIG, BIG + 1, 2 * BIG - 1],
        [2**100, 2**100 + 1, -(2**100), 0],
        [-1, 0, 1, -2],
        ["1", "01", "1 ", "1.0"],
        ["a", "A", "ä", ""],
        [1.0, 1.0 + 2**-52, 0.5, 1e300],
        [b"1", b"01", b"a", b"A"],
    ],
)
@pytest.mark.filterwarnings("ignore:labels .* differ by white space or case only")
def test_distinct_labels_stay_distinct(values: list[Any]) -> None:
    """Also against a gallery, as a list or as an array: nothing passes through a float."""
    containers = [values * 2, np.array(values * 2, object), np.array(values * 2)]
    if containers[-1].tolist() != values * 2:  # numpy itself made them floats
        containers.pop()
    for labels in containers:
        assert Task(labels).mates.tolist() == [1] * 8
        task = Task(labels, gallery_labels=values)
        assert task.n_relevant.tolist() == [1] * 8
        assert [item for _, item in pairs_of(task)] == [0, 1, 2, 3] * 2


def test_unsigned_and_signed_labels_meet_by_value() -> None:
    signed, unsigned = np.array([-1, 5, BIG - 1]), np.array([5, BIG - 1, BIG], np.uint64)
    assert Task(signed, gallery_labels=unsigned).mates.tolist() == [0, 1, 1]
    assert Task(unsigned, gallery_labels=signed).mates.tolist() == [1, 1, 0]
    assert Task(np.array([255], np.uint8), gallery_labels=np.array([-1], np.int8)).mates[0] == 0


def test_minus_one_is_an_ordinary_label() -> None:
    assert Task([-1, -1, 0, 0]).mates.tolist() == [1, 1, 1, 1]
    assert Task([-1, -1, 0, 0], junk_labels=[-1]).mates.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize(
    "labels",
    [
        [True, True, False, False],
        np.array([True, True, False, False]),
        torch.tensor([True, True, False, False]),
        [np.bool_(True), np.bool_(True), np.bool_(False), np.bool_(False)],
        [1, True, 0, False],
    ],
)
def test_bool_labels(labels: Any) -> None:
    assert pairs_of(Task(labels)) == [(0, 1), (1, 0), (2, 3), (3, 2)]


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["a", "b", "a"]),
        np.array(["a", "b", "a"], object),
        ("a", "b", "a"),
        pandas.Series(["a", "b", "a"]),
        pandas.Series(["a", "b", "a"], dtype="category"),
        pandas.DataFrame({"label": ["a", "b", "a"]}),
        np.array([["a"], ["b"], ["a"]]),
        torch.tensor([7, 8, 7]),
        np.array(["2020-01-01", "2021-01-01", "2020-01-01"], "datetime64[D]"),
    ],
)
def test_labels_in_any_container(labels: Any) -> None:
    assert pairs_of(Task(labels)) == [(0, 2), (2, 0)]


# --- label paths ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "labels",
    [
        PATHS,
        [list(path) for path in PATHS],
        np.array(PATHS),
        np.array(PATHS, object),
        pandas.DataFrame(PATHS, columns=["order", "species"]),
        np.array([[5, 50], [5, 50], [5, 51], [6, 60], [6, 60]]),
    ],
    ids=["tuples", "lists", "text", "objects", "frame", "numbers"],
)
def test_the_finest_label_decides(labels: Any) -> None:
    task = Task(labels)
    assert task.n_relevant.tolist() == [1, 1, 0, 1, 1]
    assert [len(level.values) for level in task.levels.columns] == [2, 3]
    assert [len(level.values) for level in task.levels.paths] == [2, 3]


def test_levels_of_different_types() -> None:
    frame = pandas.DataFrame({"family": ["a", "a", "b"], "number": [1, 1, 2]})
    assert Task(frame).mates.tolist() == [1, 1, 0]
    assert Task(frame).digest == Task([("a", 1), ("a", 1), ("b", 2)]).digest


def test_one_name_under_two_parents() -> None:
    """One label to the metrics of a level, two nodes of the tree, and a warning."""
    labels = [("bird", "other"), ("bird", "other"), ("fish", "other"), ("fish", "cod")]
    with pytest.warns(truerank.TruerankWarning, match="more than one parent") as caught:
        task = Task(labels)
    assert len(caught) == 1
    assert task.n_relevant.tolist() == [2, 2, 2, 0]
    assert [len(level.values) for level in task.levels.columns] == [2, 2]
    assert [len(level.values) for level in task.levels.paths] == [2, 3]
    with pytest.warns(truerank.TruerankWarning, match="more than one parent"):
        Task(labels[:1], gallery_labels=[("fish", "other"), ("bird", "other")])


def test_the_warning_points_at_the_caller() -> None:
    labels = [("bird", "other"), ("bird", "other"), ("fish", "other")]
    for call in (lambda: evaluate_in_this_file(labels), lambda: Task(labels)):
        with pytest.warns(truerank.TruerankWarning) as caught:
            call()
        assert caught[0].filename == __file__


def evaluate_in_this_file(labels: Any) -> truerank.Result:
    return truerank.evaluate(ROWS[:3], labels, metrics=["map"])


def test_distinct_paths_do_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tasks = [
            Task(PATHS),
            Task([("a", "x", "1"), ("a", "x", "2"), ("b", "y", "3"), ("a", "z", "4")]),
        ]
    assert all(task.levels is not None and task.levels.is_tree for task in tasks)


NUL = ["a", "a\0", "a", "a\0"]


@pytest.mark.parametrize(
    "labels",
    [
        NUL,
        tuple(NUL),
        [np.str_(label) for label in NUL],
        [label.encode() for label in NUL],
        np.array(NUL, object),
        pandas.Series(NUL),
        [("top", label) for label in NUL],
    ],
    ids=["list", "tuple", "numpy's text", "bytes", "objects", "series", "paths"],
)
def test_a_nul_at_the_end_makes_another_label(labels: Any) -> None:
    assert Task(labels).mates.tolist() == [1, 1, 1, 1]
    assert Task(labels).query_codes.tolist() == [0, 1, 0, 1]


def test_a_nul_at_the_end_makes_another_id() -> None:
    task = Task([0, 0, 1, 1], ids=["a", "a\0", "b", "b\0"])
    assert task.n_relevant.tolist() == [1, 1, 1, 1]
    rows = [[1.0, 0], [0, 1], [0, 2], [2, 0]]
    assert task.evaluate(rows, ids=["a", "b", "b\0", "a\0"])["hit@1"].value == 1.0


def test_a_nul_at_the_end_of_an_id_in_judgements(tmp_path: Any) -> None:
    path = tmp_path / "qrels.txt"
    path.write_bytes(b"q 0 a\0 1\n")
    options: dict[str, Any] = {"query_ids": ["q"], "gallery_ids": ["a", "a\0"], "relevance": path}
    rows = [[0.0, 1], [1, 0]]
    score = truerank.evaluate([[1.0, 0]], gallery=rows, metrics="hit@1", **options)["hit@1"]
    assert score.value == 1.0


class Named(str):
    """Text of a class of its own, as an enumeration's is."""


def test_text_of_a_class_of_its_own() -> None:
    task = Task([Named("a"), "a", Named("b"), "b"])
    assert task.n_relevant.tolist() == [1, 1, 1, 1]
    assert [type(value) for value in task.named_levels.finest.values] == [str, str]


@pytest.mark.parametrize("gone", ["NaN", "sNaN"])
def test_no_number_as_a_label(gone: str) -> None:
    labels = [Decimal(1), Decimal(1), Decimal(gone)]
    assert_refused(lambda: Task(labels), ["no label", "row 2"])
    assert_refused(lambda: Task([1j, 1j, complex("nan")]), ["no label", "row 2"])


def test_labels_as_long_as_a_book_are_not_copied() -> None:
    """A column of 400 in fixed width would take 200 MB."""
    book = "x" * 131_000
    labels = [book + str(row % 40) for row in range(400)]
    tracemalloc.start()
    try:
        task = Task(labels)
        assert tracemalloc.get_traced_memory()[1] < 30_000_000
    finally:
        tracemalloc.stop()
    assert task.n_relevant.tolist() == [9] * 400
