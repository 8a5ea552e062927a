"""Tables that train nothing: a row for each source of embeddings or distances, a column per metric.

Rows are the files of a folder (a model each), untrained networks on the test split of a data set,
or random embeddings. Each row's Result is kept beside the table, and curves of all rows are drawn.
"""

from __future__ import annotations

import os
import re
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import yaml
from pydantic import Field, ValidationError, field_validator, model_validator

from truerank._util.errors import InputError
from truerank._util.files import to_json, write_text
from truerank._util.text import TextTable, count, latex, markdown, separated
from truerank._util.types import Array, Flags, Integers
from truerank.benchmark import papers
from truerank.benchmark.tables import can_draw
from truerank.benchmark.tasks import base_features, principal
from truerank.core import registry
from truerank.core.registry import field_names
from truerank.datasets.base import Dataset
from truerank.datasets.catalogue import read as read_dataset
from truerank.distance import catalogue
from truerank.evaluation.evaluate import evaluate
from truerank.io.reading import (
    Bundle,
    aligned,
    as_matrix,
    gallery_of,
    read,
    read_json,
    read_labels,
    read_side,
    require_embeddings,
)
from truerank.io.vectors import chosen_distance, divided
from truerank.plots.display import AXES
from truerank.result.result import Result
from truerank.result.tables import is_lower_better, laid_out, marked, number
from truerank.training.config import (
    AugmentationConfig,
    Section,
    apply_settings,
    describe_error,
    read_yaml,
)

Arguments = dict[str, Any]
"""Of `evaluate`, less metrics."""
Name = Annotated[str, Field(pattern=r"^[\w+@.' -]{1,64}$")]


@dataclass(frozen=True)
class ScoredRow:
    """What is scored in a row, and the files that it is read from."""

    arguments: Callable[[], Arguments]
    files: tuple[Path, ...] = ()

    def digest(self) -> str:
        """Of what the files hold."""
        total = sha256()
        for path in self.files:
            total.update(path.name.encode())
            with path.open("rb") as file:
                while piece := file.read(1 << 24):
                    total.update(piece)
        return total.hexdigest()


Rows = dict[str, ScoredRow]

# What the rows are: files of models, untrained networks, random embeddings.


