"""Write docs/results/other-tools.md: what the conformance kit says about other tools.

In: the tools as they are installed beside truerank, functions of theirs (scripts/peers/judged.py)
and a few larger cases (scripts/peers/cases.py). Out: the page, once truerank's answers equal those
that the cases derive by hand; a difference ends the script.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

import truerank
from truerank import Score

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts" / "peers"))

from cases import EMBEDDING_CASES, SCORE_CASES, Answer, EmbeddingCase, ScoreCase  # noqa: E402
from environment import TORCH, interpreter, run  # noqa: E402
from judged import TOOLS  # noqa: E402
from page import render  # noqa: E402

# Each answer is the float64 nearest to a short sum: a few roundings are allowed, nothing else.
ROUNDING = 1e-15


def score_of(case: ScoreCase | EmbeddingCase, arrangement: tuple[int, ...], metric: str) -> Score:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", truerank.TruerankWarning)
        if isinstance(case, ScoreCase):
            scores, relevance = np.array([case.scores]), np.array([arrangement], dtype=bool)
            found = truerank.evaluate(
                scores, relevance=relevance, distance="similarity", metrics=[metric]
            )
        else:
            rows, labels = np.array(case.embeddings), np.array(arrangement)
            found = truerank.evaluate(rows, labels, distance="euclidean", metrics=[metric])
    return found[metric]


def check(name: str, answer: Answer, score: Score) -> None:
    ours = (score.lower, score.expected, score.upper)
    right = tuple(
        math.nan if value is None else float(value)
        for value in (answer.lower, answer.expected, answer.upper)
    )
    if not np.allclose(ours, right, rtol=0, atol=ROUNDING, equal_nan=True):
        raise SystemExit(f"{name}, {answer.metric}: truerank gives {ours}, by hand it is {right}")


def check_truerank() -> None:
    """End the script if truerank's answer to a case is not the one derived by hand."""
    for case in (*SCORE_CASES, *EMBEDDING_CASES):
        arrangements = case.relevance if isinstance(case, ScoreCase) else case.labels
        for answer in case.answers:
            for arrangement in arrangements.values():
                check(case.name, answer, score_of(case, arrangement, answer.metric))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    default = Path(tempfile.gettempdir()) / "truerank-peers"
    parser.add_argument("--env", type=Path, default=default, help="folder of the environments")
    parser.add_argument("--torch", default=TORCH, help="what pip installs first")
    parser.add_argument("--large", action="store_true", help="measure the full mAP too (slow)")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "results" / "other-tools.md")
    options = parser.parse_args()

    check_truerank()
    tools, large = [], []
    for tool in TOOLS:
        print(f"judging {tool} ...", file=sys.stderr)
        tools.append(run(interpreter(tool, options.env, options.torch), "judged.py", tool))
    if options.large:
        tool = next(t for t in tools if t["tool"] == "pytorch-metric-learning")
        large = [
            (tool["tool"], tool["version"], run(sys.executable, "large.py", tool["tool"])),
            ("truerank", "this one", run(sys.executable, "large.py", "truerank")),
        ]
    command = "python scripts/what_other_tools_report.py" + (" --large" if options.large else "")
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(render(command, tools, large))


if __name__ == "__main__":
    main()
