"""Losses of a user's file: where their search starts, what a dry run tries, and how they fail."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from tests.benchmark.small import settings, write_drawings
from tests.cli.driving import Outcome, run
from truerank import benchmark, datasets
from truerank._util.errors import InputError, OwnCodeError
from truerank.benchmark.config import BenchmarkConfig
from truerank.benchmark.layout import Layout
from truerank.benchmark.methods import methods_of
from truerank.benchmark.plan import open_plan, task_of
from truerank.benchmark.tasks import TryLoss
from truerank.benchmark.workers import Half
from truerank.training.sampler import class_folds

CODE = """
import functools
import torch
from pytorch_metric_learning.losses import TripletMarginLoss

class Plain(torch.nn.Module):
    def __init__(self, margin=0.05, power=2, kind="hard", *, wanted):
        super().__init__()
        self.margin = margin

    def forward(self, embeddings, labels):
        similar = embeddings @ embeddings.T
        same = labels[:, None] == labels
        return (similar * ~same - similar * same + self.margin).relu().mean()

class Inherits(TripletMarginLoss):
    pass

class Passes(TripletMarginLoss):
    def __init__(self, **more):
        super().__init__(**more)

class Proxies(torch.nn.Module):
    def __init__(self, num_classes, embedding_size, scale=4.0):
        super().__init__()
        self.rows = torch.nn.Parameter(torch.randn(num_classes, embedding_size))
        self.scale = scale

    def forward(self, embeddings, labels):
        return torch.nn.functional.cross_entropy(self.scale * embeddings @ self.rows.T, labels)

def made(margin=0.15):
    return Plain(margin, wanted=1)

bound = functools.partial(Plain, margin=0.35, wanted=1)

class Raises(torch.nn.Module):
    def forward(self, embeddings, labels):
        return self.deeper(embeddings)

    def deeper(self, embeddings):
        raise ValueError("boom in my loss")

def plain_function(embeddings, labels):
    return embeddings.sum()

class ByRow(torch.nn.Module):
    def forward(self, embeddings, labels):
        return embeddings.sum(dim=1)

class NotANumber(torch.nn.Module):
    def forward(self, embeddings, labels):
        return embeddings.sum() * float("nan")

def no_module():
    return plain_function
"""
RAISED = CODE.splitlines().index('        raise ValueError("boom in my loss")') + 1


def own(folder: Path, object: str, search: dict[str, Any] | None = None, **more: Any) -> Any:
    """A method with a loss of the file, and the file."""
    file = folder / "my.py"
    if not file.exists():
        file.write_text(CODE)
    given = {"name": "mine", "file": str(file), "object": object, "kind": "embedding", **more}
    return given | ({} if search is None else {"search": search})


def starts(folder: Path, name: str, search: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The default parameters of a method, without the learning rate."""
    config = BenchmarkConfig.of(settings(folder, methods=[own(folder, name, search, **more)]))
    (method,) = methods_of(config)
    return {key: value for key, value in method.defaults.items() if key not in ("lr", "loss_lr")}


MARGIN = {"margin": {"low": 0.0, "high": 1.0}}


@pytest.mark.parametrize(
    ("name", "margin"),
    [("Plain", 0.05), ("Inherits", 0.05), ("made", 0.15), ("bound", 0.35)],
)
def test_a_search_starts_at_the_defaults_of_the_loss(
    name: str, margin: float, tmp_path: Path
) -> None:
    """Not at .5, the middle of the range."""
    assert starts(tmp_path, name, MARGIN) == {"margin": margin}


def test_every_kind_of_range_has_its_default(tmp_path: Path) -> None:
    search = {
        "power": {"low": 1, "high": 9, "integer": True},
        "kind": {"values": ["soft", "hard"]},
        "wanted": {"low": 1e-3, "high": 1e3, "log": True, "default": 2.5},
        "margin": {"low": 0.0, "high": 1.0, "default": 0.75},
    }
    assert starts(tmp_path, "Plain", search) == {
        "power": 2, "kind": "hard", "wanted": 2.5, "margin": 0.75,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "search", "sentence"),
    [
        ("Plain", {"wanted": {"low": 0, "high": 1}},
         r"the method 'mine' searches wanted, for which Plain has no default value; set the "
         r"start of the search: search: \{wanted: \{..., default: VALUE\}\}"),
        ("Passes", MARGIN, "searches margin, for which Passes has no default value"),
        ("Plain", {"margn": {"low": 0, "high": 1}},
         "'margn', which is no parameter of Plain; it has margin, power, kind, wanted"),
        ("Plain", {"margin": {"low": 0.5, "high": 1}},
         r"starts at margin = 0\.05, outside 0\.5 to 1; give it a default inside"),
        ("Nobody", MARGIN, r"my\.py has no class or function Nobody; its classes are .*Plain"),
    ],
)  # fmt: skip
def test_searches_without_a_start_are_refused(
    name: str, search: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=sentence):
        starts(tmp_path, name, search)


def test_parts_of_the_catalogue_are_refused_beside_a_file(tmp_path: Path) -> None:
    for field, value in (("miner", "semihard"), ("plus", [{"name": "tcm"}]), ("loss", "triplet")):
        with pytest.raises(InputError, match=f"{field} belongs to a loss of the catalogue"):
            starts(tmp_path, "Plain", MARGIN, **{field: value})


