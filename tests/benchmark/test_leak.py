"""Search and training hold no test row: whoever looks through the whole process finds none."""

from __future__ import annotations

import json
import pickle
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from tests.benchmark import leaking
from tests.benchmark.small import CLASSES, EACH, settings, write_drawings
from truerank import benchmark, datasets
from truerank.benchmark.splits import extract, make_splits
from truerank.datasets.base import ImageArray

SPY = Path(leaking.__file__)


def test_a_loss_a_sampler_and_a_log_that_look_everywhere_find_no_test_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write_drawings(tmp_path / "drawings.npz", mark="-".join(leaking.PARTS))
    with np.load(root) as arrays:
        tested = arrays["images"][CLASSES // 2 :].reshape(-1, 28 * 28)
    hashes = [sha256(row.tobytes()).hexdigest() for row in tested]
    (tmp_path / "hashes").write_text("\n".join(hashes))
    monkeypatch.setenv("TRUERANK_HASHES", str(tmp_path / "hashes"))
    monkeypatch.setenv("TRUERANK_FOUND", str(tmp_path / "found.jsonl"))
    spy = {
        "name": "spy", "file": str(SPY), "object": "Spy", "kind": "embedding",
        "search": {"margin": {"low": 0.1, "high": 1.0}},
    }  # fmt: skip
    config = settings(root, methods=[spy], protocol={"preset": "smoke", "trials": 2, "reruns": 1})
    with pytest.warns(UserWarning, match="not complete"):
        table = benchmark.run(config, tmp_path / "out")
    assert table is not None
    looks = [json.loads(line) for line in (tmp_path / "found.jsonl").read_text().splitlines()]
    assert [seen for _, seen in looks] == [[]] * len(looks)
    assert [who for who, _ in looks] == ["sampler", "loss", "log"] + ["loss"] * (2 * 2 + 2 * 2 - 1)


def test_the_spy_sees_what_is_there() -> None:
    """Here, where the whole data set is, its search finds pixels, labels and ids."""
    mark = "-".join(leaking.PARTS)
    pixels = np.arange(18, dtype=np.uint8).reshape(2, 3, 3)
    data = datasets.Dataset(
        "secret", pixels, [f"a {mark}", "b"], ("class",), ids=[f"i {mark}", "j"]
    )
    hidden = sha256(pixels[0].tobytes()).hexdigest()
    assert {"pixels", f"a {mark}", f"i {mark}"} <= set(leaking.found({hidden}, 9))
    assert len(data) == 2


def test_a_half_that_is_taken_out_has_no_way_back(tmp_path: Path) -> None:
    root = write_drawings(tmp_path / "drawings.npz")
    with pytest.warns(UserWarning, match="not complete"):
        data = datasets.read("quickdraw", root)
    splits = make_splits(data, "classes", 2)
    half = extract(data, splits.search)
    sent = pickle.dumps(half)
    for label in set(data.labels[splits.test].tolist()):
        assert label.encode() not in sent
    assert isinstance(half.images, ImageArray)
    assert half.images.array.base is None
    assert len(half) == 16 * EACH
