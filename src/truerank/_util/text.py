"""Text for people: words of messages, and tables as plain text, Markdown, LaTeX, CSV and HTML.

A table consists of cells that are already text. Words are aligned left, numbers right. A table
wider than the screen continues below. HTML is for notebooks: it has no scripts, sets no colour
of letters or page, and every text is escaped here, once.
"""

from __future__ import annotations

import csv
import html
import io
import os
import re
import sys
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

# Small words for messages: numbers with their nouns, and lists of choices.


_IRREGULAR = {"class": "classes", "query": "queries", "person": "people"}


def count(number: int, noun: str) -> str:
    """'1 query', '1,200 queries'."""
    return f"{number:,} {noun if number == 1 else plural(noun)}"


def plural(noun: str) -> str:
    """'queries', 'positive pairs', 'unmated queries'."""
    before, space, last = noun.rpartition(" ")
    return before + space + _IRREGULAR.get(last, last + "s")


def either(choices: Sequence[str]) -> str:
    """'cosine', 'cosine or dot', 'cosine, dot or hamming'."""
    *others, last = choices
    return f"{', '.join(others)} or {last}" if others else last


def level_name(name: str) -> str:
    """'level 2' for a level that is called 2; a name of its own, 'genus' or 'level1', as it is."""
    return f"level {name}" if name.isdigit() else name


def reworded(rule: str) -> str:
    """A rule or reason as people read it: files keep the text that programs compare."""
    return _SHOWN.get(rule, rule)


_SHOWN = {
    "mates of the query's own group": "relevant items of the query's group",
    "all mates junk": "all relevant items junk",
}


# Tables and sentences as people see them: plain text as wide as the screen, Markdown, LaTeX.
#
# A table is cells that are already text. Words stand on the left, numbers on the right. What is
# too wide for the screen goes on below, and nothing is cut in mid-word.


LOWER = "\N{DOWNWARDS ARROW}"
GAP = "  "
PROSE_WIDTH = 80
"""Sentences are no wider, on whatever screen."""
SOURCE_WIDTH = 76
"""Of LaTeX that people paste, without what ends a line."""
LEAST_ROOM = 16
"""Columns that must be left for a row's name, beside all numbers, to keep them on one line."""


@dataclass(frozen=True)
class TextTable:
    """Cells under a header, and which columns are words."""

    header: list[str]
    rows: list[list[str]]
    words: tuple[int, ...] = (0,)
    """Which columns stand on the left; those before the first number name the row."""
    strong: frozenset[tuple[int, int]] = frozenset()
    """The row and column of cells in bold type, where a terminal has that."""

    def map(self, change: Callable[[str], str]) -> TextTable:
        """The table with every cell changed."""
        cells = [[change(cell) for cell in row] for row in [self.header, *self.rows]]
        return replace(self, header=cells[0], rows=cells[1:])

    @property
    def names(self) -> int:
        """How many of the first columns name a row; a single one where all are words."""
        numbers = (n for n in range(len(self.header)) if n not in self.words)
        return next(numbers, 1)


def screen_width() -> int | None:
    """Columns of the terminal, or those that COLUMNS asks for; None in a pipe, which has none."""
    asked = os.environ.get("COLUMNS", "")
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    except (AttributeError, OSError, ValueError):
        return None


def has_styles() -> bool:
    """Whether standard output is a terminal that shows bold type, and nobody forbade that."""
    from rich.console import Console

    screen = Console()
    return (
        screen.is_terminal
        and screen.color_system is not None
        and not (screen.no_color or screen.legacy_windows)
    )


def bold(shown: str) -> str:
    """Text in bold type on a terminal."""
    return f"\x1b[1m{shown}\x1b[22m" if shown.strip() else shown


def faint(shown: str) -> str:
    """Text in a weaker color on a terminal."""
    return f"\x1b[2m{shown}\x1b[22m" if shown.strip() else shown


def printable(shown: str) -> str:
    """The text, with '(-)' for the arrow where standard output has no arrow."""
    try:
        LOWER.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return shown.replace(LOWER, "(-)")
    return shown


def prose_width() -> int:
    """Columns for sentences: those of the terminal, and at most PROSE_WIDTH."""
    return min(screen_width() or PROSE_WIDTH, PROSE_WIDTH)


