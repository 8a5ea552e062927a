"""Verification and open-set identification against brute force, scikit-learn and properties."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import (
    det_curve,
    f1_score,
    precision_recall_curve,
    precision_score,
    recall_score,
    roc_auc_score,
    roc_curve,
)

import truerank
from tests.conftest import Within
from tests.oracles import openset, ranking
from tests.test_brute_force import MATRIX_DISTANCES, VECTOR_DISTANCES, Case, cases
from truerank.engine import settings as engine_settings
from truerank.settings import limits

EXAMPLES = 800 if settings().max_examples >= 10_000 else 25
TAUS = ["0", "0.1", "0.25", "0.5", "1", "1.5"]
RATES = ["0", "0.05", "0.29", "0.5", "0.75", "1"]


def assert_resolves(reason: str, impostors: int) -> None:
    """The FAR that is named can be asked for, and hardly a smaller one."""
    named = Fraction(reason.partition("the smallest that they can is ")[2])
    assert 1 <= named * impostors < Fraction("1.01")


def verification_metrics() -> list[str]:
    return [
        "auc",
        "eer",
        "min_dcf",
        "min_dcf@fa=3,miss=2,p=0.5",
        "best_f1",
        *(f"tar@far={x}" for x in RATES),
        *(f"threshold@far={x}" for x in RATES),
        *(f"{name}@tau={x}" for name in ("tar", "fmr", "fnmr") for x in TAUS),
    ]


def openset_metrics() -> list[str]:
    return [
        *(f"dir@far={x},rank={k}" for x in RATES for k in (1, 2)),
        *(f"dir@tau={x},rank={k}" for x in TAUS for k in (1, 3)),
        *(f"{name}@tau={x}" for name in ("far", "ftr", "ttr") for x in TAUS),
        *(f"ttr@far={x}" for x in RATES),
    ]


def accepts(case: Case, distance: Fraction, tau: Fraction) -> bool:
    """Whether a threshold in the user's unit accepts a distance of the oracle."""
    kind = case.options["distance"]
    if kind == "cosine":  # the oracle's D is twice 1 - s
        return distance <= 2 * tau
    if kind == "euclidean":  # squared
        return distance <= tau * tau
    if kind == "similarity":
        return -distance >= Fraction(float(tau))
    if kind == "precomputed":
        return distance <= Fraction(float(tau))
    return distance <= tau


def see(case: Case) -> list[openset.Query]:
    distances = case.distances()
    return [
        openset.Query([row[g] for g in query.items], query.relevant)
        for row, query in zip(distances, case.queries(), strict=True)
    ]


def close(actual: float, exact: Fraction) -> bool:
    return abs(actual - float(exact)) <= 4 * math.ulp(float(exact))


