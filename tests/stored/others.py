"""What is stored besides evaluations: lists, class folds, bands, thresholds, comparisons, sizes.

Numbers and shapes are those of evaluations.py. An entry is named after its metric or curve, so that
removing one deletes its entries and changes no other. Everything comes by public names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

import truerank
from tests.stored.evaluations import SHAPES, Found, found, with_distance
from truerank.datasets.emoji import emoji
from truerank.training.sampler import class_folds

ENDS = ("lower", "expected", "upper")
ONE_THREAD: dict[str, Any] = {"device": "reference", "threads": 1}
RANKING = (
    *("precision@10", "r_precision", "map", "map@r", "map@10", "hit@1", "recall@5", "mrr", "minp"),
    *("ndcg", "ndcg@5", "bpref"),
)
OF_LEVELS = ("h_ap", "asi", "sum_wap", "map@level=1", "map@r,level=mean", "hit@1,level=1")


def of_shape(shape: str) -> tuple[Any, Any, dict[str, Any]]:
    """Embeddings, labels and the other keywords of a task; "a large tree" has intervals."""
    if shape == "a large tree":
        rows, labels, task = of_shape("many classes")
        return rows, np.column_stack([labels // 3, labels]), task
    task = SHAPES[shape]()
    return task.pop("rows"), task.pop("labels", None), task


def scaled(rows: Any, step: int) -> Any:
    """Vectors of fewer bits, as an index stores them."""
    return (np.floor(rows / step) * step).astype(np.float32)


def moved(rows: Any, noise: int, seed: int = 13) -> Any:
    return rows + np.random.RandomState(seed).randint(-noise, noise + 1, size=rows.shape) / 16


# --- returned lists -------------------------------------------------------------------------------


def returned(rows: Any, gallery: Any, most: int) -> tuple[Any, Any]:
    """The nearest items by sums of whole numbers, a seventh of them missed, and these sums."""
    items = rows if gallery is None else gallery
    far = np.abs(rows[:, None].astype(np.float64) - items[None]).sum(axis=2)
    far = np.floor(far / 4)
    far[np.random.RandomState(14).randint(7, size=far.shape) == 0] += 1000
    order = np.argsort(far, axis=1, kind="stable")[:, :most]
    return order, np.take_along_axis(far, order, axis=1)


def lists(shape: str, options: dict[str, Any]) -> Found:
    rows, labels, task = of_shape(shape)
    order, far = returned(rows, task.pop("gallery", None), 12)
    order[::4, 9:] = -1  # shorter lists
    order[1::9, 5] = order[1::9, 2]  # an item twice
    metrics = [*RANKING, *(OF_LEVELS if "tree" in shape else ())]
    if "scores" in options:
        options = options | {"scores": far}
    more = {"metrics": metrics, "named_by": "row", "threads": 1, "settle": 0.5, **options}
    return of_lists(truerank.evaluate_lists(order, labels, **task, **more))


def run_of_ids() -> Found:
    """A run and judgements by id, as TREC has them: some items are not judged."""
    rows, labels, task = of_shape("gallery")
    order, far = returned(rows, task["gallery"], 15)
    rng = np.random.RandomState(15)
    run = {
        f"q{q}": {f"d{item}": -float(one) for item, one in zip(order[q], far[q], strict=True)}
        for q in range(len(order))
    }
    grades = (labels[:, None] == task["gallery_labels"]) * rng.randint(1, 4, size=(100, 80))
    judged = {
        f"q{q}": {f"d{item}": int(grades[q, item]) for item in rng.permutation(80)[:40]}
        for q in range(len(order))
    }
    metrics = [*RANKING, "ndcg@gain=linear"]
    return of_lists(
        truerank.evaluate_lists(
            run, relevance=judged, metrics=metrics, gallery_size=200, settle=0.5, threads=1
        )
    )


def of_lists(result: truerank.Result) -> Found:
    """Its scores, and what is said of the lists."""
    scores, intervals = found(result)
    scores = {name: value for name, value in scores.items() if value is not None}
    scores["provenance"] = {
        name: fact for name, fact in scores["provenance"].items() if fact is not None
    }
    facts = result.provenance["lists"]
    names = ("gallery_size", "asked", "shortest", "longest", "taken_out", "repeated", "unknown")
    missing = [facts["missing"][name] for name in ("queries", "mates")]
    scores["provenance"]["lists"] = [*(facts.get(name) for name in names), *missing]
    for metric, enough in facts["settle"]["k"].items():
        if metric in result:
            scores[metric]["settles at"] = enough
    return scores, intervals


def index(shape: str, options: dict[str, Any]) -> Found:
    """What is lost by vectors of fewer bits, by twelve places, and by a search that misses some."""
    rows, labels, task = of_shape(shape)
    gallery = task.get("gallery")
    coarse = scaled(rows if gallery is None else gallery, 2)
    order, _ = returned(rows, coarse, 12)
    loss = truerank.index_loss(
        order,
        labels,
        embeddings=rows,
        stored=coarse,
        **task,
        metrics=RANKING[:9],
        distance="euclidean",
        named_by="row",
        **ONE_THREAD,
        **options,
    )
    scores: dict[str, Any] = {}
    intervals: dict[str, Any] = {}
    for metric, one in loss.items():
        whole = (one.full, one.stored, one.at_k, one.returned)
        parts = (one.quantisation, one.cut, one.search, one.total)
        scores[metric] = [[getattr(held, end) for end in ENDS] for held in (*whole, *parts)]
        scores[metric] += [[getattr(part.per_query, end) for end in ENDS] for part in parts]
        intervals[metric] = [
            {"ends": [part.intervals[end] for end in ENDS], "reason": part.reason} for part in parts
        ]
    recalls = (loss.full_recall, loss.stored_recall)
    scores["recall of neighbors"] = [[one.k, one.value, one.per_query] for one in recalls]
    intervals["recall of neighbors"] = [
        {"ends": one.interval, "reason": one.reason} for one in recalls
    ]
    return scores, intervals


# --- class folds ----------------------------------------------------------------------------------


def folds(labels: Callable[[], Any]) -> Found:
    return {"class folds": [class_folds(labels(), number) for number in (2, 4, 9)]}, {}


def numbered() -> Any:
    return np.random.RandomState(16).randint(1, 40, size=300)


FOLDS: dict[str, Callable[[], Any]] = {
    "numbers": numbered,
    "numbers as text": lambda: [str(one) for one in numbered()],
    "names": lambda: [f"class {one}" for one in numbered()],
    "emoji": lambda: emoji().labels,
    "emoji, categories": lambda: emoji().levels[:, 0],
}


# --- bands ----------------------------------------------------------------------------------------

DRAWN_FOR = (
    *("hit@1", "auc", "best_f1", "dir@far=0.25", "dir@far=0.25,rank=5", "mrep", "mfr", "mfr@b=5"),
    *("mrep@fp=frozen", "mrep@scale=minmax", "mfr@scale=minmax"),
)
BANDED = (
    *("cmc", "roc", "det", "pr", "f1", "dir", "dir@rank=5", "mrep", "mrep@scale=minmax"),
    *("mrep@fp=frozen", "mfr", "mfr@scale=minmax", "mfr@b=5", "levels", "severity"),
)
"""Curves that have bands; those of scores over gallery sizes are stored as scores, further down."""
EDGES = ("low", "high")


def bands(shape: str, options: dict[str, Any]) -> Found:
    rows, labels, task = of_shape(shape)
    more = {"metrics": [*DRAWN_FOR, *(OF_LEVELS if "tree" in shape else ())], **ONE_THREAD}
    return of_curves(truerank.evaluate(rows, labels, **task, **more, **options))


def bands_of_trials() -> Found:
    return of_curves(verified(0))


def of_curves(result: truerank.Result) -> Found:
    """Every curve as it is, and its bands."""
    scores, intervals = {}, {}
    for name in BANDED:
        try:
            plain = result.curve(name, band=None)
        except truerank.InputError:
            continue
        scores[f"curve {name}"] = {
            column: values.tolist() if values.dtype.kind == "U" else values
            for column, values in plain.items()
        }
        intervals[f"curve {name}"] = {
            "reason": result.curve(name).band_reason,
            **{
                band: edges(result.curve(name, band=band)) for band in ("pointwise", "simultaneous")
            },
        }
    return scores, intervals


def edges(curve: Any) -> dict[str, Any]:
    return {name: curve[name] for name in curve if name.endswith(EDGES)}


# --- thresholds and trials ------------------------------------------------------------------------


def threshold(shape: str, target: dict[str, float], apply: str | None = None) -> Found:
    rows, labels, task = of_shape(shape)
    if apply is not None:
        others, their_labels, _ = of_shape(apply)
        task |= {"apply": others, "apply_labels": their_labels}
    return of_point(truerank.choose_threshold(rows, labels, **task, **target, **ONE_THREAD))


def threshold_of_list(target: dict[str, float]) -> Found:
    rows, labels, _ = of_shape("many classes")
    found = truerank.choose_threshold(rows, labels, pairs=pairs_of(labels), **target, threads=1)
    return of_point(found)


def of_point(point: Any, before: str = "") -> Found:
    """A threshold and its classes, and by its name each rate there."""
    name = f"{before}threshold"
    classes = [[str(one.label), one.frr, one.far, one.utility] for one in point.classes]
    numbers = (point.threshold, point.decimal, point.within, point.target, point.rate)
    whole = {"numbers": [*numbers, point.search, point.listed, point.optimistic]}
    excluded = {"excluded": list(point.excluded)}
    scores = {name: {**whole, **excluded, "classes": classes}, **judged(point, name)[0]}
    return scores, {name: point.threshold_interval, **judged(point, name)[1]}


def judged(one: Any, name: str) -> Found:
    values = {f"{name}, {rate}": value for rate, value in one.values.items()}
    return values, {f"{name}, {rate}": ends for rate, ends in one.intervals.items()}


def card(shape: str, further: str) -> Found:
    """The page for a deployer: thresholds for two rates, at gallery sizes and on another set."""
    rows, labels, task = of_shape(shape)
    task |= {"further": {further: of_shape(further)[:2]}} if further else {}
    sizes = GALLERY_SIZES[shape]
    page = truerank.threshold_card(
        rows, labels, fars=(0.3, 0.05), gallery_sizes=sizes, **task, **ONE_THREAD
    )
    scores, intervals = {}, {}
    for place, (point, grown) in enumerate(zip(page.points, page.growth, strict=True)):
        parts = [of_point(point, f"card {place + 1}: ")]
        for name, some in page.further.items():
            parts.append(judged(some[place], f"card {place + 1}: {name}"))
        for rate in ("far", "dir"):
            named = f"card {place + 1}: sizes, {rate}"
            ends = [getattr(one, f"{rate}_interval") for one in grown]
            parts.append(
                (
                    {named: [rounded(getattr(one, rate), DIGITS) for one in grown]},
                    {named: [rounded(one, DIGITS_OF_INTERVALS) for one in ends]},
                )
            )
        for some, spread in parts:
            scores |= some
            intervals |= spread
    return scores, intervals


def pairs_of(labels: Any) -> list[tuple[int, int, bool]]:
    """Trials of every class with itself and with others."""
    left, right = np.random.RandomState(17).randint(len(labels), size=(2, 700))
    kept = (left != right) & ((labels[left] == labels[right]) | (np.arange(700) % 2 == 0))
    near = np.flatnonzero(labels == np.roll(labels, -34))
    left = np.concatenate([left[kept], near])
    right = np.concatenate([right[kept], (near + 34) % len(labels)])
    same = labels[left] == labels[right]
    return list(zip(left.tolist(), right.tolist(), same.tolist(), strict=True))


def verified(noise: int, distance: str = "cosine", **more: Any) -> truerank.Result:
    """Trials of rows whose people are known."""
    task = SHAPES["many classes"]()
    rows = with_distance(task | {"rows": moved(task["rows"], noise)}, distance)["rows"]
    metrics = ["auc", "eer", "min_dcf", "best_f1", "tar@far=0.2", "fnmr@far=0.1", "fmr@tau=0.3"]
    labels = task["labels"]
    given = {"labels": labels, "distance": distance, **more}
    return truerank.verify(rows, pairs_of(labels), metrics, **given)


def of_trials(options: dict[str, Any]) -> Found:
    """People known, which is what intervals of trials are over."""
    scores, intervals = found(verified(0, **options))
    return {name: one for name, one in scores.items() if one is not None}, intervals


# --- comparisons ----------------------------------------------------------------------------------


def compared(shape: str, runs: tuple[int, ...], options: dict[str, Any]) -> Found:
    """Models of some runs each, the later ones noisier."""
    rows, labels, task = of_shape(shape)
    metrics = ["map@r", "hit@1", "precision@10", "auc", "mrep", "far@tau=0.2", "ndcg"]

    def run(model: int, seed: int) -> truerank.Result:
        noisy = moved(rows, 6 + 12 * model, 20 + seed)
        return truerank.evaluate(noisy, labels, **task, metrics=metrics, **ONE_THREAD)

    models = [[run(m, seed) for seed in range(count)] for m, count in enumerate(runs)]
    return of_comparison(truerank.compare(*models, **options))


def compared_trials() -> Found:
    return of_comparison(truerank.compare(verified(0), verified(24), verified(48)))


def of_comparison(whole: truerank.Comparison) -> Found:
    """Of each metric the places of models, and their differences with tests."""
    intervals: dict[str, Any] = {}
    for row in whole.standings:
        held = [row.model, row.value, row.runs, row.values, row.deviation, row.ranks]
        part = intervals.setdefault(row.metric, {"standings": [], "differences": []})
        part["standings"].append([*held, row.interval, row.between_runs, row.confidence])
    for one in whole.differences:
        tested = [one.first, one.second, one.value, one.interval, one.p, one.adjusted_p]
        why = {"reason": one.reason, "interval_reason": one.only_runs}
        intervals[one.metric]["differences"].append({"tested": tested, **why})
    method = {"confidence": whole.confidence, "method": whole.method}
    return {}, {**intervals, "comparison": {**method, "models": whole.models}}


# --- gallery sizes --------------------------------------------------------------------------------

DIGITS, DIGITS_OF_INTERVALS = 12, 8
"""Significant digits of scores, and of the ends of their intervals, in smaller galleries.

