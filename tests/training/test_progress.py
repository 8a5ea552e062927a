"""What a person sees: a line for each epoch in a log file, one live line on a terminal."""

from __future__ import annotations

import io
import re
import subprocess
import sys

import pytest

from tests.cli.driving import environment
from truerank._util.installed import install
from truerank.training.logs import ProgressLine


def record(epoch: int, loss: float | None, value: float) -> dict[str, object]:
    speed = None if loss is None else 1234.5
    return {"epoch": epoch, "loss": loss, "map@r": value, "images_per_second": speed}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def drive(stream: io.StringIO) -> str:
    line = ProgressLine(2, "map@r", stream)
    line.begin([])
    line.record(record(0, None, 0.25))
    line.step(1, 4)
    line.step(2, 4)
    line.record(record(1, 1.5, 0.5))
    line.step(4, 4)
    line.record(record(2, 0.75, 0.125))
    line.close()
    return stream.getvalue()


def test_a_file_has_a_line_for_each_epoch() -> None:
    lines = drive(io.StringIO()).splitlines()
    assert lines[0] == "epoch 0 of 2, map@r 25.00 % (best 25.00 %)"
    assert re.fullmatch(
        r"epoch 1 of 2, loss 1\.5000, map@r 50\.00 % \(best 50\.00 %\), 1,234 images/s, "
        r"at most 0:0\d left",
        lines[1],
    )
    assert lines[2] == ("epoch 2 of 2, loss 0.7500, map@r 12.50 % (best 50.00 %), 1,234 images/s")


def test_a_terminal_has_one_line_that_vanishes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    text = drive(Terminal())
    assert "\x1b[2K" in text  # erased and drawn again
    assert "map@r 12.50 %" in text
    assert "left" in text


def test_a_resumed_run_knows_its_best() -> None:
    stream = io.StringIO()
    line = ProgressLine(9, "map@r", stream)
    line.begin([record(0, None, 0.25), record(1, 1.0, 0.75)])
    line.record(record(2, 1.0, 0.5))
    assert "(best 75.00 %)" in stream.getvalue()


@pytest.mark.parametrize(
    ("module", "name"), [("torch", "torch"), ("pydantic", "pydantic"), ("yaml", "PyYAML")]
)
def test_without_the_extra_one_sentence(module: str, name: str) -> None:
    code = (
        f"import sys; sys.modules[{module!r}] = None\n"
        "from truerank.cli import main; main(['train', 'none.yaml'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == f"truerank: training needs {name}: {install('train')}.\n"
