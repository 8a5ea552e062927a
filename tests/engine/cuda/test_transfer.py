"""Arrays on their way to a device."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from truerank.engine.cuda.transfer import sent, unlocked


def locked(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.float64])
@pytest.mark.parametrize("shape", [(5, 3), (7,), (0, 4)])
@pytest.mark.filterwarnings("error")
def test_what_a_cluster_shares_is_sent(dtype: type, shape: tuple[int, ...]) -> None:
    array = locked(np.arange(np.prod(shape)).reshape(shape).astype(dtype))
    for device in ("cpu", *(["cuda"] if torch.cuda.is_available() else [])):
        there = sent(array, device)
        np.testing.assert_array_equal(there.cpu().numpy(), array)
        if array.size:
            there[0] = 7  # no other worker sees it
            assert not np.array_equal(there.cpu().numpy(), array)


@pytest.mark.filterwarnings("error")
def test_a_view_for_reading_takes_no_memory() -> None:
    array = locked(np.arange(12, dtype=np.int32).reshape(3, 4))
    view = unlocked(array)
    assert np.shares_memory(view, array)
    np.testing.assert_array_equal(torch.from_numpy(view).numpy(), array)
    assert unlocked(locked(np.empty((0, 3), np.int16))).shape == (0, 3)
