"""Task: the rules of one evaluation apart from its embeddings, with sampling units and digest.

Rows that share an id are excluded pairs. An item with the query's label and exclusion group
(camera), with a junk label or under the junk mask is excluded for that query. The remaining
items with the query's label are relevant. A query without a relevant item is unmated. A
sampling unit is a class of the coarsest level that a metric's relevance uses. The digest of a
task and the commitment to it do not depend on the order of its rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank._util.arrays import numbered
from truerank._util.cached import cached_property
from truerank._util.errors import InputError, check_choice
from truerank._util.old_names import RenamedAttribute, renamed_keywords
from truerank._util.types import Integers
from truerank.core import registry
from truerank.core.metric import Metric, RankingDefinition
from truerank.task import checks
from truerank.task.checks import UNMATED_REASONS, Sides
from truerank.task.labels import MISSING, Codes, Encoded, Levels, as_number
from truerank.task.relevance import (
    Equality,
    Exclusions,
    GradeView,
    JudgedView,
    Judgements,
    LabelView,
    Mask,
    TreeView,
    View,
)

Reader = Callable[[Any], Any]
"""What makes one value of those that mean the same, as `as_number`."""

_MOST_REMEMBERED = 1 << 16
"""Distinct labels whose digest is remembered, with the labels, in the next calls."""


class TaskRules:
    """Labels and rules of one evaluation, without the embeddings.

    Parameters
    ----------
    labels : (Q,) or (Q, L)
        One label for each query, or a path of labels from coarse to fine. None with `relevance`.
    ids, groups : (Q,), optional
        Identity of each row (rows that share an id never meet) and its group or camera.
    gallery_labels, gallery_ids, gallery_groups : optional
        The same for a separate gallery. Without them the queries are their own gallery and each
        row is removed from its own list.
    junk : (Q, G) bool or sparse, optional
        Pairs to exclude.
    junk_labels : iterable
        Gallery items with these labels are excluded for every query.
    relevance : (Q, G) bool, graded or sparse, optional
        Who is relevant to whom, instead of labels.
    unmated : {"report", "zero", "error"}
        What happens to queries that have nothing to find.
    unlabelled : {"error", "distractor"}
        Whether gallery rows may have no label (None or NaN); they are then relevant to nobody.
    leave_one_out : bool, optional
        Whether the queries are their own gallery. By default they are when neither gallery_labels
        nor relevance is given.

    Examples
    --------
    >>> from truerank import Task
    >>> task = Task(["cat", "cat", "dog"])
    >>> task.n_relevant.tolist()
    [1, 1, 0]
    >>> task.unmated_counts()
    {'singleton': 1}
    """

    mates = RenamedAttribute("n_relevant")
    no_mate = RenamedAttribute("unmated")
    no_mate_counts = RenamedAttribute("unmated_counts")
    no_mate_reason = RenamedAttribute("unmated_reason")

    @renamed_keywords(no_mate="unmated")
    def __init__(
        self,
        labels: Any,
        *,
        ids: Any = None,
        groups: Any = None,
        gallery_labels: Any = None,
        gallery_ids: Any = None,
        gallery_groups: Any = None,
        junk: Any = None,
        junk_labels: Iterable[Any] = (),
        relevance: Any = None,
        unmated: str = "report",
        unlabelled: str = "error",
        leave_one_out: bool | None = None,
    ) -> None:
        if not isinstance(leave_one_out, (bool, np.bool_, type(None))):
            raise InputError("The 'leave_one_out' parameter must be True, False or None.")
        check_choice("unmated", unmated, ("report", "zero", "error"))
        check_choice("unlabelled", unlabelled, ("error", "distractor"))
        self.unmated = unmated
        self.unlabelled = unlabelled
        judged = self._relevance = Mask.of(relevance, "relevance")
        checks.check_source(labels, gallery_labels, judged)
        if leave_one_out is None:
            leave_one_out = gallery_labels is None and judged is None
        self.leave_one_out = leave_one_out
        self.levels: Levels | None = None
        if judged is not None:
            self._set_unlabelled(judged)
        else:
            self.levels = checks.encode_labels(
                labels, gallery_labels, unlabelled=unlabelled, leave_one_out=leave_one_out
            )
            codes = self.levels.finest.codes
            self._query_codes, self._all_gallery_codes = codes[0], codes[-1]
        shape = len(self._query_codes), len(self._all_gallery_codes)
        self.queries, self.gallery_size = shape
        self._id_names = checks.encode_ids(ids, gallery_ids, shape, leave_one_out)
        self._group_names = checks.encode_groups(groups, gallery_groups, shape, leave_one_out)
        self._junk = Mask.of(junk, "junk")
        for mask in (self._junk, self._relevance):
            checks.check_shape(mask, shape)
        self.junk_labels = checks.listed(junk_labels)
        self.columns = checks.kept_columns(self.junk_labels, self.levels, self._all_gallery_codes)
        self._gallery_codes = self._all_gallery_codes
        if self.columns is not None:
            self._gallery_codes = self._gallery_codes[self.columns]
        self._set_exclusions()
        self.n_relevant = self.view.mates
        self.unmated_reason = self._reasons()
        if unmated == "error" and (self.n_relevant == 0).any():
            self._refuse_unmated()
        if self.masks:  # what they hold may change
            self.digest = self._digested()

    def _set_unlabelled(self, judged: Mask) -> None:
        if self.leave_one_out:
            checks.check_square(judged)
        queries, items = judged.shape
        nobody = np.full(1, MISSING, np.int64)  # however many items there are
        self._query_codes = np.broadcast_to(nobody, queries)
        self._all_gallery_codes = np.broadcast_to(nobody, items)

    def numbered(self) -> TaskRules:
        """The same task with row numbers for ids, if the queries are their own gallery without ids.

        Nothing is ranked otherwise; but what intervals sample goes by ids where there are some, so
        that results for other embeddings of the same rows form closer pairs.
        """
        if not self.leave_one_out or self._id_names is not None:
            return self
        task = copy(self)
        shape = self.queries, self.gallery_size
        task._id_names = checks.encode_ids(np.arange(self.queries), None, shape, True)
        task.digest = task._digested()
        return task

    def without_relevant(self) -> TaskRules:
        """Return the same task with every relevant item as junk, where such queries count as 0."""
        task = copy(self)
        task.unmated = "zero"
        shape = self.queries, self.gallery_size
        query, item = (np.zeros(size, np.int64) for size in shape)
        alone = self.leave_one_out
        task._group_names = checks.encode_groups(query, None if alone else item, shape, alone)
        task.__dict__.pop("view", None)
        task._set_exclusions()
        task.n_relevant, task.unmated_reason = task.view.mates, task._reasons()
        task.digest = task._digested()
        return task

    def relaxed(
        self, *, ids: bool = False, groups: bool = False, merged: Integers | None = None
    ) -> TaskRules:
        """Return a task to count by, without the rule of ids (and of the row itself), or of groups.

        `merged` holds a code for each finest label; labels with equal codes become one label.
        """
        task = copy(self)
        if ids:
            task._id_names, task.leave_one_out = None, False
        if groups:
            task._group_names = None
        if merged is not None:
            for name in ("_query_codes", "_all_gallery_codes", "_gallery_codes"):
                codes = getattr(self, name)
                setattr(task, name, np.where(codes < 0, codes, merged[codes]))
        for name in ("view", "judged_view", "digest"):
            task.__dict__.pop(name, None)
        task._set_exclusions()
        task.n_relevant, task.unmated_reason = task.view.mates, task._reasons()
        return task

    # -- structure ----------------------------------------------------------------------------

    @property
    def items(self) -> int:
        """Gallery items that can be ranked (junk labels left out)."""
        return len(self._gallery_codes)

    @property
    def query_codes(self) -> Codes:
        """The finest label of each query as a code."""
        return self._query_codes

    @property
    def gallery_codes(self) -> Codes:
        """The finest label of each gallery item that takes part."""
        return self._gallery_codes

    @property
    def excludes_pairs(self) -> bool:
        """Whether ids or a junk mask say which pairs never meet."""
        return self._id_names is not None or self._junk is not None

    def exclusions(self) -> list[str]:
        """The rules that keep pairs apart, in words."""
        rules = []
        if self._id_names is not None:
            rules.append("rows that share an id")
        elif self.leave_one_out:
            rules.append("each row itself")
        if self._group_names is not None:
            rules.append("mates of the query's own group")
        if self.junk_labels:
            rules.append(f"{self.gallery_size - self.items} items with junk labels")
        if self._junk is not None:
            rules.append("pairs of the junk mask")
        return rules

    @property
    def group_names(self) -> Encoded | None:
        """The groups of each side, if given."""
        return self._group_names

    @property
    def id_names(self) -> Encoded | None:
        """The ids of each side, if given."""
        return self._id_names

    @property
    def masks(self) -> dict[str, Mask]:
        """The junk and relevance masks that were given."""
        return {mask.name: mask for mask in (self._junk, self._relevance) if mask is not None}

    @property
    def _ids(self) -> Sides | None:
        """Rows that share a code never meet; each row has its own where no ids were given."""
        if self._id_names is not None:
            return self._id_names.codes[0], self._id_names.codes[-1]
        own = np.arange(self.queries)
        return (own, own) if self.leave_one_out else None

    @property
    def _groups(self) -> Sides | None:
        names = self._group_names
        return None if names is None else (names.codes[0], names.codes[1])

    def _set_exclusions(self) -> None:
        """Shared ids; the same finest label (or a judgement) and the same group; the junk mask."""
        rules, masks = [], [mask for mask in (self._junk,) if mask is not None]
        keep, ids, groups = self._keep, self._ids, self._groups
        if ids is not None:
            rules.append(Equality.of(ids[0], ids[1][keep]))
        if groups is not None and self._relevance is None:
            width = int(max(codes.max() for codes in groups)) + 1
            query = self._query_codes * width + groups[0]
            item = self._gallery_codes * width + groups[1][keep]
            rules.append(Equality.of(query, np.where(self._gallery_codes < 0, MISSING, item)))
        elif groups is not None and self._relevance is not None:
            masks.append(self._relevance.where_equal(*groups))
        self._exclusions = Exclusions(rules, masks, self.columns)

    @property
    def _keep(self) -> Any:
        return slice(None) if self.columns is None else self.columns

    @cached_property
    def view(self) -> View:
        """Relevance by the finest label, or by the judgements."""
        if self._relevance is not None:
            return GradeView(self._relevance, self.columns, self._exclusions, self.items)
        return LabelView(self._query_codes, self._gallery_codes, self._exclusions)

    @cached_property
    def judged_view(self) -> JudgedView | None:
        """What was judged, relevant or not; None where nothing says what was not judged."""
        if not isinstance(self._relevance, Judgements):
            return None
        return JudgedView(self._relevance, self.columns, self._exclusions, self.items)

    @property
    def named_levels(self) -> Levels:
        """The levels of the labels; refused where judgements stand in their place."""
        if self.levels is None:
            raise InputError("relevance= names no classes; pass labels.")
        return self.levels

    def level_view(self, level: int) -> View:
        """Relevance by the label of one level, 1 the coarsest."""
        if level == len(self.named_levels):
            return self.view
        codes = self.named_levels.columns[level - 1].codes
        query, item = codes[0], codes[-1]
        return LabelView(query, item[self._keep], self._exclusions)

    def tree_view(self, lowest: int = 1) -> View:
        """Relevance by the length of the common path, if it is at least `lowest`."""
        paths = self.named_levels.paths
        query = [path.codes[0] for path in paths]
        item = [path.codes[-1][self._keep] for path in paths]
        return TreeView(query, item, lowest, self._exclusions)

    # -- unmated queries ----------------------------------------------------------------------

    def _reasons(self) -> Codes:
        if self._relevance is not None:
            return checks.by_judgements(self.n_relevant, self._relevance, self._ids)
        labels = self._query_codes, self._all_gallery_codes
        return checks.by_labels(self.n_relevant, labels, self._ids, self.leave_one_out)

    def unmated_counts(self) -> dict[str, int]:
        """Number of unmated queries by reason, reasons that occur only."""
        reasons = self.unmated_reason[self.unmated_reason >= 0]
        counts = np.bincount(reasons, minlength=len(UNMATED_REASONS))
        return {
            name: int(count) for name, count in zip(UNMATED_REASONS, counts, strict=True) if count
        }

    def _refuse_unmated(self) -> None:
        by_group = False
        if self._groups is not None and self._relevance is None:
            labels = self._query_codes, self._all_gallery_codes
            blocked = checks.blocked_by_group(self.n_relevant, labels, self._groups, self._ids)
            by_group = bool(blocked.any())
        checks.refuse(self.n_relevant, self.unmated_counts(), by_group)

    # -- identity -----------------------------------------------------------------------------

    @cached_property
    def digest(self) -> str:
        """A hash of what the task is made of, whatever the order of its rows."""
        return self._digested()

    def _digested(self) -> str:
        """Integers and text that spells them are one task: `as_number` reads them all."""
        judged = self._relevance
        junk_labels = [as_number(label) for label in self.junk_labels]
        if isinstance(judged, Judgements):
            sides = self.counted_records(as_number)
            if judged.names is not None:  # items that a run happens to name are no part of the task
                sides = iter([("query", [(repr(name), 1) for name in judged.names[0]])])
            masks = [
                *self.mask_records(as_number),
                ("judged", judged.judged.records(self._pair_names(as_number))),
            ]
            return task_digest(sides, junk_labels, masks)
        if not self._has_numbers_alone:
            return task_digest(
                self.counted_records(as_number), junk_labels, self.mask_records(as_number)
            )
        names = self.named_levels.finest
        times = np.bincount(names.codes[0], minlength=len(names.values))
        return _digest_of_numbers(tuple(names.values), times.astype(np.int64).tobytes())

    @property
    def _has_numbers_alone(self) -> bool:
        """Whether labels of one level are all that is given, and these are some integers."""
        if self.levels is None or len(self.levels) > 1 or not self.leave_one_out:
            return False
        if self.excludes_pairs or self._group_names is not None or self.junk_labels:
            return False
        values = self.levels.finest.values
        return len(values) <= _MOST_REMEMBERED and set(map(type, values)) == {int}

    def records(self) -> Iterator[tuple[str, list[str]]]:
        """(id, labels, group) of each row of each side, as text."""
        for name, texts, number in self._numbered_records():
            yield name, [texts[place] for place in number.tolist()]

    def counted_records(
        self, read: Reader | None = None
    ) -> Iterator[tuple[str, list[tuple[str, int]]]]:
        """The distinct records of each side, and how many rows have each."""
        for name, texts, number in self._numbered_records(read):
            times = np.bincount(number, minlength=len(texts)).tolist()
            yield name, list(zip(texts, times, strict=True))

    def _numbered_records(
        self, read: Reader | None = None
    ) -> Iterator[tuple[str, list[str], Codes]]:
        """The distinct records of each side, and the number of each row's among them."""
        sides = ("both",) if self.leave_one_out else ("query", "gallery")
        for side, name in enumerate(sides):
            columns = [] if self._id_names is None else [(self._id_names, side)]
            if self.levels is not None:
                columns += [(level, side) for level in self.levels.columns]
            if self._group_names is not None:
                columns.append((self._group_names, 0 if self.leave_one_out else side))
            number = np.zeros(self.queries if side == 0 else self.gallery_size, np.int64)
            for names, which in columns:
                width = len(names.values) + 1
                number = numbered(number * width + (names.codes[which] + 1))[1]
            row = np.empty(int(number.max(initial=-1)) + 1, np.int64)
            row[number] = np.arange(len(number))
            texts = [_text(names, names.codes[which][row], read) for names, which in columns]
            if self._id_names is None and len(texts) == 1:  # as mostly, and in a third of the time
                yield name, _alone(texts[0]), number
                continue
            if self._id_names is None:
                texts.insert(0, [""] * len(row))
            yield name, list(map(repr, zip(*texts, strict=True))), number

    def mask_records(self, read: Reader | None = None) -> Iterator[tuple[str, list[str]]]:
        """The pairs of each mask, by id where ids were given."""
        names = self._pair_names(read)
        for mask in self.masks.values():
            yield mask.name, mask.records(names)

    def _pair_names(self, read: Reader | None = None) -> tuple[list[str], list[str]] | None:
        if self._relevance is not None and self._relevance.names is not None:
            return self._relevance.names
        names = self._id_names
        if names is None:
            return None
        return _text(names, names.codes[0], read), _text(names, names.codes[-1], read)


