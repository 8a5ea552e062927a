"""`truerank demo`: the demonstration, printed."""

from __future__ import annotations

import click

from truerank.cli.options import format_option

__all__ = ["demo"]


@click.command()
@format_option()
def demo(form: str) -> None:
    """Evaluate two models on the embedded emoji data and explain the numbers."""
    from truerank import demonstration
    from truerank.cli.printing import print_result

    for title, result, remarks in demonstration.run():
        if form == "table":
            click.echo(f"\n{title}\n")
        print_result(result, form)
        if form == "table":
            click.echo("\n".join(remarks))
