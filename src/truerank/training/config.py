"""Configuration of a training and its YAML files: fields, defaults, and errors that name a field.

Defaults are the protocol of "A Metric Learning Reality Check": batches of 32, epochs of 100
iterations, RMSprop at a constant rate, crops of 227 out of 256, 128 dimensions.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from truerank._util.errors import InputError, shortened
from truerank.core import metric as definitions
from truerank.core import registry
from truerank.losses.registry import entry
from truerank.training.pipeline import Augmentation

BATCH, SAMPLES = 32, 4
"""Images in a batch, and of each class where pairs of a class are needed."""
WITHOUT_WEIGHTS = ("convnet",)
"""Trunks for which there are no pretrained weights."""


class Section(BaseModel):
    """A section of the configuration; unknown fields are refused, for one may be misspelt."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class DataConfig(Section):
    """The images; `validation` names a separate split; else a fold of the classes is kept."""

    name: str
    root: str | None = None
    train: str = "train"
    validation: str | None = None
    folds: int = Field(default=4, ge=2)
    fold: int | None = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _fold_exists(self) -> DataConfig:
        if self.fold is not None and self.fold >= self.folds:
            raise ValueError(f"fold must be less than folds = {self.folds}")
        return self


class ModelConfig(Section):
    """The trunk and its embedder."""

    trunk: str = "efficientnet_lite0"
    pretrained: bool = True
    dimensions: int = Field(default=128, ge=1)
    head: Literal["linear", "layernorm"] = "linear"
    freeze_batchnorm: bool | Literal["all"] | None = None

    @model_validator(mode="before")
    @classmethod
    def _without_weights(cls, given: Any) -> Any:
        """Write down that a trunk without pretrained weights starts from random ones."""
        if not isinstance(given, Mapping) or given.get("trunk") not in WITHOUT_WEIGHTS:
            return given
        return {**given, "pretrained": False} if given.get("pretrained", True) is True else given


