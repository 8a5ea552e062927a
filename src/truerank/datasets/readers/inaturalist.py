"""iNaturalist-2018 with the open-set split of metric learning: two lists of paths and a taxonomy.

A path is train_val2018/supercategory/species number/file; the taxonomy of the species is in
categories.json or, as first published, in train2018.json.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from truerank.datasets.base import Dataset
from truerank.datasets.images import ImageFiles
from truerank.datasets.readers.disk import check_images, find_root, read_lines, split_rows
from truerank.errors import InputError
from truerank.files import read_json

__all__ = ["read_inaturalist", "read_inaturalist_base"]

LISTS = {
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
    return _dataset(name, folder, paths, splits, labels, (*RANKS, "species"))


def read_inaturalist_base(name: str, root: str | os.PathLike[str]) -> Dataset:
    """iNaturalist with two levels, super-category and species, for which the paths suffice."""
    folder, paths, splits = _listed(name, root)
    labels = [tuple(path.split("/")[-3:-1]) for path in paths]
    return _dataset(name, folder, paths, splits, labels, ("supercategory", "species"))


def _listed(name: str, root: str | os.PathLike[str]) -> tuple[Path, list[str], list[str]]:
    folder = find_root(name, root, tuple(LISTS.values()))
    paths, splits = [], []
    for split, file in LISTS.items():
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


def _dataset(
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
