"""Files of earlier versions: results and tasks are read, checkpoints go on or are refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import truerank
from tests.stored.digest import digest
from tests.stored.evaluations import evaluated, found, run
from tests.stored.files import (
    CHECKPOINTS,
    FOLDER,
    RESULTS,
    TASKS,
    checkpointed,
    in_words,
    numbers,
    task_of,
)

VERSIONS = sorted(path.name for path in FOLDER.iterdir())
COMPLETE = [version for version in VERSIONS if ".dev" not in version]


def test_a_version_is_kept() -> None:
    assert COMPLETE
    assert truerank.__version__ in VERSIONS


@pytest.mark.parametrize("version", COMPLETE)
@pytest.mark.parametrize("shape", RESULTS)
def test_results_are_read(version: str, shape: str, tmp_path: Path) -> None:
    """What a version wrote is what is read, whatever has been defined anew since then."""
    path = FOLDER / version / f"result-{in_words(shape)}.json"
    result = truerank.Result.from_json(path)
    assert str(result)
    known = json.loads((FOLDER / version / "numbers.json").read_text())
    assert numbers(result) == known[shape]
    written = tmp_path / "again.json"
    result.to_json(written)
    assert numbers(truerank.Result.from_json(written)) == known[shape]


def test_what_was_removed_is_still_read(tmp_path: Path) -> None:
    """A result that was made for this, with a few points of its curves."""
    path = FOLDER / "0.1.0" / "result-removed.json"
    truerank.Result.from_json(path).to_json(tmp_path / "again.json")
    result = truerank.Result.from_json(tmp_path / "again.json")
    result.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for name in ("set_precision@tau=0.3", "set_recall@tau=0.3"):
        assert result[name].interval is not None
        for shown in (str(result), page, str(truerank.compare(result, result))):
            assert name in shown
    kept = json.loads(path.read_text())["curves"]["curves"]
    assert set(result.curves) == set(kept) == {"mrp", "mvp", "utility"}
    for name, one in kept.items():
        for band, column in (("pointwise", "low"), ("simultaneous", "simultaneous_low")):
            assert result.curve(name, band=band)["low"].tolist() == one["columns"][column]


@pytest.mark.parametrize("version", COMPLETE)
@pytest.mark.parametrize("shape", TASKS)
def test_tasks_are_read(version: str, shape: str) -> None:
    task = run(lambda: truerank.Task.load(FOLDER / version / f"task-{in_words(shape)}.npz"))
    assert task.digest == run(lambda: task_of(shape)).digest


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", CHECKPOINTS)
def test_checkpoints_go_on_or_are_refused(version: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    shutil.copy(FOLDER / version / f"checkpoint-{name}", path)
    shape, options = CHECKPOINTS[name]
    heard: list[tuple[int, int]] = []
    if version != truerank.__version__:
        with pytest.raises(truerank.InputError, match="another version of truerank"):
            checkpointed(name, path)
        return
    result = checkpointed(name, path, lambda *at: heard.append(at))
    assert heard[0][0] > 0  # it did not start anew
    expected = run(lambda: evaluated(shape, "cosine", options))
    assert digest(found(result)) == digest(found(expected))
