"""Score the embeddings that run.py saved: docs/results/training.json from OUT.

PYTHONPATH=src python scripts/training/score.py OUT docs/results/training.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from run import read

import truerank
from truerank.core import registry

WANTED = {
    "quickdraw": ["precision@1", "r_precision", "map@r", "opis"],
    "emoji": ["precision@1", "r_precision", "map@r", "opis", "h_ap", "asi", "ndcg"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--trial", action="store_true", help="as run.py was told")
    options = parser.parse_args()
    facts = json.loads((options.out / "runs.json").read_text())
    stored: dict[str, Any] = {}
    for path in sorted(options.out.glob("*.npz")):
        with np.load(path) as archive:
            stored |= {name: archive[name] for name in archive.files}
    known = {name.partition("@")[0] for name in registry.names()}
    for run in facts["runs"]:
        name = run["key"].partition("-")[0]
        data = read(name, options.trial)
        metrics = [metric for metric in WANTED[name] if metric.partition("@")[0] in known]
        embeddings = stored[f"{run['key']}-{run['seed']}"]
        result = truerank.evaluate(embeddings, **data.task_arguments("test"), metrics=metrics)
        run["scores"] = {metric: score.value for metric, score in result.items()}
        run["task_digest"] = result.provenance["task_digest"]
        print(run["key"], run["seed"], run["scores"], flush=True)
    options.target.parent.mkdir(parents=True, exist_ok=True)
    options.target.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
