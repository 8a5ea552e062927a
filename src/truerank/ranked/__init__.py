"""Whole rankings of a few queries: what a person looks at after a score.

A task and a space come in; for each query asked for, the nearest items and all mates go out, with
the ranks that ties leave open.
"""

from truerank.ranked.held import AtHand, HeldRows
from truerank.ranked.lists import NeighbourList, Neighbours
from truerank.ranked.search import find_queries, rank

__all__ = ["AtHand", "HeldRows", "NeighbourList", "Neighbours", "find_queries", "rank"]
