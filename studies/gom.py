"""Study of GOM: two open sets, eight models, five seeds.

Half of the test classes are unmated: their images share one camera, so that all relevant items
of such a query are junk. All else is leave-one-out. The agreement of two metrics is a rank
correlation with an interval over seeds and classes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from studies.claims import IN_DIRECTION, NOT_REPRODUCED, REPRODUCED, UNDECIDED, Claim, Evidence
from studies.page import COLOURS, INK, Drawing, Page, Sheet, panels
from studies.runner import Request
from studies.trained import (
    Finished,
    Make,
    at_defaults,
    draw_learning,
    emoji,
    few_of_each_class,
    quickdraw,
    run_benchmark,
    score_sheet,
)
from truerank._util.errors import InputError
from truerank._util.types import Integers, Reals
from truerank.benchmark.statistics import compare_methods
from truerank.core.jackknife import Replicates
from truerank.datasets.base import Dataset
from truerank.evaluation.evaluate import evaluate
from truerank.plots import plot
from truerank.result.result import Result

CITATION = (
    "Wang, Yuan, Yamasaki, Lin, Xu, Zeng: Re-identification = Retrieval + Verification: Back to "
    "Essence and Forward with a New Metric. 2020."
)
INTRODUCTION = (
    "This page tests two claims about GOM, which measures retrieval and verification at every "
    "threshold: its verification score orders models differently from mAP, and its false rate "
    "identifies models that are unfit for the open set. Eight losses are trained with the same "
    "budget on two open sets. Half of the test classes of each set are unmated."
)
RANKED = ("hit@1", "map@r", "map", "minp", "mvp_max", "mrep_max", "tau_max", "mrep")
LISTS = {
    "I": ((0.10, 0.25, 0.35, 0.75, 0.85), "11100"),
    "II": ((0.55, 0.65, 0.75, 0.85, 0.95), "11100"),
    "III": ((0.25, 0.35, 0.40, 0.50, 0.80), "10110"),
    "IV": ((0.20, 0.35, 0.45, 0.55, 0.70), "11010"),
    "V": ((0.35, 0.55, 0.65, 0.75, 0.85), "00000"),
    "VI": ((0.55, 0.75, 0.80, 0.85, 0.95), "00000"),
}
"""The lists of the paper's Table 2: distances, and which items are relevant."""


def run(request: Request) -> Page:
    """Train, judge and put the page together."""
    finished = [run_benchmark(request, name, make) for name, make in benchmarks(request).items()]
    rates = ("0.1",) if request.quick else RATES
    return Page(
        "gom",
        "GOM: retrieval and verification order models differently",
        CITATION,
        INTRODUCTION,
        [*(one.described() for one in finished), *RUNS],
        judge(finished, rates),
        [
            table_2(),
            *released_curves(request.file("curves")),
            *(sheet for one in finished for sheet in _sheets(one)),
        ],
        draw(finished),
        NOTES,
        request.quick,
        {one.name: one.numbers() for one in finished},
    )


RUNS = (
    "Unmated queries: the queries of every second test class. All images of such a class have "
    "the same camera, so that all relevant items of its queries are junk. The other images keep "
    "their cameras: the design family on the emoji, and one camera per image on quickdraw.",
    "Each loss uses its paper's parameters; its learning rates are searched, with the same "
    "number of trials for all losses. Scores are means over the models of two folds; differences "
    "are paired over test classes, and their intervals cover the variation over runs and over "
    "classes.",
)
NOTES = (
    "The text after the paper's Eq. 5 swaps FP and FN; the index i of Eq. 7 and 8 should be j; "
    "section 6 gives FAR (0, 0) where Table 2 rightly has (0, 1).",
    "The paper's Table 2 truncates sqrt(1/3) = .577 to .57.",
    "Table 5 has the mAP and mReP_max of Table 3, but other values of MREP: 44.7, 47.4, 55.1, "
    "53.9, 55.7 instead of 43.7, 46.3, 53.7, 52.9, 54.8, which is .9 to 1.4 more. In both, "
    "AlignedReID has a higher MREP than FastReID, which users rate higher (4.12 to 3.53) and "
    "search faster. Table 3 is right: the authors' released curves integrate to every MREP and "
    "MFR of Tables 3 and 4.",
    "Section 7.1 has 32,688 images of Market-1501; its parts, 12,936 and 19,732, add up to 32,668.",
    "The published MREP values need the authors' code, which stops counting false positives "
    "behind the last ground truth (`fp=frozen`); Eq. 5 does not. Values of the two kinds must "
    "not be put in one column.",
)


