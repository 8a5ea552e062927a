"""Classes of metrics: Metric, a value that prints as it parses, and Definition, its facts.

A definition says what is known about a metric: title, formula, citation, parameters, unit,
range, direction; for ranking metrics also how it is computed per query, from sums that a GPU
took, without a jackknife group and in smaller galleries. `register` adds one, `load` imports
the modules of all families. Definitions load nothing that computes over pairs. core/registry.py
parses strings.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from truerank._util.old_names import REMOVED
from truerank._util.types import Integers, Reals
from truerank.core.parameters import Parameter
from truerank.core.tie_groups import TieGroups

Score = Any
"""truerank.core.score.Score, which asks its definition what it counts."""
Triple = npt.NDArray[np.float64]
"""Shape (3, queries): lower, expected, upper."""


@dataclass(frozen=True)
class Metric:
    """One metric with its parameters, hashable; `str` gives the canonical string.

    Examples
    --------
    >>> Metric("mfr")["b"], Metric("mfr", None, (("b", "5"),))["b"]
    (3000, 5)
    """

    name: str
    cut: int | str | None = None
    options: tuple[tuple[str, str], ...] = ()
    """The parameters that differ from their defaults, as canonical text."""

    def __str__(self) -> str:
        parts = [] if self.cut is None else [str(self.cut)]
        parts += [f"{key}={value}" for key, value in self.options]
        return self.name + ("@" + ",".join(parts) if parts else "")

    def __getitem__(self, key: str) -> Any:
        """A parameter's value, its default where it was left out, None where it has none."""
        parameter = entry(self.name).parameter(key)
        if parameter is None:
            raise KeyError(key)
        return parameter.value(dict(self.options).get(key))

    def get(self, key: str) -> Any:
        """A parameter's value or default, None for metrics that have no such parameter."""
        return self[key] if entry(self.name).parameter(key) is not None else None

    def text(self, key: str) -> str:
        """A parameter's value, or its default, as canonical text; a KeyError if it has neither."""
        parameter = entry(self.name).parameter(key)
        text = dict(self.options).get(key, None if parameter is None else parameter.default)
        if text is None:
            raise KeyError(key)
        return text

    def at_level(self, level: int) -> Metric:
        """This metric at a level by number."""
        options = dict(self.options) | {"level": str(level)}
        return Metric(self.name, self.cut, tuple(sorted(options.items())))


@dataclass(frozen=True)
class Exclusive:
    """Two parameters that exclude each other, and what to do about it."""

    first: str
    second: str
    advice: str = "choose one"


def _never(metric: Metric) -> bool:
    return False


def _always(metric: Metric) -> bool:
    return True


def _nothing(of: Any) -> str | None:
    return None


@dataclass(frozen=True)
class Definition:
    """What is known about a metric."""

    name: str
    title: str
    definition: str
    citation: str
    cut: str = "none"
    """What may follow the name: "none", "number" (a k), "number or none", "optional" (also r)."""
    parameters: tuple[Parameter, ...] = ()
    """Parameters besides the cut-off, in the order in which they are documented."""
    removed: tuple[tuple[str, str], ...] = ()
    """Parameters of earlier versions, and what holds instead."""
    one_of: tuple[str, ...] = ()
    """Parameters of which exactly one must be given."""
    exclusive: tuple[Exclusive, ...] = ()
    """Parameters that exclude each other."""
    needs: tuple[tuple[str, str], ...] = ()
    """Parameters that say something only beside another one."""
    unit: str = "share"
    """share, or distance for metrics that are thresholds themselves."""
    decimals: int = 2
    """How many are shown of a share in percent: more where good scores are tiny."""
    counted: str = "query"
    """What the n of a score counts, in the singular."""
    with_mate: bool = True
    """Whether queries that count are those with a mate, or those without one."""
    graded: bool = False
    """Whether grades matter: it is then computed over the whole hierarchy, not the finest label."""
    range: tuple[float, float] = (0.0, 1.0)
    higher_is_better: bool = True
    is_mean: Callable[[Metric], bool] = _never
    """Whether it is a mean over queries, at thresholds that the data do not set."""
    is_steep: bool = False
    """Whether a few classes may make up most of what a score loses (not so in rates of false
    accepts): its error then shrinks faster towards the ends of the range."""
    ties: str = "none"
    """What becomes of items at one and the same distance."""
    advice: Callable[[Metric], str | None] = _nothing
    """A sentence for users who name the metric, None if there is nothing to say."""
    side_by_side: Callable[[Metric], str | None] = _nothing
    """A sentence for where the scores of two models meet, None if there is nothing to say."""
    warning: Callable[[Score], str | None] = _nothing
    """A sentence about a score that looks wrong, None if it does not."""
    family: str = "ranking"
    examples: tuple[str, ...] = ()

    def parameter(self, name: str) -> Parameter | None:
        """The parameter of this name, None if it has none."""
        return next((one for one in self.parameters if one.name == name), None)


