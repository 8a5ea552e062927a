"""What is missing or malformed on disk ends in one sentence that says what was expected where."""

from __future__ import annotations

import sys

import pytest

from tests.datasets import replicas
from tests.datasets.replicas import REPLICAS, paint, write_lines
from truerank import datasets
from truerank._util.errors import InputError, TruerankWarning
from truerank.datasets.catalogue import find


def refusal(name, root) -> str:
    with pytest.raises(InputError) as caught:
        datasets.read(name, root)
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".")
    return message


@pytest.mark.parametrize("name", [*REPLICAS, "folder"])
def test_no_such_folder(name, tmp_path):
    assert refusal(name, tmp_path / "gone") == (
        f"{name} is read from a folder; {tmp_path / 'gone'} does not exist."
    )
    (tmp_path / "file").write_text("x")
    assert refusal(name, tmp_path / "file").endswith("file is a file.")


@pytest.mark.parametrize("name", [*REPLICAS, "folder"])
def test_an_empty_folder_lacks_what_is_expected(name, tmp_path):
    message = refusal(name, tmp_path)
    assert message.startswith(f"{name} expects ")
    assert str(tmp_path) in message


@pytest.mark.parametrize("name", REPLICAS)
def test_missing_images_are_noticed(name, tmp_path):
    root = REPLICAS[name](tmp_path)
    images = [path for path in tmp_path.rglob("*") if path.suffix.lower() in (".jpg", ".png")]
    for image in images:
        image.unlink()
    assert f"{name} " in refusal(name, root)


def test_the_first_thing_that_is_missing_is_named(tmp_path):
    root = replicas.cub(tmp_path)
    (root / "CUB_200_2011" / "classes.txt").unlink()
    assert refusal("cub", root / "CUB_200_2011") == (
        "cub-200-2011 expects images.txt, image_class_labels.txt, classes.txt and images in "
        f"{root / 'CUB_200_2011'} (or in CUB_200_2011 inside it); classes.txt is not there."
    )


def test_an_image_without_a_class(tmp_path):
    root = replicas.cub(tmp_path)
    labels = root / "CUB_200_2011" / "image_class_labels.txt"
    write_lines(labels, labels.read_text().splitlines()[:-1])
    assert "image 8 of" in refusal("cub", root)


@pytest.mark.parametrize(
    ("name", "file", "lines", "expected"),
    [
        ("cub", "CUB_200_2011/images.txt", ["1"], "line 1 of .* must be 'image_id path'"),
        ("cub", "CUB_200_2011/classes.txt", ["1 a", "200 b"], "image 3 of .* has no class"),
        ("sop", "Stanford_Online_Products/Ebay_test.txt", ["header", "1 2 3"], "line 2 of "),
        ("in-shop", "Eval/list_eval_partition.txt", ["1", "header", "a b val"], "line 3 of "),
        (
            "inat",
            "Inat_dataset_splits/Inaturalist_test_set1.txt",
            ["a/b.jpg"],
            "train_val2018/supercategory/species/file.jpg",
        ),
        ("msmt17", "MSMT17_V2/list_query.txt", ["0000/portrait.jpg 0"], "0303morning"),
        ("msmt17", "MSMT17_V2/list_query.txt", ["0000/0000_000_05_x.jpg zero"], "whole number"),
        ("dyml-animal", "train/label.csv", ["0.jpg, 0, 0, 0"], "must begin with 'fname'"),
        ("dyml-animal", "train/label.csv", ["fname, coarse_id", "0.jpg, 0"], "no column 'middle_"),
        (
            "dyml-animal-fine",
            "bmk_fine/query.csv",
            ["fname, labels", "0.jpg, 0, 0"],
            "must hold 2 cells in a line",
        ),
        ("dyml-animal", "train/label.csv", [""], "label.csv is empty"),
    ],
)
def test_malformed_lists(name, file, lines, expected, tmp_path):
    root = REPLICAS[find(name).name](tmp_path)
    write_lines(root / file, lines)
    with pytest.raises(InputError, match=expected):
        datasets.read(name, root)


def test_lists_that_are_no_text(tmp_path):
    root = replicas.products(tmp_path)
    (root / "Stanford_Online_Products" / "Ebay_train.txt").write_bytes(b"\xff\xfe\x00\x00")
    assert refusal("sop", root).endswith("Ebay_train.txt is not UTF-8 text.")


def test_inaturalist_without_a_taxonomy(tmp_path):
    root = replicas.inaturalist(tmp_path)
    (root / "train2018.json").write_text('{"categories": [{"id": 0, "name": "a"}]}')
    assert "inaturalist-2018-base does without it" in refusal("inat", root)
    (root / "train2018.json").write_text("{")
    assert "is not a JSON file" in refusal("inat", root)
    (root / "train2018.json").write_text('{"categories": []}')
    assert "which the taxonomy lacks" in refusal("inat", root)


def test_odd_names_in_a_market_folder(tmp_path):
    root = replicas.market(tmp_path)
    paint(root / "Market-1501-v15.09.15" / "query" / "portrait.jpg", 1)
    assert refusal("market", root).endswith("query. Got 'portrait.jpg'.")


