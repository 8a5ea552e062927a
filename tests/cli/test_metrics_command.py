"""`truerank metrics`: all of them in a table, or everything about one."""

from __future__ import annotations

import pytest

import truerank
from tests.cli.driving import run
from truerank.core import metric as definitions
from truerank.core import registry
from truerank.core.metric import FAMILIES


def shown(*arguments: str) -> str:
    outcome = run("metrics", *arguments)
    assert (outcome.status, outcome.err) == (0, ""), outcome
    assert outcome.out.isascii()
    assert all(line == line.rstrip() for line in outcome.out.splitlines())
    return outcome.out


def test_the_table_has_every_metric_under_its_family() -> None:
    family, found = "", []
    for line in shown().splitlines()[1:]:
        if line in FAMILIES:
            family = line
        elif line[2:].lstrip() == line[2:] != "":  # no row's second line
            found.append((line.split()[0], family))
    assert found == [(name, definitions.entry(name).family) for name in definitions.names()]


def test_the_table_tells_parameters_and_direction() -> None:
    rows = {line.split()[0]: line for line in shown().splitlines() if line.startswith("  ")}
    assert rows["map"].endswith("higher   [k or r], divisor=r, [level]")
    assert rows["mfr"].endswith("lower    [far], [tau], b=3000,")
    assert rows["tar"].endswith("higher   far or tau")
    assert rows["tau_nz"].endswith("neither  scale=fixed")
    assert rows["auc"].endswith("higher")


@pytest.mark.parametrize("name", definitions.names())
def test_everything_about_one(name: str) -> None:
    entry, text = definitions.entry(name), shown(name)
    assert text.startswith(f"{name}: {entry.title}\n")
    said = " ".join(text.split())
    for part in (entry.definition, entry.citation, entry.ties, "  ".join(entry.examples)):
        assert " ".join(part.split()) in said
    for parameter in entry.parameters:
        assert f" {parameter.name} {parameter.kind.title}, {parameter.kind.expected}" in said
        assert parameter.help in said
        if parameter.default is not None:
            assert f"; default {parameter.default}: {parameter.help}" in said
    assert (" k whole number" in said) == (entry.cut != "none")
    for alias in registry.aliases(name):
        assert alias in said
    assert max(map(len, text.splitlines())) <= 100


def test_aliases_and_whole_strings_are_understood() -> None:
    assert shown("cmc") == shown("hit") == shown("Rank-1") == shown("hit@10")
    assert "also called  cmc@k, rank@k" in shown("hit")
    for name in definitions.names():
        for alias in registry.aliases(name):
            assert registry.find(alias.replace("@k", "@3")).name == name


def test_what_n_counts() -> None:
    for name, words in {
        "map": "mated queries",
        "mfr": "unmated queries",
        "far": "unmated queries",
        "opis": "classes",
        "auc": "pairs",
    }.items():
        assert f"n counts     {words}\n" in shown(name)


@pytest.mark.parametrize(
    ("name", "words"),
    [("maq", "unknown metric 'maq'; did you mean 'map'?"), ("", "a metric is a string such as")],
)
def test_a_name_that_does_not_exist(name: str, words: str) -> None:
    assert words in run("metrics", name).complaint()


def test_the_same_from_python() -> None:
    assert truerank.metrics.describe("mrep") + "\n" == shown("mrep")
    assert truerank.metrics.describe() + "\n" == shown()
