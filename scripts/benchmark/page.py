"""Write docs/results/benchmark.md from the folders of finished benchmarks.

    python scripts/benchmark/page.py quickdraw emoji-linear

Tables, configurations, openings, machines and cost are taken from the folders' files; the numbers
behind them are copied to docs/results/benchmark/.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[2] / "docs" / "results"
KEPT = ("config.yaml", "table.json", "reruns.csv", "trials.csv", "openings.jsonl", "cost.json")
RULE = """\
Read by a rule that was fixed before the test half was opened: *flat* if the upper end of the
simultaneous 95 % interval of best/contrastive - 1 in MAP@R (over runs and test classes) is below
10 %, *not flat* if the lower end is above, else *undecided*. The linear lane decides nothing."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+")
    options = parser.parse_args()
    parts = ["# Losses compared by the fair protocol", f"{INTRODUCTION}\n\n{RULE}"]
    for folder in options.folders:
        target = RESULTS / "benchmark" / folder.name
        target.mkdir(parents=True, exist_ok=True)
        for name in KEPT:
            shutil.copy(folder / name, target)
        parts.append(section(folder))
    (RESULTS / "benchmark.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


INTRODUCTION = """\
Made by `truerank benchmark` ([protocol](../protocol.md)); the files behind each table lie in
[benchmark/](benchmark/)."""


def section(folder: Path) -> str:
    """The part of the page about one benchmark."""
    table = json.loads((folder / "table.json").read_text())
    cost = json.loads((folder / "cost.json").read_text())
    machines = json.loads((folder / "environment.json").read_text())
    total = cost["total"]
    looks = table["openings"]
    lines = [
        f"## {table['title']}",
        (folder / "table.md").read_text().strip(),
        f"{total['trainings']:,} trainings took {total['seconds'] / 3600:.1f} hours, added up over "
        f"those that ran side by side, on {' and '.join(map(machine, machines))}. The log of "
        f"openings has {looks['count']} lines and ends in `{looks['head'][:16]}`.",
        f"```yaml\n{(folder / 'config.yaml').read_text().strip()}\n```",
    ]
    return "\n\n".join(lines)


def machine(facts: dict[str, Any]) -> str:
    """A machine in words."""
    versions = facts["versions"]
    return f"{facts.get('gpu', facts['processor'])} (torch {versions['torch']})"


if __name__ == "__main__":
    main()
