"""What users pass, right and wrong: every refusal is one line that shows what came and the fix."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas
import pytest
import scipy.sparse
import torch

import truerank
from truerank import InputError, Task

ROWS = np.array([[1.0, 2], [2, 1], [3, 5], [5, 3], [1, 7], [7, 2]])
LABELS = [0, 0, 1, 1, 2, 2]
GALLERY = ROWS[:4] + 0.5
GALLERY_LABELS = [0, 1, 2, 2]
NAN = float("nan")


def evaluate(*arguments: Any, **options: Any) -> truerank.Result:
    return truerank.evaluate(*arguments, **{"metrics": ["map", "hit@1"]} | options)


def refusal(call: Callable[[], Any]) -> str:
    """The message of the InputError that the call must end in."""
    with pytest.raises(InputError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith((".", "?"))
    assert len(message) < 400
    return message


def assert_refused(call: Callable[[], Any], words: Sequence[str]) -> None:
    message = refusal(call)
    assert [word for word in words if word not in message] == [], message


def with_gallery(**options: Any) -> truerank.Result:
    return evaluate(ROWS, LABELS, gallery=GALLERY, gallery_labels=GALLERY_LABELS, **options)


# --- embeddings -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("embeddings", "words"),
    [
        (np.ones(6), ["embeddings", "(6,)", "(rows, dimensions)", "reshape(-1, 1)"]),
        (np.ones((6, 2, 1)), ["embeddings", "(6, 2, 1)", "(rows, dimensions)"]),
        (np.float64(3), ["embeddings", "()", "(rows, dimensions)"]),
        (np.empty((0, 2)), ["embeddings is empty", "(0, 2)"]),
        (np.empty((6, 0)), ["embeddings is empty", "(6, 0)"]),
        ([], ["embeddings", "(0,)"]),
        (ROWS.astype(complex), ["real numbers", "complex128", "astype"]),
        (ROWS.astype(np.longdouble), ["at most 64 bits", "float128", "astype"]),
        (ROWS.astype(str), ["real numbers", "<U", "astype"]),
        (ROWS.astype(object), ["real numbers", "object", "astype"]),
        (np.full((6, 1), 2**53 + 1), ["2^53", "subtract an offset"]),
        (np.full((6, 1), -(2**53) - 1), ["2^53", "subtract an offset"]),
        (scipy.sparse.csr_matrix(ROWS), ["embeddings is a sparse matrix", "toarray()"]),
        ([[1.0, 2], [3]], ["embeddings", "equally long lists"]),
        ("no/such/file.npy", ["cannot read no/such/file.npy"]),
    ],
)
def test_embeddings_that_are_no_matrix_of_numbers(embeddings: Any, words: list[str]) -> None:
    assert_refused(lambda: evaluate(embeddings, LABELS), words)


@pytest.mark.parametrize("distance", ["cosine", "euclidean", "dot", "cityblock"])
@pytest.mark.parametrize("bad", [NAN, np.inf, -np.inf])
def test_rows_that_are_not_finite_are_named(distance: str, bad: float) -> None:
    rows = ROWS.copy()
    rows[3, 1] = bad
    words = ["embeddings row 3 of 6", "NaN or infinity", "drop those rows"]
    assert_refused(lambda: evaluate(rows, LABELS, distance=distance), words)
    rows[1, 0] = bad
    words = ["embeddings rows 1 and 3 of 6"]
    assert_refused(lambda: evaluate(rows, LABELS, distance=distance), words)
    items = GALLERY.copy()
    items[2] = bad
    assert_refused(
        lambda: evaluate(
            ROWS, LABELS, gallery=items, gallery_labels=GALLERY_LABELS, distance=distance
        ),
        ["gallery row 2 of 4", "NaN or infinity"],
    )


@pytest.mark.parametrize("distance", ["precomputed", "similarity"])
def test_matrices_that_are_not_finite_are_named(distance: str) -> None:
    matrix = np.ones((6, 6))
    matrix[4, 1] = np.inf
    words = [f"the {distance} matrix row 4 of 6", "NaN or infinity"]
    assert_refused(lambda: evaluate(matrix, LABELS, distance=distance), words)


def test_many_bad_rows_are_counted() -> None:
    rows = np.full((40, 2), NAN)
    words = ["rows 0, 1, 2, 3, 4 and 35 more of 40"]
    assert_refused(lambda: evaluate(rows, [0] * 40), words)


def test_bad_rows_far_down_are_found_among_many() -> None:
    """Rows are read a chunk at a time; a bad one in a later chunk is named by its own number."""
    rows = np.ones((40, 2**17), np.float32)
    rows[[2, 38], 5] = np.nan
    assert_refused(lambda: evaluate(rows, [0] * 40), ["rows 2 and 38 of 40"])


def test_tensors_lists_and_small_types_are_as_good_as_arrays() -> None:
    expected = evaluate(ROWS, LABELS)["map"].value
    for rows in (
        ROWS.tolist(),
        ROWS.astype(np.float16),
        ROWS.astype(np.uint8),
        ROWS.astype(np.int64),
        np.asfortranarray(ROWS),
        ROWS[::-1][::-1],
        torch.tensor(ROWS, requires_grad=True),
        torch.tensor(ROWS, dtype=torch.bfloat16),
        pandas.DataFrame(ROWS),
    ):
        assert evaluate(rows, LABELS)["map"].value == expected


def test_hamming_refuses_fractions() -> None:
    words = ["hamming", "embeddings", "float64", "binarise"]
    assert_refused(lambda: evaluate(ROWS, LABELS, distance="hamming"), words)


# --- sides that do not fit ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"labels": [0, 1]}, ["6 rows", "2 labels", "one label for each row"]),
        ({"labels": None}, ["labels are missing", "relevance="]),
        ({"labels": []}, ["labels is empty"]),
        ({"gallery_labels": [0, 1]}, ["gallery_labels", "without a gallery"]),
        ({"gallery": GALLERY}, ["gallery", "without gallery_labels"]),
        (
            {"gallery": GALLERY, "gallery_labels": [0, 1]},
            ["gallery has 4 rows", "2 gallery labels", "one label for each item"],
        ),
        ({"gallery": GALLERY, "gallery_labels": []}, ["gallery_labels is empty"]),
        (
            {"gallery": np.ones((4, 3)), "gallery_labels": GALLERY_LABELS},
            ["the same number of dimensions", "(6, 2)", "(4, 3)"],
        ),
        (
            {"gallery": np.empty((0, 2)), "gallery_labels": []},
            ["gallery is empty", "(0, 2)"],
        ),
        (
            {"gallery": GALLERY, "gallery_labels": GALLERY_LABELS, "distance": "precomputed"},
            ["precomputed", "leave gallery out", "gallery_labels"],
        ),
        ({"distance": "precomputed"}, ["(6, 2)", "6 columns", "square"]),
        (
            {"distance": "similarity", "gallery_labels": [0, 1, 2]},
            ["(6, 2)", "3 columns", "one gallery label for each column"],
        ),
        ({"relevance": np.ones((6, 6))}, ["labels and relevance", "one of the two"]),
        (
            {"labels": None, "relevance": np.ones((6, 6)), "average": "class"},
            ["average='class'", "needs labels"],
        ),
    ],
)
def test_sides_that_do_not_fit(options: dict[str, Any], words: list[str]) -> None:
    labels = options.get("labels", LABELS)
    rest = {name: value for name, value in options.items() if name != "labels"}
    assert_refused(lambda: evaluate(ROWS, labels, **rest), words)


@pytest.mark.parametrize("shape", [(6, 3), (6, 9), (3, 6), (9, 6)])
def test_relevance_of_another_shape(shape: tuple[int, int]) -> None:
    """The message speaks of what was passed, the relevance, and not of labels that were not."""
    for sides in ({}, {"gallery": GALLERY}):
        assert_refused(
            lambda sides=sides: evaluate(ROWS, relevance=np.ones(shape), **sides),
            ["relevance", f"{shape}"],
        )


def test_relevance_says_it_all() -> None:
    """Labels of the gallery alone would be read by nobody: they are refused, not ignored."""
    assert_refused(
        lambda: evaluate(
            ROWS, gallery=GALLERY, gallery_labels=GALLERY_LABELS, relevance=np.ones((6, 4))
        ),
        ["relevance", "gallery_labels"],
    )


# --- labels ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "gallery_labels", "words"),
    [
        (LABELS, ["0", "1", "2", "2"], ["labels holds int", "gallery_labels holds str"]),
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
    assert_refused(lambda: Task([{1}, {2}]), ["labels", "hashable", "int or str"])


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
    assert task.mates.tolist() == [2, 2]


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
    assert task.mates.tolist() == [1]


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
def test_distinct_labels_stay_distinct(values: list[Any]) -> None:
    """Also against a gallery, as a list or as an array: nothing passes through a float."""
    containers = [values * 2, np.array(values * 2, object), np.array(values * 2)]
    if containers[-1].tolist() != values * 2:  # numpy itself made them floats
        containers.pop()
    for labels in containers:
        assert Task(labels).mates.tolist() == [1] * 8
        task = Task(labels, gallery_labels=values)
        assert task.mates.tolist() == [1] * 8
        assert [item for _, item in pairs_of(task)] == [0, 1, 2, 3] * 2


def pairs_of(task: Task) -> list[tuple[int, int]]:
    pairs = task.view.block(np.arange(task.queries)).relevant
    return list(zip(pairs.query.tolist(), pairs.item.tolist(), strict=True))


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

PATHS = [("bird", "owl"), ("bird", "owl"), ("bird", "tit"), ("fish", "cod"), ("fish", "cod")]


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
    assert task.mates.tolist() == [1, 1, 0, 1, 1]
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
    assert task.mates.tolist() == [2, 2, 2, 0]
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


# --- ids and groups -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"query_ids": range(6)}, ["query_ids", "without gallery_ids", "both sides"]),
        ({"gallery_ids": range(4)}, ["gallery_ids", "without query_ids", "both sides"]),
        ({"query_groups": [0] * 6}, ["query_groups", "without gallery_groups", "both sides"]),
        ({"gallery_groups": [0] * 4}, ["gallery_groups", "without query_groups", "both sides"]),
        ({"query_ids": range(5), "gallery_ids": range(4)}, ["query_ids", "(6)", "Got 5"]),
        ({"query_ids": range(6), "gallery_ids": range(5)}, ["gallery_ids", "(4)", "Got 5"]),
        ({"query_groups": [0] * 7, "gallery_groups": [0] * 4}, ["query_groups", "(6)", "Got 7"]),
        ({"query_groups": [0] * 6, "gallery_groups": [0]}, ["gallery_groups", "(4)", "Got 1"]),
        (
            {"query_ids": [0, 1, 2, None, 4, NAN], "gallery_ids": range(4)},
            ["query_ids rows 3 and 5", "None or NaN", "give each row a value"],
        ),
        (
            {"query_groups": [0] * 6, "gallery_groups": [0, 0, None, 0]},
            ["gallery_groups row 2", "None or NaN", "give each row a value"],
        ),
        (
            {"query_ids": range(6), "gallery_ids": list("abcd")},
            ["query_ids holds int", "gallery_ids holds str"],
        ),
        (
            {"query_groups": [0] * 6, "gallery_groups": list("abcd")},
            ["query_groups holds int", "gallery_groups holds str"],
        ),
        (
            {"query_ids": np.zeros((6, 2)), "gallery_ids": range(4)},
            ["query_ids", "one value a row", "(6, 2)"],
        ),
        (
            {"query_groups": np.zeros((6, 2)), "gallery_groups": range(4)},
            ["query_groups", "one value a row", "(6, 2)"],
        ),
    ],
)
def test_ids_and_groups_that_do_not_fit(options: dict[str, Any], words: list[str]) -> None:
    assert_refused(lambda: with_gallery(**options), words)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"gallery_ids": range(6)}, ["gallery_ids", "without a gallery", "query_ids"]),
        ({"gallery_groups": [0] * 6}, ["gallery_groups", "without a gallery", "query_groups"]),
        ({"query_ids": range(5)}, ["query_ids", "(6)", "Got 5"]),
        ({"query_groups": [0] * 5}, ["query_groups", "(6)", "Got 5"]),
        ({"query_ids": [0, None, 2, 3, 4, 5]}, ["query_ids row 1", "None or NaN"]),
        ({"query_groups": [0, None, 2, 3, 4, 5]}, ["query_groups row 1", "None or NaN"]),
    ],
)
def test_one_side_describes_both_in_leave_one_out(
    options: dict[str, Any], words: list[str]
) -> None:
    assert_refused(lambda: evaluate(ROWS, LABELS, **options), words)


def test_rows_that_share_an_id_never_meet() -> None:
    labels, ids = [0, 0, 0, 1], ["p", "p", "q", "q"]
    block = Task(labels, ids=ids).view.block(np.arange(4))
    assert pairs_of(Task(labels, ids=ids)) == [(0, 2), (1, 2), (2, 0), (2, 1)]
    excluded = set(zip(block.excluded.query.tolist(), block.excluded.item.tolist(), strict=True))
    assert excluded == {(0, 0), (0, 1), (1, 0), (1, 1), (2, 2), (2, 3), (3, 2), (3, 3)}
    assert len(block.excluded) == len(excluded)


def test_strangers_of_the_own_group_stay() -> None:
    """Group junk is the same label and the same group; another label's item is a fair negative."""
    task = Task([0], groups=["x"], gallery_labels=[0, 0, 1], gallery_groups=["x", "y", "x"])
    block = task.view.block(np.arange(1))
    assert block.relevant.item.tolist() == [1]
    assert block.excluded.item.tolist() == [0]


