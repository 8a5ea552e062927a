"""Labels of any kind as int64 codes, one column or several levels from coarse to fine.

Labels are compared as given and never cast to float; text that spells integers is equal to the
integers that another side holds. Both sides are encoded together. Missing
labels (None, NaN) get codes that match nothing. Of a label matrix (N, L) the paths from the
root are encoded besides, as the nodes of a tree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util.arrays import as_array, as_plain, name_rows, numbered
from truerank._util.errors import InputError, warn
from truerank._util.text import count

Codes = npt.NDArray[np.int64]
MISSING = -1
MOST_BITS = 10_000
"""Of an integer as a label: Python writes out none that is much longer."""


@dataclass(frozen=True)
class Encoded:
    """Codes of each side and the values that they stand for."""

    codes: tuple[Codes, ...]
    values: list[Any]


def _column(value: Any, name: str) -> npt.NDArray[Any]:
    """One label per row as an array that still holds the labels as given.

    Text stays Python's: numpy's, of fixed width, is as wide as the longest and ends before a NUL.
    """
    if isinstance(value, (list, tuple)):
        if _kinds_of(value) <= {"int"}:
            return _integers(value, name)
        return np.fromiter(value, object, len(value))
    return as_array(value, name)


def _integers(value: Sequence[Any], name: str) -> npt.NDArray[Any]:
    try:
        return np.asarray([int(item) for item in value], dtype=np.int64)
    except OverflowError:
        longest = max(int(item).bit_length() for item in value)
        if longest > MOST_BITS:
            raise InputError(f"{name} holds an integer of {longest:,} bits; pass text.") from None
        return np.fromiter(map(int, value), object, len(value))


def _kind(item: Any) -> str:
    if item is None or type(item).__name__ in ("NAType", "NaTType"):  # pandas' own
        return "missing"
    if isinstance(item, (float, complex, np.inexact)) and item != item:
        return "missing"
    if isinstance(item, Decimal) and item.is_nan():
        return "missing"
    if isinstance(item, (bool, np.bool_, int, np.integer)):
        return "int"
    return "str" if isinstance(item, str) else type(item).__name__


def encode(sides: Sequence[Any], names: Sequence[str]) -> Encoded:
    """Encode one label per row for each side; equal labels get equal codes on all sides."""
    columns = _with_numbers(
        [_column(side, name) for side, name in zip(sides, names, strict=True)], names
    )
    kinds: dict[str, str] = {}
    for column, name in zip(columns, names, strict=True):
        if column.ndim != 1:
            raise InputError(f"{name} must be one value per row. Got shape {column.shape} instead.")
        for kind in sorted(_kinds(column)):
            kinds.setdefault(kind, name)
    holes = kinds.pop("missing", None) is not None
    if len(kinds) > 1:
        (first, where), (second, elsewhere) = list(kinds.items())[:2]
        raise InputError(
            f"values of different types never match: {where} holds {first} and {elsewhere} holds "
            f"{second}; convert both to one type, for example str."
        )
    lengths = [len(column) for column in columns]
    native = [column for column in columns if column.dtype.kind in "biu"]
    if len(native) == len(columns) and all(c.dtype != np.uint64 for c in columns):
        joined = np.concatenate([column.astype(np.int64) for column in columns])
        numbers, codes = numbered(joined)
        return Encoded(_split(codes, lengths), numbers.tolist())
    items = [_own(item) for column in columns for item in column.tolist()]
    values, codes = _interned(items, holes, names[0])
    return Encoded(_split(codes, lengths), values)


def _with_numbers(
    columns: list[npt.NDArray[Any]], names: Sequence[str]
) -> list[npt.NDArray[Any]]:
    """Read a side of text that spells integers as these, where another side holds integers."""
    if len(columns) < 2 or any(column.ndim != 1 for column in columns):
        return columns
    kinds = [_kinds(column) - {"missing"} for column in columns]
    if {"int"} not in kinds or {"str"} not in kinds:
        return columns
    found = []
    for column, kind, name in zip(columns, kinds, names, strict=True):
        items = column.tolist() if kind == {"str"} else []
        if items and _are_numbers(item for item in items if _kind(item) != "missing"):
            column = _column([as_number(item) for item in items], name)
        found.append(column)
    return found


def _kinds(column: npt.NDArray[Any]) -> set[str]:
    if column.dtype.kind in "biu":
        return {"int"}
    if column.dtype.kind in "US":
        return {"str" if column.dtype.kind == "U" else "bytes"}
    if column.dtype.kind == "f":
        return {"float", "missing"} if np.isnan(column).any() else {"float"}
    return _kinds_of(column.tolist())


def _kinds_of(items: Sequence[Any]) -> set[str]:
    types = set(map(type, items))
    if types <= _KINDS.keys():
        return {_KINDS[kind] for kind in types}
    return {_kind(item) for item in items}


_KINDS = {str: "str", int: "int", bool: "int", type(None): "missing"}
"""What a type alone says; of others, each value is looked at."""


def _own(item: Any) -> Any:
    """A value of numpy, or text of a class of its own, as Python's; with its last NUL."""
    if isinstance(item, str):
        return item if type(item) is str else str.__str__(item)
    return as_plain(item)


