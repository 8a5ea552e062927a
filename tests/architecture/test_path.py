"""How far a newcomer walks: the modules that one threshold metric with intervals goes through."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import truerank

SOURCE = Path(truerank.__file__).parent
CORRIDOR = ("scoring", "engine", "families", "stats")


def test_the_path_of_opis_is_short() -> None:
    """From scoring over the engine and the family to the interval, through at most 34 modules."""
    random = np.random.default_rng(0)
    labels = np.repeat(np.arange(40), 10)
    rows = random.standard_normal((400, 16)) + 2 * random.standard_normal((40, 16))[labels]
    asked: dict[str, Any] = {"metrics": "opis", "device": "cpu", "threads": 2}
    truerank.evaluate(rows, labels, **asked)  # importing a module is no step on the way
    walked: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(SOURCE)):
            walked.add(str(Path(frame.f_code.co_filename).relative_to(SOURCE)))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        score = truerank.evaluate(rows, labels, **asked)["opis"]
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert score.interval is not None
    on_the_way = sorted(module for module in walked if module.startswith(CORRIDOR))
    assert any(module.startswith("engine/strategies") for module in on_the_way)
    assert len(on_the_way) <= 34, on_the_way
