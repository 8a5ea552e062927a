"""Every kind of embeddings file gives the scores of the array in it, by evaluate and by command."""

from __future__ import annotations

import json
import sys
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
import pyarrow
import pytest
import torch
from pyarrow import parquet
from safetensors.numpy import save_file as save_numpy
from safetensors.torch import save_file as save_torch
from scipy.io import savemat

import truerank
from tests.cli.driving import run
from tests.files.samples import (
    CLASSES,
    DIMENSIONS,
    EMBEDDINGS,
    GROUPS,
    IDS,
    LABELS,
    ROWS,
    expected,
    scores,
)
from tests.refusals import refused
from truerank.io.reading import read, read_embeddings

TENSOR = torch.from_numpy(EMBEDDINGS)
TEXT = np.array(LABELS)


def as_list_column(kind: str, embeddings: npt.NDArray[Any] = EMBEDDINGS) -> pyarrow.Array:
    number = pyarrow.from_numpy_dtype(embeddings.dtype)
    lists = {
        "list": pyarrow.list_(number),
        "large_list": pyarrow.large_list(number),
        "fixed_size_list": pyarrow.list_(number, embeddings.shape[1]),
    }
    return pyarrow.array(embeddings.tolist(), lists[kind])


def write_parquet(path: Path, *, row_group_size: int | None = None, **columns: Any) -> None:
    parquet.write_table(pyarrow.table(columns), path, row_group_size=row_group_size)


def write_table(path: Path, kind: str, **options: Any) -> None:
    write_parquet(path, embedding=as_list_column(kind), label=LABELS, **options)


# What holds nothing but embeddings: the suffix, and how such a file is written.
EMBEDDINGS_ONLY: dict[str, tuple[str, Callable[[Path], None]]] = {
    "npy float64": (".npy", lambda path: np.save(path, EMBEDDINGS)),
    "npy float32": (".npy", lambda path: np.save(path, EMBEDDINGS.astype(np.float32))),
    "npy float16": (".npy", lambda path: np.save(path, EMBEDDINGS.astype(np.float16))),
    "npy big-endian": (".npy", lambda path: np.save(path, EMBEDDINGS.astype(">f8"))),
    "npy column-major": (".npy", lambda path: np.save(path, np.asfortranarray(EMBEDDINGS))),
    "NPY in capitals": (".NPY", lambda path: path.write_bytes(_npy_bytes())),
    "npz, one array, no name": (".npz", lambda path: np.savez(path, EMBEDDINGS)),
    "npz, one array, own name": (".npz", lambda path: np.savez(path, resnet50=EMBEDDINGS)),
    "pt tensor": (".pt", lambda path: torch.save(TENSOR, path)),
    "pth tensor": (".pth", lambda path: torch.save(TENSOR.float(), path)),
    "pt float16": (".pt", lambda path: torch.save(TENSOR.half(), path)),
    "pt bfloat16": (".pt", lambda path: torch.save(TENSOR.bfloat16(), path)),
    "pt with gradient": (".pt", lambda path: torch.save(TENSOR.clone().requires_grad_(), path)),
    "pt parameter": (".pt", lambda path: torch.save(torch.nn.Parameter(TENSOR.float()), path)),
    "pt transposed": (".pt", lambda path: torch.save(TENSOR.T.contiguous().T, path)),
    "pt before 1.6": (
        ".pt",
        lambda path: torch.save(TENSOR, path, _use_new_zipfile_serialization=False),
    ),
    "safetensors": (".safetensors", lambda path: save_numpy({"x": EMBEDDINGS}, path)),
    "safetensors float16": (".safetensors", lambda path: save_torch({"x": TENSOR.half()}, path)),
    "safetensors bfloat16": (
        ".safetensors",
        lambda path: save_torch({"weights": TENSOR.bfloat16()}, path),
    ),
    "parquet list": (".parquet", lambda path: write_parquet(path, vec=as_list_column("list"))),
    "pq list": (".pq", lambda path: write_parquet(path, vec=as_list_column("list"))),
}

