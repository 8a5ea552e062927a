"""Killed anywhere and resumed, with one job or two: the table is the same to the last byte."""

from __future__ import annotations

import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.benchmark.small import start, write_config
from truerank._util.errors import InputError, TruerankWarning
from truerank.benchmark import runner
from truerank.benchmark import workers as processes
from truerank.benchmark.layout import DescribeEnvironment
from truerank.benchmark.workers import Half, Workers
from truerank.datasets.base import Dataset


def kill_when(process: subprocess.Popen[str], happened: Callable[[], bool]) -> None:
    """Kill -9 as soon as something has happened; it must not have ended by itself before."""
    while not happened():
        try:
            _, errors = process.communicate(timeout=0.02)
        except subprocess.TimeoutExpired:
            continue
        pytest.fail(f"it ended before it was killed: {errors}")
    process.kill()
    process.communicate()


def finish(process: subprocess.Popen[str]) -> str:
    printed, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    return printed


def test_killed_twice_and_resumed_is_as_never_killed(uninterrupted: Path, tmp_path: Path) -> None:
    config, out = write_config(tmp_path), tmp_path / "out"
    kill_when(start(config, out), (out / "trials.csv").exists)
    kill_when(
        start(config, out, "--resume"), lambda: any(out.glob("runs/*/rerun-*/fold-*/fold.json"))
    )
    assert not (out / "openings.jsonl").exists()
    printed = finish(start(config, out, "--resume"))
    for name in ("table.json", "table.csv", "table.md", "table.tex", "reruns.csv", "trials.csv"):
        assert (out / name).read_bytes() == (uninterrupted / name).read_bytes(), name
    assert (out / "openings.jsonl").read_bytes() == (uninterrupted / "openings.jsonl").read_bytes()
    assert "Contrastive" in printed
    assert "8 test evaluations; 0 of them were repetitions." in printed


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    """The processes that a process has started; none where the system does not say."""
    path = Path(f"/proc/{process.pid}/task")
    try:
        listed = [(task / "children").read_text() for task in path.iterdir()]
    except OSError:
        return []
    return [int(one) for text in listed for one in text.split()]


