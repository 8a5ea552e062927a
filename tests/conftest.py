"""What every test shares: the hypothesis profiles, and the rule that no test is skipped unnoticed.

``HYPOTHESIS_PROFILE`` names the profile, "fast" or "slow", or "first" for the first failure that is
found, however large. ``--fail-on-unexpected-skip`` makes the
run fail when a test was skipped for any reason but those in ``EXPECTED_SKIPS``.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack

import pytest
from hypothesis import HealthCheck, Phase, settings

# Part of the reasons for which a test may be skipped on a machine that has all it can have.
EXPECTED_SKIPS = ("no CUDA device", "no LaTeX", "no browser")

# A run in the background is started with interrupts ignored, and so would be what it starts.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tables are as wide as the screen; tests that are about widths set their own.
os.environ.pop("COLUMNS", None)

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "fast")

for name, max_examples, phases in (
    ("fast", 200, tuple(Phase)),
    ("slow", 10_000, tuple(Phase)),
    ("first", 200, (Phase.explicit, Phase.generate)),
):
    settings.register_profile(
        name,
        max_examples=max_examples,
        phases=phases,
        derandomize=True,
        deadline=None,
        # It measures time, so that a busy machine would fail it.
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile(PROFILE)


Within = Callable[[AbstractContextManager[object]], object]


@pytest.fixture
def within() -> Iterator[Within]:
    """Enters contexts that end with the test: `within(settings(query_rows=2))`."""
    with ExitStack() as stack:
        yield stack.enter_context


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--fail-on-unexpected-skip",
        action="store_true",
        help="fail when a test was skipped for another reason than: " + ", ".join(EXPECTED_SKIPS),
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--fail-on-unexpected-skip"):
        config.pluginmanager.register(UnexpectedSkips(), "unexpected-skips")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if PROFILE == "slow":
        for item in items:
            if item.get_closest_marker("thorough"):
                item.add_marker("slow")


class UnexpectedSkips:
    """Lists the skips that no one expects, and turns a passing run that has any into a failure."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # An expected failure is reported as skipped too.
        if not hasattr(report, "wasxfail"):
            self.note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.note(report)

    def note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if not report.skipped:
            return
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if not any(expected in reason for expected in EXPECTED_SKIPS):
            self.found.append(f"{report.nodeid}: {reason}")

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Iterator[None]:
        passed = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
        if self.found and session.exitstatus in passed:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        return (yield)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.found:
            terminalreporter.section("unexpected skips")
            for line in self.found:
                terminalreporter.line(line)
