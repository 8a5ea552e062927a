"""Configuration of a benchmark: data, protocol, shared settings, methods, and three presets.

Every field of the YAML file gets its value, and errors name their field. A preset (smoke,
standard, paper) fills in what a configuration leaves out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field, ValidationError, field_validator, model_validator

from truerank._util.errors import InputError
from truerank.benchmark import papers
from truerank.core import metric as definitions
from truerank.core import registry
from truerank.losses import registry as losses
from truerank.losses.registry import entry
from truerank.training.config import (
    AugmentationConfig,
    LossOptimiserConfig,
    ModelConfig,
    ModelOptimiserConfig,
    PartConfig,
    SamplerConfig,
    ScheduleConfig,
    Section,
    TrainingConfig,
    apply_settings,
    describe_error,
)

METRICS = ("precision@1", "r_precision", "map@r")
"""The columns of the paper's tables."""
RESERVED = ("untrained", "untrained+pca")
"""Rows that every benchmark has."""
SPLITS = ("classes", "stratified", "images", "official")
"""Ways to halve the data; any other name is that of a file of ids."""
NOT_SEARCHED = ("model.dimensions", "training.seed", "training.metric")
"""Fields that are the same for all trials: those of the table's headings and of the protocol."""


class DataSection(Section):
    """The data set, and how it is halved: classes, stratified, images, official, a file of ids."""

    name: str
    root: str | None = None
    split: str = "classes"


class SpaceConfig(Section):
    """Where a parameter is searched: from low to high, or among values."""

    low: float | None = None
    high: float | None = None
    log: bool = False
    integer: bool = False
    values: list[Any] | None = None
    default: Any = None

    @model_validator(mode="after")
    def _one_of_both(self) -> SpaceConfig:
        if self.values is not None:
            if len(self.values) < 2 or self.low is not None or self.high is not None:
                raise ValueError(
                    "a search among values needs two of them, and neither low nor high"
                )
        elif self.low is None or self.high is None or not self.low < self.high:
            raise ValueError("a search needs low and high, low < high, or values")
        elif self.log and self.low <= 0:
            raise ValueError("a search in the logarithm needs low > 0")
        return self


class ProtocolSection(Section):
    """How much is searched and how often the best is trained again.

    `search` has fields of the section shared, such as optimiser.lr, that every method searches.
    """

    preset: Literal["smoke", "standard", "paper"] = "standard"
    folds: int = Field(default=4, ge=2)
    trials: int = Field(default=25, ge=1)
    startup: int = Field(default=5, ge=1)
    reruns: int = Field(default=5, ge=1)
    search: dict[str, SpaceConfig] = Field(default_factory=dict)
    seed: int = Field(default=0, ge=0, lt=2**32)
    metric: str = "map@r"
    metrics: list[str] = Field(default_factory=list)
    units: Literal["metric", "finer", "finest"] = "metric"

    @model_validator(mode="after")
    def _known(self) -> ProtocolSection:
        registry.parse_all([self.metric, *self.metrics])
        (metric,) = registry.parse_all([self.metric])
        if not definitions.entry(metric.name).higher_is_better:
            raise ValueError(f"metric must be one that is better when higher; {metric} is not")
        return self


class SharedModel(ModelConfig):
    """The model; of the trunk `frozen` the features of `base` are computed once, in `copies`."""

    base: str = "efficientnet_lite0"
    copies: int = Field(default=8, ge=1)


