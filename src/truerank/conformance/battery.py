"""The battery of cases for a metric and a call, by topic: each topic settles a few questions.

Lists are written as patterns, best place first: "0 [1 0] 1" is an irrelevant item, a relevant
and an irrelevant item of equal score, a relevant item. Where a metric is cut at k, irrelevant
items are put before a pattern so that what it shows happens at rank k.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

from truerank.conformance.cases import Case, ListedItem, Query, drawn, shuffled
from truerank.conformance.conventions import questions_of
from truerank.conformance.model import answer, neutral, right_answer
from truerank.core.metric import Metric

LARGEST_CUT, LARGEST_OF_ROWS = 1000, 20
"""The largest k, and that of a call with embeddings: all orders of k rows and more are tried."""
SMALL = 4
"""Places in front of rank k that drawn cases fill at random; before them are irrelevant items."""
TOPICS: dict[str, tuple[str, ...]] = {
    "plain": ("formula", "discount", "mean", "self", "divisor", "ideal"),
    "short": ("beyond", "single"),
    "grades": ("gain",),
    "ties": ("ties",),
    "duplicates": (),
    "labels": ("labels",),
    "unmated": ("unmated", "nothing"),
    "resolution": ("resolution",),
    "sign": ("sign",),
    "absent": ("absent",),
    "unjudged": ("unjudged",),
    "repeats": ("repeats",),
    "junk": ("junk",),
    "mixed": (),
}
"""The questions that the cases of each topic settle, in this order."""


@lru_cache(maxsize=64)
def battery(metric: Metric, call: str, one_query: bool) -> tuple[Case, ...]:
    """All cases; with `one_query` those of a single query alone."""
    if call == "embeddings":
        return tuple(_of_embeddings(metric))
    cases = [*_settled(metric, call), *_tied(metric, call), *_numbers(metric, call)]
    cases += [*_of_mates(metric, call), *_of_lists(metric, call), *_mixed(metric, call)]
    return tuple(case for case in cases if not one_query or len(case.queries) == 1)


def _before(metric: Metric) -> int:
    """Irrelevant items that bring a pattern's first place to rank k."""
    return metric.cut - 1 if isinstance(metric.cut, int) else 0


def _groups(pattern: str) -> list[list[int]]:
    """'0 [1 0]' as [[0], [1, 0]]."""
    found: list[list[int]] = []
    inside = False
    for word in pattern.replace("[", " [ ").replace("]", " ] ").split():
        if word == "[":
            found.append([])
            inside = True
        elif word == "]":
            inside = False
        elif inside:
            found[-1].append(int(word))
        else:
            found.append([int(word)])
    return found


def _query(
    pattern: str,
    missing: Iterable[int] = (),
    order: Sequence[int] | None = None,
    named: str = "forward",
) -> Query:
    """A list with falling scores, in the order of the pattern or as `order` says."""
    groups = _groups(pattern)
    step = 0.1 if len(groups) < 10 else 0.04 if len(groups) < 23 else 0.8 / len(groups)
    placed = [
        (round(0.9 - step * number, 2 if step > 0.035 else 6), grade)
        for number, group in enumerate(groups)
        for grade in group
    ]
    places = range(len(placed)) if order is None else order
    width = len(str(len(placed)))
    names = [f"d{number:0{width}}" for number in range(1, len(placed) + 1)]
    if named == "backward":
        names.reverse()
    return Query(
        tuple(ListedItem(names[place], *placed[place]) for place in places),
        tuple(
            ListedItem(f"m{number}", 0.0, grade) for number, grade in enumerate(missing, start=1)
        ),
    )


def _case(name: str, topic: str, call: str, *queries: Query, arrangement: str = "") -> Case:
    return Case(name, topic, call, queries, arrangement=arrangement)


def _order(size: int, seed: int) -> list[int]:
    order = list(range(size))
    random.Random(seed).shuffle(order)
    return order


