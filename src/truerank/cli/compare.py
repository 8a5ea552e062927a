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
    "compare --runs a0.json,a1.json --runs b0.json,b1.json --names ours,theirs",
)


@click.command(epilog=EXAMPLES, short_help="Compare models by their results.")
@click.argument("results", nargs=-1, type=PATH)
@click.option(
    "--runs",
    multiple=True,
    help="A model by several runs that differ in their seed: FILE,FILE,... (repeat per model).",
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
    from truerank.cli.inputs import split_metrics
    from truerank.cli.outputs import check_targets
    from truerank.cli.printing import print_form, ruled, write_form

    several = [[Path(part.strip()) for part in text.split(",") if part.strip()] for text in runs]
    check_targets({"-o": output}, (*results, *(path for some in several for path in some)))
    compared = comparison.compare(
        *results,
        *several,
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