# --- queries in the gallery -----------------------------------------------------------------------


def test_queries_repeated_in_the_gallery() -> None:
    again: dict[str, Any] = {"gallery": ROWS, "gallery_labels": LABELS}
    words = ["the gallery contains the queries", "leave it out or pass ids", "query_ids"]
    assert_refused(lambda: evaluate(ROWS, LABELS, **again), words)
    more: dict[str, Any] = {
        "gallery": np.concatenate([GALLERY, ROWS[::-1]]),
        "gallery_labels": GALLERY_LABELS + LABELS[::-1],
    }
    assert_refused(lambda: evaluate(ROWS, LABELS, **more), words)
    assert_refused(lambda: evaluate(ROWS * 3, LABELS, **more), words)  # one direction, one row

    alone = evaluate(ROWS, LABELS)["map"].per_query
    with_ids = evaluate(ROWS, LABELS, **again, query_ids=range(6), gallery_ids=range(6))
    np.testing.assert_array_equal(with_ids["map"].per_query.lower, alone.lower)
    masked = evaluate(ROWS, LABELS, **again, junk=np.eye(6, dtype=bool))
    np.testing.assert_array_equal(masked["map"].per_query.lower, alone.lower)


def test_queries_that_only_resemble_gallery_rows() -> None:
    """Another label, or one query that is not there: no self-match is meant."""
    rows = ROWS.copy()
    rows[0, 0] += 1e-3
    results = [
        evaluate(ROWS, LABELS, gallery=ROWS, gallery_labels=[1, 1, 2, 2, 0, 0]),
        evaluate(ROWS, LABELS, gallery=rows, gallery_labels=LABELS),
        evaluate(ROWS[[0, 0]], [0, 0], gallery=ROWS, gallery_labels=LABELS),  # once there
    ]
    assert [result["map"].n for result in results] == [6, 6, 2]


