"""threshold_card: one page about thresholds for deployment, from a labelled set.

It gives per FAR target the threshold with its interval and what it leads to, the FAR as the
gallery grows, the classes served worst, and the same on further sets.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from truerank._util import text
from truerank._util.errors import InputError, shortened
from truerank._util.files import write_text
from truerank._util.text import TextTable, either, reworded
from truerank.analysis.operating_points import WORST, Judgement, OperatingPoint, TaskTrials
from truerank.analysis.thresholds import (
    another_set,
    applied,
    check_alike,
    choose,
    first_set,
    target_of,
)
from truerank.distance import catalogue
from truerank.io.vectors import chosen_distance
from truerank.result.gallery_sizes import check_sizes

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
class CardSection:
    """A table of the card with its title and what to know about it."""

    title: str
    table: TextTable
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ThresholdCard:
    """Thresholds for some FAR targets, with their error rates."""

    points: tuple[OperatingPoint, ...]
    growth: tuple[tuple[AtGallerySize, ...], ...]
    """For each point, what it leads to at gallery sizes."""
    further: Mapping[str, tuple[Judgement, ...]]
    """By the name of a further set, what each point leads to there."""
    rows: int
    title: str = "Thresholds"

    def sections(self) -> list[CardSection]:
        """The tables of the card, in the order in which they are read."""
        found = [self._thresholds(), self._grown()]
        found += [self._worst()] if self.points[0].classes else []
        return found + ([self._transfer()] if self.further else [])

    def _thresholds(self) -> CardSection:
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
                "FAR: unmated queries that accept any item. FRR: relevant item not found first "
                "or not accepted."
            )
        else:
            notes.append("FAR: negative pairs accepted. FRR: positive pairs rejected.")
        units = "classes" if self.points[0].levels else "queries"
        notes.append(f"Rates in percent; intervals of 95 % over {units}, in brackets.")
        if self.points[0].excluded:
            notes.append(f"Never a pair: {', '.join(map(reworded, self.points[0].excluded))}.")
        if self.points[0].optimistic:
            notes.append("Chosen and judged on the same data, which is optimistic.")
        return CardSection("Thresholds", TextTable(header, rows), tuple(notes))

    def _grown(self) -> CardSection:
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
        units = "classes" if self.points[0].levels else "queries"
        who = "unmated queries" if self.points[0].search else "rows, their own class away,"
        return CardSection(
            "As the gallery grows",
            TextTable(header, rows),
            (
                f"FAR: {who} that accept any item. DIR: relevant item found first and accepted.",
                "Exact means over all galleries of these sizes that keep a query's relevant items; "
                f"intervals of 95 % over {units}, in brackets.",
            ),
        )

    def _worst(self) -> CardSection:
        rows = [
            [_asked(point), str(one.label), _rate(one.frr), _rate(one.far)]
            for point in self.points
            for one in point.classes[:WORST]
        ]
        return CardSection(
            "Classes served worst",
            TextTable(["FAR asked for", "class", "FRR", "FAR"], rows, (0, 1)),
        )

    def _transfer(self) -> CardSection:
        rows = []
        for name, judgements in self.further.items():
            for point, one in zip(self.points, judgements, strict=True):
                values = [_rate(one.values.get(k), one.intervals.get(k)) for k in ("far", "frr")]
                rows.append([name, _asked(point), point.decimal, *values])
        header = ["set", "FAR asked for", "threshold", "FAR", "FRR"]
        return CardSection(
            "On further sets", TextTable(header, rows, (0, 1)), ("The same thresholds, kept.",)
        )

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self) -> str:
        """Plain text, as wide as the screen."""
        width = text.screen_width()
        parts = []
        for one in self.sections():
            table = text.text(one.table, width)
            lines = [one.title, "", table, *text.fill(one.notes, width)]
            parts.append("\n".join(lines))
        return text.printable("\n\n".join(parts)) + "\n"

    def to_markdown(self) -> str:
        """Markdown with a heading for each table."""
        parts = [f"# {text.escape_markdown(self.title)}\n"]
        for one in self.sections():
            notes = "".join(f"\n{text.escape_markdown(note)}\n" for note in one.notes)
            parts.append(f"## {one.title}\n\n{text.markdown(one.table)}{notes}")
        return "\n".join(parts)

    def to_html(self) -> str:
        """A complete page that opens offline and runs nothing."""
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
        from truerank._util.files import to_json

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
    query_ids: Any = None,
    gallery_ids: Any = None,
    query_groups: Any = None,
    gallery_groups: Any = None,
    junk: Any = None,
    junk_labels: Iterable[Any] = (),
    relevance: Any = None,
    unlabelled: str = "error",
    apply: Any = None,
    apply_labels: Any = None,
    further: Mapping[str, Any] | None = None,
    gallery_sizes: Iterable[int] | None = None,
    distance: str | None = None,
    device: str = "auto",
    threads: int | None = None,
    title: str = "Thresholds",
) -> ThresholdCard:
    """Choose thresholds for some FAR targets, and show their error rates on one page.

    Parameters
    ----------
    embeddings, labels, gallery, gallery_labels, query_ids, gallery_ids, query_groups, \