They may be computed in another way, whose last bits differ. So sizes are such that no value lies
within 1e-14 of itself, and no end within 1e-11, of where it is rounded to another number."""
GALLERY_SIZES: dict[str, tuple[int, ...]] = {
    "leave one out": (10, 40),
    "strangers": (10, 36),
    "gallery": (10, 44),
    "many classes": (10, 44),
}
SIZED = (
    *("hit@1", "hit@5", "precision@10", "recall@5", "r_precision", "map", "map@r", "map@10"),
    *("map@10,divisor=min", "mrr", "minp", "bpref", "far@tau=0.1", "ftr@tau=0.1", "dir@tau=0.1"),
    *("dir@rank=3,tau=0.1", "dir@far=0.4", "ndcg", "ttr@tau=0.1", "auc", "mrep", "nmi"),
)
TINY = (
    *("hit@1", "hit@3", "precision@2", "precision@9", "recall@2", "recall@20", "r_precision"),
    *("map", "map@r", "map@2", "map@3,divisor=min", "map@50,divisor=min", "mrr", "minp", "bpref"),
    *("dir@tau=2", "dir@rank=2,tau=3", "far@tau=1"),
)


def tiny(seed: int) -> tuple[list[int], dict[str, Any]]:
    """Some sizes and a task so small that all sub-galleries can be looked at: whole distances with
    ties, distractors, excluded pairs, queries that find nothing."""
    rng = np.random.RandomState(seed)
    queries, items = int(rng.randint(2, 5)), int(rng.randint(3, 9))
    labels = rng.randint(0, 3, size=queries)
    labels[:2] = 0, 9  # a class that may be found, and one that is not there
    gallery_labels = rng.randint(0, 4, size=items)
    gallery_labels[0] = 0
    junk = rng.randint(7, size=(queries, items)) == 0
    junk[0, 0] = False
    task = {
        "embeddings": rng.randint([3, 5, 1000][seed % 3], size=(queries, items)).astype(float),
        "labels": labels,
        "gallery_labels": gallery_labels,
        "junk": junk if seed % 2 else None,
    }
    return sorted({1, int(rng.randint(1, items + 1)), items - 1, items}), task


def tiny_result(seed: int) -> truerank.Result:
    sizes, task = tiny(seed)
    return truerank.evaluate(
        **task,
        distance="precomputed",
        metrics=list(TINY),
        gallery_sizes=sizes,
        **{"confidence": None, **ONE_THREAD},
    )


def sized(shape: str) -> truerank.Result:
    rows, labels, task = of_shape(shape)
    more: dict[str, Any] = {"metrics": list(SIZED), "gallery_sizes": GALLERY_SIZES[shape]}
    return truerank.evaluate(rows, labels, **task, **more, **ONE_THREAD)


def of_sizes(result: truerank.Result) -> Found:
    scores: dict[str, Any] = {}
    intervals: dict[str, Any] = {}
    for size in result.gallery_sizes:
        part = result.at_gallery(size)
        for metric, score in part.items():
            ends = [rounded(getattr(score, end), DIGITS) for end in ENDS]
            spread = rounded(score.interval, DIGITS_OF_INTERVALS)
            why = {"ends": spread, "reason": score.interval_reason}
            scores.setdefault(metric, {})[size] = {"ends": ends, "reason": score.reason}
            intervals.setdefault(metric, {})[size] = why
        for metric, reason in part.skipped.items():
            scores.setdefault(metric, {})[size] = {"reason": reason}
    return scores, intervals


def rounded(value: Any, digits: int) -> Any:
    """The same to so many significant digits."""
    if isinstance(value, Iterable):
        return [rounded(one, digits) for one in value]
    if value is None or math.isnan(value):
        return None
    return float(f"{value:.{digits - 1}e}")


# --- all of it ------------------------------------------------------------------------------------


def catalogue() -> Iterator[tuple[str, Callable[[], Found]]]:
    by_class = {"average": "class", "unmated": "zero", "confidence": 0.8, "seed": 3}
    for shape in (
        "many classes",
        "gallery",
        "junk",
        "judgements",
        "a large tree",
        "tree and gallery",
    ):
        yield f"lists: {shape}", partial(lists, shape, {"scores": True})
    yield "lists: gallery without scores", partial(lists, "gallery", {})
    yield "lists: gallery, by class", partial(lists, "gallery", by_class)
    yield "lists: a run", run_of_ids
    for shape in ("many classes", "gallery"):
        yield f"index: {shape}", partial(index, shape, {})
    yield "index: gallery, by class", partial(index, "gallery", by_class)
    for name, labels in FOLDS.items():
        yield f"class folds: {name}", partial(folds, labels)
    for shape in ("many classes", "strangers", "gallery", "a large tree", "judgements"):
        yield f"bands: {shape}", partial(bands, shape, {})
    yield "bands: many classes, half confident", partial(bands, "many classes", {"confidence": 0.5})
    yield "bands: trials", bands_of_trials
    for shape in ("gallery", "many classes", "junk"):
        for rate, value in (("far", 0.2), ("frr", 0.9)):
            yield f"threshold: {shape}, {rate} {value}", partial(threshold, shape, {rate: value})
    yield "threshold: judgements, frr 0.97", partial(threshold, "judgements", {"frr": 0.97})
    yield "threshold: applied", partial(threshold, "many classes", {"far": 0.1}, "leave one out")
    yield "threshold: trials", partial(threshold_of_list, {"far": 0.1})
    yield "threshold card: many classes", partial(card, "many classes", "strangers")
    yield "threshold card: gallery", partial(card, "gallery", "")
    for name, options in {"95 %": {}, "80 %, another seed": {"confidence": 0.8, "seed": 4}}.items():
        yield f"trials of people: {name}", partial(of_trials, options)
    for shape in ("many classes", "gallery"):
        yield f"compared runs: {shape}", partial(compared, shape, (3, 2, 1), {})
    more = {"confidence": 0.8, "seed": 3, "names": ["a", "b"], "metrics": ["map@r", "mrep"]}
    yield "compared runs: leave one out, 80 %", partial(compared, "leave one out", (2, 2), more)
    yield "compared runs: judgements", partial(compared, "judgements", (2, 2), {})
    yield "compared: trials of people", compared_trials
    for shape in ("leave one out", "strangers", "gallery"):
        yield f"gallery sizes: {shape}", lambda shape=shape: of_sizes(sized(shape))
    for seed in (1, 2, 3):
        yield f"gallery sizes: tiny {seed}", lambda seed=seed: of_sizes(tiny_result(seed))


OTHERS = dict(catalogue())
