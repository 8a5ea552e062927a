"""Forest plots show the numbers of results and comparisons."""

from __future__ import annotations

from typing import Any

import pytest
from matplotlib.figure import Figure

import truerank
from tests.builders import clusters
from truerank._util.errors import InputError
from truerank.analysis.compare import Comparison
from truerank.analysis.differences import Difference, Standing


def axes() -> Any:
    return Figure().subplots()


def drawn(display: Any) -> list[list[float]]:
    """The abscissae of every line."""
    return [[float(x) for x in line.get_xdata()] for line in display.ax_.get_lines()]


def legend(display: Any) -> list[str]:
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


def lines(display: Any) -> list[str]:
    return [text.get_text() for text in display.ax_.get_yticklabels()]


ROWS = [
    Standing("eer", "$b$", 0.2, (0.15, 0.3), 1, None, (1, 1), (0.2,), 0.9),
    Standing("eer", "a", 0.33, None, 3, None, (2, 2), (0.30, 0.32, 0.37), 0.95),
]
PAIRS = [
    Difference("eer", "a", "$b$", 0.13, (0.1, 0.16), 0.001, 0.002),
    Difference("map@r", "a", "$b$", 0.05, (-0.01, 0.11), 0.07, 0.07),
    Difference("auc", "a", "$b$", 0.02, None, None, None, "too few classes"),
]


def test_models_in_one_metric() -> None:
    display = Comparison(ROWS, PAIRS[:1], 0.95, "jackknife").plot("eer", axes())
    # a, which was given first: its runs and their mean; then the interval and the score of b
    assert drawn(display) == [[0.30, 0.32, 0.37], [0.33], [0.15, 0.3], [0.2]]
    assert lines(display) == ["a", "$b$"]
    assert display.ax_.get_xlabel() == "EER ↓"
    assert legend(display) == ["runs", "mean of the runs", "90 % interval"]
    display.figure_.canvas.draw()


def test_differences() -> None:
    """The better model gives the colour; a hollow marker is not significant, a cross untested."""
    display = Comparison(ROWS, PAIRS, 0.95, "jackknife").plot(ax=axes())
    zero, *shown = drawn(display)
    assert zero == [0.0, 0.0]
    assert shown == [[0.1, 0.16], [0.13], [-0.01, 0.11], [0.05], [0.02]]
    assert lines(display) == ["EER ↓", "MAP@R", "AUC"]
    assert legend(display) == [
        "$b$ is better", "no significant difference", "no test", "95 % interval"
    ]  # fmt: skip
    markers = [line for line in display.ax_.get_lines() if len(line.get_xdata()) == 1]
    assert [line.get_marker() for line in markers] == ["o", "o", "x"]
    ground = display.ax_.get_facecolor()
    assert markers[0].get_markerfacecolor() != ground == markers[1].get_markerfacecolor()
    assert display.ax_.get_xlabel() == "a minus $b$, percentage points"


def test_results_and_comparisons_draw_themselves() -> None:
    runs = [
        [truerank.evaluate(*clusters(seed, noise=noise, classes=40), metrics=["map@r", "eer"])
         for seed in (1, 2)]
        for noise in (0.5, 1.5)
    ]  # fmt: skip
    found = truerank.compare(*runs, names=["one", "two"])
    display = found.plot("map@r", ax=axes())
    one = next(row for row in found.standings if (row.metric, row.model) == ("map@r", "one"))
    assert drawn(display)[0] == [run["map@r"].value for run in runs[0]] == list(one.values)
    assert drawn(display)[1] == list(one.interval)
    assert lines(found.plot(ax=axes())) == ["MAP@R", "EER ↓"]
    with pytest.raises(InputError, match="mrr is not compared here; there are map@r, eer"):
        found.plot("mrr", ax=axes())
    with pytest.raises(InputError, match="ax must be axes of matplotlib"):
        found.plot("map@r", ax=3)
    single = [one for one, _ in runs]
    scores = truerank.plot(single, "forest", names=["one", "two"], ax=axes())
    assert lines(scores) == ["MAP@R", "EER ↓"]
    assert legend(scores) == ["one", "two", "95 % interval"]
    assert drawn(scores)[:2] == [list(single[0]["map@r"].interval), [single[0]["map@r"].value]]
    alone = single[0].plot("forest", metric="eer", ax=axes())
    assert (lines(alone), legend(alone)) == (["EER ↓"], ["score", "95 % interval"])
    three = truerank.plot([*single, runs[0][1]], "differences", metric="map@r", ax=axes())
    assert lines(three)[1] == "MAP@R: model 1 - model 3"
