"""Miniature copies of the field's data sets, with the true layout: folders, lists and tiny images.

Every image is a flat colour that tells its number, so that a test can check which file was read.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

__all__ = ["REPLICAS", "colour", "paint", "write_lines"]


def colour(number: int) -> tuple[int, int, int]:
    return (number * 37 % 256, number * 59 % 256, number * 83 % 256)


def paint(path: Path, number: int, size: tuple[int, int] = (6, 4)) -> None:
    """A flat image; JPEG keeps the colour of one to within a few values."""
    path.parent.mkdir(parents=True, exist_ok=True)
    picture = Image.new("RGB", size, colour(number))
    if path.suffix.lower() in (".jpg", ".jpeg"):
        picture.save(path, "JPEG", quality=100, subsampling=0)
    else:
        picture.save(path)


def write_lines(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


SPECIES = {
    1: "001.Black_footed_Albatross",
    100: "100.Brown_Pelican",
    101: "101.White_Pelican",
    200: "200.Common_Yellowthroat",
}


def cub(root: Path, species: Mapping[int, str] = SPECIES, each: int = 2) -> Path:
    """Species 1, 100, 101 and 200, two images of each; or others."""
    folder = root / "CUB_200_2011"
    images, labels, split = [], [], []
    rows = ((k, v) for k, v in species.items() for _ in range(each))
    for number, (label, name) in enumerate(rows, 1):
        path = f"{name}/{name.split('.')[1]}_{number:04d}_{796111 + number}.jpg"
        paint(folder / "images" / path, number)
        images.append(f"{number} {path}")
        labels.append(f"{number} {label}")
        split.append(f"{number} {number % 2}")
    write_lines(folder / "images.txt", images)
    write_lines(folder / "image_class_labels.txt", labels)
    write_lines(folder / "classes.txt", [f"{k} {v}" for k, v in species.items()])
    write_lines(folder / "train_test_split.txt", split)
    return root


def cars_matlab(root: Path) -> Path:
    """cars_annos.mat and car_ims: models 1, 98, 99, 196."""
    from scipy.io import savemat

    models = [1, 1, 98, 99, 196, 196]
    fields = ("relative_im_path", "bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2", "class", "test")
    entries = np.zeros((1, len(models)), dtype=[(name, object) for name in fields])
    for i, model in enumerate(models):
        path = f"car_ims/{i + 1:06d}.jpg"
        paint(root / path, i)
        entries[0, i] = (path, 1, 1, 5, 3, np.uint8(model), np.uint8(i % 2))
    names = np.array([[f"Maker Model {n}"] for n in range(1, 197)], dtype=object).T
    savemat(root / "cars_annos.mat", {"annotations": entries, "class_names": names})
    return root


def cars_devkit(root: Path) -> Path:
    """Two lists of the devkit; the labels of the test come in a file of their own."""
    from scipy.io import savemat

    fields = ("bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2", "class", "fname")
    for part, file, models in (
        ("cars_train", "devkit/cars_train_annos.mat", [1, 99, 196]),
        ("cars_test", "cars_test_annos_withlabels.mat", [98, 99]),
    ):
        entries = np.zeros((1, len(models)), dtype=[(name, object) for name in fields])
        for i, model in enumerate(models):
            paint(root / part / f"{i + 1:05d}.jpg", i)
            entries[0, i] = (39, 116, 569, 375, np.uint8(model), f"{i + 1:05d}.jpg")
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        savemat(root / file, {"annotations": entries})
    return root


def cars_csv(
    root: Path, train: Sequence[int] = (1, 99, 196), test: Sequence[int] = (98, 99)
) -> Path:
    """CSV lists without a header, pictures in a folder of each model."""
    for part, models in (("train", train), ("test", test)):
        rows = []
        for i, model in enumerate(models):
            file = f"{i + 1:05d}.jpg"
            paint(root / "car_data" / "car_data" / part / f"Maker Model {model}" / file, i)
            rows.append([file, 39, 116, 569, 375, model])
        with (root / f"anno_{part}.csv").open("w", newline="") as stream:
            csv.writer(stream).writerows(rows)
    return root


ARTICLES = {
    "Ebay_train.txt": [(1, 1, "bicycle"), (2, 2, "cabinet")],
    "Ebay_test.txt": [(11319, 1, "bicycle"), (11320, 12, "toaster")],
}


def products(
    root: Path, files: Mapping[str, Sequence[tuple[int, int, str]]] = ARTICLES, each: int = 2
) -> Path:
    """Two super-classes in train, two in test; four articles; or others."""
    folder = root / "Stanford_Online_Products"
    number = 0
    for file, articles in files.items():
        lines = ["image_id class_id super_class_id path"]
        for article, group, name in articles:
            for view in range(each):
                number += 1
                path = f"{name}_final/{111085122871 + article}_{view}.JPG"
                paint(folder / path, number)
                lines.append(f"{number} {article} {group} {path}")
        write_lines(folder / file, lines)
    return root


def inshop(root: Path) -> Path:
    """One item to train on, two to find."""
    rows = [
        ("WOMEN/Dresses/id_00000002/02_1_front.jpg", "id_00000002", "train"),
        ("WOMEN/Dresses/id_00000002/02_2_side.jpg", "id_00000002", "train"),
        ("WOMEN/Blouses_Shirts/id_00000001/02_1_front.jpg", "id_00000001", "query"),
        ("WOMEN/Blouses_Shirts/id_00000001/02_3_back.jpg", "id_00000001", "gallery"),
        ("MEN/Denim/id_00000080/01_1_front.jpg", "id_00000080", "query"),
        ("MEN/Denim/id_00000080/01_2_side.jpg", "id_00000080", "gallery"),
        ("MEN/Denim/id_00000080/01_7_additional.jpg", "id_00000080", "gallery"),
    ]
    lines = [str(len(rows)), "image_name item_id evaluation_status"]
    for number, (path, item, status) in enumerate(rows):
        paint(root / "Img" / "img" / path, number)
        lines.append(f"img/{path}      {item} {status}  ")
    write_lines(root / "Eval" / "list_eval_partition.txt", lines)
    return root


Lineages = Mapping[int, tuple[str, ...]]
TAXONOMY: Lineages = {
    0: ("Animalia", "Chordata", "Aves", "Passeriformes", "Corvidae", "Corvus", "Aves"),
    1: ("Animalia", "Chordata", "Aves", "Passeriformes", "Corvidae", "Pica", "Aves"),
    5: ("Plantae", "Tracheophyta", "Magnoliopsida", "Fagales", "Fagaceae", "Quercus", "Plantae"),
    8141: ("Animalia", "Arthropoda", "Insecta", "Odonata", "Libellulidae", "Sympetrum", "Insecta"),
}


def inaturalist(
    root: Path,
    taxonomy: str = "train2018.json",
    lineages: Lineages = TAXONOMY,
    train: Sequence[int] = (0, 5),
    each: int = 2,
) -> Path:
    """Species 0 and 5 train, 1 and 8141 test; or others."""
    number = 0
    for split, species in (("train", train), ("test", [k for k in lineages if k not in train])):
        lines = []
        for one in species:
            for _ in range(each):
                number += 1
                path = f"train_val2018/{lineages[one][-1]}/{one}/{number:032x}.jpg"
                paint(root / path, number)
                lines.append(path)
        write_lines(root / "Inat_dataset_splits" / f"Inaturalist_{split}_set1.txt", lines)
    ranks = ("kingdom", "phylum", "class", "order", "family", "genus", "supercategory")
    categories = [
        {"id": one, "name": f"Species {one}", **dict(zip(ranks, line, strict=True))}
        for one, line in lineages.items()
    ]
    content = {"images": [], "categories": categories} if "train" in taxonomy else categories
    (root / taxonomy).write_text(json.dumps(content), encoding="utf-8")
    return root


MARKET_FILES = {
    "bounding_box_train": ["0002_c1s1_000451_03.jpg", "0002_c2s1_000301_01.jpg"],
    "query": ["0001_c1s1_001051_00.jpg", "0003_c4s6_015641_00.jpg"],
    "bounding_box_test": [
        "-1_c1s1_000401_03.jpg",
        "-1_c4s2_000401_03.jpg",
        "0000_c1s1_000151_01.jpg",
        "0000_c6s3_094992_01.jpg",
        "0001_c1s1_001976_04.jpg",
        "0001_c2s1_001976_01.jpg",
        "0003_c1s6_015971_01.jpg",
    ],
}


def market(root: Path) -> Path:
    """Two queries, junk (-1), distractors (0), a mate by the query's own camera; and Thumbs.db."""
    folder = root / "Market-1501-v15.09.15"
    number = 0
    for part, files in MARKET_FILES.items():
        for file in files:
            number += 1
            paint(folder / part / file, number)
        (folder / part / "Thumbs.db").write_bytes(b"\xd0\xcf\x11\xe0")
    return root


