"""All commands, a file each; `truerank` alone shows what they are."""

from __future__ import annotations

import click

from truerank.cli.audit import audit
from truerank.cli.benchmark import benchmark
from truerank.cli.compare import compare
from truerank.cli.conform import conform
from truerank.cli.data import data
from truerank.cli.demo import demo
from truerank.cli.evaluate import evaluate
from truerank.cli.leaderboard import leaderboard
from truerank.cli.lists import lists
from truerank.cli.metrics import metrics
from truerank.cli.neighbours import neighbours
from truerank.cli.plot import plot
from truerank.cli.report import report
from truerank.cli.reproduce import reproduce
from truerank.cli.shard import shard
from truerank.cli.sweep import sweep
from truerank.cli.task import task
from truerank.cli.threshold import threshold
from truerank.cli.train import embed, train
from truerank.cli.truth import truth
from truerank.cli.verify import verify
from truerank.errors import InputError
from truerank.removed import REMOVED
from truerank.version import __version__

__all__ = ["commands"]


EPILOG = """\b
Examples:
  truerank demo
  truerank evaluate embeddings.npy --labels labels.csv -o result.json
  truerank compare a.json b.json --format latex
  truerank COMMAND --help

\b
Completion in bash (or zsh_source, fish_source):
  eval "$(_TRUERANK_COMPLETE=bash_source truerank)"
"""


class _Commands(click.Group):
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if f"truerank {args[0]}" in REMOVED:
            raise InputError(REMOVED[f"truerank {args[0]}"])
        return super().resolve_command(ctx, args)


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EPILOG,
    invoke_without_command=True,
)
@click.version_option(__version__, prog_name="truerank")
@click.pass_context
def commands(context: click.Context) -> None:
    """Exact, tie-proof scores for embedding models."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


for command in (
    evaluate,
    verify,
    lists,
    compare,
    threshold,
    sweep,
    audit,
    neighbours,
    truth,
    report,
    plot,
    task,
    leaderboard,
    train,
    embed,
    benchmark,
    reproduce,
    data,
    shard,
    metrics,
    conform,
    demo,
):
    commands.add_command(command)
