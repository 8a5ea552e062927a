"""Old public names, keywords, options and commands: each is used here, and warns."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import truerank
from tests.cli.driving import run
from truerank._util import old_names
from truerank._util.old_names import RENAMED, RENAMED_COMMANDS, RENAMED_OPTIONS

ROWS = np.random.default_rng(0).standard_normal((60, 4))
LABELS = np.arange(60) // 3
LISTS = [[1, 2, 3] for _ in range(60)]
SETTINGS: dict[str, Any] = {"metrics": ["map@r"], "confidence": None}


@pytest.fixture(autouse=True)
def nothing_warned_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(old_names, "_warned", set())


@pytest.mark.parametrize(("old", "new"), list(RENAMED.items()))
def test_old_names_of_the_package(old: str, new: str) -> None:
    sentence = f"^truerank.{old} is now truerank.{new}; the old name goes in 0.3.0.$"
    with pytest.warns(DeprecationWarning, match=sentence) as seen:
        assert getattr(truerank, old) is getattr(truerank, new)
    assert [one.filename for one in seen] == [__file__]
    with warnings.catch_warnings():  # once is enough
        warnings.simplefilter("error")
        assert getattr(truerank, old) is getattr(truerank, new)
    assert old not in truerank.__all__


CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any], dict[str, Any]]] = {
    "evaluate": (
        lambda **more: truerank.evaluate(ROWS, LABELS, **SETTINGS, **more),
        {"no_mate": "zero"},
        {"unmated": "zero"},
    ),
    "compression_sweep": (
        lambda **more: truerank.compression_sweep(
            ROWS, LABELS, dims=[2], dtypes=["int8"], metrics=["map@r"], **more
        ),
        {"no_mate": "zero"},
        {"unmated": "zero"},
    ),
    "evaluate_lists": (
        lambda **more: truerank.evaluate_lists(labels=LABELS, **SETTINGS, **more),
        {"neighbours": LISTS, "no_mate": "zero"},
        {"neighbors": LISTS, "unmated": "zero"},
    ),
    "index_loss": (
        lambda **more: truerank.index_loss(labels=LABELS, embeddings=ROWS, **SETTINGS, **more),
        {"neighbours": LISTS, "no_mate": "zero"},
        {"neighbors": LISTS, "unmated": "zero"},
    ),
    "Task": (
        lambda **more: truerank.Task(LABELS, **more),
        {"no_mate": "zero"},
        {"unmated": "zero"},
    ),
}


@pytest.mark.parametrize("name", list(CALLS))
def test_old_keywords(name: str) -> None:
    call, old, new = CALLS[name]
    with pytest.warns(
        DeprecationWarning, match="= is now .*=; the old name goes in 0.3.0."
    ) as seen:
        found = call(**old)
    told = [str(one.message) for one in seen if one.category is DeprecationWarning]
    assert len(told) == len(old)
    if name != "Task":
        assert found.to_dict().keys() == call(**new).to_dict().keys()
    with pytest.raises(TypeError, match="are one keyword"):
        call(**old, **new)


def test_a_benchmarks_time_limit() -> None:
    from truerank import benchmark

    with (
        pytest.warns(DeprecationWarning, match="until= is now time_limit="),
        pytest.raises(truerank.InputError),
    ):
        benchmark.run("no-such-file.yaml", "nowhere", until=1.0)


def test_old_names_of_settings() -> None:
    with (
        pytest.warns(DeprecationWarning, match="neighbour_items= is now neighbor_items=") as seen,
        truerank.engine.settings(neighbour_items=7) as changed,
    ):
        assert changed.neighbor_items == 7
    assert [one.filename for one in seen] == [__file__]


def test_old_attributes_of_a_task() -> None:
    task = truerank.Task([0, 0, 1])
    with pytest.warns(DeprecationWarning, match="Task.no_mate_counts is now Task.unmated_counts"):
        assert task.no_mate_counts() == task.unmated_counts()
    with pytest.warns(DeprecationWarning, match="Task.no_mate is now Task.unmated;"):
        assert task.no_mate == task.unmated == "report"
    with pytest.warns(DeprecationWarning, match="Task.no_mate_reason is now Task.unmated_reason"):
        assert task.no_mate_reason.tolist() == task.unmated_reason.tolist()
    with pytest.warns(DeprecationWarning, match="Task.mates is now Task.n_relevant"):
        assert task.mates.tolist() == task.n_relevant.tolist() == [1, 1, 0]


def test_the_old_attribute_of_a_query_and_its_neighbors() -> None:
    (found,) = truerank.neighbors(np.eye(3)[[0, 0, 1]], [0, 0, 1], queries=0)
    with pytest.warns(DeprecationWarning, match="NeighborList.mates is now NeighborList.relevant"):
        assert found.mates is found.relevant


def test_old_methods_of_a_result() -> None:
    result = truerank.evaluate(ROWS, LABELS, **SETTINGS)
    with pytest.warns(DeprecationWarning, match="Result.neighbours is now Result.neighbors"):
        assert str(result.neighbours([0])) == str(result.neighbors([0]))


def test_an_old_convention() -> None:
    def hit(lists: Any, relevant: Any) -> float:
        found = [ids[0] in wanted for ids, wanted in zip(lists, relevant, strict=True)]
        return sum(found) / len(found)

    from truerank import conformance

    given = conformance.check(hit, "hit@1", "lists", allow="unmated=zero").to_dict()
    with pytest.warns(DeprecationWarning, match="the convention no-mates is now unmated") as seen:
        old = conformance.check(hit, "hit@1", "lists", allow="no-mates=zero")
    assert [one.filename for one in seen] == [__file__]
    assert old.to_dict() == given


def test_what_is_no_convention_is_refused_in_a_sentence() -> None:
    from truerank import conformance

    with pytest.raises(truerank.InputError, match="a convention to allow is named as in"):
        conformance.check(len, "hit@1", "lists", allow=[10**5000])


@pytest.fixture
def files(tmp_path: Path) -> Path:
    np.save(tmp_path / "x.npy", ROWS)
    np.save(tmp_path / "y.npy", LABELS)
    return tmp_path


def test_old_commands(files: Path) -> None:
    rows, labels = files / "x.npy", files / "y.npy"
    given = {
        "neighbours": [rows, "--labels", labels, "--query", "3"],
        "sweep": [rows, "--labels", labels, "--dtypes", "int8", "-m", "map@r"],
        "truth": [rows, rows, "-k", "2", "-o", files / "lists.ibin"],
    }
    assert given.keys() == RENAMED_COMMANDS.keys()
    for old, words in given.items():
        done = run(old, *words)
        assert done.status == 0, done.err
        new = RENAMED_COMMANDS[old]
        assert f"note: truerank {old} is now truerank {new}; the old name" in done.err
    help_of_all = run("--help").out
    assert not [old for old in given if f"  {old} " in help_of_all]


def test_old_options(files: Path) -> None:
    given = {
        "--no-mate": ["evaluate", files / "x.npy", "--labels", files / "y.npy", "--no-mate=zero"],
        "--until": ["benchmark", files / "none.yaml", "-o", files / "out", "--until", "3"],
    }
    assert given.keys() == RENAMED_OPTIONS.keys()
    done = run(*given["--no-mate"], "--format", "json")
    assert done.status == 0, done.err
    assert json.loads(done.out)["provenance"]["no_mate_option"] == "zero"
    assert "note: --no-mate is now --unmated; the old name goes in 0.3.0." in done.err
    refused = run(*given["--until"])
    assert "none.yaml" in refused.complaint()
