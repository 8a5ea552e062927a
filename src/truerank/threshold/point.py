"""An operating point: a threshold with all that it leads to, as text, CSV or JSON."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank import notebook, tables, typesetting
from truerank.space import catalogue
from truerank.typesetting import Table

__all__ = ["WORST", "ClassRates", "OperatingPoint", "pair_rates"]

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]

NAMES = {
    "far": "false accepts among pairs of two classes (FAR)",
    "frr": "false rejects among pairs of one class (FRR)",
    "dir": "mate found first and accepted (DIR, rank 1)",
    "open_set_far": "queries without a mate that accept any item",
    "vp": "verification precision (VP)",
    "rep": "re-identification precision (ReP)",
}
SEARCH_NAMES = NAMES | {
    "far": "queries without a mate that accept any item (FAR)",
    "frr": "mate not found first or not accepted (FRR)",
}
OF_JUDGEMENTS = {
    "far": "false accepts among irrelevant pairs (FAR)",
    "frr": "false rejects among relevant pairs (FRR)",
}
"""Names where there are judgements in the place of labels."""
OF_LISTS = {
    "far": "false accepts among negative trials (FAR)",
    "frr": "false rejects among positive trials (FRR)",
}
"""Names where the pairs are those of a list."""
FEWEST_DECIMALS, MOST_DECIMALS = 2, 6
"""Of rates in percent: one accepted pair in a hundred million is still seen."""
WORST = 5
"""Classes named as served worst."""


@dataclass(frozen=True)
class ClassRates:
    """One class at the threshold: its share of positives missed and of negatives let in.

    In a search a class has either: its queries have mates in the gallery, or they have none.
    """

    label: Any
    frr: float | None
    far: float | None
    """The false match rate of the class's pairs with other classes."""
    utility: float
    """Harmonic mean of 1 - FRR and 1 - FMR; in a search 1 minus the rate that there is."""


def pair_rates(
    positives: Integers, genuine: Integers, negatives: Integers, impostors: Integers
) -> tuple[Reals, Reals, Reals]:
    """FRR, FMR and utility of classes, from the accepted of all their positives and negatives."""
    frr = 1 - positives / genuine
    fmr = negatives / impostors
    both = (1 - frr) + (1 - fmr)
    product = 2 * (1 - frr) * (1 - fmr)
    return frr, fmr, np.divide(product, both, out=np.zeros_like(both), where=both > 0)


