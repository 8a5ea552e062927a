"""Names that the field uses: read as the metric they mean, or answered by a short list."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import truerank
from truerank.core import metric as definitions
from truerank.core import registry
from truerank.core.registry import parse, parse_all, suggestions


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("R@1", "hit@1"),
        ("r1", "hit@1"),
        ("R@10", "hit@10"),
        ("rank1", "hit@1"),
        ("hr@10", "hit@10"),
        ("tpr@fpr=0.01", "tar@far=0.01"),
        ("TPR@FPR=1e-4", "tar@far=0.0001"),
        ("tmr@fmr=0.001", "tar@far=0.001"),
        ("tar @ fmr = 0.1", "tar@far=0.1"),
        ("gar@far=0.01", "tar@far=0.01"),
        ("threshold@fpr=0.01", "threshold@far=0.01"),
        ("tpir@fpir=0.01,rank=5", "dir@far=0.01,rank=5"),
        ("roc_auc", "auc"),
        ("minDCF@p=0.05", "min_dcf@p=0.05"),
        ("average_precision", "map"),
        ("fnmr@fmr=0.01", "fnmr@far=0.01"),
        ("FNMR@FMR=1e-3", "fnmr@far=0.001"),
        ("fnir@fpir=0.01", "fnir@far=0.01"),
        ("fnir@fpir=0.01,rank=20", "fnir@far=0.01,rank=20"),
        ("nDCG@10", "ndcg@10,gain=linear"),
        ("nDCG", "ndcg@gain=linear"),
        ("ndcg_cut_10", "ndcg@10,gain=linear"),
        ("ndcg_cut.10", "ndcg@10,gain=linear"),
        ("NDCG_at_10", "ndcg@10,gain=linear"),
        ("nDCG@10,gain=exponential", "ndcg@10"),
        ("ndcg_burges@10", "ndcg@10"),
        ("NDCG@10", "ndcg@10"),
        ("ndcg@10", "ndcg@10"),
    ],
)
def test_names_of_the_field(text: str, canonical: str) -> None:
    assert str(parse(text)) == canonical


def test_every_alias_means_a_metric() -> None:
    for alias, meant in registry._ALIASES.items():
        assert registry.find(alias).name == meant.partition("@")[0]
    for name, others in registry._NUMBERED_ALIASES.items():
        for alias in others:
            assert parse(f"{alias}@7") == parse(f"{name}@7")
    for name in definitions.names():
        for alias in registry.aliases(name):
            assert registry.find(alias).name == name
            assert registry.find(alias.replace("@k", "@7").replace("_k", "_7")).name == name


def test_what_is_suggested_exists() -> None:
    for meant in registry._MEANT.values():
        assert parse_all(meant)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hit@1,5,10", ["hit@1", "hit@5", "hit@10"]),
        ("R@1,5", ["hit@1", "hit@5"]),
        ("precision@1, 5", ["precision@1", "precision@5"]),
        ("map@r,10", ["map@r", "map@10"]),
        ("map@5,10,divisor=min", ["map@5,divisor=min", "map@10,divisor=min"]),
        ("tar@far=0.1,0.01", ["tar@far=0.1", "tar@far=0.01"]),
        ("tpr@fpr=0.1,0.01", ["tar@far=0.1", "tar@far=0.01"]),
        ("hit@1,level=1,2", ["hit@1,level=1", "hit@1,level=2"]),
        ("dir@far=0.1,rank=1,5", ["dir@far=0.1", "dir@far=0.1,rank=5"]),
        ("map@r,hit@1,5,mrr", ["map@r", "hit@1", "hit@5", "mrr"]),
        ("mrr@1,5,map", ["mrr@1", "mrr@5", "map"]),
        ("nDCG@5,10", ["ndcg@5,gain=linear", "ndcg@10,gain=linear"]),
        ("ndcg_cut_5,10,ndcg@5", ["ndcg@5,gain=linear", "ndcg@10,gain=linear", "ndcg@5"]),
        ("map@r, r_precision, rank1", ["map@r", "r_precision", "hit@1"]),
        (["hit@1,5", "hit@5,10"], ["hit@1", "hit@5", "hit@10"]),
    ],
)
def test_one_string_may_name_several(text: str, expected: list[str]) -> None:
    assert [str(metric) for metric in parse_all(text)] == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("minp@1,5", "takes no cut-off"),
        ("hit@1,five", "unknown metric 'five'"),
        ("hit@1,0", "int >= 1"),
        ("tar@0.1,0.01", "takes no cut-off"),
    ],
)
def test_lists_that_name_nothing(text: str, words: str) -> None:
    with pytest.raises(truerank.InputError, match=words):
        parse_all(text)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("accuracy", ["precision@1", "hit@5", "auc", "eer"]),
        ("top1_accuracy", ["precision@1", "hit@5", "auc", "eer"]),
        ("f1", ["best_f1", "pairwise_f1"]),
        ("f1_score", ["best_f1", "pairwise_f1"]),
        ("ari", ["nmi", "ami", "pairwise_f1"]),
        ("FRR", ["fnmr@far=0.01", "fnmr@tau=0.5", "eer"]),
        ("mapr", ["map@r"]),
        ("mapp", ["map"]),
        ("prescision", ["precision"]),
        ("qqqqqq", []),
    ],
)
def test_suggestions(name: str, expected: list[str]) -> None:
    assert suggestions(name, definitions.names()) == expected


def test_a_short_list_instead_of_a_wrong_guess() -> None:
    with pytest.raises(truerank.InputError) as caught:
        parse("f1@5")
    assert str(caught.value) == ("unknown metric 'f1@5'; did you mean 'best_f1' or 'pairwise_f1'?")
    with pytest.raises(truerank.InputError, match=r"did you mean 'dir@far=0.1'\?"):
        parse("dirr@far=0.1")


def test_r_at_1_is_hit_at_1_with_a_note() -> None:
    rows, labels = np.eye(4), [0, 0, 1, 1]
    with pytest.warns(truerank.TruerankWarning, match=r"R@1 is read as hit@1.*recall@k") as caught:
        result = truerank.evaluate(rows, labels, metrics=["R@1", "map"])
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert list(result) == ["hit@1", "map"]
    assert result["R@1"] is result["hit@1"]
    for several in ("map,R@1,R@2", ["R@1", "map", "R@2"]):
        with pytest.warns(truerank.TruerankWarning, match=r"^R@1, R@2 are read as hit@1, hit@2,"):
            truerank.evaluate(rows, labels, metrics=several)
    with pytest.warns(truerank.TruerankWarning, match=r"R@1,2 is read as hit@1, hit@2,"):
        truerank.evaluate(rows, labels, metrics="R@1,2")


def test_recall_with_a_capital_has_a_note() -> None:
    """Papers on metric learning, and tables here, write hit@k so; its value is that of recall@k."""
    rows, labels = np.eye(4), [0, 0, 1, 1]
    words = r"^Recall@2 is read as recall@2, .* papers mean hit@2 by Recall@k\.$"
    for asked in ("Recall@2", ["map", "Recall@2"]):
        with pytest.warns(truerank.TruerankWarning, match=words) as caught:
            result = truerank.evaluate(rows, labels, metrics=asked)
        assert len(caught) == 1
    assert list(result) == ["map", "recall@2"]
    with pytest.warns(truerank.TruerankWarning, match=r"Recall@1,2 is read as recall@1, recall@2"):
        truerank.evaluate(rows, labels, metrics="Recall@1,2")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        truerank.evaluate(rows, labels, metrics="recall@2,recall_2")
        truerank.evaluate_lists([[0], [1]], relevance=np.eye(2), metrics="Recall@2")


def test_with_judgements_ndcg_in_capitals_is_refused() -> None:
    """ir_measures registers NDCG for nDCG, whose gain is the grade; papers have 2^grade - 1."""
    judged = np.array([[1, 0, 2], [0, 1, 1]])
    for asked, words in (
        ("NDCG@10", "NDCG@10 has two readings .* Ask for ndcg@10 or ndcg@10,gain=linear"),
        (["map", "NDCG"], "NDCG has two readings .* Ask for ndcg or ndcg@gain=linear"),
    ):
        with pytest.raises(truerank.InputError, match=words):
            truerank.evaluate_lists([[0, 1], [1, 2]], relevance=judged, metrics=asked)
    asked = ["NDCG@10,gain=exponential", "ndcg", "nDCG", "NDCG_at_2"]
    scores = truerank.evaluate_lists([[0, 1], [1, 2]], relevance=judged, metrics=asked)
    assert list(scores) == ["ndcg@10", "ndcg", "ndcg@gain=linear", "ndcg@2,gain=linear"]
    assert list(truerank.evaluate(np.eye(4), [0, 0, 1, 1], metrics="NDCG@10")) == ["ndcg@10"]


def test_with_judgements_r_at_k_is_refused() -> None:
    """It is hit@k in metric learning and recall@k in ir_measures."""
    judged = np.array([[1, 0, 2], [0, 1, 1]])
    options = {"relevance": judged, "distance": "similarity"}
    for asked in ("R@2", "map,r@2", ["map", "R_2"], "R_at_2"):
        with pytest.raises(truerank.InputError, match=r"hit@2 or recall@2"):
            truerank.evaluate(np.eye(2, 3), metrics=asked, **options)
        with pytest.raises(truerank.InputError, match=r"hit@2 or recall@2"):
            truerank.evaluate_lists([[0, 1], [1, 2]], relevance=judged, metrics=asked)
    found = truerank.evaluate(np.eye(2, 3), metrics="hit@2,recall@2,Rprec,rr@2", **options)
    assert list(found) == ["hit@2", "recall@2", "r_precision", "mrr@2"]


GRADES = {"a": {"1": 3, "2": 1, "4": 2, "9": 1}, "b": {"3": 1, "5": 2}}
RANKED = {
    query: {str(item): 1.0 / (1 + place) for place, item in enumerate(items)}
    for query, items in {"a": [7, 2, 1, 8, 4, 6], "b": [5, 6, 3, 1, 2, 4]}.items()
}


def found_under(names: list[str], tmp_path: Path) -> list[float]:
    """What evaluate_lists gives for the run and the judgements, by other tools' names."""
    run, qrels = tmp_path / "x.run", tmp_path / "x.qrels"
    run.write_text(
        "".join(
            f"{query} Q0 {item} 1 {score} x\n"
            for query, items in RANKED.items()
            for item, score in items.items()
        )
    )
    qrels.write_text(
        "".join(
            f"{query} 0 {item} {grade}\n"
            for query, items in GRADES.items()
            for item, grade in items.items()
        )
    )
    result = truerank.evaluate_lists(
        run, relevance=qrels, gallery_size=1000, metrics=names, confidence=None
    )
    return [result[name].lower for name in names]