@lru_cache(maxsize=4)
def _digest_of_numbers(labels: tuple[int, ...], times: bytes) -> str:
    """The digest of rows that are known by their labels alone, from how often each comes.

    It is remembered: a model in training is scored again and again by the same labels.
    """
    often = np.frombuffer(times, np.int64).tolist()
    texts = _alone(list(map(repr, labels)))
    return task_digest([("both", zip(texts, often, strict=True))], (), ())


def _alone(texts: list[str]) -> list[str]:
    """The records of rows that have one text each, and no id."""
    together = "".join(texts)
    if together.isascii() and together.isalnum():  # of numbers: they are their own repr, in quotes
        return ("('', '" + "')|('', '".join(texts) + "')").split("|")
    return [f"('', {text!r})" for text in texts]


def _text(names: Encoded, codes: Codes, read: Reader | None) -> list[str]:
    """The value of each row, read by `read` if there is one, as Python writes it."""
    values = [*map(repr, map(read, names.values) if read else names.values), "None"]
    return list(map(values.__getitem__, codes.tolist()))


# The level of the labels that a metric goes by: 1 the coarsest.


def depth(task: TaskRules) -> int:
    """The number of levels; 1 without labels."""
    return 1 if task.levels is None else len(task.levels)


def level_of(task: TaskRules, metric: Metric) -> int:
    """The number of the level that a metric is asked for; the finest if none is named."""
    text = metric.get("level")
    levels = depth(task)
    if text is None:
        return levels
    names = [] if task.levels is None else task.levels.names
    if text.isdecimal() and len(text) < 10 and 1 <= int(text) <= levels:
        return int(text)
    if text in names:
        return names.index(text) + 1
    known = ", ".join(names) if names else "1"
    raise InputError(f"there is no level {text!r} in {metric}; the levels are {known}.")


