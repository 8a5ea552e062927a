"""threshold_card: one page about thresholds for a deployer, from a labelled set.

For each FAR target the threshold with its interval and what it leads to, the FAR that it becomes as
the gallery grows, the classes served worst, and what it leads to on further sets.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from truerank import typesetting
from truerank.arrays import as_matrix
from truerank.errors import InputError, shortened
from truerank.evaluation import evaluate
from truerank.files import read_side, write_text
from truerank.galleries import check_sizes
from truerank.space import catalogue
from truerank.threshold import OperatingPoint, choose_threshold
from truerank.threshold.judged import Judgement
from truerank.threshold.pairs import PairTrials
from truerank.threshold.point import WORST
from truerank.threshold.search import Searches
from truerank.typesetting import Table
from truerank.wording import either

__all__ = ["CARD_ENDINGS", "AtGallerySize", "ThresholdCard", "check_ending", "threshold_card"]

FARS = ("0.1", "0.01", "0.001")
CARD_ENDINGS = (".html", ".md", ".txt", ".json")
"""Endings of files that a card is written to."""
Ends = tuple[float, float]


@dataclass(frozen=True)
class AtGallerySize:
    """What a threshold leads to in a gallery of so many items."""

    size: int
    far: float | None
    """A stranger, who is not there, accepts some item."""
    dir: float | None
    """A mate is found first and accepted."""
    far_interval: Ends | None = None
    dir_interval: Ends | None = None
    """Intervals of 95 % over classes, where there are enough of them."""


@dataclass(frozen=True)
class Section:
    """A table of the card with its title and what to know about it."""

    title: str
    table: Table
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ThresholdCard:
    """Thresholds for some FAR targets, and all that a deployer wants to know of them."""

    points: tuple[OperatingPoint, ...]
    growth: tuple[tuple[AtGallerySize, ...], ...]
    """For each point, what it leads to at gallery sizes."""
    further: Mapping[str, tuple[Judgement, ...]]
    """By the name of a further set, what each point leads to there."""
    rows: int
    title: str = "Thresholds"

    def sections(self) -> list[Section]:
        """The tables of the card, in the order in which they are read."""
        found = [self._thresholds(), self._grown(), self._worst()]
        return found + ([self._transfer()] if self.further else [])

    def _thresholds(self) -> Section:
        near = catalogue.find(self.points[0].distance).larger_is_nearer
        accept = "accept from" if near else "accept up to"
        header = ["FAR asked for", accept, "may lie between", "FAR", "FRR", "DIR, rank 1"]
        rows = []
        for point in self.points:
            ends = point.threshold_interval
            between = "-" if ends is None else f"{ends[0]:.6g} to {ends[1]:.6g}"
            values = [_rate(point.values.get(k), point.intervals.get(k)) for k in ("far", "frr")]
            found = point.values.get("dir")
            if point.search and "frr" in point.values:
                found = 1 - point.values["frr"]
            rows.append([_asked(point), point.decimal, between, *values, _rate(found)])
        notes = [f"{self.rows:,} rows, {self.points[0].distance} distance."]
        if self.points[0].search:
            notes.append(
                "FAR: queries without a mate that accept any item. FRR: mate not found first or "
                "not accepted."
            )
        else:
            notes.append("FAR: pairs of two classes accepted. FRR: pairs of one class rejected.")
        notes.append("Rates in percent; intervals of 95 % over classes, in brackets.")
        if self.points[0].optimistic:
            notes.append("Chosen and judged on the same data, which is optimistic.")
        return Section("Thresholds", Table(header, rows), tuple(notes))

    def _grown(self) -> Section:
        header = ["items in the gallery"]
        for point in self.points:
            header += [f"FAR at {point.decimal}", f"DIR at {point.decimal}"]
        rows = []
        for place, first in enumerate(self.growth[0] if self.growth else ()):
            row = [f"{first.size:,}"]
            for one in self.growth:
                here = one[place]
                row += [_rate(here.far, here.far_interval), _rate(here.dir, here.dir_interval)]
            rows.append(row)
        who = "queries without a mate" if self.points[0].search else "rows, their own class away,"
        return Section(
            "As the gallery grows",
            Table(header, rows),
            (
                f"FAR: {who} that accept any item. DIR: mate found first and accepted.",
                "Exact means over all galleries of these sizes that keep a query's mates; "
                "intervals of 95 % over classes, in brackets.",
            ),
        )

    def _worst(self) -> Section:
        rows = [
            [_asked(point), str(one.label), _rate(one.frr), _rate(one.far)]
            for point in self.points
            for one in point.classes[:WORST]
        ]
        return Section(
            "Classes served worst", Table(["FAR asked for", "class", "FRR", "FAR"], rows, (0, 1))
        )

    def _transfer(self) -> Section:
        rows = []
        for name, judgements in self.further.items():
            for point, one in zip(self.points, judgements, strict=True):
                values = [_rate(one.values.get(k), one.intervals.get(k)) for k in ("far", "frr")]
                rows.append([name, _asked(point), point.decimal, *values])
        header = ["set", "FAR asked for", "threshold", "FAR", "FRR"]
        return Section(
            "On further sets", Table(header, rows, (0, 1)), ("The same thresholds, kept.",)
        )

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self) -> str:
        """Plain text, as wide as the screen."""
        width = typesetting.screen_width()
        parts = []
        for one in self.sections():
            table = typesetting.text(one.table, width)
            lines = [one.title, "", table, *typesetting.fill(one.notes, width)]
            parts.append("\n".join(lines))
        return typesetting.printable("\n\n".join(parts)) + "\n"

    def to_markdown(self) -> str:
        """Markdown with a heading for each table."""
        parts = [f"# {typesetting.escape_markdown(self.title)}\n"]
        for one in self.sections():
            notes = "".join(f"\n{typesetting.escape_markdown(note)}\n" for note in one.notes)
            parts.append(f"## {one.title}\n\n{typesetting.markdown(one.table)}{notes}")
        return "\n".join(parts)

    def to_html(self) -> str:
        """A page of its own that opens offline and runs nothing."""
        from truerank.report.page import render_card

        return render_card(self.title, self.sections())

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "format": "truerank-threshold-card",
            "points": [point.to_dict() for point in self.points],
            "gallery_sizes": [[vars(one) for one in some] for some in self.growth],
            "further": {
                name: [{"values": one.values, "intervals": one.intervals} for one in judgements]
                for name, judgements in self.further.items()
            },
        }

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the card as its file's ending says: .html, .md, .txt or .json."""
        from truerank.files import to_json

        check_ending(path)
        ending = Path(path).suffix.lower()
        if ending == ".json":
            to_json(self.to_dict(), path)
            return
        forms = {".html": self.to_html, ".md": self.to_markdown, ".txt": self.to_text}
        write_text(path, forms[ending]())


