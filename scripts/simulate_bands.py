"""Measure how often a whole curve lies in its confidence band, on data whose truth is known.

Each simulation draws a new data set of one design, as in simulate_statistics.py; the truth is the
mean curve over all of them. The ROC curve is looked at from a FAR of 10 over the negative pairs on,
the CMC curve up to rank 50. Prints a Markdown table: how often the simultaneous band holds the
truth everywhere, and how often the pointwise one does at a point, on average and everywhere.

    python scripts/simulate_bands.py [simulations] [seed] [setting ...]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import truerank
from truerank.core.curve import Curve

sys.path.insert(0, str(Path(__file__).parent))
from simulate_statistics import fixed_gallery, leave_one_out

Array = np.ndarray
METRICS = ["hit@1", "auc"]
RANKS = np.arange(1, 51)
SETTINGS: dict[str, Callable[[np.random.Generator], truerank.Result]] = {
    "60 classes, easy": leave_one_out(60, 0.9, METRICS),
    "60 classes, hard": leave_one_out(60, 1.8, METRICS),
    "150 classes": leave_one_out(150, 1.2, METRICS),
    "60 classes, a gallery of its own": fixed_gallery(60, 1.2, METRICS),
}


@dataclass(frozen=True)
class Coverage:
    """How often bands held the truth."""

    setting: str
    curve: str
    simultaneous: float
    """Share of simulations in which the whole curve lies in the simultaneous band."""
    pointwise: float
    """Mean over points of the share in which the point lies in the pointwise band."""
    everywhere: float
    """Share in which all points lie in the pointwise band."""


def at(curve: Curve, column: str, grid: Array) -> Array:
    """(3, points): the curve and its band where the abscissa is at most that of the grid."""
    first = next(iter(curve.values()))
    place = np.searchsorted(first, grid, side="right") - 1
    return np.stack([curve[name][place] for name in (column, "low", "high")])


def rates(result: truerank.Result) -> Array:
    """FARs from 10 of the negative pairs on, the same in all simulations of a design."""
    negatives = result["auc"].n - round(_positives(result))
    return np.geomspace(10 / negatives, 1.0, 200)


def _positives(result: truerank.Result) -> float:
    smallest = np.unique(np.round(result.curve("roc")["tar"], 12))
    return 1 / np.diff(smallest).min()


def cover(setting: str, simulations: int, seed: int = 1) -> list[Coverage]:
    """The coverage of both curves in one setting."""
    draw, rng = SETTINGS[setting], np.random.default_rng(seed)
    grid = None
    seen: dict[str, list[tuple[Array, Array]]] = {"roc": [], "cmc": []}
    for number in range(simulations):
        result = draw(rng)
        grid = rates(result) if grid is None else grid
        for name, column, where in (("roc", "tar", grid), ("cmc", "lower", RANKS)):
            bands = (result.curve(name, band=kind) for kind in ("pointwise", "simultaneous"))
            seen[name].append(tuple(at(curve, column, where) for curve in bands))
        if sys.stderr.isatty():
            print(f"\r{setting}: {number + 1} of {simulations}", end="", file=sys.stderr)
    return [_coverage(setting, name, np.array(rows)) for name, rows in seen.items()]


def _coverage(setting: str, name: str, rows: Array) -> Coverage:
    """From (simulations, kinds, 3, points)."""
    truth = rows[:, 0, 0].mean(axis=0)
    low, high = rows[:, :, 1], rows[:, :, 2]
    held = (low <= truth) & (truth <= high)  # a point without a band is not held
    pointwise, together = held[:, 0], held[:, 1]
    told = np.isfinite(low[:, 0])  # a pointwise band begins where scores have intervals
    return Coverage(
        setting,
        name,
        float(together.all(axis=1).mean()),
        float(pointwise[told].mean()),
        float((pointwise | ~told).all(axis=1).mean()),
    )


def main() -> None:
    """Print the table."""
    numbers = [int(word) for word in sys.argv[1:3] if word.isdigit()]
    simulations, seed = (*numbers, *(500, 20261117)[len(numbers) :])
    print("| | curve | simultaneous | pointwise, a point | pointwise, all points |")
    print("| --- | --- | ---: | ---: | ---: |")
    for setting in sys.argv[1 + len(numbers) :] or SETTINGS:
        for one in cover(setting, simulations, seed):
            shares = (one.simultaneous, one.pointwise, one.everywhere)
            cells = " | ".join(f"{100 * share:.1f}" for share in shares)
            print(f"| {one.setting} | {one.curve.upper()} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