# --- masks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["junk", "relevance"])
@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (np.zeros((6, 3)), ["(queries, gallery)", "(6, 4)", "(6, 3)"]),
        (np.zeros((4, 6)), ["(queries, gallery)", "(4, 6)"]),
        (np.zeros(6), ["(queries, gallery)", "(6,)"]),
        (np.zeros((6, 4, 1)), ["(queries, gallery)", "(6, 4, 1)"]),
        (np.zeros((6, 4), object), ["bool or numbers", "object"]),
        (np.full((6, 4), "x"), ["bool or numbers", "<U1"]),
        (np.full((6, 4), 1j), ["bool or numbers", "complex128"]),
        (np.full((6, 4), NAN), ["NaN or infinity", "use 0"]),
        (np.full((6, 4), np.inf), ["NaN or infinity", "use 0"]),
        (np.full((6, 4), -1), ["negative", "use 0"]),
        (np.full((6, 4), -0.5), ["negative", "use 0"]),
        (scipy.sparse.csr_matrix((6, 3)), ["(queries, gallery)", "(6, 3)"]),
        (scipy.sparse.csr_matrix(([-1.0], ([0], [0])), (6, 4)), ["negative", "use 0"]),
        (scipy.sparse.csr_matrix(([NAN], ([0], [0])), (6, 4)), ["NaN or infinity", "use 0"]),
    ],
)
def test_masks_that_are_none(name: str, mask: Any, words: list[str]) -> None:
    if name == "junk":
        assert_refused(lambda: with_gallery(junk=mask), [name, *words])
    else:
        words = [word for word in words if not word.startswith("(")]
        assert_refused(lambda: evaluate(ROWS, gallery=GALLERY, relevance=mask), [name, *words])


