"""Settings, which trade memory for speed and change no result, and limits, which may.

`settings(...)` and `limits(...)` change them inside a `with` block, for the thread that runs
it. Code reads them in that thread and hands the values to the threads that it starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, TypeVar

import numpy as np

from truerank._util.errors import InputError, shortened
from truerank._util.old_names import renamed_keywords

METHODS = ("auto", "float64", "filter", "symmetric")
"""Methods of counting: by cost, by float64 tiles, by float32 tiles refined by integers, or by such
tiles with each pair computed once."""


def _or_none(default: Any) -> Any:
    """A setting that may be 0 as well."""
    return field(default=default, metadata={"least": 0})


@dataclass(frozen=True)
class Settings:
    """Sizes that trade memory for speed and change no result."""

    query_rows: int = 2048
    gallery_rows: int = 1024
    mates: int = 1 << 22
    """Most relevant pairs in flight, counting every query of a block at its block's largest R."""
    split_cells: int = 10_000_000
    """Most relevant pairs x folds in flight where groups are split by fold, at 3 bytes or more."""
    sort_share: float = _or_none(0.05)
    """Queries for which more than this share of the gallery is relevant have their rows sorted."""
    row_numbers: int = 4_000_000
    """Most distances in rows held to be sorted, for each thread; a quarter as many relevant ones.
    Twice as many of both where ranks and grades are all that is wanted: taller rows make a faster
    product."""
    observed_numbers: int = 4_000_000
    """Most distances in rows that are observed and not sorted: taller rows, a faster product."""
    method: str = "auto"
    """How few relevant items are counted: one of METHODS; "auto" goes by cost."""
    side: int = 720
    """Rows and columns of the tiles of the symmetric method: an odd number of cache lines, so that
    the entries of a column do not compete for the same places in the cache."""
    symmetric_mates: int = 1 << 23
    """Most relevant pairs in flight in the symmetric method, which holds those of all queries."""
    patience: int = _or_none(32)
    """Tiles in which a float32 filter may fail, beyond a quarter of all, before it is given up."""
    collected: int = _or_none(1 << 22)
    """Up to this many pairs all distances are kept, where order statistics of them are wanted."""
    neighbor_rows: int = 512
    neighbor_items: int = 4096
    """Items of the tiles in which nearest neighbors are searched; `neighbor_rows` queries."""
    task_pairs: int = 1 << 28
    """Pairs of a task of a cluster: some seconds of a core."""
    chapter_pairs: int = 1 << 33
    """Pairs of the first chapter of a pass that is kept while it is observed: it tells how long the
    others may be."""
    chapter_growth: int = 16
    """A chapter is at most so many times as long as the one before."""
    checkpoint_seconds: float = _or_none(60.0)
    """Seconds between two writings of a checkpoint, or twenty times as long as writing takes."""
    checkpoint_worth: float = _or_none(5.0)
    """Seconds of work from which on an interrupted evaluation leaves a checkpoint."""


@dataclass(frozen=True)
class Limits:
    """Limits up to which numbers are exact, and sizes of samples: results depend on them.

    They are there for tests, which have small data; an evaluation has no option for them.
    """

    breakpoints: int = _or_none(50_000_000)
    """Integrals over thresholds are exact up to this many pairs, and bracketed beyond."""
    edges: int = 1 << 20
    """Beyond this many distinct positive distances only every second, third, ... is a cut."""
    sampled_from: int = _or_none(1 << 22)
    """Up to this many pairs a sample of distances is not worth its while."""
    sampled_rows: int = _or_none(512)
    """Queries, and items, whose distances foretell where quantiles of all distances lie."""
    drawn: int = 250_000_000
    """Most negatives that OPIS may be asked to sample, of some 55 bytes each; ten for every
    positive pair of iNaturalist's test images are some 130 million, by an estimate."""
    counted: int = 3_000
    """Queries that are counted by fold of the gallery, where there are so many, at the least."""
    observed_pairs: int = _or_none(50_000_000)
    """Most pairs that GOM observes without each fold; with more, it does so for a sample of
    queries, at the least 64 with a mate and as many without."""
    observed_again: int = 128
    """Queries with a mate, and as many without, that GOM at a rate observes without each fold."""


Kind = TypeVar("Kind", Settings, Limits)
_SETTINGS, _LIMITS = Settings(), Limits()
_settings: ContextVar[Settings] = ContextVar("settings", default=_SETTINGS)
_limits: ContextVar[Limits] = ContextVar("limits", default=_LIMITS)


def current_settings() -> Settings:
    """The settings in force in this thread."""
    return _settings.get()


def current_limits() -> Limits:
    """The limits in force in this thread."""
    return _limits.get()


@renamed_keywords(neighbour_rows="neighbor_rows", neighbour_items="neighbor_items")
@contextmanager
def settings(**changes: Any) -> Iterator[Settings]:
    """Change sizes inside a `with` block."""
    with _changed(_settings, changes) as changed:
        yield changed


@contextmanager
def limits(**changes: Any) -> Iterator[Limits]:
    """Change limits inside a `with` block."""
    with _changed(_limits, changes) as changed:
        yield changed


@contextmanager
def _changed(variable: ContextVar[Kind], changes: dict[str, Any]) -> Iterator[Kind]:
    known = {one.name: one for one in fields(variable.get())}
    for name, value in changes.items():
        if name not in known:
            raise InputError(f"there is no setting {name!r}; known are {', '.join(known)}.")
        _check(known[name], value)
    token = variable.set(replace(variable.get(), **changes))
    try:
        yield variable.get()
    finally:
        variable.reset(token)


def _check(one: Field[Any], value: Any) -> None:
    if one.name == "method":
        allowed, expected = value in METHODS, f"one of {', '.join(METHODS)}"
    elif isinstance(one.default, float):
        real = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
        allowed, expected = real and value >= 0, "a number >= 0"
    else:
        least = one.metadata.get("least", 1)
        whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
        allowed, expected = whole and value >= least, f"an int >= {least}"
    if not allowed:
        raise InputError(
            f"the setting {one.name} must be {expected}. Got {shortened(value)} instead."
        )
