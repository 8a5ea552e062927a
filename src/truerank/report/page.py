"""The HTML page: template, tables, thumbnails and figures of a benchmark, all inside one file.

Nothing is loaded from anywhere: the content security policy forbids every connection and names
the scripts by their hash. What users named is never part of the markup; scripts insert it as
text.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from truerank._util.errors import InputError
from truerank._util.installed import __version__, install
from truerank._util.text import unbroken, visible
from truerank.core import registry
from truerank.io.pictures import Pictures

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
        conclusion=[unbroken(sentence) for sentence in data["conclusion"]],
        credits=data["credits"],
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


# Tables as the page takes them: columns with a kind, rows of plain values, a name for the file.


CELL_KINDS = ("text", "count", "percent", "number")
KEPT = 6
"""Decimals of a share that a page keeps, or as many more as it takes to print it right."""


def column(name: str, kind: str = "text", *, decimals: int = 2, hint: str = "") -> dict[str, Any]:
    """A column: text, a count, a share shown in percent, or a number (as text: as it is)."""
    assert kind in CELL_KINDS
    return {"name": name, "kind": kind, "decimals": decimals, "hint": hint}


def metric_column(metric: str) -> dict[str, Any]:
    """The column of a metric's values, under its name in the API in files."""
    known = registry.find(metric)
    kind = "percent" if known.unit == "share" else "number"
    shown = column(named(metric), kind, decimals=known.decimals, hint=known.title)
    return shown | {"in_files": metric}


def named(metric: str) -> str:
    """The display name of a metric, with an arrow if lower is better."""
    arrow = "" if registry.find(metric).higher_is_better else " \N{DOWNWARDS ARROW}"
    return registry.display_name(metric) + arrow


def page_table(
    title: str,
    columns: Sequence[dict[str, Any]],
    rows: Iterable[Sequence[Any]],
    *,
    note: str = "",
    sorted_by: tuple[int, str] | None = None,
    file: str | None = None,
) -> dict[str, Any]:
    """A table that the page sorts, searches and writes as CSV."""
    return {
        "title": title,
        "columns": list(columns),
        "rows": [list(row) for row in rows],
        "note": note,
        "sorted": None if sorted_by is None else list(sorted_by),
        "file": file_name(file or title),
    }


def file_name(text: str) -> str:
    """A name that any system takes, whatever the text holds.

    Examples
    --------
    >>> file_name("group <b>/../x")
    'group-b-x.csv'
    """
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-").lower()[:60]
    return f"{plain or 'table'}.csv"


def shortened(value: float | None, decimals: int = 2) -> float | None:
    """A share with few decimals that still prints, in percent, as it does with all of them."""
    if value is None or not math.isfinite(value):
        return None
    shown = f"{100 * value:.{decimals}f}"
    for kept in (decimals + 4, KEPT + 4, 12):
        short = round(value, kept)
        if f"{100 * short:.{decimals}f}" == shown:
            return short
    return value


# Small pictures of the rows that a page shows, as text that stands in the page itself.


SIDE = 96
"""Pixels of the longer side."""


def _thumbnail(picture: Any) -> str | None:
    """A picture as a data URI, SIDE pixels at most."""
    if picture is None:
        return None
    picture.thumbnail((SIDE, SIDE))
    out = io.BytesIO()
    picture.save(out, "WEBP", quality=80, method=6)
    return f"data:image/webp;base64,{base64.b64encode(out.getvalue()).decode()}"


def thumbnails(data: dict[str, Any], queries: Pictures, items: Pictures) -> dict[str, str]:
    """The pictures of all rows that a page shows, each once: q1 is query 1, g1 gallery row 1."""
    held: dict[str, str] = {}
    seen = set()
    for side, about in _shown_rows(data):
        key = f"{side}{about['row']}"
        if key not in seen:
            seen.add(key)
            found = _thumbnail((queries if side == "q" else items).picture(about))
            if found is not None:
                held[key] = found
    if not seen:
        raise InputError(
            "images are shown beside queries, which this result does not hold: write it with "
            "evaluate --report, or leave the images out."
        )
    if not held:
        raise InputError("no image was found for any row shown: file names must be the rows' ids.")
    return held


