"""Pages in a real browser: what they show is what the library gives, and they ask for nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import truerank
from tests.report.browser import Browser
from tests.report.pages import HOSTILE, hierarchy, leave_one_out, open_set
from tests.report.test_page import every_kind
from truerank import datasets, report
from truerank._util.text import separated
from truerank.analysis.operating_points import on_axis
from truerank.analysis.thresholds import first_set

METRICS = {"far": "fmr", "frr": "fnmr", "tar": "tar", "dir": "dir", "open_set_far": "far"}
ASKED = ["precision@1", "map@r", "h_ap", "mrep"]
DECIMALS = {"far": 4}
ARGUMENTS = {"plain": leave_one_out(), "open": open_set(), "levels": hierarchy()}


@pytest.fixture(scope="session")
def written(pages: Path) -> dict[str, Path]:
    """A page of each shape, and one that compares two models."""
    found = {}
    for name, arguments in ARGUMENTS.items():
        found[name] = pages / f"{name}.html"
        confidence = 0.95 if name == "levels" else None
        result = truerank.evaluate(**arguments, metrics=ASKED, confidence=confidence)
        report.write([result], found[name], names=[HOSTILE])
        result.to_json(pages / f"{name}.json")
    other = truerank.evaluate(**hierarchy(noise=2.0), metrics=ASKED)
    other.to_json(pages / f"{HOSTILE}.json")
    found["compared"] = pages / "compared.html"
    report.write([pages / "levels.json", pages / f"{HOSTILE}.json"], found["compared"])
    return found


AT_STOPS = """
const text = (id) => document.getElementById(id).textContent;
return arguments[0].map((stop) => {
  const slider = document.getElementById("threshold-slider");
  slider.value = stop;
  slider.dispatchEvent(new Event("input"));
  const shown = { tau: text("threshold-rule") };
  for (const name of arguments[1]) shown[name] = text("stop-" + name);
  return shown;
});
"""


def slide(browser: Browser, stop: int) -> None:
    browser.run(
        "const s = document.getElementById('threshold-slider'); s.value = arguments[0];"
        "s.dispatchEvent(new Event('input'))",
        stop,
    )


def check_stops(browser: Browser, arguments: dict[str, Any], stops: list[int]) -> None:
    """What the page shows at these stops is what evaluate gives, to the printed digit."""
    found = browser.run("return DATA.models[0].stops")
    names = [name for name in (*METRICS, "vp", "rep") if name in found["values"]]
    shown = dict(zip(stops, browser.run(AT_STOPS, stops, names), strict=True))
    result = truerank.evaluate(**arguments, metrics=["map@r"], confidence=None)
    space = result.held.at_hand().space
    asked = {}
    for stop in stops:
        tau = shown[stop].pop("tau")
        assert tau == found["threshold"][stop]
        asked[stop] = {n: f"{metric}@tau={tau}" for n, metric in METRICS.items() if n in names}
        if "vp" in names:
            axis = on_axis(space, space.unit_scale, tau)
            asked[stop] |= {"vp": f"mvp@tau={axis}", "rep": f"mrep@tau={axis}"}
    every = list(dict.fromkeys(metric for some in asked.values() for metric in some.values()))
    scores = truerank.evaluate(**arguments, metrics=every, confidence=None)
    for stop, metrics in asked.items():
        expected = {
            name: f"{100 * scores[metric].value:.{DECIMALS.get(name, 2)}f} %"
            for name, metric in metrics.items()
        }
        assert shown[stop] == expected, stop


@pytest.mark.parametrize(
    ("name", "width", "dark"),
    [
        ("plain", 1280, False),
        ("open", 1280, False),
        ("levels", 390, False),
        ("compared", 1280, False),
        ("compared", 390, True),
    ],
)
def test_nothing_is_asked_for_and_nothing_goes_wrong(
    browser: Browser, written: dict[str, Path], name: str, width: int, dark: bool
) -> None:
    browser.open(written[name], width=width, dark=dark, drawn=True)
    assert browser.complaints() == []
    assert browser.requests() <= {"file", "data", "blob"}
    assert browser.run("return document.documentElement.scrollWidth") <= width
    paper = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") != dark
    drawn = browser.run("return document.querySelectorAll('.chart .main-svg').length")
    assert drawn > 4


@pytest.mark.parametrize("width", [800, 1280, 1600])
def test_every_entry_of_the_navigation_is_seen(
    browser: Browser, written: dict[str, Path], width: int
) -> None:
    """Beside the choice of a model no entry is cut off, the last one above all."""
    browser.open(written["compared"], width=width)
    hidden = browser.run(
        "const box = document.getElementById('links').getBoundingClientRect();"
        "return [...document.querySelectorAll('#links a')].filter((a) => {"
        "  const r = a.getBoundingClientRect();"
        "  return r.left < box.left - 1 || r.right > box.right + 1 || r.bottom > box.bottom + 1;"
        "}).map((a) => a.textContent);"
    )
    assert hidden == []
    assert "Again" in browser.texts("#links a")


def test_the_policy_forbids_connections_and_other_scripts(
    browser: Browser, written: dict[str, Path]
) -> None:
    browser.open(written["plain"])
    connected = browser.driver.execute_async_script(
        "fetch('data:text/plain,x').then(() => arguments[0](true), () => arguments[0](false))"
    )
    assert connected is False
    browser.run(
        "const s = document.createElement('script'); s.textContent = 'window.ran = 1';"
        "document.body.append(s)"
    )
    assert browser.run("return window.ran") is None
    complaints = browser.complaints()
    assert all("Content Security Policy" in one or "Fetch API" in one for one in complaints)
    assert sum("connect-src" in one for one in complaints) > 0


@pytest.mark.parametrize("name", ARGUMENTS)
def test_twenty_stops_show_what_the_library_gives(
    browser: Browser, written: dict[str, Path], name: str
) -> None:
    browser.open(written[name])
    stops = np.random.default_rng(11).integers(0, 1001, 20).tolist()
    check_stops(browser, ARGUMENTS[name], stops)


def test_the_classes_served_worst(browser: Browser, written: dict[str, Path]) -> None:
    browser.open(written["plain"])
    arguments = ARGUMENTS["plain"]
    options = {"distance": "cosine", "device": "auto", "threads": None}
    trials = first_set(arguments, options)
    for stop in (100, 333, 700):
        slide(browser, stop)
        judged = trials.judge(float(browser.text("#threshold-rule"))).classes
        cells = [
            [one.label, f"{100 * one.frr:.2f}", f"{100 * one.far:.4f}", f"{100 * one.utility:.2f}"]
            for one in judged[:5]
        ]
        shown = browser.texts("#served-worst tbody tr > *")
        assert shown == [cell for row in cells for cell in row]
        assert browser.text("#stop-utility_low") == f"{100 * judged[0].utility:.2f} %"


def test_the_slider_and_the_tables_go_by_keyboard(
    browser: Browser, written: dict[str, Path]
) -> None:
    from selenium.webdriver.common.keys import Keys

    browser.open(written["plain"])
    slide(browser, 500)
    before = browser.text("#threshold-rule")
    browser.find("#threshold-slider").send_keys(Keys.ARROW_RIGHT)
    after = browser.text("#threshold-rule")
    assert float(after) > float(before)
    assert browser.find("#threshold-slider").get_attribute("aria-valuetext") == after
    head = browser.find("#classes thead th:nth-child(2) button")
    head.send_keys(Keys.ENTER)
    cell = "#classes thead th:nth-child(2)"
    assert browser.find(cell).get_attribute("aria-sort") == "descending"
    head.send_keys(Keys.ENTER)
    assert browser.find(cell).get_attribute("aria-sort") == "ascending"


def test_tables_are_sorted_and_searched(browser: Browser, written: dict[str, Path]) -> None:
    browser.open(written["plain"])
    result = truerank.evaluate(**ARGUMENTS["plain"], metrics=["map@r"], confidence=None)
    parts = result.by("label")
    values = {label: part["map@r"].value for label, part in parts.items()}
    known = sorted(value for value in values.values() if value == value)
    column = "#classes tbody td:nth-child(4)"
    header = "#classes thead th:nth-child(4) button"
    assert browser.text(header) == "map@r"
    browser.click(header)
    shown = browser.texts(column)
    assert shown == [f"{100 * value:.2f}" for value in known[::-1][: len(shown)]]
    browser.click(header)
    assert browser.texts(column) == [f"{100 * value:.2f}" for value in known[: len(shown)]]
    browser.find("#classes input[type=search]").send_keys("CLASS 1")
    labels = [label for label in values if "class 1" in label]
    assert sorted(browser.texts("#classes tbody th")) == sorted(labels)
    assert browser.text("#classes .tell") == f"{len(labels)} rows"


@pytest.mark.parametrize("name", ["plain", "open", "levels", "compared"])
def test_a_hostile_label_stays_text(browser: Browser, written: dict[str, Path], name: str) -> None:
    browser.open(written[name], drawn=True)
    titles = browser.run("return document.title"), browser.text("h1")
    assert all(HOSTILE in title for title in titles)
    assert browser.run("return document.querySelectorAll('img[src=x]').length") == 0
    files = browser.run(
        "return [...document.querySelectorAll('[data-file]')].map(e => e.dataset.file)"
    )
    assert files
    assert all(re.fullmatch(r"[a-z0-9_-]+\.csv", file) for file in files)
    if name == "plain":
        assert HOSTILE in browser.texts("#classes tbody th")
        hover(browser, "#map .chart", HOSTILE)
        assert HOSTILE in "".join(browser.texts("#map .hoverlayer text"))
    if name == "open":
        browser.click("#classes [role=tab]:nth-child(2)")
        assert f"camera {HOSTILE}" in browser.texts("#classes tbody th")
    if name == "compared":
        assert HOSTILE in browser.texts("#comparison td")
        assert HOSTILE in "".join(browser.texts("#curves .legendtext"))
        assert HOSTILE in browser.texts("#model option")
    assert browser.run("return document.querySelectorAll('img[src=x]').length") == 0
    assert browser.complaints() == []


def hover(browser: Browser, chart: str, label: str) -> None:
    """Point at the class of this label."""
    browser.run(
        "const chart = document.querySelector(arguments[0]);"
        "const number = DATA.models[0].centres.labels.indexOf(arguments[1]);"
        "chart.scrollIntoView(); Plotly.Fx.hover(chart, [{ curveNumber: 0, pointNumber: number }])",
        chart,
        label,
    )


def test_tables_are_saved_as_csv_that_holds_no_formula(
    browser: Browser, written: dict[str, Path]
) -> None:
    browser.open(written["plain"])
    browser.click("#classes [data-file]")
    lines = browser.downloaded("by-label.csv").splitlines()
    assert lines[0].startswith("label,queries,precision@1,map@r")
    quoted = '"' + HOSTILE.replace('"', '""') + '"'
    assert sum(line.startswith(quoted) for line in lines) == 1
    cells = [
        "=1+1",
        "@x",
        "-0.5",
        "-x",
        "+1e5",
        "a,b",
        "\N{FULLWIDTH EQUALS SIGN}1",
        "a\r=1",
        "\n\x1b\x85\u2028",
        -0.5,
        3,
        None,
    ]
    shown = browser.run("return arguments[0].map(csvCell)", cells)
    assert [f"x,{cell}\n" for cell in shown] == [separated(["x", cell], []) for cell in cells]


def test_numbers_are_rounded_as_python_rounds_them(
    browser: Browser, written: dict[str, Path]
) -> None:
    browser.open(written["plain"])
    rng = np.random.default_rng(0)
    values = [*(rng.integers(0, 2000, 300) / 1600), *rng.random(200), -0.00001, 0.5, 0.125, 1e-9]
    found = browser.run("return arguments[0].map((v) => percent(v))", [float(v) for v in values])
    assert found == [f"{100 * float(value):.2f}" for value in values]


def test_another_model_can_be_chosen(browser: Browser, written: dict[str, Path]) -> None:
    from selenium.webdriver.support.ui import Select

    browser.open(written["compared"])
    first = browser.texts("#headline td.score")
    Select(browser.find("#model")).select_by_index(1)
    assert browser.texts("#headline td.score") != first
    assert browser.text("#scores .whose").strip() == HOSTILE
    assert "not at hand" in browser.text("#scores .notice")
    assert browser.complaints() == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::truerank.TruerankWarning")
def test_every_kind_of_task_opens(browser: Browser, pages: Path) -> None:
    for kind, arguments in every_kind().items():
        truerank.evaluate(**arguments).to_html(pages / "kind.html")
        browser.open(pages / "kind.html", drawn=True)
        assert browser.complaints() == [], kind


def test_bands_are_drawn(browser: Browser, pages: Path) -> None:
    data = truerank.evaluate(**hierarchy(), metrics=["map@r"], confidence=None).to_dict()
    columns = data["curves"]["curves"]["cmc"]["columns"]
    columns["low"] = [value - 0.05 for value in columns["lower"]]
    columns["high"] = [None, *(value + 0.05 for value in columns["lower"][1:])]
    truerank.Result.from_dict(data).to_html(pages / "bands.html")
    browser.open(pages / "bands.html", drawn=True)
    assert browser.complaints() == []
    filled = "return document.querySelectorAll('#curves .chart .fills path').length"
    assert browser.run(filled) > 0


@pytest.mark.slow
def test_the_page_of_the_demo(browser: Browser, pages: Path) -> None:
    data = datasets.emoji()
    arguments = data.task("efficientnet", hierarchy=True)
    result = truerank.evaluate(**arguments)
    result.to_html(pages / "demo.html")
    browser.open(pages / "demo.html", drawn=True)
    assert browser.complaints() == []
    assert browser.requests() <= {"file", "data", "blob"}
    check_stops(browser, arguments, np.random.default_rng(3).integers(0, 1001, 20).tolist())
