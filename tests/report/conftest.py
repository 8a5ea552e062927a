"""One browser for all tests of a session, and the few pages that they look at."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.report.browser import Browser

MISSING = (
    "no browser: install Chromium and its driver (on Debian, chromium and chromium-driver), and "
    "selenium by pip"
)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A headless Chromium, or a skip that says what to install."""
    programs = shutil.which("chromium"), shutil.which("chromedriver")
    try:
        import selenium  # noqa: F401
    except ImportError:
        pytest.skip(MISSING)
    if None in programs:
        pytest.skip(MISSING)
    opened = Browser(*map(str, programs), folder=tmp_path_factory.mktemp("downloads"))
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for pages."""
    return tmp_path_factory.mktemp("pages")
