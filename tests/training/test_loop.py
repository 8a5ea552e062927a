"""The trainer: it learns, it stops in time, and a stopped run goes on to the same weights."""

from __future__ import annotations

import csv
import json
import os
import random
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import truerank
from tests.training.sketches import EACH, TRAINED, settings, sketches, tiny
from truerank._util.errors import InputError, TruerankWarning
from truerank.datasets.base import Dataset
from truerank.training.config import Config
from truerank.training.logs import Log, TensorBoardLog
from truerank.training.loop import DivergedError, Trainer
from truerank.training.run import Run, train


def weights(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert torch.equal(value, other[name]), name


def test_a_small_network_learns_what_pixels_do_not_know() -> None:
    """On classes that it never saw."""
    data = sketches()
    config = settings(
        data={"fold": None},
        sampler={"classes": 32},
        schedule={"name": "cosine"},
        model={"dimensions": 64},
        training={"epochs": 2, "iterations": 40},
    )
    run = train(config, data=data)
    test = data.subset("test")
    pixels = np.stack([image[..., 0].ravel() for image in test.images]).astype(np.float32)
    baseline = truerank.evaluate(pixels, test.labels, metrics=["map@r"])
    assert run.result is not None
    # Four seeds gained 0.021 to 0.042.
    assert run.result["map@r"].value > baseline["map@r"].value + 0.015
    assert run.history[-1]["loss"] < run.history[1]["loss"]


class StopAt(Log):
    """Ends the run at an iteration: by a signal, as a person would, or as if the power failed."""

    def __init__(self, iteration: int, how: str) -> None:
        self.iteration, self.how = iteration, how

    def step(self, iteration: int, total: int) -> None:
        if iteration == self.iteration:
            if self.how == "power":
                raise ConnectionAbortedError
            os.kill(os.getpid(), getattr(signal, self.how))


@pytest.mark.parametrize(
    ("trunk", "how", "iteration"),
    [
        *(("tiny", how, at) for how in ("SIGINT", "SIGTERM", "power") for at in (4, 10, 13)),
        ("convnet", "SIGINT", 13),
        ("convnet", "power", 13),
    ],
)
def test_stopped_and_resumed_is_as_never_stopped(
    trunk: str, how: str, iteration: int, tmp_path: Path
) -> None:
    """With dropout, a loss with weights of its own, momentum, a schedule and a miner that draws."""
    config = settings(
        loss={"name": "margin", "miner": "distance_weighted"},
        optimiser={"name": "rmsprop", "momentum": 0.9, "lr": 1e-3},
        schedule={"name": "cosine", "warmup": 3},
    )
    options: dict[str, Any] = {"data": sketches()}
    if trunk == "tiny":
        options["trunk"] = tiny
    whole = train(config, folder=tmp_path / "whole", **options)
    error = ConnectionAbortedError if how == "power" else KeyboardInterrupt
    with pytest.raises(error):
        train(config, folder=tmp_path / "parts", logs=[StopAt(iteration, how)], **options)
    torch.manual_seed(99)  # what happens in between is none of the run's business
    parts = train(config, folder=tmp_path / "parts", resume=True, **options)
    assert_same(weights(whole.model), weights(parts.model))
    assert_same(_saved(tmp_path / "whole"), _saved(tmp_path / "parts"))
    keys = ("epoch", "iteration", "loss", "lr", "map@r", "best")
    assert [[r[k] for k in keys] for r in whole.history] == [
        [r[k] for k in keys] for r in parts.history
    ]
    for name in ("log.csv", "log.jsonl"):
        assert len((tmp_path / "parts" / name).read_text().splitlines()) == len(
            (tmp_path / "whole" / name).read_text().splitlines()
        )


def _saved(folder: Path) -> dict[str, torch.Tensor]:
    state = torch.load(folder / "last.pt", weights_only=True)
    return state["model"] | {f"loss.{name}": value for name, value in state["loss"].items()}


def test_an_impatient_second_interrupt_saves_nothing_half_done(tmp_path: Path) -> None:
    """It may strike in the middle of an update: what is on disk stays what was whole."""

    class Twice(nn.Module):
        calls = 0

        def forward(self, embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            Twice.calls += 1
            if Twice.calls == 7:
                for _ in range(2):
                    os.kill(os.getpid(), signal.SIGINT)
            return embeddings.square().sum() * 0.5 + embeddings[:, 0].sum()

    options: dict[str, Any] = {"data": sketches(), "trunk": tiny, "loss": Twice()}
    with pytest.raises(KeyboardInterrupt):
        train(settings(), folder=tmp_path, **options)
    saved = torch.load(tmp_path / "last.pt", weights_only=True)
    assert (saved["epoch"], saved["done"]) == (1, 0)


def test_a_run_is_a_function_of_its_seed_and_leaves_the_generators_alone() -> None:
    def run(seed: int, noise: int) -> dict[str, torch.Tensor]:
        torch.manual_seed(noise)
        random.seed(noise)
        before = torch.get_rng_state(), random.getstate()
        data = sketches()
        done = Trainer(settings(training={"seed": seed}), data.subset("train"), trunk=tiny).fit()
        assert torch.equal(torch.get_rng_state(), before[0])
        assert random.getstate() == before[1]
        assert not torch.are_deterministic_algorithms_enabled()
        return weights(done.model)

    first = run(0, 1)
    assert_same(first, run(0, 2))
    assert not torch.equal(first["linear.weight"], run(1, 1)["linear.weight"])


def test_workers_and_pipeline_do_not_change_what_is_drawn() -> None:
    """Among threads, exactly; Pillow rounds to whole levels, so that losses agree closely."""
    data = sketches().subset("train")

    def run(**options: Any) -> Trainer:
        config = settings(training={"epochs": 1, **options})
        return Trainer(config, data, trunk=tiny).fit()

    one = run(pipeline="decoded", workers=1)
    assert_same(weights(one.model), weights(run(pipeline="decoded", workers=3).model))
    other = run(pipeline="resident")
    assert other.history[1]["loss"] == pytest.approx(one.history[1]["loss"], rel=1e-3)


def test_early_stopping_keeps_the_best_epoch(tmp_path: Path) -> None:
    """A learning rate that destroys the model: the best epoch may be the one before training."""
    config = settings(optimiser={"name": "sgd", "lr": 30.0}, training={"epochs": 50, "patience": 2})
    run = train(config, data=sketches(), trunk=tiny, folder=tmp_path)
    values = [record["map@r"] for record in run.history]
    best = int(np.argmax(values))
    assert run.best_epoch == best
    assert len(values) == int(np.argmax(values[1:])) + 1 + 3 < 51
    assert [record["best"] for record in run.history] == [
        value > max(values[:epoch], default=-1.0) for epoch, value in enumerate(values)
    ]
    saved = torch.load(tmp_path / "best.pt", weights_only=True)
    assert saved["epoch"] == best
    assert_same(saved["model"], weights(run.model))


def test_a_loss_that_begins_below_the_untrained_model_has_time_to_rise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Patience waits for the best epoch of the training; the model of epoch 0 may stay the best."""
    told = [0.5, 0.1, 0.2, 0.3, 0.4, 0.45, 0.45, 0.3, 0.9]
    values = iter(told)
    monkeypatch.setattr(Trainer, "_validate", lambda *_: next(values))
    config = settings(training={"epochs": 8, "iterations": 1, "patience": 2})
    data = sketches()
    trainer = Trainer(config, data.subset("train"), data.subset("test"), trunk=tiny).fit()
    assert trainer.epoch == 7
    assert trainer.best_epoch == 0


def test_validation_is_a_fold_of_the_training_classes() -> None:
    """Quarters of the sorted classes: 32 classes, so 8 for validation, and no test class."""
    seen = {}

    class Spy(Trainer):
        def fit(self) -> Trainer:
            seen["validation"] = set(self.validation.labels.tolist())
            seen["train"] = len(self._sampler.members)
            return self

    data = sketches()
    ordered = sorted(set(data.subset("train").labels.tolist()))
    from truerank.training import run as module

    original = module.Trainer
    module.Trainer = Spy
    try:
        for fold in range(4):
            with pytest.raises(InputError, match="nothing has been trained yet"):
                train(settings(data={"fold": fold}), data=data, trunk=tiny)
            assert seen == {"validation": set(ordered[8 * fold : 8 * fold + 8]), "train": 24}
    finally:
        module.Trainer = original


def test_classes_on_both_sides_are_refused() -> None:
    data = sketches()
    with pytest.raises(InputError, match="32 classes are in both training and validation"):
        Trainer(settings(), data.subset("train"), data)


def test_a_data_set_without_splits_is_cut_in_half_by_class(tmp_path: Path) -> None:
    data = sketches()
    whole = Dataset("mine", data.images, data.labels, ("thing",))
    run = train(settings(training={"epochs": 1}), data=whole, trunk=tiny, folder=tmp_path)
    assert run.result is not None
    labels = set(np.load(tmp_path / "test.npz")["label"].tolist())
    assert labels == set(sorted(set(data.labels.tolist()))[24:])


def test_query_and_gallery_are_tested_against_each_other(tmp_path: Path) -> None:
    data = sketches()
    first = TRAINED * EACH
    rows = np.arange(first, len(data))
    cameras = np.arange(len(data)) % 2
    splits = {"train": np.arange(first), "query": rows[::4], "gallery": rows[rows % 4 > 0]}
    both = Dataset("cameras", data.images, data.labels, ("thing",), groups=cameras, splits=splits)
    run = train(settings(training={"epochs": 1}), data=both, trunk=tiny, folder=tmp_path)
    assert run.result is not None
    facts = run.result.provenance
    assert (facts["queries"], facts["gallery"], facts["leave_one_out"]) == (80, 240, False)
    saved = np.load(tmp_path / "gallery.npz")
    assert saved["group"].tolist() == cameras[splits["gallery"]].tolist()


def test_what_a_run_leaves_behind(tmp_path: Path) -> None:
    run = train(settings(), data=sketches(), trunk=tiny, folder=tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        "best.pt", "config.yaml", "environment.json", "last.pt", "log.csv", "log.jsonl",
        "result.json", "test.npz",
    }  # fmt: skip
    facts = json.loads((tmp_path / "environment.json").read_text())
    assert torch.__version__.startswith(facts["versions"]["torch"].partition("+")[0])
    assert facts["seeds"] == {"model": 0, "sampler": 0, "augmentation": 0}
    assert facts["device"] == "cpu"
    records = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert records == run.history
    with (tmp_path / "log.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["map@r"]) for row in rows] == [record["map@r"] for record in records]
    stored = truerank.evaluate(tmp_path / "test.npz", np.load(tmp_path / "test.npz")["label"])
    assert run.result is not None
    assert stored["map@r"].value == run.result["map@r"].value


def test_the_loss_of_the_configuration_is_what_is_computed() -> None:
    """ArcFace + 2 TCM over the batch, put together by hand from the same weights."""
    from truerank import losses

    config = Config.of(settings(loss={"name": "arcface", "plus": [{"name": "tcm", "weight": 2.0}]}))
    data = sketches().subset("train")
    trainer = Trainer(config, data, trunk=tiny)
    embeddings = nn.functional.normalize(torch.randn(6, 16), dim=1)
    labels = torch.tensor([0, 0, 5, 5, 31, 31])
    arcface = losses.get("arcface", num_classes=32, embedding_size=16)
    arcface.load_state_dict(
        {n.removeprefix("losses.0."): v for n, v in trainer.loss.state_dict().items()}
    )
    expected = arcface(embeddings, labels) + 2 * losses.get("tcm")(embeddings, labels)
    torch.testing.assert_close(trainer.loss(embeddings, labels[:, None]), expected)


def test_hierarchical_losses_get_paths_and_others_classes() -> None:
    data = sketches().subset("train")
    coarse = np.array([name[0] < "d" for name in data.labels.tolist()])
    tree = Dataset("tree", data.images, np.stack([coarse, data.labels], axis=1), ("early", "thing"))
    config = settings(
        loss={"name": "happier"},
        sampler={"kind": "hierarchical", "classes": 8, "samples": 2},
        training={"epochs": 1},
    )
    trainer = Trainer(config, tree, trunk=tiny).fit()
    assert trainer._labels.shape == (640, 2)
    assert np.isfinite(trainer.history[-1]["loss"])
    scales = Trainer(config | {"loss": {"name": "csl"}}, tree, trunk=tiny).fit()
    assert np.isfinite(scales.history[-1]["loss"])
    every = settings(loss={"name": "arcface", "every_level": True}, training={"epochs": 1})
    summed = Trainer(every, tree, trunk=tiny)
    sizes = [value.shape for name, value in summed.loss.named_parameters()]
    assert sorted(max(size) if 16 in size else 0 for size in sizes) == [16, 32]
    with pytest.raises(InputError, match="happier needs labels of several levels; these have one"):
        Trainer(settings(loss={"name": "happier"}), data, trunk=tiny)

    class Plain(nn.Module):
        def forward(self, embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            assert labels.shape == (16,)
            return embeddings.sum()

    Trainer(settings(training={"epochs": 1}), tree, trunk=tiny, loss=Plain()).fit()


def test_a_loss_that_is_no_number_ends_the_run() -> None:
    class Broken(nn.Module):
        def forward(self, embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            return embeddings.sum() * float("nan")

    data = sketches().subset("train")
    with pytest.raises(DivergedError, match="the loss is nan in epoch 1; lower the learning rate"):
        Trainer(settings(), data, trunk=tiny, loss=Broken()).fit()


def test_a_class_with_one_image_is_said_and_trains(tmp_path: Path) -> None:
    data = sketches()
    rows = np.delete(np.arange(len(data)), np.arange(1, EACH))  # one image of the first class
    with pytest.warns(TruerankWarning, match=r"1 of 24 classes have fewer than 2 images \(1 of"):
        run = train(
            settings(data={"fold": 3}, training={"epochs": 1}), data=data.subset(rows), trunk=tiny
        )
    assert len(run.history) == 2


def test_a_damaged_image_stops_with_its_name_and_the_run_can_go_on(tmp_path: Path) -> None:
    from PIL import Image

    data = sketches().subset("train")
    for row in range(len(data)):
        folder = tmp_path / "images" / str(data.labels[row])
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(data.images[row]).save(folder / f"{row:03d}.png")
    broken = tmp_path / "images" / str(data.labels[0]) / "000.png"
    whole = broken.read_bytes()
    broken.write_bytes(whole[:60])

    from truerank.datasets.base import ImageFiles

    paths = sorted((tmp_path / "images").rglob("*.png"))
    labels = [path.parent.name for path in paths]
    files = Dataset(
        "files", ImageFiles(paths), labels, ("thing",), splits={"train": np.arange(640)}
    )
    config = settings(data={"fold": None}, training={"epochs": 1, "iterations": 40})
    with pytest.raises(InputError, match=r"000\.png cannot be decoded: "):
        train(config, data=files, trunk=tiny, folder=tmp_path / "run")
    broken.write_bytes(whole)
    resumed = train(config, data=files, trunk=tiny, folder=tmp_path / "run", resume=True)
    assert_same(weights(resumed.model), weights(train(config, data=files, trunk=tiny).model))
    assert resumed.result is None  # there is no test split


def test_a_folder_is_not_written_over_and_only_the_same_run_is_resumed(tmp_path: Path) -> None:
    options: dict[str, Any] = {"data": sketches(), "trunk": tiny, "folder": tmp_path}
    train(settings(training={"epochs": 1}), **options)
    with pytest.raises(InputError, match="holds a run already; resume it"):
        train(settings(), **options)
    with pytest.raises(InputError, match=r"made with sampler\.classes = 8, not 4"):
        train(settings(sampler={"classes": 4}), resume=True, **options)
    longer = train(settings(training={"epochs": 2}), resume=True, **options)
    assert [record["epoch"] for record in longer.history] == [0, 1, 2]
    with pytest.raises(InputError, match="holds a model alone; resume from"):
        Trainer(settings(), sketches().subset("train"), trunk=tiny).resume(tmp_path / "best.pt")
    with pytest.raises(InputError, match="needs the folder"):
        train(settings(), data=sketches(), resume=True)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
def test_a_gpu_trains_in_every_precision_and_resumes(precision: str, tmp_path: Path) -> None:
    config = settings(training={"precision": precision, "device": "cuda"})
    options: dict[str, Any] = {"data": sketches(), "trunk": tiny}
    whole = train(config, **options)
    assert whole.history[-1]["loss"] < whole.history[1]["loss"]
    with pytest.raises(KeyboardInterrupt):
        train(config, folder=tmp_path, logs=[StopAt(7, "SIGINT")], **options)
    parts = train(config, folder=tmp_path, resume=True, **options)
    assert_same(weights(whole.model), weights(parts.model))
    assert whole.model.linear.weight.dtype == torch.float32


def test_a_log_sees_everything_and_is_closed() -> None:
    class Notes(Log):
        def __init__(self) -> None:
            self.calls: list[Any] = []

        def begin(self, history: Any) -> None:
            self.calls.append(("begin", len(history)))

        def step(self, iteration: int, total: int) -> None:
            self.calls.append(("step", iteration, total))

        def record(self, values: Any) -> None:
            self.calls.append(("record", values["epoch"]))

        def close(self) -> None:
            self.calls.append("close")

    notes = Notes()
    config = settings(training={"epochs": 2, "iterations": 2})
    Trainer(config, sketches().subset("train"), trunk=tiny, logs=[notes]).fit()
    assert notes.calls == [
        ("begin", 0), ("record", 0), ("step", 1, 4), ("step", 2, 4), ("record", 1),
        ("step", 3, 4), ("step", 4, 4), ("record", 2), "close",
    ]  # fmt: skip


def test_tensorboard_has_the_numbers_of_the_log(tmp_path: Path) -> None:
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    config = settings(training={"epochs": 2})
    data = sketches().subset("train")
    trainer = Trainer(config, data, trunk=tiny, logs=[TensorBoardLog(tmp_path)]).fit()
    found = events.EventAccumulator(str(tmp_path))
    found.Reload()
    losses = {event.step: event.value for event in found.Scalars("loss")}
    assert losses == pytest.approx({r["epoch"]: r["loss"] for r in trainer.history[1:]})


def test_an_unknown_device_is_named() -> None:
    for device in ("gpu", "cuda:77"):
        with pytest.raises(InputError, match=f"the device '{device}' is not available here"):
            Trainer(settings(training={"device": device}), sketches().subset("train"))


def test_the_result_is_a_run() -> None:
    run = train(settings(training={"epochs": 1}), data=sketches(), trunk=tiny)
    assert isinstance(run, Run)
    assert run.folder is None
    assert not run.model.training


def test_validation_may_be_a_split_by_name() -> None:
    data = sketches()
    rows = np.arange(len(data))
    splits = {"train": rows < 400, "val": (rows >= 400) & (rows < 640), "test": rows >= 640}
    named = Dataset("named", data.images, data.labels, ("thing",), splits=splits)
    run = train(
        settings(data={"validation": "val"}, training={"epochs": 1}), data=named, trunk=tiny
    )
    assert run.history[0]["map@r"] > 0
    with pytest.raises(InputError, match="named has no split 'dev'"):
        train(settings(data={"validation": "dev"}), data=named, trunk=tiny)
    with pytest.raises(InputError, match="named has no split 'tarin'"):
        train(settings(data={"train": "tarin"}), data=named, trunk=tiny)


def test_choosing_the_epoch_on_the_test_classes_is_said() -> None:
    config = settings(data={"validation": "test"}, training={"epochs": 1})
    with pytest.warns(TruerankWarning, match="chosen on the test classes"):
        train(config, data=sketches(), trunk=tiny)
