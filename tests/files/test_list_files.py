"""Files of lists: the same lists in every format, TREC runs sorted by score, what is refused."""

from __future__ import annotations

import gzip
import struct
import sys
from itertools import chain
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

import truerank
from tests.refusals import refused
from truerank.io.lists import read_lists

LISTS = [[0, 3, 1], [2, 1, -1]]
SCORES = [[0.1, 0.2, 0.2], [0.0, 0.5, 9.0]]
LABELS, GALLERY = ["a", "b"], ["a", "a", "b", "b"]


def plain(value: Any) -> Any:
    return [list(row) for row in value]


def written(path: Path) -> Path:
    """The lists in the format of the ending, with scores where it can hold them."""
    kind = path.suffix
    if kind == ".npy":
        np.save(path, LISTS)
    elif kind == ".npz":
        np.savez(path, neighbors=LISTS, distances=SCORES)
    elif kind == ".parquet":
        parquet.write_table(pyarrow.table({"neighbors": LISTS, "scores": SCORES}), path)
    elif kind == ".ivecs":
        path.write_bytes(b"".join(struct.pack("<4i", 3, *row) for row in LISTS))
    elif kind == ".ibin":
        path.write_bytes(struct.pack("<II6i6f", 2, 3, *chain(*LISTS), *chain(*SCORES)))
    else:
        with h5py.File(path, "w") as file:
            file["neighbors"], file["distances"], file["times"] = LISTS, SCORES, [0.5, 0.5]
    return path


@pytest.mark.parametrize("ending", [".npy", ".npz", ".parquet", ".ivecs", ".ibin", ".hdf5", ".h5"])
def test_every_format_holds_the_same_lists(ending: str, tmp_path: Path) -> None:
    found = read_lists(written(tmp_path / f"x{ending}"))
    assert plain(found.neighbors) == LISTS
    has_scores = ending not in (".npy", ".ivecs")
    assert (found.scores is not None) == has_scores
    if has_scores:
        np.testing.assert_allclose(np.array(plain(found.scores)), SCORES, rtol=1e-6)
    result = truerank.evaluate_lists(tmp_path / f"x{ending}", LABELS, gallery_labels=GALLERY)
    expected = truerank.evaluate_lists(
        LISTS, LABELS, gallery_labels=GALLERY, scores=SCORES if has_scores else None
    )
    assert {name: score.to_dict() for name, score in result.items()} == {
        name: score.to_dict() for name, score in expected.items()
    }
    assert result.provenance["ties"]["queries"] == has_scores  # items 3 and 1 tie


def test_scores_of_a_file_can_be_ignored(tmp_path: Path) -> None:
    path = written(tmp_path / "x.npz")
    result = truerank.evaluate_lists(path, LABELS, gallery_labels=GALLERY, scores=False)
    assert result["map"].lower == result["map"].value
    assert result.provenance["ties"] == {"queries": 0, "groups": 0}


