"""Checks of labels, ids, exclusion groups and junk, and reasons why queries are unmated.

A query is unmated because it is alone in its class, all its relevant items are junk, its class
is not in the gallery, or no judgement names a relevant item.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util.arrays import as_plain, name_rows
from truerank._util.errors import InputError, shortened
from truerank._util.text import reworded
from truerank.task.labels import (
    MISSING,
    Codes,
    Encoded,
    Levels,
    encode,
    encode_levels,
    missing_rows,
)
from truerank.task.relevance import Mask, count_matches

# What users say about the rows of both sides, checked and encoded: labels, ids, groups, junk.


Shape = tuple[int, int]
"""Numbers of queries and of gallery items."""


def check_source(labels: Any, gallery_labels: Any, judged: Mask | None) -> None:
    """Labels or judgements say who is relevant, and only one of them."""
    if labels is None and judged is None:
        raise InputError("labels are missing: pass one label for each row, or relevance=.")
    if labels is not None and judged is not None:
        raise InputError(
            "labels and relevance both define the relevant items; pass one of the two."
        )
    if labels is None and gallery_labels is not None:
        raise InputError("relevance defines the relevant items; leave gallery_labels out.")


def encode_labels(
    labels: Any, gallery_labels: Any, *, unlabelled: str, leave_one_out: bool
) -> Levels:
    """Every row has a label, but for distractors of a gallery that may have them."""
    sides, names = [labels], ["labels"]
    if not leave_one_out:
        sides.append(gallery_labels)
        names.append("gallery_labels")
    levels = encode_levels(sides, names)
    for codes, name in zip(levels.finest.codes, names, strict=True):
        if not codes.size:
            raise InputError(f"{name} is empty; at least one row is needed.")
        allowed = unlabelled == "distractor" and name == "gallery_labels"
        if (codes == MISSING).any() and not allowed:
            fix = (
                "label them or pass unlabelled='distractor'"
                if name == "gallery_labels"
                else "label them or leave those rows out (only a gallery may have distractors)"
            )
            raise InputError(f"no label (None or NaN) in {name} {missing_rows(codes)}; {fix}.")
    return levels


def check_square(relevance: Mask) -> None:
    """Judgements of queries that are their own gallery are as many rows as columns."""
    if relevance.shape[0] != relevance.shape[1]:
        raise InputError(
            "relevance must be square where the queries are their own gallery. "
            f"Got {relevance.shape} instead."
        )


def check_shape(mask: Mask | None, shape: Shape) -> None:
    """A mask has a cell for each query and gallery item."""
    if mask is not None and mask.shape != shape:
        raise InputError(
            f"{mask.name} must have shape (queries, gallery) = {shape}. Got {mask.shape} instead."
        )


def encode_ids(ids: Any, gallery_ids: Any, shape: Shape, leave_one_out: bool) -> Encoded | None:
    """Of one side where the queries are their own gallery, otherwise of both or of none."""
    if leave_one_out:
        if gallery_ids is not None:
            raise InputError("gallery_ids came without a gallery; pass query_ids alone.")
        return None if ids is None else _encode((ids,), ("query_ids",), shape)
    names = ("query_ids", "gallery_ids")
    _check_both(ids, gallery_ids, names, "rows meet by id")
    return None if ids is None else _encode((ids, gallery_ids), names, shape)


def encode_groups(
    groups: Any, gallery_groups: Any, shape: Shape, leave_one_out: bool
) -> Encoded | None:
    """Of both sides, which are one where the queries are their own gallery, or of none."""
    if leave_one_out:
        if gallery_groups is not None:
            raise InputError("gallery_groups came without a gallery; pass query_groups alone.")
        gallery_groups = groups
    names = ("query_groups", "gallery_groups")
    _check_both(groups, gallery_groups, names, "relevant items of a query's group are junk")
    return None if groups is None else _encode((groups, gallery_groups), names, shape)


def _check_both(query: Any, gallery: Any, names: tuple[str, str], why: str) -> None:
    if (query is None) != (gallery is None):
        given, other = names if gallery is None else names[::-1]
        raise InputError(f"{given} came without {other}; {why}, so both sides need them.")


def _encode(sides: tuple[Any, ...], names: tuple[str, ...], shape: Shape) -> Encoded:
    """Codes of the sides, each with a value for every row."""
    encoded = encode(sides, names)
    for codes, name, count in zip(encoded.codes, names, shape, strict=False):
        if len(codes) != count:
            raise InputError(f"{name} must have one value per row ({count}). Got {len(codes)}.")
        if (codes == MISSING).any():
            raise InputError(f"None or NaN in {name} {missing_rows(codes)}; give each row a value.")
    return encoded


def listed(junk_labels: Any) -> list[Any]:
    """The junk labels as plain values."""
    if isinstance(junk_labels, str) or not np.iterable(junk_labels):
        raise InputError(f"junk_labels must be a list of labels. Got {shortened(junk_labels)}.")
    return [as_plain(label) for label in junk_labels]


def kept_columns(
    junk_labels: list[Any], levels: Levels | None, gallery: Codes
) -> npt.NDArray[np.int64] | None:
    """The gallery items that stay where those with junk labels leave it; None if all do."""
    if not junk_labels:
        return None
    if levels is None:
        raise InputError("junk_labels needs labels; with relevance= pass a junk mask instead.")
    names = levels.finest.values
    some = names[0] if names else None
    for label in junk_labels:
        if some is not None and isinstance(label, str) != isinstance(some, str):
            raise InputError(
                f"junk label {shortened(label)} is of type {type(label).__name__} but labels are "
                f"{type(some).__name__}; they would never match."
            )
    try:
        junk = set(junk_labels)
    except TypeError as error:
        raise InputError(f"junk_labels must be labels such as int or str ({error}).") from error
    codes = [code for code, name in enumerate(names) if name in junk]
    keep = ~np.isin(gallery, np.array(codes, np.int64))
    if not keep.any():
        raise InputError("junk_labels cover every gallery item; nothing is left to rank.")
    return np.flatnonzero(keep)


# Why queries have nothing to find: alone in their class, all mates junk, not in the gallery, or
# without a judgement that says what is relevant to them.


Sides = tuple[Codes, Codes]
"""A code for each query and for each gallery item."""

UNMATED_REASONS = ("singleton", "all mates junk", "not in gallery", "unjudged")
SINGLETON, ALL_JUNK, NOT_IN_GALLERY, UNJUDGED = range(4)


def by_labels(mates: Codes, labels: Sides, ids: Sides | None, leave_one_out: bool) -> Codes:
    """Index into UNMATED_REASONS for each unmated query, -1 for mated ones."""
    reason, none = _nobody(mates)
    if not none.size:
        return reason
    same_label = count_matches(*_columns(labels))
    others = same_label.copy()
    if ids is not None:
        others -= count_matches(*_columns(labels, ids))
    alone = SINGLETON if leave_one_out else NOT_IN_GALLERY
    reason[none] = np.where(
        others[none] > 0, ALL_JUNK, np.where(same_label[none] > 0, SINGLETON, alone)
    )
    return reason


def by_judgements(mates: Codes, relevance: Mask, ids: Sides | None) -> Codes:
    """The same where judgements say who is relevant."""
    reason, none = _nobody(mates)
    if not none.size:
        return reason
    pairs = relevance.pairs(none, None)
    reason[none] = UNJUDGED
    reason[none[pairs.query]] = SINGLETON
    if ids is not None:
        pairs = pairs.where(ids[0][none][pairs.query] != ids[1][pairs.item])
    reason[none[pairs.query]] = ALL_JUNK
    return reason


def _nobody(mates: Codes) -> tuple[Codes, Codes]:
    """No reason for any query yet, and the queries that need one."""
    return np.full(len(mates), -1, np.int64), np.flatnonzero(mates == 0)


def blocked_by_group(
    mates: Codes, labels: Sides, groups: Sides, ids: Sides | None
) -> npt.NDArray[np.bool_]:
    """No-mate queries that have a mate of their own group."""
    found = count_matches(*_columns(labels, groups))
    if ids is not None:
        found -= count_matches(*_columns(labels, groups, ids))
    none: npt.NDArray[np.bool_] = mates == 0
    return none & (found > 0)


def _columns(*keys: Sides) -> tuple[list[Codes], list[Codes]]:
    return [query for query, _ in keys], [item for _, item in keys]


def refuse(mates: Codes, counts: dict[str, int], by_group: bool) -> None:
    """Say how many queries have no mate, why, and which ones."""
    parts = ", ".join(f"{count} {reworded(name)}" for name, count in counts.items())
    hint = " (relevant items of the query's group are junk: check query_groups)" if by_group else ""
    where = name_rows(np.flatnonzero(mates == 0))
    raise InputError(
        f"{sum(counts.values())} of {len(mates)} queries have no relevant item in the gallery: "
        f"{parts}{hint}; {where}; pass unmated='report' to leave them out."
    )
