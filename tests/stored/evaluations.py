"""The evaluations whose results are stored: every family, distance, shape of task and option.

Each is a name and a function that runs it on the reference engine with one thread and gives two
dictionaries back: scores with all that belongs to them, and intervals with their replicates.
Numbers come from integers of a generator whose stream numpy has frozen.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np

import truerank
from truerank._util.settings import limits, settings
from truerank.core import metric as definitions
from truerank.core import registry
from truerank.io.trials import Trials

Found = tuple[dict[str, Any], dict[str, Any]]
DISTANCES = ("cosine", "euclidean", "dot", "cityblock", "hamming", "precomputed", "similarity")
MATRICES = ("precomputed", "similarity")
INTERVAL_FIELDS = ("interval", "interval_reason", "replicates")
EXAMPLES = [
    "precision@1",
    "precision@10",
    "precision@1,level=1",
    "r_precision",
    "map",
    "map@r",
    "map@10",
    "map@10,divisor=min",
    "map@level=1",
    "map@r,level=mean",
    "hit@1",
    "hit@5",
    "recall@1",
    "recall@10",
    "mrr",
    "minp",
    "h_ap",
    "h_ap@alpha=3",
    "h_ap@alpha=0.5",
    "sum_wap",
    "asi",
    "asi@level=1",
    "asi@level=mean",
    "ndcg",
    "ndcg@5",
    "ndcg@gain=linear",
    "auc",
    "eer",
    "min_dcf",
    "min_dcf@p=0.05",
    "min_dcf@fa=2,miss=10,p=0.5",
    "tar@far=0.01",
    "tar@far=0.001",
    "tar@tau=0.5",
    "threshold@far=0.01",
    "fmr@tau=0.5",
    "fnmr@tau=0.5",
    "dir@far=0.1",
    "dir@far=0.25,rank=5",
    "dir@rank=5,tau=0.5",
    "far@tau=0.5",
    "ttr@far=0.1",
    "ttr@tau=0.5",
    "ftr@tau=0.5",
    "mrp@tau=0.3",
    "mrp@scale=minmax,tau=0.3",
    "mvp@tau=0.3",
    "mvp@fp=frozen,tau=0.6",
    "mvp@scale=minmax,tau=0.3",
    "mrep",
    "mrep@tau=0.3",
    "mrep@integral=exact",
    "mrep@fp=frozen",
    "mrep@fp=frozen,integral=trapezoid,scale=minmax",
    "mfr",
    "mfr@b=5",
    "mfr@b=5,tau=0.6",
    "mfr@b=20,integral=trapezoid",
    "mfr@b=20,integral=exact",
    "mfr@b=20,scale=minmax",
    "mrep_max",
    "mrep_max@scale=minmax",
    "mvp_max",
    "mvp_max@scale=minmax",
    "tau_max",
    "tau_max@scale=minmax",
    "tau_nz",
    "tau_nz@scale=minmax",
    "opis",
    "opis@eps=0.1",
    "opis@far=0.05:0.5",
    "opis@far=0.05:0.5,frr=0.9",
    "opis@c=2,far=0.05:0.5,utility=precision",
    "opis@far=0.05:0.5,negatives=10",
    "opis@eps=0.2,far=0.05:0.5,integral=exact",
    "nmi",
    "ami",
    "pairwise_f1",
]
"""Metrics as they were registered when the first digests were stored: a new one changes none of
them, and gets a line in MORE_METRICS."""
CURVES = (
    "cmc",
    "roc",
    "det",
    "dir",
    "dir@rank=5",
    *(name + scale for name in ("mrp", "mvp", "mrep", "mfr") for scale in ("", "@scale=minmax")),
    "mrep@fp=frozen",
    "mfr@b=5",
)
LATER_CURVES = {"best_f1": "f1"}
"""Curves that came later, each with the metric that it is drawn for."""


# --- the tasks ------------------------------------------------------------------------------------


def rows_of(rng: np.random.RandomState, labels: np.ndarray, *, tied: bool) -> np.ndarray:
    """Clusters around the labels: of few significant bits with copies and zeros, or of many."""
    centres = np.random.RandomState(1).randint(-40, 41, size=(1 + labels.max(), 6))
    if not tied:
        noise = rng.randint(-(2**20), 2**20, size=(len(labels), 6)) / 2.0**14
        return (centres[labels] + noise).astype(np.float32)
    rows = (centres[labels] + rng.randint(-40, 41, size=(len(labels), 6))) / 8
    some = rng.permutation(len(labels))
    rows[some[:8]] = rows[some[8:16]]
    rows[some[16:18]] = 0
    return rows.astype(np.float32)


def labels_of(rng: np.random.RandomState, rows: int, classes: int) -> np.ndarray:
    """Some classes are larger than others, some have one row."""
    return np.minimum(rng.randint(classes, size=rows), rng.randint(classes + 9, size=rows))


def leave_one_out(*, tied: bool = True, **more: Any) -> dict[str, Any]:
    rng = np.random.RandomState(7)
    labels = labels_of(rng, 64, 16)
    return {"labels": labels, "rows": rows_of(rng, labels, tied=tied), **more}


def many_classes() -> dict[str, Any]:
    """As many as an interval of OPIS needs."""
    labels = np.arange(102) % 34
    return {"labels": labels, "rows": rows_of(np.random.RandomState(6), labels, tied=True)}


def cameras() -> dict[str, Any]:
    rng = np.random.RandomState(8)
    ids = np.arange(64)
    ids[rng.permutation(64)[:12]] = np.repeat(np.arange(6), 2)
    return leave_one_out(query_groups=rng.randint(3, size=64), query_ids=ids)


def strangers() -> dict[str, Any]:
    task = leave_one_out(tied=False)
    labels = task["labels"].copy()
    labels[::3] = 100 + np.arange(len(labels[::3]))
    return task | {"labels": labels}


def tree(tied: bool = True) -> dict[str, Any]:
    task = leave_one_out(tied=tied)
    fine = task["labels"]
    return task | {"labels": np.column_stack([fine // 6, fine // 2, fine])}


def no_tree() -> dict[str, Any]:
    task = leave_one_out()
    return task | {"labels": np.column_stack([np.arange(64) % 5, task["labels"]])}


def gallery(tied: bool = True) -> dict[str, Any]:
    """Of 50 classes of queries, 33 are in the gallery."""
    rng = np.random.RandomState(9)
    ours, theirs = np.arange(100) % 50, np.arange(80) % 33
    return {
        "labels": ours,
        "rows": rows_of(rng, ours, tied=tied),
        "gallery": rows_of(rng, theirs, tied=tied),
        "gallery_labels": theirs,
    }


def junk() -> dict[str, Any]:
    rng, task = np.random.RandomState(10), gallery()
    return task | {
        "query_ids": np.arange(100),
        "gallery_ids": np.concatenate([np.arange(10), 1000 + np.arange(70)]),
        "query_groups": rng.randint(3, size=100),
        "gallery_groups": rng.randint(3, size=80),
        "junk": rng.randint(20, size=(100, 80)) == 0,
        "junk_labels": (3, 17),
    }


def distractors() -> dict[str, Any]:
    task = gallery(tied=False)
    named = [None if row % 9 == 0 else int(one) for row, one in enumerate(task["gallery_labels"])]
    return task | {"gallery_labels": named, "unlabelled": "distractor"}


def gallery_tree() -> dict[str, Any]:
    task = gallery()
    deep = {name: task[name] for name in ("labels", "gallery_labels")}
    return task | {name: np.column_stack([one // 8, one]) for name, one in deep.items()}


def judged(grades: int) -> dict[str, Any]:
    task = gallery()
    worth = np.random.RandomState(11).randint(-14, grades + 1, size=(100, 80)).clip(0)
    del task["labels"], task["gallery_labels"]
    return task | {"relevance": worth.astype(bool) if grades == 1 else worth}


def alike() -> dict[str, Any]:
    """Embeddings that say nothing."""
    task = leave_one_out()
    return task | {"rows": np.zeros_like(task["rows"])}


SHAPES: dict[str, Callable[[], dict[str, Any]]] = {
    "leave one out": leave_one_out,
    "leave one out, untied": partial(leave_one_out, tied=False),
    "cameras": cameras,
    "strangers": strangers,
    "tree": tree,
    "tree, untied": partial(tree, tied=False),
    "no tree": no_tree,
    "gallery": gallery,
    "junk": junk,
    "distractors": distractors,
    "tree and gallery": gallery_tree,
    "judgements": partial(judged, 3),
    "judgements, yes or no": partial(judged, 1),
    "all alike": alike,
    "many classes": many_classes,
}
OPTIONS: dict[str, dict[str, Any]] = {
    "by class": {"average": "class"},
    "no mate counts 0": {"unmated": "zero"},
    "by class, no mate counts 0": {"average": "class", "unmated": "zero"},
    "half confident": {"confidence": 0.5},
    "no intervals": {"confidence": None},
    "another seed": {"seed": 5},
    "default metrics": {"metrics": None},
    "all metrics": {"metrics": list(EXAMPLES)},
}
MORE_METRICS: dict[str, tuple[str, ...]] = {
    "ranking": (
        *("precision@3", "hit@2", "recall@4", "map@3", "map@3,divisor=min", "hit@1,level=1"),
        *("mrr@2", "mrr@level=1", "minp@level=1", "r_precision@level=mean", "recall@5,level=mean"),
    ),
    "hierarchy": (
        *("h_ap@alpha=2", "ndcg@3", "ndcg@3,gain=linear", "ndcg@gain=linear", "sum_wap"),
        *("asi", "asi@level=1", "asi@level=mean"),
    ),
    "verification": (
        *("auc", "eer", "tar@far=0.3", "tar@far=0", "tar@far=1", "threshold@far=0.3"),
        *("tar@tau=0.1", "fmr@tau=0", "fnmr@tau=2", "min_dcf@p=0.5", "min_dcf@fa=3,p=0.2"),
        "fnmr@far=0.3",
    ),
    "open set": (
        *("dir@far=0", "dir@far=1", "dir@far=0.5,rank=2", "dir@tau=0.2", "dir@rank=3,tau=1"),
        *("ttr@far=0.5", "ttr@tau=0.1", "ftr@tau=0.1", "far@tau=0.1"),
        *("fnir@far=0.5", "fnir@rank=3,tau=0.2"),
    ),
    "gom": (
        *("mrep@integral=trapezoid", "mrep@scale=minmax", "mrep@tau=0.2", "mrep@tau=0.5"),
        *("mrep@fp=frozen,tau=0.3", "mfr@b=2", "mfr@b=2,tau=0.2", "mfr@integral=exact"),
        *("mvp@tau=0.1", "mrp@tau=0.1"),
        *("tau_nz", "tau_max", "mrep_max", "mvp_max", "mrep@fp=frozen,scale=minmax"),
        *("mrep_max@fp=frozen", "mrep_max@fp=frozen,integral=trapezoid", "mvp_max@fp=frozen"),
        *("mvp_max@integral=trapezoid", "tau_max@fp=frozen", "tau_max@integral=trapezoid"),
        "mvp_max@fp=frozen,integral=trapezoid,scale=minmax",
    ),
    "gom at a rate": (
        *("mrep@far=0.5", "mrep@far=0.2", "mrep@far=0.5,fp=frozen", "mvp@far=0.5", "mrp@far=0.5"),
        *("mvp@far=0.2,fp=frozen", "mfr@b=2,far=0.5", "mfr@far=0.2", "mrep@far=1", "mfr@far=0"),
    ),
    "opis": (
        *("opis@far=0.1:0.5", "opis@far=0.1:0.5,c=0.5", "opis@far=0.1:0.5,eps=0.3"),
        "opis@far=0.1:0.5,utility=precision",
        *("opis@far=0.1:0.6,frr=0.5", "opis@far=0.1:0.5,negatives=3,seed=2"),
    ),
    "clustering": ("nmi", "ami", "pairwise_f1"),
    "preference": ("bpref", "bpref@level=1", "bpref@level=mean"),
    "best F1": ("best_f1", "auc"),
}
BRACKETED: dict[str, tuple[dict[str, int], dict[str, int]]] = {
    "bracketed": ({"breakpoints": 0}, {}),
    "bracketed and collected": ({"breakpoints": 0}, {"collected": 0}),
    "bracketed from a sample": (
        {"breakpoints": 0, "sampled_from": 0, "sampled_rows": 50},
        {"collected": 0},
    ),
}
SAMPLED = {"counted": 20, "observed_again": 300, "observed_pairs": 0}


# --- one evaluation -------------------------------------------------------------------------------


def with_distance(task: dict[str, Any], distance: str) -> dict[str, Any]:
    """The same task with rows that suit the distance, or a matrix in their place."""
    rows, other = task["rows"], task.get("gallery")
    if distance == "hamming":
        bits = {
            name: (task[name] > 0) + (task[name] > 3)
            for name in ("rows", "gallery")
            if name in task
        }
        return task | {name: one.astype(np.int8) for name, one in bits.items()}
    if distance not in MATRICES:
        return task
    matrix = np.abs(rows[:, None] - (rows if other is None else other)[None]).max(axis=2)
    matrix = (matrix / matrix.max() if matrix.any() else matrix).astype(np.float32)
    task = {name: one for name, one in task.items() if name != "gallery"}
    return task | {"rows": matrix if distance == "precomputed" else 1 - matrix}


def examples(shape: str) -> list[str]:
    """Judgements have no levels to be weighed or to be chosen."""
    if not shape.startswith("judgements"):
        return EXAMPLES
    return [m for m in EXAMPLES if not any(word in m for word in ("alpha", "level="))]


def evaluated(shape: str, distance: str, options: Mapping[str, Any]) -> truerank.Result:
    task = with_distance(SHAPES[shape](), distance)
    rows, labels = task.pop("rows"), task.pop("labels", None)
    settled = {"metrics": examples(shape), "device": "reference", "threads": 1, **options}
    return truerank.evaluate(rows, labels, distance=distance, **task, **settled)


def found(result: truerank.Result) -> Found:
    """What a result holds, but for when and on what it was made."""
    scores: dict[str, Any] = {}
    intervals: dict[str, Any] = {}
    for name, score in result.items():
        scores[name] = {f.name: getattr(score, f.name) for f in fields(score)}
        intervals[name] = {part: scores[name].pop(part) for part in INTERVAL_FIELDS}
    for name in CURVES:
        try:
            scores[f"curve {name}"] = dict(result.curve(name, band=None))
        except truerank.InputError:
            scores[f"curve {name}"] = None
    for metric, name in LATER_CURVES.items():
        if metric in result and result[metric].reason is None:
            scores[f"curve {name}"] = dict(result.curve(name, band=None))
    facts = ("queries", "gallery", "excluded", "no_mate", "ties", "hierarchy", "severity")
    more = {fact: result.provenance.get(fact) for fact in (*facts, "consistency", "folds")}
    scores |= {"skipped": result.skipped, "provenance": more}
    return scores, intervals | {"provenance": result.provenance.get("intervals")}


def evaluation(shape: str, distance: str, options: Mapping[str, Any]) -> Found:
    return found(evaluated(shape, distance, options))


def limited(
    shape: str, changed: Mapping[str, int], sizes: Mapping[str, int] | None = None
) -> Found:
    """As larger data are evaluated: integrals bracketed, values without a share from a sample."""
    with limits(**changed), settings(**(sizes or {})):
        return evaluation(shape, "cosine", {})


# --- further verbs --------------------------------------------------------------------------------


def trials(distance: str, given: bool) -> Found:
    rng, task = np.random.RandomState(12), leave_one_out()
    pairs = rng.randint(64, size=(200, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    left, right = pairs.T
    same = task["labels"][left] == task["labels"][right]
    rows = with_distance(task, distance)["rows"]
    trials = list(zip(left.tolist(), right.tolist(), same.tolist(), strict=True))
    metrics = [
        m for m in EXAMPLES if definitions.entry(registry.parse(m).name).family == "verification"
    ]
    return found(
        truerank.verify(rows[left, right] if given else rows, trials, metrics, distance=distance)
    )


def trials_in_folds(distance: str, given: bool) -> Found:
    """Trials of known people, every third in a fold."""
    rng, task = np.random.RandomState(13), many_classes()
    rows, labels = with_distance(task, distance)["rows"], task["labels"]
    pairs = rng.randint(len(labels), size=(600, 2))
    chosen = (pairs[:, 0] != pairs[:, 1]) & (
        (labels[pairs[:, 0]] == labels[pairs[:, 1]]) | (np.arange(600) % 4 == 0)
    )
    left, right = pairs[chosen].T
    mates = rng.permutation(len(labels))
    for label in np.unique(labels):
        own = mates[labels[mates] == label]
        left, right = np.append(left, own[:-1]), np.append(right, own[1:])
    people = ([str(name) for name in labels[left]], [str(name) for name in labels[right]])
    listed = Trials(
        left.tolist(),
        right.tolist(),
        labels[left] == labels[right],
        folds=np.arange(len(left)) % 3,
        people=people,
    )
    metrics = ["accuracy", "auc", "eer", "min_dcf", "best_f1", "tar@far=0.2", "tar@tau=0.5"]
    values = rows[left, right] if given else rows
    return found(truerank.verify(values, listed, metrics, distance=distance))


def compared(shape: str, options: Mapping[str, Any]) -> Found:
    """Embeddings against noisier copies of themselves."""
    task = SHAPES[shape]()
    rows, labels = task.pop("rows"), task.pop("labels", None)
    metrics = ["map@r", "hit@1", "mrr", "auc", "mrep", "opis@far=0.05:0.5"]
    results = []
    for noise in (0, 16, 32):
        moved = rows + np.random.RandomState(13).randint(-noise, noise + 1, size=rows.shape) / 16
        more = {"metrics": metrics, "device": "reference", "threads": 1, **options}
        results.append(truerank.evaluate(moved, labels, **task, **more))
    whole = truerank.compare(*results).to_dict()
    tables = {name: whole.pop(name) for name in ("standings", "differences")}
    for standing in tables["standings"]:
        younger = [*standing.pop("values"), standing.pop("confidence")]  # than the digests
        assert younger == [standing["value"], options.get("confidence", 0.95)]
    by_metric = {
        metric: {
            name: [one for one in rows if one["metric"] == metric] for name, rows in tables.items()
        }
        for metric in metrics
    }
    return {}, {**by_metric, "comparison": whole}


def chosen(shape: str, target: float) -> Found:
    task = SHAPES[shape]()
    threshold = truerank.choose_threshold(
        task["rows"], task["labels"], far=target, device="reference", threads=1
    )
    numbers = threshold.to_dict()
    asked = {name: numbers.pop(name) for name in ("rate", "search", "listed", "excluded")}
    younger = {"rate": "far", "search": False, "listed": False, "excluded": []}
    assert asked == younger  # than the digests
    spread = {name: numbers.pop(name) for name in ("threshold_interval", "intervals")}
    return {"threshold": numbers}, {"threshold": spread}


def catalogue() -> Iterator[tuple[str, Callable[[], Found]]]:
    for shape in SHAPES:
        for distance in DISTANCES:
            yield f"{shape}: {distance}", partial(evaluation, shape, distance, {})
    for shape in ("leave one out", "strangers", "tree", "gallery", "judgements"):
        for name, options in OPTIONS.items():
            if shape != "judgements" or not {"average", "metrics"} & options.keys():
                yield f"{shape}: {name}", partial(evaluation, shape, "cosine", options)
    for shape in ("leave one out, untied", "strangers", "tree", "distractors", "cameras"):
        for name, metrics in MORE_METRICS.items():
            if shape != "tree":  # labels of one level have no other
                metrics = tuple(m for m in metrics if "level=1" not in m)
            yield (
                f"{shape}: {name} metrics",
                partial(evaluation, shape, "cosine", {"metrics": metrics}),
            )
    for shape in ("leave one out", "strangers", "gallery"):
        for name, changes in BRACKETED.items():
            yield f"{shape}: {name}", partial(limited, shape, *changes)
    for shape in ("leave one out", "tree", "strangers", "many classes"):
        yield f"{shape}: intervals from samples", partial(limited, shape, SAMPLED)
    for distance in DISTANCES:
        yield f"trials: {distance}", partial(trials, distance, distance in MATRICES)
    for distance in DISTANCES:
        given = distance in MATRICES
        yield f"trials in folds: {distance}", partial(trials_in_folds, distance, given)
    for shape in ("leave one out", "tree", "gallery", "strangers"):
        for name in ("by class", "half confident", "another seed"):
            yield f"compared: {shape}, {name}", partial(compared, shape, OPTIONS[name])
    for shape in ("leave one out", "strangers"):
        for target in (0.01, 0.2):
            yield f"threshold: {shape}, {target}", partial(chosen, shape, target)


def run(evaluate: Callable[[], Found]) -> Found:
    """Warnings have tests of their own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", truerank.TruerankWarning)
        return evaluate()


EVALUATIONS = dict(catalogue())
