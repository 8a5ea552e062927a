"""python -m tests.stored.files: write results, tasks and checkpoints as this version writes them.

They stand in a folder named after the version, and no later version touches them: it must read
them, or say in one sentence that it does not. Of a version under development, only checkpoints do.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import truerank
from tests.stored.digest import digest
from tests.stored.evaluations import SHAPES, evaluated, found, run
from truerank._util.settings import settings

FOLDER = Path(__file__).with_name("versions")
RESULTS = ("leave one out", "strangers", "tree", "gallery", "judgements")
TASKS = ("cameras", "tree", "junk", "distractors", "judgements")
CHECKPOINTS: dict[str, tuple[str, dict[str, Any]]] = {
    "rankings": ("leave one out", {"metrics": ["map@r", "mrr", "precision@3"]}),
    "hierarchy": ("tree", {"metrics": ["h_ap", "map@level=1", "hit@1"]}),
    "thresholds": (
        "strangers",
        {"metrics": ["map@r", "auc", "dir@far=0.1", "mrep", "opis@far=0.05:0.5"]},
    ),
}


def in_words(name: str) -> str:
    return name.replace(", ", "-").replace(" ", "-")


class Stop(KeyboardInterrupt):
    """Ctrl-C."""


def stopping(done: int, total: int) -> None:
    if 2 * done >= total:
        raise Stop


def checkpointed(name: str, path: Path, progress: Callable[[int, int], None] | None = None) -> Any:
    shape, options = CHECKPOINTS[name]
    more = {"device": "cpu", "checkpoint": path, "progress": progress}
    return run(lambda: evaluated(shape, "cosine", {**options, **more}))


def task_of(shape: str) -> truerank.Task:
    task = SHAPES[shape]()
    for name in ("rows", "gallery"):
        task.pop(name, None)
    names = {"query_ids": "ids", "query_groups": "groups"}
    labels = task.pop("labels", None)
    return truerank.Task(labels, **{names.get(name, name): value for name, value in task.items()})


def numbers(result: truerank.Result) -> str:
    """A digest of all that a file keeps."""
    scores, intervals = found(truerank.Result.from_dict(result.to_dict(curves=False)))
    del scores["provenance"], intervals["provenance"]
    return digest((scores, intervals))


def main() -> None:
    folder = FOLDER / truerank.__version__
    folder.mkdir(parents=True)
    if ".dev" not in truerank.__version__:
        _write_results_and_tasks(folder)
    sizes = {"checkpoint_worth": 0, "chapter_pairs": 16 * 64, "chapter_growth": 1}
    for name in CHECKPOINTS:
        with settings(query_rows=8, **sizes):
            try:
                checkpointed(name, folder / f"checkpoint-{name}", stopping)
            except Stop:
                _compress(folder / f"checkpoint-{name}")
                continue
        raise RuntimeError(f"{name} was not stopped")


def _write_results_and_tasks(folder: Path) -> None:
    known = {}
    for shape in RESULTS:
        result = run(lambda shape=shape: evaluated(shape, "cosine", {"metrics": None}))
        result.to_json(folder / f"result-{in_words(shape)}.json")
        known[shape] = numbers(result)
    (folder / "numbers.json").write_text(json.dumps(known, indent=2) + "\n")
    for shape in TASKS:
        run(lambda shape=shape: task_of(shape)).save(folder / f"task-{in_words(shape)}.npz")


def _compress(path: Path) -> None:
    """A checkpoint is written plainly; in the repository it had better be small."""
    with np.load(path) as archive:
        arrays = dict(archive)
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)


if __name__ == "__main__":
    main()
