"""What a pass collects for GOM: on one axis of thresholds, or on two."""

from __future__ import annotations

from truerank.core.metric import Metric
from truerank.engine.observers import Extent
from truerank.families.family import Context, Family
from truerank.families.gom.axis import Axis
from truerank.families.gom.collect import Gom
from truerank.families.gom.peaks import Peak, peaks, peaks_at_points
from truerank.families.gom.rates import Rates

__all__ = ["HIGHEST", "GomAxes", "curve_of"]

HIGHEST = ("mrep_max", "mvp_max", "tau_max")
CURVES = {("mvp", "all"): 1, ("mrep", "all"): 2, ("mrep", "frozen"): 3, ("mvp", "frozen"): 4}
"""The numbers of the curves whose highest points are scores, among those of `Gom`."""
OFF_THE_AXIS = (
    "not defined: thresholds of GOM lie in [0, 1], which these distances leave; ask for "
    "scale=minmax"
)


def curve_of(metric: Metric) -> int:
    """The number of the curve of which a metric is the highest point or its place."""
    return CURVES["mvp" if metric.name == "mvp_max" else "mrep", metric["fp"]]


class GomAxes(Family):
    """What was collected on each axis, and where the curves are highest."""

    def __init__(self, context: Context, metrics: list[Metric]) -> None:
        super().__init__(context, metrics)
        self.seen: dict[str, Gom | str] = {}
        """What was collected on the axis of each scale, or why GOM is not defined on it."""
        self._peaks: dict[tuple[str, str], list[Peak]] = {}
        on_axes = [metric for metric in metrics if metric.get("far") is None]
        for scale in sorted({metric["scale"] for metric in on_axes}):
            axis = self._axis(scale)
            some = [metric for metric in on_axes if metric["scale"] == scale]
            self.seen[scale] = OFF_THE_AXIS if axis is None else self._observe(axis, some)
        collected = [gom for gom in self.seen.values() if isinstance(gom, Gom)]
        self.rates = Rates(context, [m["far"] for m in metrics if m.get("far") is not None])
        needs_nearest = bool(self.rates.targets) or any(m.name == "tau_nz" for m in metrics)
        self.observers = [*([context.nearest] if needs_nearest else []), *collected]

    def _observe(self, axis: Axis, metrics: list[Metric]) -> Gom:
        """An observer of all that these metrics need on one axis."""
        integrals = [m["integral"] for m in metrics if m.name == "mrep" and m["tau"] is None]
        small = self.context.pairs <= self.context.limits.breakpoints
        return Gom(
            axis,
            self.context.task.queries,
            self.context.space.gallery,
            exact="exact" in integrals or ("step" in integrals and small),
            bracketed="step" in integrals and not small,
            # tau_nz is where the curve of mfr leaves 0
            limits=[
                (m if m.name == "mfr" else Metric("mfr"))["b"]
                for m in metrics
                if m.name in ("mfr", "tau_nz")
            ],
            taus=[m["tau"] for m in metrics if m.get("tau") is not None],
            peaks=[
                m["fp"] == "frozen"
                for m in metrics
                if m.name in HIGHEST and m["integral"] != "trapezoid"
            ],
            frozen_share=any(m.name == "mvp_max" and m["fp"] == "frozen" for m in metrics),
        )

    def _axis(self, scale: str) -> Axis | None:
        if scale == "minmax":
            extent = Extent()
            self.context.sweep([extent])
            return Axis.between(*extent.ends, squared=self.context.space.squared)
        if self.context.space.unit_scale is None:
            return None
        return Axis(0.0, 1 / self.context.space.unit_scale)

    def on(self, scale: str) -> Gom:
        """What was collected on a scale on which GOM is defined."""
        gom = self.seen[scale]
        if isinstance(gom, str):
            raise LookupError(gom)
        return gom

    def peaks(self, metric: Metric) -> list[Peak]:
        """The lower, expected and upper highest point of a metric's curve."""
        gom, key = self.on(metric["scale"]), (metric["scale"], metric["fp"])
        if metric["integral"] == "trapezoid":
            return peaks_at_points(gom, curve_of(metric))
        if key not in self._peaks:
            self._peaks[key] = peaks(gom, metric["fp"] == "frozen", self.context.sweep)
        return self._peaks[key][:3] if metric.name == "mvp_max" else self._peaks[key][3:]
