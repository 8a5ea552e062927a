"""Task: who is relevant to whom, who is junk, and who never meets; every check on what users pass.

Labels, ids, groups and masks come in; for any block of queries the relevant and the excluded
gallery items go out. The rules (spec): rows that share an id never meet; an item with the query's
label and group (camera), with a junk label, or under the junk mask is excluded for that query;
what is left with the query's label is relevant. A query with nothing relevant is a no-mate query.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from truerank.arrays import name_rows
from truerank.digest import task_digest
from truerank.errors import InputError
from truerank.labels import MISSING, Codes, Encoded, Levels, encode, encode_levels, missing_rows
from truerank.pairs import Mask, count_matches
from truerank.relevance import Equality, Exclusions, GradeView, LabelView, TreeView, View

__all__ = ["NO_MATE_REASONS", "TaskRules"]

Rows = npt.NDArray[np.int64]

NO_MATE_REASONS = ("singleton", "all mates junk", "not in gallery")
SINGLETON, ALL_JUNK, NOT_IN_GALLERY = range(3)


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
    no_mate : {"report", "zero", "error"}
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
    >>> task.mates.tolist()
    [1, 1, 0]
    >>> task.no_mate_counts()
    {'singleton': 1}
    """

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
        no_mate: str = "report",
        unlabelled: str = "error",
        leave_one_out: bool | None = None,
    ) -> None:
        if not isinstance(leave_one_out, (bool, np.bool_, type(None))):
            raise InputError("The 'leave_one_out' parameter must be True, False or None.")
        _one_of("no_mate", no_mate, ("report", "zero", "error"))
        _one_of("unlabelled", unlabelled, ("error", "distractor"))
        self.no_mate = no_mate
        self.unlabelled = unlabelled
        judged = self._relevance = Mask.of(relevance, "relevance")
        if labels is None and judged is None:
            raise InputError("labels are missing: pass one label for each row, or relevance=.")
        if labels is not None and judged is not None:
            raise InputError("labels and relevance both say who is relevant; pass one of the two.")
        if labels is None and gallery_labels is not None:
            raise InputError("relevance says who is relevant; leave gallery_labels out.")
        if leave_one_out is None:
            leave_one_out = gallery_labels is None and judged is None
        self.leave_one_out = leave_one_out
        if judged is not None:
            self.levels: Levels | None = None
            self._set_sizes(judged)
        else:
            self._set_labels(labels, gallery_labels, unlabelled)
        self._set_ids(ids, gallery_ids)
        self._set_groups(groups, gallery_groups)
        self._junk = Mask.of(junk, "junk")
        for mask in (self._junk, self._relevance):
            if mask is not None and mask.shape != (self.queries, self.gallery_size):
                raise InputError(
                    f"{mask.name} must have shape (queries, gallery) = "
                    f"{(self.queries, self.gallery_size)}. Got {mask.shape} instead."
                )
        if isinstance(junk_labels, str) or not np.iterable(junk_labels):
            raise InputError(f"junk_labels must be a list of labels. Got {junk_labels!r}.")
        self._drop_junk_labels([_plain(label) for label in junk_labels])
        self._set_exclusions()
        self.mates = self.view.mates
        self.no_mate_reason = self._reasons()
        if no_mate == "error" and (self.mates == 0).any():
            self._refuse_no_mate()
        self.digest = task_digest(self.records(), self.junk_labels, self.mask_records())

    # -- validation ---------------------------------------------------------------------------

    def _set_labels(self, labels: Any, gallery_labels: Any, unlabelled: str) -> None:
        sides, names = [labels], ["labels"]
        if not self.leave_one_out:
            sides.append(gallery_labels)
            names.append("gallery_labels")
        self.levels = encode_levels(sides, names)
        finest = self.levels.finest
        for codes, name in zip(finest.codes, names, strict=True):
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
        self._query_codes, self._all_gallery_codes = finest.codes[0], finest.codes[-1]
        self.queries, self.gallery_size = len(finest.codes[0]), len(finest.codes[-1])

    def _set_sizes(self, relevance: Mask) -> None:
        self.queries, self.gallery_size = relevance.shape
        if self.leave_one_out and self.queries != self.gallery_size:
            raise InputError(
                "relevance must be square where the queries are their own gallery. "
                f"Got {relevance.shape} instead."
            )
        self._query_codes = np.full(self.queries, MISSING, np.int64)
        self._all_gallery_codes = np.full(self.gallery_size, MISSING, np.int64)

    def _set_ids(self, ids: Any, gallery_ids: Any) -> None:
        self._id_names: Encoded | None = None
        if self.leave_one_out:
            if gallery_ids is not None:
                raise InputError("gallery_ids came without a gallery; pass query_ids alone.")
            own: Codes = np.arange(self.queries)
            if ids is not None:
                encoded = encode((ids,), ("query_ids",))
                own = encoded.codes[0]
                self._check_side(own, "query_ids", self.queries)
                self._id_names = encoded
            self._ids: tuple[Codes, Codes] | None = (own, own)
            return
        if (ids is None) != (gallery_ids is None):
            given, other = ("query_ids", "gallery_ids")[:: 1 if gallery_ids is None else -1]
            raise InputError(
                f"{given} came without {other}; rows meet by id, so both sides need them."
            )
        self._ids = self._both(ids, gallery_ids, "ids")

    def _set_groups(self, groups: Any, gallery_groups: Any) -> None:
        self._group_names: Encoded | None = None
        if self.leave_one_out:
            if gallery_groups is not None:
                raise InputError("gallery_groups came without a gallery; pass query_groups alone.")
            gallery_groups = groups
        if (groups is None) != (gallery_groups is None):
            given, other = ("query_groups", "gallery_groups")[
                :: 1 if gallery_groups is None else -1
            ]
            raise InputError(
                f"{given} came without {other}; same-group mates are junk, so both sides need them."
            )
        self._groups = self._both(groups, gallery_groups, "groups")

    def _both(self, query: Any, gallery: Any, what: str) -> tuple[Codes, Codes] | None:
        if query is None:
            return None
        names = (f"query_{what}", f"gallery_{what}")
        encoded = encode((query, gallery), names)
        for codes, name, count in zip(
            encoded.codes, names, (self.queries, self.gallery_size), strict=True
        ):
            self._check_side(codes, name, count)
        if what == "groups":
            self._group_names = encoded
        else:
            self._id_names = encoded
        return encoded.codes[0], encoded.codes[1]

    @staticmethod
    def _check_side(codes: Codes, name: str, count: int) -> None:
        if len(codes) != count:
            raise InputError(f"{name} must have one value a row ({count}). Got {len(codes)}.")
        if (codes == MISSING).any():
            raise InputError(f"None or NaN in {name} {missing_rows(codes)}; give each row a value.")

    def _drop_junk_labels(self, junk_labels: list[Any]) -> None:
        """Junk labels leave the gallery as a whole: `columns` are the items that stay."""
        self.junk_labels = junk_labels
        self.columns: Rows | None = None
        if not junk_labels:
            self._gallery_codes = self._all_gallery_codes
            return
        if self.levels is None:
            raise InputError("junk_labels needs labels; with relevance= pass a junk mask instead.")
        names = self.levels.finest.values
        some = names[0] if names else None
        for label in junk_labels:
            if some is not None and isinstance(label, str) != isinstance(some, str):
                raise InputError(
                    f"junk label {label!r} is of type {type(label).__name__} but labels are "
                    f"{type(some).__name__}; they would never match."
                )
        try:
            junk = set(junk_labels)
        except TypeError as error:
            raise InputError(f"junk_labels must be labels such as int or str ({error}).") from error
        codes = [code for code, name in enumerate(names) if name in junk]
        keep = ~np.isin(self._all_gallery_codes, np.array(codes, np.int64))
        if not keep.any():
            raise InputError("junk_labels cover every gallery item; nothing is left to rank.")
        self.columns = np.flatnonzero(keep)
        self._gallery_codes = self._all_gallery_codes[self.columns]

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

    def _set_exclusions(self) -> None:
        """Shared ids; the same finest label (or a judgement) and the same group; the junk mask."""
        rules, masks = [], [mask for mask in (self._junk,) if mask is not None]
        keep = self._keep
        if self._ids is not None:
            rules.append(Equality.of(self._ids[0], self._ids[1][keep]))
        if self._groups is not None and self._relevance is None:
            width = int(max(codes.max() for codes in self._groups)) + 1
            query = self._query_codes * width + self._groups[0]
            item = self._gallery_codes * width + self._groups[1][keep]
            rules.append(Equality.of(query, np.where(self._gallery_codes < 0, MISSING, item)))
        elif self._groups is not None and self._relevance is not None:
            masks.append(self._relevance.where_equal(*self._groups))
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

    # -- no-mate queries ----------------------------------------------------------------------

    def _reasons(self) -> Codes:
        """Index into NO_MATE_REASONS for each no-mate query, -1 for the others."""
        reason = np.full(self.queries, -1, np.int64)
        none = np.flatnonzero(self.mates == 0)
        if not none.size:
            return reason
        if self._relevance is not None:
            pairs = self._relevance.pairs(none, None)
            reason[none] = NOT_IN_GALLERY
            reason[none[pairs.query]] = SINGLETON
            if self._ids is not None:
                pairs = pairs.where(self._ids[0][none][pairs.query] != self._ids[1][pairs.item])
            reason[none[pairs.query]] = ALL_JUNK
            return reason
        same_label = count_matches([self._query_codes], [self._all_gallery_codes])
        others = same_label.copy()
        if self._ids is not None:
            others -= count_matches(
                [self._query_codes, self._ids[0]], [self._all_gallery_codes, self._ids[1]]
            )
        alone = SINGLETON if self.leave_one_out else NOT_IN_GALLERY
        reason[none] = np.where(
            others[none] > 0, ALL_JUNK, np.where(same_label[none] > 0, SINGLETON, alone)
        )
        return reason

    def no_mate_counts(self) -> dict[str, int]:
        """Number of no-mate queries by reason, reasons that occur only."""
        counts = np.bincount(self.no_mate_reason[self.no_mate_reason >= 0], minlength=3)
        return {
            name: int(count) for name, count in zip(NO_MATE_REASONS, counts, strict=True) if count
        }

    def _refuse_no_mate(self) -> None:
        counts = self.no_mate_counts()
        parts = ", ".join(f"{count} {name}" for name, count in counts.items())
        hint = ""
        if self._blocked_by_group().any():
            hint = " (mates that share the query's group are junk: check query_groups)"
        where = name_rows(np.flatnonzero(self.mates == 0))
        raise InputError(
            f"{sum(counts.values())} of {self.queries} queries have no mate in the gallery: "
            f"{parts}{hint}; {where}; pass no_mate='report' to leave them out."
        )

    def _blocked_by_group(self) -> npt.NDArray[np.bool_]:
        """No-mate queries that have a mate of their own group."""
        none: npt.NDArray[np.bool_] = self.mates == 0
        if self._groups is None or self._relevance is not None:
            return np.zeros(self.queries, bool)
        sides = [(self._query_codes, self._all_gallery_codes), self._groups]
        found = count_matches([side[0] for side in sides], [side[1] for side in sides])
        if self._ids is not None:
            sides.append(self._ids)
            found -= count_matches([side[0] for side in sides], [side[1] for side in sides])
        return none & (found > 0)

    # -- identity -----------------------------------------------------------------------------

    def records(self) -> Iterator[tuple[str, list[str]]]:
        """(id, labels, group) of each row of each side, as text."""
        sides = ("both",) if self.leave_one_out else ("query", "gallery")
        for side, name in enumerate(sides):
            count = self.queries if side == 0 else self.gallery_size
            columns = [[""] * count] if self._id_names is None else [_text(self._id_names, side)]
            if self.levels is not None:
                columns += [_text(level, side) for level in self.levels.columns]
            if self._group_names is not None:
                columns.append(_text(self._group_names, 0 if self.leave_one_out else side))
            yield name, [repr(row) for row in zip(*columns, strict=True)]

    def mask_records(self) -> Iterator[tuple[str, list[str]]]:
        """The pairs of each mask, by id where ids were given."""
        for mask in self.masks.values():
            names = self._id_names
            text = None if names is None else [_text(names, 0), _text(names, -1)]
            records = []
            for start in range(0, self.queries, 1024):
                rows = np.arange(start, min(start + 1024, self.queries))
                pairs = mask.pairs(rows, None)
                grades = mask.grades(rows, None).tolist()
                for query, item, grade in zip(
                    (pairs.query + start).tolist(), pairs.item.tolist(), grades, strict=True
                ):
                    pair = (query, item) if text is None else (text[0][query], text[-1][item])
                    records.append(repr((*pair, grade)))
            yield mask.name, records


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in allowed:
        raise InputError(
            f"The {name!r} parameter must be one of {', '.join(allowed)}. Got {value!r} instead."
        )


def _text(names: Encoded, side: int) -> list[str]:
    values = [repr(value) for value in names.values] + ["None"]
    return [values[code] for code in names.codes[side].tolist()]


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
