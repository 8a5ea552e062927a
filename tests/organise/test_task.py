"""Tasks in files and submissions aligned by id: what organisers of a competition rely on."""

from __future__ import annotations

import json
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import truerank
from tests.refusals import assert_refused
from truerank import InputError, Task

N = 12
ROWS = np.random.default_rng(0).integers(-2, 3, (N, 3)).astype(np.float32)  # ties on purpose
ORDER = np.random.default_rng(1).permutation(N)
LABELS = np.arange(N) % 4
IDS = [f"item {7 * i % N:02}" for i in range(N)]
GROUPS = np.arange(N) // 3 % 2
NAMES = np.array(["ant", "bee", "cat", "dog"])[LABELS]
JUNK = np.random.default_rng(2).random((N, N)) < 0.2
GRADES = np.random.default_rng(3).integers(0, 3, (N, N)) * 0.5
METRICS = ["map", "mrr", "hit@2"]


def side(labels: Any, start: int, prefix: str) -> dict[str, Any]:
    """Labels, ids and groups of one side, for a separate gallery with its own ids."""
    return {
        f"{prefix}labels": labels,
        f"{prefix}ids": [f"id {start + i}" for i in range(len(labels))],
        f"{prefix}groups": ["x", "y", "z", "y"] * (len(labels) // 4),
    }


TASKS: dict[str, dict[str, Any]] = {
    "int labels": {"labels": LABELS},
    "text labels": {"labels": NAMES},
    "float labels": {"labels": LABELS + 0.5},
    "large labels": {"labels": LABELS.astype(np.uint64) + np.uint64(2**63)},
    "negative labels": {"labels": LABELS - 2},
    "odd text": {"labels": [["", " ", "é\n", "'\"\\"][i] for i in LABELS]},
    "ids": {"labels": LABELS, "ids": IDS},
    "int ids": {"labels": LABELS, "ids": 5 * np.arange(N)},
    "groups": {"labels": NAMES, "groups": GROUPS},
    "ids and groups": {"labels": NAMES, "ids": IDS, "groups": GROUPS},
    "repeated ids": {"labels": LABELS, "ids": np.arange(N) // 2},
    "junk": {"labels": LABELS, "junk": JUNK},
    "sparse junk": {"labels": LABELS, "ids": IDS, "junk": scipy.sparse.csr_matrix(JUNK)},
    "junk labels": {"labels": LABELS, "junk_labels": [3]},
    "junk labels of numpy": {"labels": LABELS, "junk_labels": np.array([3])},
    "text junk labels": {"labels": NAMES, "junk_labels": ["dog"]},
    "relevance": {"labels": None, "relevance": GRADES > 0, "leave_one_out": True},
    "grades": {"labels": None, "relevance": GRADES},
    "sparse grades": {"labels": None, "relevance": scipy.sparse.coo_array(GRADES), "junk": JUNK},
    "levels": {"labels": np.stack([NAMES > "b", NAMES], axis=1).astype(str)},
    "levels of two types": {
        "labels": [(int(i) % 2, n) for i, n in zip(LABELS, NAMES, strict=True)]
    },
    "one name under two parents": {"labels": [("p", "c"), ("q", "c"), ("p", "d"), ("q", "d")] * 3},
    "gallery": side(NAMES[:4], 0, "") | side(NAMES[4:], 4, "gallery_"),
    "gallery with unlabelled rows": {
        "labels": NAMES,
        "gallery_labels": ["ant", None, "bee", float("nan")],
        "unlabelled": "distractor",
    },
    "gallery with unlabelled numbers": {
        "labels": LABELS,
        "gallery_labels": [np.int64(9), None, np.int64(1), 2],
        "unlabelled": "distractor",
    },
    "gallery with unlabelled levels": {
        "labels": [("p", "a"), ("q", "b")],
        "gallery_labels": [("p", "a"), ("p", None), (None, None), ("q", "b")],
        "unlabelled": "distractor",
    },
    "zero": {"labels": [*range(N)], "unmated": "zero"},
}


def make(arguments: dict[str, Any]) -> Task:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", truerank.TruerankWarning)
        return Task(**arguments)


def load(path: Path) -> Task:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", truerank.TruerankWarning)
        return Task.load(path)


def bits(result: truerank.Result) -> str:
    return json.dumps(result.to_dict()["scores"])


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TASKS)
def test_a_task_comes_back_from_its_file(name: str, tmp_path: Path) -> None:
    task = make(TASKS[name])
    path = tmp_path / "task.npz"
    task.save(path)
    again = load(path)
    assert again.digest == task.digest
    for attribute in ("queries", "gallery_size", "items", "leave_one_out", "unmated", "unlabelled"):
        assert getattr(again, attribute) == getattr(task, attribute)
    for attribute in ("mates", "unmated_reason"):
        np.testing.assert_array_equal(getattr(again, attribute), getattr(task, attribute))
    every = np.arange(task.queries)
    for pairs, others in (
        (again.view.block(every).relevant, task.view.block(every).relevant),
        (again.view.block(every).excluded, task.view.block(every).excluded),
    ):
        assert set(zip(pairs.query.tolist(), pairs.item.tolist(), strict=True)) == set(
            zip(others.query.tolist(), others.item.tolist(), strict=True)
        )
    again.save(tmp_path / "again.npz")
    assert load(tmp_path / "again.npz").digest == task.digest
    assert again.unmated_counts() == task.unmated_counts()
    assert again.exclusions() == task.exclusions()


@pytest.mark.parametrize("name", ["levels", "ids and groups", "junk", "junk labels", "zero"])
def test_a_task_from_a_file_scores_the_same(name: str, tmp_path: Path) -> None:
    task = make(TASKS[name])
    task.save(tmp_path / "task")
    ids = TASKS[name].get("ids")
    result = task.evaluate(ROWS, ids=ids, metrics=METRICS, full=True)
    again = load(tmp_path / "task").evaluate(ROWS, ids=ids, metrics=METRICS, full=True)
    assert bits(again) == bits(result)
    assert again.provenance["task_digest"] == task.digest


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "task.npz"
    path.write_text("old")
    make(TASKS["ids"]).save(str(path))
    assert [file.name for file in tmp_path.iterdir()] == ["task.npz"]
    assert_refused(
        lambda: make(TASKS["ids"]).save(tmp_path / "no such folder" / "task.npz"), ["cannot write"]
    )


def test_a_file_holds_text_and_numbers_only(tmp_path: Path) -> None:
    task = Task([b"a", b"a", b"b"])
    words = ["text and numbers", "b'a'", "bytes", "convert to str"]
    assert_refused(lambda: task.save(tmp_path / "task.npz"), words)
    assert list(tmp_path.iterdir()) == []


def rewrite(path: Path, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> None:
    """Change the header or the arrays of a task file in place."""
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    header = json.loads(arrays.pop("header").tobytes())
    change(header, arrays)
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    with path.open("wb") as file:
        np.savez(file, **arrays)


def codes_of(arrays: dict[str, Any], what: str) -> str:
    return next(name for name in sorted(arrays) if name.startswith(what))


def change_a_label(header: dict[str, Any], arrays: dict[str, Any]) -> None:
    codes = arrays[codes_of(arrays, "level")]
    codes[0] = (codes[0] + 1) % 4


def change_an_id(header: dict[str, Any], arrays: dict[str, Any]) -> None:
    header["ids_values"][0] = "another"


def change_a_group(header: dict[str, Any], arrays: dict[str, Any]) -> None:
    arrays["groups_0"][0] ^= 1


def change_the_digest(header: dict[str, Any], arrays: dict[str, Any]) -> None:
    header["digest"] = "0" * 32


def drop_the_groups(header: dict[str, Any], arrays: dict[str, Any]) -> None:
    del header["groups_values"]


@pytest.mark.parametrize(
    "change",
    [change_a_label, change_an_id, change_a_group, change_the_digest, drop_the_groups],
)
def test_a_changed_file_is_noticed(change: Any, tmp_path: Path) -> None:
    path = tmp_path / "task.npz"
    make(TASKS["ids and groups"]).save(path)
    rewrite(path, change)
    assert_refused(lambda: Task.load(path), ["task.npz", "changed after it was saved", "digest"])


def drop_an_array(header: dict[str, Any], arrays: dict[str, Any]) -> None:
    del arrays[codes_of(arrays, "level")]


def point_beyond_the_values(header: dict[str, Any], arrays: dict[str, Any]) -> None:
    arrays[codes_of(arrays, "level")][0] = 99


def drop_a_field(header: dict[str, Any], arrays: dict[str, Any]) -> None:
    del header["leave_one_out"]


def shorten_a_side(header: dict[str, Any], arrays: dict[str, Any]) -> None:
    arrays["ids_0"] = arrays["ids_0"][:3]


def change_the_type(header: dict[str, Any], arrays: dict[str, Any]) -> None:
    name = codes_of(arrays, "level")
    arrays[name] = arrays[name].astype(float)


@pytest.mark.parametrize(
    "change",
    [drop_an_array, point_beyond_the_values, drop_a_field, shorten_a_side, change_the_type],
)
def test_a_damaged_file_is_refused(change: Any, tmp_path: Path) -> None:
    path = tmp_path / "task.npz"
    make(TASKS["ids and groups"]).save(path)
    rewrite(path, change)
    assert_refused(lambda: Task.load(path), [])


def write_list_header(path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, header=np.frombuffer(b"[1, 2]", np.uint8))


def write_other_version(path: Path) -> None:
    make(TASKS["ids"]).save(path)
    rewrite(path, lambda header, arrays: header.update(version=99))


def write_half(path: Path) -> None:
    make(TASKS["ids"]).save(path)
    path.write_bytes(path.read_bytes()[:-200])


class Trap:
    def __reduce__(self) -> tuple[Any, ...]:
        return pytest.fail, ("the file was executed",)


@pytest.mark.parametrize(
    "write",
    [
        lambda path: None,
        lambda path: path.mkdir(),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_text("label\n1\n"),
        lambda path: path.write_bytes(pickle.dumps(Trap())),
        lambda path: np.save(path.open("wb"), ROWS),
        lambda path: np.savez(path.open("wb"), embeddings=ROWS),
        lambda path: np.savez(path.open("wb"), header=np.array([Trap()], object)),
        write_list_header,
        write_other_version,
        write_half,
    ],
    ids=[
        "no file", "a folder", "empty", "text", "a pickle", "an array", "other arrays",
        "a pickled header", "a list", "another version", "half a file",
    ],
)  # fmt: skip
def test_files_that_hold_no_task(write: Callable[[Path], Any], tmp_path: Path) -> None:
    path = tmp_path / "task.npz"
    write(path)
    assert_refused(lambda: Task.load(path), ["task.npz"])


# --- submissions ----------------------------------------------------------------------------------

OPTIONS: dict[str, dict[str, Any]] = {
    "ids": {},
    "groups": {"query_groups": GROUPS},
    "junk": {"junk": JUNK},
    "junk labels": {"junk_labels": [3]},
}


@pytest.mark.parametrize("distance", ["cosine", "euclidean", "cityblock", "hamming"])
@pytest.mark.parametrize("name", OPTIONS)
def test_a_shuffled_submission_scores_the_same_bits(name: str, distance: str) -> None:
    rows = ROWS.astype(np.int64) if distance == "hamming" else ROWS
    options = OPTIONS[name]
    direct = truerank.evaluate(
        rows, LABELS, query_ids=IDS, **options, distance=distance, metrics=METRICS
    )
    renamed = {key.replace("query_", ""): value for key, value in options.items()}
    task = Task(LABELS, ids=IDS, **renamed)
    ids = [IDS[i] for i in ORDER]
    submitted = task.evaluate(rows[ORDER], ids=ids, distance=distance, metrics=METRICS, full=True)
    assert bits(submitted) == bits(direct)
    assert submitted.provenance["task_digest"] == direct.provenance["task_digest"]


def test_a_submission_covers_both_sides() -> None:
    """One array with the queries and the gallery in any order; an item may be in both."""
    gallery_ids = [*(f"item {i:02}" for i in range(6)), "extra"]
    known = dict(zip(IDS, LABELS.tolist(), strict=True)) | {"extra": 2}
    rows = dict(zip(IDS, ROWS, strict=True)) | {"extra": ROWS[3] + 1}
    labels = [known[name] for name in gallery_ids]
    task = Task(LABELS, ids=IDS, gallery_labels=labels, gallery_ids=gallery_ids)
    direct = truerank.evaluate(
        ROWS,
        LABELS,
        query_ids=IDS,
        gallery=[rows[name] for name in gallery_ids],
        gallery_labels=labels,
        gallery_ids=gallery_ids,
        metrics=METRICS,
    )
    names = sorted(rows, reverse=True)
    submitted = task.evaluate([rows[name] for name in names], ids=names, metrics=METRICS, full=True)
    assert bits(submitted) == bits(direct)


@pytest.mark.filterwarnings("ignore:the gallery contains 1 of 12 queries")
def test_a_submission_without_ids_is_taken_in_order() -> None:
    direct = truerank.evaluate(ROWS, LABELS, metrics=METRICS)
    assert bits(Task(LABELS).evaluate(ROWS, metrics=METRICS, full=True)) == bits(direct)
    task = Task(LABELS, gallery_labels=LABELS[:5])
    direct = truerank.evaluate(
        ROWS, LABELS, gallery=ROWS[:5] + 0.7, gallery_labels=LABELS[:5], metrics=METRICS
    )
    submitted = task.evaluate(ROWS, gallery=ROWS[:5] + 0.7, metrics=METRICS, full=True)
    assert bits(submitted) == bits(direct)


@pytest.mark.parametrize("distance", ["precomputed", "similarity"])
def test_a_matrix_is_aligned_in_both_directions_or_refused(distance: str) -> None:
    matrix = np.random.default_rng(5).random((N, N))
    matrix += matrix.T
    task = Task(LABELS, ids=IDS)
    direct = truerank.evaluate(matrix, LABELS, query_ids=IDS, distance=distance, metrics=METRICS)
    try:
        submitted = task.evaluate(
            matrix[np.ix_(ORDER, ORDER)],
            ids=[IDS[i] for i in ORDER],
            distance=distance,
            metrics=METRICS,
            full=True,
        )
    except InputError:
        return
    assert bits(submitted) == bits(direct)


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        (None, ["aligns submissions by id", "pass ids="]),
        (IDS[:-1], ["one value per row (12)", "Got 11"]),
        ([*IDS[:-1], "new"], ["12", "1 missing", "1 unknown", "'new'", repr(IDS[-1])]),
        ([*IDS[:-1], IDS[0]], ["1 repeated", "1 missing", repr(IDS[0]), repr(IDS[-1])]),
        (["x"] * N, ["1 repeated", "12 missing", "1 unknown", "..."]),
        (range(N), ["ids holds int", "task's ids holds str"]),
        ([*IDS[:-1], None], ["ids", "None or NaN"]),
    ],
)
def test_submissions_whose_ids_do_not_match(ids: Any, words: list[str]) -> None:
    assert_refused(lambda: Task(LABELS, ids=IDS).evaluate(ROWS, ids=ids), words)


