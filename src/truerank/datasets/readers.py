"""Readers of published data sets: CUB, Cars, SOP, In-Shop, iNaturalist, DyML, Omniglot, re-ID.

Each takes the folder as it is published and gives a Dataset. In re-identification (Market-1501,
VeRi-776, MSMT17) labels are persons or vehicles and exclusion groups are cameras; label -1 is
junk, and 0 is a distractor. Cars-196 from .mat files needs scipy.
"""

from __future__ import annotations

import csv
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util.errors import InputError
from truerank.datasets.base import Dataset, ImageFiles
from truerank.datasets.folders import (
    check_images,
    find_images,
    find_root,
    read_lines,
    read_rows,
    split_rows,
    whole_number,
)
from truerank.io.reading import read_json

# Cars-196: pictures and annotations in any of the forms in which they are passed on.
#
# These are cars_annos.mat with car_ims (one list for all), the devkit's two lists with cars_train
# and cars_test, or these lists as CSV. The .mat files need scipy.


CARS_LAST_TRAIN_CLASS = 98
"""The last model of the training half; by custom the second half tests."""

ALL_IN_ONE = "cars_annos"
CARS_LISTS = {
    "train": ("cars_train_annos", "anno_train"),
    "test": ("cars_test_annos_withlabels", "anno_test"),
}
CARS_FOLDERS = ("cars_{0}", "car_data/{0}", "car_data/car_data/{0}")


def read_cars(name: str, root: str | os.PathLike[str], official: bool = False) -> Dataset:
    """Cars by model, split by model: 1 to 98 train, 99 to 196 test.

    The `official` split is for classification. Every model is in both of its halves.
    """
    folder = find_root(name, root, ())
    if list_of_all := _find(folder, (ALL_IN_ONE,)):
        paths, models, tested = _annotations(list_of_all, "relative_im_path", official)
        parts = ["test" if flag else "train" for flag in tested]
    else:
        paths, models, parts = [], [], []
        for part, stems in CARS_LISTS.items():
            file = _find(folder, stems)
            if file is None:
                raise InputError(
                    f"{name} expects {ALL_IN_ONE}.mat, or {CARS_LISTS['train'][0]} and "
                    f"{CARS_LISTS['test'][0]} (.mat or .csv), in {folder} or in devkit inside it; "
                    f"{stems[0]} is not there."
                )
            files, numbers, _ = _annotations(file, "fname")
            paths += _locate(name, folder, part, files)
            models += numbers
            parts += [part] * len(files)
    check_images(name, folder, paths)
    labels = np.array(models, np.int64)
    if not official:
        parts = np.where(labels <= CARS_LAST_TRAIN_CLASS, "train", "test").tolist()
    return Dataset(
        name,
        ImageFiles(paths, folder),
        labels,
        ("model",),
        ids=np.array(paths),
        splits=split_rows(parts),
    )


def _find(folder: Path, stems: tuple[str, ...]) -> Path | None:
    candidates = (
        folder / place / f"{stem}{suffix}"
        for stem in stems
        for place in ("", "devkit")
        for suffix in (".mat", ".csv")
    )
    return next((file for file in candidates if file.is_file()), None)


def _annotations(
    file: Path, path_column: str, flagged: bool = False
) -> tuple[list[str], list[int], list[int]]:
    """File names and model numbers of an annotation file; where `flagged`, 1 for a test picture."""
    if file.suffix == ".csv":
        return _read_csv(file, path_column, flagged)
    try:
        from scipy.io import loadmat
    except ImportError as error:
        raise InputError(f"reading {file} needs scipy: pip install scipy.") from error
    try:
        entries = np.atleast_1d(loadmat(file, squeeze_me=True)["annotations"])
        return (
            [str(path) for path in entries[path_column]],
            [int(number) for number in entries["class"]],
            [int(flag) for flag in entries["test"]] if flagged else [],
        )
    except Exception as error:  # whatever the parser says of another or a damaged file
        raise InputError(
            f"{file} must be a MATLAB file with 'annotations' that have the fields "
            f"{path_column}{', test' if flagged else ''} and class."
        ) from error