@dataclass(frozen=True, kw_only=True)
class RankingDefinition(Definition):
    """A mean over queries of a triple over ties."""

    per_query: Callable[[TieGroups, Metric, Scale], Triple]
    reduced: Callable[[Metric], DeleteKernel] | None = None
    """How the headline value is computed without each fold of the gallery, where that depends on
    the ranks of its mates alone; None: from the groups left."""
    ranked: Callable[[RankedSums, Metric, Scale], npt.NDArray[np.float64]] | None = None
    """The value of queries without ties, from sums that a GPU took; None: from their groups."""
    law: Callable[[Metric], Law] | None = None
    """How it is made of its mates' ranks; None: it cannot be told for smaller galleries."""
    judged: bool = False
    """Whether items that nobody judged are left out, where judgements tell them from others."""
    effort: Callable[[npt.NDArray[np.int64], npt.NDArray[np.int64]], float] | None = None
    """Steps that chance takes, where that can be very many."""
    is_mean: Callable[[Metric], bool] = _always
    ties: str = "lower, expected and upper over all orders of tied items; the lower one is reported"


@dataclass(frozen=True, kw_only=True)
class ThresholdDefinition(Definition):
    """A metric over thresholds, measured on what the pass counted besides tie groups."""

    score: Callable[[Any, Metric], Score] | str
    """A function of what its family collected; or the module whose SCORES hold it, loaded late."""
    is_steep: bool = True
    ties: str = "none: items at one distance are accepted or rejected together"

    @property
    def measure(self) -> Callable[[Any, Metric], Score]:
        """The function that gives a Score, loaded if need be."""
        if not isinstance(self.score, str):
            return self.score
        found: Callable[[Any, Metric], Score] = import_module(self.score).SCORES[self.name]
        return found


# -- all metrics by name ----------------------------------------------------------------------

FAMILIES = {
    "ranking": "truerank.metrics.ranking",
    "hierarchy": "truerank.metrics.hierarchy",
    "verification": "truerank.metrics.thresholds.verification",
    "openset": "truerank.metrics.thresholds.definitions",
    "gom": "truerank.metrics.thresholds.definitions",
    "consistency": "truerank.metrics.thresholds.definitions",
    "clustering": "truerank.metrics.clustering",
    "trials": "truerank.metrics.thresholds.verification",
}
"""Where the metrics of each family are defined, in the order in which they are listed."""

DEFINITIONS: dict[str, Definition] = {}
"""The metrics registered so far, by name."""


def register(definition: Definition) -> None:
    """Add a metric; it is then parsed, computed, documented and tested like all others."""
    if definition.name in DEFINITIONS:
        raise ValueError(f"metric {definition.name!r} is registered twice")
    DEFINITIONS[definition.name] = definition


def load() -> dict[str, Definition]:
    """All definitions by name."""
    _import_families()
    return DEFINITIONS


@cache
def _import_families() -> None:
    for module in FAMILIES.values():
        import_module(module)