@pytest.mark.thorough
@pytest.mark.parametrize("distance", [*VECTOR_DISTANCES, *MATRIX_DISTANCES])
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_verification_by_brute_force(distance: str, data: st.DataObject) -> None:
    case = data.draw(cases(distance))
    queries = see(case)
    trials = [
        (d, r) for query in queries for d, r in zip(query.distances, query.relevant, strict=True)
    ]
    kinds = {positive for _, positive in trials}
    times = 2 if case.leave_one_out else 1
    negatives = -(-sum(not positive for _, positive in trials) // times)
    for device in ("cpu", "reference"):
        result = case.evaluate(metrics=verification_metrics(), device=device)
        for name, score in result.items():
            if kinds != {True, False}:
                assert math.isnan(score.value)
                assert score.reason.startswith("not defined")
                continue
            kind, _, option = name.partition("@")
            key, _, text = option.partition("=")
            if key == "far" and 0 < Fraction(text) * negatives < 1:
                assert math.isnan(score.value)
                assert_resolves(score.reason, negatives)
                continue
            if kind == "threshold":
                tau = openset.tar_at_far(trials, Fraction(text))[1]
                assert (tau is None) == bool(score.reason)
                # distances have a unit of their own, so what is accepted tells
                if tau is not None and distance != "cityblock":
                    assert score.value == score.threshold
                    near = {d for d, _ in trials if accepts(case, d, Fraction(score.value))}
                    near |= {d for d, _ in trials if math.isclose(d, tau, rel_tol=1e-12)}
                    assert max(near) == tau or distance == "euclidean"
                continue
            if kind == "auc":
                exact = openset.auc(trials)
            elif kind == "eer":
                exact = openset.eer(trials)
            elif kind == "min_dcf":
                p, miss, fa = (1, 2, 3) if option else (1, 1, 1)
                exact = openset.min_dcf(
                    trials, Fraction(p, 2) if option else Fraction(1, 100), Fraction(miss),
                    Fraction(fa),
                )  # fmt: skip
            elif kind == "best_f1":
                exact, tau = openset.best_f1(trials)
                assert score.value == exact.numerator / exact.denominator
                count = sum(not positive for _, positive in trials)
                chance = Fraction(2 * (len(trials) - count), 2 * len(trials) - count)
                assert score.chance == float(chance) <= score.value
                if distance in MATRIX_DISTANCES:  # the unit is the oracle's
                    assert score.threshold == (-tau if distance == "similarity" else tau)
            elif key == "far":
                exact = openset.tar_at_far(trials, Fraction(text))[0]
            elif distance == "cityblock":  # the oracle promises no unit
                continue
            else:
                wanted = kind != "fmr"
                chosen = [d for d, positive in trials if positive == wanted]
                count = sum(accepts(case, d, Fraction(text)) for d in chosen)
                exact = Fraction(count, len(chosen))
                exact = 1 - exact if kind == "fnmr" else exact
            assert close(score.value, exact), (name, device, score.value, float(exact))


@pytest.mark.thorough
@pytest.mark.parametrize("distance", [*VECTOR_DISTANCES, *MATRIX_DISTANCES])
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_open_set_by_brute_force(distance: str, data: st.DataObject) -> None:
    case = data.draw(cases(distance))
    case.options["average"] = "query"
    queries = see(case)
    targets = [query for query in queries if query.has_mate]
    impostors = [query.nearest for query in queries if not query.has_mate]
    met = [d for d in impostors if d is not None]
    for device in ("cpu", "reference"):
        result = case.evaluate(metrics=openset_metrics(), device=device)
        for name, score in result.items():
            kind, _, option = name.partition("@")
            parts = dict(part.split("=") for part in option.split(","))
            rank = int(parts.get("rank", 1))
            if not targets and kind in ("dir", "ttr"):
                assert score.reason == "not defined: no query has a mate in the gallery"
                continue
            if not impostors and ("far" in parts or kind in ("far", "ftr")):
                assert score.reason == "not defined: every query has a mate"
                assert math.isnan(score.value)
                continue
            if "far" in parts:
                target = Fraction(parts["far"])
                if 0 < target * len(impostors) < 1:
                    assert_resolves(score.reason, len(impostors))
                    continue
                r = math.floor(target * len(impostors))
                d_star = sorted(met)[r] if r < len(met) else None

                def accepted(d: Fraction | None, d_star: Fraction | None = d_star) -> bool:
                    return d is not None and (d_star is None or d < d_star)
            elif distance == "cityblock":
                continue
            else:
                tau = Fraction(parts["tau"])

                def accepted(d: Fraction | None, tau: Fraction = tau) -> bool:
                    return d is not None and accepts(case, d, tau)

            if kind in ("far", "ftr"):
                exact = Fraction(sum(accepted(d) for d in impostors), len(impostors))
                assert close(score.value, exact), (name, device)
            elif kind == "ttr":
                exact = Fraction(sum(accepted(q.nearest) for q in targets), len(targets))
                assert close(score.value, exact), (name, device)
            else:
                triples = [
                    ranking.triple(f"hit@{rank}", q.distances, q.relevant)
                    if accepted(q.nearest_mate)
                    else (Fraction(0),) * 3
                    for q in targets
                ]
                means = [sum(column) / len(targets) for column in zip(*triples, strict=True)]
                actual = (score.lower, score.expected, score.upper)
                assert all(map(close, actual, means)), (name, device, actual, means)
                assert score.value == score.lower


def spread(seed: int, queries: int = 120, classes: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Clusters without ties, and some rows whose class is their own."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=queries)
    rows = rng.normal(size=(classes, 10))[labels] + rng.normal(size=(queries, 10))
    labels[: queries // 8] = 1000 + np.arange(queries // 8)
    return rows, labels


def test_scikit_learn_agrees_where_nothing_ties() -> None:
    rows, labels = spread(3)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    i, j = np.triu_indices(len(rows), 1)
    same, similarity = labels[i] == labels[j], (unit @ unit.T)[i, j]
    result = truerank.evaluate(rows, labels, metrics=["auc", "tar@far=0.01", "tar@far=0.2", "eer"])
    assert result["auc"].value == pytest.approx(roc_auc_score(same, similarity), abs=1e-9)
    fpr, tpr, _ = roc_curve(same, similarity)
    for target in (0.01, 0.2):
        best = tpr[fpr <= target].max()
        assert result[f"tar@far={target}"].value == pytest.approx(best, abs=1e-12)
    false, miss, _ = det_curve(same, similarity)
    crossing = np.argmin(np.abs(false - miss))
    assert result["eer"].value == pytest.approx((false + miss)[crossing] / 2, abs=0.01)


def test_a_decimal_target_is_what_it_says() -> None:
    """0.29 * 100 is 28.999... in binary; 29 of 100 impostors may be accepted."""
    distances = np.arange(1, 101.0) / 128
    queries = np.concatenate([[0.295 * 100 / 128], distances])[:, None] * np.ones((1, 1))
    labels = ["a", *(f"x{i}" for i in range(100))]
    result = truerank.evaluate(
        queries, labels, gallery_labels=["a"], distance="precomputed", metrics=["dir@far=0.29"]
    )
    assert result["dir@far=0.29"].value == 1.0
    assert result["dir@far=0.29"].threshold == 0.295 * 100 / 128


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.booleans())
def test_acceptance_without_limit_is_the_cmc_curve(seed: int, ties: bool) -> None:
    """DIR(inf, x) = CMC@x, also with ties, at every rank there is and beyond."""
    rows, labels = spread(seed, 60, 8)
    if ties:
        rows[20:40] = rows[40:60]
    ranks = (1, 2, 5, 20)
    names = [f"{kind}{rank}" for kind in ("hit@", "dir@tau=3,rank=") for rank in ranks]
    result = truerank.evaluate(rows, labels, metrics=names, confidence=None)
    curve = result.curve("cmc", ranks=80)
    assert curve["rank"].tolist() == list(range(1, 81))
    for rank in ranks:
        hit, found = result[f"hit@{rank}"], result[f"dir@tau=3,rank={rank}"]
        assert (hit.lower, hit.expected, hit.upper) == (found.lower, found.expected, found.upper)
        assert hit.per_query == found.per_query
        assert [curve[end][rank - 1] for end in ("lower", "expected", "upper")] == [
            hit.lower,
            hit.expected,
            hit.upper,
        ]
    for end in ("lower", "expected", "upper"):
        assert (np.diff(curve[end]) >= -1e-15).all()
        assert curve[end][-1] == 1.0


def test_curves_are_those_of_scikit_learn() -> None:
    """Where nothing ties every corner of ROC and DET is one of scikit-learn's points."""
    rows, labels = spread(4)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    i, j = np.triu_indices(len(rows), 1)
    same, similarity = labels[i] == labels[j], (unit @ unit.T)[i, j]
    result = truerank.evaluate(rows, labels, metrics=["auc"])
    roc, det = result.curve("roc"), result.curve("det")
    fpr, tpr, cut = roc_curve(same, similarity, drop_intermediate=False)
    theirs = np.column_stack([fpr, tpr, 1 - cut])
    corners = np.column_stack([roc["far"], roc["tar"], roc["threshold"]])
    assert len(corners) > 100
    for far, tar, threshold in corners[1:-1]:
        near = np.abs(theirs[:, :2] - (far, tar)).max(axis=1) < 1e-12
        assert near.any(), (far, tar)
        # the threshold accepts the pairs of that point and none that scikit-learn takes next
        assert theirs[near, 2].max() <= threshold + 1e-7
        assert theirs[np.flatnonzero(near)[-1] + 1 :, 2].min(initial=np.inf) >= threshold - 1e-7
    assert corners[0, :2].tolist() == [0, 0]
    assert corners[-1, :2].tolist() == [1, 1]
    area = np.sum(np.diff(roc["far"]) * (roc["tar"][1:] + roc["tar"][:-1]) / 2)
    assert area == pytest.approx(roc_auc_score(same, similarity), abs=1e-12)
    assert (det["frr"] == 1 - roc["tar"]).all()
    false, miss, _ = det_curve(same, similarity)
    known = {(round(a, 12), round(b, 12)) for a, b in zip(false, miss, strict=True)}
    ours = {(round(a, 12), round(b, 12)) for a, b in zip(det["far"], det["frr"], strict=True)}
    # scikit-learn leaves out what lies before the first false accept and behind the last miss
    inside = {point for point in ours if point[0] > 0 and point[1] > 0}
    assert len(inside) > 100
    assert inside <= known


def test_f1_is_that_of_scikit_learn() -> None:
    rows, labels = spread(5)
    matrix = ((rows[:, None] - rows[None]) ** 2).sum(axis=2)
    i, j = np.triu_indices(len(rows), 1)
    same, distance = labels[i] == labels[j], matrix[i, j]
    result = truerank.evaluate(matrix, labels, distance="precomputed", metrics=["best_f1"])
    precision, recall, cut = precision_recall_curve(same, -distance)
    f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-9)
    best = result["best_f1"]
    assert best.value == pytest.approx(f1.max(), abs=1e-12)
    assert best.threshold == -cut[f1.argmax()]
    assert best.n == len(same)
    curve = result.curve("f1")
    assert list(curve) == ["threshold", "f1", "precision", "recall"]
    assert curve["f1"].max() == best.value
    assert curve["threshold"][curve["f1"].argmax()] == best.threshold
    for threshold, *row in list(zip(*curve.values(), strict=True))[::37]:
        scorers = (f1_score, precision_score, recall_score)
        assert row == pytest.approx([known(same, distance <= threshold) for known in scorers])


def test_the_curve_of_f1_comes_with_its_metric_alone() -> None:
    rows, labels = spread(5)
    with pytest.raises(truerank.InputError, match="no curve 'f1'; there are cmc, roc, det"):
        truerank.evaluate(rows, labels, metrics=["auc", "opis"]).curve("f1")
    alone = truerank.evaluate(rows, np.arange(len(rows)), metrics=["best_f1"])
    assert alone["best_f1"].reason == "not defined: no query has a mate in the gallery"
    with pytest.raises(truerank.InputError, match="no curve"):
        alone.curve("f1")
    together = truerank.evaluate(rows, np.zeros(len(rows)), metrics=["best_f1"])
    assert together["best_f1"].reason == "not defined: there are no pairs of different classes"


def test_the_curve_of_f1_has_its_best_point_however_long_it_is() -> None:
    """Of some thousand corners a thousand are drawn."""
    rng = np.random.default_rng(0)
    labels = np.arange(300) % 20
    rows = rng.normal(size=(20, 8))[labels] + 0.7 * rng.normal(size=(300, 8))
    result = truerank.evaluate(rows, labels, metrics=["best_f1"], confidence=None)
    curve = result.curve("f1")
    assert len(curve["f1"]) < 2500 < result["best_f1"].n
    assert curve["f1"].max() == result["best_f1"].value
    assert (np.diff(curve["threshold"]) >= 0).all()


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.booleans())
def test_the_curve_of_dir_by_definition(seed: int, ties: bool) -> None:
    rows, labels = spread(seed, 80, 8)
    if ties:
        rows = np.round(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", truerank.TruerankWarning)
        result = truerank.evaluate(
            rows, labels, metrics=["dir@far=0.5", "dir@far=0.5,rank=3"], distance="euclidean"
        )
    distance = ((rows[:, None] - rows[None]) ** 2).sum(axis=2)
    if not ties:
        distance = np.round(distance, 9)
    np.fill_diagonal(distance, np.inf)
    mates = labels[:, None] == labels[None]
    np.fill_diagonal(mates, False)
    target = mates.any(axis=1)
    impostors = np.sort(distance[~target].min(axis=1))
    mate = np.where(mates, distance, np.inf).min(axis=1)
    for rank in (1, 3):
        curve = result.curve("dir" if rank == 1 else f"dir@rank={rank}")
        before = (np.where(mates, np.inf, distance) <= mate[:, None]).sum(axis=1)  # ties go first
        surely = before < rank
        for far, lower in zip(curve["far"], curve["lower"], strict=True):
            accepted = round(far * len(impostors))
            limit = np.append(impostors, np.inf)[accepted]
            assert (impostors < limit).sum() == accepted
            expected = (surely & (mate < limit))[target].mean()
            assert lower == pytest.approx(expected, abs=1e-12)
        assert (np.diff(curve["far"]) >= 0).all()
        assert curve["far"][-1] == 1.0
        assert (np.diff(curve["lower"]) >= 0).all()


IN_UNIT = {
    "cosine": lambda x, y: 1 - (x @ y.T) / np.outer(*(np.linalg.norm(s, axis=1) for s in (x, y))),
    "euclidean": lambda x, y: np.sqrt(((x[:, None] - y[None]) ** 2).sum(axis=2)),
    "dot": lambda x, y: -(x @ y.T),
    "cityblock": lambda x, y: np.abs(x[:, None] - y[None]).sum(axis=2),
}


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.sampled_from([*IN_UNIT, "precomputed", "similarity"]))
def test_the_thresholds_of_the_curve_of_dir(seed: int, kind: str) -> None:
    """Accepting up to the threshold, in the user's unit, gives the FAR and the DIR of its point."""
    rng = np.random.default_rng(seed)
    rows, items = (rng.integers(-9, 10, size=(n, 6)) + 0.5 for n in (60, 40))
    if kind == "cosine":  # angles between integers can be too near to tell apart in floats
        rows, items = (rng.normal(size=(n, 6)) for n in (60, 40))
    own = np.where(np.arange(60) < 20, 100 + np.arange(60), np.arange(60) % 8)  # 20 impostors
    theirs = np.arange(40) % 8
    distance = IN_UNIT.get(kind, IN_UNIT["cityblock"])(rows, items)
    options = {"distance": kind, "gallery": items, "gallery_labels": theirs}
    if kind in ("precomputed", "similarity"):
        del options["gallery"]
    given = {"precomputed": distance, "similarity": -distance}.get(kind, rows)
    metrics = [f"dir@far={k / 20:g}" for k in range(21)]
    result = truerank.evaluate(given, own, metrics=metrics, confidence=None, **options)
    curve = result.curve("dir")
    assert list(curve) == ["far", "lower", "expected", "upper", "threshold"]
    sign = -1 if kind == "similarity" else 1
    mates = own[:, None] == theirs[None]
    target = mates.any(axis=1)
    mate = np.where(mates, distance, np.inf).min(axis=1)
    surely = (np.where(mates, np.inf, distance) > mate[:, None] + 1e-7).all(axis=1)
    thresholds = sign * curve["threshold"]
    assert np.isfinite(thresholds[curve["far"] > 0]).all()
    for far, lower, at in zip(curve["far"], curve["lower"], thresholds, strict=True):
        limit = (-np.inf if np.isnan(at) else at) + 1e-7
        assert far == pytest.approx((distance[~target] <= limit).any(axis=1).mean())
        assert lower == pytest.approx((surely & (mate <= limit))[target].mean())
    by_far = {round(far, 2): at for far, at in zip(curve["far"], thresholds, strict=True)}
    met = 0
    for k in range(21):  # without ties every FAR is a point
        if k / 20 in by_far:
            at = result[metrics[k]].threshold
            assert (math.nan if at is None else sign * at) == pytest.approx(
                by_far[k / 20], abs=0, nan_ok=True
            )
            met += 1
    assert met > 5