def test_names_of_trec_eval_have_its_values(tmp_path: Path) -> None:
    """.530 would be printed under nDCG@10 if its gain were that of ndcg@10."""
    pytrec_eval = pytest.importorskip("pytrec_eval")
    names = ["ndcg_cut_3", "ndcg_cut_10", "map_cut_3", "map_cut_10", "recall_3", "recall_10"]
    names += ["P_3", "P_10", "success_1", "success_3", "recip_rank", "Rprec"]
    asked = {re.sub(r"_(\d+)$", r".\1", name) for name in names}
    values = pytrec_eval.RelevanceEvaluator(GRADES, asked).evaluate(RANKED)
    mean = [sum(values[query][name] for query in values) / len(values) for name in names]
    assert found_under(names, tmp_path) == pytest.approx(mean, abs=1e-12)
    by_ir_measures = ["nDCG@3", "nDCG@10", "AP@3", "AP@10", "P@3", "RR", "Success@3"]
    same = [
        "ndcg_cut_3",
        "ndcg_cut_10",
        "map_cut_3",
        "map_cut_10",
        "P_3",
        "recip_rank",
        "success_3",
    ]
    assert found_under(by_ir_measures, tmp_path) == found_under(same, tmp_path)
    mteb = ["ndcg_at_10", "map_at_10", "recall_at_10", "precision_at_10"]
    assert found_under(mteb, tmp_path) == found_under(
        ["ndcg_cut_10", "map_cut_10", "recall_10", "P_10"], tmp_path
    )


