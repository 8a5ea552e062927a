"""Batches, and every registered loss with the definition that it must agree with.

`oracle(name)` takes the built loss and a batch; whatever the loss learns (proxies, beta) is read
from the module, so that both compute with the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tests.oracles import losses as oracles
from truerank import losses

NAMES = losses.names()
CLASSES = [-5, 3, 8, 100, 2**40]
"""Any integers; the last one is no float32."""
HIERARCHY = [[0, -5], [0, 3], [1, 8], [1, 100], [2, 2**40]]
SIZE = 6


@dataclass(frozen=True)
class Example:
    rows: Tensor
    paths: Tensor
    others: Tensor | None = None
    other_paths: Tensor | None = None

    def labels(self, name: str) -> Tensor:
        return self.paths if losses.entry(name).labels == "path" else self.paths[:, -1]

    def references(self, name: str) -> dict[str, Tensor]:
        if self.others is None or self.other_paths is None:
            return {}
        one = losses.entry(name).labels == "one"
        labels = self.other_paths[:, -1] if one else self.other_paths
        return {"ref_emb": self.others, "ref_labels": labels}


def example(numbers: list[int], seed: int = 0, others: list[int] | None = None) -> Example:
    """Rows around their class's centre; `numbers` index CLASSES."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(len(CLASSES), SIZE, generator=generator, dtype=torch.float64)

    def draw(which: list[int]) -> tuple[Tensor, Tensor]:
        noise = torch.randn(len(which), SIZE, generator=generator, dtype=torch.float64)
        return centres[which] + noise, torch.tensor([HIERARCHY[number] for number in which])

    rows, paths = draw(numbers)
    if others is None:
        return Example(rows, paths)
    return Example(rows, paths, *draw(others))


EXAMPLES = {
    "even": example([0, 0, 0, 1, 1, 1, 2, 2, 2]),
    "uneven and unsorted": example([3, 0, 1, 0, 3, 2, 0, 1, 4, 0], seed=1),
    "pairs": example([4, 3, 2, 2, 3, 4], seed=2),
}
WITH_REFERENCES = {
    "references": example([0, 1, 2, 1], seed=3, others=[1, 0, 3, 1, 2, 0, 1]),
    "few references": example([2, 2, 4], seed=4, others=[2, 3]),
}


def build(name: str, **parameters: Any) -> Any:
    """A loss for the examples' classes, in float64, the same every time."""
    entry = losses.entry(name)
    torch.manual_seed(7)
    given = {"embedding_size": SIZE, "classes": CLASSES, "hierarchy": HIERARCHY}
    needed = {"num_classes": "classes"}
    for need in entry.needs:
        parameters.setdefault(needed.get(need, need), given[needed.get(need, need)])
    return losses.get(name, **parameters).double()


def value(name: str, example: Example, **parameters: Any) -> float:
    loss = build(name, **parameters)
    return loss(example.rows, example.labels(name), **example.references(name)).item()


def expected(name: str, example: Example, **parameters: Any) -> float:
    """The definition's value."""
    loss = build(name, **parameters)
    options = {**losses.entry(name).defaults, **parameters}
    for ours in ("block", "classes", "num_classes", "embedding_size", "hierarchy"):
        options.pop(ours, None)
    return ORACLES[name](loss, example, options)


def lists(example: Example, deep: bool = False) -> oracles.Lists:
    def plain(paths: Tensor | None) -> Any:
        if paths is None:
            return None
        return [tuple(path) if deep else path[-1] for path in paths.tolist()]

    others = None if example.others is None else example.others.tolist()
    return oracles.Lists(
        example.rows.tolist(), plain(example.paths), others, plain(example.other_paths)
    )


def numbers(example: Example) -> list[int]:
    return [CLASSES.index(label) for label in example.paths[:, -1].tolist()]


Definition = Callable[[Any, Example, dict[str, Any]], float]


def _over_pairs(definition: Callable[..., float]) -> Definition:
    return lambda loss, example, options: definition(lists(example), **options)


def _with_proxies(definition: Callable[..., float], proxies: Callable[[Any], Any]) -> Definition:
    return lambda loss, example, options: definition(
        example.rows.tolist(), numbers(example), proxies(loss), **options
    )


def _margin(loss: Any, example: Example, options: dict[str, Any]) -> float:
    return oracles.margin(lists(example), options["margin"], loss.inner.beta.item())


def _mined_multi_similarity(loss: Any, example: Example, options: dict[str, Any]) -> float:
    epsilon = options.pop("epsilon")
    every, hard = lists(example), lists(example)

    def scores(query: int, items: list[int]) -> list[float]:
        return [every.score(query, item) for item in items]

    def hard_positives(query: int) -> list[int]:
        most = max(scores(query, every.negatives(query)), default=-2) + epsilon
        return [p for p in every.positives(query) if every.score(query, p) < most]

    def hard_negatives(query: int) -> list[int]:
        least = min(scores(query, every.positives(query)), default=2) - epsilon
        return [n for n in every.negatives(query) if every.score(query, n) > least]

    hard.positives, hard.negatives = hard_positives, hard_negatives
    return oracles.multi_similarity(hard, **options)


