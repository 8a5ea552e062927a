"""In what a benchmark deviates from the paper, the searched rate of the trunk above all."""

from __future__ import annotations

from truerank import losses
from truerank.benchmark.config import (
    SPLITS,
    BenchmarkConfig,
    MethodConfig,
    SharedConfig,
    SpaceConfig,
)
from truerank.benchmark.methods import trunk_rate
from truerank.benchmark.papers import TABLE_6
from truerank.benchmark.presets import PRESETS
from truerank.datasets.catalogue import ENTRIES
from truerank.losses.registry import SearchChoice, SearchRange

__all__ = ["deviations"]

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
    entries = [losses.entry(m.loss or m.name) for m in config.methods if _is_registered(m)]
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
        known = losses.entry(method.loss or method.name).search
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
