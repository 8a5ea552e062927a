"""The time left, in words, on a terminal and in a log."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import truerank
from tests.refusals import assert_refused, refused
from truerank._util import progress
from truerank._util.progress import Estimate, in_words, progress_bar, shown


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "0 s"),
        (40, "40 s"),
        (99.4, "99 s"),
        (100, "2 min"),
        (720, "12 min"),
        (5940, "99 min"),
        (6000, "1 h 40 min"),
        (12_000, "3 h 20 min"),
        (187_200, "2 d 4 h"),
    ],
)
def test_durations(seconds: float, words: str) -> None:
    assert in_words(seconds) == words


def test_time_left_at_the_pace_so_far() -> None:
    clock = Clock()
    estimate = Estimate(clock)
    clock.now = 100.0  # reading files says nothing about the pace
    assert estimate.text(0, 1000) == "0%"
    clock.now = 110.0
    assert estimate.left(200, 1000) == 40.0
    assert estimate.text(200, 1000) == "20%, about 40 s left"
    assert estimate.text(200, 1000, "pairs") == "20%, 20 pairs/s, about 40 s left"
    clock.now = 150.0
    assert estimate.text(1000, 1000) == "100%, about 0 s left"


def test_what_an_earlier_run_did_is_not_this_ones_pace() -> None:
    clock = Clock()
    estimate = Estimate(clock)
    assert estimate.left(900, 1000) is None
    clock.now = 10.0
    assert estimate.left(950, 1000) == 10.0


def test_nothing_to_do() -> None:
    assert Estimate().text(0, 0) == "100%"


def test_a_line_a_minute_in_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    report = progress._log("ranking", clock)
    for second in range(0, 150, 10):
        clock.now = second
        report(second, 1000)
    assert capsys.readouterr().err.splitlines() == [
        "truerank: ranking: 6%, about 16 min left",
        "truerank: ranking: 12%, about 15 min left",
    ]


class Notebook:
    """IPython as a kernel runs it: what is displayed, and what becomes of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **shell: Any) -> None:
        self.outputs: list[Any] = []
        ipython, module = ModuleType("IPython"), ModuleType("IPython.display")
        ipython.get_ipython = lambda: SimpleNamespace(**shell)
        module.display = self.display
        monkeypatch.setitem(sys.modules, "IPython", ipython)
        monkeypatch.setitem(sys.modules, "IPython.display", module)

    def display(self, shown: Any, *, display_id: bool) -> Notebook:
        assert display_id
        self.outputs.append(shown)
        return self

    def update(self, shown: Any, *, raw: bool = False) -> None:
        assert raw == isinstance(shown, dict)
        self.outputs.append(shown)


def test_a_bar_below_the_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = Notebook(monkeypatch, kernel=object())
    clock = Clock()
    with progress._cell("a < b", notebook.display, clock) as report:
        for done in range(9):
            for tick in range(4):  # 32 calls a second, of which 8 are drawn
                clock.now = done + tick / 32
                report(done, 8)
    first, *drawn, last = notebook.outputs
    assert repr(first) == "a < b: "
    assert [repr(cell).partition(",")[0] for cell in drawn] == [
        f"a < b: {100 * done // 8}%" for done in range(1, 9)
    ]
    assert repr(drawn[3]) == "a < b: 50%, about 4 s left"
    assert drawn[3]._repr_html_() == (
        '<progress max="1" value="0.5000" style="width: 20em"></progress> '
        "a &lt; b 50%, about 4 s left"
    )
    assert last == {"text/plain": "", "text/html": ""}


def test_the_bar_goes_when_the_work_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = Notebook(monkeypatch, kernel=object())
    with pytest.raises(KeyboardInterrupt), progress_bar("ranking"):
        raise KeyboardInterrupt
    assert notebook.outputs[-1] == {"text/plain": "", "text/html": ""}


def test_a_terminal_with_ipython_is_no_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = Notebook(monkeypatch)
    with progress_bar("ranking") as report:
        report(1, 2)
    assert notebook.outputs == []


def test_what_users_pass_as_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = Notebook(monkeypatch, kernel=object())

    def take(done: int, total: int) -> None:
        raise AssertionError("nothing is done here")

    for given, expected in ((None, None), (False, None), (take, take)):
        with shown(given, "ranking") as report:
            assert report == expected
    assert notebook.outputs == []
    with shown(True, "ranking") as report:
        report(1, 1)
    assert len(notebook.outputs) == 2
    with refused("The 'progress' parameter must be True, None, or called as"), shown("yes", ""):
        pass


@pytest.mark.parametrize("given", [3, "bar", lambda: None, lambda done: None, type])
def test_what_cannot_be_called_is_refused(given: Any) -> None:
    rows, labels = [[0.0, 1], [0, 2], [1, 0], [1, 1]], [0, 0, 1, 1]
    for call in (truerank.evaluate, truerank.audit):
        assert_refused(lambda call=call: call(rows, labels, progress=given), ["(done, total)"])


def test_what_can_be_called_is_not_refused() -> None:
    found: list[tuple[int, int]] = []
    rows, labels = [[0.0, 1], [0, 2], [1, 0], [1, 1]], [0, 0, 1, 1]
    truerank.evaluate(rows, labels, progress=lambda *pairs: found.append(pairs))
    assert found[-1] == (16, 16)
    truerank.evaluate(rows, labels, progress=max)