DUKE_FILES = {
    "bounding_box_train": ["0001_c2_f0046182.jpg", "0001_c3_f0046302.jpg"],
    "query": ["0005_c2_f0046985.jpg"],
    "bounding_box_test": ["0002_c1_f0044158.jpg", "0005_c2_f0047105.jpg", "0005_c5_f0048001.jpg"],
}
CUHK03_FILES = {
    "bounding_box_train": ["0002_c1_21.png", "0002_c2_26.png"],
    "query": ["0001_c1_1.png", "0001_c2_6.png"],
    "bounding_box_test": ["0001_c1_2.png", "0001_c2_7.png", "0003_c1_41.png"],
}


def duke(root: Path) -> Path:
    """Person 2 of the gallery has no query; the camera is followed by the frame."""
    return _market_layout(root, "DukeMTMC-reID", DUKE_FILES)


def cuhk03(root: Path) -> Path:
    """Detected boxes, and labelled ones with another image in the gallery."""
    more = [*CUHK03_FILES["bounding_box_test"], "0003_c2_46.png"]
    _market_layout(root, "cuhk03-np/detected", CUHK03_FILES)
    labelled = CUHK03_FILES | {"bounding_box_test": more}
    return _market_layout(root, "cuhk03-np/labeled", labelled)


def _market_layout(root: Path, folder: str, files: Mapping[str, Sequence[str]]) -> Path:
    paths = [f"{part}/{file}" for part, names in files.items() for file in names]
    for number, path in enumerate(paths, 1):
        paint(root / folder / path, number)
    return root


