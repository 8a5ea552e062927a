"""Thousands of malformed arguments: each succeeds or is refused in one sentence."""

from __future__ import annotations

import random
import string
from pathlib import Path
from typing import Any

import numpy as np

import truerank
from tests.fuzz.escapes import (
    EMBEDDINGS,
    IDS,
    LABELS,
    ROWS,
    Escapes,
    evaluate,
    odd_arrays,
    small_task,
)
from tests.fuzz.things import observed, things

ARGUMENTS = 800
METRIC_NAMES = 400
COMMANDS = 150


PARAMETERS = [
    *("embeddings", "labels", "gallery", "gallery_labels", "query_ids", "gallery_ids"),
    *("query_groups", "gallery_groups", "junk", "junk_labels", "relevance", "distance", "metrics"),
    *("average", "unmated", "unlabelled", "device", "threads", "confidence"),
]


def _bases() -> list[dict[str, Any]]:
    """Calls that succeed, to be spoilt in one or two arguments."""
    other = EMBEDDINGS[::-1] + np.float32(0.5)
    return [
        {"embeddings": EMBEDDINGS, "labels": LABELS},
        {"embeddings": EMBEDDINGS, "labels": LABELS, "query_ids": IDS, "query_groups": [0, 1] * 6},
        {"embeddings": EMBEDDINGS, "labels": LABELS, "gallery": other, "gallery_labels": LABELS},
        {"embeddings": EMBEDDINGS, "relevance": np.eye(ROWS), "gallery": other},
        {"embeddings": EMBEDDINGS @ EMBEDDINGS.T, "labels": LABELS, "distance": "similarity"},
        {"embeddings": EMBEDDINGS > 0, "labels": LABELS, "distance": "hamming"},
        {"embeddings": EMBEDDINGS, "labels": LABELS, "distance": "cityblock", "average": "class"},
        {"embeddings": EMBEDDINGS, "labels": LABELS, "distance": "euclidean", "unmated": "zero"},
        {"embeddings": EMBEDDINGS, "labels": LABELS, "distance": "dot", "junk_labels": ["1"]},
    ]


def test_every_thing_in_every_argument() -> None:
    """Each parameter once with each thing, in a call that is otherwise fine."""
    escapes = Escapes()
    for parameter in PARAMETERS:
        for thing in things():  # made anew each time: iterators are used up
            base = next(base for base in [*_bases(), {}] if parameter in base or not base)
            options = {"embeddings": EMBEDDINGS, "labels": LABELS} | base | {parameter: thing}
            if "relevance" in options:
                options.setdefault("gallery", EMBEDDINGS[::-1] + np.float32(0.5))
                options.pop("labels", None)
            escapes.attempt(
                f"{parameter}={observed(thing)}", lambda options=options: evaluate(**options)
            )
    escapes.assert_none(ARGUMENTS)


def test_random_arrays_in_random_arguments() -> None:
    escapes = Escapes()
    draw = random.Random("arguments")
    arrays = odd_arrays()
    bases = _bases()
    for _ in range(ARGUMENTS):
        options = dict(draw.choice(bases))
        spoilt = draw.sample(PARAMETERS[:11], draw.choice([1, 1, 2]))
        options |= {parameter: next(arrays) for parameter in spoilt}
        what = ", ".join(f"{name}={observed(options[name])}" for name in spoilt)
        what += f", distance={options.get('distance')}"
        escapes.attempt(what, lambda options=options: evaluate(**options))
    escapes.assert_none(ARGUMENTS)


