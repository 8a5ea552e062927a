"""The log of openings: every look is in it, and whoever changes it is found out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from truerank._util.errors import InputError
from truerank.benchmark.holdout import Opening, Openings

LOOKS = [
    Opening("untrained", "0", ("aa",), "split"),
    Opening("triplet", "0", ("bb", "cc"), "split"),
    Opening("triplet", "1", ("dd", "ee"), "split"),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "openings.jsonl"
    Openings(path).announce(LOOKS)
    return path


def test_the_same_model_again_is_no_second_look(path: Path) -> None:
    before = path.read_bytes()
    again = Openings(path)
    again.announce(LOOKS[1:])
    assert path.read_bytes() == before
    assert (again.count, again.second_looks()) == (3, 0)


def test_another_model_in_its_place_is(path: Path) -> None:
    openings = Openings(path)
    openings.announce([Opening("triplet", "1", ("dd", "other"), "split")])
    again = Openings(path)
    assert (again.count, again.second_looks(), again.second_looks("triplet")) == (4, 1, 1)
    assert again.second_looks("untrained") == 0
    assert again.head == openings.head


def remove_line(lines: list[str]) -> list[str]:
    return [lines[0], *lines[2:]]


def swap_lines(lines: list[str]) -> list[str]:
    return [lines[1], lines[0], *lines[2:]]


def change_method(lines: list[str]) -> list[str]:
    return [lines[0], lines[1].replace("triplet", "margin"), *lines[2:]]


def tear(lines: list[str]) -> list[str]:
    return [*lines[:2], lines[2][:40]]


def add_unchained(lines: list[str]) -> list[str]:
    return [*lines, json.dumps({**json.loads(lines[2]), "number": 3})]


def no_json(lines: list[str]) -> list[str]:
    return [*lines, "[]"]


@pytest.mark.parametrize(
    "tamper", [remove_line, swap_lines, change_method, tear, add_unchained, no_json]
)
def test_a_changed_log_is_noticed(path: Path, tamper: object) -> None:
    lines = path.read_text().splitlines()
    path.write_text("\n".join(tamper(lines)) + "\n")  # type: ignore[operator]
    with pytest.raises(InputError, match=r"openings.jsonl has been changed: line \d does not"):
        Openings(path)


def test_a_score_without_its_opening_is_noticed(path: Path) -> None:
    """Lines cut off at the end leave a chain that holds; the scores tell."""
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[:2]) + "\n")
    openings = Openings(path)
    openings.check_announced(LOOKS[1])
    with pytest.raises(InputError, match="does not hold the test evaluation of triplet, rerun 1"):
        openings.check_announced(LOOKS[2])
