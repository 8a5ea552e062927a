"""Who is on each side of a trial, which intervals need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import truerank
from tests.cli.driving import run
from tests.refusals import assert_refused

PEOPLE = 20
RECORDINGS = [(f"s{person:02d}", number) for person in range(PEOPLE) for number in range(3)]


def pairs_of(pattern: str) -> list[tuple[str, str, bool]]:
    """Trials within and between people; ids by a pattern of the person and the recording."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(400):
        one, two = rng.choice(len(RECORDINGS), 2, replace=False)
        if rng.random() < 0.5:
            two = one + 1 if one % 3 < 2 else one - 1
        (left, first), (right, second) = RECORDINGS[one], RECORDINGS[two]
        found.append((pattern.format(left, first), pattern.format(right, second), left == right))
    return found


def scores() -> np.ndarray:
    same = np.array([s for _, _, s in pairs_of("{}/{}")])
    return np.random.default_rng(1).normal(size=len(same)) + 1.5 * same


def interval(pairs: Any, **options: Any) -> Any:
    return truerank.verify(scores(), pairs, "auc", **options)["auc"].interval


@pytest.fixture
def wanted() -> Any:
    """The interval of the people, who are called as nothing else is."""
    labels = {f"r{person}x{number}": f"the {person}" for person, number in RECORDINGS}
    found = interval(pairs_of("r{}x{}"), labels=labels)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "pattern", ["{}/{}.wav", "{}/video/{}.wav", "{}-{}", "{}-video/{}.wav", "{}/a-b/{}"]
)
def test_beginnings_of_ids(pattern: str, wanted: Any) -> None:
    assert interval(pairs_of(pattern)) == wanted


@pytest.mark.parametrize("pattern", ["{}_{}", "image-{}{}", "{}.{}/x", "/{}/{}"])
def test_beginnings_that_name_nobody(pattern: str) -> None:
    """No / or -, or a beginning that all share, or that no two recordings do."""
    result = truerank.verify(scores(), pairs_of(pattern), "auc")
    assert result["auc"].interval is None
    assert "names no people; pass labels" in result["auc"].interval_reason
    assert result.provenance["people"] is None


def test_one_id_without_a_beginning() -> None:
    pairs = pairs_of("{}/{}")
    pairs[7] = ("nobody", "else", pairs[7][2])
    assert interval(pairs) is None


@pytest.mark.parametrize("layout", ["voxceleb", "kaldi", "wespeaker", "csv"])
def test_no_layout_changes_an_interval(layout: str, wanted: Any, tmp_path: Path) -> None:
    path, lines = tmp_path / "trials.txt", []
    for (left, right, same), score in zip(pairs_of("{}/{}"), scores(), strict=True):
        word = "target" if same else "nontarget"
        lines.append({
            "voxceleb": f"{int(same)} {left} {right} {score!r}",
            "kaldi": f"{left} {right} {word} {score!r}",
            "wespeaker": f"{left} {right} {score!r} {word}",
            "csv": f"{left},{right},{int(same)},{score!r}",
        }[layout].replace("np.float64(", "").replace(")", ""))  # fmt: skip
    header = ["left,right,same,score"] if layout == "csv" else []
    path.write_text("\n".join([*header, *lines]) + "\n", encoding="utf-8")
    assert truerank.verify(None, path, "auc")["auc"].interval == wanted
    assert truerank.verify(path, metrics="auc")["auc"].interval == wanted


def test_columns_of_the_list(wanted: Any, tmp_path: Path) -> None:
    """They go before the ids' beginnings, and must agree with the trials."""
    path = tmp_path / "trials.csv"
    lines = ["left,right,left_label,right_label,same"]
    for (one, two, same), (left, right, _) in zip(pairs_of("{}"), pairs_of("x{}/{}"), strict=True):
        lines.append(f"{left},{right},{one},{two},{int(same)}")
    path.write_text("\n".join(lines), encoding="utf-8")
    assert interval(path) == wanted
    path.write_text("\n".join([*lines, "a,b,s01,s02,1"]), encoding="utf-8")
    more = np.append(scores(), 0.0)
    assert_refused(lambda: truerank.verify(more, path), ["trial 400 is of one person", "otherwise"])


def test_labels_of_ids(wanted: Any, tmp_path: Path) -> None:
    """A file, a dictionary, or ids with their labels; more than the trials need, in any order."""
    ids = [*(f"r{person}x{number}" for person, number in RECORDINGS[::-1]), "more"]
    labels = [*(person for person, _ in RECORDINGS[::-1]), "nobody"]
    pairs = pairs_of("r{}x{}")
    assert interval(pairs, ids=ids, labels=labels) == wanted
    path = tmp_path / "people.csv"
    lines = (f"{label},{name}\n" for name, label in zip(ids, labels, strict=True))
    path.write_text("label,id\n" + "".join(lines), encoding="utf-8")
    assert interval(pairs, labels=path) == wanted
    listed = tmp_path / "trials.txt"
    listed.write_text("".join(f"{int(s)} {a} {b}\n" for a, b, s in pairs), encoding="utf-8")
    np.save(tmp_path / "scores.npy", scores())
    out = tmp_path / "result.json"
    ran = run(
        "verify",
        tmp_path / "scores.npy",
        "--pairs",
        listed,
        "--labels",
        path,
        "-m",
        "auc",
        "-o",
        out,
    )
    assert ran.status == 0, ran.err
    assert truerank.Result.from_json(out)["auc"].interval == wanted


def test_labels_of_embeddings_go_by_id_too(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(PEOPLE, 4))[np.repeat(np.arange(PEOPLE), 3)]
    rows = (rows + rng.normal(size=rows.shape)).astype(np.float32)
    ids = [f"r{person}x{number}" for person, number in RECORDINGS]
    people = {name: person for name, (person, _) in zip(ids, RECORDINGS, strict=True)}
    pairs = pairs_of("r{}x{}")
    by_row = truerank.verify(rows, pairs, "auc", ids=ids, labels=list(people.values()))["auc"]
    by_id = truerank.verify(rows, pairs, "auc", ids=ids, labels=dict(sorted(people.items())[::-1]))
    assert by_row.interval is not None
    assert by_id["auc"] == by_row


def test_wrong_labels() -> None:
    pairs = pairs_of("r{}x{}")
    some = {f"r{person}x{number}": person for person, number in RECORDINGS[1:]}
    assert_refused(lambda: interval(pairs, labels=some), ["names 'rs00x0'", "not among the ids"])
    swapped = dict.fromkeys(some | {"rs00x0": ""}, "one person")
    assert_refused(lambda: interval(pairs, labels=swapped), ["is of two people", "say otherwise"])
    assert_refused(lambda: interval(pairs, labels=["a"] * 60), ["whose label is which"])
    ids = [f"r{person}x{number}" for person, number in RECORDINGS]
    assert_refused(lambda: interval(pairs, labels=["a"], ids=ids), ["per id (60)", "(1,)"])
