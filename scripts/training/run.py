"""Train every experiment, several at a time on one GPU, and save the test embeddings.

    PYTHONPATH=src TRUERANK_CACHE=carry/cache python scripts/training/run.py OUT --site carry/site

First a learning rate is chosen for each experiment on the first fold of its training classes, then
all training classes are trained on with every seed. Out: OUT/*.npz and OUT/runs.json, written anew
after each run, so that a time limit costs the runs under way and no others. score.py turns them
into scores, on any machine.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
import traceback
import types
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from experiments import EXPERIMENTS, RATES, SEEDS, Experiment


@dataclass(frozen=True)
class Job:
    """One run: of the search, on all folds but the first, or of the results."""

    experiment: Experiment
    rate: float
    seed: int
    epochs: int
    iterations: int
    search: bool
    trial: bool


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--site", type=Path, help="a folder with packages, made by carry.py")
    parser.add_argument("--parallel", type=int, default=4, help="runs at a time")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--iterations", type=int, default=100, help="in an epoch")
    parser.add_argument("--seconds", type=float, default=480, help="begin no run after this time")
    parser.add_argument("--rate", type=float, help="use this learning rate and search none")
    parser.add_argument("--only", help="experiments whose name contains this")
    parser.add_argument("--trial", action="store_true", help="tiny images, batches and data")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    chosen = [e for e in EXPERIMENTS if options.only is None or options.only in e.key]
    length = {"iterations": options.iterations, "trial": options.trial}
    found: list[dict[str, Any]] = []
    searched: list[dict[str, Any]] = []
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        options.parallel, mp_context=context, initializer=prepare, initargs=(options.site,)
    ) as pool:

        def work(jobs: Iterable[Job]) -> Iterator[dict[str, Any]]:
            return finish(pool, jobs, options.parallel, began + options.seconds)

        if options.rate is None:
            jobs = [
                Job(e, rate, 0, max(1, options.epochs // 2), search=True, **length)
                for e in chosen
                if e.rate_of is None
                for rate in RATES
            ]
            for outcome in work(jobs):
                report(outcome, began)
                searched.append(outcome)
        rates = {e.key: best_rate(e, searched, options.rate) for e in chosen}
        jobs = [
            Job(e, rates[e.key], seed, options.epochs, search=False, **length)
            for seed in SEEDS
            for e in chosen
        ]
        for outcome in work([*baselines(chosen, options.trial), *jobs]):
            report(outcome, began)
            found.append(outcome)
            save(options.out, found, searched, time.monotonic() - began)


def finish(
    pool: ProcessPoolExecutor, jobs: Iterable[Any], parallel: int, until: float
) -> Iterator[dict[str, Any]]:
    """Outcomes as they come; a run is begun only while there is time."""
    waiting: set[Future[dict[str, Any]]] = set()
    left = iter(jobs)
    while True:
        while len(waiting) < parallel and time.monotonic() < until:
            job = next(left, None)
            if job is None:
                break
            waiting.add(pool.submit(train_one, job))
        if not waiting:
            return
        done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        for future in done:
            if future.exception() is None:
                yield future.result()
            else:  # the others are worth having
                traceback.print_exception(future.exception())


def best_rate(experiment: Experiment, searched: list[dict[str, Any]], given: float | None) -> float:
    if given is not None:
        return given
    key = f"{experiment.data}-{experiment.rate_of or experiment.name}"
    values = {s["rate"]: s["validation"] for s in searched if s["key"] == key}
    return max(values, key=lambda rate: values[rate]) if values else RATES[1]


def baselines(chosen: list[Experiment], trial: bool) -> list[Job]:
    """The trunk as it comes, for each data set."""
    names = sorted({experiment.data for experiment in chosen})
    return [Job(Experiment("pretrained", name, {}), 0.0, 0, 0, 0, False, trial) for name in names]


def report(outcome: dict[str, Any], began: float) -> None:
    facts = {k: v for k, v in outcome.items() if k not in ("embeddings", "config", "environment")}
    print(f"{time.monotonic() - began:6.1f} s {json.dumps(facts)}", flush=True)


def save(
    out: Path, found: list[dict[str, Any]], searched: list[dict[str, Any]], seconds: float
) -> None:
    """One archive for each group of experiments, and what is known about every run."""
    import numpy as np

    archives: dict[str, dict[str, Any]] = {}
    for outcome in found:
        group = outcome["key"].partition("+")[0] if "quickdraw" in outcome["key"] else "emoji"
        arrays = archives.setdefault(group, {})
        arrays[f"{outcome['key']}-{outcome['seed']}"] = outcome["embeddings"]
    for group, arrays in archives.items():
        np.savez(out / f"{group}.npz", **arrays)
    runs = [{k: v for k, v in outcome.items() if k != "embeddings"} for outcome in found]
    facts = {"seconds": round(seconds, 1), "runs": runs, "search": searched}
    (out / "runs.json").write_text(json.dumps(facts, indent=1) + "\n")


# What follows happens in the worker processes.


def prepare(site: Path | None) -> None:
    """Make carried packages importable, behind installed ones."""
    if site is not None:
        sys.path.append(str(site.resolve()))
    try:
        import scipy
    except ImportError:
        # pytorch-metric-learning imports it for a loss and a utility that are not used here.
        scipy = types.ModuleType("scipy")
        for name in ("special", "stats"):
            module = types.ModuleType(f"scipy.{name}")
            setattr(scipy, name, module)
            sys.modules[f"scipy.{name}"] = module
        sys.modules["scipy"] = scipy


@cache
def read(name: str, trial: bool) -> Any:
    """A data set; for a trial, twelve classes of each split."""
    import numpy as np

    from truerank import datasets

    data = datasets.read(name)
    if not trial:
        return data
    rows = []
    for split in data.splits.values():
        labels = data.fine_labels[split]
        rows += split[np.isin(labels, np.unique(labels)[:12])].tolist()
    return data.subset(rows)


def train_one(job: Job) -> dict[str, Any]:
    """Train, and embed the test split (or the fold that was kept back)."""
    import torch

    from truerank import evaluate
    from truerank.training import Trainer, class_folds
    from truerank.training.environment import describe

    started = time.monotonic()
    experiment = job.experiment
    data = read(experiment.data, job.trial)
    outcome: dict[str, Any] = {"key": experiment.key, "rate": job.rate, "seed": job.seed}
    if job.epochs == 0:
        return outcome | {"embeddings": pretrained(data, job.trial)}
    config = experiment.config(
        rate=job.rate,
        seed=job.seed,
        epochs=job.epochs,
        iterations=job.iterations,
        trial=job.trial,
    )
    train = data.subset("train")
    if not job.search:
        trainer = Trainer(config, train).fit()
        embeddings = trainer.embed(trainer.model, data.subset("test"))
        outcome |= {"embeddings": eight_bits(embeddings), "config": trainer.config.to_dict()}
        outcome["environment"] = describe(trainer.device, seed=job.seed, deterministic=False)
    else:
        kept, *others = class_folds(train.fine_labels, 4)
        trainer = Trainer(
            config, train.subset(sorted(row for fold in others for row in fold))
        ).fit()
        fold = train.subset(kept)
        found = evaluate(
            trainer.embed(trainer.model, fold), **fold.task_arguments(), metrics=["map@r"]
        )
        outcome["validation"] = found["map@r"].value
    last = trainer.history[-1]
    outcome |= {"loss": last["loss"], "images_per_second": last["images_per_second"]}
    outcome["seconds"] = round(time.monotonic() - started, 1)
    if torch.cuda.is_available():
        outcome["gpu_megabytes"] = torch.cuda.max_memory_allocated() // 2**20
    return outcome


def pretrained(data: Any, trial: bool) -> Any:
    """The trunk's features in 128 dimensions, by a PCA of the training images' features."""
    import torch
    from torch import nn

    from truerank.training import Embedder, Trainer, trunks

    experiment = next(e for e in EXPERIMENTS if e.data == data.name)
    config = experiment.config(rate=1e-4, seed=0, epochs=1, iterations=4, trial=trial)
    trunk = trunks.get("efficientnet_lite0")
    model = Embedder(trunk, trunk.features)
    model.linear = nn.Identity()
    trainer = Trainer(config, data.subset("train"))
    model = model.to(trainer.device)
    fitted = torch.from_numpy(trainer.embed(model, data.subset("train"))).double()
    tested = torch.from_numpy(trainer.embed(model, data.subset("test"))).double()
    mean = fitted.mean(dim=0)
    directions = torch.linalg.eigh((fitted - mean).T @ (fitted - mean))[1][:, -128:]
    return eight_bits(((tested - mean) @ directions).numpy())


def eight_bits(embeddings: Any) -> Any:
    """Each row scaled to -127..127 and rounded: what is saved is the embedding that is scored.

    Cosines do not see the scale; rounding moves them by about 0.001.
    """
    import numpy as np

    scale = 127 / np.abs(embeddings).max(axis=1, keepdims=True)
    return np.rint(embeddings * scale).astype(np.int8)


if __name__ == "__main__":
    main()