def _interned(items: list[Any], holes: bool, name: str) -> tuple[list[Any], Codes]:
    """The distinct values in order and each item's code; text is never copied."""
    missing = [_kind(item) == "missing" for item in items] if holes else None
    try:
        if missing is None:
            distinct = set(items)
        else:
            distinct = {item for item, gone in zip(items, missing, strict=True) if not gone}
    except Exception as error:  # whatever a value's own hash raises
        raise InputError(f"{name} must be hashable values such as int or str ({error}).") from error
    try:
        values = sorted(distinct, key=int if _are_numbers(distinct) else None)
    except Exception:  # values without an order, or whose own comparison fails
        values = sorted(distinct, key=repr)
    number = {value: code for code, value in enumerate(values)}
    if missing is None:
        return values, np.fromiter(map(number.__getitem__, items), np.int64, len(items))
    found = (MISSING if gone else number[item] for item, gone in zip(items, missing, strict=True))
    return values, np.fromiter(found, np.int64, len(items))


def as_number(value: Any) -> Any:
    """Text that spells an integer as Python writes it, "12" but not "012", as that integer.

    Anything else is returned as it is.
    """
    return int(value) if isinstance(value, str) and _INTEGER.fullmatch(value) else value


_INTEGER = re.compile("0|-?[1-9][0-9]{0,17}")


def _are_numbers(values: Iterable[Any]) -> bool:
    """Whether all are text that spells integers: it is then ordered as the integers are."""
    return all(isinstance(value, str) and _INTEGER.fullmatch(value) for value in values)


def _split(codes: Codes, lengths: list[int]) -> tuple[Codes, ...]:
    return tuple(np.split(codes, np.cumsum(lengths)[:-1]))


@dataclass(frozen=True)
class Levels:
    """Label columns from coarse to fine, and the nodes of the tree that they form."""

    names: list[str]
    columns: list[Encoded]
    """The labels of each column as they are."""
    paths: list[Encoded]
    """The path from the root at each level: one name under two parents is two nodes."""

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def finest(self) -> Encoded:
        """The finest labels, which binary metrics and junk go by."""
        return self.columns[-1]

    def first_split(self) -> str | None:
        """The coarsest level with a label under two parents, None if the labels form a tree."""
        for name, column, path in zip(self.names, self.columns, self.paths, strict=True):
            if len(path.values) > len(column.values):
                return name
        return None

    @property
    def is_tree(self) -> bool:
        """Whether labels and paths say the same, because each label has one parent."""
        return self.first_split() is None


