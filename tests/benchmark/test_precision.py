"""One precision for all machines: what a fold computes in does not depend on the device."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from truerank.benchmark.fold import TrainFold


@pytest.mark.parametrize(("named", "used"), [("auto", "float32"), ("bfloat16", "bfloat16")])
def test_auto_is_float32_on_every_device(
    named: str, used: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []
    monkeypatch.setattr(
        "truerank.training.loop.Trainer", lambda config, *_, **__: given.append(config)
    )
    config = {"training": {"precision": named, "seed": 0}, "model": {"dimensions": 8}}
    task = TrainFold("made", config, None, {}, 0, tmp_path / "scratch")
    digest = task.digest
    half: Any = SimpleNamespace(
        folds=[np.arange(2), np.arange(2, 4)], data=SimpleNamespace(subset=lambda rows: rows)
    )
    task._trainer(half)
    assert given[0]["training"] == {"precision": used, "seed": 0}
    assert config["training"]["precision"] == named
    assert task.digest == digest
