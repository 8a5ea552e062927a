"""python -m tests.stored.public: store anew what users may write down, as text in tests/stored/api.

Names and signatures, the help of every command, the schema of a result, the keys of its provenance
and what metric strings may say. Where modules stand is no part of it, but for the public ones.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
import warnings
from collections.abc import Iterable, Iterator
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import click
import numpy as np
from click.testing import CliRunner

import truerank
from truerank.cli.commands import commands

FOLDER = Path(__file__).with_name("api")
WIDTH = 100


def texts() -> dict[str, str]:
    """The text of each file by its name."""
    return {
        "names.txt": "\n".join(module_lines(truerank)) + "\n",
        "commands.txt": "\n\n".join(help_texts(commands)),
        "result.schema.json": schema_text(),
        "provenance.txt": "\n".join(provenance_lines()) + "\n",
        "metrics.txt": "\n\n\n".join(metric_texts()) + "\n",
    }


# --- names and signatures


def module_lines(module: ModuleType) -> Iterator[str]:
    """Every public name of a module and of the public modules in it."""
    yield f"{module.__name__}:"
    inner = []
    for name in sorted(module.__all__):
        value = getattr(module, name)
        if inspect.ismodule(value):
            inner.append(value)
            yield f"  {name}: module"
        else:
            yield from indented(lines_of(name, value))
    for one in inner:
        yield ""
        yield from module_lines(one)


def indented(texts: Iterable[str]) -> Iterator[str]:
    """Every line of some texts, two spaces to the right."""
    return (f"  {line}" for text in texts for line in text.split("\n"))


def lines_of(name: str, value: Any) -> Iterator[str]:
    """A function with its signature, a class with its public members, a value with its type."""
    if inspect.isclass(value):
        bases = [base.__name__ for base in value.__mro__[1:] if base is not object]
        yield f"class {name}({', '.join(bases)})"
        yield from indented([f"{name}{signature(value)}"])
        for member, found in members(value):
            yield from indented(member_lines(member, found))
    elif callable(value):
        yield f"def {name}{signature(value)}"
    elif name == "__version__":
        yield f"{name}: str"
    elif isinstance(value, (str, int, float, tuple, list)):
        yield f"{name} = {value!r}"
    else:
        yield f"{name}: {type(value).__name__}"


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """The public members that a class has from this package; its signature has its fields."""
    ours = [base for base in kind.__mro__ if base.__module__.split(".")[0] == "truerank"]
    found = {name: value for base in reversed(ours) for name, value in vars(base).items()}
    fields = getattr(kind, "__dataclass_fields__", {})
    for name, value in sorted(found.items(), key=lambda pair: pair[0]):
        if not name.startswith("_") and name not in fields:
            yield name, value


def member_lines(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, (staticmethod, classmethod)):
        yield f"{type(value).__name__} {name}{signature(value.__func__)}"
    elif inspect.isfunction(value):
        yield f"def {name}{signature(value)}"
    elif inspect.isclass(value):
        yield from lines_of(name, value)
    else:
        getter = getattr(value, "fget", getattr(value, "func", None))  # a property, a cached one
        kind = getattr(getter, "__annotations__", {}).get("return", type(value).__name__)
        yield f"{name}: {kind}"


class Bare:
    """Shown as the text that it holds, without quotes."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def signature(function: Any) -> str:
    """As it is written; a long one has a line for each parameter."""
    try:
        found = inspect.signature(function)
    except ValueError:  # an exception without an __init__ of its own
        return "(...)"
    parts, named_only = [], False
    for one in found.parameters.values():
        if one.kind is one.KEYWORD_ONLY and not named_only:
            parts.append("*")
        named_only = named_only or one.kind in (one.KEYWORD_ONLY, one.VAR_POSITIONAL)
        shown = one.replace(annotation=bare(one.annotation), default=bare_default(one.default))
        parts.append(shorter(str(shown)))
    end = found.return_annotation
    end = "" if end is inspect.Signature.empty else f" -> {shorter(repr(bare(end)))}"
    line = f"({', '.join(parts)}){end}"
    return line if len(line) <= WIDTH else "(\n  " + ",\n  ".join(parts) + f",\n){end}"


