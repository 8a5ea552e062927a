"""The item found first: as a sorted row of plain distances has it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.engine.cuda.devices import pretend
from tests.files.samples import EMBEDDINGS, GROUPS, IDS, LABELS, ROWS
from truerank.engine.cuda import front
from truerank.evaluation.evaluate import evaluate_task
from truerank.evaluation.task_input import prepare

CASES: dict[str, dict[str, Any]] = {
    "leave-one-out": {},
    "ids": {"query_ids": IDS},
    "cameras": {"query_groups": GROUPS},
    "gallery": {"gallery": EMBEDDINGS[::3] + 0.25, "gallery_labels": LABELS[::3]},
    "junk labels": {"junk_labels": ["0001", "0005"]},
}


@pytest.mark.parametrize("distance", ["euclidean", "cityblock"])
@pytest.mark.parametrize("device", ["cpu", "reference", "cuda", "pretended"])
@pytest.mark.parametrize("case", CASES)
def test_the_nearest_item_that_may_be_found(
    case: str, device: str, distance: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = CASES[case]
    if device == "pretended":
        pretend(monkeypatch)
        device = "cuda"
    elif device == "cuda" and front.unavailable() is not None:
        pytest.skip("no CUDA device")
    task, rows, items = prepare(EMBEDDINGS, LABELS, distance=distance, **options)
    result = evaluate_task(task, rows, items, distance=distance, device=device, first_found=True)
    found = result.queries()
    gallery = rows if items is None else items
    gallery_labels = options.get("gallery_labels", LABELS)
    cameras = GROUPS.copy()
    power = 2 if distance == "euclidean" else 1
    for query in range(ROWS):
        apart = (np.abs(rows[query] - gallery) ** power).sum(axis=1)
        never = np.isin(gallery_labels, options.get("junk_labels", []))
        same = np.array(gallery_labels) == LABELS[query]
        if items is None:
            never[query] = True
        if "query_ids" in options:
            never |= np.array(IDS) == IDS[query]
        if "query_groups" in options:
            never |= same & (cameras == cameras[query])
        apart[never] = np.inf
        nearest = np.flatnonzero(apart == apart.min())
        wrong = nearest[~same[nearest]]
        wanted = int(wrong[0] if len(wrong) else nearest[0])
        assert found["found"][query] == wanted
        assert found["found_label"][query] == gallery_labels[wanted]
        assert found["found_distance"][query] == pytest.approx(apart[wanted] ** (1 / power))
    if "query_ids" in options:
        assert found["found_id"] == [IDS[item] for item in found["found"]]
    if "query_groups" in options:
        assert found["found_group"] == [GROUPS[item] for item in found["found"]]
    hits = [a == b for a, b in zip(found["label"], found["found_label"], strict=True)]
    scored = result["precision@1"].per_query.lower
    assert np.array_equal(np.array(hits)[scored == scored], scored[scored == scored] == 1)


def test_who_has_no_candidates_finds_nothing() -> None:
    junk = np.zeros((4, 4), bool)
    junk[0] = True
    task, rows, items = prepare(np.eye(4), [0, 0, 1, 1], junk=junk)
    found = evaluate_task(task, rows, items, first_found=True).queries()
    assert found["found"][0] is found["found_label"][0] is found["found_distance"][0] is None
    assert found["found"][1] == 2
