"""Methods of a benchmark: what each searches and starts from, and its training configuration.

In a method's training only the loss and the searched rates differ from the others. Parameters
of what is added to a loss have names such as `tcm.positive_margin`, `tcm.weight`. Facts of the
published methods (names, years, claimed gains) and the deviations of a benchmark from "A Metric
Learning Reality Check" are here too.
"""

from __future__ import annotations

import importlib.util
import inspect
import math
import os
import re
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from truerank._util.errors import InputError, OwnCodeError, shortened
from truerank.benchmark.config import (
    PRESETS,
    SPLITS,
    BenchmarkConfig,
    MethodConfig,
    ObjectiveConfig,
    SharedConfig,
    SpaceConfig,
)
from truerank.datasets.catalogue import ENTRIES
from truerank.losses.registry import SearchChoice, SearchRange
from truerank.losses.registry import entry as registry_entry
from truerank.training.config import PartConfig, batch_of_kind

RATE, LOSS_RATE = "lr", "loss_lr"
"""The names of the rate of trunk and head, and of that of the loss's own parameters."""
Space = SearchRange | SearchChoice
TRUNK_RATE = SearchRange(1e-5, 1e-2, log=True)
"""Where the presets other than the paper's search the rate of trunk and head, for every method."""
OWN_RATE = SearchRange(1e-6, 1.0, log=True)
BORDER = 0.01
"""An optimum within this share of a range's width counts as one at its border."""


@dataclass(frozen=True)
class OwnLoss:
    """A loss of the user: a class or function in a file."""

    file: str
    object: str


@dataclass(frozen=True)
class Method:
    """One row of the table."""

    name: str
    kind: str
    loss: Mapping[str, Any] | OwnLoss
    """The section `loss` of a training, less what is searched; or a loss of the user."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    space: Mapping[str, Space] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Where the search starts: a value for each parameter of the space."""
    title: str = ""
    citation: str = ""
    embeddings: str | None = None
    objective: ObjectiveConfig | None = None
    """What is searched for in place of the highest validation score."""

    @property
    def is_trained(self) -> bool:
        """Whether it takes part in the protocol; finished embeddings are only shown."""
        return self.embeddings is None


def trunk_rate(config: BenchmarkConfig) -> SearchRange | None:
    """Where the rate of trunk and head is searched; None where it is fixed."""
    return None if config.protocol.preset == "paper" else TRUNK_RATE


def methods_of(config: BenchmarkConfig) -> list[Method]:
    """The methods of a configuration, in its order."""
    return [_method(config, given) for given in config.methods]


def _method(config: BenchmarkConfig, given: MethodConfig) -> Method:
    if given.embeddings is not None:
        return Method(given.name, "finished", {}, title=given.name, embeddings=given.embeddings)
    if given.file is not None:
        return _own_method(config, given)
    entry = registry_entry(given.loss or given.name)
    known = {**entry.defaults, **defaults_of(given.plus)}
    unknown = set(given.search) - set(known)
    if unknown:
        raise InputError(
            f"the method {given.name!r} searches {sorted(unknown)[0]!r}, which is no parameter of "
            f"{entry.name}; it has {', '.join(known)}."
        )
    space = {name: found for name, found in entry.search.items() if name not in given.parameters}
    space |= {name: _space(found) for name, found in given.search.items()}
    defaults = {name: known[name] for name in space}
    for name, found in given.search.items():
        if found.default is not None:
            defaults[name] = found.default
    loss = {
        "name": entry.name,
        "plus": [part.model_dump(mode="json") for part in given.plus],
        "miner": given.miner,
        "miner_parameters": dict(given.miner_parameters),
        "every_level": given.every_level,
    }
    return _with_rates(
        config, entry.own_lr if entry.has_parameters else None,
        Method(given.name, entry.kind, loss, dict(given.parameters), space, defaults,
               entry.title, entry.citation, objective=given.objective),
    )  # fmt: skip


def _own_method(config: BenchmarkConfig, given: MethodConfig) -> Method:
    assert given.file is not None
    assert given.object is not None
    assert given.kind is not None
    if not Path(given.file).is_file():
        raise InputError(f"the method {given.name!r} names {given.file}, which is no file.")
    own = OwnLoss(given.file, given.object)
    space = {name: _space(found) for name, found in given.search.items()}
    method = Method(
        given.name, given.kind, own, dict(given.parameters), space, _own_defaults(own, given),
        given.name, objective=given.objective,
    )  # fmt: skip
    return _with_rates(config, OWN_RATE if given.kind == "classification" else None, method)


