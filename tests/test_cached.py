"""Cached properties: one value for all threads, and no lock that a forked child could inherit."""

from __future__ import annotations

import ast
import os
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import truerank
from truerank._util.cached import cached_property
from truerank.metrics.thresholds.family import Positives

SOURCE = Path(truerank.__file__).parent
POINTS = np.random.default_rng(0).standard_normal((40, 4))
LABELS = np.repeat(np.arange(10), 4)


def evaluate() -> float:
    return truerank.evaluate(POINTS, LABELS, metrics=["auc"], confidence=None)["auc"].value


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_forked_while_a_thread_evaluates_can_evaluate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    evaluate()  # compiles what is needed
    original, inside, leave = Positives.of, threading.Event(), threading.Event()

    def held_up(*arguments: Any) -> Positives:
        inside.set()
        leave.wait(60)
        return original(*arguments)

    monkeypatch.setattr(Positives, "of", held_up)
    thread = threading.Thread(target=evaluate)
    thread.start()
    try:
        assert inside.wait(60)
        monkeypatch.undo()
        child = os.fork()
        if child == 0:  # pragma: no cover
            signal.alarm(30)  # ends a child that waits for ever
            os._exit(0 if evaluate() > 0 else 1)
        assert os.waitpid(child, 0)[1] == 0
    finally:
        leave.set()
        thread.join()


def test_all_threads_get_the_value_that_was_kept_first() -> None:
    both = threading.Barrier(2)

    class Owner:
        @cached_property
        def value(self) -> object:
            both.wait(60)  # neither goes on before both compute
            return object()

    owner, found = Owner(), []
    threads = [threading.Thread(target=lambda: found.append(owner.value)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] is found[1] is owner.value
    assert isinstance(Owner.value, cached_property)


def test_the_package_has_no_other_cached_property() -> None:
    files = [path for path in SOURCE.rglob("*.py") if path.name != "cached.py"]
    for path in files:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module == "functools":
                assert "cached_property" not in {alias.name for alias in node.names}, path
