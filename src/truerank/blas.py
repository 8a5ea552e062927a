"""BLAS: the matrix products of numpy, kept to one thread each where our own threads multiply."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

__all__ = ["single_threaded_blas"]


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Keep BLAS to one thread: threads of its own wait for work in loops that cost a core."""
    with _libraries(len(sys.modules)).limit(limits=1, user_api="blas"):
        yield


@lru_cache(maxsize=1)
def _libraries(modules: int) -> Any:
    """The libraries of this process, looked for again once another module has been imported: the
    search takes as long as ranking a thousand rows."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