def table_2() -> Sheet:
    """The paper's Table 2, recomputed."""
    distances = np.array([given for given, _ in LISTS.values()])
    relevance = np.array([[mark == "1" for mark in marks] for _, marks in LISTS.values()])
    names = [f"{n}@tau={t}" for t in ("0.3", "0.6") for n in ("mrp", "mvp", "mrep")]
    names += [f"mfr@b=5,tau={t}" for t in ("0.3", "0.6")]
    found = evaluate(
        distances, relevance=relevance, distance="precomputed", metrics=["map", "minp", *names],
        confidence=None,
    )  # fmt: skip
    rows = []
    for number, name in enumerate(LISTS):
        values = [_of(found[metric].per_query, number) for metric in ("map", "minp", *names)]
        rows.append([name, *values])
    parts = [f"{name} at {tau}" for tau in (".3", ".6") for name in ("RP", "VP", "ReP")]
    header = ["list", "AP", "INP", *parts]
    return Sheet(
        "The paper's Table 2, recomputed (B = 5)", [*header, "FR at .3", "FR at .6"], rows,
        "All cells agree with the paper's, except those that the paper truncates.",
    )  # fmt: skip


RELEASED = ("CMC", "mRP", "mVP", "mReP", "mFR")


def released_curves(folder: Path | None) -> list[Sheet]:
    """The sub-metrics of the models whose curves the authors released: 101 thresholds each."""
    if folder is None:
        return []
    from scipy.io import loadmat

    rows, opposite, pairs = [], 0, 0
    for path in sorted(folder.rglob("*.mat")):
        curves = loadmat(path)
        found = [
            np.asarray(curves[f"{name}_list"]) for name in ("CMC", "mRP", "mVP", "mReP", "mFR")
        ]
        by_map, by_vp = found[1][:, -1], found[2].max(axis=1)
        i, j = np.triu_indices(len(by_map), 1)
        opposite += int(((by_map[i] - by_map[j]) * (by_vp[i] - by_vp[j]) < 0).sum())
        pairs += len(i)
        for number, (hit, rp, vp, rep, rate) in enumerate(zip(*found, strict=True), 1):
            integrals = [
                (curve[1:] + curve[:-1]).sum() / 2 / (len(curve) - 1) for curve in (rep, rate)
            ]
            values = [
                hit[0],
                rp[-1],
                vp.max(),
                rep.max(),
                rep.argmax() / (len(rep) - 1),
                *integrals,
            ]
            rows.append([f"{path.stem} {number}", *(f"{100 * value:.2f}" for value in values)])
    if not rows:
        raise InputError(f"{folder} holds no curves; expected the .mat files of GOM_results.")
    header = ["file and row", "hit@1", "mAP", "mVP_max", "mReP_max", "tau_max", "MREP", "MFR"]
    told = (
        f"Integrals use the trapezoidal rule. By mAP and by mVP_max, {opposite} of {pairs} pairs "
        "of models of a file are in opposite order."
    )
    return [Sheet("The authors' released curves, in percent", header, rows, told)]


def _of(per_query: Any, number: int) -> str:
    value = float(per_query.lower[number])
    return "" if value != value else f"{value:.4f}"


def _sheets(one: Finished) -> list[Sheet]:
    """Rankings and thresholds, false rates, and what is found at a common FAR."""
    metrics = one.config.metrics
    at_far = [metric for metric in metrics if "far=" in metric]
    false = [metric for metric in metrics if metric.startswith("mfr@") and metric not in at_far]
    return [
        score_sheet(one, RANKED, about="rankings and best thresholds"),
        score_sheet(one, false, about="false rates of unmated queries"),
        score_sheet(one, at_far, about="at a common FAR"),
    ]


# The two open sets of the study, and the eight models that are trained on each.


LOSSES = (
    "contrastive", "triplet", "multi_similarity", "smooth_ap", "recall_at_k",
    "normalized_softmax", "arcface", "proxy_nca_plus_plus",
)  # fmt: skip
RATES = ("0.01", "0.05")
"""FARs at which models are compared; the first is the paper's field's own."""
SHARES = (0.01, 0.1, 0.5)
"""B as a share of the gallery."""


