"""No room grows unnoticed: its code lines stay within budget.json, and no file grows too long."""

from __future__ import annotations

import pytest

from tests.architecture.budget import ROOT, allowed, code_lines, files, measured

LONGEST = 1200
SLACK = 1.02
WRITE = "`python -m tests.architecture.budget` writes what there is into budget.json"


def complaint(room: str, lines: int, budget: int) -> str | None:
    """What is wrong with the budget of a room, and what to do about it."""
    if lines > budget:
        return (
            f"{room} has {lines:,} code lines, {lines - budget:,} more than its budget. Find what "
            f"can go, or write the new number and say in the commit why the room grew: {WRITE}."
        )
    if budget > SLACK * lines:
        return (
            f"{room} has {lines:,} code lines, and its budget is {budget:,}. Lower the budget to "
            f"what there is: {WRITE}."
        )
    return None


def test_every_room_keeps_its_budget() -> None:
    found, budget = measured(), allowed()
    assert set(found) == set(budget), f"Rooms came or went: {WRITE}."
    wrong = [complaint(room, found[room], budget[room]) for room in found]
    assert not any(wrong), "\n".join(filter(None, wrong))


def test_no_file_is_too_long() -> None:
    long = {
        path.relative_to(ROOT).as_posix(): lines
        for paths in files().values()
        for path in paths
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > LONGEST
    }
    assert not long, f"Divide these files by topic; {LONGEST:,} lines are the most: {long}."


def test_code_is_counted_without_words_about_it() -> None:
    text = '''"""A docstring
of two lines."""

import os  # a comment beside code

# a comment alone


class Thing:
    """Another docstring."""

    text = """a string
that is code"""


def function(
    argument,
):
    """One more."""
    return f"""{argument}

    and more"""
'''
    assert code_lines(text) == 1 + 1 + 2 + 3 + 3
    assert code_lines("") == 0


@pytest.mark.parametrize(
    ("lines", "budget", "words"),
    [
        (1000, 1000, None),
        (1000, 1020, None),
        (1001, 1000, "1 more than its budget"),
        (1000, 1021, "Lower the budget"),
    ],
)
def test_a_budget_is_neither_exceeded_nor_left_behind(
    lines: int, budget: int, words: str | None
) -> None:
    found = complaint("engine", lines, budget)
    assert (found is None) == (words is None)
    assert words is None or words in str(found)
