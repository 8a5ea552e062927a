"""verify(): trials with scores or embeddings."""

from __future__ import annotations

import json
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import truerank
from tests.cli.driving import run
from tests.oracles import openset

TRIALS = [("a", "b", True), ("a", "c", False), ("b", "c", False), ("c", "d", True)]
ROWS = np.array([[1.0, 0.1], [1.0, -0.2], [0.1, 1.0], [-0.4, 1.0]])
IDS = ["a", "b", "c", "d"]


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=2, max_size=14))
def test_scores_by_brute_force(trials: list[tuple[int, bool]]) -> None:
    scores = [score / 4 for score, _ in trials]
    pairs = [("x", "y", same) for _, same in trials]
    names = ["auc", "eer", "min_dcf", "best_f1", "tar@far=0.5", "tar@tau=0.5", "fmr@tau=0.5"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", truerank.TruerankWarning)
        result = truerank.verify(scores, pairs, names)
    exact = [(-Fraction(score, 4), same) for score, same in trials]
    if {same for _, same in exact} != {True, False}:
        assert all(score.reason for score in result.values())
        return
    assert result["auc"].value == pytest.approx(float(openset.auc(exact)), abs=1e-15)
    assert result["eer"].value == pytest.approx(float(openset.eer(exact)), abs=1e-15)
    value, tau = openset.best_f1(exact)
    best = result["best_f1"]
    assert (best.value, best.threshold) == (value.numerator / value.denominator, -tau)
    curve = result.curve("f1")
    assert curve["f1"].max() == best.value
    assert curve["threshold"][curve["f1"].argmax()] == best.threshold
    tau = -Fraction(1, 2)
    assert result["tar@tau=0.5"].value == float(openset.tar(exact, tau))
    assert result["fmr@tau=0.5"].value == float(openset.far(exact, tau))
    if sum(not same for _, same in exact) >= 2:
        value = openset.tar_at_far(exact, Fraction(1, 2))[0]
        assert result["tar@far=0.5"].value == float(value)


def test_embeddings_agree_with_their_distances() -> None:
    """Exact pair distances, by id and by row number, and given as scores."""
    by_id = truerank.verify(ROWS, TRIALS, ids=IDS, distance="cosine", metrics=["auc", "eer"])
    numbered = [(IDS.index(a), IDS.index(b), same) for a, b, same in TRIALS]
    by_row = truerank.verify(ROWS, numbered, ["auc", "eer"])
    assert dict(by_id) == dict(by_row)
    unit = ROWS / np.linalg.norm(ROWS, axis=1, keepdims=True)
    similarity = [float(unit[a] @ unit[b]) for a, b, _ in numbered]
    given = truerank.verify(similarity, TRIALS, ["auc", "eer"])
    assert given["auc"].value == by_id["auc"].value
    distances = truerank.verify([1 - s for s in similarity], TRIALS, "auc", distance="precomputed")
    assert distances["auc"].value == by_id["auc"].value
    assert list(by_id.curve("roc")) == ["far", "tar", "threshold"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"scores_or_embeddings": [0.5], "pairs": TRIALS}, ["1 scores but 4 trials"]),
        ({"scores_or_embeddings": ROWS, "pairs": TRIALS}, ["names 'a'", "row numbers"]),
        ({"scores_or_embeddings": ROWS, "pairs": TRIALS, "ids": list("abce")}, ["names 'd'"]),
        ({"scores_or_embeddings": ROWS, "pairs": TRIALS, "ids": list("abcc")}, ["a row twice"]),
        ({"scores_or_embeddings": ROWS, "pairs": TRIALS, "metrics": "map"}, ["has no map"]),
        ({"scores_or_embeddings": None, "pairs": TRIALS}, ["no scores"]),
        (
            {"scores_or_embeddings": ROWS, "pairs": [(1, 2)]},
            ["trial 0 must be (left, right, same)"],
        ),
        ({"scores_or_embeddings": ROWS, "pairs": [(1, 2, "x")]}, ["True or False"]),
        ({"scores_or_embeddings": ROWS, "pairs": []}, ["empty"]),
        ({"scores_or_embeddings": ROWS, "pairs": 3}, ["a path or a sequence"]),
        ({"scores_or_embeddings": [1.0] * 4, "pairs": TRIALS, "distance": "dot"}, ["similarity"]),
        ({"scores_or_embeddings": ROWS, "pairs": TRIALS, "distance": "cos"}, ["distance", "'cos'"]),
        ({"scores_or_embeddings": ROWS, "pairs": np.array(3)}, ["a path or a sequence"]),
        ({"scores_or_embeddings": ROWS, "pairs": [(0, 1, np.ones(2))]}, ["True or False", "array"]),
        ({"scores_or_embeddings": ROWS, "pairs": [(0, np.ones(2), 1)]}, ["trial 0 names array"]),
        ({"scores_or_embeddings": ROWS, "pairs": [("0", "²", 1)]}, ["names '²'", "row numbers"]),
        ({"scores_or_embeddings": ROWS, "pairs": [("9" * 5000, 1, 1)]}, ["names '999", "..."]),
        ({"scores_or_embeddings": ROWS, "pairs": TRIALS, "ids": [[]] * 4}, ["ids", "hashable"]),
        ({"scores_or_embeddings": ROWS, "pairs": TRIALS, "ids": 4}, ["ids must be one value"]),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict, words: list[str]) -> None:
    with pytest.raises(truerank.InputError) as error:
        truerank.verify(**arguments)
    assert all(word in str(error.value) for word in words), str(error.value)