def with_unmated(data: Dataset) -> Dataset:
    """A data set in whose test split every second class has nothing to find."""
    labels = data.fine_labels
    classes = np.unique(labels[data.splits["test"]])
    unmated = np.isin(labels, classes[1::2])
    own = data.groups.astype(str) if data.groups is not None else np.arange(len(data)).astype(str)
    alone = np.array([f"stranger {label}" for label in labels.tolist()])
    is_test = np.zeros(len(data), bool)
    is_test[data.splits["test"]] = True
    return replace(data, groups=np.where(unmated & is_test, alone, own))


def limits_of(gallery: int) -> dict[float, int]:
    """B for each share of the gallery."""
    return {share: max(1, round(share * gallery)) for share in SHARES}


def metrics_of(gallery: int, rates: tuple[str, ...]) -> list[str]:
    """What every model is scored by."""
    limits = limits_of(gallery)
    middle = limits[SHARES[1]]
    found = ["hit@1", "map", "minp", "mvp_max", "mrep_max", "tau_max", "mrep", "tau_nz"]
    found += [f"mfr@b={limit}" for limit in limits.values()]
    found += [f"mfr@b={middle},scale=minmax"]
    for rate in rates:
        found += [f"dir@far={rate}", f"mrep@far={rate}", f"mvp@far={rate}", f"mrp@far={rate}"]
        found += [f"mfr@b={middle},far={rate}"]
    return found


def benchmarks(request: Request) -> dict[str, Make]:
    """What makes the configuration and the data of each open set."""
    if request.quick:
        return {"emoji": lambda: _open_set("emoji", _small(emoji(request)), True)}
    return {
        "emoji": lambda: _open_set("emoji", emoji(request), False),
        "quickdraw": lambda: _open_set(
            "quickdraw", few_of_each_class(quickdraw(request), 50), False
        ),
    }


def _open_set(name: str, data: Dataset, quick: bool) -> tuple[dict[str, Any], Dataset]:
    """A configuration, and the data with unmated queries."""
    open_set = with_unmated(data)
    gallery = len(open_set.splits["test"])
    rates = ("0.1",) if quick else RATES
    names = LOSSES[:3] if quick else LOSSES
    size = {"emoji": 40, "quickdraw": 28}[name]
    config = {
        "data": {"name": name},
        "protocol": {
            "preset": "smoke" if quick else "standard", "folds": 2,
            "trials": 1 if quick else 4, "startup": 1 if quick else 2,
            "reruns": 2 if quick else 5, "metric": "map@r",
            "metrics": metrics_of(gallery, rates),
        },
        "shared": {
            "model": {"trunk": "convnet", "dimensions": 64},
            "augmentation": {"resize": size + 4, "crop": size, "scale": [0.4, 1.0], "flip": 0},
            "sampler": {"classes": 16, "samples": 4},
            "optimiser": {"name": "adam", "lr": 1e-3},
            "training": {
                "epochs": 1 if quick else 8, "iterations": 20 if quick else 200,
                "patience": 3, "precision": "float32", "deterministic": False,
            },
        },
        "methods": [{"name": loss, "parameters": at_defaults(loss)} for loss in names],
    }  # fmt: skip
    return config, open_set


def _small(data: Dataset) -> Dataset:
    """Some of the classes, as many to train on as to test."""
    kept = []
    for split in ("train", "test"):
        rows = data.splits[split]
        classes = np.unique(data.fine_labels[rows])[:60]
        kept.append(rows[np.isin(data.fine_labels[rows], classes)])
    return data.subset(np.sort(np.concatenate(kept)))


# The claims about GOM, judged from the results of every model and seed.


AGREES = 0.7
"""A rank correlation above which two metrics order eight models alike."""
POWERS = {"sqrt d": 0.5, "d^2": 2.0}


def judge(finished: Sequence[Finished], rates: Sequence[str]) -> list[Claim]:
    """Claims (a) and (b)."""
    return [_inversion(finished), _false_rate(finished, rates)]


def inversions(one: Finished) -> list[dict[str, Any]]:
    """Pairs that mAP and mVP_max order differently, with both differences and Holm's p."""
    by_map, by_vp = (compare_methods(one.runs, metric)["pairs"] for metric in ("map", "mvp_max"))
    found = []
    for a, b in zip(by_map, by_vp, strict=True):
        if a["difference"] * b["difference"] < 0:
            both = [1.0 if p is None else p for p in (a["adjusted_p"], b["adjusted_p"])]
            pair = {"first": a["first"], "second": a["second"], "map": a, "mvp_max": b}
            found.append({**pair, "p": max(both), "p of one": min(both)})
    return sorted(found, key=lambda pair: (pair["p"], pair["p of one"]))