def msmt17(root: Path, train: str = "mask_train_v2", test: str = "mask_test_v2") -> Path:
    """Person 0 of the training set is not person 0 of the test set."""
    folder = root / "MSMT17_V2"
    lists = {
        "list_train.txt": (train, ["0000/0000_000_01_0303morning_0008_0.jpg 0"]),
        "list_val.txt": (train, ["0001/0001_004_02_0303noon_0100_1.jpg 1"]),
        "list_query.txt": (test, ["0000/0000_000_05_0302morning_0200_0.jpg 0"]),
        "list_gallery.txt": (
            test,
            [
                "0000/0000_001_05_0302morning_0210_1.jpg 0",
                "0000/0000_002_14_0302afternoon_0300_0.jpg 0",
                "0001/0001_000_14_0302afternoon_0310_0.jpg 1",
            ],
        ),
    }
    number = 0
    for file, (part, lines) in lists.items():
        for line in lines:
            number += 1
            paint(folder / part / line.split()[0], number)
        write_lines(folder / file, lines)
    return root


def veri(root: Path) -> Path:
    """The query is in the gallery, too, as in the real set."""
    files = {
        "image_train": ["0001_c001_00016450_0.jpg", "0001_c002_00016460_0.jpg"],
        "image_query": ["0002_c002_00030600_0.jpg"],
        "image_test": [
            "0002_c002_00030600_0.jpg",
            "0002_c002_00030605_0.jpg",
            "0002_c003_00030670_0.jpg",
            "0005_c003_00077625_0.jpg",
        ],
    }
    number = 0
    for part, names in files.items():
        for name in names:
            number += 1
            paint(root / "VeRi" / part / name, number)
        list_name = part.replace("image", "name") + ".txt"
        write_lines(root / "VeRi" / list_name, names)
    return root


