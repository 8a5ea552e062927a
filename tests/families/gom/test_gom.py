"""GOM: the paper's Table 2, brute force over all orders, brackets around exact integrals."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import truerank
from tests.conftest import Within
from tests.oracles import gom as oracle
from tests.random_tasks import Case, cases
from truerank._util.settings import limits
from truerank._util.settings import settings as engine_settings
from truerank.core import registry

EXAMPLES = 400 if settings().max_examples >= 10_000 else 20
AT_TAU = ("mrp", "mvp", "mrep")

# Distances of six ranked lists, which items are ground truth, and RP, VP, ReP at .30 and .60.
TABLE = [
    ([0.10, 0.25, 0.35, 0.75, 0.85], "11100", (1, 2 / 3, 0.8165), (1, 1, 1)),
    ([0.55, 0.65, 0.75, 0.85, 0.95], "11100", (0, 0, 0), (1, 1 / 3, 0.5774)),
    ([0.25, 0.35, 0.40, 0.50, 0.80], "10110", (1, 1 / 3, 0.5774), (0.8056, 0.75, 0.7773)),
    ([0.20, 0.35, 0.45, 0.55, 0.70], "11010", (1, 1 / 3, 0.5774), (0.9167, 0.75, 0.8292)),
]
IMPOSTORS = [
    ([0.35, 0.55, 0.65, 0.75, 0.85], (0, 0.0), (1, 0.4)),
    ([0.55, 0.75, 0.80, 0.85, 0.95], (0, 0.0), (1, 0.2)),
]
BY_HAND = {"map": [1, 1, 0.8056, 0.9167], "minp": [1, 1, 0.75, 0.75]}


def table(**options: Any) -> truerank.Result:
    distances = np.array([row[0] for row in (*TABLE, *IMPOSTORS)])
    relevance = np.zeros(distances.shape, bool)
    for number, (_, pattern, _, _) in enumerate(TABLE):
        relevance[number] = [mark == "1" for mark in pattern]
    return truerank.evaluate(distances, relevance=relevance, distance="precomputed", **options)


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_table_2_cell_by_cell(device: str) -> None:
    metrics = ["map", "minp", *(f"{n}@tau={t}" for n in ("mrp", "mvp", "mrep") for t in (0.3, 0.6))]
    metrics += [f"mfr@b=5,tau={t}" for t in (0.3, 0.6)] + [f"far@tau={t}" for t in (0.3, 0.6)]
    result = table(metrics=metrics, device=device)
    for name, expected in BY_HAND.items():
        assert result[name].per_query.lower[:4] == pytest.approx(expected, abs=5e-5)
    for column, tau in ((2, 0.3), (3, 0.6)):
        for place, name in enumerate(("mrp", "mvp", "mrep")):
            score = result[f"{name}@tau={tau}"]
            expected = [row[column][place] for row in TABLE]
            assert score.per_query.lower[:4] == pytest.approx(expected, abs=5e-5)
            assert np.isnan(score.per_query.lower[4:]).all()
            assert score.n == 4
            assert score.value == pytest.approx(np.mean(expected), abs=5e-5)
    for column, tau in ((1, 0.3), (2, 0.6)):
        far, rate = result[f"far@tau={tau}"], result[f"mfr@b=5,tau={tau}"]
        assert far.per_query.lower[4:].tolist() == [row[column][0] for row in IMPOSTORS]
        assert rate.per_query.lower[4:] == pytest.approx([row[column][1] for row in IMPOSTORS])


def test_integrals_of_table_2_by_hand() -> None:
    """List I: 0 to .10, then 1/3 of R, 2/3, all of it, and one and two false accepts."""
    r3 = math.sqrt
    first = r3(1 / 3) * 0.15 + r3(2 / 3) * 0.10 + 1 * 0.40 + r3(3 / 4) * 0.10 + r3(3 / 5) * 0.15
    frozen = r3(1 / 3) * 0.15 + r3(2 / 3) * 0.10 + 1 * 0.65
    result = table(metrics=["mrep", "mrep@fp=frozen", "mfr@b=5", "mfr@b=1", "tau_nz"])
    assert result["mrep"].per_query.lower[0] == pytest.approx(first, rel=1e-14)
    assert result["mrep@fp=frozen"].per_query.lower[0] == pytest.approx(frozen, rel=1e-14)
    by_hand = [(0.65 + 0.45 + 0.35 + 0.25 + 0.15) / 5, (0.45 + 0.25 + 0.2 + 0.15 + 0.05) / 5]
    assert result["mfr@b=5"].per_query.lower[4:] == pytest.approx(by_hand, rel=1e-14)
    assert result["mfr@b=1"].per_query.lower[4:] == pytest.approx([0.65, 0.45], rel=1e-14)
    assert result["tau_nz"].value == 0.35


def axis(case: Case, scale: str) -> list[list[Fraction]] | None:
    """tau of every pair; None where the distances do not lie in [0, 1].

    The matrix has no columns for junk labels: those items are not in the gallery.
    """
    distances = case.distances()
    labels = case.options.get("gallery_labels", case.labels)
    junk = case.options.get("junk_labels", ())
    items = [g for g in range(len(distances[0])) if not junk or labels[g] not in junk]
    every = [row[g] for row in distances for g in items]
    if scale == "minmax":
        unit = Fraction
        if case.options["distance"] == "euclidean":  # the oracle has squares of distances
            unit = lambda d: Fraction(math.sqrt(d))  # noqa: E731
        low, high = unit(min(every)), unit(max(every))
        width = Fraction(float(high) - float(low)) or Fraction(1)
        return [[min((unit(d) - low) / width, Fraction(1)) for d in row] for row in distances]
    if case.options["distance"] == "cosine":
        return [[min(d / 4, Fraction(1)) for d in row] for row in distances]
    if case.options["distance"] == "precomputed" and min(every) >= 0 and max(every) <= 1:
        return distances
    return None


@pytest.mark.thorough
@pytest.mark.parametrize("distance", ["cosine", "precomputed", "euclidean", "similarity"])
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_every_order(distance: str, data: st.DataObject) -> None:
    case = data.draw(cases(distance))
    case.options["average"] = "query"
    if data.draw(st.booleans()) and distance == "precomputed":
        case.embeddings = np.abs(case.embeddings)
    scale = data.draw(st.sampled_from(["fixed", "minmax"]))
    taus = axis(case, scale)
    more = "" if scale == "fixed" else ",scale=minmax"
    points = ["0.1", "0.25", "0.5"]
    names = [f"{n}@tau={t}{more}" for n in AT_TAU for t in points]
    names += [f"mrep@fp={fp},integral={i}{more}" for fp in ("all", "frozen")
              for i in ("step", "exact", "trapezoid")]  # fmt: skip
    names += [f"mfr@b={b},integral={i}{more}" for b in (2, 50) for i in ("step", "trapezoid")]
    names += [f"mfr@b=2,tau={t}{more}" for t in points]
    names += [f"tau_nz@scale={scale}"]
    names += [
        str(registry.parse(f"{n}@scale={scale},fp={fp},integral={i}"))
        for n in ("mrep_max", "mvp_max", "tau_max")
        for fp in ("all", "frozen")
        for i in ("step", "trapezoid")
    ]
    queries = [
        ([taus[q][g] for g in query.items] if taus else [], query.relevant)
        for q, query in enumerate(case.queries())
    ]
    result = case.evaluate(metrics=names, device="cpu")
    assert {n: str(s) for n, s in case.evaluate(metrics=names, device="reference").items()} == {
        n: str(s) for n, s in result.items()
    }
    # Where tau is the given float64 itself, thresholds are float64 as well: .1 accepts .1.
    given = taus == case.distances()
    for name in names:
        check(name, result[name], queries, exact=taus is not None, rounded=given)


def check(name: str, score: Any, queries: list[Any], *, exact: bool, rounded: bool) -> None:
    kind, _, text = name.partition("@")
    options = dict(part.split("=") for part in text.split(",") if part)
    targets = [q for q in queries if any(q[1])]
    impostors = [q[0] for q in queries if not any(q[1])]
    if not exact or not (impostors if kind in ("mfr", "tau_nz") else targets):
        assert math.isnan(score.value)
        assert score.reason.startswith("not defined")
        return
    if kind == "tau_nz":
        met = [t for taus in impostors for t in taus]
        assert bool(met) == (score.reason is None)
        assert not met or score.value == pytest.approx(float(min(met)), abs=1e-12)
        return
    if kind == "mfr":
        limit = int(options["b"])
        values = []
        for taus in impostors:

            def rate(tau: Fraction, taus: Any = taus) -> oracle.Triple:
                return (oracle.false_rate(taus, tau, limit),) * 3

            if "tau" in options:
                tau = Fraction(options["tau"])
                values.append(rate(Fraction(float(tau)) if rounded else tau)[0])
            elif options["integral"] == "trapezoid":
                values.append(oracle.trapezoid(rate, rounded)[0])
            else:
                values.append(oracle.integral(taus, rate)[0])
        assert score.value == pytest.approx(float(np.mean(values)), abs=1e-12), name
        return
    if kind in ("mrep_max", "mvp_max", "tau_max"):
        steps = sorted({Fraction(0)} | {min(t, Fraction(1)) for taus, _ in targets for t in taus})
        if options.get("integral") == "trapezoid":
            steps = [Fraction(i / 100) if rounded else Fraction(i, 100) for i in range(101)]
        frozen = options.get("fp") == "frozen"
        function = oracle.verification_precision if kind == "mvp_max" else oracle.combined
        curve = [np.mean([function(*q, tau, frozen) for q in targets], axis=0) for tau in steps]
        highest = max(point[0] for point in curve)
        if kind == "tau_max":  # the smallest threshold
            first = next(t for t, point in zip(steps, curve, strict=True)
                         if point[0] > highest - 1e-12)  # fmt: skip
            assert score.value == pytest.approx(float(first), abs=1e-9), name
            return
        assert score.value == score.lower
        for place, end in enumerate(("lower", "expected", "upper")):
            value = max(point[place] for point in curve)
            assert getattr(score, end) == pytest.approx(value, abs=1e-12), (name, end)
        return
    values = []
    frozen = options.get("fp") == "frozen"
    for taus, relevant in targets:

        @oracle.between_steps(taus)
        def value(tau: Fraction, taus: Any = taus, flags: Any = relevant) -> oracle.Triple:
            if kind == "mrp":
                return oracle.retrieval_precision(taus, flags, tau)
            if kind == "mvp":
                return oracle.verification_precision(taus, flags, tau, frozen)
            return oracle.combined(taus, flags, tau, frozen)

        if "tau" in options:
            tau = Fraction(options["tau"])
            values.append(value(Fraction(float(tau)) if rounded else tau))
        elif options["integral"] == "trapezoid":
            values.append(oracle.trapezoid(value, rounded))
        else:
            values.append(oracle.integral(taus, value))
    actual = (score.lower, score.expected, score.upper)
    assert actual == pytest.approx(np.mean(values, axis=0).tolist(), abs=1e-12), name
    assert score.lower <= score.expected + 1e-15
    assert score.expected <= score.upper + 1e-15
    assert score.lower >= 0
    assert score.upper <= 1


# --- the whole matrix, by brute force -------------------------------------------------------------


def open_rows(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Queries of six classes, of which the gallery has four, and rows without ties."""
    rng = np.random.default_rng(seed)
    centres = rng.integers(-(1 << 18), 1 << 18, size=(6, 3))
    labels, stored = np.arange(18) % 6, np.arange(40) % 4
    near = [
        centres[some] + rng.integers(-(1 << 18), 1 << 18, size=(len(some), 3))
        for some in (labels, stored)
    ]
    return near[0].astype(float), labels, near[1].astype(float), stored