@dataclass(frozen=True)
class OperatingPoint:
    """A threshold with what it leads to."""

    threshold: float
    """The distance of the last accepted pair, in the distance's own unit."""
    threshold_interval: tuple[float, float] | None
    """Where the threshold for this target may lie, had other classes been there to choose it on."""
    target: float
    """The rate that was asked for."""
    values: dict[str, float]
    """far (the pairs' FMR), frr, and where they are defined dir, open_set_far, vp, rep."""
    intervals: dict[str, tuple[float, float] | None]
    """Interval of each value over the classes judged, at this very threshold; None where every
    class is at the same limit, or there are too few."""
    optimistic: bool
    """Whether the threshold was judged on the data that it was chosen on."""
    distance: str
    classes: list[ClassRates] = field(repr=False)
    """Every class that can be judged, served worst first; none where relevance was judged."""
    levels: tuple[str, ...] = ()
    """Names of the label levels from coarse to fine; the classes are those of the last."""
    rate: str = "far"
    """The rate that was asked for: far or frr."""
    search: bool = False
    """Whether queries search a gallery (1:N): far is then of queries without a mate, frr of
    queries whose mate is not both found first and accepted."""

    decimal: str = ""
    """The threshold to write into a program: a decimal between the last accepted and the first
    rejected distance, at which everything here is judged."""
    within: int = 0
    """Pairs of the set it was chosen on that lie within 1e-7 of it, for want of room."""
    excluded: tuple[str, ...] = ()
    """What is no pair in the set that it is judged on, in words."""
    listed: bool = False
    """Whether the pairs are those of a list of trials; intervals are then over people."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "threshold": self.threshold,
            "decimal": self.decimal,
            "within": self.within,
            "threshold_interval": (
                None if self.threshold_interval is None else list(self.threshold_interval)
            ),
            "target": self.target,
            "rate": self.rate,
            "search": self.search,
            "listed": self.listed,
            "values": dict(self.values),
            "intervals": {k: None if v is None else list(v) for k, v in self.intervals.items()},
            "optimistic": self.optimistic,
            "distance": self.distance,
            "levels": list(self.levels),
            "excluded": list(self.excluded),
            "classes": [vars(one) | {"label": str(one.label)} for one in self.classes],
        }

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """The JSON text; written to `path` in one step if given."""
        from truerank.files import to_json

        return to_json(self.to_dict(), path)

    def to_csv(self) -> str:
        """The rates of every class as comma-separated values, in fractions, served worst first."""
        rows = [(one.label, one.frr, one.far, one.utility) for one in self.classes]
        return typesetting.separated(("class", "frr", "far", "utility"), rows)

    def spread(self) -> dict[str, dict[str, float]]:
        """Quantiles over classes of FRR and FMR: what one threshold for all of them costs."""
        levels = {"best": 0.0, "lower quarter": 0.25, "median": 0.5, "upper quarter": 0.75,
                  "worst": 1.0}  # fmt: skip
        table = {}
        for name in ("frr", "far"):
            rates = np.sort([x for one in self.classes if (x := getattr(one, name)) is not None])
            if len(rates):
                table[name] = {
                    level: float(rates[int(np.ceil(share * (len(rates) - 1)))])
                    for level, share in levels.items()
                }
        return table

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        rates = notebook.table(self._value_table())
        lines = notebook.paragraphs(self._rule()), notebook.paragraphs(self._notes())
        return notebook.block(lines[0], rates, lines[1])

    def to_text(self, *, by_class: bool = False, rule: bool = False) -> str:
        """Sentences and tables as wide as the screen; `by_class` adds what every class gets."""
        width = typesetting.screen_width()
        parts = [
            "\n".join(typesetting.fill(self._rule(), width)),
            tables.laid_out(self._value_table(), self._notes(), rule=rule),
        ]
        if by_class and self.classes:
            parts.append(tables.laid_out(self._spread_table(), self._above(), rule=rule))
            parts.append(tables.laid_out(self._class_table(), rule=rule))
        return "\n\n".join(parts)

    def _rule(self) -> list[str]:
        """What to accept, and how certain that limit is."""
        near = f"{self.distance} distance is at most"
        if catalogue.find(self.distance).larger_is_nearer:
            near = f"{self.distance} is at least"
        what = "the nearest item" if self.search else "a pair"
        lines = [
            f"Accept {what} if its {near} {self.decimal} (chosen for "
            f"{'an' if self.rate == 'frr' else 'a'} {self.rate.upper()} of {self.target:g})."
        ]
        if self.within:
            lines.append(
                f"{self.within:,} pairs lie within 1e-7 of that: another program may decide them "
                "otherwise."
            )
        if self.threshold_interval is not None:
            low, high = self.threshold_interval
            lines.append(
                f"Other {self._units} to choose it on might have given {low:.6g} to {high:.6g}."
            )
        return lines

    @property
    def _units(self) -> str:
        """What intervals are over."""
        return "people" if self.listed else "classes" if self.levels else "queries"

    def _value_table(self) -> Table:
        names = SEARCH_NAMES if self.search else NAMES if self.levels else NAMES | OF_JUDGEMENTS
        names = names | OF_LISTS if self.listed else names
        rows = []
        for name, value in self.values.items():
            ends = self.intervals.get(name)
            places = _decimals(value if ends is None else ends[1] - ends[0])
            shown = "" if ends is None else " to ".join(_percent(end, places) for end in ends)
            rows.append([names[name], _percent(value, places), shown])
        return Table(["at this threshold", "percent", "interval"], rows)

    def _notes(self) -> list[str]:
        lines = []
        if any(self.intervals.values()):
            lines.append(f"Intervals: 95 %, over {self._units}; of rates, at this threshold.")
        if len(self.levels) > 1:
            lines.append(
                f"Of {len(self.levels)} label levels only the finest (level {self.levels[-1]}) "
                "counts here."
            )
        if self.optimistic:
            lines.append(
                "Chosen and judged on the same data: this is optimistic. Judge it on data it has "
                "not seen (--apply)."
            )
        if self.excluded:
            lines.append(f"Never a pair: {', '.join(self.excluded)}.")
        if self.classes:
            worst = ", ".join(_served(one) for one in self.classes[:WORST])
            lines.append(f"Served worst, of {len(self.classes):,} classes: {worst}.")
        return lines

    def _spread_table(self) -> Table:
        spread = self.spread()
        levels = list(next(iter(spread.values()), {}))
        rows = []
        for name, rates in spread.items():
            places = _decimals(*rates.values())
            rows.append([name.upper(), *(_percent(rates[level], places) for level in levels)])
        return Table(["over classes", *levels], rows)

    def _above(self) -> list[str]:
        rates = [x for one in self.classes if (x := getattr(one, self.rate)) is not None]
        above = sum(x > self.target for x in rates)
        return [
            f"{above:,} of {len(rates):,} classes have a {self.rate.upper()} above the target of "
            f"{100 * self.target:g} %."
        ]

    def _class_table(self) -> Table:
        frr, far = (
            _decimals(*(x for one in self.classes if (x := getattr(one, rate)) is not None))
            for rate in ("frr", "far")
        )
        rows = [
            [str(one.label), _percent(one.frr, frr), _percent(one.far, far)] for one in self.classes
        ]
        return Table(["class", "FRR", "FAR"], rows)


def _served(one: ClassRates) -> str:
    rates = []
    if one.frr is not None:
        rates.append(f"FRR {100 * one.frr:.1f} %")
    if one.far is not None:
        rates.append(f"FAR {100 * one.far:.2g} %")
    return f"{one.label} ({', '.join(rates)})"


def _percent(rate: float | None, places: int) -> str:
    return "-" if rate is None else f"{100 * rate:.{places}f}"


def _decimals(*rates: float) -> int:
    """Decimals of percent that show two digits of the smallest rate, or width, above zero."""
    least = min((rate for rate in rates if rate > 0), default=1.0)
    return min(max(FEWEST_DECIMALS, 1 - math.floor(math.log10(100 * least))), MOST_DECIMALS)
