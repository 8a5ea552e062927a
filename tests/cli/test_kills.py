"""Runs killed (-9) at any moment, again and again: what they leave is whole, and they end alike."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.cli.driving import environment
from tests.training.sketches import sketches

KILLS = 34
"""Of each command; with those of tests/cli/test_competitions.py more than a hundred."""

EVALUATE = """
import sys
from truerank.cli import main
from truerank._util.settings import settings
with settings(checkpoint_worth=0.0, checkpoint_seconds=0.0, query_rows=64, gallery_rows=512):
    main(sys.argv[1:])
"""
TRAIN = "import sys; from truerank.cli import main; main(sys.argv[1:])"
CONFIG = """
data: {name: folder, root: ROOT}
model: {trunk: convnet, dimensions: 8}
augmentation: {resize: 28, crop: 28}
sampler: {classes: 8, samples: 2}
loss: {name: normalized_softmax}
optimiser: {name: adam, lr: 1e-3}
training: {epochs: 40, iterations: 5, patience: null, device: cpu}
"""


def start(script: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    return out


def kill_after(process: subprocess.Popen[str], seconds: float) -> bool:
    """Whether it was killed; one that ended by itself ended well."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return True
    assert process.returncode == 0, process.communicate()
    return False


@pytest.mark.slow
def test_evaluate(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    np.save(tmp_path / "e.npy", rng.standard_normal((3000, 16)).astype(np.float32))
    np.save(tmp_path / "l.npy", rng.integers(0, 300, 3000))
    inputs = ["evaluate", tmp_path / "e.npy", "--labels", tmp_path / "l.npy", "--threads", 1]
    inputs += ["-m", "map@r,auc,opis,mrep"]
    finish(start(EVALUATE, *inputs, "-o", tmp_path / "first.json"))  # may compile kernels
    began = time.monotonic()
    finish(start(EVALUATE, *inputs, "-o", tmp_path / "whole.json"))
    usual = time.monotonic() - began
    wanted = json.loads((tmp_path / "whole.json").read_text())["scores"]
    folder = tmp_path / "killed"
    folder.mkdir()
    path, moments = folder / "result.json", random.Random(3)
    for _ in range(KILLS):
        while not kill_after(
            start(EVALUATE, *inputs, "-o", path, "--resume"), usual * moments.uniform(0.2, 1.0)
        ):
            assert json.loads(path.read_text())["scores"] == wanted
            path.unlink()
        if path.exists():  # killed between the last rename and its end
            assert json.loads(path.read_text())["scores"] == wanted
    finish(start(EVALUATE, *inputs, "-o", path, "--resume"))
    assert json.loads(path.read_text())["scores"] == wanted
    assert [file.name for file in folder.iterdir()] == ["result.json"]


@pytest.mark.slow
def test_train(tmp_path: Path) -> None:
    import torch
    from PIL import Image

    data = sketches()
    for row in range(0, len(data), 2):
        path = tmp_path / "images" / str(data.labels[row]) / f"{row:03d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(data.images[row]).save(path)
    config, whole, killed = tmp_path / "config.yaml", tmp_path / "whole", tmp_path / "killed"
    config.write_text(CONFIG.replace("ROOT", str(tmp_path / "images")))
    began = time.monotonic()
    printed = finish(start(TRAIN, "train", config, "-o", whole))
    usual = time.monotonic() - began
    moments = random.Random(4)
    for _ in range(KILLS):
        run = start(TRAIN, "train", config, "-o", killed, "--resume")
        kill_after(run, usual * moments.uniform(0.3, 0.6))
        if (killed / "last.pt").exists():
            torch.load(killed / "last.pt", weights_only=True)
    assert finish(start(TRAIN, "train", config, "-o", killed, "--resume")) == printed
    states = [torch.load(run / "last.pt", weights_only=True)["model"] for run in (whole, killed)]
    assert all(torch.equal(value, states[1][name]) for name, value in states[0].items())
    names = [sorted(file.name for file in run.iterdir()) for run in (whole, killed)]
    assert names[0] == names[1]
