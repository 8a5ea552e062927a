"""Commands that analyse: truerank compare, audit, threshold, compression and neighbors.

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
    metrics_option,
    output_option,
    seed_option,
    task_options,
    threads_option,
    units_option,
    unmated_option,
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


@click.command(epilog=COMPARE_EXAMPLES, short_help="Compare models by their results.")
@click.argument("results", nargs=-1, type=PATH)
@click.option(
    "--runs",
    multiple=True,
    help="A model by several runs that differ in their seed: FILE,FILE,... or a pattern in quotes, "
    "'a-*.json' (repeat per model).",
)
@click.option("--names", help="Names of the models, separated by commas: RESULTS, then --runs.")
@metrics_option("Such as map@r,hit@10; all that the results share if left out.")
@click.option("--labels", type=PATH, help="Labels of the rows of RESULTS that are embeddings.")
@click.option("--levels", help="Columns of --labels from coarse to fine, separated by commas.")
@click.option(
    "--distance",
    type=DistanceName(lambda catalogue: catalogue.names()),
    help="Distance between embeddings, as in evaluate.  [default: cosine]",
)
@confidence_option
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the bootstrap.")
@click.option(
    "--units",
    type=click.Choice(("metric", "finer", "finest")),
    help="Sampling units, as in evaluate, for embeddings.  [default: metric]",
)
@format_option()
@click.option(
    "--cells",
    type=click.Choice(("value", "interval", "runs")),
    default="value",
    show_default=True,
    help="Cells of Markdown and LaTeX: the score, with its interval, or the mean and the standard "
    "deviation over runs.",
)
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
    """Compare models by their RESULTS: the JSON files that evaluate -o wrote for one task, or that
    verify -o wrote for one list of trials.

    RESULTS that are embeddings are evaluated first: each row is searched among all others of its
    file, by labels in the same file or in --labels; --metrics, --distance, --confidence and --units
    apply.

    LaTeX and Markdown are tables for a paper: models as rows, metrics as columns, the best in bold.
    """
    from truerank.analysis import compare as comparison
    from truerank.analysis.differences import name_models
    from truerank.cli.inputs import evaluate_alone, read_runs, split_metrics
    from truerank.cli.outputs import check_targets, print_form, ruled, write_form, written_form
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
    compared = comparison.compare(
        *found,
        names=called,
        metrics=None if metrics in (None, "all") else split_metrics(metrics),
        confidence=confidence,
        seed=seed,
    )
    forms = {
        "table": lambda: compared.to_text(rule=ruled()),
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


@click.command(epilog=AUDIT_EXAMPLES, short_help="Check for what makes scores misleading.")
@click.argument("embeddings", type=PATH)
@click.argument("labels", required=False, type=PATH)
@click.option("--labels", "named", type=PATH, help="Labels of the rows, instead of LABELS.")
@label_options
@click.option("--train", type=PATH, help="Embeddings of the training rows.")
@distance_option(lambda catalogue: catalogue.names(points=True))
@threads_option
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the samples.")
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
    """Check EMBEDDINGS for what makes scores misleading: duplicates, leaks, collapse, ties.

    LABELS is a file as for evaluate; without it the embeddings file may hold them. Classes are
    those of the finest level.
    """
    from truerank.analysis import audit as auditing
    from truerank.cli import inputs, outputs
    from truerank.io.reading import read, require_embeddings

    if labels is not None and named is not None:
        raise InputError("labels are given twice: as an argument and by --labels.")
    labels = labels or named
    outputs.check_targets({"-o": output}, (embeddings, labels))
    with progress_bar("looking") as progress:
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


# `truerank threshold`: one threshold for a rate of errors, and what it costs class by class.


THRESHOLD_FORMS = ("table", "json", "csv")
THRESHOLD_EXAMPLES = examples(
    "threshold calib.npz --far 0.001 --apply test.npz",
    "threshold calib.npy --labels calib.csv --frr 0.05 --by-class -o classes.csv",
    "threshold probes.npz --gallery gallery.npz --far 0.01 --junk-label=-1",
    "threshold matrix.npy --labels probes.npz --gallery-labels gallery.npz --distance precomputed "
    "--far 0.01",
    "threshold scores.npy --pairs trials.txt --far 0.001 --apply other.npy --apply-pairs other.txt",
    "threshold calib.npz --far 0.01,0.001 --card card.html --further other.npz",
)
OF_A_SET = ("embeddings", "labels", "ids", "groups")
OF_A_GALLERY = ("gallery", "gallery_labels", "gallery_ids", "gallery_groups")
"""Files of the queries and of the gallery of a set."""
RULES = ("levels", "taxonomy", "relevance", "junk_label", "unlabelled", "distance")


@click.command(
    cls=Labelled, epilog=THRESHOLD_EXAMPLES, short_help="Choose a threshold for an error rate."
)
@click.argument("embeddings", metavar="CALIBRATION", type=PATH)
@task_options
@click.option(
    "--far",
    metavar="RATE",
    help="Share of negative pairs that may be accepted; with --gallery, of unmated queries that "
    "may accept any item.",
)
@click.option(
    "--frr",
    metavar="RATE",
    help="Instead, share of positive pairs that may be rejected; with --gallery, of mated queries "
    "that may not find and accept a relevant item.",
)
@click.option("--apply", "apply_embeddings", type=PATH, help="Evaluate the threshold on this set.")
@click.option("--apply-labels", type=PATH, help="Labels of that set.")
@click.option("--apply-gallery", type=PATH, help="Gallery of that set, if it is another.")
@click.option("--apply-gallery-labels", type=PATH, help="Labels of that gallery.")
@id_options("rows", "--apply-")
@click.option(
    "--pairs",
    type=PATH,
    help="A list of trials, as for verify: the only pairs, of which CALIBRATION holds scores or "
    "embeddings.",
)
@click.option("--apply-pairs", type=PATH, help="Evaluate the threshold on this list of trials.")
@click.option(
    "--card",
    type=Written(".html", ".md", ".txt", ".json"),
    help="Write one page about it (.html, .md, .txt, .json): a threshold for each of several "
    "FARs of --far (0.1,0.01), its FAR as the gallery grows, the worst classes.",
)
@click.option(
    "--further",
    type=PATH,
    multiple=True,
    help="With --card: a further set, labels inside, to judge the thresholds on; may be repeated.",
)
@click.option(
    "--gallery-sizes", metavar="N,N,...", help="With --card: sizes at which FAR and DIR are shown."
)
@click.option(
    "--by-class", is_flag=True, help="Show the error rates of each class at this threshold."
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
    """Choose one threshold on CALIBRATION for an error rate, and report its error rates.

    Files and rules are those of evaluate: pairs of rows that share an id and junk (cameras, junk
    labels) count in no rate. Of several levels of labels only the finest counts. A precomputed
    matrix with --gallery-labels is a search. CSV holds the rates of every class.
    """
    from truerank.analysis.thresholds import choose, target_of
    from truerank.cli import outputs

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
        _deliver(_on_lists(pairs, apply_pairs, options, far=far, frr=frr), False, form, output)
        return
    given = {name: options[name] for name in (*OF_A_SET, *OF_A_GALLERY)}
    applied = {name: options[f"apply_{name}"] for name in given}
    chosen_on, judged_on = _read(given, options), None
    if applied["embeddings"] is not None:
        if all(applied[name] is None for name in OF_A_GALLERY):
            applied |= {name: given[name] for name in OF_A_GALLERY}
        judged_on = _read(applied, options, start="--apply-", needed="--apply-labels")
    for name, path in applied.items() if judged_on is None else ():
        if path is not None:
            raise InputError(f"--apply-{name.replace('_', '-')} came without --apply.")
    if card is not None:
        title = f"Thresholds for {given['embeddings'].stem}"
        inside = "a column label or an array labels in"
        others = {}
        for path in further:
            one = given | dict.fromkeys(OF_A_SET) | {"embeddings": path}
            others[path.stem] = _read(one, options, needed=inside)
        _write_card(card, chosen_on, judged_on, others, str(far), gallery_sizes, title)
        return
    point = choose(chosen_on, *target_of(far, frr), judged_on)
    _deliver(point, by_class, form, output)


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


def _write_card(
    path: Path,
    chosen_on: TaskTrials,
    judged_on: TaskTrials | None,
    further: dict[str, TaskTrials],
    fars: str,
    gallery_sizes: str | None,
    title: str,
) -> None:
    """Write a card, and print it."""
    from truerank.cli.inputs import whole_numbers
    from truerank.report.threshold_card import card_of

    found = card_of(
        chosen_on,
        judged_on,
        further,
        targets=fars.split(","),
        gallery_sizes=whole_numbers("--gallery-sizes", gallery_sizes) or None,
        title=title,
    )
    found.write(path)
    click.echo(found.to_text().rstrip("\n"))


# `truerank compression`: how small a copy of embeddings may be.


COMPRESSION_EXAMPLES = examples(
    "compression embeddings.npy --labels labels.csv --dims 64,128,256",
    "compression embeddings.npz --dims 128 --dtypes int8,binary --margin 0.01 -m map@r,hit@1",
    "compression query.npy --labels query.csv --gallery gallery.npy --gallery-labels gallery.csv "
    "-o copies.csv",
)

OF_SCORES = ("distance", "average", "device", "threads", "confidence", "units", "seed")
"""Options that say how copies are scored; the others make the task."""


@click.command(
    cls=Labelled,
    epilog=COMPRESSION_EXAMPLES,
    short_help="Find the smallest copy that is not worse.",
)
@file_options
@click.option("--dims", help="Prefixes to try beside all dimensions, such as 64,128,256.")
@click.option(
    "--dtypes",
    default="float16,int8,binary",
    show_default=True,
    help="Types of the copies; prefixes are also tried in the type as stored.",
)
@click.option(
    "--margin",
    type=float,
    default=0.005,
    show_default=True,
    help="How much a copy may lose: half a point by default.",
)
@distance_option(lambda catalogue: [n for n in catalogue.names(points=True) if n != "hamming"])
@metrics_option("Such as map@r,hit@1; map@r if left out. A copy must not be worse in any.")
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
    """Evaluate smaller copies of EMBEDDINGS, and name the smallest that is not worse.

    Copies are the first dimensions, with components as they are, in float16, in int8 (one scale a
    dimension) or as signs (hamming distance). A copy is not worse if the interval of its paired
    difference from the original stays above minus the margin.
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
    "neighbors embeddings.npy --labels labels.csv --query 17 --query 42",
    "neighbors embeddings.npy --labels labels.csv --worst 20 -k 5",
    "neighbors query.npz --gallery gallery.npz --query img-0017 -o neighbors.csv",
    "neighbors queries.fbin --all --gallery gallery.fbin -k 100 -o exact.ibin --distance euclidean",
)


