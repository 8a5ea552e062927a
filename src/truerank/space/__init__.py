"""Spaces: exact vectors and exact distances; each module gives the argument for its own."""

from truerank.space import catalogue
from truerank.space.base import Distances, Facts, Rows, Space
from truerank.space.build import build
from truerank.space.catalogue import Distance
from truerank.space.probe import probe

__all__ = ["Distance", "Distances", "Facts", "Rows", "Space", "build", "catalogue", "probe"]