# What holds embeddings and labels.
WITH_LABELS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "npz": (".npz", lambda path: np.savez(path, embeddings=EMBEDDINGS, labels=TEXT)),
    "npz compressed": (
        ".npz",
        lambda path: np.savez_compressed(path, features=EMBEDDINGS, targets=CLASSES),
    ),
    "npz, other habits": (".npz", lambda path: np.savez(path, X=EMBEDDINGS, y=CLASSES)),
    "npz, matrix by its shape": (
        ".npz",
        lambda path: np.savez(path, resnet50=EMBEDDINGS, label=CLASSES),
    ),
    "pt dict": (
        ".pt",
        lambda path: torch.save(
            {"embeddings": TENSOR.float(), "labels": torch.from_numpy(CLASSES), "epoch": 3}, path
        ),
    ),
    "pt dict, text": (
        ".pt",
        lambda path: torch.save({"features": TENSOR.bfloat16(), "labels": LABELS}, path),
    ),
    "safetensors": (
        ".safetensors",
        lambda path: save_torch(
            {"embeddings": TENSOR.bfloat16(), "labels": torch.from_numpy(CLASSES)}, path
        ),
    ),
    "parquet list": (".parquet", lambda path: write_table(path, "list")),
    "parquet large_list": (".parquet", lambda path: write_table(path, "large_list")),
    "parquet fixed_size_list": (".parquet", lambda path: write_table(path, "fixed_size_list")),
    "parquet in row groups": (".parquet", lambda path: write_table(path, "list", row_group_size=7)),
    "parquet float32": (
        ".parquet",
        lambda path: write_parquet(
            path,
            embedding=as_list_column("fixed_size_list", EMBEDDINGS.astype(np.float32)),
            label=CLASSES,
        ),
    ),
    "parquet float16": (
        ".parquet",
        lambda path: write_parquet(
            path, embedding=as_list_column("list", EMBEDDINGS.astype(np.float16)), label=LABELS
        ),
    ),
    "parquet dictionary labels": (
        ".parquet",
        lambda path: write_parquet(
            path,
            embedding=as_list_column("list"),
            label=pyarrow.array(LABELS).dictionary_encode(),
        ),
    ),
    "parquet bytes labels": (
        ".parquet",
        lambda path: write_parquet(
            path, embedding=as_list_column("list"), label=[label.encode() for label in LABELS]
        ),
    ),
    "parquet dates as labels": (
        ".parquet",
        lambda path: write_parquet(
            path,
            embedding=as_list_column("list"),
            label=pyarrow.array(CLASSES.tolist(), pyarrow.int32()).cast(pyarrow.date32()),
        ),
    ),
    "parquet decimals as labels": (
        ".parquet",
        lambda path: write_parquet(
            path,
            embedding=as_list_column("list"),
            label=pyarrow.array(CLASSES).cast(pyarrow.decimal128(20, 0)),
        ),
    ),
}


def _npy_bytes() -> bytes:
    import io

    buffer = io.BytesIO()
    np.save(buffer, EMBEDDINGS)
    return buffer.getvalue()


def command_scores(*arguments: object) -> dict[str, Any]:
    """The scores that the command writes to a file, and prints."""
    outcome = run("evaluate", *arguments, "--format", "json")
    assert outcome.status == 0, outcome
    printed: dict[str, Any] = json.loads(outcome.out)["scores"]
    return printed


def without_queries(found: dict[str, Any]) -> dict[str, Any]:
    """Printed JSON leaves the values of each query out."""
    return {
        name: {key: value for key, value in score.items() if key != "per_query"}
        for name, score in found.items()
    }


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    path = tmp_path / "labels.csv"
    path.write_text("label\n" + "\n".join(LABELS) + "\n")
    return path


