"""What the sections of a page are made of, against plain loops over all pairs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import truerank
from tests.report.pages import hierarchy, leave_one_out, open_set
from truerank.report.details import look
from truerank.report.page import file_name, shortened
from truerank.report.results import in_words


def details_of(arguments: dict[str, Any]) -> tuple[Any, Any]:
    result = truerank.evaluate(**arguments, metrics=["map@r", "hit@1"], confidence=None)
    details = look(result)
    assert details is not None
    return result, details


def cosine_distances(rows: np.ndarray) -> np.ndarray:
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return 1 - units @ units.T


def test_confused_classes_are_counted() -> None:
    arguments = hierarchy(noise=2.0)
    _, details = details_of(arguments)
    distances = cosine_distances(arguments["embeddings"])
    np.fill_diagonal(distances, np.inf)
    fine = arguments["labels"][:, -1]
    found = fine[distances.argmin(axis=1)]
    wrong = Counter((a, b) for a, b in zip(fine, found, strict=True) if a != b)
    listed = {(row[0], row[1]): row[2] for row in details["confusions"]["rows"]}
    assert listed == wrong
    times = [row[2] for row in details["confusions"]["rows"]]
    assert times == sorted(times, reverse=True)
    assert details["confusions"]["errors"] == sum(wrong.values())
    assert details["confusions"]["pairs"] == len(wrong)
    assert all(row[3] == 5 for row in details["confusions"]["rows"])
    assert details["confusions"]["classes"] == [[name, 5] for name in sorted(set(fine.tolist()))]
    for row, (query, item) in zip(
        details["confusions"]["rows"], details["confusions"]["examples"], strict=False
    ):
        assert [fine[query["row"]], fine[item["row"]]] == row[:2]
        assert distances[query["row"]].argmin() == item["row"]


def test_worst_and_best_queries_with_their_neighbours() -> None:
    arguments = hierarchy(noise=2.0)
    result, details = details_of(arguments)
    ranked = details["ranked"]
    values = result["map@r"].per_query.lower
    assert ranked["metric"] == "map@r"
    zeros = [one["label"] for one in ranked["worst"] if one["value"] == 0]
    assert len(zeros) > 2
    assert len(set(zeros)) == len(zeros)  # one of each class before a second of any
    worst = [one["value"] for one in ranked["worst"]]
    assert worst == np.sort(values)[:8].tolist()
    assert [one["value"] for one in ranked["best"]] == np.sort(values)[::-1][:8].tolist()
    distances = cosine_distances(arguments["embeddings"])
    np.fill_diagonal(distances, np.inf)
    labels = arguments["labels"]
    for query in ranked["worst"] + ranked["best"]:
        row = query["row"]
        order = np.argsort(distances[row])
        assert [one["row"] for one in query["neighbours"]] == order[:9].tolist()
        near = [one["distance"] for one in query["neighbours"]]
        np.testing.assert_allclose(near, distances[row][order[:9]], atol=1e-6)
        for one in query["neighbours"]:
            same = labels[row] == labels[one["row"]]
            expected = "right" if same[2] else "2" if same[1] else "1" if same[0] else None
            assert one["shares"] == expected
        mates = labels[order, 2] == labels[row, 2]
        assert query["first_mate"] == int(np.flatnonzero(mates)[0]) + 1
        assert query["first"]["row"] == order[query["first_mate"] - 1]
        assert query["mates"] == 4


def test_tied_items_that_are_wrong_stand_first() -> None:
    rows = np.array([[1.0, 0], [0, 1], [0, 1], [0, 1], [1, 1]])
    result = truerank.evaluate(rows, [0, 0, 1, 1, 1], metrics=["map@r"], confidence=None)
    details = look(result)
    query = next(one for one in details["ranked"]["worst"] if one["row"] == 0)
    assert [one["row"] for one in query["neighbours"]] == [4, 2, 3, 1]


def test_queries_never_meet_what_is_excluded() -> None:
    arguments = open_set()
    _, details = details_of(arguments)
    for query in details["ranked"]["worst"]:
        assert query["id"] == f"q{query['row']}"
        for one in query["neighbours"]:
            assert one["id"] == f"g{one['row']}"
            assert one["label"] == arguments["gallery_labels"][one["row"]]
            assert one["group"] == arguments["gallery_groups"][one["row"]]


def test_rows_lie_on_their_principal_axes() -> None:
    arguments = hierarchy()
    _, details = details_of(arguments)
    rows = arguments["embeddings"]
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    found = details["map"]
    assert found["rows"] == list(range(180))
    places, spread, _ = np.linalg.svd(units - units.mean(axis=0), full_matrices=False)
    share = spread**2 / (spread**2).sum()
    np.testing.assert_allclose(found["share"], share[:2], atol=1e-5)
    for axis, name in enumerate("xy"):
        expected = places[:, axis] * spread[axis]
        turned = np.sign(expected @ np.array(found[name]))
        scale = np.abs(places[:, :2] * spread[:2]).max()
        np.testing.assert_allclose(found[name], turned * expected / scale, atol=2e-4)
        assert max(found[name]) >= -min(found[name])


def test_a_map_of_many_rows_shows_some(monkeypatch: pytest.MonkeyPatch) -> None:
    from truerank.report import details

    monkeypatch.setattr(details, "MOST_POINTS", 50)
    _, found = details_of(hierarchy())
    rows = found["map"]["rows"]
    assert len(rows) == len(found["map"]["x"]) == 50
    assert (rows[0], rows[-1]) == (0, 179)
    assert set(np.diff(rows)) == {3, 4}


def test_the_worst_queries_are_of_all_kinds() -> None:
    """Of queries with one score, the coarsest classes take turns."""
    rng = np.random.default_rng(0)
    kinds = np.repeat(["animal", "food", "plant"], [60, 10, 10])
    labels = np.stack([kinds, [f"{kind} {n // 2}" for n, kind in enumerate(kinds)]], axis=1)
    arguments = {"embeddings": rng.normal(size=(80, 16)), "labels": labels}
    result, details = details_of(arguments)
    assert (result["map@r"].per_query.lower == 0).sum() > 60
    worst = details["ranked"]["worst"]
    assert {one["value"] for one in worst} == {0.0}
    assert sorted(Counter(one["label"].split()[0] for one in worst).values()) == [2, 3, 3]
    ranks = [one["first_mate"] for one in worst]
    assert ranks == sorted(ranks, reverse=True)


def test_ties_are_where_they_are() -> None:
    rows = np.zeros((30, 4))
    result = truerank.evaluate(rows, np.arange(30) // 3, metrics=["map@r"], confidence=None)
    assert look(result)["ties"]["tied"] == 1.0
    rows = np.random.default_rng(0).normal(size=(30, 4))
    result = truerank.evaluate(rows, np.arange(30) // 3, metrics=["map@r"], confidence=None)
    assert look(result)["ties"]["tied"] == 0.0
    arguments = leave_one_out()
    _, details = details_of(arguments)
    distances = cosine_distances(arguments["embeddings"]).round(9)
    tied = met = 0
    for row, others in enumerate(distances):
        ranked = np.delete(others, row)
        times = Counter(ranked.tolist())
        tied += sum(count for count in times.values() if count > 1)
        met += len(ranked)
    assert details["ties"]["tied"] == pytest.approx(tied / met, abs=1e-9)


def test_many_classes_are_cut_to_the_worst(monkeypatch: pytest.MonkeyPatch) -> None:
    from truerank.report import results as single

    monkeypatch.setattr(single, "MOST_ROWS", 10)
    result = truerank.evaluate(**hierarchy(noise=2.0), metrics=["map@r"], confidence=None)
    classes = single.model_data(result, "x")["parts"][0]
    assert len(classes["rows"]) == 10
    assert classes["note"] == "The 10 of 36 that are worst in MAP@R."
    values = sorted(part["map@r"].value for part in result.by("label").values())
    assert [f"{row[2]:.4f}" for row in classes["rows"]] == [f"{v:.4f}" for v in values[:10]]


@pytest.mark.parametrize("value", [1 / 3, 0.12344999999, 0.00005, 0.999995, 1 / 32, 0.1 + 0.2])
def test_shortened_shares_print_alike(value: float) -> None:
    short = shortened(value)
    assert f"{100 * short:.2f}" == f"{100 * value:.2f}"
    assert len(repr(short)) <= len(repr(value))


def test_names_of_files_are_plain() -> None:
    assert file_name('<img src=x onerror="1">/../../etc') == "img-src-x-onerror-1-etc.csv"
    assert file_name("日本") == "table.csv"


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        ("hit@1", "How often the nearest item is relevant."),
        ("map", "How early all relevant items are found."),
        (
            "dir@far=0.01",
            "Relevant item found first and accepted at 1 % false accepts of unmated queries.",
        ),
        (
            "mrep@far=0.01",
            "Ranking and accepting at once, at 1 % false accepts of unmated queries.",
        ),
        ("mrep", "Ranking and accepting at once, over all thresholds."),
        ("precision@1,level=1", "How often the nearest item is relevant (level 1 of the labels)."),
        ("ttr@tau=0.5", "Share of mated queries that have any item accepted, the right one "
         "or not."),
    ],
)  # fmt: skip
def test_every_metric_has_plain_words(metric: str, words: str) -> None:
    assert in_words(metric) == words