class ModelFiles(Section):
    """A file for each model, in the folder `data.root`, with embeddings or distances and labels.

    A file called `unmated` and a model's name has queries that have no relevant item: images of
    other data sets. Their labels are not used. `distance` compares embeddings, cosine by default.
    """

    kind: Literal["files"]
    unmated: str = Field(default="100_", min_length=1)
    junk_labels: list[int | str] = Field(default_factory=list)
    distance: str | None = None

    @field_validator("distance")
    @classmethod
    def _compares_embeddings(cls, distance: str | None) -> str | None:
        known = catalogue.names(given=False)
        if distance is not None and distance not in known:
            raise ValueError(f"must be one of {', '.join(known)}")
        return distance

    def of(self, data: ScoredData) -> Rows:
        """The files' names without endings, and how each is read."""
        folder = data.folder("the folder of the models' files")
        files = [
            path
            for path in sorted(folder.iterdir())
            if path.suffix.lower() in MODEL_FILES and not path.name.startswith(".")
        ]
        models = {one.stem: one for one in files if not one.name.startswith(self.unmated)}
        others = {
            one.stem.removeprefix(self.unmated): one for one in files if one.stem not in models
        }
        if len(models) + len(others) < len(files):
            raise InputError(f"{folder} has two files of a model with different endings; keep one.")
        alone = next((name for name in others if name not in models), None)
        if alone is not None or not models:
            lacking = f"{others[alone].name} but no file {alone}" if alone else "no file of a model"
            raise InputError(
                f"{folder} has {lacking}; expected one for each model, {', '.join(MODEL_FILES)}."
            )
        beside = [folder / f"{side}.csv" for side in ("query", "gallery")]
        return {
            name: ScoredRow(
                partial(self._arguments, folder, path, others.get(name)),
                tuple(one for one in (path, others.get(name), *beside) if one and one.is_file()),
            )
            for name, path in models.items()
        }

    def _arguments(self, folder: Path, path: Path, unmated: Path | None) -> Arguments:
        queries, items = _both_sides(folder, path)
        if queries.labels is None:
            raise InputError(
                f"{path} holds no labels; put query_label and gallery_label into it, or the files "
                "query.csv and gallery.csv beside it."
            )
        rows = as_matrix(queries.embeddings, path.name)
        labels, groups = _finest(queries.labels), queries.groups
        columns = labels if items.labels is None else _finest(items.labels)
        needed = len(labels)
        if unmated is not None:
            if items.labels is None:
                raise InputError(f"{unmated} needs a gallery, and {path} holds queries alone.")
            more = _unmated_rows(unmated, path, rows, columns)
            rows = np.concatenate([rows, more])
            queries.labels = [*labels.tolist(), *_new_labels(labels, columns, len(more))]
            items.labels = columns
            needed += len(more)
            if groups is not None:
                groups = np.concatenate([groups, np.repeat(np.asarray(groups)[:1], len(more))])
        given = _holds_distances(path)
        return {
            "embeddings": rows,
            "labels": queries.labels,
            "query_groups": groups,
            "gallery": items.embeddings,
            "gallery_labels": items.labels,
            "gallery_groups": items.groups,
            "junk": self._junk(needed, columns),
            "distance": "precomputed" if given else self.distance or "cosine",
        }

    def _junk(self, queries: int, columns: Array) -> Flags | None:
        """Pairs with items of junk labels: unlike left out items, scale=minmax sees them."""
        texts = columns.dtype.kind in "OU"
        if not texts and any(isinstance(one, str) for one in self.junk_labels):
            raise InputError(f"rows.junk_labels holds text, but labels are {columns.dtype}.")
        junk = [str(one) if texts else one for one in self.junk_labels]
        out = np.isin(columns, junk)
        return np.broadcast_to(out, (queries, len(columns))) if out.any() else None


MODEL_FILES = (".mat", ".npz", ".npy")


def _both_sides(folder: Path, path: Path) -> tuple[Bundle, Bundle]:
    """Queries and items of a file; what it lacks is in query.csv and gallery.csv of its folder."""
    queries = read(path)
    require_embeddings(queries, path)
    items = gallery_of(queries, Bundle(), precomputed=_holds_distances(path))
    for side, file in ((queries, folder / "query.csv"), (items, folder / "gallery.csv")):
        if (side.labels is None or side.groups is None) and file.is_file():
            known = aligned(read_labels(file), file, side, path)
            if side.labels is None:
                side.labels = known.labels
            elif known.groups is not None and not _equal(side.labels, known.labels):
                raise InputError(
                    f"{file} has other labels than {path}, so its cameras cannot be used; bring "
                    "its rows into the order of that file."
                )
            side.groups = known.groups if side.groups is None else side.groups
    return queries, items


def _unmated_rows(unmated: Path, path: Path, rows: Array, gallery_labels: Array) -> Array:
    """The unmated queries of a model, which its file must fit."""
    bundle = read(unmated)
    more = as_matrix(require_embeddings(bundle, unmated), unmated.name)
    what = {True: "distances", False: "embeddings"}
    kinds = what[_holds_distances(unmated)], what[_holds_distances(path)]
    if kinds[0] != kinds[1]:
        raise InputError(
            f"{unmated} holds {kinds[0]} and {path} {kinds[1]}; save the same kind in both."
        )
    if more.shape[1] != rows.shape[1]:
        raise InputError(
            f"{unmated} has {more.shape[1]} columns and {path} has {rows.shape[1]}; both need "
            "the same gallery, or the same number of dimensions."
        )
    theirs = bundle.gallery.labels if bundle.gallery is not None else None
    if theirs is not None and not _equal(theirs, gallery_labels):
        raise InputError(
            f"{unmated} has other gallery labels than {path}; save both for the same gallery, in "
            "the same order."
        )
    return more


