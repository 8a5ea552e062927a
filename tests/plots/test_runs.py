"""The figure of models x runs shows the numbers of the comparison."""

from __future__ import annotations

from typing import Any

import pytest
from matplotlib.figure import Figure

import truerank
from tests.builders import clusters
from truerank._util.errors import InputError
from truerank.analysis.compare import Comparison
from truerank.analysis.differences import Standing
from truerank.plots.runs import plot_runs


def axes() -> Any:
    return Figure().subplots()


def drawn(display: Any) -> list[tuple[list[float], list[float]]]:
    """The points of every line."""
    return [
        ([float(x) for x in line.get_xdata()], [float(y) for y in line.get_ydata()])
        for line in display.ax_.get_lines()
    ]


ROWS = [
    Standing("eer", "$b$", 0.2, (0.15, 0.3), 1, None, (1, 1), (0.2,), 0.9),
    Standing("eer", "a", 0.33, None, 3, None, (2, 2), (0.30, 0.32, 0.37), 0.95),
]
PAIR = truerank.analysis.differences.Difference("eer", "a", "$b$", 0.13, None, None, None)


def test_what_is_drawn() -> None:
    display = plot_runs(Comparison(ROWS, [PAIR], 0.95, "jackknife"), ax=axes())
    lines = drawn(display)
    assert lines[0][0] == [0.30, 0.32, 0.37]  # the runs of a, which was given first
    assert lines[1:] == [
        ([0.33], [0.0]),
        ([0.15, 0.3], [1.0, 1.0]),  # the interval of b, which has no other run
        ([0.2], [1.0]),
    ]
    assert [text.get_text() for text in display.ax_.get_yticklabels()] == ["a", "$b$"]
    assert display.ax_.get_xlabel() == "EER ↓"
    legend = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert legend == ["runs", "mean", "90 % interval"]
    display.figure_.canvas.draw()


def test_a_comparison_draws_itself() -> None:
    runs = [
        [truerank.evaluate(*clusters(seed, noise=noise, classes=40), metrics=["map@r", "eer"])
         for seed in (1, 2)]
        for noise in (0.5, 1.5)
    ]  # fmt: skip
    found = truerank.compare(*runs, names=["one", "two"])
    display = found.plot("map@r", ax=axes())
    one = next(row for row in found.standings if (row.metric, row.model) == ("map@r", "one"))
    assert drawn(display)[0] == (list(one.interval), [0.0, 0.0])
    assert drawn(display)[1][0] == [run["map@r"].value for run in runs[0]] == list(one.values)
    with pytest.raises(InputError, match="name the metric to draw; 2 are compared: map@r, eer"):
        found.plot()
    with pytest.raises(InputError, match="mrr is not compared here; there are map@r, eer"):
        found.plot("mrr", ax=axes())
    with pytest.raises(InputError, match="ax must be axes of matplotlib"):
        found.plot("map@r", ax=3)