def test_submissions_with_too_many_or_too_few_rows() -> None:
    task = Task(LABELS, ids=IDS)
    more = np.concatenate([ROWS, ROWS[:1]])
    assert_refused(lambda: task.evaluate(more, ids=[*IDS, "new"]), ["1 unknown", "'new'"])
    assert_refused(lambda: task.evaluate(more, ids=[*IDS, IDS[2]]), ["1 repeated", repr(IDS[2])])
    assert_refused(lambda: task.evaluate(ROWS[:-1], ids=IDS[:-1]), ["1 missing", repr(IDS[-1])])


@pytest.mark.parametrize(
    ("task", "arguments", "options", "words"),
    [
        ({"labels": LABELS}, (ROWS, IDS), {}, ["no ids", "taken in order", "leave ids out"]),
        ({"labels": LABELS}, (ROWS[:5],), {}, ["5 rows", "12"]),
        ({"labels": LABELS}, (ROWS,), {"gallery": ROWS}, ["takes no gallery"]),
        ({"labels": LABELS, "gallery_labels": [0, 1]}, (ROWS,), {}, ["needs gallery="]),
        (
            {"labels": LABELS, "gallery_labels": [0, 1]},
            (ROWS,),
            {"gallery": ROWS},
            ["12 rows", "2"],
        ),
        (
            {"labels": LABELS, "gallery_labels": [0, 1]},
            (ROWS,),
            {"gallery": ROWS[:2, :2]},
            ["(12, 3)", "(2, 2)"],
        ),
        ({"labels": LABELS, "ids": IDS}, (ROWS, IDS), {"gallery": ROWS}, ["leave gallery out"]),
        ({"labels": LABELS, "ids": LABELS}, (ROWS, IDS), {}, ["repeats ids", "distinct ids"]),
        ({"labels": LABELS}, (ROWS * np.nan,), {}, ["NaN"]),
        ({"labels": LABELS}, (ROWS[0],), {}, ["embeddings", "(3,)"]),
        ({"labels": LABELS}, (ROWS,), {"distance": "manhattan"}, ["distance", "'manhattan'"]),
        ({"labels": LABELS}, (ROWS,), {"average": "macro"}, ["average", "'macro'"]),
        ({"labels": LABELS}, (ROWS,), {"metrics": ["maq"]}, ["'maq'", "'map'"]),
        ({"labels": LABELS}, (ROWS,), {"distance": "precomputed"}, ["(12, 3)", "12 columns"]),
    ],
)
def test_submissions_that_are_refused(
    task: dict[str, Any], arguments: tuple[Any, ...], options: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(InputError) as caught:
        Task(**task).evaluate(*arguments, **options)
    message = str(caught.value)
    assert [word for word in words if word not in message] == [], message


def test_a_matrix_for_a_separate_gallery() -> None:
    """The matrix covers the gallery, so nothing else is to be passed."""
    matrix = np.random.default_rng(6).random((N, 4))
    task = Task(LABELS, gallery_labels=[0, 1, 2, 3])
    direct = truerank.evaluate(
        matrix, LABELS, gallery_labels=[0, 1, 2, 3], distance="precomputed", metrics=METRICS
    )
    submitted = task.evaluate(matrix, distance="precomputed", metrics=METRICS, full=True)
    assert bits(submitted) == bits(direct)
    assert_refused(
        lambda: task.evaluate(matrix, gallery=ROWS[:4], distance="precomputed"), ["gallery"]
    )


def test_queries_found_again_in_a_gallery_without_ids() -> None:
    task = Task(LABELS, gallery_labels=LABELS)
    assert_refused(lambda: task.evaluate(ROWS, gallery=ROWS), ["contains the queries"])
