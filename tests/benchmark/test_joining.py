"""Methods done by two machines, put together: the table of the one machine, to the last byte."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.benchmark.small import settings, write_config, write_drawings
from tests.benchmark.test_resume import finish, start
from truerank._util.errors import InputError
from truerank.benchmark.config import BenchmarkConfig
from truerank.benchmark.layout import Layout
from truerank.benchmark.methods import methods_of
from truerank.benchmark.plan import join
from truerank.benchmark.runner import run
from truerank.benchmark.search import Studies
from truerank.benchmark.tasks import FoldOutcome


@pytest.mark.slow
def test_two_folders_joined_are_one_benchmark(uninterrupted: Path, tmp_path: Path) -> None:
    config, here, there = write_config(tmp_path), tmp_path / "here", tmp_path / "there"
    both = [
        start(config, here, "--only", "contrastive"),
        start(config, there, "--only", "arcface"),
    ]
    for process in both:
        finish(process)
    for folder, done, left in ((here, "contrastive", "arcface"), (there, "arcface", "contrastive")):
        assert not (folder / "openings.jsonl").exists()
        assert (folder / "runs" / done).is_dir()
        assert not (folder / "runs" / left).exists()
    printed = finish(start(config, here, "--join", str(there)))
    assert "0 of them were repetitions" in printed
    for name in ("table.json", "reruns.csv", "trials.csv", "openings.jsonl"):
        assert (here / name).read_bytes() == (uninterrupted / name).read_bytes(), name
    with pytest.raises(InputError, match=r"the test split of .*here is evaluated"):
        join(here, [there])


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A benchmark that has no time."""
    folder = tmp_path_factory.mktemp("begun")
    finish(start(write_config(folder), folder / "out", "--time-limit", "0.1"))
    return folder / "out"


def test_nothing_is_taken_from_a_folder_that_is_behind(begun: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(begun, other)
    done = join(begun, [other])
    assert {place for _, place in done.values()} == {str(begun)}
    assert list(done) == ["contrastive", "arcface"]


def test_folders_that_do_not_belong_together_are_refused(begun: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds no benchmark: config\.yaml is missing"):
        join(begun, [tmp_path / "nothing"])
    assert not (tmp_path / "nothing").exists()
    with pytest.raises(InputError, match="cannot be joined with itself"):
        join(begun, [begun.parent / "." / begun.name])
    other = tmp_path / "other"
    shutil.copytree(begun, other)
    shutil.copytree(begun, tmp_path / "same")
    text = (other / "config.yaml").read_text()
    (other / "config.yaml").write_text(text.replace("batch: 8", "batch: 16"))
    with pytest.raises(InputError, match=r"was made with shared\.batch = 16, not 8"):
        join(begun, [other])
    with pytest.raises(InputError, match=r"was made with shared\.batch = 8, not 16"):
        join(begun, [tmp_path / "same"], config=other / "config.yaml")
    (other / "config.yaml").write_text(text)
    splits = (other / "splits.json").read_text()
    (other / "splits.json").write_text(splits.replace('"digest": "', '"digest": "0'))
    with pytest.raises(InputError, match="split their data differently"):
        join(begun, [other])


METHODS = [
    {"name": "base", "loss": "contrastive"},
    {"name": "beside", "loss": "contrastive", "objective": {"minimise": "opis", "of": "base"}},
    {"name": "other", "loss": "triplet"},
]


def folder_with(path: Path, config: BenchmarkConfig, scores: dict[str, list[float]]) -> Path:
    """A folder in which methods have trials with these scores, the same in both folds."""
    layout = Layout(path)
    layout.folder.mkdir()
    layout.config.write_text(config.to_yaml())
    layout.splits.write_text('{"digest": "0"}')
    layout.environment.write_text(f'["{path.name}"]')
    studies = Studies.of(config, layout.study, methods_of(config))
    for name, found in scores.items():
        for score in found:
            trial = studies.current(name)
            assert trial is not None
            for fold in range(2):
                kept = FoldOutcome(score, 1, 1, "finished", 1.0, [], measures={"opis": 0.5})
                studies.record(name, trial, fold, kept)
    studies.close()
    model = layout.fold("base", "0", 0) / "best.pt"
    model.parent.mkdir(parents=True)
    model.write_text(path.name)
    return path


def trials_in(folder: Path, config: BenchmarkConfig) -> dict[str, list[float | None]]:
    studies = Studies.of(config, folder / "study.sqlite", methods_of(config))
    studies.close()
    return {name: [trial.score for trial in found] for name, found in studies.found.items()}


def test_a_method_goes_with_the_one_it_keeps_up_with(tmp_path: Path) -> None:
    """Here has more trials of `base`, there more of both together: both are taken from there."""
    config = BenchmarkConfig.of(
        settings(tmp_path, methods=METHODS, protocol={"preset": "smoke", "trials": 3, "folds": 2})
    )
    mine = {"base": [0.9, 0.8], "other": [0.3]}
    here = folder_with(tmp_path / "here", config, mine)
    there = folder_with(tmp_path / "there", config, {"base": [0.1], "beside": [0.2, 0.2]})
    before = trials_in(there, config)
    done = join(here, [there])
    assert done == {"base": (2, str(there)), "beside": (4, str(there)), "other": (2, str(here))}
    assert trials_in(here, config) == {**before, "other": [0.3]}
    assert (here / "runs/base/rerun-0/fold-0/best.pt").read_text() == "there"
    assert json.loads((here / "environment.json").read_text()) == ["here", "there"]
    assert not list((here / "runs").glob(".joining*"))
    assert join(here, [there]) == {**done, "base": (2, str(here)), "beside": (4, str(here))}


def test_nothing_is_half_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped while searches are copied, the folder has its own, and a second try takes all."""
    config = BenchmarkConfig.of(
        settings(tmp_path, methods=METHODS, protocol={"preset": "smoke", "trials": 3, "folds": 2})
    )
    here = folder_with(tmp_path / "here", config, {"base": [0.9]})
    there = folder_with(tmp_path / "there", config, {"base": [0.1], "beside": [0.2, 0.2]})

    def fail(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Studies, "replace", fail)
        with pytest.raises(KeyboardInterrupt):
            join(here, [there])
    assert trials_in(here, config) == {"base": [0.9], "beside": [], "other": []}
    join(here, [there])
    assert trials_in(here, config) == trials_in(there, config)


def test_methods_that_are_not_there_are_refused(tmp_path: Path) -> None:
    config = settings(write_drawings(tmp_path / "drawings.npz"))
    with pytest.raises(InputError, match="no method 'triplet' is trained here"):
        run(config, tmp_path / "out", only=["triplet"])
    with pytest.raises(InputError, match="no method is named"):
        run(config, tmp_path / "out", only=[])
    config["methods"] = METHODS
    with pytest.raises(InputError, match="beside has to keep up with base: name both"):
        run(config, tmp_path / "out", only=["beside"])
