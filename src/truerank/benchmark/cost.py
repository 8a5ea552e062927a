"""What a benchmark has cost: trainings and seconds of each method, added up over all calls."""

from __future__ import annotations

from typing import Any

from truerank.benchmark.layout import Layout
from truerank.benchmark.plan import Plan
from truerank.files import to_json

__all__ = ["write_cost"]

PHASES = ("search", "reruns")


def write_cost(layout: Layout, plan: Plan) -> dict[str, Any]:
    """Write cost.json; the seconds are those of finished trainings, side by side or not."""
    methods = {}
    for method in plan.methods:
        trials = plan.studies.found[method.name]
        searched = [fold for trial in trials for fold in trial.folds.values()]
        again = [
            outcome
            for rerun in plan.reruns
            for fold in range(plan.folds)
            if (outcome := plan.ended(method.name, rerun, fold)) is not None
        ]
        methods[method.name] = {
            "search": _sum(searched),
            "reruns": _sum(again),
            "scoring_seconds": round(
                sum(
                    kept.get("seconds", 0.0)
                    for rerun in plan.reruns
                    if (kept := layout.scores(method.name, rerun)) is not None
                ),
                3,
            ),
        }
    total = {
        "trainings": sum(one[p]["trainings"] for one in methods.values() for p in PHASES),
        "seconds": round(sum(one[p]["seconds"] for one in methods.values() for p in PHASES), 3),
    }
    cost = {"methods": methods, "total": total}
    to_json(cost, layout.cost)
    return cost


def _sum(outcomes: list[Any]) -> dict[str, Any]:
    return {
        "trainings": len(outcomes),
        "epochs": sum(outcome.epochs for outcome in outcomes),
        "seconds": round(sum(outcome.seconds for outcome in outcomes), 3),
    }
