"""Names that the field uses: read as the metric they mean, or answered by a short list."""

from __future__ import annotations

import numpy as np
import pytest

import truerank
from truerank.core import aliases, registry
from truerank.core.aliases import suggestions
from truerank.core.registry import parse, parse_all


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
    ],
)
def test_names_of_the_field(text: str, canonical: str) -> None:
    assert str(parse(text)) == canonical


def test_every_alias_means_a_metric() -> None:
    for alias, meant in aliases._ALIASES.items():
        assert registry.find(alias).name == meant.partition("@")[0]
    for name, others in aliases._NUMBERED_ALIASES.items():
        for alias in others:
            assert parse(f"{alias}@7") == parse(f"{name}@7")


def test_what_is_suggested_exists() -> None:
    for meant in aliases._MEANT.values():
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
        ("map@r, r_precision, rank1", ["map@r", "r_precision", "hit@1"]),
        (["hit@1,5", "hit@5,10"], ["hit@1", "hit@5", "hit@10"]),
    ],
)
def test_one_string_may_name_several(text: str, expected: list[str]) -> None:
    assert [str(metric) for metric in parse_all(text)] == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mrr@1,5", "takes no cut-off"),
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
        ("FRR", ["fnmr@tau=0.5", "tar@far=0.01", "eer"]),
        ("mapp", ["map"]),
        ("prescision", ["precision"]),
        ("qqqqqq", []),
    ],
)
def test_suggestions(name: str, expected: list[str]) -> None:
    assert suggestions(name, registry.names()) == expected


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
