"""Metrics as values, and their arithmetic against sums of exact fractions."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import truerank
from tests import registered
from truerank.core import registry
from truerank.core.average import class_mean, mean
from truerank.core.metric import Definition, Metric, RankingDefinition, ThresholdDefinition
from truerank.core.parameters import Choice
from truerank.core.registry import parse
from truerank.core.scale import Scale
from truerank.engine import TieGroups

HEAVY = min(settings().max_examples // 4, 500)
"""Examples of those tests whose exact sums have thousands of terms."""

RANKING = dict.fromkeys(parse(text).name for text in registered.ranking())

# --- the grammar ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("map", "map"),
        ("map@r", "map@r"),
        ("map@10", "map@10"),
        ("map@10,divisor=min", "map@10,divisor=min"),
        ("map@10,divisor=r", "map@10"),
        ("map@divisor=min,10", "map@10,divisor=min"),
        (" MAP@R ", "map@r"),
        ("map @ 10 , divisor = min", "map@10,divisor=min"),
        ("hit@010", "hit@10"),
        ("precision_at_1", "precision@1"),
        ("Precision@1", "precision@1"),
        ("p@10", "precision@10"),
        ("P@1", "precision@1"),
        ("prec@3", "precision@3"),
        ("precision@r", "r_precision"),
        ("R-Precision", "r_precision"),
        ("rprec", "r_precision"),
        ("rp", "r_precision"),
        ("mean_average_precision", "map"),
        ("mean_average_precision_at_r", "map@r"),
        ("mean_average_precision_at_10", "map@10"),
        ("map_cut_10", "map@10"),
        ("ap", "map"),
        ("AP@5", "map@5"),
        ("ap@r", "map@r"),
        ("mean_reciprocal_rank", "mrr"),
        ("recip_rank", "mrr"),
        ("rr", "mrr"),
        ("mean_inverse_negative_penalty", "minp"),
        ("cmc@5", "hit@5"),
        ("CMC@1", "hit@1"),
        ("rank-1", "hit@1"),
        ("Rank1", "hit@1"),
        ("rank@20", "hit@20"),
        ("top5", "hit@5"),
        ("hits@10", "hit@10"),
        ("hit_rate@3", "hit@3"),
        ("success_5", "hit@5"),
        ("recall_at_4", "recall@4"),
        ("recall@4", "recall@4"),
    ],
)
def test_metrics_parse_and_print(text: str, canonical: str) -> None:
    metric = parse(text)
    assert str(metric) == canonical
    assert parse(canonical) == metric
    assert hash(parse(canonical)) == hash(metric)


def test_every_metric_prints_as_it_parses() -> None:
    cuts = {"none": [None], "number": [1, 2, 10, 2**31 - 1], "optional": [None, "r", 1, 10]}
    for name in RANKING:
        entry = registry.definition(Metric(name))
        choices = {one.name: one.kind.words for one in entry.parameters if one.name != "level"}
        options = [
            dict(zip(choices, values, strict=True))
            for values in itertools.product(*choices.values())
        ]
        for cut, chosen in itertools.product(cuts[entry.cut], options):
            if "divisor" in chosen and not isinstance(cut, int):
                continue
            text = str(Metric(name, cut, tuple(chosen.items())))
            metric = parse(text)
            assert (metric.name, metric.cut) == (name, cut)
            assert parse(str(metric)) == metric
            assert parse(text.upper()) == metric
            assert {key: metric[key] for key in chosen} == chosen
    for text in registry.examples():
        assert str(parse(text)) == text


def test_one_metric_under_two_names_is_computed_once() -> None:
    assert [str(m) for m in registry.parse_all(["hit@5", "cmc@5", "map"])] == ["hit@5", "map"]
    assert [str(m) for m in registry.parse_all("cmc@5")] == ["hit@5"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("maq", ["unknown metric 'maq'", "did you mean 'map'"]),
        ("prescision@5", ["unknown", "did you mean 'precision@5'"]),
        ("mrrr", ["did you mean 'mrr'"]),
        ("hits", ["'hits'", "cut-off"]),
        ("cmc", ["'cmc'", "cut-off"]),
        ("rank", ["'rank'", "cut-off"]),
        ("p", ["'p'", "cut-off"]),
        ("zzzzzz", ["unknown metric 'zzzzzz'", "known are", "map", "hit", "minp"]),
        ("hit", ["needs a cut-off", "hit@10"]),
        ("precision", ["needs a cut-off", "precision@10"]),
        ("recall", ["needs a cut-off"]),
        ("hit@0", ["'k' parameter of hit", "int >= 1", "'0'"]),
        ("cmc@0", ["'k' parameter of hit", "int >= 1", "'0'"]),
        ("hit@-1", ["'k' parameter of hit", "int >= 1", "'-1'"]),
        ("hit@1.5", ["'k' parameter of hit", "'1.5'"]),
        ("hit@r", ["'k' parameter of hit", "'r'"]),
        ("cmc@r", ["'k' parameter of hit", "'r'"]),
        ("hit@", ["'k' parameter of hit", "''"]),
        ("hit@²", ["'k' parameter of hit", "'²'"]),
        ("hit@1e3", ["'k' parameter of hit"]),
        ("hit@99999999999999999999", ["'k' parameter of hit"]),
        ("map@all", ["'k' parameter of map", "int >= 1 or r", "'all'"]),
        ("mrr@10", ["'mrr' takes no cut-off", "'10'"]),
        ("minp@r", ["'minp' takes no cut-off", "'r'"]),
        ("hit@5,6", ["two cut-offs", "name@k,key=value"]),
        ("hit@5,divisor=min", ["'hit' has no option 'divisor'"]),
        ("map@10,divizor=min", ["'map' has no option 'divizor'", "known are divisor"]),
        ("map@10,divisor=k", ["'divisor' option of map", "r, min", "'k'"]),
        ("map@10,divisor=", ["'divisor' option of map", "r, min"]),
        ("map@divisor=min", ["divisor", "number as cut-off"]),
        ("map@r,divisor=min", ["divisor", "number as cut-off"]),
        ("", ["'map@r' or 'hit@10'", "''"]),
        ("  ", ["'map@r' or 'hit@10'"]),
        ("@5", ["unknown metric '@5'"]),
        (5, ["'map@r' or 'hit@10'", "5"]),
        (None, ["'map@r' or 'hit@10'", "None"]),
    ],
)
def test_metrics_that_do_not_exist(text: Any, words: list[str]) -> None:
    with pytest.raises(truerank.InputError) as caught:
        parse(text)
    message = str(caught.value)
    assert "\n" not in message
    assert [word for word in words if word not in message] == [], message


def test_an_option_given_twice_is_refused() -> None:
    with pytest.raises(truerank.InputError, match="divisor"):
        parse("map@10,divisor=min,divisor=r")


@pytest.mark.parametrize("name", registry.names())
def test_every_metric_is_documented(name: str) -> None:
    entry = registry.definition(Metric(name))
    assert entry.name == name
    for text in (entry.title, entry.definition, entry.citation):
        assert text.strip() == text
        assert text
    assert any(str(year) in entry.citation for year in range(1950, 2040))
    low, high = entry.range
    assert low < high
    assert isinstance(entry.higher_is_better, bool)
    assert entry.cut in ("none", "number", "number or none", "optional")
    assert entry.examples
    assert {parse(text).name for text in entry.examples} == {name}
    for parameter in entry.parameters:
        if isinstance(parameter.kind, Choice):
            shown = {parse(text)[parameter.name] for text in entry.examples}
            assert shown == set(parameter.kind.words)
    kinds = (RankingDefinition, ThresholdDefinition)
    assert isinstance(entry, kinds) == (entry.family != "clustering")  # which looks at the rows
    known = {parameter.name for parameter in entry.parameters}
    assert len(known) == len(entry.parameters)
    assert known >= {*entry.one_of, *(name for pair in entry.needs for name in pair)}
    assert known >= {name for pair in entry.apart for name in (pair.first, pair.second)}


def test_no_metric_is_registered_twice() -> None:
    entry = registry.definition(Metric("map"))
    with pytest.raises(ValueError, match="'map' is registered twice"):
        registry.register(Definition("map", "again", "the same", entry.citation))


def test_the_default_metrics_exist() -> None:
    assert [str(parse(text)) for text in registry.DEFAULT] == list(registry.DEFAULT)


def test_recall_at_1_is_questioned() -> None:
    rows, labels = np.eye(4), [0, 0, 1, 1]
    for text in ("recall@1", "recall_at_1"):
        with pytest.warns(truerank.TruerankWarning, match=r"papers mean hit@1") as caught:
            truerank.evaluate(rows, labels, metrics=[text, "map"])
        assert len(caught) == 1
        assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        truerank.evaluate(rows, labels, metrics=["recall@2", "hit@1", "precision@1"])
        truerank.evaluate(rows, labels, metrics="all")


# --- tie groups against fractions -----------------------------------------------------------------

Ratio = tuple[int, int]
ONE_GRADE = Scale(np.ones(1))
Groups = list[tuple[int, int, int]]
"""Tie groups that hold relevant items: (items since the group before, size, relevant)."""


def total(terms: Iterable[Ratio]) -> Ratio:
    """The sum of many fractions over one common denominator, by halves, never reduced."""
    level = list(terms) or [(0, 1)]
    while len(level) > 1:
        merged = [
            (a[0] * b[1] + b[0] * a[1], a[1] * b[1])
            for a, b in zip(level[::2], level[1::2], strict=False)
        ]
        level = merged + level[2 * len(merged) :]
    return level[0]


def nearest(value: Ratio | Fraction) -> float:
    """The double nearest to a fraction: Python divides integers with one rounding."""
    top, bottom = value if isinstance(value, tuple) else (value.numerator, value.denominator)
    return top / bottom


def tie_groups(groups: Groups) -> TieGroups:
    """One query with these groups."""
    before, place = [], 0
    for gap, size, _ in groups:
        before.append(place + gap)
        place += gap + size
    return TieGroups(
        np.array([0, len(groups)]),
        np.array(before),
        np.array([size for _, size, _ in groups]),
        np.array([[relevant] for _, _, relevant in groups]),
        np.array([place]),
    )


def triple(metric: str, groups: Groups) -> list[float]:
    parsed = parse(metric)
    values = registry.definition(parsed).per_query(tie_groups(groups), parsed, ONE_GRADE)
    assert values.shape == (3, 1)
    return values[:, 0].tolist()


def precisions(groups: Groups, cut: float) -> tuple[Ratio, Ratio, Ratio]:
    """Sums of the precision at each relevant item up to the cut: last, in expectation, first.

    In expectation position p of a group holds a relevant item with probability m/t, and each of
    the p - 1 positions before it then holds one with probability (m - 1)/(t - 1).
    """
    lower, expected, upper = [], [], []
    place = found = 0
    for gap, size, relevant in groups:
        place += gap
        for i in range(1, relevant + 1):
            if place + size - relevant + i <= cut:
                lower.append((found + i, place + size - relevant + i))
            if place + i <= cut:
                upper.append((found + i, place + i))
        for p in range(1, size + 1):
            if place + p > cut:
                break
            pairs = Fraction((p - 1) * (relevant - 1), size - 1) if size > 1 else Fraction(0)
            share = Fraction(relevant, size) * (found + 1 + pairs)
            expected.append((share.numerator, share.denominator * (place + p)))
        place += size
        found += relevant
    return total(lower), total(expected), total(upper)


@st.composite
def groups_of(draw: st.DrawFn, most: int, size: int, far: int) -> Groups:
    groups = []
    for _ in range(draw(st.integers(1, most))):
        gap = draw(st.one_of(st.integers(0, 10), st.integers(0, far)))
        items = draw(st.one_of(st.integers(1, 10), st.integers(1, size)))
        relevant = draw(st.one_of(st.integers(1, min(items, 5)), st.integers(1, items)))
        groups.append((gap, items, relevant))
    return groups


def divided(value: Ratio, divisor: int) -> Ratio:
    return value[0], value[1] * divisor


def assert_average_precision(groups: Groups, cut: int) -> None:
    mates = sum(relevant for _, _, relevant in groups)
    for metric, last, divisor in (
        ("map", math.inf, mates),
        ("map@r", mates, mates),
        (f"map@{cut}", cut, mates),
        (f"map@{cut},divisor=min", cut, min(mates, cut)),
    ):
        expected = [nearest(divided(value, divisor)) for value in precisions(groups, last)]
        assert triple(metric, groups) == expected, metric


@pytest.mark.thorough
@given(groups_of(most=5, size=60, far=1000), st.integers(1, 1200))
def test_average_precision_is_correctly_rounded(groups: Groups, cut: int) -> None:
    assert_average_precision(groups, cut)


@pytest.mark.thorough
@settings(max_examples=HEAVY)
@given(groups_of(most=2, size=5000, far=1_000_000), st.integers(1, 1_010_000))
def test_average_precision_of_large_groups_far_down(groups: Groups, cut: int) -> None:
    assert_average_precision(groups, cut)


@pytest.mark.parametrize(
    "groups",
    [
        [(0, 5000, 1)],
        [(0, 5000, 4999)],
        [(0, 5000, 5000)],
        [(1_000_000, 5000, 1)],
        [(1_000_000, 5000, 2500)],
        [(999_936, 64, 3)],  # around the spacing of the table of harmonic numbers
        [(999_937, 65, 3)],
        [(63, 64, 1), (0, 65, 64)],
        [(1, 2, 1), (1_000_000, 1, 1), (0, 129, 128)],
    ],
)
def test_average_precision_at_the_edges(groups: Groups) -> None:
    place = sum(gap + size for gap, size, _ in groups)
    for cut in (1, place - 1, place, place + 1):
        assert_average_precision(groups, max(cut, 1))


def reciprocal_ranks(group: tuple[int, int, int]) -> list[float]:
    before, size, relevant = group
    expected = total(
        (math.comb(size - p, relevant - 1), before + p) for p in range(1, size - relevant + 2)
    )
    return [
        1 / (before + size - relevant + 1),
        nearest(divided(expected, math.comb(size, relevant))),
        1 / (before + 1),
    ]


def inverse_penalties(groups: Groups) -> list[float]:
    mates = sum(relevant for _, _, relevant in groups)
    place = sum(gap + size for gap, size, _ in groups)
    _, size, relevant = groups[-1]
    before = place - size
    expected = total(
        (math.comb(p - 1, relevant - 1) * mates, before + p) for p in range(relevant, size + 1)
    )
    return [
        mates / place,
        nearest(divided(expected, math.comb(size, relevant))),
        mates / (before + relevant),
    ]


@pytest.mark.thorough
@given(groups_of(most=3, size=40, far=1000))
def test_extreme_ranks_are_correctly_rounded(groups: Groups) -> None:
    assert triple("mrr", groups) == reciprocal_ranks(groups[0])
    assert triple("minp", groups) == inverse_penalties(groups)


@pytest.mark.thorough
@settings(max_examples=HEAVY)
@given(groups_of(most=2, size=700, far=1_000_000))
def test_extreme_ranks_of_large_groups_far_down(groups: Groups) -> None:
    assert triple("mrr", groups) == reciprocal_ranks(groups[0])
    assert triple("minp", groups) == inverse_penalties(groups)


@pytest.mark.parametrize("relevant", [1, 2, 3, 40, 1000, 1999, 2000])
@pytest.mark.parametrize("before", [0, 1_000_000])
def test_extreme_ranks_of_one_large_group(before: int, relevant: int) -> None:
    groups = [(before, 2000, relevant)]
    assert triple("mrr", groups) == reciprocal_ranks(groups[0])
    assert triple("minp", groups) == inverse_penalties(groups)


@pytest.mark.thorough
@given(
    st.integers(0, 1000),
    st.one_of(st.integers(1, 12), st.integers(1, 200_000)),
    st.data(),
)
def test_hits_are_correctly_rounded(before: int, size: int, data: st.DataObject) -> None:
    few = st.integers(1, min(size, 20))
    relevant = data.draw(st.one_of(few, st.integers(max(1, size - 20), size)))
    drawn = data.draw(st.one_of(few, st.integers(max(1, size - 20), size)))
    miss = Fraction(math.comb(size - relevant, drawn), math.comb(size, drawn))
    upper_and_lower = [float(drawn > size - relevant), nearest(1 - miss), 1.0]
    assert triple(f"hit@{before + drawn}", [(before, size, relevant)]) == upper_and_lower
    if before:
        assert triple(f"hit@{before}", [(before, size, relevant)]) == [0.0, 0.0, 0.0]


@given(groups_of(most=4, size=5000, far=1_000_000), st.integers(1, 1_010_000))
def test_shares_are_correctly_rounded(groups: Groups, cut: int) -> None:
    mates = sum(relevant for _, _, relevant in groups)
    for metric, k, divisor in (
        (f"precision@{cut}", cut, cut),
        (f"recall@{cut}", cut, mates),
        ("r_precision", mates, mates),
    ):
        fewest = most = 0
        expected = Fraction(0)
        place = 0
        for gap, size, relevant in groups:
            place += gap
            fewest += min(max(k - (place + size - relevant), 0), relevant)
            most += min(max(k - place, 0), relevant)
            expected += Fraction(relevant * min(max(k - place, 0), size), size)
            place += size
        assert triple(metric, groups) == [
            fewest / divisor,
            nearest(expected / divisor),
            most / divisor,
        ]


def preferences(groups: Groups) -> list[float]:
    """What each mate earns in each of the places that the group's others leave it."""
    mates = sum(relevant for _, _, relevant in groups)
    items = sum(gap + size for gap, size, _ in groups)
    lower, expected, upper = [], [], []
    wrong = 0
    for gap, size, relevant in groups:
        wrong += gap
        others = size - relevant
        most = max(min(mates, items - mates), 1)
        places = [most - min(wrong + before, mates) for before in range(others + 1)]
        lower.append((relevant * places[-1], most))
        expected.append((relevant * sum(places), most * len(places)))
        upper.append((relevant * places[0], most))
        wrong += others
    return [nearest(divided(total(terms), mates)) for terms in (lower, expected, upper)]


