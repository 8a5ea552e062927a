"""All pairs of an evaluation as one pool, which the families that judge pairs share."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from weakref import proxy

from truerank.core import registry
from truerank.core.curve import Curve
from truerank.engine.watch import Watcher
from truerank.families.context import Context
from truerank.families.pair_curves import of_pairs
from truerank.families.pool import Pooled
from truerank.families.thresholds import far_targets

__all__ = ["Pairs"]


class Pairs:
    """The pool, made once somebody asks for it."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.companions: list[Callable[[], list[Watcher]]] = []
        """Who else may watch when the pool needs another pass."""

    @cached_property
    def pool(self) -> Pooled:
        """With all FAR targets and thresholds that metrics ask for."""
        context, mine = self._context, proxy(self)  # no cycle: what is held goes with its last user
        judged = [m for m in context.metrics if registry.definition(m).family == "verification"]
        return Pooled(
            context.positives,
            context.task.queries,
            sample=context.sample,
            pairs=context.pairs,
            targets=sorted({target for m in context.metrics for target in far_targets(m)}),
            thresholds=[
                context.units.cut(metric["tau"])
                for metric in judged
                if metric.get("tau") is not None
            ],
            whole_curve=not len(context.sample) or bool(judged),
            sweep=lambda watchers: mine.sweep(watchers),
        )

    def curves(self) -> dict[str, Curve]:
        """ROC and DET, where the pool was counted for them."""
        pool = self.pool
        if not (pool.whole_curve and pool.genuine and pool.impostors):
            return {}
        return of_pairs(pool, self._context.space)

    def sweep(self, watchers: list[Watcher]) -> None:
        """Another pass, which companions join."""
        joining = [watcher for companion in self.companions for watcher in companion()]
        self._context.sweep([*watchers, *joining])
