"""What the entries say is true of what is built, and wrong names get a sentence."""

from __future__ import annotations

import dataclasses
import inspect
import subprocess
import sys
from importlib import import_module
from typing import Any

import pytest
import torch

from tests.losses import cases
from tests.losses.cases import EXAMPLES, NAMES
from truerank import InputError, losses
from truerank.losses.registry import SearchChoice, SearchRange

ENTRIES = [losses.entry(name) for name in NAMES]
PAPERS = {
    "contrastive", "triplet", "proxy_nca", "margin", "normalized_softmax", "cosface", "arcface",
    "fastap", "snr_contrastive", "multi_similarity", "soft_triple", "sphereface", "angular",
    "lifted_structure", "n_pairs", "tuplet_margin", "proxy_nca_plus_plus", "proxy_anchor",
    "smooth_ap", "recall_at_k", "roadmap", "happier", "happier_f", "happier_sum_wap", "csl", "tcm",
    "tcm_plus", "tcm_minus", "tcm_prime", "nt_xent", "smooth_h_ap",
}  # fmt: skip


def corners(space: SearchRange | SearchChoice) -> list[Any]:
    if isinstance(space, SearchChoice):
        return list(space.values)
    ends = [space.low, space.high]
    return [int(end) for end in ends] if space.integer else ends


def test_everything_the_papers_name_is_there() -> None:
    assert set(NAMES) >= PAPERS


@pytest.mark.parametrize("entry", ENTRIES, ids=NAMES)
def test_entries_are_complete(entry: losses.LossEntry) -> None:
    for text in (entry.title, entry.what, entry.formula, entry.when, entry.citation):
        assert text.strip() == text != ""
    assert entry.kind in ("embedding", "classification", "regulariser")
    assert entry.labels in ("one", "path")
    assert entry.source in ("truerank", "pytorch-metric-learning")
    classes, samples = entry.batch
    assert classes >= 2
    assert samples >= (1 if entry.kind == "classification" else 2)
    assert dataclasses.replace(entry) == entry
    with pytest.raises(TypeError):
        entry.defaults["new"] = 1


@pytest.mark.parametrize("entry", ENTRIES, ids=NAMES)
def test_defaults_are_those_of_what_is_built(entry: losses.LossEntry) -> None:
    """Every parameter has its default in the entry and nowhere else."""
    module, _, name = entry.build.partition(":")
    parameters = inspect.signature(
        getattr(import_module(f"truerank.losses.{module}"), name)
    ).parameters
    optional = {"num_classes", "classes", "embedding_size"}
    assert set(entry.defaults) | set(entry.needs) >= set(parameters) - optional
    assert set(entry.defaults) | set(entry.needs) <= set(parameters)
    for parameter in parameters.values():
        given = parameter.default is not inspect.Parameter.empty
        assert not given or parameter.name in optional


@pytest.mark.parametrize("entry", ENTRIES, ids=NAMES)
def test_every_corner_of_the_search_space_can_be_built(entry: losses.LossEntry) -> None:
    assert set(entry.search) <= set(entry.defaults)
    assert entry.search or entry.own_lr
    example = EXAMPLES["even"]
    for parameter, space in entry.search.items():
        if isinstance(space, SearchRange):
            assert space.low < space.high
            assert not space.log or space.low > 0
        default = entry.defaults[parameter]
        if isinstance(space, SearchChoice):
            assert default in space.values
        else:
            assert space.low <= default <= space.high
        for value in corners(space):
            loss = cases.build(entry.name, **{parameter: value})
            assert bool(loss(example.rows, example.labels(entry.name)).isfinite())


REALITY_CHECK: dict[str, dict[str, tuple[float, float]]] = {
    "contrastive": {"positive_margin": (-0.2, 2), "negative_margin": (-0.2, 2)},
    "triplet": {"margin": (-0.2, 2)},
    "proxy_nca": {"lr": (1e-6, 1), "scale": (0.01, 100)},
    "margin": {"lr": (1e-6, 1), "margin": (-0.2, 2), "beta": (-0.2, 2)},
    "normalized_softmax": {"lr": (1e-6, 1), "temperature": (1e-2, 1e2)},
    "cosface": {"lr": (1e-6, 1), "margin": (0, 1), "scale": (0.01, 200)},
    "arcface": {"lr": (1e-6, 1), "margin": (0, 90), "scale": (0.01, 200)},
    "fastap": {"bins": (2, 250)},
    "snr_contrastive": {
        "positive_margin": (0, 2), "negative_margin": (0, 2), "regularizer": (0, 1),
    },
    "multi_similarity": {"alpha": (0.01, 100), "beta": (0.01, 100), "base": (0, 1)},
    "multi_similarity_mined": {
        "alpha": (0.01, 100), "beta": (0.01, 100), "base": (0, 1), "epsilon": (0, 1),
    },
    "soft_triple": {
        "lr": (1e-6, 1), "la": (0.01, 100), "gamma": (0.01, 100), "regularizer": (0, 1),
        "margin": (0, 1),
    },
}  # fmt: skip