def test_a_curve_of_dir_that_begins_with_nothing_accepted() -> None:
    """The impostor, at distance 1, is nearer than both mates: at FAR 0 there is no threshold."""
    matrix = [[1.0, 9.0, 9.0], [9.0, 2.0, 3.0], [9.0, 4.0, 3.0]]
    result = truerank.evaluate(
        matrix,
        ["x", "a", "b"],
        gallery_labels=["c", "a", "b"],
        distance="precomputed",
        metrics=["dir@far=0", "dir@far=1"],
    )
    curve = result.curve("dir")
    assert curve["far"].tolist() == [0.0, 1.0]
    assert curve["lower"].tolist() == [0.0, 1.0]
    assert np.isnan(curve["threshold"][0])
    assert curve["threshold"][1] == 3.0
    assert result["dir@far=0"].threshold is None
    assert result["dir@far=1"].threshold == 3.0


@settings(max_examples=50)
@given(st.integers(0, 10**6))
def test_rates_are_monotone(seed: int) -> None:
    rows, labels = spread(seed, 40, 6)
    taus = ["0.05", "0.2", "0.5", "0.8", "1", "1.3", "2"]
    names = [f"{kind}@tau={tau}" for kind in ("fmr", "fnmr", "far", "ttr", "dir") for tau in taus]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", truerank.TruerankWarning)
        result = truerank.evaluate(rows, labels, metrics=names)
    for kind in ("fmr", "fnmr", "far", "ttr", "dir"):
        values = [result[f"{kind}@tau={tau}"].value for tau in taus]
        assert values == sorted(values, reverse=kind == "fnmr")
        assert all(0 <= value <= 1 for value in values)


