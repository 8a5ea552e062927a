"""Batches are launched ahead of a GPU, but not too far, and all are waited for in the end."""

from __future__ import annotations

import pytest
import torch

from truerank.training import loop
from truerank.training.loop import AHEAD, Pace


def test_a_gpu_is_never_idle_and_never_far_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded: list[int] = []
    done: list[int] = []

    class Event:
        def __init__(self, *, blocking: bool) -> None:
            assert blocking

        def record(self) -> None:
            self.number = len(recorded)
            recorded.append(self.number)

        def synchronize(self) -> None:
            done.append(self.number)

    monkeypatch.setattr(loop.torch.cuda, "Event", Event)
    kept = Pace(torch.device("cuda"))
    for number in range(100):
        kept.launched()
        assert len(done) == max(0, number + 1 - AHEAD)
    kept.catch_up()
    assert done == recorded == list(range(100))
    kept.catch_up()
    assert len(done) == 100


def test_on_a_cpu_nothing_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop.torch.cuda, "Event", pytest.fail)
    kept = Pace(torch.device("cpu"))
    kept.launched()
    kept.catch_up()