def _inversion(finished: Sequence[Finished]) -> Claim:
    evidence, certain, half, seen = [], 0, 0, 0
    for one in finished:
        pairs = inversions(one)
        seen += len(pairs)
        certain += sum(pair["p"] < 0.05 for pair in pairs)
        half += sum(pair["p"] >= 0.05 > pair["p of one"] for pair in pairs)
        for pair in pairs[:2]:
            for metric in ("map", "mvp_max"):
                found = pair[metric]
                ends = found["interval"]
                p = found["adjusted_p"]
                evidence.append(
                    Evidence(
                        f"{one.name}: {metric} of {pair['first']} less {pair['second']} (points; "
                        f"p {'none' if p is None else f'{p:.3g}'} by Holm)",
                        found["difference"],
                        None if ends is None else (ends[0], ends[1]),
                        scale=100,
                        reason=found["reason"] or "",
                    )
                )
        if not pairs:
            evidence.append(Evidence(f"{one.name}: pairs in another order", 0, digits=0))
    if certain:
        verdict = REPRODUCED
    elif half:
        verdict = IN_DIRECTION
    elif seen:
        verdict = UNDECIDED
    else:
        verdict = NOT_REPRODUCED
    count = sum(len(one.methods) * (len(one.methods) - 1) // 2 for one in finished)
    return Claim(
        "a",
        "A model that is better by mAP need not be better by mVP_max: retrieval and verification "
        "order models differently (section 7, Table 3).",
        "Reproduced if mAP and mVP_max put at least one pair of models in opposite order and "
        "both differences are significant (p below .05 by Holm over all pairs of a data set); in "
        "direction if only one of the two differences is; undecided if there are such pairs but "
        "neither difference is; not reproduced if there is no such pair.",
        verdict,
        evidence,
        f"Of {count} pairs, {seen} are in opposite order; both differences are significant for "
        f"{certain} of them and only one of the two for {half}.",
        "More seeds, or models with larger differences.",
    )


def rescaled(one: Finished, limit: int, power: float) -> np.ndarray[Any, Any]:
    """(models, seeds): MFR of the distances to a power, from the curves of the folds' models."""
    folds = range(one.config.protocol.folds)
    name = f"mfr@b={limit}"
    found = []
    for method in one.methods:
        values = []
        for seed in one.seeds:
            ends = [
                rescaled_false_rate(one.saved(method, seed, fold).curve(name), power)
                for fold in folds
            ]
            values.append(math.fsum((low + high) / 2 for low, high in ends) / len(ends))
        found.append(values)
    return np.array(found)


def _false_rate(finished: Sequence[Finished], rates: Sequence[str]) -> Claim:
    evidence, stays, agrees = [], [], []
    for one in finished:
        gallery = int(one.saved(one.methods[0], one.seeds[0], 0).provenance["gallery"])
        limits = limits_of(gallery)
        limit = limits[SHARES[1]]
        name = f"mfr@b={limit}"
        plain = Column.of(one.runs, name)
        others: Mapping[str, Column] = {
            **{words: Column(rescaled(one, limit, power), None) for words, power in POWERS.items()},
            "min-max": Column.of(one.runs, f"{name},scale=minmax"),
        }
        for words, column in others.items():
            stays.append(_correlated(f"{one.name}: order after {words}", plain, column))
        for rate in rates:
            found = Column.of(one.runs, f"dir@far={rate}")
            turned = Column(-found.values, None if found.moves is None else -found.moves)
            what = f"{one.name}: order by DIR at FAR {rate} (reversed: lower is better)"
            agrees.append(_correlated(what, plain, turned))
            at_rate = Column.of(one.runs, f"mfr@b={limit},far={rate}")
            agrees.append(_correlated(f"{one.name}: order by mFR at FAR {rate}", plain, at_rate))
        for share, other in limits.items():
            if other != limit:
                column = Column.of(one.runs, f"mfr@b={other}")
                evidence.append(
                    _correlated(f"{one.name}: order with B {100 * share:g} % of the gallery",
                                plain, column)
                )  # fmt: skip
    lows = [item.interval[0] if item.interval else None for item in [*stays, *agrees]]
    highs = [item.interval[1] if item.interval else None for item in [*stays, *agrees]]
    if any(high is not None and high < AGREES for high in highs):
        verdict = NOT_REPRODUCED
    elif all(low is not None and low > AGREES for low in lows):
        verdict = REPRODUCED
    else:
        verdict = UNDECIDED
    return Claim(
        "b",
        "MFR identifies the models that are unfit for the open set (sections 5 and 7).",
        "Reproduced if the order of the models by MFR is preserved by the square root, the "
        "square and the min-max rescaling of distances, and agrees with the orders by DIR and by "
        f"mFR at a common FAR: Spearman's correlations with lower ends above {AGREES:g}. Not "
        f"reproduced if one of them has its upper end below {AGREES:g}, else undecided.",
        verdict,
        [*stays, *agrees, *evidence],
        "MFR integrates over the scale of distances, which differs from model to model: "
        f"{_ends(finished[-1], rates)} Other settings were tried to find agreement: other B, and "
        "a higher FAR; both are in the table. `mrep@far`, `mvp@far`, `mrp@far` and `mfr@far` do "
        "not depend on the scale; they are default metrics as well.",
        "More seeds narrow the intervals of the correlations; more models would as well."
        if verdict == UNDECIDED
        else "",
    )


def _ends(one: Finished, rates: Sequence[str]) -> str:
    """A sentence on the first and the last model by MFR, with their DIR at a FAR."""
    limit = limits_of(int(one.saved(one.methods[0], one.seeds[0], 0).provenance["gallery"]))
    name, rate = f"mfr@b={limit[SHARES[1]]}", rates[-1]
    values = {method: one.summary(method, name)["mean"] for method in one.methods}
    told = [
        f"{method} ({100 * values[method]:.1f} %, DIR at FAR {rate} "
        f"{100 * one.summary(method, f'dir@far={rate}')['mean']:.2f} %)"
        for method in (min(values, key=values.__getitem__), max(values, key=values.__getitem__))
    ]
    return f"on {one.name} it ranks {told[0]} first and {told[1]} last."


def _correlated(what: str, a: Column, b: Column) -> Evidence:
    value, ends = correlation_interval(a, b)
    if math.isnan(value):
        return Evidence(what, None, reason="all models are equal")
    return Evidence(what, value, ends, reason="" if ends else "too few draws differ")


# Whether two metrics order models alike: rank correlation with an interval over seeds and classes.
#
# Also what MFR becomes when distances are rescaled, from its curve alone.


Runs = Mapping[str, Sequence[Result]]
DRAWS = 2000


class Column:
    """One metric of some models: a value for each seed, and how classes move the mean.

    Parameters
    ----------
    values : (models, seeds) array
    moves : (models, folds) array, optional
        The mean over seeds without each fold of the test classes.
    """

    def __init__(self, values: Reals, moves: Reals | None) -> None:
        self.values, self.moves = values, moves

    @staticmethod
    def of(runs: Runs, metric: str) -> Column:
        """A metric of each model's runs."""
        values = np.array([[run[metric].value for run in some] for some in runs.values()])
        kept = [[run[metric].replicates for run in some] for some in runs.values()]
        if any(one is None for some in kept for one in some):
            return Column(values, None)
        means = [Replicates.mean([one for one in some if one is not None]) for some in kept]
        return Column(values, np.array([mean.values for mean in means]))

    @property
    def means(self) -> Reals:
        """The mean of each model."""
        return np.asarray(self.values.mean(axis=1))

    def drawn(self, seeds: Integers, folds: Integers | None) -> Reals:
        """(draws, models): means for drawn seeds of each model and drawn folds of the classes.

        A fold's pseudo-value is k times the mean less k - 1 times the mean without it.
        """
        means = np.take_along_axis(self.values[None], seeds, axis=2).mean(axis=2)
        if self.moves is not None and folds is not None:
            count = self.moves.shape[1]
            whole = self.values.mean(axis=1, keepdims=True)
            pseudo = count * whole - (count - 1) * self.moves
            means = means + pseudo[:, folds].mean(axis=2).T - pseudo.mean(axis=1)
        return np.asarray(means)


def _ranks(values: Reals) -> Reals:
    """Ranks along the last axis, from 0, the mean rank where values are equal."""
    below = (values[..., :, None] > values[..., None, :]).sum(axis=-1)
    equal = (values[..., :, None] == values[..., None, :]).sum(axis=-1)
    return np.asarray(below + (equal - 1) / 2)


def _correlations(a: Reals, b: Reals) -> Reals:
    """Spearman's rank correlation along the last axis; NaN where all are equal."""
    x, y = _ranks(a), _ranks(b)
    x, y = x - x.mean(axis=-1, keepdims=True), y - y.mean(axis=-1, keepdims=True)
    below = np.sqrt((x * x).sum(axis=-1) * (y * y).sum(axis=-1))
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(below > 0, (x * y).sum(axis=-1) / below, np.nan))


