"""Commands that score: truerank evaluate, lists, verify and metrics."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from truerank._util.errors import InputError
from truerank._util.progress import progress_bar
from truerank.cli.options import (
    PATH,
    WORST,
    Command,
    DistanceName,
    Labelled,
    MetricName,
    Written,
    adjusted_option,
    average_option,
    by_option,
    confidence_option,
    device_option,
    distance_option,
    examples,
    file_options,
    format_option,
    id_options,
    junk_option,
    label_options,
    metrics_option,
    no_intervals_option,
    output_option,
    page_options,
    per_query_option,
    relevance_option,
    report_option,
    seed_option,
    threads_option,
    units_option,
    unlabelled_option,
    unmated_option,
    verbose_option,
    worst_option,
)

# `truerank evaluate`: the options, and what is done in which order; `evaluate_files` does it.


EVALUATE_EXAMPLES = examples(
    "evaluate embeddings.npy --labels labels.csv",
    "evaluate embeddings.npy --labels labels.csv -m map@r,hit@10 -o result.json",
    "evaluate query.npy --labels query.csv --gallery gallery.npy --gallery-labels gallery.csv",
    "evaluate embeddings.npz --by label --worst 20",
    "evaluate embeddings.npz --gallery-sizes 50,100 --extrapolate 10000",
    "evaluate embeddings.npy --labels labels.csv --report page.html --images photos",
    "evaluate embeddings.npy --labels labels.csv --cluster auto",
    "evaluate query.npz --gallery gallery.npz --relevance judgements.qrels --format latex",
)
IMAGES = (
    "Images for --report: a folder whose files are named by the ids of the rows, or the column of "
    "the labels file with their paths."
)


@click.command(
    cls=Labelled, epilog=EVALUATE_EXAMPLES, short_help="Score embeddings against labels."
)
@file_options
@click.option(
    "--task",
    "task_file",
    type=PATH,
    help="Hidden task (truerank task make) to score instead of labels; the output reveals no "
    "query.",
)
@click.option(
    "--full",
    type=Written(".json"),
    help="With --task: also write the full result, which reveals the labels, for the organiser "
    "(.json).",
)
@distance_option(told=True)
@metrics_option(
    "Metrics such as map@r,hit@10, separated by commas or spaces, or all; may be repeated."
)
@average_option
@unmated_option
@device_option
@threads_option
@click.option(
    "--cluster",
    metavar="ADDRESS",
    help="Run on a Ray cluster: auto for the one that runs here, or an address such as head:6379.",
)
@confidence_option
@no_intervals_option
@seed_option
@units_option
@click.option(
    "--gallery-sizes",
    metavar="N,N,...",
    help="Also show the expected scores at smaller gallery sizes, computed exactly.",
)
@click.option(
    "--extrapolate",
    metavar="N,N,...",
    help="Also show scores extrapolated to larger gallery sizes by a fit; their stated error is an "
    "estimate, not a bound.",
)
@adjusted_option
@by_option
@worst_option
@verbose_option
@format_option()
@output_option()
@per_query_option
@report_option
@page_options
@click.option("--images", metavar="FOLDER/COLUMN", help=IMAGES)
@click.option(
    "--checkpoint",
    type=PATH,
    help="File that stores the progress of the run. OUTPUT.checkpoint by default.",
)
@click.option("--resume", is_flag=True, help="Resume from the checkpoint of an interrupted run.")
def evaluate(
    form: str,
    output: Path | None,
    per_query: Path | None,
    report: Path | None,
    images: str | None,
    full: Path | None,
    no_intervals: bool,
    adjusted: bool,
    by: str | None,
    worst: int | None,
    extrapolate: str | None,
    checkpoint: Path | None,
    resume: bool,
    **options: Any,
) -> None:
    """Score EMBEDDINGS (.npy, .npz, .pt, .safetensors, .parquet, .csv, a manifest) against labels.

    Labels come from a CSV (columns label and optionally group, id, level1, level2, ...), an array
    file, or the embeddings file itself. Without --gallery each row is searched among all others.
    """
    from truerank.cli import outputs
    from truerank.cli.inputs import evaluate_files, whole_numbers
    from truerank.cli.pages import prepare_report, write_report
    from truerank.competition.task import public_result
    from truerank.result.tables import Parts

    hidden = options["task_file"] is not None
    if full is not None and not hidden:
        raise InputError("--full goes with --task; the result of labels is full as it is, in -o.")
    if by is not None and hidden and full is None:
        raise InputError("--by shows the classes of a hidden task; pass --full FILE to have that.")
    if per_query is not None and hidden and full is None:
        raise InputError(
            "--per-query shows the classes of a hidden task; pass --full FILE to have that."
        )
    if options["gallery_sizes"] is not None and hidden and full is None:
        raise InputError(
            "--gallery-sizes reveals the ranks of relevant items of a hidden task, as a curve "
            "does; pass --full FILE to write them there."
        )
    inputs = tuple(value for value in options.values() if isinstance(value, Path))
    targets = {"-o": output, "--per-query": per_query, "--report": report, "--full": full}
    outputs.check_targets(targets, inputs)
    pictures = prepare_report(report, images, options)
    beyond = whole_numbers("--extrapolate", extrapolate)
    asked = options["gallery_sizes"] = whole_numbers("--gallery-sizes", options["gallery_sizes"])
    if worst is not None and by is None:
        raise InputError(
            "--worst is the number of parts to show and needs --by; pass --by, or leave --worst "
            "out."
        )
    if no_intervals:
        options["confidence"] = None
    with (
        outputs.checkpointed(
            checkpoint, resume, output, (per_query, report, full, *inputs)
        ) as kept,
        progress_bar("ranking", "pairs" if options["cluster"] else None) as progress,
    ):
        result, names = evaluate_files(
            progress=progress,
            checkpoint=kept,
            first_found=per_query is not None,
            fitted=bool(beyond),
            **options,
        )
    foretold = [str(result.extrapolate(size)) for size in beyond]
    parts = None if by is None else Parts.of_result(result, by, worst or WORST)
    if per_query is not None:
        outputs.write_per_query(result, names, per_query)
    if full is not None:
        result.to_json(full)
        outputs.announce(full)
    shown = public_result(result) if hidden else result
    if report is not None:
        write_report(shown, report, options["embeddings"], pictures)
    outputs.deliver(shown, form, output, adjusted, parts, asked)
    for text in foretold if form == "table" else ():
        click.echo(f"\n{text}")


# `truerank lists`: what a search returned, by labels or judgements.


LISTS_EXAMPLES = examples(
    "lists neighbors.ibin --labels query.csv --gallery-labels gallery.csv",
    "lists neighbors.npy --labels labels.csv -m map@r,hit@10 --settle 0.01",
    "lists neighbors.ibin --labels query.csv --gallery-labels gallery.csv --embeddings query.fbin "
    "--gallery gallery.fbin --stored decoded.fbin --distance euclidean",
    "lists system.run --relevance judgements.qrels --gallery-size 8841823 -m map@1000,ndcg@10",
)


@click.command(
    cls=Labelled, epilog=LISTS_EXAMPLES, short_help="Score ranked lists that a search returned."
)
@click.argument("neighbors", type=PATH)
@click.option("--labels", type=PATH, help="Labels of the queries.")
@click.option(
    "--gallery-labels",
    type=PATH,
    help="Labels of the gallery. Without it, the queries are the gallery.",
)
@label_options
@relevance_option
@id_options("queries")
@click.option(
    "--gallery-size",
    type=int,
    help="Number of gallery items, where qrels and run name only some of them.",
)
@click.option("--scores", type=PATH, help="Scores of the listed items (.npy); equal scores tie.")
@click.option(
    "--ignore-scores", is_flag=True, help="Rank items by their place in the lists, not by scores."
)
@click.option(
    "--named-by",
    type=click.Choice(("auto", "row", "id")),
    default="auto",
    show_default=True,
    help="How lists name items: by row number or by id; auto reads integers as row numbers, unless "
    "the ids are integers.",
)
@junk_option
@metrics_option(
    "Ranking metrics such as map@r,hit@10, separated by commas or spaces, or all; may be repeated."
)
@average_option
@unmated_option
@unlabelled_option
@click.option(
    "--settle",
    type=float,
    help="Show the smallest k at which the lower and upper bound of each metric differ by at most "
    "this, such as 0.01.",
)
@click.option(
    "--embeddings",
    type=PATH,
    help="Original vectors of the queries: show what the index loses, instead of scores.",
)
@click.option("--gallery", type=PATH, help="With --embeddings: original vectors of the gallery.")
@click.option(
    "--stored",
    type=PATH,
    help="With --embeddings: vectors of the gallery as the index stores them, decoded.",
)
@click.option(
    "--stored-queries",
    type=PATH,
    help="With --embeddings: quantised vectors of the queries, if the index quantises them.",
)
@distance_option(lambda catalogue: catalogue.names(given=False))
@click.option(
    "--stored-distance",
    type=DistanceName(lambda catalogue: catalogue.names(given=False)),
    help="Distance between stored vectors, if it is not --distance.",
)
@click.option(
    "--exact-neighbors",
    type=PATH,
    help="Ground truth neighbours (truerank neighbors --all): show neighbour_recall against them.",
)
@click.option(
    "-k",
    type=click.IntRange(1),
    help="Cut-off of neighbour_recall. The length of the lists by default.",
)
@device_option
@threads_option
@confidence_option
@no_intervals_option
@seed_option
@units_option
@adjusted_option
@by_option
@worst_option
@verbose_option
@format_option()
@output_option()
@per_query_option
@report_option
@page_options
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
    """Score NEIGHBORS, the ranked list that a search returned for each query.

    Lists come from .npy, .npz, .parquet, .ivecs, .ibin, .hdf5 (ann-benchmarks) or a TREC or MS
    MARCO run (any ending). They hold row numbers of the gallery, nearest first, -1 for no item, or
    ids. Items that were not returned may follow in any order, which gives the lower bound, expected
    value and upper bound of a score. Repeated and unknown items count as wrong.

    With --embeddings the table shows how much of each metric is lost between the original vectors
    and the lists: by quantisation, by the cut at k, and by the search. Without labels it shows the
    share of the ground truth neighbours that were found, and no metric, as --exact-neighbors does.
    """
    from truerank.cli import outputs
    from truerank.cli.inputs import lost, read_files, scored
    from truerank.cli.pages import prepare_report, write_report
    from truerank.result.tables import Parts

    inputs = tuple(value for value in options.values() if isinstance(value, Path))
    outputs.check_targets({"-o": output, "--per-query": per_query, "--report": report}, inputs)
    if worst is not None and by is None:
        raise InputError(
            "--worst is the number of parts to show and needs --by; pass --by, or leave --worst "
            "out."
        )
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
    with progress_bar("reading"):
        prepared, chosen = read_files(options)
    if options["embeddings"] is not None:
        with progress_bar("ranking") as progress:
            loss = lost(prepared, chosen, options, progress)
        forms: dict[str, Callable[[], str]] = {
            "table": lambda: loss.to_text(rule=outputs.ruled()),
            "json": lambda: loss.to_json(per_query=False),
            "csv": loss.to_csv,
            "markdown": loss.to_markdown,
            "latex": loss.to_latex,
        }
        if output is not None:
            outputs.write_form(output, form, forms | {"json": loss.to_json})
        outputs.print_form(form, forms)
        return
    with progress_bar("scoring the lists"):
        result = scored(prepared, chosen, options)
    parts = None if by is None else Parts.of_result(result, by, worst or WORST)
    if per_query is not None:
        outputs.write_per_query(result, prepared.names, per_query)
    if report is not None:
        write_report(result, report, options["neighbors"], pictures)
    outputs.deliver(result, form, output, adjusted, parts)


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


# `truerank verify`: a list of trials, by their scores or by embeddings.


VERIFY_EXAMPLES = examples(
    "verify scores.txt --pairs trials.csv",
    "verify embeddings.npz --pairs pairs.txt --layout lfw -m eer,tar@far=0.001",
    "verify --pairs trials-with-scores.csv --format csv -o result.csv",
    "verify system.scores --pairs trials.kaldi --labels utt2spk.csv -o result.json",
    "verify wespeaker.score --report page.html",
)


@click.command(cls=Command, epilog=VERIFY_EXAMPLES, short_help="Score a list of trials.")
@click.argument("scores_or_embeddings", required=False, type=PATH)
@click.option(
    "--pairs",
    type=PATH,
    help="File of the trials. Not needed if the file of scores has a column target.",
)
@click.option(
    "--layout",
    type=click.Choice(("auto", "lfw", "voxceleb", "ijb", "kaldi", "wespeaker", "csv")),
    default="auto",
    show_default=True,
    help="Format of the trials; csv has the columns left, right and same, and optionally score, "
    "left_label and right_label.",
)
@click.option("--ids", type=PATH, help="File with a column id for the rows of the embeddings.")
@click.option(
    "--labels",
    type=PATH,
    help="File with the columns id and label, the person of each id, for the intervals.",
)
@click.option(
    "--distance",
    type=DistanceName(lambda catalogue: catalogue.names()),
    help="Distance between embeddings, as in evaluate; for scores similarity (the default) or "
    "precomputed.",
)
@metrics_option(
    "Metrics such as eer,tar@far=0.001, separated by commas or spaces, or all; may be repeated."
)
@confidence_option
@verbose_option
@format_option()
@output_option()
@report_option
@page_options
def verify(
    scores_or_embeddings: Path | None,
    pairs: Path | None,
    layout: str,
    ids: Path | None,
    labels: Path | None,
    distance: str | None,
    metrics: str | None,
    confidence: float,
    form: str,
    output: Path | None,
    report: Path | None,
) -> None:
    """Score a list of trials by SCORES_OR_EMBEDDINGS (left out if the list has scores).

    A one-dimensional array or a text file with one number per line holds scores, one for each trial
    in its order; a text file with lines "enrol test score" is joined to the trials by the pair, and
    one with "enrol test score target" needs no --pairs. A matrix holds embeddings, whose ids are in
    the same file or in --ids. An id that is a path is also found by its file name, so that the
    output of truerank embed for the folders of LFW fits its pairs.txt:

    \b
        truerank embed best.pt lfw -o lfw.npz
        truerank verify lfw.npz --pairs pairs.txt
    """
    from truerank.cli import inputs, outputs
    from truerank.cli.pages import prepare_report, write_report
    from truerank.evaluation import trials as verification

    values = scores_or_embeddings
    named = values or pairs
    if named is None:
        raise InputError("the trials are missing: pass --pairs FILE.")
    outputs.check_targets({"-o": output, "--report": report}, (values, pairs, ids, labels))
    pictures = prepare_report(report, None, {})
    with progress_bar("scoring the trials"):
        result = verification.verify(
            values,
            pairs,
            inputs.chosen_metrics(metrics),
            ids=None if ids is None else inputs.read_ids(ids),
            labels=labels,
            layout=layout,
            distance=distance,
            confidence=confidence,
        )
    if report is not None:
        write_report(result, report, named, pictures)
    outputs.deliver(result, form, output)


# `truerank metrics`: what is known about every metric.


METRICS_EXAMPLES = examples(
    "metrics map@r", "metrics verification", "metrics", "metrics --format json"
)


@click.command(cls=Command, epilog=METRICS_EXAMPLES, short_help="List metrics, or describe one.")
@click.argument("name", required=False, type=MetricName())
@format_option(("table", "json", "csv", "markdown"))
def metrics(name: str | None, form: str) -> None:
    """List all metrics or those of a family, or describe the metric NAME.

    NAME is a metric or an alias of one, with or without parameters, or a family: ranking,
    hierarchy, verification, openset, gom, consistency or clustering.
    """
    from truerank.cli.outputs import print_form
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
