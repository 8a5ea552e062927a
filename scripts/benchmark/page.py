"""Write docs/results/benchmark.md from the folders of finished benchmarks.

    python scripts/benchmark/page.py quickdraw emoji-linear

Tables, configurations, openings, machines and cost are taken from the folders' files; the numbers
behind them are copied to docs/results/benchmark/. Sections of benchmarks that are not named stay as
they are.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[2] / "docs" / "results"
KEPT = ("config.yaml", "table.json", "reruns.csv", "trials.csv", "openings.jsonl", "cost.json")
IF_THERE = ("longer.json", "patience.json")
FIGURES = {
    "gain_over_contrastive": "Relative improvement over the contrastive loss, in MAP@R.",
    "gain_over_triplet": "Relative improvement over the triplet loss, in MAP@R.",
    "reruns": "One dot per rerun.",
    "curves": "Validation MAP@R of every rerun and fold; epoch 0 is the network before training.",
    "search": "Scores of the searches, trial by trial.",
}
RULE = """\
The verdict follows a rule that was fixed before the test evaluation: *flat* if the upper end of the
simultaneous 95 % interval of best/contrastive - 1 in MAP@R (over runs and test classes) is below
10 %, *not flat* if the lower end is above, else *undecided*."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+")
    options = parser.parse_args()
    page = RESULTS / "benchmark.md"
    sections = sections_of(page.read_text(encoding="utf-8")) if page.exists() else {}
    unfinished = [str(one) for one in options.folders if not (one / "table.json").exists()]
    if unfinished:
        parser.error(f"no finished benchmark: {', '.join(unfinished)}")
    for folder in options.folders:
        target = RESULTS / "benchmark" / folder.name
        target.mkdir(parents=True, exist_ok=True)
        for name in (*KEPT, *(one for one in IF_THERE if (folder / one).exists())):
            shutil.copy(folder / name, target)
        for name in (*FIGURES, *sensitivities(folder)):
            shutil.copy(folder / "figures" / f"{name}.svg", target)
        sections[folder.name] = section(folder)
    parts = ["# Losses compared under one protocol", INTRODUCTION, RULE]
    parts += [f"<!-- {name} -->\n\n{text}" for name, text in sections.items()]
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def sections_of(text: str) -> dict[str, str]:
    """The sections of a page by the names of their folders, which stand in comments before them."""
    _, *found = re.split(r"^<!-- (\S+) -->$", text, flags=re.MULTILINE)
    return {name: part.strip() for name, part in zip(found[::2], found[1::2], strict=True)}


INTRODUCTION = """\
This page compares metric learning losses under one [protocol](../concepts/protocol.md), with the
same data, network and number of trials for all losses of a table. The tables were made by
`truerank benchmark`; their files are in [benchmark/](benchmark/). *Concatenated* is the score of
the concatenated embeddings of all folds, *separated* the mean of the scores of the single folds;
(!) marks a parameter for which the search chose an end of its range."""


