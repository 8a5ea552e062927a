"""TREC runs against judgements: what truerank reads them as, and where trec_eval agrees."""

from __future__ import annotations

import gzip
import math
import random
import tracemalloc
import warnings
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
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
    with pytest.warns(truerank.TruerankWarning, match="the size of the gallery is unknown"):
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
    with pytest.warns(truerank.TruerankWarning, match="1 list of queries that are not evaluated"):
        result = truerank.evaluate_lists(tmp_path / "x.run", gallery_size=10, **options)
    assert result["mrr"].n == 2
    assert result["mrr"].lower == (1 + 1 / 10) / 2
    assert result.provenance["no_mate"] == {}
    assert result.queries()["id"] == ["q1", "q2"]
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
        ({"gallery_size": 1}, "must be an int from 2, the items that are named, to 2^40 - 1"),
        ({"gallery_size": 10**19}, "to 2^40 - 1"),
        ({"gallery_size": "many"}, "must be an int from 2"),
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


def judged_by(source: random.Random, folder: Path, *, ties: bool) -> tuple[Path, Path, Any, Any]:
    """A random run and random judgements, some of grade 0 and some of queries without one."""
    documents = [f"d{number}" for number in range(source.randint(3, 30))]
    run: dict[str, dict[str, float]] = {}
    judged: dict[str, dict[str, int]] = {}
    for query in (f"q{number}" for number in range(source.randint(1, 5))):
        found = source.sample(documents, source.randint(1, len(documents)))
        scores = [float(source.randint(0, 4)) for _ in found]
        if not ties:
            scores = [float(one) for one in source.sample(range(10**6), len(found))]
        run[query] = dict(zip(found, scores, strict=True))
        grades = source.choice(([0, 1], [1], [0, 0, 0, 1, 2], [-1, 0, 1]))
        known = source.sample(documents, source.randint(1, len(documents)))
        judged[query] = {name: source.choice(grades) for name in known}
        judged[query][source.choice(documents)] = 1
    lines = [f"{q} Q0 {d} 0 {s} t" for q, row in run.items() for d, s in row.items()]
    (folder / "r.run").write_text("\n".join(lines))
    lines = [f"{q} 0 {d} {g}" for q, row in judged.items() for d, g in row.items()]
    (folder / "r.qrels").write_text("\n".join(lines))
    return folder / "r.run", folder / "r.qrels", run, judged


@pytest.mark.parametrize("ties", [False, True])
def test_bpref_of_qrels_is_that_of_trec_eval(ties: bool, tmp_path: Path) -> None:
    """Unjudged items count for nothing; what was not returned is worth nothing."""
    source = random.Random(18)
    for _ in range(60):
        run, qrels, plain_run, judged = judged_by(source, tmp_path, ties=ties)
        result = truerank.evaluate_lists(
            run, relevance=qrels, gallery_size=1000, metrics="bpref", confidence=None
        )["bpref"]
        theirs = pytrec_eval.RelevanceEvaluator(judged, {"bpref"}).evaluate(plain_run)
        assert result.per_query is not None
        rows = zip(result.per_query.lower, result.per_query.upper, theirs.values(), strict=True)
        for lower, upper, row in rows:
            assert lower - 1e-6 <= row["bpref"] <= upper + 1e-6
            if not ties:
                assert lower == pytest.approx(row["bpref"], abs=1e-6)


def test_an_unjudged_item_before_a_relevant_one_costs_bpref_nothing(tmp_path: Path) -> None:
    (tmp_path / "x.run").write_text("q Q0 u 1 3 t\nq Q0 r 2 2 t\nq Q0 n 3 1 t\n")
    (tmp_path / "x.qrels").write_text("q 0 r 1\nq 0 n 0\n")
    options: dict[str, Any] = {"relevance": tmp_path / "x.qrels", "gallery_size": 3}
    score = truerank.evaluate_lists(tmp_path / "x.run", metrics="bpref", **options)["bpref"]
    assert (score.lower, score.expected, score.upper) == (1.0, 1.0, 1.0)


