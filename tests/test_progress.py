"""The time left, in words, on a terminal and in a log."""

from __future__ import annotations

import pytest

from truerank import progress
from truerank.progress import Estimate, in_words


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
