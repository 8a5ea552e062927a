"""`truerank train` as a process of its own: killed in two ways, and resumed."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.cli.driving import COMMAND, environment, run_process
from tests.training.sketches import sketches

CONFIG = """
data: {name: folder, root: ROOT}
model: {trunk: convnet, dimensions: 8}
augmentation: {resize: 28, crop: 28}
sampler: {classes: 8, samples: 2}
loss: {name: normalized_softmax}
optimiser: {name: adam, lr: 1e-3}
training: {epochs: 8, iterations: 5, patience: null, device: cpu}
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_process_goes_on_to_the_same_weights(number: int, tmp_path: Path) -> None:
    from PIL import Image

    data = sketches()
    for row in range(0, len(data), 2):
        path = tmp_path / "images" / str(data.labels[row]) / f"{row:03d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(data.images[row]).save(path)
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG.replace("ROOT", str(tmp_path / "images")))
    whole = run_process("train", config, "-o", tmp_path / "whole")
    assert whole.status == 0, whole

    parts = tmp_path / "parts"
    command = [*COMMAND, "train", str(config), "-o", str(parts)]
    process = subprocess.Popen(
        command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    for _ in range(3):  # before training, and two epochs
        assert process.stderr.readline().startswith("epoch "), process.communicate()
    process.send_signal(number)
    out, err = process.communicate(timeout=100)
    assert out == ""
    if number == signal.SIGTERM:
        assert process.returncode == 130
        assert f"the run is saved in {parts}; pass --resume to continue." in err
    resumed = run_process("train", config, "-o", parts, "--resume")
    assert resumed.status == 0, resumed
    assert resumed.out == whole.out
    states = [
        torch.load(tmp_path / name / "last.pt", weights_only=True) for name in ("whole", "parts")
    ]
    for name, value in states[0]["model"].items():
        assert torch.equal(value, states[1]["model"][name]), name
    embeddings = [
        np.load(tmp_path / name / "test.npz")["embeddings"] for name in ("whole", "parts")
    ]
    np.testing.assert_array_equal(*embeddings)