def _soft_triple(loss: Any, example: Example, options: dict[str, Any]) -> float:
    count = options.pop("centers_per_class")
    centres = loss.inner.fc.T.reshape(len(CLASSES), count, SIZE).tolist()
    return oracles.soft_triple(example.rows.tolist(), numbers(example), centres, **options)


def _roadmap(loss: Any, example: Example, options: dict[str, Any]) -> float:
    weight = options.pop("calibration_weight")
    margins = [options.pop("positive_margin"), options.pop("negative_margin")]
    calibration = oracles.calibration(lists(example), *margins, denominator="all")
    return oracles.sup_ap(lists(example), **options) + weight * calibration


def _happier(loss: Any, example: Example, options: dict[str, Any]) -> float:
    weight, temperature = options.pop("cluster_weight"), options.pop("cluster_temperature")
    shape = {key: options[key] for key in ("temperature", "rho", "delta", "start", "offset")}
    ranking = oracles.hierarchical(
        lists(example, deep=True),
        options["alpha"],
        options["relevance"],
        options["pull_back"],
        lambda x: oracles.upper_step(x, **shape),
    )
    if weight == 0:
        return ranking
    proxies = loss.proxies.tolist()
    clustering = oracles.normalized_softmax(
        example.rows.tolist(), numbers(example), proxies, temperature
    )
    return (1 - weight) * ranking + weight * clustering


def _smooth_h_ap(loss: Any, example: Example, options: dict[str, Any]) -> float:
    return oracles.smooth_hierarchical(
        lists(example, deep=True), options["alpha"], options["relevance"], options["temperature"]
    )


def _csl(loss: Any, example: Example, options: dict[str, Any]) -> float:
    coarse, fine = options["margins"] or [0.45, 0.25]
    fine, coarse = (
        fine + options["shift"],
        fine + options["shift"] + options["spread"] * (coarse - fine),
    )
    margins = [coarse, fine]
    return oracles.csl(
        example.rows.tolist(),
        example.paths.tolist(),
        loss.proxies.tolist(),
        HIERARCHY,
        options["scale"],
        margins,
    )


def _columns(loss: Any) -> Any:
    return loss.inner.W.T.tolist()


ORACLES: dict[str, Definition] = {
    "contrastive": _over_pairs(oracles.contrastive),
    "triplet": _over_pairs(oracles.triplet),
    "proxy_nca": _with_proxies(oracles.proxy_nca, lambda loss: loss.proxies.tolist()),
    "margin": _margin,
    "normalized_softmax": _with_proxies(oracles.normalized_softmax, _columns),
    "cosface": _with_proxies(oracles.cosface, _columns),
    "arcface": _with_proxies(oracles.arcface, lambda loss: loss.proxies.tolist()),
    "fastap": _over_pairs(oracles.fastap),
    "snr_contrastive": _over_pairs(oracles.snr_contrastive),
    "multi_similarity": _over_pairs(oracles.multi_similarity),
    "multi_similarity_mined": _mined_multi_similarity,
    "soft_triple": _soft_triple,
    "sphereface": _with_proxies(oracles.sphereface, _columns),
    "angular": _over_pairs(oracles.angular),
    "lifted_structure": _over_pairs(oracles.lifted_structure),
    "n_pairs": _over_pairs(oracles.n_pairs),
    "nt_xent": _over_pairs(oracles.nt_xent),
    "tuplet_margin": _over_pairs(oracles.tuplet_margin),
    "proxy_nca_plus_plus": _with_proxies(oracles.proxy_nca, lambda loss: loss.proxies.tolist()),
    "proxy_anchor": _with_proxies(oracles.proxy_anchor, lambda loss: loss.inner.proxies.tolist()),
    "smooth_ap": _over_pairs(oracles.smooth_ap),
    "recall_at_k": _over_pairs(oracles.recall_at_k),
    "sup_ap": _over_pairs(oracles.sup_ap),
    "roadmap": _roadmap,
    "calibration": _over_pairs(oracles.calibration),
    "tcm": _over_pairs(oracles.calibration),
    "tcm_plus": _over_pairs(oracles.calibration),
    "tcm_minus": _over_pairs(oracles.calibration),
    "tcm_prime": _over_pairs(oracles.calibration),
    "happier": _happier,
    "happier_f": _happier,
    "happier_sum_wap": _happier,
    "smooth_h_ap": _smooth_h_ap,
    "csl": _csl,
}