def is_there(pid: int) -> bool:
    """Whether a process runs, and has not merely left its exit status behind."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs Linux's /proc")
def test_workers_end_with_a_killed_benchmark_and_a_killed_worker_ends_it(
    uninterrupted: Path, tmp_path: Path
) -> None:
    config, out = write_config(tmp_path), tmp_path / "out"
    first = start(config, out, "--jobs", "2")
    seen: set[int] = set()

    def both() -> bool:
        seen.update(workers_of(first))
        return (out / "trials.csv").exists() and len(workers_of(first)) == 2

    kill_when(first, both)
    end = time.monotonic() + 60
    while any(map(is_there, seen)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(map(is_there, seen))
    second = start(config, out, "--resume", "--jobs", "2")
    while len(workers_of(second)) < 2:
        assert second.poll() is None
        time.sleep(0.05)
    left = workers_of(second)
    os.kill(left[0], signal.SIGKILL)
    _, errors = second.communicate(timeout=600)
    assert second.returncode == 2
    assert "a worker process ended with status -9 (is the memory full?)" in errors
    assert not any(map(is_there, left))
    finish(start(config, out, "--resume", "--jobs", "2"))
    assert (out / "table.json").read_bytes() == (uninterrupted / "table.json").read_bytes()


KILLS = 12
"""Thirty take two minutes and a half on an idle machine; they have been run."""


def finished_trainings(out: Path) -> dict[str, str]:
    """What is known of each training that has ended: trials by their row, reruns by their file."""
    table = out / "trials.csv"
    lines = table.read_text().splitlines()[1:] if table.exists() else []
    found = {",".join(line.split(",")[:3]): line for line in lines}
    return found | {
        str(path.relative_to(out)): path.read_text()
        for path in out.glob("runs/*/rerun-*/fold-*/fold.json")
    }


def wait_until_gone(processes: set[int]) -> None:
    end = time.monotonic() + 60
    while any(map(is_there, processes)) and time.monotonic() < end:
        time.sleep(0.02)
    assert not any(map(is_there, processes))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs Linux's /proc")
def test_kills_at_random_moments(tmp_path: Path) -> None:
    """Of the benchmark or of one of its workers; runs that end in between begin anew."""
    config, whole, out = write_config(tmp_path), tmp_path / "whole", tmp_path / "out"
    began = time.monotonic()
    finish(start(config, whole, "--jobs", "2"))
    usual = time.monotonic() - began
    table = (whole / "table.json").read_bytes()
    draw, kills, ended, of_workers = random.Random(27), 0, 0, 0
    while kills < KILLS:
        before = finished_trainings(out)
        process = start(config, out, "--jobs", "2", *(["--resume"] if out.exists() else []))
        seen: set[int] = set()
        stop = time.monotonic() + usual * draw.uniform(0.1, 0.5)
        while process.poll() is None and time.monotonic() < stop:
            seen.update(workers_of(process))
            time.sleep(0.02)
        workers = sorted(filter(is_there, workers_of(process)))
        if process.poll() is not None:
            finish(process)
        elif workers and draw.random() < 0.4:
            os.kill(draw.choice(workers), signal.SIGKILL)
            _, errors = process.communicate(timeout=600)
            assert process.returncode in (0, 2), errors  # 0 where its last task had ended
            assert process.returncode == 0 or "a worker process ended with status -9" in errors
            kills, of_workers = kills + 1, of_workers + 1
        else:
            process.kill()
            process.communicate()
            kills += 1
        wait_until_gone(seen | set(workers))
        after = finished_trainings(out)
        assert {name: after.get(name) for name in before} == before
        if process.returncode == 0:
            assert (out / "table.json").read_bytes() == table
            shutil.rmtree(out)
            ended += 1
    finish(start(config, out, "--jobs", "2", *(["--resume"] if out.exists() else [])))
    assert (out / "table.json").read_bytes() == table
    assert 0 < of_workers < KILLS


def test_a_worker_that_ends_before_it_has_its_data_is_told_by_its_status(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """More data than a pipe holds: sending fails, and the status must be known all the same."""
    monkeypatch.setattr(processes, "START", "import os; os._exit(7)")
    half = Half(Dataset("large", np.zeros((2, 1000, 1000), np.uint8), [0, 1], ("class",)), [])
    with Workers(half, jobs=1) as workers:
        workers.submit("any", DescribeEnvironment("cpu", 0, True))
        with pytest.raises(InputError, match="a worker process ended with status 7"):
            workers.next()


@pytest.mark.parametrize("part", [0.0, 0.3, 0.6, 1.0])
@pytest.mark.parametrize("what", ["data", "task"])
def test_a_worker_ends_with_its_stream_of_tasks(what: str, part: float) -> None:
    """Whoever writes a task may be killed in the middle of it."""
    half = pickle.dumps(
        Half(Dataset("small", np.zeros((2, 3, 3), np.uint8), [0, 1], ("class",)), [])
    )
    task = pickle.dumps(DescribeEnvironment("cpu", 0, True))
    sent = half[: int(part * len(half))] if what == "data" else half + task[: int(part * len(task))]
    worker = subprocess.run(
        [sys.executable, "-c", processes.START],
        input=sent,
        capture_output=True,
        timeout=120,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert (worker.returncode, worker.stderr) == (0, b"")


MOVED = ("config.yaml", "splits.json", "study.sqlite", "environment.json")
"""What docs/concepts/protocol.md says is enough to go on elsewhere while it still searches."""


@pytest.mark.slow
def test_time_that_is_over_stops_and_a_few_files_go_on_elsewhere(
    uninterrupted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, out, moved = write_config(tmp_path), tmp_path / "out", tmp_path / "moved"
    stopped = start(config, out, "--time-limit", "0.1")
    _, errors = stopped.communicate(timeout=600)
    assert stopped.returncode == 0
    assert "the time limit is reached" in errors
    trials = out / "trials.csv"
    trials.unlink()
    monkeypatch.setattr(runner._Clock, "is_over", property(lambda _: trials.exists()))
    with pytest.warns(TruerankWarning, match="quickdraw is not complete"):
        assert runner.run(config, out, resume=True, time_limit=3600) is None
    assert ",finished" in trials.read_text()
    assert not (out / "table.json").exists()
    assert not (out / "openings.jsonl").exists()
    moved.mkdir()
    for name in MOVED:
        shutil.copy(out / name, moved)
    finish(start(config, moved, "--resume", "--jobs", "2"))
    assert (moved / "table.json").read_bytes() == (uninterrupted / "table.json").read_bytes()


def test_what_it_leaves_behind(uninterrupted: Path) -> None:
    names = {path.name for path in uninterrupted.iterdir()}
    assert names >= {
        "config.yaml", "splits.json", "study.sqlite", "trials.csv", "reruns.csv", "openings.jsonl",
        "table.json", "table.csv", "table.md", "table.tex", "cost.json", "figures", "runs",
    }  # fmt: skip
    assert not list(uninterrupted.glob("runs/*/trial-*"))
    assert len(list(uninterrupted.glob("runs/arcface/rerun-*/fold-*/best.pt"))) == 4
    header, *trials = (uninterrupted / "trials.csv").read_text().splitlines()
    assert header == "method,trial,fold,parameters,score,epochs,state"
    assert len(trials) == 2 * 3 * 2
    header, *reruns = (uninterrupted / "reruns.csv").read_text().splitlines()
    assert header == "method,rerun,fold,metric,value"
    assert len(reruns) == 3 * 3 * (2 + 2 * 3)  # metrics, parts, untrained rows and runs
    drawn = {path.name for path in (uninterrupted / "figures").iterdir()}
    for name in ("gain_over_contrastive", "reruns", "search", "curves", "sensitivity-arcface"):
        assert {f"{name}.svg", f"{name}.png"} <= drawn
