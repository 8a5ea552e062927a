"""What comes out of a case that should not, and what cases are made of.

Nothing but truerank.InputError may come out of the library, nothing but status 0 or 2 with one
line out of the command. All damage is drawn from fixed seeds; a test goes through all of its cases
and then lists what came out of them that should not have.
"""

from __future__ import annotations

import io
import os
import random
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import truerank
from tests.cli.driving import run

ROWS = 12
EMBEDDINGS = np.random.default_rng(0).standard_normal((ROWS, 3)).astype(np.float32)
LABELS = [str(row // 3) for row in range(ROWS)]
IDS = [f"id-{row}" for row in range(ROWS)]
METRICS = ["map@r"]


class Escapes:
    """What came out that should not have: one example of each kind of it."""

    def __init__(self) -> None:
        self.cases = 0
        self.found: dict[str, tuple[int, str]] = {}

    def attempt(self, what: str, action: Callable[[], Any]) -> None:
        """Run the action, which may succeed or raise InputError with one line."""
        self.cases += 1
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", truerank.TruerankWarning)
                warnings.filterwarnings("ignore", module=r"torch\.")
                action()
        except truerank.InputError as error:
            message = str(error)
            if "\n" in message or not message:
                self.note(f"InputError of several lines, {message[:12]!r}", what)
        except Exception as error:
            ours = [
                frame
                for frame in traceback.extract_tb(error.__traceback__)
                if f"{os.sep}truerank{os.sep}" in frame.filename
            ]
            where = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "a test"
            text = " ".join(str(error).split())[:90]
            self.note(f"{type(error).__name__} at {where}", f"{what} ({text})")

    def command(self, what: str, *arguments: object) -> None:
        """Run the command, which may end with status 0, or with 2 and one line.

        `conform` ends with 1 where it has found something.
        """
        self.cases += 1
        outcome = run(*arguments)
        lines = outcome.err.splitlines()
        found = arguments[0] == "conform" and outcome.status == 1 and outcome.out != ""
        named = all(line.startswith("truerank: ") for line in lines)
        good = (outcome.status == 0 or found) and named
        refused = outcome.status == 2 and outcome.out == "" and len(lines) == 1
        if not (good or (refused and lines[0].startswith("truerank: "))):
            self.note(f"status {outcome.status}, {outcome.err[:160]!r}", what)

    def note(self, kind: str, what: str) -> None:
        count, first = self.found.get(kind, (0, what))
        self.found[kind] = (count + 1, first)

    def assert_none(self, cases: int) -> None:
        assert self.cases >= cases
        assert not self.found, "\n".join(
            [
                f"{len(self.found)} kinds of escape in {self.cases} cases:",
                *(
                    f"{kind}: {count} times, first with {first}"
                    for kind, (count, first) in self.found.items()
                ),
            ]
        )


def evaluate(embeddings: Any, labels: Any = LABELS, **options: Any) -> Any:
    return truerank.evaluate(embeddings, labels, **{"metrics": METRICS, "threads": 1, **options})


def saved(save: Callable[[Any], Any]) -> bytes:
    buffer = io.BytesIO()
    save(buffer)
    return buffer.getvalue()


def small_task() -> truerank.Task:
    junk = np.zeros((ROWS, ROWS), bool)
    junk[0, 5] = True
    return truerank.Task(LABELS, ids=IDS, groups=[0, 1] * (ROWS // 2), junk=junk)


def odd_arrays() -> Iterator[Any]:
    """Arrays of every dtype and many shapes, endlessly, from one seed."""
    draw = random.Random("arrays")
    generator = np.random.default_rng(1)
    dtypes = [
        *("f2", "f4", "f8", ">f4", "g", "c8", "c16", "i1", "u1", "i4", "i8", "u8", "?"),
        *("U3", "S3", "M8[D]", "m8[s]", "V4", "O", [("a", "f4"), ("b", "i2")]),
    ]
    shapes = [
        *((), (0,), (1,), (ROWS,), (ROWS, 0), (0, 3), (ROWS, 1), (ROWS, 3), (ROWS, 3)),
        *((ROWS, ROWS), (ROWS - 1, 3), (ROWS + 1,), (1, ROWS), (2, 2, 2), (ROWS, 3, 1)),
    ]
    while True:
        dtype, shape = np.dtype(draw.choice(dtypes)), draw.choice(shapes)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if dtype.kind in "Vm":
                array = np.zeros(shape, dtype)
            elif dtype.kind == "M":
                array = generator.integers(0, 9, shape).astype("i8").astype(dtype)
            else:
                numbers = generator.standard_normal(shape) * draw.choice([1, 3, 1e-300, 1e300, 0])
                array = np.asarray(numbers).astype(dtype)
        if dtype.kind in "fc" and array.size and draw.random() < 0.3:
            special = [np.nan, np.inf, -np.inf, 5e-324, 1.7e308, -0.0]
            with np.errstate(all="ignore"):
                array.flat[draw.randrange(array.size)] = draw.choice(special)
        yield array
