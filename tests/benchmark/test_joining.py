"""Methods done by two machines, put together: the table of the one machine, to the last byte."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.benchmark.small import settings, write_config, write_drawings
from tests.benchmark.test_resume import finish, start
from truerank.benchmark import join, run
from truerank.errors import InputError


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
    assert "0 of them were second looks" in printed
    for name in ("table.json", "reruns.csv", "trials.csv", "openings.jsonl"):
        assert (here / name).read_bytes() == (uninterrupted / name).read_bytes(), name
    with pytest.raises(InputError, match=r"the test half of .*here is open"):
        join(here, [there])


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A benchmark that has no time."""
    folder = tmp_path_factory.mktemp("begun")
    finish(start(write_config(folder), folder / "out", "--until", "0.1"))
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
    other = tmp_path / "other"
    shutil.copytree(begun, other)
    text = (other / "config.yaml").read_text()
    (other / "config.yaml").write_text(text.replace("batch: 8", "batch: 16"))
    with pytest.raises(InputError, match=r"was made with shared\.batch = 16, not 8"):
        join(begun, [other])
    (other / "config.yaml").write_text(text)
    splits = (other / "splits.json").read_text()
    (other / "splits.json").write_text(splits.replace('"digest": "', '"digest": "0'))
    with pytest.raises(InputError, match="split their data differently"):
        join(begun, [other])


def test_methods_that_are_not_there_are_refused(tmp_path: Path) -> None:
    config = settings(write_drawings(tmp_path / "drawings.npz"))
    with pytest.raises(InputError, match="no method 'triplet' is trained here"):
        run(config, tmp_path / "out", only=["triplet"])
    base = {"name": "base", "loss": "contrastive"}
    beside = {**base, "name": "beside", "objective": {"minimise": "opis", "of": "base"}}
    config["methods"] = [base, beside]
    with pytest.raises(InputError, match="beside has to keep up with base: name both"):
        run(config, tmp_path / "out", only=["beside"])
