"""Result: scores with everything needed to check them, as table, JSON or data frame.

Attributes of queries (id, label, exclusion group) are what `Result.by` splits a result by.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from truerank._util.errors import InputError, UnknownMetricError, shortened
from truerank._util.old_names import RenamedAttribute
from truerank._util.types import Integers
from truerank.core import registry
from truerank.core.curve import FIRST_RANKS
from truerank.core.score import Score, part_score
from truerank.io.tables import NAMES
from truerank.result import tables
from truerank.result.curves import DrawnCurves, Severity, bars_of
from truerank.result.gallery_sizes import Galleries, read_sizes, save_sizes
from truerank.result.schema import check_result

if TYPE_CHECKING:
    from truerank.core.curve import Curve
    from truerank.core.score import AtSize
    from truerank.metrics.thresholds.consistency import Consistency
    from truerank.result.curves import NearestRelevant
    from truerank.result.ranked_rows import HeldRows, Neighbors


SCHEMA_VERSION = 1
MOST_IN_REPR = 3
"""Metrics that the short form of a result names."""
_TWINS = {"hit@1": "precision@1", "precision@1": "hit@1"}
"""One item at rank 1 is a hit or not: the two metrics are the same number."""


class Result(Galleries, Mapping[str, Score]):
    """Scores by metric, with the facts of the run.

    Any spelling of a metric finds it: `result["cmc@5"]` is `result["hit@5"]`.
    """

    def __init__(
        self,
        scores: Mapping[str, Score],
        *,
        skipped: Mapping[str, str] | None = None,
        provenance: Mapping[str, Any] | None = None,
        attributes: Mapping[str, Attribute] | None = None,
        severity: Severity | None = None,
        units: npt.NDArray[np.int64] | None = None,
        level_units: Mapping[str, npt.NDArray[np.int64]] | None = None,
        curves: Mapping[str, Curve] | None = None,
        first_mates: NearestRelevant | None = None,
        consistency: Consistency | None = None,
        found: Mapping[str, list[Any]] | None = None,
        saved_curves: Mapping[str, Any] | None = None,
        details: Mapping[str, Any] | None = None,
        held: HeldRows | None = None,
        at_sizes: Iterable[AtSize] = (),
    ) -> None:
        self._scores = dict(scores)
        self.skipped = dict(skipped or {})
        """Metrics, of the default or of all, that are not defined on this task, with the reason."""
        self.provenance = dict(provenance or {})
        self._attributes = dict(attributes or {})
        self._severity = severity
        self.units = units
        """The number of each query's class, in the order of the labels: what resampling draws."""
        self.level_units = dict(level_units or {})
        bars = partial(bars_of, self._scores, self.provenance)
        self._curves = DrawnCurves(curves, first_mates, saved_curves, bars)
        self._consistency = consistency
        self._found = dict(found or {})
        self.details = details
        """What a page shows beyond scores and curves, once one was made (see to_html)."""
        self.held = held
        """Where the rows are that this was computed from; None if nobody knows."""
        self._at_sizes = {one.size: one for one in at_sizes}

    def __getitem__(self, metric: str) -> Score:
        if metric in self._scores:
            return self._scores[metric]
        try:
            name = str(registry.parse(metric))
        except InputError as error:
            raise UnknownMetricError(str(error)) from error
        name = name if name in self._scores else _TWINS.get(name, name)
        if name not in self._scores:
            raise KeyError(f"{metric!r} was not computed; there are {', '.join(self._scores)}")
        return self._scores[name]

    def __contains__(self, metric: object) -> bool:
        return self.get(metric) is not None  # type: ignore[call-overload]

    def __iter__(self) -> Iterator[str]:
        return iter(self._scores)

    def __len__(self) -> int:
        return len(self._scores)

    def __str__(self) -> str:
        return tables.as_text(self)

    def __repr__(self) -> str:
        """'Result(precision@1=0.497, map@r=0.248, ..., 12 metrics)'."""
        names = tables.headline_first(self)
        shown = [f"{name}={self[name].value:.3f}" for name in names[:MOST_IN_REPR]]
        if len(names) > MOST_IN_REPR:
            shown += ["...", f"{len(names)} metrics"]
        return f"Result({', '.join(shown)})"

    @property
    def notes(self) -> list[str]:
        """All notes on this result as sentences: str shows the first ones."""
        return tables.summary(self)

    def _repr_markdown_(self) -> str:
        return tables.as_markdown(self)

    def _repr_html_(self) -> str:
        return tables.as_html(self)

    @property
    def public(self) -> bool:
        """Whether this is what participants may see: scores, and nothing of single queries."""
        return bool(self.provenance.get("public"))

    @property
    def attributes(self) -> tuple[str, ...]:
        """The properties of queries that `by` knows by name."""
        return tuple(self._attributes)

    def by(
        self,
        attribute: Any,
        *,
        metrics: Iterable[str] | None = None,
        values: Collection[Any] | None = None,
    ) -> dict[Any, Result]:
        """Split by a property of the queries: "label", "group" ("camera"), a level, or an array.

        An array holds one value for each query. `metrics` and `values`: only these.

        Examples
        --------
        >>> import truerank
        >>> r = truerank.evaluate([[0., 1], [0, 2], [1, 0], [1, 1]], ["a", "a", "b", "b"])
        >>> {label: part["hit@1"].value for label, part in r.by("label").items()}
        {'a': 1.0, 'b': 0.5}
        """
        if isinstance(attribute, str):
            found = named(self._attributes, attribute)
            if found is None:
                bare = "none (a public result has none)" if self.public else "none"
                known = ", ".join(self._attributes) or bare
                raise InputError(
                    f"this result has no attribute {attribute!r}; known are {known}; "
                    "or pass one value for each query."
                )
        else:
            from truerank.task.labels import MISSING, encode

            encoded = encode((attribute,), ("attribute",))
            if (encoded.codes[0] == MISSING).any():
                raise InputError("the attribute has missing values; give every query one.")
            found = Attribute(encoded.codes[0], encoded.values)
        for score in self._scores.values():
            if score.per_query is not None and len(score.per_query.lower) != len(found.codes):
                raise InputError(
                    "the attribute must have one value for each of "
                    f"{len(score.per_query.lower)} queries. Got {len(found.codes)}."
                )
        order = np.argsort(found.codes, kind="stable")
        starts = np.searchsorted(found.codes[order], np.arange(len(found.values) + 1))
        chosen = list(self) if metrics is None else registry.parse_among(metrics, self)
        some = as_choice(values)
        return {
            value: self._part(order[first:last], chosen)
            for value, first, last in zip(found.values, starts[:-1], starts[1:], strict=True)
            if first < last and (some is None or value in some)
        }

    def queries(self, *, levels: bool = False) -> dict[str, list[Any]]:
        """What is known about each query, by column: id, label, group, and the item found first.

        `levels` adds the levels of the labels.
        """
        names = self._attributes if levels else ("id", "label", "group")
        columns = {
            name: [attribute.values[code] for code in attribute.codes.tolist()]
            for name in names
            if (attribute := self._attributes.get(name)) is not None
        }
        return columns | self._found

    @property
    def curves(self) -> tuple[str, ...]:
        """The names of the curves that `curve` and `plot` know."""
        return () if self.public else self._curves.names

    def curve(
        self, name: str, *, ranks: int = FIRST_RANKS, band: str | None = "pointwise"
    ) -> Curve:
        """A curve as a mapping from column names to arrays.

        "cmc" (rank, and hit@rank with its tie bounds) comes with every result evaluated here, and
        goes by the finest label; "roc", "det" and "pr" with a verification metric, "f1" (with
        precision and recall) with best_f1, "dir" (over far) with dir, each with the threshold in
        the distance's own unit; "mrp", "mvp", "mrep" and "mfr" (over tau) with a metric of GOM;
        "growth" (over size) with gallery_sizes. Read back from JSON, a result has them all, at as
        many points as it takes to draw them.

        `low` and `high` are the confidence band, at each point ("pointwise") or around the whole
        curve ("simultaneous"), where intervals were computed; NaN in points without an interval.

        Examples
        --------
        >>> import truerank
        >>> r = truerank.evaluate([[0., 1], [0, 2], [1, 0], [1, 1]], ["a", "a", "b", "b"])
        >>> r.curve("cmc", ranks=2)["lower"].tolist()
        [0.75, 0.75]
        """
        if self.public:
            raise InputError("a public result has no curves, which count single queries.")
        return self._curves.get(name, ranks, band)

    def plot(self, curve: str, ax: Any = None, **options: Any) -> Any:
        """Draw a curve, scores, classes or rows with matplotlib; see truerank.plot for the options.

        What is returned has `ax_` and `figure_`.
        """
        return import_module("truerank.plots").plot(self, curve, ax=ax, **options)

    def neighbors(self, queries: Any, k: int = 10) -> Neighbors:
        """The k nearest items of some queries (row numbers or ids), and ranks of relevant items.

        A result keeps no array alive: this works while the embeddings that were evaluated are still
        there, and otherwise says to call truerank.neighbors.
        """
        if self.held is None:
            raise InputError(
                "this result came without its rows; call truerank.neighbors with the embeddings."
            )
        return self.held.neighbors(queries, k)

    neighbours = RenamedAttribute("neighbors")

    def consistency(self) -> Consistency:
        """Where OPIS was taken, its noise floor, and the classes from worst to best served."""
        if self._consistency is None:
            raise InputError("this result has no opis that was evaluated here; ask for the metric.")
        return self._consistency

    def severity(self) -> Severity:
        """Top-1 errors by the level that query and found item share (labels of several levels)."""
        if self._severity is None:
            raise InputError(
                "severity needs labels of several levels that were evaluated here, with a "
                "hierarchical metric such as h_ap."
            )
        return self._severity

    def _part(self, chosen: Integers, metrics: list[str]) -> Result:
        """The result of some queries, by their numbers."""
        classes = self._attributes.get("label")
        by_class = self.provenance.get("average") == "class" and classes is not None
        codes = classes.codes if by_class and classes is not None else None
        whole = [self[name] for name in metrics]
        scores = {
            one.metric: part_score(one, chosen, codes) for one in whole if one.per_query is not None
        }
        own = {"queries": len(chosen), "no_mate": {}, "ties": {"queries": 0, "groups": 0}}
        none = dict.fromkeys(("hierarchy", "intervals", "severity", "consistency"))
        facts = self.provenance | own | none | {"part": True}
        return Result(scores, provenance=facts if self.provenance else {})

    def to_dict(self, per_query: bool = True, curves: bool = True) -> dict[str, Any]:
        """Everything as plain JSON values (the schema is truerank/result.schema.json)."""
        data = {
            "format": "truerank-result",
            "schema_version": SCHEMA_VERSION,
            "scores": {name: score.to_dict(per_query) for name, score in self._scores.items()},
            "skipped": dict(self.skipped),
            "provenance": dict(self.provenance),
        }
        if per_query and self.units is not None:
            data["units"] = self.units.tolist()
        if per_query and (attributes := plain_attributes(self._attributes)):
            data["attributes"] = attributes
        if curves and (drawn := self._curves.plain()):
            data["curves"] = deepcopy(drawn)
        if self._at_sizes:
            data["gallery_sizes"] = save_sizes(self._at_sizes)
        if per_query and self.level_units:
            data["level_units"] = {name: u.tolist() for name, u in self.level_units.items()}
        if per_query and self.details is not None:
            data["details"] = deepcopy(self.details)
        return data

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Result:
        """The inverse of to_dict."""
        if not isinstance(data, Mapping) or data.get("format") != "truerank-result":
            raise InputError("this is not a truerank result: its 'format' is not truerank-result.")
        if data.get("schema_version") != SCHEMA_VERSION:
            raise InputError(
                f"this result has schema version {data.get('schema_version')}; this truerank reads "
                f"version {SCHEMA_VERSION}."
            )
        check_result(data)
        try:
            name = "scores"
            scores = {}
            for name, score in data["scores"].items():
                scores[name] = Score.from_dict(name, score)
            name = "units"
            units = None if data.get("units") is None else np.array(data["units"], np.int64)
            name = "attributes"
            attributes = read_attributes(data.get("attributes", {}))
            name = "level_units"
            levels = data.get("level_units", {})
            of_level = {level: np.array(codes, np.int64) for level, codes in levels.items()}
            name = "gallery_sizes"
            at_sizes = read_sizes(data.get("gallery_sizes"))
            name = "curves"
            return Result(
                scores,
                skipped=data["skipped"],
                provenance=data["provenance"],
                units=units,
                attributes=attributes,
                saved_curves=data.get("curves"),
                level_units=of_level,
                details=data.get("details"),
                at_sizes=at_sizes,
            )
        except (AttributeError, LookupError, OverflowError, TypeError, ValueError) as error:
            what = shortened(str(error))
            raise InputError(f"this truerank result is damaged at {name} ({what}).") from error

    def to_json(
        self,
        path: str | os.PathLike[str] | None = None,
        per_query: bool = True,
        curves: bool = True,
    ) -> str:
        """The JSON text; written to `path` in one step if given (never half a file)."""
        from truerank._util.files import to_json

        return to_json(self.to_dict(per_query, curves), path)

    @staticmethod
    def from_json(path: str | os.PathLike[str]) -> Result:
        """Read what to_json wrote."""
        from truerank.io.reading import read_json

        return Result.from_dict(read_json(path))

    def to_frame(self) -> Any:
        """A pandas DataFrame, one row for each metric."""
        try:
            import pandas
        except ImportError as error:
            raise ImportError("to_frame needs pandas: pip install pandas") from error
        rows = {name: score.to_dict(per_query=False) for name, score in self._scores.items()}
        for row in rows.values():
            del row["replicates"]
        return pandas.DataFrame.from_dict(rows, orient="index")

    def to_text(
        self, adjusted: bool = False, *, rule: bool = False, verbose: bool = False
    ) -> str:
        """Plain text as wide as the screen, as str gives it; `rule` draws a line below the header.

        `adjusted` adds the chance-adjusted score. `verbose` adds the names by which metrics are
        asked for, the expected and the upper bound over ties, what was counted, and all notes.
        """
        return tables.as_text(self, adjusted, rule=rule, verbose=verbose)

    def to_markdown(self, adjusted: bool = False) -> str:
        """A Markdown table, in percent; `adjusted` adds the chance-adjusted score.

        Below it stands why scores are not defined, if any are not.
        """
        return tables.as_markdown(self, adjusted)

    def to_latex(self, adjusted: bool = False) -> str:
        """A LaTeX tabular (booktabs), in percent; `adjusted` adds the chance-adjusted score.

        Comments say why scores are not defined, if any are not.
        """
        return tables.as_latex(self, adjusted)

    def to_html(
        self,
        path: str | os.PathLike[str],
        *,
        title: str | None = None,
        sections: Iterable[str] | None = None,
        images: Any = None,
        gallery_images: Any = None,
        coordinates: npt.ArrayLike | None = None,
        credits: str | None = None,
    ) -> None:
        """Write a page that opens offline; what needs the rows is computed now, if they are here.

        `title` is the heading of the page, and `sections` names those to show (see
        `truerank.report.write`). `images` is a folder of files named by the rows' ids, or has one
        for each query (and `gallery_images` for each item of a separate gallery). `coordinates` are
        two numbers for each query, such as of UMAP, for the map. `credits` is a line at the end.
        """
        report = import_module("truerank.report")
        report.write(
            [self],
            path,
            title=title,
            sections=sections,
            images=images,
            gallery_images=gallery_images,
            coordinates=coordinates,
            credits=credits,
        )

    def to_csv(self) -> str:
        """Comma-separated values, in fractions, at full precision."""
        return tables.as_csv(self)