def test_everything_as_a_task() -> None:
    escapes = Escapes()
    names = [
        *("labels", "ids", "groups", "gallery_labels", "gallery_ids", "gallery_groups", "junk"),
        *("junk_labels", "relevance", "unmated", "unlabelled", "leave_one_out"),
    ]
    for name in names:
        for thing in things():
            options: dict[str, Any] = {"labels": LABELS, "ids": IDS}
            if name.startswith("gallery_"):
                options |= {"gallery_labels": LABELS, "gallery_ids": IDS}
            if name == "relevance":
                options = {"labels": None}
            options[name] = thing
            escapes.attempt(
                f"{name}={observed(thing)}",
                lambda options=options: truerank.Task(options.pop("labels"), **options),
            )
    arrays = odd_arrays()
    draw = random.Random("tasks of arrays")
    for _ in range(300):
        options = {"labels": LABELS, "ids": IDS}
        for name in draw.sample(names[:9], draw.choice([1, 2])):
            options[name] = next(arrays)
        what = ", ".join(f"{name}={observed(value)}" for name, value in options.items())
        escapes.attempt(
            what, lambda options=options: truerank.Task(options.pop("labels"), **options)
        )
    task = truerank.Task(LABELS, ids=IDS)
    for thing in things():
        escapes.attempt(
            f"submission {observed(thing)}", lambda thing=thing: task.evaluate(thing, IDS)
        )
    for thing in things():
        escapes.attempt(
            f"ids {observed(thing)}", lambda thing=thing: task.evaluate(EMBEDDINGS, thing)
        )
    escapes.assert_none(1000)


def _metric(draw: random.Random) -> str:
    """From plain noise to nearly right."""
    known = ["map", "hit", "precision", "recall", "r_precision", "mrr", "minp", "ndcg", "cmc", "p"]
    parts = [
        *("@", ",", "=", "r", "k", "10", "0", "-1", "1e3", "9" * 30, "9" * 5000, "1.5", "inf"),
        *("divisor", "min", "level", " ", "\t", "\n", "\0", "%", "[", "(", "\\", "é", "\ud800"),
        *("²", "٣", "A", "..", "@@", "==", ",,"),
    ]
    kind = draw.randrange(3)
    if kind == 0:
        return "".join(draw.choices(string.printable, k=draw.randint(0, 12)))
    if kind == 1:
        return draw.choice(known) + "".join(draw.choices(parts, k=draw.randint(0, 5)))
    text = list(draw.choice(["map@r", "hit@10", "map@10,divisor=min", "recall@5", "r_precision"]))
    for _ in range(draw.randint(1, 3)):
        place = draw.randrange(len(text))
        text[place] = draw.choice(["", draw.choice(string.printable), text[place] * 2])
    return "".join(text)


def test_metric_names() -> None:
    escapes = Escapes()
    draw = random.Random("metrics")
    result = evaluate(EMBEDDINGS)
    for number in range(METRIC_NAMES):
        text = _metric(draw)
        escapes.attempt(f"{text!r:.60}", lambda text=text: evaluate(EMBEDDINGS, metrics=[text]))
        escapes.attempt(f"{text!r:.60} in", lambda text=text: text in result)
        if number % 4 == 0:
            escapes.attempt(f"{text!r:.60}", lambda text=text: evaluate(EMBEDDINGS, metrics=text))
    escapes.assert_none(METRIC_NAMES)


def test_command_lines(tmp_path: Path) -> None:
    """Options in any number and order, with values that belong elsewhere."""
    escapes = Escapes()
    draw = random.Random("commands")
    np.save(tmp_path / "x.npy", EMBEDDINGS)
    np.savez(tmp_path / "x.npz", embeddings=EMBEDDINGS, labels=LABELS, ids=IDS)
    (tmp_path / "y.csv").write_text("\n".join(LABELS))
    small_task().save(tmp_path / "t.task")
    files = [str(tmp_path / name) for name in ("x.npy", "x.npz", "y.csv", "t.task", "nowhere", "")]
    options = [
        *("--labels", "--gallery", "--gallery-labels", "--levels", "--task", "--junk-label"),
        *("--distance", "-m", "--average", "--unmated", "--unlabelled", "--device", "--threads"),
        *("--format", "--nothing", "-x", "--", "-"),
    ]
    words = ["1", "0", "-1", "a", "", "a,b", "cosine", "class", "zero", "json", "all", "hit@1", "é"]
    for _ in range(COMMANDS):
        arguments = ["evaluate", draw.choice(files)]
        if draw.random() < 0.5:
            arguments += ["--labels", files[2]]
        for _ in range(draw.randint(0, 3)):
            arguments += [draw.choice(options), draw.choice([*files, *words])]
        escapes.command(" ".join(arguments), *arguments)
    escapes.assert_none(COMMANDS)