def encode_levels(sides: Sequence[Any], names: Sequence[str]) -> Levels:
    """Encode labels (N,) or (N, L), coarse to fine."""
    tables = [_levels(side, name) for side, name in zip(sides, names, strict=True)]
    for table, name in zip(tables, names, strict=True):
        for column in table.values():
            _refuse_sets(column, name)
    if len(tables) == 2 and set(tables[0]) == set(tables[1]):
        tables[1] = {key: tables[1][key] for key in tables[0]}
    elif len(tables) == 2 and all(_is_named(side) for side in sides):
        raise InputError(
            f"the label columns of both sides must have the same names: {names[0]} has "
            f"{', '.join(tables[0])} and {names[1]} has {', '.join(tables[1])}."
        )
    if len({len(table) for table in tables}) > 1:
        found = ", ".join(
            f"{name} has {len(table)}" for name, table in zip(names, tables, strict=True)
        )
        raise InputError(f"both sides need the same number of label levels: {found}.")
    if not tables[0]:
        raise InputError(f"{names[0]} has no column; pass one label for each row.")
    for table, name in zip(tables, names, strict=True):
        lengths = {key: np.shape(column)[:1] for key, column in table.items()}
        if len(set(lengths.values())) > 1:
            shown = ", ".join(
                f"level {key} has {n[0] if n else 'no'} rows" for key, n in lengths.items()
            )
            raise InputError(f"the levels of {name} must have one length: {shown}.")
    columns = [
        encode(level, names) for level in zip(*(table.values() for table in tables), strict=True)
    ]
    for side in range(len(sides)):  # a row without one of its labels has none
        hole = np.logical_or.reduce([column.codes[side] == MISSING for column in columns])
        for column in columns:
            column.codes[side][hole] = MISSING
    paths = columns[:1]
    for column in columns[1:]:
        paths.append(_paths(paths[-1], column))
    levels = Levels(list(tables[0]), columns, paths)
    for name, column in zip(levels.names, columns, strict=True):
        _note_look_alikes(column, f" of level {name}" if len(levels) > 1 else "")
    split = levels.first_split()
    if split is not None:
        if not any(map(_has_names, sides)) and _binary(columns):
            _refuse_multi_hot(names[0], split)
        warn(
            f"a label of level {split} appears under more than one parent: in tree metrics each "
            "path is a separate node, while metrics at one level use the label."
        )
    return levels


def _note_look_alikes(column: Encoded, where: str) -> None:
    """Warn of labels that differ by white space or case only."""
    alike: dict[str, list[str]] = {}
    # values are of one type
    for value in column.values if isinstance(next(iter(column.values), None), str) else ():
        alike.setdefault(" ".join(value.split()).casefold(), []).append(value)
    groups = [values for values in alike.values() if len(values) > 1]
    if not groups:
        return
    first, second = groups[0][:2]
    others = len(groups) - 1
    does = "does" if others == 1 else "do"
    more = f" (and so {does} {count(others, 'other group')} of labels)" if others else ""
    warn(
        f"labels {first!r} and {second!r}{where} differ by white space or case only{more} and are "
        "different classes; make them one if they mean the same."
    )