class AugmentationConfig(Section):
    """Crops in pixels; see truerank.training.pipeline."""

    resize: int = Field(default=256, ge=1)
    crop: int = Field(default=227, ge=1)
    scale: tuple[float, float] = (0.16, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: float = Field(default=0.5, ge=0, le=1)
    square: bool = False

    @model_validator(mode="after")
    def _ranges(self) -> AugmentationConfig:
        if self.crop > self.resize:
            raise ValueError(f"crop must be at most resize = {self.resize}")
        if not 0 < self.scale[0] <= self.scale[1] <= 1:
            raise ValueError("scale must be two shares of the area, 0 < low <= high <= 1")
        if not 0 < self.ratio[0] <= self.ratio[1]:
            raise ValueError("ratio must be two positive numbers, low <= high")
        return self

    def build(self) -> Augmentation:
        """The augmentation that the fields describe."""
        return Augmentation(**self.model_dump())


class SamplerConfig(Section):
    """Batches of `classes` x `samples` images; the hierarchical kind has `nodes` and `level`.

    Where neither is said, the loss's kind decides: 32 x 1 for classification, 8 x 4 for others.
    """

    kind: Literal["classes", "hierarchical"] = "classes"
    classes: int = Field(default=8, ge=1)
    samples: int = Field(default=4, ge=1)
    few: Literal["repeat", "drop"] = "repeat"
    nodes: int = Field(default=2, ge=1)
    level: int = Field(default=1, ge=1)


class PartConfig(Section):
    """A loss that is added to another one, weighted."""

    name: str
    weight: float = 1.0
    parameters: dict[str, Any] = {}


class LossConfig(Section):
    """A loss by name; what is added to it; what chooses its pairs; whether every level has it."""

    name: str
    parameters: dict[str, Any] = {}
    plus: list[PartConfig] = []
    miner: str | None = None
    miner_parameters: dict[str, Any] = {}
    every_level: bool = False

    @model_validator(mode="after")
    def _levels(self) -> LossConfig:
        if self.every_level and self.miner is not None:
            raise ValueError("every_level and miner exclude each other: a miner goes by one level")
        return self


class OptimiserConfig(Section):
    """An optimiser; only SGD has Nesterov's momentum. A cosine schedule ends at `lowest`."""

    name: Literal["rmsprop", "sgd", "adam", "adamw"] = "rmsprop"
    lr: float = Field(default=1e-6, gt=0)
    weight_decay: float = Field(default=1e-4, ge=0)
    momentum: float = Field(default=0.9, ge=0, lt=1)
    nesterov: bool = False
    lowest: float = Field(default=0.0, ge=0)

    @model_validator(mode="after")
    def _nesterov(self) -> OptimiserConfig:
        if self.nesterov and (self.name != "sgd" or self.momentum == 0):
            raise ValueError("nesterov needs the optimiser sgd and a momentum above 0")
        return self


class ModelOptimiserConfig(OptimiserConfig):
    """The optimiser of the model: `lr` is the trunk's rate, and the head's if it has none."""

    head_lr: float | None = Field(default=None, gt=0)


class LossOptimiserConfig(OptimiserConfig):
    """The optimiser of the loss's own parameters, such as class weights, which start anew."""

    lr: float = Field(default=1e-2, gt=0)
    weight_decay: float = Field(default=0.0, ge=0)
    momentum: float = Field(default=0.0, ge=0, lt=1)


class ScheduleConfig(Section):
    """How the learning rates change: linearly up over `warmup` iterations, then by `name`.

    `step` multiplies them by `factor` after every `every` epochs, `plateau` when the validation
    metric has not risen for `every` epochs. `cosine` goes on with every iteration, or `by` epoch.
    The trunk rests in the first `frozen_trunk` iterations.
    """

    name: Literal["constant", "cosine", "step", "plateau"] = "constant"
    by: Literal["iteration", "epoch"] = "iteration"
    warmup: int = Field(default=0, ge=0)
    every: int = Field(default=10, ge=1)
    factor: float = Field(default=0.1, gt=0, lt=1)
    frozen_trunk: int = Field(default=0, ge=0)


class TrainingConfig(Section):
    """How long training lasts, by which metric, and with what arithmetic.

    A batch goes through the network in chunks of at most `chunk` images, by default as a whole.
    """

    epochs: int = Field(default=100, ge=1)
    iterations: int = Field(default=100, ge=1)
    patience: int | None = Field(default=10, ge=1)
    metric: str = "map@r"
    seed: int = Field(default=0, ge=0, lt=2**32)
    device: str = "auto"
    precision: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    deterministic: bool = True
    channels_last: bool = False
    chunk: int | None = Field(default=None, ge=1)
    pipeline: Literal["auto", "resident", "decoded"] = "auto"
    workers: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _known(self) -> TrainingConfig:
        metric = registry.parse(self.metric)
        if not definitions.entry(metric.name).higher_is_better:
            raise ValueError(f"metric must be one that is better when higher; {metric} is not")
        return self


class EvaluationConfig(Section):
    """What the trained model is scored by at the end."""

    metrics: list[str] | str | None = None
    batch: int = Field(default=256, ge=1)

    @model_validator(mode="after")
    def _known(self) -> EvaluationConfig:
        if self.metrics is not None and self.metrics != "all":
            registry.parse_all(self.metrics)
        return self


class Config(Section):
    """The configuration of one run.

    Examples
    --------
    >>> from truerank.training import Config
    >>> config = Config(data={"name": "quickdraw"}, loss={"name": "contrastive"})
    >>> config.sampler.classes, config.training.iterations
    (8, 100)
    """

    data: DataConfig
    model: ModelConfig = ModelConfig()
    augmentation: AugmentationConfig = AugmentationConfig()
    sampler: SamplerConfig = SamplerConfig()
    loss: LossConfig
    optimiser: ModelOptimiserConfig = ModelOptimiserConfig()
    loss_optimiser: LossOptimiserConfig = LossOptimiserConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    training: TrainingConfig = TrainingConfig()
    evaluation: EvaluationConfig = EvaluationConfig()

    @model_validator(mode="before")
    @classmethod
    def _batch_by_kind(cls, given: Any) -> Any:
        """Fill in the batch of a loss whose kind has another one than the default."""
        if not isinstance(given, Mapping):
            return given
        sampler, loss = given.get("sampler", {}), given.get("loss", {})
        name = loss.get("name") if isinstance(loss, Mapping) else getattr(loss, "name", None)
        if not isinstance(sampler, Mapping) or {"classes", "samples"} & set(sampler):
            return given
        classes, samples = batch_of(name, BATCH)
        return {**given, "sampler": {**sampler, "classes": classes, "samples": samples}}

    @model_validator(mode="after")
    def _warm_up_ends(self) -> Config:
        total = self.training.epochs * self.training.iterations
        for field in ("warmup", "frozen_trunk"):
            if getattr(self.schedule, field) >= total:
                raise ValueError(
                    f"schedule.{field} must be less than the {total} iterations of the run"
                )
        return self

    @classmethod
    def of(cls, given: Config | Mapping[str, Any], source: str = "the configuration") -> Config:
        """A configuration from a mapping; what is wrong with it is said in one sentence."""
        if isinstance(given, Config):
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
        return self.model_dump(mode="json")

    def to_yaml(self) -> str:
        """The resolved configuration as text."""
        return str(yaml.safe_dump(self.to_dict(), sort_keys=False))


def batch_of(loss: Any, images: int) -> tuple[int, int]:
    """Classes x samples of a batch of so many images, by the kind of a loss with this name.

    Examples
    --------
    >>> from truerank.training.config import batch_of
    >>> batch_of("arcface", 32), batch_of("triplet", 32)
    ((32, 1), (8, 4))
    """
    try:
        kind = entry(loss).kind
    except InputError:  # said with the other faults of the configuration, or when it is built
        kind = "embedding"
    return batch_of_kind(kind, images)


def batch_of_kind(kind: str, images: int) -> tuple[int, int]:
    """As many classes as images for classification, else a quarter with four images each."""
    return (images, 1) if kind == "classification" else (images // SAMPLES, SAMPLES)


def read_config(path: str | os.PathLike[str], settings: Iterable[str] = ()) -> Config:
    """Read a YAML file, with `settings` such as "training.seed=1" on top."""
    return Config.of(apply_settings(read_yaml(path), settings), os.fspath(path))


# YAML files of configurations: numbers as they look, settings on top, errors in one sentence.


MALFORMED = (AttributeError, LookupError, OverflowError, TypeError, ValueError)
"""What values that are not what their tag says make the parser raise."""


def read_yaml(path: str | os.PathLike[str]) -> Any:
    """What a YAML file holds; one that cannot be read ends in a sentence."""
    try:
        with open(path, encoding="utf-8") as file:
            return yaml.load(file, _Loader)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InputError(f"cannot read {path}: {reason}.") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or "it cannot be parsed"
        raise InputError(f"{path} is not valid YAML{where}: {problem[:200]}.") from error
    except RecursionError as error:
        raise InputError(f"{path} is not valid YAML: it nests too deeply.") from error
    except MALFORMED as error:  # such as a date of month 13
        reason = " ".join(str(error).split())[:200].rstrip(".")
        raise InputError(f"{path} is not valid YAML: {reason}.") from error


def apply_settings(given: Any, settings: Iterable[str]) -> Any:
    """Lay "section.field=value" over a mapping; the value is read as YAML reads it."""
    changed = _copy({} if given is None else given)
    if not isinstance(changed, dict):
        return given
    for setting in settings:
        name, equals, text = setting.partition("=")
        keys = name.strip().split(".")
        if not equals or not all(keys):
            raise InputError(f"a setting is section.field=value. Got {shortened(setting)} instead.")
        try:
            value = yaml.load(text, _Loader)
        except (yaml.YAMLError, RecursionError, *MALFORMED) as error:
            raise InputError(
                f"the value of the setting {shortened(setting)} is not valid YAML."
            ) from error
        place = changed
        for key in keys[:-1]:
            if not isinstance(place.setdefault(key, {}), dict):
                raise InputError(
                    f"the setting {shortened(setting)} goes below {shortened(key)}, which is a "
                    "value."
                )
            place = place[key]
        place[keys[-1]] = value
    return changed


def _copy(value: Any) -> Any:
    return {key: _copy(inner) for key, inner in value.items()} if isinstance(value, dict) else value


# YAML 1.1 takes 1e-6 for text, for want of a dot; here it is the number that it looks like.
_Loader: Any = type("_Loader", (yaml.SafeLoader,), {})
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+$"), list("-+0123456789")
)

LONGEST = 120
"""Letters of a field's name in a sentence."""
_KINDS = {
    "bool": "true or false",
    "dict": "a mapping",
    "float": "a number",
    "int": "an int",
    "list": "a list",
    "model": "a mapping",
    "string": "text",
    "tuple": "a list",
}


_ALTERNATIVE = re.compile(r"(list\[|literal\[|str$|bool$)")


def describe_error(error: ValidationError, source: str, model: type[BaseModel]) -> str:
    """A sentence about the first thing that is wrong: the field's name and what came."""
    first = error.errors(include_url=False)[0]
    # A union reports each alternative that failed; the field is what comes before them.
    loc = [str(part) for part in first["loc"] if not _ALTERNATIVE.match(str(part))]
    path, known = _path_in(model, loc)
    context = first.get("ctx", {})
    if "discriminator" in context:  # the field that should have the tag
        path.append(context["discriminator"].strip("'"))
    field, got = ".".join(path), shortened(context.get("tag", first["input"]))
    field = field if len(field) <= LONGEST else f"{field[:LONGEST]}..."
    if first["type"] in ("missing", "union_tag_not_found"):
        return f"{source} lacks the field '{field}'."
    if first["type"] == "extra_forbidden":
        close = difflib.get_close_matches(path[-1], known, n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"the fields there: {', '.join(known)}."
        hint = hint if known else "there are no fields there."
        return f"{source} has a field '{field}' that is not known; {hint}"
    if first["type"] == "value_error":
        reason = str(context["error"]).rstrip(".")
        end = "" if reason.endswith("?") else "."
        return f"{source}: {f'the section {field}: ' if field else ''}{reason}{end}"
    if first["type"] in ("too_long", "too_short"):
        wanted = context.get("max_length", context.get("min_length"))
        what = f"a list of {wanted}"
    elif first["type"] == "union_tag_invalid":
        what = f"one of {context['expected_tags']}"
    elif first["type"].partition("_")[0] in _KINDS and first["type"] != "int_parsing_size":
        what = _KINDS[first["type"].partition("_")[0]]
    else:
        what = first["msg"].removeprefix("Input should be ")
    return f"{source}: the field '{field}' must be {what}. Got {got} instead."


def _path_in(outermost: type[BaseModel], loc: list[str]) -> tuple[list[str], list[str]]:
    """A field's place without the tags that choose among sections, and the fields beside it."""
    path: list[str] = []
    model: Any = outermost
    beside: dict[str, Any] = {}
    tag: str | None = None
    kinds: tuple[Any, ...] = ()
    for name in loc:
        if tag is not None:
            model = next(k for k in kinds if name in get_args(k.model_fields[tag].annotation))
            tag = None
            continue
        path.append(name)
        beside = getattr(model, "model_fields", {})
        if name in beside:
            field = beside[name]
            kinds = tuple(k for k in get_args(field.annotation) if hasattr(k, "model_fields"))
            model = next(iter(kinds), field.annotation)
            tag = field.discriminator if isinstance(field.discriminator, str) else None
    return path, list(beside)