def _read_csv(
    file: Path, path_column: str, flagged: bool
) -> tuple[list[str], list[int], list[int]]:
    """A CSV list with a header; or without, as file, four corners of a box, model."""
    rows = list(csv.reader(read_lines(file)))
    names = [cell.strip().lower() for cell in rows[0]]
    if path_column in names and "class" in names:
        path, number = names.index(path_column), names.index("class")
        rows = rows[1:]
    else:
        path, number = 0, len(names) - 1
    if any(len(row) != len(names) for row in rows):
        raise InputError(f"the rows of {file} must have one number of cells.")
    if flagged and "test" not in names:
        raise InputError(f"{file} needs a column test, which says to which half a picture belongs.")
    flags = [whole_number(row[names.index("test")], file) for row in rows] if flagged else []
    return [row[path] for row in rows], [whole_number(row[number], file) for row in rows], flags


def _locate(name: str, folder: Path, part: str, files: list[str]) -> list[str]:
    """The path of each file, which may lie in a folder of its model."""
    for place in (pattern.format(part) for pattern in CARS_FOLDERS):
        if (folder / place).is_dir():
            found = {path.split("/")[-1]: f"{place}/{path}" for path in find_images(folder / place)}
            return [found.get(file, f"{place}/{file}") for file in files]
    raise InputError(
        f"{name} expects the pictures in one of the folders "
        f"{', '.join(pattern.format(part) for pattern in CARS_FOLDERS)} in {folder}."
    )


# CUB-200-2011: images.txt and image_class_labels.txt beside the folder images.


CUB_LAST_TRAIN_CLASS = 100
"""The last species of the training half; by custom the second half tests."""


CUB_OFFICIAL = "train_test_split.txt"


def read_cub(name: str, root: str | os.PathLike[str], official: bool = False) -> Dataset:
    """Birds by species, split by species: 1 to 100 train, 101 to 200 test.

    The `official` split is for classification. Every species is in both of its halves.
    """
    lists = ("images.txt", "image_class_labels.txt", "classes.txt", "images")
    needed = (*lists, CUB_OFFICIAL) if official else lists
    folder = find_root(name, root, needed, inside=("CUB_200_2011",))
    is_training = dict(read_rows(folder / CUB_OFFICIAL, "image_id is_training")) if official else {}
    species = dict(read_rows(folder / lists[2], "class_id name"))
    of_image = dict(read_rows(folder / lists[1], "image_id class_id"))
    paths, labels, splits = [], [], []
    for image, path in read_rows(folder / lists[0], "image_id path"):
        number = of_image.get(image, "")
        if number not in species:
            raise InputError(
                f"image {image} of {folder / lists[0]} has no class in {lists[1]} and {lists[2]}."
            )
        paths.append(path)
        labels.append(species[number])
        is_train = whole_number(number, folder / lists[2]) <= CUB_LAST_TRAIN_CLASS
        if official:
            if image not in is_training:
                raise InputError(f"{folder / CUB_OFFICIAL} has no line for image {image}.")
            is_train = whole_number(is_training[image], folder / CUB_OFFICIAL) == 1
        splits.append("train" if is_train else "test")
    check_images(name, folder / "images", paths)
    return Dataset(
        name,
        ImageFiles(paths, folder / "images"),
        np.array(labels),
        ("species",),
        ids=np.array(paths),
        splits=split_rows(splits),
    )


# DyML-Vehicle, -Animal and -Product: training labels in three levels, tests by level.
#
# Vehicle and Animal have one benchmark for each level, bmk_coarse, bmk_middle and bmk_fine, with
# its own queries and gallery and only that level's labels. Product has one test set with all
# levels.


LEVELS = ("coarse", "middle", "fine")
TRAIN_LIST, TEST_LIST = "train/label.csv", "mini-bmk_all_in_one/label.csv"