def check_ending(path: str | os.PathLike[str]) -> None:
    """Refuse a file to which no card is written."""
    if Path(path).suffix.lower() not in CARD_ENDINGS:
        raise InputError(f"a card is written to {either(CARD_ENDINGS)}. Got {Path(path).name!r}.")


def threshold_card(
    embeddings: Any,
    labels: Any = None,
    *,
    fars: Iterable[float | str] = FARS,
    gallery: Any = None,
    gallery_labels: Any = None,
    apply: Any = None,
    apply_labels: Any = None,
    further: Mapping[str, tuple[Any, Any]] | None = None,
    gallery_sizes: Iterable[int] | None = None,
    distance: str = "cosine",
    device: str = "auto",
    threads: int | None = None,
    title: str = "Thresholds",
) -> ThresholdCard:
    """Thresholds for some FAR targets, and what they lead to: one page for a deployer.

    Parameters
    ----------
    embeddings, labels, gallery, gallery_labels, apply, apply_labels, distance, device, threads
        As in choose_threshold.
    fars : rates
        FAR targets, each with a threshold of its own.
    further : mapping from names to (embeddings, labels), optional
        Further sets on which the same thresholds are judged; with a gallery they search in it.
    gallery_sizes : ints, optional
        Gallery sizes at which FAR and DIR are told; powers of ten and all items by default.
    title : str
        What stands above the page.

    Examples
    --------
    >>> import numpy as np, truerank
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(np.arange(20), 5)
    >>> x = rng.normal(size=(20, 8))[y] + 0.5 * rng.normal(size=(100, 8))
    >>> card = truerank.threshold_card(x, y, fars=[0.01])
    >>> [(one.size, round(one.far, 3)) for one in card.growth[0]]
    [(10, 0.091), (100, 0.48)]
    """
    targets = _targets(fars)
    options: dict[str, Any] = {"distance": distance, "device": device, "threads": threads}
    given = {
        "gallery": gallery,
        "gallery_labels": gallery_labels,
        "apply": apply,
        "apply_labels": apply_labels,
    }
    points = [choose_threshold(embeddings, labels, far=far, **given, **options) for far in targets]
    side = read_side(embeddings, labels)
    rows = as_matrix(side.embeddings, "embeddings")
    searched = read_side(gallery, gallery_labels)
    items = None if gallery is None else as_matrix(searched.embeddings, "gallery")
    judged = side if apply is None else read_side(apply, apply_labels)
    seen = rows if apply is None else as_matrix(judged.embeddings, "apply")
    whole = len(seen) if items is None else len(items)
    sizes = check_sizes(_powers(whole) if gallery_sizes is None else gallery_sizes, whole)
    growth = [
        _grown(point.decimal, seen, judged.labels, items, searched.labels, sizes, options)
        for point in points
    ]
    found = {
        str(name): tuple(_judged(points, pair, items, searched.labels, options))
        for name, pair in (further or {}).items()
    }
    return ThresholdCard(tuple(points), tuple(growth), found, len(rows), str(title))