def correlation(a: Reals, b: Reals) -> float:
    """Spearman's rank correlation; NaN where all are equal."""
    return float(_correlations(a, b))


def correlation_interval(
    a: Column, b: Column, *, seed: int = 0
) -> tuple[float, tuple[float, float] | None]:
    """The correlation of the means, and its 95 % interval over draws of seeds and classes."""
    value = correlation(a.means, b.means)
    if math.isnan(value):
        return value, None
    rng = np.random.default_rng([2020, seed])
    seeds = rng.integers(a.values.shape[1], size=(DRAWS, *a.values.shape))
    folds = None
    if a.moves is not None and b.moves is not None and a.moves.shape == b.moves.shape:
        folds = rng.integers(a.moves.shape[1], size=(DRAWS, a.moves.shape[1]))
    found = _correlations(a.drawn(seeds, folds), b.drawn(seeds, folds))
    found = found[~np.isnan(found)]
    if len(found) < DRAWS // 2:
        return value, None
    low, high = np.quantile(found, [0.025, 0.975])
    return value, (float(low), float(high))


def rescaled_false_rate(curve: Mapping[str, Any], power: float) -> tuple[float, float]:
    """MFR of the distances to a power: its lower and upper bound from the curve over tau.

    mFR rises with tau, so that on each cell it lies between its values at the ends.
    """
    tau, rate = np.asarray(curve["tau"]), np.asarray(curve["value"])
    steps = np.diff(tau**power)
    return float((steps * rate[:-1]).sum()), float((steps * rate[1:]).sum())


