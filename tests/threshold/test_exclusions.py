"""Ids, cameras, junk and judgements in choosing a threshold: a full matrix and masks by hand.

A pair is (query, item); what is excluded is no pair. The threshold at a FAR of f lets
r = floor(f N) of N negatives in and is the largest distance below that of the next one.
"""

from __future__ import annotations

import json
import warnings
from fractions import Fraction
from math import floor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import truerank
from tests.cli.driving import run

Set = dict[str, Any]
MARGIN = 1e-9
"""What numpy's distances of one pair in both orders may differ by."""


def people(seed: int) -> Set:
    """Sixty people seen by four cameras, with crops that share an id, and some junk (-1)."""
    rng = np.random.default_rng(seed)
    centres, marks = rng.normal(size=(60, 16)), 0.7 * rng.normal(size=(4, 16))
    label, camera = rng.integers(60, size=360), rng.integers(4, size=360)
    rows = centres[label] + marks[camera] + 0.55 * rng.normal(size=(360, 16))
    twice = rng.integers(360, size=30)
    rows[:30] = rows[twice] + 0.01 * rng.normal(size=(30, 16))
    label[:30], camera[:30] = label[twice], (camera[twice] + 1) % 4
    number = np.arange(360)
    number[:30] = twice
    label = np.where(rng.random(360) < 0.06, -1, label)
    return {"rows": rows, "label": label, "camera": camera, "id": number}


def split(one: Set) -> tuple[Set, Set]:
    """Queries, and a gallery that knows forty of the people; some items are queries as well."""
    query = np.arange(360) % 2 == 0
    query &= one["label"] != -1
    known = (~query | (np.arange(360) % 16 == 0)) & (one["label"] < 40)
    return ({k: v[some] for k, v in one.items()} for some in (query, known))  # type: ignore[return-value]


def distances(rows: np.ndarray, items: np.ndarray) -> np.ndarray:
    one, other = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (rows, items))
    return np.asarray(1 - one @ other.T)


def masks(query: Set, item: Set, rules: set[str]) -> tuple[np.ndarray, np.ndarray]:
    """What is compared, and what of it is relevant."""
    same = query["label"][:, None] == item["label"][None, :]
    compared = np.ones(same.shape, bool)
    if query is item:
        np.fill_diagonal(compared, False)
    if "ids" in rules:
        compared &= query["id"][:, None] != item["id"][None, :]
    if "groups" in rules:
        compared &= ~(same & (query["camera"][:, None] == item["camera"][None, :]))
    if "junk_labels" in rules:
        compared &= (item["label"] != -1)[None, :]
    return compared, compared & same


def threshold_of(negatives: np.ndarray, every: np.ndarray, far: str) -> float:
    """The threshold of a FAR by the rule, of all pairs (or nearest items) one by one."""
    allowed = floor(Fraction(far) * len(negatives))
    ascending = np.sort(negatives)
    limit = ascending[allowed] if allowed < len(ascending) else np.inf
    return float(every[every < limit - MARGIN].max())


def pair_rates(distance: np.ndarray, compared: np.ndarray, same: np.ndarray, tau: float) -> Any:
    accepted = distance <= tau + MARGIN
    far = int((accepted & compared & ~same).sum()) / int((compared & ~same).sum())
    return far, int((~accepted & same).sum()) / int(same.sum())


def search_rates(distance: np.ndarray, compared: np.ndarray, same: np.ndarray, tau: float) -> Any:
    """FAR of unmated queries and FRR of mated ones, query by query."""
    accepted, missed = [], []
    for q in range(len(distance)):
        items = np.flatnonzero(compared[q])
        first = items[distance[q, items].argmin()]
        near = distance[q, first] <= tau + MARGIN
        if same[q].any():
            missed.append(not (near and same[q, first]))
        else:
            accepted.append(near)
    return sum(accepted) / len(accepted), sum(missed) / len(missed)


RULES: list[set[str]] = [set(), {"ids"}, {"groups"}, {"junk_labels"}, {"ids", "groups"}]
RULES += [{"ids", "groups", "junk_labels"}]


