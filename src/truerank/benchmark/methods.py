"""Methods: what each one searches and starts from, and its training as a configuration.

A benchmark's configuration comes in; Methods go out, and from a method with parameters the
configuration of a training in which nothing but the loss and the searched rates is its own.
"""

from __future__ import annotations

import importlib.util
import inspect
import math
import os
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from truerank import losses
from truerank.benchmark import parts
from truerank.benchmark.config import (
    BenchmarkConfig,
    MethodConfig,
    ObjectiveConfig,
    SpaceConfig,
)
from truerank.errors import InputError, OwnCodeError, shortened
from truerank.losses.registry import SearchChoice, SearchRange
from truerank.training.config import batch_of_kind

__all__ = [
    "LOSS_RATE",
    "RATE",
    "Method",
    "OwnLoss",
    "Space",
    "at_border",
    "load_object",
    "methods_of",
    "own_error",
    "seed_of",
    "training_config",
    "trunk_rate",
]

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
    entry = losses.entry(given.loss or given.name)
    known = {**entry.defaults, **parts.defaults_of(given.plus)}
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
                f"value; say where the search starts: search: {{{name}: {{..., default: VALUE}}}}."
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
        plain, searched = parts.divided(own)
        plus = parts.filled(method.loss["plus"], searched)
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
