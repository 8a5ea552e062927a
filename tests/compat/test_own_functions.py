"""What users bring along: functions that search, cluster and compare, and metrics of a subclass."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pytorch_metric_learning.distances import CosineSimilarity, LpDistance
from pytorch_metric_learning.utils import accuracy_calculator as original
from pytorch_metric_learning.utils.inference import CustomKNN
from sklearn.metrics import adjusted_mutual_info_score, normalized_mutual_info_score

import truerank
from tests.compat.test_accuracy_calculator import (
    LABELS,
    METRICS,
    MORE,
    MORE_LABELS,
    ROWS,
    SHAPES,
    SINGLETONS,
    UNEVEN,
    assert_same,
    original_calculator,
)
from truerank.compat.pytorch_metric_learning import AccuracyCalculator

SEARCHES: list[tuple[Any, ...]] = [
    (ROWS, UNEVEN),
    (ROWS, SINGLETONS),
    (ROWS, SINGLETONS, MORE, MORE_LABELS),
    (ROWS, UNEVEN, np.concatenate([ROWS, MORE]), np.concatenate([UNEVEN, MORE_LABELS]), True),
]
CPU = torch.device("cpu")


def both(**options: Any) -> tuple[AccuracyCalculator, original.AccuracyCalculator]:
    return AccuracyCalculator(**options), original.AccuracyCalculator(device=CPU, **options)


# -- functions that search ------------------------------------------------------------------------


@pytest.mark.parametrize("options", SHAPES)
@pytest.mark.parametrize("k", [None, "max_bin_count", 40])
def test_a_function_that_searches(k: Any, options: dict[str, Any]) -> None:
    """By the lists that it gives: here of another similarity than the distance says."""
    search = CustomKNN(CosineSimilarity())
    ours, theirs = both(include=METRICS, knn_func=search, k=k, **options)
    for rows in SEARCHES:
        assert_same(ours.get_accuracy(*rows), theirs.get_accuracy(*rows))
    cosine = AccuracyCalculator(include=METRICS, distance="cosine", k=k, **options)
    assert_same(ours.get_accuracy(*SEARCHES[0]), cosine.get_accuracy(*SEARCHES[0]))


def test_how_the_function_is_called() -> None:
    calls = []

    def search(query: Any, k: int, reference: Any, includes: bool) -> tuple[Any, Any]:
        calls.append((query.dtype, query.shape, k, reference.shape, includes))
        return CustomKNN(LpDistance(normalize_embeddings=False))(query, k, reference, includes)

    calculator = AccuracyCalculator(include=("precision_at_1",), knn_func=search, k=3)
    calculator.get_accuracy(ROWS, UNEVEN)
    calculator.get_accuracy(ROWS, UNEVEN, MORE, MORE_LABELS)
    assert calls == [
        (torch.float32, (60, 8), 3, (60, 8), True),
        (torch.float32, (60, 8), 3, (80, 8), False),
    ]


def test_lists_with_fewer_neighbours_than_asked_for() -> None:
    """faiss fills them with -1, which is nobody."""

    def search(query: Any, k: int, reference: Any, includes: bool) -> tuple[Any, Any]:
        places = torch.tensor([[1, -1], [0, -1], [0, 3], [-1, -1]])
        return torch.zeros(4, 2), places

    calculator = AccuracyCalculator(include=METRICS, knn_func=search, k=2)
    found = calculator.get_accuracy(ROWS[:4], [0, 0, 1, 1])
    assert found["precision_at_1"] == 2 / 4
    assert found["mean_reciprocal_rank"] == (1 + 1 + 1 / 2 + 0) / 4
    assert found["mean_average_precision"] == (1 + 1 + 1 / 2 + 0) / 4
    assert found["r_precision"] == 2 / 4


# -- functions that compare labels ----------------------------------------------------------------


def neighboring(x: Any, y: Any) -> Any:
    return torch.abs(x - y) < 2


@pytest.mark.parametrize("options", SHAPES)
@pytest.mark.parametrize("searched", [False, True])
def test_a_function_that_compares_labels(searched: bool, options: dict[str, Any]) -> None:
    theirs = original_calculator(label_comparison_fn=neighboring, **options)
    search = CustomKNN(LpDistance(normalize_embeddings=False)) if searched else None
    ours = AccuracyCalculator(
        include=METRICS, label_comparison_fn=neighboring, knn_func=search, **options
    )
    for rows in SEARCHES:
        assert_same(ours.get_accuracy(*rows), theirs.get_accuracy(*rows))


def test_labels_that_do_not_match_themselves() -> None:
    """Mates of the other hand: a query is not one of its own, with a reference or without."""

    def other_hand(x: Any, y: Any) -> Any:
        return (x[..., 0] == y[..., 0]) & (x[..., 1] != y[..., 1])

    labels = np.stack([UNEVEN, np.arange(60) % 2], axis=1)
    calculator = AccuracyCalculator(include=METRICS, label_comparison_fn=other_hand)
    alone = calculator.get_accuracy(ROWS, labels)
    relevance = other_hand(torch.tensor(labels)[:, None], torch.tensor(labels)[None]).numpy()
    everyone = {"query_ids": np.arange(60), "gallery_ids": np.arange(60)}
    expected = truerank.evaluate(
        ROWS,
        gallery=ROWS,
        relevance=relevance,
        distance="euclidean",
        metrics=["map", "map@r", "mrr", "precision@1", "r_precision"],
        **everyone,
    )
    assert list(alone.values()) == [expected[m].value for m in expected]
    assert calculator.get_accuracy(ROWS, labels, ROWS, labels, True) == alone
    theirs = original_calculator(label_comparison_fn=other_hand)
    assert_same(
        calculator.get_accuracy(ROWS[:30], labels[:30], MORE[:60], labels),
        theirs.get_accuracy(ROWS[:30], labels[:30], MORE[:60], labels),
    )


def test_a_comparison_of_the_wrong_shape() -> None:
    calculator = AccuracyCalculator(include=METRICS, label_comparison_fn=lambda x, y: x == y)
    with pytest.raises(truerank.InputError, match=r"must say of each label .* shape \(60, 2\)"):
        calculator.get_accuracy(ROWS, np.stack([UNEVEN, UNEVEN], axis=1))
    with pytest.raises(truerank.InputError, match="must be numbers"):
        calculator.get_accuracy(ROWS, UNEVEN.astype(str))


# -- clusters -------------------------------------------------------------------------------------


def test_clustering_scores() -> None:
    """Those of truerank.evaluate; with a function of one's own, those of its clusters."""
    calculator = AccuracyCalculator(include=("NMI", "AMI"))
    found = calculator.get_accuracy(ROWS, UNEVEN, MORE, MORE_LABELS)  # the queries are clustered
    with pytest.warns(truerank.TruerankWarning, match="random embeddings"):
        result = truerank.evaluate(ROWS, UNEVEN, distance="euclidean", metrics=["nmi", "ami"])
    assert found == {"AMI": result["ami"].value, "NMI": result["nmi"].value}

    def halves(query: Any, count: int) -> Any:
        assert isinstance(query, torch.Tensor)
        assert count == len(np.unique(UNEVEN))
        return (query[:, 0] > 0).long()

    own = AccuracyCalculator(include=("NMI", "AMI"), kmeans_func=halves)
    clusters = ROWS[:, 0] > 0
    expected = {
        "AMI": adjusted_mutual_info_score(UNEVEN, clusters),
        "NMI": normalized_mutual_info_score(UNEVEN, clusters),
    }
    assert own.get_accuracy(ROWS, UNEVEN) == pytest.approx(expected, abs=1e-12)


