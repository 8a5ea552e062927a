"""`truerank compare`: models by the results that evaluate wrote."""

from __future__ import annotations

from pathlib import Path

import click

from truerank.cli.kinds import DistanceName
from truerank.cli.options import (
    PATH,
    confidence_option,
    examples,
    format_option,
    metrics_option,
    output_option,
)
from truerank.errors import InputError
from truerank.progress import progress_bar

__all__ = ["compare"]

EXAMPLES = examples(
    "compare runs/a/result.json runs/b/result.json",
    "compare a.json b.json c.json -m map@r,hit@1 --format latex -o table.tex",
    "compare ours.npz theirs.npz -m map@r",
    "compare ours.npy theirs.npy --labels labels.csv --distance euclidean",
    "compare --runs 'a-*.json' --runs 'b-*.json' --format latex --cells runs",
    "compare --runs 'a-*.json' --runs b-0.json,b-1.json --names ours,theirs",
)


@click.command(epilog=EXAMPLES, short_help="Compare models by their results.")
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
    help="Of embeddings, as in evaluate.  [default: cosine]",
)
@confidence_option
@click.option("--seed", type=int, default=0, show_default=True, help="Of the bootstrap.")
@click.option(
    "--units",
    type=click.Choice(("metric", "finer", "finest")),
    help="Of embeddings, as in evaluate.  [default: metric]",
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
    from truerank import comparison
    from truerank.cli.evaluate_files import evaluate_alone
    from truerank.cli.inputs import read_runs, split_metrics
    from truerank.cli.outputs import check_targets
    from truerank.cli.printing import print_form, ruled, write_form, written_form
    from truerank.comparison.naming import name_models
    from truerank.files.hdf5 import chosen_distance

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
