"""Embeddings in tables, a column for each dimension: CSV, TSV, white space and Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow
import pytest
from pyarrow import parquet

import truerank
from tests.cli.driving import run
from tests.files.samples import EMBEDDINGS, GROUPS, IDS, LABELS, ROWS, expected, scores
from tests.files.test_embedding_files import command_scores, without_queries

D = EMBEDDINGS.shape[1]


def lines(header: str | None, rows: Any, delimiter: str = ",") -> str:
    body = [delimiter.join(map(str, row)) for row in rows]
    return "\n".join([*([] if header is None else [header]), *body, ""])


NUMBERS = EMBEDDINGS.tolist()
WITH_LABEL = [[label, *row] for label, row in zip(LABELS, NUMBERS, strict=True)]
BARE = {
    "numbers": ("x.csv", lines(None, NUMBERS)),
    "numbers after a BOM": ("x.csv", "\ufeff" + lines(None, NUMBERS)),
    "tabs": ("x.tsv", lines(None, NUMBERS, "\t")),
    "white space, as numpy.savetxt writes": ("x.txt", lines(None, NUMBERS, " ")),
    "e0 to e4": ("x.csv", lines("e0,e1,e2,e3,e4", NUMBERS)),
    "counted from 1": ("x.csv", lines("dim_1,dim_2,dim_3,dim_4,dim_5", NUMBERS)),
    "0 to 4, as pandas writes": ("x.csv", lines("0,1,2,3,4", NUMBERS)),
    "leading zeros": ("x.csv", lines("f.00,f.01,f.02,f.03,f.04", NUMBERS)),
    "Windows": ("x.csv", lines("E0,E1,E2,E3,E4", NUMBERS).replace("\n", "\r\n")),
    "with an index": (
        "x.csv",
        lines(",0,1,2,3,4", [[number, *row] for number, row in enumerate(NUMBERS)]),
    ),
}


@pytest.mark.parametrize("kind", BARE)
def test_a_table_of_numbers_scores_as_the_array(kind: str, tmp_path: Path) -> None:
    name, text = BARE[kind]
    path = tmp_path / name
    path.write_bytes(text.encode())
    assert scores(truerank.evaluate(path, LABELS)) == expected()
    (tmp_path / "labels.csv").write_text("\n".join(LABELS))
    found = command_scores(path, "--labels", tmp_path / "labels.csv")
    assert found == without_queries(expected())


def test_columns_may_come_in_any_order(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    order = [3, 0, 4, 1, 2]
    header = ",".join(["label", *(f"e{number}" for number in order)])
    path.write_text(lines(header, [[row[0], *(row[1 + n] for n in order)] for row in WITH_LABEL]))
    found = truerank.evaluate(path)
    assert scores(found) == expected()
    assert found.provenance["dimensions"] == D


def test_labels_ids_and_groups_come_along(tmp_path: Path) -> None:
    wanted = expected(query_ids=IDS, query_groups=[str(group) for group in GROUPS])
    frame = pandas.DataFrame(EMBEDDINGS, columns=[f"emb_{n}" for n in range(D)])
    frame = frame.assign(**{"class": LABELS, "camera": GROUPS, "id": IDS, "width": 640})
    frame.to_csv(tmp_path / "x.csv", index=False)
    frame.to_parquet(tmp_path / "x.parquet")
    for name in ("x.csv", "x.parquet"):
        assert scores(truerank.evaluate(tmp_path / name)) == wanted
        assert command_scores(tmp_path / name) == without_queries(wanted)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
def test_a_wide_parquet_keeps_its_type(dtype: Any, tmp_path: Path) -> None:
    whole = (4 * EMBEDDINGS).astype(dtype)
    names = [str(number) for number in range(D)]
    columns = dict(zip(names, whole.T, strict=True))
    table = pyarrow.table({"label": LABELS, **columns})
    parquet.write_table(table, tmp_path / "x.parquet", row_group_size=10)
    read = truerank.io.reading.read(tmp_path / "x.parquet")
    assert read.embeddings.dtype == dtype
    np.testing.assert_array_equal(read.embeddings, whole)
    assert read.labels == LABELS


def test_a_list_column_goes_before_numbered_ones(tmp_path: Path) -> None:
    table = {"embedding": NUMBERS, "label": LABELS, "x1": [0.0] * ROWS, "x2": [1.0] * ROWS}
    parquet.write_table(pyarrow.table(table), tmp_path / "x.parquet")
    assert scores(truerank.evaluate(tmp_path / "x.parquet")) == expected()


def test_a_class_column_is_the_label(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", EMBEDDINGS)
    path = tmp_path / "labels.csv"
    path.write_text(lines("file,class", [[f"{n}.jpg", label] for n, label in enumerate(LABELS)]))
    assert scores(truerank.evaluate(tmp_path / "x.npy", path)) == expected()
    assert command_scores(tmp_path / "x.npy", "--labels", path) == without_queries(expected())
    beside = [["coarse", label] for label in LABELS]  # a label is the label, whatever else there is
    path.write_text(lines("class,label", beside))
    assert scores(truerank.evaluate(tmp_path / "x.npy", path)) == expected()


def test_a_list_of_trials_by_embeddings_in_a_table(tmp_path: Path) -> None:
    header = ",".join(["id", *(f"e{number}" for number in range(D))])
    names = [f"n{row}" for row in range(ROWS)]
    rows = [[name, *row] for name, row in zip(names, NUMBERS, strict=True)]
    (tmp_path / "x.csv").write_text(lines(header, rows))
    trials = "left,right,same\nn0,n1,1\nn0,n8,0\nn4,n5,1\nn4,n20,0\n"
    (tmp_path / "trials.csv").write_text(trials)
    outcome = run("verify", tmp_path / "x.csv", "--pairs", tmp_path / "trials.csv", "-m", "auc")
    assert outcome.status == 0, outcome
    assert "2 positive trials and 2 negative" in outcome.out
