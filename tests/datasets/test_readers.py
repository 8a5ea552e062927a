"""Each reader on a miniature copy of its data set: labels, groups, splits, junk and pixels."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import truerank
from tests.datasets import replicas
from tests.datasets.replicas import REPLICAS, SPECIES, colour
from truerank import datasets
from truerank._util.errors import InputError, TruerankWarning
from truerank.datasets.base import Dataset
from truerank.datasets.catalogue import find


def read(name, root) -> Dataset:
    """Read without the warning that a miniature is not complete."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruerankWarning)
        return datasets.read(name, root)


def split_labels(data: Dataset) -> dict[str, list]:
    return {name: data.labels[rows].tolist() for name, rows in data.splits.items()}


def is_colour(image: np.ndarray, number: int) -> bool:
    return bool(np.abs(image.astype(int) - colour(number)).max() <= 4)


@pytest.mark.parametrize("name", REPLICAS)
def test_every_reader_gives_all_that_a_task_needs(name, tmp_path):
    data = read(name, REPLICAS[name](tmp_path))
    assert data.name == name
    assert len(data) == len(data.labels) == len(set(zip(data.ids.tolist(), split_of(data),
                                                        strict=True)))  # fmt: skip
    rows = np.concatenate(list(data.splits.values()))
    assert sorted(rows.tolist()) == list(range(len(data))), "each image is in one split"
    for image in data.images:
        assert image.ndim == 3
        assert image.shape[2] == 3
        assert image.dtype == np.uint8
    if name != "market-layout":
        assert data.licence
        assert data.citation
    if "train" in data.splits and len(data.splits) > 1 and not find(name).shares_classes:
        trained = set(data.fine_labels[data.splits["train"]].tolist())
        for split in set(data.splits) - {"train"}:
            assert trained.isdisjoint(data.fine_labels[data.splits[split]].tolist())
    for test in data.tests or [None]:
        assert data.task(test).queries > 0


def split_of(data: Dataset) -> list[str]:
    names = np.empty(len(data), object)
    for name, rows in data.splits.items():
        names[rows] = name
    return names.tolist()


def test_cub(tmp_path):
    data = read("cub", replicas.cub(tmp_path))
    assert data.level_names == ("species",)
    assert split_labels(data) == {
        "train": ["001.Black_footed_Albatross"] * 2 + ["100.Brown_Pelican"] * 2,
        "test": ["101.White_Pelican"] * 2 + ["200.Common_Yellowthroat"] * 2,
    }
    assert all(is_colour(image, number) for number, image in enumerate(data.images, 1))
    inner = read("cub-200-2011", tmp_path / "CUB_200_2011")
    assert inner.labels.tolist() == data.labels.tolist()


@pytest.mark.parametrize("layout", [replicas.cars_devkit, replicas.cars_csv])
def test_cars_in_two_lists(tmp_path, layout):
    data = read("cars196", layout(tmp_path))
    assert split_labels(data) == {"train": [1, 98], "test": [99, 196, 99]}
    assert [int(np.argmin([np.abs(image.astype(int) - colour(n)).max() for n in range(3)]))
            for image in data.images] == [0, 1, 2, 0, 1]  # fmt: skip


def test_cars_in_one_list(tmp_path):
    data = read("cars-196", replicas.cars_matlab(tmp_path))
    assert split_labels(data) == {"train": [1, 1, 98], "test": [99, 196, 196]}
    assert all(is_colour(image, number) for number, image in enumerate(data.images))


def test_official_splits_have_every_class_in_both_halves(tmp_path):
    birds = read("cub-200-2011-official", replicas.cub(tmp_path / "cub"))
    assert split_labels(birds) == {"train": list(SPECIES.values()), "test": list(SPECIES.values())}
    assert birds.splits["train"].tolist() == [0, 2, 4, 6]
    one_list = read("cars-official", replicas.cars_matlab(tmp_path / "mat"))
    assert split_labels(one_list) == {"train": [1, 98, 196], "test": [1, 99, 196]}
    for layout in (replicas.cars_devkit, replicas.cars_csv):
        two_lists = read("cars-196-official", layout(tmp_path / layout.__name__))
        assert split_labels(two_lists) == {"train": [1, 99, 196], "test": [98, 99]}