def read_dyml_train(name: str, root: str | os.PathLike[str]) -> Dataset:
    """The training set with its three levels; the tests are in `read_dyml_benchmark`."""
    folder = find_root(name, root, (TRAIN_LIST,))
    paths, labels = _table(folder, TRAIN_LIST, "train/imgs", [f"{level}_id" for level in LEVELS])
    return _dyml(name, folder, paths, np.array(labels), LEVELS, ["train"] * len(paths))


def read_dyml_product(name: str, root: str | os.PathLike[str]) -> Dataset:
    """Training set and test set, both with three levels; the test is searched in itself."""
    folder = find_root(name, root, (TRAIN_LIST, TEST_LIST))
    columns = [f"{level}_id" for level in LEVELS]
    paths, labels = _table(folder, TRAIN_LIST, "train/imgs", columns)
    more_paths, more_labels = _table(folder, TEST_LIST, "mini-bmk_all_in_one/imgs", columns)
    splits = ["train"] * len(paths) + ["test"] * len(more_paths)
    # Class numbers of different files are not comparable: the prefix makes them different.
    sides = [("train/", row) for row in labels] + [("test/", row) for row in more_labels]
    named = np.array([[side + cell for cell in row] for side, row in sides])
    return _dyml(name, folder, paths + more_paths, named, LEVELS, splits)


def read_dyml_benchmark(
    levels: tuple[str, ...], name: str, root: str | os.PathLike[str]
) -> Dataset:
    """The training set with the labels of some levels, and each level's queries and gallery.

    Of several levels each is a separate test, whose labels stand in all columns.
    """
    alone = len(levels) == 1
    lists = [(level, side) for level in levels for side in ("query", "gallery")]
    files = [f"bmk_{level}/{side}.csv" for level, side in lists]
    folder = find_root(name, root, (TRAIN_LIST, *files))
    paths, rows = _table(folder, TRAIN_LIST, "train/imgs", [f"{level}_id" for level in levels])
    labels = [[f"train/{cell}" for cell in row] for row in rows]
    splits = ["train"] * len(paths)
    for (level, side), file in zip(lists, files, strict=True):
        more_paths, more_rows = _table(folder, file, f"bmk_{level}/{side}", ["labels"])
        paths += more_paths
        test = "test" if alone else f"test-{level}"
        labels += [[f"{test}/{row[0]}"] * len(levels) for row in more_rows]
        splits += [side if alone else f"{side}-{level}"] * len(more_paths)
    named = np.array(labels)
    return _dyml(name, folder, paths, named[:, 0] if alone else named, levels, splits)


def _table(
    folder: Path, file: str, images: str, columns: list[str]
) -> tuple[list[str], list[tuple[str, ...]]]:
    """Image paths and the cells of some columns.

    As distributed, no line break follows the header, "fname, labels0.jpg, 5": the first image is
    glued to the last name. It counts all the same.
    """
    path = folder / file
    lines = read_lines(path)
    header = re.match(r"fname((?:\s*,\s*(?:coarse_id|middle_id|fine_id|labels?))+)", lines[0])
    if header is None:
        raise InputError(
            f"{path} must begin with 'fname' and the columns {', '.join(columns)}. "
            f"Got {lines[0][:60]!r}."
        )
    names = [name.strip() for name in header[1].split(",")[1:]]
    missing = [column for column in columns if column not in names]
    if missing:
        raise InputError(f"{path} has no column {missing[0]!r}; it has {', '.join(names)}.")
    places = [1 + names.index(column) for column in columns]
    glued = lines[0][header.end() :].lstrip(", ")
    paths, rows = [], []
    for line in ([glued] if glued else []) + lines[1:]:
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != 1 + len(names):
            raise InputError(f"{path} must hold {1 + len(names)} cells in a line. Got {line!r}.")
        paths.append(f"{images}/{cells[0]}")
        rows.append(tuple(cells[place] for place in places))
    return paths, rows


