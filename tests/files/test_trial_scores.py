"""Files of scores of trials, in their order or by the pair."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import truerank
from tests.cli.driving import run
from tests.refusals import assert_refused

TRIALS = [("a", "b", True), ("a", "c", False), ("b", "c", False), ("c", "d", True)]
BY_PAIR = {("a", "b"): 0.9, ("a", "c"): 0.2, ("b", "c"): 0.95, ("c", "d"): 0.7}
"""Of 2 x 2 pairs of a positive and a negative trial two are in order: an AUC of one half."""


def write(folder: Path, text: str, name: str = "system.scores") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["system.scores", "system", "system.txt", "system.csv"])
@pytest.mark.parametrize("between", [" ", "\t", ","])
def test_scores_are_joined_by_the_pair(name: str, between: str, tmp_path: Path) -> None:
    """In any order, with pairs that nobody asks for, and a trial that is listed twice."""
    lines = [between.join([*pair, str(score)]) for pair, score in list(BY_PAIR.items())[::-1]]
    path = write(tmp_path, "\n".join([*lines, between.join("xy") + between + "7"]), name)
    result = truerank.verify(path, TRIALS, "auc")
    assert result["auc"].value == 0.5
    by_order = truerank.verify(list(BY_PAIR.values()), TRIALS, "auc")
    assert repr(result["auc"]) == repr(by_order["auc"])
    twice = truerank.verify(path, [*TRIALS, TRIALS[0]], "auc")["auc"].value
    assert (
        twice == truerank.verify([*BY_PAIR.values(), 0.9], [*TRIALS, TRIALS[0]], "auc")["auc"].value
    )
    distances = truerank.verify(path, TRIALS, "auc", distance="precomputed")
    assert distances["auc"].value == 0.5


def test_four_columns_and_numbers_as_ids(tmp_path: Path) -> None:
    """WeSpeaker's file goes beside a list of trials, too; numbered ids are no rows of numbers."""
    lines = (f"{a} {b} {BY_PAIR[a, b]} {'' if s else 'non'}target\n" for a, b, s in TRIALS[::-1])
    assert truerank.verify(write(tmp_path, "".join(lines)), TRIALS, "auc")["auc"].value == 0.5
    number = dict(zip("abcd", "1234", strict=True))
    numbered = [(int(number[a]), int(number[b]), same) for a, b, same in TRIALS]
    text = "".join(f"{number[a]} {number[b]} {s}\n" for (a, b), s in BY_PAIR.items())
    path = write(tmp_path, text, "numbers.txt")
    assert truerank.verify(path, numbered, "auc")["auc"].value == 0.5
    # Where the first two are no pair of the list, the lines are rows of three dimensions.
    rows = write(tmp_path, "7 7 0.5\n6 7 0.1\n5 5 1\n", "rows.txt")
    by_row = truerank.verify(rows, [(0, 1, True), (0, 2, False)], "auc")
    assert by_row.provenance["distance"]["distance"] == "cosine"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a b 0.9\na c 0.2\n", ["no score for 2 of 4 trials", "trial 2, of 'b' and 'c'"]),
        ("a b 0.9\nc a 0.2\nb c 1\nc d 1\n", ["1 of 4", "'a' and 'c'; it has that", "exchanged"]),
        ("a b 0.9\na c 0.2\na b 0.8\n", ["line 3", "'a' and 'b' have another score in line 1"]),
        ("a b 0.9\na c nan\n", ["line 2", "finite number, not 'nan'"]),
        ("a b 0.9\na c\n", ["line 2", "two ids and a score"]),
        ("a,b,0.9\na," + "x" * 200_000 + ",1\n", ["line 2", "cannot be read", "131072"]),
    ],
)
def test_wrong_files_are_refused(text: str, words: list[str], tmp_path: Path) -> None:
    path = write(tmp_path, text)
    assert_refused(lambda: truerank.verify(path, TRIALS), [str(path), *words])


def test_the_command(tmp_path: Path) -> None:
    """Kaldi's two files; WeSpeaker's one; and what is missing."""
    text = "".join(f"{a} {b} {s}\n" for (a, b), s in BY_PAIR.items())
    kaldi, trials = write(tmp_path, text), tmp_path / "trials"
    trials.write_text("".join(f"{a} {b} {'' if s else 'non'}target\n" for a, b, s in TRIALS[::-1]))
    ran = run("verify", kaldi, "--pairs", trials, "-m", "auc", "--format", "csv")
    assert ran.status == 0, ran.err
    assert ran.out.splitlines()[1].startswith("auc,0.5,")
    labelled = write(
        tmp_path,
        "".join(f"{a} {b} {BY_PAIR[a, b]} {'' if s else 'non'}target\n" for a, b, s in TRIALS),
        "wespeaker.score",
    )
    for arguments in ((labelled,), ("--pairs", labelled)):
        assert run("verify", *arguments, "-m", "auc", "--format", "csv").out == ran.out
    assert "pass --pairs FILE" in run("verify").complaint()
    assert "pass pairs (--pairs FILE)" in run("verify", kaldi).complaint()
    assert "have no scores" in run("verify", trials).complaint()
    np.save(tmp_path / "scores.npy", np.ones(4))
    assert "pass pairs (--pairs FILE)" in run("verify", tmp_path / "scores.npy").complaint()


def test_a_page(tmp_path: Path) -> None:
    """verify --report writes what report makes of the result."""
    lines = "".join(f"{a} {b} {BY_PAIR[a, b]} {'' if s else 'non'}target\n" for a, b, s in TRIALS)
    path, page, out = write(tmp_path, lines, "ours.score"), tmp_path / "a.html", tmp_path / "a.json"
    ran = run("verify", path, "-m", "auc", "--report", page, "-o", out)
    assert ran.status == 0, ran.err
    assert run("report", out, "-o", tmp_path / "b.html", "--names", "ours").status == 0
    assert page.read_text(encoding="utf-8") == (tmp_path / "b.html").read_text(encoding="utf-8")
    people = write(tmp_path, "id,label\na,x\nb,x\nc,y\nd,y\n", "people.csv")
    over = run("verify", path, "--labels", people, "-o", people)
    assert "written over the input" in over.complaint()
    assert "--report writes .html" in run("verify", path, "--report", "page.pdf").complaint()
