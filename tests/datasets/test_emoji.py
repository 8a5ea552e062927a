"""The data set inside the package: what its documentation promises, counted in the file itself."""

from __future__ import annotations

import subprocess
import sys
from importlib.resources import files

import numpy as np
import pytest

import truerank
from truerank._util.errors import InputError
from truerank.datasets.emoji import SHARE_ALIKE, Emoji, emoji

QUERY_FAMILIES = {"twemoji", "fluent-emoji-flat"}


@pytest.fixture(scope="module")
def data() -> Emoji:
    return emoji()


def pairs(data: Emoji) -> tuple[np.ndarray, np.ndarray]:
    """For every query and gallery row: is it relevant, is it junk?"""
    query, gallery = data.is_query, ~data.is_query
    same_label = data.labels[query][:, None] == data.labels[gallery]
    same_family = data.families[query][:, None] == data.families[gallery]
    return same_label & ~same_family, same_label & same_family


def hit_at_1(data: Emoji, model: str) -> float:
    """Share of the queries with mates whose nearest gallery row by cosine is one of them."""
    rows = data.models[model].astype(float)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    scores = rows[data.is_query] @ rows[~data.is_query].T
    relevant, junk = pairs(data)
    scores[junk] = -np.inf
    hits = relevant[np.arange(len(scores)), scores.argmax(axis=1)]
    return float(hits[relevant.any(axis=1)].mean())


def test_file_is_small_and_needs_no_pickle():
    path = files("truerank.datasets") / "emoji.npz"
    assert len(path.read_bytes()) < 1_600_000
    with path.open("rb") as file:
        arrays = dict(np.load(file, allow_pickle=False))
    assert all(array.dtype.kind in "iUb" for array in arrays.values())
    assert arrays["pixels"].dtype == arrays["efficientnet"].dtype == np.int8


def test_shapes(data):
    n = len(data.ids)
    assert (n, int(data.is_query.sum()), len(np.unique(data.labels))) == (5494, 1634, 817)
    assert data.labels.shape == data.families.shape == data.is_query.shape == (n,)
    assert data.levels.shape == (n, 3)
    assert list(data.models) == ["efficientnet", "pixels"]
    for rows in data.models.values():
        assert rows.shape == (n, 64)
        assert rows.dtype == np.float32
        assert np.all(rows == np.rint(rows))
        assert np.all(rows.any(axis=1)), "a zero vector has no direction"


def test_ids_name_each_drawing_once(data):
    assert len(np.unique(data.ids)) == len(data.ids)
    for i in range(0, len(data.ids), 97):
        assert data.ids[i].startswith(f"{data.families[i]}/{data.labels[i]}")


def test_hierarchy_is_a_tree(data):
    assert np.array_equal(data.levels[:, 2], data.labels)
    for fine in (1, 2):
        edges = np.unique(data.levels[:, fine - 1 : fine + 1], axis=0)
        assert len(edges) == len(np.unique(data.levels[:, fine])), "a node with two parents"
    assert [len(np.unique(data.levels[:, level])) for level in range(3)] == [9, 95, 817]


def test_queries_are_two_families_and_the_gallery_has_all_eight(data):
    assert set(data.families[data.is_query]) == QUERY_FAMILIES
    gallery = set(data.families[~data.is_query])
    assert gallery > QUERY_FAMILIES
    assert len(gallery) == 8


def test_every_query_has_several_mates_or_is_not_in_the_gallery(data):
    relevant, junk = pairs(data)
    mates = relevant.sum(axis=1)
    unmated = mates == 0
    assert int(unmated.sum()) == 196
    assert 0.10 <= unmated.mean() <= 0.15
    assert not junk[unmated].any()
    assert mates[~unmated].min() >= 2


def test_junk_is_one_toned_drawing_by_the_same_family(data):
    _, junk = pairs(data)
    assert junk.sum(axis=1).max() == 1
    assert int(junk.any(axis=1).sum()) == 279
    junk_ids = data.ids[~data.is_query][junk.any(axis=0)]
    assert all(name.endswith("-medium-skin-tone") for name in junk_ids)


