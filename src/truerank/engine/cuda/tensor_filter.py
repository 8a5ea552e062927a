"""Filter, then refine: half-precision tensor cores decide almost every comparison, rigorously.

Integer rows X are rounded to half precision by us, H = half(X 2^-17), with the residual
r = |X - 2^17 H| known. For a query X and an item Y, rounded to H and K, in units of X,

    |X.Y - 2^34 H.K| <= |X| r_item + r_query |K|         (Cauchy-Schwarz, twice)

the tensor cores' float32 accumulation is off by at most d 2^-22 |H||K| (each of d additions may
lose two bits below float32's last; a probe on the device checks it), squared lengths of rounded
unit vectors differ a little from their middle, and distances from what rows on the grid make. An
item whose product lies farther than the sum of these from a threshold is on the side it seems to
be; the others are decided by exact products.

Where that leaves too many, a second half holds what the first lost, L = half((X - 2^17 H) 2^-17);
with K and M of an item, H.K + H.M + L.K is off by L.M and by next to nothing else: see FineRows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

__all__ = [
    "CHUNK",
    "IN_PRODUCTS",
    "Extremes",
    "FineExtremes",
    "FineRows",
    "Halves",
    "error_bound",
    "fine_rows",
    "halves",
    "holds",
    "padded",
    "probe_rows",
    "product_bound",
    "strip",
    "thresholds",
]

SHIFT = 17
"""X 2^-17 is below 2^8 + 1 for unit vectors on the 2^-25 grid, and small integers stay exact."""
IN_PRODUCTS = 2.0 ** (-2 * SHIFT)
"""A unit of X.Y in products of halves."""
LOST_BITS = 22
_CAUTION = 1.0 + 2.0**-30
"""A factor for the roundings of the bound itself, which is computed in float64."""
CHUNK = 64
"""Terms that tensor cores accumulate of the large part of a fine product, before it is added."""
_ROWS, _COLUMNS = 256, 64
"""Rows and dimensions are padded to multiples of these."""


@dataclass(frozen=True)
class Halves:
    """Half-precision rows, padded with zeros, and what is known about them."""

    rows: Any
    length: Any
    """|X|, rounded up."""
    half_length: Any
    """2^17 |H|, rounded up."""
    residual: Any
    """|X - 2^17 H|, rounded up."""

    @staticmethod
    def room(count: int, dimension: int, device: Any) -> Halves:
        """Rows to be put in; until then, zeros."""
        shape = (-(-count // _ROWS) * _ROWS, -(-dimension // _COLUMNS) * _COLUMNS)
        lengths = [torch.empty(count, dtype=torch.float64, device=device) for _ in range(3)]
        return Halves(torch.zeros(shape, dtype=torch.float16, device=device), *lengths)

    def put(self, start: int, some: Halves) -> None:
        """Take in further rows, from `start` on."""
        here = slice(start, start + len(some.length))
        self.rows[here] = some.rows[: len(some.length)]
        self.length[here], self.half_length[here] = some.length, some.half_length
        self.residual[here] = some.residual

    def take(self, index: Any) -> Halves:
        """The rows of an index, padded again."""
        return replace(self.known(index), rows=padded(self.rows[index]))

    def known(self, index: Any) -> Halves:
        """What is known about the rows of an index, without these."""
        lengths = (self.length[index], self.half_length[index], self.residual[index])
        return Halves(self.rows[:0], *lengths)


def padded(rows: Any) -> Any:
    """Half-precision rows with zeros behind them."""
    return torch.nn.functional.pad(rows, (0, 0, 0, -len(rows) % _ROWS))


def strip(rows: Any, start: int, stop: int) -> Any:
    """The half-precision rows start to stop, padded; behind them may be others, or zeros."""
    end = start + -(-(stop - start) // _ROWS) * _ROWS
    missing = max(0, end - len(rows))
    return (
        torch.nn.functional.pad(rows[start:end], (0, 0, 0, missing)) if missing else rows[start:end]
    )


def halves(integers: Any) -> Halves:
    """Integer rows rounded to half precision, with bounds of what that loses."""
    count, dimension = integers.shape
    found = Halves.room(count, dimension, integers.device)
    lengths = (found.length, found.half_length, found.residual)
    step = max(1, (1 << 26) // dimension)
    for start in range(0, count, step):
        some = slice(start, min(start + step, count))
        exact = integers[some].double()
        half = (exact * 2.0**-SHIFT).to(torch.float16)
        found.rows[some, :dimension] = half
        back = half.double() * 2.0**SHIFT
        for out, part in zip(lengths, (exact, back, exact - back), strict=True):
            out[some] = torch.linalg.vector_norm(part, dim=1) * _CAUTION
    return found


@dataclass(frozen=True)
class Extremes:
    """The worst that any of some items adds to the error; numbers that stay on the device."""

    shortest: Any
    """The smallest |Y|^2."""
    longest: Any
    half_length: Any
    residual: Any

    @staticmethod
    def of(items: Halves, norm: Any) -> Extremes:
        """`norm` is |Y|^2."""
        return Extremes(norm.min(), norm.max(), items.half_length.max(), items.residual.max())


def product_bound(queries: Halves, items: Extremes) -> Any:
    """How far the products of these queries with any of these items may be off, in units of X."""
    bound = queries.length * items.residual
    bound += queries.residual * items.half_length
    accumulated = queries.rows.shape[1] * 2.0**-LOST_BITS
    bound += accumulated * queries.half_length * items.half_length
    return bound * _CAUTION


@dataclass(frozen=True)
class FineRows:
    """Rows of two halves, H and L: those of items as H, L, H side by side, those of queries as
    L, H, H, so that one product has all three terms, the small ones first."""

    rows: Any
    length: Any
    """|X|, rounded up."""
    high: Any
    """2^17 |H|, rounded up."""
    low: Any
    """2^17 |L|, rounded up."""
    residual: Any
    """|X - 2^17 (H + L)|, rounded up."""

    @staticmethod
    def room(count: int, dimension: int, device: Any) -> FineRows:
        """Rows to be put in; until then, zeros."""
        shape = (-(-count // _ROWS) * _ROWS, 3 * (-(-dimension // _COLUMNS) * _COLUMNS))
        lengths = [torch.empty(count, dtype=torch.float64, device=device) for _ in range(4)]
        return FineRows(torch.zeros(shape, dtype=torch.float16, device=device), *lengths)

    def put(self, start: int, integers: Any) -> None:
        """Take in integer rows of items, from `start` on."""
        some, wide = slice(start, start + len(integers)), self.rows.shape[1] // 3
        here = slice(0, integers.shape[1])
        exact = integers.double()
        high = (exact * 2.0**-SHIFT).to(torch.float16)
        rest = exact - high.double() * 2.0**SHIFT
        low = (rest * 2.0**-SHIFT).to(torch.float16)
        for place, part in enumerate((high, low, high)):
            self.rows[some, place * wide : (place + 1) * wide][:, here] = part
        back = low.double() * 2.0**SHIFT
        parts = (exact, exact - rest, back, rest - back)
        lengths = (self.length, self.high, self.low, self.residual)
        for out, part in zip(lengths, parts, strict=True):
            out[some] = torch.linalg.vector_norm(part, dim=1) * _CAUTION

    def queries(self, index: Any) -> FineRows:
        """The items of an index as queries, padded again."""
        wide = self.rows.shape[1] // 3
        shape = (-(-len(index) // _ROWS) * _ROWS, self.rows.shape[1])
        rows = torch.zeros(shape, dtype=torch.float16, device=self.rows.device)
        rows[: len(index), : 2 * wide] = self.rows[index, wide:]
        rows[: len(index), 2 * wide :] = self.rows[index, :wide]
        lengths = (self.length, self.high, self.low, self.residual)
        return FineRows(rows, *(one[index] for one in lengths))


def fine_rows(integers: Any) -> FineRows:
    """Integer rows of items in two halves."""
    count, dimension = integers.shape
    found = FineRows.room(count, dimension, integers.device)
    step = max(1, (1 << 26) // dimension)
    for start in range(0, count, step):
        found.put(start, integers[start : start + step])
    return found


@dataclass(frozen=True)
class FineExtremes:
    """The worst that any of some items adds to the error of fine products."""

    shortest: Any
    longest: Any
    high: Any
    low: Any
    residual: Any

    @staticmethod
    def of(items: FineRows, norm: Any) -> FineExtremes:
        """`norm` is |Y|^2."""
        worst = (items.high.max(), items.low.max(), items.residual.max())
        return FineExtremes(norm.min(), norm.max(), *worst)


def _fine_product_bound(queries: FineRows, items: FineExtremes) -> Any:
    """How far H.K + H.M + L.K may be off, in units of X.

    If X = 2^17 (H + L) + a and Y = 2^17 (K + M) + b, X.Y = 2^34 (H + L).(K + M) + X.b + a.(Y - b).
    Tensor cores accumulate 2 d terms of H.M and L.K, and CHUNK terms of H.K at a time; the d/CHUNK
    sums of these are added in float32, which loses 2^-24 of a sum each time.
    """
    d = queries.rows.shape[1] // 3
    small = queries.low * items.high + queries.high * items.low
    large = queries.high * items.high
    added = d / CHUNK / 4 + 1
    bound = queries.length * items.residual + queries.residual * (items.high + items.low)
    bound += queries.low * items.low
    bound += 2.0**-LOST_BITS * ((CHUNK + added) * large + (2 * d + added) * small)
    return bound * _CAUTION


def error_bound(queries: Halves | FineRows, items: Extremes | FineExtremes, slack: float) -> Any:
    """How far (|X|^2 + middle - D)/2 may be from a query's product with any of these items, in
    units of X; `middle` is that of their squared lengths, and `slack` as in thresholds."""
    if isinstance(queries, FineRows):
        bound = _fine_product_bound(queries, items)  # type: ignore[arg-type]
    else:
        bound = product_bound(queries, items)  # type: ignore[arg-type]
    bound += (items.longest - items.shortest) / 4 + slack / 2 + 4
    return bound * _CAUTION


def thresholds(
    edges: Any, norm: Any, queries: Halves | FineRows, items: Extremes | FineExtremes, slack: float
) -> tuple[Any, Any]:
    """Two products for each query and threshold: above the first is nearer, below the second not.

    `norm` is |X|^2, and distances differ from |X|^2 + |Y|^2 - 2 X.Y by at most `slack`.
    """
    bound = error_bound(queries, items, slack)
    middle = (items.shortest + items.longest) / 2
    at = (norm[:, None] + middle - edges) / 2
    sure = ((at + bound[:, None]) * IN_PRODUCTS).float()
    sure = torch.nextafter(sure, torch.full_like(sure, torch.inf))
    lost = ((at - bound[:, None]) * IN_PRODUCTS).float()
    lost = torch.nextafter(lost, torch.full_like(lost, -torch.inf))
    return sure.contiguous(), lost.contiguous()


def probe_rows(dimension: int, device: Any) -> Any:
    """Integer rows that show an accumulation in fewer bits than assumed.

    Sums that only grow; one large term before, amid or after many that are just too small for its
    last bits; large terms that cancel around small ones; and terms of all sizes.
    """
    generator = torch.Generator().manual_seed(20)
    noise = torch.rand((128, dimension), generator=generator, dtype=torch.float64)
    sign = torch.where(torch.rand(noise.shape, generator=generator) < 0.5, -1.0, 1.0)
    rows = torch.empty_like(noise)
    rows[:32] = 1.0 + noise[:32] * 2.0**-6
    rows[32:64] = 2.0**-6 * (1.0 + noise[32:64])
    rows[torch.arange(32, 64), torch.arange(32) * max(1, dimension // 32) % dimension] = 2.0**6
    rows[64:96] = 2.0**-5 * (1.0 + noise[64:96])
    rows[64:96, 0] = 2.0**6
    rows[64:80, dimension // 2] = 2.0**6
    rows[80:96, dimension // 2] = -(2.0**6)
    rows[96:] = sign[96:] * 2.0 ** (-12.0 * noise[96:])
    rows /= torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return torch.round(rows * 2.0**25).to(torch.int32).to(device)


def holds(products: Any, rows: Halves) -> bool:
    """Whether these products of the rows with themselves keep the accumulation bound, well inside.

    Half of it is asked for: the probe sees some sums, the bound is for all.
    """
    wide = rows.rows.double()
    exact = wide @ wide.T
    allowed = (
        wide.shape[1]
        * 2.0 ** -(LOST_BITS + 1)
        * torch.outer(rows.half_length, rows.half_length)
        * 2.0 ** (-2 * SHIFT)
    )
    count = len(rows.length)
    error = (products.double() - exact).abs()[:count, :count]
    return bool((error <= allowed).all())
