"""Draw docs/img/plots.png: curves of both models of the emoji data (docs/guides/gallery.md).

python scripts/draw_plots.py
"""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

import truerank
from truerank.plots.display import save_figure

TARGET = Path(__file__).parents[1] / "docs" / "img" / "plots.png"
METRICS = ["map@r", "tar@far=0.01", "eer"]
CURVES = {"roc": "simultaneous", "det": "pointwise", "cmc": "simultaneous", "scores": None}


def main() -> None:
    """Evaluate both models and draw four of their curves."""
    data = truerank.datasets.emoji()
    results = {name: truerank.evaluate(**data.task(name), metrics=METRICS) for name in data.models}
    figure = Figure(figsize=(9.2, 6.6), layout="constrained")
    for axes, (curve, band) in zip(figure.subplots(2, 2).ravel(), CURVES.items(), strict=True):
        some = dict(list(results.items())[-1:]) if curve == "scores" else results
        truerank.plot([*some.values()], curve, names=[*some], ax=axes, band=band)
        axes.set_title(curve)
    save_figure(figure, TARGET)


if __name__ == "__main__":
    main()
