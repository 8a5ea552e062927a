"""The grades of gallery items as integers on a GPU: of each pair, and where they lie in a row."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

__all__ = ["common_grades", "survey"]


@triton.jit(do_not_specialize=["queries", "items", "levels", "lowest"])
def _common_grades(
    query, item, out, queries, items, levels, lowest, ROWS: tl.constexpr, ITEMS: tl.constexpr
):
    q = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    g = tl.program_id(1).to(tl.int64) * ITEMS + tl.arange(0, ITEMS)
    inside = (q < queries)[:, None] & (g < items)[None, :]
    top = tl.load(query + q, mask=q < queries, other=-1)
    same = inside & (top >= 0)[:, None]
    length = tl.zeros([ROWS, ITEMS], tl.int32)
    for level in range(levels):
        x = tl.load(query + level * queries + q, mask=q < queries, other=-1)
        y = tl.load(item + level * items + g, mask=g < items, other=-2)
        same &= x[:, None] == y[None, :]
        length += same.to(tl.int32)
    grade = tl.where(length > 0, lowest - 1 + length, 0)
    tl.store(out + q[:, None] * items + g[None, :], grade.to(tl.uint8), mask=inside)


def common_grades(query: Any, item: Any, lowest: int) -> Any:
    """Lengths of common paths from (levels, queries) and (levels, items) int32 codes."""
    levels, queries = query.shape
    items = item.shape[1]
    out = torch.empty((queries, items), dtype=torch.uint8, device=query.device)
    grid = (triton.cdiv(queries, 16), triton.cdiv(items, 512))
    _common_grades[grid](
        query,
        item,
        out,
        queries,
        items,
        levels,
        lowest,
        ROWS=16,
        ITEMS=512,
        enable_fp_fusion=False,
    )
    return out


@triton.jit(do_not_specialize=["width"])
def _survey(grades, out, width, COLUMNS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    grade = tl.program_id(1) + 1
    number = tl.zeros([COLUMNS], tl.int32)
    first = number + width
    last = number - 1
    for start in range(0, width, COLUMNS):
        rank = start + tl.arange(0, COLUMNS)
        found = tl.load(grades + row * width + rank, mask=rank < width, other=0).to(tl.int32)
        same = found == grade
        number += same.to(tl.int32)
        first = tl.minimum(first, tl.where(same, rank, width))
        last = tl.maximum(last, tl.where(same, rank, -1))
    at = out + 3 * (row * tl.num_programs(1) + grade - 1)
    tl.store(at, tl.sum(number, 0))
    tl.store(at + 1, tl.min(first, 0))
    tl.store(at + 2, tl.max(last, 0))


def survey(grades: Any, count: int) -> Any:
    """(queries, grades, 3): the items of each grade, the ranks of the first and the last of them.

    Where there is none, these are the number of items and -1.
    """
    queries, width = grades.shape
    out = torch.empty((queries, count, 3), dtype=torch.int32, device=grades.device)
    if queries:
        _survey[(queries, count)](grades, out, width, COLUMNS=2048, num_warps=4)
    return out
