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
    "reruns": "A dot for each rerun.",
    "curves": "Validation MAP@R of every rerun and fold; epoch 0 is the network before training.",
    "search": "What the searches found, trial by trial.",
}
RULE = """\
Read by a rule that was fixed before the test half was opened: *flat* if the upper end of the
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
    parts = ["# Losses compared by the fair protocol", INTRODUCTION, RULE]
    parts += [f"<!-- {name} -->\n\n{text}" for name, text in sections.items()]
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def sections_of(text: str) -> dict[str, str]:
    """The sections of a page by the names of their folders, which comments before them tell."""
    _, *found = re.split(r"^<!-- (\S+) -->$", text, flags=re.MULTILINE)
    return {name: part.strip() for name, part in zip(found[::2], found[1::2], strict=True)}


INTRODUCTION = """\
Made by `truerank benchmark` ([protocol](../concepts/protocol.md)); the files behind each table
lie in [benchmark/](benchmark/). *Concatenated* is the score of the embeddings of all folds side
by side, *separated* the mean of the scores of each alone; (!) marks a parameter that the search
left at an end of its range."""


NOTES = {
    "quickdraw": """\
The rule says **not flat**: concatenated, normalized softmax, SoftTriple, ArcFace and CosFace, which
cannot be told apart, are 37 to 41 % above contrastive in MAP@R. Before that is taken for a law of
losses:

- The network starts from random weights and sees 64,000 images; the paper's starts from
  ImageNet. Nearly all curves below still rise at their end. Losses with class weights learn
  fastest here. With five times the iterations, on the search half, normalized softmax is 10 %
  above contrastive and no longer 34 % ([the Reality Check, re-run](reproduce/reality-check.md)):
  much of the gap is speed of learning.
- The three losses that rank whole batches (Smooth-AP, ROADMAP, Recall@k) get the same 32 images
  as all others. Their papers use batches of hundreds to thousands.
- Default parameters include a rate of 3e-4 with RMSprop's momentum of .9. For FastAP, SNR,
  Smooth-AP and Recall@k, and in most folds for margin, that is too high: validation falls from
  the first epoch on, and the best epoch is epoch 0, so that their default column shows the
  network before training, with a random head (*untrained* is the trunk without a head). Searched
  rates are 1e-5 to 2.4e-5; those of FastAP and SNR lie at the lower end of the range, and might be
  better below it.
- Two thirds of the searches' trainings ran before the network's passes were recorded and replayed
  on the GPU, the rest and all reruns after it: the same arithmetic, launched another way.
- Early stopping waited for the network before training as well, so that a training that began below
  it was stopped after three epochs even while it rose (mended since). The 71 trials of ten methods
  that were stopped on one fold were trained to their end (scripts/benchmark/patience.py): the best
  of them comes to 58 % of what its search found, so no search was harmed.
- The longer trainings were thought of after the test half was opened. They decide nothing.
- The year of a loss explains nothing: +0.4 % of the mean a year.""",
    "emoji-linear": """\
A linear head on features of EfficientNet-lite0 (ImageNet), computed once in eight augmented copies;
the emoji families, with the paper's budget of 50 trials and 10 reruns. It stands apart from the
table above and **decides no verdict**: a head on fixed features compresses differences. The best is
12.4 % above the worst in MAP@R (concatenated; with default parameters, one training a fold, 25 %);
among the same twelve on QuickDraw, end to end from random weights, it is 105 %. The four that lead
are the same: normalized softmax, SoftTriple, CosFace and ArcFace, 4 to 6 % above contrastive.

- **SoftTriple was searched and trained twice.** First a GPU did it, where `precision: auto` meant
  bfloat16 for the head, while the other eleven were trained on CPUs, in float32. That was noticed
  after the test half had been opened. All of its trainings were done again in float32 on a CPU, as
  the log shows: 11 second looks. Its MAP@R (concatenated) was 33.46 and is 33.42.
- **The other rows were checked.** The reruns of the eleven methods, 484 trainings, were done again
  from the parameters in trials.csv, in a new environment on a machine of the same kind: all came to
  the weights whose hashes the log holds, and, with the untrained rows, to the same 1,845 numbers in
  reruns.csv (`scripts/benchmark/restore.py`).
- *Untrained* are the 1,280 features themselves; a random head on them, epoch 0 of the curves, has a
  validation MAP@R of 23 %. Curves have nearly flattened by the end.
- With default parameters ArcFace (23.6 %, separated) and margin (24.3 %) stay below the untrained
  features (25.1 %): at a scale of 64 and the default rates ArcFace's validation falls from the
  third epoch on. Its search finds a scale of 25 and 31.1 %.
- Five parameters of four methods lie at an end of their range, marked (!).
- Methods were shared out over machines (`--only`, `--join`): contrastive, triplet and SoftTriple
  were trained on 2 cores (torch 2.13), and the searches of the other nine on these cores and on 16
  cores of another machine (torch 2.11). All reruns ran on 2 cores. Each machine computed the
  features anew, in float32.
- **Time** of 12 methods x (50 + 10) x 4 trainings, scaled up from what was seen. On 2 cores: 557
  trainings of nine methods took 30 minutes with two jobs, so two and a half hours for eleven;
  SoftTriple, with ten centres for each class, took 107 minutes beside other work. On the H200: 235
  trainings of all twelve in 170 s with 16 jobs, in bfloat16, so 35 minutes for all.""",
}
"""What to bear in mind, folder by folder: looked at by a person."""


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
        *folded("What each parameter does, method by method", sensitivity),
        f"{total['trainings']:,} trainings took {total['seconds'] / 3600:.1f} hours, added up over "
        f"those that ran side by side, on {places}. The log of "
        f"openings has {looks['count']} lines and ends in `{looks['head'][:16]}`.",
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
