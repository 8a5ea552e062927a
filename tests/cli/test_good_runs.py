"""Runs that end well: what is printed and written is the result that evaluate returns."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from pyarrow import parquet

import truerank
from tests.cli.driving import Outcome, run
from tests.files.samples import (
    CLASSES,
    EMBEDDINGS,
    FAMILIES,
    GROUPS,
    IDS,
    LABELS,
    ROWS,
    expected,
    scores,
)

SCHEMA = json.loads((Path(truerank.__file__).parent / "result/result.schema.json").read_text())


def succeed(*arguments: object) -> Outcome:
    outcome = run("evaluate", *arguments)
    assert outcome.status == 0, outcome
    assert outcome.err == "", outcome
    return outcome


@pytest.fixture
def simple(data: Path) -> list[object]:
    return [data / "embeddings.npy", "--labels", data / "labels.csv"]


@pytest.fixture
def by_hand(tmp_path: Path) -> list[object]:
    """Row 0 finds its mate, row 1 too, row 2 has two candidates at 90 and its mate at 45 degrees,
    row 3 is as near to its mate as to each of the others."""
    np.save(tmp_path / "by_hand.npy", [[0.0, 1.0], [0.0, 2.0], [1.0, 0.0], [1.0, 1.0]])
    (tmp_path / "by_hand.csv").write_text("a\na\nb\nb\n")
    return [tmp_path / "by_hand.npy", "--labels", tmp_path / "by_hand.csv"]


# --- formats


def test_the_table_shows_percent_and_both_ends_of_a_tie(by_hand: list[object]) -> None:
    lines = succeed(*by_hand, "-m", "hit@1").out.splitlines()
    header = next(line for line in lines if "metric" in line).split()
    row = next(line for line in lines if "hit@1" in line).removeprefix("Recall@1 (hit@1)")
    shown = dict(zip(header[1:], row.split(), strict=True))
    # Row 3 ties with three candidates, of which one is its mate: 0, 1/3 or 1 of four.
    assert shown["score"] == "75.00"
    assert shown["ties"] == "+25.00"
    assert shown["chance"] == "33.33"
    text = " ".join(" ".join(lines).split())
    assert "4 queries scored leave-one-out, cosine distance" in text
    verbose = succeed(*by_hand, "-m", "hit@1", "--verbose").out
    assert re.search(r"hit@1 +75\.00 +83\.33 +100\.00 +33\.33 +4 queries", verbose)
    assert "Ties between relevant and irrelevant items in 1 " in " ".join(verbose.split())


def test_json_on_stdout(simple: list[object]) -> None:
    text = succeed(*simple, "--format", "json").out
    data = json.loads(text)
    jsonschema.validate(data, SCHEMA)
    for name, score in expected().items():
        score.pop("per_query")
        assert data["scores"][name] == score


def test_csv_on_stdout_is_at_full_precision(simple: list[object]) -> None:
    rows = list(csv.DictReader(io.StringIO(succeed(*simple, "--format", "csv").out)))
    assert [row["metric"] for row in rows] == list(expected())
    for row in rows:
        score = expected()[row["metric"]]
        for name in ("value", "lower", "expected", "upper", "chance"):
            assert float(row[name]) == score[name]
        assert int(row["n"]) == ROWS


def test_markdown_on_stdout(by_hand: list[object]) -> None:
    lines = succeed(*by_hand, "-m", "hit@1 map@r", "--format", "markdown").out.splitlines()
    assert lines == [
        "| metric | score | ties | chance |",
        "| --- | ---: | ---: | ---: |",
        "| Recall@1 (hit@1) | 75.00 | +25.00 | 33.33 |",
        "| MAP@R | 75.00 | +25.00 | 33.33 |",
    ]


def test_latex_on_stdout(by_hand: list[object]) -> None:
    text = succeed(*by_hand, "-m", "r_precision", "--format", "latex").out
    assert text.startswith("\\begin{tabular}{lrrr}\n\\toprule\n")
    assert r"R-Precision & 75.00 & +25.00 & 33.33 \\" in text
    assert text.endswith("\\bottomrule\n\\end{tabular}\n")


@pytest.mark.parametrize("columns", ["20", "40", "200"])
def test_no_number_is_cut_off_in_a_pipe(
    columns: str, simple: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What goes into a file or a pipe has no width; a table must not lose its digits to one."""
    monkeypatch.setenv("COLUMNS", columns)
    text = succeed(*simple, "-m", "map@10,divisor=min hit@1").out
    assert "…" not in text
    assert "MAP@10, divisor=min" in text
    assert f"{100 * expected(metrics='hit@1')['hit@1']['value']:.2f}" in text


