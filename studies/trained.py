"""Trainings of the studies: data sets and inputs, a benchmark in the run's folder, its results.

A configuration and a data set come in; a Finished comes out once the test evaluations are done,
with the results of every rerun, tables and loss curves. Where the time is over before, TimeOver
is raised and everything is kept.
"""

from __future__ import annotations

import io
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from studies.claims import Evidence
from studies.page import COLOURS, Drawing, Sheet, panels
from studies.runner import Request, TimeOver
from truerank._util.cached import cached_property
from truerank._util.errors import InputError
from truerank._util.files import read_archive
from truerank._util.text import count
from truerank.benchmark.config import BenchmarkConfig
from truerank.benchmark.layout import Layout
from truerank.benchmark.runner import Display, run
from truerank.benchmark.search import BEHIND
from truerank.benchmark.statistics import difference, read_runs
from truerank.benchmark.tasks import CONCAT, result_path
from truerank.core import registry
from truerank.datasets.base import Dataset, ImageArray
from truerank.datasets.catalogue import read
from truerank.io.reading import read_json
from truerank.losses.registry import entry as registry_entry
from truerank.result.result import Result
from truerank.training.config import read_yaml

Make = Callable[[], tuple[Mapping[str, Any], Dataset]]
"""What gives a configuration and its data, once they are needed."""
PART = "separated"
"""Scores are those of single models, as the papers have them: the mean over the folds' models."""


def at_defaults(loss: str, **parameters: Any) -> dict[str, Any]:
    """A loss's own parameters as its paper has them, so that its rates alone are searched."""
    entry = registry_entry(loss)
    return {name: entry.defaults[name] for name in entry.search} | parameters


def few_of_each_class(data: Dataset, count: int) -> Dataset:
    """The first images of each class."""
    _, codes = np.unique(data.fine_labels, return_inverse=True)
    order = np.argsort(codes, kind="stable")
    first = np.searchsorted(codes[order], np.arange(codes.max() + 1))
    place = np.empty(len(codes), np.int64)
    place[order] = np.arange(len(codes)) - first[codes[order]]
    return data.subset(np.flatnonzero(place < count))


def run_benchmark(request: Request, name: str, make: Make) -> Finished:
    """Run a benchmark in a folder of the request's, or go on with it.

    One that has ended is taken as it is: neither its data nor its models need be there.
    """
    layout = Layout(request.folder / name)
    if layout.table("json").is_file():
        kept = BenchmarkConfig.of(read_yaml(layout.config), str(layout.config))
        return Finished(name, kept, layout, read_json(layout.table("json")))
    request.clock.check()
    config, data = make()
    chosen = BenchmarkConfig.of(config)
    table = run(
        chosen, layout.folder, data=data, resume=True, jobs=request.jobs,
        time_limit=request.clock.left, display=Display(quiet=request.quiet),
    )  # fmt: skip
    if table is None:
        raise TimeOver
    return Finished(name, chosen, layout, table.content)