NOTES = {
    "quickdraw": """\
The verdict is **not flat**: concatenated, normalized softmax, SoftTriple, ArcFace and CosFace are
37 to 41 % above contrastive in MAP@R; there is no significant difference among these four. This
result has the following limits:

- The network starts from random weights and is trained on 64,000 images; the paper's starts from
  ImageNet weights. Nearly all curves below still rise at their end. Losses with class weights learn
  fastest here. With five times the iterations, on the development split, normalized softmax is 10 %
  above contrastive instead of 34 % ([the Reality Check, re-run](reproduce/reality-check.md)): much
  of the gap is due to the speed of learning.
- The three losses that rank whole batches (Smooth-AP, ROADMAP, Recall@k) get batches of 32 images
  like all others. Their papers use batches of hundreds to thousands.
- Default parameters include a learning rate of 3e-4 with RMSprop's momentum of .9. For FastAP, SNR,
  Smooth-AP and Recall@k, and in most folds for margin, this rate is too high: validation falls from
  the first epoch on, and the best epoch is epoch 0. Their default column therefore shows the
  network before training, with a random head (*untrained* is the trunk without a head). Searched
  rates are 1e-5 to 2.4e-5; those of FastAP and SNR are at the lower end of the range, and lower
  rates might be better.
- Two thirds of the searches' trainings ran before the network's passes were recorded and replayed
  on the GPU; the rest and all reruns ran after that change. The arithmetic is the same.
- Early stopping also compared with the network before training, so that a training that began below
  it was stopped after three epochs even if it rose (since corrected). The 71 trials of ten methods
  that were stopped on one fold were trained to their end (scripts/benchmark/patience.py): the best
  of them reaches 58 % of the score that its search found, so no search was affected.
- The longer trainings were planned after the test evaluation. No verdict is based on them.
- The year of a loss explains almost nothing: +0.4 % of the mean per year.""",
    "emoji-linear": """\
This table compares linear heads on features of EfficientNet-lite0 (ImageNet), computed once in
eight augmented copies, on the emoji families, with the paper's budget of 50 trials and 10 reruns.
It is separate from the table above and **decides no verdict**: a head on fixed features compresses
differences. The best is 12.4 % above the worst in MAP@R (concatenated; with default parameters and
one training per fold, 25 %); for the same twelve losses on QuickDraw, trained end to end from
random weights, the difference is 105 %. The four best losses are the same: normalized softmax,
SoftTriple, CosFace and ArcFace, 4 to 6 % above contrastive.

- **SoftTriple was searched and trained twice.** The first time it ran on a GPU, where
  `precision: auto` meant bfloat16 for the head, while the other eleven were trained on CPUs in
  float32. This was noticed after the test evaluation. All of its trainings were repeated in float32
  on a CPU; the log shows 11 repeated test evaluations. Its MAP@R (concatenated) was 33.46 and is
  33.42.
- **The other rows were checked.** The reruns of the eleven methods, 484 trainings, were repeated
  with the parameters in trials.csv, in a new environment on a machine of the same kind: all gave
  the weights whose hashes the log holds and, with the untrained rows, the same 1,845 numbers in
  reruns.csv (`scripts/benchmark/restore.py`).
- *Untrained* are the 1,280 features themselves; a random head on them, epoch 0 of the curves, has a
  validation MAP@R of 23 %. Curves are nearly flat at the end.
- With default parameters ArcFace (23.6 %, separated) and margin (24.3 %) are below the untrained
  features (25.1 %): at a scale of 64 and the default rates, ArcFace's validation falls from the
  third epoch on. Its search finds a scale of 25 and reaches 31.1 %.
- Five parameters of four methods are at an end of their range, marked (!).
- Methods were distributed over machines (`--only`, `--join`): contrastive, triplet and SoftTriple
  were trained on 2 cores (torch 2.13), and the searches of the other nine on these cores and on 16
  cores of another machine (torch 2.11). All reruns ran on 2 cores. Each machine computed the
  features itself, in float32.
- **Time** of 12 methods x (50 + 10) x 4 trainings, extrapolated from measurements. On 2 cores: 557
  trainings of nine methods took 30 minutes with two jobs, so two and a half hours for eleven;
  SoftTriple, with ten centres per class, took 107 minutes while other work ran. On the H200: 235
  trainings of all twelve took 170 s with 16 jobs, in bfloat16, so 35 minutes for all.""",
}
"""Limits and remarks per folder, written by hand."""


def section(folder: Path) -> str:
    """The part of the page about one benchmark."""
    table = json.loads((folder / "table.json").read_text())
    cost = json.loads((folder / "cost.json").read_text())
    machines = json.loads((folder / "environment.json").read_text())
    total = cost["total"]
    looks = table["openings"]
    places = " and ".join(dict.fromkeys(map(machine, machines)))
    pictures = [f"![{text}](benchmark/{folder.name}/{name}.svg)" for name, text in FIGURES.items()]
    sensitivity = [
        f"![{name}](benchmark/{folder.name}/{name}.svg)" for name in sensitivities(folder)
    ]
    configuration = (folder / "config.yaml").read_text().strip()
    notes = f"\n\n{NOTES[folder.name]}" if folder.name in NOTES else ""
    lines = [
        f"## {table['title']}{notes}",
        (folder / "table.md").read_text().strip(),
        *pictures,
        *folded("Effect of each parameter, by method", sensitivity),
        f"{total['trainings']:,} trainings took {total['seconds'] / 3600:.1f} hours, summed over "
        f"parallel trainings, on {places}. The log of test evaluations has {looks['count']} "
        f"entries and ends in `{looks['head'][:16]}`.",
        *folded("The configuration", [f"```yaml\n{configuration}\n```"]),
    ]
    return "\n\n".join(lines)


def sensitivities(folder: Path) -> list[str]:
    """The figures of single methods' parameters."""
    return sorted(path.stem for path in (folder / "figures").glob("sensitivity-*.svg"))


def folded(summary: str, lines: list[str]) -> list[str]:
    """Lines that are shown on demand."""
    return [f'<details markdown="1">\n<summary>{summary}</summary>', *lines, "</details>"]


def machine(facts: dict[str, Any]) -> str:
    """A machine in words."""
    versions = facts["versions"]
    return f"{facts.get('gpu', facts['processor'])} (torch {versions['torch']})"


if __name__ == "__main__":
    main()
