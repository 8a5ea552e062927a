"""Figures show the numbers of the curves, of one model and of several."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

import truerank
from tests.builders import clusters
from truerank.plots.display import probit, save_figure

METRICS = [
    *("map@r", "tar@far=0.1", "eer", "best_f1", "dir@far=0.2", "opis", "mrep", "mfr@b=20"),
    *("mrep_max", "h_ap"),
]


@pytest.fixture(autouse=True)
def _no_screen() -> Iterator[None]:
    with mpl.rc_context({"backend": "agg"}):
        yield
    import matplotlib.pyplot as plt

    plt.close("all")


def evaluated(seed: int) -> truerank.Result:
    rows, labels = clusters(seed, classes=40, size=6, noise=1.0)
    labels[:40] = 1000 + np.arange(40)
    return truerank.evaluate(rows, np.column_stack([labels % 13, labels]), metrics=METRICS)


@pytest.fixture(scope="module")
def result() -> truerank.Result:
    return evaluated(0)


@pytest.fixture(scope="module")
def other() -> truerank.Result:
    return evaluated(1)


def axes() -> object:
    return Figure().subplots()


def test_every_curve_is_drawn(result: truerank.Result) -> None:
    assert len(result.curves) >= 12
    for name in result.curves:
        display = result.plot(name, ax=axes())
        assert display.figure_ is display.ax_.figure
        assert display.lines_, name
        assert ("low" in result.curve(name)) == bool(display.bands_), name
        assert display.ax_.get_xlabel(), name
        assert display.ax_.get_ylabel(), name
        display.figure_.canvas.draw()


def test_lines_and_bands_are_the_curve(result: truerank.Result) -> None:
    curve = result.curve("roc", band="simultaneous")
    display = result.plot("roc", ax=axes(), band="simultaneous")
    x, y = display.lines_[0].get_data()
    drawn = curve["far"] > 0
    assert np.array_equal(x, curve["far"][drawn])
    assert np.array_equal(y, curve["tar"][drawn])
    (band,) = display.bands_
    assert isinstance(band, PolyCollection)
    corners = band.get_paths()[0].vertices
    told = drawn & np.isfinite(curve["low"])
    assert corners[:, 1].min() == curve["low"][told].min()
    assert corners[:, 1].max() == curve["high"][told].max()
    assert result.plot("roc", ax=axes(), band=None).bands_ == []


def test_axes_are_those_of_the_field(result: truerank.Result) -> None:
    scales = {
        name: (one.get_xscale(), one.get_yscale())
        for name in ("roc", "det", "cmc", "dir", "mrep")
        for one in [result.plot(name, ax=axes()).ax_]
    }
    assert scales["roc"] == scales["dir"] == ("log", "linear")
    assert scales["det"] == ("function", "function")
    assert scales["cmc"] == scales["mrep"] == ("linear", "linear")
    assert probit([0.5, 0.975, 0.0]) == pytest.approx([0.0, 1.95996, -5.9978], abs=1e-4)
    rank, hit = result.plot("cmc", ax=axes()).lines_[0].get_data()
    assert rank.tolist() == list(range(1, 51))
    assert np.array_equal(hit, result.curve("cmc", ranks=50)["lower"])


def test_thresholds_are_marked(result: truerank.Result) -> None:
    def texts(name: str, **options: bool) -> list[str]:
        return [text.get_text() for text in result.plot(name, ax=axes(), **options).ax_.texts]

    at = result["tar@far=0.1"].threshold
    assert f"tar@far=0.1 (at {at:.4g})" in texts("roc")
    assert [text.split()[0] for text in texts("det")] == ["tar@far=0.1", "eer"]
    assert [text.split()[0] for text in texts("dir")] == ["dir@far=0.2"]
    assert [text.split()[0] for text in texts("f1")] == ["best_f1"]
    assert [text.split()[0] for text in texts("mrep")] == ["mrep_max"]
    assert texts("roc", marks=False) == texts("pr") == []
    det = result.plot("det", ax=axes()).ax_
    eer = result["eer"].value
    assert any(line.get_xdata()[0] == line.get_ydata()[0] == eer for line in det.lines[1:])


def test_several_models_have_a_legend(
    result: truerank.Result, other: truerank.Result, tmp_path: Path
) -> None:
    names = ["$x$ & <b>", "_hidden"]
    display = truerank.plot([result, other], "mrep", names=names, ax=axes())
    shown = [text.get_text().lstrip("\u200b") for text in display.ax_.get_legend().get_texts()]
    assert shown == names
    assert len(display.lines_) == 2
    for number, one in enumerate((result, other)):
        one.to_json(tmp_path / f"model{number}.json")
    paths = [tmp_path / "model0.json", tmp_path / "model1.json"]
    read = truerank.plot(paths, "roc", ax=axes())
    assert [text.get_text() for text in read.ax_.get_legend().get_texts()] == ["model0", "model1"]


def test_growth_has_a_line_for_each_metric() -> None:
    rows, labels = clusters(2, classes=20)
    result = truerank.evaluate(rows, labels, metrics=["map@r", "hit@1"], gallery_sizes=(30, 60))
    display = result.plot("growth", ax=axes())
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["map@r", "hit@1"]
    assert display.lines_[1].get_ydata()[-1] == result.curve("growth")["hit@1"][-1]
    assert display.ax_.get_xlim()[1] > 30


def test_a_figure_of_its_own(result: truerank.Result) -> None:
    display = result.plot("roc")
    assert display.figure_.axes == [display.ax_]


def test_files_have_the_same_bytes(result: truerank.Result, tmp_path: Path) -> None:
    for kind in ("svg", "pdf", "png"):
        for number in (1, 2):
            figure = result.plot("cmc", ax=axes()).figure_
            save_figure(figure, tmp_path / f"{number}.{kind}")
        first, second = ((tmp_path / f"{number}.{kind}").read_bytes() for number in (1, 2))
        assert first == second
        assert len(first) > 1000


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "results must be results of evaluate"),
        (3, "results must be results of evaluate"),
        ([3], "results must be results of evaluate"),
    ],
)
def test_what_is_no_result_is_refused(given: object, message: str) -> None:
    with pytest.raises(truerank.InputError, match=message):
        truerank.plot(given, "roc")


def test_other_refusals(result: truerank.Result) -> None:
    with pytest.raises(truerank.InputError, match="no curve 'nothing'; there are cmc"):
        truerank.plot(result, "nothing")
    with pytest.raises(truerank.InputError, match="at most 12 models"):
        truerank.plot([result] * 13, "roc")
    with pytest.raises(truerank.InputError, match="names must be 1 distinct"):
        truerank.plot(result, "roc", names=["a", "b"])
    with pytest.raises(truerank.InputError, match="'band' parameter"):
        truerank.plot(result, "roc", band="wide")


def test_without_matplotlib_a_sentence_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import truerank\n"
        "r = truerank.evaluate([[0., 1], [0, 2], [1, 0], [1, 1]], ['a', 'a', 'b', 'b'])\n"
        "try:\n    r.plot('cmc')\n"
        "except truerank.InputError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == (
        "a plot needs matplotlib: pip install '.[plot]' in the checkout, or pip install matplotlib."
    )


def test_an_svg_of_hostile_names_is_well_formed(tmp_path: Path) -> None:
    """No XML may hold a control letter, in a comment either."""
    rows = np.random.default_rng(0).standard_normal((60, 4))
    found = truerank.evaluate(rows, np.repeat(np.arange(20), 3), metrics=["map@r", "hit@1"])
    drawn = truerank.plot([found, found], "cmc", names=["a\x1b[2J\x85=1", "b"])
    drawn.figure_.savefig(tmp_path / "x.svg")
    text = (tmp_path / "x.svg").read_text(encoding="utf-8")
    ElementTree.fromstring(text)
    assert "\x1b" not in text
    assert "\\x1b" in text
