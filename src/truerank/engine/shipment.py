"""Shipments: a pass as workers of a cluster get it, its parts put there once and kept by them."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakSet

import numpy as np
import numpy.typing as npt

from truerank.cluster import Cluster, Held
from truerank.core.folds import GalleryFolds
from truerank.engine.observers import Observers
from truerank.engine.request import PassRequest
from truerank.relevance import View
from truerank.settings import Settings
from truerank.space import Rows, Space, probe

__all__ = ["Outline", "Parts", "ship", "unpack"]


@dataclass(frozen=True)
class Outline:
    """What is small about a pass."""

    device: str
    groups: bool
    some: bool
    """Whether the pass looks at some queries only."""
    limits: Settings


Split = tuple[View, npt.NDArray[np.bool_]]
Parts = tuple[Space, View, GalleryFolds | None, Split | None, Observers | None, Outline]
"""A pass, in the order in which a task is given its parts."""


_probed: WeakSet[Space] = WeakSet()
"""Spaces whose tiles this process has checked."""


def ship(request: PassRequest, limits: Settings, cluster: Cluster) -> tuple[Held | None, ...]:
    """Put the parts of a request there; observers arrive empty in every task."""
    folds, split, observers = request.folds, request.split_view, request.observers
    return (
        cluster.put(request.space),
        cluster.put(request.view),
        None if folds is None else cluster.put(folds),
        None if split is None else cluster.put(split),
        None if observers is None else cluster.put(observers, fresh=True),
        cluster.put(
            Outline(request.device, request.groups, request.only is not None, limits), fresh=True
        ),
    )


def unpack(parts: Parts, rows: Rows) -> tuple[PassRequest, Settings]:
    """The request of a worker: the same pass for these queries alone, in one thread.

    What a machine multiplies is checked on the user's rows before its first task counts.
    """
    space, view, folds, split_view, observers, outline = parts
    if space not in _probed:
        probe(space)
        _probed.add(space)
    others = np.ones(view.queries, bool)
    others[rows] = False
    request = PassRequest(
        view,
        space,
        outline.device,
        1,
        groups=outline.groups,
        observers=observers,
        seen=others,
        only=rows if outline.some else None,
        folds=folds,
        split_view=split_view,
    )
    return request, outline.limits
