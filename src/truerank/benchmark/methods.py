"""Methods of a benchmark: what each searches and starts from, and its training configuration.

In a method's training only the loss and the searched rates differ from the others. Parameters
of what is added to a loss have names such as `tcm.positive_margin`, `tcm.weight`. Facts of the
published methods (names, years, claimed gains) and the deviations of a benchmark from its paper
are here too.
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
from truerank.benchmark import papers
from truerank.benchmark.config import (
    SPLITS,
    BenchmarkConfig,
    MethodConfig,
    ObjectiveConfig,
    SpaceConfig,
)
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
    """Where the presets search the rate of trunk and head; None where they do not."""
    is_fixed = config.protocol.preset == "paper" or "optimiser.lr" in config.protocol.search
    return None if is_fixed else TRUNK_RATE


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
    return _with_shared(
        config, entry.own_lr if entry.has_parameters else None, given.start,
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
    own_rate = OWN_RATE if given.kind == "classification" else None
    return _with_shared(config, own_rate, given.start, method)


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


def _with_shared(
    config: BenchmarkConfig, own: SearchRange | None, start: Mapping[str, Any], method: Method
) -> Method:
    """Add what all methods search: rates and the protocol's fields; and put in the start."""
    space, defaults = dict(method.space), dict(method.defaults)
    searched = config.protocol.search
    if own is None:
        searched = {k: v for k, v in searched.items() if not k.startswith("loss_optimiser.")}
    for name, found, value in (
        (LOSS_RATE, None if "loss_optimiser.lr" in searched else own,
         config.shared.loss_optimiser.lr),
        (RATE, trunk_rate(config), config.shared.optimiser.lr),
    ):  # fmt: skip
        if name in space or name in method.fixed:
            raise InputError(
                f"the method {method.name!r} has a parameter {name!r}, a name that the protocol "
                "uses for a learning rate; give it another one."
            )
        if found is not None:
            space[name], defaults[name] = found, value
    shared = config.to_dict()["shared"]
    for name, given in searched.items():
        section, _, field_name = name.partition(".")
        space[name], here = _space(given), shared[section][field_name]
        defaults[name] = here if given.default is None else given.default
    for name, value in start.items():
        if name not in space:
            raise InputError(
                f"the method {method.name!r} starts at {name} = {value!r}, which is not searched; "
                f"it searches {', '.join(space) or 'nothing'}."
            )
        defaults[name] = value
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
    own = own_parameters(config, parameters)
    loss: dict[str, Any] = {"name": "contrastive"}  # a loss of the user's takes its place
    if not isinstance(method.loss, OwnLoss):
        plain, searched = divided(own)
        plus = filled(method.loss["plus"], searched)
        loss = {**method.loss, "plus": plus, "parameters": {**method.fixed, **plain}}
    rates = {RATE: "optimiser", LOSS_RATE: "loss_optimiser"}
    for name, section in rates.items():
        if name in parameters:
            shared[section] = shared[section] | {"lr": parameters[name]}
    for name in config.protocol.search:
        if name in parameters:
            section, _, field_name = name.partition(".")
            shared[section] = shared[section] | {field_name: parameters[name]}
    training = shared["training"] | {"seed": seed, "metric": config.protocol.metric}
    sampler = shared["sampler"] or {"classes": classes, "samples": samples}
    model = {key: value for key, value in shared["model"].items() if key not in ("base", "copies")}
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