def keywords(query: Set, item: Set | None, rules: set[str]) -> dict[str, Any]:
    given: dict[str, Any] = {"embeddings": query["rows"], "labels": query["label"]}
    if item is not None:
        given |= {"gallery": item["rows"], "gallery_labels": item["label"]}
    for name, column in (("ids", "id"), ("groups", "camera")):
        if name in rules:
            given[f"query_{name}"] = query[column]
            if item is not None:
                given[f"gallery_{name}"] = item[column]
    if "junk_labels" in rules:
        given["junk_labels"] = [-1]
    return given


def chosen(**given: Any) -> truerank.analysis.operating_points.OperatingPoint:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", truerank.TruerankWarning)
        return truerank.choose_threshold(**given)


@pytest.mark.parametrize("rules", RULES, ids=lambda rules: "+".join(sorted(rules)) or "none")
def test_pairs(rules: set[str]) -> None:
    """The pairs that are left, their FAR, FRR and the rates of each class."""
    one, other = people(1), people(2)
    distance = distances(one["rows"], one["rows"])
    compared, same = masks(one, one, rules)
    point = chosen(**keywords(one, None, rules), far="0.01")
    wanted = threshold_of(distance[compared & ~same], distance[compared], "0.01")
    assert point.threshold == pytest.approx(wanted, abs=1e-7)
    assert (point.values["far"], point.values["frr"]) == pytest.approx(
        pair_rates(distance, compared, same, wanted), abs=1e-15
    )
    mated = same.any(axis=1)
    far, frr = search_rates(distance, compared, same, wanted)
    assert point.values["dir"] == pytest.approx(1 - frr, abs=1e-15)
    assert point.values["open_set_far"] == pytest.approx(far, abs=1e-15)
    for row in point.classes:
        inside = one["label"] == row.label
        rates = pair_rates(distance[inside], compared[inside], same[inside], wanted)
        assert (row.far, row.frr) == pytest.approx(rates, abs=1e-15)
    assert {row.label for row in point.classes} == set(one["label"][mated].tolist())
    # judged on another set, which has ids and cameras of its own
    apply = keywords(other, None, rules - {"junk_labels"})
    there = chosen(**keywords(one, None, rules), far="0.01", apply=apply)
    distance = distances(other["rows"], other["rows"])
    rates = pair_rates(distance, *masks(other, other, rules), wanted)
    assert (there.values["far"], there.values["frr"]) == pytest.approx(rates, abs=1e-15)
    assert not there.optimistic


@pytest.mark.parametrize("rules", RULES, ids=lambda rules: "+".join(sorted(rules)) or "none")
def test_an_frr_of_pairs(rules: set[str]) -> None:
    """The smallest threshold that misses no more than floor(f P) of P positive pairs."""
    one = people(3)
    distance = distances(one["rows"], one["rows"])
    compared, same = masks(one, one, rules)
    point = chosen(**keywords(one, None, rules), frr="0.2")
    positives = np.sort(distance[same])
    wanted = positives[len(positives) - floor(Fraction("0.2") * len(positives)) - 1]
    assert point.threshold == pytest.approx(wanted, abs=1e-7)
    assert point.values["frr"] == pytest.approx(
        pair_rates(distance, compared, same, wanted)[1], abs=1e-15
    )


