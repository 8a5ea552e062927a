"""Choosing a threshold: what is printed at it, by definition; its interval, by the jackknife."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import truerank
from tests.cli.driving import run
from truerank.analysis.operating_points import _decimals
from truerank.intervals.interval import mean_interval, rate_interval


def people(seed: int, classes: int, each: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes), each)
    centres = rng.normal(size=(classes, 12))
    noise = rng.uniform(0.4, 1.2, size=classes)[labels, None]
    return centres[labels] + noise * rng.normal(size=(len(labels), 12)), labels


def cosine(rows: np.ndarray) -> np.ndarray:
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return 1 - unit @ unit.T


def test_the_operating_point_is_what_it_says() -> None:
    seen, seen_labels = people(1, 25, 5)
    rows, labels = people(2, 30, 4)
    point = truerank.choose_threshold(seen, seen_labels, far=0.01, apply=rows, apply_labels=labels)
    assert not point.optimistic
    expected = truerank.evaluate(seen, seen_labels, metrics="threshold@far=0.01")
    assert point.threshold == expected["threshold@far=0.01"].value
    distance = cosine(rows)
    accepted = distance <= point.threshold + 1e-9
    i, j = np.triu_indices(len(rows), 1)
    same = labels[i] == labels[j]
    assert point.values["far"] == pytest.approx(accepted[i, j][~same].mean())
    assert point.values["frr"] == pytest.approx(1 - accepted[i, j][same].mean())
    np.fill_diagonal(distance, np.inf)
    first = distance.argmin(axis=1)
    found = (labels[first] == labels) & (distance.min(axis=1) <= point.threshold + 1e-9)
    assert point.values["dir"] == pytest.approx(found.mean())
    mates = labels[:, None] == labels[None]
    np.fill_diagonal(mates, False)
    np.fill_diagonal(accepted, False)
    true, false = (accepted & mates).sum(1), (accepted & ~mates).sum(1)
    assert point.values["vp"] == pytest.approx((true / (3 + false)).mean())
    assert "open_set_far" not in point.values  # every row has a mate
    assert 0 < point.values["rep"] < 1
    for one in point.classes:
        inside = labels == one.label
        assert one.far == pytest.approx(accepted[np.ix_(inside, ~inside)].mean())
    assert [c.utility for c in point.classes] == sorted(c.utility for c in point.classes)
    assert point.intervals.keys() == point.values.keys()
    for name, (low, high) in point.intervals.items():
        assert low < point.values[name] < high


def test_judged_where_it_was_chosen_it_says_so() -> None:
    rows, labels = people(3, 20, 5)
    labels[:9] = 1000 + np.arange(9)  # rows without a mate take part in pairs of two classes
    point = truerank.choose_threshold(rows, labels, far="0.01")
    assert point.optimistic
    assert "this is optimistic" in str(point)
    assert point.values["far"] <= 0.01
    assert point.values.keys() == {"far", "frr", "dir", "open_set_far", "vp", "rep"}
    assert point.intervals.keys() == point.values.keys()
    assert point.intervals["open_set_far"] is None  # of nine classes
    for name in point.values.keys() - {"open_set_far"}:
        low, high = point.intervals[name]
        assert low < point.values[name] < high


def test_the_interval_of_the_threshold_holds_what_cannot_be_told_from_the_target() -> None:
    """FAR at its ends, counted by hand, is the interval of FAR at the threshold."""
    rows, labels = people(13, 40, 5)
    labels[:6] = 1000 + np.arange(6)
    point = truerank.choose_threshold(rows, labels, far=0.02)
    i, j = np.triu_indices(len(rows), 1)
    negatives = cosine(rows)[i, j][labels[i] != labels[j]]
    low, high = point.threshold_interval
    assert low < point.threshold < high
    rates = [(negatives <= end + 1e-9).mean() for end in (low, high)]
    assert rates == pytest.approx(list(point.intervals["far"]), abs=2 / len(negatives) + 1e-5)
    assert f"{low:.6g} to {high:.6g}" in str(point)
    assert point.to_dict()["threshold_interval"] == [low, high]
    elsewhere = people(14, 20, 5)
    judged = truerank.choose_threshold(
        rows, labels, far=0.02, apply=elsewhere[0], apply_labels=elsewhere[1]
    )
    assert judged.threshold_interval == point.threshold_interval
    order = np.random.default_rng(1).permutation(len(rows))
    moved = truerank.choose_threshold(rows[order], -labels[order], far=0.02, threads=3)
    assert moved.threshold_interval == point.threshold_interval
    assert moved.intervals == point.intervals


def test_similarities_turn_the_interval_around() -> None:
    rows, labels = people(13, 40, 5)
    point = truerank.choose_threshold(1 - cosine(rows), labels, far=0.02, distance="similarity")
    low, high = point.threshold_interval
    assert low < point.threshold < high
    assert "similarity is at least" in str(point)
    assert point.values["far"] == pytest.approx(0.02, abs=1e-4)
    large = truerank.choose_threshold(1e9 * cosine(rows), labels, far=0.02, distance="precomputed")
    assert large.values["far"] == point.values["far"]


def test_an_interval_that_reaches_below_what_can_be_resolved() -> None:
    """Two of 594 impostors accepted: perhaps none would be, with other classes."""
    rows, labels = people(19, 12, 3)
    point = truerank.choose_threshold(rows, labels, far="0.0034")
    i, j = np.triu_indices(len(rows), 1)
    distance, same = cosine(rows)[i, j], labels[i] == labels[j]
    assert (distance[~same] <= point.threshold + 1e-9).sum() == 2
    assert point.intervals["far"][0] < 1 / 594
    below = distance[distance < distance[~same].min() - 1e-9]
    assert point.threshold_interval[0] == pytest.approx(below.max(), abs=1e-7)


def test_few_classes_have_no_interval() -> None:
    rows, labels = people(4, 9, 6)
    point = truerank.choose_threshold(rows, labels, far=0.1)
    assert point.threshold_interval is None
    assert set(point.intervals.values()) == {None}
    assert "Intervals" not in str(point)


def test_the_interval_is_the_jackknife_over_classes() -> None:
    """Every negative pair lies in two classes; leaving a class out takes all of its pairs along."""
    rng = np.random.default_rng(5)
    classes = 40
    rate = rng.beta(2, 30, size=(classes, classes))
    errors = rng.binomial(50, (rate + rate.T) / 2)
    errors = np.triu(errors, 1) + np.triu(errors, 1).T
    trials = 50 * (1 - np.eye(classes, dtype=int))
    low, high = rate_interval(errors.sum(1), trials.sum(1), shared=True)
    left_out = []
    for gone in range(classes):
        kept = np.arange(classes) != gone
        left_out.append(errors[np.ix_(kept, kept)].sum() / trials[np.ix_(kept, kept)].sum())
    spread = np.sqrt((classes - 1) / classes * np.sum((left_out - np.mean(left_out)) ** 2))
    total = errors.sum() / trials.sum()
    error = spread / (total * (1 - total))

    def odds(p: float) -> float:
        return float(np.log(p / (1 - p)))

    assert odds(high) - odds(total) == pytest.approx(2.0227 * error, rel=0.1)  # t of 39
    assert odds(total) - odds(low) == pytest.approx(2.0227 * error, rel=0.1)


def test_the_interval_of_a_mean_is_the_jackknife_over_classes() -> None:
    rng = np.random.default_rng(8)
    codes = np.repeat(np.arange(30), rng.integers(1, 9, size=30))
    values = rng.beta(3, 5, size=30)[codes] * rng.random(len(codes))
    held = values.copy()
    held[::7] = np.nan  # some do not count
    low, high = mean_interval(held, codes)
    kept = ~np.isnan(held)
    left_out = np.array([held[kept & (codes != gone)].mean() for gone in range(30)])
    spread = np.sqrt(29 / 30 * np.sum((left_out - left_out.mean()) ** 2))
    total = held[kept].mean()
    reach = 2.045 * spread / (total * (1 - total))
    assert np.log(high / (1 - high)) - np.log(low / (1 - low)) == pytest.approx(2 * reach, rel=0.1)


@pytest.mark.slow
def test_what_is_printed_covers() -> None:
    """Classes drawn anew, 200 times: how often the intervals hold the truth of all classes.

    Thresholds and FAR err on the wide side; 95 % of 200 come out below 91 % once in a hundred.
    """
    rng = np.random.default_rng(5)

    def draw(classes: int, each: int) -> tuple[np.ndarray, np.ndarray]:
        labels = np.repeat(np.arange(classes), each)
        noise = rng.uniform(0.4, 1.2, size=classes)[labels, None]
        centres = rng.normal(size=(classes, 12))[labels]
        rows = centres + noise * rng.normal(size=(len(labels), 12))
        return rows / np.linalg.norm(rows, axis=1, keepdims=True), labels

    positives, negatives = [], []
    for _ in range(10):
        pairs = draw(100_000, 2)[0].reshape(-1, 2, 12)
        positives.append(1 - (pairs[:, 0] * pairs[:, 1]).sum(axis=1))
        negatives.append(1 - (pairs[:-1, 0] * pairs[1:, 0]).sum(axis=1))
    same, other = (np.sort(np.concatenate(part)) for part in (positives, negatives))
    truth = other[int(0.02 * len(other))]
    covered: dict[str, list[bool]] = {"threshold": [], "far": [], "frr": []}
    for _ in range(200):
        point = truerank.choose_threshold(*draw(30, 4), far=0.02)
        low, high = point.threshold_interval
        covered["threshold"].append(low <= truth <= high)
        rates = {
            "far": np.searchsorted(other, point.threshold) / len(other),
            "frr": 1 - np.searchsorted(same, point.threshold) / len(same),
        }
        for name, rate in rates.items():
            low, high = point.intervals[name]
            covered[name].append(low <= rate <= high)
    fixed = people(1, 30, 4)
    points = [
        truerank.choose_threshold(*fixed, far=0.02, apply=rows, apply_labels=labels)
        for rows, labels in (draw(30, 4) for _ in range(200))
    ]
    for name in ("dir", "vp", "rep"):
        mean = np.mean([point.values[name] for point in points])
        ends = np.array([point.intervals[name] for point in points])
        covered[name] = list((ends[:, 0] <= mean) & (mean <= ends[:, 1]))
    share = {name: float(np.mean(found)) for name, found in covered.items()}
    assert min(share["threshold"], share["far"]) >= 0.93, share
    assert min(share.values()) >= 0.91, share


def test_the_interval_covers() -> None:
    """Rates of classes drawn anew: about 95 of 100 intervals hold the true rate."""
    rng = np.random.default_rng(7)
    covered = 0
    for _ in range(400):
        rates = rng.beta(4, 16, size=60)
        errors = rng.binomial(30, rates)
        low, high = rate_interval(errors, np.full(60, 30), shared=False)
        covered += low <= 0.2 <= high
    assert 0.91 <= covered / 400 <= 0.98


@pytest.mark.parametrize("distance", ["euclidean", "dot", "cityblock", "cosine"])
def test_every_distance(distance: str) -> None:
    rows, labels = people(9, 20, 4)
    rows = np.round(rows, 2).astype("float32")
    point = truerank.choose_threshold(rows, labels, far=0.05, distance=distance)
    assert 0.04 < point.values["far"] <= 0.05


def test_refusals() -> None:
    rows, labels = people(11, 5, 3)
    with pytest.raises(truerank.InputError, match="the smallest that they can is"):
        truerank.choose_threshold(rows, labels, far=1e-6)
    with pytest.raises(truerank.InputError, match="apply: labels are missing"):
        truerank.choose_threshold(rows, labels, far=0.1, apply=rows)
    with pytest.raises(truerank.InputError, match="from 0 to 1"):
        truerank.choose_threshold(rows, labels, far=2)
    with pytest.raises(truerank.InputError, match="distance"):
        truerank.choose_threshold(rows, labels, far=0.1, distance="cos")


def test_the_command(tmp_path: Path) -> None:
    for name, seed in (("calib", 1), ("test", 2)):
        rows, labels = people(seed, 12, 4)
        np.save(tmp_path / f"{name}.npy", rows)
        text = "label\n" + "\n".join(f"p{label}" for label in labels)
        (tmp_path / f"{name}.csv").write_text(text, encoding="utf-8")
    files = [tmp_path / "calib.npy", "--labels", tmp_path / "calib.csv"]
    unseen = ["--apply", tmp_path / "test.npy", "--apply-labels", tmp_path / "test.csv"]
    ran = run("threshold", *files, "--far", "0.01", *unseen, "--by-class")
    assert ran.status == 0, ran.err
    assert "Accept a pair if its cosine distance is at most" in ran.out
    assert "optimistic" not in ran.out
    assert re.search(r"\nover classes +best  lower quarter ", ran.out)
    assert "of 12 classes have a FAR above the target of 1 %.\n" in ran.out
    assert ran.out.count("\np") == 12
    ran = run("threshold", *files, "--far", "0.01", "--format", "json")
    data = json.loads(ran.out)
    assert data["optimistic"]
    assert data["target"] == 0.01
    assert run("threshold", *files, "--far", "0.01", *unseen[2:]).complaint()
    assert "no threshold for a FAR" in run("threshold", *files, "--far", "1e-9").complaint()


def test_labels_of_the_other_set_must_fit_it() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(60) // 6
    x = rng.normal(size=(10, 8))[y] + 0.5 * rng.normal(size=(60, 8))
    with pytest.raises(
        truerank.InputError, match="apply: embeddings have 50 rows but there are 60"
    ):
        truerank.choose_threshold(x, y, far=0.1, apply=x[:50], apply_labels=y)


def test_judged_on_what_it_was_chosen_on_is_optimistic_however_it_is_passed() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(60) // 6
    x = rng.normal(size=(10, 8))[y] + 0.5 * rng.normal(size=(60, 8))
    assert truerank.choose_threshold(x, y, far=0.1, apply=x.copy(), apply_labels=y).optimistic
    other = {"apply": x[6:], "apply_labels": y[6:]}
    assert not truerank.choose_threshold(x, y, far=0.1, **other).optimistic


# -- a target of false rejects


def test_an_frr_is_met_by_the_smallest_threshold() -> None:
    rows, labels = people(21, 20, 5)
    labels[:3] = 1000 + np.arange(3)
    point = truerank.choose_threshold(rows, labels, frr=0.1)
    i, j = np.triu_indices(len(rows), 1)
    positives = np.sort(cosine(rows)[i, j][labels[i] == labels[j]])
    kept = len(positives) - int(0.1 * len(positives))
    assert point.threshold == pytest.approx(positives[kept - 1], abs=1e-7)
    assert point.values["frr"] == (len(positives) - kept) / len(positives) <= 0.1
    assert point.rate == "frr"
    low, high = point.threshold_interval
    assert low < point.threshold < high
    rates = [(positives > end + 1e-7).mean() for end in (high, low)]
    assert rates == pytest.approx(list(point.intervals["frr"]), abs=1 / len(positives) + 1e-4)
    assert "(chosen for an FRR of 0.1)" in " ".join(str(point).split())
    none = truerank.choose_threshold(rows, labels, frr=0)
    assert none.threshold == pytest.approx(positives[-1], abs=1e-7)
    assert none.values["frr"] == 0


def test_an_frr_of_similarities() -> None:
    rows, labels = people(21, 20, 5)
    by_distance = truerank.choose_threshold(rows, labels, frr=0.2)
    point = truerank.choose_threshold(1 - cosine(rows), labels, frr=0.2, distance="similarity")
    assert point.threshold == pytest.approx(1 - by_distance.threshold, abs=1e-7)
    assert point.values["frr"] == by_distance.values["frr"]


# -- searches (1:N)


def searched(seed: int) -> dict[str, np.ndarray]:
    """Queries of 40 people, of whom the gallery knows the first 25."""
    rows, labels = people(seed, 40, 6)
    first = np.arange(len(labels)) % 2 == 0
    known = ~first & (labels < 25)
    return {
        "embeddings": rows[first],
        "labels": labels[first],
        "gallery": rows[known],
        "gallery_labels": labels[known],
    }


def by_brute_force(data: dict[str, np.ndarray], threshold: float) -> tuple[float, float]:
    """FAR of strangers, and FRR of those with a mate."""
    unit, items = (
        x / np.linalg.norm(x, axis=1, keepdims=True) for x in (data["embeddings"], data["gallery"])
    )
    distance = 1 - unit @ items.T
    nearest, accepted = distance.argmin(axis=1), distance.min(axis=1) <= threshold + 1e-9
    right = (data["gallery_labels"][nearest] == data["labels"]) & accepted
    strangers = data["labels"] >= 25
    return accepted[strangers].mean(), 1 - right[~strangers].mean()


@pytest.mark.parametrize("target", [{"far": 0.1}, {"frr": 0.6}])
def test_a_search_for_people_who_may_not_be_there(target: dict[str, float]) -> None:
    data = searched(31)
    point = truerank.choose_threshold(**data, **target)
    far, frr = by_brute_force(data, point.threshold)
    assert point.search
    assert point.optimistic
    assert (point.values["far"], point.values["frr"]) == pytest.approx((far, frr))
    [(rate, asked)] = target.items()
    assert point.values[rate] <= asked
    looser = by_brute_force(data, point.threshold * (1.05 if rate == "far" else 0.95))
    assert looser[rate == "frr"] > asked  # a little more would be too much
    low, high = point.threshold_interval
    assert low <= point.threshold <= high
    for one in point.classes:
        assert (one.far is None) == (one.label < 25)
        assert (one.frr is None) == (one.label >= 25)
    worst = [1 - one.utility for one in point.classes]
    assert worst == sorted(worst, reverse=True)
    ends = point.intervals["frr"]
    assert ends[0] < frr < ends[1]


def test_a_search_is_judged_on_other_queries_and_galleries() -> None:
    seen, other = searched(31), searched(32)
    queries = {"apply": other["embeddings"], "apply_labels": other["labels"]}
    gallery = {
        "apply_gallery": other["gallery"],
        "apply_gallery_labels": other["gallery_labels"],
    }
    point = truerank.choose_threshold(**seen, far=0.1, **queries, **gallery)
    assert not point.optimistic
    assert (point.values["far"], point.values["frr"]) == pytest.approx(
        by_brute_force(other, point.threshold)
    )
    same = truerank.choose_threshold(**seen, far=0.1, **queries)
    mixed = seen | {"embeddings": other["embeddings"], "labels": other["labels"]}
    assert same.values["far"] == pytest.approx(by_brute_force(mixed, same.threshold)[0])
    text = point.to_text(by_class=True)
    assert "relevant item not found first or not accepted (FRR)" in text
    assert "classes have a FAR above the target of 10 %." in text


def test_targets_that_cannot_be() -> None:
    rows, labels = people(11, 5, 3)
    data = searched(33)
    for options, words in (
        ({}, "as far or as frr"),
        ({"far": 0.1, "frr": 0.1}, "only one of the two"),
        ({"frr": 1}, "rejects everything"),
        ({"frr": 1e-6}, "15 pairs of one class cannot resolve an FRR of 1e-06; the smallest that"),
        ({"frr": "x"}, "from 0 to 1"),
        ({"far": 0.1, "gallery": rows}, "a gallery came without gallery_labels"),
        (
            {"far": 0.1, "apply_gallery": rows, "apply_gallery_labels": labels},
            "apply_gallery and apply_gallery_labels came without apply",
        ),
    ):
        with pytest.raises(truerank.InputError, match=words):
            truerank.choose_threshold(rows, labels, **options)
    with pytest.raises(truerank.InputError, match="the FRR is at least"):
        truerank.choose_threshold(**data, frr=0.02)
    known = data | {"embeddings": data["embeddings"][:60], "labels": data["labels"][:60]}
    unresolved = r"every query has a relevant item, .* choose by frr"
    with pytest.raises(truerank.InputError, match=unresolved):
        truerank.choose_threshold(**known, far=0.1)


@pytest.mark.parametrize(
    ("rates", "decimals"),
    [
        ((0.5,), 2),
        ((0.0123,), 2),
        ((0.001,), 2),
        ((0.0004,), 3),
        ((0.00002, 0.5), 4),
        ((0.0, 0.3), 2),
        ((0.0,), 2),
        ((1e-12,), 6),
    ],
)
def test_rates_have_as_many_decimals_as_they_can_bear(
    rates: tuple[float, ...], decimals: int
) -> None:
    assert _decimals(*rates) == decimals