def test_names_of_scikit_learn_and_torchmetrics_have_their_values() -> None:
    """One query without ties: sklearn's average_precision and roc_auc, torchmetrics' auroc."""
    metrics = pytest.importorskip("sklearn.metrics")
    scores, relevant = np.array([[9.0, 7, 6, 4, 3, 1]]), np.array([[0, 1, 1, 0, 1, 0]])
    names = ["average_precision", "roc_auc", "auroc", "nDCG@3"]
    found = truerank.evaluate(scores, relevance=relevant, distance="similarity", metrics=names)
    expected = [
        metrics.average_precision_score(relevant[0], scores[0]),
        *[metrics.roc_auc_score(relevant[0], scores[0])] * 2,
        metrics.ndcg_score(relevant, scores, k=3),
    ]
    assert [found[name].value for name in names] == pytest.approx(expected, abs=1e-12)


@pytest.mark.slow  # ranx compiles for most of a minute
def test_names_of_ranx_have_its_values(tmp_path: Path) -> None:
    ranx = pytest.importorskip("ranx")
    names = ["hit_rate@1", "hit_rate@3", "precision@3", "recall@3", "mrr@1", "mrr@3", "map@3"]
    names += ["r-precision", "ndcg_burges@3", "ndcg_burges@10"]
    values = ranx.evaluate(ranx.Qrels(GRADES), ranx.Run(RANKED), names)
    expected = [float(values[name]) for name in names]
    assert found_under(names, tmp_path) == pytest.approx(expected, abs=1e-12)


