"""The kit on functions as people write them: the verdict, its smallest case, text and JSON."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import truerank
from truerank import conformance


def of_best(scores: Any, relevance: Any, k: int | None = None) -> list[int]:
    order = sorted(range(len(scores)), key=lambda place: -scores[place])
    return [int(relevance[place] > 0) for place in order][:k]


def mean_precision(hits: Sequence[int], divisor: int) -> float:
    ranks = [rank for rank, hit in enumerate(hits, start=1) if hit]
    return sum(n / rank for n, rank in enumerate(ranks, start=1)) / divisor if divisor else 0.0


def as_in_competitions(actual: list[str], predicted: list[str], k: int = 3) -> float:
    """Divides by min(R, k), and knows a repeated item: written from its description."""
    score, hits = 0.0, 0
    for place, one in enumerate(predicted[:k]):
        if one in actual and one not in predicted[:place]:
            hits += 1
            score += hits / (place + 1)
    return score / min(len(actual), k) if actual else 0.0


def test_a_divisor_of_its_own() -> None:
    def found(scores: Any, relevance: Any) -> float:
        hits = of_best(scores, relevance, 2)
        return mean_precision(hits, sum(hits))

    verdict = conformance.check(found, "map@2", "scores", one_query=True)
    assert not verdict.conforms
    assert verdict.conventions["divisor"] == "found"
    assert verdict.conventions["ties"] == "input"
    assert verdict.conventions["unmated"] == "zero"
    assert any("divides by hits found" in one for one in verdict.findings)


def test_the_metric_of_competitions() -> None:
    verdict = conformance.check(as_in_competitions, "map@3", "lists", one_query=True)
    assert verdict.conventions["divisor"] == "min"
    assert verdict.conventions["repeats"] == "wrong"
    assert verdict.conventions["unmated"] == "zero"
    own = conformance.check(
        as_in_competitions,
        "map@3,divisor=min",
        "lists",
        one_query=True,
        allow=["unmated=zero"],
    )
    assert own.conforms
    assert len(own.findings) == 1


@pytest.mark.parametrize("k", [6, 10, 30, 100])
def test_the_cuts_that_people_use(k: int) -> None:
    """The same conventions are found at rank k, however far down that is."""
    listed = conformance.check(
        as_in_competitions, f"map@{k}", "lists", one_query=True, arguments={"k": k}
    )
    told = {name: listed.conventions[name] for name in ("divisor", "repeats", "unmated")}
    assert told == {"divisor": "min", "repeats": "wrong", "unmated": "zero"}
    for call in ("scores", "qrels"):
        verdict = conformance.check(positive_only(k, call), f"recall@{k}", call)
        assert verdict.conventions["sign"] == "unfound"
        assert verdict.conventions["ties"] == "input"
        one_less = conformance.check(positive_only(k - 1, call), f"recall@{k}", call)
        assert not one_less.conforms
        assert "sign" not in one_less.conventions


def positive_only(k: int, call: str) -> Any:
    """Recall at k over the scores above zero, of queries with a mate."""

    def of_one(scores: Sequence[float], grades: Sequence[int], mates: int) -> float:
        order = sorted(range(len(scores)), key=lambda place: -scores[place])[:k]
        return sum(grades[place] > 0 for place in order if scores[place] > 0) / mates

    def of_scores(scores: Any, relevance: Any) -> float:
        shares = [
            of_one(row.tolist(), grades.tolist(), int((grades > 0).sum()))
            for row, grades in zip(scores, relevance, strict=True)
            if (grades > 0).any()
        ]
        return sum(shares) / len(shares) if shares else float("nan")

    def of_runs(qrels: Any, run: Any) -> float:
        shares = []
        for name, judged in qrels.items():
            mates = sum(grade > 0 for grade in judged.values())
            listed = run.get(name, {})
            if mates:
                grades = [judged.get(one, 0) for one in listed]
                shares.append(of_one(list(listed.values()), grades, mates))
        return sum(shares) / len(shares) if shares else float("nan")

    return of_scores if call == "scores" else of_runs


@pytest.mark.parametrize("k", [6, 10])
def test_rows_and_the_cuts_that_people_use(k: int) -> None:
    def precision(embeddings: Any, labels: Any) -> float:
        similarity = embeddings @ embeddings.T
        np.fill_diagonal(similarity, -np.inf)
        nearest = np.argsort(-similarity, axis=1, kind="stable")[:, : min(k, len(labels) - 1)]
        mates = labels[:, None] == labels
        found = np.take_along_axis(mates, nearest, 1).sum(axis=1) / k
        kept = mates.sum(axis=1) > 1
        return float(found[kept].mean()) if kept.any() else float("nan")

    verdict = conformance.check(precision, f"precision@{k}", allow=["ties=input"])
    assert verdict.conforms
    assert verdict.conventions["ties"] == "input"

    def exact(rows: Any, labels: Any) -> float:
        name = f"precision@{k}"
        found = truerank.evaluate(rows, labels, metrics=[name], confidence=None)
        return found[name].value

    assert conformance.check(exact, f"precision@{k}").conforms


def test_duplicates_that_count() -> None:
    def recall(retrieved: list[list[str]], relevant: list[list[str]], k: int = 3) -> float:
        shares = [
            sum(one in mates for one in ids[:k]) / len(mates)
            for ids, mates in zip(retrieved, relevant, strict=True)
            if mates
        ]
        return sum(shares) / len(shares) if shares else float("nan")

    verdict = conformance.check(recall, "recall@3", "lists")
    assert verdict.findings == ["counts duplicates: the same item is a hit every time"]
    [settled] = [one for one in verdict.diagnosis.settled if not one.ours]
    [shown] = settled.shown
    ids, _ = shown.case.arguments()
    assert len(set(ids[0])) < len(ids[0])
    assert "ranked 0 1 0 1" in str(verdict), "the repeated item is wrong where it stands"


def distances(rows: Any) -> Any:
    return ((rows[:, None, :].astype(float) - rows[None, :, :]) ** 2).sum(axis=2)


def test_the_first_column_for_self() -> None:
    def precision_at_1(features: Any, labels: Any) -> float:
        second = np.argsort(distances(features), axis=1, kind="stable")[:, 1]
        right = [
            labels[found] == label
            for label, found in zip(labels, second, strict=True)
            if (labels == label).sum() > 1
        ]
        return float(np.mean(right)) if right else float("nan")

    verdict = conformance.check(precision_at_1, "precision@1", "embeddings")
    assert verdict.conventions["self"] == "first"
    assert verdict.conventions["ties"] == "input"
    assert verdict.conventions["labels"] == "exact"
    [self] = [one for one in verdict.diagnosis.settled if one.question.name == "self"]
    rows = self.shown[0].case.rows
    assert len(set(rows)) < len(rows), "only a duplicate shows it"


def test_the_query_counted_as_its_own_mate() -> None:
    def hit_at_1(features: Any, labels: Any) -> float:
        first = np.argsort(distances(features), axis=1, kind="stable")[:, 0]
        return float(np.mean(labels[first] == labels))

    verdict = conformance.check(hit_at_1, "hit@1", "embeddings")
    assert not verdict.conforms


def test_labels_cast_to_float32() -> None:
    def precision_at_1(features: Any, labels: Any) -> float | None:
        labels = labels.astype(np.float32)
        apart = distances(features)
        values = []
        for row, label in enumerate(labels):
            others = [other for other in range(len(labels)) if other != row]
            if not any(labels[other] == label for other in others):
                continue
            least = min(apart[row, other] for other in others)
            tied = [labels[other] == label for other in others if apart[row, other] == least]
            values.append(float(all(tied)))
        return sum(values) / len(values) if values else None

    verdict = conformance.check(precision_at_1, "precision@1", "embeddings")
    assert verdict.findings == ["casts labels to float32, in which 2^24 and 2^24 + 1 are equal"]
    assert verdict.conventions["ties"] == "lower"


def test_an_optimistic_bound() -> None:
    def reciprocal_rank(scores: Any, relevance: Any) -> float:
        values = []
        for row, mates in zip(scores, relevance, strict=True):
            if mates.any():
                values.append(1 / (1 + (row > row[mates > 0].max()).sum()))
        return float(np.mean(values))

    verdict = conformance.check(reciprocal_rank, "mrr", "scores")
    assert verdict.findings == ["gives the upper bound: relevant items first among equal scores"]
    assert conformance.check(reciprocal_rank, "mrr", "scores", allow="ties=upper").conforms


def test_another_metric_is_named() -> None:
    def recall(scores: Any, relevance: Any) -> float:
        return float(any(of_best(scores, relevance, 2)))

    verdict = conformance.check(recall, "recall@2", "scores", one_query=True)
    assert not verdict.conforms
    assert verdict.diagnosis.another == "hit@2"
    assert "it computes hit@2" in verdict.headline()


def test_a_function_that_always_fails() -> None:
    def broken(embeddings: Any, labels: Any) -> float:
        raise KeyError("no index")

    verdict = conformance.check(broken, "map@r")
    assert verdict.diagnosis.fails
    assert "it fails on every plain case" in verdict.headline()
    assert "KeyError: 'no index'" in str(verdict)


@pytest.mark.parametrize("returned", ["0.5", {"map": 0.5}, [0.5, 0.5]])
def test_what_is_no_number_is_an_error_of_the_function(returned: Any) -> None:
    verdict = conformance.check(lambda rows, labels: returned, "map@r")
    assert verdict.diagnosis.fails
    assert "not a number" in str(verdict)


def test_what_nothing_explains_is_made_small() -> None:
    """Right everywhere, but where three items or more tie it adds a tenth."""

    def odd(scores: Any, relevance: Any) -> float:
        values = []
        for row, mates in zip(scores, relevance, strict=True):
            if mates.any():
                best = row[mates > 0].max()
                rank = 1 + (row > best).sum() + ((row == best) & (mates == 0)).sum()
                crowded = max(np.unique(row, return_counts=True)[1]) > 2
                values.append(1 / rank + 0.1 * crowded)
        return float(np.mean(values)) if values else float("nan")

    verdict = conformance.check(odd, "mrr", "scores")
    assert not verdict.conforms
    smallest = verdict.diagnosis.unexplained[0].case
    [query] = smallest.queries
    scores = [entry.score for entry in query.entries]
    assert len(scores) <= 4
    assert max(map(scores.count, scores)) == 3, "what makes it odd, and next to nothing else"


def test_a_function_that_rolls_dice() -> None:
    draw = random.Random(0)

    def shuffled(scores: Any, relevance: Any) -> float:
        order = sorted(range(len(scores)), key=lambda n: (-scores[n], draw.random()))
        hits = [int(relevance[place]) for place in order]
        return mean_precision(hits, sum(hits))

    verdict = conformance.check(shuffled, "map", "scores", one_query=True)
    assert verdict.diagnosis.unsteady is not None
    assert not verdict.conforms
    assert "different values for the same input" in str(verdict)


def test_the_order_of_arguments_goes_by_their_names() -> None:
    def truth_first(y_true: Any, y_score: Any) -> float:
        return float(any(of_best(y_score, y_true, 1)))

    def found_first(a: Any, b: Any) -> float:
        return float(any(of_best(a, b, 1)))

    verdicts = [
        conformance.check(one, "hit@1", "scores", one_query=True)
        for one in (truth_first, found_first)
    ]
    assert verdicts[0].conventions == verdicts[1].conventions


def test_further_arguments_and_lists_instead_of_arrays() -> None:
    def hit(scores: list[float], relevance: list[int], top: int) -> float:
        assert isinstance(scores, list)
        return float(any(of_best(scores, relevance, top)))

    verdict = conformance.check(
        hit, "hit@2", "scores", one_query=True, arguments={"top": 2}, arrays="lists"
    )
    assert verdict.conventions["unmated"] == "zero"


def test_json_holds_the_cases() -> None:
    verdict = conformance.check(as_in_competitions, "map@3", "lists", one_query=True)
    data = json.loads(verdict.to_json())
    assert data["conforms"] is False
    assert data["like"] == "map@3"
    [divisor] = [one for one in data["conventions"] if one["question"] == "divisor"]
    assert divisor["answers"] == ["min"]
    assert divisor["as_truerank"] is False
    [case] = divisor["shown_by"]
    given = as_in_competitions(case["relevant"][0], case["lists"][0])
    assert given == case["given"] != case["expected"]


def test_a_failing_test_shows_the_case() -> None:
    with pytest.raises(AssertionError, match=r"divides by min\(R, k\)[\s\S]*right is"):
        conformance.assert_conforms(as_in_competitions, "map@3", "lists", one_query=True)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"function": 3}, "takes a function"),
        ({"like": "auc"}, "not checked here"),
        ({"like": "map@21"}, "at most 20"),
        ({"like": "map@1001", "call": "lists"}, "at most 1,000"),
        ({"like": "map@level=1"}, "one level"),
        ({"call": "pairs"}, "must be embeddings, scores, lists or qrels"),
        ({"arrays": "jax"}, "must be numpy, torch or lists"),
        ({"like": "ndcg"}, "ndcg needs grades"),
        ({"one_query": True}, "leave one_query out"),
        ({"arguments": [1]}, "must map names"),
        ({"allow": "unmated"}, "such as unmated=zero"),
        ({"name": 7}, "must be a text"),
    ],
)
def test_bad_input(arguments: dict[str, Any], sentence: str) -> None:
    given = {"function": as_in_competitions, "like": "map@r", "call": "embeddings"} | arguments
    with pytest.raises(truerank.InputError, match=sentence):
        conformance.check(**given)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("statistics", "package.module:function"),
        ("no.such.module:f", "cannot be imported"),
        ("nowhere.py:f", "there is no file"),
        ("statistics:nothing", "has no 'nothing'"),
        ("math:pi", "is no function"),
    ],
)
def test_functions_that_are_not_there(text: str, sentence: str) -> None:
    with pytest.raises(truerank.InputError, match=sentence):
        conformance.load(text)
