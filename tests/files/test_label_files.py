"""Labels as people keep them: CSV with and without a header, TSV, a BOM, quotes, leading zeros."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import truerank
from tests.cli.driving import run
from tests.files.samples import CLASSES, EMBEDDINGS, FAMILIES, GROUPS, IDS, LABELS, expected, scores
from tests.files.test_embedding_files import command_scores, without_queries, write_parquet
from truerank.io.reading import read, read_labels


@pytest.fixture
def embeddings(tmp_path: Path) -> Path:
    path = tmp_path / "embeddings.npy"
    np.save(path, EMBEDDINGS)
    return path


def table(header: str | None, *columns: Any, delimiter: str = ",", end: str = "\n") -> bytes:
    rows = [delimiter.join(map(str, row)) for row in zip(*columns, strict=True)]
    return end.join([*([] if header is None else [header]), *rows, ""]).encode()


ONE_COLUMN: dict[str, tuple[str, bytes]] = {
    "header": (".csv", table("label", LABELS)),
    "header in capitals": (".csv", table(" Label ", LABELS)),
    "header labels": (".csv", table("labels", LABELS)),
    "header target": (".csv", table("target", LABELS)),
    "header pid": (".csv", table("pid", LABELS)),
    "no header": (".csv", table(None, LABELS)),
    "no last newline": (".csv", table("label", LABELS).rstrip()),
    "empty last lines": (".csv", table("label", LABELS) + b"\n\n"),
    "Windows": (".csv", table("label", LABELS, end="\r\n")),
    "BOM": (".csv", b"\xef\xbb\xbf" + table("label", LABELS)),
    "BOM without header": (".csv", b"\xef\xbb\xbf" + table(None, LABELS)),
    "quoted": (".csv", table('"label"', [f'"{label}"' for label in LABELS])),
    "quoted commas": (".csv", table("label", [f'"a, {label}"' for label in LABELS])),
    "quoted lines": (".csv", table("label", [f'"a\nb ""{label}"""' for label in LABELS])),
    "accents": (".csv", table("label", [f"é {label}" for label in LABELS])),
    "tsv": (".tsv", table("label", LABELS)),
    "txt": (".txt", table(None, LABELS)),
    "other columns": (".csv", table("path,label", [f"{n}.jpg" for n in range(36)], LABELS)),
    "tsv of several": (".tsv", table("path\tlabel", range(36), LABELS, delimiter="\t")),
    "tsv with commas": (".tsv", table("label", [f"a, {label}" for label in LABELS])),
}


@pytest.mark.parametrize("kind", ONE_COLUMN)
def test_one_label_a_row(kind: str, tmp_path: Path, embeddings: Path) -> None:
    suffix, content = ONE_COLUMN[kind]
    path = tmp_path / f"labels{suffix}"
    path.write_bytes(content)
    assert command_scores(embeddings, "--labels", path) == without_queries(expected())


@pytest.mark.parametrize("kind", [".npy", ".npz", ".pt", ".parquet"])
def test_labels_in_array_files(kind: str, tmp_path: Path, embeddings: Path) -> None:
    path = tmp_path / f"labels{kind}"
    if kind == ".npy":
        np.save(path, CLASSES)
    elif kind == ".npz":
        np.savez(path, np.array(LABELS))
    elif kind == ".pt":
        torch.save(torch.from_numpy(CLASSES), path)
    else:
        write_parquet(path, label=LABELS)
    assert command_scores(embeddings, "--labels", path) == without_queries(expected())


