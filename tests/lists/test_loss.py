"""index_loss on tiny random tasks, against every order that vectors, cut and lists allow."""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import truerank
from tests.engine.cuda.devices import pretend
from tests.oracles import hierarchy, ranking
from tests.oracles import lists as oracle
from tests.refusals import refused
from tests.rounding import ulps
from truerank.engine.cuda import front

FLAT = ["map", "map@r", "mrr", "minp", "hit@2", "precision@3", "bpref", "r_precision"]
GRADED = ["map", "ndcg", "asi", "hit@1"]
EXAMPLES = 1_000 if settings().max_examples >= 10_000 else 60
ENDS = ("lower", "expected", "upper")


@dataclass
class Case:
    """Points on a line, as they are and as an index stores them, and what it returned."""

    queries: list[int]
    gallery: list[int] | None
    labels: list[str] | None
    gallery_labels: list[str] | None
    relevance: list[list[int]] | None
    stored: list[int] | None
    lists: list[list[int]]
    k: int

    @property
    def items(self) -> list[int]:
        return self.queries if self.gallery is None else self.gallery

    @property
    def metrics(self) -> list[str]:
        return FLAT if self.relevance is None else GRADED

    def loss(self, **options: Any) -> truerank.IndexLoss:
        column = {
            name: None if value is None else np.array(value, np.float32)[:, None]
            for name, value in (("gallery", self.gallery), ("stored", self.stored))
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", truerank.TruerankWarning)
            return truerank.index_loss(
                self.lists,
                self.labels,
                embeddings=np.array(self.queries, np.float32)[:, None],
                gallery_labels=self.gallery_labels,
                relevance=None if self.relevance is None else np.array(self.relevance),
                distance="euclidean",
                metrics=self.metrics,
                k=self.k,
                device="cpu",
                **column,
                **options,
            )

    def level(self, query: int, item: int) -> int:
        if self.relevance is not None:
            return self.relevance[query][item]
        assert self.labels is not None
        others = self.labels if self.gallery_labels is None else self.gallery_labels
        return int(self.labels[query] == others[item])

    def never(self, query: int, item: int) -> bool:
        return self.gallery is None and query == item

    def steps(self, query: int, metric: str) -> list[ranking.Triple] | None:
        """The metric by full vectors, by stored ones, cut, and of the list."""
        able = [item for item in range(len(self.items)) if not self.never(query, item)]
        levels = [self.level(query, item) for item in able]
        if not any(levels):
            return None
        depth = hierarchy.GRADED if self.relevance is not None else 1
        kept = self.items if self.stored is None else self.stored
        full, stored = (
            [abs(self.queries[query] - points[item]) for item in able]
            for points in (self.items, kept)
        )
        row = self.lists[query]
        out = sum(0 <= item < len(self.items) and self.never(query, item) for item in row)
        places = max(map(len, self.lists)) - out
        distances = [
            abs(self.queries[query] - kept[item]) if 0 <= item < len(kept) else None for item in row
        ]
        judged = oracle.judge(
            row,
            distances,
            range(len(self.items)),
            lambda item: self.never(query, item),
            lambda item: self.level(query, item),
        )
        found = [
            hierarchy.triple(metric, depth, full, levels),
            hierarchy.triple(metric, depth, stored, levels),
            oracle.cut(metric, depth, stored, levels, places),
            judged.triple(metric, depth),
        ]
        return [one for one in found if one is not None]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    alone, graded = draw(st.booleans()), draw(st.booleans())
    queries = draw(st.integers(1, 4))
    items = queries if alone and not graded else draw(st.integers(1, 6))

    def several(values: Any, number: int) -> Any:
        return draw(st.lists(values, min_size=number, max_size=number))

    point, label = st.integers(0, 4), st.sampled_from("ab")
    alone = alone and not graded
    cell = st.sampled_from([*range(items), *range(items), -1, 77])
    width = draw(st.integers(1, 5))
    return Case(
        several(point, queries),
        None if alone else several(point, items),
        None if graded else several(label, queries),
        None if alone or graded else several(label, items),
        several(st.lists(st.sampled_from([0, 0, 1, 2]), min_size=items, max_size=items), queries)
        if graded
        else None,
        draw(st.none() | st.lists(point, min_size=items, max_size=items)),
        several(st.lists(cell, min_size=width, max_size=width), queries),
        draw(st.integers(1, 6)),
    )


def check(case: Case) -> None:
    loss = case.loss()
    for metric in case.metrics:
        one = loss[metric]
        scores = (one.full, one.stored, one.at_k, one.returned)
        counted = 0
        for query in range(len(case.queries)):
            steps = case.steps(query, metric)
            if steps is None:
                assert all(math.isnan(score.per_query.lower[query]) for score in scores)
                continue
            counted += 1
            for score, exact in zip(scores, steps, strict=True):
                actual = [float(getattr(score.per_query, end)[query]) for end in ENDS]
                said = f"{metric}, query {query}: {actual} is not {[float(e) for e in exact]}"
                assert all(ulps(a, e) <= 4 for a, e in zip(actual, exact, strict=True)), said
        if counted:
            check_sums(one)


def check_sums(one: Any) -> None:
    """The parts add up without any rounding, as a whole and for every query."""
    for end in ENDS:
        of = [Fraction(getattr(s, end)) for s in (one.full, one.stored, one.at_k, one.returned)]
        parts = [of[0] - of[1], of[1] - of[2], of[2] - of[3]]
        for part, exact in zip((one.quantisation, one.cut, one.search), parts, strict=True):
            assert getattr(part, end) == float(exact)
        assert sum(parts) == of[0] - of[3]
        assert getattr(one.total, end) == float(of[0] - of[3])
        rows = [getattr(part.per_query, end) for part in (one.quantisation, one.cut, one.search)]
        np.testing.assert_allclose(
            np.sum(rows, axis=0), getattr(one.total.per_query, end), atol=1e-15, rtol=0
        )


@pytest.mark.thorough
@settings(max_examples=EXAMPLES)
@given(cases())
def test_every_order_and_the_parts_add_up(case: Case) -> None:
    check(case)


@pytest.mark.thorough
@settings(max_examples=EXAMPLES)
@given(cases())
def test_neighbour_recall_against_every_choice_of_nearest_items(case: Case) -> None:
    loss = case.loss(confidence=None)
    for recall, points in (
        (loss.full_recall, case.items),
        (loss.stored_recall, case.stored or case.items),
    ):
        assert recall.k == case.k
        for query in range(len(case.queries)):
            able = [item for item in range(len(case.items)) if not case.never(query, item)]
            distances = {item: abs(case.queries[query] - points[item]) for item in able}
            listed = [
                item
                for item in case.lists[query]
                if item != -1 and not (0 <= item < len(case.items) and case.never(query, item))
            ]
            exact = oracle.neighbour_recall(listed, distances, case.k)
            actual = recall.per_query[query]
            assert math.isnan(actual) if exact is None else actual == float(exact)


def _blobs(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    labels = np.repeat(np.arange(40), 6)
    rows = 1.5 * random.standard_normal((40, 8))[labels] + random.standard_normal((240, 8))
    return rows.astype(np.float32), labels


def test_a_flat_index_loses_nothing_but_the_cut() -> None:
    rows, labels = _blobs()
    distances = ((rows[:, None].astype(float) - rows) ** 2).sum(axis=2)
    lists = np.argsort(distances, axis=1, kind="stable")[:, :10]
    loss = truerank.index_loss(
        lists, labels, embeddings=rows, distance="euclidean", metrics=["map", "hit@5"]
    )
    assert not loss.provenance["quantised"]
    assert loss["map"].quantisation.value == 0.0
    assert loss["map"].search.value == loss["map"].search.upper == 0.0
    assert loss["map"].cut.value > 0 > loss["map"].cut.upper
    assert loss["hit@5"].cut.value == 0.0
    low, high = loss["map"].cut.interval
    assert low < loss["map"].cut.value < high
    assert loss["map"].quantisation.interval is None
    assert loss.full_recall.value == loss.stored_recall.value == 1.0
    assert loss.full_recall.k == 9  # the query itself had one of the ten places
    whole = truerank.evaluate(rows, labels, distance="euclidean", metrics=["map", "hit@5"])
    assert loss["map"].full.value == whole["map"].value
    returned = truerank.evaluate_lists(lists, labels, metrics="map")
    assert loss["map"].returned.value == returned["map"].value
    assert loss["map"].returned.interval == returned["map"].interval


def test_intervals_hold_the_difference_of_fresh_classes_as_a_paired_bootstrap_says() -> None:
    """Against a bootstrap written out: classes drawn, differences averaged over their queries."""
    rows, labels = _blobs(3)
    stored = np.round(rows * 0.7)
    distances = ((rows[:, None].astype(float) - stored) ** 2).sum(axis=2)
    lists = np.argsort(distances, axis=1, kind="stable")[:, :12]
    loss = truerank.index_loss(
        lists, labels, embeddings=rows, stored=stored, distance="euclidean", metrics="map@r"
    )["map@r"]
    differences = loss.quantisation.per_query.lower
    random = np.random.default_rng(1)
    means = []
    for _ in range(2000):
        drawn = random.integers(0, 40, 40)
        means.append(np.mean([differences[labels == one] for one in drawn]))
    error = np.std(means) * math.sqrt(40 / 39)
    low, high = loss.quantisation.interval
    assert loss.quantisation.value > 0
    assert (high - low) / 2 == pytest.approx(2.0227 * error, rel=0.08)  # t with 39 degrees


def test_codes_and_their_own_distance() -> None:
    """Signs of the components by Hamming distance, queries included: ties everywhere."""
    rows, labels = _blobs(2)
    codes = (rows > 0).astype(np.uint8)
    distances = (codes[:, None] != codes).sum(axis=2)
    lists = np.argsort(distances, axis=1, kind="stable")[:, :8]
    loss = truerank.index_loss(
        lists,
        labels,
        embeddings=rows,
        stored=codes,
        stored_queries=codes,
        stored_distance="hamming",
        metrics=["map@r", "mrr"],
    )
    one = loss["map@r"]
    assert one.stored.lower < one.stored.expected < one.stored.upper
    assert one.at_k.lower <= one.returned.lower
    assert loss.stored_recall.value == 1.0
    assert loss.full_recall.value < 1.0
    assert "stored ones by hamming" in "".join(loss.notes)


@pytest.mark.parametrize("device", ["reference", "cuda", "pretended"])
def test_the_same_bits_on_every_device(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if device == "cuda" and front.unavailable() is not None:
        pytest.skip("no CUDA device")
    rows, labels = _blobs(6)
    tree = np.column_stack([labels // 8, labels])
    stored = np.round(rows)  # with ties at the cut
    lists = np.argsort(((rows[:, None] - stored) ** 2).sum(axis=2), axis=1)[:, :7]
    options: dict[str, Any] = {
        "embeddings": rows,
        "stored": stored,
        "distance": "euclidean",
        "metrics": ["map", "mrr", "h_ap", "ndcg"],
    }
    usual = truerank.index_loss(lists, tree, device="cpu", **options)
    if device == "pretended":
        pretend(monkeypatch)
        device = "cuda"
    found = truerank.index_loss(lists, tree, device=device, **options)
    assert found.to_dict()["losses"] == usual.to_dict()["losses"]
    assert found.to_dict()["neighbour_recall"] == usual.to_dict()["neighbour_recall"]


def test_without_labels_there_is_neighbour_recall() -> None:
    rows, labels = _blobs(8)
    lists = np.argsort(-(rows @ rows.T), axis=1)[:, :10]
    lists[::2, 3:] = -1
    options: dict[str, Any] = {"embeddings": rows, "stored": np.round(rows), "distance": "dot"}
    bare = truerank.index_loss(lists, **options)
    full = truerank.index_loss(lists, labels, **options)
    assert len(bare) == 0
    assert bare.full_recall.k == full.full_recall.k == 9
    assert bare.full_recall.value == full.full_recall.value < 1.0
    assert bare.stored_recall.value == full.stored_recall.value
    assert bare.full_recall.interval is not None  # over queries, where there are no classes
    assert str(bare).startswith("In percent; without labels there are no metrics.")
    assert json.loads(bare.to_json())["losses"] == {}
    other = truerank.index_loss(lists, gallery=rows, **options)
    assert other.full_recall.k == 10  # no row is itself: nothing says so
    with refused("labels are missing: pass labels or relevance= to have metrics"):
        truerank.index_loss(lists, metrics="map", **options)


def test_levels_classes_and_no_mates() -> None:
    rows, labels = _blobs(4)
    tree = np.column_stack([labels // 4, labels])
    tree[-1] = 99
    lists = np.argsort(-(rows @ rows.T), axis=1)[:, :15]
    loss = truerank.index_loss(
        lists,
        tree,
        embeddings=rows,
        stored=np.round(rows),
        metrics=["h_ap", "map@level=mean", "hit@1"],
        average="class",
        unmated="zero",
    )
    assert loss["map@level=mean"].total.value == (
        loss["map@level=mean"].full.value - loss["map@level=mean"].returned.value
    )
    assert loss["hit@1"].full.n == 240
    assert loss["h_ap"].quantisation.reason is not None  # 11 classes of the coarsest level
    assert loss["hit@1"].quantisation.interval is not None


def test_what_it_prints_and_writes(tmp_path: Any) -> None:
    rows, labels = _blobs(5)
    lists = np.argsort(-(rows @ rows.T), axis=1)[:, :10]
    seen: list[tuple[int, int]] = []
    loss = truerank.index_loss(
        lists,
        labels,
        embeddings=rows,
        stored=np.round(rows),
        metrics=["hit@1", "map"],
        progress=lambda done, whole: seen.append((done, whole)),
    )
    assert seen == sorted(seen)
    assert seen[-1][0] == seen[-1][1]
    text = str(loss)
    assert text.splitlines()[0].split()[:2] == ["metric", "bound"]
    assert "neighbour_recall@9 against exact search by the full vectors" in "".join(loss.notes)
    assert loss.to_markdown().startswith("| metric | bound | full | quantisation |")
    assert loss.to_latex().startswith("\\begin{tabular}")
    assert "<table" in loss._repr_html_()
    assert loss.to_csv().splitlines()[0] == "metric,step,bound,value,interval_low,interval_high"
    data = json.loads(loss.to_json(tmp_path / "loss.json"))
    assert data == json.loads((tmp_path / "loss.json").read_text())
    assert data["losses"]["map"]["cut"]["lower"] == loss["map"].cut.value
    assert len(data["losses"]["map"]["search"]["per_query"]["lower"]) == 240
    assert "per_query" not in loss.to_json(per_query=False)
    with pytest.raises(KeyError, match="was not computed"):
        loss["mrr"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"distance": "precomputed"}, "'distance' parameter of index_loss must be one of cosine"),
        ({"stored_distance": "near"}, "'stored_distance' parameter of index_loss must be one of"),
        ({"k": 0}, "The 'k' parameter must be an int >= 1"),
        ({"stored": np.zeros((3, 2))}, "the gallery has 3 rows but there are 4"),
        ({"stored": np.zeros((4, 3))}, "must have the same number of dimensions"),
        ({"embeddings": np.zeros((3, 2))}, "embeddings have 3 rows but there are 4 labels"),
        ({"metrics": "auc"}, "auc is no ranking metric"),
        ({"gallery": np.zeros((4, 2))}, "a gallery came without gallery_labels"),
        ({"gallery_labels": list("aabb")}, "gallery_labels came without a gallery"),
    ],
)
def test_what_is_refused(options: dict[str, Any], words: str) -> None:
    with refused(words):
        truerank.index_loss(
            [[1], [0], [3], [2]],
            list("aabb"),
            **({"embeddings": np.eye(4, 2), "metrics": "mrr"} | options),
        )