def test_an_official_split_says_what_it_lacks(tmp_path):
    lines = (replicas.cub(tmp_path) / "CUB_200_2011" / "train_test_split.txt").read_text()
    split = tmp_path / "CUB_200_2011" / "train_test_split.txt"
    split.write_text(lines.rsplit("\n", 2)[0])
    with pytest.raises(InputError, match=r"train_test_split\.txt has no line for image 8"):
        read("cub-200-2011-official", tmp_path)
    split.unlink()
    with pytest.raises(InputError, match=r"train_test_split\.txt"):
        read("cub-200-2011-official", tmp_path)
    assert len(read("cub-200-2011", tmp_path)) == 8
    (tmp_path / "car.jpg").touch()
    annotations = tmp_path / "cars_annos.csv"
    annotations.write_text("relative_im_path,class\ncar.jpg,5\n")
    with pytest.raises(InputError, match=r"cars_annos\.csv needs a column test"):
        read("cars-196-official", tmp_path)
    annotations.write_text("relative_im_path,class,test\ncar.jpg,5,1\n")
    assert split_labels(read("cars-196-official", tmp_path)) == {"test": [5]}


@pytest.mark.parametrize(
    ("name", "train", "test", "classes"),
    [("cub-200-2011", 5_994, 5_794, 200), ("cars-196", 8_144, 8_041, 196)],
)
def test_counts_of_official_splits_are_the_published_ones(tmp_path, name, train, test, classes):
    """Table 1 of Threshold-Consistent Margin Loss (ICLR 2024)."""
    official = find(f"{name}-official")
    assert official.expected == {"train": (train, classes), "test": (test, classes)}
    standard = find(name).expected
    assert sum(images for images, _ in standard.values()) == train + test
    with pytest.warns(TruerankWarning, match=f"where {train:,} of {classes} were published"):
        datasets.read(official.name, REPLICAS[official.name](tmp_path))


def test_cars_csv_with_a_header(tmp_path):
    replicas.cars_devkit(tmp_path)
    for file, rows in (
        (tmp_path / "devkit" / "cars_train_annos", "00001.jpg,7\n00002.jpg,99\n00003.jpg,196\n"),
        (tmp_path / "cars_test_annos_withlabels", "00001.jpg,8\n00002.jpg,99\n"),
    ):
        file.with_suffix(".mat").unlink()
        file.with_suffix(".csv").write_text("fname,class\n" + rows)
    data = read("cars-196", tmp_path)
    assert data.labels.tolist() == [7, 99, 196, 8, 99]


def test_products(tmp_path):
    data = read("sop", replicas.products(tmp_path))
    assert data.level_names == ("super_class", "article")
    assert split_labels(data) == {
        "train": [["bicycle", "1"]] * 2 + [["cabinet", "2"]] * 2,
        "test": [["bicycle", "11319"]] * 2 + [["toaster", "11320"]] * 2,
    }
    assert all(is_colour(image, number) for number, image in enumerate(data.images, 1))


@pytest.mark.parametrize("folder", ["Img", ""])
def test_inshop(tmp_path, folder):
    replicas.inshop(tmp_path)
    if not folder:
        (tmp_path / "Img" / "img").rename(tmp_path / "img")
    data = read("in-shop", tmp_path)
    assert split_labels(data) == {
        "train": ["id_00000002"] * 2,
        "query": ["id_00000001", "id_00000080"],
        "gallery": ["id_00000001", "id_00000080", "id_00000080"],
    }
    assert all(is_colour(image, number) for number, image in enumerate(data.images))
    assert data.task().mates.tolist() == [1, 2]


