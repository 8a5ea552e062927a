"""Dataset: its checks, its subsets, and the task it hands to evaluate, against plain loops."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import truerank
from truerank._util.errors import InputError
from truerank.datasets.base import Dataset


def small(**changes) -> Dataset:
    arguments = {
        "name": "small",
        "images": np.arange(6, dtype=np.uint8).reshape(6, 1, 1),
        "labels": np.array([list(path) for path in ("xa", "xa", "xb", "yc", "yc", "yd")]),
        "level_names": ("coarse", "fine"),
        "ids": np.arange(6),
        "groups": np.array([1, 2, 1, 1, 2, 2]),
        "splits": {"train": [0, 1], "query": [2, 3], "gallery": [5, 4]},
    }
    return Dataset(**(arguments | changes))


def test_repr_counts():
    assert repr(small()) == (
        "Dataset('small', 6 images, coarse: 2, fine: 4, train: 2, query: 2, gallery: 2)"
    )


def test_repr_of_nothing_and_of_missing_labels():
    assert repr(small().subset([])) == "Dataset('small', 0 images, coarse: 0, fine: 0)"
    labels = np.array(["a", None, "a"], object)
    data = Dataset("holes", np.zeros((3, 1, 1), np.uint8), labels, ("letter",))
    assert repr(data) == "Dataset('holes', 3 images, letter: 2)"


def test_is_frozen_and_pickles():
    data = small()
    with pytest.raises(AttributeError):
        data.name = "other"
    with pytest.raises(TypeError):
        data.splits["train"] = []
    again = pickle.loads(pickle.dumps(data))
    assert repr(again) == repr(data)
    assert np.array_equal(again.images[3], data.images[3])
    assert np.array_equal(again.labels, data.labels)


def test_lists_and_masks_will_do():
    data = Dataset("lists", np.zeros((2, 1, 1), np.uint8), ["a", "b"], ["letter"],
                   splits={"test": [False, True]})  # fmt: skip
    assert data.labels.tolist() == ["a", "b"]
    assert data.splits["test"].tolist() == [1]
    assert data.ids is None
    assert data.fine_labels.tolist() == ["a", "b"]


def test_subset_by_split():
    data = small(junk_labels=("b",), licence="MIT", citation="us")
    part = data.subset("gallery")
    assert [int(image[0, 0, 0]) for image in part.images] == [5, 4]
    assert part.labels.tolist() == [["y", "d"], ["y", "c"]]
    assert part.ids.tolist() == [5, 4]
    assert part.groups.tolist() == [2, 2]
    assert {name: rows.tolist() for name, rows in part.splits.items()} == {"gallery": [0, 1]}
    assert (part.junk_labels, part.licence, part.citation) == (("b",), "MIT", "us")


@given(st.lists(st.integers(0, 5), unique=True), st.data())
def test_subset_of_a_subset(rows, draw):
    data = small()
    part = data.subset(rows)
    inner = draw.draw(st.lists(st.sampled_from(range(len(rows))), unique=True) if rows
                      else st.just([]))  # fmt: skip
    twice = part.subset(inner)
    kept = [rows[i] for i in inner]
    assert [int(image[0, 0, 0]) for image in twice.images] == kept
    assert twice.ids.tolist() == kept
    for name, members in data.splits.items():
        expected = [kept.index(row) for row in members.tolist() if row in kept]
        assert twice.splits.get(name, np.array([])).tolist() == expected


def test_task_arguments_of_query_and_gallery():
    arguments = small(junk_labels=("d",)).task_arguments()
    assert {side: {k: v.tolist() for k, v in arguments.pop(side).items()}
            for side in ("labels", "gallery_labels")} == {
        "labels": {"coarse": ["x", "y"], "fine": ["b", "c"]},
        "gallery_labels": {"coarse": ["y", "y"], "fine": ["d", "c"]},
    }  # fmt: skip
    assert arguments.pop("junk_labels") == ("d",)
    assert {name: value.tolist() for name, value in arguments.items()} == {
        "query_ids": [2, 3], "gallery_ids": [5, 4], "query_groups": [1, 1],
        "gallery_groups": [2, 2],
    }  # fmt: skip


def test_task_arguments_of_one_split():
    data = small(labels=np.arange(6) // 2, level_names=("pair",), ids=None, groups=None)
    assert data.task_arguments("train")["labels"].tolist() == [0, 0]
    test = small(splits={"train": [0, 1], "test": [4, 3]}, ids=None, groups=None)
    assert test.task_arguments()["labels"]["fine"].tolist() == ["c", "c"]
    assert set(test.task_arguments()) == {"labels"}
    none = small(splits={}, ids=None, groups=None)
    assert none.task_arguments()["labels"]["fine"].tolist() == list("aabccd")


def test_evaluate_takes_them():
    data = small()
    arguments = data.task_arguments()
    result = truerank.evaluate(
        [[1.0, 0], [0, 1]], gallery=[[1.0, 0], [0, 1]], metrics=["precision@1"], **arguments
    )
    assert result["precision@1"].n == 1, "b is not in the gallery"
    assert result["precision@1"].value == 1.0
    assert data.task().digest == truerank.Task(
        {"coarse": ["x", "y"], "fine": ["b", "c"]}, ids=[2, 3], groups=[1, 1],
        gallery_labels={"coarse": ["y", "y"], "fine": ["d", "c"]}, gallery_ids=[5, 4],
        gallery_groups=[2, 2],
    ).digest  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": ["a"]}, r"shape \(N,\) or \(N, L\) for N = 6 images\. Got shape \(1,\)"),
        ({"labels": np.zeros((6, 2, 2))}, r"Got shape \(6, 2, 2\)"),
        ({"labels": np.zeros((6, 0))}, r"Got shape \(6, 0\)"),
        ({"level_names": ("one",)}, r"must be 2 different names\. Got \('one',\)"),
        ({"level_names": ("one", "one")}, "2 different names"),
        ({"ids": [1, 2]}, r"ids of small must have one value for each of 6 images"),
        ({"groups": np.zeros((6, 2))}, r"groups of small .* Got shape \(6, 2\)"),
        ({"splits": {"test": [6]}}, r"rows of 'test' must be between 0 and 5\. Got 6"),
        ({"splits": {"test": [-1, 2]}}, r"Got -1 instead"),
        ({"splits": {"test": [1, 1]}}, "name an image twice"),
        ({"splits": {"test": [0.5]}}, "must be a list of row numbers or a mask of 6 bools"),
        ({"splits": {"test": [True, False]}}, "Got bool of shape"),
        ({"images": 3}, "must be a sequence"),
    ],
)
def test_what_does_not_fit_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        small(**changes)


def test_unknown_split():
    with pytest.raises(InputError, match="small has no split 'val'; its splits: train, query"):
        small().subset("val")
    with pytest.raises(InputError, match="its splits: none"):
        small(splits={}).task_arguments("test")