@pytest.mark.parametrize("kind", EMBEDDINGS_ONLY)
def test_a_file_scores_as_the_array_in_it(kind: str, tmp_path: Path, labels: Path) -> None:
    suffix, write = EMBEDDINGS_ONLY[kind]
    path = tmp_path / f"embeddings{suffix}"
    write(path)
    assert scores(truerank.evaluate(path, LABELS)) == expected()
    assert scores(truerank.evaluate(str(path), LABELS)) == expected()
    assert command_scores(path, "--labels", labels) == without_queries(expected())


@pytest.mark.parametrize("kind", WITH_LABELS)
def test_a_file_may_hold_its_labels(kind: str, tmp_path: Path) -> None:
    suffix, write = WITH_LABELS[kind]
    path = tmp_path / f"both{suffix}"
    write(path)
    assert scores(truerank.evaluate(path, LABELS)) == expected()
    assert command_scores(path) == without_queries(expected())


def test_labels_from_a_file_replace_those_beside_the_embeddings(
    tmp_path: Path, labels: Path
) -> None:
    path = tmp_path / "both.npz"
    np.savez(path, embeddings=EMBEDDINGS, labels=np.zeros(ROWS, np.int64))
    assert command_scores(path, "--labels", labels) == without_queries(expected())


def test_groups_and_ids_beside_the_embeddings_are_obeyed(tmp_path: Path) -> None:
    wanted = expected(query_groups=GROUPS, query_ids=IDS)
    assert wanted != expected()
    columns = {"label": LABELS, "camid": GROUPS, "id": IDS}
    npz, pt, table = (tmp_path / f"all{suffix}" for suffix in (".npz", ".pt", ".parquet"))
    np.savez(npz, embeddings=EMBEDDINGS, **{name: np.array(v) for name, v in columns.items()})
    torch.save({"embeddings": TENSOR, **columns, "camid": torch.from_numpy(GROUPS)}, pt)
    write_parquet(table, embedding=as_list_column("list"), **columns)
    for path in (npz, pt, table):
        assert command_scores(path) == without_queries(wanted)


def test_the_gallery_may_be_another_kind_of_file(tmp_path: Path) -> None:
    query, gallery = EMBEDDINGS[:9] + 0.25, EMBEDDINGS[9:]
    query_labels, gallery_labels = LABELS[3:12], LABELS[9:]
    np.save(tmp_path / "query.npy", query)
    (tmp_path / "query.csv").write_text("\n".join(query_labels))
    save_torch({"x": torch.from_numpy(gallery)}, tmp_path / "gallery.safetensors")
    write_parquet(tmp_path / "gallery.parquet", label=gallery_labels)
    wanted = truerank.evaluate(query, query_labels, gallery=gallery, gallery_labels=gallery_labels)
    found = truerank.evaluate(
        tmp_path / "query.npy",
        query_labels,
        gallery=tmp_path / "gallery.safetensors",
        gallery_labels=gallery_labels,
    )
    assert scores(found) == scores(wanted)
    assert command_scores(
        tmp_path / "query.npy",
        "--labels",
        tmp_path / "query.csv",
        "--gallery",
        tmp_path / "gallery.safetensors",
        "--gallery-labels",
        tmp_path / "gallery.parquet",
    ) == without_queries(scores(wanted))


# --- memory maps


def test_a_large_npy_is_mapped_and_not_loaded(tmp_path: Path) -> None:
    path = tmp_path / "large.npy"
    np.save(path, np.ones((60_000, 16), np.float32))
    size = path.stat().st_size
    tracemalloc.start()
    array = read_embeddings(path)
    matrix = read(path).embeddings
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(array, np.memmap)
    assert isinstance(matrix, np.memmap)
    assert not array.flags.writeable
    assert array.shape == (60_000, 16)
    assert peak < size / 10


