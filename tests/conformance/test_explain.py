"""explain names the convention behind numbers made as other tools make them.

Each number comes from a few lines of numpy written after a tool's behaviour, and is compared with
the tool where that is installed. Nothing here is computed with truerank but the explanation.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import truerank
from tests.builders import clusters
from tests.cli.driving import run
from truerank import Explanation, InputError

Arrays = tuple[np.ndarray, np.ndarray]


def names(found: Explanation) -> list[str]:
    return [match.name for match in found.matches]


def average_precision(hits: np.ndarray, relevant: int | None = None) -> float:
    ranks = np.flatnonzero(hits) + 1
    return float((np.arange(1, len(ranks) + 1) / ranks).sum() / (relevant or len(ranks)))


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def stretched() -> Arrays:
    """Rows of very different lengths, of which none is as far from another as a third one."""
    x, y = clusters(5, classes=12, size=5)
    return x * np.random.default_rng(6).lognormal(0, 0.5, (len(x), 1)), y


def coarse(seed: int = 1, rows: int = 60, bits: int = 5) -> Arrays:
    """Rows of a few bits, in which many distances are equal."""
    rng = np.random.default_rng(seed)
    y = rng.integers(6, size=rows)
    flipped = rng.random((rows, bits)) < 0.25
    return np.where(rng.integers(2, size=(6, bits))[y] ^ flipped, 1.0, -1.0), y


# The six tools of the page.


def map_at_r_of_pytorch_metric_learning(x: np.ndarray, y: np.ndarray) -> float:
    """Its default: euclidean distance between rows that are not scaled."""
    distances = np.linalg.norm(x[:, None] - x[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    values = []
    for own, row in zip(y, distances, strict=True):
        r = int((y == own).sum()) - 1
        values.append(average_precision(y[np.argsort(row)[:r]] == own, r))
    return float(np.nanmean(values))


def test_pytorch_metric_learning() -> None:
    x, y = stretched()
    number = f"{map_at_r_of_pytorch_metric_learning(x, y):.4f}"
    assert names(truerank.explain(x, y, number, metric="map@r")) == ["distance=euclidean"]


def test_the_code_gives_what_pytorch_metric_learning_gives() -> None:
    calculators = pytest.importorskip("pytorch_metric_learning.utils.accuracy_calculator")
    x, y = (pytest.importorskip("torch").tensor(side) for side in stretched())
    name = "mean_average_precision_at_r"
    calculator = calculators.AccuracyCalculator(include=(name,), k="max_bin_count")
    found = calculator.get_accuracy(x.float(), y)[name]
    assert found == pytest.approx(map_at_r_of_pytorch_metric_learning(*stretched()), abs=1e-6)


def two_cameras() -> dict[str, Any]:
    """A query and gallery in which the same camera took a person in nearly the same pose."""
    x, y = clusters(9, classes=15, size=6)
    cameras = np.tile([0, 0, 1, 1, 2, 2], 15)
    x[cameras == 0] += 0.8 * np.random.default_rng(1).standard_normal(12)
    query = np.tile([True, False, False, True, False, False], 15)
    return {
        "embeddings": x[query],
        "labels": y[query],
        "query_groups": cameras[query],
        "gallery": x[~query],
        "gallery_labels": y[~query],
        "gallery_groups": cameras[~query],
    }


def map_of_torchreid_without_cameras(data: dict[str, Any]) -> float:
    """evaluate_rank where all queries have camera 0 and all items camera 1: nothing is removed."""
    distances = 1 - unit(data["embeddings"]) @ unit(data["gallery"]).T
    matches = data["gallery_labels"][np.argsort(distances, axis=1)] == data["labels"][:, None]
    return float(np.mean([average_precision(row) for row in matches]))


def test_torchreid() -> None:
    data = two_cameras()
    number = round(100 * map_of_torchreid_without_cameras(data), 1)
    found = truerank.explain(theirs=number, metric="map", **data)
    assert names(found) == ["groups=ignored"]
    assert "ignores groups (cameras)" in str(found)


def named_items() -> dict[str, Any]:
    x, y = coarse()
    ids = np.array([f"doc{number}" for number in np.random.default_rng(2).permutation(60)])
    return {
        "embeddings": x[:20],
        "labels": y[:20],
        "query_ids": [f"q{n}" for n in range(20)],
        "gallery": x[20:],
        "gallery_labels": y[20:],
        "gallery_ids": ids[20:],
    }


def map_of_trec_eval(data: dict[str, Any]) -> float:
    """Equal scores are ordered by document id, the greater first."""
    values = []
    for row, own in zip(unit(data["embeddings"]) @ unit(data["gallery"]).T, data["labels"],
                        strict=True):  # fmt: skip
        scored = zip(np.round(row, 6), data["gallery_ids"], data["gallery_labels"], strict=True)
        ranked = sorted(scored, key=lambda item: (item[0], item[1]), reverse=True)
        values.append(average_precision(np.array([label == own for _, _, label in ranked])))
    return float(np.mean(values))


def test_trec_eval() -> None:
    data = named_items()
    found = truerank.explain(theirs=f"{map_of_trec_eval(data):.4f}", metric="map", **data)
    assert names(found) == ["ties=id-reversed"]


def test_the_code_gives_what_trec_eval_gives() -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval")
    data = named_items()
    scores = np.round(unit(data["embeddings"]) @ unit(data["gallery"]).T, 6).tolist()
    run = {query: dict(zip(data["gallery_ids"].tolist(), row, strict=True))
           for query, row in zip(data["query_ids"], scores, strict=True)}  # fmt: skip
    qrels = {
        query: {str(item): int(label == own)
                for item, label in zip(data["gallery_ids"], data["gallery_labels"], strict=True)}
        for query, own in zip(data["query_ids"], data["labels"], strict=True)
    }  # fmt: skip
    found = pytrec_eval.RelevanceEvaluator(qrels, {"map"}).evaluate(run)
    mean = np.mean([values["map"] for values in found.values()])
    assert mean == pytest.approx(map_of_trec_eval(data), abs=1e-12)


def hit_of_a_search(x: np.ndarray, y: np.ndarray, k: int) -> float:
    """k neighbours, the query among them, which is then dropped: k - 1 remain."""
    nearest = np.argsort(-(unit(x) @ unit(x).T), axis=1)[:, :k]
    return float(np.mean([
        (y[[item for item in row if item != query]] == y[query]).any()
        for query, row in enumerate(nearest)
    ]))  # fmt: skip


def test_faiss() -> None:
    x, y = clusters(11, noise=2.0)
    found = truerank.explain(x, y, f"{hit_of_a_search(x, y, 5):.4f}", metric="hit@5")
    assert names(found) == ["cut=k-1"]


def test_the_code_gives_what_a_search_of_faiss_gives() -> None:
    faiss = pytest.importorskip("faiss")
    x, y = clusters(11, noise=2.0)
    index = faiss.IndexFlatIP(x.shape[1])
    index.add(unit(x).astype(np.float32))
    _, nearest = index.search(unit(x).astype(np.float32), 5)
    hits = [(y[row[row != query]] == y[query]).any() for query, row in enumerate(nearest)]
    assert np.mean(hits) == hit_of_a_search(x, y, 5)


def precision_of_argsort(x: np.ndarray, y: np.ndarray) -> float:
    """A stable argsort of distances in which many are equal: the first row comes first."""
    distances = 1.0 - np.round(unit(x) @ unit(x).T, 9)
    np.fill_diagonal(distances, np.inf)
    return float(np.mean(y[np.argsort(distances, axis=1, kind="stable")[:, 0]] == y))


def test_argsort_with_ties() -> None:
    x, y = coarse()
    found = truerank.explain(x, y, 100 * precision_of_argsort(x, y), metric="precision@1")
    assert names(found) == ["ties=input"]


def duplicates() -> Arrays:
    """Rows of which some are equal to an earlier one of another class."""
    x, y = clusters(2)
    x[120:150] = x[:30]
    return x, y


def recall_without_column_0(x: np.ndarray, y: np.ndarray) -> float:
    """Code of papers: sort all rows, drop column 0 as the query, look at the next one."""
    similarity = np.round(unit(x) @ unit(x).T, 9)
    return float(np.mean(y[np.argsort(-similarity, axis=1, kind="stable")[:, 1]] == y))


def test_code_that_drops_column_0() -> None:
    x, y = duplicates()
    found = truerank.explain(x, y, f"{100 * recall_without_column_0(x, y):.1f}", metric="hit@1")
    assert names(found) == ["self=first"]
    assert found.own["hit@1"] < found.matches[0].value


def noisy() -> Arrays:
    """Rows of which relevant ones may have a cosine below zero."""
    return clusters(8, classes=10, size=5, noise=2.5)


def map_of_torchmetrics(x: np.ndarray, y: np.ndarray) -> float:
    """Scores of zero and below are thrown away: relevant items there are not relevant."""
    values = []
    for query, row in enumerate(unit(x) @ unit(x).T):
        others = np.argsort(-row)[1:]
        above = others[row[others] > 0]
        hits = y[above] == y[query]
        values.append(average_precision(hits) if hits.any() else 0.0)
    return float(np.mean(values))


def test_torchmetrics() -> None:
    x, y = noisy()
    found = truerank.explain(x, y, f"{map_of_torchmetrics(x, y):.4f}", metric="map")
    assert names(found) == ["sign=irrelevant"]


def test_the_code_gives_what_torchmetrics_gives() -> None:
    retrieval = pytest.importorskip("torchmetrics.functional.retrieval")
    torch = pytest.importorskip("torch")
    x, y = noisy()
    others = ~np.eye(len(x), dtype=bool)
    found = [
        float(retrieval.retrieval_average_precision(torch.tensor(row[keep]), torch.tensor(hits)))
        for row, keep, hits in zip(
            unit(x) @ unit(x).T,
            others,
            (y[:, None] == y)[others].reshape(len(x), -1),
            strict=True,
        )
    ]
    assert np.mean(found) == pytest.approx(map_of_torchmetrics(x, y), abs=1e-6)


# Other conventions, one number each.


def with_singletons() -> Arrays:
    x, y = clusters(3, classes=20)
    y[::9] = 100 + np.arange(len(y[::9]))
    return x, y


def self_kept(x: np.ndarray, y: np.ndarray) -> float:
    order = np.argsort(-(unit(x) @ unit(x).T), axis=1)
    return float(np.mean((y[order[:, :5]] == y[:, None]).sum(axis=1) / 5))


def lists(x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    """Whether each other row is relevant, nearest first."""
    order = np.argsort(-(unit(x) @ unit(x).T), axis=1)[:, 1:]
    return list(y[order] == y[:, None])


def r_with_self(x: np.ndarray, y: np.ndarray) -> float:
    found = [average_precision(row, int(row.sum()) + 1) for row in lists(x, y) if row.any()]
    return float(np.mean(found))


def over_hits_found(x: np.ndarray, y: np.ndarray) -> float:
    found = [average_precision(row[:10]) if row[:10].any() else 0 for row in lists(x, y)
             if row.any()]  # fmt: skip
    return float(np.mean(found))


def singletons_as_zero(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean([row[0] for row in lists(x, y)]))


def over_classes(x: np.ndarray, y: np.ndarray) -> float:
    rows = np.array([[row[0], row.any()] for row in lists(x, y)])
    means = [rows[y == name, 0].mean() for name in np.unique(y) if rows[y == name, 1].any()]
    return float(np.mean(means))


def in_half_precision(x: np.ndarray, y: np.ndarray) -> float:
    half = unit(x).astype(np.float16).astype(np.float64)
    similarity = (half @ half.T).astype(np.float16)
    np.fill_diagonal(similarity, -np.inf)
    found = [average_precision(y[np.argsort(-row, kind="stable")[:-1]] == own)
             for row, own in zip(similarity, y, strict=True) if (y == own).sum() > 1]  # fmt: skip
    return float(np.mean(found))


@pytest.mark.parametrize(
    ("number", "metric", "name"),
    [
        (self_kept, "precision@5", "self=kept"),
        (r_with_self, "map", "self=counted"),
        (over_hits_found, "map@10", "divisor=found"),
        (singletons_as_zero, "hit@1", "unmated=zero"),
        (over_classes, "hit@1", "mean=classes"),
        (in_half_precision, "map", "resolution=float16, ties=input"),
    ],
)
def test_the_convention_is_named(
    number: Callable[[np.ndarray, np.ndarray], float], metric: str, name: str
) -> None:
    x, y = with_singletons()
    found = truerank.explain(x, y, f"{number(x, y):.6f}", metric=metric)
    assert name in names(found), str(found)
    assert len(found.matches) <= 2


def test_labels_beyond_float32() -> None:
    x, y = clusters(4, classes=8)
    rounded = (y + 2**24).astype(np.float32)
    number = np.mean([row[0] for row in lists(x, rounded)])
    assert names(truerank.explain(x, y + 2**24, number, metric="hit@1")) == ["labels=float32"]


def test_recall_at_1_of_metric_learning() -> None:
    x, y = with_singletons()
    number = np.mean([row[0] for row in lists(x, y) if row.any()])
    assert "metric=hit" in names(truerank.explain(x, y, number, metric="recall@1"))


def test_the_gain_of_graded_judgements() -> None:
    rng = np.random.default_rng(0)
    scores, grades = rng.random((30, 20)), rng.integers(4, size=(30, 20))
    options = {"labels": None, "relevance": grades, "distance": "similarity"}
    discounts = 1 / np.log2(np.arange(20) + 2)
    ranked = np.take_along_axis(grades, np.argsort(-scores, axis=1), axis=1)
    number = np.mean((ranked @ discounts) / (-np.sort(-grades, axis=1) @ discounts))
    assert names(truerank.explain(scores, theirs=number, metric="ndcg", **options)) == [
        "gain=linear"
    ]


# The answer.


def test_truerank_s_own_number_needs_no_convention() -> None:
    x, y = clusters(0)
    value = truerank.evaluate(x, y, metrics="map@r", confidence=None)["map@r"].value
    found = truerank.explain(x, y, round(100 * value, 2), metric="map@r")
    assert (found.own["map@r"], names(found)) == (value, ["truerank's own conventions"])
    assert "nothing differs" in str(found)


def test_its_own_values_follow_the_rules_of_the_task() -> None:
    x, y = with_singletons()
    groups = np.arange(len(x)) % 4
    rules: dict[str, Any] = {"unmated": "zero", "average": "class", "junk_labels": [3]}
    found = truerank.explain(x, y, 12.345678, query_groups=groups, **rules)
    result = truerank.evaluate(x, y, query_groups=groups, confidence=None, **rules)
    assert found.own == {name: result[name].value for name in found.own}
    offered = {one.name for match in found.nearest for one in match.conventions}
    assert offered.isdisjoint({"unmated=zero", "mean=classes"})


@pytest.mark.parametrize(
    "distance", ["euclidean", "dot", "cityblock", "hamming", "precomputed", "similarity"]
)
def test_every_distance(distance: str) -> None:
    x, y = coarse()
    rows = {"precomputed": -(x @ x.T), "similarity": x @ x.T}.get(distance, x.astype(int))
    result = truerank.evaluate(rows, y, distance=distance, confidence=None, metrics="map")
    upper = truerank.explain(rows, y, result["map"].upper, metric="map", distance=distance)
    assert upper.own["map"] == result["map"].value
    assert "ties=upper" in names(upper)


def test_none_gives_it() -> None:
    x, y = clusters(0)
    found = truerank.explain(x, y, "3.1415", metric="map@r")
    assert found.matches == ()
    assert len(found.nearest) == 3
    assert "None gives 3.1415 for map@r." in str(found)
    assert found.tried > found.pairs > 50


def test_all_headline_metrics_are_tried_without_a_name() -> None:
    x, y = clusters(0)
    value = truerank.evaluate(x, y, metrics="map", confidence=None)["map"].value
    found = truerank.explain(x, y, f"{value:.5f}")
    assert {"precision@1", "hit@10", "map@r", "mrr"} <= found.own.keys()
    assert [match.metric for match in found.matches] == ["map"]


def test_several_matches_name_the_metric_that_separates_them() -> None:
    """Two rows tie with each query: last rows first, or relevant rows first, give hit@1 alike."""
    x = [[1.0, 0.0], [0.0, 1.0], [0.0, -1.0], [0.0, 1.0], [0.0, -1.0]]
    labels, items = ["a"], ["b", "a", "b", "a"]
    found = truerank.explain(
        x[:1], labels, 100, metric="hit@1", gallery=x[1:], gallery_labels=items
    )
    assert {"ties=reversed", "ties=upper"} <= set(names(found))
    assert found.separating is not None
    metric, values = found.separating
    assert len(set(values)) > 1
    assert f"Compare {metric} as well" in str(found)


@pytest.mark.parametrize(
    ("theirs", "values", "others"),
    [
        (71.3, (0.7125, 0.7135), (0.7124, 0.7136)),
        ("71.30", (0.71295, 0.71305), (0.7129, 0.7131)),
        ("71.3 %", (0.7125, 0.7135), (0.7124, 0.7136)),
        (0.713, (0.7125, 0.7135), (0.7124, 0.7136)),
        ("0.5%", (0.0045, 0.0055), (0.0044, 0.0056)),
        (71, (0.705, 0.715), (0.704, 0.716)),
        (1.0, (0.995, 1.0), (0.99,)),
    ],
)
def test_the_printed_digits_decide(theirs: Any, values: Any, others: Any) -> None:
    from truerank.conformance.explanation import Printed

    assert all(Printed.of(theirs).matches(value) for value in values)
    assert not any(Printed.of(theirs).matches(value) for value in others)


@pytest.mark.parametrize("theirs", ["seventy", -1, 101, float("nan"), None, True, ""])
def test_a_number_that_is_no_score_is_refused(theirs: Any) -> None:
    with pytest.raises(InputError, match="'theirs' parameter must be a score"):
        truerank.explain(*clusters(0), theirs)


def test_a_metric_without_models_is_refused() -> None:
    with pytest.raises(InputError, match="auc is not explained here"):
        truerank.explain(*clusters(0), 50, metric="auc")


def test_no_mated_query_is_refused() -> None:
    with pytest.raises(InputError, match="no query has a relevant item"):
        truerank.explain([[0.0, 1], [1, 0]], [0, 1], 50)


def test_nothing_depends_on_threads() -> None:
    x, y = coarse()
    assert truerank.explain(x, y, 12.3, threads=1) == truerank.explain(x, y, 12.3, threads=3)


# The command.


@pytest.fixture
def files(tmp_path: Path) -> Path:
    x, y = duplicates()
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "y.csv").write_text("\n".join(["label", *map(str, y)]))
    return tmp_path


def test_the_command(files: Path) -> None:
    number = f"{100 * recall_without_column_0(*duplicates()):.1f}"
    arguments = ("explain", files / "x.npy", "--labels", files / "y.csv", "--theirs", number)
    done = run(*arguments, "--metric", "hit@1")
    assert done.status == 0
    assert "self=first" in done.out
    done = run(*arguments, "--metric", "hit@1", "--format", "json", "-o", files / "why.json")
    assert json.loads(done.out) == json.loads((files / "why.json").read_text())
    [match] = json.loads(done.out)["matches"]
    assert match["conventions"][0]["name"] == "self=first"
    assert run(*arguments, "--metric", "auc").complaint().startswith("auc is not explained here")
    assert "must be a score" in run(*arguments[:-1], "many").complaint()


@pytest.mark.parametrize("columns", [60, 80])
def test_lines_fit_the_screen(
    columns: int, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    done = run("explain", files / "x.npy", "--labels", files / "y.csv", "--theirs", "33.3")
    assert max(map(len, done.out.splitlines())) <= columns
