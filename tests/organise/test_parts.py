"""The public and the private part of a task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import truerank
from tests.organise.competition import IDS, LABELS, rows
from tests.refusals import assert_refused
from truerank import Task
from truerank.competition.task import divide


def test_the_parts_share_no_class_and_no_row() -> None:
    task = Task(LABELS, ids=IDS)
    public, private = divide(task, 0.4)
    seen = [set(LABELS[part.queries]) for part in (public, private)]
    assert [len(names) for names in seen] == [16, 24] == [public.classes, private.classes]
    assert not seen[0] & seen[1]
    assert sorted([*public.queries, *private.queries]) == list(range(len(LABELS)))
    order = np.random.default_rng(0).permutation(len(LABELS))
    shuffled = Task(LABELS[order], ids=IDS[order])
    shuffled.__dict__["salt"] = task.salt
    assert set(LABELS[order][divide(shuffled, 0.4)[0].queries]) == seen[0]
    assert set(LABELS[divide(Task(LABELS, ids=IDS), 0.4)[0].queries]) != seen[0]


@pytest.mark.parametrize("side", [0, 1])
def test_a_part_scores_as_its_rows_alone_do(side: int) -> None:
    junk = scipy.sparse.random(160, 160, 0.02, rng=1).astype(bool)
    groups_ = np.arange(len(LABELS)) % 3
    task = Task(
        np.stack([[name[:7] for name in LABELS], LABELS], axis=1),
        ids=IDS,
        groups=groups_,
        junk=junk,
    )
    part = divide(task, 0.5)[side]
    order = np.random.default_rng(0).permutation(len(LABELS))
    found = part.evaluate(rows(1.0)[order], IDS[order], metrics=["map@r", "h_ap"])
    some = part.queries
    wanted = truerank.evaluate(
        rows(1.0)[some],
        np.stack([[name[:7] for name in LABELS], LABELS], axis=1)[some],
        query_ids=IDS[some],
        query_groups=groups_[some],
        junk=junk.tocsr()[some][:, some],
        metrics=["map@r", "h_ap"],
    )
    assert found.to_dict()["scores"] == wanted.to_dict()["scores"]


def test_distractors_of_a_gallery_are_in_both_parts() -> None:
    labels = [f"c{number}" for number in range(60)] * 2
    gallery = [*labels, None, *(f"extra{number}" for number in range(10))]
    task = Task(
        labels,
        ids=[f"q{number}" for number in range(len(labels))],
        gallery_labels=gallery,
        gallery_ids=[f"g{number}" for number in range(len(gallery))],
        unlabelled="distractor",
    )
    parts = divide(task, 0.5)
    assert [part.classes for part in parts] == [30, 30]
    assert all(len(labels) in part.items for part in parts)
    both = np.concatenate([part.items for part in parts])
    assert sorted(both) == sorted([*range(len(gallery)), len(labels)])


@pytest.mark.parametrize(
    ("make", "share", "words"),
    [
        (lambda: Task(LABELS), 0.1, ["public part has 4 classes", "need 10"]),
        (lambda: Task(LABELS), 0.9, ["private part has 4 classes"]),
        (lambda: Task(LABELS), 1.0, ["between 0 and 1", "1.0"]),
        (lambda: Task(LABELS), "half", ["between 0 and 1"]),
        (lambda: Task(None, relevance=np.eye(40)), 0.5, ["judgements"]),
    ],
)
def test_tasks_that_cannot_be_divided(
    make: Callable[[], Task], share: Any, words: list[str]
) -> None:
    assert_refused(lambda: divide(make(), share), words)
