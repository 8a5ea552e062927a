"""Catalogue of data sets, and `read`: a name and a folder in, a Dataset out.

An entry has title, reader, licence, citation and counts. A warning is given where the folder
holds another number of images or classes than was published, or where a class is both trained
on and tested.
"""

from __future__ import annotations

import difflib
import os
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from truerank._util.errors import InputError, TruerankWarning
from truerank._util.text import count
from truerank.datasets.base import Dataset
from truerank.datasets.folders import read_folder, read_table
from truerank.datasets.npm import read_emoji_families, read_quickdraw
from truerank.datasets.readers import (
    LEVELS,
    read_cars,
    read_cub,
    read_dyml_benchmark,
    read_dyml_product,
    read_dyml_train,
    read_inaturalist,
    read_inaturalist_base,
    read_inshop,
    read_market,
    read_msmt17,
    read_omniglot,
    read_products,
    read_veri,
)


@dataclass(frozen=True)
class DatasetEntry:
    """What is known of one data set before it is read."""

    name: str
    title: str
    reader: Callable[[str, Any], Dataset]
    page: str
    """The data set's page in docs/data."""
    licence: str = ""
    citation: str = ""
    expected: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)
    """Images and classes of each split, as published; None where sources disagree."""
    aliases: tuple[str, ...] = ()
    fetched: bool = False
    """Whether `truerank data get` can fetch the data set."""
    shares_classes: bool = False
    """Whether training and test have the same classes, as in classification."""


NOT_STATED = "none stated; photographs of others: research use"
NON_COMMERCIAL = "non-commercial research and education"
BY_AGREEMENT = "by agreement with its authors: non-commercial research"

OFFICIAL = "-official"
"""What the name of a data set's official split ends with."""

INATURALIST = (
    "Van Horn, Mac Aodha, Song, Cui, Sun, Shepard, Adam, Perona, Belongie: The iNaturalist Species "
    "Classification and Detection Dataset. CVPR 2018. Split: Brown, Xie, Kalogeiton, Zisserman: "
    "Smooth-AP: Smoothing the Path Towards Large-Scale Image Retrieval. ECCV 2020."
)
DYML = (
    "Sun, Zhu, Zhang, Zheng, Qiu, Zhang, Wei: Dynamic Metric Learning: Towards a Scalable Metric "
    "Space to Accommodate Multiple Semantic Scales. CVPR 2021."
)


def _official(
    entry: DatasetEntry, reader: Callable[..., Dataset], train: int, test: int, classes: int
) -> DatasetEntry:
    """The same images in the halves that their authors made for classification."""
    return replace(
        entry,
        name=f"{entry.name}{OFFICIAL}",
        title=f"{entry.title}, classes in both halves",
        reader=partial(reader, official=True),
        expected={"train": (train, classes), "test": (test, classes)},
        aliases=tuple(f"{alias}{OFFICIAL}" for alias in entry.aliases),
        shares_classes=True,
    )


def _inaturalist(suffix: str, levels: str, reader: Callable[[str, Any], Dataset]) -> DatasetEntry:
    return DatasetEntry(
        f"inaturalist-2018{suffix}",
        f"iNaturalist 2018, {levels} levels",
        reader,
        "inaturalist-2018.md",
        f"{NON_COMMERCIAL}; each photograph has separate terms",
        INATURALIST,
        {"train": (325_846, 5_690), "test": (136_093, 2_452)},
        (f"inat{suffix}", f"inat-2018{suffix}"),
    )


def _cuhk03(boxes: str, train: int, gallery: int, aliases: tuple[str, ...] = ()) -> DatasetEntry:
    spelled = ("labeled", "labelled") if boxes == "labelled" else (boxes,)
    folders = tuple(f"{folder}{one}" for one in spelled for folder in CUHK03)
    return DatasetEntry(
        f"cuhk03-{boxes}",
        f"CUHK03, people, {boxes} boxes, new protocol",
        partial(read_market, inside=folders),
        "market-1501.md",
        BY_AGREEMENT,
        "Li, Zhao, Xiao, Wang: DeepReID: Deep Filter Pairing Neural Network for Person "
        "Re-Identification. CVPR 2014. Split: Zhong, Zheng, Cao, Li: Re-ranking Person "
        "Re-identification with k-reciprocal Encoding. CVPR 2017.",
        {"train": (train, 767), "query": (1_400, 700), "gallery": (gallery, 700)},
        aliases,
    )