JUNK = np.zeros((6, 4), bool)
JUNK[0, 0] = JUNK[2, [0, 1, 3]] = JUNK[5, 3] = True


def repeated_entries(mask: np.ndarray) -> Any:
    rows, columns = np.nonzero(mask)
    twice = np.concatenate([columns, columns])
    ones = np.ones(len(twice), int)
    return scipy.sparse.coo_matrix((ones, (np.concatenate([rows, rows]), twice)), mask.shape)


@pytest.mark.parametrize(
    "kind",
    [
        np.asarray,
        np.asfortranarray,
        lambda mask: mask.astype(float) * 0.5,
        lambda mask: mask.astype(np.uint8) * 255,
        lambda mask: mask.tolist(),
        torch.tensor,
        scipy.sparse.csr_matrix,
        scipy.sparse.csc_array,
        scipy.sparse.coo_array,
        scipy.sparse.lil_matrix,
        lambda mask: scipy.sparse.csr_matrix(mask.astype(float)),
        repeated_entries,
    ],
)
def test_masks_of_any_kind(kind: Callable[[np.ndarray], Any]) -> None:
    expected = with_gallery(junk=JUNK)
    assert expected["map"].value != with_gallery()["map"].value
    result = with_gallery(junk=kind(JUNK))
    np.testing.assert_array_equal(result["map"].per_query.lower, expected["map"].per_query.lower)
    relevant = np.equal.outer(LABELS, GALLERY_LABELS)
    judged = evaluate(ROWS, gallery=GALLERY, relevance=kind(relevant), junk=kind(JUNK))
    np.testing.assert_array_equal(judged["map"].per_query.lower, expected["map"].per_query.lower)


