"""The scripts in examples/ run as a newcomer runs them, and what they print is right."""

from __future__ import annotations

import ast
import re
import runpy
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import truerank
from tests.cli.driving import environment
from truerank.datasets.emoji import Emoji

FOLDER = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.py"))


@cache
def output(name: str) -> list[str]:
    """What a script prints, run as a process away from the checkout."""
    done = subprocess.run(
        [sys.executable, str(FOLDER / f"{name}.py")],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=FOLDER.anchor,
        env=environment(),
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def data() -> Emoji:
    return truerank.datasets.emoji()


def test_there_are_five_and_the_page_lists_them():
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert len(SCRIPTS) == 5
    assert sorted(re.findall(r"^- \[(\w+)\.py\]\(\1\.py\): .", page, re.MULTILINE)) == SCRIPTS


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_is_short_and_says_for_whom_it_is(name):
    """Every line of the file counts, those of its docstring and empty ones too."""
    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    assert 20 <= len(text.splitlines()) <= 40
    summary, _, rest = (ast.get_docstring(ast.parse(text)) or "").partition("\n\n")
    assert summary.endswith(".")
    assert rest.startswith("For ")


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_result_is_short_and_fits_a_terminal(name):
    lines = output(name)
    assert 1 <= len(lines) <= 40
    assert max(map(len, lines)) <= 80


def test_the_papers_table_agrees_with_the_page_of_the_data_set():
    lines = output("papers_table")
    means = {
        line.split()[1]: re.findall(r"([\d.]+) \[", line) for line in lines if line.startswith("| ")
    }
    # docs/data/emoji.md has hit@1, MAP@R and DIR at FAR 0.1 by brute force.
    assert means["efficientnet"] == ["49.7", "24.8", "11.2"]
    assert means["pixels"] == ["42.8", "19.4", "10.7"]
    assert "map@r: efficientnet scores higher than pixels, +5.4 points" in lines
    same = "dir@far=0.1: efficientnet does not differ significantly from pixels, +0.5 points"
    assert same in lines
    assert r"pixels & $42.84^{***}$ & $19.43^{***}$ & $\underline{10.71}$ \\" in lines


class Nearest(NamedTuple):
    """Per query: has it a relevant item, is the nearest item relevant, and its distance."""

    known: np.ndarray
    mate: np.ndarray
    distance: np.ndarray


def nearest(call: dict[str, Any]) -> Nearest:
    """By brute force, without the items that are junk."""
    query, gallery = (
        rows / np.linalg.norm(rows, axis=1, keepdims=True)
        for rows in (call["embeddings"], call["gallery"])
    )
    mates = call["labels"][:, None] == call["gallery_labels"]
    same_camera = call["query_groups"][:, None] == call["gallery_groups"]
    junk = (mates & same_camera) | np.isin(call["gallery_labels"], call["junk_labels"])
    assert (mates & same_camera).any()
    distance = np.where(junk, np.inf, 1 - query @ gallery.T)
    first = np.arange(len(query)), distance.argmin(axis=1)
    return Nearest((mates & ~junk).any(axis=1), mates[first], distance[first])


def test_unmated_queries_and_junk_are_counted_as_by_hand(monkeypatch):
    calls: list[dict[str, Any]] = []
    evaluate = truerank.evaluate

    def recorded(embeddings, labels, **options):
        calls.append({"embeddings": embeddings, "labels": labels, **options})
        return evaluate(embeddings, labels, **options)

    monkeypatch.setattr(truerank, "evaluate", recorded, raising=False)
    tau = runpy.run_path(str(FOLDER / "reid_open_set.py"))["tau"]
    seen, unseen = map(nearest, calls)
    assert int((~seen.known & (seen.distance <= float(tau))).sum()) == 7  # 5 % of 150
    first, accepted = unseen.mate[unseen.known], unseen.distance <= float(tau)
    by_hand = {
        "hit@1": first.mean(),
        f"dir@tau={float(tau)}": (first & accepted[unseen.known]).mean(),
        f"far@tau={float(tau)}": accepted[~unseen.known].mean(),
    }
    printed = dict(line.split()[:2] for line in output("reid_open_set")[1:])
    assert {name: printed[name] for name in by_hand} == {
        name: f"{value:.1%}" for name, value in by_hand.items()
    }


def test_the_levels_of_a_taxonomy(data):
    lines = output("taxonomy")
    names = [line.split()[0] for line in lines[1:7]]
    by_number = ["h_ap", "asi", "ndcg", "map@level=1", "map@level=2", "map@level=3"]
    assert names[3:] == ["map@level=category", "map@level=subcategory", "map@level=emoji"]
    for column, model in enumerate(data.models, 1):
        task = data.task(model, hierarchy=True)
        result = truerank.evaluate(**task, metrics=by_number, confidence=None)
        scores = [f"{score.value:.1%}" for score in result.values()]
        assert [line.split()[column] for line in lines[1:7]] == scores


def test_the_errors_in_a_taxonomy():
    text = "\n".join(output("taxonomy"))
    pattern = r"(\d+) of (\d+):\n +(\d+) share nothing\n +(\d+) .* category\n +(\d+) .* subcategory"
    found = {}
    for model in ("efficientnet", "pixels"):
        part = text[text.index(f"{model} finds") :]
        errors, queries, nothing, category, subcategory = map(
            int, re.search(pattern, part).groups()
        )
        assert errors == nothing + category + subcategory
        right = queries - errors, queries - nothing - category, queries - nothing
        found[model] = [f"{number / queries:.3f}" for number in right]
    # docs/data/emoji.md has these shares by brute force.
    assert found == {
        "efficientnet": ["0.497", "0.698", "0.837"],
        "pixels": ["0.428", "0.571", "0.693"],
    }


def test_training_begins_at_the_features_and_gets_better(data):
    lines = output("training_loop")
    scores = [float(re.search(r"map@r ([\d.]+)%", line).group(1)) for line in lines]
    held_out = np.unique(data.labels, return_inverse=True)[1] % 2 == 1
    before = truerank.evaluate(
        data.models["efficientnet"][held_out],
        data.labels[held_out],
        query_groups=data.families[held_out],
        metrics=["map@r"],
        confidence=None,
    )["map@r"]
    assert f"map@r {before.value:.2%}" in lines[0]
    assert len(scores) == 6
    assert scores[-1] > scores[0] + 2


def test_a_competition_aligns_refuses_and_is_not_gamed(data):
    lines = output("competition")
    scores = dict(re.findall(r"^(\w+) +map@r ([\d.]+)", "\n".join(lines), re.MULTILINE))
    for name, model in (("network", "efficientnet"), ("thumbnail", "pixels")):
        result = truerank.evaluate(
            data.models[model], data.labels, query_groups=data.families, metrics=["map@r"]
        )
        assert scores[name] == f"{result['map@r'].value:.4f}"
    assert scores["constant"] == "0.0000"
    refused = " ".join(lines[4:])
    assert refused.startswith("half ")
    assert "refused: the submission's ids do not match the task's 5494: 2747 missing" in refused
