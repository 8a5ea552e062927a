"""What a result says of galleries of other sizes."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import truerank
from tests import quiet, results
from tests.cli import driving
from truerank import InputError, Result
from truerank.result.gallery_sizes import check_sizes

LABELS = np.repeat(np.arange(15), 4)
_RNG = np.random.default_rng(4)
ROWS = (_RNG.normal(size=(15, 5))[LABELS] * 2 + _RNG.normal(size=(60, 5))).round()


def evaluated(**options: Any) -> Result:
    return quiet.evaluate(ROWS, LABELS, **({"gallery_sizes": (10, 30, 60)} | options))


def test_the_whole_gallery_has_the_scores_themselves() -> None:
    result = evaluated()
    whole = result.at_gallery(60)
    assert list(whole) == list(result)
    assert all(whole[name] is result[name] for name in result)


def test_scores_fall_as_the_gallery_grows() -> None:
    result = evaluated()
    for name in result:
        values = [result.at_gallery(size)[name].value for size in result.gallery_sizes]
        assert values == sorted(values, reverse=True)


def test_read_back_from_json(tmp_path: Any) -> None:
    import jsonschema

    result = evaluated(metrics=["map", "hit@5", "ndcg", "auc"])
    jsonschema.validate(result.to_dict(), results.SCHEMA)
    result.to_json(tmp_path / "result.json")
    again = Result.from_json(tmp_path / "result.json")
    assert again.to_json() == result.to_json()
    assert again.gallery_sizes == (10, 30, 60)
    for size in again.gallery_sizes:
        one, other = again.at_gallery(size), result.at_gallery(size)
        assert one.skipped == other.skipped != {}
        for name, score in one.items():
            assert (score.value, score.interval, score.replicates) == (
                other[name].value,
                other[name].interval,
                other[name].replicates,
            )
    assert again.curve("growth")["map"].tolist() == result.curve("growth")["map"].tolist()


def test_a_result_at_a_size_is_a_result() -> None:
    import jsonschema

    part = evaluated().at_gallery(10)
    jsonschema.validate(part.to_dict(), results.SCHEMA)
    assert "galleries of 10 of the 60 items" in str(part)
    assert part["cmc@5"] is part["hit@5"]
    assert len(part.by("label")) == 15


def test_metrics_without_a_law_say_why() -> None:
    result = evaluated(metrics=["map", "ndcg", "auc", "nmi"])
    skipped = result.at_gallery(10).skipped
    assert list(skipped) == ["ndcg", "auc", "nmi"]
    assert "grades" in skipped["ndcg"]
    assert "pairs" in skipped["auc"]
    assert "clusters" in skipped["nmi"]


def test_the_curve_has_scores_ties_and_intervals() -> None:
    curve = evaluated(metrics=["map", "hit@1"]).curve("growth")
    assert list(curve) == [
        *("size", "map", "map expected", "map upper", "map low", "map high", "hit@1"),
        *("hit@1 expected", "hit@1 upper", "hit@1 low", "hit@1 high"),
    ]
    assert curve["size"].tolist() == [10, 30, 60]
    assert (curve["map low"] < curve["map"]).all()


def test_levels_and_their_mean() -> None:
    levels = np.column_stack([LABELS // 3, LABELS])
    names = ["map", "map@level=1", "map@level=mean"]
    result = truerank.evaluate(ROWS, levels, metrics=names, gallery_sizes=[20], units="finest")
    at = result.at_gallery(20)
    assert at["map@level=mean"].value == (at["map"].value + at["map@level=1"].value) / 2
    assert at["map"].interval is not None
    assert "relevant items" in (at["map@level=1"].interval_reason or "")


def test_small_sets_are_not_sampled() -> None:
    """Of 360 queries all moves are known: the error is that of evaluations without each class."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(60), 6)
    rows = rng.normal(size=(60, 16))[labels] + 1.2 * rng.normal(size=(360, 16))
    score = truerank.evaluate(rows, labels, metrics="hit@1", gallery_sizes=[359]).at_gallery(359)
    found = score["hit@1"].replicates
    assert found.noise == 0
    truth = []
    for left in range(60):
        kept = labels != left
        part = truerank.evaluate(
            rows[kept], labels[kept], metrics="hit@1", gallery_sizes=[353], confidence=None
        )
        truth.append(part.at_gallery(353)["hit@1"].value)
    error = np.std(truth, ddof=1) * 59 / np.sqrt(60)
    assert found.standard_error() == pytest.approx(error, rel=1e-3)


def test_a_gallery_of_its_own_has_intervals() -> None:
    rng = np.random.default_rng(0)
    queries = rng.normal(size=(40, 5))
    result = truerank.evaluate(
        queries, np.arange(40), gallery=ROWS, gallery_labels=np.arange(60) % 40, gallery_sizes=[20]
    )
    score = result.at_gallery(20)["map"]
    assert score.interval is not None
    assert score.interval[0] < score.value < score.interval[1]


def test_false_accepts_alone_are_those_beside_another_metric() -> None:
    """Of unmated queries only: no relevant item contributes to a sum."""
    given = {"gallery": ROWS[:40:2], "gallery_labels": LABELS[:40:2], "gallery_sizes": (5, 20)}
    alone = quiet.evaluate(ROWS[1::2], LABELS[1::2], metrics=["far@tau=0.1"], **given)
    both = quiet.evaluate(ROWS[1::2], LABELS[1::2], metrics=["far@tau=0.1", "hit@1"], **given)
    for size in (5, 20):
        found, wanted = (one.at_gallery(size)["far@tau=0.1"] for one in (alone, both))
        assert found.value == wanted.value
        assert found.interval == wanted.interval


