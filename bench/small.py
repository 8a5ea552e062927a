"""python -m bench.small: what a small evaluation costs, warm and in a new process.

1,000 x 128, five rows a class, without intervals: a training loop pays that after each epoch. CPU
milliseconds of the whole call, beside the bare float32 product of the same rows in one thread; and
CPU seconds of a new process that imports truerank and evaluates once, its kernels compiled before.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import truerank
from bench.data import make
from truerank._util.threads import single_threaded_blas

LIMITS = {"whole call, ms": 15.0, "first call in a new process, s": 1.0}
FIRST = "import numpy; import truerank; truerank.evaluate({rows}, {labels}, confidence=None)"
NEW = FIRST.format(
    rows="numpy.random.default_rng(0).standard_normal((1000, 128), numpy.float32)",
    labels="numpy.arange(1000) // 5",
)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench.small", description=__doc__)
    parser.add_argument("--repeat", type=int, default=50)
    options = parser.parse_args()
    x, y = make(1_000, 128, 5, "trained")
    call = milliseconds(lambda: truerank.evaluate(x, y, confidence=None), options.repeat)
    with single_threaded_blas():
        product = milliseconds(lambda: x @ x.T, options.repeat)
    in_a_new_process()  # compiles the kernels
    seconds = statistics.median(in_a_new_process() for _ in range(5))
    found = {"whole call, ms": call, "first call in a new process, s": seconds}
    print("| 1,000 x 128 | CPU time | allowed |\n|---|---:|---:|")
    for name, value in found.items():
        print(f"| {name} | {value:.2f} | {LIMITS[name]:g} |")
    print(f"| bare float32 product, ms | {product:.2f} | |")


def milliseconds(run: Callable[[], Any], times: int) -> float:
    """The median of CPU milliseconds, once everything is loaded."""
    run()
    spent = []
    for _ in range(times):
        start = time.process_time()
        run()
        spent.append(1000 * (time.process_time() - start))
    return statistics.median(spent)


def in_a_new_process() -> float:
    """CPU seconds of a process, from its start to its end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([sys.executable, "-c", NEW], check=True, env=kept)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
