"""Folder of a benchmark: where everything lies, who may write, and whether it fits.

Each machine that has worked on the benchmark is described beside it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from truerank._util.errors import InputError
from truerank._util.files import to_json, write_text
from truerank._util.text import separated
from truerank.benchmark.config import BenchmarkConfig, MethodConfig
from truerank.benchmark.tasks import FoldOutcome
from truerank.benchmark.workers import Crew, Half
from truerank.io.reading import read_json
from truerank.training.config import read_yaml

DEFAULT = "default"
"""In place of a rerun's number: one training with the parameters that the search began with."""
NO_URL = "%?{}"
"""What the address of a database would take for something else than a part of its path."""
MAY_CHANGE = (
    ("data", "root"),
    ("shared", "training", "device"),
    ("shared", "training", "workers"),
    ("shared", "training", "pipeline"),
)
"""What a resumed benchmark may do differently without becoming another one."""
UNTIL_OPENED = (("protocol", "trials"), ("protocol", "reruns"))
"""How much is done may be changed, for all methods alike, as long as the test half is sealed."""


class Layout:
    """Paths of a benchmark's folder, and what its small files hold."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.config = self.folder / "config.yaml"
        self.splits = self.folder / "splits.json"
        self.study = self.folder / "study.sqlite"
        self.trials = self.folder / "trials.csv"
        self.reruns = self.folder / "reruns.csv"
        self.openings = self.folder / "openings.jsonl"
        self.cost = self.folder / "cost.json"
        self.figures = self.folder / "figures"
        self.features = self.folder / "features.npy"
        self.environment = self.folder / "environment.json"

    def table(self, kind: str) -> Path:
        """The table as json, csv, md or tex."""
        return self.folder / f"table.{kind}"

    def method(self, name: str) -> Path:
        """All that a method leaves behind."""
        return self.folder / "runs" / name

    def trial(self, method: str, number: int, fold: int) -> Path:
        """Where an unfinished training of the search is kept."""
        return self.method(method) / f"trial-{number}" / f"fold-{fold}"

    def rerun(self, method: str, rerun: str) -> Path:
        """Where a rerun's models and scores are kept."""
        return self.method(method) / (rerun if rerun == DEFAULT else f"rerun-{rerun}")

    def fold(self, method: str, rerun: str, fold: int) -> Path:
        """Where the model of one fold of a rerun is kept."""
        return self.rerun(method, rerun) / f"fold-{fold}"

    @property
    def projections(self) -> Path:
        """The PCAs of the untrained trunks."""
        return self.method("untrained") / "pca.npz"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes out; a killed one lets go by itself."""
        if set(str(self.folder)) & set(NO_URL):
            raise InputError(
                f"the searches cannot be kept in {self.folder}: name a folder without any of "
                f"{' '.join(NO_URL)}."
            )
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            file = (self.folder / ".lock").open("w")
        except OSError as error:
            reason = error.strerror or error
            raise InputError(f"cannot make the folder {self.folder}: {reason}.") from error
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise InputError(
                    f"another process is at work on the benchmark in {self.folder}."
                ) from error
            yield

    def admit(self, config: BenchmarkConfig, resume: bool) -> None:
        """Refuse a folder that holds a benchmark, unless it is to go on with the same one."""
        if not self.config.exists():
            return
        if not resume:
            raise InputError(
                f"{self.folder} holds a benchmark already; resume it (--resume, resume=True) or "
                "name another folder."
            )
        self.check(config)

    def write_config(self, config: BenchmarkConfig) -> None:
        """Write the configuration, and copies of the losses that are the user's own."""
        for method in config.methods:
            if method.file is not None:
                kept = self._own_loss(method)
                kept.parent.mkdir(parents=True, exist_ok=True)
                write_text(kept, _read_own(method.file))
        write_text(self.config, config.to_yaml())

    def check(self, config: BenchmarkConfig) -> None:
        """Refuse a configuration, or a loss of the user's, that is not the folder's."""
        before = BenchmarkConfig.of(read_yaml(self.config), str(self.config)).to_dict()
        allowed = MAY_CHANGE if self.openings.exists() else MAY_CHANGE + UNTIL_OPENED
        given = config.to_dict()
        for path, old, new in _differences(_without_folders(before), _without_folders(given)):
            if path not in allowed:
                raise InputError(
                    f"the benchmark in {self.folder} was made with {'.'.join(path)} = {old!r}, not "
                    f"{new!r}; resume it unchanged, or name another folder."
                )
        for method in config.methods:
            if method.file is None or not self._own_loss(method).exists():
                continue
            kept = self._own_loss(method)
            if kept.read_text(encoding="utf-8") != _read_own(method.file):
                raise InputError(
                    f"{method.file} has changed since the benchmark in {self.folder} began, which "
                    f"has it as {kept}; resume with that one, or name another folder."
                )

    def _own_loss(self, method: MethodConfig) -> Path:
        """Where a copy of the file of a user's loss is kept."""
        assert method.file is not None
        return self.folder / "losses" / method.name / Path(method.file).name

    def outcome(self, method: str, rerun: str, fold: int) -> FoldOutcome | None:
        """What a rerun's training came to; None if it has not ended or its model is lost."""
        folder = self.fold(method, rerun, fold)
        path = folder / "fold.json"
        kept = (folder / "best.pt").exists() or self.scores(method, rerun) is not None
        return FoldOutcome(**read_json(path)) if path.exists() and kept else None

    def scores(self, method: str, rerun: str) -> dict[str, Any] | None:
        """The test scores of a rerun, with the hashes of its models; None before the opening."""
        path = self.rerun(method, rerun) / "scores.json"
        found: dict[str, Any] | None = read_json(path) if path.exists() else None
        return found

    def write_scores(self, method: str, rerun: str, scores: dict[str, Any]) -> None:
        """Keep the test scores of a rerun."""
        to_json(scores, self.rerun(method, rerun) / "scores.json")

    def drop_trial(self, method: str, number: int) -> None:
        """Remove what a finished trial needed."""
        shutil.rmtree(self.method(method) / f"trial-{number}", ignore_errors=True)
        with suppress(OSError):
            self.method(method).rmdir()


