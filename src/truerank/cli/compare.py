"""`truerank compare`: models by the results that evaluate wrote."""

from __future__ import annotations

from pathlib import Path

import click

from truerank.cli.options import (
    PATH,
    confidence_option,
    format_option,
    metrics_option,
    output_option,
)

__all__ = ["compare"]


@click.command()
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
@format_option(("table", "json", "markdown", "latex"))
@output_option("Write the JSON as well.")
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
    """Compare models by their RESULTS, the JSON files that evaluate -o wrote for one task."""
    from truerank import comparison, tables
    from truerank.cli.inputs import split_metrics
    from truerank.cli.outputs import check_targets

    several = ([Path(part.strip()) for part in text.split(",") if part.strip()] for text in runs)
    check_targets(output, None, results)
    compared = comparison.compare(
        *results,
        *several,
        names=None if names is None else [name.strip() for name in names.split(",")],
        metrics=None if metrics is None else split_metrics(metrics),
        confidence=confidence,
        seed=seed,
    )
    if output is not None:
        compared.to_json(output)
    text = {
        "table": lambda: f"{compared}\n",
        "json": compared.to_json,
        "markdown": compared.to_markdown,
        "latex": compared.to_latex,
    }
    click.echo(tables.printable(text[form]()), nl=False)
