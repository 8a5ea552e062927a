"""Who asks for what was removed reads that it was, and what to use instead."""

from __future__ import annotations

import importlib

import pytest

import truerank
from tests.cli.driving import run
from truerank._util.old_names import REMOVED


def test_a_module() -> None:
    sentence = REMOVED["truerank.planning"]
    assert "docs/results/scale.md" in sentence
    for code in ("import truerank.planning", "from truerank.planning import plan"):
        with pytest.raises(ImportError) as raised:
            exec(code)
        assert str(raised.value) == sentence
    with pytest.raises(ImportError) as raised:
        exec("from truerank import planning")
    assert str(raised.value) == sentence
    with pytest.raises(AttributeError) as missing:
        truerank.planning  # noqa: B018
    assert str(missing.value) == sentence
    with pytest.raises(ModuleNotFoundError, match="unheard_of"):
        importlib.import_module("truerank.unheard_of")


@pytest.mark.parametrize("name", ["set_precision", "set_recall"])
def test_a_metric(name: str) -> None:
    for metric in (name, f"{name}@tau=0.3"):
        with pytest.raises(truerank.InputError) as raised:
            truerank.evaluate([[0.0, 1], [0, 2], [1, 0]], [0, 0, 1], metrics=["map", metric])
        assert str(raised.value) == REMOVED[name]


def test_a_command() -> None:
    sentence = run("plan", "--queries", "1e8", "--dim", 512, "--gpus", 64).complaint()
    assert REMOVED["truerank plan"] in sentence
