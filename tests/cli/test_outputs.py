"""What is written where: -o by its ending, parts, judgements, thresholds, completion."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.shell_completion import BashComplete

import truerank
from tests.cli.driving import Outcome, run, run_process
from tests.files.samples import EMBEDDINGS, FAMILIES, LABELS, ROWS, scores
from truerank.cli.commands import commands


@pytest.fixture
def simple(data: Path) -> list[object]:
    return ["evaluate", data / "embeddings.npy", "--labels", data / "labels.csv"]


def good(*arguments: object) -> str:
    outcome = run(*arguments)
    assert outcome.status == 0, outcome
    return outcome.out


# --- -o


ENDINGS = {"json": "json", "csv": "csv", "md": "markdown", "tex": "latex", "txt": "table"}


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_ending_says_what_is_written(ending: str, simple: list[object], tmp_path: Path) -> None:
    path = tmp_path / f"out.{ending}"
    printed = good(*simple, "-m", "map@r,eer", "-o", path)
    assert printed.startswith("metric")
    if ending == "json":
        assert list(truerank.Result.from_json(path)) == ["map@r", "eer"]
    else:
        form = ENDINGS[ending]
        assert path.read_text() == good(*simple, "-m", "map@r,eer", "--format", form)


@pytest.mark.parametrize("form", ["csv", "markdown", "latex"])
def test_what_was_asked_is_written_where_the_ending_says_nothing(
    form: str, simple: list[object], tmp_path: Path
) -> None:
    printed = good(*simple, "-o", tmp_path / "out", "--format", form)
    assert (tmp_path / "out").read_text() == printed


def test_latex_into_a_tex_file(simple: list[object], tmp_path: Path) -> None:
    printed = good(*simple, "-o", tmp_path / "out.tex", "--format", "latex")
    assert (tmp_path / "out.tex").read_text() == printed
    assert printed.startswith(r"\begin{tabular}")


def test_a_table_is_written_as_json(simple: list[object], tmp_path: Path) -> None:
    """As ever: what other commands read."""
    good(*simple, "-o", tmp_path / "result")
    assert truerank.Result.from_json(tmp_path / "result")["map@r"].per_query is not None


def test_compare_writes_what_was_asked(simple: list[object], tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a.json", "b.json")]
    for path in paths:
        good(*simple, "-m", "map@r", "-o", path)
    for ending, start in (("tex", "% Needs"), ("md", "| model |"), ("csv", "metric,model,")):
        printed = good("compare", *paths, "-o", tmp_path / f"out.{ending}")
        assert printed.startswith("a and b score ")
        assert (tmp_path / f"out.{ending}").read_text().startswith(start)
    rows = csv.DictReader(io.StringIO(good("compare", *paths, "--format", "csv")))
    assert [row["against"] for row in rows] == ["", "", "b"]
    assert "over the input" in run("compare", *paths, "-o", paths[0]).complaint()


@pytest.mark.parametrize("command", ["audit", "threshold"])
def test_a_format_that_a_command_has_not(command: str, data: Path, tmp_path: Path) -> None:
    files = [data / "embeddings.npy", "--labels", data / "labels.csv"]
    files += ["--far", "0.1"] if command == "threshold" else []
    message = run(command, *files, "-o", tmp_path / "out.tex").complaint()
    assert message.startswith("-o writes .json")
    assert not list(tmp_path.iterdir())


FILES = ("--card", "--full", "--output", "--public", "--report")
"""Options of files that a command writes, by the ending."""
FOLDERS = ("benchmark", "shard", "train")
"""Commands whose --output is a folder."""


def written_files() -> Iterator[tuple[str, str]]:
    """Each command with each option that names a file to write."""
    for path, command in walk(commands, ()):
        for option in command.params:
            if path[0] not in FOLDERS and set(option.opts).intersection(FILES):
                yield " ".join(path), option.opts[-1]


def walk(group: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from walk(command, (*path, name))
        else:
            yield (*path, name), command


def test_every_command_that_writes_is_tried() -> None:
    found = dict(written_files())
    assert {
        "evaluate",
        "compare",
        "verify",
        "lists",
        "compression",
        "report",
        "demo",
    } <= found.keys()
    assert {"task make", "task reveal", "leaderboard", "embed"} <= found.keys()


@pytest.mark.parametrize(("command", "option"), [*written_files()])
def test_an_unknown_ending_is_refused_before_any_work(
    command: str, option: str, tmp_path: Path
) -> None:
    """The inputs are not even looked at; no command could make a workbook."""
    found = commands
    for name in command.split():
        found = found.commands[name]
    needed = [
        part
        for one in found.params
        if one.required and option not in one.opts
        for part in ([] if isinstance(one, click.Argument) else [one.opts[0]]) + [tmp_path / "x"]
    ]
    message = run(*command.split(), *needed, option, tmp_path / "out.xlsx").complaint()
    assert "out.xlsx" in message
    assert re.search(r"\.(html|json|pdf|ibin|npy|task)", message)
    assert not list(tmp_path.iterdir())


def test_a_name_without_an_ending_is_taken(simple: list[object], tmp_path: Path) -> None:
    good(*simple, "-m", "map@r", "-o", tmp_path / "plain", "--report", tmp_path / "page")
    assert truerank.Result.from_json(tmp_path / "plain")["map@r"].value > 0
    assert (tmp_path / "page").read_text().startswith("<!")
    good(*simple, "-m", "map@r", "-o", tmp_path / "table", "--format", "csv")
    assert (tmp_path / "table").read_text().startswith("metric,")
    good("report", tmp_path / "plain", "-o", tmp_path / "other")
    assert (tmp_path / "other").read_text().startswith("<!")


def test_written_files_are_named_on_stderr(simple: list[object], tmp_path: Path) -> None:
    out, rows, page = (tmp_path / name for name in ("out.json", "rows.csv", "page.html"))
    done = run(*simple, "-m", "map@r", "-o", out, "--per-query", rows, "--report", page)
    assert done.out == good(*simple, "-m", "map@r")
    assert done.err == ""
    sizes = {line.removeprefix("Wrote ").partition(" (")[0]: line for line in done.wrote}
    assert sorted(sizes) == sorted(map(str, (out, rows, page)))
    for path in (out, rows, page):
        size = path.stat().st_size
        shown = f"{size / 1e6:.1f} MB" if size >= 999_500 else f"{size / 1e3:.0f} kB"
        assert sizes[str(path)] == f"Wrote {path} ({shown})"
    refused = run("evaluate", tmp_path / "none.npy", "-o", out)
    assert (refused.status, refused.wrote) == (2, ())


def test_a_written_folder_is_named_with_its_files(simple: list[object], tmp_path: Path) -> None:
    done = run("shard", simple[1], "--rows", "20", "-o", tmp_path / "shards")
    [line] = done.wrote
    assert re.fullmatch(rf"Wrote {tmp_path / 'shards'} \(3 files, \d+ (kB|bytes)\)", line)


# --- parts


def test_the_worst_classes(simple: list[object]) -> None:
    text = good(*simple, "-m", "map@r,hit@1", "--by", "label", "--worst", "3")
    table = text[text.index("\nlabel ") :].splitlines()[1:]
    assert table[0].split() == ["label", "MAP@R", "Recall@1", "queries"]
    each = truerank.evaluate(EMBEDDINGS, LABELS, metrics="map@r").by("label")
    worst = sorted(part["map@r"].value for part in each.values())[:3]
    assert [line.split()[1] for line in table[1:4]] == [f"{100 * value:.2f}" for value in worst]
    assert table[4:] == ["", "9 parts by label, the worst in MAP@R first; 3 are shown."]


def test_parts_by_a_level_as_csv(data: Path) -> None:
    labels = ("--labels", data / "all.csv", "--levels", "level1,label")
    options = ("--by", "level1", "-m", "map@r", "--format", "csv")
    rows = list(
        csv.DictReader(io.StringIO(good("evaluate", data / "embeddings.npy", *labels, *options)))
    )
    assert sorted(row["level1"] for row in rows) == sorted(set(FAMILIES))
    assert all(int(row["queries"]) == 12 for row in rows)


def test_parts_that_cannot_be(simple: list[object]) -> None:
    assert "known are label" in run(*simple, "--by", "camera").complaint()
    assert "--by" in run(*simple, "--worst", "3").complaint()
    assert "0" in run(*simple, "--by", "label", "--worst", "0").complaint()


# --- judgements


def test_judgements_by_id(data: Path, tmp_path: Path) -> None:
    """Odd rows search even rows; mates are graded 1 or 2."""
    grades = np.zeros((ROWS // 2, ROWS // 2), int)
    lines = []
    for query in range(ROWS // 2):
        for item in range(ROWS // 2):
            if LABELS[2 * query + 1] == LABELS[2 * item]:
                grades[query, item] = 1 + item % 2
                lines.append(f"q{query} 0 d{item} {grades[query, item]}")
    (tmp_path / "judged.qrels").write_text("\n".join(lines) + "\n")
    (tmp_path / "q.csv").write_text("id\n" + "\n".join(f"q{n}" for n in range(ROWS // 2)))
    (tmp_path / "d.csv").write_text("id\n" + "\n".join(f"d{n}" for n in range(ROWS // 2)))
    np.save(tmp_path / "judged.npy", grades)
    sides = ("evaluate", data / "query.npy", "--gallery", data / "gallery.npy")
    ids = ("--ids", tmp_path / "q.csv", "--gallery-ids", tmp_path / "d.csv")
    options = ("-m", "map,ndcg", "-o", tmp_path / "result.json")
    wanted = truerank.evaluate(
        EMBEDDINGS[1::2], gallery=EMBEDDINGS[::2], relevance=grades, metrics=["map", "ndcg"]
    )
    for judged, more in (("judged.qrels", ids), ("judged.npy", ())):
        good(*sides, "--relevance", tmp_path / judged, *more, *options)
        found = truerank.Result.from_json(tmp_path / "result.json")
        assert scores(found)["ndcg"]["per_query"] == scores(wanted)["ndcg"]["per_query"]
        assert found["map"].value == wanted["map"].value
    by_ids = (*sides, "--relevance", tmp_path / "judged.qrels")
    assert "pass --ids FILE" in run(*by_ids).complaint()
    assert "pass --gallery-ids FILE" in run(*by_ids, *ids[:2]).complaint()
    both = run(*by_ids, *ids, "--labels", data / "query.csv").complaint()
    assert both == "--relevance and labels both define the relevant items; pass one of the two."
    assert "--gallery-ids came without" in run(*sides[:2], *ids[2:]).complaint()


# --- thresholds


def test_a_threshold_for_misses_and_for_searches(data: Path, tmp_path: Path) -> None:
    files = ("threshold", data / "embeddings.npy", "--labels", data / "labels.csv")
    path = tmp_path / "point.json"
    text = good(*files, "--frr", "0.1", "--threads", "1", "--device", "cpu", "-o", path)
    assert "(chosen for an FRR of 0.1)" in " ".join(text.split())
    wanted = truerank.choose_threshold(EMBEDDINGS, LABELS, frr=0.1).to_dict()
    assert json.loads(path.read_text()) == wanted
    good(*files, "--frr", "0.1", "-o", tmp_path / "classes.csv")
    rows = list(csv.DictReader((tmp_path / "classes.csv").open()))
    assert [row["class"] for row in rows] == [one["label"] for one in wanted["classes"]]
    strangers = tmp_path / "known.csv"
    strangers.write_text("\n".join("x" if n < 6 else LABELS[2 * n] for n in range(ROWS // 2)))
    search = (
        *("threshold", data / "query.npy", "--labels", data / "query.csv"),
        *("--gallery", data / "gallery.npy", "--gallery-labels", strangers),
    )
    text = good(*search, "--far", "0.2")
    assert text.startswith("Accept the nearest item if its cosine distance is at most")
    assert "unmated queries that accept any item (FAR)" in text
    assert "pass --far or --frr" in run(*files).complaint()
    assert "only one of the two" in run(*files, "--far", "0.1", "--frr", "0.1").complaint()
    assert "--gallery-labels came" in run(*files, *search[6:], "--far", "0.1").complaint()


# --- choices and completion


@pytest.mark.parametrize(
    ("option", "word", "offered"),
    [
        ("--average", "macro", "'query', 'class'"),
        ("--unmated", "skip", "'report', 'zero', 'error'"),
        ("--unlabelled", "drop", "'error', 'distractor'"),
        ("--device", "gpu", "'auto', 'cpu', 'cuda', 'reference'"),
        ("--distance", "cosin", "'cosine', 'euclidean', 'dot'"),
    ],
)
def test_choices_are_listed(option: str, word: str, offered: str, simple: list[object]) -> None:
    message = run(*simple, option, word).complaint()
    assert message.startswith(f"Invalid value for '{option}': '{word}' is not one of {offered}")


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("ev", ["evaluate"]),
        ("evaluate --dis", ["--distance"]),
        ("evaluate x.npy --distance ha", ["hamming"]),
        ("evaluate x.npy --average c", ["class"]),
        ("evaluate x.npy -m map@r,hit", ["map@r,hit@5", "map@r,hit@10", "map@r,hit"]),
        ("metrics mre", ["mrep", "mrep_max"]),
        ("compare --format la", ["latex"]),
    ],
)
def test_the_shell_completes(typed: str, offered: list[str]) -> None:
    shell = BashComplete(commands, {}, "truerank", "_TRUERANK_COMPLETE")
    *arguments, last = typed.split()
    assert [item.value for item in shell.get_completions(arguments, last)] == offered


def test_the_shell_asks_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_TRUERANK_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "truerank th")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert run_process() == Outcome(0, "plain,threshold\n", "")
    monkeypatch.setenv("_TRUERANK_COMPLETE", "zsh_source")
    text = run_process().out
    assert text.startswith("#compdef truerank")
    assert "_TRUERANK_COMPLETE=zsh_complete" in text


# --- metrics


def test_metrics_of_a_family_and_for_programs() -> None:
    text = good("metrics", "openset")
    rows = text.partition("\nopenset\n")[2].splitlines()
    assert [row.split()[0] for row in rows] == ["dir", "far", "ttr", "ftr", "fnir"]
    known = json.loads(good("metrics", "--format", "json"))
    assert [one["name"] for one in known] == list(truerank.metrics.names())
    [opis] = [one for one in known if one["name"] == "opis"]
    assert opis["better"] == "lower"
    assert opis["parameters"][0]["default"] == "0.01:0.1"
    rows = list(csv.DictReader(io.StringIO(good("metrics", "verification", "--format", "csv"))))
    assert {row["family"] for row in rows} == {"verification"}
    assert good("metrics", "eer", "--format", "markdown").splitlines()[2].startswith("| eer |")
