"""The losses by their papers' definitions: plain loops over lists of floats, no tensors.

In: rows of numbers, labels, and the loss's parameters by the names of the registry. Out: a float.
`others` are the references; None compares each row with the rest of the batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

Vector = Sequence[float]
Rows = Sequence[Vector]


# --- vectors


def dot(a: Vector, b: Vector) -> float:
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def unit(a: Vector) -> list[float]:
    length = math.sqrt(dot(a, a))
    return [x / length for x in a]


def cosine(a: Vector, b: Vector) -> float:
    return dot(unit(a), unit(b))


def distance(a: Vector, b: Vector) -> float:
    """Euclidean, of the unit vectors."""
    return math.sqrt(math.fsum((x - y) ** 2 for x, y in zip(unit(a), unit(b), strict=True)))


def variance(a: Vector) -> float:
    mean = math.fsum(a) / len(a)
    return math.fsum((x - mean) ** 2 for x in a) / (len(a) - 1)


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


def log1p_sum_exp(values: Sequence[float]) -> float:
    """log(1 + sum e^v)."""
    top = max([0.0, *values])
    return top + math.log(math.exp(-top) + math.fsum(math.exp(v - top) for v in values))


def log_sum_exp(values: Sequence[float]) -> float:
    top = max(values)
    return top + math.log(math.fsum(math.exp(v - top) for v in values))


# --- who meets whom


class Lists:
    """Each query's list: the other rows, or all references, with the label of each."""

    def __init__(
        self, rows: Rows, labels: Sequence[Any], others: Rows | None, other_labels: Any
    ) -> None:
        self.rows, self.labels = rows, labels
        self.itself = others is None
        self.others = rows if others is None else others
        self.other_labels = labels if others is None else other_labels

    def items(self, query: int) -> list[int]:
        return [j for j in range(len(self.others)) if not (self.itself and j == query)]

    def positives(self, query: int) -> list[int]:
        return [j for j in self.items(query) if self.other_labels[j] == self.labels[query]]

    def negatives(self, query: int) -> list[int]:
        return [j for j in self.items(query) if self.other_labels[j] != self.labels[query]]

    def pairs(self) -> Iterator[tuple[int, int]]:
        for query in range(len(self.rows)):
            for positive in self.positives(query):
                yield query, positive

    def triplets(self) -> Iterator[tuple[int, int, int]]:
        for anchor, positive in self.pairs():
            for negative in self.negatives(anchor):
                yield anchor, positive, negative

    def score(self, query: int, item: int) -> float:
        return cosine(self.rows[query], self.others[item])

    def apart(self, query: int, item: int) -> float:
        return distance(self.rows[query], self.others[item])


def mean_above_zero(values: Sequence[float]) -> float:
    return mean([v for v in values if v > 0])


# --- pairs, triplets and tuples


def contrastive(lists: Lists, positive_margin: float, negative_margin: float) -> float:
    near = [max(lists.apart(q, p) - positive_margin, 0) for q, p in lists.pairs()]
    far = [
        max(negative_margin - lists.apart(q, n), 0)
        for q in range(len(lists.rows))
        for n in lists.negatives(q)
    ]
    return mean_above_zero(near) + mean_above_zero(far)


def snr_contrastive(
    lists: Lists, positive_margin: float, negative_margin: float, regularizer: float
) -> float:
    def noise_to_signal(query: int, item: int) -> float:
        a, b = lists.rows[query], lists.others[item]
        return variance([y - x for x, y in zip(a, b, strict=True)]) / variance(a)

    anchors = [q for q, row in enumerate(lists.rows) if variance(row) > 0]
    far = [noise_to_signal(q, p) - positive_margin for q in anchors for p in lists.positives(q)]
    near = [negative_margin - noise_to_signal(q, n) for q in anchors for n in lists.negatives(q)]
    pull = mean([abs(math.fsum(row)) for row in lists.rows])
    return mean_above_zero(far) + mean_above_zero(near) + regularizer * pull


def triplet(lists: Lists, margin: float) -> float:
    return mean_above_zero(
        [lists.apart(a, p) - lists.apart(a, n) + margin for a, p, n in lists.triplets()]
    )


def margin(lists: Lists, margin: float, beta: float) -> float:
    terms = []
    for a, p, n in lists.triplets():
        terms.append(max(lists.apart(a, p) - beta + margin, 0))
        terms.append(max(beta - lists.apart(a, n) + margin, 0))
    return mean_above_zero(terms)


def multi_similarity(lists: Lists, alpha: float, beta: float, base: float) -> float:
    values = []
    for q in range(len(lists.rows)):
        near = log1p_sum_exp([-alpha * (lists.score(q, p) - base) for p in lists.positives(q)])
        far = log1p_sum_exp([beta * (lists.score(q, n) - base) for n in lists.negatives(q)])
        values.append(near / alpha + far / beta)
    return mean(values)