@dataclass(frozen=True, eq=False)
class Finished:
    """A benchmark with its test evaluations done."""

    name: str
    config: BenchmarkConfig
    layout: Layout
    table: Mapping[str, Any]

    @property
    def methods(self) -> list[str]:
        """The trained methods, in the order of the configuration."""
        return [method.name for method in self.config.methods if method.embeddings is None]

    @property
    def seeds(self) -> list[str]:
        """The reruns of the best parameters."""
        return [str(number) for number in range(self.config.protocol.reruns)]

    @cached_property
    def runs(self) -> dict[str, list[Result]]:
        """The result of each rerun by method, with replicates over the test classes."""
        folds = self.config.protocol.folds
        found: dict[str, list[Result]] = read_runs(self.layout, self.methods, self.seeds, folds)[
            PART
        ]
        return found

    def saved(self, method: str, seed: str, fold: int | None = None) -> Result:
        """One whole result, of a fold's model or of all together, with its curves."""
        part = CONCAT if fold is None else str(fold)
        return Result.from_json(result_path(self.layout.rerun(method, seed), part))

    def facts(self, method: str, read: Callable[[Mapping[str, Any]], float]) -> list[float]:
        """Something in the provenance of each rerun's results, as the mean over its folds."""
        found = []
        for seed in self.seeds:
            values = [
                read(self.saved(method, seed, fold).provenance)
                for fold in range(self.config.protocol.folds)
            ]
            found.append(math.fsum(values) / len(values))
        return found

    def mean(self, method: str, metric: str) -> float:
        """The mean over reruns."""
        values = [run[metric].value for run in self.runs[method]]
        return math.fsum(values) / len(values)

    def validation(self, method: str) -> float:
        """The validation score by which a method's parameters were chosen."""
        row = next(row for row in self.table["rows"] if row["method"] == method)
        return float(row["validation"]["score"])

    def best(self, methods: Sequence[str]) -> str:
        """The method with the highest validation score: the test split is not used."""
        return max(methods, key=self.validation)

    def summary(self, method: str, metric: str) -> Mapping[str, Any]:
        """Mean over reruns and its interval, as the benchmark's table has them."""
        row = next(row for row in self.table["rows"] if row["method"] == method)
        found: Mapping[str, Any] = row[PART][metric]
        return found

    def curves(self, method: str) -> list[list[list[float | None]]]:
        """Epoch, loss and validation metric of every training of the reruns."""
        folds = range(self.config.protocol.folds)
        paths = [self.layout.fold(method, s, f) / "fold.json" for s in self.seeds for f in folds]
        return [read_json(path)["curve"] for path in paths]

    @property
    def trainings(self) -> int:
        """How many trainings there were."""
        protocol = self.config.protocol
        return len(self.methods) * protocol.folds * (protocol.trials + protocol.reruns + 1)

    def numbers(self) -> dict[str, Any]:
        """The table and every field of the configuration, for the page's JSON."""
        return {**self.table, "config": self.config.to_dict()}

    def described(self) -> str:
        """Data, seeds and budget in a sentence."""
        protocol, shared = self.config.protocol, self.config.shared
        training = shared.training
        looks = self.table["openings"]
        return (
            f"{self.name}: {len(self.methods)} rows, {protocol.trials} trials x {protocol.folds} "
            f"folds each by validation {protocol.metric}, {protocol.reruns} seeds, the default "
            f"parameters once, {self.trainings:,} trainings of up to {training.epochs} x "
            f"{training.iterations} batches of {_batch(self.config)}; {shared.model.trunk}, "
            f"{shared.model.dimensions} dimensions; split: {self.config.data.split}; seed "
            f"{protocol.seed}. The log of test evaluations has {looks['count']} entries, "
            f"{count(looks['second_looks'], 'repetition')}, and ends in `{looks['head'][:16]}`."
        )


def _batch(config: BenchmarkConfig) -> str:
    sampler = config.shared.sampler
    if sampler is None:
        return f"{config.shared.batch} images"
    return f"{sampler.classes} classes x {sampler.samples} images"


def shifted(result: Result, metric: str, by: float) -> Result:
    """A result with one score and its replicates moved by a constant."""
    score = result[metric]
    kept = score.replicates
    moved = None
    if kept is not None:
        moved = replace(kept, values=tuple(value + by for value in kept.values))
    changed = replace(
        score, value=score.value + by, lower=score.lower + by, expected=score.expected + by,
        upper=score.upper + by, interval=None, replicates=moved,
    )  # fmt: skip
    return Result({metric: changed}, provenance=result.provenance)


def gain(
    what: str,
    ours: Sequence[Result],
    theirs: Sequence[Result],
    metric: str,
    *,
    scale: float = 100,
    paper: str = "",
    digits: int = 2,
) -> Evidence:
    """How far one method is above another, paired over test classes, over runs and classes."""
    found = difference(ours, theirs, metric)
    ends = found["interval"]
    return Evidence(
        what,
        found["difference"],
        None if ends is None else (ends[0], ends[1]),
        paper,
        scale,
        digits,
        found["reason"] or "",
    )


