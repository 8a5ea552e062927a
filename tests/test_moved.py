"""Old module paths: each is served by every form of import, with a warning that names the new."""

from __future__ import annotations

import importlib
import sys
import warnings

import pytest

import truerank
from truerank._util.old_names import MOVED, RENAMED

A_NAME = {
    "truerank.auditing": "audit",
    "truerank.cards": "ThresholdCard",
    "truerank.clustering": "cluster",
    "truerank.comparison": "Difference",
    "truerank.compression": "Sweep",
    "truerank.datasets.images": "ImageFiles",
    "truerank.errors": "InputError",
    "truerank.exact_neighbours": "Truth",
    "truerank.extrapolation": "sizes_for",
    "truerank.families": "PairMetric",
    "truerank.families.thresholds": "certain",
    "truerank.families.verification": "PairMetric",
    "truerank.families.verification.pair_metric": "PairMetric",
    "truerank.integrations": "AccuracyCalculator",
    "truerank.integrations.callback": "RetrievalCallback",
    "truerank.integrations.metric": "RetrievalMetric",
    "truerank.lists": "index_loss",
    "truerank.neighbourhood": "neighbors",
    "truerank.organise": "leaderboard",
    "truerank.organise.board": "Board",
    "truerank.organise.ladder": "climb",
    "truerank.organise.task": "Task",
    "truerank.parts": "Parts",
    "truerank.ranked": "Neighbours",
    "truerank.settings": "Settings",
    "truerank.sharding": "shard",
    "truerank.space": "catalogue",
    "truerank.space.sourced": "SourcedCosine",
    "truerank.taxonomy": "Taxonomy",
    "truerank.threshold": "OperatingPoint",
    "truerank.verification": "verify",
    "truerank.version": "__version__",
}


def test_every_old_path_is_tried() -> None:
    """Among them all that pages of 0.1.0 import."""
    assert MOVED.keys() == A_NAME.keys()


@pytest.fixture(params=sorted(MOVED))
def old(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """An old path that is not imported, below packages that are."""
    package, _, name = str(request.param).rpartition(".")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parent = importlib.import_module(package)
    monkeypatch.delitem(sys.modules, request.param, raising=False)
    monkeypatch.delitem(vars(parent), name, raising=False)
    return str(request.param)


def test_an_old_path_is_imported_with_one_warning(old: str) -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        module = importlib.import_module(old)
        again = importlib.import_module(old)
    assert module is again
    messages = [str(one.message) for one in seen if one.category is DeprecationWarning]
    assert messages == [
        f"the module {old} is now {' and '.join(MOVED[old])}; its old path goes in 0.3.0."
    ]
    homes = [importlib.import_module(home) for home in MOVED[old]]
    name = A_NAME[old]
    new = RENAMED.get(name, name)
    assert getattr(module, name) in [getattr(home, new, None) for home in homes]
    with pytest.raises(AttributeError, match=f"module '{old}' has no attribute 'nonsense'"):
        module.nonsense  # noqa: B018


def test_names_are_imported_from_old_paths(old: str) -> None:
    with pytest.warns(DeprecationWarning, match="its old path goes in 0.3.0") as seen:
        exec(f"from {old} import {A_NAME[old]}", {})
    assert {one.filename for one in seen} == {"<string>"}


@pytest.mark.parametrize("old", [name for name in MOVED if name.count(".") == 1], indirect=True)
def test_old_paths_are_attributes_of_the_package(old: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"the module {old} is now") as seen:
        module = getattr(truerank, old.partition(".")[2])
    assert getattr(module, A_NAME[old]) is not None
    assert {one.filename for one in seen} == {__file__}


@pytest.mark.filterwarnings("ignore:the module truerank.organise")
def test_what_an_old_path_leads_to_is_the_object_itself() -> None:
    assert importlib.import_module("truerank.organise.task").Task is truerank.Task
    with pytest.raises(ModuleNotFoundError, match=r"truerank\.organise\.parts"):
        importlib.import_module("truerank.organise.parts")