def test_stored_zeros_of_a_sparse_mask_are_no_pairs() -> None:
    mask = scipy.sparse.csr_matrix((np.zeros(2), ([0, 1], [0, 1])), (6, 4))
    assert mask.nnz == 2
    assert (
        Task(LABELS, gallery_labels=GALLERY_LABELS, junk=mask).mates.tolist() == [1] * 4 + [2] * 2
    )


def test_a_mask_is_not_changed_by_its_evaluation() -> None:
    mask = scipy.sparse.csr_matrix((np.zeros(2), ([0, 1], [0, 1])), (6, 4))
    with_gallery(junk=mask)
    assert mask.nnz == 2


# --- junk labels ----------------------------------------------------------------------------------


def test_junk_labels_leave_the_gallery() -> None:
    task = Task(LABELS, gallery_labels=GALLERY_LABELS, junk_labels=[2])
    assert (task.items, task.gallery_size) == (2, 4)
    assert task.mates.tolist() == [1, 1, 1, 1, 0, 0]
    assert Task(LABELS, gallery_labels=GALLERY_LABELS, junk_labels=[17]).items == 4
    assert Task(LABELS, gallery_labels=GALLERY_LABELS, junk_labels=np.array([2])).items == 2
    assert Task(PATHS, junk_labels=["owl"]).mates.tolist() == [0, 0, 0, 1, 1]


@pytest.mark.parametrize(
    ("labels", "junk_labels", "words"),
    [
        ([0, 0, 1, 1], ["0"], ["junk label '0'", "str", "int"]),
        (["0", "0", "1", "1"], [0], ["junk label 0", "int", "str"]),
        ([0, 0, 1, 1], [0, 1], ["junk_labels", "every gallery item"]),
        (["junk", "junk", "a", "a"], "junk", ["junk_labels", "'junk'"]),
        ([0, 0, 1, 1], 0, ["junk_labels", "0"]),
    ],
)
def test_junk_labels_that_cannot_be(labels: Any, junk_labels: Any, words: list[str]) -> None:
    assert_refused(lambda: Task(labels, junk_labels=junk_labels), words)