def _holds_distances(path: Path) -> bool:
    """A matrix of distances, which an array without names is."""
    return path.suffix.lower() == ".npy" or catalogue.find(chosen_distance(None, path)).given


def _equal(labels: Any, others: Any) -> bool:
    """Whether two columns have the same labels, as numbers if both are (a CSV has text)."""
    one, other = _finest(labels), _finest(others)
    with suppress(ValueError, TypeError):
        one, other = one.astype(np.float64), other.astype(np.float64)
    return bool(np.array_equal(one, other))


def _finest(labels: Any) -> Array:
    """The labels, or the last column of several."""
    column = np.asarray([*labels.values()][-1] if isinstance(labels, dict) else labels)
    return column if column.ndim < 2 else column[:, -1]


def _new_labels(labels: Array, others: Array, needed: int) -> list[Any]:
    """Labels that no row has, of the kind that the rows have."""
    if not all(side.dtype.kind in "iuf" for side in (labels, others)):
        return [f"unmated query {row}" for row in range(needed)]
    first = max(side.max().item() for side in (labels, others)) + 1
    kind = float if labels.dtype.kind == "f" else int
    return [kind(first + row) for row in range(needed)]


class Reduction(Section):
    """A PCA of the rows that are scored, each dimension standardised before, if asked for."""

    dimensions: int = Field(ge=1)
    standardise: bool = True

    def of(self, rows: Array) -> Array:
        """The rows on their principal directions."""
        if rows.shape[1] < self.dimensions:
            raise InputError(
                f"rows.pca.dimensions is {self.dimensions}, which is more than the "
                f"{rows.shape[1]} features of the network."
            )
        wide = rows.astype(np.float64)
        if self.standardise:
            deviation = wide.std(axis=0)
            wide = (wide - wide.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
        fitted = principal(wide, self.dimensions)
        reduced: Array = (wide - fitted.mean) @ fitted.directions
        return reduced


class Networks(Section):
    """Untrained networks by the names that `model.trunk` takes, on the test split of a data set."""

    kind: Literal["networks"]
    trunks: dict[Name, str] = Field(min_length=1)
    pretrained: bool = True
    augmentation: AugmentationConfig = AugmentationConfig()
    pca: Reduction | None = None
    seed: int = Field(default=0, ge=0, lt=2**32)
    device: str = "auto"

    def of(self, data: ScoredData) -> Rows:
        """The networks, and the features of each."""
        found = read_dataset(data.name, data.root)
        arguments = found.task_arguments()
        if "gallery_labels" in arguments or "test" not in found.splits:
            raise InputError(f"{data.name} has no split 'test', on which networks are scored.")
        test = found.subset("test")
        return {
            name: ScoredRow(partial(self._arguments, trunk, test, arguments))
            for name, trunk in self.trunks.items()
        }

    def _arguments(self, trunk: str, test: Dataset, arguments: Arguments) -> Arguments:
        from truerank.training.devices import resolve

        base = {**self.model_dump(mode="json"), "trunk": trunk}
        features = base_features(test, base, resolve(self.device), 0)[0]
        return {"embeddings": features if self.pca is None else self.pca.of(features), **arguments}


class RandomSystems(Section):
    """Embeddings uniform in [0, 1), of `classes` of `each` rows, or of the labels of a file."""

    kind: Literal["random"]
    systems: int = Field(default=30, ge=1)
    classes: int = Field(default=10, ge=1)
    each: int = Field(default=100, ge=2)
    dimensions: int = Field(default=1000, ge=1)
    seed: int = Field(default=0, ge=0, lt=2**32)

    def of(self, data: ScoredData) -> Rows:
        """The systems; of a file of embeddings they have the labels and the shape."""
        labels: Any = np.repeat(np.arange(self.classes), self.each)
        dimensions, files = self.dimensions, list[Path]()
        if data.root is not None:
            files.append(divided(Path(data.root))[0])
            given = read_side(data.root)
            if given.labels is None:
                raise InputError(f"{data.root} holds no labels: expected an array called label.")
            labels, dimensions = given.labels, given.embeddings.shape[1]
        return {
            f"random {one + 1}": ScoredRow(
                partial(self._arguments, one, labels, dimensions), tuple(files)
            )
            for one in range(self.systems)
        }

    def _arguments(self, number: int, labels: Integers, dimensions: int) -> Arguments:
        rng = np.random.default_rng([self.seed, number])
        rows = rng.random((len(labels), dimensions), dtype=np.float32)
        return {"embeddings": rows, "labels": labels}


# The configuration.


class ScoredData(Section):
    """The data set, and its folder or file."""

    name: str = ""
    root: str | None = None

    def folder(self, what: str) -> Path:
        """The root, which must be a folder."""
        if self.root is None or not Path(self.root).is_dir():
            raise InputError(f"pass {what} (--data, data.root). Got {self.root}.")
        return Path(self.root)


class Stated(Section):
    """What a paper states, in percent: a row's values, and of which metrics in each preset."""

    metrics: dict[str, list[str]] = Field(default_factory=dict)
    rows: dict[str, list[float | None]] = Field(default_factory=dict)

    @property
    def by_metric(self) -> dict[tuple[str, str], float]:
        """The values by row and metric."""
        named = [registry.parse_all(some) for some in self.metrics.values()]
        return {
            (row, str(metric)): value
            for metrics in named
            for row, values in self.rows.items()
            for metric, value in zip(metrics, values, strict=True)
            if value is not None
        }

    @model_validator(mode="after")
    def _equally_long(self) -> Stated:
        for name, metrics in self.metrics.items():
            known = len(registry.parse_all(metrics))
            for row, values in self.rows.items():
                if len(values) != known:
                    wanted = count(known, "value")
                    raise ValueError(f"rows.{row} must have {wanted}, as metrics.{name} has")
        return self


class ScoredConfig(Section):
    """The configuration of one table; `preset` chooses among lists of metrics and curves."""

    paper: str = ""
    data: ScoredData = ScoredData()
    rows: ModelFiles | Networks | RandomSystems = Field(discriminator="kind")
    preset: str = "exact"
    metrics: dict[str, list[str]] = Field(min_length=1)
    curves: dict[str, list[str]] = Field(default_factory=dict)
    stated: Stated = Stated()

    @model_validator(mode="after")
    def _known(self) -> ScoredConfig:
        if self.preset not in self.metrics:
            raise ValueError(f"preset must be one of {', '.join(self.metrics)}")
        if not self.chosen:
            raise ValueError(f"metrics.{self.preset} names no metric")
        for curve in (one for some in self.curves.values() for one in some):
            if curve.partition("@")[0] not in AXES:
                raise ValueError(f"there is no curve {curve!r}; there are {', '.join(AXES)}")
        return self

    @property
    def chosen(self) -> list[str]:
        """The metrics of the preset."""
        return [str(metric) for metric in registry.parse_all(self.metrics[self.preset])]

    @property
    def deviations(self) -> list[str]:
        """Differences from the paper's configuration, as "field: value (paper: value)"."""
        paper = papers.find(self.paper) if self.paper else None
        if paper is None:
            return []
        mine = _flat(self.model_dump())
        if _has_labels_of_a_file(self):
            mine |= dict.fromkeys(OF_THE_FILE, "that of the file")
        theirs = _flat(ScoredConfig.model_validate(paper.config).model_dump())
        names = dict.fromkeys([*mine, *theirs])
        theirs |= paper.published
        return [
            f"{name}: {_shown(mine.get(name))} (paper: {_shown(theirs.get(name))})"
            for name in names
            if mine.get(name) != theirs.get(name) and name not in NOT_COMPARED
        ]


NOT_COMPARED = ("paper", "data.root", "rows.device", "rows.seed")
OF_THE_FILE = ("rows.classes", "rows.each", "rows.dimensions")


def _has_labels_of_a_file(config: ScoredConfig) -> bool:
    return isinstance(config.rows, RandomSystems) and config.data.root is not None


def _comparable(config: ScoredConfig) -> dict[tuple[str, str], float]:
    """What is stated, by row and metric; nothing where the data are not the paper's."""
    paper = papers.find(config.paper) if config.paper else None
    others = paper is not None and paper.data != config.data.name
    return {} if others or _has_labels_of_a_file(config) else config.stated.by_metric


def _shown(value: Any) -> Any:
    return "none" if value is None else value


def _flat(given: Mapping[str, Any], start: str = "") -> dict[str, Any]:
    """Fields by their names in sections; a list of metrics or values is a single field."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{start}{name}.")
        elif not start.startswith("stated"):
            found[start + name] = value
    return found


def read_scored(
    path: str | os.PathLike[str],
    settings: Iterable[str] = (),
    *,
    root: str | os.PathLike[str] | None = None,
) -> ScoredConfig | None:
    """Read the configuration of a table that trains nothing, by its name or from a YAML file.

    Parameters
    ----------
    path : path or str
        A YAML file, or a name that `truerank benchmark --list` has.
    settings : iterable of str
        Values on top, such as "preset=published".
    root : path, optional
        The folder or file of the data, in place of data.root.

    Returns
    -------
    ScoredConfig or None
        None for a configuration of trainings, which `read_config` reads.
    """
    given = papers.given(path)
    if not papers.is_scored(given):
        return None
    changed = apply_settings(given, settings)
    if root is not None:
        changed["data"] = {**(changed.get("data") or {}), "root": os.fspath(root)}
    try:
        return ScoredConfig.model_validate(changed)
    except ValidationError as error:
        raise InputError(describe_error(error, os.fspath(path), ScoredConfig)) from error


def describe_scored(config: ScoredConfig) -> str:
    """What would be scored: the rows, the metrics, and the differences from the paper."""
    rows = list(config.rows.of(config.data))
    lines = [
        f"{config.data.name or config.rows.kind}: {count(len(rows), 'row')}, nothing is trained.",
        f"Rows: {', '.join(rows)}.",
        f"Metrics ({config.preset}): {'; '.join(config.chosen)}.",
        *_deviating(config.deviations),
    ]
    return "\n".join(lines)


def _deviating(deviations: Sequence[str]) -> list[str]:
    return [f"Deviates from the paper: {'; '.join(deviations)}."] if deviations else []


# The table.


GOM_OPTIONS = re.compile(r"(?<=[@,])(fp|integral|scale)=\w+,?")
"""Options that all columns of a table share: they stand below it."""


def _shortened(names: Sequence[str]) -> dict[str, str]:
    """Metrics or curves without these options, unless two of them are then the same."""
    short = {one: GOM_OPTIONS.sub("", one).rstrip("@,") for one in names}
    often = Counter(short.values())
    return {one: name if often[name] == 1 else one for one, name in short.items()}


@dataclass(frozen=True)
class ScoredTable:
    """The finished table; `content` is what table.json holds."""

    content: dict[str, Any]

    def __str__(self) -> str:
        return laid_out(self._cells(), self.notes)

    def _repr_markdown_(self) -> str:
        notes = "".join(f"- {note}\n" for note in self.notes)
        return f"{markdown(self._cells())}\n{notes}"

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A mapping for each row: name, distance, and each metric's value, interval and reason."""
        rows: list[dict[str, Any]] = self.content["rows"]
        return rows

    @property
    def notes(self) -> list[str]:
        """Sentences below the table."""
        metrics = self.content["metrics"]
        arrow = "; ↓ lower is better" if is_lower_better(metrics) else ""
        shares = all(registry.find(metric).unit == "share" for metric in metrics)
        besides = "" if shares else " (thresholds are not)"
        lines = [f"In percent{besides}, ± half the 95 % interval where there is one{arrow}."]
        options = [one for one in metrics if "@" in one]
        if options:
            lines.append(f"Metrics: {'; '.join(options)}.")
        by_distance: dict[str, list[str]] = {}
        for row in self.rows[: len(self.content["results"])]:
            by_distance.setdefault(row["distance"], []).append(row["name"])
        for distance, names in by_distance.items():
            whose = f" ({', '.join(names)})" if len(by_distance) > 1 else ""
            lines.append(f"Distance: {distance}{whose}.")
        if self.content["without_cameras"]:
            alone = ", ".join(self.content["without_cameras"])
            lines.append(f"No cameras, so that no item of the query's camera is excluded: {alone}.")
        if len(self.rows) > len(self.content["results"]):
            lines.append("mean: of all rows, ± their standard deviation.")
        lines += _deviating(self.content["deviations"])
        if self.content["without_curve"]:
            lines.append(f"No row has the curve {', '.join(self.content['without_curve'])}.")
        undefined: dict[str, list[str]] = {}
        for row in self.rows:
            for metric, score in row["scores"].items():
                if score["reason"] is not None:
                    undefined.setdefault(f"{metric}: {score['reason']}", []).append(row["name"])
        return lines + [f"{why} ({', '.join(names)})." for why, names in undefined.items()]

    def _cells(self) -> TextTable:
        short = _shortened(self.content["metrics"])
        names = field_names(short.values())
        header, known = ["row"], []
        for metric, one in short.items():
            known.append(any("stated" in row["scores"].get(metric, {}) for row in self.rows))
            header += [marked(metric, names[one]), *(["paper"] if known[-1] else [])]
        lines = []
        for row in self.rows:
            cells = [row["name"]]
            for metric, is_stated in zip(self.content["metrics"], known, strict=True):
                score = row["scores"].get(metric, {})
                cells.append(_cell(metric, score))
                cells += [str(score.get("stated", ""))] if is_stated else []
            lines.append(cells)
        return TextTable(header, lines)

    def write(self, folder: Path) -> None:
        """Write it as JSON, CSV, Markdown and LaTeX."""
        to_json(self.content, folder / "table.json")
        write_text(folder / "table.md", self._repr_markdown_())
        write_text(folder / "table.tex", latex(self._cells()))
        header = ["row", "metric", "value", "low", "high", "deviation", "stated", "reason"]
        lines = [
            [row["name"], metric, score["value"], *(score["interval"] or ("", "")),
             *(score.get(name) for name in ("deviation", "stated", "reason"))]
            for row in self.rows for metric, score in row["scores"].items()
        ]  # fmt: skip
        write_text(folder / "table.csv", separated(header, lines))


def _cell(metric: str, score: Mapping[str, Any]) -> str:
    written = number(metric)
    half = score.get("deviation")
    if score.get("interval"):
        half = (score["interval"][1] - score["interval"][0]) / 2
    text = written(score.get("value"))
    return text if half is None else f"{text} ± {written(half)}"


def score_table(
    config: ScoredConfig | str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    resume: bool = False,
    note: Callable[[str], None] | None = None,
) -> ScoredTable:
    """Score every row of a table that trains nothing, and write the table and its figures.

    Parameters
    ----------
    config : ScoredConfig, path of a YAML file, or name of a paper's table
    folder : path
        Where table, figures and the rows' results are written.
    resume : bool
        Take results from the folder, where another call with this configuration wrote them, of
        rows whose files are as they were.
    note : callable, optional
        Called with a sentence before each row.

    Returns
    -------
    ScoredTable
    """
    chosen = config if isinstance(config, ScoredConfig) else read_scored(config)
    if chosen is None:
        raise InputError(f"{config} is a configuration of trainings: pass it to benchmark.run.")
    folder = Path(folder)
    text = str(yaml.safe_dump(chosen.model_dump(mode="json"), sort_keys=False))
    rows = chosen.rows.of(chosen.data)
    _admit(folder, chosen, resume)
    write_text(folder / "config.yaml", text)
    sources = folder / "sources.json"
    known = read_json(sources) if sources.is_file() else {}
    results = {}
    for name, row in rows.items():
        path, digest = folder / "results" / f"{name}.json", row.digest()
        if not path.is_file() or known.get(name) != digest:
            if note is not None:
                note(f"scoring {name}")
            evaluate(**row.arguments(), metrics=chosen.chosen).to_json(path)
            known[name] = digest
            to_json(known, sources)
        results[name] = Result.from_json(path)
    table = ScoredTable(_content(chosen, results))
    table.write(folder)
    _draw(chosen.curves.get(chosen.preset, []), results, folder / "figures")
    return table


def _admit(folder: Path, config: ScoredConfig, resume: bool) -> None:
    """Make the folder; refuse one that holds a table, unless it is to go on with the same one."""
    kept = folder / "config.yaml"
    if kept.exists() and not resume:
        raise InputError(
            f"{folder} holds a benchmark already; resume it (--resume, resume=True) or name "
            "another folder."
        )
    if kept.exists() and _resumable(read_yaml(kept)) != _resumable(config.model_dump()):
        raise InputError(f"{folder} holds another configuration; name another folder.")
    try:
        (folder / "results").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {folder}: {error.strerror or error}.") from error


def _resumable(given: Any) -> Any:
    """A configuration without what may change in between: the data's place and the device."""
    try:
        config = ScoredConfig.model_validate(given)
    except ValidationError:
        return None
    return config.model_dump(exclude={"data": {"root"}, "rows": {"device"}})


def _content(config: ScoredConfig, results: Mapping[str, Result]) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for name, result in results.items():
        scores: dict[str, dict[str, Any]] = {}
        for metric in config.chosen:
            score = result[metric]
            scores[metric] = {
                "value": None if score.reason is not None else float(score.value),
                "interval": None if score.interval is None else list(score.interval),
                "reason": score.reason,
            }
        distance = result.provenance["distance"]["distance"]
        rows.append({"name": name, "distance": distance, "scores": scores})
    if config.rows.kind == "random" and len(rows) > 1:
        rows.append({"name": "mean", "scores": _means(config.chosen, rows)})
    without_cameras = []
    if config.paper and config.rows.kind == "files":
        said = {name: result.provenance["excluded"] for name, result in results.items()}
        without_cameras = [name for name, rules in said.items() if OWN_CAMERA not in rules]
    comparable = _comparable(config)
    for row in rows:
        for metric, score in row["scores"].items():
            if (row["name"], metric) in comparable:
                score["stated"] = comparable[row["name"], metric]
    return {
        "paper": config.paper,
        "data": config.data.name,
        "preset": config.preset,
        "metrics": config.chosen,
        "rows": rows,
        "results": list(results),
        "without_cameras": without_cameras,
        "without_curve": [
            curve
            for curve in config.curves.get(config.preset, [])
            if not any(curve in result.curves for result in results.values())
        ],
        "deviations": config.deviations,
    }


OWN_CAMERA = "mates of the query's own group"
"""What a result says is excluded where rows have groups."""


def _means(metrics: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The mean of each metric over the rows, and their standard deviation."""
    found = {}
    for metric in metrics:
        values = [row["scores"][metric]["value"] for row in rows]
        known = None not in values
        found[metric] = {
            "value": statistics.mean(values) if known else None,
            "deviation": statistics.stdev(values) if known else None,
            "interval": None,
            "reason": None,
        }
    return found


def _draw(curves: Sequence[str], results: Mapping[str, Result], folder: Path) -> None:
    """A figure of each curve with all rows, or several where they are many."""
    from truerank.plots import MOST_MODELS, plot
    from truerank.plots.display import save_figure

    if not curves or not can_draw():
        return
    import matplotlib.pyplot as plt

    folder.mkdir(exist_ok=True)
    for curve, file in _shortened(curves).items():
        known = [(name, one) for name, one in results.items() if curve in one.curves]
        for start in range(0, len(known), MOST_MODELS):
            names, shown = zip(*known[start : start + MOST_MODELS], strict=True)
            figure = plot(list(shown), curve, names=names, band=None, marks=False).figure_
            part = f"-{start // MOST_MODELS + 1}" if len(known) > MOST_MODELS else ""
            for kind in ("svg", "png"):
                save_figure(figure, folder / f"{file}{part}.{kind}")
            plt.close(figure)
