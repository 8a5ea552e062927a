"""Data with a separate test for each level: scores by level, and their mean, of one model."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tests.datasets import replicas
from tests.quiet import evaluate
from truerank import benchmark, datasets
from truerank._util.errors import InputError
from truerank.benchmark.splits import extract, make_splits
from truerank.benchmark.tasks import score
from truerank.datasets import Dataset
from truerank.result.result import Result

LEVELS = ("coarse", "middle", "fine")
TRAIN = [f"{row}.jpg, {row // 24}, {row // 12}, {row // 3}" for row in range(48)]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    rows = [f"{row}.jpg, {row % 3}" for row in range(12)]
    return replicas.dyml(tmp_path / "dyml", train=TRAIN, query=rows[:5], gallery=rows)


@pytest.fixture
def test(root: Path) -> Dataset:
    whole = datasets.read("dyml-animal-overall", root)
    return extract(whole, make_splits(whole, "classes", 2).test)


def test_each_level_is_scored_on_its_own_test(test: Dataset, root: Path, tmp_path: Path) -> None:
    """As three evaluations of three data sets have it, and the means of these."""
    rows = np.random.default_rng(4).standard_normal((len(test), 5))
    place = dict(zip(test.ids.tolist(), rows, strict=True))  # type: ignore[union-attr]
    expected: dict[str, list[float]] = {"map": [], "asi": [], "hit@1": []}
    for level in LEVELS:
        alone = datasets.read(f"dyml-animal-{level}", root)
        query, gallery = (
            np.array([place[one] for one in alone.subset(side).ids.tolist()])  # type: ignore[union-attr]
            for side in ("query", "gallery")
        )
        result = evaluate(query, gallery=gallery, metrics=list(expected), **alone.task_arguments())
        for metric, values in expected.items():
            values.append(result[metric].value)
    metrics = ["map@level=coarse", "map@level=2", "map", "hit@1,level=3", "auc"]
    means = ["map@level=mean", "asi@level=mean", "hit@1,level=mean"]
    found = score(rows, test, [*metrics, *means], tmp_path, "concat")
    assert [found[one] for one in metrics[:4]] == [*expected["map"], expected["hit@1"][2]]
    for mean, values in zip(means, expected.values(), strict=True):
        assert found[mean] == pytest.approx(math.fsum(values) / 3, abs=1e-15)
    kept = Result.from_json(tmp_path / "concat.json")
    assert (kept["map@level=mean"].n, kept["map@level=2"].n) == (15, 5)
    assert kept["map@level=2"].metric == "map@level=2"


@pytest.mark.parametrize(
    ("metric", "sentence"),
    [
        ("h_ap", r"h_ap needs a tree of labels, .* such as map@level=mean"),
        ("ndcg@5", r"ndcg@5 needs a tree of labels"),
        ("map@level=4", r"map@level=4 needs the test of a level .* coarse, middle, fine"),
        ("map@level=species", r"map@level=species needs the test of a level"),
    ],
)
def test_metrics_that_need_a_tree_are_refused_before_any_training(
    metric: str, sentence: str, root: Path
) -> None:
    settings = [f"protocol.metrics=['{metric}']"]
    config = benchmark.read_config("happier/table-2-dyml-animal", settings, root=root)
    with pytest.raises(InputError, match=sentence):
        benchmark.run(config.model_copy(update={"shared": SMALL}), root / "out")


SMALL = benchmark.BenchmarkConfig.of(
    {"data": {"name": "emoji"}, "shared": {"model": {"trunk": "convnet"}}, "methods": ["triplet"]}
).shared