def test_junk_labels_need_labels() -> None:
    words = ["junk_labels needs labels", "junk mask"]
    assert_refused(lambda: Task(None, relevance=np.ones((2, 3)), junk_labels=[0]), words)


# --- no-mate queries ------------------------------------------------------------------------------


def test_the_reasons_for_having_no_mate() -> None:
    labels = [0, 0, 1, 2, 2, 3, 3]
    task = Task(labels, groups=[0, 1, 0, 0, 0, 0, 1], junk_labels=[3])
    assert task.mates.tolist() == [1, 1, 0, 0, 0, 0, 0]
    assert task.no_mate_reason.tolist() == [-1, -1, 0, 1, 1, 1, 1]
    assert task.no_mate_counts() == {"singleton": 1, "all mates junk": 4}

    task = Task(
        [0, 1, 2, 3],
        ids=[10, 11, 12, 13],
        gallery_labels=[0, 1, 2, 2],
        gallery_ids=[20, 11, 22, 23],
        junk=[[0] * 4, [0] * 4, [0, 0, 1, 1], [0] * 4],
    )
    assert task.mates.tolist() == [1, 0, 0, 0]
    assert task.no_mate_counts() == {"singleton": 1, "all mates junk": 1, "not in gallery": 1}


def test_the_reasons_under_relevance() -> None:
    relevance = [[1, 0], [0, 0], [0, 1]]
    task = Task(None, relevance=relevance, ids=[1, 2, 3], gallery_ids=[1, 9])
    assert task.no_mate_counts() == {"singleton": 1, "not in gallery": 1}
    task = Task(None, relevance=relevance, junk=[[1, 1], [1, 1], [0, 0]])
    assert task.no_mate_counts() == {"all mates junk": 1, "not in gallery": 1}


def test_no_mate_queries_are_refused_with_numbers_by_reason() -> None:
    labels, groups = [0, 0, 1, 2, 2], [0, 0, 0, 0, 1]
    assert_refused(
        lambda: evaluate(ROWS[:5], labels, query_groups=groups, no_mate="error"),
        [
            "3 of 5 queries have no mate",
            "1 singleton",
            "2 all mates junk",
            "share the query's group",
            "query_groups",
            "rows 0, 1 and 2",
            "no_mate='report'",
        ],
    )
    message = refusal(lambda: Task([0, 5], gallery_labels=[0], no_mate="error"))
    assert "1 of 2 queries have no mate" in message
    assert "1 not in gallery" in message
    assert "group" not in message
    assert Task([0, 0], no_mate="error").mates.tolist() == [1, 1]


def test_groups_are_not_blamed_for_other_junk() -> None:
    """Every mate here has another group than its query; the junk label is what removes them."""
    message = refusal(
        lambda: Task([0, 0, 1, 1], groups=[0, 1, 0, 1], junk_labels=[1], no_mate="error")
    )
    assert "2 all mates junk" in message
    assert "share the query's group" not in message


def test_no_mate_queries_count_as_zero_on_request() -> None:
    rows = [[1.0, 0], [2, 0.5], [0, 1]]
    reported = evaluate(rows, [0, 0, 1])["hit@1"]
    zero = evaluate(rows, [0, 0, 1], no_mate="zero")["hit@1"]
    assert (reported.n, zero.n) == (2, 3)
    assert (reported.value, zero.value) == (1.0, 2 / 3)
    assert np.isnan(reported.per_query.lower[2])
    assert zero.per_query.lower[2] == 0.0