Rows = Sequence[str]
TRAINED = ("0.jpg, 0, 0, 0", "1.jpg, 0, 0, 1", "2.jpg, 0, 1, 2", "3.jpg, 1, 2, 3")
QUERIES, GALLERY = ("0.jpg, 7", "1.jpg, 8"), ("0.jpg, 7", "1.jpg, 7", "2.jpg, 8")


def dyml(
    root: Path,
    glued: bool = True,
    *,
    train: Rows = TRAINED,
    query: Rows = QUERIES,
    gallery: Rows = GALLERY,
) -> Path:
    """Labels at three levels to train on, a benchmark for each level; no break after the header."""

    def table(path: Path, header: str, rows: Rows) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(header + ("" if glued else "\n") + "\n".join(rows) + "\n", encoding="utf-8")

    for number, row in enumerate(train):
        paint(root / "train" / "imgs" / row.split(",")[0], number)
    table(root / "train" / "label.csv", "fname, coarse_id, middle_id, fine_id", train)
    for offset, level in enumerate(("coarse", "middle", "fine"), 1):
        for split, rows in (("query", query), ("gallery", gallery)):
            for number, row in enumerate(rows):
                paint(root / f"bmk_{level}" / split / row.split(",")[0], 10 * offset + number)
            table(root / f"bmk_{level}" / f"{split}.csv", "fname, labels", rows)
    return root


def dyml_product(
    root: Path,
    train: Rows = ("0.jpg, 0, 0, 0", "1.jpg, 0, 0, 1"),
    test: Rows = ("0.jpg, 0, 0, 0", "1.jpg, 0, 0, 0", "2.jpg, 0, 1, 1"),
) -> Path:
    for part, rows in (("train", train), ("mini-bmk_all_in_one", test)):
        for number, row in enumerate(rows):
            paint(root / part / "imgs" / row.split(",")[0], number)
        text = "fname, coarse_id, middle_id, fine_id" + "\n".join(rows) + "\n"
        (root / part / "label.csv").write_text(text, encoding="utf-8")
    return root


def omniglot(root: Path) -> Path:
    """Two characters of one alphabet to train on, of two alphabets to test; black and white."""
    number = 0
    for part, characters in (
        ("images_background", [("Greek", "character01"), ("Greek", "character02")]),
        ("images_evaluation", [("Tengwar", "character01"), ("Keble", "character01")]),
    ):
        for alphabet, character in characters:
            number += 1
            for drawer in (1, 20):
                path = root / "python" / part / alphabet / character
                path.mkdir(parents=True, exist_ok=True)
                picture = Image.new("1", (105, 105), 1)
                picture.putpixel((drawer, number), 0)
                picture.save(path / f"{number:04d}_{drawer:02d}.png")
    return root


REPLICAS = {
    "cub-200-2011": cub,
    "cub-200-2011-official": partial(cub, each=4),
    "cars-196": cars_matlab,
    "cars-196-official": cars_matlab,
    "stanford-online-products": products,
    "in-shop": inshop,
    "inaturalist-2018": inaturalist,
    "inaturalist-2018-base": inaturalist,
    "market-1501": market,
    "market-layout": market,
    "dukemtmc-reid": duke,
    "cuhk03-detected": cuhk03,
    "cuhk03-labelled": cuhk03,
    "msmt17": msmt17,
    "veri-776": veri,
    "dyml-vehicle": dyml,
    "dyml-vehicle-coarse": dyml,
    "dyml-vehicle-middle": dyml,
    "dyml-vehicle-fine": dyml,
    "dyml-vehicle-overall": dyml,
    "dyml-animal": dyml,
    "dyml-animal-coarse": dyml,
    "dyml-animal-middle": dyml,
    "dyml-animal-fine": dyml,
    "dyml-animal-overall": dyml,
    "dyml-product": dyml_product,
    "omniglot": omniglot,
}