@pytest.mark.parametrize("taxonomy", ["train2018.json", "categories.json"])
def test_inaturalist(tmp_path, taxonomy):
    data = read("inaturalist-2018", replicas.inaturalist(tmp_path, taxonomy))
    assert data.level_names == (
        "kingdom", "phylum", "class", "order", "family", "genus", "species",
    )  # fmt: skip
    assert data.subset("train").labels[0].tolist() == [
        "Animalia", "Chordata", "Aves", "Passeriformes", "Corvidae", "Corvus", "0",
    ]  # fmt: skip
    assert data.subset("test").fine_labels.tolist() == ["1", "1", "8141", "8141"]
    base = read("inat-base", tmp_path)
    assert base.level_names == ("supercategory", "species")
    assert base.labels[[0, 2, 6]].tolist() == [["Aves", "0"], ["Plantae", "5"], ["Insecta", "8141"]]
    result = truerank.evaluate(np.eye(4), metrics=["map@r,level=family"], **data.task_arguments())
    assert result["map@r,level=family"].n == 4


def test_market(tmp_path):
    data = read("market-1501", replicas.market(tmp_path))
    assert split_labels(data) == {
        "train": [2, 2],
        "query": [1, 3],
        "gallery": [-1, -1, 0, 0, 1, 1, 3],
    }
    assert data.subset("query").groups.tolist() == [1, 4]
    assert data.subset("gallery").groups.tolist() == [1, 4, 1, 6, 1, 2, 1]
    assert data.junk_labels == (-1,)
    # Nearest first: junk, a distractor, the own camera, then the mate at last; and the other way.
    distances = np.array([[0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6], [0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0]])
    result = truerank.evaluate(
        distances, distance="precomputed", metrics=["map", "mrr"], **data.task_arguments()
    )
    # Query 1 keeps 0 0 1(c2) 3: its mate is third. Query 3 keeps 3 1 1 0 0: first.
    assert result["map"].per_query.lower.tolist() == [1 / 3, 1.0]


def test_sets_in_the_layout_of_market(tmp_path):
    duke = read("duke", replicas.duke(tmp_path))
    assert split_labels(duke) == {"train": [1, 1], "query": [5], "gallery": [2, 5, 5]}
    assert duke.groups.tolist() == [2, 3, 2, 1, 2, 5]
    replicas.cuhk03(tmp_path)
    detected, labelled = (read(f"cuhk03-{boxes}", tmp_path) for boxes in ("detected", "labelled"))
    assert split_labels(detected) == {"train": [2, 2], "query": [1, 1], "gallery": [1, 1, 3]}
    assert labelled.subset("gallery").fine_labels.tolist() == [1, 1, 3, 3]
    inside = read("cuhk03-labeled", tmp_path / "cuhk03-np" / "labeled")
    assert inside.ids.tolist() == labelled.ids.tolist()
    for data in (duke, detected):
        assert data.junk_labels == ()


def test_market_without_junk_lists_none(tmp_path):
    replicas.market(tmp_path)
    for file in tmp_path.rglob("-1_*"):
        file.unlink()
    assert read("market-layout", tmp_path).junk_labels == ()


@pytest.mark.parametrize("folders", [("mask_train_v2", "mask_test_v2"), ("train", "test")])
def test_msmt17(tmp_path, folders):
    data = read("msmt17", replicas.msmt17(tmp_path, *folders))
    assert split_labels(data) == {
        "train": ["train/0000", "train/0001"],
        "query": ["test/0000"],
        "gallery": ["test/0000", "test/0000", "test/0001"],
    }
    assert data.groups.tolist() == [1, 2, 5, 5, 14, 14]
    assert data.task().mates.tolist() == [1], "one of the two was seen by the query's camera"
    assert all(is_colour(image, number) for number, image in enumerate(data.images, 1))


def test_veri(tmp_path):
    data = read("veri-776", replicas.veri(tmp_path))
    assert split_labels(data) == {"train": [1, 1], "query": [2], "gallery": [2, 2, 2, 5]}
    assert data.groups.tolist() == [1, 2, 2, 2, 2, 3, 3]
    assert data.ids[2] == data.ids[3], "the query lies in the gallery"
    assert data.task().mates.tolist() == [1]


