"""Every public function with malformed arguments: it succeeds or refuses in one sentence."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import truerank
from tests.fuzz.calls import CALLS, Call
from tests.fuzz.escapes import Escapes
from tests.fuzz.things import observed, spoilers, spoilt, things

CASES = 4_000


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text that is taken for a path may become a file here."""
    monkeypatch.chdir(tmp_path)


def _spoil(call: Call, name: str, seed: str, cases: int) -> None:
    escapes, draw, some = Escapes(), random.Random(seed), spoilers(seed)
    for _ in range(cases):
        options = dict(call.arguments)
        chosen = draw.sample(call.names, min(len(call.names), draw.choice([1, 1, 1, 2, 3])))
        for one in chosen:
            options[one] = spoilt(options.get(one), draw, next(some))
        what = f"{name}: " + ", ".join(f"{one}={observed(options[one])}" for one in chosen)
        escapes.attempt(what, lambda options=options: call.function(**options))
    escapes.assert_none(cases)


@pytest.mark.parametrize("name", CALLS)
def test_every_thing_in_every_argument(name: str) -> None:
    """Each parameter once with each thing, in a call that is otherwise fine."""
    call, escapes = CALLS[name], Escapes()
    for parameter in call.names:
        for thing in things():
            options = call.arguments | {parameter: thing}
            what = f"{name}: {parameter}={observed(thing)}"
            escapes.attempt(what, lambda options=options: call.function(**options))
    escapes.assert_none(50)


@pytest.mark.parametrize("name", CALLS)
def test_things_inside_of_things(name: str) -> None:
    _spoil(CALLS[name], name, f"quick {name}", 100)


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_thousands_of_cases(name: str) -> None:
    _spoil(CALLS[name], name, f"slow {name}", CASES)


def test_the_calls_succeed_where_nothing_is_spoilt() -> None:
    """Otherwise the cases above would be refused for another reason than theirs."""
    files = (
        *("read_trials", "Taxonomy.read", "Result.from_json"),
        *("Task.load", "PublicTask.load"),
    )
    for name, call in CALLS.items():
        if name not in files:
            assert call.function(**call.arguments) is not None, name


def test_every_public_function_has_calls() -> None:
    functions = {
        name
        for name in truerank.__all__
        if callable(getattr(truerank, name)) and not name.endswith(("Error", "Warning"))
    }
    made_by_others = {
        "Audit",
        "Board",
        "Comparison",
        "IndexLoss",
        "Neighbors",
        "Score",
        "CompressionSweep",
        "ThresholdCard",
        "ExactNeighbors",
        "Explanation",
    }
    named = {name.partition(",")[0].partition(".")[0] for name in CALLS}
    assert functions - made_by_others <= named
