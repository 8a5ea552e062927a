"""The machines that have worked on a benchmark: what each says of itself is kept beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from truerank.benchmark.config import BenchmarkConfig
from truerank.benchmark.crew import Crew
from truerank.benchmark.layout import Layout
from truerank.benchmark.worker import Half
from truerank.files import read_json, to_json

__all__ = ["DescribeEnvironment", "note_environment"]


@dataclass(frozen=True)
class DescribeEnvironment:
    """A task: versions and device of whoever runs it."""

    device: str
    seed: int
    deterministic: bool

    def run(self, half: Half) -> dict[str, Any]:
        """See Task."""
        from truerank.training import devices, environment

        device = devices.resolve(self.device)
        facts = environment.describe(device, seed=self.seed, deterministic=self.deterministic)
        del facts["threads"]
        return facts


def note_environment(layout: Layout, config: BenchmarkConfig, crew: Crew, half: Half) -> None:
    """Add to the known machines this one, or a worker where others do the work: a machine that
    begins a run on a cluster may have no GPU."""
    training = config.shared.training
    task = DescribeEnvironment(training.device, config.protocol.seed, training.deterministic)
    if crew.here:
        facts = task.run(half)
    else:
        crew.submit("environment", task)
        ((_, facts),) = crew.next()
    known: list[Any] = read_json(layout.environment) if layout.environment.exists() else []
    if facts not in known:
        to_json([*known, facts], layout.environment)