def test_the_command(tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", embeddings=ROWS, id=np.array(IDS))
    np.save(tmp_path / "scores.npy", np.array([0.9, 0.1, 0.2, 0.8]))
    pairs = tmp_path / "trials.txt"
    pairs.write_text("1 a b\n0 a c\n0 b c\n1 c d\n")
    out = tmp_path / "result.json"
    for values in ("rows.npz", "scores.npy"):
        ran = run("verify", tmp_path / values, "--pairs", pairs, "-o", out, "-m", "auc,eer")
        assert ran.status == 0, ran.err
        assert "2 positive trials and 2 negative" in ran.out
        scores = json.loads(out.read_text(encoding="utf-8"))["scores"]
        assert scores["auc"]["value"] == 1.0
        assert scores["eer"]["value"] == 0.0
        assert str(truerank.Result.from_json(out)) == ran.out.rstrip("\n")
    (tmp_path / "scores.txt").write_text("score\n0.9\n0.1\n0.2\n0.8\n", encoding="utf-8")
    ran = run("verify", tmp_path / "scores.txt", "--pairs", pairs, "--format", "json")
    assert json.loads(ran.out)["scores"]["auc"]["value"] == 1.0
    ran = run("verify", "--pairs", pairs)
    assert ran.status == 2
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("scores.txt", b"0.5\n\xff\n", ["not UTF-8 text"]),
        ("scores.npy", b"PK\x03\x04 and more of a zip", ["is named .npy but is a zip archive"]),
        ("scores.npy", b"\x93NUMPY\x01\x00\x10\x00{'descr': '<f8',", ["cannot be read as .npy"]),
        ("scores.npy", b"\x93NUMPY\x01\x00\x08\x00{'descr'", ["cannot be read as .npy"]),
    ],
)
def test_scores_that_cannot_be_read(
    name: str, content: bytes, words: list[str], tmp_path: Path
) -> None:
    trials, scores = tmp_path / "trials.txt", tmp_path / name
    trials.write_text("1 a b\n0 a c\n")
    scores.write_bytes(content)
    complaint = run("verify", scores, "--pairs", trials).complaint()
    assert all(word in complaint for word in words), complaint


def test_numbers_of_numpy_and_torch_are_numbers() -> None:
    torch = pytest.importorskip("torch")
    expected = truerank.verify(ROWS, [(0, 1, True), (0, 2, False)], "auc")["auc"]
    for make in (np.int64, np.array, torch.tensor):
        trials = [(make(0), make(1), make(1)), (make(0), make(2), make(0))]
        assert truerank.verify(ROWS, trials, "auc")["auc"] == expected