def test_a_command_searches_a_mapped_gallery_of_60000_rows(tmp_path: Path) -> None:
    """Classes 0 to 19 sit on axes of their own; everything else is far from all of them."""
    width = 8
    gallery = np.zeros((60_000, width), np.float32)
    gallery[:, 0] = -1.0
    query = np.zeros((20, width), np.float32)
    for label in range(20):
        direction = np.array([float(bit) for bit in f"{label + 1:05b}"])
        query[label, 1:6] = direction
        gallery[3 * label : 3 * label + 3, 1:6] = direction
        gallery[3 * label : 3 * label + 3, 0] = 0.25
    labels = np.arange(60_000) // 3
    np.save(tmp_path / "gallery.npy", gallery)
    np.save(tmp_path / "gallery_labels.npy", labels)
    np.save(tmp_path / "query.npy", query)
    np.save(tmp_path / "query_labels.npy", np.arange(20))
    found = command_scores(
        *(tmp_path / "query.npy", "--labels", tmp_path / "query_labels.npy"),
        *("--gallery", tmp_path / "gallery.npy"),
        *("--gallery-labels", tmp_path / "gallery_labels.npy"),
        *("-m", "hit@1 hit@20"),
    )
    assert found["hit@1"]["value"] == 1.0
    assert found["hit@1"]["n"] == 20


# --- names


def test_two_names_for_one_thing_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "both.npz"
    np.savez(path, embeddings=EMBEDDINGS, features=EMBEDDINGS, labels=CLASSES)
    with pytest.raises(truerank.InputError, match=r"both.npz holds both 'embeddings' and 'feat"):
        truerank.evaluate(path, LABELS)


@pytest.mark.parametrize("suffix", [".npz", ".pt", ".parquet"])
def test_two_spellings_of_one_name_are_refused(suffix: str, tmp_path: Path) -> None:
    """Names are read without regard to case; which of the two was meant nobody can know."""
    path = tmp_path / f"twice{suffix}"
    if suffix == ".npz":
        np.savez(path, embeddings=EMBEDDINGS, Embeddings=EMBEDDINGS * 0, labels=CLASSES)
    elif suffix == ".pt":
        torch.save({"embeddings": TENSOR, "Embeddings": TENSOR * 0, "labels": LABELS}, path)
    else:
        column = as_list_column("list")
        write_parquet(path, embeddings=column, Embeddings=column, labels=LABELS)
    with pytest.raises(truerank.InputError, match="Embeddings"):
        truerank.evaluate(path, LABELS)


def test_an_array_of_objects_is_refused_by_name(tmp_path: Path) -> None:
    """Saved labels of dtype object are common; the message must say which array, and the cure."""
    path = tmp_path / "objects.npz"
    np.savez(path, embeddings=EMBEDDINGS, labels=np.array(LABELS, object))
    message = run("evaluate", path).complaint()
    assert "'labels'" in message
    assert "str" in message


def test_widths_are_checked_across_sides(tmp_path: Path) -> None:
    np.savez(tmp_path / "query.npz", embeddings=EMBEDDINGS[:4], labels=CLASSES[:4])
    np.savez(tmp_path / "gallery.npz", embeddings=EMBEDDINGS[:, 1:], labels=CLASSES)
    message = run(
        "evaluate", tmp_path / "query.npz", "--gallery", tmp_path / "gallery.npz"
    ).complaint()
    assert f"(4, {DIMENSIONS})" in message
    assert f"({ROWS}, {DIMENSIONS - 1})" in message


