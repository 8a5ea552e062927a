"""Runs that go wrong, and runs that are not end to end: they end in a table or a sentence."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from tests.benchmark.small import CLASSES, EACH, settings, write_config, write_drawings
from truerank import benchmark, datasets
from truerank._util.errors import InputError
from truerank.benchmark.layout import Layout
from truerank.cli.commands import commands
from truerank.datasets.base import Dataset

QUICK = {"preset": "smoke", "trials": 1, "reruns": 1}
OWN = """
import torch

class Diverges(torch.nn.Module):
    def __init__(self, num_classes, embedding_size, scale=1.25):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(num_classes, embedding_size))
        self.scale = scale

    def forward(self, embeddings, labels):
        return (embeddings @ self.weight.T).sum() * float("nan") * self.scale

class Fails(torch.nn.Module):
    def forward(self, embeddings, labels):
        raise KeyError("no such pair")
"""


@pytest.fixture
def drawings(tmp_path: Path) -> Path:
    return write_drawings(tmp_path / "drawings.npz")


def read(root: Path) -> Dataset:
    with pytest.warns(UserWarning, match="not complete"):
        return datasets.read("quickdraw", root)


def own(tmp_path: Path, name: str, **more: Any) -> dict[str, Any]:
    (tmp_path / "own.py").write_text(OWN)
    return {"name": name.lower(), "file": str(tmp_path / "own.py"), "object": name, **more}


def test_a_diverging_loss_and_finished_embeddings_are_shown(tmp_path: Path, drawings: Path) -> None:
    data = read(drawings)
    test = data.subset("test")
    perfect = np.eye(CLASSES // 2)[np.repeat(np.arange(CLASSES // 2), EACH)]
    np.save(tmp_path / "perfect.npy", perfect)
    diverges = own(
        tmp_path, "Diverges", kind="classification", search={"scale": {"low": 1, "high": 2}}
    )
    methods = [diverges, {"name": "perfect", "embeddings": str(tmp_path / "perfect.npy")}]
    config = settings(drawings, methods=methods, protocol=QUICK)
    table = benchmark.run(config, tmp_path / "out", data=data)
    assert table is not None
    row = table.row("diverges")
    assert row["validation"] == {"score": 0.0, "default": 0.0, "best_trial": 0}
    assert row["default_parameters"] == {"scale": 1.25, "loss_lr": 0.01, "lr": 1e-3}
    assert "1 of 1 trials diverged" in row["notes"]
    assert "2 of 2 trainings of the reruns diverged" in row["notes"]
    finished = table.row("perfect")
    assert finished["concatenated"]["map@r"]["mean"] == 1.0
    assert finished["separated"] == {}
    assert finished["notes"] == ["outside the protocol"]
    assert "ranks" not in finished
    assert len(test) == len(perfect)
    openings = [json.loads(line) for line in (tmp_path / "out/openings.jsonl").open()]
    assert [one["method"] for one in openings] == [
        "untrained", "untrained+pca", "diverges", "diverges", "perfect"
    ]  # fmt: skip


@pytest.mark.slow
def test_the_linear_lane_stands_apart(tmp_path: Path, drawings: Path) -> None:
    data = read(drawings)
    shared = settings(drawings)["shared"]
    model = {"trunk": "frozen", "base": "convnet", "copies": 2, "dimensions": 8}
    config = settings(
        drawings, shared={**shared, "model": model}, methods=["contrastive", "proxy_nca"],
        protocol=QUICK,
    )  # fmt: skip
    table = benchmark.run(config, tmp_path / "out", data=data, jobs=2)
    assert table is not None
    assert table.content["title"] == "linear head, frozen features"
    assert table.content["verdict"] is None
    assert "decides no verdict" in str(table)
    features = np.load(tmp_path / "out" / "features.npy", mmap_mode="r")
    assert features.shape == (3, CLASSES // 2 * EACH, 256)  # of the search half alone
    untrained = table.row("untrained")
    same = [untrained[part]["map@r"]["mean"] for part in ("concatenated", "separated")]
    assert same[0] == pytest.approx(same[1], abs=1e-3)  # all folds have the same trunk


@pytest.mark.slow
def test_batches_in_chunks_give_one_table_for_any_number_of_jobs(
    tmp_path: Path, drawings: Path
) -> None:
    data, shared = read(drawings), settings(drawings)["shared"]
    shared = {**shared, "training": {**shared["training"], "chunk": 3}}
    config = settings(drawings, shared=shared, protocol=QUICK)
    for jobs in (1, 2):
        benchmark.run(config, tmp_path / str(jobs), data=data, jobs=jobs)
    one, two = ((tmp_path / jobs / "table.json").read_bytes() for jobs in ("1", "2"))
    assert one == two
    plan = benchmark.describe_plan(config, data)
    assert "training.chunk: 3 (paper: none)" in plan


def test_a_loss_that_fails_stops_with_a_sentence_and_what_is_done_is_kept(
    tmp_path: Path, drawings: Path
) -> None:
    methods = [own(tmp_path, "Fails", kind="embedding")]
    config = settings(drawings, methods=methods, protocol=QUICK)
    with pytest.raises(
        InputError, match=r"the loss Fails of .*own.py failed in training: KeyError"
    ):
        benchmark.run(config, tmp_path / "out", data=read(drawings))
    assert (tmp_path / "out" / "study.sqlite").exists()
    assert (tmp_path / "out" / "trials.csv").read_text().count("\n") == 1


def test_a_folder_holds_one_benchmark(tmp_path: Path, drawings: Path) -> None:
    layout = Layout(tmp_path / "out")
    layout.folder.mkdir()
    given = benchmark.BenchmarkConfig.of(settings(drawings))
    layout.admit(given, resume=False)
    layout.write_config(given)
    with pytest.raises(InputError, match=r"holds a benchmark already; resume it \(--resume"):
        layout.admit(given, resume=False)
    other = benchmark.BenchmarkConfig.of(
        settings(drawings, protocol={"preset": "smoke", "seed": 1})
    )
    with pytest.raises(InputError, match=r"was made with protocol.seed = 0, not 1; resume it"):
        layout.admit(other, resume=True)
    layout.admit(benchmark.BenchmarkConfig.of(settings(Path("elsewhere.npz"))), resume=True)


def test_a_benchmark_goes_on_from_any_folder_but_with_the_same_losses(
    tmp_path: Path, drawings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of a configuration may lie elsewhere; a loss that was changed is another method."""
    layout = Layout(tmp_path / "out")
    for place in ("here", "there"):
        (tmp_path / place).mkdir()
        mine = {**own(tmp_path / place, "Fails", kind="embedding"), "file": "own.py"}
        methods = [mine, {"name": "ready", "embeddings": "x.npz"}]
        config = settings(drawings, methods=methods)
        config["data"]["split"] = "ids.json"
        (tmp_path / place / "c.yaml").write_text(yaml.safe_dump(config))
    monkeypatch.chdir(tmp_path / "here")
    given = benchmark.read_config("c.yaml")
    assert given.data.split == str(tmp_path / "here" / "ids.json")
    layout.folder.mkdir()
    layout.write_config(given)
    layout.admit(benchmark.read_config(tmp_path / "there" / "c.yaml"), resume=True)
    layout.admit(benchmark.read_config(layout.config), resume=True)
    assert (layout.folder / "losses" / "fails" / "own.py").read_text() == OWN
    (tmp_path / "there" / "own.py").write_text(OWN + "# another loss")
    with pytest.raises(InputError, match=r"there/own\.py has changed since the benchmark in"):
        layout.admit(benchmark.read_config(tmp_path / "there" / "c.yaml"), resume=True)