def _targets(fars: Any) -> list[float | str]:
    if isinstance(fars, (str, bytes)) or not np.iterable(fars):
        raise InputError(
            "The 'fars' parameter must be rates, such as (0.01, 0.001). "
            f"Got {shortened(fars)} instead."
        )
    targets = list(fars)
    if not targets:
        raise InputError("a card needs at least one FAR target.")
    return targets


def _powers(whole: int) -> list[int]:
    """Powers of ten below the whole, and the whole."""
    return [*(10**power for power in range(1, 19) if 10**power < whole), whole]


def _grown(
    tau: str,
    rows: Any,
    labels: Any,
    items: Any,
    item_labels: Any,
    sizes: Sequence[int],
    options: dict[str, Any],
) -> tuple[AtGallerySize, ...]:
    """FAR and DIR at a threshold over gallery sizes; without a gallery every row is a stranger
    once its own class is away."""
    more = {"gallery_sizes": sizes, **options}
    if items is not None:
        given = {"gallery": items, "gallery_labels": item_labels}
        names = [f"far@tau={tau}", f"dir@tau={tau}"]
        result = evaluate(rows, labels, metrics=names, **given, **more)
        strangers = found = result
    else:
        # all in one group: nobody has a mate, and for the intervals every row counts all the same
        alone: dict[str, Any] = {"query_groups": np.zeros(len(rows), np.int64), "no_mate": "zero"}
        strangers = evaluate(rows, labels, metrics=[f"far@tau={tau}"], **alone, **more)
        found = evaluate(rows, labels, metrics=[f"dir@tau={tau}"], **more)
    found_at = []
    for size in sizes:
        far, far_interval = _told(strangers, size, f"far@tau={tau}")
        hits, dir_interval = _told(found, size, f"dir@tau={tau}")
        found_at.append(AtGallerySize(size, far, hits, far_interval, dir_interval))
    return tuple(found_at)


def _told(result: Any, size: int, metric: str) -> tuple[float | None, Ends | None]:
    """A score at a gallery size and its interval."""
    score = result.at_gallery(size)[metric]
    return (None, None) if score.reason is not None else (float(score.value), score.interval)


def _judged(
    points: Sequence[OperatingPoint],
    pair: tuple[Any, Any],
    items: Any,
    item_labels: Any,
    options: dict[str, Any],
) -> Iterable[Judgement]:
    """What each threshold leads to on another set."""
    side = read_side(*pair)
    rows = as_matrix(side.embeddings, "further")
    trials: PairTrials | Searches = (
        PairTrials(rows, side.labels, options)
        if items is None
        else Searches(rows, side.labels, items, item_labels, options)
    )
    for point in points:
        yield trials.judge(float(point.decimal))


def _asked(point: OperatingPoint) -> str:
    return f"{100 * point.target:g} %"


def _rate(value: float | None, ends: Ends | None = None) -> str:
    """A rate in percent with three digits, and its interval."""
    if value is None:
        return "-"
    shown = f"{100 * value:.3g}"
    return shown if ends is None else f"{shown} ({100 * ends[0]:.3g} to {100 * ends[1]:.3g})"
