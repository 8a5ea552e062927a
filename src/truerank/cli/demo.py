"""`truerank demo`: the demonstration, printed."""

from __future__ import annotations

from pathlib import Path

import click

from truerank.cli.options import PAGE, examples, format_option

__all__ = ["demo"]


@click.command(
    epilog=examples("demo", "demo --report page.html", "demo --format latex"),
    short_help="Compare two models on embedded data.",
)
@format_option()
@click.option("--report", type=PAGE, help="Write a page about both models as well (.html).")
def demo(form: str, report: Path | None) -> None:
    """Evaluate two models on the embedded emoji data, compare them, and explain the numbers."""
    from truerank import demonstration
    from truerank.cli.outputs import check_targets
    from truerank.cli.printing import print_form, ruled

    check_targets({"--report": report})
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
    if report is not None:
        shown.write_report(report)
        click.echo(f"\nAll of it, to look at in a browser: {report}", err=form != "table")
