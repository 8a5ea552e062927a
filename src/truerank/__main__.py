"""Run the command line: python -m truerank."""

from __future__ import annotations

from truerank.cli import main

main()