# What is known of each query besides its scores (id, label, group), by which a result is split.


@dataclass(frozen=True)
class Attribute:
    """A property of the queries: the place of each query's value among the values."""

    codes: npt.NDArray[np.int64]
    values: list[Any]


def named(attributes: Mapping[str, Attribute], name: str) -> Attribute | None:
    """Find an attribute by its name, or by what a file may call it, as a camera is a group."""
    if name in attributes:
        return attributes[name]
    known = (field.removesuffix("s") for field, names in NAMES.items() if name.lower() in names)
    return next((attributes[field] for field in known if field in attributes), None)


def plain_attributes(attributes: Mapping[str, Attribute]) -> dict[str, Any]:
    """The attributes whose values JSON has, as plain values."""
    return {
        name: {"codes": attribute.codes.tolist(), "values": attribute.values}
        for name, attribute in attributes.items()
        if all(type(value) in (str, int, float, bool) for value in attribute.values)
    }


def read_attributes(data: Mapping[str, Any]) -> dict[str, Attribute]:
    """The inverse of plain_attributes."""
    return {
        name: Attribute(np.array(one["codes"], np.int64), list(one["values"]))
        for name, one in data.items()
    }


def as_choice(values: Any) -> set[Any] | None:
    """The values to which a user limits an attribute; None for all."""
    try:
        return None if values is None else set(values)
    except TypeError:
        message = f"values must be a list or a set of values. Got {shortened(values)}."
        raise InputError(message) from None