# -- metrics of a subclass ------------------------------------------------------------------------


class OfLists:
    """Metrics as the original's documentation has them, for either class."""

    def calculate_precision_at_2(self, knn_labels: Any, query_labels: Any, **kwargs: Any) -> float:
        return original.precision_at_k(
            knn_labels,
            query_labels[:, None],
            2,
            self.avg_of_avgs,  # type: ignore[attr-defined]
            self.return_per_class,  # type: ignore[attr-defined]
            self.label_comparison_fn,  # type: ignore[attr-defined]
        )

    def calculate_farthest(self, knn_distances: Any, **kwargs: Any) -> float:
        return float(knn_distances.max())

    def calculate_lone(self, lone_query_labels: Any, label_counts: Any, **kwargs: Any) -> Any:
        return lone_query_labels.tolist(), label_counts[0].tolist(), label_counts[1].tolist()

    def calculate_clusters(self, cluster_labels: Any, reference: Any, **kwargs: Any) -> Any:
        return len(cluster_labels), reference.shape

    def requires_knn(self) -> list[str]:
        return [*super().requires_knn(), "precision_at_2", "farthest", "lone"]  # type: ignore[misc]

    def requires_clustering(self) -> list[str]:
        return [*super().requires_clustering(), "clusters"]  # type: ignore[misc]


class Ours(OfLists, AccuracyCalculator):
    """Both."""


class Theirs(OfLists, original.AccuracyCalculator):
    """Both."""


