"""The command line: parse, call, print. Results on stdout, everything else on stderr."""

from __future__ import annotations

import sys
from typing import NoReturn

__all__ = [
    "main",
]


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and exit: 0 done, 2 bad input, 1 a bug, 130 interrupted."""
    try:
        from truerank.cli import commands
    except KeyboardInterrupt:  # while modules are imported; from then on run sees to it
        print("truerank: interrupted; nothing was left half-written.", file=sys.stderr)  # noqa: T201
        sys.exit(130)
    commands.main(arguments)
