"""Nothing in a file is run."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

import truerank
from tests.fuzz.escapes import EMBEDDINGS, LABELS, Escapes, evaluate, saved
from truerank.io.reading import read


class Malicious:
    """Unpickled, it makes a folder."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (str(self.marker),))


def _poisoned(marker: Path) -> dict[str, bytes]:
    """Files of every kind that hold a pickle, by the name they go under."""
    bomb = Malicious(marker)
    objects = np.array([[bomb, bomb]], object)
    array = saved(lambda file: np.save(file, objects, allow_pickle=True))
    files = {
        "objects.npy": array,
        "header.npy": array[: array.index(b"\n") + 1] + pickle.dumps(bomb),
        "objects.npz": saved(lambda file: np.savez(file, embeddings=objects)),
        "labels.npz": saved(lambda file: np.savez(file, embeddings=EMBEDDINGS, labels=objects)),
        "header.task": saved(lambda file: np.savez(file, header=objects)),
        "codes.task": saved(lambda file: np.savez(file, header=np.zeros(2, "u1"), a=objects)),
        "object.pt": saved(lambda file: torch.save(bomb, file)),
        "dict.pt": saved(lambda file: torch.save({"embeddings": bomb}, file)),
        "key.pt": saved(lambda file: torch.save({"x": torch.ones(2, 2), "more": [bomb]}, file)),
        "legacy.pt": saved(
            lambda file: torch.save(bomb, file, _use_new_zipfile_serialization=False)
        ),
        "legacy.pth": saved(
            lambda file: torch.save([bomb], file, _use_new_zipfile_serialization=False)
        ),
    }
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        plain = pickle.dumps(bomb, protocol)
        for suffix in ("npy", "npz", "pt", "pth", "safetensors", "parquet", "csv", "task", "pkl"):
            files[f"pickle{protocol}.{suffix}"] = plain
    for name in ("member.npz", "member.pt", "member.task"):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for member in ("embeddings.npy", "header.npy", "archive/data.pkl", "data.pkl"):
                archive.writestr(member, pickle.dumps(bomb, 2))
        files[name] = buffer.getvalue()
    return files


def test_nothing_in_a_file_is_run(tmp_path: Path) -> None:
    escapes = Escapes()
    marker = tmp_path / "marker"
    folder = tmp_path / "files"
    folder.mkdir()
    labels = tmp_path / "labels.csv"
    labels.write_text("\n".join(LABELS))
    np.save(tmp_path / "whole.npy", EMBEDDINGS)
    poisoned = _poisoned(marker)
    for name, content in poisoned.items():
        path = folder / name
        path.write_bytes(content)
        for action in (
            lambda path=path: evaluate(path),
            lambda path=path: read(path, lone="labels"),
            lambda path=path: truerank.Task.load(path),
            lambda path=path: truerank.Result.from_json(path),
        ):
            escapes.attempt(name, action)
            assert not marker.exists(), f"{name} ran its code"
        escapes.command(name, "evaluate", path, "--labels", labels)
        escapes.command(name, "evaluate", tmp_path / "whole.npy", "--labels", path)
        escapes.command(name, "evaluate", tmp_path / "whole.npy", "--task", path)
        assert not marker.exists(), f"{name} ran its code"
    # The bait is live: unpickling it does make the folder.
    pickle.loads(poisoned["pickle2.pkl"])
    assert marker.exists()
    escapes.assert_none(4 * len(poisoned))