@pytest.mark.parametrize("glued", [True, False])
def test_dyml(tmp_path, glued):
    replicas.dyml(tmp_path, glued)
    data = read("dyml-animal", tmp_path)
    assert data.level_names == ("coarse", "middle", "fine")
    assert data.labels.tolist() == [list("000"), list("001"), list("012"), list("123")]
    assert list(data.splits) == ["train"]
    middle = read("dyml-animal-middle", tmp_path)
    assert middle.level_names == ("middle",)
    assert split_labels(middle) == {
        "train": ["train/0", "train/0", "train/1", "train/2"],
        "query": ["test/7", "test/8"],
        "gallery": ["test/7", "test/7", "test/8"],
    }
    assert [is_colour(image, number) for image, number in zip(
        middle.images, [0, 1, 2, 3, 20, 21, 20, 21, 22], strict=True)] == [True] * 9  # fmt: skip
    assert middle.task().mates.tolist() == [2, 1]


def test_dyml_with_a_test_for_each_level(tmp_path):
    data = read("dyml-animal-overall", replicas.dyml(tmp_path))
    assert data.level_names == data.tests == ("coarse", "middle", "fine")
    assert data.subset("train").labels.tolist() == [
        [f"train/{label}" for label in row] for row in ("000", "001", "012", "123")
    ]
    assert data.subset("query-middle").labels.tolist() == [
        ["test-middle/7"] * 3, ["test-middle/8"] * 3,
    ]  # fmt: skip
    for number, level in enumerate(data.tests, 1):
        alone = read(f"dyml-animal-{level}", tmp_path)
        assert data.task(level).mates.tolist() == alone.task().mates.tolist()
        arguments, expected = data.task_arguments(level), alone.task_arguments()
        for side in ("query", "gallery"):
            ids = arguments[f"{side}_ids"].tolist()
            assert ids == expected[f"{side}_ids"].tolist()
            found = data.subset(f"{side}-{level}").images
            assert [is_colour(image, 10 * number + at) for at, image in enumerate(found)] == [
                True
            ] * len(ids)
    with pytest.raises(InputError, match=r"a separate test for each of the levels coarse, middle"):
        data.task_arguments()


def test_dyml_product(tmp_path):
    data = read("dyml-product", replicas.dyml_product(tmp_path))
    assert data.subset("test").labels.tolist() == [
        ["test/0"] * 3, ["test/0"] * 3, ["test/0", "test/1", "test/1"],
    ]  # fmt: skip
    assert data.task().mates.tolist() == [1, 1, 0]


def test_omniglot(tmp_path):
    data = read("omniglot", replicas.omniglot(tmp_path))
    assert split_labels(data) == {
        "train": [["Greek", "Greek/character01"]] * 2 + [["Greek", "Greek/character02"]] * 2,
        "test": [["Keble", "Keble/character01"]] * 2 + [["Tengwar", "Tengwar/character01"]] * 2,
    }
    assert data.groups.tolist()[:2] == ["Greek/01", "Greek/20"]
    assert data.images[0].shape == (105, 105, 3)
    assert np.argwhere(data.images[0][..., 0] == 0).tolist() == [[1, 1]]
    assert data.task().mates.tolist() == [1, 1, 1, 1]


def test_folder_of_folders(tmp_path):
    for number, path in enumerate(("dog/1.jpg", "dog/2.PNG", "cat/deep.jpeg")):
        replicas.paint(tmp_path / path, number)
    (tmp_path / "cat" / "notes.txt").write_text("no image")
    (tmp_path / ".hidden").mkdir()
    replicas.paint(tmp_path / ".hidden" / "1.jpg", 9)
    data = datasets.read("folder", tmp_path)
    assert data.labels.tolist() == ["cat", "dog", "dog"]
    assert data.level_names == ("label",)
    assert data.ids.tolist() == ["cat/deep.jpeg", "dog/1.jpg", "dog/2.PNG"]
    assert dict(data.splits) == {}
    assert data.task().mates.tolist() == [0, 1, 1]


