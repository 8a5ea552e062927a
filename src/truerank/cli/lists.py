"""`truerank lists`: what a search returned, by labels or judgements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from truerank.cli.options import (
    PATH,
    Labelled,
    confidence_option,
    examples,
    format_option,
    label_options,
    metrics_option,
    output_option,
    threads_option,
)
from truerank.errors import InputError

__all__ = ["lists"]

EXAMPLES = examples(
    "lists neighbours.ibin --labels query.csv --gallery-labels gallery.csv",
    "lists neighbours.npy --labels labels.csv -m map@r,hit@10 --settle 0.01",
    "lists system.run --relevance judgements.qrels --gallery-size 8841823 -m map@1000,ndcg@10",
)


@click.command(cls=Labelled, epilog=EXAMPLES, short_help="Judge what a search returned.")
@click.argument("neighbours", type=PATH)
@click.option("--labels", type=PATH, help="Labels of the queries.")
@click.option(
    "--gallery-labels",
    type=PATH,
    help="Labels of the gallery; without it the queries are their own gallery.",
)
@label_options
@click.option(
    "--relevance",
    type=PATH,
    help="Who is relevant to whom, instead of labels: TREC qrels, which go by id, or a (queries, "
    "gallery) matrix in .npy.",
)
@click.option("--ids", type=PATH, help="File with a column id, for the queries.")
@click.option("--gallery-ids", type=PATH, help="File with a column id, for the gallery.")
@click.option("--gallery-size", type=int, help="Items in all, where qrels and run name only some.")
@click.option("--scores", type=PATH, help="Scores of the lists (.npy); equal ones tie.")
@click.option("--ignore-scores", is_flag=True, help="Take the order of the lists as it is.")
@click.option(
    "--named-by",
    type=click.Choice(("auto", "row", "id")),
    default="auto",
    show_default=True,
    help="What lists name items by; auto takes integers for rows, unless ids are integers.",
)
@click.option("--junk-label", multiple=True, help="Exclude gallery items of this label.")
@metrics_option("Ranking metrics such as map@r,hit@10, or all; may be repeated.")
@click.option(
    "--average",
    type=click.Choice(("query", "class")),
    default="query",
    show_default=True,
    help="What the mean is over.",
)
@click.option(
    "--no-mate",
    type=click.Choice(("report", "zero", "error")),
    default="report",
    show_default=True,
    help="Queries with nothing to find are left out and counted, count as 0, or are refused.",
)
@click.option(
    "--unlabelled",
    type=click.Choice(("error", "distractor")),
    default="error",
    show_default=True,
    help="Whether gallery rows without a label are refused or relevant to nobody.",
)
@click.option(
    "--settle",
    type=float,
    help="Show the smallest k that leaves no more than this between lower and upper, as 0.01.",
)
@threads_option
@confidence_option
@click.option("--no-intervals", is_flag=True, help="Compute no intervals.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the intervals.")
@click.option("--adjusted", is_flag=True, help="Show (score - chance)/(best - chance) as well.")
@format_option()
@output_option()
@click.option("--per-query", type=PATH, help="Write .csv or .parquet: a row a query.")
def lists(
    form: str,
    output: Path | None,
    per_query: Path | None,
    adjusted: bool,
    **options: Any,
) -> None:
    """Judge NEIGHBOURS, what a search returned for each query, by every ranking metric.

    Lists come from .npy, .npz, .parquet, .ivecs, .ibin, .hdf5 (ann-benchmarks) or a TREC run
    (.run, .trec, .txt): row numbers of the gallery, nearest first, -1 for none, or ids. What was
    not returned may follow in any order, which gives lower, expected and upper. An item that is
    repeated or unknown is wrong in its place.
    """
    from truerank.cli import outputs, printing
    from truerank.cli.list_files import read_files, scored

    inputs = tuple(value for value in options.values() if isinstance(value, Path))
    outputs.check_targets({"-o": output, "--per-query": per_query}, inputs)
    if options["scores"] is not None and options["ignore_scores"]:
        raise InputError("--scores and --ignore-scores contradict each other; pass one.")
    prepared, chosen = read_files(options)
    result = scored(prepared, chosen, options)
    if per_query is not None:
        outputs.write_per_query(result, prepared.names, per_query)
    printing.deliver(result, form, output, adjusted)