def level_parts(task: TaskRules, metric: Metric) -> list[Metric]:
    """The metric at each level, if it is a mean over levels; else the metric itself."""
    if metric.get("level") != "mean":
        return [metric]
    return [metric.at_level(level) for level in range(1, depth(task) + 1)]


# Units of intervals: what could have been others, and so leaves, or is drawn, as a whole.
#
# They are the classes of the coarsest level that a metric's relevance uses: all that is relevant
# to a query is of its own unit.


@dataclass(frozen=True)
class Unit:
    """The classes of one level (1 the coarsest), or the queries where there are no labels."""

    level: int
    by_path: bool = False
    """Whether a class is a path from the root, where labels form no tree."""

    def codes(self, task: TaskRules) -> tuple[Integers, Integers]:
        """The unit of each query and of each gallery item, by number."""
        if task.levels is None:
            return np.arange(task.queries), np.empty(0, np.int64)
        if self == finest_unit(task):
            return task.query_codes, task.gallery_codes
        columns = task.levels.paths if self.by_path else task.levels.columns
        codes = columns[self.level - 1].codes
        item = codes[-1]
        return codes[0], item if task.columns is None else item[task.columns]

    def above(self, task: TaskRules) -> list[Unit]:
        """The levels of whose classes a unit is a part, the unit's own the last."""
        if not self.by_path and not task.named_levels.is_tree:
            return [self]
        return [Unit(level, self.by_path) for level in range(1, self.level + 1)]

    def below(self, task: TaskRules) -> list[Unit]:
        """The finer levels, the finest the last."""
        between = [Unit(level, self.by_path) for level in range(self.level + 1, depth(task))]
        return [*between, finest_unit(task)]

    def counts(self, task: TaskRules) -> npt.NDArray[np.bool_]:
        """Queries with a mate in their own unit, and those that count without one."""
        view = task.view
        if task.levels is not None and self != finest_unit(task):
            of_level = task.tree_view if self.by_path else task.level_view
            view = of_level(self.level)
        return np.asarray((view.mates > 0) | (task.unmated == "zero"))

    def named(self, task: TaskRules) -> str:
        """Which level it is, in words; empty where there is only one."""
        if task.levels is None or depth(task) == 1:
            return ""
        name = task.levels.names[self.level - 1]
        return f" of level {self.level}" + ("" if name == str(self.level) else f" ({name})")