def _own_defaults(own: OwnLoss, given: MethodConfig) -> dict[str, Any]:
    """Where the search of a user's loss starts: at the defaults of what builds the loss."""
    known = _own_parameters(own, Path(own.file).read_bytes())
    any_name = known is None or any(one.kind is one.VAR_KEYWORD for one in known.values())
    defaults = {}
    for name in (*given.parameters, *given.search):
        if known is not None and name not in known and not any_name:
            raise InputError(
                f"the method {given.name!r} sets {name!r}, which is no parameter of {own.object}; "
                f"it has {', '.join(known) or 'none'}."
            )
    for name, found in given.search.items():
        parameter = known.get(name) if known is not None else None
        default = found.default
        if default is None and parameter is not None and parameter.default is not parameter.empty:
            default = parameter.default
        if default is None:
            raise InputError(
                f"the method {given.name!r} searches {name}, for which {own.object} has no default "
                f"value; set the start of the search: search: {{{name}: {{..., default: VALUE}}}}."
            )
        defaults[name] = default
    return defaults


def _with_rates(config: BenchmarkConfig, own: SearchRange | None, method: Method) -> Method:
    """Add the rate of the loss's own parameters, and that of trunk and head, to the search."""
    space, defaults = dict(method.space), dict(method.defaults)
    for name, found, start in (
        (LOSS_RATE, own, config.shared.loss_optimiser.lr),
        (RATE, trunk_rate(config), config.shared.optimiser.lr),
    ):
        if name in space or name in method.fixed:
            raise InputError(
                f"the method {method.name!r} has a parameter {name!r}, a name that the protocol "
                "uses for a learning rate; give it another one."
            )
        if found is not None:
            space[name], defaults[name] = found, start
    inside = {
        name: _inside(space[name], value, method.name, name) for name, value in defaults.items()
    }
    return replace(method, space=space, defaults=inside)


def _space(given: SpaceConfig) -> Space:
    if given.values is not None:
        return SearchChoice(tuple(given.values))
    assert given.low is not None
    assert given.high is not None
    return SearchRange(given.low, given.high, given.log, given.integer)


def _inside(space: Space, value: Any, method: str, name: str) -> Any:
    """A start that the search may take: rates are moved into their range, others are refused."""
    if isinstance(space, SearchChoice):
        if value not in space.values:
            raise InputError(
                f"the method {method!r} starts at {name} = {value!r}, which is none of the values "
                f"{list(space.values)}; give it a default."
            )
        return value
    if name in (RATE, LOSS_RATE):
        return min(max(value, space.low), space.high)
    if not isinstance(value, (int, float)) or not space.low <= value <= space.high:
        raise InputError(
            f"the method {method!r} starts at {name} = {value!r}, outside {space.low:g} to "
            f"{space.high:g}; give it a default inside."
        )
    return value


def at_border(space: Space, value: Any) -> str | None:
    """Whether an optimum sits at the "low" or "high" border of its range."""
    if isinstance(space, SearchChoice):
        return None
    low, high, here = float(space.low), float(space.high), float(value)
    if space.log:
        low, high, here = math.log(low), math.log(high), math.log(here)
    share = (here - low) / (high - low)
    return "low" if share < BORDER else "high" if share > 1 - BORDER else None


def seed_of(*parts: Any) -> int:
    """A seed below 2^32 that depends on all parts, and on nothing else."""
    text = "\n".join(map(str, parts)).encode()
    return int.from_bytes(blake2b(text, digest_size=4).digest(), "big")


def training_config(
    config: BenchmarkConfig, method: Method, parameters: Mapping[str, Any], seed: int
) -> dict[str, Any]:
    """The configuration of one training: the shared sections, the loss, and the searched rates."""
    shared = config.to_dict()["shared"]
    classes, samples = batch_of_kind(method.kind, shared["batch"])
    sampler = shared["sampler"] or {"classes": classes, "samples": samples}
    model = {key: value for key, value in shared["model"].items() if key not in ("base", "copies")}
    own = {k: v for k, v in parameters.items() if k not in (RATE, LOSS_RATE)}
    loss: dict[str, Any] = {"name": "contrastive"}  # a loss of the user's takes its place
    if not isinstance(method.loss, OwnLoss):
        plain, searched = divided(own)
        plus = filled(method.loss["plus"], searched)
        loss = {**method.loss, "plus": plus, "parameters": {**method.fixed, **plain}}
    rates = {RATE: "optimiser", LOSS_RATE: "loss_optimiser"}
    for name, section in rates.items():
        if name in parameters:
            shared[section] = shared[section] | {"lr": parameters[name]}
    training = shared["training"] | {"seed": seed, "metric": config.protocol.metric}
    return {
        "data": {"name": config.data.name, "fold": None},
        "model": model,
        "augmentation": shared["augmentation"],
        "sampler": sampler,
        "loss": loss,
        "optimiser": shared["optimiser"],
        "loss_optimiser": shared["loss_optimiser"],
        "schedule": shared["schedule"],
        "training": training,
    }