# The figures about GOM: curves over thresholds as in the paper's Figure 3, and two orders.


def draw(finished: Sequence[Finished]) -> list[Drawing]:
    """All figures of the page."""
    found = [
        Drawing(
            "curves",
            "mReP of mated queries (above) and mFR of unmated ones (below) over the threshold, "
            "as in the paper's Figure 3; the first seed and fold of each model.",
            _curves(finished),
        ),
        Drawing(
            "two-orders",
            "The same models by mAP and by mVP_max: one dot per seed, a cross for the mean. If a "
            "model is to the right of another and below it, the two are in opposite order.",
            _orders(finished),
        ),
    ]
    return [*found, *(draw_learning(one) for one in finished)]


def _curves(finished: Sequence[Finished]) -> Any:
    figure, axes = panels(2, len(finished), width=4.6, height=3.0)
    for column, one in enumerate(finished):
        results = [one.saved(method, one.seeds[0], 0) for method in one.methods]
        limit = limits_of(int(results[0].provenance["gallery"]))[SHARES[1]]
        for place, curve in zip(axes[:, column], ("mrep", f"mfr@b={limit}"), strict=True):
            plot(results, curve, names=one.methods, ax=place, band=None, marks=False)
            place.set_title(f"{one.name}: {curve}", fontsize=9)
            place.tick_params(labelsize=7)
    return figure


def _orders(finished: Sequence[Finished]) -> Any:
    figure, axes = panels(1, len(finished), width=4.4, height=3.6)
    for place, one in zip(axes[0], finished, strict=True):
        for method, colour in zip(one.methods, COLOURS, strict=False):
            x, y = one.summary(method, "map"), one.summary(method, "mvp_max")
            place.plot([100 * v for v in x["values"]], [100 * v for v in y["values"]], ".",
                       color=colour, alpha=0.5)  # fmt: skip
            place.plot([100 * x["mean"]], [100 * y["mean"]], "+", color=INK, markersize=9)
            place.annotate(method, (100 * x["mean"], 100 * y["mean"]), fontsize=6,
                           textcoords="offset points", xytext=(4, 4), color=colour)  # fmt: skip
        place.set_title(one.name, fontsize=9)
        place.set_xlabel("mAP [%]", fontsize=8)
        place.set_ylabel("mVP_max [%]", fontsize=8)
        place.tick_params(labelsize=7)
    return figure
