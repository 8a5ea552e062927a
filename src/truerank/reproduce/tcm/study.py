"""The study of TCM: QuickDraw by classes and by images decides, the grocery store is shown."""

from __future__ import annotations

from truerank.reproduce.page import Page, Sheet
from truerank.reproduce.request import Request
from truerank.reproduce.tables import score_sheet
from truerank.reproduce.tcm import configuration, verdicts
from truerank.reproduce.tcm.figures import draw
from truerank.reproduce.trained import Finished, run_benchmark

__all__ = ["run"]

CITATION = (
    "Zhang, Xu, Tang, Fang, Wu, Tighe, Xing: Threshold-Consistent Margin Loss for Open-World Deep "
    "Metric Learning. ICLR 2024."
)
INTRODUCTION = (
    "One threshold serves some classes well and others badly. The paper measures how unevenly "
    "(OPIS) and adds a margin loss on hard pairs (TCM) to even it out, at no cost in accuracy. "
    "Here four losses are trained alone, with TCM, and with the contrastive loss in TCM's place."
)
RUNS = (
    "Each loss has its paper's parameters; its learning rates are searched by validation MAP@R. "
    "What is added to it is searched with as many trials: margins, weight and rates with the "
    "smallest validation OPIS among those whose MAP@R is at least that of the loss alone less .5 "
    "points.",
    "`disjoint`: half of the classes are tested on. `shared`: half of each class's images are; a "
    "model has trained on half of these classes, the others being its validation fold.",
    "OPIS is taken at FAR .01 to .1 over all pairs, integrated exactly; its noise floor is what "
    "classes of these sizes show if all were served alike.",
)
NOTES = (
    "The paper's absolute upper bound of OPIS is 0.5; it is 0.25: two classes, one with utility 1 "
    "and one with 0, differ from their mean by 1/2 each.",
    "Its worked example of 9.12e-2 is 2.31e-2 (utilities of alpha = .1 on [.8, 1.2]).",
    "The margins of A.3.1 should read m+ = 1 - d_min^2/2 and m- = 1 - d_max^2/2: the cosine of "
    "unit vectors at distance d is 1 - d^2/2.",
    "Eq. 3 lacks the factor 2 of the harmonic mean; Algorithm 1 as printed lacks the step width.",
)


def run(request: Request) -> Page:
    """Train, judge and put the page together."""
    finished = [
        run_benchmark(request, name, make)
        for name, make in configuration.benchmarks(request).items()
    ]
    runs = [*(one.described() for one in finished), *RUNS]
    if not any(one.name == "grocery" for one in finished):
        runs.append("The grocery store was not run: no file was given (--data grocery=FILE).")
    scales = {"opis": 1000.0, "opis@eps=0.1": 1000.0}
    sheets = [score_sheet(one, one.config.metrics, scales=scales) for one in finished]
    return Page(
        "tcm",
        "TCM: one threshold for all classes",
        CITATION,
        INTRODUCTION,
        runs,
        verdicts.judge(finished),
        [*sheets, *(_chosen(one) for one in finished)],
        draw(finished),
        NOTES,
        request.quick,
        {one.name: one.numbers() for one in finished},
    )


def _chosen(one: Finished) -> Sheet:
    """What the searches chose, with the notes of the benchmark."""
    rows = []
    for row in one.table["rows"]:
        if "parameters" in row:
            shown = ", ".join(f"{k} {v:.3g}" for k, v in row["parameters"].items())
            rows.append([row["method"], shown, "; ".join(row["notes"])])
    return Sheet(f"{one.name}: what was chosen", ["row", "parameters", "notes"], rows)
