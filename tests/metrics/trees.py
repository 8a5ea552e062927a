"""Tiny random tasks with trees and grades, and what their definitions make of them.

They are drawn so that what goes wrong elsewhere is common: ties, duplicates, names that occur
under two parents, levels without items, relevances that coincide or are not monotone, repeated ids,
junk, queries without a mate.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import settings
from hypothesis import strategies as st

import truerank
from tests.oracles import hierarchy, scores, task
from tests.quiet import evaluate
from tests.random_tasks import call_of_evaluate, contains, descriptions, masks, rows_of_vectors

SLOW = settings().max_examples >= 10_000
SINGLE = ["map", "map@r", "hit@1", "precision@2", "recall@2", "r_precision", "mrr", "minp"]
"""Metrics of one level."""
GRADED = ["h_ap", "asi", "ndcg", "ndcg@1", "ndcg@3", "ndcg@gain=linear", *SINGLE]
"""Metrics that are defined on a matrix of grades."""
BOUNDS = ("lower", "expected", "upper")


def metrics_of(depth: int) -> list[str]:
    """What is asked of a tree with this many levels."""
    rising, falling = range(1, depth + 1), range(depth, 0, -1)
    return [
        "h_ap",
        "h_ap@alpha=3",
        "h_ap@alpha=0.5",
        f"h_ap@rel={':'.join(str(v * v + 1) for v in rising)}",
        f"h_ap@rel={':'.join(f'0.{v}' for v in falling)}",
        "sum_wap",
        f"sum_wap@weights={':'.join(map(str, rising))}",
        "asi",
        "ndcg",
        "ndcg@1",
        "ndcg@3",
        "ndcg@gain=linear",
        "ndcg@2,gain=linear",
        *(at_level(name, v) for name in [*SINGLE, "asi"] for v in rising),
        "map",
        "hit@1",
    ]


def at_level(metric: str, level: Any) -> str:
    return f"{metric}{',' if '@' in metric else '@'}level={level}"


@dataclass
class Case:
    """One call of evaluate(); prints as that call."""

    embeddings: np.ndarray
    labels: list[list[Any]] | None
    """A path for each query, coarse to fine; None when the options hold grades."""
    leave_one_out: bool
    options: dict[str, Any] = field(default_factory=dict)

    def evaluate(self, **more: Any) -> truerank.Result:
        return evaluate(self.embeddings, self.labels, **(self.options | more))

    @property
    def depth(self) -> int:
        return hierarchy.GRADED if self.labels is None else len(self.labels[0])

    @property
    def metrics(self) -> list[str]:
        return GRADED if self.labels is None else metrics_of(self.depth)

    @cached_property
    def distances(self) -> list[list[Any]]:
        """To the items that are left of the gallery, for each query."""
        gallery = self.options.get("gallery")
        matrix = scores.distances(
            self.options["distance"],
            self.embeddings.tolist(),
            None if gallery is None else gallery.tolist(),
        )
        return [[row[g] for g in items] for row, items in zip(matrix, self.items, strict=True)]

    @cached_property
    def agreements(self) -> list[list[tuple[bool, ...]]]:
        """In which columns the labels of query and item agree."""
        assert self.labels is not None
        gallery = self.options.get("gallery_labels", self.labels)
        return [
            [hierarchy.agreement(label, gallery[g]) for g in items]
            for label, items in zip(self.labels, self.items, strict=True)
        ]

    @cached_property
    def levels(self) -> list[list[int]]:
        """The levels or the grades of the items that are left."""
        if self.labels is None:
            grades = self.options["relevance"].astype(int).tolist()
            return [[row[g] for g in items] for row, items in zip(grades, self.items, strict=True)]
        return [[hierarchy.level(agreed) for agreed in row] for row in self.agreements]

    def question(self, metric: str) -> tuple[str, int, list[list[int]]]:
        """What the metric asks of an order, on how many levels, and each item's level there.

        Tree metrics go by the common path; those of one level by that column alone, by default
        the finest.
        """
        name, options = hierarchy.parse(metric)
        if self.labels is None or (name in hierarchy.DEFINITIONS and "level" not in options):
            return metric, self.depth, self.levels
        column = int(options.pop("level", self.depth)) - 1
        return (
            hierarchy.text(name, options),
            1,
            [[int(agreed[column]) for agreed in row] for row in self.agreements],
        )

    @cached_property
    def items(self) -> list[list[int]]:
        """What is left of the gallery for each query; junk goes by the finest label."""

        def finest(labels: list[list[Any]] | None) -> list[Any] | None:
            return None if labels is None else [label[-1] for label in labels]

        described = {
            name: self.options[name]
            for name in (
                "query_ids",
                "gallery_ids",
                "query_groups",
                "gallery_groups",
                "junk",
                "junk_labels",
                "relevance",
            )
            if name in self.options
        }
        queries = task.queries(
            finest(self.labels),
            finest(self.options.get("gallery_labels", self.labels)),
            **described,
            leave_one_out=self.leave_one_out,
        )
        return [query.items for query in queries]

    def __repr__(self) -> str:
        return call_of_evaluate(self.embeddings, self.labels, self.options)


# --- drawing tasks --------------------------------------------------------------------------------


def paths(depth: int) -> st.SearchStrategy[list[list[Any]]]:
    """A few paths through a tree, whose names repeat under different parents."""
    kinds = [["a", "b", "c"], [3, 4, 5], [-1, 2**53, 2**53 + 1]]  # 0 and 1 could look one-hot
    columns = st.lists(st.sampled_from(kinds), min_size=depth, max_size=depth)
    return columns.flatmap(
        lambda names: st.lists(
            st.tuples(*(st.sampled_from(column) for column in names)).map(list),
            min_size=1,
            max_size=5,
        )
    )


@st.composite
def cases(draw: st.DrawFn, depth: int, distance: str) -> Case:
    """A task with a tree of this many levels; none at all for one with grades."""
    graded = depth == hierarchy.GRADED
    given = distance == "precomputed"
    # Only labels can say that the rows and the columns of a matrix are the same items.
    leave_one_out = draw(st.booleans()) and not (graded and given)
    rows = draw(st.integers(3, 7 if leave_one_out else 4))
    columns = rows if leave_one_out else draw(st.integers(3, 6))
    options: dict[str, Any] = {"distance": distance}

    if given:
        row = st.lists(st.sampled_from([0.25, 0.5, 0.1]), min_size=columns, max_size=columns)
        embeddings = np.array(draw(st.lists(row, min_size=rows, max_size=rows)))
    elif leave_one_out:
        [embeddings] = draw(rows_of_vectors([rows], distance))
    else:
        embeddings, options["gallery"] = draw(rows_of_vectors([rows, columns], distance))

    def one_per_item(name: str, value: st.SearchStrategy[Any]) -> None:
        options.update(draw(descriptions(name, value, rows, None if leave_one_out else columns)))

    labels = None
    if graded:
        grade = draw(st.sampled_from([[0, 1], [0, 1, 2], [0, 0, 1, 3, 7]]))
        row = st.lists(st.sampled_from(grade), min_size=columns, max_size=columns)
        matrix = draw(st.lists(row, min_size=rows, max_size=rows))
        options["relevance"] = np.array(
            matrix, draw(st.sampled_from(["int64", "uint8", "float64"]))
        )
    else:
        one_per_item("labels", st.sampled_from(draw(paths(depth))))
        labels = options.pop("query_labels")
        if draw(st.integers(0, 2)) == 0:
            one_per_item("groups", st.integers(0, 1))
        # Something has to be left: labels that would make the whole gallery junk are refused.
        finest = {path[-1] for path in options.get("gallery_labels", labels)}
        if len(finest) > 1 and draw(st.integers(0, 3)) == 0:
            options["junk_labels"] = [draw(st.sampled_from(sorted(finest)))]
    if draw(st.integers(0, 2)) == 0:
        one_per_item("ids", st.integers(0, 4))
    elif "gallery" in options and contains(options["gallery"], embeddings):
        # Refused without ids: the gallery contains the queries.
        options["query_ids"] = list(range(rows))
        options["gallery_ids"] = list(range(rows, rows + columns))
    if draw(st.integers(0, 2)) == 0:
        options["junk"] = draw(masks(rows, columns))
    options["unmated"] = draw(st.sampled_from(["report", "report", "zero"]))
    return Case(embeddings, labels, leave_one_out, options)


def as_tree(case: Case) -> Case:
    """The same task under names of which each has one parent: the paths themselves."""

    def named(labels: list[list[Any]]) -> list[list[str]]:
        return [[repr(path[: v + 1]) for v in range(len(path))] for path in labels]

    assert case.labels is not None
    options = dict(case.options)
    if "gallery_labels" in options:
        options["gallery_labels"] = named(options["gallery_labels"])
    options.pop("junk_labels", None)
    return Case(case.embeddings, named(case.labels), case.leave_one_out, options)


def bits(result: truerank.Result) -> dict[str, list[bytes]]:
    """Everything numeric about the scores of a result, bit for bit."""
    return {
        name: [
            struct.pack("<d", math.nan if value is None else value)
            for value in (score.value, *(getattr(score, b) for b in BOUNDS), score.chance, score.n)
        ]
        + [getattr(score.per_query, b).tobytes() for b in BOUNDS if score.per_query is not None]
        for name, score in result.items()
    }


# --- a tree of eight points -----------------------------------------------------------------------
TREE = pd.DataFrame(
    {
        "order": ["birds", "birds", "birds", "birds", "bats", "bats", "bats", "bats"],
        "Genus": ["Corvus", "Corvus", "Pica", "Pica", "Myotis", "Myotis", "Nyctalus", "Nyctalus"],
        "species": ["corax", "corax", "pica", "pica", "blythii", "blythii", "noctula", "noctula"],
    }
)
POINTS = np.random.default_rng(2).standard_normal((8, 3))
