"""The split: halves and folds share no class, and the same data give the same rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.datasets import replicas
from truerank import datasets
from truerank._util.errors import InputError
from truerank.benchmark.config import BenchmarkConfig
from truerank.benchmark.runner import _read
from truerank.benchmark.splits import (
    check_images,
    check_unchanged,
    extract,
    make_splits,
    write_splits,
)
from truerank.datasets.base import Dataset, ImageFiles, ImageRows


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
    with pytest.raises(InputError, match=r"data.split: official is for such a data set"):
        make_splits(data(splits={"train": rows < 26, "test": rows >= 26}), "classes", 2)


@pytest.mark.filterwarnings("ignore::truerank.TruerankWarning")
def test_the_official_split_may_have_classes_in_both_halves(tmp_path: Path) -> None:
    """Folds are ranges of classes all the same; without the word, species are halved."""
    replicas.cub(tmp_path, each=4)
    config = {"data": {"name": "cub", "root": str(tmp_path)}, "methods": ["triplet"]}
    halves = {}
    for split in ("official", "classes"):
        given = BenchmarkConfig.of(config | {"data": {**config["data"], "split": split}})
        halves[split] = _read(given, None)
    splits = make_splits(halves["official"], "official", 2)
    labels = halves["official"].labels
    assert splits.search.tolist() == list(range(0, 16, 2))
    assert splits.test.tolist() == list(range(1, 16, 2))
    species = list(replicas.SPECIES.values())
    folds = [sorted(set(labels[splits.search][fold].tolist())) for fold in splits.folds]
    assert folds == [species[:2], species[2:]]
    assert make_splits(halves["classes"], "classes", 2).search.tolist() == list(range(8))
    with pytest.raises(InputError, match="official is for such a data set"):
        make_splits(halves["official"], "classes", 2)
    with pytest.raises(InputError, match="small has no training and test split"):
        make_splits(data(), "official", 2)


NUMBERS = [1, 2, 3, 5, 9, 10, 11, 12, 19, 20, 21, 99, 100, 101, 1000]
"""Class numbers with gaps, whose order as text is another one: 1, 10, 100, 1000, 101, 11, ..."""
FOUR = [[1, 2, 3, 5], [9, 10, 11, 12], [19, 20, 21, 99], [100, 101, 1000]]


def products(root: Path) -> list[str]:
    """Two photographs of each article, the last article first."""
    lines = [
        f"0 {article} 1 bicycle_final/{article}_{view}.JPG"
        for article in reversed(NUMBERS) for view in range(2)
    ]  # fmt: skip
    tested = [line.replace(" 1", " 20001", 1) for line in lines[-2:]]
    for name, listed in (("train", lines), ("test", tested)):
        text = "\n".join(["image_id class_id super_class_id path", *listed])
        (root / f"Ebay_{name}.txt").write_text(text)
    return [line.split()[-1] for line in lines]


def inaturalist(root: Path) -> list[str]:
    """Two photographs of each species, the last species first."""
    paths = [
        f"train_val2018/Aves/{species}/{view}.jpg"
        for species in reversed(NUMBERS) for view in range(2)
    ]  # fmt: skip
    tested = ["train_val2018/Aves/20001/0.jpg", "train_val2018/Aves/20001/1.jpg"]
    (root / "Inat_dataset_splits").mkdir()
    for name, listed in (("train", paths), ("test", tested)):
        file = root / "Inat_dataset_splits" / f"Inaturalist_{name}_set1.txt"
        file.write_text("\n".join(listed))
    return paths + tested


def dyml(root: Path) -> list[str]:
    """Training classes by number, which the benchmark of a level has as "train/12"."""
    rows = [f"{row}.jpg, {one}" for row, one in enumerate([*reversed(NUMBERS), *NUMBERS])]
    (root / "train").mkdir()
    (root / "bmk_fine").mkdir()
    (root / "train" / "label.csv").write_text("\n".join(["fname, fine_id", *rows]))
    for side in ("query", "gallery"):
        (root / "bmk_fine" / f"{side}.csv").write_text("fname, labels\n0.jpg, 1\n")
    return ["train/imgs/0.jpg", f"train/imgs/{len(rows) - 1}.jpg",
            "bmk_fine/query/0.jpg", "bmk_fine/gallery/0.jpg"]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("stanford-online-products", products),
        ("inaturalist-2018-base", inaturalist),
        ("dyml-vehicle-fine", dyml),
    ],
)
@pytest.mark.filterwarnings("ignore::truerank.TruerankWarning")
def test_folds_are_ranges_of_class_numbers(
    name: str, write: Callable[[Path], list[str]], tmp_path: Path
) -> None:
    """Where a reader gives numbers as text: class 2 comes before class 10."""
    for path in write(tmp_path):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    whole = datasets.read(name, tmp_path)
    splits = make_splits(whole, "classes", 4)
    labels = whole.fine_labels[splits.search]
    found = [sorted({int(one.split("/")[-1]) for one in labels[fold]}) for fold in splits.folds]
    assert found == FOUR


def test_a_data_set_without_a_split_is_halved_by_class_number() -> None:
    labels = np.repeat(np.array([str(number) for number in NUMBERS[:8]]), 2)
    numbered = Dataset("numbered", np.zeros((16, 2, 2), np.uint8), labels, ("class",))
    splits = make_splits(numbered, "classes", 2)
    assert set(labels[splits.search].tolist()) == {"1", "2", "3", "5"}
    assert [set(labels[splits.search][fold].tolist()) for fold in splits.folds] == [
        {"1", "2"}, {"3", "5"},
    ]  # fmt: skip


def test_named_classes_stay_in_the_order_of_their_names() -> None:
    """One name among numbers is enough; numbers inside of names count as text."""
    for names in (["1", "10", "2", "x"], ["a1", "a10", "a2", "a3"], ["1.5", "10.5", "2", "3"]):
        named = Dataset("named", np.zeros((4, 2, 2), np.uint8), names, ("class",))
        assert named.class_numbers.tolist() == [0, 1, 2, 3]
        assert named.subset([1, 3]).fine_labels.tolist() == [names[1], names[3]]
    folders = Dataset("folders", np.zeros((4, 2, 2), np.uint8), ["b/2", "a/10", "b/10", "a/9"],
                      ("class",))  # fmt: skip
    assert folders.class_numbers.tolist() == [2, 1, 3, 0]


def test_folds_in_the_order_of_text_are_refused(tmp_path: Path) -> None:
    """What an earlier version began: the same rows and the same halves, in other folds."""
    labels = np.repeat(np.array([str(number) for number in range(1, 25)]), 2)
    rows = np.arange(48)
    numbered = Dataset("numbered", np.zeros((48, 2, 2), np.uint8), labels, ("class",),
                       splits={"train": rows < 24, "test": rows >= 24})  # fmt: skip
    splits, path = make_splits(numbered, "classes", 4), tmp_path / "splits.json"
    write_splits(splits, path)
    check_unchanged(splits, path)
    saved = json.loads(path.read_text())
    saved["folds"][0], saved["folds"][1] = saved["folds"][1], saved["folds"][0]
    path.write_text(json.dumps(saved))
    with pytest.raises(InputError, match=r"\(1, 10, 100, 2\).* Name another folder, or finish"):
        check_unchanged(splits, path)


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
    with pytest.raises(InputError, match="must be classes, stratified, images, official or a JSON"):
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
