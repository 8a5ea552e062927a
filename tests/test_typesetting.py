"""Tables and sentences on screens of any width, in Markdown and in LaTeX."""

from __future__ import annotations

import re
import sys

import pytest

from truerank._util import text as typesetting
from truerank._util.text import TextTable, escape_csv, escape_latex, escape_markdown, fill, text
from truerank.core.score import Score
from truerank.report.page import render_card
from truerank.result.result import Result

LONG = "opis@eps=0.2,far=0.05:0.5,integral=exact"
TABLE = TextTable(
    ["metric", "model", "score", "interval"],
    [["map@r", "a", "39.23", "31.05 to 48.07"], [LONG, "resnet", "4.3656", "3.0759 to 6.1616"]],
    words=(0, 1),
)


def test_words_stand_on_the_left_and_numbers_on_the_right() -> None:
    assert text(TextTable(["a", "b", "n"], [["x", "long", "1"], ["yyy", "s", "234"]], (0, 1))) == (
        "a    b       n\nx    long    1\nyyy  s     234"
    )


def test_a_name_that_leaves_no_room_has_a_line_of_its_own() -> None:
    assert text(TABLE, 60).splitlines() == [
        "metric  model   score          interval",
        "map@r  a        39.23    31.05 to 48.07",
        f"{LONG}  resnet",
        "               4.3656  3.0759 to 6.1616",
    ]


def test_numbers_that_do_not_fit_follow_below() -> None:
    table = TextTable(["metric", "first", "second"], [["map@r", "1" * 20, "2" * 20]])
    assert text(table, 40).splitlines() == [
        "metric                 first",
        "map@r   11111111111111111111",
        "",
        "metric                second",
        "map@r   22222222222222222222",
    ]


def test_blocks_below_each_other_have_about_as_many_columns() -> None:
    table = TextTable(["label", "one", "two", "three", "four"], [["a", "1", "2", "3", "4"]])
    assert text(table, 24).splitlines() == [
        "label  one  two",
        "a        1    2",
        "",
        "label  three  four",
        "a          3     4",
    ]


@pytest.mark.parametrize("width", [30, 40, 60, 80, 120, None])
def test_no_word_is_lost_and_no_number_broken_on_any_screen(width: int | None) -> None:
    lines = text(TABLE, width).splitlines()
    for cell in (cell for row in [TABLE.header, *TABLE.rows] for cell in row):
        assert any(cell in line for line in lines), cell
    if width is not None:
        longest = len(f"{LONG}  resnet")  # nothing can be done about a single long word
        assert max(map(len, lines)) <= max(width, longest)


def test_wide_letters_take_two_columns() -> None:
    lines = text(TextTable(["name", "n"], [["人", "1"], ["ab", "2"]])).splitlines()
    assert lines == ["name  n", "人    1", "ab    2"]


def test_a_rule_is_as_wide_as_the_table() -> None:
    assert text(TextTable(["name", "n"], [["x", "1"]]), rule=True).splitlines()[1] == "─" * 7


def test_sentences_are_broken_between_words() -> None:
    sentence = "200 queries leave-one-out, cosine distance."
    assert fill([sentence, "  rows 1"], 26) == [
        "200 queries leave-one-out,",
        "cosine distance.",
        "  rows 1",
    ]
    assert fill([f"- {sentence}"], 28) == ["- 200 queries leave-one-out,", "  cosine distance."]
    assert fill([sentence], None) == [sentence]
    assert fill(["x" * 50], 20) == ["x" * 50]
    assert fill(["  class 2 (FRR 26.7 %, FAR 19 %)"], 18) == [
        "  class 2 (FRR",
        "    26.7 %, FAR",
        "    19 %)",
    ]
    assert fill(["No difference (p < 0.001)."], 18) == ["No difference", "(p < 0.001)."]


def test_sentences_are_no_wider_than_a_column_of_prose(monkeypatch: pytest.MonkeyPatch) -> None:
    words = " ".join(["word"] * 60)
    for columns, most in (("60", 60), ("200", 80), ("0", 80)):
        monkeypatch.setenv("COLUMNS", columns)
        lines = typesetting.paragraph(words).splitlines()
        assert most - 5 < max(map(len, lines)) <= most


