"""docs/reference/architecture.md: short, and true of the rooms."""

from __future__ import annotations

import re
from pathlib import Path

from tests.architecture.test_rooms import ROOMS, SOURCE

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "architecture.md"
TEXT = PAGE.read_text(encoding="utf-8")
IN_ORDER = [name for line in ROOMS for name in line]
MOST_WORDS = 900


def test_it_is_read_in_ten_minutes() -> None:
    words = [word for word in TEXT.split() if re.search(r"\w", word)]
    assert len(words) <= MOST_WORDS, f"{len(words)} words"


def test_each_room_has_a_row_and_a_paragraph_in_order() -> None:
    assert re.findall(r"^\| (\w+)/ \|", TEXT, flags=re.M) == IN_ORDER
    assert re.findall(r"^\*\*(\w+)/\.\*\*", TEXT, flags=re.M) == IN_ORDER


def test_the_files_of_a_room_are_there() -> None:
    named = 0
    about = r"^(?:\| (\w+)/ \||\*\*(\w+)/\.\*\*)(.*?)$(?=\n\n|\n\||\Z)"
    for row, paragraph, words in re.findall(about, TEXT, flags=re.M | re.S):
        for path in re.findall(r"`([\w/]+\.py|\w+/)`", words):
            assert (SOURCE / (row or paragraph) / path).exists(), f"{row or paragraph}/{path}"
            named += 1
    assert named > 100


def test_the_studies_are_outside() -> None:
    assert "`studies/`" in TEXT
    assert (SOURCE.parents[1] / "studies" / "__main__.py").is_file()
