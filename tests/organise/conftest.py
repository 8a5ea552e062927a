"""A competition in a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.organise.competition import Competition


@pytest.fixture
def competition(tmp_path: Path) -> Competition:
    return Competition(tmp_path)