def test_embeddings_are_judged_as_their_run_is(tmp_path: Path) -> None:
    """The full ranking by embeddings and the run of it have one bpref, with judgements of a file
    as well as with those of a mapping; an array says nothing of what was not judged."""
    draw = np.random.default_rng(3)
    queries, gallery = draw.integers(0, 4, (6, 2)), draw.integers(0, 4, (15, 2))
    judged = {
        f"q{q}": {f"d{d}": int(draw.integers(0, 3)) for d in draw.permutation(15)[:9]}
        for q in range(6)
    }
    text = [f"{q} 0 {d} {g}" for q, row in judged.items() for d, g in row.items()]
    (tmp_path / "x.qrels").write_text("\n".join(text))
    ids = {"query_ids": list(judged), "gallery_ids": [f"d{d}" for d in range(15)]}
    squares = ((queries[:, None] - gallery[None]) ** 2).sum(axis=2)
    run = {f"q{q}": {f"d{d}": -int(squares[q, d]) for d in range(15)} for q in range(6)}
    lines = [f"{q} Q0 {d} 0 {s} t" for q, row in run.items() for d, s in row.items()]
    (tmp_path / "x.run").write_text("\n".join(lines))
    options: dict[str, Any] = {"metrics": ["bpref", "map"], "confidence": None}
    listed = truerank.evaluate_lists(
        tmp_path / "x.run", relevance=tmp_path / "x.qrels", gallery_size=15, **options
    )
    for relevance in (tmp_path / "x.qrels", judged):
        ranked = truerank.evaluate(
            queries, gallery=gallery, relevance=relevance, distance="euclidean", **ids, **options
        )
        for name in ("bpref", "map"):
            assert ranked[name].per_query is not None
            for end in ("lower", "expected", "upper"):
                ours = getattr(ranked[name].per_query, end)
                assert ours.tolist() == getattr(listed[name].per_query, end).tolist()
    worth = np.array([[judged[f"q{q}"].get(f"d{d}", 0) for d in range(15)] for q in range(6)])
    whole = truerank.evaluate(
        queries, gallery=gallery, relevance=worth, distance="euclidean", **ids, **options
    )
    assert whole["map"].value == ranked["map"].value
    assert whole["bpref"].value < ranked["bpref"].value