CUHK03 = ("", "cuhk03-np/", "CUHK03-NP/")
"""Where the folder of each kind of boxes lies."""


def _dyml(name: str, title: str, reader: Callable[[str, Any], Dataset]) -> DatasetEntry:
    licence = "none stated; collected from other data sets, whose terms apply"
    return DatasetEntry(f"dyml-{name}", f"DyML-{title}", reader, "dyml.md", licence, DYML)


def _dyml_by_level(topic: str) -> list[DatasetEntry]:
    def benchmark(name: str, title: str, levels: tuple[str, ...]) -> DatasetEntry:
        reader = partial(read_dyml_benchmark, levels)
        return _dyml(f"{topic}-{name}", f"{topic.title()}, {title}", reader)

    return [
        _dyml(topic, f"{topic.title()}, training set", read_dyml_train),
        *(benchmark(level, f"{level} benchmark", (level,)) for level in LEVELS),
        benchmark("overall", "training set and the benchmarks of all levels", LEVELS),
    ]


CUB = DatasetEntry(
    "cub-200-2011",
    "Caltech-UCSD Birds 200",
    read_cub,
    "cub-200-2011.md",
    NOT_STATED,
    "Wah, Branson, Welinder, Perona, Belongie: The Caltech-UCSD Birds-200-2011 Dataset. "
    "California Institute of Technology, CNS-TR-2011-001, 2011.",
    {"train": (5_864, 100), "test": (5_924, 100)},
    ("cub", "cub-200"),
)
CARS = DatasetEntry(
    "cars-196",
    "Stanford Cars",
    read_cars,
    "cars-196.md",
    NON_COMMERCIAL,
    "Krause, Stark, Deng, Fei-Fei: 3D Object Representations for Fine-Grained Categorization. "
    "Workshop on 3D Representation and Recognition, ICCV 2013.",
    {"train": (8_054, 98), "test": (8_131, 98)},
    ("cars", "stanford-cars"),
)
_ALL = (
    DatasetEntry(
        "quickdraw",
        "QuickDraw, 345 classes of sketches",
        read_quickdraw,
        "quickdraw.md",
        "CC-BY-4.0",
        "Google: Quick, Draw! Ha, Eck: A Neural Representation of Sketch Drawings. ICLR 2018.",
        {"train": (17_200, 172), "test": (17_300, 173)},
        ("quickdraw-345",),
        fetched=True,
    ),
    DatasetEntry(
        "emoji",
        "emoji in eight designs, three levels",
        read_emoji_families,
        "emoji-families.md",
        "Apache-2.0, CC-BY-4.0, CC-BY-SA-4.0 and MIT, by family",
        "Noto Emoji (Google), Twemoji (Twitter), OpenMoji, Fluent Emoji (Microsoft), Emoji One, "
        "Firefox OS Emoji (Mozilla); names by emoji-datasource (Cal Henderson).",
        {"train": (7_372, 1_212), "test": (2_444, 403)},
        ("emoji-families",),
        fetched=True,
    ),
    CUB,
    _official(CUB, read_cub, 5_994, 5_794, 200),
    CARS,
    _official(CARS, read_cars, 8_144, 8_041, 196),
    DatasetEntry(
        "stanford-online-products",
        "Stanford Online Products",
        read_products,
        "stanford-online-products.md",
        NOT_STATED,
        "Oh Song, Xiang, Jegelka, Savarese: Deep Metric Learning via Lifted Structured Feature "
        "Embedding. CVPR 2016.",
        {"train": (59_551, 11_318), "test": (60_502, 11_316)},
        ("sop",),
    ),
    DatasetEntry(
        "in-shop",
        "In-Shop Clothes Retrieval (DeepFashion)",
        read_inshop,
        "in-shop.md",
        NON_COMMERCIAL,
        "Liu, Luo, Qiu, Wang, Tang: DeepFashion: Powering Robust Clothes Recognition and Retrieval "
        "with Rich Annotations. CVPR 2016.",
        {"train": (25_882, 3_997), "query": (14_218, 3_985), "gallery": (12_612, 3_985)},
        ("deepfashion-in-shop",),
    ),
    _inaturalist("", "seven", read_inaturalist),
    _inaturalist("-base", "two", read_inaturalist_base),
    DatasetEntry(
        "market-1501",
        "Market-1501, people",
        read_market,
        "market-1501.md",
        "none stated; people are recognisable: research use",
        "Zheng, Shen, Tian, Wang, Wang, Tian: Scalable Person Re-identification: A Benchmark. "
        "ICCV 2015.",
        {"train": (12_936, 751), "query": (3_368, 750), "gallery": (19_732, 752)},
        ("market",),
    ),
    DatasetEntry(
        "dukemtmc-reid",
        "DukeMTMC-reID, people",
        partial(read_market, inside=("DukeMTMC-reID",)),
        "market-1501.md",
        "academic research; no longer distributed by its authors",
        "Ristani, Solera, Zou, Cucchiara, Tomasi: Performance Measures and a Data Set for "
        "Multi-Target, Multi-Camera Tracking. ECCV 2016 workshops. Zheng, Zheng, Yang: Unlabeled "
        "Samples Generated by GAN Improve the Person Re-identification Baseline in Vitro. ICCV "
        "2017.",
        {"train": (16_522, 702), "query": (2_228, 702), "gallery": (17_661, 1_110)},
        ("duke", "dukemtmc"),
    ),
    _cuhk03("detected", 7_365, 5_332),
    _cuhk03("labelled", 7_368, 5_328, ("cuhk03-labeled",)),
    DatasetEntry(
        "market-layout", "any set in the layout of Market-1501", read_market, "market-1501.md"
    ),
    DatasetEntry(
        "msmt17",
        "MSMT17, people",
        read_msmt17,
        "msmt17.md",
        BY_AGREEMENT,
        "Wei, Zhang, Gao, Tian: Person Transfer GAN to Bridge Domain Gap for Person "
        "Re-Identification. CVPR 2018.",
        {"train": (32_621, 1_041), "query": (11_659, 3_060), "gallery": (82_161, 3_060)},
    ),
    DatasetEntry(
        "veri-776",
        "VeRi-776, vehicles",
        read_veri,
        "veri-776.md",
        BY_AGREEMENT,
        "Liu, Liu, Mei, Ma: A Deep Learning-Based Approach to Progressive Vehicle "
        "Re-identification for Urban Surveillance. ECCV 2016.",
        {"train": (37_778, None), "query": (1_678, 200), "gallery": (11_579, 200)},
        ("veri",),
    ),
    *_dyml_by_level("vehicle"),
    *_dyml_by_level("animal"),
    _dyml("product", "Product", read_dyml_product),
    DatasetEntry(
        "omniglot",
        "Omniglot, handwritten characters",
        read_omniglot,
        "omniglot.md",
        "MIT",
        "Lake, Salakhutdinov, Tenenbaum: Human-level concept learning through probabilistic "
        "program induction. Science 350 (6266), 2015.",
        {"train": (19_280, 964), "test": (13_180, 659)},
    ),
    DatasetEntry("folder", "any folder of images, labelled by folders", read_folder, "your-own.md"),
    DatasetEntry("table", "any table of paths and labels", read_table, "your-own.md"),
)
ENTRIES: dict[str, DatasetEntry] = {entry.name: entry for entry in _ALL}