def test_sizes_that_nobody_evaluated() -> None:
    with pytest.raises(InputError, match=r"no scores at a gallery of 11 items; there are 10, 30"):
        evaluated().at_gallery(11)
    with pytest.raises(InputError, match="there are none"):
        evaluated(gallery_sizes=()).at_gallery(10)


@pytest.mark.parametrize("wrong", [0, -3, 2.5, True, "9", None, [3]])
def test_what_is_no_size(wrong: Any) -> None:
    with pytest.raises(InputError, match="gallery_sizes"):
        check_sizes([5, wrong], 60)
    with pytest.raises(InputError, match="gallery_sizes"):
        check_sizes("10,20", 60)


def test_larger_sizes_are_refused() -> None:
    with pytest.raises(InputError, match="gallery_sizes has 61, and the gallery has 60 items"):
        evaluated(gallery_sizes=[61])


def test_the_command_shows_sizes_and_what_a_fit_expects(tmp_path: Any) -> None:
    np.savez(tmp_path / "x.npz", embeddings=ROWS, labels=LABELS)
    given = ("evaluate", tmp_path / "x.npz", "-m", "map,mrr", "--gallery-sizes", "10, 30")
    run = driving.run(*given, "--extrapolate", "600", "-o", tmp_path / "result.json")
    assert run.status == 0, run
    assert "Exact means over all smaller galleries" in run.out
    assert "EXTRAPOLATED to a gallery of 600 from one of 60 items" in run.out
    saved = Result.from_json(tmp_path / "result.json")
    assert {10, 30, 60} < set(saved.gallery_sizes)
    [header] = [line for line in run.out.splitlines() if line.split()[:2] == ["metric", "10"]]
    assert header.split() == ["metric", "10", "30"]  # not those that the fit needs besides
    alone = driving.run(*given[:4], "--extrapolate", "600")
    assert "EXTRAPOLATED" in alone.out
    assert "Columns: items in the gallery" not in alone.out
    score = saved.at_gallery(10)["map"]
    assert f"{100 * score.value:.2f}" in run.out
    assert " to ".join(f"{100 * end:.2f}" for end in score.interval or ()) in run.out


def test_the_table_of_sizes_shows_intervals_below_scores() -> None:
    result = evaluated(metrics=["map", "hit@1", "auc"])
    lines = result.growth_text().splitlines()
    assert lines[0].split() == ["metric", "10", "30", "60"]
    for place, (name, shown) in enumerate({"map": "mAP", "hit@1": "Recall@1 (hit@1)"}.items()):
        scores = [result.at_gallery(size)[name] for size in (10, 30, 60)]
        above, below = lines[1 + 2 * place : 3 + 2 * place]
        assert above.split() == [*shown.split(), *(f"{100 * score.value:.2f}" for score in scores)]
        ends = [
            f"{100 * low:.2f} to {100 * high:.2f}" for low, high in (s.interval for s in scores)
        ]
        assert " ".join(below.split()) == " ".join(["95 % interval", *ends])
    without = evaluated(metrics="map", confidence=None).growth_text()
    assert "interval" not in without


def test_why_a_smaller_gallery_has_no_interval_is_said_once() -> None:
    result = evaluated(metrics="map")
    at = result._at_sizes[10]
    score = dataclasses.replace(at.scores["map"], interval=None, interval_reason="too few")
    result._at_sizes[10] = dataclasses.replace(at, scores={"map": score})
    assert "No interval for mAP at 10: too few." in result.growth_text()
    few = quiet.evaluate(ROWS[:12], LABELS[:12], metrics="map", gallery_sizes=(5, 10))
    assert few["map"].interval_reason is not None
    assert "No interval" not in few.growth_text()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--gallery-sizes", "10,x"), "--gallery-sizes takes whole numbers"),
        (("--gallery-sizes", "61"), "gallery_sizes has 61"),
        (("--extrapolate", "60"), "more than the 60 items"),
        (("--extrapolate", "0"), "--extrapolate takes whole numbers"),
    ],
)
def test_options_that_no_gallery_has(options: Any, sentence: str, tmp_path: Any) -> None:
    np.savez(tmp_path / "x.npz", embeddings=ROWS, labels=LABELS)
    assert sentence in driving.run("evaluate", tmp_path / "x.npz", *options).complaint()


def test_a_task_tells_sizes_in_the_full_result_alone(tmp_path: Any) -> None:
    """Scores at many sizes are as good as a curve: the public result holds none."""
    task = truerank.Task(LABELS)
    task.save(tmp_path / "hidden.task")
    np.savez(tmp_path / "x.npz", embeddings=ROWS)
    given = ("evaluate", tmp_path / "x.npz", "--task", tmp_path / "hidden.task", "-m", "map")
    sizes = ("--gallery-sizes", "10,30", "-o", tmp_path / "public.json")
    assert "the ranks of relevant items" in driving.run(*given, *sizes).complaint()
    run = driving.run(*given, *sizes, "--full", tmp_path / "full.json")
    assert run.status == 0, run
    full, public = (Result.from_json(tmp_path / f"{name}.json") for name in ("full", "public"))
    expected = evaluated(metrics="map").at_gallery(10)["map"].value
    assert full.at_gallery(10)["map"].value == expected
    assert f"{100 * expected:.2f}" not in run.out
    assert public.gallery_sizes == ()
    assert "gallery_sizes" not in (tmp_path / "public.json").read_text()
    fit = ("--extrapolate", "600", "--full", tmp_path / "other.json")
    assert "--extrapolate goes with labels" in driving.run(*given, *fit).complaint()
    with pytest.raises(InputError, match="the ranks of relevant items"):
        task.evaluate(ROWS, gallery_sizes=[10])
    again = task.evaluate(ROWS, metrics="map", gallery_sizes=[10], full=True)
    assert again.at_gallery(10)["map"].value == expected
