"""Paths in the place of arrays: Python takes what the command line takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import truerank
from tests.files.samples import EMBEDDINGS, FAMILIES, GROUPS, IDS, LABELS, ROWS, expected, scores

NAMES = [f"image-{row}" for row in range(ROWS)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    np.save(tmp_path / "query.npy", EMBEDDINGS)
    (tmp_path / "query.csv").write_text("label\n" + "\n".join(LABELS))
    rows = zip(LABELS, FAMILIES, GROUPS, IDS, strict=True)
    lines = [f"{label},{family},{group},{name}" for label, family, group, name in rows]
    (tmp_path / "all.csv").write_text("\n".join(["label,level1,group,id", *lines]))
    return tmp_path


def test_labels_by_their_file(folder: Path) -> None:
    for path in (folder / "query.csv", str(folder / "query.csv")):
        assert scores(truerank.evaluate(EMBEDDINGS, path)) == expected()
        assert scores(truerank.evaluate(folder / "query.npy", path)) == expected()


def test_a_file_brings_levels_groups_and_ids(folder: Path) -> None:
    groups = [str(group) for group in GROUPS]
    levels = {"level1": FAMILIES, "label": LABELS}
    wanted = truerank.evaluate(EMBEDDINGS, levels, query_groups=groups, query_ids=IDS)
    assert scores(truerank.evaluate(EMBEDDINGS, folder / "all.csv")) == scores(wanted)
    own = ["one"] * ROWS  # what is passed goes before what a file says
    wanted = truerank.evaluate(EMBEDDINGS, levels, query_groups=groups, query_ids=NAMES)
    found = truerank.evaluate(EMBEDDINGS, folder / "all.csv", query_ids=NAMES)
    assert scores(found) == scores(wanted)
    found = truerank.evaluate(EMBEDDINGS, folder / "all.csv", query_groups=own)
    assert found.provenance["no_mate"] == {"all mates junk": ROWS}


def test_rows_of_two_files_are_matched_by_id(folder: Path) -> None:
    order = np.random.default_rng(0).permutation(ROWS)
    np.savez(folder / "x.npz", embeddings=EMBEDDINGS, id=np.array(NAMES))
    lines = [f"{LABELS[row]},{NAMES[row]}" for row in order]
    (folder / "shuffled.csv").write_text("\n".join(["label,id", *lines]))
    found = truerank.evaluate(folder / "x.npz", folder / "shuffled.csv")
    assert scores(found) == expected()


def test_a_file_of_embeddings_may_hold_the_labels(folder: Path) -> None:
    np.savez(folder / "x.npz", embeddings=EMBEDDINGS, label=np.array(LABELS))
    assert scores(truerank.evaluate(folder / "x.npz")) == expected()
    assert truerank.audit(folder / "x.npz")["duplicates across classes"].rows == ((2, 7),)
    assert scores(truerank.evaluate(folder / "x.npz", FAMILIES)) == scores(
        truerank.evaluate(EMBEDDINGS, FAMILIES)
    )


def test_a_gallery_by_its_files(folder: Path) -> None:
    query, gallery = EMBEDDINGS[1::2], EMBEDDINGS[::2]
    np.save(folder / "gallery.npy", gallery)
    (folder / "gallery.csv").write_text("\n".join(LABELS[::2]))
    (folder / "half.csv").write_text("\n".join(LABELS[1::2]))
    wanted = truerank.evaluate(query, LABELS[1::2], gallery=gallery, gallery_labels=LABELS[::2])
    found = truerank.evaluate(
        query,
        folder / "half.csv",
        gallery=folder / "gallery.npy",
        gallery_labels=folder / "gallery.csv",
    )
    assert scores(found) == scores(wanted)


def test_ids_of_one_side_alone_are_of_no_use(folder: Path) -> None:
    """As on the command line: rows meet by id only where both sides have ids."""
    arguments: dict[str, Any] = {"gallery": EMBEDDINGS[::2] + 1, "gallery_labels": LABELS[::2]}
    (folder / "ids.csv").write_text(
        "\n".join(["label,id", *(f"{a},{b}" for a, b in zip(LABELS, IDS, strict=True))])
    )
    found = truerank.evaluate(EMBEDDINGS, folder / "ids.csv", **arguments)
    assert scores(found) == scores(truerank.evaluate(EMBEDDINGS, LABELS, **arguments))


def test_judgements_go_before_labels_in_a_file(folder: Path) -> None:
    np.savez(folder / "x.npz", embeddings=EMBEDDINGS, label=np.array(LABELS))
    relevance = np.array(FAMILIES)[:, None] == np.array(FAMILIES)
    found = truerank.evaluate(folder / "x.npz", relevance=relevance, gallery=EMBEDDINGS + 1)
    wanted = truerank.evaluate(EMBEDDINGS, relevance=relevance, gallery=EMBEDDINGS + 1)
    assert scores(found) == scores(wanted)


def test_thresholds_and_audits_take_paths_too(folder: Path) -> None:
    point = truerank.choose_threshold(folder / "query.npy", folder / "query.csv", far=0.1)
    assert point == truerank.choose_threshold(EMBEDDINGS, LABELS, far=0.1)
    by_path = truerank.audit(folder / "query.npy", folder / "query.csv")
    assert by_path.to_dict() == truerank.audit(EMBEDDINGS, LABELS).to_dict()


def test_a_path_that_is_none(folder: Path) -> None:
    with pytest.raises(truerank.InputError, match=r"cannot read .*nowhere.csv"):
        truerank.evaluate(EMBEDDINGS, folder / "nowhere.csv")
