"""docs/reference/losses.md is what the registry says."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from truerank import losses

ROOT = Path(__file__).parents[2]


def test_the_page_of_losses_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("pages", ROOT / "scripts/document_losses.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (ROOT / "docs/reference/losses.md").read_text(encoding="utf-8")
    assert page == module.page()
    for name in losses.names():
        entry = losses.entry(name)
        for text in (f"### `{name}`", entry.what, entry.formula, entry.when, entry.citation):
            assert text in page