def paragraph(sentences: str, *, strong: bool = False) -> str:
    """Sentences as wide as the screen, at most PROSE_WIDTH; in bold type where that is shown."""
    lines = fill([sentences], prose_width())
    return printable("\n".join(map(bold, lines) if strong and has_styles() else lines))


def fill(lines: Iterable[str], width: int | None) -> list[str]:
    """Sentences, each from a line of its own on, and no line wider than `width`.

    What follows the first line of an item of a list ("- ") or of an indented line is indented.
    No line ends within "95 %" and "p < 0.001".

    Examples
    --------
    >>> fill(["Of 9 queries, 2 are unmated.", "- Of 9 queries, 2 are unmated."], 20)
    ['Of 9 queries, 2 are', 'unmated.', '- Of 9 queries, 2', '  are unmated.']
    """
    lines = [visible(line) for line in lines]
    if width is None:
        return lines
    found: list[str] = []
    for line in lines:
        indent = line[: len(line) - len(line.lstrip())]
        rest = textwrap.wrap(
            unbroken(line.strip()),
            max(width, len(indent) + len(GAP) + 1),
            initial_indent=indent,
            subsequent_indent=indent + GAP if indent or line.startswith("- ") else "",
            break_long_words=False,
            break_on_hyphens=False,
        )
        found += [part.replace("\xa0", " ") for part in rest] or [""]
    return found


def unbroken(line: str) -> str:
    """A line that no screen breaks within "95 %" and "p < 0.001"."""
    return re.sub(" ([<=]) ", "\xa0\\1\xa0", line).replace(" %", "\xa0%")


_UNSEEN = re.compile("[\0-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(cell: str) -> str:
    """Text in which letters that steer a terminal or turn the line around, and halves of letters
    that no file can hold, are written out.

    Examples
    --------
    >>> print(visible("a\\x1b[2Jb"))
    a\\x1b[2Jb
    """
    return _UNSEEN.sub(lambda found: found.group().encode("unicode_escape").decode(), cell)


# -- plain text -------------------------------------------------------------------------------


def text(
    table: TextTable, width: int | None = None, *, rule: bool = False, styled: bool = False
) -> str:
    """A table as aligned columns, no wider than the screen where that is possible.

    A name that leaves no room for its numbers gets a line of its own; numbers that do not fit on
    one line follow in a second table with the same names. `styled` sets the header and the
    table's strong cells in bold type.
    """
    table = table.map(visible)
    lines: list[str] = []
    for columns in _blocks(table, width):
        lines += ([""] if lines else []) + _block(table, columns, width, rule, styled)
    return "\n".join(lines)


def _blocks(table: TextTable, width: int | None) -> list[list[int]]:
    """The columns of numbers that stand beside each other, about as many in each block."""
    numbers = list(range(table.names, len(table.header)))
    widths = _widths(table)
    if width is None or not numbers:
        return [numbers]
    named = sum(widths[: table.names]) + len(GAP) * max(0, table.names - 1)
    room = width - min(named, LEAST_ROOM)

    def filled(most: int) -> list[list[int]]:
        blocks: list[list[int]] = [[]]
        for column in numbers:
            used = sum(widths[other] + len(GAP) for other in [*blocks[-1], column])
            if blocks[-1] and (used > room or len(blocks[-1]) == most):
                blocks.append([])
            blocks[-1].append(column)
        return blocks

    fewest = len(filled(len(numbers)))
    return next(
        found for most in range(1, len(numbers) + 1) if len(found := filled(most)) == fewest
    )


def _block(
    table: TextTable, columns: list[int], width: int | None, rule: bool, styled: bool
) -> list[str]:
    """The names of the rows and some columns of their numbers."""
    widths = _widths(table)
    every = [table.header, *table.rows]

    def shown(line: int, column: int, cell: str) -> str:
        is_strong = styled and (line == 0 or (line - 1, column) in table.strong)
        return bold(cell) if is_strong else cell

    numbers = [
        [_padded(row[n], widths[n], n in table.words) for n in columns] for row in every
    ]
    names = [
        GAP.join(_padded(row[n], widths[n], True) for n in range(table.names)).rstrip()
        for row in every
    ]
    longest = max(map(_width, names))
    taken = sum(widths[n] + len(GAP) for n in columns)
    room = longest if width is None else width - taken
    if longest > room:
        names = [GAP.join(row[: table.names]) for row in every]
        longest = max((size for size in map(_width, names) if size <= room), default=0)
    lines = []
    for line, (name, cells) in enumerate(zip(names, numbers, strict=True)):
        if _width(name) > longest:
            lines.append(shown(line, 0, name))
            name = ""
        while cells and not cells[-1].strip():
            cells = cells[:-1]
        cells = [*cells[:-1], *(cell.rstrip() for cell in cells[-1:])]
        name = _padded(name, longest, True) if cells else name
        parts = (GAP + shown(line, n, cell) for n, cell in zip(columns, cells, strict=False))
        lines.append(shown(line, 0, name) + "".join(parts))
    if rule:
        dash = "\N{BOX DRAWINGS LIGHT HORIZONTAL}"
        at = 2 if _width(names[0]) > longest else 1
        lines.insert(at, dash * min(longest + taken, width or sys.maxsize))
    return lines


def _widths(table: TextTable) -> list[int]:
    every = [table.header, *table.rows]
    return [max(_width(row[column]) for row in every) for column in range(len(table.header))]


def _padded(cell: str, width: int, left: bool) -> str:
    blank = " " * (width - _width(cell))
    return cell + blank if left else blank + cell


def _width(cell: str) -> int:
    """Columns that a cell takes up: two for each wide letter, none for an accent of its own."""
    if cell.isascii():
        return len(cell)
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in cell)
    return len(cell) + wide - sum(unicodedata.combining(letter) > 0 for letter in cell)