def at(row: np.ndarray, flags: np.ndarray, tau: float, frozen: bool) -> tuple[float, float, float]:
    """RP, VP and ReP of one query without ties at a threshold."""
    order = np.argsort(row)
    ours, all_ours = flags[order][: np.count_nonzero(row <= tau)], np.flatnonzero(flags[order])
    found = np.flatnonzero(ours)
    if not len(found):
        return 0.0, 0.0, 0.0
    precision = float(np.mean(np.arange(1, len(found) + 1) / (found + 1)))
    false = len(ours) - len(found)
    if frozen and len(found) == len(all_ours):
        false = all_ours[-1] + 1 - len(all_ours)
    share = len(found) / (len(all_ours) + false)
    return precision, share, math.sqrt(precision * share)


def area(row: np.ndarray, flags: np.ndarray, frozen: bool) -> float:
    """The integral of a query's ReP over [0, 1]."""
    ends = np.unique(np.concatenate([[0.0, 1.0], row]))
    return sum(at(row, flags, a, frozen)[2] * (b - a) for a, b in pairwise(ends.tolist()))


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("seed", range(3))
def test_minmax_of_euclidean_rows_by_brute_force(seed: int, device: str) -> None:
    """Distances, not their squares, are rescaled: over all queries, mated and unmated together."""
    rows, labels, gallery, stored = open_rows(seed)
    matrix = np.sqrt(((rows[:, None] - gallery[None]) ** 2).sum(axis=2))
    scaled = (matrix - matrix.min()) / (matrix.max() - matrix.min())
    mated = np.isin(labels, stored)
    queries = [(scaled[q], stored == labels[q]) for q in np.flatnonzero(mated)]
    by_hand = {
        "mrep@scale=minmax": np.mean([area(*query, False) for query in queries]),
        "mrep@fp=frozen,scale=minmax": np.mean([area(*query, True) for query in queries]),
        "mfr@b=5,scale=minmax": np.mean(1 - np.sort(scaled[~mated], axis=1)[:, :5]),
        "mfr@b=5,scale=minmax,tau=0.4": np.mean(
            np.minimum((scaled[~mated] <= 0.4).sum(axis=1) / 5, 1)
        ),
        "tau_nz@scale=minmax": scaled[~mated].min(),
    }
    for place, kind in enumerate(("mrp", "mvp", "mrep")):
        found = [at(*query, 0.4, False)[place] for query in queries]
        by_hand[f"{kind}@scale=minmax,tau=0.4"] = np.mean(found)
    points = np.linspace(0, 1, 101)
    curve = np.mean([[at(*query, tau, True)[2] for tau in points] for query in queries], axis=0)
    by_hand["mrep@fp=frozen,integral=trapezoid,scale=minmax"] = (curve[1:] + curve[:-1]).sum() / 200
    for fp in ("all", "frozen"):
        for integral, taus in (("step", np.unique(scaled[mated])), ("trapezoid", points)):
            heights = np.array(
                [np.mean([at(*query, tau, fp == "frozen") for query in queries], axis=0)
                 for tau in taus]
            )  # fmt: skip
            rest = f"@fp={fp},integral={integral},scale=minmax"
            by_hand[str(registry.parse("mvp_max" + rest))] = heights[:, 1].max()
            by_hand[str(registry.parse("mrep_max" + rest))] = heights[:, 2].max()
            place = int(np.argmax(np.round(heights[:, 2], 13)))  # the smallest threshold of several
            by_hand[str(registry.parse("tau_max" + rest))] = taus[place]
    task = {"gallery": gallery, "gallery_labels": stored, "distance": "euclidean"}
    result = truerank.evaluate(rows, labels, metrics=list(by_hand), device=device, **task)
    for name, value in by_hand.items():
        assert result[name].value == pytest.approx(value, abs=1e-12), name
    with limits(breakpoints=0):
        rough = truerank.evaluate(rows, labels, metrics="mrep@scale=minmax", device=device, **task)
    low, high = rough["mrep@scale=minmax"].bracket
    assert low <= by_hand["mrep@scale=minmax"] <= high