def angular(lists: Lists, alpha: float) -> float:
    tangent = math.tan(math.radians(alpha)) ** 2
    values = []
    for a, p in lists.pairs():
        x, y = unit(lists.rows[a]), unit(lists.others[p])
        both = [i + j for i, j in zip(x, y, strict=True)]
        values.append(
            log1p_sum_exp(
                [
                    4 * tangent * dot(both, unit(lists.others[n])) - 2 * (1 + tangent) * dot(x, y)
                    for n in lists.negatives(a)
                ]
            )
        )
    return mean(values)


def lifted_structure(lists: Lists, positive_margin: float, negative_margin: float) -> float:
    values = []
    for a, p in lists.pairs():
        terms = [negative_margin - lists.apart(a, n) for n in lists.negatives(a)]
        for other in range(len(lists.rows)):  # the positive's own negatives
            if lists.labels[other] != lists.other_labels[p]:
                terms.append(negative_margin - lists.apart(other, p))
        if terms:
            excess = log_sum_exp(terms) + lists.apart(a, p) - positive_margin
            values.append(max(excess, 0) ** 2)
    return mean(values) / 2


def n_pairs(lists: Lists, regularizer: float) -> float:
    anchors, positives = [], []
    for label in sorted(set(lists.labels)):
        members = [i for i, one in enumerate(lists.labels) if one == label]
        if len(members) > 1:
            anchors.append(members[0])
            positives.append(members[1])
    values = []
    for i, a in enumerate(anchors):
        logits = [dot(lists.rows[a], lists.rows[p]) for p in positives]
        values.append(log_sum_exp(logits) - logits[i])
    return mean(values) + regularizer * mean([dot(row, row) for row in lists.rows])


def nt_xent(lists: Lists, temperature: float) -> float:
    values = []
    for a, p in lists.pairs():
        own = lists.score(a, p) / temperature
        others = [lists.score(a, n) / temperature for n in lists.negatives(a)]
        values.append(log_sum_exp([own, *others]) - own)
    return mean(values)


def tuplet_margin(lists: Lists, margin: float, scale: float) -> float:
    values = []
    for a, p in lists.pairs():
        angle = math.acos(min(max(lists.score(a, p), -1), 1)) - math.radians(margin)
        values.append(
            log1p_sum_exp(
                [scale * (lists.score(a, n) - math.cos(angle)) for n in lists.negatives(a)]
            )
        )
    return mean(values)


def fastap(lists: Lists, bins: int) -> float:
    centres = [4 * i / bins for i in range(bins + 1)]
    values = []
    for q in range(len(lists.rows)):
        positives = lists.positives(q)
        if not positives:
            continue

        def pulse(item: int, centre: float, q: int = q) -> float:
            return max(0.0, 1 - abs(lists.apart(q, item) ** 2 - centre) * bins / 4)

        found = seen = total = 0.0
        for centre in centres:
            here = math.fsum(pulse(p, centre) for p in positives)
            found += here
            seen += here + math.fsum(pulse(n, centre) for n in lists.negatives(q))
            if here > 0:
                total += here * found / seen
        values.append(1 - total / len(positives))
    return mean(values)


# --- proxies


def cross_entropy(logits: Sequence[float], target: int) -> float:
    return log_sum_exp(logits) - logits[target]


def proxy_nca(
    rows: Rows, labels: Sequence[int], proxies: Rows, scale: float, own_in_denominator: bool
) -> float:
    values = []
    for row, y in zip(rows, labels, strict=True):
        far = [distance(row, proxy) ** 2 for proxy in proxies]
        listed = [z for z in range(len(proxies)) if own_in_denominator or z != y]
        values.append(scale * far[y] + log_sum_exp([-scale * far[z] for z in listed]))
    return mean(values)


def normalized_softmax(
    rows: Rows, labels: Sequence[int], proxies: Rows, temperature: float
) -> float:
    return mean(
        [
            cross_entropy([cosine(row, proxy) / temperature for proxy in proxies], y)
            for row, y in zip(rows, labels, strict=True)
        ]
    )


def cosface(rows: Rows, labels: Sequence[int], proxies: Rows, margin: float, scale: float) -> float:
    return mean(
        [
            cross_entropy(
                [scale * (cosine(row, p) - margin * (z == y)) for z, p in enumerate(proxies)], y
            )
            for row, y in zip(rows, labels, strict=True)
        ]
    )