# -- Markdown ---------------------------------------------------------------------------------


def markdown(table: TextTable) -> str:
    """A Markdown table; cells are shown as they are, whatever letters they hold."""
    return pipes(table.map(escape_markdown))


def pipes(table: TextTable) -> str:
    """A Markdown table of cells that are Markdown already."""
    rule = ["---" if n in table.words else "---:" for n in range(len(table.header))]
    rows = [table.header, rule, *table.rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


_MARKDOWN = re.compile(r"[\\`*\[\]~|$]|(?<![^\W_])_|_(?![^\W_])")


def escape_markdown(cell: str) -> str:
    """Text that Markdown shows as it is.

    Examples
    --------
    >>> print(escape_markdown("r_precision | <b>"))
    r_precision \\| &lt;b&gt;
    """
    plain = visible(" ".join(cell.split()))
    for letter, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        plain = plain.replace(letter, entity)
    return _MARKDOWN.sub(lambda found: "\\" + found.group(), plain)


# -- LaTeX ------------------------------------------------------------------------------------


def latex(table: TextTable) -> str:
    """A booktabs tabular; cells are shown as they are, whatever letters they hold."""
    return tabular(table.map(escape_latex))


def tabular(table: TextTable) -> str:
    """A booktabs tabular of cells that are LaTeX already."""
    columns = "".join("l" if n in table.words else "r" for n in range(len(table.header)))
    lines = [_source_row(row) for row in [table.header, *table.rows]]
    body = [r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule"]
    return "\n".join([rf"\begin{{tabular}}{{{columns}}}", *body, r"\end{tabular}", ""])


def _source_row(cells: list[str]) -> str:
    """A row of a tabular, on as many lines of the source as keep it readable."""
    lines = [cells[0]]
    for cell in cells[1:]:
        if len(lines[-1]) + len(cell) > SOURCE_WIDTH:
            lines[-1] += " &"
            lines.append(f"{GAP}{cell}")
        else:
            lines[-1] += f" & {cell}"
    return "\n".join(lines) + r" \\"


_LATEX = {
    **{letter: f"\\{letter}" for letter in "_%&#${}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\char34{}",
    "[": "{[}",  # after a line break it would be taken for the break's own option
    LOWER: r"$\downarrow$",
    "\N{UPWARDS ARROW}": r"$\uparrow$",
}


def escape_latex(cell: str) -> str:
    r"""Text that LaTeX sets as it is; a number below zero gets a true minus.

    Examples
    --------
    >>> print(escape_latex("r_precision, 5 %"), escape_latex("-1.50"))
    r\_precision, 5 \% $-1.50$
    """
    plain = visible(" ".join(cell.split()))
    if re.fullmatch(r"-\d[\d.,]*", plain):
        return f"${plain}$"
    escaped = "".join(_LATEX.get(letter, letter) for letter in plain)
    return re.sub(r"(?<=[-'`?!,])(?=[-'`,])", "{}", escaped)  # no ligatures


# -- comma-separated values -------------------------------------------------------------------

_FORMULA = tuple("=+-@\N{FULLWIDTH EQUALS SIGN}\N{FULLWIDTH PLUS SIGN}"
                 "\N{FULLWIDTH HYPHEN-MINUS}\N{FULLWIDTH COMMERCIAL AT}")  # fmt: skip


def escape_csv(cell: Any) -> Any:
    """A cell of one line that no spreadsheet takes for a formula: text that begins like one gets an
    apostrophe, and control letters, which may begin a row, are written out.

    Numbers, also as text, stay as they are.

    Examples
    --------
    >>> escape_csv("=1+1"), escape_csv("-1.5"), escape_csv(-1.5), escape_csv("r_precision")
    ("'=1+1", '-1.5', -1.5, 'r_precision')
    >>> print(escape_csv("a\\r=1"))
    a\\r=1
    """
    if not isinstance(cell, str):
        return cell
    plain = visible(cell)
    if not plain.startswith(_FORMULA):
        return plain
    return plain if re.fullmatch(r"[-+]?[0-9]+(\.[0-9]*)?(e[-+]?[0-9]+)?", plain) else f"'{plain}"


def separated(header: Sequence[Any], rows: Iterable[Sequence[Any]]) -> str:
    """Comma-separated values; nothing for None, and nothing that a spreadsheet would run."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for row in (header, *rows):
        writer.writerow(["" if cell is None else escape_csv(cell) for cell in row])
    return out.getvalue()


# Tables and sentences as notebooks show them: HTML without scripts, in the colours of the page.
#
# Every text is escaped here, once; nothing sets a colour of letters or of the page, so that both
# are readable in a light and in a dark notebook.


LINE = "1px solid rgba(128, 128, 128, 0.5)"
CELL = "padding: 0.2em 0.7em; background: none; color: inherit;"
COLOURS = {"error": "#d55e00", "warning": "#e69f00", "note": "#56b4e9"}
"""Of the bar beside a finding: told apart by colour-blind people, and its word says the same."""


def escape(text: str) -> str:
    """Text as HTML shows it; control letters are written out."""
    return html.escape(visible(text))


def block(*parts: str) -> str:
    """Parts that are HTML already as one output."""
    style = "overflow-x: auto; max-width: 100%;"
    return f'<div class="truerank" style="{style}">{"".join(parts)}</div>'


def table(shown: TextTable) -> str:
    """A table; cells are shown as they are, whatever letters they hold.

    Examples
    --------
    >>> shown = TextTable(["metric", "score"], [["<b>", "9.5"]], words=(0,))
    >>> print(table(shown).count("&lt;b&gt;"))
    1
    """
    head = "".join(_cell("th", cell, n in shown.words) for n, cell in enumerate(shown.header))
    rows = "".join(
        f"<tr>{''.join(_cell('td', cell, n in shown.words) for n, cell in enumerate(row))}</tr>"
        for row in shown.rows
    )
    style = f"border-collapse: collapse; border-top: {LINE}; border-bottom: {LINE};"
    style += " font-variant-numeric: tabular-nums; margin: 0.3em 0;"
    return f'<table style="{style}"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'


def _cell(tag: str, text: str, words: bool) -> str:
    line = f" border-bottom: {LINE};" if tag == "th" else ""
    side = "left" if words else "right"
    scope = ' scope="col"' if tag == "th" else ""
    style = f"text-align: {side}; {CELL}{line}"
    return f'<{tag}{scope} style="{style}">{escape(text)}</{tag}>'


def heading(text: str) -> str:
    """A line above a table."""
    return f'<p style="margin: 0.6em 0 0.2em 0;"><strong>{escape(text)}</strong></p>'


def paragraphs(sentences: Iterable[str]) -> str:
    """Sentences below a table, each on a line of its own."""
    lines = "<br>".join(escape(sentence) for sentence in sentences)
    return f'<p style="margin: 0.3em 0; opacity: 0.85;">{lines}</p>' if lines else ""


def marked(severity: str, sentences: Iterable[str]) -> str:
    """Sentences beside a bar in the colour of their severity, which stands before them."""
    bar = f"border-left: 4px solid {COLOURS[severity]}; padding-left: 0.7em; margin: 0.5em 0;"
    lines = "<br>".join(escape(sentence) for sentence in sentences)
    return f'<div style="{bar}"><strong>{escape(severity)}</strong>: {lines}</div>'
