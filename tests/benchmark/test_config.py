"""What a benchmark's configuration may say, and that conditions are equal by construction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.benchmark.small import settings
from truerank._util.errors import InputError
from truerank.benchmark.config import PRESETS, BenchmarkConfig, read
from truerank.benchmark.methods import (
    LOSS_RATE,
    RATE,
    at_border,
    deviations,
    methods_of,
    training_config,
)
from truerank.losses.registry import SearchChoice, SearchRange
from truerank.training.config import Config

ROOT = Path("drawings.npz")
EXAMPLES = Path(__file__).parents[2] / "examples" / "benchmark"


def config(**sections: Any) -> BenchmarkConfig:
    return BenchmarkConfig.of(settings(ROOT, **sections))


@pytest.mark.parametrize("preset", PRESETS)
def test_presets(preset: str) -> None:
    protocol = config(protocol={"preset": preset}).protocol
    assert {name: getattr(protocol, name) for name in PRESETS[preset]} == PRESETS[preset]
    assert config(protocol={"preset": preset, "trials": 7}).protocol.trials == 7


def test_the_papers_preset_is_the_papers() -> None:
    given = {
        "data": {"name": "cub-200-2011"},
        "protocol": {"preset": "paper"},
        "methods": ["triplet"],
    }
    paper = BenchmarkConfig.of(given)
    optimiser = paper.shared.optimiser
    assert (optimiser.name, optimiser.lr, optimiser.momentum) == ("rmsprop", 1e-6, 0.9)
    assert RATE not in methods_of(paper)[0].space
    assert {one.partition(":")[0] for one in deviations(paper)} == OF_THE_PRESET


OF_THE_PRESET = {
    *("model.trunk", "model.freeze_batchnorm", "augmentation.scale", "training.epochs"),
    "training.patience",
}
"""In what the preset differs from the paper, or the paper's text from its code."""


@pytest.mark.parametrize(
    ("section", "fields", "sentence"),
    [
        ("optimiser", {"lr": 1e-3}, "optimiser.lr: 0.001 (paper: 1e-06)"),
        ("optimiser", {"momentum": 0.0}, "optimiser.momentum: 0 (paper: 0.9)"),
        ("optimiser", {"head_lr": 1e-3}, "optimiser.head_lr: 0.001 (paper: none)"),
        ("optimiser", {"name": "adam"}, "optimiser.name: adam (paper: rmsprop)"),
        ("model", {"head": "layernorm"}, "model.head: layernorm (paper: linear)"),
        ("model", {"freeze_batchnorm": False}, "model.freeze_batchnorm: no (paper: "),
        ("model", {"pretrained": False}, "model.pretrained: no (paper: yes)"),
        ("augmentation", {"flip": 0.0}, "augmentation.flip: 0 (paper: 0.5)"),
        ("augmentation", {"ratio": [1, 1]}, "augmentation.ratio: 1 to 1 (paper: 0.75 to 1.333)"),
        ("schedule", {"name": "cosine"}, "schedule.name: cosine (paper: constant)"),
        ("schedule", {"frozen_trunk": 5}, "schedule.frozen_trunk: 5 (paper: 0)"),
    ],
)
def test_whatever_is_not_as_in_the_paper_is_said(
    section: str, fields: dict[str, Any], sentence: str
) -> None:
    given = {
        "data": {"name": "cub-200-2011"},
        "protocol": {"preset": "paper"},
        "shared": {section: fields},
        "methods": ["triplet"],
    }
    told = deviations(BenchmarkConfig.of(given))
    assert len([one for one in told if sentence in one]) == 1
    assert len({one.partition(":")[0] for one in told} - OF_THE_PRESET) <= 1


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"shared": {"training": {"iterations": 10}}}, "training.iterations: 10 (paper: 100)"),
        ({"shared": {"training": {"epochs": 3}}}, "training.epochs: 3 (paper: 1000)"),
        ({"shared": {"training": {"patience": 1}}}, "training.patience: 1 (paper: a pl"),
        ({"shared": {"training": {"precision": "bfloat16"}}}, "training.precision: bfloat16"),
        ({"methods": ["arcface"]}, "loss_optimiser.momentum: 0 (paper: 0.9)"),
        (
            {"methods": ["arcface"], "shared": {"loss_optimiser": {"name": "adam"}}},
            "loss_optimiser.name: adam (paper: rmsprop)",
        ),
        (
            {"methods": [{"name": "triplet", "search": {"margin": {"low": 0.0, "high": 0.2}}}]},
            "triplet: margin searched from 0 to 0.2 (paper: searched from -0.2 to 2)",
        ),
        (
            {"methods": [{"name": "mine", "loss": "triplet", "parameters": {"margin": 0.1}}]},
            "mine: margin 0.1 (paper: searched from -0.2 to 2)",
        ),
        (
            {"data": {"name": "sop"}, "methods": ["arcface"]},
            "arcface: scale searched from 0.01 to 200 (paper: searched in a range with 220.3)",
        ),
    ],
)
def test_length_precision_class_weights_and_ranges_are_said(
    changes: dict[str, Any], sentence: str
) -> None:
    given = {
        "data": {"name": "cub-200-2011"},
        "protocol": {"preset": "paper"},
        "methods": ["triplet"],
        **changes,
    }
    told = deviations(BenchmarkConfig.of(given))
    assert len([one for one in told if sentence in one]) == 1


