"""Study of TCM: QuickDraw by classes and by images decides, the grocery store is shown.

Four losses run alone, with TCM and with a control. What is added is searched for the smallest
OPIS of the validation folds among trials whose MAP@R is at least that of the loss alone, less
half a point. Claims are judged by paired differences over seeds and test classes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from studies.claims import (
    IN_DIRECTION,
    NOT_REPRODUCED,
    REPRODUCED,
    UNDECIDED,
    Claim,
    Evidence,
    budget,
    decide_above,
    decide_below,
)
from studies.page import COLOURS, INK, Drawing, Page, Sheet, panels
from studies.runner import Request
from studies.trained import (
    Finished,
    Make,
    at_defaults,
    draw_learning,
    few_of_each_class,
    gain,
    grocery,
    quickdraw,
    run_benchmark,
    score_sheet,
    shifted,
)
from truerank.datasets.base import Dataset
from truerank.result.result import Result

CITATION = (
    "Zhang, Xu, Tang, Fang, Wu, Tighe, Xing: Threshold-Consistent Margin Loss for Open-World Deep "
    "Metric Learning. ICLR 2024."
)
INTRODUCTION = (
    "This page tests three claims about TCM, a margin loss on hard pairs that is added to "
    "another loss: it lowers OPIS, the variation between classes of the utility at one "
    "threshold, costs no accuracy, and does more for consistency than the contrastive loss. Four "
    "losses are trained alone, with TCM, and with the contrastive loss in place of TCM."
)
RUNS = (
    "Each loss uses its paper's parameters; its learning rates are searched by validation MAP@R. "
    "The added loss is searched with the same number of trials: the search takes the margins, "
    "weight and rates with the smallest validation OPIS among the trials whose MAP@R is at least "
    "that of the loss alone less .5 points.",
    "`disjoint`: the test split has half of the classes. `shared`: the test split has half of "
    "the images of each class; each model was trained on half of these classes, and the other "
    "half was its validation fold.",
    "OPIS is taken at FAR .01 to .1 over all pairs, integrated exactly; its noise floor is the "
    "OPIS that classes of these sizes would show if the expected utility of all were the same.",
)
NOTES = (
    "The paper's absolute upper bound of OPIS is 0.5; it is 0.25: two classes, one with utility 1 "
    "and one with 0, differ from their mean by 1/2 each.",
    "Its worked example of 9.12e-2 is 2.31e-2 (utilities of alpha = .1 on [.8, 1.2]): Eq. 14 "
    "should be alpha (1 - alpha)/4 times the mean of (1 + (d - 1)^2)^2, and its own last step "
    "holds only where d_min + d_max = 2.",
    "RS@k with TCM gains .8 points on ViT-B/16 in Table 3 and .9 in Tables 5, 8 and 9, where 84.8 "
    "- 83.9 = .9. A row of Table 5 is called RS@k + HMC. A.3.2 explains Figure 4(b) as 5(b), with "
    "its two classes exchanged.",
    "The margins of A.3.1 should read m+ = 1 - d_min^2/2 and m- = 1 - d_max^2/2: the cosine of "
    "unit vectors at distance d is 1 - d^2/2.",
    "Eq. 3 lacks the factor 2 of the harmonic mean; Algorithm 1 as printed lacks the step width.",
    "Eq. 13 lacks a factor d: the mean utility is (1 - alpha) d (1 - d/2) + alpha, by Eq. 12.",
    "The approximation below Eq. 10 lacks a factor: with erf(t_neg) = -1 both utilities are "
    "2 (1 + erf(t_pos)) / (3 + erf(t_pos)), which is 1 for erf(t_pos) = 1, and not 1/2.",
    "Table 1 lists Cars with 8,054 and 8,131 images, which are those of its 98 training and 98 "
    "test classes; the split with shared classes, which the text names, has 8,144 and 8,041.",
)


def run(request: Request) -> Page:
    """Train, judge and put the page together."""
    finished = [run_benchmark(request, name, make) for name, make in benchmarks(request).items()]
    runs = [*(one.described() for one in finished), *RUNS]
    if not any(one.name == "grocery" for one in finished):
        runs.append(
            "The grocery store was not run, because no file was given (--data grocery=FILE)."
        )
    scales = {"opis": 1000.0, "opis@eps=0.1": 1000.0}
    sheets = [score_sheet(one, one.config.metrics, scales=scales) for one in finished]
    return Page(
        "tcm",
        "TCM: one threshold for all classes",
        CITATION,
        INTRODUCTION,
        runs,
        judge(finished),
        [*sheets, *(_chosen(one) for one in finished)],
        draw(finished),
        NOTES,
        request.quick,
        {one.name: one.numbers() for one in finished},
    )


def _chosen(one: Finished) -> Sheet:
    """What the searches chose, with the notes of the benchmark."""
    rows = []
    for row in one.table["rows"]:
        if "parameters" in row:
            shown = ", ".join(f"{k} {v:.3g}" for k, v in row["parameters"].items())
            rows.append([row["method"], shown, "; ".join(row["notes"])])
    return Sheet(f"{one.name}: what was chosen", ["row", "parameters", "notes"], rows)


# The rows of the study on thresholds: four losses, each alone, with TCM and with a control.


BASES = {
    "ProxyNCA": "proxy_nca",
    "ArcFace": "arcface",
    "Smooth-AP": "smooth_ap",
    "Recall@k": "recall_at_k",
}
TCM, CONTROL = "+tcm", "+contrastive"
LESS = 0.005
METRICS = ("opis", "opis@eps=0.1", "hit@1", "map@r")
WEIGHT = {"low": 0.1, "high": 10.0, "log": True}


def _rows(bases: dict[str, str]) -> list[dict[str, Any]]:
    found = []
    for name, loss in bases.items():
        base: dict[str, Any] = {"loss": loss, "parameters": at_defaults(loss)}
        objective = {"minimise": "opis", "of": name, "less": LESS}
        found.append({"name": name, **base})
        found.append(
            {
                "name": name + TCM, **base, "plus": [{"name": "tcm"}], "objective": objective,
                "search": {
                    "tcm.positive_margin": {"low": 0.6, "high": 1.0},
                    "tcm.negative_margin": {"low": 0.0, "high": 0.7},
                    "tcm.weight": WEIGHT,
                },
            }
        )  # fmt: skip
        found.append(
            {
                "name": name + CONTROL, **base, "plus": [{"name": "contrastive"}],
                "objective": objective,
                "search": {
                    "contrastive.positive_margin": {"low": 0.0, "high": 0.8},
                    "contrastive.negative_margin": {"low": 0.5, "high": 1.4},
                    "contrastive.weight": WEIGHT,
                },
            }
        )  # fmt: skip
    return found


def benchmarks(request: Request) -> dict[str, Make]:
    """What makes the configuration and the data of each part; the first one decides."""
    if request.quick:
        few = {name: BASES[name] for name in ("ArcFace", "Smooth-AP")}
        return {
            "disjoint": lambda: (
                _config("quickdraw", few, True, 28, "classes"),
                _small(quickdraw(request)),
            )
        }

    def drawings(split: str) -> tuple[dict[str, Any], Dataset]:
        config = _config("quickdraw", BASES, False, 28, split)
        return config, few_of_each_class(quickdraw(request), 50)

    found: dict[str, Make] = {
        "disjoint": lambda: drawings("classes"),
        "shared": lambda: drawings("images"),
    }
    if request.file("grocery") is not None or (request.folder / "grocery").is_dir():
        # A fold trains on 20 of its 81 classes.
        shop = _config("grocery", BASES, False, 56, "stratified", classes=16, trials=2)
        found["grocery"] = lambda: (shop, grocery(request))
    return found


def _small(data: Dataset) -> Dataset:
    """A few images of some classes, for training and for the test."""
    few = few_of_each_class(data, 10)
    rows = [row for split in ("train", "test") for row in few.splits[split][:400].tolist()]
    return few.subset(rows)


def _config(
    name: str, bases: dict[str, str], quick: bool, size: int, split: str, *, classes: int = 24,
    trials: int = 5,
) -> dict[str, Any]:  # fmt: skip
    return {
        "data": {"name": name, "split": split},
        "protocol": {
            "preset": "smoke" if quick else "standard", "folds": 2,
            "trials": 2 if quick else trials, "startup": 1 if quick else min(3, trials),
            "reruns": 2 if quick else 5, "metric": "map@r", "metrics": list(METRICS),
        },
        "shared": {
            "model": {"trunk": "convnet", "dimensions": 128},
            "augmentation": {"resize": size, "crop": size, "scale": [0.4, 1.0], "flip": 0},
            "sampler": {"classes": 8 if quick else classes, "samples": 4},
            "optimiser": {"name": "adam", "lr": 1e-3},
            "training": {
                "epochs": 1 if quick else 8, "iterations": 20 if quick else 200, "patience": 3,
                "precision": "float32", "deterministic": False,
            },
        },
        "methods": _rows(bases),
    }  # fmt: skip


# The claims about TCM, judged by paired differences over seeds and test classes.


INFERIOR = -0.01
"""Points of hit@1 that TCM may cost."""


def bases_of(one: Finished) -> list[str]:
    """The losses that have a row with TCM."""
    return [name for name in one.methods if name + TCM in one.methods]


def above_noise(one: Finished, method: str) -> list[Result]:
    """OPIS less the noise floor of each run: what small classes alone would show."""
    floors = one.facts(method, lambda facts: float(facts["consistency"]["noise"]))
    return [
        shifted(run, "opis", -floor) for run, floor in zip(one.runs[method], floors, strict=True)
    ]


def most_of(verdicts: Sequence[str], values: Sequence[float | None]) -> str:
    """The verdict of a claim that must hold for all but one of the bases.

    Reproduced if it does; not reproduced if for two or more the contrary is certain; in direction
    if it is certain for some base, the contrary for none, and as many values as needed have the
    right sign; else undecided.
    """
    needed = max(1, len(verdicts) - 1)
    if sum(one == REPRODUCED for one in verdicts) >= needed:
        return REPRODUCED
    if sum(one == NOT_REPRODUCED for one in verdicts) > len(verdicts) - needed:
        return NOT_REPRODUCED
    right = sum(value is not None and value < 0 for value in values)
    if REPRODUCED in verdicts and NOT_REPRODUCED not in verdicts and right >= needed:
        return IN_DIRECTION
    return UNDECIDED


def judge(finished: Sequence[Finished]) -> list[Claim]:
    """Claims of the class-disjoint setting, and the same of the others that decide."""
    letters = iter("abcdefgh")
    return [
        claim
        for one in finished
        if one.name in ("disjoint", "shared")
        for claim in (
            _falls(next(letters), one),
            _accuracy(next(letters), one),
            _control(next(letters), one),
        )
    ]


def _setting(one: Finished) -> str:
    return {
        "disjoint": "on classes that were not trained on",
        "shared": "on new images of classes that were trained on",
    }[one.name]


def _falls(key: str, one: Finished) -> Claim:
    evidence, verdicts, values = [], [], []
    for base in bases_of(one):
        raw = _opis(f"{base}: with TCM less without", one.runs[base + TCM], one.runs[base])
        net = _opis(
            f"{base}: the same difference above the noise floor",
            above_noise(one, base + TCM),
            above_noise(one, base),
        )
        evidence += [raw, net]
        both = [decide_below(raw), decide_below(net)]
        both_hold = all(part == REPRODUCED for part in both)
        verdicts.append(REPRODUCED if both_hold else _worst(both))
        values.append(_larger(raw, net))
    return Claim(
        key,
        f"TCM lowers OPIS for every loss it is added to, {_setting(one)} (Tables 2 and 5).",
        "Reproduced if OPIS, both raw and less its noise floor, falls for all bases but at most "
        "one, with the paired interval below 0; not reproduced if an interval rules out a fall "
        "for more than one base; in direction if both intervals are below 0 for at least one "
        "base, no interval rules out a fall, and the means fall for all but at most one.",
        most_of(verdicts, values),
        evidence,
        tell=budget(evidence, len(one.seeds)),
    )


def _opis(what: str, ours: Sequence[Result], theirs: Sequence[Result]) -> Evidence:
    return gain(f"OPIS, {what} (x 1000)", ours, theirs, "opis", scale=1000, digits=3)


def _worst(parts: Sequence[str]) -> str:
    return NOT_REPRODUCED if NOT_REPRODUCED in parts else UNDECIDED


def _larger(*parts: Evidence) -> float | None:
    values = [part.value for part in parts if part.value is not None]
    return max(values) if len(values) == len(parts) else None


def _accuracy(key: str, one: Finished) -> Claim:
    evidence = [
        gain(f"{base}: hit@1 with TCM less without (points)", one.runs[base + TCM],
             one.runs[base], "hit@1")
        for base in bases_of(one)
    ]  # fmt: skip
    verdicts = [decide_above(item, INFERIOR) for item in evidence]
    values = [None if item.value is None else INFERIOR - item.value for item in evidence]
    return Claim(
        key,
        f"TCM does not cost accuracy, {_setting(one)} (Tables 2 and 5).",
        "Reproduced if hit@1 is not inferior by 1 point (lower end of the interval of the paired "
        "difference above -1 point) for all bases but at most one.",
        most_of(verdicts, values),
        evidence,
        tell=budget(evidence, len(one.seeds), INFERIOR),
    )


def _control(key: str, one: Finished) -> Claim:
    evidence = [
        _opis(
            f"{base}: with TCM less with the contrastive loss in its place",
            one.runs[base + TCM],
            one.runs[base + CONTROL],
        )
        for base in bases_of(one)
    ]

    def decide(found: Sequence[Evidence]) -> str:
        return most_of([decide_below(item) for item in found], [item.value for item in found])

    return Claim(
        key,
        "TCM improves consistency more than the contrastive loss as a regulariser, "
        f"{_setting(one)} (the paper's Table 7 shows the opposite for this pair: OPIS .17 and .10 "
        "x 1e-3, at recall@1 of 69.1 and 67.1 %).",
        "Reproduced if OPIS is lower with TCM than with the contrastive loss added and searched in "
        "the same way, for all bases but at most one.",
        decide(evidence),
        evidence,
        tell=budget(evidence, len(one.seeds), decide=decide),
    )


# Closed forms of the paper's appendix: utilities of Gaussian distances, the bound of OPIS.


Gaussian = tuple[float, float]
"""Mean and standard deviation of the distances of some pairs."""


def gaussian_utility(
    distance: float, positive: Gaussian, negative: Gaussian, *, of: str = "specificity"
) -> float:
    """The utility at a threshold where distances are Gaussian (Eqs. 7 to 10).

    It is the harmonic mean of sensitivity and specificity, or of sensitivity and precision for
    as many positive as negative pairs.
    """
    sensitivity, accepted = (
        (1 + math.erf((distance - mean) / (math.sqrt(2) * deviation))) / 2
        for mean, deviation in (positive, negative)
    )
    if of == "precision":
        return 2 * sensitivity / (1 + sensitivity + accepted)
    return 2 * sensitivity * (1 - accepted) / (sensitivity + 1 - accepted)


def opis_of_random_classes(share: float, low: float, high: float) -> float:
    """OPIS where a share of the classes is perfect and the others have distances at random.

    The paper's "realistic upper bound" (A.1.2): their utilities differ by 1 - d (1 - d/2), which
    is (1 + (d - 1)^2) / 2. So OPIS is share (1 - share) times the mean of its square.
    """
    ends = (x + 2 * x**3 / 3 + x**5 / 5 for x in (high - 1, low - 1))
    above, below = ends
    return share * (1 - share) * (above - below) / (4 * (high - low))


def calibration_range(positive_margin: float, negative_margin: float) -> tuple[float, float]:
    """The distances between which TCM's margins lie (section 4)."""
    return math.sqrt(2 - 2 * positive_margin), math.sqrt(2 - 2 * negative_margin)


