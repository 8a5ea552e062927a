"""Kinds of values that options take: distances and metrics, by names that the shell completes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from truerank.errors import InputError
from truerank.wording import either

__all__ = ["DistanceName", "DistanceOption", "MetricName", "Written"]

if TYPE_CHECKING:  # generic in click's newest releases only
    Kind = click.ParamType[str]
else:
    Kind = click.ParamType


class Written(click.Path):
    """The path of a file to write, with one of some endings or none; refused before any work."""

    def __init__(self, *endings: str) -> None:
        super().__init__(path_type=Path)
        self._endings = endings

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path, if it has no other ending."""
        path = super().convert(value, param, ctx)
        if isinstance(path, Path) and path.suffix and path.suffix.lower() not in self._endings:
            option = param.opts[0] if param is not None else "it"
            raise InputError(f"{option} writes {either(self._endings)} here. Got {path.name!r}.")
        return path


class DistanceName(Kind):
    """A choice among the distances that are registered when it is made."""

    name = "choice"

    def __init__(self, listing: Callable[[Any], Sequence[str]]) -> None:
        self._listing = listing

    def names(self) -> Sequence[str]:
        """The distances to choose from."""
        from truerank.space import catalogue

        return self._listing(catalogue)

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """NAME: the help lists what there is."""
        return "NAME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name, if there is such a distance."""
        if value not in self.names():
            listed = ", ".join(repr(name) for name in self.names())
            self.fail(f"{value!r} is not one of {listed}.", param, ctx)
        return str(value)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The names that begin so."""
        return [CompletionItem(name) for name in self.names() if name.startswith(incomplete)]


class DistanceOption(click.Option):
    """An option for a distance, whose help lists those that are registered when it is shown."""

    def __init__(
        self, names: Sequence[str], kind: DistanceName, told: bool, **options: Any
    ) -> None:
        super().__init__(names, type=kind, **options)
        self._kind, self._told = kind, told

    def get_default(self, ctx: click.Context, call: bool = True) -> Any:
        """The default, unless an HDF5 file among the values before says another distance.

        What was given on the command line is looked at before what was not.
        """
        default = super().get_default(ctx, call)
        paths = [value for value in ctx.params.values() if isinstance(value, Path)]
        if default is None or not paths:
            return default
        from truerank.files.hdf5 import chosen_distance

        return chosen_distance(None, *paths)

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The list, each with what it is where that is asked for."""
        from truerank.space import catalogue

        names = self._kind.names()
        if self._told:
            names = [f"{name} ({catalogue.find(name).help})" for name in names]
        self.help = f"{either(names)}."
        return super().get_help_record(ctx)


class MetricName(Kind):
    """A metric string, or several; the shell completes the last one's name."""

    name = "metric"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """METRICS, or NAME where a single one is meant."""
        return "NAME" if isinstance(param, click.Argument) else "METRICS"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Metrics that begin so, behind those that are already there."""
        from truerank.core import registry

        before, comma, last = incomplete.rpartition(",")
        known = [*registry.DEFAULT, *registry.names()]
        if "@" in last:
            known += registry.examples()
        found = dict.fromkeys(name for name in known if name.startswith(last))
        return [CompletionItem(before + comma + name) for name in found]