def finest_unit(task: TaskRules) -> Unit:
    """The classes by the finest label."""
    return Unit(depth(task))


def unit_of(task: TaskRules, metric: Metric) -> Unit:
    """The unit of a metric's intervals."""
    known = registry.definition(metric)
    if task.levels is None or not isinstance(known, RankingDefinition):
        return finest_unit(task)
    if metric.get("level") == "mean":
        return Unit(1)
    if metric.get("level") is not None or not known.graded:
        return Unit(level_of(task, metric))
    worth = metric.get("rel") or metric.get("weights") or ()
    used = [level for level, value in enumerate(worth, 1) if value > 0]
    return Unit(used[0] if used else 1, by_path=not task.named_levels.is_tree)


# A task's fingerprint and its sealed envelope: neither depends on the order of its rows.


Records = Iterable[tuple[str, list[str]]]
CountedRecords = Iterable[tuple[str, Iterable[tuple[str, int]]]]
"""Distinct records, and how many rows have each: those of a class are often alike."""
SALT_BYTES = 32
_CHARACTERS = 1 << 16
"""Characters hashed at a time, and of a line that is repeated: a label may be as long as a book."""


def canonical_text(sides: CountedRecords, junk_labels: Iterable[Any], masks: Records) -> str:
    """The sorted (id, labels, group) of each side, the junk labels and the masks, a line each.

    Masks are listed by the ids of their pairs, or by row numbers where no ids were given.
    """
    return "".join(_lines(sides, junk_labels, masks))