def load_object(own: OwnLoss, parameters: Mapping[str, Any], known: Mapping[str, Any]) -> Any:
    """Build a loss of the user's; num_classes and embedding_size are filled in where it asks."""
    from torch import nn

    make = _load(own)
    filled = {name: known[name] for name in _parameters(make) or () if name in known}
    try:
        built = make(**{**filled, **parameters})
    except Exception as error:  # the user's code may raise anything
        what = f"cannot be built with {dict(parameters)}"
        raise own_error(own, what, error) from error
    if not isinstance(built, nn.Module):
        raise InputError(
            f"{own.object} of {own.file} must build a torch.nn.Module, whose forward takes "
            f"embeddings and labels. Got {shortened(built)} instead."
        )
    return built


def own_error(own: OwnLoss, what: str, error: Exception) -> OwnCodeError:
    """The error of a loss of the user's: what failed, and the traceback from the user's file on."""
    frames = traceback.extract_tb(error.__traceback__)
    places = [os.path.realpath(frame.filename) for frame in frames]
    path = os.path.realpath(own.file)
    trace = traceback.format_exception_only(error)
    if path in places:
        begin = frames[places.index(path) :]
        trace = ["Traceback (most recent call last):\n", *traceback.format_list(begin), *trace]
    reason = " ".join(str(error).split())[:300].rstrip(".")
    kind = type(error).__name__
    return OwnCodeError(
        f"the loss {own.object} of {own.file} {what}: {kind}{': ' if reason else ''}{reason}.",
        "".join(trace),
    )


