"""What a person sees of a running benchmark: a live table on a terminal, else lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection
from types import TracebackType
from typing import IO, Any

from truerank.benchmark.plan import Plan
from truerank.progress import Estimate

__all__ = ["Display"]

LOG_SECONDS = 30.0


class Display:
    """Method, trial, fold, best so far and the time left, on stderr unless told otherwise."""

    def __init__(self, stream: IO[str] | None = None, *, quiet: bool = False) -> None:
        self.stream = sys.stderr if stream is None else stream
        self.quiet = quiet
        self._live: Any = None
        self._estimate = Estimate()
        self._told = -LOG_SECONDS

    def __enter__(self) -> Display:
        if not self.quiet and self.stream.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(file=self.stream), transient=True, auto_refresh=False)
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def show(self, plan: Plan, running: Collection[Any]) -> None:
        """Tell how far the trainings are."""
        if self.quiet:
            return
        done, total = plan.progress
        left = self._estimate.text(done, total, of="training")  # the test half is scored after it
        text = f"{done:,} of {total:,} trainings: {left}"
        if self._live is not None:
            self._live.update(self._table(plan, running, text), refresh=True)
        else:
            best = max(self._bests(plan), default=None)
            leader = "" if best is None else f"; best so far {best[1]} {100 * best[0]:.2f} %"
            self._log(text + leader)

    def opened(self, done: int, total: int) -> None:
        """Tell how many models have been scored on the test half."""
        if self.quiet:
            return
        text = f"the test half is open: {done:,} of {total:,} looks"
        if self._live is not None:
            from rich.text import Text

            self._live.update(Text(text), refresh=True)
        else:
            self._log(text)

    def _log(self, text: str) -> None:
        now = time.monotonic()
        if now - self._told >= LOG_SECONDS:
            self._told = now
            self.stream.write(f"truerank: {text}\n")
            self.stream.flush()

    def _bests(self, plan: Plan) -> list[tuple[float, str]]:
        found = []
        for method in plan.methods:
            if plan.studies.finished(method.name):
                found.append((plan.studies.best(method.name).score or 0.0, method.name))
        return found

    def _table(self, plan: Plan, running: Collection[Any], title: str) -> Any:
        from rich.table import Table

        table = Table(title=title, title_justify="left")
        for column in ("method", "trial", "folds at work", "reruns", "best so far"):
            table.add_column(column)
        bests = {name: value for value, name in self._bests(plan)}
        for method in plan.methods:
            name = method.name
            done = len(plan.studies.finished(name))
            folds = [str(key[3]) for key in running if key[0] != "baselines" and key[1] == name]
            again = sum(
                plan.ended(name, rerun, fold) is not None
                for rerun in plan.reruns
                for fold in range(plan.folds)
            )
            best = f"{100 * bests[name]:.2f} %" if name in bests else ""
            table.add_row(
                name,
                f"{done} of {plan.studies.trials}",
                ", ".join(folds),
                f"{again} of {len(plan.reruns) * plan.folds}",
                best,
            )
        return table
