"""Pictures show what the code gives today: a report's scores, and the numbers of plots."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import truerank
from truerank.cli import demonstration

ROOT = Path(__file__).parents[2]


def script(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    assert spec.loader is not None
    spec.loader.exec_module(module)
    return module


def test_the_picture_of_a_report_has_the_demos_scores() -> None:
    """It is what scripts/picture_report.py draws, and its scores are those of today."""
    with Image.open(ROOT / "docs/img/report.png") as picture:
        held = dict(picture.text)
    source = (ROOT / "scripts/picture_report.py").read_bytes()
    assert held["script"] == hashlib.sha256(source).hexdigest()
    data, scores = truerank.datasets.emoji(), json.loads(held["scores"])
    assert len(scores) == 10
    for place, model in enumerate(demonstration.MODELS):
        task = data.task(model, hierarchy=True)
        found = truerank.evaluate(**task, metrics=list(scores), confidence=None)
        assert [shown[place] for shown in scores.values()] == [
            f"{100 * score.value:.2f}" for score in found.values()
        ]


def test_the_pictures_of_plots_are_those_that_the_script_drew() -> None:
    draw = script("draw_plots")
    kept = json.loads(draw.NUMBERS.read_text(encoding="utf-8"))
    assert kept["script"] == draw.digest(), "run scripts/draw_plots.py"
    shown = {f"plots/{picture}" for _, picture in draw.blocks() if picture is not None}
    page = draw.PAGE.read_text(encoding="utf-8")
    assert shown == set(re.findall(r"\.\./img/(plots/[^)]+)", page))
    assert {*shown, "overview.png"} == set(kept["pictures"])
    content = {name: (draw.IMAGES / name).read_bytes() for name in kept["pictures"]}
    for name, one in kept["pictures"].items():
        assert hashlib.sha256(content[name]).hexdigest() == one["picture"], name
    assert sum(map(len, content.values())) < 1_500_000


@pytest.mark.parametrize("name", ["ties_picture", "toy_spaces"])
def test_the_pictures_of_concepts_are_those_that_their_scripts_draw(name: str) -> None:
    drawing = script(f"draw_{name}")
    assert drawing.TARGET.read_text(encoding="utf-8") == drawing.picture()


def test_the_readme_has_the_numbers_of_the_picture_of_ties() -> None:
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    stated = re.search(r"a mAP of ([\d.]+) % or ([\d.]+) % .*? the best, ([\d.]+) % and", readme)
    assert stated is not None
    drawn = (ROOT / "docs/img/ties.svg").read_text(encoding="utf-8")
    assert all(f"{number} %" in drawn for number in stated.groups())


@pytest.mark.slow
def test_the_pictures_of_plots_show_the_numbers_of_today() -> None:
    pytest.importorskip("matplotlib")
    draw = script("draw_plots")
    kept = json.loads(draw.NUMBERS.read_text(encoding="utf-8"))["pictures"]
    drawn = {name: draw.numbers(figure) for name, figure in draw.figures()}
    assert list(drawn) == list(kept)
    for name, axes in drawn.items():
        for now, before in zip(axes, kept[name]["numbers"], strict=True):
            assert now["texts"] == before["texts"], name
            for column in ("means", "bars"):
                assert np.allclose(now[column], before[column], atol=1e-3), name
