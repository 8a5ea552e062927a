"""The registry: names, what each entry promises, and the pages that document it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.datasets.replicas import REPLICAS
from truerank import datasets
from truerank._util.errors import InputError
from truerank.datasets.catalogue import ENTRIES, find
from truerank.datasets.npm import RECIPES

PAGES = Path(__file__).parents[2] / "docs" / "data"


def test_every_data_set_is_tested_on_a_replica():
    assert set(datasets.names()) == {*REPLICAS, "folder", "table", "quickdraw", "emoji"}
    assert {name for name, entry in ENTRIES.items() if entry.fetched} == set(RECIPES)


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=lambda entry: entry.name)
def test_every_data_set_has_a_page(entry):
    page = " ".join((PAGES / entry.page).read_text(encoding="utf-8").split())
    assert f'"{entry.name}"' in page or f"`{entry.name}`" in page
    for fact in (entry.licence, entry.citation):
        assert fact in page
    for split, (images, classes) in entry.expected.items():
        row = rf"\| {split} \| {images:,} \|" + (rf" {classes:,} \|" if classes else "")
        assert re.search(row, page), (split, images, classes)


def test_expected_counts_add_up():
    """Totals, as their authors give them, of what the splits divide."""
    totals = {
        "cub-200-2011": (11_788, 200),
        "cars-196": (16_185, 196),
        "stanford-online-products": (120_053, 22_634),
        "inaturalist-2018": (461_939, 8_142),
        "omniglot": (32_460, 1_623),
        "quickdraw": (34_500, 345),
        "emoji": (9_816, 1_615),
    }
    for name, total in totals.items():
        parts = ENTRIES[name].expected.values()
        assert tuple(map(sum, zip(*parts, strict=True))) == total
    inshop = ENTRIES["in-shop"].expected
    assert sum(images for images, _ in inshop.values()) == 52_712
    assert inshop["train"][1] + inshop["query"][1] == 7_982
    market = ENTRIES["market-1501"].expected
    assert market["train"][1] + market["query"][1] == 1_501
    duke = ENTRIES["dukemtmc-reid"].expected
    assert sum(images for images, _ in duke.values()) == 36_411
    assert duke["train"][1] + duke["gallery"][1] == 1_404 + 408
    for boxes in ("detected", "labelled"):
        cuhk03 = ENTRIES[f"cuhk03-{boxes}"].expected
        assert cuhk03["train"][1] + cuhk03["query"][1] == 1_467
    msmt17 = ENTRIES["msmt17"].expected
    assert sum(images for images, _ in msmt17.values()) == 126_441
    assert msmt17["train"][1] + msmt17["query"][1] == 4_101


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("CUB", "cub-200-2011"),
        ("CUB_200_2011", "cub-200-2011"),
        ("SOP", "stanford-online-products"),
        ("Market1501", "market-1501"),
        ("inat", "inaturalist-2018"),
        ("VeRi", "veri-776"),
    ],
)
def test_other_names(given, name):
    assert find(given).name == name


def test_no_two_data_sets_share_a_name():
    for entry in ENTRIES.values():
        for name in (entry.name, *entry.aliases):
            assert find(name) is entry


def test_unknown_names():
    with pytest.raises(InputError, match="did you mean 'omniglot'"):
        datasets.read("omniglott", ".")
    with pytest.raises(InputError, match="mean 'cuhk03-detected' or 'cuhk03-labelled'"):
        datasets.read("CUHK03", ".")
    with pytest.raises(InputError, match="is no data set that truerank reads: quickdraw, emoji, "):
        datasets.read("zzz", ".")
    with pytest.raises(InputError, match="3 is no data set"):
        datasets.read(3, ".")


def test_a_folder_is_needed():
    with pytest.raises(InputError, match=r"msmt17 is read from disk: .*it is data\.root\."):
        datasets.read("msmt17")


def test_importing_needs_neither_pillow_nor_torch():
    code = (
        "import sys, truerank; truerank.datasets.names(); "
        "assert not {'PIL', 'torch', 'scipy', 'pyarrow', 'resvg_py'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