@pytest.mark.parametrize("rules", RULES[1:], ids=lambda rules: "+".join(sorted(rules)))
@pytest.mark.parametrize("given", [False, True])
def test_searches(rules: set[str], given: bool) -> None:
    """By query and gallery, and by the matrix of their distances; evaluate says the same."""
    (query, item), (other, _) = split(people(4)), split(people(5))
    distance = distances(query["rows"], item["rows"])
    compared, same = masks(query, item, rules)
    nearest = np.where(compared, distance, np.inf).min(axis=1)
    mated = same.any(axis=1)
    decisive = np.concatenate([nearest, distance[same]])
    wanted = threshold_of(nearest[~mated], decisive, "0.1")
    task = keywords(query, item, rules)
    if given:
        task |= {"embeddings": distance, "distance": "precomputed"}
        del task["gallery"]
    point = chosen(**task, far="0.1")
    rates = search_rates(distance, compared, same, float(point.decimal))
    assert point.search
    assert point.values["far"] <= 0.1
    assert point.threshold <= wanted + 1e-7
    assert search_rates(distance, compared, same, wanted) == rates  # nothing lies between the two
    assert (point.values["far"], point.values["frr"]) == pytest.approx(rates, abs=1e-15)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", truerank.TruerankWarning)
        score = truerank.evaluate(**task, metrics=f"dir@tau={point.decimal}")
    [found] = score.values()
    assert point.values["frr"] == 1 - found.value
    for row in point.classes:
        inside = query["label"] == row.label
        assert (row.frr is None) == (not (inside & mated).any())
    if given:
        return
    apply = {k: v for k, v in keywords(other, None, rules).items() if k != "junk_labels"}
    there = chosen(**task, far="0.1", apply=apply)
    rates = search_rates(
        distances(other["rows"], item["rows"]),
        *masks(other, item, rules),
        float(point.decimal),
    )
    assert (there.values["far"], there.values["frr"]) == pytest.approx(rates, abs=1e-15)


def test_a_query_whose_relevant_items_are_all_junk_is_unmated() -> None:
    query, item = split(people(6))
    item = item | {"camera": np.zeros(len(item["label"]), np.int64)}
    query = query | {"camera": (query["label"] > 10).astype(np.int64)}  # 0 to 10: camera 0 alone
    point = chosen(**keywords(query, item, {"groups"}), far="0.1")
    seen = set(item["label"].tolist())
    mated = {row.label for row in point.classes if row.frr is not None}
    assert mated == {label for label in set(query["label"].tolist()) & seen if label > 10}
    compared, same = masks(query, item, {"groups"})
    distance = distances(query["rows"], item["rows"])
    rates = search_rates(distance, compared, same, float(point.decimal))
    assert (point.values["far"], point.values["frr"]) == pytest.approx(rates, abs=1e-15)


@pytest.mark.parametrize("alone", [False, True])
def test_masks_and_judgements(alone: bool) -> None:
    """A junk mask, here of one order of a pair alone, and a matrix of who is relevant."""
    one = people(7)
    query, item = (one, one) if alone else split(one)
    rng = np.random.default_rng(9)
    compared, same = masks(query, item, set())
    junk = rng.random(same.shape) < 0.2
    distance = distances(query["rows"], item["rows"])
    sides: dict[str, Any] = {"embeddings": query["rows"]}
    sides |= {} if alone else {"gallery": item["rows"]}
    by_mask = keywords(query, None if alone else item, set()) | {"junk": junk}
    by_grade = sides | {"junk": junk, "relevance": same * rng.integers(1, 3, size=same.shape)}
    for given in (by_mask, by_grade):
        point = chosen(**given, far="0.05")
        rates_of = pair_rates if alone else search_rates
        rates = rates_of(distance, compared & ~junk, same & ~junk, float(point.decimal))
        assert (point.values["far"], point.values["frr"]) == pytest.approx(rates, abs=1e-15)
        if alone:
            kept = compared & ~junk
            wanted = threshold_of(distance[kept & ~same], distance[kept], "0.05")
            assert point.threshold == pytest.approx(wanted, abs=1e-7)
        assert bool(point.classes) == (given is by_mask)
        for name, ends in point.intervals.items():
            value = point.values[name]
            assert (ends is None) == (value == 1)
            assert ends is None or ends[0] < value < ends[1]
        assert ("over classes" if given is by_mask else "over queries") in str(point)
    found = chosen(**by_grade, frr="0.5")
    assert found.values["frr"] <= 0.5
    assert found.threshold_interval is not None


def test_distractors_without_a_label() -> None:
    query, item = split(people(8))
    names: list[Any] = [None if label < 5 else int(label) for label in item["label"]]
    given = keywords(query, item, {"groups"}) | {"gallery_labels": names}
    with pytest.raises(truerank.InputError, match="no label"):
        chosen(**given, far="0.1")
    point = chosen(**given, far="0.1", unlabelled="distractor")
    there = item | {"label": np.where(item["label"] < 5, -9, item["label"])}
    rates = search_rates(
        distances(query["rows"], item["rows"]),
        *masks(query, there, {"groups"}),
        float(point.decimal),
    )
    assert (point.values["far"], point.values["frr"]) == pytest.approx(rates, abs=1e-15)