def test_every_query_has_a_mate() -> None:
    rows, labels = np.eye(4), [0, 0, 1, 1]
    result = truerank.evaluate(rows, labels, metrics=["dir@far=0.1", "far@tau=1"])
    for score in result.values():
        assert math.isnan(score.value)
        assert score.reason == "not defined: every query has a mate"
    assert "dir@far=0.01" not in truerank.evaluate(rows, labels)


def test_swapped_similarities_are_pointed_out() -> None:
    rows, labels = spread(7)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    with pytest.warns(truerank.TruerankWarning, match="may be swapped") as caught:
        truerank.evaluate(unit @ unit.T, labels, distance="precomputed", metrics="auc")
    assert [one.filename for one in caught] == [__file__]
    with pytest.warns(truerank.TruerankWarning, match="may be swapped") as caught:
        truerank.verify([0.1, 0.9], [(0, 1, True), (0, 2, False)], "auc")
    assert [one.filename for one in caught] == [__file__]


# --- no pass, sample or limit can be seen in the result -----------------------------------------


NAMES = ["auc", "min_dcf", "best_f1", "eer", "tar@far=0.01", "threshold@far=0.001", "fmr@tau=0.61"]


def fields(result: Any) -> dict[str, Any]:
    return {name: (s.value, s.threshold, s.n, s.reason) for name, s in result.items()}


