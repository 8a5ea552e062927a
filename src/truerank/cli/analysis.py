"""Commands that analyse: truerank compare, audit, explain, threshold, compression, neighbors.

`truerank neighbors --all` writes ground truth neighbors in the files that index benchmarks
read.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from truerank._util.errors import InputError
from truerank._util.progress import progress_bar
from truerank.cli.options import (
    PATH,
    Command,
    DistanceName,
    Labelled,
    MetricName,
    Written,
    average_option,
    confidence_option,
    device_option,
    distance_option,
    examples,
    file_options,
    format_option,
    id_options,
    label_options,
    levels_option,
    metrics_option,
    names_option,
    output_option,
    runs_option,
    seed_option,
    task_options,
    threads_option,
    units_option,
    unmated_option,
    verbose_option,
)

if TYPE_CHECKING:
    from truerank.analysis.operating_points import OperatingPoint, TaskTrials


# `truerank compare`: models by the results that evaluate wrote.


COMPARE_EXAMPLES = examples(
    "compare runs/a/result.json runs/b/result.json",
    "compare a.json b.json c.json -m map@r,hit@1 --format latex -o table.tex",
    "compare ours.npz theirs.npz -m map@r",
    "compare ours.npy theirs.npy --labels labels.csv --distance euclidean",
    "compare --runs 'a-*.json' --runs 'b-*.json' --format latex --cells runs",
    "compare --runs 'a-*.json' --runs b-0.json,b-1.json --names ours,theirs",
)


@click.command(cls=Command, epilog=COMPARE_EXAMPLES, short_help="Compare models by their results.")
@click.argument("results", nargs=-1, type=PATH)
@runs_option
@names_option
@metrics_option(
    "Metrics such as map@r,hit@10, separated by commas or spaces; may be repeated. All metrics "
    "that the results share by default."
)
@click.option("--labels", type=PATH, help="Labels of the rows, if RESULTS are embeddings.")
@levels_option
@click.option(
    "--distance",
    type=DistanceName(lambda catalogue: catalogue.names()),
    help="Distance between embeddings, as in evaluate.  [default: cosine]",
)
@confidence_option
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Random seed of the bootstrap."
)
@click.option(
    "--units",
    type=click.Choice(("metric", "finer", "finest")),
    help="Sampling units of the intervals, as in evaluate, for embeddings.  [default: metric]",
)
@format_option()
@click.option(
    "--cells",
    type=click.Choice(("value", "interval", "runs")),
    default="value",
    show_default=True,
    help="Content of the cells in Markdown and LaTeX: the score (value), the score with its "
    "interval, or the mean and standard deviation over runs.",
)
@verbose_option
@output_option()
def compare(
    results: tuple[Path, ...],
    runs: tuple[str, ...],
    names: str | None,
    metrics: str | None,
    labels: Path | None,
    levels: str | None,
    distance: str | None,
    confidence: float,
    seed: int,
    units: str | None,
    form: str,
    cells: str,
    output: Path | None,
) -> None:
    """Compare models by their RESULTS: JSON files that evaluate -o wrote for one task, or that
    verify -o wrote for one list of trials.

    RESULTS may also be embeddings, which are evaluated first: each row is searched among all others
    of its file, with the labels in the same file or in --labels. The options --metrics, --distance,
    --confidence and --units apply to this evaluation.

    LaTeX and Markdown are tables for a paper: models as rows, metrics as columns, the best in bold.
    """
    from truerank.analysis import compare as comparison
    from truerank.analysis.differences import name_models
    from truerank.cli.inputs import evaluate_alone, read_runs, split_metrics
    from truerank.cli.outputs import (
        check_targets,
        is_verbose,
        print_form,
        ruled,
        write_form,
        written_form,
    )
    from truerank.io.vectors import chosen_distance

    if cells != "value" and {form, written_form(output, form)}.isdisjoint(("markdown", "latex")):
        raise InputError(
            f"--cells {cells} is for Markdown and LaTeX; add --format latex, or -o with .tex or "
            ".md."
        )
    models = read_runs(results, runs)
    files = [path for one in models for path in (one if isinstance(one, list) else [one])]
    check_targets({"-o": output}, (*files, labels))
    given = None if names is None else [name.strip() for name in names.split(",")]
    called = name_models(models, given)
    embeddings = [path for path in dict.fromkeys(files) if path.suffix.lower() != ".json"]
    if not embeddings and (labels, levels, distance, units) != (None,) * 4:
        raise InputError(
            "--labels, --levels, --distance and --units are of embeddings, and RESULTS hold scores "
            "already; leave them out, or pass files of embeddings."
        )
    with progress_bar("ranking") as progress:
        scored = {
            path: evaluate_alone(
                path,
                labels,
                metrics=metrics,
                levels=levels,
                distance=chosen_distance(distance, path),
                confidence=confidence,
                seed=seed,
                units=units or "metric",
                progress=progress,
            )
            for path in embeddings
        }
    found = [
        [scored.get(run, run) for run in model]
        if isinstance(model, list)
        else scored.get(model, model)
        for model in models
    ]
    with progress_bar("comparing the models"):
        compared = comparison.compare(
            *found,
            names=called,
            metrics=None if metrics in (None, "all") else split_metrics(metrics),
            confidence=confidence,
            seed=seed,
        )
    forms = {
        "table": lambda: compared.to_text(rule=ruled(), verbose=is_verbose()),
        "json": compared.to_json,
        "csv": compared.to_csv,
        "markdown": lambda: compared.to_markdown(cells),
        "latex": lambda: compared.to_latex(cells),
    }
    if output is not None:
        write_form(output, form, forms)
    print_form(form, forms)


# `truerank audit`: what could make a score of a file of embeddings lie.


AUDIT_FORMS = ("table", "json")
AUDIT_EXAMPLES = examples(
    "audit embeddings.npy --labels labels.csv",
    "audit embeddings.npy --labels labels.csv --train train.npy -o audit.json",
)


@click.command(
    cls=Command, epilog=AUDIT_EXAMPLES, short_help="Check data for leaks, duplicates and collapse."
)
@click.argument("embeddings", type=PATH)
@click.argument("labels", required=False, type=PATH)
@click.option(
    "--labels", "named", type=PATH, help="Labels of the rows, instead of the argument LABELS."
)
@label_options
@click.option("--train", type=PATH, help="Embeddings of the training data, to look for leaks.")
@distance_option(lambda catalogue: catalogue.names(points=True))
@threads_option
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed of the samples.")
@format_option(AUDIT_FORMS)
@output_option(AUDIT_FORMS)
def audit(
    embeddings: Path,
    labels: Path | None,
    named: Path | None,
    levels: str | None,
    taxonomy: Path | None,
    train: Path | None,
    form: str,
    output: Path | None,
    **options: Any,
) -> None:
    """Check EMBEDDINGS for problems that distort scores: duplicates, leaks, collapse, ties.

    LABELS is a file as for evaluate; it is not needed if the embeddings file holds labels. Classes
    are those of the finest level.
    """
    from truerank.analysis import audit as auditing
    from truerank.cli import inputs, outputs
    from truerank.io.reading import read, require_embeddings

    if labels is not None and named is not None:
        raise InputError("labels are given twice: as an argument and by --labels.")
    labels = labels or named
    outputs.check_targets({"-o": output}, (embeddings, labels))
    with progress_bar("checking") as progress:
        side = inputs.read_side(embeddings, labels, inputs.level_names(levels))
        if taxonomy is not None and side.labels is None:
            raise InputError(f"{embeddings} holds no labels for --taxonomy; pass LABELS.")
        inputs.expand(taxonomy, side)
        known = None if train is None else require_embeddings(read(train), train)
        found = auditing.audit(
            side.embeddings, side.labels, train=known, progress=progress, **options
        )
    forms = {"table": lambda: str(found), "json": found.to_json}
    if output is not None:
        outputs.write_form(output, form, forms)
    outputs.print_form(form, forms)


# `truerank explain`: why another tool prints another number.


EXPLAIN_EXAMPLES = examples(
    "explain embeddings.npy --labels labels.csv --theirs 71.3",
    "explain embeddings.npy --labels labels.csv --theirs 71.3 --metric hit@1 --format json",
    "explain query.npz --gallery gallery.npz --theirs 0.713 --metric map --distance euclidean",
)


@click.command(
    cls=Labelled, epilog=EXPLAIN_EXAMPLES, short_help="Explain another tool's different number."
)
@file_options
@click.option(
    "--theirs",
    required=True,
    metavar="NUMBER",
    help="The other tool's number as it was printed: 71.3 (percent) or 0.713.",
)
@click.option(
    "--metric",
    type=MetricName(),
    metavar="METRIC",
    help="What the number is called, such as recall@1; all headline metrics if left out.",
)
@distance_option()
@average_option
@unmated_option
@threads_option
@format_option(AUDIT_FORMS)
@output_option(AUDIT_FORMS)
def explain(
    theirs: str,
    metric: str | None,
    distance: str,
    average: str,
    threads: int | None,
    form: str,
    output: Path | None,
    **files: Any,
) -> None:
    """Find the conventions of other tools that give their number for EMBEDDINGS: the query itself
    kept, ties by row, cameras ignored, another distance and so on, and pairs of these.

    Files and rules are those of evaluate. The printed digits decide: 71.3 is 71.25 to 71.35.
    """
    from truerank.cli import outputs
    from truerank.cli.inputs import read_task
    from truerank.conformance.explanation import explain_task

    outputs.check_targets({"-o": output}, tuple(v for v in files.values() if isinstance(v, Path)))
    read = read_task(**files, distance=distance)
    with progress_bar("trying", "passes") as progress:
        found = explain_task(
            *read[:3],
            theirs,
            metric=metric,
            distance=distance,
            average=average,
            threads=threads,
            progress=progress,
        )
    forms = {"table": lambda: str(found), "json": found.to_json}
    if output is not None:
        outputs.write_form(output, form, forms)
    outputs.print_form(form, forms)


# `truerank threshold`: one threshold for a rate of errors, and what it costs class by class.


THRESHOLD_FORMS = ("table", "json", "csv")
THRESHOLD_EXAMPLES = examples(
    "threshold calib.npz --far 0.001 --apply test.npz",
    "threshold calib.npy --labels calib.csv --frr 0.05 --by-class -o classes.csv",
    "threshold query.npz --gallery gallery.npz --far 0.1 --junk-label=-1",
    "threshold matrix.npy --labels query.npz --gallery-labels gallery.npz --distance precomputed "
    "--far 0.1",
    "threshold scores.npy --pairs trials.txt --far 0.01 --apply other.npy --apply-pairs other.txt",
    "threshold calib.npz --far 0.01,0.001 --card card.html --further other.npz",
)
OF_A_SET = ("embeddings", "labels", "ids", "groups")
OF_A_GALLERY = ("gallery", "gallery_labels", "gallery_ids", "gallery_groups")
"""Files of the queries and of the gallery of a set."""
RULES = ("levels", "taxonomy", "relevance", "junk_label", "unlabelled", "distance")


@click.command(
    cls=Labelled,
    epilog=THRESHOLD_EXAMPLES,
    short_help="Choose a decision threshold for a target error rate.",
)
@click.argument("embeddings", metavar="CALIBRATION", type=PATH)
@task_options
@click.option(
    "--far",
    metavar="RATE",
    help="Target FAR: share of negative pairs that are accepted; with --gallery, share of unmated "
    "queries that accept any item. With --card, rates separated by commas.",
)
@click.option(
    "--frr",
    metavar="RATE",
    help="Target FRR, instead of --far: share of positive pairs that are rejected; with --gallery, "
    "share of mated queries that do not find and accept a relevant item.",
)
@click.option(
    "--apply", "apply_embeddings", type=PATH, help="Embeddings on which to evaluate the threshold."
)
@click.option("--apply-labels", type=PATH, help="Labels of the rows of --apply.")
@click.option("--apply-gallery", type=PATH, help="Gallery of --apply, if it is not --gallery.")
@click.option("--apply-gallery-labels", type=PATH, help="Labels of the gallery of --apply.")
@id_options("rows", "--apply-")
@click.option(
    "--pairs",
    type=PATH,
    help="List of trials, as for verify: only these pairs are compared, and CALIBRATION holds "
    "their scores or embeddings.",
)
@click.option("--apply-pairs", type=PATH, help="List of trials on which to evaluate the threshold.")
@click.option(
    "--card",
    "--report",
    "card",
    type=Written(".html", ".md", ".txt", ".json"),
    help="Also write a page (.html, .md, .txt, .json) with a threshold for each rate of --far "
    "(0.1,0.01), its FAR in larger galleries and the worst classes.",
)
@click.option(
    "--further",
    type=PATH,
    multiple=True,
    help="With --card: further embeddings with labels to evaluate the thresholds on; may be "
    "repeated.",
)
@click.option(
    "--gallery-sizes",
    metavar="N,N,...",
    help="With --card: gallery sizes at which FAR and DIR are shown.",
)
@click.option(
    "--by-class", is_flag=True, help="Also show the error rates of each class at this threshold."
)
@distance_option()
@device_option
@threads_option
@format_option(THRESHOLD_FORMS)
@output_option(THRESHOLD_FORMS)
def threshold(
    far: str | None,
    frr: str | None,
    card: Path | None,
    further: tuple[Path, ...],
    gallery_sizes: str | None,
    by_class: bool,
    form: str,
    output: Path | None,
    pairs: Path | None,
    apply_pairs: Path | None,
    **options: Any,
) -> None:
    """Choose one threshold on CALIBRATION for a target error rate, and report its error rates.

    Files and rules are those of evaluate: pairs of rows that share an id, and junk (same camera,
    junk labels), count in no rate. Of several levels of labels only the finest is used. A
    precomputed matrix with --gallery-labels is treated as a search. CSV holds the rates of every
    class.
    """
    from truerank.analysis.thresholds import choose, target_of
    from truerank.cli import outputs
    from truerank.cli.inputs import whole_numbers
    from truerank.report.threshold_card import card_of

    if far is None and frr is None:
        raise InputError("the target is missing: pass --far or --frr.")
    if card is not None:
        if output is not None or frr is not None or options["apply_gallery"] is not None:
            raise InputError(
                "--card goes with --far alone: leave -o, --frr and --apply-gallery out."
            )
    elif further or gallery_sizes is not None:
        raise InputError("--further and --gallery-sizes go with --card.")
    if by_class and options["relevance"] is not None:
        raise InputError("--by-class needs labels; --relevance names no classes.")
    inputs = tuple(value for value in options.values() if isinstance(value, Path))
    inputs += tuple(path for path in (pairs, apply_pairs) if path is not None)
    outputs.check_targets({"-o": output, "--card": card}, (*inputs, *further))
    if pairs is not None or apply_pairs is not None:
        csv = "csv" in (form, "" if output is None else output.suffix.lower()[1:])
        if card is not None or by_class or csv:
            raise InputError(
                "a list of trials has no classes: leave --card, --by-class and CSV out."
            )
        with progress_bar("choosing the threshold"):
            point = _on_lists(pairs, apply_pairs, options, far=far, frr=frr)
        _deliver(point, False, form, output)
        return
    given = {name: options[name] for name in (*OF_A_SET, *OF_A_GALLERY)}
    applied = {name: options[f"apply_{name}"] for name in given}
    for name, path in applied.items() if applied["embeddings"] is None else ():
        if path is not None:
            raise InputError(f"--apply-{name.replace('_', '-')} came without --apply.")
    with progress_bar("choosing the threshold"):
        chosen_on, judged_on = _read(given, options), None
        if applied["embeddings"] is not None:
            if all(applied[name] is None for name in OF_A_GALLERY):
                applied |= {name: given[name] for name in OF_A_GALLERY}
            judged_on = _read(applied, options, start="--apply-", needed="--apply-labels")
        if card is None:
            point = choose(chosen_on, *target_of(far, frr), judged_on)
        else:
            inside = "a column label or an array labels in"
            others = {}
            for path in further:
                one = given | dict.fromkeys(OF_A_SET) | {"embeddings": path}
                others[path.stem] = _read(one, options, needed=inside)
            shown = card_of(
                chosen_on,
                judged_on,
                others,
                targets=str(far).split(","),
                gallery_sizes=whole_numbers("--gallery-sizes", gallery_sizes) or None,
                title=f"Thresholds for {given['embeddings'].stem}",
            )
    if card is None:
        _deliver(point, by_class, form, output)
        return
    shown.write(card)
    outputs.announce(card)
    click.echo(shown.to_text().rstrip("\n"))


def _deliver(point: OperatingPoint, by_class: bool, form: str, output: Path | None) -> None:
    """Write a point to a file, if one is asked for, and print it."""
    from truerank.cli import outputs

    forms = {
        "table": lambda: point.to_text(by_class=by_class, rule=outputs.ruled()),
        "json": point.to_json,
        "csv": point.to_csv,
    }
    if output is not None:
        outputs.write_form(output, form, forms)
    outputs.print_form(form, forms)


def _on_lists(
    pairs: Path | None, apply_pairs: Path | None, options: dict[str, Any], **target: Any
) -> OperatingPoint:
    """Choose a threshold on a list of trials, by the options that lists have."""
    from truerank.analysis.thresholds import choose_threshold
    from truerank.cli.inputs import read_ids

    known = {"embeddings", "labels", "ids", "apply_embeddings", "apply_labels", "distance"}
    usual = (None, (), False, "auto")
    for name, value in options.items():
        if name not in known and value not in usual:
            option = f"--{name.replace('_', '-')}"
            raise InputError(
                f"{option} is of a set in which all pairs are compared; with --pairs pass --ids, "
                "--labels and --distance alone."
            )
    asked = click.get_current_context().get_parameter_source("distance")
    said = asked is click.core.ParameterSource.COMMANDLINE  # else by what the file holds
    return choose_threshold(
        options["embeddings"],
        options["labels"],
        query_ids=None if options["ids"] is None else read_ids(options["ids"]),
        apply=options["apply_embeddings"],
        apply_labels=options["apply_labels"],
        pairs=pairs,
        apply_pairs=apply_pairs,
        distance=options["distance"] if said else None,
        **target,
    )


def _read(
    files: dict[str, Any],
    options: dict[str, Any],
    *,
    start: str = "--",
    needed: str = "--labels",
) -> TaskTrials:
    """Read the trials of one set of files, under the rules of all of them."""
    from truerank.analysis.thresholds import trials_of
    from truerank.cli.inputs import read_task

    rules = {name: options[name] for name in RULES}
    try:
        found = read_task(**files, **rules, start=start, needed=needed)
        computing = {name: options[name] for name in ("distance", "device", "threads")}
        return trials_of(found.task, found.rows, found.items, computing)
    except InputError as error:
        if files["embeddings"] == options["embeddings"]:
            raise
        raise InputError(f"{files['embeddings']}: {error}") from error


# `truerank compression`: how small a copy of embeddings may be.


COMPRESSION_EXAMPLES = examples(
    "compression embeddings.npy --labels labels.csv --dims 64,128,256",
    "compression embeddings.npz --dims 128 --dtypes int8,binary --margin 0.01 -m map@r,hit@1",
    "compression query.npy --labels query.csv --gallery gallery.npy --gallery-labels gallery.csv "
    "-o versions.csv",
)

OF_SCORES = ("distance", "average", "device", "threads", "confidence", "units", "seed")
"""Options that say how copies are scored; the others make the task."""


@click.command(
    cls=Labelled,
    epilog=COMPRESSION_EXAMPLES,
    short_help="Find the smallest version that is not worse.",
)
@file_options
@click.option(
    "--dims",
    metavar="N,N,...",
    help="Numbers of leading dimensions to try in addition to all, such as 64,128,256.",
)
@click.option(
    "--dtypes",
    metavar="TYPE,TYPE,...",
    default="float16,int8,binary",
    show_default=True,
    help="Types to try; numbers of dimensions are also tried in the type as stored.",
)
@click.option(
    "--margin",
    type=float,
    default=0.005,
    show_default=True,
    help="Largest loss of a score that counts as not worse; half a percentage point by default.",
)
@distance_option(lambda catalogue: [n for n in catalogue.names(points=True) if n != "hamming"])
@metrics_option(
    "Metrics such as map@r,hit@1, separated by commas or spaces; may be repeated. A version must "
    "not be worse in any of them. map@r by default."
)
@average_option
@unmated_option
@device_option
@threads_option
@confidence_option
@units_option
@seed_option
@format_option()
@output_option()
def compression(
    form: str,
    output: Path | None,
    dims: str | None,
    dtypes: str,
    margin: float,
    metrics: str | None,
    **given: Any,
) -> None:
    """Evaluate smaller versions of EMBEDDINGS, and report the smallest that is not worse.

    A version has the first dimensions, with components as stored, in float16, in int8 (one scale
    per dimension) or as signs (hamming distance). It is not worse if the confidence interval of its
    paired difference from the original lies above minus the margin.
    """
    from truerank.analysis.compression import sweep_task
    from truerank.cli import inputs, outputs
    from truerank.cli.inputs import read_task

    files = tuple(value for value in given.values() if isinstance(value, Path))
    outputs.check_targets({"-o": output}, files)
    prefixes = None if dims is None else [_number(part) for part in dims.split(",")]
    options = {name: given.pop(name) for name in OF_SCORES}
    with progress_bar("compressing") as progress:
        task, rows, items, _ = read_task(**given, distance=options["distance"])
        found = sweep_task(
            task,
            rows,
            items,
            dims=prefixes,
            dtypes=[part.strip() for part in dtypes.split(",")],
            margin=margin,
            metrics=inputs.chosen_metrics(metrics),
            progress=progress,
            **options,
        )
    forms = {
        "table": lambda: found.to_text(rule=outputs.ruled()),
        "json": found.to_json,
        "csv": found.to_csv,
        "markdown": found.to_markdown,
        "latex": found.to_latex,
    }
    if output is not None:
        outputs.write_form(output, form, forms)
    outputs.print_form(form, forms)


def _number(text: str) -> int:
    if not text.strip().isdecimal() or len(text) > 9:
        raise InputError(f"--dims takes whole numbers, such as 64,128,256. Got {text.strip()!r}.")
    return int(text)


# `truerank neighbors`: what single queries find, and where their relevant items are; with --all,
# the exact nearest items of every row, in the files that index benchmarks read.


NEIGHBORS_FORMS = ("table", "json", "csv")
NEIGHBORS_EXAMPLES = examples(
    "neighbors embeddings.npy --labels labels.csv --query person3_0001 --query person8_0002",
    "neighbors embeddings.npy --labels labels.csv --worst 20 -k 5",
    "neighbors query.npz --gallery gallery.npz --query person3_0003 -o neighbors.csv",
    "neighbors queries.fbin --all --gallery gallery.fbin -k 100 -o exact.ibin --distance euclidean",
)


@click.command(
    cls=Labelled, epilog=NEIGHBORS_EXAMPLES, short_help="List the nearest items of single queries."
)
@file_options
@click.option(
    "--query",
    "queries",
    metavar="ID",
    multiple=True,
    help="Id of a query or, if the rows have no ids, its row number from 0; may be repeated.",
)
@click.option(
    "--worst",
    type=click.IntRange(1),
    help="Show this number of queries with the lowest scores, instead of --query.",
)
@click.option(
    "-m",
    "--metric",
    type=MetricName(),
    metavar="NAME",
    default="map@r",
    show_default=True,
    help="Metric by which --worst chooses queries.",
)
@click.option(
    "--all",
    "every",
    is_flag=True,
    help="Compute ground truth neighbours: search for every row of EMBEDDINGS in --gallery, and "
    "write the exact neighbours to -o (.ibin with distances, or .ivecs) and their ties to "
    "OUTPUT.ties.npz.",
)
@click.option(
    "-k", type=click.IntRange(1), help="Number of items per query. 10 by default, 100 with --all."
)
@distance_option()
@click.option(
    "--device",
    type=click.Choice(("auto", "cpu", "cuda")),
    default="auto",
    show_default=True,
    help="Device on which --all searches; auto uses GPUs for large tasks.",
)
@threads_option
@click.option(
    "--cluster",
    metavar="ADDRESS",
    help="With --all: search on a Ray cluster, auto for the one that runs here, or an address "
    "such as head:6379.",
)
@format_option(NEIGHBORS_FORMS)
@click.option(
    "-o",
    "--output",
    type=Written(".json", ".csv", ".txt", ".ibin", ".ivecs"),
    help="Also write the result to a file, in the format of its ending: .json, .csv or .txt; with "
    "--all the neighbours (.ibin or .ivecs).",
)
def neighbors(
    queries: tuple[str, ...],
    worst: int | None,
    metric: str,
    every: bool,
    k: int | None,
    device: str,
    threads: int | None,
    cluster: str | None,
    form: str,
    output: Path | None,
    **files: Any,
) -> None:
    """List the nearest items of single queries of EMBEDDINGS and the ranks of their relevant items.

    Files and ranking are those of evaluate. An item is right, wrong or, with labels of several
    levels, a near miss that shares a coarser label. CSV holds the nearest items of each query, then
    its further relevant items.

    --all needs no labels. It orders items at equal distances by their row numbers; OUTPUT.ties.npz
    holds the places that tie, and the number of items beyond the list that tie with its last item.
    """
    from truerank.analysis import neighbors as neighborhood
    from truerank.cli import outputs
    from truerank.cli.inputs import read_task

    if every:
        if queries or worst is not None:
            raise InputError("--all searches for every row; leave --query and --worst out.")
        _search_for_all(files, k, output, device=device, threads=threads, cluster=cluster)
        return
    if device != "auto" or cluster is not None:
        raise InputError("--device and --cluster go with --all.")
    if output is not None and output.suffix.lower() in neighborhood.ENDINGS:
        raise InputError(f"{output.suffix} holds the lists of all rows: pass --all.")
    if bool(queries) == (worst is not None):
        raise InputError("no query is chosen: pass --query ID, --worst NUMBER or --all.")
    paths = tuple(value for value in files.values() if isinstance(value, Path))
    outputs.check_targets({"-o": output}, paths)
    with progress_bar("ranking") as progress:
        found = read_task(**files)
        asked = None if worst is not None else [_row(text, found.ids) for text in queries]
        shown = neighborhood.look(
            found.task,
            found.rows,
            found.items,
            ids=found.ids,
            queries=asked,
            worst=worst,
            metric=metric,
            k=10 if k is None else k,
            distance=files["distance"],
            threads=threads,
            progress=progress,
        )
    forms = {
        "table": lambda: shown.to_text(rule=outputs.ruled()),
        "json": shown.to_json,
        "csv": shown.to_csv,
    }
    if output is not None:
        outputs.write_form(output, form, forms)
    outputs.print_form(form, forms)


def _search_for_all(
    files: dict[str, Any], k: int | None, output: Path | None, **options: Any
) -> None:
    """Write the exact neighbors of all rows; a search needs neither labels nor ids."""
    from truerank._util.text import count
    from truerank.analysis import neighbors as neighborhood
    from truerank.cli import outputs

    rows, gallery, distance = (files.pop(name) for name in ("embeddings", "gallery", "distance"))
    for name, value in files.items():
        if value not in (None, ()):
            raise InputError(
                f"--all takes EMBEDDINGS and --gallery alone; leave --{name.replace('_', '-')} out."
            )
    if gallery is None:
        raise InputError("say where to search: pass --gallery FILE.")
    if output is None:
        raise InputError("say where the lists go: pass -o FILE, which ends in .ibin or .ivecs.")
    outputs.check_targets({"-o": output}, (rows, gallery))
    neighborhood.check_ending(output)
    k = 100 if k is None else k
    with progress_bar("searching", "pairs") as progress:
        found = neighborhood.exact_neighbors(
            rows, gallery, k, distance=distance, progress=progress, **options
        )
    beside = found.save(output)
    outputs.announce(output)
    outputs.announce(beside)
    click.echo(
        f"{output}: the {k} nearest of {count(len(found.item), 'query')}; ties in {beside.name}."
    )
    if found.ambiguous:
        click.echo(
            f"{count(found.ambiguous, 'query')} could have other items in the last places: items "
            "beyond the list are exactly as near."
        )


def _row(text: str, ids: list[Any] | None) -> int | str:
    """An id as it is; a row number where there are no ids."""
    if ids is not None:
        return text
    if not text.isdecimal():
        raise InputError(
            f"the rows have no ids by which {text!r} could be found; pass --ids FILE, or --query "
            "with a row number."
        )
    return int(text)
