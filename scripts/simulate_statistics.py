"""Measure what intervals and tests promise, on data whose truth is known; prints Markdown tables.

Each simulation draws a new data set of one design: new classes of unequal difficulty, the same
sizes. The truth is the mean score over all of them. Coverage is how often an interval holds it;
size and power are how often compare's test takes two models for different that are not, or are.

    python scripts/simulate_statistics.py [simulations] [setting ...]
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import truerank
from truerank._util.settings import limits

Array = np.ndarray
Draw = Callable[[np.random.Generator], truerank.Result]


def rows_of(
    rng: np.random.Generator, labels: Array, spread: float, dimensions: int = 16
) -> tuple[Array, Array]:
    """Gaussian clusters, some wide and some narrow; and noise of each row for a second model."""
    classes = int(labels.max()) + 1
    width = spread * np.exp(0.35 * rng.standard_normal(classes))
    centres = rng.standard_normal((classes, dimensions))
    noise = rng.standard_normal((len(labels), dimensions)) * width[labels, None]
    return centres[labels], noise


def sizes(classes: int, smallest: int, largest: int) -> Array:
    """Labels of classes whose sizes rise evenly."""
    return np.repeat(np.arange(classes), np.linspace(smallest, largest, classes).astype(int))


def leave_one_out(
    classes: int,
    spread: float,
    metrics: list[str],
    largest: int = 9,
    strangers: int = 0,
    **options: Any,
) -> Draw:
    """Besides the classes there may be strangers, rows that are alone with their label."""
    labels = np.append(sizes(classes, 3, largest), classes + np.arange(strangers))

    def draw(rng: np.random.Generator) -> truerank.Result:
        centre, noise = rows_of(rng, labels, spread)
        return truerank.evaluate(centre + noise, labels, metrics=metrics, threads=1, **options)

    return draw


def tree(classes: int, spread: float, metrics: list[str]) -> Draw:
    """New finest classes under fixed coarse nodes, whose centres stay where they are."""
    labels = sizes(classes, 3, 9)
    paths = np.column_stack([labels % 4, labels])
    coarse = np.random.default_rng(77).standard_normal((4, 16))

    def draw(rng: np.random.Generator) -> truerank.Result:
        centre, noise = rows_of(rng, labels, spread)
        x = coarse[labels % 4] + centre + noise
        return truerank.evaluate(x, paths, metrics=metrics, units="finest", threads=1)

    return draw


def coarse_paths(classes: int) -> Array:
    """Two to five finer classes of three to six rows in each coarse class."""
    of_fine = np.repeat(np.arange(classes), np.resize([2, 3, 4, 5], classes))
    labels = sizes(len(of_fine), 3, 6)
    labels = np.random.default_rng(79).permutation(len(of_fine))[labels]
    return np.column_stack([of_fine[labels], labels])


def coarse_rows(rng: np.random.Generator, paths: Array, spread: float) -> tuple[Array, Array]:
    """Centres of coarse and of finer classes; noise, more of it in some of the coarse classes."""
    classes = int(paths[:, 0].max()) + 1
    hard = np.exp(0.5 * rng.standard_normal(classes))[paths[:, 0], None]
    centre, noise = rows_of(rng, paths[:, 1], spread)
    return rng.standard_normal((classes, 16))[paths[:, 0]] + 0.7 * centre, hard * noise


def coarse(classes: int, spread: float, metrics: list[str], **options: Any) -> Draw:
    """New coarse classes of unequal difficulty."""
    paths = coarse_paths(classes)

    def draw(rng: np.random.Generator) -> truerank.Result:
        centre, noise = coarse_rows(rng, paths, spread)
        return truerank.evaluate(centre + noise, paths, metrics=metrics, threads=1, **options)

    return draw


def fixed_gallery(
    classes: int,
    spread: float,
    metrics: list[str],
    strangers: int = 0,
    items: int = 3,
    **options: Any,
) -> Draw:
    """Query classes drawn from the 400 of a gallery that stays as it is, and strangers to it."""
    known, everybody = np.random.default_rng(78), 400 + 20 * strangers
    population = np.repeat(np.arange(400), items)
    width = spread * np.exp(0.35 * known.standard_normal(everybody))
    centres = known.standard_normal((everybody, 16))
    noise = known.standard_normal((len(population), 16)) * width[population, None]
    gallery = centres[population] + noise
    many = np.append(np.linspace(2, 8, classes).astype(int), np.ones(strangers, int))

    def draw(rng: np.random.Generator) -> truerank.Result:
        met = rng.choice(400, size=classes, replace=False)
        unmet = 400 + rng.choice(20 * strangers, size=strangers, replace=False)
        labels = np.repeat(np.append(met, unmet), many)
        own = rng.standard_normal((len(labels), 16)) * width[labels, None]
        return truerank.evaluate(
            centres[labels] + own,
            labels,
            gallery=gallery,
            gallery_labels=population,
            metrics=metrics,
            threads=1,
            **options,
        )

    return draw


@dataclass(frozen=True)
class Setting:
    """One line of the table: what is drawn, and how many queries are sampled (None: all)."""

    title: str
    draw: Draw
    counted: int | None = None


VERIFICATION = [
    "auc",
    "eer",
    "min_dcf",
    "best_f1",
    "tar@far=0.01",
    "tar@far=0.1",
    "threshold@far=0.01",
    "fmr@tau=0.5",
    "fnmr@tau=0.5",
]
OPEN_SET = ["dir@far=0.2", "dir@far=0.2,rank=5", "dir@rank=5,tau=0.3", "ttr@far=0.2", "far@tau=0.3"]
GOM = ["mrep", "mrep@tau=0.25", "mvp@tau=0.25", "mfr@b=20,tau=0.3", "mrep_max", "mvp_max"]
CONSISTENCY = ["opis", "opis@eps=0.1"]
CLUSTERING = ["nmi", "ami", "pairwise_f1"]
GRADED = ["h_ap", "asi", "ndcg", "sum_wap", "map@level=1", "hit@1,level=1", "map@level=mean"]
RANKING = ["precision@1", "hit@5", "r_precision", "map@r", "map", "mrr", "minp"]
SETTINGS: dict[str, Setting] = {
    "many": Setting("leave-one-out, 100 classes", leave_one_out(100, 1.3, RANKING)),
    "some": Setting("leave-one-out, 40 classes", leave_one_out(40, 1.1, RANKING)),
    "thirty": Setting("leave-one-out, 30 classes", leave_one_out(30, 1.1, RANKING)),
    "few": Setting("leave-one-out, 12 classes", leave_one_out(12, 1.0, RANKING)),
    "easy": Setting("leave-one-out, 40 classes, scores near 1", leave_one_out(40, 0.6, RANKING)),
    "class": Setting(
        "leave-one-out, 40 classes, mean over classes",
        leave_one_out(40, 1.1, RANKING, average="class"),
    ),
    "sampled": Setting(
        "leave-one-out, 100 classes, an eighth of the queries counted by share",
        leave_one_out(100, 1.3, RANKING),
        counted=75,
    ),
    "tree": Setting(
        'leave-one-out, 40 classes under 4 fixed nodes, units="finest"',
        tree(40, 1.1, ["map", "h_ap", "asi", "ndcg", "map@level=1", "hit@1,level=1"]),
    ),
    "coarse": Setting("leave-one-out, 12 coarse classes", coarse(12, 0.8, GRADED)),
    "coarse class": Setting(
        "leave-one-out, 12 coarse classes, mean over classes",
        coarse(12, 0.8, GRADED, average="class"),
    ),
    "coarse many": Setting("leave-one-out, 30 coarse classes", coarse(30, 0.8, GRADED)),
    "gallery": Setting("own gallery, 40 classes", fixed_gallery(40, 1.0, RANKING)),
    "gallery few": Setting("own gallery, 30 classes", fixed_gallery(30, 1.0, RANKING)),
    "pairs": Setting("leave-one-out, 40 classes", leave_one_out(40, 1.0, VERIFICATION)),
    "pairs thirty": Setting("leave-one-out, 30 classes", leave_one_out(30, 1.0, VERIFICATION)),
    "pairs few": Setting("leave-one-out, 12 classes", leave_one_out(12, 1.0, VERIFICATION)),
    "pairs gallery": Setting("own gallery, 40 classes", fixed_gallery(40, 1.0, VERIFICATION)),
    "strangers": Setting(
        "leave-one-out, 40 classes and 60 strangers",
        leave_one_out(40, 0.6, OPEN_SET, strangers=60),
    ),
    "strangers gallery": Setting(
        "own gallery, 40 classes and 80 strangers",
        fixed_gallery(40, 0.7, OPEN_SET, strangers=80),
    ),
    "gom": Setting(
        "leave-one-out, 25 classes and 30 strangers",
        leave_one_out(25, 0.8, GOM, largest=4, strangers=30),
    ),
    "gom gallery": Setting(
        "own gallery, 40 classes and 30 strangers",
        fixed_gallery(
            40, 0.8, [name.replace("b=20", "b=400") for name in GOM], strangers=30, items=2
        ),
    ),
    "opis": Setting("leave-one-out, 40 classes", leave_one_out(40, 0.8, CONSISTENCY, largest=5)),
    "clusters": Setting("leave-one-out, 40 classes", leave_one_out(40, 1.0, CLUSTERING)),
    "opis gallery": Setting(
        "own gallery, 50 classes", fixed_gallery(50, 0.8, CONSISTENCY, items=1)
    ),
}


def coverage(setting: Setting, simulations: int, seed: int = 0) -> dict[str, tuple[float, float]]:
    """For each metric, the share of intervals that hold the truth, and their mean width."""
    values: dict[str, list[float]] = {}
    ends: dict[str, list[tuple[float, float]]] = {}
    with limits(**({} if setting.counted is None else {"counted": setting.counted})):
        for number in range(simulations):
            result = setting.draw(np.random.default_rng([seed, number]))
            for name, score in result.items():
                values.setdefault(name, []).append(score.value)
                ends.setdefault(name, []).append(score.interval or (np.nan, np.nan))
    out = {}
    for name, all_ends in ends.items():
        truth = np.mean(values[name])
        low, high = np.array(all_ends).T
        held = ~np.isnan(low)
        inside = (low[held] <= truth) & (truth <= high[held])
        out[name] = (float(inside.mean()), float((high - low)[held].mean()))
    return out


def rejections(apart: float, separate: bool, simulations: int, seed: int = 1) -> dict[str, float]:
    """How often compare's test, at 5 %, tells a model from one with more noise by `apart`."""
    labels = sizes(40, 3, 9)
    found = dict.fromkeys(RANKING, 0)
    for number in range(simulations):
        rng = np.random.default_rng([seed, number])
        centre, noise = rows_of(rng, labels, 1.1)
        other = rows_of(rng, labels, 1.1)[1]
        scale = np.abs(noise).mean() / np.abs(other).mean()
        mixed = (noise + scale * other) / np.sqrt(2)  # half of the noise is shared
        mixed_too = (noise - scale * other) / np.sqrt(2)
        if rng.random() < 0.5:
            mixed, mixed_too = mixed_too, mixed
        pair = []
        for x in (centre + mixed, centre + (1 + apart) * mixed_too):
            options: dict[str, Any] = {"metrics": RANKING, "threads": 1}
            if separate:
                options |= {"gallery": x[1::2], "gallery_labels": labels[1::2]}
                pair.append(truerank.evaluate(x[::2], labels[::2], **options))
            else:
                pair.append(truerank.evaluate(x, labels, **options))
        for row in truerank.compare(*pair).differences:
            found[row.metric] += row.p is not None and row.p < 0.05
    return {name: count / simulations for name, count in found.items()}


