"""`truerank conform`: which conventions a metric function follows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from truerank.cli.kinds import MetricName
from truerank.cli.options import examples, format_option, output_option
from truerank.errors import InputError

__all__ = ["conform"]

FORMS = ("table", "json")
EXAMPLES = examples(
    "conform mypackage.metrics:mean_average_precision --like map@r",
    "conform sklearn.metrics:label_ranking_average_precision_score --like map --call scores",
    "conform metrics.py:average_precision --like map@2 --call scores --one-query --with k=2",
    "conform metrics.py:hit_rate --like hit@3 --call lists --allow no-mates=zero",
)


@click.command(epilog=EXAMPLES, short_help="Say which conventions a metric function follows.")
@click.argument("function")
@click.option(
    "--like",
    type=MetricName(),
    default="map@r",
    show_default=True,
    help="What it is meant to compute.",
)
@click.option(
    "--call",
    type=click.Choice(("embeddings", "scores", "lists", "qrels")),
    default="embeddings",
    show_default=True,
    help="What it takes: (embeddings, labels), (scores, relevance), (lists, relevant ids) or "
    "(qrels, run).",
)
@click.option(
    "--arrays",
    type=click.Choice(("numpy", "torch", "lists")),
    default="numpy",
    show_default=True,
    help="What embeddings, labels, scores and relevance are passed as.",
)
@click.option(
    "--one-query", is_flag=True, help="It takes the scores or the list of a single query."
)
@click.option(
    "--with", "more", multiple=True, help="A further argument, name=value; may be repeated."
)
@click.option("--allow", multiple=True, help="A convention that is meant, such as no-mates=zero.")
@format_option(FORMS)
@output_option(("table", "json"))
def conform(
    function: str,
    like: str,
    call: str,
    arrays: str,
    one_query: bool,
    more: tuple[str, ...],
    allow: tuple[str, ...],
    form: str,
    output: Path | None,
) -> None:
    """Call FUNCTION (package.module:function or file.py:function) with small cases, and say which
    conventions and known bugs explain what it returns.

    The exit status is 0 if it conforms to truerank's definition, 1 if not, 2 on bad input.
    """
    from truerank import conformance
    from truerank.cli import outputs, printing

    outputs.check_targets({"-o": output})
    found = conformance.check(
        conformance.load(function),
        like,
        call,
        arrays=arrays,
        one_query=one_query,
        arguments=dict(map(_argument, more)),
        allow=allow,
        name=function,
    )
    forms = {"table": found.to_text, "json": found.to_json}
    if output is not None:
        printing.write_form(output, form, forms)
    printing.print_form(form, forms)
    if not found.conforms:
        raise click.exceptions.Exit(1)


def _argument(text: str) -> tuple[str, Any]:
    """'k=2' as ('k', 2); what is no JSON is text."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise InputError(f"--with takes name=value. Got {text!r}.")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
