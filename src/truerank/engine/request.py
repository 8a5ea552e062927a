"""A request: all that is asked of one pass, as it was asked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from truerank.core.folds import Shares
from truerank.engine.watch import Audience
from truerank.relevance import View
from truerank.space import Rows, Space

__all__ = ["Request"]


@dataclass(frozen=True, eq=False)
class Request:
    """One pass over queries x gallery; see truerank.engine.tie_groups for what is meant."""

    view: View
    space: Space
    device: str
    """Resolved: reference, cpu or cuda."""
    threads: int
    groups: bool = True
    """Whether tie groups are wanted; if not, all pairs are shown to the audience."""
    audience: Audience | None = None
    seen: npt.NDArray[np.bool_] | None = None
    """Queries that are left out."""
    only: Rows | None = None
    """The queries to look at; None for all."""
    rankings: bool = False
    """Whether rankings without ties may stay on a device."""
    shares: Shares | None = None
    """How groups are split."""
    apart: tuple[View, npt.NDArray[np.bool_]] | None = None
    """The view in which groups of sorted rows are split, and the queries that go with it."""
    keep: bool = True
    """Whether a block's tie groups stay valid when the next block is asked for."""

    @property
    def splitting(self) -> bool:
        """Whether some queries are looked at for nothing but their split groups."""
        return self.only is not None and self.audience is None and self.shares is not None