@pytest.mark.thorough
@given(groups_of(most=5, size=60, far=60))
def test_preferences_are_correctly_rounded(groups: Groups) -> None:
    assert triple("bpref", groups) == preferences(groups)


@pytest.mark.thorough
@settings(max_examples=HEAVY)
@given(groups_of(most=3, size=5000, far=10_000))
def test_preferences_of_large_groups(groups: Groups) -> None:
    assert triple("bpref", groups) == preferences(groups)


def test_preferences_beyond_64_bits() -> None:
    """Ten million items tied, three million of them relevant: R^3 is more than 2^63."""
    mates, others = 3_000_000, 7_000_000
    expected = Fraction(mates + 1, 2 * (others + 1))
    assert triple("bpref", [(0, mates + others, mates)]) == [0.0, nearest(expected), 1.0]


@pytest.mark.thorough
@settings(max_examples=HEAVY)
@given(groups_of(most=5, size=300, far=100_000))
def test_bounds_are_in_order_and_meet_without_ties(groups: Groups) -> None:
    single = [(gap, relevant, relevant) for gap, _, relevant in groups]
    for metric in registered.ranking():
        lower, expected, upper = triple(metric, groups)
        low, high = registry.definition(parse(metric)).range
        assert low <= lower <= expected <= upper <= high
        assert len(set(triple(metric, single))) == 1