def own_parameters(config: BenchmarkConfig, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the loss itself, less the rates and fields that all methods search."""
    shared = {RATE, LOSS_RATE, *config.protocol.search}
    return {name: value for name, value in parameters.items() if name not in shared}


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


# What a benchmark does other than its paper: its configuration is compared with the paper's, field
# by field and method by method.


WITHOUT_EFFECT = {
    *("protocol.preset", "protocol.search", "protocol.seed", "protocol.metrics", "protocol.units"),
    *("model.base", "model.copies", "training.device", "training.deterministic"),
    *("training.channels_last", "training.pipeline", "training.workers"),
}
"""Fields that are not compared: no score depends on them, or another line has them."""


def deviations(config: BenchmarkConfig) -> list[str]:
    """Differences between a configuration and its paper's, as "field: value (paper: value)".

    Where the paper's text and its released code differ, the paper's configuration has both.
    """
    paper = papers.reference(config.paper, config.data.name)
    named = {**paper.config, "data": {**paper.config.get("data", {}), "name": config.data.name}}
    theirs = BenchmarkConfig.of(named)
    fields = _compared_fields(theirs) | paper.published
    mine, its = _as_trained(config), _as_trained(theirs)
    own_weights = any({LOSS_RATE, "loss_optimiser.lr"} & {*one.space, *one.fixed} for one in mine)
    found = [
        f"{name}: {_shown(value)} (paper: {_shown(fields[name])})"
        for name, value in _compared_fields(config).items()
        if value != fields[name] and (own_weights or not name.startswith("loss_optimiser."))
    ]
    return found + _compared_methods(mine, its, paper.published)


def _as_trained(config: BenchmarkConfig) -> list[Method]:
    """The methods; with a single trial nothing is searched, and all parameters are fixed."""
    found = methods_of(config)
    if config.protocol.trials > 1:
        return found
    return [replace(one, space={}, fixed={**one.defaults, **one.fixed}) for one in found]


def _compared_fields(config: BenchmarkConfig) -> dict[str, Any]:
    """Every field that is compared, by its name; those of the section shared without `shared`."""
    given = config.to_dict()
    split = config.data.split
    found: dict[str, Any] = {"data.split": split if split in SPLITS else "a file of ids"}
    for section, fields in {"protocol": given["protocol"], **given["shared"]}.items():
        if isinstance(fields, dict) and section != "sampler":
            found |= {f"{section}.{name}": value for name, value in fields.items()}
        else:
            found[section] = fields
    model = config.shared.model
    found["model.freeze_batchnorm"] = (
        model.pretrained if model.freeze_batchnorm is None else model.freeze_batchnorm
    )
    if model.trunk == "frozen":
        found["model.trunk"] = f"a head on fixed features of {model.base}"
    return {name: value for name, value in found.items() if name not in WITHOUT_EFFECT}


def _compared_methods(
    methods: Sequence[Method], theirs: Sequence[Method], published: Mapping[str, Any]
) -> list[str]:
    """Parameters that are searched elsewhere, or fixed, in methods that the paper has as well."""
    known = {_identity(method): method for method in theirs}
    same = {(method.name, _identity(method)): method for method in theirs}
    pairs = [
        (one, same.get((one.name, _identity(one)), known[_identity(one)]))
        for one in methods
        if _identity(one) in known
    ]
    found: dict[str, list[str]] = {}
    for method, paper in pairs:
        said = _published_of(paper, published)
        more = [*said]
        for one in (method, paper):
            more += [*one.space, *one.fixed, *_of_parts(one)]
        for name in dict.fromkeys(more):
            its = published.get(f"methods.*.{name}", _setting(paper, name))
            mine, its = _setting(method, name), said.get(name, its)
            if mine != its:
                found.setdefault(f"{name} {mine} (paper: {its})", []).append(method.name)
    return [
        f"{'all methods' if len(who) == len(pairs) > 1 else ', '.join(who)}: {sentence}"
        for sentence, who in found.items()
    ]


def _published_of(method: Method, published: Mapping[str, Any]) -> dict[str, Any]:
    """What is published of a method's parameters: by its loss, or by its own name."""
    loss = method.loss.get("name") if isinstance(method.loss, dict) else None
    prefixes = [f"methods.{name}." for name in (loss, method.name)]
    return {
        name.removeprefix(prefix): value
        for prefix in prefixes
        for name, value in published.items()
        if name.startswith(prefix)
    }


def _identity(method: Method) -> str:
    """What makes a method the paper's: its loss, and what is added to it; not its name."""
    if not isinstance(method.loss, dict) or not method.loss:
        return f"own {method.name}"
    plus = [part["name"] for part in method.loss["plus"]]
    return str([method.loss["name"], plus, method.loss["miner"], method.loss["every_level"]])


def known_parameters(method: Method) -> Values:
    """All parameters of a method's loss, of what is added to it and of its miner, by name."""
    if not isinstance(method.loss, dict):
        return dict(method.fixed)
    return {**registry_entry(method.loss["name"]).defaults, **_of_parts(method), **method.fixed}


def _setting(method: Method, name: str) -> str:
    """Where a parameter is searched, or its value."""
    space = method.space.get(name)
    if isinstance(space, SearchChoice):
        return f"searched among {', '.join(map(str, space.values))}"
    if space is not None:
        return f"searched from {space.low:g} to {space.high:g}{' (log)' if space.log else ''}"
    if name in (RATE, LOSS_RATE) or not isinstance(method.loss, dict):
        return "fixed"
    return _shown(known_parameters(method).get(name, "fixed" if "." in name else "as it is"))


def _of_parts(method: Method) -> Values:
    """Parameters of what is added to a method's loss, and of its miner."""
    assert isinstance(method.loss, dict)
    of_miner = {f"miner.{name}": value for name, value in method.loss["miner_parameters"].items()}
    return of_miner | defaults_of([PartConfig(**part) for part in method.loss["plus"]])


def _shown(value: Any) -> str:
    if isinstance(value, dict):  # the sampler
        return f"{value['classes']} classes x {value['samples']}, {value['kind']}"
    if isinstance(value, list):
        return " to ".join(map(_shown, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return "none" if value is None else str(value)


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