def test_it_says_what_is_no_pair_and_warns_of_cameras_of_one_set() -> None:
    query, item = split(people(4))
    point = chosen(**keywords(query, item, {"ids", "groups", "junk_labels"}), far="0.1")
    assert "Never a pair: rows that share an id, " in str(point).replace("\n", " ")
    assert point.to_dict()["excluded"] == list(point.excluded)
    plain = chosen(**keywords(people(1), None, set()), far="0.1")
    assert plain.excluded == ()
    assert "Never" not in str(plain)
    one, other = people(1), people(2)
    with pytest.warns(truerank.TruerankWarning, match="only one has groups"):
        truerank.choose_threshold(
            **keywords(one, None, {"groups"}), far=0.1, apply=keywords(other, None, set())
        )


def test_sets_that_do_not_fit() -> None:
    one, (query, item) = people(1), split(people(2))
    pairs, search = keywords(one, None, set()), keywords(query, item, {"groups"})
    lacking = keywords(query, None, set())
    for options, words in (
        ({**pairs, "apply": search}, "apply has a gallery and the set on which .* has none"),
        ({**search, "apply": lacking}, "apply: gallery_groups came without query_groups"),
        ({**pairs, "apply": {"rows": 1}}, "apply is a mapping of embeddings, labels, .*Got 'rows'"),
        ({**pairs, "apply": {"labels": 1}}, "It has no embeddings"),
        ({**pairs, "apply": lacking, "apply_labels": [1]}, "apply is a mapping, which holds"),
        ({**pairs, "gallery_groups": one["camera"]}, "gallery_groups came without a gallery"),
        ({**pairs, "query_groups": np.zeros(360)}, "all of it is excluded|has a relevant item"),
    ):
        with pytest.raises(truerank.InputError, match=words):
            chosen(**{"far": 0.1} | options)


# -- a card


def test_labels_that_a_card_does_not_need_are_refused() -> None:
    given = keywords(people(1), None, set())
    for options, words in (
        ({"apply_labels": given["labels"]}, "^apply_labels came without apply"),
        ({"apply": given, "apply_labels": given["labels"]}, "a mapping, .*leave apply_labels out"),
    ):
        with pytest.raises(truerank.InputError, match=words):
            truerank.threshold_card(**given, fars=["0.1"], **options)


