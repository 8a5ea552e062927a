"""The study of the Reality Check, from the table of a benchmark to a page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from studies import reality_check
from studies.claims import IN_DIRECTION, NOT_REPRODUCED, REPRODUCED, UNDECIDED
from studies.runner import run

from truerank._util.errors import InputError


def score(mean: float) -> dict[str, Any]:
    return {"mean": mean, "interval": [mean - 0.01, mean + 0.01], "n": 5, "values": [mean] * 5}


def table(verdicts: tuple[str, str] = ("flat", "flat"), searched: float = 0.1) -> dict[str, Any]:
    rows = [
        {
            "method": name, "name": name.title(), "parameters": {"margin": 0.1}, "notes": [],
            "concatenated": {"map@r": score(mean)}, "separated": {"map@r": score(mean)},
            "default": {"separated": {"map@r": score(mean / 2)}, "concatenated": {}},
            "ranks": {"separated": [1, 2], "concatenated": [1, 2]},
        }
        for name, mean in (("contrastive", 0.3), ("arcface", 0.31))
    ]  # fmt: skip
    plain = {"method": "untrained", "name": "Untrained", "concatenated": {}, "separated": {}}
    parts = ("concatenated", "separated")
    found = {
        part: {"verdict": word, "best": "arcface", "gain": 0.03, "interval": [-0.01, 0.07]}
        for part, word in zip(parts, verdicts, strict=True)
    }
    spread = {part: {"searched": {"relative": searched}, "default": {"relative": 0.5}}
              for part in parts}  # fmt: skip
    return {
        "title": "drawings, convnet", "metric": "map@r", "trials": 25, "folds": 4, "reruns": 5,
        "preset": "standard", "seed": 0, "rows": [plain, *rows], "verdict": found,
        "spread": spread, "openings": {"count": 9, "second_looks": 0, "head": "a" * 64},
    }  # fmt: skip


def test_a_page_from_a_finished_benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reality_check, "random_scores", lambda rows, classes: {
        metric: 0.1 + classes / 1000 if metric == "nmi" else 0.05
        for metric in reality_check.RANDOM_METRICS
    })  # fmt: skip
    (tmp_path / "done").mkdir()
    (tmp_path / "done" / "table.json").write_text(json.dumps(table()))
    page = run("reality-check", tmp_path / "out", quick=True, data={"benchmark": tmp_path / "done"})
    assert page is not None
    assert {claim.key: claim.verdict for claim in page.claims} == {
        "a": REPRODUCED, "b": REPRODUCED, "c": REPRODUCED, "d": IN_DIRECTION,
    }  # fmt: skip
    assert (tmp_path / "out" / "reality-check" / "default-and-tuned.svg").is_file()
    assert str(tmp_path) not in (tmp_path / "out" / "reality-check.md").read_text()


@pytest.mark.parametrize(
    ("words", "verdict"),
    [
        (("not flat", "not flat"), NOT_REPRODUCED),
        (("flat", "not flat"), IN_DIRECTION),
        (("flat", "undecided"), UNDECIDED),
    ],
)
def test_the_benchmarks_own_rule(words: tuple[str, str], verdict: str) -> None:
    assert reality_check._flat(table(words)).verdict == verdict


def test_longer_trainings_are_told_where_there_are_some() -> None:
    """Two folds, ten epochs of 200 iterations: contrastive .2, softmax .3."""
    curves = {
        name: [[[epoch, 1.0, value] for epoch in range(11)] for value in (at - 0.1, at + 0.1)]
        for name, at in (("contrastive", 0.2), ("softmax", 0.3))
    }
    longer = {"iterations": 2000, "epoch": 200, "curves": curves}
    told = reality_check._flat(table(), longer).explanation
    assert "after 2,000 iterations" in told
    assert "contrastive 20.0; softmax 30.0 (+50 %)" in told


def test_tuning_that_narrows_nothing_is_not_reproduced() -> None:
    assert reality_check._tuned(table(searched=0.6)).verdict == NOT_REPRODUCED


def test_random_rows_have_a_high_nmi_in_small_classes() -> None:
    found = reality_check.random_scores(300, 100)
    assert found["nmi"] > 0.6
    assert abs(found["ami"]) < 0.2
    assert found["map@r"] < 0.1


def test_what_is_no_finished_benchmark_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--data benchmark=FOLDER"):
        run("reality-check", tmp_path / "a", quick=True)
    (tmp_path / "table.json").write_text("{}")
    with pytest.raises(InputError, match="no table of a finished benchmark"):
        run("reality-check", tmp_path / "b", quick=True, data={"benchmark": tmp_path})