def test_a_perfect_ranking_is_exactly_one() -> None:
    metrics = ("map", "map@r", "r_precision", "mrr", "minp", "bpref", "hit@1", "precision@1")
    for relevant in (1, 3, 49, 1000):
        perfect = [(0, 1, 1)] * relevant
        for metric in metrics:
            assert triple(metric, perfect) == [1.0, 1.0, 1.0]
            assert triple(metric, [(0, relevant, relevant), (5, 1, 1)])[0] <= 1.0


# --- means ----------------------------------------------------------------------------------------

finite = st.floats(allow_nan=False, allow_infinity=False)


def true_mean(values: list[float]) -> Fraction:
    return sum(map(Fraction, values), Fraction(0)) / len(values)


@pytest.mark.thorough
@given(
    st.one_of(
        st.lists(st.floats(0, 1), min_size=1, max_size=50),
        st.lists(finite, min_size=1, max_size=20),
    )
)
def test_the_mean_is_correctly_rounded(values: list[float]) -> None:
    assert mean(np.array(values)) == nearest(true_mean(values))
    assert mean(np.array(values)[::-1]) == mean(np.array(values))


@pytest.mark.thorough
@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 4)), min_size=1, max_size=40))
def test_the_class_mean_is_correctly_rounded(pairs: list[tuple[float, int]]) -> None:
    values, classes = np.array([v for v, _ in pairs]), np.array([c for _, c in pairs])
    means = [true_mean(values[classes == c].tolist()) for c in np.unique(classes)]
    assert class_mean(values, classes) == nearest(sum(means, Fraction(0)) / len(means))
    assert class_mean(values, -7 * classes) == class_mean(values, classes)


