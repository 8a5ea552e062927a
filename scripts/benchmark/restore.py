"""Put the folder of a published benchmark together again, to go on with it or to check it.

    python scripts/benchmark/restore.py docs/results/benchmark/emoji-linear build/emoji-linear
    truerank benchmark build/emoji-linear/config.yaml -o build/emoji-linear --resume

Searches are taken from trials.csv, openings from openings.jsonl; the reruns are trained again.
Where they come to the same weights, as on a CPU of the same kind, the test half is not looked at a
second time: the log knows these models already. Methods named by --without are searched again.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
from collections.abc import Collection
from pathlib import Path

from truerank.benchmark.config import read
from truerank.benchmark.layout import Layout
from truerank.benchmark.plan import open_plan
from truerank.benchmark.tasks import FoldOutcome


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("published", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--without", nargs="+", default=[], metavar="METHOD")
    options = parser.parse_args()
    restore(options.published, options.folder, options.without)


def restore(published: Path, folder: Path, without: Collection[str] = ()) -> None:
    """Write the configuration, the log of openings and the searches into a new folder."""
    folder.mkdir(parents=True)
    for name in ("config.yaml", "openings.jsonl"):
        shutil.copy(published / name, folder)
    layout = Layout(folder)
    with open_plan(read(layout.config), layout) as plan:
        for (method, _), (parameters, folds) in published_trials(published).items():
            if method not in without:
                plan.studies.add(method, json.loads(parameters), folds)


def published_trials(
    folder: Path,
) -> dict[tuple[str, int], tuple[str, dict[int, FoldOutcome]]]:
    """(method, number of the trial) -> its parameters as JSON, and what each fold came to.

    What a single training took is not published: it is the mean of its method's search.
    """
    costs = json.loads((folder / "cost.json").read_text(encoding="utf-8"))["methods"]
    found: dict[tuple[str, int], tuple[str, dict[int, FoldOutcome]]] = {}
    with (folder / "trials.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            cost = costs[row["method"]]["search"]
            seconds = round(cost["seconds"] / cost["trainings"], 3)
            score, epochs = float(row["score"]), int(row["epochs"])
            key = row["method"], int(row["trial"])
            _, folds = found.setdefault(key, (row["parameters"], {}))
            folds[int(row["fold"])] = FoldOutcome(score, epochs, 0, row["state"], seconds, [])
    return found


if __name__ == "__main__":
    main()
