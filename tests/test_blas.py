"""BLAS is kept to one thread, and has its threads back afterwards, whatever is imported between."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from truerank._util.threads import single_threaded_blas


def threads() -> list[int]:
    """Threads of each BLAS of this process."""
    return [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]


def test_one_thread_and_then_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    with threadpool_limits(limits=2, user_api="blas"):
        for name in ("one_more_module", "and_another"):
            before = threads()
            with single_threaded_blas(), single_threaded_blas():
                assert threads() == [1] * len(before)
            assert threads() == before
            monkeypatch.setitem(sys.modules, name, ModuleType(name))
