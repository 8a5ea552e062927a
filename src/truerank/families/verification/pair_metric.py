"""The definition of a verification metric: what is known of it and how it is computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from truerank.core.metric import Metric, ThresholdDefinition
from truerank.core.registry import definition

if TYPE_CHECKING:
    from truerank.core.curve import Curve
    from truerank.families.verification.points import Points
    from truerank.families.verification.pooled import PooledPairs

__all__ = ["ISO", "PairMetric", "pair_metric"]

ISO = "ISO/IEC 19795-1:2021, Biometric performance testing and reporting"


@dataclass(frozen=True, kw_only=True)
class PairMetric(ThresholdDefinition):
    """A metric over thresholds that accept or reject pairs; its score is of PooledPairs."""

    at_points: Callable[[Points, Metric], npt.NDArray[np.float64]]
    """The score, but for a constant, from operating points: of all pairs and without each fold."""
    curve: Callable[[PooledPairs], Curve] | None = None
    """The curve that is drawn where the metric is asked for."""
    counted: str = "pair"
    family: str = "verification"


def pair_metric(metric: Metric) -> PairMetric:
    """The definition of a metric of this family."""
    found = definition(metric)
    if not isinstance(found, PairMetric):
        raise TypeError(f"{metric} is no metric over pairs")
    return found
