"""The split: halves and folds share no class, and the same data give the same rows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from truerank.benchmark.sealed import check_images, extract
from truerank.benchmark.splits import check_unchanged, make_splits, write_splits
from truerank.datasets.base import Dataset
from truerank.datasets.images import ImageFiles, ImageRows
from truerank.errors import InputError


def data(classes: int = 12, each: int = 4, **more: object) -> Dataset:
    labels = np.repeat(np.arange(classes), each)
    pixels = np.arange(classes * each * 4, dtype=np.uint8).reshape(-1, 2, 2)
    return Dataset("small", pixels, labels, ("class",), **more)  # type: ignore[arg-type]


def test_the_first_half_of_the_classes_is_searched_on_in_quarters() -> None:
    """As the paper has it: classes 0 to 12.5 % make up the first fold, and so on."""
    splits = make_splits(data(16), "classes", 4)
    labels = data(16).labels
    assert set(labels[splits.search].tolist()) == set(range(8))
    assert set(labels[splits.test].tolist()) == set(range(8, 16))
    folds = [sorted(set(labels[splits.search][fold].tolist())) for fold in splits.folds]
    assert folds == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_a_data_sets_own_split_is_used() -> None:
    rows = np.arange(48)
    own = data(
        splits={"train": rows >= 24, "query": rows < 8, "gallery": (rows >= 8) & (rows < 24)}
    )
    splits = make_splits(own, "classes", 2)
    assert splits.search.tolist() == list(range(24, 48))
    test = extract(own, splits.test)
    assert {name: part.tolist() for name, part in test.splits.items()} == {
        "query": list(range(8)), "gallery": list(range(8, 24)),
    }  # fmt: skip


def test_classes_in_both_halves_are_refused() -> None:
    rows = np.arange(48)
    with pytest.raises(InputError, match=r"data.split: images is for such a data set"):
        make_splits(data(splits={"train": rows < 26, "test": rows >= 26}), "classes", 2)


def test_by_images_every_class_is_in_both_halves() -> None:
    splits = make_splits(data(6, 5), "images", 2)
    labels = data(6, 5).labels
    assert np.bincount(labels[splits.search]).tolist() == [3] * 6
    assert np.bincount(labels[splits.test]).tolist() == [2] * 6


def test_by_a_file_of_ids(tmp_path: Path) -> None:
    names = [f"i{row}" for row in range(48)]
    path = tmp_path / "split.json"
    path.write_text(json.dumps({"search": names[:32], "test": names[40:]}))
    splits = make_splits(data(ids=names), str(path), 2)
    assert (len(splits.search), splits.test.tolist()) == (32, list(range(40, 48)))
    for broken, sentence in (
        ({"search": names, "test": names}, "in both 'search' and 'test'"),
        ({"search": ["x"], "test": names}, "names 'x', which the data set does not have"),
        ({"search": names}, "must hold the lists of ids"),
    ):
        path.write_text(json.dumps(broken))
        with pytest.raises(InputError, match=sentence):
            make_splits(data(ids=names), str(path), 2)
    with pytest.raises(InputError, match="must be classes, stratified, images or a JSON file"):
        make_splits(data(), "halves", 2)


def test_other_data_are_noticed(tmp_path: Path) -> None:
    splits = make_splits(data(), "classes", 2)
    write_splits(splits, tmp_path / "splits.json")
    check_unchanged(make_splits(data(), "classes", 2), tmp_path / "splits.json")
    for other in (make_splits(data(13), "classes", 2), make_splits(data(), "images", 2)):
        with pytest.raises(InputError, match="the data are not those"):
            check_unchanged(other, tmp_path / "splits.json")


def test_rows_that_are_taken_out_stand_alone() -> None:
    whole = data()
    part = extract(whole.subset(np.arange(0, 48, 2)), np.array([3, 1]))
    assert not isinstance(part.images, ImageRows)
    assert [image[0, 0, 0] for image in part.images] == [24, 8]
    assert part.labels.tolist() == [1, 0]


def test_damaged_images_are_named_before_anything_is_trained(tmp_path: Path) -> None:
    for number in range(6):
        Image.new("RGB", (4, 4)).save(tmp_path / f"{number}.png")
    (tmp_path / "4.png").write_bytes(b"no image")
    files = ImageFiles([f"{number}.png" for number in range(6)], tmp_path)
    broken = Dataset("files", files, np.repeat(np.arange(3), 2), ("class",))
    with pytest.raises(InputError, match=r"1 of 6 images cannot be read: .*4.png is not an image"):
        check_images(broken)
    check_images(broken.subset([0, 1, 2, 3, 5]))
    part = extract(broken, np.array([5, 0]))
    assert isinstance(part.images, ImageFiles)
    assert part.images.path(0) == str(tmp_path / "5.png")


def test_stratified_classes_are_dealt_below_each_coarsest_label() -> None:
    fine = np.repeat(np.arange(12), 2)
    coarse = np.where(fine < 8, "fruit", "milk")
    labels = np.stack([coarse, fine.astype(str)], axis=1)
    tree = Dataset("shop", np.zeros((24, 2, 2), np.uint8), labels, ("kind", "item"))
    splits = make_splits(tree, "stratified", 2)
    for rows in (splits.search, splits.test):
        kinds, counts = np.unique(labels[rows, 0], return_counts=True)
        assert dict(zip(kinds.tolist(), counts.tolist(), strict=True)) == {"fruit": 8, "milk": 4}
    assert not set(fine[splits.search]) & set(fine[splits.test])
    parts = [set(fine[splits.search][fold].tolist()) for fold in splits.folds]
    assert not parts[0] & parts[1]
    for fold in splits.folds:
        assert set(labels[splits.search][fold, 0]) == {"fruit", "milk"}
    with pytest.raises(InputError, match="needs labels of several levels"):
        make_splits(data(), "stratified", 2)