def _dyml(
    name: str,
    folder: Path,
    paths: list[str],
    labels: npt.NDArray[np.str_],
    levels: tuple[str, ...],
    splits: list[str],
) -> Dataset:
    check_images(name, folder, paths)
    return Dataset(
        name,
        ImageFiles(paths, folder),
        labels,
        levels,
        ids=np.array(paths),
        splits=split_rows(splits),
    )


# iNaturalist-2018 with the open-set split of metric learning: two lists of paths and a taxonomy.
#
# A path is train_val2018/supercategory/species number/file; the taxonomy of the species is in
# categories.json or, as first published, in train2018.json.


INATURALIST_LISTS = {
    "train": "Inat_dataset_splits/Inaturalist_train_set1.txt",
    "test": "Inat_dataset_splits/Inaturalist_test_set1.txt",
}
RANKS = ("kingdom", "phylum", "class", "order", "family", "genus")
TAXONOMIES = ("categories.json", "train2018.json")


def read_inaturalist(name: str, root: str | os.PathLike[str]) -> Dataset:
    """iNaturalist with seven levels, from kingdom to species."""
    folder, paths, splits = _listed(name, root)
    lineages = _lineages(name, folder)
    labels = []
    for path in paths:
        species = path.split("/")[-2]
        if species not in lineages:
            raise InputError(f"{path} belongs to species {species}, which the taxonomy lacks.")
        labels.append((*lineages[species], species))
    return _inaturalist(name, folder, paths, splits, labels, (*RANKS, "species"))


def read_inaturalist_base(name: str, root: str | os.PathLike[str]) -> Dataset:
    """iNaturalist with two levels, super-category and species, for which the paths suffice."""
    folder, paths, splits = _listed(name, root)
    labels = [tuple(path.split("/")[-3:-1]) for path in paths]
    return _inaturalist(name, folder, paths, splits, labels, ("supercategory", "species"))


def _listed(name: str, root: str | os.PathLike[str]) -> tuple[Path, list[str], list[str]]:
    folder = find_root(name, root, tuple(INATURALIST_LISTS.values()))
    paths, splits = [], []
    for split, file in INATURALIST_LISTS.items():
        lines = read_lines(folder / file)
        for number, line in enumerate(lines, 1):
            if line.count("/") < 3:
                raise InputError(
                    f"line {number} of {folder / file} must be "
                    f"'train_val2018/supercategory/species/file.jpg'. Got {line!r}."
                )
        paths += lines
        splits += [split] * len(lines)
    check_images(name, folder, paths)
    return folder, paths, splits


def _lineages(name: str, folder: Path) -> dict[str, tuple[str, ...]]:
    """The six ranks above each species."""
    for file in TAXONOMIES:
        if not (folder / file).is_file():
            continue
        content = read_json(folder / file)
        categories = content.get("categories") if isinstance(content, dict) else content
        if not isinstance(categories, list) or not all(map(_has_lineage, categories)):
            continue
        return {str(entry["id"]): tuple(str(entry[rank]) for rank in RANKS) for entry in categories}
    raise InputError(
        f"{name} expects the taxonomy (id, {', '.join(RANKS)} of each species) in "
        f"{' or '.join(TAXONOMIES)} in {folder}; {name}-base does without it."
    )


def _has_lineage(entry: Any) -> bool:
    return isinstance(entry, dict) and {"id", *RANKS} <= set(entry)


def _inaturalist(
    name: str,
    folder: Path,
    paths: list[str],
    splits: list[str],
    labels: list[tuple[str, ...]],
    levels: tuple[str, ...],
) -> Dataset:
    return Dataset(
        name,
        ImageFiles(paths, folder),
        np.array(labels),
        levels,
        ids=np.array(paths),
        splits=split_rows(splits),
    )


# In-Shop Clothes Retrieval (DeepFashion): one list that says train, query or gallery.


LIST = "list_eval_partition.txt"


