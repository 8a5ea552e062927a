"""`truerank metrics`: what is known about every metric."""

from __future__ import annotations

import click

__all__ = ["metrics"]


@click.command()
@click.argument("name", required=False)
def metrics(name: str | None) -> None:
    """List the metrics, or say everything about the one called NAME."""
    from truerank.metrics import describe

    click.echo(describe(name))