@pytest.mark.parametrize("k", [None, 20])
def test_metrics_of_a_subclass(k: Any) -> None:
    chosen = ("precision_at_2", "precision_at_1", "farthest", "lone", "clusters")
    search = CustomKNN(LpDistance(normalize_embeddings=False, power=2))
    clustering = {"kmeans_func": lambda x, count: torch.zeros(len(x))}
    ours = Ours(include=chosen, k=k, **clustering)
    assert sorted(ours.get_curr_metrics()) == sorted(chosen)
    theirs = Theirs(include=chosen, k=k, device=CPU, knn_func=search, **clustering)
    for rows in SEARCHES:
        actual, expected = ours.get_accuracy(*rows), theirs.get_accuracy(*rows)
        assert list(actual) == list(expected)
        assert actual.pop("farthest") == pytest.approx(expected.pop("farthest"), rel=1e-6)
        assert actual == expected


def test_a_subclass_with_its_own_idea_of_a_known_metric() -> None:
    class Doubled(AccuracyCalculator):
        def calculate_precision_at_1(self, **kwargs: Any) -> Any:
            return 2 * super().calculate_precision_at_1(**kwargs)

    once = AccuracyCalculator(include=("precision_at_1",)).get_accuracy(ROWS, UNEVEN)
    twice = Doubled(include=("precision_at_1",)).get_accuracy(ROWS, UNEVEN)
    assert twice == {"precision_at_1": 2 * once["precision_at_1"]}


def test_of_equally_near_neighbours_mates_come_last() -> None:
    """So that a metric of one's own is as pessimistic as the others."""
    found = Ours(include=("precision_at_2",)).get_accuracy(np.ones((6, 2)), [0, 0, 0, 1, 1, 1])
    assert found == {"precision_at_2": 0.0}


@pytest.mark.parametrize("options", SHAPES)
def test_functions_by_name(options: dict[str, Any]) -> None:
    """get_function_dict, called with lists of one's own."""
    pytest.importorskip("faiss", reason="the original's default functions need faiss")
    rng = np.random.default_rng(3)
    names = np.arange(5)
    lists = {
        "knn_labels": torch.tensor(rng.integers(0, 5, (12, 6))),
        "query_labels": torch.tensor(rng.integers(0, 5, 12)),
        "label_counts": (torch.tensor(names), torch.tensor([4, 6, 3, 9, 2])),
        "not_lone_query_mask": torch.tensor(rng.random(12) < 0.8),
    }
    ours, theirs = both(include=METRICS, **options)
    functions = ours.get_function_dict(exclude=["r_precision"])
    assert list(functions) == [name for name in METRICS if name != "r_precision"]
    for includes in (False, True):
        arguments = lists | {"ref_includes_query": includes}
        expected = theirs._get_accuracy(theirs.get_function_dict(), **arguments)
        for name, function in ours.get_function_dict().items():
            assert function(**arguments) == pytest.approx(expected[name], abs=1e-6), name


# -- devices --------------------------------------------------------------------------------------


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_gpu() -> None:
    for device in ("cuda", torch.device("cuda:0")):
        for rows in SEARCHES:
            on_cpu = AccuracyCalculator(include=METRICS, device="cpu").get_accuracy(*rows)
            assert AccuracyCalculator(include=METRICS, device=device).get_accuracy(*rows) == on_cpu
            search = CustomKNN(LpDistance(normalize_embeddings=False))
            listed = AccuracyCalculator(include=METRICS, device=device, knn_func=search)
            assert_same(listed.get_accuracy(*rows), on_cpu)
    found = Ours(include=("precision_at_2",), device="cuda").get_accuracy(ROWS, UNEVEN)
    assert found == Ours(include=("precision_at_2",), device="cpu").get_accuracy(ROWS, UNEVEN)


def test_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert AccuracyCalculator().device == CPU
    calculator = AccuracyCalculator(include=METRICS, device=torch.device("cuda:1"))
    assert calculator.device == torch.device("cuda:1")
    with pytest.raises(truerank.InputError, match="device='cuda' cannot be used"):
        calculator.get_accuracy(ROWS, LABELS)


def test_no_function_no_torch(tmp_path: Path) -> None:
    """All seven metrics, from arrays, where torch is not installed."""
    (tmp_path / "torch.py").write_text("raise ImportError('no torch here')\n", encoding="utf-8")
    assert importlib.util.find_spec("torch") is not None
    code = (
        "from truerank.compat import AccuracyCalculator\n"
        "rows = [[0., 1], [0, 2], [5, 0], [6, 0]]\n"
        "found = AccuracyCalculator().get_accuracy(rows, [0, 0, 1, 1])\n"
        "print(len(found), set(found.values()))\n"
    )
    paths = [str(tmp_path), str(Path(truerank.__file__).parents[1])]
    code = f"import sys; sys.path[:0] = {paths!r}\n{code}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.split("\n")[0] == "7 {1.0}", done.stderr
