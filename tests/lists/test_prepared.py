"""TREC runs against judgements: what truerank reads them as, and where trec_eval agrees."""

from __future__ import annotations

import random
import warnings
from pathlib import Path
from typing import Any

import pytest
import pytrec_eval

import truerank
from tests.refusals import refused

DEPTH = 20
AGREE = {
    "map@20": "map_cut_20",
    "precision@5": "P_5",
    "recall@10": "recall_10",
    "hit@10": "success_10",
    "ndcg@10,gain=linear": "ndcg_cut_10",
}


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, dict[str, Any], dict[str, Any]]:
    """A run without ties and graded judgements, as files and as pytrec_eval takes them."""
    draw = random.Random(5)
    documents = [f"d{number}" for number in range(60)]
    run: dict[str, Any] = {}
    judged: dict[str, Any] = {}
    for query in (f"q{number}" for number in range(12)):
        found = draw.sample(documents, DEPTH)
        run[query] = {name: float(draw.randrange(10**6)) for name in found}
        grades = [0, 0, 1, 1, 2]
        judged[query] = {name: draw.choice(grades) for name in draw.sample(documents, 25)}
        judged[query][found[3]] = 2
    lines = [
        f"{query} Q0 {name} 0 {score} tag"
        for query, row in run.items()
        for name, score in row.items()
    ]
    draw.shuffle(lines)
    (tmp_path / "x.run").write_text("\n".join(lines))
    (tmp_path / "x.qrels").write_text(
        "\n".join(
            f"{q} 0 {name} {grade}" for q, row in judged.items() for name, grade in row.items()
        )
    )
    return tmp_path / "x.run", tmp_path / "x.qrels", run, judged


def test_trec_eval_agrees_on_what_the_lists_settle(files: Any) -> None:
    """No ties, and cuts inside the lists: one number, the same one."""
    run, qrels, plain_run, judged = files
    result = truerank.evaluate_lists(
        run, relevance=qrels, gallery_size=1000, metrics=list(AGREE), confidence=None
    )
    measures = {name.rpartition("_")[0] + "." + name.rpartition("_")[2] for name in AGREE.values()}
    theirs = pytrec_eval.RelevanceEvaluator(judged, measures).evaluate(plain_run)
    for ours, name in AGREE.items():
        score = result[ours]
        assert score.lower == score.upper
        mean = sum(row[name] for row in theirs.values()) / len(theirs)
        assert score.value == pytest.approx(mean, abs=1e-6)  # its own numbers are float32


def test_without_a_cut_trec_eval_takes_what_is_missing_for_infinitely_far(files: Any) -> None:
    run, qrels, plain_run, judged = files
    measures = {"map", "recip_rank", "ndcg"}
    theirs = pytrec_eval.RelevanceEvaluator(judged, measures).evaluate(plain_run)
    their_map = sum(row["map"] for row in theirs.values()) / len(theirs)
    lower = []
    for size in (100, 10_000, 1_000_000):
        found = truerank.evaluate_lists(
            run, relevance=qrels, gallery_size=size, metrics=["map", "mrr"], confidence=None
        )
        lower.append(found["map"].lower)
        mean = sum(row["recip_rank"] for row in theirs.values()) / len(theirs)
        assert found["mrr"].value == pytest.approx(mean, abs=1e-6)  # every query finds something
    assert lower[0] > lower[1] > lower[2] > their_map - 1e-6
    assert lower[2] == pytest.approx(their_map, abs=1e-4)


def test_ties_of_a_run_are_ties_and_not_broken_by_name(tmp_path: Path) -> None:
    (tmp_path / "x.run").write_text("q Q0 a 1 1 t\nq Q0 b 2 1 t\n")
    (tmp_path / "x.qrels").write_text("q 0 a 1\nq 0 b 0\n")
    with pytest.warns(truerank.TruerankWarning, match="taken to be the 2 items"):
        score = truerank.evaluate_lists(
            tmp_path / "x.run", relevance=tmp_path / "x.qrels", metrics="map"
        )["map"]
    assert (score.lower, score.expected, score.upper) == (0.5, 0.75, 1.0)
    theirs = pytrec_eval.RelevanceEvaluator({"q": {"a": 1, "b": 0}}, {"map"})
    assert theirs.evaluate({"q": {"a": 1.0, "b": 1.0}})["q"]["map"] == 0.5  # the later name first