def coarse_rejections(classes: int, simulations: int, seed: int = 3) -> dict[str, float]:
    """How often compare's test takes two models for different of which each is better in some
    coarse classes, and neither on the whole."""
    paths = coarse_paths(classes)
    found = dict.fromkeys(GRADED, 0)
    for number in range(simulations):
        rng = np.random.default_rng([seed, number])
        centre, noise = coarse_rows(rng, paths, 0.8)
        pair = []
        for _ in range(2):
            own = np.exp(0.3 * rng.standard_normal(classes))[paths[:, 0], None]
            pair.append(truerank.evaluate(centre + own * noise, paths, metrics=GRADED, threads=1))
        for row in truerank.compare(*pair).differences:
            found[row.metric] += row.p is not None and row.p < 0.05
    return {name: count / simulations for name, count in found.items()}


def run_rejections(
    classes: int, differ: float, separate: bool, simulations: int, seed: int = 2
) -> dict[str, float]:
    """How often compare's test takes two samples of three runs of one method for different.

    Runs have noise of their own, and by `differ` more or less of all of it.
    """
    labels = sizes(classes, 3, 9)
    found = dict.fromkeys(RANKING, 0)
    for number in range(simulations):
        rng = np.random.default_rng([seed, number])
        centre, noise = rows_of(rng, labels, 0.9)
        results = []
        for _ in range(6):
            mine = noise + 0.6 * rng.standard_normal(noise.shape)
            x = centre + np.exp(differ * rng.standard_normal()) * mine
            options: dict[str, Any] = {"metrics": RANKING, "threads": 1}
            if separate:
                options |= {"gallery": x[1::2], "gallery_labels": labels[1::2]}
                x = x[::2]
            results.append(truerank.evaluate(x, labels[::2] if separate else labels, **options))
        for row in truerank.compare(results[:3], results[3:]).differences:
            found[row.metric] += row.p is not None and row.p < 0.05
    return {name: count / simulations for name, count in found.items()}


