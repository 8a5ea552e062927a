"""Labels, ids, columns and file names that mean something to the program that reads the output."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import numpy as np
import pytest

import truerank
from tests.builders import clusters
from tests.cli.driving import run
from truerank.result.tables import Parts

FORMULA, INPUT, PIPE = '=HYPERLINK("http://a.b","c")', r"\input{/etc/passwd}", "a|b"
SCRIPT, ESCAPE = "<script>alert(1)</script>", "\x1b[2Jgone\u202e"
NAMES = [FORMULA, INPUT, PIPE, SCRIPT, ESCAPE, "+1+1", "@a", "-1"]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Rows of as many classes as there are names, in a table whose columns have such names too."""
    rows, codes = clusters(1, classes=len(NAMES), size=4)
    np.save(tmp_path / "x.npy", rows)
    with (tmp_path / "labels.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", FORMULA, "label"])
        for number, code in enumerate(codes):
            writer.writerow([f"{NAMES[code]}{number}", NAMES[code // 2], NAMES[code]])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def evaluated(*options: str) -> str:
    arguments = ["evaluate", "x.npy", "--labels", "labels.csv", "-m", "map@r", *options]
    outcome = run(*arguments)
    assert outcome.status == 0, outcome
    return outcome.out


def cells(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def assert_no_formula(table: list[list[str]]) -> None:
    words = [cell for row in table for cell in row]
    assert not [cell for cell in words if cell[:1] in ("=", "+", "@")]
    assert f"'{FORMULA}" in words


def test_a_spreadsheet_runs_no_label(files: Path) -> None:
    table = cells(evaluated("--by", "label", "--format", "csv"))
    assert_no_formula(table)
    assert {f"'{FORMULA}", "'+1+1", "'@a", "-1", PIPE} <= {row[0] for row in table}


@pytest.mark.parametrize("letter", ["\r", "\n", "\r\n"])
def test_a_line_break_in_a_label_begins_no_row(letter: str) -> None:
    labels = [f"a{letter}=HYPERLINK(1)"] * 2 + ["b"] * 2
    result = truerank.evaluate([[0.0], [1.0], [5.0], [6.0]], labels, metrics="map",
                               distance="euclidean")  # fmt: skip
    text = Parts.of_result(result, "label").to_csv()
    rows = [line.split(",")[0] for line in re.split("[\r\n]+", text) if line]
    assert sorted(rows[1:]) == [repr(labels[0])[1:-1], "b"]


def test_a_spreadsheet_runs_no_column_and_no_level(files: Path) -> None:
    levels = f"{FORMULA.replace(',', ' ')},label"
    text = (files / "labels.csv").read_text(encoding="utf-8")
    (files / "labels.csv").write_text(text.replace('b"",""c', 'b"" ""c', 1), encoding="utf-8")
    by = FORMULA.replace(",", " ")
    table = cells(evaluated("--levels", levels, "--by", by, "--format", "csv"))
    assert table[0][0] == f"'{by}"


def test_a_spreadsheet_runs_no_id(files: Path) -> None:
    evaluated("--per-query", "queries.csv")
    table = cells((files / "queries.csv").read_text(encoding="utf-8"))
    ids = [row[1] for row in table[1:]]
    assert f"'{FORMULA}0" in ids
    assert not [name for name in ids if name[:1] in ("=", "+", "@")]


def test_latex_reads_no_file(files: Path) -> None:
    shown = evaluated("--by", "label", "--format", "latex")
    assert r"\input" not in shown
    assert r"\textbackslash{}input\{/etc/passwd\}" in shown
    assert "\x1b" not in shown


def test_markdown_keeps_its_columns_and_runs_no_script(files: Path) -> None:
    shown = evaluated("--by", "label", "--format", "markdown")
    assert "<script>" not in shown
    assert {line.replace(r"\|", "").count("|") for line in shown.splitlines() if line} == {4}
    assert r"a\|b" in shown


def test_a_terminal_is_not_steered(files: Path) -> None:
    shown = evaluated("--by", "label")
    assert r"\x1b[2Jgone\u202e" in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown


@pytest.mark.parametrize("form", ["csv", "latex", "markdown", "table"])
def test_file_names_of_models(form: str, files: Path) -> None:
    names = ["=1+1|x\\input{y}.json", "<b>.json"]
    for name in names:
        evaluated("-o", name)
    shown = run("compare", *names, "--format", form)
    assert shown.status == 0, shown
    if form == "csv":
        assert {row[1] for row in cells(shown.out)[1:]} == {"'=1+1|x\\input{y}", "<b>"}
    if form == "latex":
        assert r"\input" not in shown.out
    if form == "markdown":
        assert "<b>" not in shown.out
        assert r"=1+1\|x" in shown.out


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_half_a_letter_is_written_out(ending: str, files: Path) -> None:
    rows, codes = clusters(1, classes=4, size=4)
    np.savez("half.npz", embeddings=rows, label=np.array([f"\ud800{code}" for code in codes]))
    done = run("evaluate", "half.npz", "--per-query", f"queries.{ending}")
    assert done.status == 0, done
    held = (files / f"queries.{ending}").read_bytes()
    assert rf"\ud800{codes[0]}".encode() in held
