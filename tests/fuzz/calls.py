"""Every public function that takes what users have, with a call of it that succeeds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import truerank
from tests.fuzz.escapes import EMBEDDINGS, IDS, LABELS, ROWS
from tests.organise import competition
from truerank.io.trials import read_trials

LISTS = [[(row + step) % ROWS for step in range(5)] for row in range(ROWS)]
OTHER = EMBEDDINGS[::-1] + np.float32(0.5)
TRIALS = [(IDS[n], IDS[n + 1], n % 3 < 2) for n in range(ROWS - 1)]
FAST = {"metrics": ["map@r"], "threads": 1, "device": "cpu"}


@dataclass(frozen=True)
class Call:
    """A function with arguments that it takes, and others that may be spoilt besides."""

    function: Callable[..., Any]
    arguments: dict[str, Any]
    more: tuple[str, ...] = field(default=())

    @property
    def names(self) -> list[str]:
        return [*self.arguments, *self.more]


def _task(embeddings: Any, ids: Any, **options: Any) -> Any:
    return truerank.Task(LABELS, ids=IDS).evaluate(embeddings, ids, **options)


def _compare(first: Any, second: Any, **options: Any) -> Any:
    return truerank.compare(first, second, **options).to_text()


def _parts(attribute: Any, **options: Any) -> Any:
    return _result().by(attribute, **options)


@cache
def _result() -> truerank.Result:
    return truerank.evaluate(EMBEDDINGS, LABELS, **FAST)


def _agree(labels: Any, parents: Any) -> Any:
    return truerank.Taxonomy(parents).levels(labels)


def _board(task: Any, submissions: Any, log: Any = None, **options: Any) -> Any:
    """A board in this folder, with a log of its own unless one is passed."""
    if not Path("anna.npz").exists():
        np.savez("anna.npz", embeddings=competition.rows(1.0), ids=competition.IDS)
    if log is None:
        Path("board.log").unlink(missing_ok=True)
        log = "board.log"
    return truerank.leaderboard(task, submissions, log=log, **options)


def _hit(lists: Any, relevant: Any) -> float | None:
    pairs = [(ids[:1], mates) for ids, mates in zip(lists, relevant, strict=True) if mates]
    return sum(bool(set(a) & set(b)) for a, b in pairs) / len(pairs) if pairs else None


def _plot(results: Any, curve: Any, ax: Any = None, **options: Any) -> Any:
    """Into axes of a figure that nobody shows, unless others are passed."""
    from matplotlib.figure import Figure

    return truerank.plot(results, curve, ax=Figure().subplots() if ax is None else ax, **options)


def _shard(source: Any, **options: Any) -> Any:
    """Into a folder of its own."""
    with TemporaryDirectory() as folder:
        return truerank.shard(source, folder, **options)


EVALUATE = ("confidence", "seed", "progress", "average", "checkpoint", "cluster")
SIDES = ("query_ids", "query_groups", "junk", "junk_labels", "unmated", "unlabelled")

CALLS = {
    "evaluate": Call(
        truerank.evaluate,
        {"embeddings": EMBEDDINGS, "labels": LABELS, "distance": "euclidean", **FAST},
        (*SIDES, "relevance", "gallery_sizes", *EVALUATE),
    ),
    "evaluate, gallery": Call(
        truerank.evaluate,
        {
            "embeddings": EMBEDDINGS,
            "labels": LABELS,
            "distance": "cosine",
            "gallery": OTHER,
            "gallery_labels": LABELS,
            **FAST,
        },
        (*SIDES, "gallery_ids", "gallery_groups", *EVALUATE),
    ),
    "evaluate_lists": Call(
        truerank.evaluate_lists,
        {"neighbors": LISTS, "labels": LABELS, "metrics": ["map@r"], "threads": 1},
        (*SIDES, "scores", "relevance", "named_by", "settle", "confidence", "seed", "average"),
    ),
    "evaluate_lists, gallery": Call(
        truerank.evaluate_lists,
        {
            "neighbors": [[IDS[item] for item in row] for row in LISTS],
            "labels": LABELS,
            "gallery_labels": LABELS,
            "gallery_ids": IDS,
            "scores": [[5.0, 4.0, 4.0, 2.0, 1.0]] * ROWS,
            "metrics": ["map@r"],
            "threads": 1,
        },
        ("query_ids", "query_groups", "gallery_groups", "junk", "gallery_size", "units"),
    ),
    "index_loss": Call(
        truerank.index_loss,
        {
            "neighbors": LISTS,
            "labels": LABELS,
            "embeddings": EMBEDDINGS,
            "stored": np.round(EMBEDDINGS),
            **FAST,
        },
        (
            *("gallery", "gallery_labels", "stored_queries", "distance", "stored_distance", "k"),
            *(*SIDES, "relevance", "average", "confidence", "progress"),
        ),
    ),
    "Task": Call(
        truerank.Task,
        {"labels": LABELS, "ids": IDS, "groups": [0, 1] * (ROWS // 2), "junk_labels": ["1"]},
        ("gallery_labels", "gallery_ids", "junk", "relevance", "unmated", "leave_one_out"),
    ),
    "Task.evaluate": Call(
        _task, {"embeddings": EMBEDDINGS, "ids": IDS, **FAST}, ("gallery", "distance", *EVALUATE)
    ),
    "Task.load": Call(truerank.Task.load, {"path": "nowhere.task"}),
    "PublicTask.load": Call(truerank.PublicTask.load, {"path": "nowhere.json"}),
    "PublicTask.check": Call(
        truerank.Task(LABELS, ids=IDS).public().check,
        {"embeddings": EMBEDDINGS, "ids": IDS},
        ("distance",),
    ),
    "leaderboard": Call(
        _board,
        {
            "task": truerank.Task(competition.LABELS, ids=competition.IDS),
            "submissions": ["anna.npz"],
            "threads": 1,
            "device": "cpu",
        },
        ("log", "metric", "public_share", "distance", "confidence", "final", "progress"),
    ),
    "verify": Call(
        truerank.verify,
        {"scores_or_embeddings": EMBEDDINGS, "pairs": TRIALS, "metrics": ["auc"], "ids": IDS},
        ("distance", "layout"),
    ),
    "verify, scores": Call(
        truerank.verify,
        {"scores_or_embeddings": EMBEDDINGS[:-1, 0], "pairs": TRIALS, "distance": "similarity"},
        ("metrics", "ids"),
    ),
    "read_trials": Call(read_trials, {"path": "nowhere.txt", "layout": "auto"}),
    "compare": Call(
        _compare,
        {"first": _result(), "second": _result(), "names": ["a", "b"], "confidence": 0.9},
        ("metrics", "seed"),
    ),
    "threshold_card": Call(
        truerank.threshold_card,
        {"embeddings": EMBEDDINGS, "labels": LABELS, "fars": [0.1], "threads": 1, "device": "cpu"},
        (
            *("gallery", "gallery_labels", "apply", "apply_labels", "gallery_sizes", "distance"),
            *("query_ids", "query_groups", "junk", "junk_labels", "relevance", "further"),
        ),
    ),
    "choose_threshold": Call(
        truerank.choose_threshold,
        {"embeddings": EMBEDDINGS, "labels": LABELS, "far": 0.5, "threads": 1, "device": "cpu"},
        (
            *("frr", "gallery", "gallery_labels", "apply", "apply_labels", "apply_gallery"),
            *("apply_gallery_labels", "distance", "query_ids", "gallery_ids", "query_groups"),
            *("gallery_groups", "junk", "junk_labels", "relevance", "unlabelled"),
        ),
    ),
    "neighbors": Call(
        truerank.neighbors,
        {"embeddings": EMBEDDINGS, "labels": LABELS, "queries": [0, 3], "k": 2, "threads": 1},
        ("worst", "metric", "distance", "gallery", "gallery_labels", "progress"),
    ),
    "exact_neighbors": Call(
        truerank.exact_neighbors,
        {"queries": EMBEDDINGS, "gallery": OTHER, "k": 3, "threads": 1},
        ("distance", "progress", "cluster"),
    ),
    "shard": Call(
        _shard,
        {"source": EMBEDDINGS, "rows": 2},
        ("labels", "levels", "base"),
    ),
    "plot": Call(
        _plot,
        {"results": [_result()], "curve": "cmc", "names": ["a"], "band": "pointwise"},
        ("ax", "marks", "metric"),
    ),
    "plot of classes": Call(
        _plot,
        {"results": [_result()], "curve": "classes", "by": "label", "metric": "map@r"},
        ("ax",),
    ),
    "plot of a map": Call(
        _plot,
        {"results": [_result()], "curve": "map"},
        ("by", "coordinates"),
    ),
    "plot of differences": Call(
        _plot,
        {"results": [_result()] * 2, "curve": "differences", "names": ["a", "b"]},
        ("metric",),
    ),
    "Result.curve": Call(_result().curve, {"name": "cmc", "ranks": 3, "band": None}),
    "Result.neighbors": Call(_result().neighbors, {"queries": [0], "k": 3}),
    "audit": Call(
        truerank.audit,
        {"embeddings": EMBEDDINGS, "labels": LABELS, "threads": 1, "seed": 0},
        ("train", "distance", "progress"),
    ),
    "explain": Call(
        truerank.explain,
        {
            "embeddings": EMBEDDINGS,
            "labels": LABELS,
            "theirs": "50.0",
            "metric": "hit@1",
            "gallery": OTHER,
            "gallery_labels": LABELS,
            "threads": 1,
        },
        (
            *("query_ids", "gallery_ids", "query_groups", "gallery_groups", "junk", "junk_labels"),
            *("relevance", "distance", "average", "unmated", "unlabelled", "progress"),
        ),
    ),
    "compression_sweep": Call(
        truerank.compression_sweep,
        {"embeddings": EMBEDDINGS, "labels": LABELS, "dims": [2], "dtypes": ["int8"], **FAST},
        ("margin", "distance", "gallery", "gallery_labels", "confidence", "seed", "progress"),
    ),
    "conformance.check": Call(
        truerank.conformance.check,
        {"function": _hit, "like": "hit@1", "call": "lists", "allow": ["unmated=zero"]},
        ("arrays", "one_query", "arguments", "name"),
    ),
    "conformance.load": Call(truerank.conformance.load, {"text": "statistics:mean"}),
    "Taxonomy": Call(_agree, {"labels": LABELS, "parents": dict.fromkeys(LABELS, "top")}),
    "Taxonomy.read": Call(truerank.Taxonomy.read, {"path": "nowhere.csv"}),
    "Result.by": Call(_parts, {"attribute": LABELS}, ("metrics", "values")),
    "Result.from_dict": Call(truerank.Result.from_dict, {"data": _result().to_dict()}),
    "Result.from_json": Call(truerank.Result.from_json, {"path": "nowhere.json"}),
    "Result.to_json": Call(_result().to_json, {"path": "result.json"}),
    "compat.evaluate_rank": Call(
        truerank.compat.evaluate_rank,
        {
            "distmat": np.abs(EMBEDDINGS @ OTHER.T),
            "q_pids": np.arange(ROWS) // 3,
            "g_pids": np.arange(ROWS) // 3,
            "q_camids": np.zeros(ROWS, int),
            "g_camids": np.ones(ROWS, int),
            "max_rank": 5,
        },
    ),
}
