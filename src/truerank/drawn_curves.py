"""The curves of a result: as computed, or as its JSON keeps them; with one of their bands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from truerank.cached import cached_property
from truerank.core.curve import FIRST_RANKS, Curve
from truerank.curves import FirstMates, check_ranks, up_to
from truerank.errors import InputError, shortened
from truerank.saved_curves import read_curves, save_curves

__all__ = ["BANDS", "DrawnCurves", "check_band"]

BANDS = ("pointwise", "simultaneous")


def check_band(band: object) -> None:
    """Refuse what names no band."""
    if band is not None and not (isinstance(band, str) and band in BANDS):
        raise InputError(
            f"The 'band' parameter must be one of {', '.join(BANDS)} or None. "
            f"Got {shortened(band)} instead."
        )


class DrawnCurves:
    """Curves by name; the CMC curve of a fresh result at any ranks."""

    def __init__(
        self,
        curves: Mapping[str, Curve] | None,
        first_mates: FirstMates | None,
        saved: Mapping[str, Any] | None,
        bars: Callable[[], dict[str, Curve]] = dict,
    ) -> None:
        """`bars` follow from what else a result holds, and are not saved; where a curve of one's
        name is there, with a band, it takes its place."""
        self._saved = saved
        self._curves = dict(curves or {}) or read_curves(saved)
        self._first_mates, self._make_bars = first_mates, bars

    @cached_property
    def _bars(self) -> dict[str, Curve]:
        return self._make_bars()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the curves there are."""
        first = ["cmc"] if self._first_mates is not None else []
        others = [name for name in self._curves if name not in self._bars]
        return (*first, *others, *self._bars)

    def get(self, name: str, ranks: int = FIRST_RANKS, band: str | None = "pointwise") -> Curve:
        """A curve, at so many ranks and with one of its bands or none."""
        check_ranks(ranks)
        check_band(band)
        if not isinstance(name, str) or name not in self.names:
            known = ", ".join(self.names)
            hint = f"there are {known}" if known else "it was saved without curves"
            what = f"this result has no curve {shortened(name)}"
            raise InputError(f"{what}; {hint}; evaluate with a metric of its family.")
        if name == "cmc" and self._first_mates is not None:
            curve = self._first_mates.cmc(np.arange(1, ranks + 1))
        elif name == "cmc":
            curve = up_to(self._curves[name], ranks)
        else:
            curve = self._curves.get(name) or self._bars[name]
        return curve.with_band(band)

    def plain(self) -> Mapping[str, Any]:
        """The curves as plain JSON values; as they were, if they were read or written before."""
        if self._saved is None:
            curves = dict(self._curves)
            if self._first_mates is not None and len(self._first_mates.before):
                curves = {"cmc": self._first_mates.every_rank(), **curves}
            self._saved = save_curves(curves) if curves else {}
        return self._saved