# Tables of what was trained: a row for each method, mean and interval over seeds in each cell.


def score_sheet(
    one: Finished,
    metrics: Sequence[str],
    *,
    scales: Mapping[str, float] | None = None,
    about: str = "",
    note: str = "",
) -> Sheet:
    """Scores in percent, or multiplied as `scales` says, with the half-width over seeds.

    `about` is what the table is about, where a data set has several.
    """
    rows = []
    for method in one.methods:
        cells = []
        for metric in metrics:
            found = one.summary(method, metric)
            scale = (scales or {}).get(metric, 100.0)
            text = f"{scale * found['mean']:.2f}"
            if found["interval"] is not None:
                half = (found["interval"][1] - found["interval"][0]) / 2
                text += f" ± {scale * half:.2f}"
            cells.append(text)
        rows.append([method, *cells, _validation(one, method, scales or {})])
    shown = []
    for metric in metrics:
        scale = (scales or {}).get(metric, 100.0)
        worse = not registry.find(metric).higher_is_better
        shown.append(metric + (" x 1000" if scale == 1000 else "") + (" (lower is better)" * worse))
    seeds = len(one.seeds)
    return Sheet(
        f"{', '.join(filter(None, (one.name, about)))}: test scores in percent, mean over {seeds} "
        "seeds and 95 % interval over seeds",
        ["row", *shown, f"validation {one.config.protocol.metric}"],
        rows,
        note,
    )


def _validation(one: Finished, method: str, scales: Mapping[str, float]) -> str:
    """What the search found: the protocol's metric, or the one that it was to make small."""
    found = one.validation(method)
    given = next(each for each in one.config.methods if each.name == method)
    if given.objective is None:
        return f"{100 * found:.2f}"
    if found <= BEHIND:
        return "no trial kept up"
    metric = given.objective.minimise
    scale = scales.get(metric, 100.0)
    return f"{metric} {-scale * found:.2f}" + (" x 1000" if scale == 1000 else "")


# A look at every loss curve: the training loss and the validation score of each rerun.


