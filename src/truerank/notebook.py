"""Tables and sentences as notebooks show them: HTML without scripts, in the colours of the page.

Every text is escaped here, once; nothing sets a colour of letters or of the page, so that both are
readable in a light and in a dark notebook.
"""

from __future__ import annotations

import html
from collections.abc import Iterable

from truerank.typesetting import Table, visible

__all__ = ["block", "escape", "heading", "marked", "paragraphs", "table"]

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


def table(shown: Table) -> str:
    """A table; cells are shown as they are, whatever letters they hold.

    Examples
    --------
    >>> print(table(Table(["metric", "score"], [["<b>", "9.5"]], words=(0,))).count("&lt;b&gt;"))
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