# Data sets by name: a name and a folder come in, a Dataset goes out.


def names() -> tuple[str, ...]:
    """Return the names of the data sets that can be read.

    Examples
    --------
    >>> from truerank import datasets
    >>> "cub-200-2011" in datasets.names()
    True
    """
    return tuple(ENTRIES)


def find(name: str) -> DatasetEntry:
    """The entry of a data set, by its name or another name that it goes by.

    Examples
    --------
    >>> from truerank.datasets.catalogue import find
    >>> find("CUB200").name
    'cub-200-2011'
    """
    known = {_plain(known): e for e in ENTRIES.values() for known in (e.name, *e.aliases)}
    entry = known.get(_plain(name)) if isinstance(name, str) else None
    if entry is None:
        start = _plain(str(name))
        near = [e.name for e in ENTRIES.values() if start and _plain(e.name).startswith(start)]
        if not near:
            close = difflib.get_close_matches(start, known, n=1, cutoff=0.5)
            near = [known[one].name for one in close]
        meant = " or ".join(map(repr, near))
        hint = f"; did you mean {meant}?" if near else f": {', '.join(ENTRIES)}."
        raise InputError(f"{name!r} is no data set that truerank reads{hint}")
    return entry


def official(name: str) -> str:
    """The name under which a data set is read in its official split, if it has one.

    Examples
    --------
    >>> from truerank.datasets.catalogue import official
    >>> official("cub"), official("stanford-online-products")
    ('cub-200-2011-official', 'stanford-online-products')
    """
    known = find(name).name
    return f"{known}{OFFICIAL}" if f"{known}{OFFICIAL}" in ENTRIES else known


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def read(name: str, root: str | os.PathLike[str] | None = None) -> Dataset:
    """Read a data set from disk.

    Parameters
    ----------
    name : str
        One of `truerank.datasets.names()`.
    root : path
        The folder that holds it, as its page in docs/data describes; for "table" the file. What
        `truerank data get` fetches is read from the cache without one.

    Returns
    -------
    Dataset
        Labels, groups and the standard split; images are decoded when they are asked for.

    Warns
    -----
    TruerankWarning
        If images or classes are fewer or more than published, or if a class of the training set
        occurs in the test set.

    Examples
    --------
    >>> from truerank import datasets
    >>> datasets.read("cub-200-2011", "no-such-folder")
    Traceback (most recent call last):
    truerank.InputError: cub-200-2011 is read from a folder; no-such-folder does not exist.
    """
    entry = find(name)
    if root is None and not entry.fetched:
        raise InputError(
            f"{entry.name} is read from disk: pass the folder that holds it; in a YAML file it is "
            "data.root."
        )
    data = entry.reader(entry.name, root)
    for sentence in _differences(entry, data):
        warnings.warn(sentence, TruerankWarning, stacklevel=2)
    return replace(data, licence=entry.licence, citation=entry.citation)


