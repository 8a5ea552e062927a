"""Space: exact vectors and exact distances (the argument for each is in the module that has it)."""

from truerank.space.base import Distances, Facts, Rows, Space
from truerank.space.build import DISTANCES, build
from truerank.space.probe import probe

__all__ = ["DISTANCES", "Distances", "Facts", "Rows", "Space", "build", "probe"]
