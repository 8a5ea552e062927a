"""Strategies: one file for each way to turn blocks of rows into tie groups, or to show them.

A new one is a file and a line in STRATEGIES; a new device is a planner in truerank.engine.schedule
besides, and what it can tell about itself in PassContext.facts.
"""

from __future__ import annotations

from truerank.engine.strategies.count import Count
from truerank.engine.strategies.cuda_count import CudaCount
from truerank.engine.strategies.cuda_rank import CudaRank
from truerank.engine.strategies.cuda_watch import CudaShow, CudaWatch
from truerank.engine.strategies.filtered import Filtered
from truerank.engine.strategies.protocol import Strategy
from truerank.engine.strategies.reference import Reference
from truerank.engine.strategies.sort_rows import SortRows
from truerank.engine.strategies.split_rows import SplitRows
from truerank.engine.strategies.symmetric import Symmetric
from truerank.engine.strategies.watch_both_ways import ShowBothWays, WatchBothWays
from truerank.engine.strategies.watch_rows import ShowRows, WatchRows
from truerank.engine.strategies.watch_tiles import ShowTiles, WatchTiles

__all__ = ["STRATEGIES"]

STRATEGIES: dict[str, Strategy] = {
    "reference": Reference(),
    "count": Count(),
    "filter": Filtered(),
    "symmetric": Symmetric(),
    "sort rows": SortRows(),
    "split rows": SplitRows(),
    "watch tiles": WatchTiles(),
    "watch both ways": WatchBothWays(),
    "watch rows": WatchRows(),
    "show tiles": ShowTiles(),
    "show both ways": ShowBothWays(),
    "show rows": ShowRows(),
    "cuda count": CudaCount(),
    "cuda rank": CudaRank(),
    "cuda watch": CudaWatch(),
    "cuda show": CudaShow(),
}