def test_a_range_that_is_the_papers_is_not_said() -> None:
    same = {"name": "triplet", "search": {"margin": {"low": -0.2, "high": 2.0}}}
    given = {"data": {"name": "cars"}, "protocol": {"preset": "paper"}, "methods": [same]}
    assert not [one for one in deviations(BenchmarkConfig.of(given)) if "margin" in one]


def test_a_split_and_a_frozen_trunk_are_said() -> None:
    given = settings(ROOT)
    given["data"]["split"] = "ids.json"
    given["shared"]["model"] = {"trunk": "frozen", "dimensions": 8}
    told = deviations(BenchmarkConfig.of(given))
    assert "data.split: a file of ids (paper: classes)" in told
    assert any(one.startswith("model.trunk: a head on fixed features of ") for one in told)


def test_a_trunk_without_weights_is_not_called_pretrained() -> None:
    for said in ({}, {"pretrained": True}, {"pretrained": False}):
        given = settings(ROOT)
        given["shared"]["model"] |= said
        assert BenchmarkConfig.of(given).to_dict()["shared"]["model"]["pretrained"] is False


def test_other_presets_search_the_rate_of_every_method_in_one_range() -> None:
    chosen = config(methods=["contrastive", "arcface", "soft_triple"])
    spaces = [method.space[RATE] for method in methods_of(chosen)]
    assert spaces == [SearchRange(1e-5, 1e-2, log=True)] * 3
    assert any(
        one.startswith("all methods: lr searched from 1e-05 to 0.01") for one in deviations(chosen)
    )


def test_a_loss_with_parameters_has_its_own_rate_searched() -> None:
    contrastive, arcface = methods_of(config())
    assert LOSS_RATE not in contrastive.space
    assert arcface.space[LOSS_RATE] == SearchRange(1e-6, 1.0, log=True)
    assert arcface.defaults == {"margin": 28.6, "scale": 64.0, LOSS_RATE: 0.01, RATE: 1e-3}


def test_trainings_differ_in_the_loss_the_batch_of_its_kind_and_searched_rates_alone() -> None:
    chosen = config(shared={**settings(ROOT)["shared"], "batch": 32})
    contrastive, arcface = (
        Config.of(training_config(chosen, method, method.defaults, 7)).to_dict()
        for method in methods_of(chosen)
    )
    different = {
        (section, field)
        for section, fields in contrastive.items()
        for field, value in fields.items()
        if arcface[section][field] != value
    }
    assert different == {
        ("loss", "name"), ("loss", "parameters"), ("sampler", "classes"), ("sampler", "samples")
    }  # fmt: skip
    assert contrastive["sampler"]["classes"] * contrastive["sampler"]["samples"] == 32
    assert arcface["sampler"]["classes"] * arcface["sampler"]["samples"] == 32


