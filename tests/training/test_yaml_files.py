"""Configurations of any shape: refused in one short sentence."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import truerank
from truerank._util.errors import InputError
from truerank.benchmark.config import read
from truerank.training.config import apply_settings, read_config

TRAINING = {
    "data": {"name": "quickdraw"},
    "loss": {"name": "contrastive", "plus": [{"name": "tcm"}]},
}
EXAMPLE = Path(truerank.__file__).parents[2] / "examples" / "benchmark" / "quickdraw.yaml"
READERS = {"train": read_config, "benchmark": read}
VALUES = [["a"], {"a": {"b": [1]}}, [["a"]], 1.5, None, "a" * 5000, {1: 2}, [None], 10**30]


def refused(reader: str, path: Path) -> str:
    """The sentence of a refusal, or nothing where the file is fine."""
    sentence = ""
    try:
        READERS[reader](path)
    except InputError as error:
        sentence = str(error)
    assert len(sentence) < 900
    return sentence


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    "text",
    [
        "[" * 3000, "{" * 3000, "a: 2001-13-45", "!!timestamp x", "!!bool x", "!!int x",
        "a: !!binary x", "data: " + "a" * 100_000, "&a [*a]", "? [a]\n: b", "a: " + "1" * 6000,
    ],
    ids=lambda text: text[:12],
)  # fmt: skip
def test_files_that_no_parser_likes(reader: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    assert "config.yaml" in refused(reader, path)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The keys and positions that lead to every value."""
    if path:
        yield path
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


@pytest.mark.parametrize("reader", READERS)
def test_values_of_another_kind_in_any_place(reader: str, tmp_path: Path) -> None:
    whole = TRAINING if reader == "train" else yaml.safe_load(EXAMPLE.read_text())
    path, count = tmp_path / "config.yaml", 0
    for place in places(whole):
        for value in VALUES:
            changed = copy.deepcopy(whole)
            inner: Any = changed
            for key in place[:-1]:
                inner = inner[key]
            inner[place[-1]] = value
            path.write_text(yaml.safe_dump(changed))
            count += bool(refused(reader, path))
    assert count > 20


@pytest.mark.parametrize("text", ["a.b=" + "[" * 3000, "a.b=!!timestamp x", "a" * 5000])
def test_settings_are_shortened(text: str) -> None:
    with pytest.raises(InputError) as refusal:
        apply_settings({}, [text])
    assert len(str(refusal.value)) < 300