def test_names_of_queries_and_of_items_are_two_things(tmp_path: Path) -> None:
    """Query 1 finds document 1: no row is taken for itself."""
    (tmp_path / "x.run").write_text("1 Q0 1 1 2 t\n1 Q0 2 2 1 t\n")
    (tmp_path / "x.qrels").write_text("1 0 1 1\n")
    result = truerank.evaluate_lists(
        tmp_path / "x.run", relevance=tmp_path / "x.qrels", gallery_size=5, metrics="map"
    )
    assert result["map"].value == 1.0
    assert result.provenance["lists"]["taken_out"] == 0


def test_a_query_that_a_run_leaves_out_found_nothing(tmp_path: Path) -> None:
    (tmp_path / "x.run").write_text("q1 Q0 a 1 2 t\nstranger Q0 a 1 1 t\n")
    (tmp_path / "x.qrels").write_text("q1 0 a 1\nq2 0 a 1\n")
    options: dict[str, Any] = {"relevance": tmp_path / "x.qrels", "metrics": "mrr"}
    result = truerank.evaluate_lists(tmp_path / "x.run", gallery_size=10, **options)
    assert result["mrr"].n == 2
    assert result["mrr"].lower == (1 + 1 / 10) / 2
    assert result.provenance["no_mate"] == {"unjudged": 1}
    with pytest.warns(truerank.TruerankWarning, match="1 list of queries that are not evaluated"):
        truerank.evaluate_lists(
            tmp_path / "x.run", query_ids=["q1", "q2"], gallery_ids=["a", "b"], **options
        )


def test_labels_may_judge_a_run(tmp_path: Path) -> None:
    (tmp_path / "x.run").write_text("q2 Q0 g3 1 2 t\nq1 Q0 g1 1 2 t\nq1 Q0 g3 1 1 t\n")
    (tmp_path / "query.csv").write_text("label,id\na,q1\nb,q2\n")
    (tmp_path / "gallery.csv").write_text("label,id\na,g1\na,g2\nb,g3\n")
    result = truerank.evaluate_lists(
        tmp_path / "x.run",
        tmp_path / "query.csv",
        gallery_labels=tmp_path / "gallery.csv",
        metrics=["precision@1", "map"],
    )
    assert result["precision@1"].value == 1.0
    assert result["map"].lower == result["map"].upper  # one item is left: g2, in the last place


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"gallery_size": 1}, "must be an int >= 2, the items that are named"),
        ({"gallery_size": "many"}, "must be an int >= 2"),
        ({"query_ids": ["x"], "gallery_ids": ["b", "c"]}, "judges no pair"),
        ({"query_ids": ["q1"]}, "pass query_ids and gallery_ids, or lists that go by id"),
    ],
)
def test_what_is_refused(options: dict[str, Any], words: str, tmp_path: Path) -> None:
    (tmp_path / "x.run").write_text("q1 Q0 a 1 2 t\nq1 Q0 b 1 1 t\n")
    (tmp_path / "x.qrels").write_text("q1 0 a 1\n")
    with warnings.catch_warnings(), refused(words):
        warnings.simplefilter("ignore", truerank.TruerankWarning)
        truerank.evaluate_lists(tmp_path / "x.run", relevance=tmp_path / "x.qrels", **options)


def test_lists_that_name_queries_need_names_to_compare(tmp_path: Path) -> None:
    (tmp_path / "x.run").write_text("q1 Q0 a 1 2 t\n")
    with refused("the lists name their queries by id; pass query_ids"):
        truerank.evaluate_lists(tmp_path / "x.run", ["x"], gallery_labels=["x"], gallery_ids=["a"])
    with refused("the lists name none of the queries"):
        truerank.evaluate_lists(
            tmp_path / "x.run",
            ["x"],
            gallery_labels=["x"],
            query_ids=["other"],
            gallery_ids=["a"],
        )