def test_scores_are_found_as_they_were_asked_for() -> None:
    rng = np.random.default_rng(0)
    labels = np.append(np.repeat(np.arange(40), 5), 100 + np.arange(60))
    rows = rng.normal(size=(160, 8))[labels] + rng.normal(size=(260, 8))
    names = ["fnmr@fmr=0.01", "fnir@fpir=0.1", "tmr@fmr=0.01", "tpir@fpir=0.1", "nDCG@10"]
    result = truerank.evaluate(rows, labels, metrics=[*names, "ndcg_cut_10", "MRR@10"])
    again = truerank.Result.from_dict(result.to_dict())
    for name in [*names, "ndcg_cut_10", "MRR@10"]:
        assert name in result
        assert name in again
        assert again[name] == result[name]
    assert result["nDCG@10"] is result["ndcg_cut_10"]
    assert result["MRR@10"] is result["mrr@10"]
    for error, share in (("fnmr@fmr=0.01", "tmr@fmr=0.01"), ("fnir@fpir=0.1", "tpir@fpir=0.1")):
        missed, found = result[error], result[share]
        assert missed.value == pytest.approx(1 - found.value, abs=1e-15)
        assert missed.chance is None or missed.chance == pytest.approx(1 - found.chance, abs=1e-15)
        low, high = found.interval
        assert missed.interval == pytest.approx((1 - high, 1 - low), abs=1e-12)
        assert missed.threshold == found.threshold
        assert (missed.attainable, found.attainable) in ((0.0, 1.0), (None, None))