@pytest.mark.parametrize("name", REALITY_CHECK)
def test_the_search_ranges_of_the_reality_check(name: str) -> None:
    entry = losses.entry(name)
    spaces = dict(entry.search)
    if entry.own_lr is not None:
        spaces["lr"] = entry.own_lr
    assert {key: (space.low, space.high) for key, space in spaces.items()} == REALITY_CHECK[name]
    for key, space in spaces.items():
        assert space.log == (key in ("lr", "temperature"))
    batch = (32, 1) if entry.kind == "classification" else (8, 4)
    assert entry.batch == batch


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("ArcFace", "arcface"),
        ("Smooth-AP", "smooth_ap"),
        ("SmoothAP", "smooth_ap"),
        ("ProxyNCA", "proxy_nca"),
        ("ProxyNCA++", "proxy_nca_plus_plus"),
        ("Proxy NCA++", "proxy_nca_plus_plus"),
        ("TCM+", "tcm_plus"),
        ("TCM-", "tcm_minus"),
        ("TCM'", "tcm_prime"),
        ("Recall@k", "recall_at_k"),
        ("HAPPIER_F", "happier_f"),
        ("MS", "multi_similarity"),
        ("N pairs", "n_pairs"),
    ],
)
def test_the_papers_spellings(spelling: str, name: str) -> None:
    assert losses.entry(spelling).name == name


@pytest.mark.parametrize(
    ("name", "parameters", "words"),
    [
        ("arcfaces", {}, ["'arcfaces' is no loss", "Did you mean 'arcface'"]),
        ("", {}, ["'' is no loss", "Known are"]),
        (None, {}, ["string", "None"]),
        ("smooth_ap", {"temprature": 1}, ["'temprature'", "smooth_ap", "'temperature'"]),
        ("smooth_ap", {"num_classes": 3}, ["'num_classes' is no parameter of smooth_ap"]),
        ("arcface", {}, ["arcface needs num_classes= and embedding_size="]),
        ("arcface", {"num_classes": 3}, ["arcface needs embedding_size="]),
        ("happier", {"classes": [1, 2]}, ["happier needs embedding_size="]),
        ("csl", {"embedding_size": 3}, ["csl needs hierarchy="]),
        ("smooth_ap", {"temperature": 0}, ["'temperature'", "> 0", "Got 0"]),
        ("smooth_ap", {"temperature": "warm"}, ["'temperature'", "'warm'"]),
        ("smooth_ap", {"block": 0}, ["'block'", "int >= 1", "Got 0 instead"]),
        ("recall_at_k", {"block": 1.5}, ["'block'", "1.5"]),
        ("roadmap", {"block": True}, ["'block'", "True"]),
        ("happier", {"cluster_weight": 0, "block": -1}, ["'block'", "-1"]),
        ("recall_at_k", {"k": ()}, ["'k' parameter of recall_at_k", "ints >= 1"]),
        ("recall_at_k", {"k": (1, 0)}, ["'k' parameter", "(1, 0)"]),
        ("recall_at_k", {"k": 5}, ["'k' parameter", "5"]),
        ("recall_at_k", {"cut_temperature": -1}, ["'cut_temperature'", "-1"]),
        ("sup_ap", {"rho": -1}, ["'rho'", ">= 0"]),
        ("roadmap", {"calibration_weight": -1}, ["'calibration_weight'"]),
        ("tcm", {"denominator": "some"}, ["'denominator'", "hard, all", "'some'"]),
        ("tcm", {"positive_weight": -1}, ["'positive_weight'"]),
        ("happier", {"cluster_weight": 0, "relevance": "rank"}, ["'relevance'", "sum_wap"]),
        ("happier", {"cluster_weight": 0, "alpha": -1}, ["'alpha'"]),
        (
            "happier",
            {"cluster_weight": 2, "num_classes": 2, "embedding_size": 2},
            ["'cluster_weight'", "at most 1"],
        ),
        ("arcface", {"num_classes": 0, "embedding_size": 2}, ["'num_classes'", ">= 1"]),
        ("arcface", {"num_classes": 2, "classes": [1], "embedding_size": 2}, ["one of them"]),
        ("arcface", {"classes": [0.5], "embedding_size": 2}, ["'classes'", "integer"]),
        ("arcface", {"classes": [], "embedding_size": 2}, ["'classes'"]),
        ("arcface", {"num_classes": 2, "embedding_size": 0}, ["'embedding_size'", ">= 1"]),
        ("arcface", {"num_classes": 2, "embedding_size": 2, "margin": 200}, ["'margin'", "180"]),
        ("proxy_nca", {"num_classes": 1, "embedding_size": 2}, ["at least two"]),
        ("proxy_nca", {"num_classes": 2, "embedding_size": 2, "scale": 0}, ["'scale'"]),
        ("angular", {"alpha": 90}, ["'alpha'", "below 90"]),
        ("fastap", {"bins": 1}, ["'bins'", ">= 2"]),
        ("sphereface", {"num_classes": 2, "embedding_size": 2, "margin": 1.5}, ["'margin'", "1.5"]),
        ("multi_similarity", {"alpha": 0}, ["'alpha'"]),
        ("contrastive", {"positive_margin": None}, ["'positive_margin'"]),
        ("csl", {"hierarchy": [1, 2], "embedding_size": 2}, ["'hierarchy'", "(classes, levels)"]),
        ("csl", {"hierarchy": [[1, 2], [0, 2]], "embedding_size": 2}, ["fine class twice"]),
        (
            "csl",
            {"hierarchy": [[1, 2], [1, 3]], "embedding_size": 2, "margins": (1.0,)},
            ["'margins'", "2 levels"],
        ),
    ],
)
def test_what_is_refused(name: Any, parameters: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        losses.get(name, **parameters)
    message = str(caught.value)
    assert message.endswith(".")
    assert [word for word in words if word not in message] == [], message


def test_the_order_of_a_hierarchy_does_not_matter() -> None:
    rows, values = torch.randn(3, 4), []
    for table in ([[0, 5], [1, 6], [1, 9]], [[1, 9], [0, 5], [1, 6]]):
        torch.manual_seed(0)
        loss = losses.get("csl", hierarchy=table, embedding_size=4)
        values.append(loss(rows, torch.tensor([[1, 6], [0, 5], [1, 9]])).item())
    assert values[0] == values[1]


def test_csl_follows_its_hierarchy() -> None:
    loss = losses.get("csl", hierarchy=[[0, 5], [1, 6]], embedding_size=3)
    rows = torch.randn(2, 3)
    assert bool(loss(rows, torch.tensor([[1, 6], [0, 5]])).isfinite())
    for wrong in ([[1, 5], [0, 5]], [5, 6], [[0, 0, 5], [1, 1, 6]]):
        with pytest.raises(InputError, match="paths of the 'hierarchy'"):
            loss(rows, torch.tensor(wrong))
    with pytest.raises(InputError, match="label 9 is not one of the 2 classes"):
        loss(rows, torch.tensor([[1, 6], [0, 9]]))
    with pytest.raises(InputError, match="embedding_size=3"):
        loss(torch.randn(2, 4), torch.tensor([[1, 6], [0, 5]]))


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=120
    )
    return done.stdout


