"""evaluate's intervals, compare and audit on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.cli.driving import run


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Two models of one task, and labels."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(30), 5)
    centres, noise = rng.standard_normal((30, 16)), rng.standard_normal((150, 16))
    np.save(tmp_path / "good.npy", centres[labels] + noise)
    np.save(tmp_path / "poor.npy", centres[labels] + 2 * noise)
    np.save(tmp_path / "labels.npy", labels)
    for name in ("good", "poor"):
        options = ("--labels", tmp_path / "labels.npy", "-o", tmp_path / f"{name}.json")
        assert run("evaluate", tmp_path / f"{name}.npy", *options).status == 0
    return tmp_path


def test_intervals_are_shown_widened_and_left_out(files: Path) -> None:
    base = ("evaluate", files / "good.npy", "--labels", files / "labels.npy", "-m", "map")
    assert "95 % interval" in run(*base).out.splitlines()[0]
    assert "99 % interval" in run(*base, "--confidence", 0.99).out.splitlines()[0]
    assert "nterval" not in run(*base, "--no-intervals").out
    assert "adjusted" in run(*base, "--adjusted").out.splitlines()[0]
    data = json.loads(run(*base, "--format", "json", "--seed", 4).out)
    assert data["provenance"]["intervals"]["seed"] == 4
    assert "'confidence' parameter" in run(*base, "--confidence", 95).complaint()


def test_compare(files: Path) -> None:
    done = run("compare", files / "good.json", files / "poor.json", "-m", "map@r")
    assert done.status == 0
    lines = done.out.splitlines()
    assert lines[0].startswith("good is better than poor in MAP@R: ")
    header, row = lines[lines.index("") + 1 :][:2]
    assert " ".join(header.split()) == "metric good poor difference its 95 % interval p"
    assert row.split()[0] == "MAP@R"
    assert row.endswith("***")
    verbose = run("compare", files / "good.json", files / "poor.json", "-m", "map@r", "--verbose")
    assert "< 0.0001" in verbose.out
    latex = run("compare", files / "good.json", files / "poor.json", "--format", "latex")
    assert r"\begin{tabular}" in latex.out
    target, again = files / "comparison.json", files / "again.json"
    again.write_bytes((files / "good.json").read_bytes())
    done = run(
        "compare",
        *("--runs", f"{files / 'good.json'},{again}"),
        *("--runs", str(files / "poor.json")),
        *("--names", "ours,theirs", "--format", "json", "-o", target),
    )
    assert json.loads(done.out) == json.loads(target.read_text())
    assert json.loads(done.out)["standings"][0]["runs"] == 2


@pytest.fixture
def seeds(files: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three runs of a, two of b, in the working directory."""
    for name, source in (("a-0", "good"), ("a-1", "good"), ("a-2", "good"), ("b-0", "poor"),
                         ("b-1", "poor")):  # fmt: skip
        (files / f"{name}.json").write_bytes((files / f"{source}.json").read_bytes())
    monkeypatch.chdir(files)
    return files


def test_a_pattern_of_runs_that_the_shell_expanded_is_refused(seeds: Path) -> None:
    """`--runs a-*.json --runs b-*.json` without quotes: seeds would be compared as models."""
    expanded = ("--runs", "a-0.json", "a-1.json", "a-2.json", "--runs", "b-0.json", "b-1.json")
    assert run("compare", *expanded, "-m", "map@r").complaint() == (
        "--runs names one file, a-0.json, beside 3 files without --runs, each of which would be a "
        "model. Write the runs of a model with commas, --runs a-0.json,a-1.json, or as a pattern "
        "in quotes, --runs 'a-*.json', which the shell leaves alone. A model with a single run "
        "needs no --runs."
    )
    assert "names one file" in run("compare", "a-0.json", "--runs", "b-[0].json").complaint()


def test_patterns_of_runs_are_expanded(seeds: Path) -> None:
    def compared(*words: str) -> dict:
        return json.loads(run("compare", *words, "-m", "map@r", "--format", "json").out)

    named = compared("--runs", "a-0.json,a-1.json,a-2.json", "--runs", "b-0.json,b-1.json")
    assert {row["model"]: row["runs"] for row in named["standings"]} == {"a": 3, "b": 2}
    assert compared("--runs", "a-*.json", "--runs", "b-?.json") == named
    assert compared("--runs", "a-0.json, a-[12].json", "--runs", "b-*.json") == named
    alone = compared("--runs", "a-0.json", "--runs", "b-0.json")  # one run of each
    assert [row["runs"] for row in alone["standings"]] == [1, 1]
    beside = compared("a-0.json", "--runs", "b-*.json")
    assert sorted(row["runs"] for row in beside["standings"]) == [1, 2]
    (seeds / "c[0-9].json").write_bytes((seeds / "a-0.json").read_bytes())
    (seeds / "c1.json").write_text("not to be read")
    assert compared("--runs", "c[0-9].json", "--runs", "b-0.json")["standings"][0]["runs"] == 1


def test_patterns_that_match_nothing_or_a_file_twice_are_refused(seeds: Path) -> None:
    message = run("compare", "--runs", "a-0.json,x-*.json", "--runs", "b-*.json").complaint()
    assert message == "no file matches 'x-*.json', a pattern of --runs."
    for runs in ("a-0.json,a-0.json", "a-0.json,a-*.json"):
        twice = run("compare", "--runs", runs, "--runs", "b-*.json").complaint()
        assert twice == f"--runs {runs} names a-0.json twice; name each run of a model once."
    clash = run("compare", "--runs", "a-*.json", "--runs", "b-*.json", "-o", "a-1.json")
    assert "would be written over the input" in clash.complaint()


def test_cells_of_a_table_to_paste(seeds: Path) -> None:
    words = ("compare", "--runs", "a-*.json", "--runs", "b-*.json", "-m", "map@r")
    latex = run(*words, "--format", "latex", "--cells", "runs", "-o", "table.md")
    assert r"\pm 0.00$" in latex.out
    assert "± 0.00" in (seeds / "table.md").read_text()
    assert (
        "In brackets: intervals of 95 % over test sets and runs."
        in run(*words, "--format", "markdown", "--cells", "interval").out
    )
    assert run(*words, "--cells", "runs").complaint() == (
        "--cells runs is for Markdown and LaTeX; add --format latex, or -o with .tex or .md."
    )


def test_compare_refuses(files: Path) -> None:
    assert "at least two" in run("compare", files / "good.json").complaint()
    assert "missing.json" in run("compare", files / "good.json", files / "missing.json").complaint()


def test_audit(files: Path) -> None:
    x = np.load(files / "good.npy")
    x[0] = x[100]
    np.save(files / "doubled.npy", x)
    options = ("--train", files / "poor.npy", "-o", files / "audit.json")
    done = run("audit", files / "doubled.npy", files / "labels.npy", *options)
    assert done.status == 0
    assert "error: 2 rows equal to a row of another class." in done.out
    data = json.loads((files / "audit.json").read_text())
    assert data["findings"][0]["rows"] == [[0, 100]]