def draw_learning(one: Finished) -> Drawing:
    """Loss (left axis) and validation metric (right axis) over epochs, a panel for each method."""
    columns = min(4, len(one.methods))
    lines = -(-len(one.methods) // columns)
    figure, axes = panels(lines, columns, width=2.7, height=2.0)
    for number, place in enumerate(axes.ravel().tolist()):
        if number >= len(one.methods):
            place.axis("off")
            continue
        method = one.methods[number]
        right = place.twinx()
        for curve in one.curves(method):
            losses = [(point[0], point[1]) for point in curve if point[1] is not None]
            scores = [(point[0], 100 * point[2]) for point in curve if point[2] is not None]
            place.plot(*zip(*losses, strict=True) if losses else ((), ()), color=COLOURS[1],
                       alpha=0.4, lw=0.8)  # fmt: skip
            right.plot(*zip(*scores, strict=True) if scores else ((), ()), color=COLOURS[0],
                       alpha=0.4, lw=0.8)  # fmt: skip
        place.set_title(method, fontsize=8)
        for axis in (place, right):
            axis.tick_params(labelsize=6)
        place.xaxis.get_major_locator().set_params(integer=True)
    metric = one.config.protocol.metric
    return Drawing(
        f"learning-{one.name}",
        f"{one.name}: the loss (orange, left) and validation {metric} in percent (blue, right) of "
        "every training of the reruns, over epochs.",
        figure,
    )


# The data sets of the studies: from `truerank data get`, or from files of the user.


GROCERY_SIDE = 64


def emoji(request: Request) -> Dataset:
    """The emoji families: category, subcategory, emoji; the design family is the camera."""
    return read("emoji", request.file("emoji"))


def quickdraw(request: Request) -> Dataset:
    """QuickDraw-345."""
    return read("quickdraw", request.file("quickdraw"))


def grocery(request: Request) -> Dataset:
    """The Grocery Store data set from an .npz of JPEGs.

    Arrays: `jpeg` (bytes one after the other) and `offsets` (image i is jpeg[offsets[i] :
    offsets[i + 1]]), `levels` (images, 3), coarse to fine.
    """
    path = request.file("grocery")
    if path is None:
        raise InputError("the photographs of the grocery store are needed: --data grocery=FILE.")
    try:
        import PIL.Image
    except ImportError as error:
        raise InputError("reading photographs needs Pillow: pip install pillow.") from error
    if not path.is_file():
        raise InputError(f"{path} is no file; it should be an .npz with photographs.")
    try:
        arrays = read_archive(path)
        jpeg, offsets, levels = arrays["jpeg"], arrays["offsets"], arrays["levels"]
        images = np.empty((len(offsets) - 1, GROCERY_SIDE, GROCERY_SIDE, 3), np.uint8)
        for row in range(len(images)):
            data = jpeg[offsets[row] : offsets[row + 1]].tobytes()
            with PIL.Image.open(io.BytesIO(data)) as picture:
                side = min(picture.size)
                left, top = (picture.width - side) // 2, (picture.height - side) // 2
                square = picture.convert("RGB").crop((left, top, left + side, top + side))
                images[row] = np.asarray(square.resize((GROCERY_SIDE, GROCERY_SIDE)))
    except InputError:
        raise
    except Exception as error:  # whatever zipfile, numpy or Pillow say of a damaged file
        raise InputError(
            f"{path} cannot be read as photographs: an .npz with jpeg, offsets and levels."
        ) from error
    return Dataset("grocery", ImageArray(images), levels, ("coarse", "middle", "fine"))


# What a reproduction reads besides data sets: embeddings of a paper, and photographs by path.
#
# Both are files of their users: .npz with named arrays, as the pages of the papers say.


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Rows with a label each."""

    name: str
    rows: npt.NDArray[np.float32]
    labels: npt.NDArray[np.int64]

    @property
    def digest(self) -> str:
        """SHA-256 of rows and labels."""
        total = sha256(np.ascontiguousarray(self.rows).tobytes())
        total.update(np.ascontiguousarray(self.labels).tobytes())
        return total.hexdigest()

    @property
    def has_mate(self) -> npt.NDArray[np.bool_]:
        """Which rows find another one of their class."""
        _, codes, counts = np.unique(self.labels, return_inverse=True, return_counts=True)
        return np.asarray(counts[codes] > 1)


def read_embedded(path: str | os.PathLike[str], name: str) -> Embeddings:
    """Embeddings and labels from an .npz: one array with two dimensions, and one label a row.

    Arrays are told apart by what they are: the labels are the integers or the text.
    """
    file = Path(path)
    if not file.is_file():
        raise InputError(f"{file} is no file; it should be an .npz with embeddings and labels.")
    try:
        arrays: dict[str, Any] = read_archive(file)
    except InputError:
        raise
    except Exception as error:  # whatever numpy or zipfile say of a damaged file
        raise InputError(f"{file} cannot be read as an .npz with embeddings and labels.") from error
    rows = [a for a in arrays.values() if a.ndim == 2 and a.dtype.kind == "f"]
    labels = [
        a.ravel() for a in arrays.values() if a.dtype.kind in "iuU" and a.size == max(a.shape)
    ]
    if len(rows) != 1 or len(labels) != 1 or len(rows[0]) != len(labels[0]):
        raise InputError(
            f"{file} must hold one array of embeddings (rows, dimensions) and one label for each "
            f"row. It holds {', '.join(f'{k} {v.dtype} {v.shape}' for k, v in arrays.items())}."
        )
    if not np.isfinite(rows[0]).all():
        raise InputError(f"the embeddings of {file} hold NaN or infinite numbers.")
    _, codes = np.unique(labels[0], return_inverse=True)
    return Embeddings(name, rows[0].astype(np.float32), codes.astype(np.int64))