# --- brackets -------------------------------------------------------------------------------------


def open_task(seed: int, ties: bool) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(30, size=300)
    rows = rng.normal(size=(30, 12))[labels] + 0.7 * rng.normal(size=(300, 12))
    if ties:
        rows = np.round(rows * 2) / 2
        rows[::7] = rows[1::7][: len(rows[::7])]
    return {
        "embeddings": np.concatenate([rows[:80], rng.normal(size=(20, 12))]),
        "labels": np.concatenate([labels[:80], 1000 + np.arange(20)]),
        "gallery": rows[80:],
        "gallery_labels": labels[80:],
        "query_groups": rng.integers(3, size=100),
        "gallery_groups": rng.integers(3, size=220),
    }


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_the_bracket_holds_the_exact_integral(within: Within, ties: bool, device: str) -> None:
    task = open_task(3, ties)
    names = ["mrep", "mrep@fp=frozen", "mrep@integral=exact", "mrep@fp=frozen,integral=exact"]
    exact = truerank.evaluate(**task, metrics=names, device=device)
    assert exact["mrep"].bracket is None
    assert exact["mrep"].value == exact["mrep@integral=exact"].value
    within(limits(breakpoints=0))
    rough = truerank.evaluate(**task, metrics=names, device=device)
    for name, forced in ((names[0], names[2]), (names[1], names[3])):
        low, high = rough[name].bracket
        assert low <= exact[name].lower
        assert exact[name].upper <= high
        assert low <= rough[name].value <= high
        assert rough[forced].bracket is None
        for end in ("lower", "expected", "upper"):
            assert getattr(rough[forced], end) == getattr(exact[forced], end)
            each = getattr(rough[name].per_query, end)
            assert each == pytest.approx(getattr(exact[name].per_query, end), abs=3e-4, nan_ok=True)
    if not ties:
        low, high = rough["mrep"].bracket
        assert 0 < high - low < 1e-3 * rough["mrep"].value