def dry_run(folder: Path, *methods: Any) -> Outcome:
    root = write_drawings(folder / "drawings.npz")
    config = folder / "config.yaml"
    config.write_text(yaml.safe_dump(settings(root, methods=list(methods))))
    done = run("benchmark", config, "-o", folder / "out", "--dry-run")
    assert not (folder / "out").exists()
    return done


def try_here(folder: Path, method: Any) -> float:
    """What a dry run has a worker do for a method, in this process."""
    config = BenchmarkConfig.of(settings(folder, methods=[method]))
    (found,) = methods_of(config)
    labels = np.repeat(np.arange(16), 4)
    data = datasets.Dataset("small", np.zeros((64, 16, 16), np.uint8), labels, ("class",))
    task = task_of(config, found, found.defaults, 0, 0, folder)
    return TryLoss(task).run(Half(data, class_folds(labels, 2)))


def test_a_dry_run_gives_every_loss_a_batch(tmp_path: Path) -> None:
    proxies = {"scale": {"low": 1, "high": 9}}
    done = dry_run(
        tmp_path,
        own(tmp_path, "Plain", MARGIN, parameters={"wanted": 1}),
        own(tmp_path, "Proxies", proxies, name="two", kind="classification"),
        own(tmp_path, "Passes", name="three"),
        own(tmp_path, "NotANumber", name="four"),
        "contrastive",
        "arcface",
    )
    assert done.status == 0, done
    assert "mine (embedding): margin [0, 1] from 0.05, lr " in done.out
    assert "two (classification): scale [1, 9] from 4.0, loss_lr " in done.out
    assert "Every loss was built and took a batch of noise. four gave nan on it." in done.out


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("Nobody", "my.py has no class or function Nobody; its classes are "),
        ("Plain", "the loss Plain of {my} cannot be built with {{}}: TypeError: "),
        ("plain_function", "the loss plain_function of {my} cannot be built with {{}}: TypeError"),
        ("no_module", "no_module of {my} must build a torch.nn.Module, whose forward takes "),
        ("ByRow", "its forward must return a tensor with a single number. Got (8,) instead."),
    ],
)
def test_a_loss_that_cannot_train_is_found_by_a_batch_of_noise(
    name: str, sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as caught:
        try_here(tmp_path, own(tmp_path, name))
    assert sentence.format(my=tmp_path / "my.py") in caught.value.args[0]


def test_a_loss_of_the_catalogue_that_does_not_suit_the_data_is_found(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the method 'csl': csl needs labels of several levels"):
        try_here(tmp_path, "csl")


def test_a_dry_run_shows_where_a_loss_fails(tmp_path: Path) -> None:
    done = dry_run(tmp_path, own(tmp_path, "Raises"))
    assert (done.status, done.out) == (2, "")
    *trace, last = done.err.splitlines()
    assert last == (
        f"truerank: the loss Raises of {tmp_path / 'my.py'} failed on a batch of noise: "
        "ValueError: boom in my loss."
    )
    assert trace[0] == "Traceback (most recent call last):"
    assert trace[1].startswith(f'  File "{tmp_path / "my.py"}", line ')
    assert f'my.py", line {RAISED}, in deeper' in done.err
    assert 'raise ValueError("boom in my loss")' in done.err


def test_a_file_that_cannot_be_read_shows_where(tmp_path: Path) -> None:
    (tmp_path / "my.py").write_text("import torch\nhalf = 1 / 0\n")
    done = dry_run(tmp_path, own(tmp_path, "Mine"))
    assert 'my.py", line 2, in <module>' in done.err
    assert "the loss Mine of" in done.err.splitlines()[-1]
    assert "cannot be read: ZeroDivisionError: division by zero." in done.err.splitlines()[-1]


def test_a_training_that_fails_carries_its_traceback(tmp_path: Path) -> None:
    root = write_drawings(tmp_path / "drawings.npz")
    config = settings(root, methods=[own(tmp_path, "Raises")])
    with pytest.warns(UserWarning, match="not complete"):
        data = datasets.read("quickdraw", root)
    with pytest.raises(OwnCodeError, match="failed in training: ValueError: boom") as caught:
        benchmark.run(config, tmp_path / "out", data=data)
    assert f'my.py", line {RAISED}, in deeper' in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_search_that_began_in_the_middle_of_its_range_is_refused(tmp_path: Path) -> None:
    """As earlier versions did: its trial 0 is not what the table calls the default parameters."""
    config = BenchmarkConfig.of(settings(tmp_path, methods=[own(tmp_path, "made", MARGIN)]))
    layout = Layout(tmp_path / "out")
    layout.folder.mkdir()
    with open_plan(config, layout) as plan:
        rates = {key: one for key, one in plan.methods[0].defaults.items() if key != "margin"}
        plan.studies._keep("mine", 0, {"margin": 0.5, **rates})
    with (
        pytest.raises(InputError, match=r"began with {'margin': 0.5, .*Name another folder"),
        open_plan(config, layout),
    ):
        pass