@pytest.mark.parametrize(
    "values",
    [
        [5e-324],
        [5e-324, 0.0],
        [5e-324, 5e-324, 0.0],
        [1e308, 1e308, -1e308],
        [1.7976931348623157e308] * 3,
        [1e308, 1e-308, -1e308],
        [1.0, 1e-16, 1e-16],
        [1.0, 2.0**-53],
        [0.1] * 10,
        [1 / 3] * 7,
        [-0.0, 0.0],
    ],
)
def test_means_of_extreme_values(values: list[float]) -> None:
    assert mean(np.array(values)) == nearest(true_mean(values))


def test_means_of_many_equal_values_are_that_value() -> None:
    """Naive sums drift away from it."""
    for value in (1.0, 0.1, 1 / 3, 0.7):
        many = np.full(1_000_003, value)
        assert mean(many) == value
        assert class_mean(many, np.arange(1_000_003) % 7) == value


def test_means_of_nothing() -> None:
    assert math.isnan(mean(np.empty(0)))
    assert math.isnan(class_mean(np.empty(0), np.empty(0, np.int64)))


def test_the_class_mean_gives_every_class_one_vote() -> None:
    labels = np.array([0] * 8 + [1] * 2)
    rows = np.concatenate([np.tile([1.0, 0], (8, 1)), [[0.0, 1], [1, 1e-3]]])
    by_class = truerank.evaluate(rows, labels, metrics=["hit@1"], average="class")["hit@1"]
    by_query = truerank.evaluate(rows, labels, metrics=["hit@1"])["hit@1"]
    values = by_query.per_query.lower
    assert by_query.value == nearest(true_mean(values.tolist()))
    assert by_class.value == nearest(
        (true_mean(values[:8].tolist()) + true_mean(values[8:].tolist())) / 2
    )
    assert by_class.value != by_query.value
