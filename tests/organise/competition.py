"""A small competition: forty classes, rows of any quality, a folder with a hidden task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from truerank import Task, leaderboard

CLASSES, SIZE, WIDTH = 40, 4, 8
RNG = np.random.default_rng(11)
LABELS = RNG.permutation(np.repeat([f"class-{number}" for number in range(CLASSES)], SIZE))
IDS = np.array([f"{number:03}" for number in RNG.permutation(len(LABELS))])
CENTRES = dict(zip(np.unique(LABELS), RNG.standard_normal((CLASSES, WIDTH)), strict=True))
MEANS = np.array([CENTRES[label] for label in LABELS])
NOISE = RNG.standard_normal((3, len(LABELS), WIDTH))


def rows(spread: float, number: int = 0) -> np.ndarray:
    return MEANS + spread * NOISE[number]


class Competition:
    """A folder with a hidden task and submissions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.task = Task(LABELS, ids=IDS)
        self.task.__dict__["salt"] = bytes(range(32))  # the same division in every run
        self.task.save(folder / "hidden.task")
        self.log = folder / "hidden.task.log"

    def send(self, name: str, embeddings: Any, ids: Any = IDS) -> Path:
        path = self.folder / f"{name}.npz"
        np.savez(path, embeddings=embeddings, id=ids)
        return path

    def board(self, *files: Any, **options: Any) -> Any:
        return leaderboard(self.task, files, log=self.log, **options)
