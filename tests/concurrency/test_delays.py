"""Every path to scores and intervals, with threads that are held up anywhere, gives the same bits.

The bits are the stored ones, of the reference engine with one thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.concurrency.delays import PARTS, delays
from tests.engine.cuda.devices import pretend
from tests.stored.entries import Entries, entries
from tests.stored.evaluations import evaluated, found, run
from tests.stored.record import stored
from truerank._util.settings import settings

STORED = stored()
THREADS = 4
SETTINGS: dict[str, dict[str, Any]] = {
    "tiles": {"method": "float64", "query_rows": 16, "gallery_rows": 16, "sort_share": 1.0},
    "filter": {"method": "filter", "query_rows": 16, "gallery_rows": 16, "sort_share": 1.0},
    "each pair once": {"method": "symmetric", "side": 16, "sort_share": 1.0},
    "sorted rows": {"sort_share": 0.0, "row_numbers": 500, "query_rows": 16},
}
KEPT = {"checkpoint_worth": 0, "chapter_pairs": 8 * 64, "chapter_growth": 1}
"""Every interrupt counts, and chapters are short."""


class Stop(KeyboardInterrupt):
    """Ctrl-C."""


def interrupting(done: int, total: int) -> None:
    """Late: what was seen before is counted by share afterwards, in blocks of its own."""
    if 5 * done >= 4 * total:
        raise Stop


@contextmanager
def torch_devices() -> Iterator[dict[str, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        pretend(patch)
        yield {"device": "cuda"}


def outcome(shape: str, path: str, part: int, folder: Path) -> Entries:
    """Digests of an evaluation by a path, while its threads are held up."""
    options: dict[str, Any] = {"device": "cpu", "threads": THREADS}
    with ExitStack() as stack:
        if path == "GPU's path":
            options |= stack.enter_context(torch_devices())
        stack.enter_context(settings(**SETTINGS.get(path, {"query_rows": 4})))
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr("truerank.evaluation.passes._PARALLEL_GROUPS", 16)  # few are worth a thread
        stack.enter_context(delays(part))
        if path == "resumed":
            options["checkpoint"] = folder / "counts"
            stack.enter_context(settings(**KEPT))
            with pytest.raises(Stop):
                run(lambda: evaluated(shape, "cosine", {**options, "progress": interrupting}))
            assert (folder / "counts").exists()
        return entries(run(lambda: found(evaluated(shape, "cosine", options))))


PATHS = (*SETTINGS, "resumed", "GPU's path")
MANY = ("leave one out", "strangers", "many classes", "tree", "no tree", "gallery")
FEW = [("tree" if number % 2 else "strangers", path, 0) for number, path in enumerate(PATHS)]
FEW += [("tree", "resumed", part) for part in range(PARTS)]


@pytest.mark.parametrize(("shape", "path", "part"), FEW)
def test_held_up(shape: str, path: str, part: int, tmp_path: Path) -> None:
    """Some lines of every path, and every line of one."""
    assert outcome(shape, path, part, tmp_path) == STORED[f"{shape}: cosine"]


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("shape", MANY)
def test_held_up_anywhere(shape: str, path: str, tmp_path: Path) -> None:
    for part in range(PARTS):
        folder = tmp_path / str(part)
        folder.mkdir()
        assert outcome(shape, path, part, folder) == STORED[f"{shape}: cosine"]
