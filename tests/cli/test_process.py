"""The command line as a process: pipes, terminals, signals."""

from __future__ import annotations

import errno
import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import truerank
from tests.cli.driving import COMMAND, SOURCE, assert_one_line, environment, run_process
from tests.files.samples import EMBEDDINGS, LABELS, expected

SECONDS = 120
"""After which a process that should have ended is given up."""


@pytest.fixture
def simple(data: Path) -> list[str]:
    return ["evaluate", str(data / "embeddings.npy"), "--labels", str(data / "labels.csv")]


def test_a_good_run(simple: list[str], tmp_path: Path) -> None:
    outcome = run_process(*simple, "-o", tmp_path / "result.json", "--format", "json")
    assert outcome.status == 0
    assert outcome.err == ""  # no progress bar where there is no terminal
    assert json.loads(outcome.out)["scores"]["map"]["value"] == expected()["map"]["value"]
    assert os.listdir(tmp_path) == ["result.json"]


def test_bad_input(simple: list[str]) -> None:
    assert "nowhere.npy" in run_process("evaluate", "nowhere.npy").complaint()


@pytest.mark.parametrize("asked", [[], ["compare"], ["data", "get"], ["train"], ["verify"]])
def test_help_loads_nothing_large(asked: list[str]) -> None:
    code = """
import atexit, sys
atexit.register(lambda: print({"numpy", "numba", "rich", "torch"} & set(sys.modules)))
from truerank.cli import main
main(sys.argv[1:])
"""
    done = subprocess.run(
        [sys.executable, "-c", code, *asked, "--help"],
        env=environment(), capture_output=True, text=True, timeout=SECONDS, check=True,
    )  # fmt: skip
    assert done.stdout.startswith("Usage: truerank")
    assert done.stdout.endswith("set()\n")


def test_an_unwritable_output(simple: list[str]) -> None:
    """As root, too: no one can write below a plain file."""
    path = Path(simple[1]) / "result.json"
    assert run_process(*simple, "-o", path).complaint().startswith(f"cannot write {path}")


def test_a_terminal_without_arrows(
    simple: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither an arrow nor a class in other letters may end a run."""
    monkeypatch.setenv("PYTHONIOENCODING", "cp1252")
    result = tmp_path / "result.json"
    for more in (("-o", str(result)), ("--format", "markdown")):
        outcome = run_process(*simple, "-m", "map@r,eer", *more)
        assert outcome.status == 0, outcome
        assert "EER (-)" in outcome.out
    outcome = run_process("compare", result, result)
    assert outcome.out.count("\nEER (-)") == 1
    assert "; (-) lower is better; " in outcome.out
    labels = tmp_path / "labels.csv"
    text = Path(simple[3]).read_text(encoding="utf-8").replace("000", "\u4eba")
    labels.write_text(text, encoding="utf-8")
    outcome = run_process("threshold", simple[1], "--labels", labels, "--far", "0.1")
    assert outcome.status == 0, outcome
    assert r"classes: \u4eba" in outcome.out


@pytest.mark.parametrize("form", ["table", "json"])
def test_a_reader_that_has_seen_enough(form: str, simple: list[str]) -> None:
    """`truerank evaluate ... | head -1` where head is already gone."""
    process = subprocess.Popen(
        [*COMMAND, *simple, "--format", form],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate(timeout=SECONDS)
    assert err == b""
    assert process.returncode == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_disk_that_is_full(simple: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*COMMAND, *simple],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            timeout=SECONDS,
            check=False,
        )
    assert done.returncode == 1
    assert_one_line(done.stderr)
    assert "No space left on device" in done.stderr
    assert "bug" not in done.stderr


@pytest.mark.parametrize("closed", [1, 2], ids=["stdout", "stderr"])
def test_a_stream_that_is_closed(closed: int, simple: list[str]) -> None:
    """`>&-`: Python then has no such stream at all."""
    arguments = simple if closed == 1 else ["evaluate", "nowhere.npy"]
    shell = ["/bin/sh", "-c", f'exec "$@" {closed}>&-', "sh", *COMMAND, *arguments]
    done = subprocess.run(
        shell, capture_output=True, text=True, env=environment(), timeout=SECONDS, check=False
    )
    assert "bug" not in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == (0 if closed == 1 else 2)


# --- terminals


def read_all(terminal: int) -> str:
    """What was written to a terminal until its other end was closed."""
    chunks = []
    while True:
        try:
            chunk = os.read(terminal, 4096)
        except OSError as error:
            if error.errno != errno.EIO:  # Linux's way of saying that the other end is closed
                raise
            break
        if not chunk:
            break
        chunks.append(chunk)
    return b"".join(chunks).decode()


@pytest.mark.parametrize("columns", [40, 70, 80, 200])
def test_no_number_is_cut_off_on_a_terminal(columns: int, simple: list[str]) -> None:
    """What does not fit beside a name stands below it, or below the table."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *simple, "--verbose", "-m", "map@r eer threshold@far=0.01 opis@far=0.05:0.5 "
         "tar@far=0.001"],
        stdout=theirs,
        stderr=subprocess.PIPE,
        env=environment() | {"TERM": "xterm", "COLUMNS": str(columns)},
    )
    os.close(theirs)
    shown = re.sub(r"\x1b\[[0-9?]*[a-zA-Z]", "", read_all(ours))
    os.close(ours)
    process.communicate(timeout=SECONDS)
    assert process.returncode == 0
    assert "\u2026" not in shown
    lines = shown.splitlines()
    assert max(map(len, lines)) <= columns
    words = shown.split()
    score = expected(metrics="threshold@far=0.01")["threshold@far=0.01"]["value"]
    assert f"{score:.6g}" == words[words.index("threshold@far=0.01") + 1]
    assert any(line.endswith(" 576 negative pairs") for line in lines)
    assert any("EER \u2193" in line for line in lines)
    assert "; \u2193 lower is better." in " ".join(words)
    assert "TAR@FAR=0.1%: not defined: 576 negatives cannot resolve" in " ".join(words)
    assert set(lines[1]) == {"\u2500"}  # a rule below the header


