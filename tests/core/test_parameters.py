"""Typed parameters: what each metric's values, defaults and canonical strings are."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from typing import Any

import pytest

import truerank
from tests.cli.driving import environment
from truerank.core import metric as definitions
from truerank.core import registry
from truerank.core.metric import Definition, Metric, RankingDefinition, ThresholdDefinition
from truerank.core.parameters import (
    COUNT,
    HALF,
    INNER,
    LEVEL,
    NUMBERS,
    POSITIVE,
    RATE,
    SEED,
    TARGETS,
    THRESHOLD,
    Choice,
    Parameter,
)
from truerank.core.registry import parse

EVERY = [
    pytest.param(definitions.entry(name), parameter, id=f"{name}-{parameter.name}")
    for name in definitions.names()
    for parameter in definitions.entry(name).parameters
]
TYPES: dict[Any, tuple[type, ...]] = {
    COUNT: (int,),
    SEED: (int,),
    RATE: (Fraction,),
    HALF: (Fraction,),
    INNER: (Fraction,),
    POSITIVE: (Fraction,),
    THRESHOLD: (Fraction,),
    TARGETS: (tuple,),
    NUMBERS: (tuple,),
    LEVEL.kind: (str,),
}
SAMPLES: dict[Any, tuple[str, ...]] = {
    COUNT: ("2", "17"),
    SEED: ("0", "5"),
    RATE: ("0", "0.3", "1"),
    HALF: ("0.1", "0.5"),
    INNER: ("0.01", "0.7"),
    POSITIVE: ("0.5", "3"),
    THRESHOLD: ("-2.5", "0", "7"),
    TARGETS: ("0:1", "0.001:0.2"),
    NUMBERS: ("1:2:3", "0:1"),
    LEVEL.kind: ("1", "mean", "Genus"),
}


def base(definition: Definition, parameter: Parameter) -> dict[str, str]:
    """What must be given beside a parameter."""
    given = {}
    if definition.one_of and parameter.name not in definition.one_of:
        given[definition.one_of[0]] = "0.5"
    return given | {other: "3" for key, other in definition.needs if key == parameter.name}


def spelled(definition: Definition, parameter: Parameter, value: str) -> str:
    cut = ["10"] if definition.cut == "number" or parameter.needs_cut else []
    given = base(definition, parameter) | {parameter.name: value}
    return f"{definition.name}@" + ",".join([*cut, *(f"{k}={v}" for k, v in given.items())])


@pytest.mark.parametrize(("definition", "parameter"), EVERY)
def test_values_are_typed_and_strings_round_trip(
    definition: Definition, parameter: Parameter
) -> None:
    kind = parameter.kind
    types = (str,) if isinstance(kind, Choice) else TYPES[kind]
    for value in kind.words if isinstance(kind, Choice) else SAMPLES[kind]:
        metric = parse(spelled(definition, parameter, value))
        assert type(metric[parameter.name]) in types
        assert metric.get(parameter.name) == metric[parameter.name] == kind.value(value)
        assert metric.text(parameter.name) == value
        assert parse(str(metric)) == metric
        assert hash(parse(str(metric))) == hash(metric)
        assert (f"{parameter.name}={value}" in str(metric)) == (value != parameter.default)
    assert parameter.help
    assert parameter.help[0].islower() or parameter.help.startswith("FAR")


@pytest.mark.parametrize(("definition", "parameter"), EVERY)
def test_defaults_are_values(definition: Definition, parameter: Parameter) -> None:
    by_hand = Metric(definition.name)
    if parameter.default is None:
        assert by_hand[parameter.name] is None
        with pytest.raises(KeyError):
            by_hand.text(parameter.name)
        return
    assert parameter.canonical(parameter.default, definition.name) == parameter.default
    assert by_hand[parameter.name] == parameter.kind.value(parameter.default)
    assert by_hand.text(parameter.name) == parameter.default
    assert parameter.name not in definition.one_of
    given = parse(spelled(definition, parameter, parameter.default))
    assert parameter.name not in dict(given.options)


@pytest.mark.parametrize("name", definitions.names())
def test_what_a_metric_does_not_have(name: str) -> None:
    metric = Metric(name)
    with pytest.raises(KeyError):
        metric["nothing"]
    assert metric.get("nothing") is None
    with pytest.raises(truerank.InputError, match=f"metric '{name}' has no option 'nothing'"):
        parse(f"{name}@nothing=1")


def test_some_values_by_hand() -> None:
    assert Metric("hit", 3).cut == 3
    assert parse("mfr")["b"] == 3000
    assert parse("mfr@b=5,tau=0.6")["tau"] == Fraction(3, 5)
    assert parse("opis")["far"] == (Fraction(1, 100), Fraction(1, 10))
    assert parse("opis")["integral"] == "step"
    assert [parse("opis")[key] for key in ("eps", "frr", "negatives")] == [None] * 3
    assert parse("tar@far=0.29")["far"] * 100 == 29
    assert parse("h_ap@rel=1:2.5")["rel"] == (1, Fraction(5, 2))
    assert parse("map@level=Genus")["level"] == "Genus"
    assert parse("map@r").get("tau") is None


@pytest.mark.parametrize(
    ("kind", "good", "bad", "words"),
    [
        (
            COUNT,
            {"1": "1", "007": "7", "3e3": "3000"},
            ["0", "1.5", "-1", "2147483648"],
            ">= 1",
        ),
        (SEED, {"0": "0", "-0": "0"}, ["-1", "0.5"], "an int >= 0"),
        (RATE, {"00.10": "0.1", "1e-2": "0.01", ".5": "0.5", "-0": "0"}, ["1.1", "x"], "0 to 1"),
        (HALF, {"0.5": "0.5"}, ["0", "0.51"], "up to 0.5"),
        (INNER, {"1e-18": "0.000000000000000001"}, ["0", "1"], "between 0 and 1"),
        (POSITIVE, {"100": "100"}, ["0", "100.1", "1e-19"], "above 0"),
        (THRESHOLD, {"-1.50": "-1.5"}, ["inf", "nan", "1e31"], "a number"),
        (TARGETS, {".01:1e-1": "0.01:0.1"}, ["0.1", "0.1:0.1", "0.2:0.1", "0:2"], "smaller first"),
        (NUMBERS, {"1:2:3": "1:2:3"}, ["0:0", "1:", "-1:2", "1e3"], "separated by colons"),
        (Choice(("a", "b")), {"a": "a"}, ["c", "", "A"], "one of a, b"),
    ],
)
def test_kinds(kind: Any, good: dict[str, str], bad: list[str], words: str) -> None:
    parameter = Parameter("some", kind, "of a test")
    assert {text: parameter.canonical(text, "metric") for text in good} == good
    for text in bad:
        with pytest.raises(truerank.InputError) as caught:
            parameter.canonical(text, "metric")
        message = str(caught.value)
        assert message.startswith("The 'some' option of metric must be ")
        assert message.endswith(f". Got {text!r} instead.")
        assert words in message


@pytest.mark.parametrize("text", definitions.examples())
def test_means_over_queries(text: str) -> None:
    """Ranking metrics; and thresholds' where the data do not set them and no maximum is taken."""
    metric = parse(text)
    definition = registry.definition(metric)
    set_by_data = "far=" in text or "minmax" in text
    means = {"dir", "fnir", "far", "ttr", "ftr", "mrp", "mvp", "mrep", "mfr"}
    ranked = isinstance(definition, RankingDefinition)
    assert definition.is_mean(metric) == (ranked or (metric.name in means and not set_by_data))
    steep = isinstance(definition, ThresholdDefinition) and metric.name not in (
        {"dir", "fnir", "far", "ttr", "ftr", "mfr"}
    )
    assert definition.is_steep == steep
    assert definition.ties


