"""Figures show the numbers of the curves, of one model and of several."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
import matplotlib.colors
import matplotlib.style
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


def axes() -> Any:
    return Figure().subplots()


def test_every_curve_is_drawn(result: truerank.Result) -> None:
    assert len(result.curves) >= 12
    for name in result.curves:
        display = result.plot(name, ax=axes())
        assert display.figure_ is display.ax_.figure
        assert display.lines_, name
        assert ("low" in result.curve(name)) == bool(display.bands_), name
        assert display.ax_.get_legend() is not None, name
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


def legend(display: Any) -> list[str]:
    return [text.get_text().lstrip("\u200b") for text in display.ax_.get_legend().get_texts()]


def test_thresholds_are_marked(result: truerank.Result) -> None:
    at = result["tar@far=0.1"].threshold
    found = {name: legend(result.plot(name, ax=axes())) for name in result.curves}
    assert f"TAR@FAR=10%, threshold {at:.4g}" in found["roc"]
    assert [name.split(",")[0] for name in found["det"]][:3] == ["FAR = FRR", "TAR@FAR=10%", "EER"]
    assert found["dir"][0].startswith("DIR@FAR=20%, threshold ")
    assert found["f1"][:3] == ["F1", "precision", "recall"]
    assert found["f1"][3].startswith("best F1, threshold ")
    assert found["mrep"][0].startswith("best GOM ReP (mrep_max), threshold ")
    bare = legend(result.plot("roc", ax=axes(), marks=False))
    assert bare == found["pr"] == ["95 % interval at each point"]
    assert legend(result.plot("roc", ax=axes(), band="simultaneous"))[-1] == (
        "95 % band of the whole curve"
    )
    det = result.plot("det", ax=axes()).ax_
    eer = result["eer"].value
    assert any(line.get_xdata()[0] == line.get_ydata()[0] == eer for line in det.lines[1:])


def test_axes_fit_the_data(result: truerank.Result) -> None:
    """A share that stays low is not drawn up to 100 %; DET begins where its line does."""
    top = result.plot("mrep", ax=axes()).ax_
    assert top.dataLim.y1 < top.get_ylim()[1] < 1.2 * top.dataLim.y1 < 0.75
    assert result.plot("cmc", ax=axes()).ax_.get_ylim() == (0.0, 1.02)
    det, curve = result.plot("det", ax=axes()).ax_, result.curve("det")
    inside = (curve["far"] <= 0.6) & (curve["frr"] <= 0.6) & (curve["frr"] > 0)
    assert det.get_ylim()[0] == curve["frr"][inside].min()
    recall = result.plot("pr", ax=axes()).lines_[0].get_xdata()
    assert recall.min() >= 0.01


def test_a_missing_interval_has_its_reason(result: truerank.Result) -> None:
    def note(display: Any) -> str:
        return " ".join(display.ax_.get_legend().get_title().get_text().split())

    assert note(result.plot("roc", ax=axes())) == ""
    rows, labels = clusters(0, classes=40, size=6, noise=1.0)
    metrics = ["precision@1", "precision@1,level=1", "h_ap"]
    found = truerank.evaluate(rows, np.column_stack([labels % 4, labels]), metrics=metrics)
    display = found.plot("levels", ax=axes())
    assert note(display).startswith("No interval: 4 classes of level 1")
    assert found.plot("levels", ax=axes(), band=None).ax_.get_legend() is None
    shown = [text.get_text() for text in found.plot("severity", ax=axes()).ax_.get_xticklabels()]
    assert shown == ["nothing", "level 1"]


@pytest.mark.parametrize("style", ["default", "dark_background"])
def test_lines_stand_out_from_the_ground(result: truerank.Result, style: str) -> None:
    """The first models and the legend have a contrast of 2.2 or more (of 4.5 for text)."""

    def luminance(colour: Any) -> float:
        rgb = np.array(mpl.colors.to_rgb(colour))
        linear = np.where(rgb <= 0.03928, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        return float(linear @ (0.2126, 0.7152, 0.0722))

    with mpl.style.context(style):
        display = truerank.plot([result] * 3, "roc", names=["a", "b", "c"], ax=axes())
    ground = luminance(display.ax_.get_facecolor())
    text = display.ax_.get_legend().get_texts()[0].get_color()
    shown = [(line.get_color(), 2.2) for line in display.lines_] + [(text, 4.5)]
    for colour, least in shown:
        low, high = sorted((ground, luminance(colour)))
        assert (high + 0.05) / (low + 0.05) >= least, colour


def test_several_models_have_a_legend(
    result: truerank.Result, other: truerank.Result, tmp_path: Path
) -> None:
    names = ["$x$ & <b>", "_hidden"]
    display = truerank.plot([result, other], "mrep", names=names, ax=axes())
    shown = legend(display)
    assert shown[:2] == names
    assert len(display.lines_) == 2
    for number, one in enumerate((result, other)):
        one.to_json(tmp_path / f"model{number}.json")
    paths = [tmp_path / "model0.json", tmp_path / "model1.json"]
    read = truerank.plot(paths, "roc", ax=axes())
    assert legend(read)[:2] == ["model0", "model1"]
    outlines = truerank.plot(paths, "scores", ax=axes())
    assert legend(outlines)[:2] == ["model0: positive pairs", "model0: negative pairs"]
    assert not any(patch.get_fill() for patch in outlines.lines_)


def test_growth_shows_one_metric() -> None:
    rows, labels = clusters(2, classes=20)
    result = truerank.evaluate(rows, labels, metrics=["map@r", "hit@1"], gallery_sizes=(30, 60))
    display = result.plot("growth", ax=axes())
    assert display.ax_.get_ylabel() == "MAP@R"
    display = truerank.plot([result] * 2, "growth", metric="hit@1", ax=axes())
    assert display.ax_.get_ylabel() == "Recall@1 (hit@1)"
    assert len(display.lines_) == 2
    assert display.lines_[0].get_ydata()[-1] == result.curve("growth")["hit@1"][-1]
    assert display.ax_.get_xlim()[1] > 30
    with pytest.raises(truerank.InputError, match="growth of mrr is not known here; of map@r"):
        result.plot("growth", metric="mrr")
    with pytest.raises(truerank.InputError, match="growth shows one metric"):
        result.plot("growth", metric=["map@r", "hit@1"])


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
    with pytest.raises(truerank.InputError, match="'roc' has no option 'k'"):
        truerank.plot(result, "roc", k=3)
    with pytest.raises(truerank.InputError, match="classes shows one result"):
        truerank.plot([result] * 2, "classes")
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