def _settled(metric: Metric, call: str) -> list[Case]:
    """No ties: what the metric is, what it divides by, and lists shorter than k."""
    k = metric.cut if isinstance(metric.cut, int) else 2
    lead = "0 " * _before(metric)
    patterns = ["1 0 1", "0 1 0 1 1", "0 0 1 0", "1 1 0 0", "0 1 1 0 1 0"]
    patterns = [pattern + " 0" * max(0, k + 1 - len(pattern.split())) for pattern in patterns]
    patterns += [lead + "1 0", lead + "0 1", lead + "1 1 0", "1 " * (k + 2) + "0"]
    patterns += ["1 0 " + "1 " * (k + 1), "1 " + "0 " * k + "1"]
    cases = []
    for number, pattern in enumerate(dict.fromkeys(pattern.strip() for pattern in patterns)):
        name, size = f"plain {number + 1}", len(pattern.split())
        cases.append(_case(name, "plain", call, _query(pattern)))
        if call != "lists":
            order = _order(size, number)
            cases.append(_case(name, "plain", call, _query(pattern, order=order),
                               arrangement="shuffled"))  # fmt: skip
    pair = ("1 0 0 1 0", "0 1 1 0 0") if k < 5 else ("1 0 1 " + "0 " * k, "0 1 0 " + "1 " * k)
    cases.append(_case("two queries", "plain", call, *map(_query, pair)))
    cases.append(_case("two queries", "plain", call, *map(_query, reversed(pair)),
                       arrangement="the second first"))  # fmt: skip
    shorter = sorted({*range(1, min(k, 5)), k // 2, k - 1} - {0}) if _before(metric) else []
    for pattern in dict.fromkeys(["1", *("0 " * (size - 1) + "1" for size in shorter)]):
        cases.append(_case(f"a short list: {pattern}", "short", call, _query(pattern)))
    if call != "lists" and metric.name == "ndcg":
        graded = [lead + "2 0 1", lead + "1 2 0 3", lead + "0 3 1"]
        cases += [_case(f"grades {text}", "grades", call, _query(text)) for text in graded]
    return cases


def _tied(metric: Metric, call: str) -> list[Case]:
    if call == "lists":
        return []
    lead = "0 " * _before(metric)
    patterns = ["[1 0]", "0 [1 1]", "[1 0 0 0]", "[1 1 0 0] 1", "1 [0 1 0] [1 0]"]
    patterns = [lead + pattern for pattern in patterns] + ["[1 1 " + "0 " * 22 + "]"]
    cases = []
    for pattern in patterns:
        size = sum(map(len, _groups(pattern)))
        orders = {"as listed": list(range(size)), "reversed": list(range(size))[::-1]}
        if size > 3:
            orders |= {"shuffled": _order(size, size), "shuffled anew": _order(size, size + 1)}
        for arrangement, order in orders.items():
            for named in ("forward", "backward") if call == "qrels" else ("forward",):
                shown = arrangement + (", ids backward" if named == "backward" else "")
                query = _query(pattern, order=order, named=named)
                cases.append(_case(f"tied {pattern}", "ties", call, query, arrangement=shown))
    return cases


def _numbers(metric: Metric, call: str) -> list[Case]:
    """Scores that are close together, and scores at and below zero."""
    if call == "lists":
        return []
    count = _before(metric)
    step = 0.1 if count < 10 else 1.0 / count
    lead = [(round(2.0 - step * n, 4), 0) for n in range(count)]
    close, high = 0.5 + 2.0**-30, 0.5
    numbers = {
        ("close scores, the relevant item above", "resolution"): [(high, 0), (close, 1), (high, 0)],
        ("close scores, the relevant item below", "resolution"): [(high, 1), (close, 0)],
        ("scores below zero", "sign"): [(0.6, 1), (0.2, 0), (-0.1, 1), (-0.3, 1)],
        ("all scores below zero", "sign"): [(-0.1, 1), (-0.2, 0), (-0.3, 1)],
        ("a score of zero", "sign"): [(0.5, 0), (0.0, 1), (-0.5, 0)],
        ("a relevant item last, below zero", "sign"): [(0.5, 1), (0.4, 1), (-0.1, 0), (-0.2, 1)],
    }
    cases = []
    for (name, topic), placed in numbers.items():
        front = [] if name in ("scores below zero", "a relevant item last, below zero") else lead
        if name == "all scores below zero":
            front = [(-0.01 * n * 10 * step, grade) for n, (_, grade) in enumerate(lead, start=1)]
        entries = tuple(
            ListedItem(f"d{number:0{max(2, len(str(count + len(placed))))}}", score, grade)
            for number, (score, grade) in enumerate([*front, *placed], start=1)
        )
        cases.append(_case(name, topic, call, Query(entries)))
        cases.append(_case(name, topic, call, Query(entries[::-1]), arrangement="reversed"))
    return cases


def _of_mates(metric: Metric, call: str) -> list[Case]:
    """Queries that have no mate, alone and beside others."""
    lead = "0 " * _before(metric)
    first, second, none = (_query(lead + text) for text in ("1 0 0", "0 1 0", "0 0 0"))
    return [
        _case("one of two queries is unmated", "unmated", call, first, none),
        _case("the other of two finds its relevant item late", "unmated", call, second, none),
        _case("the first of three is unmated", "unmated", call, none, second, first),
        _case("an unmated query", "unmated", call, none),
        _case("two unmated queries", "unmated", call, none, none),
    ]


def _of_lists(metric: Metric, call: str) -> list[Case]:
    """What only lists and runs have: relevant items that are not there, repeats, junk."""
    lead = "0 " * _before(metric)
    cases: list[Case] = []
    if call in ("lists", "qrels"):
        fill = " 0" * _before(metric)
        cases += [
            _case("one relevant item is not listed", "plain", call, _query("1 0" + fill, [1])),
            _case(
                "two relevant items are not listed", "plain", call, _query("0 1 1" + fill, [1, 1])
            ),
        ]
        found = _query("1 0 0" + fill)
        nothing = Query((), (ListedItem("m1", 0.0, 1),))
        cases += [
            _case("nothing is returned for one of two", "absent", call, found, nothing),
            _case("nothing is returned for the first", "absent", call, nothing, found),
        ]
        if call == "lists":
            cases.append(_case("nothing is returned", "absent", call, nothing))
    if call == "lists":
        cases += _repeated(metric, call)
    if call == "qrels":
        judged, other = _query(lead + "1 0"), replace(_query(lead + "0 0"), judged=False)
        cases += [
            _case("one of two queries is not judged", "unjudged", call, judged, other),
            _case("the first of two is not judged", "unjudged", call, other, judged),
        ]
    if call == "qrels" and metric.name != "ndcg":
        cases += [
            _case(f"junk {pattern}", "junk", call, _query(lead + pattern))
            for pattern in ("-1 1", "1 -1 1", "-1 0 1 1")
        ]
    return cases


def _repeated(metric: Metric, call: str) -> list[Case]:
    """Lists in which a star marks an item that was returned before, at rank k at the latest."""
    before = max(0, _before(metric) - 1)
    cases = []
    for pattern, place, like, missing in (
        ("1 1* 0", 1, 0, [1]),
        ("1 1* 1", 1, 0, []),
        ("0 0* 1", 1, 0, []),
        ("1 0 1* 1", 2, 0, [1]),
    ):
        query = _query("0 " * before + pattern.replace("*", ""), missing)
        entries = list(query.entries)
        name = entries[before + like].name
        entries[before + place] = replace(entries[before + place], name=name)
        changed = replace(query, entries=tuple(entries))
        cases.append(_case(f"repeated item: {pattern}", "repeats", call, changed))
    return cases


def _mixed(metric: Metric, call: str) -> list[Case]:
    """Drawn cases with ties, no mates and mates that are missing, all at once."""
    draw = random.Random(f"{metric} {call}")
    cases = []
    front = max(0, _before(metric) - SMALL)
    settled = [ListedItem(f"a{n:04}", 2.0 - n / max(front, 1), 0) for n in range(front)]
    for number in range(16):
        size = draw.randint(2, 6) + min(_before(metric), SMALL)
        queries = []
        for _ in range(draw.randint(1, 3)):
            entries = [
                ListedItem(f"d{place:02}", draw.randint(1, 6) / 8, int(draw.random() < 0.4))
                for place in range(size)
            ]
            if call == "lists":
                entries = [replace(e, score=1.0 - n / 64) for n, e in enumerate(entries)]
            missing = (
                [ListedItem("m1", 0.0, 1)] if call in ("lists", "qrels") and number % 3 == 0 else []
            )
            queries.append(Query((*settled, *entries), tuple(missing)))
        cases.append(_case(f"mixed {number + 1}", "mixed", call, *queries))
    return cases


def _of_embeddings(metric: Metric) -> list[Case]:
    k = metric.cut if isinstance(metric.cut, int) else 2
    half = (max(k, 2) + 3) // 2
    few = [0, 1] * half if k < 4 else list(range(half)) * 2  # many mates would always be found
    uneven = [0, 0, 1, 1, 1] if k < 4 else [0] * 3 + [1] * (k + 1)

    def clear(case: Case) -> bool:
        return not any(_has_ties(query) for query in case.queries)

    def telling(case: Case) -> bool:
        return clear(case) and 0 < right_answer(metric, case).lower < 1

    def apart(case: Case) -> bool:
        own = neutral(metric)
        asked = [q for q in questions_of(metric, "embeddings") if q.name == "formula"]
        keys = [convention.key for question in asked for convention in question.answers]
        values = {answer(metric, own | {"formula": key}, case) for key in keys}
        return telling(case) and (not keys or len(values) == len(keys))

    def open_(case: Case) -> bool:
        bounds = right_answer(metric, case)
        return bounds.lower < bounds.upper and len(set(case.rows)) == len(case.rows)

    def mistaken(case: Case) -> bool:
        own = neutral(metric) | {"ties": "input"}
        first = answer(metric, own | {"self": "first"}, case)
        return metric.name == "minp" or answer(metric, own, case) != first

    plain = [drawn(f"plain {n}", "plain", uneven, telling) for n in range(1, 5)]
    plain += [drawn("more mates than k", "plain", [0] * (k + 2) + [1] * 2, apart)]
    plain += [drawn("one class", "plain", [7] * max(3, k + 1), clear)]
    cases = [*plain, *(shuffled(case, 1, "shuffled") for case in plain)]
    if isinstance(metric.cut, int) and k > 1:
        cases.append(drawn("fewer rows than k", "short", [0] * k, clear))
    ties = [drawn(f"tied {n}", "ties", few, open_) for n in range(1, 4)]
    ties.append(drawn("tied 4", "ties", uneven, open_))
    cases += [one for case in ties for one in (
        case, shuffled(case, 1, "shuffled"), shuffled(case, 2, "shuffled anew"))]  # fmt: skip
    doubles = [
        drawn("a duplicate of the query", "duplicates", few, mistaken, repeat=[(1, 0)]),
        drawn("two duplicates", "duplicates", [*few, 0], _any, repeat=[(1, 0), (2, 0)]),
        drawn("equal rows", "duplicates", few, _any, repeat=[(n, 0) for n in range(1, len(few))]),
    ]
    cases += [one for case in doubles for one in (case, shuffled(case, 3, "shuffled"))]
    large = [2.0**24 + label for label in few]
    cases += [
        drawn("labels 2^24 and 2^24 + 1", "labels", large, telling),
        drawn("labels 0.25 and 0.75", "labels", [0.25 + label / 2 for label in few], telling),
        drawn("one row has no mate", "unmated", [*few, 99], telling),
        drawn("two rows have no mate", "unmated", [98, *few, 99], telling),
        drawn("no row has a mate", "unmated", range(max(3, k + 1)), _any),
        drawn(
            "different labels from 2^24 on",
            "unmated",
            [2.0**24 + n for n in range(max(4, k + 1))],
            _any,
        ),
    ]
    draw = random.Random(str(metric))
    for number in range(12):
        labels = [draw.randint(0, 2) for _ in range(max(draw.randint(4, 6), k + 1))]
        cases.append(drawn(f"mixed {number + 1}", "mixed", labels, _any))
    return cases


def _has_ties(query: Query) -> bool:
    scores = [entry.score for place, entry in enumerate(query.entries) if place != query.own]
    return len(set(scores)) < len(scores)


def _any(case: Case) -> bool:
    return True
