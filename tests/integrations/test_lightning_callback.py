"""The Lightning callback: on two CPU processes the score is that of the whole set, on both."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import truerank
from tests.integrations.samples import SAMPLES, SHARES, data
from truerank import InputError
from truerank.compat.lightning import RetrievalCallback

ROOT = Path(__file__).parents[2]
SRC = Path(truerank.__file__).parents[1]


def run(out: Path) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(SRC), str(ROOT)]),
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.integrations.two_processes", str(out)],
        cwd=ROOT,
        env=environment,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        _, errors = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # Lightning's second process as well
        raise
    assert process.returncode == 0, errors[-3000:]


def truth(*metrics: str) -> dict[str, float]:
    rows, labels = data()
    result = truerank.evaluate(rows, labels, metrics=list(metrics))
    return {name: score.value for name, score in result.items()}


@pytest.mark.slow
def test_two_processes(tmp_path: Path) -> None:
    """Validation on padded shares (22 of 21 samples), testing on uneven ones (13 and 8).

    The metric by itself also with overlapping shares, and with a process that sees nothing.
    """
    run(tmp_path)
    wanted = truth("precision@1", "map@r", "map")
    for stage in ("val", "test"):
        for rank in (0, 1):
            found = json.loads((tmp_path / f"{stage}-{rank}.json").read_text())
            assert found["result"] == wanted
            assert found["seen"] == SAMPLES
            logged = {name: found["logged"][f"{stage}/{name}"] for name in wanted}
            assert logged == pytest.approx(wanted, rel=1e-6)
            assert found["shares"] == {kind: truth("map@r", "map") for kind in SHARES}


class Model(pl.LightningModule):
    """Embeds by the identity; labels are paths."""

    def validation_step(self, batch: Any, index: int, dataloader_idx: int = 0) -> dict[str, Any]:
        rows, labels, ids = batch
        return {"embeddings": rows, "labels": torch.stack([labels // 2, labels], 1), "ids": ids}


def test_several_loaders_make_one_set() -> None:
    rows, labels = data()
    ids = torch.arange(SAMPLES)
    loaders = [
        DataLoader(TensorDataset(rows[part], labels[part], ids[part]), batch_size=4)
        for part in (slice(0, 9), slice(7, SAMPLES))
    ]
    callback = RetrievalCallback(["h_ap", "map@r,level=1"], levels=2, validation="retrieval ")
    trainer = pl.Trainer(
        accelerator="cpu", logger=False, enable_progress_bar=False, callbacks=[callback]
    )
    trainer.validate(Model(), loaders, verbose=False)
    paths = torch.stack([labels // 2, labels], 1)
    wanted = truerank.evaluate(rows, paths, metrics=["h_ap", "map@r,level=1"])
    logged = {name: value.item() for name, value in trainer.callback_metrics.items()}
    assert logged == pytest.approx(
        {f"retrieval {name}": score.value for name, score in wanted.items()}, rel=1e-6
    )
    assert callback.result["h_ap"].value == wanted["h_ap"].value


def test_one_process_needs_no_ids() -> None:
    class Plain(pl.LightningModule):
        def test_step(self, batch: Any, index: int) -> dict[str, Any]:
            return {"embeddings": batch[0], "labels": batch[1]}

    callback = RetrievalCallback(["map@r", "map"])
    trainer = pl.Trainer(
        accelerator="cpu", logger=False, enable_progress_bar=False, callbacks=[callback]
    )
    trainer.test(Plain(), DataLoader(TensorDataset(*data()), batch_size=4), verbose=False)
    assert {name: s.value for name, s in callback.result.items()} == truth("map@r", "map")


@pytest.mark.parametrize("outputs", [None, 3.0, {"embeddings": 1, "ids": 2}])
def test_a_step_that_returns_something_else(outputs: Any) -> None:
    with pytest.raises(InputError, match="validation_step to return a dict with embeddings"):
        RetrievalCallback().on_validation_batch_end(None, None, outputs, None, 0)
