"""Labels that need no check: said by whoever has checked all of them before.

In: nothing. Out: a context in which losses look at no label to refuse it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["labels_are_trusted", "trusted_labels"]

_TRUSTED = ContextVar("labels are trusted", default=False)


@contextmanager
def trusted_labels() -> Iterator[None]:
    """Within it no loss checks labels: for a loop that has checked all of them once.

    A check reads its answer back from the GPU, one batch later, which nothing that is recorded as a
    CUDA graph may do. Whoever enters vouches that each label is one of the loss's classes and, for
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
