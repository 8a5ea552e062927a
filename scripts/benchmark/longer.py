"""Would more iterations change a finished benchmark? Train some of its methods for longer.

    python scripts/benchmark/longer.py build/quickdraw contrastive triplet --times 5 --jobs 12

The parameters that each search found, on all folds but one, judged on the one that was kept back:
the test half is not looked at again. Writes longer.json into the benchmark's folder.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from truerank import datasets
from truerank._util.files import to_json
from truerank.benchmark.config import read
from truerank.benchmark.layout import Layout
from truerank.benchmark.methods import methods_of, seed_of, training_config
from truerank.benchmark.plan import open_plan
from truerank.benchmark.splits import extract, make_splits
from truerank.benchmark.tasks import TrainFold
from truerank.benchmark.workers import Half, Workers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("methods", nargs="+")
    parser.add_argument("--times", type=int, default=5, help="as many epochs as in the benchmark")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    layout = Layout(options.folder)
    config = read(layout.folder / "config.yaml")
    protocol = config.protocol
    chosen = [method for method in methods_of(config) if method.name in options.methods]
    data = datasets.read(config.data.name, config.data.root)
    splits = make_splits(data, config.data.split, protocol.folds)
    half = Half(extract(data, splits.search), splits.folds)
    with open_plan(config, layout) as plan:
        best = {method.name: plan.studies.best(method.name).parameters for method in chosen}
    curves: dict[str, dict[int, Any]] = {method.name: {} for method in chosen}
    with tempfile.TemporaryDirectory() as scratch, Workers(half, options.jobs) as workers:
        for method in chosen:
            for fold in range(protocol.folds):
                seed = seed_of(protocol.seed, "longer", method.name, fold)
                training = training_config(config, method, best[method.name], seed)
                training["training"] |= {
                    "epochs": options.times * config.shared.training.epochs, "patience": None
                }  # fmt: skip
                place = Path(scratch) / method.name / str(fold)
                task = TrainFold(method.name, training, None, {}, fold, place)
                workers.submit((method.name, fold), task)
        while workers.running:
            for (name, fold), outcome in workers.next():
                curves[name][fold] = outcome.curve
    iterations = options.times * config.shared.training.epochs * config.shared.training.iterations
    to_json(
        {
            "iterations": iterations,
            "epoch": config.shared.training.iterations,
            "curves": {name: [one[fold] for fold in sorted(one)] for name, one in curves.items()},
        },
        layout.folder / "longer.json",
    )
    for name, one in curves.items():
        last = [curve[-1][2] for curve in one.values()]
        print(f"{name}: {100 * sum(last) / len(last):.2f} % after {iterations:,} iterations")


if __name__ == "__main__":
    main()
