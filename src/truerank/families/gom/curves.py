"""The curves of GOM's metrics and of mFR over the axis of thresholds."""

from __future__ import annotations

import numpy as np

from truerank.core import registry
from truerank.core.curve import ENDS, POINTS, Curve
from truerank.families.gom.collect import Gom

__all__ = ["of_gom"]


def of_gom(gom: Gom, scale: str, targets: int, impostors: int) -> dict[str, Curve]:
    """The curves of GOM by name, from the numbers of queries with a mate and without one."""
    tau = np.arange(POINTS + 1) / POINTS
    end = "" if scale == "fixed" else f"@scale={scale}"
    found: dict[str, Curve] = {}
    if targets:
        names = [name + end for name in ("mrp", "mvp", "mrep")]
        names.append("mrep@fp=frozen" + end.replace("@", ","))
        for number, name in enumerate(names):
            rows = dict(zip(ENDS, gom.curve(number, targets), strict=True))
            found[name] = Curve(name, {"tau": tau, **rows})
    for limit in gom.limits if impostors else ():
        name = str(registry.parse(f"mfr@b={limit},scale={scale}"))
        found[name] = Curve(name, {"tau": tau, "value": gom.false_curve(limit, impostors)})
    return found