def task_digest(sides: CountedRecords, junk_labels: Iterable[Any], masks: Records) -> str:
    """Hash of a task's canonical text, by which two people see that they mean the same task."""
    total = blake2b(digest_size=16)
    for some in _lines(sides, junk_labels, masks):
        total.update(some.encode())
    return total.hexdigest()


def _lines(sides: CountedRecords, junk_labels: Iterable[Any], masks: Records) -> Iterator[str]:
    for side, records in sides:
        yield from _part(f"side {side}", records)
    yield from _part("junk labels", ((text, 1) for text in {repr(label) for label in junk_labels}))
    for name, pairs in masks:
        yield from _part(f"mask {name}", ((pair, 1) for pair in pairs))


def _part(title: str, records: Iterable[tuple[str, int]]) -> Iterator[str]:
    """The lines of a part, many at a time."""
    yield f"{title}\n"
    ordered = sorted(records, key=itemgetter(0))  # equal records are the same line
    longest = 1 + max(map(len, map(itemgetter(0), ordered)), default=0)
    most = max(map(itemgetter(1), ordered), default=1)
    step = _CHARACTERS // (longest * most)
    for start in range(0, len(ordered) if step else 0, max(1, step)):
        yield "".join([f"{text}\n" * times for text, times in ordered[start : start + step]])
    if step:
        return
    for record, times in ordered:
        at_once = max(1, _CHARACTERS // (len(record) + 1))
        while times > 0:
            yield f"{record}\n" * min(times, at_once)
            times -= at_once


def commitment(salt: bytes, rules: Mapping[str, Any], text: str) -> str:
    """What is published before a competition: it binds its maker to the text and tells nothing.

    Without the salt nobody can try out texts; with it anybody can check the one that is revealed.

    Examples
    --------
    >>> commitment(bytes(32), {}, "side both\\n")[:16]
    '25128b784eeaae33'
    """
    told = f"rules {json.dumps(rules, sort_keys=True)}\n{text}"
    return blake2b(told.encode(), key=salt, digest_size=32).hexdigest()
