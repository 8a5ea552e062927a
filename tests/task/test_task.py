"""What users pass for a task: sides, ids, groups, junk and options; and its digest."""

from __future__ import annotations

import warnings
from hashlib import blake2b
from typing import Any

import numpy as np
import pandas
import pytest
import scipy.sparse
import torch

from tests.refusals import assert_refused, refusal
from tests.task.small import (
    GALLERY,
    GALLERY_LABELS,
    LABELS,
    NAN,
    PATHS,
    ROWS,
    evaluate,
    pairs_of,
    with_gallery,
)
from truerank import Task, TruerankWarning
from truerank.task.task import TaskRules


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
            ["query_ids", "one value per row", "(6, 2)"],
        ),
        (
            {"query_groups": np.zeros((6, 2)), "gallery_groups": range(4)},
            ["query_groups", "one value per row", "(6, 2)"],
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
    """Another label: no self-match is meant; nor can a junk rule's mate be one."""
    result = evaluate(ROWS, LABELS, gallery=ROWS, gallery_labels=[1, 1, 2, 2, 0, 0])
    assert result["map"].n == 6
    cameras = [1, 2] * 3
    result = evaluate(
        ROWS, LABELS, query_groups=cameras,
        gallery=ROWS, gallery_labels=LABELS, gallery_groups=cameras,
    )  # fmt: skip
    assert result["map"].n == 6
    words = ["the gallery contains the queries"]
    other = {"query_groups": cameras, "gallery_groups": cameras[::-1]}
    again: dict[str, Any] = {"gallery": ROWS, "gallery_labels": LABELS}
    assert_refused(lambda: evaluate(ROWS, LABELS, **again, **other), words)


def test_some_queries_repeated_in_the_gallery() -> None:
    """Half of them are refused, fewer are counted; codes of few bits are often equal."""
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(40, 4)).astype(np.float32), list(range(10)) * 4
    queries, wanted = rows[:20], labels[:20]

    def gallery(shared: int) -> dict[str, Any]:
        return {"gallery": rows[20 - shared :], "gallery_labels": labels[20 - shared :]}

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluate(queries, wanted, **gallery(0))
    with pytest.warns(TruerankWarning, match=r"contains 9 of 20 queries, bit for bit") as caught:
        evaluate(queries, wanted, **gallery(9))
    assert len(caught) == 1
    words = ["the gallery contains 10 of 20 queries", "pass ids", "query_ids"]
    assert_refused(lambda: evaluate(queries, wanted, **gallery(10)), words)
    ids = {"query_ids": range(20), "gallery_ids": range(10, 40)}
    assert evaluate(queries, wanted, **gallery(10), **ids)["map"].n == 20
    codes = rows > 0
    with pytest.warns(TruerankWarning, match=r"of 20 queries, bit for bit"):
        evaluate(
            codes[:20], wanted, gallery=codes[20:], gallery_labels=labels[20:], distance="hamming"
        )


# --- junk labels ----------------------------------------------------------------------------------


def test_junk_labels_leave_the_gallery() -> None:
    task = Task(LABELS, gallery_labels=GALLERY_LABELS, junk_labels=[2])
    assert (task.items, task.gallery_size) == (2, 4)
    assert task.n_relevant.tolist() == [1, 1, 1, 1, 0, 0]
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
    assert task.n_relevant.tolist() == [1, 1, 0, 0, 0, 0, 0]
    assert task.unmated_reason.tolist() == [-1, -1, 0, 1, 1, 1, 1]
    assert task.unmated_counts() == {"singleton": 1, "all mates junk": 4}

    task = Task(
        [0, 1, 2, 3],
        ids=[10, 11, 12, 13],
        gallery_labels=[0, 1, 2, 2],
        gallery_ids=[20, 11, 22, 23],
        junk=[[0] * 4, [0] * 4, [0, 0, 1, 1], [0] * 4],
    )
    assert task.n_relevant.tolist() == [1, 0, 0, 0]
    assert task.unmated_counts() == {"singleton": 1, "all mates junk": 1, "not in gallery": 1}


def test_the_reasons_under_relevance() -> None:
    relevance = [[1, 0], [0, 0], [0, 1]]
    task = Task(None, relevance=relevance, ids=[1, 2, 3], gallery_ids=[1, 9])
    assert task.unmated_counts() == {"singleton": 1, "unjudged": 1}
    task = Task(None, relevance=relevance, junk=[[1, 1], [1, 1], [0, 0]])
    assert task.unmated_counts() == {"all mates junk": 1, "unjudged": 1}


def test_no_mate_queries_are_refused_with_numbers_by_reason() -> None:
    labels, groups = [0, 0, 1, 2, 2], [0, 0, 0, 0, 1]
    assert_refused(
        lambda: evaluate(ROWS[:5], labels, query_groups=groups, unmated="error"),
        [
            "3 of 5 queries have no relevant item",
            "1 singleton",
            "2 all relevant items junk",
            "of the query's group are junk",
            "query_groups",
            "rows 0, 1 and 2",
            "unmated='report'",
        ],
    )
    message = refusal(lambda: Task([0, 5], gallery_labels=[0], unmated="error"))
    assert "1 of 2 queries have no relevant item" in message
    assert "1 not in gallery" in message
    assert "group" not in message
    assert Task([0, 0], unmated="error").mates.tolist() == [1, 1]


