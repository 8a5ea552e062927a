"""A card says of thresholds what choose_threshold and brute force say."""

from __future__ import annotations

import json
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import truerank
from tests.cli import driving
from truerank import InputError, ThresholdCard, threshold_card

RNG = np.random.default_rng(3)
LABELS = np.repeat(np.arange(12), 5)
CENTRES = RNG.normal(size=(24, 8))
ROWS = CENTRES[LABELS] + 0.6 * RNG.normal(size=(60, 8))
OTHERS = CENTRES[LABELS + 12] + 0.6 * RNG.normal(size=(60, 8))


def cosine(rows: np.ndarray, items: np.ndarray) -> np.ndarray:
    a, b = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (rows, items))
    return 1 - a @ b.T


def missed(others: int, near: int, drawn: int) -> float:
    return comb(others - near, drawn) / comb(others, drawn)


def test_thresholds_and_further_sets_are_those_of_choose_threshold() -> None:
    card = threshold_card(ROWS, LABELS, fars=["0.1", 0.01], further={"others": (OTHERS, LABELS)})
    for place, far in enumerate(("0.1", "0.01")):
        whole = truerank.choose_threshold(ROWS, LABELS, far=far)
        assert card.points[place] == whole
        kept = truerank.choose_threshold(ROWS, LABELS, far=far, apply=OTHERS, apply_labels=LABELS)
        assert card.further["others"][place].values == kept.values
        assert card.growth[place][-1].dir == whole.values["dir"]


def test_false_accepts_grow_as_the_law_says() -> None:
    card = threshold_card(ROWS, LABELS, fars=[0.02], gallery_sizes=[6, 30, 60])
    tau = float(card.points[0].decimal)
    far = cosine(ROWS, ROWS)
    near = [int(np.sum(far[q, labels_differ(q)] <= tau)) for q in range(60)]
    for one in card.growth[0]:
        drawn = round(55 * one.size / 60)
        truth = np.mean([1 - missed(55, a, drawn) for a in near])
        assert one.far == pytest.approx(truth, abs=1e-12)
    assert [one.size for one in card.growth[0]] == [6, 30, 60]


def test_rates_at_gallery_sizes_have_intervals() -> None:
    """Those of the law; without a gallery every row is a stranger, of the class that it leaves."""
    card = threshold_card(ROWS, LABELS, fars=[0.1], gallery_sizes=[10, 60])
    tau = card.points[0].decimal
    alone: Any = {"query_groups": np.zeros(60, np.int64), "unmated": "zero"}
    sizes: Any = {"gallery_sizes": [10, 60]}
    strangers = truerank.evaluate(ROWS, LABELS, metrics=[f"far@tau={tau}"], **alone, **sizes)
    found = truerank.evaluate(ROWS, LABELS, metrics=[f"dir@tau={tau}"], **sizes)
    for one in card.growth[0]:
        assert one.far_interval == strangers.at_gallery(one.size)[f"far@tau={tau}"].interval
        assert one.dir_interval == found.at_gallery(one.size)[f"dir@tau={tau}"].interval
        for value, ends in ((one.far, one.far_interval), (one.dir, one.dir_interval)):
            assert value is not None
            assert ends is not None
            assert ends[0] <= value <= ends[1]
            told = f"{100 * value:.3g} ({100 * ends[0]:.3g} to {100 * ends[1]:.3g})"
            assert told in card.to_text()
    saved = card.to_dict()["gallery_sizes"][0][0]
    assert saved["far_interval"] == card.growth[0][0].far_interval
    few = threshold_card(ROWS[:25], LABELS[:25], fars=[0.1], gallery_sizes=[10])
    assert few.growth[0][0].far_interval is few.growth[0][0].dir_interval is None


def labels_differ(query: int) -> np.ndarray:
    return LABELS[query] != LABELS