@pytest.mark.parametrize("name", definitions.names())
def test_every_threshold_metric_has_its_scores(name: str) -> None:
    definition = definitions.entry(name)
    if isinstance(definition, ThresholdDefinition):
        assert callable(definition.measure)


@pytest.mark.parametrize(
    "code",
    [
        "import truerank; truerank.metrics.parse('opis@eps=0.1')['far']",
        "import truerank; truerank.metrics.describe(), truerank.metrics.describe('mrep')",
    ],
)
def test_parsing_loads_no_engine(code: str) -> None:
    code += "; import sys; print(*(m for m in sys.modules if m.startswith('truerank.')))"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment()
    )
    loaded = set(found.stdout.split())
    assert "truerank.metrics.thresholds.definitions" in loaded
    assert not {name for name in loaded if name.split(".")[1] in ("engine", "space", "task")}
    assert not {name for name in loaded if name.endswith((".scores", ".folds", ".evidence"))}


@pytest.mark.parametrize("digits", [5_000, 20])
def test_a_cut_off_may_have_more_digits_than_python_reads(digits: int) -> None:
    with pytest.raises(truerank.InputError, match="must be an int >= 1") as refusal:
        registry.parse("hit@" + "9" * digits)
    assert len(str(refusal.value)) < 500
    assert str(registry.parse("hit@" + "7".zfill(digits))) == "hit@7"
