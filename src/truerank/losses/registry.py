"""Losses by name, and what is known about each: labels, defaults, search space, citation.

`get("arcface", num_classes=100, embedding_size=512)`. Nothing here needs torch until a loss is
built, so that a protocol or a page can read the entries anywhere. `trusted_labels` is a context
in which losses do not check labels again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from truerank._util.errors import InputError
from truerank._util.installed import install

if TYPE_CHECKING:
    import torch

    from truerank.losses.base import Loss


@dataclass(frozen=True)
class SearchRange:
    """A range of numbers to search, in the logarithm or in whole numbers if asked for."""

    low: float
    high: float
    log: bool = False
    integer: bool = False


@dataclass(frozen=True)
class SearchChoice:
    """A list of values to search."""

    values: tuple[Any, ...]


@dataclass(frozen=True)
class LossEntry:
    """What is known about a loss."""

    name: str
    title: str
    what: str
    formula: str
    when: str
    citation: str
    build: str | Callable[..., Any]
    """What builds the loss: module:callable within truerank.losses, loaded then; or a callable."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    kind: str = "embedding"
    """Kind of loss: embedding (pairs of the batch), classification (proxies) or regulariser."""
    labels: str = "one"
    """Labels of a row: "one", or a "path" from coarse to fine."""
    batch: tuple[int, int] = (8, 4)
    """Classes x samples of each in a batch, as in the paper that proposed or compared it."""
    search: Mapping[str, SearchRange | SearchChoice] = field(default_factory=dict)
    own_lr: SearchRange | None = None
    """Where to search the learning rate of the loss's own parameters; None if it has none."""
    needs: tuple[str, ...] = ()
    """Parameters without a default; classes=, the labels themselves, may replace num_classes."""
    needs_nothing_if: Mapping[str, Any] = field(default_factory=dict)
    """Parameters with which the loss learns no vectors, so that nothing is needed."""
    takes_references: bool = True
    normalizes: bool = True
    """Whether the length of an embedding is without effect."""
    source: str = "truerank"

    def __post_init__(self) -> None:
        for name in ("defaults", "search", "needs_nothing_if"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    @property
    def has_parameters(self) -> bool:
        """Whether the loss learns parameters of its own, which need an optimiser too."""
        return self.own_lr is not None


@dataclass(frozen=True)
class MinerEntry:
    """What is known about a miner."""

    name: str
    what: str
    citation: str
    build: str
    defaults: Mapping[str, Any] = field(default_factory=dict)
    search: Mapping[str, SearchRange | SearchChoice] = field(default_factory=dict)


def names() -> list[str]:
    """Return the names of all losses."""
    return list(_catalogue().LOSSES)


def entry(name: str) -> LossEntry:
    """Return what is known about a loss; case, spaces and hyphens do not matter."""
    catalogue = _catalogue()
    key = _canonical(name)
    key = catalogue.ALIASES.get(key, key)
    if key not in catalogue.LOSSES:
        raise InputError(_unknown("loss", name, [*catalogue.LOSSES, *catalogue.ALIASES]))
    found: LossEntry = catalogue.LOSSES[key]
    return found


def get(name: str, **parameters: Any) -> Loss:
    """Build a loss: a torch module with the call form of pytorch-metric-learning's.

    Parameters
    ----------
    name : str
        One of `names()`; other spellings of the papers ("ProxyNCA++", "TCM'") are understood.
    **parameters
        Those of `entry(name).defaults` that shall differ, and `entry(name).needs`: num_classes and
        embedding_size for a loss with proxies (classes=[...] where labels are not 0 to C - 1).

    Examples
    --------
    >>> import torch
    >>> from truerank import losses
    >>> loss = losses.get("smooth_ap") + 0.5 * losses.get("tcm")
    >>> embeddings = torch.eye(4, requires_grad=True)
    >>> value = loss(embeddings, torch.tensor([7, -1, 7, -1]))
    >>> value.backward()
    >>> round(value.item(), 4)
    0.95
    """
    known = entry(name)
    allowed = {*known.defaults, *known.needs}
    if "num_classes" in allowed:
        allowed.add("classes")
    for parameter in parameters:
        if parameter not in allowed:
            raise InputError(_unknown(f"parameter of {known.name}", parameter, sorted(allowed)))
    missing = [one for one in known.needs if one not in parameters]
    if "classes" in parameters and "num_classes" in missing:
        missing.remove("num_classes")
    free = any(parameters.get(key) == value for key, value in known.needs_nothing_if.items())
    if missing and not free:
        raise InputError(
            f"{known.name} needs {' and '.join(f'{one}=' for one in missing)}, "
            "because it learns a vector for each class."
        )
    loss: Loss = _build(known.build, {**known.defaults, **parameters})
    return loss


def miners() -> list[str]:
    """Return the names of all miners."""
    return list(_catalogue().MINERS)


def miner(name: str, **parameters: Any) -> Callable[..., Any]:
    """Build a miner: miner(embeddings, labels, ref_emb=None, ref_labels=None) gives indices."""
    catalogue = _catalogue()
    key = _canonical(name)
    if key not in catalogue.MINERS:
        raise InputError(_unknown("miner", name, list(catalogue.MINERS)))
    known: MinerEntry = catalogue.MINERS[key]
    for parameter in parameters:
        if parameter not in known.defaults:
            raise InputError(
                _unknown(f"parameter of {known.name}", parameter, sorted(known.defaults))
            )
    built: Callable[..., Any] = _build(known.build, {**known.defaults, **parameters})
    return built


def sum_over_levels(loss: torch.nn.Module | Sequence[torch.nn.Module]) -> Loss:
    """Sum a loss, or one loss per level, over the levels of (N, L) labels."""
    summed: Loss = _build("composition:SumOverLevels", {"loss": loss})
    return summed


def with_miner(loss: torch.nn.Module, miner: Callable[..., Any]) -> Loss:
    """Return a loss over the pairs or triplets that a miner chooses."""
    mined: Loss = _build("composition:Mined", {"loss": loss, "miner": miner})
    return mined


def _build(target: str | Callable[..., Any], parameters: Mapping[str, Any]) -> Any:
    if not isinstance(target, str):
        return target(**parameters)
    module, _, name = target.partition(":")
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise ImportError(f"truerank.losses needs torch: {install('torch')}") from error
    return getattr(import_module(f"truerank.losses.{module}"), name)(**parameters)


def _catalogue() -> Any:
    return import_module("truerank.losses.catalogue")


def _canonical(name: Any) -> str:
    if not isinstance(name, str):
        raise InputError(f"a loss or miner is named by a string. Got {name!r} instead.")
    return name.strip().lower().replace("-", "_").replace(" ", "_")


def _unknown(what: str, name: str, known: list[str]) -> str:
    near = get_close_matches(str(name).lower(), known, 1, 0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"{name!r} is no {what}.{hint} Known are {', '.join(known)}."


# Labels that need no check: said by whoever has checked all of them before.
#
# In: nothing. Out: a context in which losses look at no label to refuse it.


_TRUSTED = ContextVar("labels are trusted", default=False)


@contextmanager
def trusted_labels() -> Iterator[None]:
    """Skip the losses' checks of labels, for a loop that has checked all labels once.

    A check reads its answer back from the GPU, one batch later, which nothing that is recorded as a
    CUDA graph may do. The caller guarantees that each label is one of the loss's classes and, for
    a loss over paths, that paths are those of its hierarchy, coarse to fine; a label that is not
    is taken for another class, without a word.

    Examples
    --------
    >>> import torch
    >>> from truerank import losses
    >>> loss = losses.get("cosface", num_classes=3, embedding_size=4)
    >>> with losses.trusted_labels():
    ...     value = loss(torch.eye(4), torch.tensor([0, 2, 1, 0]))
    """
    token = _TRUSTED.set(True)
    try:
        yield
    finally:
        _TRUSTED.reset(token)


def labels_are_trusted() -> bool:
    """Whether labels are to be taken as they are."""
    return _TRUSTED.get()
