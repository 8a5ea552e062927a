"""Integer rows on a GPU, where they stay, and what a space asks of them.

Sums are of integers, modulo 2^64: their order cannot show. Nothing here needs a GPU; torch's CPU
device gives the same bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.space.digests import FACTORS, SEEDS, SHIFTS, Digests

__all__ = ["CHUNK_NUMBERS", "DeviceRows"]

CHUNK_NUMBERS = 1 << 24
"""Numbers that are worked on at a time."""
_SIGN = -(1 << 63)
_MIX = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, None))
"""Shifts and factors of truerank.space.fingerprint.mix."""


class DeviceRows:
    """Integer rows on a device, in the place of an array; what is asked for is fetched."""

    dtype = np.dtype(np.int32)
    ndim = 2

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor
        self.shape: tuple[int, int] = (int(tensor.shape[0]), int(tensor.shape[1]))
        self.nbytes = 4 * self.shape[0] * self.shape[1]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> npt.NDArray[np.int32]:
        if isinstance(index, np.ndarray):
            index = self._sent(index)
        found: npt.NDArray[np.int32] = self.tensor[index].cpu().numpy()
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.asarray(self[:], dtype)

    def astype(self, dtype: Any) -> npt.NDArray[Any]:
        """All rows in main memory, as other numbers."""
        return self[:].astype(dtype)

    def on(self, device: Any) -> Any:
        """The rows on this device."""
        return self.tensor.to(device)

    def _sent(self, array: npt.NDArray[Any]) -> Any:
        import torch

        return torch.from_numpy(np.array(array)).to(self.tensor.device)

    def _chunks(self) -> Iterator[tuple[slice, Any]]:
        step = max(1, CHUNK_NUMBERS // self.shape[1])
        for start in range(0, len(self), step):
            some = slice(start, start + step)
            yield some, self.tensor[some].long()

    def products(
        self, other: DeviceRows, query: npt.NDArray[np.int64], item: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """X_q . Y_g of single pairs: integers, so that no order of summation shows."""
        out = np.empty(query.size, np.int64)
        step = max(1, CHUNK_NUMBERS // self.shape[1])
        for start in range(0, query.size, step):
            some = slice(start, start + step)
            x = self.tensor[self._sent(query[some])].long()
            x *= other.tensor[self._sent(item[some])]
            out[some] = x.sum(1).cpu().numpy()
        return out

    def squares(self) -> npt.NDArray[np.int64]:
        """|X|^2 of every row."""
        return self._summed(lambda rows: rows * rows).view(np.int64)

    def scrambled_sums(self, *, signed: bool) -> npt.NDArray[np.uint64]:
        """Sums modulo 2^64 of truerank.space.fingerprint.mix of the numbers, or of their sizes."""
        return self._summed(lambda rows: _mixed(rows if signed else rows.abs()))

    def weighted_sum(self, weights: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """The sum modulo 2^64 of all rows, each times its weight."""
        by_row = self._sent(weights.view(np.int64))
        total = sum((rows * by_row[some, None]).sum(0) for some, rows in self._chunks())
        found: npt.NDArray[np.int64] = total.cpu().numpy()
        return found.view(np.uint64)

    def sums_with(self, reference: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """The product modulo 2^64 of each row with another one."""
        other = self._sent(reference.view(np.int64))
        return self._summed(lambda rows: rows * other)

    def _summed(self, of: Any) -> npt.NDArray[np.uint64]:
        import torch

        out = torch.empty(len(self), dtype=torch.int64, device=self.tensor.device)
        for some, rows in self._chunks():
            out[some] = of(rows).sum(1)
        found: npt.NDArray[np.int64] = out.cpu().numpy()
        return found.view(np.uint64)

    def digests(self) -> tuple[Digests, npt.NDArray[np.int64]]:
        """The digest of each row, as truerank.space.digests.row_digests gives it, and an order of
        the rows by the second half of it."""
        import torch

        if self.tensor.device.type == "cuda" and find_spec("triton") is not None:
            from truerank.space import digest_kernels

            state = digest_kernels.row_digests(self.tensor)
        else:
            state = self._digests()
        order = torch.argsort(state[:, 1] ^ _SIGN)  # as of unsigned numbers
        found: npt.NDArray[np.int64] = state.cpu().numpy()
        return found.view(np.uint64), order.cpu().numpy()

    def _digests(self) -> Any:
        """The digests, by operations of torch on whole columns."""
        import torch

        def both(numbers: Iterable[int]) -> Any:
            array = np.array(list(numbers), np.uint64).view(np.int64)[:, None]
            return torch.from_numpy(array).to(self.tensor.device)

        factor, shift = both(FACTORS), both(SHIFTS)
        kept = both((1 << (64 - by)) - 1 for by in SHIFTS)  # torch shifts the sign in
        state = both(SEEDS).repeat(1, len(self)) * factor
        state ^= (state >> shift) & kept
        for column in self.tensor.T:
            state ^= column
            state *= factor
            state ^= (state >> shift) & kept
        return state.T.contiguous()


def _mixed(numbers: Any) -> Any:
    """truerank.space.fingerprint.mix of 64-bit integers."""
    for shift, factor in _MIX:
        numbers = numbers ^ ((numbers >> shift) & ((1 << (64 - shift)) - 1))
        if factor is not None:
            numbers = numbers * (factor - (1 << 64))
    return numbers