# The figures about TCM: accuracy against consistency, utilities of single classes, closed forms.


CLASS = "class "
"""How the columns of single classes begin in a curve of utilities."""


def draw(finished: Sequence[Finished]) -> list[Drawing]:
    """All figures of the page."""
    found = [
        Drawing(
            "pareto",
            "Recognition error against OPIS, as in the paper's Figure 3: a circle for each loss "
            "alone, a star with TCM, a cross with the contrastive loss; thin marks are seeds.",
            _pareto(finished),
        ),
        Drawing(
            "utility",
            "Utility of the classes with the highest and the lowest values over the calibration "
            "range, as in the paper's Figure 2: without TCM (above) and with it (below); black "
            "is the mean.",
            _utility(finished[0]),
        ),
    ]
    found.append(
        Drawing(
            "gaussians",
            "Utility of Gaussian distances (mean, standard deviation of positive | negative "
            "pairs), as in the paper's Figure 7: with specificity (blue) and with precision "
            "(orange). Grey: the range of distances between the recommended margins .9 and .5.",
            draw_gaussians(),
        )
    )
    return [*found, *(draw_learning(one) for one in finished)]


GAUSSIANS = (((0.7, 0.15), (1.35, 0.1)), ((0.9, 0.15), (1.35, 0.1)), ((0.7, 0.25), (1.35, 0.1)))
"""Distances of positive and of negative pairs; the paper's are in its figure alone."""