# --- options


def test_metrics_are_divided_by_commas_or_spaces(simple: list[object]) -> None:
    wanted = ["map@10,divisor=min", "hit@5", "map@r"]
    for text in (
        "map@10,divisor=min hit@5 map@r",
        "map@10,divisor=min,hit@5,map@r",
        " map@10,divisor=min , hit@5  map@r ",
        "map_cut_10,divisor=min cmc@5 mean_average_precision_at_r",
    ):
        data = json.loads(succeed(*simple, "-m", text, "--format", "json").out)
        assert list(data["scores"]) == wanted


def test_metrics_may_be_named_one_by_one(simple: list[object]) -> None:
    out = succeed(*simple, "-m", "map@r", "-m", "hit@1,mrr", "--format", "json").out
    assert list(json.loads(out)["scores"]) == ["map@r", "hit@1", "mrr"]


def test_all_metrics(simple: list[object]) -> None:
    outcome = run("evaluate", *simple, "-m", "all", "--format", "json")
    assert outcome.status == 0
    wanted = truerank.evaluate(EMBEDDINGS, LABELS, metrics="all")
    assert list(json.loads(outcome.out)["scores"]) == list(wanted)


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (["--distance", "euclidean"], {"distance": "euclidean"}),
        (["--distance", "dot", "--threads", "1"], {"distance": "dot"}),
        (["--average", "class"], {"average": "class"}),
        (["--device", "reference"], {"device": "reference"}),
        (["--junk-label", "0003"], {"junk_labels": ["0003"]}),
        (["--junk-label", "0003", "--junk-label", "0005"], {"junk_labels": ["0003", "0005"]}),
        (
            ["--junk-label", "0003", "--unmated", "zero"],
            {"junk_labels": ["0003"], "unmated": "zero"},
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options_are_obeyed(
    arguments: list[str], options: dict[str, Any], simple: list[object], tmp_path: Path
) -> None:
    path = tmp_path / "result.json"
    succeed(*simple, *arguments, "-o", path)
    assert scores(truerank.Result.from_json(path)) == expected(**options)


def test_a_note_goes_to_stderr_and_the_result_to_stdout(simple: list[object]) -> None:
    outcome = run("evaluate", *simple, "-m", "recall@1", "--format", "csv")
    assert outcome.status == 0
    assert outcome.err.startswith("truerank: note: recall@1 is")
    assert len(outcome.err.splitlines()) == 1
    assert outcome.out.startswith("metric,")


# --- a gallery, levels, tasks


def test_a_gallery(data: Path, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    outcome = succeed(
        *(data / "query.npy", "--labels", data / "query.csv"),
        *("--gallery", data / "gallery.npy", "--gallery-labels", data / "gallery.csv"),
        *("-o", path),
    )
    assert "18 queries scored against 18 gallery items" in outcome.out
    wanted = truerank.evaluate(
        EMBEDDINGS[1::2],
        LABELS[1::2],
        gallery=EMBEDDINGS[::2],
        gallery_labels=LABELS[::2],
    )
    assert scores(truerank.Result.from_json(path)) == scores(wanted)


def test_a_gallery_whose_labels_are_text_of_integers(tmp_path: Path) -> None:
    """Cells of a CSV file are text; the labels of the queries are an array of integers."""
    rows, labels = np.random.default_rng(0).standard_normal((2, 24, 4)), np.arange(24) // 3
    np.savez(tmp_path / "q.npz", embeddings=rows[0], label=labels)
    np.save(tmp_path / "g.npy", rows[1])
    (tmp_path / "g.csv").write_text("label\n" + "\n".join(map(str, labels)) + "\n")
    files = ("--gallery", tmp_path / "g.npy", "--gallery-labels", tmp_path / "g.csv")
    outcome = succeed(
        tmp_path / "q.npz", *files, "-m", "map", "--junk-label", "2", "--format", "json"
    )
    sides = {"gallery": rows[1], "gallery_labels": labels, "junk_labels": [2]}
    wanted = truerank.evaluate(rows[0], labels, metrics="map", **sides)
    assert json.loads(outcome.out)["scores"]["map"]["value"] == wanted["map"].value


def test_levels_groups_and_ids_from_one_table(data: Path, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    outcome = succeed(
        data / "embeddings.npy", "--labels", data / "all.csv", "-o", path, "--verbose"
    )
    assert "rows that share an id" in " ".join(outcome.out.split())
    labels = {"level1": FAMILIES, "label": LABELS}
    wanted = truerank.evaluate(EMBEDDINGS, labels, query_groups=GROUPS, query_ids=IDS)
    found = truerank.Result.from_json(path)
    assert scores(found) == scores(wanted)


def test_units_of_the_intervals(data: Path, tmp_path: Path) -> None:
    """Two families are too few; the labels, on request, are named."""
    path = tmp_path / "result.json"
    given = (data / "embeddings.npy", "--labels", data / "all.csv", "-m", "ndcg")
    assert "of level 1 (level1) with a query that counts" in " ".join(succeed(*given).out.split())
    succeed(*given, "--units", "finest", "-o", path)
    units = truerank.Result.from_json(path).provenance["intervals"]["units"]
    assert units == {"ndcg": "level 2 (label)"}


def test_levels_choose_the_label(data: Path, tmp_path: Path) -> None:
    """--levels level1 makes the families the labels."""
    path = tmp_path / "result.json"
    succeed(
        *(data / "embeddings.npy", "--labels", data / "all.csv"),
        *("--levels", "level1", "-o", path),
    )
    wanted = truerank.evaluate(EMBEDDINGS, FAMILIES, query_groups=GROUPS, query_ids=IDS)
    assert scores(truerank.Result.from_json(path)) == scores(wanted)


def columns(folder: Path) -> Path:
    """The same labels under names of one's own, which only --levels finds."""
    path = folder / "columns.csv"
    rows = [f"{family},{label}" for family, label in zip(FAMILIES, LABELS, strict=True)]
    path.write_text("\n".join(["family,kind", *rows]) + "\n")
    return path


def test_a_threshold_at_a_level(data: Path, tmp_path: Path) -> None:
    """The levels that evaluate takes; only the finest counts, and that is said."""
    labels = columns(tmp_path)
    command = ("threshold", data / "embeddings.npy", "--labels", labels, "--far", "0.1")
    both = ("--apply", data / "embeddings.npy", "--apply-labels", labels)
    for levels, names in (("family,kind", LABELS), ("kind", LABELS), ("family", FAMILIES)):
        wanted = truerank.choose_threshold(EMBEDDINGS, names, far=0.1)
        for more in ((), both):
            found = run(*command, *more, "--levels", levels, "--format", "json")
            assert found.status == 0, found.err
            expected = wanted.to_dict() | {"levels": levels.split(",")}
            assert json.loads(found.out) == expected
        said = "Of 2 label levels only the finest (level kind) counts here."
        assert (said in run(*command, "--levels", levels).out) == ("," in levels)
    assert "has no column 'genus'" in run(*command, "--levels", "kind,genus").complaint()
    assert "none is called genus;" in run(*command, "--levels", "genus").complaint()
    hint = "name the columns in the first line, or choose columns by --levels."
    assert run(*command).complaint().endswith(f"none is called label; {hint}")


def test_a_threshold_with_a_taxonomy(data: Path, tmp_path: Path) -> None:
    parents = dict(zip(LABELS, FAMILIES, strict=True))
    taxonomy = tmp_path / "taxonomy.csv"
    taxonomy.write_text(
        "child,parent\n" + "".join(f"{child},{parent}\n" for child, parent in parents.items())
    )
    command = ("threshold", data / "embeddings.npy", "--labels", data / "labels.csv")
    found = run(*command, "--far", "0.1", "--taxonomy", taxonomy)
    wanted = truerank.choose_threshold(EMBEDDINGS, LABELS, far=0.1)
    lines = found.out.splitlines()
    assert "- Of 2 label levels only the finest (level 2) counts here." in lines
    kept = " ".join(line.removeprefix("- ") for line in lines if "label levels" not in line)
    words = " ".join(line.removeprefix("- ") for line in str(wanted).splitlines())
    assert kept.split() == words.split()
    audited = run("audit", *command[1:2], data / "labels.csv", "--taxonomy", taxonomy)
    assert "  Classes are those of the finest level, 2." in audited.out.splitlines()
    named = ("--labels", data / "labels.csv")
    assert run("audit", *command[1:2], *named, "--taxonomy", taxonomy).out == audited.out
    twice = run("audit", *command[1:2], data / "labels.csv", *named).complaint()
    assert twice == "labels are given twice: as an argument and by --labels."
    refused = run("audit", *command[1:2], "--taxonomy", taxonomy).complaint()
    assert refused.endswith("holds no labels for --taxonomy; pass LABELS.")


def test_an_audit_at_a_level(data: Path, tmp_path: Path) -> None:
    command = ("audit", data / "embeddings.npy", columns(tmp_path), "--format", "json")
    for levels, labels in (
        ("family,kind", {"family": FAMILIES, "kind": LABELS}),
        ("family", FAMILIES),
    ):
        found = run(*command, "--levels", levels)
        assert found.status == 0, found.err
        wanted = truerank.audit(EMBEDDINGS, labels)
        assert json.loads(found.out) == json.loads(wanted.to_json())
    assert wanted.facts["largest and median class size"] == [12, 12.0]
    said = json.loads(run(*command, "--levels", "family,kind").out)["facts"]
    assert said["level of the classes, the finest"] == "kind"
    assert "level of the classes, the finest" not in wanted.facts


def test_levels_in_the_file_of_embeddings(tmp_path: Path) -> None:
    path = tmp_path / "both.npz"
    np.savez(path, embeddings=EMBEDDINGS, family=np.array(FAMILIES), kind=np.array(LABELS))
    found = run("audit", path, "--levels", "family", "--format", "json")
    assert json.loads(found.out)["facts"] == truerank.audit(EMBEDDINGS, FAMILIES).facts


def test_rows_of_two_files_are_matched_by_id(tmp_path: Path) -> None:
    """The labels in another order, with more rows than embeddings; in the same order, any ids."""
    names = [f"photo {row}" for row in range(ROWS)]
    rows = tmp_path / "rows.npz"
    np.savez(rows, embeddings=EMBEDDINGS[3:], id=np.array(names[3:]))
    table = tmp_path / "labels.csv"
    order = np.random.default_rng(0).permutation(ROWS).tolist()
    lines = [f"{names[row]},{LABELS[row]},{GROUPS[row]}" for row in order]
    table.write_text("\n".join(["id,label,group", *lines]))
    found = succeed(rows, "--labels", table, "--format", "json")
    wanted = truerank.evaluate(
        EMBEDDINGS[3:], LABELS[3:], query_groups=GROUPS[3:], query_ids=names[3:]
    )
    assert json.loads(found.out)["scores"]["map"]["value"] == wanted["map"].value
    np.savez(rows, embeddings=EMBEDDINGS, id=np.array(IDS))
    table.write_text("\n".join(["id,label", *map(",".join, zip(IDS, LABELS, strict=True))]))
    found = succeed(rows, "--labels", table, "--format", "json")
    wanted = truerank.evaluate(EMBEDDINGS, LABELS, query_ids=IDS)
    assert json.loads(found.out)["scores"]["map"]["value"] == wanted["map"].value


@pytest.mark.parametrize(
    ("ids", "words"),
    [(["a", "b", "c", "x"], "no row for the id 'd'"), (["b", "a", "b", "d"], "id 'b' twice")],
)
def test_ids_that_do_not_match_are_refused(ids: list[str], words: str, tmp_path: Path) -> None:
    rows, table = tmp_path / "rows.npz", tmp_path / "labels.csv"
    np.savez(rows, embeddings=np.eye(4), id=np.array(list("abcd")))
    table.write_text("\n".join(["id,label", *(f"{name},cat" for name in ids)]))
    outcome = run("evaluate", rows, "--labels", table)
    assert outcome.status == 2
    assert words in outcome.err
    assert "match their rows by position" in outcome.err


def test_a_hidden_task_and_a_shuffled_submission(data: Path, tmp_path: Path) -> None:
    public, result = tmp_path / "public.json", tmp_path / "result.json"
    table = tmp_path / "queries.csv"
    printed = succeed(
        *(data / "submission.npz", "--task", data / "hidden.task"),
        *("-o", public, "--full", result, "--per-query", table),
    )
    assert scores(truerank.Result.from_json(result)) == expected()
    shown = json.loads(public.read_text())
    jsonschema.validate(shown, SCHEMA)
    jsonschema.validate(json.loads(result.read_text()), SCHEMA)
    assert shown["provenance"]["public"]
    assert "MAP@R" in printed.out
    values = {name: score["value"] for name, score in shown["scores"].items()}
    assert values == {name: score["value"] for name, score in expected().items()}
    rows = list(csv.DictReader(table.open(encoding="utf-8", newline="")))
    assert [row["id"] for row in rows] == [f"image-{row:03d}" for row in range(ROWS)]
    assert [float(row["map@r:lower"]) for row in rows] == pytest.approx(
        truerank.evaluate(EMBEDDINGS, LABELS)["map@r"].per_query.lower.tolist(), abs=0
    )


def test_a_task_without_ids_takes_rows_in_order(data: Path, tmp_path: Path) -> None:
    task = tmp_path / "plain.task"
    truerank.Task(LABELS[1::2], gallery_labels=LABELS[::2]).save(task)
    found = succeed(
        *(data / "query.npy", "--task", task, "--gallery", data / "gallery.npy"),
        *("--format", "json"),
    )
    wanted = truerank.evaluate(
        EMBEDDINGS[1::2], LABELS[1::2], gallery=EMBEDDINGS[::2], gallery_labels=LABELS[::2]
    )
    assert json.loads(found.out)["scores"]["map"]["value"] == wanted["map"].value


def test_a_similarity_matrix(data: Path, tmp_path: Path) -> None:
    similarity = EMBEDDINGS[1::2] @ EMBEDDINGS[::2].T
    np.save(tmp_path / "similarity.npy", similarity)
    found = succeed(
        *(tmp_path / "similarity.npy", "--labels", data / "query.csv"),
        *("--gallery-labels", data / "gallery.csv", "--distance", "similarity"),
        *("--format", "json"),
    )
    wanted = truerank.evaluate(
        similarity, LABELS[1::2], gallery_labels=LABELS[::2], distance="similarity"
    )
    assert json.loads(found.out)["scores"]["map"]["value"] == wanted["map"].value


# --- files


def test_the_json_file_is_valid_and_reads_back(simple: list[object], tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    printed = succeed(*simple, "-o", path).out
    data = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.validate(data, SCHEMA)
    result = truerank.Result.from_json(path)
    assert scores(result) == expected()
    assert result.to_dict() == data
    again = tmp_path / "again.json"
    result.to_json(again)
    assert again.read_bytes() == path.read_bytes()
    assert "MAP@R" in printed  # the table is printed as well
    assert os.listdir(tmp_path) in (["result.json", "again.json"], ["again.json", "result.json"])


def test_an_undefined_metric_is_null_with_its_reason(data: Path, tmp_path: Path) -> None:
    (tmp_path / "alone.csv").write_text("\n".join(str(row) for row in range(ROWS)))
    path = tmp_path / "result.json"
    arguments = (data / "embeddings.npy", "--labels", tmp_path / "alone.csv", "-o", path)
    outcome = succeed(*arguments, "-m", "map@r")
    assert "no query has a relevant item" in " ".join(outcome.out.split())
    written = json.loads(path.read_text())
    jsonschema.validate(written, SCHEMA)
    assert written["scores"]["map@r"]["value"] is None
    assert "no query has a relevant item" in written["scores"]["map@r"]["reason"]
    succeed(*arguments)
    written = json.loads(path.read_text())
    jsonschema.validate(written, SCHEMA)
    assert list(written["scores"]) == ["mfr"]  # all that queries without a mate can have
    assert "map@r" in written["skipped"]


def test_a_far_that_cannot_be_resolved_says_why(simple: list[object]) -> None:
    metrics = ("-m", "map@r tar@far=0.000001 eer")
    lines = succeed(*simple, *metrics).out.splitlines()
    pairs = sum(LABELS[i] != LABELS[j] for i in range(ROWS) for j in range(i))
    reason = f"TAR@FAR=0.0001%: not defined: {pairs} negatives cannot resolve a FAR of 1e-06;"
    assert lines[2].split()[:2] == ["TAR@FAR=0.0001%", "-"]
    assert "; \N{DOWNWARDS ARROW} lower is better." in lines[5]
    assert lines[6].startswith(reason)
    for form, mark in (("markdown", "- "), ("latex", "% ")):
        last = succeed(*simple, *metrics, "--format", form).out.splitlines()[-1]
        assert last.startswith(mark + reason)


def test_sampled_opis_with_a_gallery_says_why_not(data: Path) -> None:
    lines = succeed(
        *(data / "query.npy", "--labels", data / "query.csv"),
        *("--gallery", data / "gallery.npy", "--gallery-labels", data / "gallery.csv"),
        *("-m", "opis@negatives=5"),
    ).out.split()
    assert (
        "OPIS@negatives=5: not defined: negatives= draws pairs of one set, and there is a separate "
        "gallery."
    ) in " ".join(lines)


def per_query_columns() -> dict[str, list[float | None]]:
    return {
        f"{metric}:{end}": [None if value != value else value for value in values.tolist()]
        for metric, score in truerank.evaluate(EMBEDDINGS, CLASSES, query_ids=IDS).items()
        for end in ("lower", "expected", "upper")
        if (values := getattr(score.per_query, end)) is not None
    }


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".CSV"])
def test_a_table_of_queries(suffix: str, data: Path, tmp_path: Path) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_text(
        "\n".join(["label,id", *(f"{a},{b}" for a, b in zip(LABELS, IDS, strict=True))])
    )
    path = tmp_path / f"queries{suffix}"
    succeed(data / "embeddings.npy", "--labels", labels, "--per-query", path)
    wanted = per_query_columns()
    head = ["query", "id", "label", "found", "found_id", "found_label", "found_distance"]
    if suffix == ".parquet":
        table = parquet.read_table(path)
        assert table.column_names == [*head, *wanted]
        found = table.to_pydict()
    else:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        assert list(rows[0]) == [*head, *wanted]
        found = {name: [row[name] for row in rows] for name in rows[0]}
        found["query"] = [int(number) for number in found["query"]]
        for name in wanted:
            found[name] = [float(cell) if cell else None for cell in found[name]]
    assert found["query"] == list(range(ROWS))
    assert found["id"] == IDS
    assert found["label"] == LABELS
    hits = [value == 1 for value in wanted["precision@1:lower"]]
    assert [a == b for a, b in zip(LABELS, found["found_label"], strict=True)] == hits
    items = [int(row) for row in found["found"]]
    assert found["found_id"] == [IDS[row] for row in items]
    assert found["found_label"] == [LABELS[row] for row in items]
    assert all(IDS[row] != name for row, name in zip(items, IDS, strict=True))
    for name, values in wanted.items():
        assert found[name] == values


def test_queries_without_a_mate_have_empty_cells(data: Path, tmp_path: Path) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_text("\n".join(["alone", *LABELS[1:]]))
    path = tmp_path / "queries.csv"
    outcome = succeed(
        data / "embeddings.npy", "--labels", labels, "--per-query", path, "-m", "hit@1"
    )
    assert f"{ROWS - 1} of {ROWS} queries scored (1 is alone in its class)" in outcome.out
    lines = path.read_text().splitlines()
    assert lines[0] == (
        "query,label,found,found_label,found_distance,hit@1:lower,hit@1:expected,hit@1:upper"
    )
    assert lines[1].startswith("0,alone,")
    assert lines[1].endswith(",,,")
    assert "" not in lines[2].split(",")


def test_a_file_name_may_hold_spaces_and_accents(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "my résults, run 1"
    folder.mkdir()
    copy = folder / "émbeddings.npy"
    copy.write_bytes((data / "embeddings.npy").read_bytes())
    succeed(copy, "--labels", data / "labels.csv", "-o", folder / "ré sult.json")
    assert scores(truerank.Result.from_json(folder / "ré sult.json")) == expected()


# --- help


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--help"], ["Usage: truerank", "evaluate", "demo"]),
        (["-h"], ["Usage: truerank", "evaluate"]),
        (
            ["evaluate", "--help"],
            ["--labels", "--gallery", "--levels", "--task", "--junk-label", "--per-query", ".npy"],
        ),
        (["demo", "--help"], ["Usage: truerank demo"]),
        (["--version"], ["truerank", truerank.__version__]),
    ],
    ids=" ".join,
)
def test_help_and_version(arguments: list[str], words: list[str]) -> None:
    outcome = run(*arguments)
    assert outcome.status == 0
    assert outcome.err == ""
    assert all(word in outcome.out for word in words), outcome.out


def test_every_option_is_explained() -> None:
    """Each line of the list of options says something after the option's name."""
    text = run("evaluate", "--help").out
    options = text[text.index("Input:") : text.index("Examples:")].split("\n  -")[1:]
    assert len(options) > 12
    for option in options:
        assert len(option.split("  ", 1)[-1].split()) > 1, option
