"""A folder with the files that a person would have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import truerank
from tests.files.samples import CLASSES, EMBEDDINGS, FAMILIES, GROUPS, IDS, LABELS, ROWS


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Read-only by convention: tests write to their own tmp_path."""
    folder = tmp_path_factory.mktemp("data")
    np.save(folder / "embeddings.npy", EMBEDDINGS)
    (folder / "labels.csv").write_text("label\n" + "\n".join(LABELS) + "\n")
    rows = [
        f"{label},{family},{group},{name}"
        for label, family, group, name in zip(LABELS, FAMILIES, GROUPS, IDS, strict=True)
    ]
    (folder / "all.csv").write_text("\n".join(["label,level1,group,id", *rows]) + "\n")
    # Odd rows search even rows: every class is on both sides and no row is on both.
    for name, part in (("query", slice(1, None, 2)), ("gallery", slice(0, None, 2))):
        np.save(folder / f"{name}.npy", EMBEDDINGS[part])
        (folder / f"{name}.csv").write_text("\n".join(LABELS[part]) + "\n")
    names = [f"image-{row:03d}" for row in range(ROWS)]
    truerank.Task(LABELS, ids=names).save(folder / "hidden.task")
    shuffled = np.random.default_rng(3).permutation(ROWS)
    np.savez(
        folder / "submission.npz", embeddings=EMBEDDINGS[shuffled], ids=np.array(names)[shuffled]
    )
    np.save(folder / "integers.npy", CLASSES)
    return folder
