"""What people see on screens of 80 and 120 columns: nothing is broken in mid-word."""

from __future__ import annotations

import re
from pathlib import Path

import click
import numpy as np
import pytest

from tests.builders import clusters
from tests.cli.driving import run
from truerank.cli.commands import GROUPS, commands
from truerank.cli.options import HEADINGS, MANY

METRICS = "map@r eer opis@eps=0.2,far=0.05:0.5,integral=exact tar@far=0.01 dir@far=0.25,rank=5"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three models of one task, with long names."""
    folder = tmp_path_factory.mktemp("screens")
    x, y = clusters(3, classes=24, size=4)
    names = [f"species-{number:02d}" for number in y]
    rows = [f"{'genus-' + str(number // 4)},{name}" for number, name in zip(y, names, strict=True)]
    (folder / "labels.csv").write_text("\n".join(["genus,species", *rows]) + "\n")
    for noise, name in ((0.0, "proxy-anchor"), (0.5, "multi-similarity"), (1.5, "contrastive")):
        moved = x + noise * np.random.default_rng(1).standard_normal(x.shape)
        np.save(folder / f"{name}.npy", moved)
        (folder / name).mkdir()
        options = ("--labels", folder / "labels.csv", "--levels", "species", "-m", METRICS)
        target = folder / name / "result.json"
        done = run("evaluate", folder / f"{name}.npy", *options, "-o", target)
        assert done.status == 0, done
    return folder


def shown(columns: int | None, monkeypatch: pytest.MonkeyPatch, *arguments: object) -> str:
    """The output on a screen of so many columns, or in a pipe."""
    if columns is None:
        monkeypatch.delenv("COLUMNS", raising=False)
    else:
        monkeypatch.setenv("COLUMNS", str(columns))
    outcome = run(*arguments)
    assert outcome.status == 0, outcome
    return outcome.out


COMMANDS = {
    "evaluate": ["evaluate", "{}/proxy-anchor.npy", "--labels", "{}/labels.csv", "--levels",
                 "genus,species", "-m", METRICS, "--adjusted"],
    "by genus": ["evaluate", "{}/proxy-anchor.npy", "--labels", "{}/labels.csv", "--levels",
                 "genus,species", "--by", "genus", "--worst", "3"],
    "compare two": ["compare", "{}/proxy-anchor/result.json", "{}/contrastive/result.json"],
    "compare three": ["compare", "{}/proxy-anchor/result.json",
                      "{}/multi-similarity/result.json", "{}/contrastive/result.json"],
    "threshold": ["threshold", "{}/proxy-anchor.npy", "--labels", "{}/labels.csv", "--levels",
                  "genus,species", "--far", "0.05", "--by-class"],
    "audit": ["audit", "{}/proxy-anchor.npy", "{}/labels.csv", "--levels", "genus,species"],
    "compression": ["compression", "{}/proxy-anchor.npy", "--labels", "{}/labels.csv", "--levels",
              "genus,species", "--dims", "8", "-m", "map@r,hit@1"],
    "metrics": ["metrics"],
    "one metric": ["metrics", "opis"],
    "data": ["data", "list"],
}  # fmt: skip


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("command", COMMANDS)
def test_lines_fit_the_screen_and_words_stay_whole(
    command: str, columns: int, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = [part.format(files) for part in COMMANDS[command]]
    text = shown(columns, monkeypatch, *arguments)
    assert max(map(len, text.splitlines())) <= columns
    assert all(line == line.rstrip() for line in text.splitlines())
    whole = shown(None, monkeypatch, *arguments)  # a pipe has no width
    found = set(text.split())
    assert {word for word in whole.split() if word not in found} == set()


def test_a_result_at_80_columns(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = [part.format(files) for part in COMMANDS["evaluate"]]
    lines = shown(80, monkeypatch, *arguments).splitlines()
    long = lines.index("OPIS@eps=0.2, FAR=5%:50%, integral=exact ↓")
    assert re.fullmatch(r" +\d+\.\d{4} .*", lines[long + 1])  # as many digits as OPIS needs


def test_two_models_side_by_side(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = [part.format(files) for part in COMMANDS["compare two"]]
    lines = shown(120, monkeypatch, *arguments, "-m", "map@r").splitlines()
    finding = " ".join(lines[: lines.index("")])
    assert re.match("proxy-anchor is better than contrastive in MAP@R: .* p = 0\\.\\d+", finding)
    header, row = lines[lines.index("") + 1 :][:2]
    wanted = "metric proxy-anchor contrastive difference its 95 % interval p"
    assert header.split() == wanted.split()
    assert row.startswith("MAP@R ")
    assert "difference: proxy-anchor minus contrastive" in " ".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize("columns", [None, 80, 120])
def test_the_demo_fits_a_screen(columns: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(columns, monkeypatch, "demo")
    lines = text.splitlines()
    assert len(lines) <= 40
    if columns is not None:
        assert max(map(len, lines)) <= columns
    assert lines[0].startswith("efficientnet is better than pixels in MAP@R: ")
    [header] = [line for line in lines if line.startswith("metric")]
    wanted = "metric efficientnet pixels difference its 95 % interval p chance"
    assert header.split() == wanted.split()
    assert sum(line.startswith("Sanity check: embeddings that are all zero") for line in lines) == 1
    assert any(line.startswith("MAP@R ") and "  ***  " in line for line in lines)
    assert "--units" not in text  # an option that the demo does not have
    assert lines[-1] == "  truerank compare a.json b.json"


# --- help


def every_command(group: click.Group = commands, path: tuple[str, ...] = ()) -> list[tuple]:
    found = [path]
    for name, command in group.commands.items():
        here = (*path, name)
        found += every_command(command, here) if isinstance(command, click.Group) else [here]
    return found


def test_commands_are_listed_in_groups() -> None:
    text = run().out
    headings = re.findall(r"^(\w+):$", text, flags=re.M)
    assert headings == ["Options", *GROUPS]
    listed = re.findall(r"^  (\w+) {2,}", text.partition("\nScore:")[2], flags=re.M)
    assert listed == list(commands.commands)


@pytest.mark.parametrize("path", every_command(), ids=" ".join)
def test_many_options_are_listed_under_headings(path: tuple[str, ...]) -> None:
    text = run(*path, "--help").out
    headings = re.findall(r"^(\w+):$", text, flags=re.M)
    options = re.findall(r"^  (?:-\w, )?--\w", text, flags=re.M)
    if len(options) <= MANY:
        assert set(headings) <= {"Options", "Commands", *GROUPS}
    else:
        assert headings == [heading for heading in HEADINGS if heading in headings]


@pytest.mark.parametrize("path", every_command(), ids=" ".join)
def test_every_help_text_is_a_complete_phrase(path: tuple[str, ...]) -> None:
    command: click.Command = commands
    for name in path:
        assert isinstance(command, click.Group)
        command = command.commands[name]
    context = click.Context(command)
    for option in command.params:
        if isinstance(option, click.Option):
            record = option.get_help_record(context)
            assert record is not None
            text = record[1].partition("  [")[0]
            assert text[:1].isupper() or text.startswith("."), record
            assert text.endswith("."), record
            assert not text.startswith(("Of ", "Such as ", "Which", "As in ")), record


@pytest.mark.parametrize("path", every_command(), ids=" ".join)
def test_every_help_has_examples_that_parse(path: tuple[str, ...]) -> None:
    text = run(*path, "--help").out
    assert max(map(len, text.splitlines())) <= 80
    examples = text.partition("Examples:\n")[2].partition("\n\n")[0].replace("\\\n", " ")
    lines = [line.split() for line in examples.splitlines() if "COMMAND" not in line]
    assert lines
    for program, *arguments in lines:
        assert program == "truerank"
        assert tuple(arguments[: len(path)]) == path
        command: click.Command = commands
        while isinstance(command, click.Group) and arguments:
            command, *arguments = command.commands[arguments[0]], *arguments[1:]
        command.make_context(command.name, arguments)  # raises if an option does not exist
