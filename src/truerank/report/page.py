"""The page as text: a template, the data as JSON, and scripts that a policy names by their hash.

Nothing is loaded from anywhere: the policy forbids every connection. What users named is never part
of the markup; scripts put it into the page as text.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from truerank.errors import InputError
from truerank.extras import install
from truerank.typesetting import visible
from truerank.version import __version__

__all__ = ["check_templates", "render", "render_card"]

SCRIPTS = ("text.js", "tables.js", "charts.js", "curves.js", "slider.js", "sections.js",
           "comparison.js", "page.js")  # fmt: skip
ESCAPED = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def check_templates() -> None:
    """Refuse to begin what could not be rendered in the end."""
    try:
        import jinja2  # noqa: F401
    except ImportError as error:
        raise InputError(f"a report needs jinja2: {install('report')}.") from error


def render(title: str, data: dict[str, Any]) -> str:
    """The whole page."""
    check_templates()
    from jinja2 import Environment

    plotly, script = _asset("plotly-cartesian.min.js"), "\n".join(map(_asset, SCRIPTS))
    data = shown(data)
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(_asset("page.html.jinja")).render(
        title=visible(title),
        version=__version__,
        models=data["models"],
        policy=_policy(plotly, script),
        style=_asset("page.css"),
        data=as_json(data),
        plotly=plotly,
        script=script,
    )


def render_card(title: str, sections: Sequence[Any]) -> str:
    """A page of tables, each with a title and notes, that runs no script at all."""
    check_templates()
    from jinja2 import Environment

    environment = Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, finalize=_on_one_line
    )
    return environment.from_string(_asset("card.html.jinja")).render(
        title=title, version=__version__, style=_asset("page.css"), sections=sections
    )


def _on_one_line(value: Any) -> Any:
    """A text of a template with control letters written out; markup stays as it is."""
    return visible(value) if type(value) is str else value


def shown(value: Any) -> Any:
    """Plain values with control letters of their texts written out, except ends of lines.

    Markup, which is another type, stays as it is.
    """
    if type(value) is str:
        return "\n".join(map(visible, value.split("\n")))
    if isinstance(value, dict):
        return {shown(key): shown(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [shown(inner) for inner in value]
    return value


def as_json(data: Any) -> str:
    """JSON that no parser of markup can mistake for markup."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    for character, escaped in ESCAPED.items():
        text = text.replace(character, escaped)
    return text


def _policy(*scripts: str) -> str:
    """What the page may do: run these very scripts, and show pictures that it holds itself."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()}'"
        for one in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; connect-src 'none'; base-uri 'none'; form-action 'none'"
    )


def _asset(name: str) -> str:
    return (files("truerank.report") / "assets" / name).read_text(encoding="utf-8")