def test_parquet_names_queries_and_has_ragged_lists(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    table = pyarrow.table({"query": ["q2", "q1"], "items": [["g3"], ["g1", "g4", None]]})
    parquet.write_table(table, path)
    found = read_lists(path)
    assert (plain(found.neighbors), found.queries) == ([["g3"], ["g1", "g4", None]], ["q2", "q1"])
    result = truerank.evaluate_lists(
        path,
        LABELS,
        gallery_labels=GALLERY,
        query_ids=["q1", "q2"],
        gallery_ids=["g1", "g2", "g3", "g4"],
        metrics="precision@1",
    )
    assert result["precision@1"].value == 1.0
    assert result.provenance["lists"]["shortest"] == 1


def test_a_run_is_sorted_by_score_whatever_its_ranks_say(tmp_path: Path) -> None:
    path = tmp_path / "system.run"
    path.write_text(
        "q1 Q0 d1 1 0.5 tag\nq2 Q0 d9 1 1 tag\n\nq1 Q0 d2 2 7.5 tag\nq1 Q0 d3 9 -1 tag\n"
    )
    found = read_lists(path)
    assert found.queries == ["q1", "q2"]
    assert found.neighbors == [["d2", "d1", "d3"], ["d9"]]
    assert found.scores == [[7.5, 0.5, -1.0], [1.0]]
    assert found.by_id


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("x.run", "q1 Q0 d1 1 0.5\n", "line 1 must be 'query Q0 item rank score tag', or"),
        ("x.tsv", "q1\td1\t1\t0.5\n", "or 'query item rank' as in MS MARCO's runs"),
        ("x.run", "q1 Q0 d1 1 high tag\n", "line 1 has the score 'high'"),
        ("x.run", "q1 Q0 d1 1 nan tag\n", "line 1 has the score 'nan'"),
        ("x.run", "\n \n", "holds no list"),
        ("x.ivecs", "abcde", "is cut off: 5 bytes"),
        ("x.xyz", "0 1", "is not a format of lists that truerank reads"),
        ("x.hdf5", "no", "cannot be read as .hdf5"),
        ("x.parquet", "no", "cannot be read as .parquet"),
    ],
)
def test_what_is_wrong_with_a_file(name: str, content: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    with refused(sentence):
        read_lists(tmp_path / name)


def test_names_that_say_too_much_or_too_little(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, a=LISTS, b=LISTS)
    with refused("none of which is known to be lists"):
        read_lists(path)
    np.savez(path, neighbours=LISTS, neighbors=LISTS)
    with refused("holds both 'neighbours' and 'neighbors'; keep one"):
        read_lists(path)


def test_hdf5_needs_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "x.hdf5")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with refused("pip install h5py"):
        read_lists(path)
    with refused("pip install h5py"):
        truerank.evaluate(path, LABELS)


RUN = "one Q0 b 1 2.5 t\none Q0 a 2 7 t\ntwo Q0 c 1 1 t\n"


@pytest.mark.parametrize("name", ["system", "input.bm25", "x.v2.res", "x.run.gz", "x.gz", "x.tsv"])
def test_a_run_is_known_by_its_lines(name: str, tmp_path: Path) -> None:
    """Runs of TREC come with any ending, or none, and packed."""
    path = tmp_path / name
    path.write_bytes(gzip.compress(RUN.encode()) if name.endswith(".gz") else RUN.encode())
    found = read_lists(path)
    assert (found.neighbors, found.scores) == ([["a", "b"], ["c"]], [[7.0, 2.5], [1.0]])
    assert found.queries == ["one", "two"]


@pytest.mark.parametrize("name", ["run.dev.small.tsv", "run", "run.gz"])
def test_runs_of_ms_marco_go_by_rank(name: str, tmp_path: Path) -> None:
    text = b"7\t300\t2\n7\t100\t1\n9\t100\t1\n9\t300\t1\n"
    path = tmp_path / name
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    found = read_lists(path)
    assert found.neighbors == [["100", "300"], ["100", "300"]]
    judged = {"7": {"300": 1}, "9": {"300": 1}}
    score = truerank.evaluate_lists(path, relevance=judged, gallery_size=9, metrics="mrr")["mrr"]
    assert (score.lower, score.upper) == (0.5, 0.75)


def test_the_arrays_of_faiss(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", I=LISTS, D=SCORES)
    found = read_lists(tmp_path / "x.npz")
    assert (plain(found.neighbors), plain(found.scores)) == (LISTS, SCORES)


@pytest.mark.parametrize("text", ["inf", "-inf", "1e400", "nan", "x"])
def test_scores_of_a_run_are_finite(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.run").write_text(f"q Q0 a 1 2 t\nq Q0 b 2 {text} t\n")
    with refused(f"line 2 has the score '{text}'; expected a finite number"):
        read_lists(tmp_path / "x.run")
    if text != "x":
        with refused("in place 2 of query 0; every item that was returned needs a finite score"):
            truerank.evaluate_lists(
                [[0, 1]], ["a"], gallery_labels=["a", "b"], scores=[[2.0, float(text)]]
            )


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("notes", b"some words that are no run at all", "or a run: lines 'query Q0 item rank"),
        ("x.bin", bytes(range(256)), "is not a format of lists that truerank reads"),
        ("x.gz", b"\x1f\x8b no gzip", "is not a format of lists that truerank reads"),
        ("x.run", gzip.compress(RUN.encode(), mtime=0)[:-12], "it is no whole gzip file"),
        ("x.tsv", b"7\t300\t2\n7\t100\n", "line 2 must be 'query item rank'"),
    ],
)
def test_what_is_no_run(name: str, content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with refused(words):
        read_lists(tmp_path / name)
