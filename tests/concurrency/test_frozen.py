"""What is declared immutable and crosses threads stays as it was while threads work with it.

Whatever a pool is given to do, its arguments and what it closes over are looked through for frozen
dataclasses of the package; their fields are the same, to the last bit, when the work is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, fields, is_dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

import numpy as np
import pytest

from tests.concurrency.test_delays import KEPT, PATHS, SETTINGS, Stop, interrupting, torch_devices
from tests.stored.evaluations import evaluated, run
from truerank._util.settings import settings
from truerank.core.tie_groups import TieGroups

DEPTH = 6


def is_frozen(value: Any) -> bool:
    kind = type(value)
    return (
        is_dataclass(kind)
        and kind.__dataclass_params__.frozen
        and kind.__module__.startswith("truerank.")
    )


def frozen(value: Any, depth: int = DEPTH) -> Iterator[Any]:
    """The frozen dataclasses that some work can reach through what it was given."""
    if depth == 0:
        return
    if is_frozen(value):
        yield value
    elif isinstance(value, partial):
        yield from frozen([value.func, *value.args, *value.keywords.values()], depth - 1)
    elif isinstance(value, MethodType):
        yield from frozen([value.__self__, value.__func__], depth - 1)
    elif isinstance(value, FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        yield from frozen([*cells, *(value.__defaults__ or ())], depth - 1)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from frozen(part, depth - 1)
    elif isinstance(value, dict):
        yield from frozen(list(value.values()), depth - 1)
    elif type(value).__module__.startswith("truerank.") and hasattr(value, "__dict__"):
        yield from frozen(list(vars(value).values()), depth - 1)


def content(value: Any, depth: int = DEPTH) -> Any:
    """All that a field holds, as something that can be compared."""
    if isinstance(value, np.ndarray):
        return value.shape, blake2b(np.ascontiguousarray(value)).hexdigest()
    if depth and is_frozen(value):
        return [content(getattr(value, f.name), depth - 1) for f in fields(value)]
    if depth and isinstance(value, dict):
        return {key: content(one, depth - 1) for key, one in value.items()}
    if depth and isinstance(value, (list, tuple)):
        return [content(one, depth - 1) for one in value]
    return value if isinstance(value, (int, float, str, type(None))) else id(value)


@dataclass
class Watch:
    """What was seen to change."""

    kinds: set[str] = field(default_factory=set)
    changed: set[str] = field(default_factory=set)

    def watched(self, submit: Callable[..., Future[Any]]) -> Callable[..., Future[Any]]:
        def observing(
            pool: ThreadPoolExecutor, work: Callable[..., Any], *args: Any, **named: Any
        ) -> Future[Any]:
            held = {id(one): one for one in frozen([work, *args, *named.values()])}
            before = {name: content(one) for name, one in held.items()}

            def worked() -> Any:
                result = work(*args, **named)
                for name, one in held.items():
                    self.kinds.add(type(one).__name__)
                    if content(one) != before[name]:
                        self.changed.add(type(one).__name__)
                return result

            return submit(pool, worked)

        return observing


def watched(path: str, folder: Path, **options: Any) -> Watch:
    watch = Watch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ThreadPoolExecutor, "submit", watch.watched(ThreadPoolExecutor.submit))
        patch.setattr(
            "truerank.evaluation.passes._PARALLEL_GROUPS", 4
        )  # few groups are worth a thread
        with settings(**(KEPT | SETTINGS.get(path, {"query_rows": 16}))):
            if path == "resumed":
                options["checkpoint"] = folder / "counts"
                with pytest.raises(Stop):
                    run(lambda: evaluated("tree", "cosine", {**options, "progress": interrupting}))
            run(lambda: evaluated("tree", "cosine", options))
    return watch


@pytest.mark.parametrize("path", PATHS)
def test_nothing_frozen_changes(path: str, tmp_path: Path) -> None:
    options = {"device": "cpu", "threads": 2}
    if path == "GPU's path":
        with torch_devices() as device:
            watch = watched(path, tmp_path, **(options | device))
    else:
        watch = watched(path, tmp_path, **options)
    assert watch.changed == set()
    assert {"TieGroups", "LocatedGroups"} & watch.kinds


def test_a_change_is_seen() -> None:
    """Otherwise the above would prove nothing."""
    groups = TieGroups.single(np.array([[2]]), np.array([5]))

    def spoil() -> None:
        groups.before[0] += 1

    watch = Watch()
    with ThreadPoolExecutor(1) as pool:
        watch.watched(ThreadPoolExecutor.submit)(pool, lambda: groups).result()
        assert watch.changed == set()
        watch.watched(ThreadPoolExecutor.submit)(pool, spoil).result()
    assert watch.changed == {"TieGroups"}
