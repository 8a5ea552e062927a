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
from truerank.cli import demonstration
from truerank.datasets.emoji import SHARE_ALIKE
from truerank.plots.display import MOST_RATE, PERCENT, probit

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
    assert "Reproduce" in browser.texts("#links a")


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
    assert browser.text(header) == "MAP@R"
    browser.click(header)
    shown = browser.texts(column)
    assert shown == [f"{100 * value:.2f}" for value in known[::-1][: len(shown)]]
    browser.click(header)
    assert browser.texts(column) == [f"{100 * value:.2f}" for value in known[: len(shown)]]
    browser.find("#classes input[type=search]").send_keys("CLASS 2")
    labels = [label for label in values if "class 2" in label]
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
        # Persons have three queries each, too few to come first.
        assert browser.texts("#classes [role=tab]") == ["Groups", "Classes"]
        assert f"camera {HOSTILE}" in browser.texts("#classes tbody th")
    if name == "compared":
        assert HOSTILE in browser.texts("#comparison th")
        assert HOSTILE in browser.texts("#curves .legend span")
        assert HOSTILE in browser.texts("#model option")
    assert browser.run("return document.querySelectorAll('img[src=x]').length") == 0
    assert browser.complaints() == []


def hover(browser: Browser, chart: str, label: str) -> None:
    """Point at a row of this label."""
    browser.run(
        "const chart = document.querySelector(arguments[0]);"
        "const text = plain(arguments[1]);"
        "const curve = chart.data.findIndex((one) => one.text.includes(text));"
        "const point = chart.data[curve].text.indexOf(text);"
        "chart.scrollIntoView();"
        "Plotly.Fx.hover(chart, [{ curveNumber: curve, pointNumber: point }])",
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
    first = browser.texts("#headline td.c-score")
    Select(browser.find("#model")).select_by_index(1)
    assert browser.texts("#headline td.c-score") != first
    assert browser.text("#scores .whose").strip() == HOSTILE
    assert "not at hand" in browser.text("#scores .notice")
    assert browser.complaints() == []


def bottom(browser: Browser, selector: str) -> float:
    """Where the first element of this kind ends, in pixels from the top of the page."""
    script = (
        "return document.querySelector(arguments[0]).getBoundingClientRect().bottom + scrollY"
    )
    return float(browser.run(script, selector))


def test_the_conclusion_and_the_forest_plot_are_above_the_fold(
    browser: Browser, written: dict[str, Path]
) -> None:
    browser.open(written["compared"])
    assert "significant" in browser.text("#conclusion p")
    assert bottom(browser, ".forests") < 900
    results = [
        truerank.Result.from_json(written["compared"].with_name(f"{name}.json"))
        for name in ("levels", HOSTILE)
    ]
    shown = browser.texts(".forests tbody tr:first-child td.number")
    scores = [f"{100 * result['precision@1'].value:.2f}" for result in results]
    assert shown[:2] == scores
    low, high = truerank.compare(*results).differences[0].interval
    zero, start, width = browser.run(
        "const of = (name) => document.querySelector('.forests tbody .forest ' + name).style;"
        "return [of('.zero').left, of('.range').left, of('.range').width].map(parseFloat)"
    )
    assert width / (start - zero) == pytest.approx((high - low) / low, rel=1e-3)


def test_long_tables_show_ten_rows_at_first(browser: Browser, written: dict[str, Path]) -> None:
    browser.open(written["levels"])
    shown = "return document.querySelectorAll('#classes tbody tr').length"
    assert browser.run(shown) == 10
    browser.run("[...document.querySelectorAll('#classes .tools button')]"
                ".find((one) => one.textContent === 'Show all 36').click()")  # fmt: skip
    assert browser.run(shown) == 36
    assert browser.text("#classes .tell") == "36 rows"


def test_strips_end_with_the_first_relevant_item(
    browser: Browser, written: dict[str, Path]
) -> None:
    browser.open(written["levels"])
    browser.click("#queries details summary")
    strips = browser.run(
        "return [...document.querySelectorAll('#queries .neighbours')].map((one) =>"
        "[...one.querySelectorAll('button')].map((b) => [Number(b.querySelector('b').textContent),"
        "b.classList.contains('right')]))"
    )
    worst = browser.run("return DATA.models[0].ranked.worst")
    assert len(strips) == len(worst)
    for tiles, query in zip(strips, worst, strict=True):
        first = query["first_mate"]
        ranks = [rank for rank, _ in tiles]
        assert ranks == [*range(1, 9), max(9, first)]
        assert next(rank for rank, right in tiles if right) == first
    assert any(query["first_mate"] > 9 for query in worst)
    browser.click("#queries .neighbours button")
    facts = browser.texts("dialog dd")
    assert facts[0] == "1"
    assert worst[0]["neighbours"][0]["label"] in facts
    browser.click("dialog button")
    assert browser.run("return document.querySelector('dialog[open]')") is None
    assert browser.complaints() == []


def test_det_has_the_axes_of_the_plots(browser: Browser, written: dict[str, Path]) -> None:
    browser.open(written["plain"], drawn=True)
    rates = [1e-7, 0.001, 0.02425, 0.3, 0.5, 0.97, 0.999999]
    shown = browser.run("return arguments[0].map(probit)", rates)
    np.testing.assert_allclose(shown, probit(rates), rtol=1e-8, atol=1e-8)
    ticks = browser.run(
        "const det = [...document.querySelectorAll('#curves .card')].find((one) =>"
        "one.querySelector('h3').textContent === 'DET').querySelector('.chart');"
        "return [det.layout.xaxis.tickvals, det.layout.yaxis.range, det.data[0].x.length]"
    )
    rates = [rate for rate in PERCENT if rate <= MOST_RATE][-len(ticks[0]) :]
    assert ticks[0] == pytest.approx(probit(rates), abs=1e-8)
    assert ticks[1][1] == pytest.approx(probit(MOST_RATE), abs=1e-8)


@pytest.mark.parametrize("dark", [False, True])
def test_the_map_is_legible(browser: Browser, written: dict[str, Path], dark: bool) -> None:
    """Every colour of the points stands out from the page, light or dark."""
    browser.open(written["levels"], dark=dark, drawn=True)
    colors = browser.run(
        "return document.querySelector('#map .chart').data.map((one) => one.marker.color)"
    )
    paper = browser.run("return theme().paper")
    assert len(colors) == 3
    assert all(contrast(one, paper) > (3 if dark else 2) for one in colors), colors


def contrast(first: str, second: str) -> float:
    """The contrast of two colours, as WCAG defines it."""

    def light(text: str) -> float:
        digits = text.lstrip("#")
        digits = digits if len(digits) == 6 else "".join(2 * one for one in digits)
        parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
        linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
        return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))

    high, low = sorted((light(first), light(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_only_chosen_sections_are_shown(browser: Browser, pages: Path) -> None:
    arguments = ARGUMENTS["open"]
    result = truerank.evaluate(**arguments, metrics=ASKED, confidence=None)
    result.to_html(pages / "some.html", sections=["map", "curves"], title="Some")
    browser.open(pages / "some.html", drawn=True)
    assert browser.texts("#links a") == ["Curves", "Map"]
    assert browser.run("return [...document.querySelectorAll('section')].map((s) => s.id)") == [
        "curves",
        "map",
    ]
    assert browser.text("h1") == "Some"
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
def test_the_page_of_one_model_of_the_demo(browser: Browser, pages: Path) -> None:
    data = datasets.emoji()
    arguments = data.task("efficientnet", hierarchy=True)
    result = truerank.evaluate(**arguments)
    result.to_html(pages / "demo.html", **data.pictures())
    browser.open(pages / "demo.html", drawn=True)
    assert browser.complaints() == []
    assert browser.requests() <= {"file", "data", "blob"}
    check_stops(browser, arguments, np.random.default_rng(3).integers(0, 1001, 20).tolist())


LONGEST_DEMO = 7442
"""Pixels: half of what the page of the demo had before its tables were collapsed."""


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
def test_the_page_of_the_demo(browser: Browser, pages: Path, dark: bool) -> None:
    """Its conclusion and forest plot are above the fold, its strips have pictures, it is short."""
    page = pages / "both.html"
    if not page.exists():
        demonstration.run().write_report(page)
    browser.open(page, dark=dark, drawn=True)
    assert browser.complaints() == []
    assert browser.requests() <= {"file", "data", "blob"}
    assert browser.run("return document.documentElement.scrollHeight") <= LONGEST_DEMO
    assert "efficientnet" in browser.text("#conclusion p")
    assert bottom(browser, ".forests") < 900
    with_picture = browser.run(
        "return [...document.querySelectorAll('#head-to-head .tile-of, #queries .tile-of')]"
        ".map((one) => [one.title, Boolean(one.querySelector('img'))])"
    )
    assert len(with_picture) > 80
    for words, pictured in with_picture:
        share_alike = any(f"group {family}" in words for family in SHARE_ALIKE)
        assert pictured != share_alike, words
    assert "Twemoji, CC-BY-4.0" in browser.text("footer")
    browser.open(page, width=400, dark=dark, drawn=True)
    assert browser.run("return document.documentElement.scrollWidth") <= 400