def test_without_the_library_ours_run_and_the_others_say_so() -> None:
    """One process in which pytorch-metric-learning cannot be imported: numpy and torch alone."""
    printed = run(
        "import sys\n"
        "for missing in ('pytorch_metric_learning', 'scipy', 'sklearn', 'numba', 'torchmetrics'):\n"
        "    sys.modules[missing] = None\n"
        "import torch\n"
        "from truerank import losses\n"
        "torch.manual_seed(0)\n"
        "rows = torch.randn(8, 4, requires_grad=True)\n"
        "labels = torch.arange(4).repeat(2)\n"
        "paths = torch.stack([labels // 2, labels], 1)\n"
        "given = {'num_classes': 4, 'embedding_size': 4, 'hierarchy': paths[:4]}\n"
        "for name in losses.names():\n"
        "    entry = losses.entry(name)\n"
        "    try:\n"
        "        loss = losses.get(name, **{need: given[need] for need in entry.needs})\n"
        "    except ImportError as error:\n"
        "        print(name, error)\n"
        "        continue\n"
        "    loss(rows, paths).backward()\n"
        "    print(name, 'runs')\n"
        "for name in losses.miners():\n"
        "    try:\n"
        "        losses.miner(name)(rows, labels)\n"
        "        print('miner', name, 'runs')\n"
        "    except ImportError as error:\n"
        "        print('miner', name, error)\n"
    )
    lines = dict(line.split(" ", 1) for line in printed.splitlines() if line[:6] != "miner ")
    for entry in ENTRIES:
        if entry.source == "truerank":
            assert lines[entry.name] == "runs"
        else:
            assert "comes from pytorch-metric-learning: pip install" in lines[entry.name]
    assert "miner distance_weighted runs" in printed
    assert "miner semihard semihard comes from pytorch-metric-learning" in printed


def test_entries_can_be_read_without_torch() -> None:
    printed = run(
        "import sys\n"
        "sys.modules['torch'] = None\n"
        "from truerank import losses\n"
        "print(len(losses.names()), losses.entry('arcface').search['margin'])\n"
        "try:\n"
        "    losses.get('smooth_ap')\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    assert printed.splitlines() == [
        f"{len(NAMES)} {losses.entry('arcface').search['margin']}",
        "truerank.losses needs torch: pip install '.[torch]' in the checkout, or pip install torch "
        "pytorch-metric-learning",
    ]


def test_importing_the_registry_imports_no_torch() -> None:
    printed = run(
        "import sys, truerank.losses\n"
        "truerank.losses.names()\n"
        "print(sorted({'torch', 'numba', 'pytorch_metric_learning'} & set(sys.modules)))"
    )
    assert printed.strip() == "[]"