def _load(own: OwnLoss) -> Any:
    """The class or function of a user's file that builds the loss."""
    spec = importlib.util.spec_from_file_location(
        f"truerank_benchmark_{seed_of(own.file)}", own.file
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # the user's code may raise anything
        raise own_error(own, "cannot be read", error) from error
    make = getattr(module, own.object, None)
    if not callable(make):
        found = [name for name, one in vars(module).items() if inspect.isclass(one)]
        raise InputError(
            f"{own.file} has no class or function {own.object}; its classes are "
            f"{', '.join(found) or 'none'}."
        )
    return make


def _parameters(make: Any) -> Mapping[str, inspect.Parameter] | None:
    """What a class or function takes; None where Python does not know."""
    try:
        return inspect.signature(make).parameters
    except (TypeError, ValueError):
        return None


@lru_cache
def _own_parameters(own: OwnLoss, source: bytes) -> Mapping[str, inspect.Parameter] | None:
    """What a loss of the user's takes; its file, with this content, is run once."""
    return _parameters(_load(own))


# Parameters of what is added to a loss, by name: `tcm.positive_margin`, `tcm.weight`.


Values = dict[str, Any]


def defaults_of(plus: Sequence[PartConfig]) -> Values:
    """What can be searched of the parts of a loss, and its value where nothing is said."""
    found: Values = {}
    for part in plus:
        known = {**registry_entry(part.name).defaults, **part.parameters, "weight": part.weight}
        found |= {f"{part.name}.{name}": value for name, value in known.items()}
    return found


def divided(parameters: Mapping[str, Any]) -> tuple[Values, dict[str, Values]]:
    """Parameters of the loss itself, and those of its parts by their names."""
    own: Values = {}
    of_parts: dict[str, Values] = {}
    for name, value in parameters.items():
        part, dot, parameter = name.partition(".")
        if dot:
            of_parts.setdefault(part, {})[parameter] = value
        else:
            own[name] = value
    return own, of_parts


def filled(plus: Sequence[Mapping[str, Any]], searched: Mapping[str, Values]) -> list[Values]:
    """The parts as a training's configuration has them, with searched values put in."""
    found = []
    for part in plus:
        values = dict(searched.get(part["name"], {}))
        weight = values.pop("weight", part["weight"])
        found.append({**part, "weight": weight, "parameters": {**part["parameters"], **values}})
    return found


# In what a benchmark deviates from the paper, the searched rate of the trunk above all.


PAPER = SharedConfig()
"""What all methods share in the paper, but for its trunk."""
HEAD_ITERATIONS = 2000
"""So many, or early stopping, and a head on fixed features has learnt what it can."""


def deviations(config: BenchmarkConfig) -> list[str]:
    """Sentences about what is not as in the paper, in the order of the configuration.

    Where the paper's text and its released code differ, in crops and batch norm, the code counts.
    """
    parts = (_of_data, _of_protocol, _of_model, _of_training, _of_loss_weights, _of_search)
    return [sentence for part in parts for sentence in part(config)]


def _of_data(config: BenchmarkConfig) -> list[str]:
    found = []
    if config.data.split == "images":
        found.append("the test images are of the classes that were trained on")
    if config.data.split == "stratified":
        found.append("classes are dealt into halves below each coarsest label (paper: in order)")
    if config.data.split not in SPLITS:
        found.append(
            "a file says which images are searched on and tested (paper: half the classes)"
        )
    sampler = config.shared.sampler
    if sampler is not None:
        found.append(
            f"one sampler for all: {sampler.classes} classes x {sampler.samples} "
            "(paper: 32 x 1 for classification losses, 8 x 4 for others)"
        )
    return found


def _of_protocol(config: BenchmarkConfig) -> list[str]:
    protocol = config.protocol
    found = [
        f"{name}: {getattr(protocol, name)} (paper: {value})"
        for name, value in PRESETS["paper"].items()
        if getattr(protocol, name) != value
    ]
    if protocol.metric != "map@r":
        found.append(f"searched by {protocol.metric} (paper: map@r)")
    if trunk_rate(config) is not None:
        found.append(
            "the rate of trunk and head is searched for every method, log [1e-5, 1e-2] "
            "(paper: 1e-6 for all)"
        )
    elif config.shared.optimiser.lr != PAPER.optimiser.lr:
        found.append(f"the rate of trunk and head is {config.shared.optimiser.lr:g} (paper: 1e-6)")
    return found


def _of_model(config: BenchmarkConfig) -> list[str]:
    model, found = config.shared.model, []
    if model.trunk == "frozen":
        found.append(f"only a head is trained, on fixed features of {model.base}")
        iterations = config.shared.training.epochs * config.shared.training.iterations
        if iterations < HEAD_ITERATIONS:
            found.append(
                f"up to {iterations:,} iterations a head ({HEAD_ITERATIONS:,} are advised)"
            )
    else:
        weights = "pretrained" if model.pretrained else "from random weights"
        found.append(f"trunk: {model.trunk}, {weights} (paper: BN-Inception, ImageNet)")
    if model.dimensions != PAPER.model.dimensions:
        found.append(f"{model.dimensions} dimensions (paper: 128)")
    if model.head != PAPER.model.head:
        found.append(f"head: {model.head} (paper: linear)")
    if model.pretrained and model.freeze_batchnorm is False:
        found.append("the statistics of batch norm are trained (paper: fixed)")
    return found


def _of_training(config: BenchmarkConfig) -> list[str]:
    shared, found = config.shared, []
    if shared.batch != PAPER.batch:
        found.append(f"batches of {shared.batch} (paper: 32)")
    cut, paper = shared.augmentation, PAPER.augmentation
    if (cut.resize, cut.crop, cut.scale[0]) != (paper.resize, paper.crop, paper.scale[0]):
        found.append(
            f"crops of {cut.crop} out of {cut.resize} pixels, at least {cut.scale[0]:g} of the "
            "area (paper: 227 out of 256, 0.16)"
        )
    if (cut.scale[1], cut.ratio) != (paper.scale[1], paper.ratio):
        found.append(
            f"crops of at most {cut.scale[1]:g} of the area, {cut.ratio[0]:.3g} to "
            f"{cut.ratio[1]:.3g} times as wide as high (paper: 1, 0.75 to 1.33)"
        )
    if cut.flip != paper.flip:
        found.append(f"{100 * cut.flip:g} % are flipped (paper: 50 %)")
    optimiser, schedule = shared.optimiser, shared.schedule
    if optimiser.name != PAPER.optimiser.name:
        found.append(f"optimiser: {optimiser.name} (paper: rmsprop)")
    if (optimiser.momentum, optimiser.weight_decay) != (0.9, 1e-4):
        found.append(
            f"momentum {optimiser.momentum:g}, weight decay {optimiser.weight_decay:g} "
            "(paper: 0.9, 0.0001)"
        )
    if optimiser.head_lr is not None:
        found.append(f"the head has a rate of its own, {optimiser.head_lr:g} (paper: the trunk's)")
    if schedule.name != "constant" or schedule.warmup:
        found.append(f"schedule: {schedule.name} (paper: constant)")
    if schedule.frozen_trunk:
        found.append(f"the trunk rests for {schedule.frozen_trunk} iterations (paper: never)")
    training = shared.training
    found.append(
        f"at most {training.epochs:,} epochs of {training.iterations:,} iterations, ended by "
        f"{training.patience} without a rise (paper: ended by a plateau; no number is given)"
    )
    if training.precision != PAPER.training.precision:
        found.append(f"layers compute in {training.precision} (paper: float32)")
    return found


def _of_loss_weights(config: BenchmarkConfig) -> list[str]:
    """How the weights of losses, such as class centres, are optimised."""
    optimiser = config.shared.loss_optimiser
    entries = [registry_entry(m.loss or m.name) for m in config.methods if _is_registered(m)]
    if not any(entry.has_parameters for entry in entries):
        return []
    found = []
    if optimiser.name != PAPER.loss_optimiser.name:
        found.append(f"optimiser of the losses' weights: {optimiser.name} (paper: rmsprop)")
    if (optimiser.momentum, optimiser.weight_decay) != (0.9, 1e-4):
        found.append(
            f"the losses' weights have momentum {optimiser.momentum:g}, weight decay "
            f"{optimiser.weight_decay:g} (paper: 0.9, 0.0001)"
        )
    return found


def _of_search(config: BenchmarkConfig) -> list[str]:
    """Parameters of the paper's losses that are searched elsewhere, or not at all."""
    found = []
    sop = ENTRIES["stanford-online-products"]
    if config.data.name.lower() in (sop.name, *sop.aliases):
        found.append("losses are searched in the ranges of CUB and Cars (paper: wider ones)")
    for method in config.methods:
        if not _is_registered(method) or (method.loss or method.name) not in TABLE_6:
            continue
        known = registry_entry(method.loss or method.name).search
        for name, value in method.parameters.items():
            if name in known:
                found.append(f"{method.name}: {name} is {value} (paper: {_shown(known[name])})")
        for name, space in method.search.items():
            given, paper = _shown(space), _shown(known[name]) if name in known else "not searched"
            if given != paper:
                found.append(f"{method.name}: {name} is searched {given} (paper: {paper})")
    return found


def _is_registered(method: MethodConfig) -> bool:
    return method.file is None and method.embeddings is None


def _shown(space: SpaceConfig | SearchRange | SearchChoice) -> str:
    """A range or a choice, the same for a configuration and for the registry."""
    values = space.values if isinstance(space, SpaceConfig) else getattr(space, "values", None)
    if values is not None:
        return f"among {', '.join(map(str, values))}"
    assert not isinstance(space, SearchChoice)
    log = " (log)" if space.log else ""
    return f"from {space.low:g} to {space.high:g}{log}"


# What the Reality Check says about its methods: their names, years, and the gains they claimed.


SOURCE = "Musgrave, Belongie & Lim, A Metric Learning Reality Check, ECCV 2020"
TABLE_6 = {
    "contrastive": ("Contrastive", 2006),
    "triplet": ("Triplet", 2006),
    "proxy_nca": ("ProxyNCA", 2017),
    "margin": ("Margin", 2017),
    "normalized_softmax": ("N. Softmax", 2017),
    "cosface": ("CosFace", 2018),
    "arcface": ("ArcFace", 2019),
    "fastap": ("FastAP", 2019),
    "snr_contrastive": ("SNR", 2019),
    "multi_similarity": ("MS", 2019),
    "multi_similarity_mined": ("MS+Miner", 2019),
    "soft_triple": ("SoftTriple", 2019),
}
_LATER = {"smooth_ap": "Smooth-AP", "roadmap": "ROADMAP", "recall_at_k": "Recall@k"}
CLAIMED = {"contrastive": 1.0, "triplet": 0.5}
"""Relative gains over a baseline that many papers claim to exceed, as section 4.2 says."""


def shown_name(method: Method) -> str:
    """The paper's name of a method that is one of its losses, else the method's own."""
    loss = method.loss.get("name") if isinstance(method.loss, dict) else None
    if loss != method.name:
        return method.name
    if method.name in TABLE_6:
        return TABLE_6[method.name][0]
    return _LATER.get(method.name, method.name)


def year_of(method: Method) -> int | None:
    """When a method was proposed: as the paper's Table 6 has it, else from its citation."""
    loss = method.loss.get("name") if isinstance(method.loss, dict) else None
    if loss in TABLE_6:
        return TABLE_6[loss][1]
    found = re.findall(r"\b(?:19|20)\d\d\b", method.citation)
    return int(found[-1]) if found else None
