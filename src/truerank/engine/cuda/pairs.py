"""Lists of relevant and of excluded pairs, on the device.

Equal codes are expanded there; masks and judgements are listed by the view itself and sent over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from truerank.engine.cuda.transfer import DeviceQueries, sent
from truerank.relevance import LabelView, TreeView, View

__all__ = ["DevicePairs", "Lists"]


@dataclass(frozen=True)
class Lists:
    """Relevant pairs, sorted by query, with their grades from 1; and excluded pairs."""

    query: Any
    item: Any
    grade: Any
    excluded_query: Any
    excluded_item: Any


class DevicePairs:
    """Lists of relevant and excluded pairs for any block of queries."""

    def __init__(self, view: View, device: Any) -> None:
        self._view, self._device = view, device
        self._by_code = False
        if not isinstance(view, LabelView) or view.exclusions.masks:
            return
        self._by_code = True
        self._relevant = _Rule(self, view.query, view.item)
        self._rules = [_Rule(self, rule.query, rule.item) for rule in view.exclusions.rules]
        self._deeper: list[tuple[Any, Any]] = []
        self._lowest = 1
        if isinstance(view, TreeView):
            self._lowest = view.lowest
            levels = zip(*view.paths, strict=True)
            self._deeper = [
                (self.send(query), self.send(item)) for query, item in list(levels)[view.lowest :]
            ]

    def send(self, array: Any) -> Any:
        """A numpy array on the device."""
        return sent(array, self._device)

    def block(self, queries: DeviceQueries) -> Lists:
        """The pairs of these queries, which are numbered from 0."""
        if not self._by_code:
            pairs = self._view.block(queries.rows)
            parts = (pairs.relevant.query, pairs.relevant.item, pairs.grade)
            excluded = (pairs.excluded.query, pairs.excluded.item)
            return Lists(*(self.send(part) for part in (*parts, *excluded)))
        chosen = queries.there
        query, item = self._relevant.pairs(chosen)
        for rule in self._rules:
            kept = torch.nonzero(~rule.holds(chosen[query], item)).flatten()
            query, item = query[kept], item[kept]
        grade = torch.full_like(query, self._lowest)
        for of_query, of_item in self._deeper:
            grade += of_query[chosen[query]] == of_item[item]
        return Lists(query, item, grade, *self._excluded(chosen))

    def grade_rows(self, queries: DeviceQueries) -> Any:
        """The grade of every item for these queries, uint8; excluded ones have theirs."""
        if not self._by_code:
            return self.send(self._view.grade_rows(queries.rows).astype(np.uint8))
        from truerank.engine.cuda.grade_kernels import common_grades

        chosen = queries.there
        levels = [(self._relevant.query, self._relevant.item), *self._deeper]
        query = torch.stack([of_query[chosen].to(torch.int32) for of_query, _ in levels])
        item = torch.stack([of_item.to(torch.int32) for _, of_item in levels])
        return common_grades(query, item, self._lowest)

    def excluded(self, queries: DeviceQueries) -> tuple[Any, Any]:
        """The excluded pairs of these queries."""
        if self._by_code:
            return self._excluded(queries.there)
        pairs = self._view.exclusions.pairs(queries.rows, self._view.items)
        return self.send(pairs.query), self.send(pairs.item)

    def _excluded(self, chosen: Any) -> tuple[Any, Any]:
        """Every excluded pair once: those of a rule that no earlier rule has."""
        queries, items = [], []
        for number, rule in enumerate(self._rules):
            query, item = rule.pairs(chosen)
            for earlier in self._rules[:number]:
                fresh = torch.nonzero(~earlier.holds(chosen[query], item)).flatten()
                query, item = query[fresh], item[fresh]
            queries.append(query)
            items.append(item)
        if not queries:
            nothing = torch.empty(0, dtype=torch.int64, device=self._device)
            return nothing, nothing
        return torch.cat(queries), torch.cat(items)


class _Rule:
    """The pairs with equal codes; no item carries a negative code."""

    def __init__(self, owner: DevicePairs, query: Any, item: Any) -> None:
        self.query, self.item = owner.send(query), owner.send(item)
        codes, self._order = torch.sort(self.item, stable=True)
        known = self.query.clamp(min=0)
        self._start = torch.searchsorted(codes, known)
        self._stop = torch.searchsorted(codes, known, right=True)
        self._stop = torch.where(self.query < 0, self._start, self._stop)

    def holds(self, rows: Any, item: Any) -> Any:
        """Which of these pairs have equal codes."""
        code = self.query[rows]
        return (code == self.item[item]) & (code >= 0)

    def pairs(self, rows: Any) -> tuple[Any, Any]:
        """For each row, numbered from 0, all items with its code."""
        start = self._start[rows]
        counts = self._stop[rows] - start
        number = torch.arange(len(rows), device=rows.device)
        query = torch.repeat_interleave(number, counts)
        first = torch.cumsum(counts, 0) - counts
        position = torch.arange(len(query), device=rows.device) + (start - first)[query]
        return query, self._order[position]