RUNS = {
    "runs": ("leave-one-out, 40 classes, runs that differ", 40, 0.1, False),
    "runs alike": (
        "leave-one-out, 40 classes, runs that differ in single rows only",
        40,
        0.0,
        False,
    ),
    "runs few": ("leave-one-out, 12 classes, runs that differ", 12, 0.1, False),
    "runs gallery": ("own gallery, 40 classes, runs that differ", 40, 0.1, True),
}
COARSE = {
    "coarse size": ("leave-one-out, 12 coarse classes, no difference (size)", 12),
}
TESTS = {
    "size": ("leave-one-out, no difference (size)", 0.0, False),
    "power 10": ("leave-one-out, 10 % more noise (power)", 0.1, False),
    "power 20": ("leave-one-out, 20 % more noise (power)", 0.2, False),
    "gallery size": ("own gallery, no difference (size)", 0.0, True),
    "gallery power": ("own gallery, 20 % more noise (power)", 0.2, True),
}


def main() -> None:
    """All settings, or those named."""
    warnings.simplefilter("ignore", truerank.TruerankWarning)
    simulations = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    named = sys.argv[2:] or [*SETTINGS, *TESTS, *COARSE, *RUNS]
    for name in named:
        if name in SETTINGS:
            print(f"\n{SETTINGS[name].title}\n\n| metric | coverage | mean width |", flush=True)
            print("| --- | ---: | ---: |")
            for metric, (share, width) in coverage(SETTINGS[name], simulations).items():
                print(f"| {metric} | {100 * share:.1f} % | {100 * width:.1f} |", flush=True)
        else:
            designs: dict[str, tuple[Any, ...]] = {**TESTS, **COARSE, **RUNS}
            title, *design = designs[name]
            print(f"\n{title}\n\n| metric | found different |\n| --- | ---: |", flush=True)
            measure: Callable[..., dict[str, float]] = rejections
            if name not in TESTS:
                measure = coarse_rejections if name in COARSE else run_rejections
            for metric, share in measure(*design, simulations).items():
                print(f"| {metric} | {100 * share:.1f} % |", flush=True)


if __name__ == "__main__":
    main()