def test_groups_are_not_blamed_for_other_junk() -> None:
    """Every mate here has another group than its query; the junk label is what removes them."""
    message = refusal(
        lambda: Task([0, 0, 1, 1], groups=[0, 1, 0, 1], junk_labels=[1], unmated="error")
    )
    assert "2 all relevant items junk" in message
    assert "of the query's group" not in message


def test_no_mate_queries_count_as_zero_on_request() -> None:
    rows = [[1.0, 0], [2, 0.5], [0, 1]]
    reported = evaluate(rows, [0, 0, 1])["hit@1"]
    zero = evaluate(rows, [0, 0, 1], unmated="zero")["hit@1"]
    assert (reported.n, zero.n) == (2, 3)
    assert (reported.value, zero.value) == (1.0, 2 / 3)
    assert np.isnan(reported.per_query.lower[2])
    assert zero.per_query.lower[2] == 0.0


# --- options --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("distance", "manhattan", ["cosine, euclidean", "'manhattan'"]),
        ("average", "macro", ["query, class", "'macro'"]),
        ("unmated", "ignore", ["report, zero, error", "'ignore'"]),
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
        Task(**TASK | {"ids": ["01", "2", "3", "4"]}),
        Task(**TASK | {"labels": ["a", "a", "b", "c"]}),
        Task(**TASK | {"labels": [1, 1, 2, 2]}),
        Task(**TASK | {"labels": ["1.0", "1.0", "2", "2"]}),
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


def test_integers_and_the_text_that_spells_them_have_one_digest() -> None:
    """But two commitments: what is held back is what the organiser gave, as it stands."""
    task = {"labels": [3, 3, -10], "ids": [7, 8, 9], "groups": [0, 1, 1]}
    gallery = {f"gallery_{name}": [9, 3, -10] for name in task}
    given = task | gallery | {"junk_labels": [9]}
    text = {name: [str(value) for value in values] for name, values in given.items()}
    mask = np.eye(3, dtype=bool)
    for column in ("labels", "ids", "groups"):
        as_text = {name: values for name, values in text.items() if column in name}
        if column == "labels":
            as_text["junk_labels"] = ["9"]
        one, other = Task(**given, junk=mask), Task(**given | as_text, junk=mask)
        assert one.digest == other.digest, column
        assert one.committed != other.committed, column
    one, other = TaskRules([2, 10, 2, 10]), TaskRules(["2", "10", "2", "10"])
    assert one.query_codes.tolist() == other.query_codes.tolist()
    assert one.digest == other.digest


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


@pytest.mark.parametrize(
    "labels",
    [[3, 11, 2, 11], [-1, 5, 5], ["a", "b|c", "b|c", "it's"], ["1", "2", "1"], [True, False]],
)
def test_records_of_labels_alone_are_those_of_tuples(labels: list[Any]) -> None:
    task = TaskRules(labels)
    values = task.named_levels.finest.values
    wanted = [repr(("", repr(values[code]))) for code in task.query_codes.tolist()]
    assert dict(task.records()) == {"both": wanted}
    counted = {name: dict(records) for name, records in task.counted_records()}
    assert counted == {"both": {text: wanted.count(text) for text in wanted}}


@pytest.mark.parametrize(
    "labels",
    [
        [3, 11, 2, 11],
        [-1, 5, 5],
        [True, False, True],
        [1, 0, 1],
        [1.0, 0.0, 1.0],
        ["01", "00", "01"],
    ],
)
@pytest.mark.parametrize("times", [1, 2])
def test_a_remembered_digest_is_that_of_all_records(labels: list[Any], times: int) -> None:
    for _ in range(times):
        task = TaskRules(labels)
        lines = sorted(
            repr(("", repr(task.named_levels.finest.values[code])))
            for code in task.query_codes.tolist()
        )
        text = "side both\n" + "".join(f"{line}\n" for line in lines) + "junk labels\n"
        assert task.digest == blake2b(text.encode(), digest_size=16).hexdigest()


def test_what_changes_later_does_not_change_the_digest() -> None:
    """It is computed when it is asked for."""
    labels, mask = np.array([1, 1, 2, 2]), np.arange(16).reshape(4, 4) % 3 == 0
    task, junk = Task(labels), Task(labels, junk=mask)
    wanted, masked = Task(labels.copy()).digest, Task(labels.copy(), junk=mask.copy()).digest
    labels[0], mask[0] = 7, False
    assert task.digest == wanted
    assert junk.digest == masked


def test_the_digest_of_long_labels_and_of_many_rows() -> None:
    """As of the whole text at once: a line for each row, in order."""
    long = "x" * 100_000
    for labels in ([long, long, "y"] * 3, [1] * 70_000 + [2] * 3, [3, 3]):
        lines = "".join(sorted(repr(("", repr(label))) + "\n" for label in labels))
        text = f"side both\n{lines}junk labels\n"
        assert Task(labels).digest == blake2b(text.encode(), digest_size=16).hexdigest()


def test_numbered_rows_change_who_is_named_and_nothing_else() -> None:
    plain = TaskRules([0, 0, 1, 1, 2])
    numbered = plain.numbered()
    assert plain.id_names is None
    assert numbered.id_names is not None
    assert numbered.id_names.values == [0, 1, 2, 3, 4]
    assert numbered.mates.tolist() == plain.mates.tolist()
    assert numbered.digest == TaskRules([0, 0, 1, 1, 2], ids=range(5)).digest
    assert numbered.numbered() is numbered
    apart = TaskRules([0, 1], gallery_labels=[0, 1])
    assert apart.numbered() is apart
