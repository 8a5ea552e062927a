"""Strategies: one file for each way to turn blocks of rows into tie groups, or to observe them.

A new one is a file and a line in STRATEGIES; a new device is a planner in truerank.engine.schedule
besides, and what it can tell about itself in PassContext.facts.
"""

from __future__ import annotations

from truerank.engine.strategies.close_rows import CountCloseRows
from truerank.engine.strategies.count import Count
from truerank.engine.strategies.cuda_count import CudaCount, CudaCountBothWays
from truerank.engine.strategies.cuda_observe import CudaCountObserved, CudaObserve
from truerank.engine.strategies.cuda_rank import CudaRank
from truerank.engine.strategies.filtered import Filtered
from truerank.engine.strategies.observe_both_ways import CountObservedBothWays, ObserveBothWays
from truerank.engine.strategies.observe_rows import CountObservedRows, ObserveRows
from truerank.engine.strategies.observe_tiles import CountObservedTiles, ObserveTiles
from truerank.engine.strategies.protocol import Strategy, Tiled
from truerank.engine.strategies.reference import Reference
from truerank.engine.strategies.sort_rows import SortRows
from truerank.engine.strategies.split_rows import SplitRows
from truerank.engine.strategies.spread_rows import SpreadRows
from truerank.engine.strategies.spread_tiles import SpreadTiles
from truerank.engine.strategies.symmetric import Symmetric

__all__ = ["STRATEGIES", "TILED"]

STRATEGIES: dict[str, Strategy] = {
    "reference": Reference(),
    "count": Count(),
    "filter": Filtered(),
    "symmetric": Symmetric(),
    "sort rows": SortRows(),
    "split rows": SplitRows(),
    "count observed tiles": CountObservedTiles(),
    "count observed both ways": CountObservedBothWays(),
    "count observed rows": CountObservedRows(),
    "count close rows": CountCloseRows(),
    "observe tiles": ObserveTiles(),
    "observe both ways": ObserveBothWays(),
    "observe rows": ObserveRows(),
    "cuda count": CudaCount(),
    "cuda count both ways": CudaCountBothWays(),
    "cuda rank": CudaRank(),
    "cuda count observed": CudaCountObserved(),
    "cuda observe": CudaObserve(),
    "spread tiles": SpreadTiles(),
    "spread rows": SpreadRows(),
}

TILED: dict[str, Tiled] = {
    "count": Count(),
    "filter": Filtered(),
    "count observed tiles": CountObservedTiles(),
}
"""Those by which workers of a cluster add tiles."""
