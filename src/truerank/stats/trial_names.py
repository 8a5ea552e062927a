"""What two results on one list of trials have in common: its trials by name, and its people.

A list is the set of its (left, right, same). Neither the order of its lines nor the scores matter,
so that results of two systems pair even if each of them wrote another file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.cached import cached_property
from truerank.space.fingerprint import Fingerprints, mix

__all__ = ["TrialNames"]

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TrialNames:
    """A number for each trial, made of its two ids and of whether they belong together."""

    prints: Fingerprints

    @staticmethod
    def of(left: Sequence[Any], right: Sequence[Any], same: npt.NDArray[np.bool_]) -> TrialNames:
        """The numbers of trials; ids count as text, as they stand in files.

        Examples
        --------
        >>> one = TrialNames.of(["a", "a"], ["b", "c"], np.array([True, False]))
        >>> two = TrialNames.of(["a", "a"], ["c", "b"], np.array([False, True]))
        >>> one.digest() == two.digest()
        True
        """
        first, second = _numbers(left), _numbers(right)
        return TrialNames(mix(mix(mix(first + np.uint64(1)) ^ second) + same + np.uint64(1)))

    @cached_property
    def _order(self) -> Integers:
        return np.argsort(self.prints, kind="stable")

    def digest(self) -> str:
        """Hash of the list, whatever the order of its trials; a trial that is there twice counts
        twice."""
        return _hash(self.prints[self._order])

    def numbered(self, people: Integers) -> Integers:
        """(trials, 2): the same people, numbered as they first appear in the trials by name.

        Whatever they are called, two results on one list number them alike.
        """
        codes = people[self._order]
        _, first, code = np.unique(codes, return_index=True, return_inverse=True)
        number = np.empty(len(first), np.int64)
        number[np.argsort(first)] = np.arange(len(first))
        found = np.empty_like(people)
        found[self._order] = number[code].reshape(people.shape)
        return found

    def digest_of(self, codes: Integers) -> str:
        """Hash of a partition of the trials, or of their sides, whatever its parts are called."""
        table = codes.reshape(len(self.prints), -1)
        return _hash(self.numbered(table)[self._order])


def _numbers(names: Sequence[Any]) -> Fingerprints:
    """64 bits for each name."""
    large = 2**64  # str refuses integers of some thousand digits
    text = [hex(n) if isinstance(n, int) and abs(n) > large else str(n) for n in names]
    known = {
        name: int.from_bytes(
            blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little"
        )
        for name in set(text)
    }
    return np.fromiter((known[name] for name in text), np.uint64, len(text))


def _hash(numbers: npt.NDArray[Any]) -> str:
    plain = np.ascontiguousarray(numbers, numbers.dtype.newbyteorder("<"))
    return blake2b(plain.tobytes(), digest_size=16).hexdigest()