def in_order() -> list[Definition]:
    """All definitions, family by family, whichever module was imported first."""
    return sorted(load().values(), key=lambda entry: list(FAMILIES).index(entry.family))


def names() -> list[str]:
    """Return the names of all metrics."""
    return [entry.name for entry in in_order()]


def examples() -> list[str]:
    """Metric strings that together exercise every metric of an evaluation.

    Those of a list of trials alone are not among them.
    """
    return [text for entry in in_order() if entry.family != "trials" for text in entry.examples]


def plainest(but: Container[str] = ()) -> list[str]:
    """One metric string for each metric of an evaluation: its first example.

    Metrics of a list of trials alone are not among them, nor are those named in `but`.
    """
    return [
        entry.examples[0]
        for entry in in_order()
        if entry.family != "trials" and entry.name not in but
    ]


def entry(name: str) -> Definition:
    """What is known about the metric of this name; of a removed one, that it was a mean."""
    known = load().get(name)
    return known or Definition(name, name, REMOVED[name].rstrip("."), "", is_mean=_always)


# How a ranking metric is made of its mates' ranks: what the law of gallery size needs to know.
#
# A metric has a law if it is a sum over mates of something that depends on the mate's number among
# them and on the others before it, divided by what the gallery does not change.


@dataclass(frozen=True)
class Law:
    """What each mate contributes, which mates do, and what the sum is divided by."""

    term: str
    """precision: of the items up to the mate, if it is within the cut; found: whether it is;
    before: the others before it, up to R."""
    mates: str = "all"
    """all, first or last."""
    divisor: str = "r"
    """r, cut, smaller (of R and the cut) or one; preference: 1 - sum / (R min(R, others))."""
    up_to_r: bool = False
    """Whether it looks at the first R items, whatever its cut."""


# Scales: what the grades of relevant items are worth.


@dataclass(frozen=True)
class Scale:
    """What the grades of a view mean: levels 1..L of a hierarchy, or judgements."""

    values: npt.NDArray[np.float64]
    judged: bool = False


# Sums over rankings without ties, from which metrics make their values.
#
# What holds such rankings (a GPU, where rows have many relevant items) offers these sums by the
# operations of the metrics' own kernels, in the same order: values do not depend on where they are
# taken.


class RankedSums(Protocol):
    """Sums over the rankings of queries whose relevant items tie with nothing."""

    def __len__(self) -> int: ...

    @property
    def items(self) -> int:
        """Ranks of each list, those of items that cannot be ranked included."""

    @property
    def totals(self) -> Integers:
        """Relevant items of each query by grade."""

    @property
    def mates(self) -> Integers:
        """R of each query."""

    @property
    def ends(self) -> tuple[Integers, Integers]:
        """Ranks, from 0, of the first and of the last relevant item."""

    def found(self, cut: Integers) -> Integers:
        """Relevant items among the first `cut` of each ranking."""

    def precision_sum(self, cut: Integers) -> tuple[Reals, Reals]:
        """Precisions at relevant ranks up to the cut, as a sum in two parts."""

    def weighted_precision_sum(
        self, place: npt.NDArray[np.int32], value: Reals, value_top: Reals, value_low: Reals
    ) -> tuple[Reals, Reals]:
        """Precisions at relevant ranks where items count by their relevance: a sum in two parts.

        `place` orders each query's grades by rising relevance; the values are the relevance of
        each place, its upper bits and its low part.
        """

    def discounted(self, count: int, cut: int, tables: tuple[Reals, Reals]) -> tuple[Reals, Reals]:
        """Discounts of relevant ranks, added up by grade, in two parts."""

    def intersected(self, tables: tuple[Reals, Reals]) -> tuple[Reals, Reals, Integers]:
        """Overlaps with the best list, weighted by harmonic sums, in two parts; and those at the
        last depth."""


class DeleteKernel(NamedTuple):
    """How a metric is computed without a fold: which kernel of truerank.metrics.ranking, and its
    options."""

    kind: int
    cut: int = 0
    divisor: int = 0
