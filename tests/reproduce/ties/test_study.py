"""The study of ties from a file to a page, on a few rows, by the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from studies import ties
from studies.__main__ import reproduce
from studies.page import read_page
from studies.runner import run
from studies.trained import Embeddings

from truerank._util.errors import InputError

TINY = ties.Size(orders=3, batches=2, random_sets=2, rows=60)


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of near-binary rows, and small sets in the place of the package's."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(20), 3)
    bits = rng.random((20, 24))[labels] < 0.3
    rows = np.abs(bits - 0.02 * rng.random(bits.shape)).astype(np.float32)
    np.savez(tmp_path / "words.npz", features=rows, labels=labels[None].astype(np.uint16))
    few = Embeddings("emoji, few", rows[:30], labels[:30])
    monkeypatch.setattr(ties, "emoji_embeddings", lambda: [few])
    monkeypatch.setattr(ties, "QUICK", TINY)
    monkeypatch.setattr(ties, "EACH", 20)
    return tmp_path / "words.npz"


def test_the_command_writes_page_figures_and_ledger(words: Path, tmp_path: Path) -> None:
    out, pages = tmp_path / "out", tmp_path / "pages"
    line = ["ties", "--quick", "--data", f"phocnet={words}", "-o", str(out)]
    done = CliRunner().invoke(reproduce, [*line, "--pages", str(pages)])
    assert done.exit_code == 0, done.output
    assert "(d)" in done.stdout
    page = read_page(pages / "ties.json")
    assert [claim.key for claim in page.claims] == ["a", "b", "c", "d"]
    assert {claim.key: claim.verdict for claim in page.claims}["d"] == "reproduced"
    for claim in page.claims:
        assert claim.rule
        assert claim.evidence
    bits = [value["bits"] for name, value in page.numbers["entries"].items() if "exact/" in name]
    assert bits == [0, 0]
    figures = ("tie-map-trained", "tie-map-random", "distances-and-relevance", "orders", "all-zero")
    drawn = {f"{name}.{suffix}" for name in figures for suffix in ("svg", "png")}
    assert {file.name for file in (pages / "ties").iterdir()} == drawn
    assert str(tmp_path) not in (pages / "ties.md").read_text() + (pages / "ties.json").read_text()
    again = CliRunner().invoke(reproduce, line)
    assert isinstance(again.exception, InputError)
    assert "resume it" in str(again.exception)


def test_it_stops_in_time_and_goes_on_where_it_was(
    words: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ties, "draw", lambda *given: [])  # figures have a test of their own
    given = {"phocnet": words}
    folder = tmp_path / "out"
    assert run("ties", folder, quick=True, data=given, time_limit=1e-9) is None
    page = run("ties", folder, quick=True, resume=True, data=given)
    assert page is not None
    whole = run("ties", tmp_path / "other", quick=True, data=given)
    assert whole is not None
    assert json.dumps(page.to_dict()) == json.dumps(whole.to_dict())
    with pytest.raises(InputError, match="holds a run of ties, quick"):
        run("ties", folder, resume=True, data=given)


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--data phocnet=FILE"):
        run("ties", tmp_path / "a", quick=True)
    with pytest.raises(InputError, match="must be one of ties"):
        run("knots", tmp_path / "b")
    with pytest.raises(InputError, match="'jobs' parameter"):
        run("ties", tmp_path / "c", jobs=0)


def test_data_without_a_name_are_refused() -> None:
    done = CliRunner().invoke(reproduce, ["ties", "--data", "file.npz"])
    assert done.exit_code == 2
    assert "is no NAME=FILE" in done.output