def test_different_emoji_drawn_alike_are_tied(data):
    rows, inverse = np.unique(data.models["efficientnet"], axis=0, return_inverse=True)
    assert len(rows) < len(data.ids)
    labels_of_row = {(row, label) for row, label in zip(inverse.ravel(), data.labels, strict=True)}
    assert len(labels_of_row) > len(rows)


def test_the_network_is_better_than_pixels_and_neither_is_perfect(data):
    pixels, efficientnet = hit_at_1(data, "pixels"), hit_at_1(data, "efficientnet")
    assert 0.35 < pixels < 0.5
    assert pixels + 0.03 < efficientnet < 0.7


def test_task_splits_rows_and_keeps_ids_disjoint(data):
    task = data.task("pixels")
    assert set(task) == {
        "embeddings",
        "labels",
        "gallery",
        "gallery_labels",
        "query_ids",
        "gallery_ids",
        "query_groups",
        "gallery_groups",
    }
    assert task["embeddings"].shape == (1634, 64)
    assert task["labels"].shape == (1634,)
    assert not set(task["query_ids"]) & set(task["gallery_ids"])
    for side in ("embeddings", "labels", "query_ids", "query_groups"):
        assert len(task[side]) == 1634
    for side in ("gallery", "gallery_labels", "gallery_ids", "gallery_groups"):
        assert len(task[side]) == len(data.ids) - 1634


def test_task_with_hierarchy_has_three_levels(data):
    task = data.task("pixels", hierarchy=True)
    assert task["labels"].shape == (1634, 3)
    assert np.array_equal(task["labels"][:, 2], data.task("pixels")["labels"])
    assert task["gallery_labels"].shape[1] == 3


def test_unknown_model_is_refused_by_name(data):
    with pytest.raises(InputError, match=r"one of efficientnet, pixels\. Got 'resnet'"):
        data.task("resnet")


def test_evaluate_agrees_with_brute_force(data):
    score = truerank.evaluate(**data.task("efficientnet"), metrics=["precision@1"])["precision@1"]
    assert score.n == 1438
    assert score.lower < score.upper, "some nearest neighbours are tied"
    # Rounding decides a tie of the brute force, so it may fall anywhere between the bounds.
    assert score.lower - 1e-12 <= hit_at_1(data, "efficientnet") <= score.upper + 1e-12


def test_import_reads_nothing():
    code = (
        "import sys, truerank.datasets; "
        "assert 'numpy' not in sys.modules, 'numpy was imported before it was needed'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_pictures_are_those_of_the_permissive_families(data):
    shown = data.pictures()
    sides = {"images": data.is_query, "gallery_images": ~data.is_query}
    for name, side in sides.items():
        held = [picture is not None for picture in shown[name]]
        assert held == [family not in SHARE_ALIKE for family in data.families[side]]
    assert {picture.size for picture in shown["images"]} == {(64, 64)}
    assert "CC-BY-4.0" in shown["credits"]
    assert len((files("truerank.datasets") / "emoji.webp").read_bytes()) < 2_500_000


def test_a_picture_shows_the_drawing_of_its_row(data):
    """Means over squares of 4 pixels of a picture are the thumbnail that `pixels` comes from: two
    drawings that are near in one are near in the other."""
    images = data.pictures()["images"]
    small = np.stack([np.asarray(one.resize((16, 16))).ravel() for one in images]).astype(float)
    small -= small.mean(axis=0)
    units = small / np.linalg.norm(small, axis=1, keepdims=True)
    rows = data.models["pixels"][data.is_query].astype(float)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    pairs = np.triu_indices(len(rows), 1)
    likeness = np.corrcoef((units @ units.T)[pairs], (rows @ rows.T)[pairs])[0, 1]
    assert likeness > 0.5
    shifted = np.roll(units, 1, axis=0)
    assert abs(np.corrcoef((shifted @ shifted.T)[pairs], (rows @ rows.T)[pairs])[0, 1]) < 0.2
