"""Open-set identification against brute force and properties."""

from __future__ import annotations

import json
import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import truerank
from tests.families.rates import EXAMPLES, RATES, TAUS, accepts, assert_resolves, close, see, spread
from tests.oracles import ranking
from tests.random_tasks import MATRIX_DISTANCES, VECTOR_DISTANCES, cases

FOUND = ("dir", "fnir")


def openset_metrics() -> list[str]:
    return [
        *(f"{name}@far={x},rank={k}" for name in FOUND for x in RATES for k in (1, 2)),
        *(f"{name}@tau={x},rank={k}" for name in FOUND for x in TAUS for k in (1, 3)),
        *(f"{name}@tau={x}" for name in ("far", "ftr", "ttr") for x in TAUS),
        *(f"ttr@far={x}" for x in RATES),
    ]


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
            if not targets and kind in (*FOUND, "ttr"):
                assert score.reason == "not defined: no query has a relevant item in the gallery"
                continue
            if not impostors and ("far" in parts or kind in ("far", "ftr")):
                assert score.reason == "not defined: every query has a relevant item"
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
                if kind == "fnir":  # 1 - DIR, so it has the error of DIR, whose unit is larger
                    gaps = zip(actual, reversed(means), strict=True)
                    near = all(abs(Fraction(one) + mean - 1) <= 2.0**-53 for one, mean in gaps)
                else:
                    near = all(map(close, actual, means))
                assert near, (name, device, actual, means)
                assert score.value == (score.upper if kind == "fnir" else score.lower)


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
        assert score.reason == "not defined: every query has a relevant item"
    assert "dir@far=0.01" not in truerank.evaluate(rows, labels)


@pytest.mark.parametrize("gallery", [False, True])
def test_tiles_cannot_be_seen(gallery: bool) -> None:
    """Where nothing else is asked for, the gallery is seen in parts."""
    rng = np.random.default_rng(7)
    rows, labels = rng.standard_normal((90, 3)), np.arange(90) % 60  # half have no mate
    options = {"gallery": rng.standard_normal((70, 3)), "gallery_labels": np.arange(70) % 35}
    metrics = ["dir@far=0.1", "ttr@far=0.1", "far@tau=0.9"]

    def scores() -> str:
        found = truerank.evaluate(rows, labels, metrics=metrics, **(options if gallery else {}))
        return json.dumps(found.to_dict()["scores"])

    whole = scores()
    with truerank.engine.settings(query_rows=7, gallery_rows=13):
        assert scores() == whole
