"""Record docs/img/demo.svg: what `truerank demo` prints, line by line, as a picture that moves.

python scripts/record_demo.py
"""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

TARGET = Path(__file__).parents[1] / "docs" / "img" / "demo.svg"
COMMAND = "truerank demo"
COLUMNS = 100
TYPING, PAUSE, LINE = 0.08, 1.2, 0.06
"""Seconds for a letter of the command, before the output, and for a line of it."""
FONT_FACE = re.compile(r"@font-face \{.*?\}", flags=re.S)
ROW = re.compile(r'<text class="(?P<names>[^"]*)" x="(?P<x>[^"]*)" y="(?P<y>[^"]*)"')


def output() -> list[str]:
    """What the command prints on a terminal of this width."""
    master, terminal = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "PYTHONUTF8": "1",
                   "TERM": "xterm-256color"}  # fmt: skip
    command = [sys.executable, "-m", "truerank", "demo"]
    with subprocess.Popen(
        command, stdout=terminal, stderr=subprocess.DEVNULL, env=environment
    ) as process:
        os.close(terminal)
        printed = b"".join(iter(lambda: _read(master), b""))
    os.close(master)
    if process.returncode != 0:
        raise SystemExit(f"{COMMAND} ended with status {process.returncode}")
    return printed.decode("utf-8").splitlines()


def _read(master: int) -> bytes:
    """What has been written to a terminal; nothing once no process holds its other end."""
    try:
        return os.read(master, 65536)
    except OSError:  # on Linux a closed terminal is an error
        return b""


def picture(lines: list[str]) -> str:
    """An SVG in which the lines come one after the other; without animation all are there."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), highlight=False)
    console.print(Text.assemble(("$ ", "bold green"), (COMMAND, "bold")))
    for line in lines:
        shown = Text.from_ansi(line, no_wrap=True, overflow="ellipsis")
        console.print(shown)
    svg = console.export_svg(title="truerank", unique_id="demo")
    svg = FONT_FACE.sub("", svg)  # nothing is fetched from elsewhere
    rows = sorted({float(found["y"]) for found in ROW.finditer(svg)})
    begin = {y: TYPING * len(COMMAND) + PAUSE + LINE * place for place, y in enumerate(rows)}
    begin[rows[0]] = 0.0

    def delayed(found: re.Match[str]) -> str:
        after = begin[float(found["y"])]
        return f'{found[0]} style="animation: appear 0s linear {after:.2f}s both"'

    svg = ROW.sub(delayed, svg)
    rule = "@keyframes appear { from { opacity: 0 } to { opacity: 1 } }\n"
    return svg.replace("<style>", f"<style>\n    {rule}", 1)


def main() -> None:
    """Run the demo and write the picture."""
    TARGET.write_text(picture(output()), encoding="utf-8")
    print(TARGET)


if __name__ == "__main__":
    main()