gallery_groups, junk, junk_labels, relevance, unlabelled, apply, apply_labels, distance, device, \
threads
        As in choose_threshold.
    fars : rates
        FAR targets, each with a threshold.
    further : mapping from names to sets, optional
        Further sets on which the same thresholds are judged; with a gallery they search in it. A
        set is (embeddings, labels), or a mapping of keywords as `apply` may be.
    gallery_sizes : ints, optional
        Gallery sizes at which FAR and DIR are shown; powers of ten and all items by default.
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
    distance = chosen_distance(distance, embeddings, gallery)
    options: dict[str, Any] = {"distance": distance, "device": device, "threads": threads}
    given = {
        "embeddings": embeddings,
        "labels": labels,
        "gallery": gallery,
        "gallery_labels": gallery_labels,
        "query_ids": query_ids,
        "gallery_ids": gallery_ids,
        "query_groups": query_groups,
        "gallery_groups": gallery_groups,
        "junk": junk,
        "junk_labels": junk_labels,
        "relevance": relevance,
        "unlabelled": unlabelled,
    }
    further = {} if further is None else further
    if not isinstance(further, Mapping):
        raise InputError(
            "The 'further' parameter must be a mapping from names to sets, such as "
            f"{{'others': (embeddings, labels)}}. Got {shortened(further)} instead."
        )
    sets = {str(name): _keywords(one) for name, one in further.items()}
    other = applied(apply, {"labels": apply_labels})
    return card_of(
        first_set(given, options),
        None if other is None else another_set("apply", other, given, options),
        {name: another_set(name, one, given, options) for name, one in sets.items()},
        targets=targets,
        gallery_sizes=gallery_sizes,
        title=str(title),
    )


def card_of(
    chosen_on: TaskTrials,
    judged_on: TaskTrials | None,
    further: Mapping[str, TaskTrials],
    *,
    targets: Iterable[float | str],
    gallery_sizes: Iterable[int] | None,
    title: str,
) -> ThresholdCard:
    """Make the card of thresholds that are chosen on trials and judged on others."""
    points = [choose(chosen_on, *target_of(far=far), judged_on) for far in targets]
    seen = chosen_on if judged_on is None else judged_on
    whole = seen.task.items
    sizes = check_sizes(_powers(whole) if gallery_sizes is None else gallery_sizes, whole)
    found = {}
    for name, trials in further.items():
        check_alike(chosen_on, name, trials)
        found[name] = tuple(trials.judge(float(point.decimal)) for point in points)
    growth = tuple(_grown(point.decimal, seen, sizes) for point in points)
    return ThresholdCard(tuple(points), growth, found, chosen_on.task.queries, title)


def _keywords(one: Any) -> Mapping[str, Any]:
    """Return a set as a mapping of keywords; it may be a pair of embeddings and labels."""
    pair = one if isinstance(one, tuple | list) and len(one) == 2 else (one, None)
    first, labels = pair
    return first if isinstance(first, Mapping) else {"embeddings": first, "labels": labels}


def _targets(fars: Any) -> list[float | str]:
    if isinstance(fars, (str, bytes)) or not np.iterable(fars):
        raise InputError(
            "The 'fars' parameter must be rates, such as (0.01, 0.001). "
            f"Got {shortened(fars)} instead."
        )
    targets = list(fars)
    if not targets:
        raise InputError("fars is empty; a card needs at least one FAR target.")
    return targets


def _powers(whole: int) -> list[int]:
    """Powers of ten below the whole, and the whole."""
    return [*(10**power for power in range(1, 19) if 10**power < whole), whole]


def _grown(tau: str, trials: TaskTrials, sizes: Sequence[int]) -> tuple[AtGallerySize, ...]:
    """Return FAR and DIR at a threshold over gallery sizes.

    Without a gallery every row is an unmated query once what is relevant to it is excluded.
    """
    more: dict[str, Any] = {"confidence": 0.95, "gallery_sizes": sizes}
    names = [f"far@tau={tau}", f"dir@tau={tau}"]
    unmated = found = trials.evaluate(names, **more)
    if trials.task.leave_one_out:
        unmated = trials.evaluate(names[:1], task=trials.task.without_relevant(), **more)
    found_at = []
    for size in sizes:
        far, far_interval = _told(unmated, size, f"far@tau={tau}")
        hits, dir_interval = _told(found, size, f"dir@tau={tau}")
        found_at.append(AtGallerySize(size, far, hits, far_interval, dir_interval))
    return tuple(found_at)


def _told(result: Any, size: int, metric: str) -> tuple[float | None, Ends | None]:
    """A score at a gallery size and its interval."""
    score = result.at_gallery(size)[metric]
    return (None, None) if score.reason is not None else (float(score.value), score.interval)


def _asked(point: OperatingPoint) -> str:
    return f"{100 * point.target:g} %"


def _rate(value: float | None, ends: Ends | None = None) -> str:
    """A rate in percent with three digits, and its interval."""
    if value is None:
        return "-"
    shown = f"{100 * value:.3g}"
    return shown if ends is None else f"{shown} ({100 * ends[0]:.3g} to {100 * ends[1]:.3g})"
