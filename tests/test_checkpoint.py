"""Checkpoints: an evaluation stopped at any point goes on to the same bits, and never to others."""

from __future__ import annotations

import json
import os
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import truerank
from tests.conftest import Within
from truerank._util.checkpoint import Checkpoint, chapters
from truerank._util.settings import settings
from truerank._util.threads import TilePool
from truerank.engine import runner
from truerank.evaluation import evaluate

RNG = np.random.default_rng(0)
ROWS = RNG.integers(-3, 4, size=(120, 5)).astype(np.float32)
FINE = np.concatenate([np.arange(80) % 20, np.full(40, 20)])
TREE = np.column_stack([FINE // 7, FINE])
NO_TREE = np.column_stack([np.arange(120) % 4, FINE])  # a pass for each level
METRICS = ["map@r", "mrr", "precision@3"]


@pytest.fixture(autouse=True)
def _every_interrupt_counts(within: Within) -> None:
    within(settings(checkpoint_worth=0.0))


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles are handed out one at a time, so that each is reported before the next is begun."""
    share = TilePool._share_out

    def patient(self: TilePool, ahead: Any, *arguments: Any) -> Any:
        return share(self, deque([ahead.popleft()]), *arguments)

    monkeypatch.setattr(TilePool, "_share_out", patient)


def bits(result: truerank.Result) -> str:
    found = result.to_dict()
    ignored = {"seconds"}
    provenance = {k: v for k, v in found["provenance"].items() if k not in ignored}
    return json.dumps([found["scores"], provenance])


class Stop(KeyboardInterrupt):
    """Ctrl-C."""


def stopping_after(calls: int) -> Any:
    heard = []

    def progress(done: int, total: int) -> None:
        heard.append((done, total))
        if len(heard) == calls:
            raise Stop

    progress.heard = heard  # type: ignore[attr-defined]
    return progress


CASES = {
    "float64": {"method": "float64", "gallery_rows": 50, "query_rows": 60, "sort_share": 1.0},
    "filter": {"method": "filter", "gallery_rows": 50, "query_rows": 60, "sort_share": 1.0},
    "symmetric": {"method": "symmetric", "side": 50, "sort_share": 1.0},
    "symmetric, then sorted": {
        "method": "symmetric",
        "side": 50,
        "query_rows": 30,
        "sort_share": 0.2,
    },
    "sorted": {"query_rows": 30, "sort_share": 0.0},
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("labels", [FINE, TREE, NO_TREE], ids=["labels", "tree", "no tree"])
@pytest.mark.usefixtures("one_by_one")
@pytest.mark.filterwarnings("ignore:a label of level 2:truerank.TruerankWarning")
def test_stopped_again_and_again(name: str, labels: Any, tmp_path: Path) -> None:
    """Every run is interrupted when it gets beyond the one before; so they come to the end."""
    path = tmp_path / "counts"
    wanted = [*METRICS, *(["h_ap"] if labels is TREE else []), "map@level=1"]
    wanted = METRICS if labels is FINE else wanted
    options = {"metrics": wanted, "threads": 1}
    expected = bits(truerank.evaluate(ROWS, labels, **options))
    farthest = interrupts = 0

    def progress(done: int, total: int) -> None:
        nonlocal farthest
        if done > farthest:
            farthest = done
            raise Stop

    with settings(**CASES[name]):
        for _ in range(60):
            try:
                result = truerank.evaluate(
                    ROWS, labels, checkpoint=path, progress=progress, **options
                )
                break
            except Stop:
                interrupts += 1
                assert os.listdir(tmp_path) == ["counts"]
    assert bits(result) == expected
    assert interrupts > 2
    assert os.listdir(tmp_path) == []  # complete: there is nothing to go on from


@pytest.mark.parametrize("name", CASES)
@pytest.mark.usefixtures("one_by_one")
def test_stopped_at_any_point(name: str, tmp_path: Path) -> None:
    path = tmp_path / "counts"
    options = {"metrics": METRICS, "threads": 2}
    expected = bits(truerank.evaluate(ROWS, FINE, **options))
    with settings(**CASES[name]):
        whole = stopping_after(0)
        truerank.evaluate(ROWS, FINE, progress=whole, **options)
        for calls in range(1, len(whole.heard) + 1):
            with pytest.raises(Stop):
                truerank.evaluate(
                    ROWS, FINE, checkpoint=path, progress=stopping_after(calls), **options
                )
            again = stopping_after(0)
            result = truerank.evaluate(ROWS, FINE, checkpoint=path, progress=again, **options)
            assert bits(result) == expected
            assert [done for done, _ in again.heard] == sorted({done for done, _ in again.heard})
            assert again.heard[-1] == (120 * 120, 120 * 120)


@pytest.mark.parametrize("name", CASES)
def test_written_while_counting(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, within: Within
) -> None:
    """As after kill -9: only what was written on the way is there, each time a whole file."""
    path, copies = tmp_path / "counts", []
    within(settings(checkpoint_seconds=0.0))
    monkeypatch.setattr(Checkpoint, "due", lambda self: self._path is not None)
    save = Checkpoint.save

    def copied(self: Checkpoint) -> None:
        save(self)
        if path.exists():
            copies.append(path.read_bytes())

    monkeypatch.setattr(Checkpoint, "save", copied)
    options = {"metrics": METRICS, "threads": 2}
    with settings(**CASES[name]):
        expected = bits(truerank.evaluate(ROWS, FINE, checkpoint=path, **options))
        written = list(copies)
        assert len(written) >= 2
        for content in written:
            path.write_bytes(content)
            assert bits(truerank.evaluate(ROWS, FINE, checkpoint=path, **options)) == expected
    with settings(method="float64", gallery_rows=17, query_rows=11):  # other blocks and tiles
        for content in written:
            path.write_bytes(content)
            assert bits(truerank.evaluate(ROWS, FINE, checkpoint=path, **options)) == expected


@pytest.mark.usefixtures("one_by_one")
def test_what_was_counted_is_not_counted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from truerank.engine import counts as filtering

    path, tiles = tmp_path / "counts", []
    product = filtering.Buffers.product

    def watched(self: Any, left: Any, right: Any) -> Any:
        tiles.append(1)
        return product(self, left, right)

    monkeypatch.setattr(filtering.Buffers, "product", watched)
    rows, labels = RNG.standard_normal((120, 5)).astype(np.float32), np.arange(120) % 40
    with settings(method="symmetric", side=10, sort_share=1.0):
        with pytest.raises(Stop):
            truerank.evaluate(rows, labels, checkpoint=path, progress=stopping_after(20), threads=2)
        assert len(tiles) == 20  # of 12 strips, 78 tiles on and above the diagonal
        truerank.evaluate(rows, labels, checkpoint=path)
    assert len(tiles) == 78


@pytest.mark.parametrize("distance", ["precomputed", "similarity", "euclidean", "cityblock"])
def test_other_distances(distance: str, tmp_path: Path) -> None:
    data = ROWS @ ROWS.T if distance in ("precomputed", "similarity") else ROWS
    options = {"distance": distance, "metrics": METRICS, "threads": 1}
    expected = bits(truerank.evaluate(data, FINE, **options))
    with settings(gallery_rows=50, query_rows=60):
        with pytest.raises(Stop):
            truerank.evaluate(
                data, FINE, checkpoint=tmp_path / "c", progress=stopping_after(2), **options
            )
        assert bits(truerank.evaluate(data, FINE, checkpoint=tmp_path / "c", **options)) == expected


def test_the_reference_engine(tmp_path: Path) -> None:
    options = {"device": "reference", "metrics": METRICS}
    with settings(query_rows=50):
        with pytest.raises(Stop):
            truerank.evaluate(
                ROWS, FINE, checkpoint=tmp_path / "c", progress=stopping_after(2), **options
            )
        again = stopping_after(0)
        found = truerank.evaluate(ROWS, FINE, checkpoint=tmp_path / "c", progress=again, **options)
    assert bits(found) == bits(truerank.evaluate(ROWS, FINE, **options))
    assert len(again.heard) < 3


# --- with metrics over thresholds -----------------------------------------------------------------

NEAR = ROWS + 3 * RNG.integers(-2, 3, size=(21, 5)).astype(np.float32)[FINE]
OPEN = np.where(np.arange(120) % 17 == 0, 100 + np.arange(120), FINE)  # some have no mate
WATCHED: dict[str, tuple[Any, dict[str, Any]]] = {
    "everything": (
        OPEN,
        {
            "metrics": [
                *("map@r", "auc", "eer", "tar@far=0.01", "fnmr@tau=0.3", "dir@far=0.1"),
                *("ttr@far=0.1", "mrep", "mrep@tau=0.4", "mrep_max", "tau_nz", "mfr@b=5", "opis"),
            ],
            "unmated": "report",
        },
    ),
    "by class": (OPEN, {"metrics": ["opis", "auc", "mrep", "dir@far=0.1"], "average": "class"}),
    "tree": (TREE, {"metrics": ["h_ap", "map@level=1", "auc", "mrep"]}),
    "thresholds alone": (FINE, {"metrics": ["opis@far=0.01:0.2", "threshold@far=0.05"]}),
    "a gallery of its own": (
        OPEN[:60],
        {
            "gallery": NEAR[::-1] + 1,
            "gallery_labels": OPEN[::-1],
            "metrics": ["map", "auc", "mrep", "opis", "dir@far=0.1"],
        },
    ),
}


@pytest.fixture
def short_chapters(within: Within) -> None:
    """Of 25 queries."""
    within(settings(chapter_pairs=25 * 120, chapter_growth=1))


@pytest.mark.parametrize("name", WATCHED)
@pytest.mark.parametrize("device", ["cpu", pytest.param("reference", marks=pytest.mark.slow)])
@pytest.mark.usefixtures("short_chapters")
def test_a_watched_pass_goes_on_between_chapters(name: str, device: str, tmp_path: Path) -> None:
    path = tmp_path / "counts"
    labels, options = WATCHED[name]
    rows = NEAR[: len(labels)]
    options = options | {"device": device, "threads": 2}
    gallery = len(options.get("gallery", rows))
    expected = bits(truerank.evaluate(rows, labels, **options))
    whole = stopping_after(0)
    assert bits(truerank.evaluate(rows, labels, checkpoint=path, progress=whole, **options)) == (
        expected
    )
    assert whole.heard == sorted(whole.heard)
    assert whole.heard[-1][0] == whole.heard[-1][1]
    for calls in range(1, len(whole.heard) + 1):
        with pytest.raises(Stop):
            truerank.evaluate(
                rows, labels, checkpoint=path, progress=stopping_after(calls), **options
            )
        again = stopping_after(0)
        result = truerank.evaluate(rows, labels, checkpoint=path, progress=again, **options)
        assert bits(result) == expected
        assert not path.exists()
        before = whole.heard[calls - 2][0] if calls > 1 else 0
        assert again.heard[0][0] == before // (25 * gallery) * 25 * gallery  # what was complete


TILED: dict[str, tuple[Any, list[str]]] = {
    "verification": (OPEN, ["map@r", "auc", "tar@far=0.01", "fmr@tau=0.3"]),
    "consistency": (FINE, ["opis@far=0.01:0.2"]),
    "identification": (OPEN, ["dir@far=0.1", "ttr@far=0.1"]),
}


@pytest.mark.parametrize("name", TILED)
@pytest.mark.usefixtures("short_chapters", "one_by_one")
def test_a_watched_pass_goes_on_between_tiles(name: str, tmp_path: Path) -> None:
    """Where each pair is computed once there are no chapters, and no tile is shown twice."""
    path = tmp_path / "counts"
    labels, metrics = TILED[name]
    options: dict[str, Any] = {"metrics": metrics, "threads": 1}
    expected = bits(truerank.evaluate(NEAR, labels, **options))
    with settings(method="symmetric", side=50, sort_share=1.0):
        whole = stopping_after(0)
        truerank.evaluate(NEAR, labels, checkpoint=path, progress=whole, **options)
        assert len(whole.heard) == 10  # of 4 strips, tiles on and above the diagonal
        for calls in range(1, 10):
            stop = stopping_after(calls)
            with pytest.raises(Stop):
                truerank.evaluate(NEAR, labels, checkpoint=path, progress=stop, **options)
            again = stopping_after(0)
            result = truerank.evaluate(NEAR, labels, checkpoint=path, progress=again, **options)
            assert bits(result) == expected
            assert again.heard[0] == stop.heard[-1]
            assert len(again.heard) == 11 - calls


@pytest.mark.usefixtures("short_chapters", "one_by_one")
def test_tiles_first_and_chapters_later(tmp_path: Path) -> None:
    """What tiles have shown is of no use to chapters, and does no harm; nor the other way round."""
    path, ways = tmp_path / "counts", ("symmetric", "float64")
    options: dict[str, Any] = {"metrics": ["auc", "opis@far=0.01:0.2"], "threads": 1}
    expected = bits(truerank.evaluate(NEAR, FINE, **options))
    for first, second in (ways, ways[::-1]):
        with settings(method=first, side=50, sort_share=1.0), pytest.raises(Stop):
            truerank.evaluate(NEAR, FINE, checkpoint=path, progress=stopping_after(4), **options)
        with settings(method=second, side=50, sort_share=1.0):
            assert bits(truerank.evaluate(NEAR, FINE, checkpoint=path, **options)) == expected


@pytest.mark.usefixtures("short_chapters")
def test_stopped_after_the_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a further look that a metric takes: the pass itself is not made again."""
    path, metrics = tmp_path / "counts", ["mrep_max", "map"]
    expected = bits(truerank.evaluate(NEAR, OPEN, metrics=metrics))

    def stop(*_: Any, **__: Any) -> None:
        raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(runner, "sweep", stop)
        with pytest.raises(Stop):
            truerank.evaluate(NEAR, OPEN, metrics=metrics, checkpoint=path)
    again = stopping_after(0)
    assert bits(
        truerank.evaluate(NEAR, OPEN, metrics=metrics, checkpoint=path, progress=again)
    ) == (expected)
    assert again.heard == []


@pytest.mark.usefixtures("short_chapters")
@pytest.mark.parametrize("what", ["shown", "@first", "@1-integral", "@1-curves", "@2-counts"])
@pytest.mark.parametrize("damage", ["gone", "shorter", "of another kind"])
def test_damaged_evidence_is_refused(what: str, damage: str, tmp_path: Path) -> None:
    path, metrics = tmp_path / "counts", ["auc", "mrep", "dir@far=0.1"]
    with pytest.raises(Stop):
        truerank.evaluate(
            NEAR, OPEN, metrics=metrics, checkpoint=path, progress=stopping_after(4), threads=1
        )
    with np.load(path) as stored:
        arrays = dict(stored)
    kept = arrays.pop(f"pass-0/{what}")
    if damage != "gone":
        arrays[f"pass-0/{what}"] = kept[..., :-1] if damage == "shorter" else kept.astype("U4")
    with path.open("wb") as file:
        np.savez(file, **arrays)
    assert "damaged checkpoint" in refusal(path, NEAR, OPEN, metrics=metrics)


def test_chapters_take_as_long_as_they_may(monkeypatch: pytest.MonkeyPatch, within: Within) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    within(settings(chapter_pairs=1000))
    lengths = []
    for rows in chapters(np.arange(3000), 10, 60.0):
        lengths.append(len(rows))
        now[0] += len(rows) / 20  # 20 queries a second
    assert lengths == [100, 1200, 1200, 500]
    assert [len(rows) for rows in chapters(np.arange(3000), 10, None)] == [3000]
    assert [len(rows) for rows in chapters(np.arange(130), 10, 60.0)] == [130]
    assert list(chapters(np.arange(0), 10, None)) == []


# --- whose checkpoint it is -----------------------------------------------------------------------


@pytest.fixture
def interrupted(tmp_path: Path) -> Path:
    path = tmp_path / "counts"
    with settings(method="symmetric", side=50), pytest.raises(Stop):
        truerank.evaluate(ROWS, FINE, metrics=METRICS, checkpoint=path, progress=stopping_after(1))
    return path


SWAPPED = np.r_[1, 0, 2:120]
OTHERS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "set of embeddings": (ROWS + np.float32(0.5), FINE, {}),
    "task": (ROWS, FINE % 5, {}),
    "distance": (ROWS, FINE, {"distance": "euclidean"}),
    "choice of metrics": (ROWS, FINE, {"metrics": [*METRICS, "map"]}),
}


def refusal(path: Path, rows: Any, labels: Any, **options: Any) -> str:
    content = path.read_bytes()
    with pytest.raises(truerank.InputError) as refused:
        truerank.evaluate(rows, labels, checkpoint=path, **({"metrics": METRICS} | options))
    assert path.read_bytes() == content  # nothing is lost
    return str(refused.value)


@pytest.mark.parametrize("what", OTHERS)
def test_another_evaluations_checkpoint_is_refused(what: str, interrupted: Path) -> None:
    rows, labels, options = OTHERS[what]
    assert refusal(interrupted, rows, labels, **options) == (
        f"{interrupted} is the checkpoint of another evaluation (another {what}); delete it to "
        "start anew, or name another file."
    )


def test_the_order_of_rows_is_part_of_it(interrupted: Path) -> None:
    """The same rows and labels in another order have the same digests in a result, other counts."""
    assert "another set of embeddings" in refusal(interrupted, ROWS[SWAPPED], FINE[SWAPPED])
    same = np.array([0, 20, *range(1, 20), *range(21, 120)])  # two rows of one label
    assert "another set of embeddings" in refusal(interrupted, ROWS[same], FINE)
    assert "another task" in refusal(interrupted, ROWS, FINE[SWAPPED])


def test_another_versions_checkpoint_is_refused(
    interrupted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluate, "__version__", "9.9")
    assert "(another version of truerank)" in refusal(interrupted, ROWS, FINE)


def test_other_files_are_refused(tmp_path: Path) -> None:
    text, archive, empty = (tmp_path / name for name in ("text", "archive", "empty"))
    text.write_text("no checkpoint")
    np.savez(archive.open("wb"), x=np.arange(3))
    empty.touch()
    for path in (text, archive):
        assert refusal(path, ROWS, FINE).startswith(f"{path} is not a truerank checkpoint")
    assert refusal(empty, ROWS, FINE) == f"{empty} is empty."


@pytest.mark.parametrize("share", [0.2, 0.9, 0.999])
def test_a_cut_off_checkpoint_is_refused(share: float, interrupted: Path) -> None:
    content = interrupted.read_bytes()
    interrupted.write_bytes(content[: int(len(content) * share)])
    assert "is not a truerank checkpoint" in refusal(interrupted, ROWS, FINE)


def test_a_damaged_checkpoint_is_refused(interrupted: Path) -> None:
    with np.load(interrupted) as stored:
        arrays = dict(stored)
    arrays["pass-0/seen"] = arrays["pass-0/seen"][:-1]
    with interrupted.open("wb") as file:
        np.savez(file, **arrays)
    assert "damaged checkpoint" in refusal(interrupted, ROWS, FINE)


@pytest.mark.parametrize("path", [3, True, b"counts", ["counts"]])
def test_what_is_no_path_is_refused(path: Any) -> None:
    with pytest.raises(truerank.InputError, match="a path must be text"):
        truerank.evaluate(ROWS, FINE, checkpoint=path)


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(truerank.InputError, match="cannot write"):
        truerank.evaluate(ROWS, FINE, checkpoint=tmp_path / "nowhere" / "counts")


# --- when there is one ----------------------------------------------------------------------------


def test_no_checkpoint_for_a_moments_work(tmp_path: Path, within: Within) -> None:
    within(settings(checkpoint_worth=3600.0))
    with pytest.raises(Stop):
        truerank.evaluate(ROWS, FINE, checkpoint=tmp_path / "c", progress=stopping_after(1))
    assert os.listdir(tmp_path) == []


def test_an_organisers_task(tmp_path: Path) -> None:
    task = truerank.Task(FINE, ids=np.arange(120))
    order = RNG.permutation(120)
    expected = bits(task.evaluate(ROWS[order], order))
    with settings(method="symmetric", side=50):
        with pytest.raises(Stop):
            task.evaluate(ROWS[order], order, checkpoint=tmp_path / "c", progress=stopping_after(1))
        assert bits(task.evaluate(ROWS[order], order, checkpoint=tmp_path / "c")) == expected


def test_time_between_two_writings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    checkpoint = Checkpoint(tmp_path / "c", {})
    assert not checkpoint.due()
    now[0] = 59
    assert not checkpoint.due()
    now[0] = 60
    assert checkpoint.due()
    checkpoint.save()
    assert not checkpoint.due()
    assert not Checkpoint().due()