@click.command(cls=Labelled, epilog=NEIGHBORS_EXAMPLES, short_help="List what single queries find.")
@file_options
@click.option(
    "--query",
    "queries",
    metavar="ID",
    multiple=True,
    help="A query by its id, or where there are no ids by its row number from 0; may be repeated.",
)
@click.option(
    "--worst",
    type=click.IntRange(1),
    help="Instead, this number of queries, those with the lowest scores.",
)
@click.option(
    "-m",
    "--metric",
    type=MetricName(),
    metavar="NAME",
    default="map@r",
    show_default=True,
    help="Metric by which --worst chooses.",
)
@click.option(
    "--all",
    "every",
    is_flag=True,
    help="Search for every row of EMBEDDINGS in --gallery, and write the exact neighbors to -o: "
    ".ibin, with distances behind them, or .ivecs. Ties go to OUTPUT.ties.npz.",
)
@click.option(
    "-k", type=click.IntRange(1), help="Number of items to list per query: 10, or 100 with --all."
)
@distance_option()
@click.option(
    "--device",
    type=click.Choice(("auto", "cpu", "cuda")),
    default="auto",
    show_default=True,
    help="Where --all searches; auto takes GPUs for large tasks.",
)
@threads_option
@click.option(
    "--cluster",
    help="Let a Ray cluster search for --all: auto for the one that runs here, or an address.",
)
@format_option(NEIGHBORS_FORMS)
@click.option(
    "-o",
    "--output",
    type=Written(".json", ".csv", ".txt", ".ibin", ".ivecs"),
    help="Write the result as well: .json, .csv or .txt by the ending; with --all the lists.",
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
    """List the nearest items of single queries of EMBEDDINGS, and ranks of their relevant items.

    Files are those of evaluate, and so is the ranking: what is listed is what was scored. An item
    is right, wrong, or with labels of several levels a near miss that shares a coarser label. CSV
    holds the nearest items of each query, then its further relevant items.

    With --all, which takes rows without labels, items at one distance are listed by their numbers;
    OUTPUT.ties.npz says which places tie, and how many items beyond the list tie with its last.
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