@pytest.mark.parametrize(
    ("said", "distance"),
    [("euclidean", "euclidean"), (b"angular", "cosine"), ("dot", "dot"), (None, "cosine")],
)
def test_the_distance_of_an_hdf5_file_is_taken(said: Any, distance: str, tmp_path: Path) -> None:
    """As ann-benchmarks writes it; what is asked for goes before it."""
    draw = np.random.default_rng(8)
    queries, gallery = draw.standard_normal((6, 3)), draw.standard_normal((20, 3)) * 3
    queries, gallery = queries.astype(np.float32), gallery.astype(np.float32)
    with h5py.File(tmp_path / "x.hdf5", "w") as file:
        file["test"], file["train"] = queries, gallery
        if said is not None:
            file.attrs["distance"] = said
    paths = f"{tmp_path}/x.hdf5:test", f"{tmp_path}/x.hdf5:train"
    sides: dict[str, Any] = {"gallery_labels": [number % 4 for number in range(20)]}
    labels = [0, 1, 2, 3, 0, 1]
    ours = truerank.evaluate(paths[0], labels, gallery=paths[1], **sides)
    plain = truerank.evaluate(queries, labels, gallery=gallery, distance=distance, **sides)
    assert ours.provenance["distance"]["distance"] == distance
    assert ours["map"].per_query.lower.tolist() == plain["map"].per_query.lower.tolist()
    asked = truerank.evaluate(paths[0], labels, gallery=paths[1], distance="dot", **sides)
    assert asked.provenance["distance"]["distance"] == "dot"
    point = truerank.choose_threshold(paths[1], sides["gallery_labels"], frr=0.3)
    same = truerank.choose_threshold(gallery, sides["gallery_labels"], frr=0.3, distance=distance)
    assert point.threshold == same.threshold
    trials = [(0, 4, True), (1, 5, True), (0, 1, False), (2, 3, False)]
    apart = truerank.verify(paths[1], trials, "threshold@far=0.5")["threshold@far=0.5"]
    assert apart == truerank.verify(gallery, trials, apart.metric, distance=distance)[apart.metric]
    near = truerank.exact_neighbors(*paths, k=3)
    assert (
        near.item.tolist()
        == truerank.exact_neighbors(queries, gallery, 3, distance=distance).item.tolist()
    )
    for name, rows in (("q", labels), ("g", sides["gallery_labels"])):
        (tmp_path / f"{name}.csv").write_text("label\n" + "\n".join(map(str, rows)))
    files = ("--labels", tmp_path / "q.csv", "--gallery", paths[1])
    done = run("evaluate", paths[0], *files, "--gallery-labels", tmp_path / "g.csv")
    assert f"{distance} distance" in done.out
    done = run(
        *("evaluate", paths[0], *files, "--gallery-labels", tmp_path / "g.csv"),
        *("--distance", "dot"),
    )
    assert "dot distance" in done.out


def test_a_distance_that_no_one_knows_is_asked_about(tmp_path: Path) -> None:
    for name, said in (("a", "jaccard"), ("b", "euclidean"), ("c", "angular")):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file["rows"] = np.eye(3)
            file.attrs["distance"] = said
    with refused("says that its distance is 'jaccard'"):
        truerank.evaluate(tmp_path / "a.h5", [0, 0, 1])
    with refused("pass the distance that is meant"):
        truerank.evaluate(
            tmp_path / "b.h5", [0, 0, 1], gallery=tmp_path / "c.h5", gallery_labels=[0, 1, 1]
        )


# Files of both sides of a search, as re-identification code writes them.

CAMERAS = np.arange(ROWS) % 3
QUERIES, ITEMS = np.arange(0, ROWS, 4), np.setdiff1d(np.arange(ROWS), np.arange(0, ROWS, 4))
DISTANCES = np.sqrt(((EMBEDDINGS[QUERIES, None] - EMBEDDINGS[None, ITEMS]) ** 2).sum(axis=2))
SIDES = {
    f"{side}_{name}": values[rows]
    for side, rows in (("query", QUERIES), ("gallery", ITEMS))
    for name, values in (("label", CLASSES), ("cam", CAMERAS))
}
FEATURES = {"query_f": EMBEDDINGS[QUERIES], "gallery_f": EMBEDDINGS[ITEMS]}


