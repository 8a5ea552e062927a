"""Trial lists in the layouts of LFW, VoxCeleb and IJB."""

from __future__ import annotations

from pathlib import Path

import pytest

import truerank
from truerank.io.trials import read_trials

TRIALS = [("a", "b", True), ("a", "c", False), ("b", "c", False), ("c", "d", True)]


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "trials.txt"
    path.write_text(text, encoding="utf-8")
    return path


LAYOUTS = {
    "voxceleb": "1 a b\n0 a c\n0 b c\n1 c d\n",
    "ijb": "a,b,1\na,c,0\nb,c,0\nc,d,1\n",
    "kaldi": "a b target\na c nontarget\nb c nontarget\nc d target\n",
    "csv": "same,right,left\n1,b,a\n0,c,a\n0,c,b\n1,d,c\n",
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("named", [True, False])
def test_layouts(tmp_path: Path, layout: str, named: bool) -> None:
    trials = read_trials(write(tmp_path, LAYOUTS[layout]), layout if named else "auto")
    assert list(zip(trials.left, trials.right, trials.same.tolist(), strict=True)) == TRIALS
    assert trials.scores is None


def test_scores_in_the_list(tmp_path: Path) -> None:
    trials = read_trials(write(tmp_path, "1 a b 0.9\n0 a c 0.2\n0 b c 0.95\n"))
    assert trials.scores.tolist() == [0.9, 0.2, 0.95]
    assert truerank.verify(None, trials, "auc")["auc"].value == 0.5


def test_lfw_has_folds(tmp_path: Path) -> None:
    """Two folds of one pair of each kind; each fold judged at the threshold of the other."""
    path = write(tmp_path, "2\t1\nAnn\t1\t2\nAnn\t1\tBob\t3\nCy\t4\t5\nCy\t1\tBob\t12\n")
    trials = read_trials(path)
    assert trials.left == ["Ann_0001", "Ann_0001", "Cy_0004", "Cy_0001"]
    assert trials.right == ["Ann_0002", "Bob_0003", "Cy_0005", "Bob_0012"]
    assert trials.folds.tolist() == [0, 0, 1, 1]
    assert trials.people == (["Ann", "Ann", "Cy", "Cy"], ["Ann", "Bob", "Cy", "Bob"])
    # The second fold's threshold, half-way between .8 and .2, rejects the first fold's pair at .45.
    result = truerank.verify([0.45, 0.1, 0.8, 0.2], trials, "auc")
    assert result.provenance["folds"]["per_fold"] == [0.5, 1.0]
    assert "Accuracy over 2 folds" in str(result)


def test_lfw_for_development_has_no_folds(tmp_path: Path) -> None:
    """pairsDevTest.txt begins with one number."""
    trials = read_trials(write(tmp_path, "1\nAnn\t1\t2\nAnn\t1\tBob\t3\n"))
    assert trials.folds is None
    assert trials.same.tolist() == [True, False]


def test_wespeaker_has_scores_and_labels(tmp_path: Path) -> None:
    path = write(tmp_path, "a b 0.9 target\na c 0.2 nontarget\nb c 0.95 nontarget\nc d 1 target\n")
    for layout in ("auto", "wespeaker"):
        trials = read_trials(path, layout)
        assert list(zip(trials.left, trials.right, trials.same.tolist(), strict=True)) == TRIALS
        assert trials.scores.tolist() == [0.9, 0.2, 0.95, 1.0]
    # Auc by hand: of 2 x 2 pairs of trials, .9 is below .95, and the other three are in order.
    assert truerank.verify(path, metrics="auc")["auc"].value == 0.75


def test_people_in_columns(tmp_path: Path) -> None:
    text = "left,right,same,left_label,right_label\na,b,1,x,x\na,c,0,x,y\n"
    assert read_trials(write(tmp_path, text)).people == (["x", "x"], ["x", "y"])


@pytest.mark.parametrize(
    ("text", "layout", "words"),
    [
        ("1 a\n", "voxceleb", ["line 1", "0 or 1, two ids"]),
        ("a b maybe\n", "ijb", ["line 1", "0 or 1"]),
        ("a b c d e\n", "auto", ["none of the layouts"]),
        ("1 0 1\n0 1 1\n", "auto", ["voxceleb or as ijb"]),
        ("1 a b 0.5\n0 a b\n", "voxceleb", ["1 of 2 trials have a score"]),
        ("1 a b nan\n", "voxceleb", ["finite number"]),
        ("Ann one two\n", "lfw", ["line 1", "name n m"]),
        ("2 2\nAnn 1 2\nAnn 1 Bob 1\n", "auto", ["2 x 2 pairs", "makes 8", "but holds 2"]),
        ("left,right\na,b\n", "csv", ["left, right and same"]),
        ("a b 0.5\n", "wespeaker", ["line 1", "two ids, a score, and target"]),
        ("a b target 0.5\n", "wespeaker", ["line 1", "two ids, a score, and target"]),
        ("a b x target\n", "auto", ["line 1", "finite number", "'x'"]),
        ("left,right,same,left_label\na,b,1,x\n", "csv", ["left_label but no right_label"]),
        ("1 a b\n", "trec", ["'layout' parameter must be one of"]),
        ("", "auto", ["empty"]),
        ("\n\n", "auto", ["no trials"]),
    ],
)
def test_wrong_lists_are_refused(tmp_path: Path, text: str, layout: str, words: list[str]) -> None:
    with pytest.raises(truerank.InputError) as error:
        read_trials(write(tmp_path, text), layout)
    assert all(word in str(error.value) for word in words), str(error.value)


def test_a_list_of_lfw_whose_names_are_numbers(tmp_path: Path) -> None:
    """Its first line is a trial: that with the numbers of folds has no third."""
    path = tmp_path / "pairs.txt"
    path.write_text("17 1 2\n17 1 18 2\n")
    trials = read_trials(path, "lfw")
    assert trials.left == ["17_0001", "17_0001"]
    assert trials.same.tolist() == [True, False]
