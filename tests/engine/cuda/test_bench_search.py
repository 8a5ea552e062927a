"""python -m bench.search in its small form: what a GPU runs at full size, on torch's CPU device."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from bench import search

from truerank.distance.catalogue import build
from truerank.distance.cosine import SourcedCosine
from truerank.task.relevance import Exclusions, LabelView


@pytest.mark.slow
def test_the_small_form_runs_and_checks_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    search.main(["--small", "--out", str(tmp_path)])
    rows = json.loads((tmp_path / "search.json").read_text())
    assert len(capsys.readouterr().out.splitlines()) == len(rows) + 2
    assert "float64, 32 queries: equal counts" in [row["what"] for row in rows]
    assert {row["case"] for row in rows if "torch.topk" in row["what"]} == {
        "cosine, 200 x 200 x 32",
        "euclidean, 50 x 2,000 x 32",
    }


def test_a_difference_stops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "by_query", lambda blocks, rows: {0: len(blocks[0].rows)})
    with pytest.raises(SystemExit, match="differ"):
        search.main(["--small", "--only", "large"])


def test_rows_follow_from_their_numbers_alone() -> None:
    source = search.HashedRows(10, 400, 6)
    some = np.array([399, 0, 17, 390, 10])
    made = source.send(torch.from_numpy(some))
    np.testing.assert_array_equal(made.numpy(), source.read(some))
    np.testing.assert_array_equal(source.read(np.arange(400))[some], source.read(some))
    assert source.made == 5
    spread = search.hashed(np.arange(4000), np.arange(6))
    assert abs(spread.mean()) < 500
    assert abs(spread.std() / (65536 * np.sqrt(4 / 12)) - 1) < 0.02
    assert np.abs(np.corrcoef(spread.T) - np.eye(6)).max() < 0.06


def test_counts_of_the_source_are_those_of_its_rows() -> None:
    source = search.HashedRows(10, 800, 16)
    bench = search.Bench(True, None)
    view = LabelView(np.arange(10), source.labels(), Exclusions([], [], None))
    assert view.mates.tolist() == [search.MATES] * 10
    sourced = list(search.counted(bench, view, SourcedCosine(source.queries(), source)))
    held = build("cosine", source.queries(), source.read(np.arange(800)))
    everyone = np.arange(10)
    tile = held.block(everyone)(0, 800)
    for query, (before, size) in search.by_query(sourced, everyone).items():
        mates = np.sort(tile[query, source.labels() == query])
        assert before == [int((tile[query] < at).sum()) for at in mates]
        assert size == [1] * search.MATES