def on_a_terminal(*arguments: object) -> tuple[str, str]:
    """What a command prints on stdout, a pipe, and on stderr, a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env=environment() | {"TERM": "xterm"},
        text=True,
    )
    os.close(theirs)
    shown = read_all(ours)
    os.close(ours)
    out, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, shown
    return out, shown


def test_a_progress_bar_on_a_terminal(simple: list[str]) -> None:
    out, shown = on_a_terminal(*simple, "--format", "csv")
    assert "ranking" in shown
    assert shown.rstrip().endswith("\x1b[2K")  # and it is gone at the end
    assert out.startswith("metric,value")
    assert "ranking" not in out


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("report {0} -o {1}/page.html", "writing the page"),
        ("compare {0} {0}", "comparing the models"),
        ("audit {2} --labels {3}", "checking"),
        ("threshold {2} --labels {3} --far 0.1", "choosing the threshold"),
    ],
)
def test_commands_that_take_seconds_show_what_they_do(
    command: str, words: str, data: Path, tmp_path: Path
) -> None:
    result = tmp_path / "result.json"
    truerank.evaluate(EMBEDDINGS, LABELS, metrics="map@r").to_json(result)
    files = (result, tmp_path, data / "embeddings.npy", data / "labels.csv")
    out, shown = on_a_terminal(*command.format(*files).split())
    assert words in shown
    assert words not in out


# --- signals

# The command as it is, except that it says on a pipe of its own when it begins to rank.
WATCHED = """
import os, sys
from truerank.engine import runner
ranking = runner.tie_groups
def watched(*arguments, **options):
    os.write(int(sys.argv[1]), b"!")
    return ranking(*arguments, **options)
runner.tie_groups = watched
from truerank.cli import main
main(sys.argv[2:])
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Enough to rank for several seconds: every row against 60,000 others."""
    folder = tmp_path_factory.mktemp("large")
    np.save(folder / "x.npy", np.random.default_rng(0).standard_normal((60_000, 16), np.float32))
    np.save(folder / "y.npy", np.arange(60_000) // 4)
    return ["evaluate", str(folder / "x.npy"), "--labels", str(folder / "y.npy")]


@pytest.fixture
def output(tmp_path: Path) -> Iterator[list[str]]:
    (tmp_path / "result.json").write_text("the result of the last run")
    yield ["-o", str(tmp_path / "result.json"), "--per-query", str(tmp_path / "queries.csv")]
    assert os.listdir(tmp_path) == ["result.json"]
    assert (tmp_path / "result.json").read_text() == "the result of the last run"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_an_interrupt_leaves_nothing_behind(
    number: int, large: list[str], output: list[str]
) -> None:
    started, starts = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", WATCHED, str(starts), *large, *output],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=(starts,),
        env=environment(),
        text=True,
    )
    os.close(starts)
    assert os.read(started, 1) == b"!"
    os.close(started)
    process.send_signal(number)
    out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    assert out == ""
    assert_one_line(err)
    assert "interrupted" in err


def test_an_interrupt_clears_the_progress_bar(large: list[str], output: list[str]) -> None:
    """Ctrl-C as soon as the bar is there; one sentence stays on the screen, and a cursor."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *large, *output],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env=environment() | {"TERM": "xterm"},
        text=True,
    )
    os.close(theirs)
    shown = ""
    while "ranking" not in shown:
        shown += os.read(ours, 64).decode(errors="replace")
    process.send_signal(signal.SIGINT)
    shown += read_all(ours)
    os.close(ours)
    process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    after = shown[shown.rindex("\x1b[?25h") :]  # the cursor is shown again
    lines = re.sub(r"\x1b\[[0-9?]*[a-zA-Z]", "", after).replace("\r", "").split("\n")
    assert lines[-2:] == ["truerank: interrupted; nothing was left half-written.", ""]
    assert "Traceback" not in shown


@pytest.mark.parametrize(
    "start", [["-m", "truerank"], ["-c", "import truerank.cli as c; c.main()"]]
)
def test_an_interrupt_during_imports_ends_in_one_line(start: list[str], tmp_path: Path) -> None:
    stop = "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)\n"
    (tmp_path / "click.py").write_text(stop)
    path = os.pathsep.join([str(tmp_path), str(SOURCE)])
    done = subprocess.run(
        [sys.executable, *start, "metrics"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (130, "")
    assert_one_line(done.stderr)
    assert "interrupted" in done.stderr