def test_with_a_gallery_strangers_are_those_who_are_not_in_it() -> None:
    queries = np.concatenate([ROWS[::5], OTHERS[::5]])
    labels = np.concatenate([LABELS[::5], LABELS[::5] + 12])
    inside = np.arange(60) % 5 > 0
    given = {"gallery": ROWS[inside], "gallery_labels": LABELS[inside]}
    card = threshold_card(queries, labels, fars=[0.25], **given, gallery_sizes=[4, 48])
    tau = float(card.points[0].decimal)
    near = (cosine(OTHERS[::5], ROWS[inside]) <= tau).sum(axis=1)
    truth = np.mean([1 - missed(48, int(a), 4) for a in near])
    assert card.growth[0][0].far == pytest.approx(truth, abs=1e-12)
    assert card.growth[0][1].far == card.points[0].values["far"]
    assert "unmated queries" in card.to_text()


def card_of(names: Any = LABELS) -> ThresholdCard:
    return threshold_card(ROWS, names, fars=[0.1], title="<i>doors</i>")


def test_a_page_runs_nothing_and_shows_names_as_text(tmp_path: Path) -> None:
    card = card_of([f"<script>alert({label})</script>" for label in LABELS])
    card.write(tmp_path / "card.html")
    page = (tmp_path / "card.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "<i>" not in page
    assert "&lt;script&gt;alert(" in page
    assert "default-src 'none'" in page
    for title in ("Thresholds", "As the gallery grows", "Classes served worst"):
        assert f"<h2>{title}</h2>" in page


def test_every_ending(tmp_path: Path) -> None:
    card = card_of()
    for ending in (".md", ".txt", ".json"):
        card.write(tmp_path / f"card{ending}")
    assert "## As the gallery grows" in (tmp_path / "card.md").read_text(encoding="utf-8")
    assert card.points[0].decimal in (tmp_path / "card.txt").read_text(encoding="utf-8")
    held = json.loads((tmp_path / "card.json").read_text(encoding="utf-8"))
    assert held["points"][0]["decimal"] == card.points[0].decimal
    assert held["gallery_sizes"][0][-1]["far"] == card.growth[0][-1].far
    with pytest.raises(InputError, match=r"\.html, \.md, \.txt or \.json\. Got 'card\.pdf'"):
        card.write(tmp_path / "card.pdf")


def test_refusals() -> None:
    with pytest.raises(InputError, match="'fars' parameter must be rates"):
        threshold_card(ROWS, LABELS, fars="0.1")
    with pytest.raises(InputError, match="at least one FAR target"):
        threshold_card(ROWS, LABELS, fars=[])
    with pytest.raises(InputError, match="gallery_sizes has 61"):
        threshold_card(ROWS, LABELS, fars=[0.1], gallery_sizes=[61])
    further: Any = [OTHERS, LABELS]
    with pytest.raises(InputError, match="'further' parameter must be a mapping"):
        threshold_card(ROWS, LABELS, fars=[0.1], further=further)


def test_the_command(tmp_path: Path) -> None:
    np.savez(tmp_path / "calib.npz", embeddings=ROWS, labels=LABELS)
    np.savez(tmp_path / "other.npz", embeddings=OTHERS, labels=LABELS)
    given = ["threshold", str(tmp_path / "calib.npz"), "--far", "0.1,0.01"]
    more = ["--further", str(tmp_path / "other.npz"), "--gallery-sizes", "10,60"]
    run = driving.run(*given, "--card", tmp_path / "card.html", *more)
    assert run.status == 0, run
    assert "On further sets" in run.out
    assert "<h2>On further sets</h2>" in (tmp_path / "card.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--card", "card.pdf"], "--card writes .html, .md, .txt or .json here"),
        (["--card", "card.html", "-o", "x.json"], "--card goes with --far alone"),
        (["--further", "calib.npz"], "go with --card"),
    ],
)
def test_options_that_do_not_fit(
    options: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("calib.npz", embeddings=ROWS, labels=LABELS)
    run = driving.run("threshold", "calib.npz", "--far", "0.1", *options)
    assert sentence in run.complaint()
