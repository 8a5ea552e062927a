"""What the test split's scores are computed from: embeddings of each fold, side by side, PCAs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import truerank
from truerank import datasets
from truerank.benchmark.tasks import fit_pca, project
from truerank.result.result import Result


def units(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.filterwarnings("ignore::truerank.TruerankWarning")
def test_concatenated_are_the_unit_embeddings_of_all_folds(uninterrupted: Path) -> None:
    """Computed again from the checkpoints of a rerun, by the public interface."""
    data = datasets.read("quickdraw", uninterrupted.parent / "drawings.npz")
    test = json.loads((uninterrupted / "splits.json").read_text())["test"]
    chosen = np.flatnonzero(np.isin(data.ids, test))
    assert len(chosen) == len(test)
    images = data.subset(chosen).images
    labels = data.fine_labels[chosen]
    [folder, *_] = sorted(uninterrupted.glob("runs/arcface/rerun-0"))
    parts = []
    for fold in sorted(folder.glob("fold-*")):
        rows = truerank.training.embed(fold / "best.pt", images)
        alone = truerank.evaluate(rows, labels, metrics="map@r")["map@r"].value
        kept = Result.from_json(fold / "result.json")["map@r"].value
        assert alone == pytest.approx(kept, abs=1e-9)
        parts.append(units(np.asarray(rows, dtype=np.float64)))
    together = truerank.evaluate(np.hstack(parts), labels, metrics="map@r")["map@r"].value
    kept = Result.from_json(folder / "concat.json")["map@r"].value
    assert together == pytest.approx(kept, abs=1e-9)


def test_pca_of_untrained_features_is_that_of_a_decomposition() -> None:
    rng = np.random.default_rng(0)
    fitted = rng.normal(size=(60, 12)) * np.linspace(1, 4, 12)
    seen = rng.normal(size=(20, 12)).astype(np.float32)
    found = project(fit_pca(fitted.astype(np.float32), 5), seen)
    rows = units(fitted.astype(np.float32).astype(np.float64))
    _, _, directions = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
    wanted = (units(seen.astype(np.float64)) - rows.mean(axis=0)) @ directions[:5].T
    assert found.shape == (20, 5)
    np.testing.assert_allclose(np.abs(found), np.abs(wanted), atol=1e-9)
