"""`truerank conform` on the command line: its exit status, its forms, its refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.driving import run

METRICS = """
def hit(lists, relevant, k=2):
    print("noise")
    pairs = [(ids[:k], mates) for ids, mates in zip(lists, relevant) if mates]
    return sum(bool(set(a) & set(b)) for a, b in pairs) / len(pairs) if pairs else None

def hit_or_zero(lists, relevant, k=2):
    return sum(bool(set(a[:k]) & set(b)) for a, b in zip(lists, relevant)) / len(lists)
"""
LISTS = ("--like", "hit@3", "--call", "lists", "--with", "k=3")


@pytest.fixture(autouse=True)
def _metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "metrics_here.py").write_text(METRICS)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", ["metrics_here.py:hit", "metrics_here:hit"])
def test_status_0_where_it_conforms(name: str) -> None:
    done = run("conform", name, *LISTS)
    assert done.status == 0
    assert "conforms" in done.out.splitlines()[0]
    assert "noise" not in done.out


def test_status_1_where_it_does_not() -> None:
    done = run("conform", "metrics_here.py:hit_or_zero", *LISTS)
    assert done.status == 1
    assert "It counts unmated queries as zero (unmated=zero)." in done.out
    assert run("conform", "metrics_here.py:hit_or_zero", *LISTS,
               "--allow", "unmated=zero").status == 0  # fmt: skip
    assert run("conform", "metrics_here.py:hit", "--like", "hit@3", "--call", "lists").status == 1


@pytest.mark.parametrize("columns", [60, 80])
def test_lines_fit_the_screen(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    done = run("conform", "metrics_here.py:hit_or_zero", *LISTS)
    assert max(map(len, done.out.splitlines())) <= columns


def test_json_on_stdout_and_in_a_file(tmp_path: Path) -> None:
    done = run("conform", "metrics_here.py:hit_or_zero", *LISTS, "--format", "json",
               "-o", tmp_path / "verdict.json")  # fmt: skip
    assert done.status == 1
    data = json.loads(done.out)
    assert data == json.loads((tmp_path / "verdict.json").read_text())
    assert data["function"] == "metrics_here.py:hit_or_zero"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("metrics_here.py:hit", "--like", "hit@30"), "at most 20"),
        (("metrics_here.py:nothing",), "has no 'nothing'"),
        (("metrics_here",), "package.module:function"),
        (("metrics_here.py:hit", "--with", "3"), "--with takes name=value"),
        (("metrics_here.py:hit", "-o", "verdict.csv"), "-o writes .json or .txt here"),
    ],
)
def test_bad_input(arguments: tuple[str, ...], sentence: str) -> None:
    assert sentence in run("conform", *arguments).complaint()
