"""Did early stopping cut off what would have risen? Train a benchmark's stopped trials to the end.

    python scripts/benchmark/patience.py docs/results/benchmark/quickdraw patience.json --jobs 12

Of the trials in trials.csv that ended before their last epoch, on one fold, each is trained again
with the same seed and no patience. The test half is not looked at. Writes, for each method, the
best score of the search on that fold and the curve of every such trial.
"""

from __future__ import annotations

import argparse
import csv
import json
import tempfile
from pathlib import Path
from typing import Any

from truerank import datasets
from truerank._util.files import to_json
from truerank.benchmark.config import read
from truerank.benchmark.methods import methods_of, seed_of, training_config
from truerank.benchmark.splits import extract, make_splits
from truerank.benchmark.tasks import TrainFold
from truerank.benchmark.workers import Half, Workers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--methods", nargs="*", help="all by default")
    parser.add_argument("--fold", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    config = read(options.folder / "config.yaml")
    epochs, seed = config.shared.training.epochs, config.protocol.seed
    with (options.folder / "trials.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if int(row["fold"]) == options.fold]
    methods = {
        one.name: one
        for one in methods_of(config)
        if one.is_trained and (not options.methods or one.name in options.methods)
    }
    data = datasets.read(config.data.name, config.data.root)
    splits = make_splits(data, config.data.split, config.protocol.folds)
    half = Half(extract(data, splits.search), splits.folds)
    found: dict[str, dict[str, Any]] = {
        name: {
            "best": max(float(row["score"]) for row in rows if row["method"] == name),
            "trials": [],
        }
        for name in methods
    }
    with tempfile.TemporaryDirectory() as scratch, Workers(half, options.jobs) as workers:
        for row in rows:
            stopped = int(row["epochs"]) < epochs and row["state"] == "finished"
            if row["method"] not in methods or not stopped:
                continue
            method, parameters = methods[row["method"]], json.loads(row["parameters"])
            training = training_config(
                config, method, parameters, seed_of(seed, "fold", options.fold)
            )
            training["training"] |= {"patience": None}
            place = Path(scratch) / method.name / row["trial"]
            task = TrainFold(method.name, training, None, {}, options.fold, place)
            workers.submit((method.name, json.dumps(row)), task)
        while workers.running:
            for (name, told), outcome in workers.next():
                row = json.loads(told)
                found[name]["trials"].append(
                    {
                        "trial": int(row["trial"]),
                        "parameters": json.loads(row["parameters"]),
                        "stopped": {"epochs": int(row["epochs"]), "score": float(row["score"])},
                        "curve": outcome.curve,
                        "score": outcome.score,
                    }
                )
                to_json(found, options.output)
    for name, one in found.items():
        above = [trial["score"] for trial in one["trials"] if trial["score"] > one["best"]]
        most = max((trial["score"] for trial in one["trials"]), default=float("nan"))
        print(
            f"{name}: best of the search {100 * one['best']:.2f} %; {len(one['trials'])} stopped "
            f"trials reach {100 * most:.2f} % at most, {len(above)} of them more than that."
        )


if __name__ == "__main__":
    main()