def test_omniglot_with_another_depth(tmp_path):
    root = replicas.omniglot(tmp_path)
    paint(root / "python" / "images_background" / "Greek" / "0001_01.png", 1)
    assert "expects alphabet/character/0001_01.png" in refusal("omniglot", root)


def test_msmt17_without_folders(tmp_path):
    root = replicas.msmt17(tmp_path)
    (root / "MSMT17_V2" / "mask_test_v2").rename(root / "MSMT17_V2" / "other")
    assert "mask_train_v2 and mask_test_v2 or train and test" in refusal("msmt17", root)


def test_cars_lists(tmp_path):
    root = replicas.cars_devkit(tmp_path)
    (root / "cars_test_annos_withlabels.mat").write_bytes(b"MATLAB 5.0 MAT-file, cut off")
    assert "must be a MATLAB file with 'annotations'" in refusal("cars", root)
    (root / "cars_test_annos_withlabels.mat").unlink()
    assert refusal("cars", root).endswith("cars_test_annos_withlabels is not there.")
    (root / "cars_test_annos_withlabels.csv").write_text("a.jpg,1\nb.jpg,2,3\n")
    assert "one number of cells" in refusal("cars", root)
    (root / "cars_test_annos_withlabels.csv").write_text("a.jpg,one\n")
    assert "must hold a whole number where 'one' is" in refusal("cars", root)
    (root / "cars_test").rename(root / "pictures")
    (root / "cars_test_annos_withlabels.csv").write_text("a.jpg,1\n")
    assert "cars_test, car_data/test, car_data/car_data/test in" in refusal("cars", root)


def test_cars_without_scipy(tmp_path, monkeypatch):
    root = replicas.cars_matlab(tmp_path)
    monkeypatch.setitem(sys.modules, "scipy.io", None)
    assert refusal("cars", root).endswith("needs scipy: pip install scipy.")


def test_folders_of_different_depth(tmp_path):
    paint(tmp_path / "dog" / "1.jpg", 1)
    paint(tmp_path / "animal" / "cat" / "1.jpg", 1)
    assert "Got dog/1.jpg and animal/cat/1.jpg." in refusal("folder", tmp_path)


def test_images_without_a_folder(tmp_path):
    paint(tmp_path / "1.jpg", 1)
    assert "at least one, which are its labels. Got 1.jpg." in refusal("folder", tmp_path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("path,kind\na.png,1\n", "has no column 'label'; it has path, kind"),
        ("label\n1\n", "has no column 'path'; it has label"),
        ("path,image,label\na.png,a.png,1\n", "holds both 'path' and 'image'"),
        ("path,label\na.png,\n", "column 'label' of .* is empty in row 0"),
        ("path,label\na.png,1\ngone.png,2\n", "lists gone.png, which is not in"),
        ("path,label,split\na.png,1,\n", "column 'split' of .* is empty in row 0"),
        ("path,label,Label\na.png,1,2\n", "names a column twice"),
        ("a.png,1\n", "none is called label"),
        ("", "is empty"),
    ],
)
def test_tables(text, expected, tmp_path):
    paint(tmp_path / "a.png", 1)
    (tmp_path / "list.csv").write_text(text)
    with pytest.raises(InputError, match=expected):
        datasets.read("table", tmp_path / "list.csv")


def test_other_tables(tmp_path):
    (tmp_path / "list.json").write_text("{}")
    assert "expected .csv, .tsv or .parquet" in refusal("table", tmp_path / "list.json")
    (tmp_path / "list.parquet").write_bytes(b"PAR1 and no more")
    assert "cannot be read as Parquet" in refusal("table", tmp_path / "list.parquet")
    assert "is a folder" in refusal("table", tmp_path)
    assert "No such file" in refusal("table", tmp_path / "gone.csv")


def test_a_label_that_is_not_a_number_is_missing(tmp_path):
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    table = arrow.table({"path": ["a.png", "a.png"], "label": [1.0, float("nan")]})
    parquet.write_table(table, tmp_path / "list.parquet")
    assert "column 'label'" in refusal("table", tmp_path / "list.parquet")
    assert "is empty in row 1" in refusal("table", tmp_path / "list.parquet")


def test_parquet_without_pyarrow(tmp_path, monkeypatch):
    (tmp_path / "list.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    message = refusal("table", tmp_path / "list.parquet")
    assert message.endswith("or pip install pyarrow safetensors.")


def test_other_counts_are_told_and_no_error(tmp_path):
    with pytest.warns(TruerankWarning) as told:
        datasets.read("market-1501", replicas.market(tmp_path))
    assert [str(one.message) for one in told] == [
        "market-1501 is not complete or not the standard one: train has 2 images of 1 class where "
        "12,936 of 751 were published; query has 2 images of 2 classes where 3,368 of 750 were "
        "published; gallery has 7 images of 4 classes where 19,732 of 752 were published. Scores "
        "on it do not compare with published ones."
    ]


def test_classes_on_both_sides_are_told(tmp_path):
    for path in ("train/dog/1.jpg", "train/cat/1.jpg", "test/dog/2.jpg"):
        paint(tmp_path / path, 1)
    with pytest.warns(TruerankWarning, match="1 class of folder occurs in train and in test"):
        datasets.read("folder", tmp_path)