def arcface(rows: Rows, labels: Sequence[int], proxies: Rows, margin: float, scale: float) -> float:
    widen = math.radians(margin)

    def own(cos: float) -> float:
        angle = math.acos(min(max(cos, -1), 1))
        if angle + widen <= math.pi:
            return math.cos(angle + widen)
        return cos - widen * math.sin(widen)

    values = []
    for row, y in zip(rows, labels, strict=True):
        cosines = [cosine(row, proxy) for proxy in proxies]
        logits = [scale * (own(cos) if z == y else cos) for z, cos in enumerate(cosines)]
        values.append(cross_entropy(logits, y))
    return mean(values)


def sphereface(
    rows: Rows, labels: Sequence[int], proxies: Rows, margin: int, scale: float
) -> float:
    def own(cos: float) -> float:
        angle = math.acos(min(max(cos, -1), 1))
        k = min(int(angle * margin / math.pi), margin - 1)
        return (-1) ** k * math.cos(margin * angle) - 2 * k

    values = []
    for row, y in zip(rows, labels, strict=True):
        length = scale * math.sqrt(dot(row, row))
        cosines = [cosine(row, proxy) for proxy in proxies]
        logits = [length * (own(cos) if z == y else cos) for z, cos in enumerate(cosines)]
        values.append(cross_entropy(logits, y))
    return mean(values)


def proxy_anchor(
    rows: Rows, labels: Sequence[int], proxies: Rows, margin: float, alpha: float
) -> float:
    near, far = [], []
    for z, proxy in enumerate(proxies):
        own = [-alpha * (cosine(r, proxy) - margin) for r, y in zip(rows, labels) if y == z]  # noqa: B905
        rest = [alpha * (cosine(r, proxy) + margin) for r, y in zip(rows, labels) if y != z]  # noqa: B905
        if own:
            near.append(log1p_sum_exp(own))
        far.append(log1p_sum_exp(rest))
    return mean(near) + mean(far)


def soft_triple(
    rows: Rows,
    labels: Sequence[int],
    centres: Sequence[Rows],
    la: float,
    gamma: float,
    margin: float,
    regularizer: float,
) -> float:
    values = []
    for row, y in zip(rows, labels, strict=True):
        logits = []
        for z, own in enumerate(centres):
            scores = [cosine(row, centre) for centre in own]
            total = log_sum_exp([s / gamma for s in scores])
            relaxed = math.fsum(math.exp(s / gamma - total) * s for s in scores)
            logits.append(la * (relaxed - margin * (z == y)))
        values.append(cross_entropy(logits, y))
    spread = math.fsum(
        distance(own[t], own[s]) for own in centres for t in range(len(own)) for s in range(t)
    )
    count = len(centres) * len(centres[0]) * (len(centres[0]) - 1)
    return mean(values) + regularizer * spread / max(count, 1)


# --- ranks


def smooth_ap(lists: Lists, temperature: float, query_in_list: bool = False) -> float:
    values = []
    for q in range(len(lists.rows)):
        items, positives = lists.items(q), lists.positives(q)
        if query_in_list:
            items, positives = [*items, q], [*positives, q]
        if not positives:
            continue

        def ahead(j: int, i: int, q: int = q) -> float:
            return sigmoid((lists.score(q, j) - lists.score(q, i)) / temperature)

        total = 0.0
        for i in positives:
            mates = 1 + math.fsum(ahead(j, i) for j in positives if j != i)
            total += mates / (1 + math.fsum(ahead(j, i) for j in items if j != i))
        values.append(1 - total / len(positives))
    return mean(values)


def recall_at_k(
    lists: Lists, k: Sequence[int], temperature: float, cut_temperature: float
) -> float:
    values = []
    for q in range(len(lists.rows)):
        positives = lists.positives(q)
        if not positives:
            continue
        at_k = []
        for cut in k:
            found = 0.0
            for x in positives:
                rank = 1.0
                for z in lists.items(q):
                    if z != x:
                        rank += sigmoid((lists.score(q, z) - lists.score(q, x)) / temperature)
                found += sigmoid((cut - rank) / cut_temperature)
            at_k.append(min(found, cut) / min(cut, len(positives)))
        values.append(1 - mean(at_k))
    return mean(values)


def upper_step(
    x: float,
    temperature: float = 0.01,
    rho: float = 100.0,
    delta: float = 0.05,
    start: float = 0.5,
    offset: float | None = None,
) -> float:
    if x <= 0:
        return sigmoid(x / temperature)
    if x <= delta:
        return start + sigmoid(x / temperature)
    if offset is None:
        offset = start + sigmoid(delta / temperature)
    return rho * (x - delta) + offset


def lower_step(x: float) -> float:
    return 10 * x if x <= 0 else min(25 * x + 0.5, 1.0)