def shorter(text: str) -> str:
    """Without the modules in which our types stand."""
    return re.sub(r"\btruerank\.(\w+\.)*", "", text)


def bare(annotation: Any) -> Any:
    if annotation in (inspect.Parameter.empty, inspect.Signature.empty):
        return annotation
    return Bare(annotation if isinstance(annotation, str) else inspect.formatannotation(annotation))


def bare_default(value: Any) -> Any:
    name = getattr(value, "__qualname__", None)
    return Bare(name) if name and value is not inspect.Parameter.empty else value


# --- commands


def help_texts(command: click.Command, *path: str) -> Iterator[str]:
    """What --help prints, of a command and of all commands below it."""
    size = {"terminal_width": WIDTH, "max_content_width": WIDTH}
    asked = [*path, "--help"]
    shown = CliRunner().invoke(commands, asked, prog_name="truerank", **size)  # type: ignore[arg-type]
    yield f"$ {' '.join(['truerank', *asked])}\n{shown.output}"
    if isinstance(command, click.Group):
        for name, below in sorted(command.commands.items()):
            yield from help_texts(below, *path, name)


# --- results


def schema_text() -> str:
    (path,) = Path(str(files("truerank"))).rglob("result.schema.json")
    return path.read_text(encoding="utf-8")


def provenance_lines() -> Iterator[str]:
    """The keys of what a result says of its making, with the kinds of their values."""
    for title, result in evaluations():
        yield f"{title}:"
        yield from indented(key_lines(result.to_dict()["provenance"]))
        yield ""


def key_lines(value: dict[str, Any]) -> Iterator[str]:
    for name, one in sorted(value.items()):
        yield f"{name}: {type(one).__name__}"
        if isinstance(one, dict):
            yield from indented(key_lines(one))


def evaluations() -> Iterator[tuple[str, Any]]:
    """One of each kind."""
    rng = np.random.default_rng(0)
    rows, labels = rng.standard_normal((60, 4)), np.arange(60) % 12
    cameras = np.arange(60) % 3
    yield "evaluate", truerank.evaluate(rows, labels)
    yield (
        "evaluate with a gallery, groups and gallery sizes",
        truerank.evaluate(
            rows, labels, gallery=rows[:40], gallery_labels=labels[:40], query_groups=cameras,
            gallery_groups=cameras[:40], gallery_sizes=[20], metrics=["map", "hit@1"],
        ),
    )  # fmt: skip
    yield (
        "evaluate everything of precomputed distances",
        truerank.evaluate(np.abs(rows @ rows.T), labels, distance="precomputed", metrics="all"),
    )
    yield (
        "evaluate levels",
        truerank.evaluate(rows, np.stack([labels % 3, labels], 1), metrics=["h_ap", "ndcg"]),
    )
    lists = np.argsort(rows @ rows.T, axis=1)[:, :20]
    yield (
        "evaluate_lists",
        truerank.evaluate_lists(lists, labels, gallery_labels=labels, metrics=["map@10", "hit@1"]),
    )
    trials = [(i, j, labels[i] == labels[j]) for i in range(20) for j in range(i)]
    yield "verify", truerank.verify(rows, trials, ["eer", "tar@far=0.1"])


# --- metrics


def metric_texts() -> Iterator[str]:
    """The overview, and all that is said of each metric: its parameters, its other names."""
    with patch.dict(os.environ, COLUMNS=str(WIDTH)):  # on a terminal of any width
        yield truerank.metrics.describe().rstrip()
        yield from (truerank.metrics.describe(name).rstrip() for name in truerank.metrics.names())


def main() -> None:
    """Write what has changed, and say what."""
    FOLDER.mkdir(exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = texts()
    for path in FOLDER.iterdir():
        if path.name not in found:
            path.unlink()
    for name, text in found.items():
        path = FOLDER / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"{path.name} is written anew\n")


if __name__ == "__main__":
    main()
