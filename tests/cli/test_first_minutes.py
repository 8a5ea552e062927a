"""What a new user types first, and what comes back."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest

import truerank
from tests.cli.driving import Outcome, run
from tests.files.samples import EMBEDDINGS, GROUPS, LABELS
from truerank.core.registry import display_name

ROWS = np.random.default_rng(4).normal(size=(60, 8)).astype(np.float32)
CLASSES = [f"class-{number % 12}" for number in range(60)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """60 rows of 12 classes; the gallery begins at row 30."""
    for name, part in (("all", slice(None)), ("query", slice(30)), ("gallery", slice(30, None))):
        np.save(tmp_path / f"{name}.npy", ROWS[part])
        (tmp_path / f"{name}.csv").write_text("\n".join(["label", *CLASSES[part]]))
    return tmp_path


def evaluate(folder: Path, *arguments: object) -> Outcome:
    return run("evaluate", folder / "all.npy", "--labels", folder / "all.csv", *arguments)


def search(folder: Path, shared: int) -> Outcome:
    """Search 30 queries in a gallery that holds `shared` of them."""
    np.save(folder / "gallery.npy", ROWS[30 - shared :])
    (folder / "gallery.csv").write_text("\n".join(["label", *CLASSES[30 - shared :]]))
    return run(
        *("evaluate", folder / "query.npy", "--labels", folder / "query.csv"),
        *("--gallery", folder / "gallery.npy", "--gallery-labels", folder / "gallery.csv"),
        *("-m", "precision@1"),
    )


def test_some_queries_in_the_gallery(folder: Path) -> None:
    assert search(folder, 0).err == ""
    outcome = search(folder, 7)
    assert outcome.status == 0
    assert outcome.err == (
        "truerank: note: the gallery contains 7 of 30 queries, bit for bit and with their label: "
        "if they are the same items, pass ids (query_ids, gallery_ids; a column id in files), so "
        "that no query finds itself.\n"
    )
    assert search(folder, 15).complaint() == (
        "the gallery contains 15 of 30 queries, bit for bit and with their label: pass ids "
        "(query_ids, gallery_ids; a column id in files), so that no query finds itself, or leave "
        "them out of the gallery."
    )
    assert search(folder, 30).complaint().startswith("the gallery contains the queries: leave it")


def test_names_that_people_try(folder: Path) -> None:
    outcome = evaluate(folder, "-m", "R@1", "-m", "tpr@fpr=0.1 rank5")
    assert outcome.status == 0
    rows = [line.split("  ")[0] for line in outcome.out.splitlines()[1:4]]
    assert rows == ["Recall@1 (hit@1)", "TAR@FAR=10%", "Recall@5 (hit@5)"]
    assert outcome.err.startswith("truerank: note: R@1 is read as hit@1, ")
    assert evaluate(folder, "-m", "f1").complaint() == (
        "unknown metric 'f1'; did you mean 'best_f1' or 'pairwise_f1'?"
    )


@pytest.mark.parametrize("asked", ["hit@1,5,10", "hit@1, 5, 10", "hit@1 hit@5,10"])
def test_three_cut_offs_are_three_rows(folder: Path, asked: str) -> None:
    outcome = evaluate(folder, "-m", asked)
    assert [line.split("  ")[0] for line in outcome.out.splitlines()[1:4]] == [
        "Recall@1 (hit@1)",
        "Recall@5 (hit@5)",
        "Recall@10 (hit@10)",
    ]
    assert outcome.err == ""


def test_labels_that_look_alike(folder: Path) -> None:
    labels = ["Class-0 " if number == 12 else label for number, label in enumerate(CLASSES)]
    (folder / "all.csv").write_text("\n".join(["label", *labels]))
    outcome = evaluate(folder, "-m", "map")
    assert outcome.err == (
        "truerank: note: labels 'Class-0 ' and 'class-0' differ by white space or case only and "
        "are different classes; make them one if they mean the same.\n"
    )


def test_a_similarity_for_a_distance(folder: Path) -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(12, 8))[np.arange(60) % 12] + 0.5 * rng.normal(size=(60, 8))
    np.save(folder / "all.npy", rows @ rows.T)
    outcome = evaluate(folder, "--distance", "precomputed", "-m", "map")
    assert outcome.err == (
        "truerank: note: relevant items rank far lower than by chance: the matrix seems to hold "
        "similarities; if so, pass distance='similarity'.\n"
    )
    assert evaluate(folder, "--distance", "similarity", "-m", "map").err == ""


def test_more_labels_that_look_alike(folder: Path) -> None:
    labels = [label.upper() if number < 2 else label for number, label in enumerate(CLASSES)]
    (folder / "all.csv").write_text("\n".join(["label", *labels]))
    outcome = evaluate(folder, "-m", "map")
    assert "differ by white space or case only (and so does 1 other group of labels)" in outcome.err


def test_zero_vectors_and_a_singleton(folder: Path) -> None:
    rows = ROWS.copy()
    rows[[3, 4]] = 0
    np.save(folder / "all.npy", rows)
    (folder / "all.csv").write_text("\n".join(["label", "alone", *CLASSES[1:]]))
    lines = evaluate(folder).out.splitlines()
    assert "2 rows are zero vectors, at cosine 0 to everything." in " ".join(lines)
    names = {line.split("  ")[0] for line in lines[1:10] if line}
    assert names == {display_name(metric) for metric in truerank.core.registry.DEFAULT}
    assert not any(line.startswith(("DIR", "GOM", "Skipped")) for line in lines)


def test_all_metrics_and_the_reasons_for_the_rest(folder: Path) -> None:
    outcome = evaluate(folder, "-m", "all", "--no-intervals", "--verbose")
    lines = outcome.out.splitlines()
    scored = [line for line in lines if re.match(r"\w.*?  [a-z]\S*  +([\d.]+|-)\s", line)]
    assert len(scored) >= 30
    assert [line for line in scored if re.match(r"\w.*?  [a-z]\S*  +-\s", line)] == []
    notes = " ".join(lines).split(" - ")
    skipped = [" ".join(note.split()) for note in notes if note.startswith("Skipped ")]
    assert skipped[0].startswith("Skipped DIR@FAR=10%, FAR@tau=0.5, TTR@FAR=10%, ")
    assert skipped[0].endswith(": not defined: every query has a relevant item.")
    assert skipped[1].startswith("Skipped H-AP, sum_wap")
    assert skipped[1].endswith(": the labels have one level, at which it repeats another metric.")
    assert len(skipped) == len({line.rpartition(": ")[2] for line in skipped})


def test_embeddings_in_a_table(folder: Path) -> None:
    header = ",".join(["class", *(f"e{number}" for number in range(8))])
    lines = [
        ",".join([label, *map(str, row)])
        for label, row in zip(CLASSES, ROWS.astype(np.float64).tolist(), strict=True)
    ]
    (folder / "table.csv").write_text("\n".join([header, *lines]))
    assert run("evaluate", folder / "table.csv").out == evaluate(folder).out
    assert run("evaluate", folder / "query.csv").complaint() == (
        f"{folder / 'query.csv'} holds no embeddings but the columns 'label'; expected a column "
        "for each dimension (e0, e1, ...), or numbers without a header."
    )


def test_what_a_query_found_first(folder: Path) -> None:
    np.save(folder / "all.npy", EMBEDDINGS)
    rows = zip(LABELS, GROUPS, strict=True)
    lines = [f"{label},{group},item {number}" for number, (label, group) in enumerate(rows)]
    (folder / "all.csv").write_text("\n".join(["label,camera,id", *lines]))
    outcome = evaluate(folder, "--per-query", folder / "queries.csv", "-m", "hit@1")
    assert outcome.status == 0
    with (folder / "queries.csv").open(encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))
    head = ["query", "id", "label", "group", "found", "found_id", "found_label", "found_group"]
    assert list(table[0])[:8] == head
    for row in table:
        assert row["id"] == f"item {row['query']}"
        assert row["found_id"] == f"item {row['found']}"
        hit = row["label"] == row["found_label"]
        assert row["hit@1:lower"] in ("", f"{float(hit)}")
        assert not (hit and row["group"] == row["found_group"])


def test_a_saved_result_draws_its_curves(folder: Path) -> None:
    evaluate(folder, "-m", "auc,map", "-o", folder / "result.json")
    fresh = truerank.evaluate(ROWS, CLASSES, metrics=["auc", "map"])
    read = truerank.Result.from_json(folder / "result.json")
    for name, x in (("cmc", "rank"), ("roc", "far"), ("det", "far")):
        first, again = fresh.curve(name), read.curve(name)
        assert list(first) == list(again)
        assert np.isin(again[x], first[x]).all()
        for column in first:
            np.testing.assert_array_equal(again[column][[0, -1]], first[column][[0, -1]])
    assert '"curves"' not in evaluate(folder, "-m", "auc", "--format", "json").out


@pytest.mark.parametrize("command", ["evaluate", "threshold", "neighbors"])
def test_labels_without_their_option(data: Path, command: str) -> None:
    labels = data / "labels.csv"
    done = run(command, data / "embeddings.npy", labels)
    assert done.complaint() == f"labels go by name: pass --labels {labels}."
    assert "unexpected extra argument" in run(command, data / "embeddings.npy", "no file").err


def test_arrays_of_objects(data: Path, tmp_path: Path) -> None:
    path = tmp_path / "objects.npy"
    np.save(path, np.array([["a", 1.5]], object))
    sentence = f"{path} is an array of Python objects (dtype object), which could run code"
    rows, labels, trials = data / "embeddings.npy", data / "labels.csv", tmp_path / "trials.csv"
    trials.write_text("left,right,same\n0,1,1\n")
    for arguments in (
        ("evaluate", path, "--labels", labels),
        ("evaluate", rows, "--labels", path),
        ("evaluate", rows, "--relevance", path),
        ("verify", path, "--pairs", trials),
    ):
        assert sentence in run(*arguments).complaint()


def test_queries_that_nobody_judged(tmp_path: Path) -> None:
    relevance = np.zeros((3, 3))
    relevance[0, 1] = 1
    np.save(tmp_path / "rows.npy", np.eye(3))
    np.save(tmp_path / "relevance.npy", relevance)
    done = run("evaluate", tmp_path / "rows.npy", "--relevance", tmp_path / "relevance.npy")
    assert "1 of 3 queries scored (2 are unjudged)" in done.out
