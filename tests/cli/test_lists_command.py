"""truerank lists: what the Python function gives, by files and options."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
import pytest

import truerank
from tests.cli.driving import run
from tests.files.samples import EMBEDDINGS, FAMILIES, GROUPS, IDS, LABELS, ROWS
from truerank.result.tables import Parts

ORDER = np.argsort(-(EMBEDDINGS @ EMBEDDINGS.T), axis=1, kind="stable")[:, :9]


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    path = tmp_path / "lists.ibin"
    path.write_bytes(np.array(ORDER.shape, "<u4").tobytes() + ORDER.astype("<i4").tobytes())
    return path


def test_the_table_is_that_of_the_function(lists: Path, data: Path) -> None:
    done = run("lists", lists, "--labels", data / "labels.csv", "--settle", 0.5)
    expected = truerank.evaluate_lists(ORDER, LABELS, settle=0.5)
    assert done.status == 0, done.err
    assert done.out == f"{expected}\n"
    assert "Smallest k for at most 50 % between score and upper" in done.out
    assert "What was not returned is last in score" in " ".join(done.out.split())


def test_levels_ids_and_cameras_of_a_file_count(lists: Path, data: Path, tmp_path: Path) -> None:
    """Two crops share an id, same-camera mates are junk; rows name items, since ids repeat."""
    written, rows = tmp_path / "result.json", tmp_path / "rows.csv"
    files = ("--labels", data / "all.csv", "--levels", "level1,label", "--named-by", "row")
    asked = ("-m", "map@r,h_ap", "--no-intervals", "--format", "csv")
    done = run("lists", lists, *files, *asked, "-o", written, "--per-query", rows)
    assert done.status == 0, done.err
    expected = truerank.evaluate_lists(
        ORDER,
        {"level1": FAMILIES, "label": LABELS},
        query_ids=IDS,
        query_groups=GROUPS.astype(str),
        named_by="row",
        metrics=["map@r", "h_ap"],
        confidence=None,
    )
    assert done.out == expected.to_csv()
    saved = json.loads(written.read_text())
    assert saved["scores"] == expected.to_dict()["scores"]
    assert saved["provenance"]["lists"] == expected.provenance["lists"]
    assert rows.read_text().count("\n") == ROWS + 1
    assert "item-3" in rows.read_text()


def test_a_gallery_of_its_own_and_scores(tmp_path: Path) -> None:
    np.save(tmp_path / "lists.npy", [[0, 1], [1, 2]])
    np.save(tmp_path / "scores.npy", [[2.0, 2.0], [2.0, 1.0]])
    (tmp_path / "query.csv").write_text("a\nb\n")
    (tmp_path / "gallery.csv").write_text("a\nb\nb\n")
    files = ("--labels", tmp_path / "query.csv", "--gallery-labels", tmp_path / "gallery.csv")
    with_scores = (*files, "--scores", tmp_path / "scores.npy", "--format", "json")
    done = run("lists", tmp_path / "lists.npy", *with_scores, "-m", "mrr")
    score = json.loads(done.out)["scores"]["mrr"]
    assert (score["lower"], score["expected"], score["upper"]) == (0.75, 0.875, 1.0)


def test_a_run_against_judgements(tmp_path: Path) -> None:
    (tmp_path / "x.run").write_text("q1 Q0 a 1 2 t\nq1 Q0 b 1 1 t\n")
    (tmp_path / "x.qrels").write_text("q1 0 b 1\nq1 0 c 3\n")
    files = (tmp_path / "x.run", "--relevance", tmp_path / "x.qrels", "--format", "csv")
    done = run("lists", *files, "-m", "map", "--gallery-size", 100)
    expected = truerank.evaluate_lists(
        tmp_path / "x.run", relevance=tmp_path / "x.qrels", metrics="map", gallery_size=100
    )
    assert done.out == expected.to_csv()
    np.save(tmp_path / "lists.npy", [[0, 1]])
    np.save(tmp_path / "judged.npy", [[0, 1, 3]])
    done = run("lists", tmp_path / "lists.npy", "--relevance", tmp_path / "judged.npy", "-m", "mrr")
    assert done.out.startswith("metric  score")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ((), "pass --labels FILE, or --relevance FILE in place of labels"),
        (("--labels", "y.csv", "--relevance", "y.csv"), "pass one of the two"),
        (("--labels", "y.csv", "--gallery-ids", "i.csv"), "came without --gallery-labels"),
        (
            ("--labels", "y.csv", "--scores", "y.csv", "--ignore-scores"),
            "--scores and --ignore-scores contradict each other",
        ),
        (("--labels", "y.csv", "-m", "auc"), "auc is no ranking metric"),
    ],
)
def test_what_is_refused(
    options: tuple[str, ...],
    sentence: str,
    lists: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("y.csv").write_text("\n".join(LABELS))
    Path("i.csv").write_text("\n".join(["id", *IDS]))
    done = run("lists", lists, *options)
    assert done.status == 2
    assert sentence in done.err
    assert done.err.count("\n") == 1


def test_what_an_index_loses(lists: Path, data: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "stored.npy", np.round(EMBEDDINGS))
    files = ("--embeddings", data / "embeddings.npy", "--stored", tmp_path / "stored.npy")
    asked = ("--labels", data / "labels.csv", "-m", "map@r,hit@2", "--distance", "dot", "-k", 3)
    written = tmp_path / "loss.json"
    done = run("lists", lists, *files, *asked, "-o", written)
    assert done.status == 0, done.err
    expected = truerank.index_loss(
        ORDER,
        LABELS,
        embeddings=EMBEDDINGS,
        stored=np.round(EMBEDDINGS),
        distance="dot",
        metrics=["map@r", "hit@2"],
        k=3,
    )
    assert done.out == f"{expected}\n"
    assert json.loads(written.read_text()) == json.loads(expected.to_json())
    for form, text in (("csv", expected.to_csv()), ("markdown", expected.to_markdown())):
        done = run("lists", lists, *files, *asked, "--format", form)
        assert done.out.rstrip("\n") == text.rstrip("\n")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--stored", "x.npy"), "--stored goes with --embeddings"),
        (("-k", "3"), "-k goes with --embeddings"),
        (("--embeddings", "x.npy", "--settle", "0.1"), "--settle goes with scores"),
        (("--embeddings", "x.npy", "--adjusted"), "--adjusted goes with scores"),
    ],
)
def test_options_of_the_loss_and_of_the_scores(
    options: tuple[str, ...], sentence: str, lists: Path, data: Path
) -> None:
    done = run("lists", lists, "--labels", data / "labels.csv", *options)
    assert done.status == 2
    assert sentence in done.err


def test_neighbour_recall_needs_no_labels(lists: Path, data: Path) -> None:
    done = run("lists", lists, "--embeddings", data / "embeddings.npy", "--distance", "dot")
    assert done.status == 0, done.err
    assert done.out == f"{truerank.index_loss(ORDER, embeddings=EMBEDDINGS, distance='dot')}\n"
    done = run("lists", lists, "--embeddings", data / "embeddings.npy", "-m", "map")
    assert done.status == 2
    assert "metrics need --labels FILE" in done.err


def test_exact_neighbors_need_no_labels(tmp_path: Path) -> None:
    """A file of ann-benchmarks: its own lists are all exact; others lack one item of three."""
    rows = np.random.default_rng(0).standard_normal((35, 4)).astype(np.float32)
    found = truerank.exact_neighbors(rows[:5], rows[5:], 4, distance="euclidean", threads=1)
    distances = np.sort(((rows[:5, None] - rows[None, 5:]) ** 2).sum(axis=2))[:, :4] ** 0.5
    with h5py.File(tmp_path / "e.hdf5", "w") as file:
        file["train"], file["test"] = rows[5:], rows[:5]
        file["neighbors"], file["distances"] = found.item, distances
    exact = ("--exact-neighbors", tmp_path / "e.hdf5")
    done = run("lists", tmp_path / "e.hdf5", *exact)
    assert done.status == 0, done.err
    assert done.out.splitlines() == [
        "5 queries, lists as returned.",
        "Lists of 4 places.",
        "neighbour_recall@4 against exact search: 100.00.",
    ]
    other = found.item.copy()
    other[:, 1] = [(set(range(30)) - set(row)).pop() for row in found.item.tolist()]
    np.save(tmp_path / "other.npy", other)
    done = run("lists", tmp_path / "other.npy", *exact, "-k", 2, "--format", "json")
    assert done.status == 0, done.err
    results = [
        truerank.evaluate_lists(lists, exact_neighbors=found, k=2)
        for lists in (other, [list(row) for row in other], other.tolist())
    ]
    for facts in (json.loads(done.out)["provenance"], *(one.provenance for one in results)):
        recall = facts["lists"]["neighbour_recall"]
        assert (recall["k"], recall["value"]) == (2, 0.5)
    assert truerank.Result.from_dict(json.loads(done.out)).provenance["queries"] == 5
    refused = run("lists", tmp_path / "other.npy", *exact, "-m", "map")
    assert "metrics need --labels FILE" in refused.complaint()
    with pytest.raises(truerank.InputError, match="labels are missing"):
        truerank.evaluate_lists(other, exact_neighbors=found, metrics="map")


def test_parts_units_and_a_page(lists: Path, data: Path, tmp_path: Path) -> None:
    files = (lists, "--labels", data / "labels.csv", "-m", "map@r")
    page = tmp_path / "page.html"
    done = run("lists", *files, "--by", "label", "--worst", 2, "--report", page)
    assert done.status == 0, done.err
    parts = Parts.of_result(truerank.evaluate_lists(ORDER, LABELS, metrics="map@r"), "label", 2)
    assert done.out.rstrip().endswith(parts.to_text().rstrip())
    assert "<html" in page.read_text()
    for refusal, sentence in (
        (("--worst", 2), "needs --by; pass --by"),
        (("--units", "classes"), "Invalid value for '--units'"),
        (("--exact-neighbors", lists, "--embeddings", lists), "--exact-neighbors goes with scores"),
        (("--by", "label", "--embeddings", lists), "--by goes with scores"),
        (("-k", 2), "-k goes with --embeddings, the queries' full vectors, or --exact-neighbors"),
    ):
        done = run("lists", *files, *refusal)
        assert done.status == 2
        assert sentence in done.err


def test_finer_units_reach_scores_and_losses(tmp_path: Path) -> None:
    """Three families of classes: only finer units give ndcg an interval."""
    draw = np.random.default_rng(5)
    fine = np.repeat(np.arange(36), 3)
    rows = draw.standard_normal((36, 4))[fine] + draw.standard_normal((108, 4))
    np.save(tmp_path / "rows.npy", rows)
    order = np.argsort(-(rows @ rows.T) + draw.random((108, 108)), axis=1)[:, :30]
    np.save(tmp_path / "lists.npy", order)
    text = "\n".join(f"{one // 12},{one}" for one in fine)
    (tmp_path / "labels.csv").write_text(f"level1,level2\n{text}\n")
    files = (tmp_path / "lists.npy", "--labels", tmp_path / "labels.csv", "-m", "ndcg")
    vectors = ("--embeddings", tmp_path / "rows.npy", "--distance", "dot")
    for more in ((), vectors):
        few, finer = (run("lists", *files, *more, *units) for units in ((), ("--units", "finer")))
        assert "3 classes of level 1" in few.out
        assert "3 classes of level 1" not in finer.out
        assert finer.status == 0, finer.err
    done = run("lists", *files, *vectors, "--units", "finer", "--format", "json")
    assert json.loads(done.out)["losses"]["ndcg"]["search"]["intervals"]["lower"] is not None


def test_exact_neighbours_of_a_file(tmp_path: Path) -> None:
    draw = np.random.default_rng(6)
    rows, gallery = draw.standard_normal((40, 4)), draw.standard_normal((60, 4))
    np.save(tmp_path / "q.npy", rows)
    np.save(tmp_path / "g.npy", gallery)
    sides = ("neighbors", tmp_path / "q.npy", "--all", "--gallery", tmp_path / "g.npy")
    done = run(*sides, "-k", 8, "-o", tmp_path / "t.ibin")
    assert done.status == 0, done.err
    unit = [side / np.linalg.norm(side, axis=1)[:, None] for side in (rows, gallery)]
    exact = np.argsort(-(unit[0] @ unit[1].T), axis=1)
    lists = exact[:, [0, 9, 2, 1, 20]]
    np.save(tmp_path / "lists.npy", lists)
    (tmp_path / "q.csv").write_text("label\n" + "\n".join(map(str, range(40))))
    (tmp_path / "g.csv").write_text("label\n" + "\n".join(str(one % 40) for one in range(60)))
    files = ("--labels", tmp_path / "q.csv", "--gallery-labels", tmp_path / "g.csv", "-m", "mrr")
    asked = ("--exact-neighbors", tmp_path / "t.ibin", "-k", 3)
    done = run("lists", tmp_path / "lists.npy", *files, *asked)
    assert done.status == 0, done.err
    assert "neighbour_recall@3 against exact search: 66.67" in done.out
    written = tmp_path / "result.json"
    done = run("lists", tmp_path / "lists.npy", *files, *asked[:2], "-o", written)
    recall = json.loads(written.read_text())["provenance"]["lists"]["neighbour_recall"]
    assert (recall["k"], recall["value"]) == (5, 0.6)


def test_two_runs_are_compared_on_the_command_line(tmp_path: Path) -> None:
    """Other items, in another order of queries, and one query less."""
    queries = [f"q{number}" for number in range(35)]
    for name, order in (("a", queries), ("b", queries[:0:-1])):
        lines = [f"{q} Q0 {name}-{q} 1 2 t\n{q} Q0 d-{q} 2 {ord(name)} t" for q in order]
        (tmp_path / f"{name}.run").write_text("\n".join(lines))
    (tmp_path / "x.qrels").write_text("\n".join(f"{q} 0 d-{q} 1" for q in queries))
    results = []
    for name in "ab":
        results.append(tmp_path / f"{name}.json")
        judged = ("--relevance", tmp_path / "x.qrels", "-m", "mrr", "-o", results[-1])
        assert run("lists", tmp_path / f"{name}.run", *judged).status == 0
    done = run("compare", *results, "--format", "json")
    assert done.status == 0, done.err
    assert json.loads(done.out)["differences"][0]["value"] == pytest.approx(1 - 34 / 35)
    page = tmp_path / "page.html"
    assert run("report", *results, "-o", page).status == 0