@pytest.mark.parametrize(
    "header", ["label,group,id", "labels,camera,ids", "pid,camid,id", "target,groups,ids"]
)
def test_groups_and_ids(header: str, tmp_path: Path, embeddings: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_bytes(table(header, LABELS, GROUPS, IDS))
    wanted = expected(query_groups=GROUPS, query_ids=IDS)
    assert wanted not in (expected(), expected(query_groups=GROUPS), expected(query_ids=IDS))
    assert command_scores(embeddings, "--labels", path) == without_queries(wanted)


def by_levels(coarse: str, fine: str) -> dict[str, Any]:
    labels = {coarse: FAMILIES, fine: LABELS}
    return without_queries(scores(truerank.evaluate(EMBEDDINGS, labels)))


@pytest.mark.parametrize("header", ["level1,level2", "level1,label"])
def test_numbered_levels(header: str, tmp_path: Path, embeddings: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_bytes(table(header, FAMILIES, LABELS))
    assert command_scores(embeddings, "--labels", path) == by_levels(*header.split(","))


def test_ten_levels_are_in_order_of_number(tmp_path: Path) -> None:
    """Level 10 is finer than level 9, and not between levels 1 and 2."""
    path = tmp_path / "labels.csv"
    names = [f"level{number}" for number in (10, 2, 1, 9)]
    path.write_text(",".join(names) + "\nfine,b,a,i\n")
    labels = read(path, lone="labels").labels
    columns = labels.values() if isinstance(labels, Mapping) else labels
    assert list(columns) == [["a"], ["b"], ["i"], ["fine"]]


@pytest.mark.parametrize(
    "header",
    ["family,species", "Family,Species", "label,family,species"],
)
def test_named_levels(header: str, tmp_path: Path, embeddings: Path) -> None:
    path = tmp_path / "labels.csv"
    columns = [["other"] * len(LABELS)] if header.startswith("label") else []
    path.write_bytes(table(header, *columns, FAMILIES, LABELS))
    found = command_scores(embeddings, "--labels", path, "--levels", "family, species")
    assert found == by_levels("family", "species")


def test_one_named_column_is_the_label(tmp_path: Path, embeddings: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_bytes(table("species", LABELS))
    found = command_scores(embeddings, "--labels", path, "--levels", "species")
    assert found == without_queries(expected())


def test_a_level_that_is_not_there_is_named(tmp_path: Path, embeddings: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_bytes(table("family,label", FAMILIES, LABELS))
    message = run("evaluate", embeddings, "--labels", path, "--levels", "genus,label").complaint()
    assert "no column 'genus'" in message
    assert "'family'" in message


def test_leading_zeros_stay(tmp_path: Path) -> None:
    """0001 and 1 are two labels; read as numbers, all four rows would be mates."""
    path = tmp_path / "labels.csv"
    path.write_text("label\n0001\n1\n0001\n1\n")
    assert read(path, lone="labels").labels == ["0001", "1", "0001", "1"]
    np.save(tmp_path / "x.npy", [[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]])
    found = command_scores(tmp_path / "x.npy", "--labels", path, "-m", "hit@1 hit@3")
    assert found["hit@1"]["value"] == 0.0
    assert found["hit@3"]["value"] == 1.0


@pytest.mark.parametrize("text", ["1e3", "1.0", "nan", "None", "NA", "null", "True", " a ", "-"])
def test_cells_stay_text(text: str, tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text(f"label\n{text}\n")
    assert read(path, lone="labels").labels == [text]


def test_a_missing_cell_is_a_missing_label(tmp_path: Path, embeddings: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_bytes(table("label,group", ["", *LABELS[1:]], GROUPS))
    message = run("evaluate", embeddings, "--labels", path).complaint()
    assert "row 0" in message
    assert "no label" in message


def test_gallery_rows_without_a_label_may_be_distractors(tmp_path: Path) -> None:
    np.save(tmp_path / "query.npy", EMBEDDINGS[:8] + 0.25)
    np.save(tmp_path / "gallery.npy", EMBEDDINGS)
    (tmp_path / "query.csv").write_bytes(table("label", LABELS[:8]))
    missing = [label if row % 5 else None for row, label in enumerate(LABELS)]
    cells = ['""' if label is None else label for label in missing]
    (tmp_path / "gallery.csv").write_bytes(table(None, cells))
    arguments = (
        *(tmp_path / "query.npy", "--labels", tmp_path / "query.csv"),
        *("--gallery", tmp_path / "gallery.npy", "--gallery-labels", tmp_path / "gallery.csv"),
    )
    assert "unlabelled" in run("evaluate", *arguments).complaint()
    wanted = truerank.evaluate(
        EMBEDDINGS[:8] + 0.25,
        LABELS[:8],
        gallery=EMBEDDINGS,
        gallery_labels=missing,
        unlabelled="distractor",
    )
    found = command_scores(*arguments, "--unlabelled", "distractor")
    assert found == without_queries(scores(wanted))


@pytest.mark.parametrize("kind", [".csv", ".npy", ".npz", ".pt", ".parquet", "levels"])
def test_junk_labels_match_whatever_type_the_file_has(
    kind: str, tmp_path: Path, embeddings: Path
) -> None:
    """On the command line all is text; in an array file labels may be numbers."""
    path = tmp_path / ("labels.npz" if kind == "levels" else f"labels{kind}")
    if kind == ".csv":
        path.write_bytes(table("label", CLASSES))
    elif kind == ".npy":
        np.save(path, CLASSES)
    elif kind == ".npz":
        np.savez(path, label=CLASSES)
    elif kind == "levels":
        np.savez(path, level1=CLASSES // 3, level2=CLASSES)
    elif kind == ".pt":
        torch.save({"label": torch.from_numpy(CLASSES)}, path)
    else:
        write_parquet(path, label=CLASSES)
    metrics = ["hit@1", "map@r"]
    wanted = without_queries(expected(junk_labels=["0003", "0005"], metrics=metrics))
    assert wanted != without_queries(expected(metrics=metrics))
    junk = ("--junk-label", "3", "--junk-label", "5")
    found = command_scores(embeddings, "--labels", path, *junk, "-m", " ".join(metrics))
    for some in (found, wanted):  # reasons name the level, where there are several
        some = [score.pop("interval_reason") for score in some.values()]
    assert found == wanted


def test_a_junk_label_that_is_no_number_is_refused(tmp_path: Path, embeddings: Path) -> None:
    np.save(tmp_path / "labels.npy", CLASSES)
    arguments = ("--labels", tmp_path / "labels.npy", "--junk-label", "background")
    assert "background" in run("evaluate", embeddings, *arguments).complaint()


WRONG_LABELS: dict[str, tuple[str, bytes, list[str]]] = {
    "ragged": (".csv", b"label,group\na,1\nb\nc,2\n", ["row 3", "1 cells", "2 were expected"]),
    "ragged without header": (".csv", b"a\nb,c\n", ["row 2", "2 cells"]),
    "header alone": (".csv", b"label,group\n", ["header", "no rows"]),
    "blank": (".csv", b"\n\n\n", ["no rows"]),
    "no known column": (".csv", b"name,colour\na,red\n", ["'name'", "'colour'", "label"]),
    "a column twice": (".csv", b"label,id,Label\na,1,b\n", ["twice", "'Label'"]),
    "not closed": (".csv", b'label\n"a\nb\n', ["well-formed"]),
    "Latin-1": (".csv", "label\ncafé\n".encode("latin-1"), ["UTF-8"]),
    "UTF-16": (".csv", "label\na\n".encode("utf-16"), ["UTF-8"]),
    "a picture": (".csv", b"\x89PNG\r\n\x1a\n" + bytes(range(256)), ["UTF-8"]),
    "semicolons": (".csv", table("label;group", LABELS, GROUPS, delimiter=";"), ["label;group"]),
    "one label too few": (".csv", table("label", LABELS[1:]), ["36 rows", "35"]),
    "one label too many": (".csv", table("label", [*LABELS, "0001"]), ["36 rows", "37"]),
    "groups without labels": (".csv", table("group,id", GROUPS, IDS), ["no labels"]),
}


@pytest.mark.parametrize("kind", WRONG_LABELS)
def test_wrong_label_files_say_what_is_wrong(kind: str, tmp_path: Path, embeddings: Path) -> None:
    suffix, content, words = WRONG_LABELS[kind]
    path = tmp_path / f"labels{suffix}"
    path.write_bytes(content)
    message = run("evaluate", embeddings, "--labels", path).complaint()
    assert all(word in message for word in words), message


def test_levels_of_different_lengths_are_refused(tmp_path: Path) -> None:
    for name, level in (("short", CLASSES[:-1]), ("scalar", np.int64(1))):
        path = tmp_path / f"{name}.npz"
        np.savez(path, embeddings=EMBEDDINGS, level1=level, label=CLASSES)
        assert "level" in run("evaluate", path).complaint()


def test_a_nul_at_the_end_makes_another_label(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_bytes(b"label\na\na\0\na\na\0\n")
    assert truerank.Task(read_labels(path).labels).query_codes.tolist() == [0, 1, 0, 1]


def test_a_label_of_a_table_is_kept_once(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_bytes(b"label\n" + b"a long label\n" * 9)
    assert len({id(label) for label in read_labels(path).labels}) == 1


def test_a_column_whose_name_is_no_level(tmp_path: Path) -> None:
    """A number of thousands of digits is none that Python reads."""
    path = tmp_path / "labels.csv"
    path.write_text(f"level1,level{'9' * 5000}\na,b\n")
    assert list(read_labels(path).labels) == ["level1"]


def test_a_label_beside_embeddings_is_kept_once(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b"e0,e1,label\n" + b"1,2,a long label\n" * 9)
    assert len({id(label) for label in read(path).labels}) == 1