def test_folder_with_splits_and_levels(tmp_path):
    for number, path in enumerate(
        ("train/animal/dog/1.jpg", "test/animal/other/1.jpg", "test/plant/other/1.jpg")
    ):
        replicas.paint(tmp_path / path, number)
    data = datasets.read("folder", tmp_path)
    assert split_labels(data) == {
        "test": [["animal", "animal/other"], ["plant", "plant/other"]],
        "train": [["animal", "animal/dog"]],
    }
    assert data.level_names == ("level1", "label")


def test_folder_whose_classes_are_called_train_and_test(tmp_path):
    for label in ("train", "test"):
        replicas.paint(tmp_path / label / "1.jpg", 1)
    assert datasets.read("folder", tmp_path).labels.tolist() == ["test", "train"]


def test_folder_with_a_link_that_leads_back(tmp_path):
    replicas.paint(tmp_path / "all" / "dog" / "1.jpg", 1)
    (tmp_path / "all" / "back").symlink_to(tmp_path / "all")
    (tmp_path / "all" / "cat").symlink_to(tmp_path / "elsewhere")
    replicas.paint(tmp_path / "elsewhere" / "2.jpg", 2)
    assert datasets.read("folder", tmp_path / "all").labels.tolist() == ["cat", "dog"]


TABLE = {
    "path": ["a.png", "b/1.png", "b/2.png"],
    "level1": ["x", "x", "y"],
    "label": ["007", "8", "9"],
    "camera": [1, 2, 1],
    "id": ["i", "j", "j"],
    "split": ["train", "Query", "gallery "],
}


def write_table(folder, columns, suffix):
    for number, path in enumerate(TABLE["path"]):
        replicas.paint(folder / path, number)
    file = folder / f"list{suffix}"
    if suffix == ".parquet":
        import pyarrow as arrow
        import pyarrow.parquet as parquet

        parquet.write_table(arrow.table(columns), file)
    else:
        comma = "\t" if suffix == ".tsv" else ","
        rows = [list(columns), *zip(*columns.values(), strict=True)]
        replicas.write_lines(file, [comma.join(map(str, row)) for row in rows])
    return file


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_table(tmp_path, suffix):
    data = datasets.read("table", write_table(tmp_path, TABLE, suffix))
    assert data.labels.tolist() == [["x", "007"], ["x", "8"], ["y", "9"]]
    assert data.level_names == ("level1", "label")
    assert [str(group) for group in data.groups] == ["1", "2", "1"]
    assert data.ids.tolist() == ["i", "j", "j"]
    assert {k: v.tolist() for k, v in data.splits.items()} == {
        "train": [0], "query": [1], "gallery": [2],
    }  # fmt: skip
    assert all(is_colour(image, number) for number, image in enumerate(data.images))


def test_numbers_beside_text_become_text(tmp_path):
    columns = {"path": TABLE["path"], "level1": ["x", "x", "y"], "label": [3, 4, 5]}
    data = datasets.read("table", write_table(tmp_path, columns, ".parquet"))
    assert data.labels.tolist() == [["x", "3"], ["x", "4"], ["y", "5"]]


def test_a_class_column_of_a_table_is_the_label_unless_there_is_one(tmp_path):
    columns = {"path": TABLE["path"], "class": [3, 3, 4]}
    data = datasets.read("table", write_table(tmp_path, columns, ".parquet"))
    assert data.labels.tolist() == [3, 3, 4]
    data = datasets.read("table", write_table(tmp_path, columns | {"label": [5, 6, 6]}, ".parquet"))
    assert data.labels.tolist() == [5, 6, 6]


def test_table_with_path_and_label_alone(tmp_path):
    columns = {"Image": TABLE["path"], "Label": [3, 3, 4]}
    data = datasets.read("table", write_table(tmp_path, columns, ".parquet"))
    assert data.labels.tolist() == [3, 3, 4]
    assert data.ids.tolist() == TABLE["path"]
    assert data.groups is None
    assert data.level_names == ("label",)
    assert data.task().mates.tolist() == [1, 1, 0]
