"""A device, room on it, and the kernels of a GPU."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.cuda.devices import needs_gpu, pretend
from truerank.engine.cuda import rows


@pytest.fixture(params=["torch's CPU device", pytest.param("GPU", marks=needs_gpu)])
def a_device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU, or what can stand for it anywhere."""
    if request.param != "GPU":
        pretend(monkeypatch)


@pytest.fixture(params=["rows stay on the device", "rows are sent in tiles"])
def room(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "rows are sent in tiles":
        monkeypatch.setattr(rows, "free_bytes", lambda device: 100)


@pytest.fixture
def triton_kernels() -> Any:
    return pytest.importorskip("truerank.engine.cuda.exact_kernels")