@pytest.mark.parametrize("searched", [False, True])
def test_a_card_obeys_them_in_every_table(searched: bool) -> None:
    rules = {"ids", "groups", "junk_labels"}
    first, second = people(4), people(5)
    (query, item), (other, _) = split(first), split(second)
    if not searched:
        query = item = first
        other = second
    given = keywords(query, item if searched else None, rules)
    further = keywords(other, None, rules - {"junk_labels"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", truerank.TruerankWarning)
        card = truerank.threshold_card(**given, fars=["0.1"], further={"others": further})
    assert card.points[0] == chosen(**given, far="0.1")
    tau = float(card.points[0].decimal)
    distance = distances(query["rows"], item["rows"])
    compared, same = masks(query, item, rules)
    whole = card.growth[0][-1]
    assert whole.dir == pytest.approx(1 - search_rates(distance, compared, same, tau)[1])
    if searched:
        assert whole.far == pytest.approx(search_rates(distance, compared, same, tau)[0])
    else:  # every row is a query whose relevant items are excluded
        near = (np.where(compared & ~same, distance, np.inf) <= tau + MARGIN).any(axis=1)
        assert whole.far == pytest.approx(near.mean())
    items = item if searched else other
    there = masks(other, items, rules)
    rates = (search_rates if searched else pair_rates)(
        distances(other["rows"], items["rows"]), *there, tau
    )
    [judged] = card.further["others"]
    assert (judged.values["far"], judged.values["frr"]) == pytest.approx(rates, abs=1e-15)
    assert "Never a pair: rows that share an id" in card.to_text().replace("\n", " ")


# -- the command


def write(folder: Path, name: str, one: Set) -> Path:
    path = folder / f"{name}.npz"
    columns = {"embeddings": one["rows"], "label": one["label"], "camera": one["camera"]}
    np.savez(path, **columns, id=one["id"])
    return path


def printed(*arguments: object) -> dict[str, Any]:
    done = run("threshold", *arguments, "--format", "json")
    assert done.status == 0, done.err
    values: dict[str, Any] = json.loads(done.out)
    return values


def test_files_bring_ids_and_cameras_along(tmp_path: Path) -> None:
    """Of the calibration set, the gallery, --apply and --further."""
    rules = {"ids", "groups", "junk_labels"}
    (query, item), (other, _) = split(people(4)), split(people(5))
    sets = {"query": query, "gallery": item, "other": other}
    files = {name: write(tmp_path, name, one) for name, one in sets.items()}
    given = [files["query"], "--gallery", files["gallery"], "--far", "0.1", "--junk-label=-1"]
    found = printed(*given, "--apply", files["other"])
    tau = float(found["decimal"])
    rates = search_rates(distances(other["rows"], item["rows"]), *masks(other, item, rules), tau)
    assert (found["values"]["far"], found["values"]["frr"]) == pytest.approx(rates, abs=1e-15)
    point = chosen(**keywords(query, item, rules), far="0.1")
    assert found["decimal"] == point.decimal
    card = tmp_path / "card.json"
    done = run("threshold", *given, "--card", card, "--further", files["other"])
    assert done.status == 0, done.err
    judged = json.loads(card.read_text(encoding="utf-8"))["further"]["other"][0]["values"]
    assert (judged["far"], judged["frr"]) == pytest.approx(rates, abs=1e-15)


def test_pairs_of_files_with_columns_of_their_own(tmp_path: Path) -> None:
    rules = {"ids", "groups"}
    one, other = people(1), people(2)
    for name, some in (("one", one), ("other", other)):
        for column, values in some.items():
            np.save(tmp_path / f"{name}-{column}.npy", values)
    given: list[object] = [tmp_path / "one-rows.npy", "--far", "0.01"]
    for name, start in (("one", "--"), ("other", "--apply-")):
        given += [f"{start}labels", tmp_path / f"{name}-label.npy"]
        given += [f"{start}groups", tmp_path / f"{name}-camera.npy"]
        given += [f"{start}ids", tmp_path / f"{name}-id.npy"]
    found = printed(*given, "--apply", tmp_path / "other-rows.npy")
    assert found["threshold"] == chosen(**keywords(one, None, rules), far="0.01").threshold
    rates = pair_rates(
        distances(other["rows"], other["rows"]),
        *masks(other, other, rules),
        float(found["decimal"]),
    )
    assert (found["values"]["far"], found["values"]["frr"]) == pytest.approx(rates, abs=1e-15)
    assert run("threshold", *given).complaint() == "--apply-labels came without --apply."
    given += ["--apply", tmp_path / "other-rows.npy"]
    told = run("threshold", *given, "--apply-gallery-ids", tmp_path / "one-id.npy").complaint()
    assert told.endswith("--apply-gallery-ids came without --apply-gallery.")


def test_a_matrix_with_labels_of_its_columns_is_a_search(tmp_path: Path) -> None:
    """As re-ranked distances come; the files of labels hold embeddings as well."""
    query, item = split(people(4))
    files = [write(tmp_path, "query", query), write(tmp_path, "gallery", item)]
    distance = distances(query["rows"], item["rows"])
    compared, same = masks(query, item, {"ids", "groups"})
    for name, matrix in (("precomputed", distance), ("similarity", 1 - distance)):
        np.save(tmp_path / "matrix.npy", matrix)
        given = [tmp_path / "matrix.npy", "--labels", files[0], "--gallery-labels", files[1]]
        found = printed(*given, "--distance", name, "--far", "0.1")
        assert found["search"]
        tau = float(found["decimal"])
        tau = tau if name == "precomputed" else 1 - tau
        rates = search_rates(distance, compared, same, tau)
        assert (found["values"]["far"], found["values"]["frr"]) == pytest.approx(rates, abs=1e-15)