def _without_folders(config: dict[str, Any]) -> dict[str, Any]:
    """A configuration with bare names of files: elsewhere they lie in other folders."""
    bare = {**config, "data": {**config["data"], "split": Path(config["data"]["split"]).name}}
    bare["methods"] = [
        {
            field: Path(value).name if field in ("file", "embeddings") else value
            for field, value in method.items()
        }
        for method in config["methods"]
    ]
    return bare


def _read_own(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read the loss in {path}: {reason}.") from error


def _differences(before: Any, after: Any, path: tuple[str, ...] = ()) -> Iterator[Any]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys([*before, *after]):
            yield from _differences(before.get(key), after.get(key), (*path, key))
    elif before != after:
        yield path, before, after


def write_csv(path: Path, header: Sequence[str], rows: Sequence[dict[str, Any]]) -> None:
    """Write rows as CSV, in one step."""
    write_text(path, separated(header, [[row.get(name) for name in header] for row in rows]))


# The machines that have worked on a benchmark: what each says of itself is kept beside it.


@dataclass(frozen=True)
class DescribeEnvironment:
    """A task: versions and device of whoever runs it."""

    device: str
    seed: int
    deterministic: bool

    def run(self, half: Half) -> dict[str, Any]:
        """See Task."""
        from truerank.training import devices

        device = devices.resolve(self.device)
        facts = devices.describe(device, seed=self.seed, deterministic=self.deterministic)
        del facts["threads"]
        return facts


def note_environment(layout: Layout, config: BenchmarkConfig, crew: Crew, half: Half) -> None:
    """Add to the known machines this one, or a worker where others do the work: a machine that
    begins a run on a cluster may have no GPU."""
    training = config.shared.training
    task = DescribeEnvironment(training.device, config.protocol.seed, training.deterministic)
    if crew.here:
        facts = task.run(half)
    else:
        crew.submit("environment", task)
        ((_, facts),) = crew.next()
    known: list[Any] = read_json(layout.environment) if layout.environment.exists() else []
    if facts not in known:
        to_json([*known, facts], layout.environment)
