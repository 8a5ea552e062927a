"""Checkpoints are written whole or not at all, and a disk that is full is said."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from truerank._util.errors import InputError
from truerank.training import embedding


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Writing more than this into one file fails, as it does on a disk without room."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_said_and_the_old_checkpoint_stays(tmp_path: Path) -> None:
    path = tmp_path / "last.pt"
    state = {"config": {}, "model": {"weight": torch.zeros(8)}}
    embedding.save(path, state)
    before = path.read_bytes()
    with (
        files_of_at_most(1 << 16),
        pytest.raises(InputError, match=r"cannot write .*last\.pt: File too large"),
    ):
        embedding.save(path, {**state, "model": {"weight": torch.zeros(1 << 16)}})
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["last.pt"]