def test_bold_type_is_for_terminals_that_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    table = TextTable(["metric", "a"], [["mAP", "1.00"]], strong=frozenset({(0, 1)}))
    assert text(table, styled=True).splitlines() == [
        "\x1b[1mmetric\x1b[22m  \x1b[1m   a\x1b[22m",
        "mAP     \x1b[1m1.00\x1b[22m",
    ]
    assert "\x1b" not in text(table)
    assert not typesetting.has_styles()  # stdout is no terminal here
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert typesetting.has_styles()
    assert typesetting.paragraph("Found.", strong=True) == "\x1b[1mFound.\x1b[22m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert not typesetting.has_styles()


@pytest.mark.parametrize(
    ("asked", "width"), [("80", 80), ("120", 120), ("0", None), ("", None), ("wide", None)]
)
def test_columns_say_how_wide_the_screen_is(
    asked: str, width: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", asked)
    assert typesetting.screen_width() == width  # stdout is no terminal here


@pytest.mark.parametrize(
    ("plain", "escaped"),
    [
        ("r_precision", "r_precision"),
        ("_x_", r"\_x\_"),
        ("a|b", r"a\|b"),
        ("<b>&amp;", "&lt;b&gt;&amp;amp;"),
        (r"\input{x}", r"\\input{x}"),
        ("a*b*", r"a\*b\*"),
        ("two\nlines", "two lines"),
    ],
)
def test_markdown_shows_names_as_they_are(plain: str, escaped: str) -> None:
    assert escape_markdown(plain) == escaped


@pytest.mark.parametrize(
    ("plain", "escaped"),
    [
        ("r_precision", r"r\_precision"),
        ("a|b<c>", r"a\textbar{}b\textless{}c\textgreater{}"),
        (r"\input{x}", r"\textbackslash{}input\{x\}"),
        ("50% & #1 $5 ~ ^", r"50\% \& \#1 \$5 \textasciitilde{} \textasciicircum{}"),
        ("[1] a--b", "{[}1] a-{}-b"),
        ("eer ↓", r"eer $\downarrow$"),
        ("-1.50", "$-1.50$"),
        ("two\nlines", "two lines"),
    ],
)
def test_latex_sets_names_as_they_are(plain: str, escaped: str) -> None:
    assert escape_latex(plain) == escaped


def test_columns_of_words_are_left_aligned_in_every_language() -> None:
    assert typesetting.markdown(TABLE).splitlines()[1] == "| --- | --- | ---: | ---: |"
    assert typesetting.latex(TABLE).startswith("\\begin{tabular}{llrr}\n")


@pytest.mark.parametrize("cell", ["=1", "+a", "-a", "@a", "\uff1d1", "-1e", "--1"])
def test_what_a_spreadsheet_would_run_is_text(cell: str) -> None:
    assert escape_csv(cell) == f"'{cell}"


@pytest.mark.parametrize("letter", list("\r\n\t\x0b\x85\u2028\x1b\0\ud800"))
def test_no_control_letter_of_a_name_reaches_a_form(letter: str) -> None:
    """A reader of CSV, as this Python's or a spreadsheet's, would begin a row with a formula."""
    name = f"a{letter}=HYPERLINK(1)"
    forms = {
        "csv": typesetting.separated(["name", "value"], [[name, 1]]),
        "text": typesetting.text(TextTable(["name"], [[name]])),
        "markdown": typesetting.markdown(TextTable(["name"], [[name]])),
        "latex": typesetting.latex(TextTable(["name"], [[name]])),
        "html": typesetting.table(TextTable(["name"], [[name]])),
        "page": render_card(name, []),
    }
    for form, shown in forms.items():
        assert not set(letter) & set(shown.replace("\n", "")), form
        shown.encode()  # halves of a letter could not be written to a file
        assert not [line for line in re.split("[\r\n\x0b\x85\u2028]", shown) if line[:1] == "="]
    assert len(forms["csv"].splitlines()) == 2


@pytest.mark.parametrize("cell", ["-1", "+1", "-1.5e-3", "a=1", "", -1.5, None, 3])
def test_what_a_spreadsheet_would_not_run_stays(cell: object) -> None:
    assert escape_csv(cell) == cell


def test_a_reason_in_a_comment_of_latex_ends_with_its_line() -> None:
    nan = float("nan")
    reason = "no\n\\input{a}\u2028b | <i>"
    result = Result({"map": Score("map", nan, nan, nan, nan, reason=reason)})
    last = result.to_latex().splitlines()[-1]
    assert last == "% mAP: no \\input{a} b | <i>."
    assert result.to_markdown().splitlines()[-1] == "- mAP: no \\\\input{a} b \\| &lt;i&gt;."
