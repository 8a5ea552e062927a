"""`truerank metrics`: what is known about every metric."""

from __future__ import annotations

import click

from truerank.cli.kinds import MetricName
from truerank.cli.options import examples, format_option

__all__ = ["metrics"]

EXAMPLES = examples("metrics", "metrics verification", "metrics map@r", "metrics --format json")


@click.command(epilog=EXAMPLES, short_help="List metrics, or explain one.")
@click.argument("name", required=False, type=MetricName())
@format_option(("table", "json", "csv", "markdown"))
def metrics(name: str | None, form: str) -> None:
    """List the metrics, those of a family, or say everything about the one called NAME.

    NAME is a metric or an alias of one, with or without parameters, or a family: ranking,
    hierarchy, verification, openset, gom, consistency or clustering.
    """
    from truerank.cli.printing import print_form
    from truerank.metrics import description

    print_form(
        form,
        {
            "table": lambda: description.describe(name),
            "json": lambda: description.as_json(name),
            "csv": lambda: description.as_csv(name),
            "markdown": lambda: description.as_markdown(name),
        },
    )
