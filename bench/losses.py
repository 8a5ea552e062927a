"""python -m bench.losses: time and memory of forward and backward, ours and others'.

On a CPU each way runs in a process of its own: truerank, the plain batch x batch x batch way, and
pytorch-metric-learning where it has the loss. With --gpu: one batch of 4,000 x 512, and what each
loss adds to a training step of a ResNet-50. Torch and numpy suffice (torchvision for the latter).
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from bench.memory import peak, start_peak
from bench.plain_losses import PLAIN
from truerank import losses

EACH, COARSE = 4, 12
"""Samples of each fine class; coarse classes, as many as Stanford Online Products has."""
RANKING = ("smooth_ap", "recall_at_k", "sup_ap", "roadmap", "happier")
LIBRARY = {
    "smooth_ap": ("SmoothAPLoss", {}),
    "tcm": ("ThresholdConsistentMarginLoss", {}),
    "angular": ("AngularLoss", {"alpha": 45}),
    "lifted_structure": ("LiftedStructureLoss", {}),
    "tuplet_margin": ("TupletMarginLoss", {}),
    "arcface": ("ArcFaceLoss", {"proxies": True}),
    "proxy_nca_plus_plus": ("ProxyNCALoss", {"proxies": True, "softmax_scale": 9}),
}
GPU_BATCH, GPU_SIZE, LIMIT = 4_000, 512, 6 * 2**30
STEP_BATCH, PIXELS = 256, 224

Call = Callable[[Tensor], Tensor]


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(prog="bench.losses", description=__doc__)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--dimensions", type=int, default=128)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--gpu", action="store_true", help="memory and step time on a GPU")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(measure(*options.worker, options)))
    elif options.gpu:
        on_gpu()
    else:
        on_cpu(options)


# --- what is measured


def labels_for(name: str, batch: int) -> Tensor:
    fine = torch.arange(batch) // EACH
    paths = torch.stack([fine % COARSE, fine], 1)
    return paths if losses.entry(name).labels == "path" else fine


def build(name: str, batch: int, dimensions: int) -> torch.nn.Module:
    classes = -(-batch // EACH)
    fine = torch.arange(classes)
    given = {
        "num_classes": classes,
        "embedding_size": dimensions,
        "hierarchy": torch.stack([fine % COARSE, fine], 1),
    }
    loss: torch.nn.Module = losses.get(
        name, **{need: given[need] for need in losses.entry(name).needs}
    )
    return loss


def way(kind: str, name: str, batch: int, dimensions: int) -> Call:
    """One way to compute a loss of embeddings."""
    labels = labels_for(name, batch)
    if kind == "plain":
        return lambda rows: PLAIN[name](rows, labels)
    if kind == "truerank":
        # The plain happier has no clustering term: the ranking is what costs.
        ranking = name == "happier"
        loss = losses.get(name, cluster_weight=0) if ranking else build(name, batch, dimensions)
        return lambda rows: loss(rows, labels)
    from pytorch_metric_learning import losses as library

    title, options = LIBRARY[name]
    options = dict(options)
    if options.pop("proxies", False):
        options |= {"num_classes": -(-batch // EACH), "embedding_size": dimensions}
    other = getattr(library, title)(**options)
    return lambda rows: other(rows, labels)


# --- on a CPU


def on_cpu(options: argparse.Namespace) -> None:
    print(
        f"batch {options.batch:,} x {options.dimensions}, {EACH} of each class, one thread, "
        f"forward and backward; medians of {options.repeat} processes\n"
    )
    print("| loss | way | CPU milliseconds | peak MB |")
    print("|---|---|---:|---:|")
    for name in dict.fromkeys([*PLAIN, *LIBRARY]):
        kinds = ["truerank", *(["plain"] if name in PLAIN else [])]
        kinds += ["pytorch-metric-learning"] if name in LIBRARY and has_library() else []
        for kind in kinds:
            found = [start_worker(kind, name) for _ in range(options.repeat)]
            seconds = statistics.median(one["seconds"] for one in found)
            megabytes = statistics.median(one["megabytes"] for one in found)
            print(f"| {name} | {kind} | {seconds * 1000:,.1f} | {megabytes:,.0f} |", flush=True)


def has_library() -> bool:
    try:
        import pytorch_metric_learning  # noqa: F401
    except ImportError:
        return False
    return True


def start_worker(kind: str, name: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.losses", *sys.argv[1:], "--worker", kind, name]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found: dict[str, Any] = json.loads(output.splitlines()[-1])
    return found


def measure(kind: str, name: str, options: argparse.Namespace) -> dict[str, float]:
    """CPU seconds of one call, and the memory it takes beyond what stood before."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    small = torch.randn(8, options.dimensions, requires_grad=True)
    way(kind, name, 8, options.dimensions)(small).backward()  # everything is loaded
    rows = torch.randn(options.batch, options.dimensions, requires_grad=True)
    call = way(kind, name, options.batch, options.dimensions)
    gc.collect()
    before = start_peak()
    start = time.process_time()
    call(rows).backward()
    seconds = time.process_time() - start
    return {"seconds": seconds, "megabytes": (peak() - before) / 2**20}