def write_matlab_7_3(path: Path, arrays: dict[str, Any]) -> None:
    """As MATLAB saves large arrays: HDF5 behind a header of 512 bytes, columns first.

    Texts are a character matrix, objects a cell array, a dictionary is a structure.
    """
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, array in arrays.items():
            if isinstance(array, dict):
                file.create_group(name).attrs["MATLAB_class"] = np.bytes_("struct")
                continue
            values = np.asarray(array)
            if values.dtype == object:
                places = [f"#refs#/{name}{number}" for number in range(values.size)]
                for place, cell in zip(places, values.flat, strict=True):
                    put_matlab_7_3(file, place, cell)
                references = [[file[place].ref for place in places]]
                file.create_dataset(name, data=np.array(references, h5py.ref_dtype))
                file[name].attrs["MATLAB_class"] = np.bytes_("cell")
            else:
                put_matlab_7_3(file, name, values)
    with path.open("r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(512))


def put_matlab_7_3(file: h5py.File, name: str, array: Any) -> None:
    """An array of numbers or texts; of an empty one its shape."""
    values = np.atleast_1d(array)
    if values.dtype.kind != "U":
        file[name] = np.atleast_2d(values).T
        return
    width = max(map(len, values))
    rows = [list(map(ord, text.ljust(width))) for text in values]
    file[name] = np.array(rows, np.uint16).T if width else np.array([0, 0], np.uint64)
    file[name].attrs["MATLAB_class"] = np.bytes_("char")
    if not width:
        file[name].attrs["MATLAB_empty"] = np.uint8(1)


TWO_SIDED: dict[str, Callable[[Path, dict[str, Any]], None]] = {
    "sides.mat": savemat,
    "sides-7.3.mat": write_matlab_7_3,
    "sides.npz": lambda path, arrays: np.savez(path, **arrays),
}


def two_sided(**options: Any) -> truerank.Result:
    return truerank.evaluate(
        labels=CLASSES[QUERIES], gallery_labels=CLASSES[ITEMS], query_groups=CAMERAS[QUERIES],
        gallery_groups=CAMERAS[ITEMS], metrics=["map", "hit@1"], **options,
    )  # fmt: skip


@pytest.mark.parametrize("name", TWO_SIDED)
def test_a_file_of_both_sides_is_a_search(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    TWO_SIDED[name](path, {**SIDES, "distmat": DISTANCES})
    expected = two_sided(embeddings=DISTANCES, distance="precomputed")
    assert truerank.evaluate(path, metrics=["map", "hit@1"])["map"].value == expected["map"].value
    out = json.loads(run("evaluate", path, "-m", "map hit@1", "--format", "json").out)
    found = {one: out["scores"][one]["value"] for one in ("map", "hit@1")}
    assert found == {one: expected[one].value for one in found}
    TWO_SIDED[name](path, SIDES | FEATURES)
    expected = two_sided(embeddings=EMBEDDINGS[QUERIES], gallery=EMBEDDINGS[ITEMS])
    assert truerank.evaluate(path, metrics=["map", "hit@1"])["map"].value == expected["map"].value
    out = json.loads(run("evaluate", path, "-m", "map", "--format", "json").out)
    assert out["scores"]["map"]["value"] == expected["map"].value


MATLAB = {name: write for name, write in TWO_SIDED.items() if name.endswith(".mat")}


@pytest.mark.parametrize("name", MATLAB)
@pytest.mark.parametrize("kind", [str, object])
def test_texts_of_matlab_files(name: str, kind: type, tmp_path: Path) -> None:
    """Character matrices are padded to the longest row; cells are as they are."""
    path = tmp_path / name
    queries, items = ["a", "bb", "\xe9"], ["a", "bb", "cccc", "\xe9"]
    matrix = 1 - np.eye(3, 4)
    arrays = {"query_label": np.array(queries, kind), "gallery_label": np.array(items, kind)}
    others: dict[str, Any] = {"DistMat": matrix, "about": {"a": 1.0}}
    if MATLAB[name] is write_matlab_7_3:
        others["cells"] = np.array([np.eye(2), "a"], object)
    MATLAB[name](path, arrays | others)
    bundle = read(path)
    assert bundle.gallery is not None
    assert list(bundle.labels) == queries
    assert list(bundle.gallery.labels) == items
    wanted = truerank.evaluate(
        matrix, queries, gallery_labels=items, distance="precomputed", metrics="map"
    )
    assert truerank.evaluate(path, metrics="map")["map"] == wanted["map"]


@pytest.mark.parametrize("name", MATLAB)
def test_an_empty_text_in_a_cell(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    MATLAB[name](path, {"features": np.eye(3), "label": np.array(["a ", "", "b"], object)})
    assert list(read(path).labels) == ["a ", "", "b"]
    MATLAB[name](path, {"about": {"a": 1.0}})
    with refused("holds no array of numbers or text."):
        read(path)


@pytest.mark.parametrize("name", TWO_SIDED)
@pytest.mark.parametrize("matrix", ["distance", "dist_mat", "embeddings", "query_f"])
def test_a_matrix_of_another_name(name: str, matrix: str, tmp_path: Path) -> None:
    path = tmp_path / name
    TWO_SIDED[name](path, {**SIDES, matrix: DISTANCES})
    with refused("; expected distmat, or query_f and gallery_f: rename its arrays"):
        truerank.evaluate(path)
    assert f"'{matrix}'" in run("evaluate", path).err
    expected = two_sided(embeddings=DISTANCES, distance="precomputed")
    found = truerank.evaluate(path, distance="precomputed", metrics=["map", "hit@1"])
    assert found["map"] == expected["map"]
    TWO_SIDED[name](path, SIDES)
    with refused("; expected distmat, or query_f and gallery_f"):
        truerank.evaluate(path)


@pytest.mark.parametrize("name", TWO_SIDED)
def test_unused_arrays_of_both_sides(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    cameras = {"query_camera_id": CAMERAS[QUERIES], "gallery_camera_id": CAMERAS[ITEMS]}
    labels = {name: values for name, values in SIDES.items() if name.endswith("label")}
    TWO_SIDED[name](path, {**labels, **cameras, "distmat": DISTANCES})
    names = "'query_camera_id', 'gallery_camera_id'" if name != "sides-7.3.mat" else "camera_id'"
    with pytest.warns(truerank.TruerankWarning, match=f"that are not used: .*{names}; expected"):
        truerank.evaluate(path, metrics="map")
    TWO_SIDED[name](path, {**SIDES, "query_emb": DISTANCES, "gallery_emb": DISTANCES})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(path)


def test_names_may_share_a_prefix(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, phocnet_features=EMBEDDINGS, phocnet_labels=[LABELS])
    assert scores(truerank.evaluate(path)) == scores(truerank.evaluate(EMBEDDINGS, LABELS))
    np.savez(path, net_a=EMBEDDINGS, net_b=EMBEDDINGS)
    with refused("holds 'net_a', 'net_b', none of which is known"):
        truerank.evaluate(path, LABELS)


def test_matlab_files_of_one_side_and_wrong_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.mat"
    savemat(path, {"features": EMBEDDINGS, "label": np.array(LABELS, object), "s": {"a": 1}})
    assert scores(truerank.evaluate(path)) == scores(truerank.evaluate(EMBEDDINGS, LABELS))
    path.write_bytes(path.read_bytes()[:200])
    with refused("x.mat cannot be read as .mat"):
        read(path)
    path.write_bytes(b"not a matrix")
    with refused("x.mat is named .mat but is a text file"):
        read(path)
    savemat(path, {"features": EMBEDDINGS})
    monkeypatch.setitem(sys.modules, "scipy.io", None)
    with refused("x.mat needs scipy: pip install scipy"):
        read(path)