def test_tiles_and_threads_cannot_be_seen() -> None:
    task = open_task(5, ties=True)
    names = ["mrep", "mfr@b=7", "mrep_max", "mvp_max", "tau_max", "mrep@scale=minmax"]
    names += ["mvp_max@fp=frozen", "tau_max@fp=frozen,integral=trapezoid"]
    expected = truerank.evaluate(**task, metrics=names)
    with engine_settings(observed_numbers=500, gallery_rows=17):
        small = truerank.evaluate(**task, metrics=names, threads=3)
    for name in names:
        assert small[name] == expected[name]
    for name in ("mrep", "mvp", "mfr@b=7", "mrep@scale=minmax"):
        for column, values in expected.curve(name).items():
            assert (values == small.curve(name)[column]).all()


def test_curves_pass_through_the_values_at_their_thresholds() -> None:
    task = open_task(7, ties=True)
    taus = ["0", "0.2", "0.331", "0.5", "1"]
    names = ["mrep", "mfr@b=7", *(f"{n}@tau={t}" for n in ("mrp", "mvp", "mrep") for t in taus)]
    names += [f"mfr@b=7,tau={t}" for t in taus]
    result = truerank.evaluate(**task, metrics=names)
    for kind in ("mrp", "mvp", "mrep"):
        curve = result.curve(kind)
        assert curve["tau"].tolist() == [i / 1000 for i in range(1001)]
        for tau in taus:
            for end in ("lower", "expected", "upper"):
                at = curve[end][round(float(tau) * 1000)]
                assert at == pytest.approx(getattr(result[f"{kind}@tau={tau}"], end), abs=1e-13)
    for tau in taus:
        at = result.curve("mfr@b=7")["value"][round(float(tau) * 1000)]
        assert at == pytest.approx(result[f"mfr@b=7,tau={tau}"].value, abs=1e-13)
    with pytest.raises(truerank.InputError, match="no curve 'roc'"):
        result.curve("roc")


def test_distances_outside_the_axis_need_minmax() -> None:
    task = open_task(9, ties=False) | {"distance": "euclidean"}
    result = truerank.evaluate(**task, metrics=["mrep", "mrep@scale=minmax"])
    assert "ask for scale=minmax" in result["mrep"].reason
    assert math.isnan(result["mrep"].value)
    assert 0 < result["mrep@scale=minmax"].value < 1


def test_defaults_with_queries_without_a_mate() -> None:
    task = open_task(11, ties=False)
    result = truerank.evaluate(**task)
    assert {"mrep", "mfr"} <= set(result)
    assert "20 unmated queries cannot resolve a FAR of 0.01" in result.skipped["dir@far=0.01"]