def draw_gaussians() -> Any:
    """Utilities over thresholds, from the closed forms alone."""
    figure, axes = panels(1, len(GAUSSIANS))
    thresholds = np.linspace(0, 2, 401).tolist()
    for place, (positive, negative) in zip(axes[0], GAUSSIANS, strict=True):
        place.axvspan(*calibration_range(0.9, 0.5), color="#dddddd")
        for of, colour in zip(("specificity", "precision"), COLOURS, strict=False):
            utility = [gaussian_utility(d, positive, negative, of=of) for d in thresholds]
            place.plot(thresholds, utility, color=colour, lw=1)
        place.set_title("{}, {} | {}, {}".format(*positive, *negative), fontsize=8)
        place.set_xlabel("threshold", fontsize=7)
        place.set_ylabel("utility", fontsize=7)
        place.tick_params(labelsize=6)
    return figure


def _pareto(finished: Sequence[Finished]) -> Any:
    figure, axes = panels(1, len(finished), width=4.6, height=3.8)
    for place, one in zip(axes[0], finished, strict=True):
        for base, colour in zip(bases_of(one), COLOURS, strict=False):
            points = []
            for end, mark in (("", "o"), (TCM, "*"), (CONTROL, "x")):
                x, y = one.summary(base + end, "hit@1"), one.summary(base + end, "opis")
                error = [100 - 100 * value for value in x["values"]]
                place.plot(error, [1000 * value for value in y["values"]], mark, color=colour,
                           alpha=0.25, markersize=4)  # fmt: skip
                points.append((100 - 100 * x["mean"], 1000 * y["mean"]))
                place.plot(*points[-1], mark, color=colour, markersize=8,
                           label=base if not end else None)  # fmt: skip
            place.plot(*zip(*points[:2], strict=True), color=colour, lw=1)
        place.set_title(one.name, fontsize=9)
        place.set_xlabel("100 - hit@1 [%]", fontsize=8)
        place.set_ylabel("OPIS x 1000", fontsize=8)
        place.tick_params(labelsize=7)
    axes[0][0].legend(fontsize=7)
    return figure


def _utility(one: Finished) -> Any:
    bases = bases_of(one)
    figure, axes = panels(2, len(bases), width=2.9, height=2.3)
    for column, base in enumerate(bases):
        for line, end in enumerate(("", TCM)):
            place = axes[line, column]
            curve = one.saved(base + end, one.seeds[0], 0).curve("utility")
            for name in curve:
                if name.startswith(CLASS):
                    place.plot(curve["threshold"], curve[name], color=COLOURS[line], alpha=0.4,
                               lw=0.7)  # fmt: skip
            place.plot(curve["threshold"], curve["mean"], color=INK, lw=1.5)
            place.set_ylim(0, 1)
            place.set_title(base + end, fontsize=8)
            place.tick_params(labelsize=6)
            place.set_xlabel("threshold", fontsize=7)
    return figure