# --- on a GPU


def on_gpu() -> None:
    if not torch.cuda.is_available():
        sys.exit("bench.losses --gpu needs a CUDA device, and torch finds none.")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}\n")
    large_batch()
    print()
    training_step()


def large_batch() -> None:
    """Milliseconds and peak memory of one large batch, embeddings and labels included."""
    print(f"batch {GPU_BATCH:,} x {GPU_SIZE} float32, {EACH} of each class, {COARSE} coarse ones")
    print("\n| loss | milliseconds | peak MB | within 6 GB |\n|---|---:|---:|---|")
    for name in (*RANKING, "tcm", "csl"):
        torch.manual_seed(0)
        rows = torch.randn(GPU_BATCH, GPU_SIZE, device="cuda", requires_grad=True)
        loss = build(name, GPU_BATCH, GPU_SIZE).cuda()
        labels = labels_for(name, GPU_BATCH).cuda()
        loss(rows, labels).backward()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        seconds = timed(lambda loss=loss, rows=rows, labels=labels: loss(rows, labels).backward())
        most = torch.cuda.max_memory_allocated()
        print(
            f"| {name} | {seconds * 1000:,.1f} | {most / 2**20:,.0f} | "
            f"{'yes' if most <= LIMIT else 'NO'} |",
            flush=True,
        )
        del rows, loss, labels
        torch.cuda.empty_cache()


def timed(call: Callable[[], Any]) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def training_step() -> None:
    """Forward, loss, backward and SGD step, against the same with a loss that costs nothing."""
    try:
        from torchvision.models import resnet50
    except ImportError:
        print("No torchvision: the training step of a ResNet-50 is not measured.")
        return
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    network = resnet50()
    network.fc = torch.nn.Linear(network.fc.in_features, GPU_SIZE)
    parameters = sum(parameter.numel() for parameter in network.parameters())
    network = network.cuda().to(memory_format=torch.channels_last)
    images = torch.randn(STEP_BATCH, 3, PIXELS, PIXELS, device="cuda")
    images = images.to(memory_format=torch.channels_last)
    print(
        f"ResNet-50 ({parameters / 1e6:.1f} M parameters) at {PIXELS} px, batch {STEP_BATCH}, "
        f"embedding {GPU_SIZE}, bfloat16 autocast, SGD; medians of interleaved steps"
    )

    def step(loss: Callable[[Tensor], Tensor], own: list[Tensor]) -> None:
        optimiser = torch.optim.SGD([*network.parameters(), *own], lr=1e-6)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            embeddings = network(images)
        loss(embeddings.float()).backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    ways: dict[str, tuple[Callable[[Tensor], Tensor], list[Tensor]]] = {
        "no loss": (lambda rows: rows.square().mean(), [])
    }
    for name in losses.names():
        if losses.entry(name).source != "truerank" and not has_library():
            continue
        module = build(name, STEP_BATCH, GPU_SIZE).cuda()
        labels = labels_for(name, STEP_BATCH).cuda()
        ways[name] = (
            lambda rows, module=module, labels=labels: module(rows, labels),
            list(module.parameters()),
        )
    for _ in range(3):
        timed(lambda: step(*ways["no loss"]))
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(7):
        for name, (loss, own) in ways.items():
            seconds = timed(lambda loss=loss, own=own: step(loss, own))
            if number:  # the first round loads each loss's kernels
                times[name].append(seconds)
    base = statistics.median(times["no loss"])
    print("\n| loss | milliseconds a step | added |\n|---|---:|---:|")
    for name, found in times.items():
        seconds = statistics.median(found)
        print(f"| {name} | {seconds * 1000:,.1f} | {100 * (seconds / base - 1):+.1f}% |")


if __name__ == "__main__":
    main()