@pytest.mark.parametrize("setting", ["leave one out", "query and gallery"])
def test_a_sample_foretells_and_never_decides(
    monkeypatch: pytest.MonkeyPatch, setting: str, within: Within
) -> None:
    """With every pair kept, a good sample, a sample of a few rows, and none: the same numbers."""
    rows, labels = spread(11, 400, 30)
    more = {}
    if setting == "query and gallery":
        more = {"gallery": rows[150:], "gallery_labels": labels[150:]}
        rows, labels = rows[:150], labels[:150]

    def run() -> dict[str, Any]:
        return fields(truerank.evaluate(rows, labels, metrics=NAMES, **more))

    expected = run()
    sweeps = []
    original = truerank.engine.sweep
    monkeypatch.setattr(
        truerank.engine, "sweep", lambda *a, **k: (sweeps.append(1), original(*a, **k))[1]
    )
    within(engine_settings(collected=0))
    assert run() == expected
    assert sweeps  # without a sample a second pass was needed
    within(limits(sampled_from=0))
    for rows_sampled in (3, 100):
        within(limits(sampled_rows=rows_sampled))
        assert run() == expected


def test_thinned_cuts_bracket_the_area_and_what_is_best_over_cuts(within: Within) -> None:
    rows, labels = spread(13, 300, 5)
    exact = truerank.evaluate(rows, labels, metrics=NAMES)
    within(limits(edges=50))
    thinned = truerank.evaluate(rows, labels, metrics=NAMES)
    low, high = thinned["auc"].bracket
    assert low < exact["auc"].value < high
    assert high - low < 0.05
    assert exact["auc"].bracket is None
    for name in NAMES[3:]:
        assert fields(thinned)[name] == fields(exact)[name]
    for name in ("min_dcf", "best_f1"):
        low, high = thinned[name].bracket or (thinned[name].value,) * 2
        assert low <= exact[name].value <= high
    low, high = thinned["best_f1"].bracket
    assert low == thinned["best_f1"].value < high < low + 0.05
    assert exact["best_f1"].bracket is None
    assert thinned.curve("f1")["f1"].max() == low


def test_tiles_and_threads_cannot_be_seen() -> None:
    rows, labels = spread(17, 200, 20)
    expected = fields(truerank.evaluate(rows, labels, metrics=NAMES))
    for sizes in ({"watched_numbers": 1}, {"watched_numbers": 700, "gallery_rows": 13}):
        with engine_settings(**sizes):
            assert fields(truerank.evaluate(rows, labels, metrics=NAMES, threads=3)) == expected