# --- options --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("distance", "manhattan", ["cosine, euclidean", "'manhattan'"]),
        ("distance", None, ["cosine, euclidean", "None"]),
        ("average", "macro", ["query, class", "'macro'"]),
        ("no_mate", "ignore", ["report, zero, error", "'ignore'"]),
        ("unlabelled", "ignore", ["error, distractor", "'ignore'"]),
        ("device", "tpu", ["cpu", "reference", "'tpu'"]),
        ("threads", 0, ["int >= 1", "0"]),
        ("threads", -2, ["int >= 1", "-2"]),
        ("threads", 1.5, ["int >= 1", "1.5"]),
        ("metrics", [], ["metrics is empty"]),
        ("metrics", ["map", 5], ["metric is a string", "5"]),
        ("metrics", 5, ["metric", "5"]),
        ("metrics", "maq", ["'maq'", "did you mean 'map'"]),
    ],
)
def test_options_that_do_not_exist(option: str, value: Any, words: list[str]) -> None:
    assert_refused(lambda: evaluate(ROWS, LABELS, **{option: value}), [option[:6], *words])


# --- the digest -----------------------------------------------------------------------------------

TASK: dict[str, Any] = {
    "labels": ["a", "a", "b", "b"],
    "ids": [1, 2, 3, 4],
    "groups": ["x", "y", "x", "y"],
}


def test_the_digest_does_not_see_the_order_of_rows() -> None:
    order = [2, 0, 3, 1]
    shuffled = {name: [values[i] for i in order] for name, values in TASK.items()}
    assert Task(**shuffled).digest == Task(**TASK).digest

    gallery = {f"gallery_{name}": values for name, values in TASK.items()}
    mixed = {f"gallery_{name}": values for name, values in shuffled.items()}
    mask = np.arange(16).reshape(4, 4) % 3 == 0
    expected = Task(**TASK, **gallery, junk=mask).digest
    assert Task(**TASK, **mixed, junk=mask[:, order]).digest == expected
    assert Task(**shuffled, **gallery, junk=mask[order]).digest == expected
    assert Task(**TASK, **mixed, junk=mask).digest != expected
    assert Task(**TASK, **gallery, junk=scipy.sparse.csr_matrix(mask)).digest == expected


def test_the_digest_sees_everything_else() -> None:
    relevance = np.eye(4, dtype=bool)
    gallery = {f"gallery_{name}": values for name, values in TASK.items()}
    tasks = [
        Task(**TASK),
        Task(TASK["labels"]),
        Task(TASK["labels"], ids=TASK["ids"]),
        Task(TASK["labels"], groups=TASK["groups"]),
        Task(**TASK | {"ids": [1, 2, 3, 5]}),
        Task(**TASK | {"ids": ["1", "2", "3", "4"]}),
        Task(**TASK | {"labels": ["a", "a", "b", "c"]}),
        Task(**TASK | {"labels": [1, 1, 2, 2]}),
        Task(**TASK | {"labels": ["1", "1", "2", "2"]}),
        Task(**TASK | {"labels": [("a", 1), ("a", 1), ("b", 2), ("b", 2)]}),
        Task(**TASK | {"groups": ["x", "y", "x", "x"]}),
        Task(**TASK, junk_labels=["b"]),
        Task(**TASK, junk=relevance),
        Task(**TASK, **gallery),
        Task(
            **TASK, **gallery | {"gallery_labels": ["a", "a", "b", None]}, unlabelled="distractor"
        ),
        Task(None, relevance=relevance),
        Task(None, relevance=relevance * 2),
        Task(None, relevance=relevance[::-1]),
    ]
    assert len({task.digest for task in tasks}) == len(tasks)


def test_the_digest_does_not_see_how_values_are_held() -> None:
    expected = Task([1, 1, 2, 2], junk_labels=[2]).digest
    for labels in (
        np.array([1, 1, 2, 2], np.int16),
        np.array([1, 1, 2, 2], np.uint64),
        np.array([1, 1, 2, 2], object),
        [np.int64(1), np.int64(1), np.int64(2), np.int64(2)],
        np.array([np.int64(1), np.int64(1), np.int64(2), np.int64(2)], object),
        torch.tensor([1, 1, 2, 2]),
        pandas.Series([1, 1, 2, 2]),
    ):
        assert Task(labels, junk_labels=[2]).digest == expected
    for junk_labels in ([np.int64(2)], np.array([2]), (2,), {2}, [2, 2]):
        assert Task([1, 1, 2, 2], junk_labels=junk_labels).digest == expected
    expected = Task(["a", "a", "b"]).digest
    for labels in (np.array(["a", "a", "b"]), pandas.Series(["a", "a", "b"]), ("a", "a", "b")):
        assert Task(labels).digest == expected