def read_inshop(name: str, root: str | os.PathLike[str]) -> Dataset:
    """Clothes by item; the list may lie in Eval and the images in Img, as they are distributed."""
    partition = find_root(name, root, (LIST,), inside=("Eval",)) / LIST
    paths, items, splits = [], [], []
    for number, line in enumerate(read_lines(partition)[2:], 3):  # a count, then the columns
        cells = line.split()
        if len(cells) != 3 or cells[2] not in ("train", "query", "gallery"):
            raise InputError(
                f"line {number} of {partition} must be 'image_name item_id evaluation_status' with "
                f"the status train, query or gallery. Got {line!r}."
            )
        paths.append(cells[0])
        items.append(cells[1])
        splits.append(cells[2])
    images = Path(root) / "Img" if (Path(root) / "Img" / "img").is_dir() else Path(root)
    check_images(name, images, paths)
    return Dataset(
        name,
        ImageFiles(paths, images),
        np.array(items),
        ("item",),
        ids=np.array(paths),
        splits=split_rows(splits),
    )


# Omniglot: images_background and images_evaluation, each alphabet/character/drawing.png.


OMNIGLOT_FOLDERS = {"train": "images_background", "test": "images_evaluation"}


def read_omniglot(name: str, root: str | os.PathLike[str]) -> Dataset:
    """Characters of fifty alphabets; the group is who drew: file 0709_14.png is by drawer 14.

    Each alphabet had twenty drawers of its own, so that a drawer is known by both.
    """
    folder = find_root(
        name, root, tuple(OMNIGLOT_FOLDERS.values()), inside=("python", "omniglot/python")
    )
    paths, labels, drawers, splits = [], [], [], []
    for split, part in OMNIGLOT_FOLDERS.items():
        for path in find_images(folder / part):
            match = re.fullmatch(r"([^/]+)/([^/]+)/\d+_(\d+)\.png", path)
            if match is None:
                raise InputError(
                    f"{name} expects alphabet/character/0001_01.png in {folder / part}. "
                    f"Got {path!r}."
                )
            alphabet, character, drawer = match.groups()
            paths.append(f"{part}/{path}")
            labels.append((alphabet, f"{alphabet}/{character}"))
            drawers.append(f"{alphabet}/{drawer}")
            splits.append(split)
    check_images(name, folder, paths)
    return Dataset(
        name,
        ImageFiles(paths, folder),
        np.array(labels),
        ("alphabet", "character"),
        ids=np.array(paths),
        groups=np.array(drawers),
        splits=split_rows(splits),
    )


# Stanford Online Products: Ebay_train.txt and Ebay_test.txt beside twelve folders of images.


COLUMNS = "image_id class_id super_class_id path"


def read_products(name: str, root: str | os.PathLike[str]) -> Dataset:
    """Articles from a market place; the folder of an image, "bicycle_final", is its super-class."""
    lists = {"train": "Ebay_train.txt", "test": "Ebay_test.txt"}
    folder = find_root(name, root, tuple(lists.values()), inside=("Stanford_Online_Products",))
    paths, labels, splits = [], [], []
    for split, file in lists.items():
        for _, article, _, path in read_rows(folder / file, COLUMNS, skip=1):
            paths.append(path)
            labels.append((path.split("/")[0].removesuffix("_final"), article))
            splits.append(split)
    check_images(name, folder, paths)
    return Dataset(
        name,
        ImageFiles(paths, folder),
        np.array(labels),
        ("super_class", "article"),
        ids=np.array(paths),
        splits=split_rows(splits),
    )


# Re-identification: the layouts of Market-1501, VeRi-776 and MSMT17.
#
# Labels are people or vehicles, groups are cameras. By custom label -1 is junk, which is neither
# right nor wrong, and 0 is a distractor, which is wrong for every query as any other negative.


JUNK = -1

MARKET_FOLDERS = {"train": "bounding_box_train", "query": "query", "gallery": "bounding_box_test"}
VERI_FOLDERS = {"train": "image_train", "query": "image_query", "gallery": "image_test"}
MSMT17_LISTS = {
    "train": ("list_train.txt", "list_val.txt"),
    "query": ("list_query.txt",),
    "gallery": ("list_gallery.txt",),
}
MSMT17_FOLDERS = (("mask_train_v2", "mask_test_v2"), ("train", "test"))
"""Folders of the second version, in which faces are blurred, and of the first."""