def _differences(entry: DatasetEntry, data: Dataset) -> list[str]:
    """Sentences about what is not as published."""
    found = []
    for split, (images, classes) in entry.expected.items():
        rows = data.splits.get(split, np.empty(0, np.int64))
        here = len(rows), len(np.unique(data.fine_labels[rows]))
        if here != (images, here[1] if classes is None else classes):
            published = f"{images:,}" + (f" of {classes:,}" if classes is not None else "")
            found.append(
                f"{split} has {count(here[0], 'image')} of {count(here[1], 'class')} where "
                f"{published} were published"
            )
    sentences = []
    if found:
        sentences.append(
            f"{entry.name} is not complete or not the standard one: {'; '.join(found)}. Scores on "
            "it do not compare with published ones."
        )
    if "train" in data.splits and not entry.shares_classes:
        trained = np.unique(data.fine_labels[data.splits["train"]])
        for split in ("test", "query", "gallery"):
            if split not in data.splits:
                continue
            shared = np.intersect1d(trained, data.fine_labels[data.splits[split]])
            if shared.size:
                sentences.append(
                    f"{count(shared.size, 'class')} of {entry.name} "
                    f"{'occurs' if shared.size == 1 else 'occur'} in train and in {split}, so that "
                    "the test is not one of unseen classes, as published ones are."
                )
    return sentences