@pytest.mark.parametrize(
    ("sections", "sentence"),
    [
        (
            {"protocol": {**QUICK, "metrics": ["dir@far=0.1"]}},
            r"dir@far=0\.1 is undefined on the test split: .*every query has a relevant item",
        ),
        ({"data": {"split": "nowhere.json"}}, "must be classes, stratified, images, official or a"),
    ],
)
def test_what_would_fail_at_the_end_is_refused_before_anything_is_kept(
    sections: dict[str, Any], sentence: str, tmp_path: Path, drawings: Path
) -> None:
    config, data = settings(drawings, **sections), read(drawings)
    with pytest.raises(InputError, match=sentence):
        benchmark.describe_plan(config, data)
    with pytest.raises(InputError, match=sentence):
        benchmark.run(config, tmp_path / "out", data=data)
    assert [path.name for path in (tmp_path / "out").iterdir()] == [".lock"]


@pytest.mark.parametrize(
    "model", [{"trunk": "resnet1"}, {"trunk": "frozen", "base": "resnet1"}], ids=str
)
def test_an_unknown_trunk_is_refused_before_there_is_a_folder(
    model: dict[str, Any], tmp_path: Path, drawings: Path
) -> None:
    config = settings(drawings, shared={"model": model})
    with pytest.raises(InputError, match="unknown trunk 'resnet1'; there are convnet, "):
        benchmark.describe_plan(config)
    with pytest.raises(InputError, match="unknown trunk 'resnet1'; there are convnet, "):
        benchmark.run(config, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_finished_embeddings_of_another_size_are_refused_at_once(
    tmp_path: Path, drawings: Path
) -> None:
    path = tmp_path / "few.npy"
    methods = ["contrastive", {"name": "ready", "embeddings": str(path)}]
    config, data = settings(drawings, methods=methods), read(drawings)
    with pytest.raises(InputError, match=r"few\.npy"):
        benchmark.run(config, tmp_path / "out", data=data)
    np.save(path, np.eye(3))
    with pytest.raises(InputError, match=r"a row for each of the 96 images .* shape \(3, 3\)"):
        benchmark.run(config, tmp_path / "out", data=data)
    assert [one.name for one in (tmp_path / "out").iterdir()] == [".lock"]


def test_a_folder_has_one_writer(tmp_path: Path, drawings: Path) -> None:
    layout = Layout(tmp_path)
    with (tmp_path / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="another process is at work"), layout.locked():
            pass
    with layout.locked():
        pass


@pytest.mark.parametrize("name", ["half%20", "why?", "{out}"])
def test_a_folder_that_no_database_can_be_in_is_refused(
    name: str, tmp_path: Path, drawings: Path
) -> None:
    with pytest.raises(InputError, match=r"name a folder without any of % \? { }"):
        benchmark.run(settings(drawings), tmp_path / name, data=read(drawings))
    assert not (tmp_path / name).exists()


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path, drawings: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot make the folder"):
        benchmark.run(settings(drawings), tmp_path / "file" / "out", data=read(drawings))


def test_jobs_are_counted_from_one(tmp_path: Path, drawings: Path) -> None:
    with pytest.raises(InputError, match="The 'jobs' parameter of run must be an int >= 1"):
        benchmark.run(settings(drawings), tmp_path / "out", jobs=0)


def test_a_method_that_does_not_suit_the_data_is_named(tmp_path: Path, drawings: Path) -> None:
    config = settings(drawings, methods=["csl"], protocol=QUICK)
    with pytest.raises(InputError, match="the method 'csl': csl needs labels of several levels"):
        benchmark.run(config, tmp_path / "out", data=read(drawings))


def test_a_dry_run_says_what_would_be_done(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    arguments = ["benchmark", str(config), "-o", str(tmp_path / "out"), "--dry-run"]
    with pytest.warns(UserWarning, match="not complete"):
        ran = CliRunner().invoke(commands, arguments)
    assert ran.exit_code == 0
    sizes = "96 images of 16 classes in the development split, 96 of 16 in the test split."
    assert sizes in ran.output
    assert "12 trainings of the search (2 methods x 3 trials x 2 folds)" in ran.output
    assert not (tmp_path / "out").exists()
