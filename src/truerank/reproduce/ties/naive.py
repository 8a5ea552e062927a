"""mAP as most code computes it: scores in some precision, batch by batch, then a plain sort.

Rows in some order, a batch size, a precision and a device come in; one number goes out. Nothing of
truerank's own is used: what it is compared with must not share its code.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "DIVISORS",
    "DROPS",
    "PRECISIONS",
    "VARIANTS",
    "devices",
    "naive_map",
    "released_map",
    "zero_map",
]

PRECISIONS = ("float16", "bfloat16", "tf32", "float32")
"""How the products of unit rows are computed; tf32 is imitated where there is no GPU."""
VARIANTS = ("oneself found by number", "first column dropped", "lengths divided out")
DROPS = ("oneself", "first column")
"""What is left out of each query's list; the released code takes the first column for oneself."""
DIVISORS = ("R", "R + 1 where the first item is wrong")
"""What AP is divided by; the released code counts a step of recall at rank 1 in any case."""
SAME = 1e-12
"""A cosine distance below this is 0, so that rounding does not order equal directions."""
Reals = npt.NDArray[np.floating[Any]]
Integers = npt.NDArray[np.int64]


def devices() -> list[str]:
    """Where scores can be computed here."""
    import torch

    return ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def naive_map(
    rows: Reals,
    labels: Integers,
    *,
    precision: str,
    batch: int,
    device: str = "cpu",
    variant: str = VARIANTS[0],
) -> float:
    """mAP of leave-one-out search by cosine distance; classes of one row are no queries.

    The distances of a batch of queries are one product of matrices, and each line is sorted by the
    library's default sort. In the variants oneself is dropped as the first of each line, as the
    paper does, or products are divided by the lengths of the rows afterwards.
    """
    import torch

    place = torch.device(device)
    given = torch.from_numpy(np.ascontiguousarray(rows))
    lengths = torch.linalg.vector_norm(given, dim=1).to(place)
    divides = variant == "lengths divided out"
    units = given if divides else torch.nn.functional.normalize(given, dim=1)
    units = _narrowed(units.to(place), precision)
    found = torch.from_numpy(np.ascontiguousarray(labels)).to(place)
    numbers = torch.arange(len(labels), device=place)
    parts = []
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    try:
        for start in range(0, len(labels), batch):
            some = slice(start, start + batch)
            products = units[some] @ units.T
            if divides:
                products = products / (lengths[some, None] * lengths)
            order = _sorted(1 - products)
            if variant == "first column dropped":
                others = order[:, 1:]
            else:
                others = order[order != numbers[some, None]].reshape(len(order), -1)
            parts.append(_average_precisions(found[others] == found[some, None]))
    finally:
        torch.set_float32_matmul_precision(before)
    values = torch.cat(parts)
    _, codes, counts = torch.unique(found, return_inverse=True, return_counts=True)
    return float(values[counts[codes] > 1].mean())


def _narrowed(units: Any, precision: str) -> Any:
    import torch

    if precision in ("float16", "bfloat16"):
        return units.to(getattr(torch, precision))
    if precision == "tf32" and units.device.type == "cpu":  # a tensor core keeps 10 bits of each
        bits = units.numpy().view(np.uint32)
        rounded = (bits + np.uint32(0xFFF) + ((bits >> 13) & 1)) & np.uint32(0xFFFFE000)
        return torch.from_numpy(rounded.view(np.float32))
    return units


def _sorted(distances: Any) -> Any:
    """The order of each line by the default sort: numpy's on the CPU, torch's on a GPU."""
    import torch

    if distances.device.type != "cpu":
        return torch.argsort(distances, dim=1)
    return torch.from_numpy(np.argsort(distances.float().numpy(), axis=1))


def _average_precisions(matches: Any) -> Any:
    """AP of each line in float64, 0 where nothing matches."""
    import torch

    hits = matches.to(torch.float64)
    ranks = torch.arange(1, hits.shape[1] + 1, device=hits.device, dtype=torch.float64)
    precision = torch.cumsum(hits, dim=1) / ranks
    return (precision * hits).sum(dim=1) / hits.sum(dim=1).clamp(min=1)


def released_map(
    rows: Reals, labels: Integers, *, drops: str, divisor: str, relevant_first: bool
) -> tuple[float, int]:
    """mAP by cosine distance with the two rules of the paper's released code, and its queries.

    Where distances are equal, the relevant items are first or last: the released code's optimistic
    and pessimistic modes, which shift them by 1e-20. A query without a relevant item left in its
    list is no query.
    """
    given = rows.astype(np.float64)
    units = given / np.maximum(np.linalg.norm(given, axis=1, keepdims=True), SAME)
    distances = 1 - units @ units.T
    distances[distances < SAME] = 0.0
    relevant = labels[:, None] == labels
    order = np.lexsort((relevant != relevant_first, distances))
    matches = np.take_along_axis(relevant, order, axis=1)
    if drops == "first column":
        matches = matches[:, 1:]
    else:
        others = order != np.arange(len(labels))[:, None]
        matches = matches[others].reshape(len(labels), -1)
    matches = matches[matches.any(axis=1)]
    return float(_divided(matches, divisor).mean()), len(matches)


def zero_map(labels: Integers, *, drops: str, divisor: str = DIVISORS[0]) -> float:
    """mAP of embeddings that are all zero, by a stable sort; oneself is dropped by place or index.

    With all distances equal a stable sort keeps the rows' own order for every query.
    """
    values = []
    numbers = np.arange(len(labels))
    for query, label in enumerate(labels.tolist()):
        kept = numbers[1:] if drops == "first column" else numbers[numbers != query]
        values.append(float(_divided((labels[kept] == label)[None], divisor)[0]))
    return float(np.mean(values))


def _divided(matches: npt.NDArray[np.bool_], divisor: str) -> npt.NDArray[np.float64]:
    """AP of each line: its precisions at matches, added up and divided."""
    precision = np.cumsum(matches, axis=1) / np.arange(1, matches.shape[1] + 1)
    steps = matches.sum(axis=1)
    if divisor != "R":
        steps = steps + ~matches[:, 0]
    return np.asarray((precision * matches).sum(axis=1) / steps)