@pytest.mark.parametrize(
    "field", ["batch", "model", "optimiser", "training", "augmentation", "schedule", "sampler"]
)
def test_a_method_may_not_vary_what_is_shared(field: str) -> None:
    with pytest.raises(InputError, match=f"'mine' may not set '{field}': conditions are equal"):
        config(methods=[{"name": "mine", "loss": "triplet", field: 64}])


@pytest.mark.parametrize(
    ("sections", "sentence"),
    [
        ({"methods": []}, "the field 'methods'"),
        ({"methods": ["tripplet"]}, "'tripplet' is no loss. Did you mean 'triplet'?"),
        ({"methods": ["triplet", "Triplet"]}, "two methods are called triplet"),
        ({"methods": ["untrained"]}, "untrained is a row of every benchmark"),
        ({"methods": [{"name": "a/b", "loss": "triplet"}]}, "a method's name has letters"),
        ({"methods": [{"name": "mine", "file": "my.py"}]}, "needs file, object and kind"),
        ({"methods": [{"name": "r", "embeddings": "x", "loss": "margin"}]}, "has no other field"),
        ({"protocol": {"preset": "quick"}}, "the field 'protocol.preset' must be"),
        ({"protocol": {"metric": "opis"}}, "metric must be one that is better when higher"),
        ({"protocol": {"metric": "mapr"}}, "unknown metric 'mapr'; did you mean 'map@r'?"),
        ({"protocol": {"trails": 3}}, "did you mean 'trials'?"),
        ({"shared": {"training": {"seed": 3}}}, "seed is a field of the section protocol"),
        ({"shared": {"batch": 30}}, "the field 'shared.batch'"),
        (
            {"methods": [{"name": "triplet", "search": {"margin": {"low": 1, "high": 0}}}]},
            "a search needs low and high, low < high, or values",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(sections: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        config(**sections)
    assert sentence in str(caught.value)
    assert not str(caught.value).endswith("?.")


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        ({"search": {"marign": {"low": 0, "high": 1}}}, "'marign', which is no parameter of"),
        ({"search": {"margin": {"low": 0.5, "high": 1}}}, "outside 0.5 to 1; give it a default"),
    ],
)
def test_a_search_that_cannot_begin_is_refused(method: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        methods_of(config(methods=[{"name": "triplet", **method}]))


def test_fixed_parameters_are_not_searched() -> None:
    (method,) = methods_of(
        config(methods=[{"name": "contrastive", "parameters": {"positive_margin": 0}}])
    )
    assert set(method.space) == {"negative_margin", RATE}


def test_it_goes_through_yaml_unchanged(tmp_path: Path) -> None:
    chosen = config()
    assert BenchmarkConfig.of(yaml.safe_load(chosen.to_yaml())) == chosen


def test_files_of_methods_lie_beside_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "my.py").write_text("class Mine: pass\n")
    methods = [{"name": "mine", "file": "my.py", "object": "Mine", "kind": "embedding"}]
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(settings(ROOT, methods=methods)))
    (method,) = methods_of(read(tmp_path / "c.yaml"))
    assert method.loss.file == str(tmp_path / "my.py")  # type: ignore[union-attr]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_the_examples_are_valid(path: Path) -> None:
    assert methods_of(read(path))


@pytest.mark.parametrize(
    ("space", "value", "where"),
    [
        (SearchRange(0.0, 1.0), 0.005, "low"),
        (SearchRange(0.0, 1.0), 0.02, None),
        (SearchRange(0.0, 1.0), 1.0, "high"),
        (SearchRange(1e-6, 1.0, log=True), 1.1e-6, "low"),
        (SearchRange(1e-6, 1.0, log=True), 1e-2, None),
        (SearchChoice((1, 2)), 1, None),
    ],
)
def test_optima_at_a_border(space: Any, value: float, where: str | None) -> None:
    assert at_border(space, value) == where
