"""`truerank compare`: models by the results that evaluate wrote."""

from __future__ import annotations

from pathlib import Path

import click

from truerank.cli.options import (
    PATH,
    confidence_option,
    examples,
    format_option,
    metrics_option,
    output_option,
)

__all__ = ["compare"]

EXAMPLES = examples(
    "compare runs/a/result.json runs/b/result.json",
    "compare a.json b.json c.json -m map@r,hit@1 --format latex -o table.tex",
    "compare --runs 'a-*.json' --runs b-0.json,b-1.json --names ours,theirs",
)


@click.command(epilog=EXAMPLES, short_help="Compare models by their results.")
@click.argument("results", nargs=-1, type=PATH)
@click.option(
    "--runs",
    multiple=True,
    help="A model by several runs that differ in their seed: FILE,FILE,... or a pattern in quotes, "
    "'a-*.json' (repeat per model).",
)
@click.option("--names", help="Names of the models, separated by commas: RESULTS, then --runs.")
@metrics_option("Such as map@r,hit@10; all that the results share if left out.")
@confidence_option
@click.option("--seed", type=int, default=0, show_default=True, help="Of the bootstrap.")
@format_option()
@output_option()
def compare(
    results: tuple[Path, ...],
    runs: tuple[str, ...],
    names: str | None,
    metrics: str | None,
    confidence: float,
    seed: int,
    form: str,
    output: Path | None,
) -> None:
    """Compare models by their RESULTS, the JSON files that evaluate -o wrote for one task.

    LaTeX and Markdown are tables for a paper: models as rows, metrics as columns, the best in bold.
    """
    from truerank import comparison
    from truerank.cli.inputs import read_runs, split_metrics
    from truerank.cli.outputs import check_targets
    from truerank.cli.printing import print_form, ruled, write_form

    models = read_runs(results, runs)
    files = (path for one in models for path in (one if isinstance(one, list) else [one]))
    check_targets({"-o": output}, tuple(files))
    compared = comparison.compare(
        *models,
        names=None if names is None else [name.strip() for name in names.split(",")],
        metrics=None if metrics is None else split_metrics(metrics),
        confidence=confidence,
        seed=seed,
    )
    forms = {
        "table": lambda: compared.to_text(rule=ruled()),
        "json": compared.to_json,
        "csv": compared.to_csv,
        "markdown": compared.to_markdown,
        "latex": compared.to_latex,
    }
    if output is not None:
        write_form(output, form, forms)
    print_form(form, forms)
