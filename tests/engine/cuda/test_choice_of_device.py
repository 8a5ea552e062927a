"""Which device is chosen, why one cannot be used, and what is not imported to find out."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from threading import Thread
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import truerank
from tests.engine.cuda.devices import space_of, views
from truerank._util.errors import InputError
from truerank.engine.cuda import filtered_count, front, torch_kernels, transfer, worker
from truerank.engine.cuda.front import OBSERVING, best_kernels, likely
from truerank.engine.schedule import resolve_device


def test_why_a_gpu_cannot_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match="device='cuda' cannot be used: torch sees no CUDA device"):
        truerank.evaluate(np.eye(4), [0, 0, 1, 1], device="cuda")
    assert resolve_device("auto", 10**15) == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert resolve_device("auto", 10**15) == "cuda"
    assert resolve_device("auto", 10**4) == "cpu"
    monkeypatch.setenv("CUBLAS_EMULATE_DOUBLE_PRECISION", "1")
    with pytest.raises(InputError, match="CUBLAS_EMULATE_DOUBLE_PRECISION"):
        resolve_device("cuda")


def test_a_small_task_never_imports_torch() -> None:
    code = (
        "import sys, numpy, truerank\n"
        "truerank.evaluate(numpy.eye(4), [0, 0, 1, 1])\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == "False"


def test_torch_is_not_imported_where_no_driver_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(front, "DRIVERS", ("no-such-device",))
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert not likely()
    assert resolve_device("auto", 1 << 40) == "cpu"
    assert "torch" not in sys.modules
    monkeypatch.setattr(front, "DRIVERS", ("null",))
    assert likely()


def test_kernels_go_by_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Triton is installed, tensors of the CPU are still none of its business."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    cpu: Any = torch.device("cpu")
    assert best_kernels(cpu) is torch_kernels
    assert worker.own_filters(cpu, SimpleNamespace(FUSED=True)) is None  # type: ignore[arg-type]


def test_streams_are_those_of_earlier_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []

    def stream(device: Any) -> object:
        made.append(object())
        return made[-1]

    monkeypatch.setattr(torch.cuda, "Stream", stream)
    transfer.side_stream.cache_clear()
    gpu = torch.device("cuda:0")
    taken = [transfer.Lane(gpu, number)._stream for _ in range(3) for number in range(2)]
    transfer.side_stream.cache_clear()
    assert taken == 3 * made
    assert len(made) == 2


def test_threads_have_few_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "Lane", lambda device, number: number)
    one = worker.Worker(views()["labels"], space_of("cosine"), torch.device("cpu"), torch_kernels)
    taken: list[Any] = []
    threads = [Thread(target=lambda: taken.append(one._lanes.mine())) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == 5
    assert set(taken) <= set(range(worker.STREAMS))
    assert worker.STREAMS == OBSERVING
    assert min(filtered_count.ROWS, filtered_count.COLUMNS) >= worker.STREAMS
