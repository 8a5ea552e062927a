"""The quick forms that train, from a data file to a page, and again from what they left behind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from studies.page import read_page
from studies.runner import run

from tests.benchmark.small import write_drawings


def emoji(path: Path) -> Path:
    """More classes than the tree's own: drawings that can be told apart, in four designs."""
    rng = np.random.default_rng(0)
    labels, images = [], []
    for n in range(160):
        shape = rng.integers(0, 256, (6, 6, 3))
        for _ in range(4):
            noisy = shape + rng.normal(0, 40, shape.shape)
            images.append(np.kron(np.clip(noisy, 0, 255), np.ones((8, 8, 1))).astype(np.uint8))
            labels.append((f"c{n // 40}", f"s{n // 8:02}", f"emoji{n:03}"))
    families = np.array([f"family{n % 4}" for n in range(640)])
    np.savez(path, images=np.array(images), families=families, labels=np.array(labels))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("paper", ["gom", "happier", "tcm"])
@pytest.mark.filterwarnings("ignore::truerank.TruerankWarning")
def test_a_page_from_images(paper: str, tmp_path: Path) -> None:
    files = {
        "emoji": emoji(tmp_path / "emoji.npz"),
        "quickdraw": write_drawings(tmp_path / "drawings.npz"),
    }
    folder = tmp_path / "out"
    assert run(paper, folder, quick=True, jobs=2, time_limit=5.0, data=files) is None
    page = run(paper, folder, quick=True, resume=True, jobs=2, data=files)
    assert page is not None
    assert page.quick
    assert all(claim.evidence for claim in page.claims)
    assert read_page(folder / f"{paper}.json").to_dict() == page.to_dict()
    text = (folder / f"{paper}.md").read_text()
    assert str(tmp_path) not in text
    for file in folder.glob("*/runs/*/*/*/best.pt"):
        file.unlink()
    again = run(paper, folder, quick=True, resume=True)  # without data, and without models
    assert again is not None
    assert again.to_markdown() == page.to_markdown()
