"""`truerank lists`: what a search returned, by labels or judgements."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from truerank.cli.kinds import DistanceName
from truerank.cli.options import (
    PATH,
    WORST,
    Labelled,
    adjusted_option,
    average_option,
    by_option,
    confidence_option,
    device_option,
    distance_option,
    examples,
    format_option,
    id_options,
    junk_option,
    label_options,
    metrics_option,
    no_intervals_option,
    no_mate_option,
    output_option,
    per_query_option,
    relevance_option,
    report_option,
    seed_option,
    threads_option,
    units_option,
    unlabelled_option,
    worst_option,
)
from truerank.errors import InputError
from truerank.progress import progress_bar

__all__ = ["lists"]

EXAMPLES = examples(
    "lists neighbours.ibin --labels query.csv --gallery-labels gallery.csv",
    "lists neighbours.npy --labels labels.csv -m map@r,hit@10 --settle 0.01",
    "lists neighbours.ibin --labels query.csv --gallery-labels gallery.csv --embeddings query.fbin "
    "--gallery gallery.fbin --stored decoded.fbin --distance euclidean",
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
@relevance_option
@id_options("queries")
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
@junk_option
@metrics_option("Ranking metrics such as map@r,hit@10, or all; may be repeated.")
@average_option
@no_mate_option
@unlabelled_option
@click.option(
    "--settle",
    type=float,
    help="Show the smallest k that leaves no more than this between lower and upper, as 0.01.",
)
@click.option(
    "--embeddings",
    type=PATH,
    help="The queries' full vectors: show what the index loses instead of the scores.",
)
@click.option("--gallery", type=PATH, help="With --embeddings: the gallery's full vectors.")
@click.option(
    "--stored", type=PATH, help="With --embeddings: the gallery as the index stores it, decoded."
)
@click.option(
    "--stored-queries", type=PATH, help="The queries, if the index quantises them as well."
)
@distance_option(lambda catalogue: catalogue.names(given=False))
@click.option(
    "--stored-distance",
    type=DistanceName(lambda catalogue: catalogue.names(given=False)),
    help="Of the stored vectors, if it is another.",
)
@click.option(
    "--exact-neighbors",
    type=PATH,
    help="The file that truth wrote: show neighbour_recall against it, without embeddings.",
)
@click.option("-k", type=click.IntRange(1), help="Of neighbour_recall; all places by default.")
@device_option
@threads_option
@confidence_option
@no_intervals_option
@seed_option
@units_option
@adjusted_option
@by_option
@worst_option
@format_option()
@output_option()
@per_query_option
@report_option
def lists(
    form: str,
    output: Path | None,
    per_query: Path | None,
    adjusted: bool,
    by: str | None,
    worst: int | None,
    report: Path | None,
    **options: Any,
) -> None:
    """Judge NEIGHBOURS, what a search returned for each query, by every ranking metric.

    Lists come from .npy, .npz, .parquet, .ivecs, .ibin, .hdf5 (ann-benchmarks) or a run of TREC or
    MS MARCO (any ending): row numbers of the gallery, nearest first, -1 for none, or ids. What was
    not returned may follow in any order, which gives lower, expected and upper. An item that is
    repeated or unknown is wrong in its place.

    With --embeddings the table shows instead how much of each metric is lost on the way from the
    full vectors to the lists: by quantisation, by the cut at k, and by the search. Without labels
    it tells the share of the true neighbours that were found, and no metric.
    """
    from truerank.cli import outputs, printing
    from truerank.cli.list_files import lost, read_files, scored
    from truerank.cli.report import prepare_report, write_report
    from truerank.parts import Parts

    inputs = tuple(value for value in options.values() if isinstance(value, Path))
    outputs.check_targets({"-o": output, "--per-query": per_query, "--report": report}, inputs)
    if worst is not None and by is None:
        raise InputError("--worst says how many parts to show; say by what with --by.")
    if options["scores"] is not None and options["ignore_scores"]:
        raise InputError("--scores and --ignore-scores contradict each other; pass one.")
    check_loss(
        options,
        {
            "--per-query": per_query,
            "--adjusted": adjusted or None,
            "--by": by,
            "--report": report,
        },
    )
    pictures = prepare_report(report, None, options)
    prepared, chosen = read_files(options)
    if options["embeddings"] is not None:
        with progress_bar("ranking") as progress:
            loss = lost(prepared, chosen, options, progress)
        forms: dict[str, Callable[[], str]] = {
            "table": lambda: loss.to_text(rule=printing.ruled()),
            "json": lambda: loss.to_json(per_query=False),
            "csv": loss.to_csv,
            "markdown": loss.to_markdown,
            "latex": loss.to_latex,
        }
        if output is not None:
            printing.write_form(output, form, forms | {"json": loss.to_json})
        printing.print_form(form, forms)
        return
    result = scored(prepared, chosen, options)
    parts = None if by is None else Parts.of_result(result, by, worst or WORST)
    if per_query is not None:
        outputs.write_per_query(result, prepared.names, per_query)
    if report is not None:
        write_report(result, report, options["neighbours"], pictures)
    printing.deliver(result, form, output, adjusted, parts)


def check_loss(options: dict[str, Any], of_scores: dict[str, Any]) -> None:
    """Refuse options that go with the loss alone, or with the scores alone."""
    if options["embeddings"] is None:
        if options["k"] is not None and options["exact_neighbors"] is None:
            raise InputError(
                "-k goes with --embeddings, the queries' full vectors, or --exact-neighbors."
            )
        for name in ("gallery", "stored", "stored_queries", "stored_distance"):
            if options[name] is not None:
                flag = f"--{name.replace('_', '-')}"
                raise InputError(f"{flag} goes with --embeddings, the queries' full vectors.")
        return
    given = of_scores | {
        "--settle": options["settle"],
        "--scores": options["scores"],
        "--gallery-size": options["gallery_size"],
        "--exact-neighbors": options["exact_neighbors"],
    }
    for flag, value in given.items():
        if value is not None:
            raise InputError(f"{flag} goes with scores; leave it or --embeddings out.")