def _paths(parent: Encoded, child: Encoded) -> Encoded:
    width = len(child.values) + 1
    pairs = [
        np.where((up == MISSING) | (down == MISSING), MISSING, up * width + down)
        for up, down in zip(parent.codes, child.codes, strict=True)
    ]
    found, codes = np.unique(np.concatenate(pairs), return_inverse=True)
    missing = bool(found.size and found[0] == MISSING)
    codes = codes.astype(np.int64) - missing
    values = [
        (*_as_path(parent.values[int(key) // width]), child.values[int(key) % width])
        for key in found[int(missing) :]
    ]
    return Encoded(_split(codes, [len(side) for side in pairs]), values)


def _as_path(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _is_named(value: Any) -> bool:
    """Whether the label columns came with names."""
    return isinstance(value, Mapping) or hasattr(value, "columns")


def _levels(value: Any, name: str) -> dict[str, Any]:
    """The columns of a label array by name, coarse to fine."""
    if hasattr(value, "columns") and hasattr(value, "iloc"):  # a DataFrame
        if value.shape[1] > 1 and _looks_one_hot(value.to_numpy()):
            _refuse_one_hot(name, value.shape)
        keys = [str(key) for key in value.columns]
        if keys == [str(number) for number in range(len(keys))]:  # no names were given
            keys = [str(number) for number in range(1, len(keys) + 1)]
        if len(set(keys)) < len(keys):
            raise InputError(f"{name} names a column twice: {', '.join(keys)}.")
        return {key: value.iloc[:, i].to_numpy() for i, key in enumerate(keys)}
    if isinstance(value, Mapping):
        return {str(key): column for key, column in value.items()}
    return {str(number): column for number, column in enumerate(_columns(value, name), 1)}


def _columns(value: Any, name: str) -> list[Any]:
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], (list, tuple)):
        if not all(isinstance(row, (list, tuple)) for row in value):
            raise InputError(f"{name} must be single labels or paths of labels, not both.")
        widths = {len(row) for row in value}
        if len(widths) > 1:
            raise InputError(f"{name} rows must have one number of levels. Got {sorted(widths)}.")
        columns = [list(column) for column in zip(*value, strict=True)]
        numbers = len(columns) > 1 and isinstance(columns[0][0], (int, float))
        if numbers and _looks_one_hot(as_array(value, name)):
            _refuse_one_hot(name, (len(value), len(columns)))
        return columns
    column = _column(value, name)
    if column.ndim == 1:
        return [column]
    if column.ndim != 2 or column.shape[1] == 0:
        raise InputError(
            f"{name} must have shape (rows,), or (rows, levels) from coarse to fine. "
            f"Got shape {column.shape} instead."
        )
    if column.shape[1] > 1 and _looks_one_hot(column):
        _refuse_one_hot(name, column.shape)
    return [column[:, level] for level in range(column.shape[1])]


def _refuse_one_hot(name: str, shape: tuple[int, ...]) -> None:
    raise InputError(
        f"{name} of shape {shape} looks one-hot; pass class numbers instead, {name}.argmax(axis=1)."
    )


def _has_names(value: Any) -> bool:
    """Whether label columns came with names, other than a DataFrame's numbers from 0."""
    if not _is_named(value):
        return False
    return isinstance(value, Mapping) or list(value.columns) != list(range(len(value.columns)))


def _binary(columns: Sequence[Encoded]) -> bool:
    """Whether all labels are 0 or 1, or False or True."""
    return all(value in (0, 1) for column in columns for value in column.values)


def _refuse_multi_hot(name: str, level: str) -> None:
    raise InputError(
        f"{name} holds only 0 and 1, and its columns are no tree: in column {level} a value stands "
        "below two paths. Pass levels, from coarse to fine, by name, as "
        '{"coarse": y[:, 0], "fine": y[:, 1]}; and multi-hot rows, which are relevant to each '
        f"other if they share a 1, as relevance=(y @ y.T) > 0 in place of {name} (with a gallery: "
        "y @ y_gallery.T)."
    )


def _refuse_sets(column: Any, name: str) -> None:
    """Refuse rows that are sets of labels: they are no levels, and equal ones alone would match."""
    objects = isinstance(column, (list, tuple)) or str(getattr(column, "dtype", "")) == "object"
    if objects and any(issubclass(kind, (set, frozenset)) for kind in set(map(type, column))):
        raise InputError(
            f"{name} holds sets, and a label, or a path of levels, is one value for each row. If "
            "rows are multi-hot, and those that share a label are relevant to each other, pass "
            "relevance=, a (queries, gallery) matrix that is True where two rows share a label, in "
            f"place of {name}."
        )


def _looks_one_hot(table: npt.NDArray[Any]) -> bool:
    return (
        table.size > 0
        and table.dtype.kind in "biuf"
        and bool(((table == 0) | (table == 1)).all() and ((table == 1).sum(axis=1) == 1).all())
    )


def missing_rows(codes: Codes) -> str:
    """Name the rows without a label."""
    return name_rows(np.flatnonzero(codes == MISSING))