def test_without_a_size_trec_eval_agrees_on_everything(tmp_path: Path) -> None:
    """Nobody knows how many items there are: what was not returned earns nothing, as there."""
    source = random.Random(19)
    names = {
        "map": "map",
        "mrr": "recip_rank",
        "ndcg@gain=linear": "ndcg",
        "ndcg@5,gain=linear": "ndcg_cut_5",
        "recall@5": "recall_5",
        "precision@5": "P_5",
        "r_precision": "Rprec",
        "bpref": "bpref",
    }
    measures = {"map", "recip_rank", "ndcg", "ndcg_cut.5", "recall.5", "P.5", "Rprec", "bpref"}
    for _ in range(40):
        run, qrels, plain_run, judged = judged_by(source, tmp_path, ties=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", truerank.TruerankWarning)
            result = truerank.evaluate_lists(
                run, relevance=qrels, metrics=[*names, "minp", "h_ap"], confidence=None
            )
        theirs = pytrec_eval.RelevanceEvaluator(judged, measures).evaluate(plain_run)
        for ours, name in names.items():
            rows = result[ours].per_query
            assert rows is not None
            assert rows.lower.tolist() == pytest.approx(
                [row[name] for row in theirs.values()], abs=1e-6
            )
        for row, score in result.items():
            assert score.lower <= score.expected <= score.upper, row
        for query, row in judged.items():
            relevant = {name for name, grade in row.items() if grade > 0}
            if not relevant & set(plain_run[query]):
                at = result.queries()["id"].index(query)
                worth = [score.per_query.lower[at] for score in result.values()]  # type: ignore[union-attr]
                assert worth == [0.0] * len(worth)


def harmonic(n: int) -> Fraction:
    """H(n) by its asymptotic series, to 30 digits from n = 10^6 on."""
    with localcontext() as context:
        context.prec = 60
        x = Decimal(n)
        gamma = Decimal("0.577215664901532860606512090082402431042159335939923598805767")
        return Fraction(x.ln() + gamma + 1 / (2 * x) - 1 / (12 * x**2) + 1 / (120 * x**4))


@pytest.mark.parametrize("size", [2**21 + 3, 8_841_823, 10**9, 2**39])
def test_a_large_gallery_is_a_number(size: int, tmp_path: Path) -> None:
    """Time and memory do not grow with it; closed forms by hand, and sums by Euler's series."""
    (tmp_path / "x.run").write_text("one Q0 a 1 2 t\ntwo Q0 a 1 1 t\n")
    (tmp_path / "x.qrels").write_text("one 0 b 1\ntwo 0 b 1\ntwo 0 c 1\n")
    tracemalloc.start()
    result = truerank.evaluate_lists(
        tmp_path / "x.run",
        relevance=tmp_path / "x.qrels",
        gallery_size=size,
        metrics=["map", "mrr", "minp", "ndcg", "bpref", "h_ap", "hit@10", "asi"],
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 28
    t = size - 1  # items that were not returned, behind one that was
    sums = harmonic(size) - 1
    first = Fraction(2, t * (t - 1)) * ((t + 1) * sums - t)
    last = Fraction(2, t * (t - 1)) * (t - 2 * sums)
    expected = {
        "map": [sums / t, (first + 2 * last) / 2],
        "mrr": [sums / t, first],
        "minp": [sums / t, 2 * last],
    }
    for name, values in expected.items():
        rows = result[name].per_query
        assert rows is not None
        assert rows.expected.tolist() == pytest.approx([float(v) for v in values], rel=1e-14, abs=0)
    ndcg = result["ndcg"].per_query
    assert ndcg is not None
    assert ndcg.lower[0] == pytest.approx(math.log(2) / math.log(size + 1), rel=1e-14)
    both = 1 / math.log2(size) + 1 / math.log2(size + 1)
    assert ndcg.lower[1] == pytest.approx(both / (1 + 1 / math.log2(3)), rel=1e-14)
    if size < 10**7:
        total = math.fsum((1 / np.log2(np.arange(3, size + 2))).tolist())
        assert ndcg.expected[0] == pytest.approx(total / t, rel=1e-13)


def systems(folder: Path, seed: int = 4) -> tuple[Path, Path, Path, Any, list[Any]]:
    """Two systems' runs, which name different items in different orders, and their judgements."""
    source = random.Random(seed)
    documents = [f"d{number}" for number in range(200)]
    judged = {
        f"q{q}": {d: source.choice([0, 0, 1, 2]) for d in source.sample(documents, 30)}
        for q in range(40)
    }
    for row in judged.values():
        row["d0"] = 1
    qrels = folder / "x.qrels"
    qrels.write_text(
        "\n".join(f"{q} 0 {d} {g}" for q, row in judged.items() for d, g in row.items())
    )
    runs: list[Any] = []
    for name, kept in (("a", 40), ("b", 25)):
        queries = [*source.sample(list(judged), 38), f"unjudged-{name}"]
        run = {
            q: {
                d: float(score)
                for d, score in zip(
                    source.sample([*documents, f"{name}1", f"{name}2"], kept),
                    source.sample(range(1000), kept),
                    strict=True,
                )
            }
            for q in queries
        }
        runs.append(run)
        lines = [f"{q} Q0 {d} 0 {s} {name}" for q, row in run.items() for d, s in row.items()]
        (folder / f"{name}.run").write_text("\n".join(lines))
    return folder / "a.run", folder / "b.run", qrels, judged, runs


def test_two_runs_of_one_qrels_are_compared_whatever_they_name(tmp_path: Path) -> None:
    """trec_eval's means (with 0 for a query without a list) and numpy's paired spread."""
    *paths, qrels, judged, runs = systems(tmp_path)
    metrics = ["map", "ndcg@gain=linear", "mrr", "precision@5"]
    names = ["map", "ndcg", "recip_rank", "P_5"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", truerank.TruerankWarning)
        results = [
            truerank.evaluate_lists(path, relevance=qrels, metrics=metrics) for path in paths
        ]
    evaluator = pytrec_eval.RelevanceEvaluator(judged, {"map", "ndcg", "recip_rank", "P.5"})
    theirs = [evaluator.evaluate(run) for run in runs]
    compared = truerank.compare(*results, names=["a", "b"])
    for name, their in zip(metrics, names, strict=True):
        values = np.array(
            [[found[q][their] if q in found else 0.0 for q in judged] for found in theirs]
        )
        (row,) = [row for row in compared.differences if row.metric == name]
        assert row.value == pytest.approx(float((values[0] - values[1]).mean()), abs=1e-6)
        spread = (values[0] - values[1]).std(ddof=1) / math.sqrt(len(judged))
        assert row.interval is not None
        half = (row.interval[1] - row.interval[0]) / 2
        assert half == pytest.approx(2.02 * spread, rel=0.1)
    assert "paired queries" in compared.method


def test_lines_of_qrels_in_another_order_are_the_same_task(tmp_path: Path) -> None:
    first, second, qrels, _, _ = systems(tmp_path)
    other = tmp_path / "other.qrels"
    lines = qrels.read_text().splitlines()
    random.Random(1).shuffle(lines)
    other.write_text("\n".join(lines))
    options: dict[str, Any] = {"metrics": "map", "gallery_size": 500}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", truerank.TruerankWarning)
        one = truerank.evaluate_lists(first, relevance=qrels, **options)
        two, again = (
            truerank.evaluate_lists(second, relevance=judgements, **options)
            for judgements in (qrels, other)
        )
    found = [truerank.compare(one, result).differences[0] for result in (two, again)]
    assert found[0].interval == pytest.approx(found[1].interval, rel=1e-12)
    other.write_text("\n".join([*lines[:-1], lines[-1].rsplit(" ", 1)[0] + " 7"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", truerank.TruerankWarning)
        changed = truerank.evaluate_lists(second, relevance=other, **options)
        larger = truerank.evaluate_lists(second, relevance=qrels, metrics="map", gallery_size=501)
        unsized = truerank.evaluate_lists(second, relevance=qrels, metrics="map")
    with refused("of different tasks of the same size: judgements, ids"):
        truerank.compare(one, changed)
    with refused("500 and 501 gallery items"):
        truerank.compare(one, larger)
    with pytest.warns(truerank.TruerankWarning, match="a was evaluated with gallery_size and b wi"):
        compared = truerank.compare(one, unsized, names=["a", "b"])
    assert compared.differences[0].p is not None


@pytest.mark.parametrize("kind", [str, int])
def test_dictionaries_give_the_bits_of_the_files(kind: Any, tmp_path: Path) -> None:
    source = random.Random(11)
    names = list(range(100, 140))
    run = {
        kind(q): {kind(d): source.randint(0, 9) for d in source.sample(names, 20)} for q in range(9)
    }
    judged = {
        kind(q): {kind(d): source.randint(0, 3) for d in source.sample(names, 15)} for q in range(9)
    }
    lines = [f"{q} Q0 {d} 0 {s} t" for q, row in run.items() for d, s in row.items()]
    (tmp_path / "x.run").write_text("\n".join(lines))
    lines = [f"{q} 0 {d} {g}" for q, row in judged.items() for d, g in row.items()]
    (tmp_path / "x.qrels").write_text("\n".join(lines))
    options: dict[str, Any] = {"gallery_size": 1000, "metrics": ["map", "ndcg", "bpref", "mrr"]}
    filed = truerank.evaluate_lists(tmp_path / "x.run", relevance=tmp_path / "x.qrels", **options)
    for neighbors, relevance in (
        (run, judged),
        (tmp_path / "x.run", judged),
        (run, tmp_path / "x.qrels"),
    ):
        plain = truerank.evaluate_lists(neighbors, relevance=relevance, **options)
        mine, other = plain.to_dict(), filed.to_dict()
        for data in (mine, other):
            data["provenance"].pop("seconds")
        assert mine == other


@pytest.mark.parametrize(
    ("run", "judged", "words"),
    [
        ({"q": {"a": float("inf")}}, {"q": {"a": 1}}, "neighbors['q']['a'] is inf"),
        ({"q": {"a": "x"}}, {"q": {"a": 1}}, "expected a finite number"),
        ({"q": ["a"]}, {"q": {"a": 1}}, "must map each query to {item: score}"),
        ({}, {"q": {"a": 1}}, "neighbors hold no list"),
        ({"q": {"a": 1}}, {"q": ["a"]}, "must map each query to {item: grade}"),
        ({"q": {"a": 1}}, {"q": {"a": 0.5}}, "expected a whole number"),
        ({"q": {"a": 1}}, {}, "holds no judgement"),
        ({1: {"a": 1}, "1": {"a": 1}}, {"1": {"a": 1}}, "name query '1' twice"),
        ({"q": {"a": 1}}, {"q": {1: 1, "1": 2}}, "judges item '1' of query 'q' twice"),
        (
            [[0]],
            {"q": {"a": 1}},
            "or lists that go by id too: a TREC run or {query: {item: score}}",
        ),
    ],
)
def test_dictionaries_that_are_refused(run: Any, judged: Any, words: str) -> None:
    with refused(words):
        truerank.evaluate_lists(run, relevance=judged, gallery_size=10)


def test_a_pair_judged_twice_names_both_lines(tmp_path: Path) -> None:
    (tmp_path / "x.run").write_text("q Q0 a 1 2 t\n")
    (tmp_path / "x.qrels").write_text("q 0 a 1\nq 0 b 0\nq 0 b 0\nq 0 a 0\n")
    options: dict[str, Any] = {"relevance": tmp_path / "x.qrels", "gallery_size": 5}
    with refused("judges item 'a' of query 'q' twice: grade 1 in line 1, 0 in line 4"):
        truerank.evaluate_lists(tmp_path / "x.run", **options)


def test_qrels_of_other_collections_are_read(tmp_path: Path) -> None:
    (tmp_path / "x.run").write_text("q Q0 a 1 2 t\nq Q0 b 2 1 t\n")
    trec = "q 0 b 2\nq 0 c 0\n"
    texts = {
        "trec.qrels": trec,
        "points.qrels": "q 0 b 2.0\nq 0 c 0.0\n",
        "beir.tsv": "query-id\tcorpus-id\tscore\nq\tb\t2\nq\tc\t0\n",
        "none": trec.replace(" ", "\t"),
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    with gzip.open(tmp_path / "x.qrels.gz", "wt") as file:
        file.write(trec)
    scores = {
        name: truerank.evaluate_lists(
            tmp_path / "x.run", relevance=tmp_path / name, gallery_size=9, metrics=["ndcg", "bpref"]
        )["ndcg"].expected
        for name in [*texts, "x.qrels.gz"]
    }
    assert len(set(scores.values())) == 1
    (tmp_path / "bad.tsv").write_text("query-id\tcorpus-id\tscore\nq\tb\n")
    with refused("bad.tsv line 2 must be 'query-id corpus-id score'"):
        truerank.evaluate_lists(tmp_path / "x.run", relevance=tmp_path / "bad.tsv")
    (tmp_path / "half.qrels").write_text("q 0 b 0.5\n")
    with refused("half.qrels line 1 has the grade '0.5'; expected a whole number"):
        truerank.evaluate_lists(tmp_path / "x.run", relevance=tmp_path / "half.qrels")


def test_a_loss_of_bpref_is_that_of_judged_items() -> None:
    """Of lists of the whole gallery nothing is lost; cut, what trec_eval says of the cut run."""
    draw = np.random.default_rng(7)
    queries, gallery = draw.standard_normal((8, 3)), draw.standard_normal((30, 3))
    judged = {
        f"q{q}": {f"d{d}": int(draw.integers(0, 2)) for d in draw.permutation(30)[:14]}
        for q in range(8)
    }
    squares = ((queries[:, None] - gallery[None]) ** 2).sum(axis=2)
    order = np.argsort(squares, axis=1)
    run = {f"q{q}": {f"d{d}": -float(squares[q, d]) for d in order[q, :9]} for q in range(8)}
    evaluator = pytrec_eval.RelevanceEvaluator(judged, {"bpref"})
    cut = np.mean([row["bpref"] for row in evaluator.evaluate(run).values()])
    loss = truerank.index_loss(
        order[:, :9],
        embeddings=queries,
        gallery=gallery,
        relevance=judged,
        query_ids=list(judged),
        gallery_ids=[f"d{d}" for d in range(30)],
        named_by="row",
        distance="euclidean",
        metrics="bpref",
        confidence=None,
    )["bpref"]
    assert loss.at_k.value == pytest.approx(float(cut), abs=1e-6)
    assert loss.returned.value == loss.at_k.value
    assert float(loss.search) == 0.0