def read_market(
    name: str,
    root: str | os.PathLike[str],
    inside: tuple[str, ...] = ("Market-1501-v15.09.15",),
) -> Dataset:
    """Files such as 0002_c1s1_000451_03.jpg in three folders: identity 2, camera 1."""
    return _read_folders(name, root, MARKET_FOLDERS, inside)


def read_veri(name: str, root: str | os.PathLike[str]) -> Dataset:
    """Files such as 0002_c002_00030600_0.jpg in three folders: vehicle 2, camera 2.

    The junk of jk_image.txt, the query's vehicle seen by the query's camera, follows from labels
    and groups. Queries lie in the gallery as well; they share an id with themselves.
    """
    return _read_folders(name, root, VERI_FOLDERS, inside=("VeRi",))


def _read_folders(
    name: str, root: str | os.PathLike[str], folders: dict[str, str], inside: tuple[str, ...]
) -> Dataset:
    folder = find_root(name, root, tuple(folders.values()), inside)
    paths, ids, labels, cameras, splits = [], [], [], [], []
    for split, part in folders.items():
        for file in find_images(folder / part):
            match = re.match(r"(-1|\d+)_c(\d+)", file)
            if match is None:
                raise InputError(
                    f"{name} expects files such as 0002_c1s1_000451_03.jpg (identity 2, camera 1) "
                    f"in {folder / part}. Got {file!r}."
                )
            paths.append(f"{part}/{file}")
            ids.append(file)
            labels.append(int(match[1]))
            cameras.append(int(match[2]))
            splits.append(split)
    check_images(name, folder, paths)
    return Dataset(
        name,
        ImageFiles(paths, folder),
        np.array(labels, np.int64),
        ("identity",),
        ids=np.array(ids),
        groups=np.array(cameras, np.int64),
        splits=split_rows(splits),
        junk_labels=(JUNK,) if JUNK in labels else (),
    )


def read_msmt17(name: str, root: str | os.PathLike[str]) -> Dataset:
    """Lists of files such as 0000/0000_000_01_0303morning_0008_0.jpg: person 0, camera 1.

    The people of the training set and of the test set are different and are both counted from 0,
    so that a label carries its side: "train/0000", "test/0000". What the authors kept for
    validation belongs to the training set, as in published results.
    """
    lists = tuple(file for files in MSMT17_LISTS.values() for file in files)
    folder = find_root(name, root, lists, inside=("MSMT17_V2", "MSMT17_V1", "MSMT17"))
    train, test = _msmt17_folders(name, folder)
    paths, labels, cameras, splits = [], [], [], []
    for split, files in MSMT17_LISTS.items():
        side, part = ("train", train) if split == "train" else ("test", test)
        for file in files:
            for path, person in read_rows(folder / file, "path person"):
                match = re.match(r"\d+_\d+_(\d+)_", path.split("/")[-1])
                if match is None:
                    raise InputError(
                        f"{folder / file} must list files such as "
                        f"0000/0000_000_01_0303morning_0008_0.jpg. Got {path!r}."
                    )
                paths.append(f"{part}/{path}")
                labels.append(f"{side}/{whole_number(person, folder / file):04d}")
                cameras.append(int(match[1]))
                splits.append(split)
    check_images(name, folder, paths)
    return Dataset(
        name,
        ImageFiles(paths, folder),
        np.array(labels),
        ("identity",),
        ids=np.array(paths),
        groups=np.array(cameras, np.int64),
        splits=split_rows(splits),
    )


def _msmt17_folders(name: str, folder: Path) -> tuple[str, str]:
    for train, test in MSMT17_FOLDERS:
        if (folder / train).is_dir() and (folder / test).is_dir():
            return train, test
    raise InputError(
        f"{name} expects the folders {' or '.join(' and '.join(pair) for pair in MSMT17_FOLDERS)} "
        f"in {folder}."
    )
