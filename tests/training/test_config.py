"""The configuration: defaults are the protocol's, and every mistake is named in one sentence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from truerank._util.errors import InputError
from truerank.core import metric as definitions
from truerank.training.config import Config, apply_settings, read_config

LEAST = {"data": {"name": "quickdraw"}, "loss": {"name": "contrastive"}}


def test_the_defaults_are_the_papers() -> None:
    config = Config.of(LEAST)
    assert (config.augmentation.resize, config.augmentation.crop) == (256, 227)
    assert config.augmentation.scale == (0.16, 1.0)
    assert config.augmentation.ratio == (3 / 4, 4 / 3)
    assert config.sampler.classes * config.sampler.samples == 32
    assert config.training.iterations == 100
    assert config.training.metric == "map@r"
    assert config.model.dimensions == 128
    optimiser = config.optimiser
    assert (optimiser.name, optimiser.lr, optimiser.weight_decay, optimiser.momentum) == (
        "rmsprop", 1e-6, 1e-4, 0.9,
    )  # fmt: skip
    assert config.schedule.name == "constant"
    assert config.data.folds == 4


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("sampler.clases=4", "has a field 'sampler.clases' that is not known; did you mean 'class"),
        ("wizard=4", "has a field 'wizard' that is not known; the fields there: data, model, "),
        (
            "sampler.classes=0",
            "the field 'sampler.classes' must be greater than or equal to 1. Got",
        ),
        ("sampler.classes=x", "the field 'sampler.classes' must be an int. Got 'x' instead."),
        ("sampler.classes=1.5", "the field 'sampler.classes' must be an int. Got 1.5 instead."),
        ("optimiser.lr=fast", "the field 'optimiser.lr' must be a number. Got 'fast' instead."),
        ("optimiser.lr=.inf", "the field 'optimiser.lr' must be a finite number. Got inf instead."),
        (
            "optimiser.name=adm",
            "the field 'optimiser.name' must be 'rmsprop', 'sgd', 'adam' or 'ad",
        ),
        (
            "model.pretrained=2",
            "the field 'model.pretrained' must be true or false. Got 2 instead.",
        ),
        ("loss.name=", "the field 'loss.name' must be text. Got None instead."),
        ("loss.parameters=2", "the field 'loss.parameters' must be a mapping. Got 2 instead."),
        (
            "loss.plus=[{name: a, wieght: 2}]",
            "'loss.plus.0.wieght' that is not known; did you mean",
        ),
        ("loss.plus=[{nam: tcm}]", "lacks the field 'loss.plus.0.name'."),
        ("augmentation.scale=[1]", "lacks the field 'augmentation.scale.1'."),
        ("augmentation.scale=[1, 2, 3]", "the field 'augmentation.scale' must be a list of 2."),
        ("augmentation.scale=[0, 1]", "the section augmentation: scale must be two shares of the"),
        ("augmentation.ratio=[2, 1]", "the section augmentation: ratio must be two positive num"),
        ("augmentation.crop=300", "the section augmentation: crop must be at most resize = 256."),
        (
            "loss={name: triplet, every_level: true, miner: semihard}",
            "the section loss: every_level",
        ),
        ("data.fold=4", "the section data: fold must be less than folds = 4."),
        ("schedule.warmup=10000", "schedule.warmup must be less than the 10000 iterations"),
        ("training.metric=mapp", "the section training: "),
        ("evaluation.metrics=[hit@1, foo]", "the section evaluation: "),
        ("evaluation.metrics=3", "the field 'evaluation.metrics' must be a list. Got 3 instead."),
        ("training=3", "the field 'training' must be a mapping. Got 3 instead."),
    ],
)
def test_mistakes_are_named(setting: str, sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        Config.of(apply_settings(LEAST, [setting]), "my.yaml")
    message = str(refused.value)
    assert message.startswith("my.yaml")
    assert sentence in message
    assert "\n" not in message


def test_a_metric_that_should_fall_cannot_pick_the_best_epoch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    falling = replace(definitions.entry("map"), higher_is_better=False)
    monkeypatch.setattr(definitions, "entry", lambda name: falling)
    with pytest.raises(InputError, match="metric must be one that is better when higher; map@r is"):
        Config.of(LEAST | {"training": {"epochs": 1}})


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("seed", "a setting is section.field=value. Got 'seed' instead."),
        (".seed=1", "a setting is section.field=value."),
        ("data.name.deep=1", "goes below 'name', which is a value."),
        ("data.name=[", "is not valid YAML."),
    ],
)
def test_settings_that_are_none(setting: str, sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        apply_settings(LEAST, [setting])
    assert sentence in str(refused.value)


def test_settings_are_laid_over_a_copy() -> None:
    changed = apply_settings(LEAST, ["training.seed=3", "loss.parameters.scale=1e-6"])
    assert changed["training"] == {"seed": 3}
    assert changed["loss"]["parameters"] == {"scale": 1e-6}
    assert LEAST["loss"] == {"name": "contrastive"}


def test_a_file_round_trips(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("data: {name: quickdraw}\nloss: {name: arcface}\noptimiser: {lr: 1e-4}\n")
    config = read_config(path, ["training.seed=7"])
    assert config.optimiser.lr == 1e-4
    assert config.training.seed == 7
    again = tmp_path / "resolved.yaml"
    again.write_text(config.to_yaml())
    assert read_config(again) == config


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: [", "is not valid YAML, line 1"),
        ("just text", "must be a mapping with the sections data, model, "),
        ("loss: {name: a}", "lacks the field 'data'."),
        ("", "lacks the field 'data'."),
        (b"\xff\xfe\x00", "cannot read"),
    ],
)
def test_files_that_are_none(text: str | bytes, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError) as refused:
        read_config(path)
    assert sentence in str(refused.value)


def test_settings_do_not_hide_that_a_file_is_no_mapping(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("just text")
    with pytest.raises(InputError, match="must be a mapping with the sections"):
        read_config(path, ["seed=1"])


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read .*none.yaml: No such file or directory\."):
        read_config(tmp_path / "none.yaml")
