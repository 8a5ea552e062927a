"""`truerank demo`: the demonstration, printed."""

from __future__ import annotations

import click

from truerank.cli.options import examples, format_option

__all__ = ["demo"]


@click.command(
    epilog=examples("demo", "demo --format latex"),
    short_help="Compare two models on embedded data.",
)
@format_option()
def demo(form: str) -> None:
    """Evaluate two models on the embedded emoji data, compare them, and explain the numbers."""
    from truerank import demonstration
    from truerank.cli.printing import print_form, ruled

    shown = demonstration.run()
    compared = shown.comparison
    print_form(
        form,
        {
            "table": lambda: shown.to_text(rule=ruled()),
            "json": compared.to_json,
            "csv": compared.to_csv,
            "markdown": compared.to_markdown,
            "latex": compared.to_latex,
        },
    )
