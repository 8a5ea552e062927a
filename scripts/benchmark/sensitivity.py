"""Draw what each parameter does, method by method, from the trials of a published benchmark.

    python -m scripts.benchmark.sensitivity docs/results/benchmark/quickdraw

Writes sensitivity-METHOD.svg beside trials.csv, as a benchmark does in its folder. Nothing is
trained, and the test half is not looked at.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from matplotlib.figure import Figure
from scripts.benchmark.restore import restore

from truerank.benchmark.config import read
from truerank.benchmark.layout import Layout
from truerank.benchmark.plan import open_plan
from truerank.benchmark.tables import search_figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    with tempfile.TemporaryDirectory() as temporary:
        layout = Layout(Path(temporary) / "restored")
        restore(folder, layout.folder)
        with open_plan(read(layout.config), layout) as plan:
            for name, figure in search_figures(Figure, plan).items():
                if name.startswith("sensitivity-"):
                    figure.savefig(folder / f"{name}.svg", bbox_inches="tight")


if __name__ == "__main__":
    main()
