"""What notebooks show: whole, escaped, in the page's own colours; a task names no label."""

from __future__ import annotations

import re
from functools import cache
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import truerank
from truerank._util import text
from truerank._util.text import TextTable

EVIL = '<img src=x onerror="alert(1)">&amp;'


class Reader(HTMLParser):
    """Cells and other texts of a page; it fails on tags that are left open and on foreign ones."""

    ALONE = ("br",)
    KNOWN = ("div", "table", "thead", "tbody", "tr", "th", "td", "p", "strong", "br")

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.styles: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert tag in self.KNOWN
        assert {name for name, _ in attributes} <= {"style", "class", "scope"}
        self.styles += [value or "" for name, value in attributes if name == "style"]
        self.open += [] if tag in self.ALONE else [tag]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@cache
def things() -> dict[str, Any]:
    """One of each kind, with a label and a model's name that must stay text."""
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(30), 5)
    labels = np.array([EVIL if code == 0 else f"class {code}" for code in codes])
    x = rng.standard_normal((30, 8))[codes] + rng.standard_normal((150, 8))
    x[3] = x[100]
    x[0] = x[1] * -1  # so that the evil class is served worst
    first, second = truerank.evaluate(x, labels), truerank.evaluate(x[:, :4], labels)
    return {
        "Result": first,
        "Comparison": truerank.compare(first, second, names=[EVIL, "b"]),
        "Comparison of three": truerank.compare(first, second, second, names=[EVIL, "b", "c"]),
        "Audit": truerank.audit(x, labels),
        "OperatingPoint": truerank.choose_threshold(x, labels, far=0.01),
        "Task": truerank.Task(labels, ids=[f"{EVIL}{row}" for row in range(150)]),
        "Neighbours": truerank.neighbors(x, labels, queries=[0], k=5),
    }


@pytest.mark.parametrize("kind", list(things()))
def test_pages_are_whole_and_have_no_colours_of_their_own(kind: str) -> None:
    page = Reader(things()[kind]._repr_html_())
    text = " ".join(page.texts)
    assert not re.search(r"<\S", text.replace(EVIL, ""))  # "p < 0.001" is no markup
    for style in page.styles:
        rules = dict(rule.split(":", 1) for rule in style.rstrip("; ").split(";"))
        rules = {name.strip(): value.strip() for name, value in rules.items()}
        assert rules.get("color", "inherit") == "inherit"
        assert rules.get("background", "none") == "none"


@pytest.mark.parametrize("kind", ["Comparison", "OperatingPoint", "Neighbours"])
def test_names_stay_text(kind: str) -> None:
    assert EVIL in " ".join(Reader(things()[kind]._repr_html_()).texts)


@pytest.mark.parametrize("kind", list(things()))
def test_pages_say_what_the_text_says(kind: str) -> None:
    """Every word of the plain text, so that neither form lags behind."""
    thing = things()[kind]
    shown = set(" ".join(Reader(thing._repr_html_()).texts).split())
    said = [word for word in str(thing).split() if word != "-"]  # of a list of notes
    missing = {word for word in said if word not in shown and word.rstrip(":") not in shown}
    assert missing == set()


def test_a_task_names_no_label_and_no_id() -> None:
    task = things()["Task"]
    for shown in (task._repr_html_(), repr(task)):
        assert "class " not in shown.replace("classes of", "")
        assert "img" not in shown
        assert "150" in shown
        assert task.commitment in shown


def test_tasks_of_every_kind_are_told() -> None:
    levels = truerank.Task([("a", "x"), ("a", "y"), ("b", "z")], gallery_labels=[("a", "x")])
    assert ("classes of the queries", "2 / 3") in levels.facts()
    assert ("gallery", "1 items") not in levels.facts()
    assert ("gallery", "1 item") in levels.facts()
    assert ("unmated queries", "2 not in gallery (report)") in levels.facts()
    judged = truerank.Task(None, relevance=np.eye(3))
    assert ("relevance", "by judgements") in judged.facts()


def test_a_table_of_strange_cells() -> None:
    table = TextTable([EVIL, "n"], [[EVIL, "1"]])
    page = text.table(table)
    assert Reader(page).texts == [EVIL, "n", EVIL, "1"]
    assert "text-align: left" in page
    assert "text-align: right" in page