def sup_ap(lists: Lists, **surrogate: Any) -> float:
    values = []
    for q in range(len(lists.rows)):
        positives = lists.positives(q)
        if not positives:
            continue
        total = 0.0
        for i in positives:
            own = lists.score(q, i)
            among = 1 + sum(lists.score(q, j) > own for j in positives if j != i)
            wrong = math.fsum(
                upper_step(lists.score(q, j) - own, **surrogate) for j in lists.negatives(q)
            )
            total += among / (among + wrong)
        values.append(1 - total / len(positives))
    return mean(values)


def calibration(
    lists: Lists,
    positive_margin: float,
    negative_margin: float,
    positive_weight: float = 1.0,
    negative_weight: float = 1.0,
    denominator: str = "hard",
    indicator: bool = True,
) -> float:
    def side(lacking: list[float]) -> float:
        hard = [x for x in lacking if x >= 0]
        count = len(hard) if denominator == "hard" else len(lacking)
        return math.fsum(hard if indicator else lacking) / count if count else 0.0

    near = [positive_margin - lists.score(q, p) for q, p in lists.pairs()]
    far = [
        lists.score(q, n) - negative_margin
        for q in range(len(lists.rows))
        for n in lists.negatives(q)
    ]
    return positive_weight * side(near) + negative_weight * side(far)


# --- hierarchies


def common_path(a: Sequence[int], b: Sequence[int]) -> int:
    length = 0
    while length < len(a) and a[length] == b[length]:
        length += 1
    return length


def worth(levels: Sequence[int], depth: int, relevance: str, alpha: float) -> list[float]:
    """Relevance of each item of a list, by the common path it has with the query."""
    if relevance == "level":
        return [(v / depth) ** alpha / levels.count(v) if v else 0.0 for v in levels]
    return [
        math.fsum(1 / sum(other >= p for other in levels) for p in range(1, v + 1)) for v in levels
    ]


def hierarchical(
    lists: Lists,
    alpha: float = 1.0,
    relevance: str = "level",
    pull_back: bool = True,
    up: Callable[[float], float] = upper_step,
) -> float:
    """1 - the surrogate of H-AP; labels are paths."""
    values = []
    for q in range(len(lists.rows)):
        items = lists.items(q)
        levels = [common_path(lists.labels[q], lists.other_labels[j]) for j in items]
        if not any(levels):
            continue
        scores = [lists.score(q, j) for j in items]
        rel = worth(levels, len(lists.labels[q]), relevance, alpha)
        total = 0.0
        for k in range(len(items)):
            if not levels[k]:
                continue
            found, rank = rel[k], 1.0
            for j in range(len(items)):
                if j == k:
                    continue
                x = scores[j] - scores[k]
                step = 1.0 if x > 0 else 0.0
                if levels[j] > levels[k]:
                    found += min(rel[k], rel[j]) * (lower_step(x) if pull_back else step)
                else:
                    found += min(rel[k], rel[j]) * step
                rank += up(x) if levels[j] < levels[k] else step
            total += found / rank
        values.append(1 - total / math.fsum(rel))
    return mean(values)


def smooth_hierarchical(lists: Lists, alpha: float, relevance: str, temperature: float) -> float:
    """1 - H-AP with a sigmoid for each step; labels are paths."""
    values = []
    for q in range(len(lists.rows)):
        items = lists.items(q)
        levels = [common_path(lists.labels[q], lists.other_labels[j]) for j in items]
        if not any(levels):
            continue
        rel = worth(levels, len(lists.labels[q]), relevance, alpha)
        total = 0.0
        for k in (k for k in range(len(items)) if levels[k]):
            found, rank = rel[k], 1.0
            for j in (j for j in range(len(items)) if j != k):
                lead = lists.score(q, items[j]) - lists.score(q, items[k])
                found += min(rel[k], rel[j]) * sigmoid(lead / temperature)
                rank += sigmoid(lead / temperature)
            total += found / rank
        values.append(1 - total / math.fsum(rel))
    return mean(values)


def csl(
    rows: Rows,
    labels: Sequence[Sequence[int]],
    proxies: Rows,
    hierarchy: Sequence[Sequence[int]],
    scale: float,
    margins: Sequence[float],
) -> float:
    values = []
    for row, path in zip(rows, labels, strict=True):
        own = [list(one) for one in hierarchy].index(list(path))
        total = 0.0
        for level, margin in enumerate(margins, start=1):
            others = [
                scale * cosine(row, proxy)
                for proxy, other in zip(proxies, hierarchy, strict=True)
                if common_path(path, other) < level
            ]
            if others:
                gap = log_sum_exp(others) - scale * cosine(row, proxies[own]) + scale * margin
                total += log1p_sum_exp([gap])
        values.append(total)
    return mean(values)