def _shown_rows(data: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The side and what is known of each row that a page shows as a tile."""
    strips = []
    for model in data["models"]:
        ranked = model["ranked"] or {}
        strips += [*ranked.get("worst", []), *ranked.get("best", [])]
        for query, item in (model["confusions"] or {}).get("examples", []):
            yield from (("q", query), ("g", item))
    for pair in ((data["comparison"] or {}).get("solved") or {}).get("pairs", []):
        for kind in pair.get("strips") or []:
            strips += [query for both in kind for query in both.values()]
    for query in strips:
        yield "q", query
        first = query.get("first")
        yield from (("g", item) for item in [*query["neighbours"], *([first] if first else [])])


# The folder of a benchmark on a page: its tables, and its figures as text in the page itself.


FIGURE_KINDS = {".svg": "svg+xml", ".png": "png"}
PARTS = {"concatenated": "Concatenated", "separated": "Separated"}


def is_benchmark(path: Path) -> bool:
    """Whether a path is the folder of a benchmark."""
    return path.is_dir() and (path / "config.yaml").is_file()


def benchmark_data(folder: Path) -> dict[str, Any]:
    """The tables of a finished benchmark, the sentences below them, and all its figures."""
    table = folder / "table.json"
    if not table.is_file():
        raise InputError(f"{folder} holds no table: the benchmark is not finished; --resume it.")
    content = json.loads(table.read_text(encoding="utf-8"))
    return {
        "name": folder.resolve().name,
        "tables": [*(_scores(content, part) for part in PARTS), _parameters(content)],
        "notes": _notes(folder / "table.md"),
        "figures": [_inlined(path) for path in _figures(folder / "figures")],
    }


def _scores(content: Mapping[str, Any], part: str) -> dict[str, Any]:
    """A row a method: the mean over reruns and half its interval, metric by metric, and ranks."""
    columns = [column("method")]
    for metric in content["metrics"]:
        mean = metric_column(metric)
        columns += [mean, {**mean, "name": "\N{PLUS-MINUS SIGN}", "hint": "half the 95 % interval"}]
    rows = []
    for row in content["rows"]:
        cells = [row["name"]]
        for metric in content["metrics"]:
            cells += _mean_and_half(row[part].get(metric))
        rows.append([*cells, _ranks(row, part)])
    columns.append(column(f"ranks by {content['metric']}", hint="those that the tests leave open"))
    return page_table(PARTS[part], columns, rows, file=f"benchmark {part}")


def _mean_and_half(score: Mapping[str, Any] | None) -> list[float | None]:
    if score is None:
        return [None, None]
    ends = score["interval"]
    return [score["mean"], None if ends is None else (ends[1] - ends[0]) / 2]


def _ranks(row: Mapping[str, Any], part: str) -> str:
    if "ranks" not in row:
        return ""
    first, last = row["ranks"][part]
    return str(first) if first == last else f"{first}-{last}"


def _parameters(content: Mapping[str, Any]) -> dict[str, Any]:
    """What the searches found, and what it gains over the default parameters."""
    metric = content["metric"]
    columns = [column("method"), column("parameters found"), column("notes")]
    for name in ("default", "searched"):
        columns.append({**metric_column(metric), "name": name, "hint": f"{metric}, separated"})
    rows = []
    for row in content["rows"]:
        if "parameters" not in row:
            continue
        found = ", ".join(f"{name} {_short(value)}" for name, value in row["parameters"].items())
        scores = (row["default"]["separated"].get(metric), row["separated"].get(metric))
        means = [None if score is None else score["mean"] for score in scores]
        rows.append([row["name"], found, "; ".join(row["notes"]), *means])
    return page_table("Parameters", columns, rows, file="benchmark parameters")


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _notes(path: Path) -> list[str]:
    """The sentences below the table that the benchmark wrote for people."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [line.removeprefix("- ") for line in lines if line.startswith("- ")]


def _figures(folder: Path) -> list[Path]:
    """One file of each name, drawn in lines where there is a choice."""
    found: dict[str, Path] = {}
    for kind in FIGURE_KINDS:
        for path in sorted(folder.glob(f"*{kind}")):
            found.setdefault(path.stem, path)
    return [found[name] for name in sorted(found)]


def _inlined(path: Path) -> dict[str, str]:
    data = base64.b64encode(path.read_bytes()).decode()
    return {"name": path.stem, "image": f"data:image/{FIGURE_KINDS[path.suffix]};base64,{data}"}