class SharedTraining(TrainingConfig):
    """How a training goes; seed and metric are the protocol's.

    Layers compute in one precision on all machines: what `auto` is elsewhere, one on a GPU and
    another one on a CPU, is float32 here.
    """

    precision: Literal["float32", "bfloat16", "float16"] = "float32"

    @model_validator(mode="before")
    @classmethod
    def _not_its_own(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        for field in ("seed", "metric"):
            if field in given:
                raise ValueError(f"{field} is a field of the section protocol")
        is_auto = given.get("precision") == "auto"
        return {**given, "precision": "float32"} if is_auto else given


class SharedConfig(Section):
    """What is the same for all methods, by construction."""

    model: SharedModel = SharedModel()
    augmentation: AugmentationConfig = AugmentationConfig()
    batch: int = Field(default=32, ge=8, multiple_of=4)
    sampler: SamplerConfig | None = None
    optimiser: ModelOptimiserConfig = ModelOptimiserConfig()
    loss_optimiser: LossOptimiserConfig = LossOptimiserConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    training: SharedTraining = SharedTraining()


class ObjectiveConfig(Section):
    """A search for the smallest `minimise` among trials that keep up with another method.

    They must reach the validation score of the best trial of the method `of`, less `less`.
    """

    minimise: str
    of: str
    less: float = Field(default=0.0, ge=0)

    @field_validator("minimise")
    @classmethod
    def _known(cls, metric: str) -> str:
        (found,) = registry.parse_all([metric])
        if definitions.entry(found.name).higher_is_better:
            raise ValueError(f"minimise must be a metric that is better when lower; {found} is not")
        return str(found)


class MethodConfig(Section):
    """A method: a registered loss, a loss of your own, or finished embeddings of the test half.

    `start` has the values at which its search begins, where these are not the loss's defaults.
    """

    name: str
    loss: str | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)
    plus: list[PartConfig] = Field(default_factory=list)
    miner: str | None = None
    miner_parameters: dict[str, Any] = Field(default_factory=dict)
    every_level: bool = False
    search: dict[str, SpaceConfig] = Field(default_factory=dict)
    start: dict[str, Any] = Field(default_factory=dict)
    objective: ObjectiveConfig | None = None
    file: str | None = None
    object: str | None = None
    kind: Literal["embedding", "classification", "regulariser"] | None = None
    embeddings: str | None = None

    @field_validator("name")
    @classmethod
    def _names_a_folder(cls, name: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9_+@.' -]{1,64}", name) or name.strip(". ") != name:
            raise ValueError("a method's name has letters, digits and _ + @ . ' - alone")
        if name in RESERVED:
            raise ValueError(f"{name} is a row of every benchmark; choose another name")
        return name

    @model_validator(mode="after")
    def _one_kind(self) -> MethodConfig:
        if self.embeddings is not None:
            if self.model_fields_set - {"name", "embeddings"}:
                raise ValueError("a method with embeddings is not trained and has no other field")
        elif self.file is not None:
            if self.object is None or self.kind is None:
                raise ValueError("a loss of your own needs file, object and kind")
            for field in ("loss", "plus", "miner", "miner_parameters", "every_level"):
                if field in self.model_fields_set:
                    raise ValueError(
                        f"{field} belongs to a loss of the catalogue, and file names one of your "
                        "own; leave one of them out"
                    )
        else:
            if self.object is not None or self.kind is not None:
                raise ValueError("object and kind belong to a loss of your own; name its file too")
            entry(self.loss or self.name)
        return self


class BenchmarkConfig(Section):
    """The configuration of one benchmark; the table lists its differences from `paper`.

    Examples
    --------
    >>> from truerank.benchmark import BenchmarkConfig
    >>> config = BenchmarkConfig.of({"data": {"name": "emoji"}, "methods": ["triplet"]})
    >>> config.protocol.trials, config.shared.batch
    (25, 32)
    """

    paper: str = "reality-check"
    data: DataSection
    protocol: ProtocolSection = ProtocolSection()
    shared: SharedConfig = SharedConfig()
    methods: list[MethodConfig] = Field(min_length=1)

    @field_validator("paper")
    @classmethod
    def _known(cls, name: str) -> str:
        papers.reference(name, "")
        return name

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        filled = fill_in(dict(given))
        methods = filled.get("methods")
        if isinstance(methods, Mapping):
            methods = _by_name(methods)
        if isinstance(methods, list):
            filled["methods"] = [{"name": m} if isinstance(m, str) else m for m in methods]
            for method in filled["methods"]:
                _refuse_own_conditions(method)
        return filled

    @model_validator(mode="after")
    def _different_names(self) -> BenchmarkConfig:
        names = [method.name.lower() for method in self.methods]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two methods are called {name}")
        return self

    @model_validator(mode="after")
    def _objectives(self) -> BenchmarkConfig:
        plain = [m.name for m in self.methods if m.objective is None and m.embeddings is None]
        for method in self.methods:
            if method.objective is not None and method.objective.of not in plain:
                raise ValueError(
                    f"the method {method.name} is searched beside {method.objective.of!r}, which "
                    "is no trained method without an objective"
                )
        return self

    @model_validator(mode="after")
    def _searched_fields(self) -> BenchmarkConfig:
        """Refuse fields that do not exist, and ends of ranges that a field does not take."""
        for name, space in self.protocol.search.items():
            section, _, field = name.partition(".")
            part = getattr(self.shared, section, None)
            known = type(part).model_fields if isinstance(part, Section) else {}
            if field not in known or name in NOT_SEARCHED:
                raise ValueError(
                    f"protocol.search names {name}; it must be a field of the section shared, such "
                    f"as optimiser.weight_decay, and none of {', '.join(NOT_SEARCHED)}"
                )
            assert isinstance(part, Section)
            given = part.model_dump(exclude={"seed", "metric"})
            for value in space.values or (space.low, space.high):
                try:
                    type(part).model_validate({**given, field: value})
                except ValidationError as error:
                    sentence = describe_error(error, f"protocol.search.{name}", type(part))
                    raise ValueError(sentence) from error
        return self

    @classmethod
    def of(cls, given: Any, source: str = "the configuration") -> BenchmarkConfig:
        """A configuration from a mapping; what is wrong with it is said in one sentence."""
        if isinstance(given, BenchmarkConfig):
            return given
        if not isinstance(given, Mapping):
            raise InputError(
                f"{source} must be a mapping with the sections {', '.join(cls.model_fields)}. "
                f"Got {type(given).__name__} instead."
            )
        try:
            return cls.model_validate(dict(given))
        except ValidationError as error:
            raise InputError(describe_error(error, source, cls)) from error

    def to_dict(self) -> dict[str, Any]:
        """Every field with its value, as YAML and JSON can hold them."""
        data = self.model_dump(mode="json")
        for field in ("seed", "metric"):
            del data["shared"]["training"][field]
        for number, method in enumerate(self.methods):
            data["methods"][number] = method.model_dump(mode="json", exclude_unset=True)
        return data

    def to_yaml(self) -> str:
        """The resolved configuration as text."""
        return str(yaml.safe_dump(self.to_dict(), sort_keys=False))

    @property
    def metrics(self) -> list[str]:
        """What is reported: the paper's columns, the search's metric, and what is asked for."""
        asked = [*METRICS, self.protocol.metric, *self.protocol.metrics]
        return list(dict.fromkeys(str(metric) for metric in registry.parse_all(asked)))


def read(
    path: str | os.PathLike[str],
    settings: Iterable[str] = (),
    *,
    root: str | os.PathLike[str] | None = None,
) -> BenchmarkConfig:
    """Read a YAML file, or the configuration of a paper's table by its name.

    Parameters
    ----------
    path : path or str
        The files that a YAML file names are found beside it.
    settings : iterable of str
        Values on top, such as "shared.training.epochs=3" or "methods.triplet.start.margin=0.1".
    root : path, optional
        The folder of the data set, in place of data.root.
    """
    given = papers.given(path)
    if papers.is_scored(given):
        raise InputError(f"{path} trains nothing: pass it to truerank.benchmark.score_table.")
    if isinstance(given, Mapping):
        beside = Path(path).absolute().parent
        given = _with_settings(given, list(settings))
        data, methods = given.get("data"), given.get("methods")
        if root is not None and isinstance(data, Mapping):
            given["data"] = data = {**data, "root": os.fspath(root)}
        if isinstance(data, Mapping) and data.get("split") not in SPLITS:
            given["data"] = _found_beside(data, ("split",), beside)
        if isinstance(methods, Mapping):
            methods = _by_name(methods)
        if isinstance(methods, list):
            given["methods"] = [
                _found_beside(one, ("file", "embeddings"), beside)
                if isinstance(one, Mapping)
                else one
                for one in methods
            ]
    return BenchmarkConfig.of(given, os.fspath(path))


def _with_settings(given: Mapping[str, Any], settings: list[str]) -> dict[str, Any]:
    """A configuration with settings on top, which name a method where a list has it."""
    methods = given.get("methods")
    if settings and isinstance(methods, list):
        names = [str(one.get("name") if isinstance(one, Mapping) else one) for one in methods]
        if len(set(names)) == len(names):  # the same name twice is refused later
            fields = [dict(one) if isinstance(one, Mapping) else {} for one in methods]
            given = {**given, "methods": dict(zip(names, fields, strict=True))}
    changed: dict[str, Any] = apply_settings(dict(given), settings)
    _refuse_misspelt_methods(given.get("methods"), changed.get("methods"))
    return changed


def _refuse_misspelt_methods(before: Any, after: Any) -> None:
    """Refuse a method that settings alone have made, if no loss is called so and it names none."""
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return
    for name in after.keys() - before.keys():
        fields = after[name] if isinstance(after[name], Mapping) else {}
        if fields.keys() & {"loss", "file", "embeddings"} or name in losses.names():
            continue
        raise InputError(
            f"--set names the method {name!r}, which the configuration does not have; it has "
            f"{', '.join(map(str, before))}. A new method needs its loss as well."
        )


def _by_name(methods: Mapping[Any, Any]) -> list[Any]:
    """A list of methods from a mapping of their names to their fields, if they have any."""
    return [
        {"name": name, **fields} if isinstance(fields, Mapping) else name
        for name, fields in methods.items()
    ]


def _found_beside(
    section: Mapping[str, Any], fields: tuple[str, ...], beside: Path
) -> dict[str, Any]:
    """A section whose files have whole paths, so that they are found from any folder."""
    named = {field: section[field] for field in fields if isinstance(section.get(field), str)}
    return {**section, **{field: str(beside / name) for field, name in named.items()}}


def _refuse_own_conditions(method: Any) -> None:
    if not isinstance(method, Mapping):
        return
    for field in method:
        if field in {*SharedConfig.model_fields, "sampler", "data", "protocol"}:
            raise ValueError(
                f"the method {method.get('name')!r} may not set {field!r}: conditions are equal "
                "for all methods, and stand in the section shared"
            )


# The three sizes of the protocol, and what each fills in where a configuration says nothing.


PRESETS: dict[str, dict[str, Any]] = {
    "smoke": {"folds": 2, "trials": 3, "startup": 2, "reruns": 2},
    "standard": {"folds": 4, "trials": 25, "startup": 5, "reruns": 5},
    "paper": {"folds": 4, "trials": 50, "startup": 10, "reruns": 10},
}
_SHARED: dict[str, dict[str, dict[str, Any]]] = {
    "smoke": {"optimiser": {"lr": 1e-3}, "training": {"epochs": 2, "iterations": 20}},
    "standard": {"optimiser": {"lr": 3e-4}},
    "paper": {},
}


def fill_in(given: dict[str, Any]) -> dict[str, Any]:
    """A configuration with what its preset says, where it does not say otherwise itself."""
    protocol = given.get("protocol", {})
    preset = protocol.get("preset", "standard") if isinstance(protocol, dict) else None
    if not isinstance(preset, str) or preset not in PRESETS:
        return given
    shared = given.get("shared", {})
    if not isinstance(shared, dict):
        return given
    filled = dict(shared)
    for section, fields in _SHARED[preset].items():
        own = filled.get(section, {})
        filled[section] = {**fields, **own} if isinstance(own, dict) else own
    return {**given, "protocol": {**PRESETS[preset], **protocol}, "shared": filled}
