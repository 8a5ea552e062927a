"""The command line: parse, call, print. Results on stdout, everything else on stderr."""

from truerank.cli.run import main

__all__ = ["main"]
