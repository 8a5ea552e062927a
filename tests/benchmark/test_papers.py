"""Configurations of the papers' tables: valid, compared with their papers, and run on replicas."""

from __future__ import annotations

import itertools
import json
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from PIL import Image, ImageDraw

import truerank
from tests.benchmark.small import write_config
from tests.datasets import replicas
from truerank import benchmark
from truerank._util.errors import InputError, TruerankWarning
from truerank.benchmark.config import BenchmarkConfig, read
from truerank.benchmark.methods import deviations, methods_of, training_config
from truerank.benchmark.workers import Crew, Half, Reply, WorkerTask
from truerank.cli.commands import commands
from truerank.datasets.catalogue import ENTRIES, find
from truerank.training.config import Config

NAMES = [table.name for table in benchmark.paper_tables() if "methods" in table.config]
PAPERS = list(dict.fromkeys(name.partition("/")[0] for name in NAMES))
SMALL = (
    "protocol.folds=2",
    "protocol.trials=1",
    "protocol.reruns=1",
    "shared.model={trunk: convnet, dimensions: 8}",
    "shared.augmentation={resize: 16, crop: 16}",
    "shared.batch=8",
    "shared.schedule={}",
    "shared.training={epochs: 1, iterations: 1, device: cpu}",
)
SAMPLER = ("shared.sampler.classes=4", "shared.sampler.samples=2")


def small(name: str, root: Path) -> BenchmarkConfig:
    """A table's configuration with a tiny trunk, and as few and as short trainings as there are."""
    shared = read(name).shared
    settings = [*SMALL, *(SAMPLER if shared.sampler is not None else ())]
    if shared.training.chunk is not None:
        settings.append("shared.training.chunk=4")
    return read(name, settings, root=root)


@pytest.fixture(scope="session")
def roots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Replicas with eight classes or more in each fold, by the names of their data sets."""
    root = tmp_path_factory.mktemp("replicas")
    numbers = [*range(1, 17), *range(101, 109)]
    articles = {
        "Ebay_train.txt": [(n, 1 + n % 4, f"group{n % 4}") for n in range(1, 17)],
        "Ebay_test.txt": [(n, 1 + n % 4, f"group{n % 4}") for n in range(11319, 11327)],
    }
    kinds = {n: [f"{rank}{n % wide}" for rank, wide in RANKS.items()] for n in range(24)}
    lineages = {n: (*path, path[0]) for n, path in kinds.items()}
    cars = [number for number in numbers for _ in range(4)]
    inaturalist = replicas.inaturalist(
        root / "inaturalist", lineages=lineages, train=range(16), each=3
    )
    levels = [f"{row}.jpg, {row // 24}, {row // 12}, {row // 3}" for row in range(48)]
    found = [f"{row}.jpg, {row % 4}" for row in range(8)]
    dyml = replicas.dyml(root / "dyml", train=levels, query=found[:4], gallery=found)
    return {
        "cub-200-2011": replicas.cub(
            root / "cub", {n: f"{n:03}.Bird_{n}" for n in numbers}, each=4
        ),
        "cars-196": replicas.cars_csv(root / "cars", cars[::2], cars[1::2]),
        "stanford-online-products": replicas.products(root / "products", articles, each=3),
        "inaturalist-2018": inaturalist,
        "inaturalist-2018-base": inaturalist,
        "dyml-vehicle-overall": dyml,
        "dyml-animal-overall": dyml,
        "dyml-product": replicas.dyml_product(root / "dyml_product", levels, levels[:24]),
    }


RANKS = {"kingdom": 2, "phylum": 2, "class": 4, "order": 4, "family": 8, "genus": 8}


class Here(Crew):
    """A worker in this process, which starts at once."""

    def __init__(self, half: Half, jobs: int) -> None:
        super().__init__()
        self._half = half

    room = 1  # type: ignore[assignment]

    def __exit__(self, *error: object) -> None: ...

    def stop(self) -> None: ...

    def _begin(self, task: WorkerTask) -> Any:
        self._task = task
        return 0

    def _ended(self, timeout: float | None) -> list[tuple[Any, Reply]]:
        return [(0, Reply(self._task.run(self._half)))]


def check_run(config: BenchmarkConfig, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run it to its table, in this process and without figures: these take most of the time."""
    monkeypatch.setattr("truerank.benchmark.runner.Workers", Here)
    monkeypatch.setattr("truerank.benchmark.runner.draw_figures", lambda *arguments: None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruerankWarning)  # replicas are not complete
        table = benchmark.run(config, folder)
    assert table is not None
    assert [row["method"] for row in table.rows[2:]] == [one.name for one in config.methods]
    assert table.content["deviations"] == deviations(config)
    assert all(set(row["concatenated"]) == set(config.metrics) for row in table.rows)


def not_run_before(name: str) -> list[str]:
    """The first method of a table, and those that no table before it runs on the same data."""
    earlier = NAMES[: NAMES.index(name)]
    known = {
        method.name
        for other in earlier
        if other.partition("/")[0] == name.partition("/")[0]
        and read(other).data.name == read(name).data.name
        for method in read(other).methods
    }
    first, *more = (method.name for method in read(name).methods)
    return [first, *(one for one in more if one not in known)]


def confined(config: BenchmarkConfig, methods: list[str]) -> BenchmarkConfig:
    chosen = [one for one in config.methods if one.name in methods]
    return config.model_copy(update={"methods": chosen})


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_table_runs_on_a_replica(
    name: str, roots: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small(name, roots[read(name).data.name])
    chosen = confined(config, not_run_before(name))
    check_run(chosen, tmp_path / "out", monkeypatch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruerankWarning)
        plan = benchmark.describe_plan(chosen)
    for part in ("in the development split", "trainings of the search", "hours of training on"):
        assert part in plan


@pytest.mark.parametrize("paper", PAPERS)
def test_two_methods_of_each_paper_run_on_a_replica(
    paper: str, roots: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = next(name for name in NAMES if name.startswith(f"{paper}/"))
    config = small(name, roots[read(name).data.name])
    two = [config.methods[0].name, config.methods[-1].name]
    check_run(confined(config, two), tmp_path / "out", monkeypatch)


@pytest.mark.parametrize("name", NAMES)
def test_trainings_are_valid_and_differences_are_said(name: str) -> None:
    config = read(name)
    assert find(config.data.name).name in ENTRIES
    assert config.paper == name
    for method in methods_of(config):
        Config.of(training_config(config, method, method.defaults, 0))
    told = deviations(config)
    changed = deviations(read(name, ["shared.training.epochs=3", "protocol.reruns=2"]))
    assert any(one.startswith("training.epochs: 3 (paper: ") for one in changed)
    assert any(one.startswith("protocol.reruns: 2 (paper: ") for one in changed)
    epochs = [one for one in told if one.startswith("training.epochs")]
    assert all(one.endswith("(paper: not stated)") for one in epochs)


def test_the_protocol_of_the_reality_check_is_its_own() -> None:
    cub, cars, sop = (read(f"reality-check/table-{number}") for number in (3, 4, 5))
    protocol = cub.protocol
    assert (protocol.folds, protocol.trials, protocol.reruns) == (4, 50, 10)
    assert [one.shared.training.patience for one in (cub, cars, sop)] == [10, 15, 40]
    assert [one.shared.batch for one in (cub, read("reality-check/table-3-batch-256"))] == [32, 256]
    starts = {method.name: method.defaults for method in methods_of(sop)}
    assert starts["arcface"]["scale"] == 220.3
    assert starts["multi_similarity_mined"]["beta"] == 156.61
    assert len(starts) == 12


def test_data_without_a_table_are_compared_with_what_all_tables_share() -> None:
    given = {"data": {"name": "quickdraw"}, "methods": ["triplet"], "protocol": {"preset": "paper"}}
    told = deviations(BenchmarkConfig.of(given))
    assert "training.epochs: 100 (paper: 1000)" in told
    given["data"] = {"name": "sop"}
    told = deviations(BenchmarkConfig.of(given))
    released = "39 in its code, which stops one epoch later"
    assert f"training.patience: 10 (paper: a plateau in the text, {released})" in told


def test_parts_miners_and_searched_fields_are_compared() -> None:
    settings = [
        "methods.sap+tcm.plus=[{name: tcm, weight: 2, parameters: {positive_margin: 0.8}}]",
        "protocol.trials=3",
        "protocol.search={optimiser.lr: {low: 1e-5, high: 1e-3}}",
    ]
    told = deviations(read("tcm/table-2", settings))
    assert "sap+tcm: tcm.weight 2 (paper: 1)" in told
    wanted = "by a grid search on 10 % of the training data, near 0.9"
    assert f"sap+tcm: tcm.positive_margin 0.8 (paper: {wanted})" in told
    assert "all methods: optimiser.lr searched from 1e-05 to 0.001 (paper: fixed)" in told
    changed = read("happier/table-1-sop", ["methods.tl_sh.miner_parameters.margin=0.1"])
    assert "tl_sh: miner.margin 0.1 (paper: fixed)" in deviations(changed)


def test_rows_with_one_loss_are_compared_with_rows_of_their_names() -> None:
    """What is published of a loss is said of all of them."""
    changed = read("happier/figure-4-lambda", ["methods.lambda_30.parameters.alpha=2"])
    told = [one for one in deviations(changed) if one not in deviations(read(changed.paper))]
    assert told == ["lambda_30: alpha 2 (paper: 1)"]
    assert "all methods: offset none (paper: as here in the text, 1 in its code)" in deviations(
        changed
    )


def test_batches_of_thousands_go_through_the_network_in_chunks() -> None:
    shared = [read(f"tcm/{name}").shared for name in ("table-3-vit-b", "table-5-sop-vit-b-recall")]
    for one in shared:
        assert one.sampler is not None
        assert (one.batch, one.sampler.classes * one.sampler.samples) == (4000, 4000)
        assert one.training.chunk == 100


def test_settings_and_data_come_on_top(tmp_path: Path) -> None:
    path = write_config(tmp_path)
    chosen = read(
        path, ["protocol.trials=7", "methods.arcface.start.scale=32"], root=tmp_path / "other"
    )
    assert chosen.protocol.trials == 7
    assert chosen.data.root == str(tmp_path / "other")
    assert methods_of(chosen)[1].defaults["scale"] == 32
    with pytest.raises(InputError, match="starts at sclae = 1, which is not searched"):
        methods_of(read(path, ["methods.arcface.start.sclae=1"]))
    with pytest.raises(InputError, match="the method 'arcfac', which the configuration does not"):
        read(path, ["methods.arcfac.search.scale=1"])
    assert read(path, ["methods.mine.loss=triplet"]).methods[-1].name == "mine"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("reality-check/table-9", "there is no configuration 'reality-check/table-9'; the nearest"),
        ("no-such-paper/table-1", "cannot read no-such-paper/table-1"),
    ],
)
def test_unknown_names_are_refused(name: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        read(name)


def test_a_file_of_that_name_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "reality-check").mkdir()
    write_config(tmp_path).rename(tmp_path / "reality-check" / "table-3")
    monkeypatch.chdir(tmp_path)
    assert read("reality-check/table-3").data.name == "quickdraw"


def test_the_command_lists_and_describes_them(roots: dict[str, Path]) -> None:
    listed = CliRunner().invoke(commands, ["benchmark", "--list"])
    assert listed.exit_code == 0
    assert all(name in listed.output for name in NAMES)
    alone = CliRunner().invoke(commands, ["benchmark"])
    assert "the configuration is missing" in str(alone.exception)
    settings = [word for setting in SMALL for word in ("--set", setting)]
    data = ["--data", str(roots["cub-200-2011"])]
    arguments = ["benchmark", "reality-check/table-3", *data, *settings, "--dry-run"]
    with pytest.warns(UserWarning, match="not complete"):
        ran = CliRunner().invoke(commands, arguments)
    assert ran.exit_code == 0, ran.output
    assert "cub-200-2011: 64 images of 16 classes in the development split" in ran.output
    assert "24 trainings of the search (12 methods x 1 trials x 2 folds)" in ran.output
    assert "hours of training on this machine (cpu)" in ran.output
    assert "Deviates from the paper: protocol.trials: 1 (paper: 50)." in ran.output


def test_any_field_of_the_training_is_searched() -> None:
    config = BenchmarkConfig.of(
        {
            "data": {"name": "quickdraw"},
            "protocol": {
                "search": {
                    "optimiser.lr": {"low": 1e-5, "high": 1e-3, "log": True},
                    "model.head": {"values": ["linear", "layernorm"]},
                    "loss_optimiser.weight_decay": {"low": 0, "high": 0.1, "default": 0.01},
                }
            },
            "methods": ["triplet", "arcface"],
        }
    )
    triplet, arcface = methods_of(config)
    assert set(triplet.space) == {"margin", "optimiser.lr", "model.head"}
    assert triplet.defaults["optimiser.lr"] == config.shared.optimiser.lr
    assert arcface.defaults["loss_optimiser.weight_decay"] == 0.01
    chosen = {**arcface.defaults, "optimiser.lr": 5e-4, "model.head": "layernorm"}
    training = Config.of(training_config(config, arcface, chosen, 0))
    assert training.optimiser.lr == 5e-4
    assert training.model.head == "layernorm"
    assert training.loss_optimiser.weight_decay == 0.01
    assert set(training.loss.parameters) == {"margin", "scale"}


@pytest.mark.parametrize(
    ("search", "sentence"),
    [
        ({"optimiser.rate": {"low": 0, "high": 1}}, "must be a field of the section shared"),
        ({"model.dimensions": {"values": [64, 128]}}, "none of model.dimensions"),
        ({"optimiser.momentum": {"low": 0, "high": 1}}, "the field 'momentum' must be less than 1"),
    ],
)
def test_a_search_of_what_cannot_be_is_refused(search: dict[str, Any], sentence: str) -> None:
    given = {"data": {"name": "emoji"}, "protocol": {"search": search}, "methods": ["triplet"]}
    with pytest.raises(InputError, match=sentence):
        BenchmarkConfig.of(given)


def finished(folder: Path, name: str, scores: dict[str, dict[str, float]], *settings: str) -> Path:
    """A folder as a finished benchmark leaves it, with made-up scores of its methods."""
    config = read(name, settings)
    folder.mkdir()
    (folder / "config.yaml").write_text(config.to_yaml())
    rows = [
        {
            "method": one.name,
            "parameters": {},
            "separated": {metric: {"mean": mean} for metric, mean in scores[one.name].items()},
        }
        for one in config.methods
    ]
    (folder / "table.json").write_text(json.dumps({"rows": rows}))
    return folder


def drawn_lines(axes: Any) -> dict[str, list[tuple[float, float]]]:
    """The points of each named line, rounded."""
    return {
        str(line.get_label()): [
            (round(float(x), 6), round(float(y), 6))
            for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)
        ]
        for line in axes.get_lines()
        if not str(line.get_label()).startswith("_")
    }


def test_the_figure_of_accuracy_and_consistency_joins_tables(tmp_path: Path) -> None:
    one = finished(
        tmp_path / "one", "tcm/table-3-resnet50",
        {"rs@k": {"hit@1": 0.70, "opis": 0.0003}, "rs@k+tcm": {"hit@1": 0.72, "opis": 0.0001}},
    )  # fmt: skip
    other = finished(
        tmp_path / "other", "tcm/table-3-vit-s",
        {"rs@k": {"hit@1": 0.80, "opis": 0.0002}, "rs@k+tcm": {"hit@1": 0.81, "opis": 0.0002}},
    )  # fmt: skip
    (axes,) = benchmark.paper_figure("tcm/figure-3", [one, other]).axes
    assert drawn_lines(axes) == {
        "recall_at_k, resnet50": [(28.0, 0.1), (30.0, 0.3)],
        "recall_at_k, vit_small_patch16_224.augreg_in21k": [(19.0, 0.2), (20.0, 0.2)],
    }
    assert axes.get_xlabel() == "100 - hit@1 [%]"
    assert axes.get_ylabel() == "1000 x opis"
    marks = [line.get_marker() for line in axes.get_lines() if len(line.get_xdata()) == 1]
    assert sorted(marks) == ["*", "*", "o", "o"]


def test_the_figure_of_margins_has_a_line_per_positive_margin(tmp_path: Path) -> None:
    methods = [one.name for one in read("tcm/figure-6").methods]
    scores = {name: {"hit@1": at / 100, "opis": at / 1e4} for at, name in enumerate(methods)}
    folder = finished(tmp_path / "one", "tcm/figure-6", scores)
    accuracy, consistency = benchmark.paper_figure("tcm/figure-6", [folder]).axes
    at = {name: float(number) for number, name in enumerate(methods)}
    assert drawn_lines(accuracy) == {
        "sap": [(0.0, 0.0), (1.0, 0.0)],
        "tcm.positive_margin 0.8": [
            (0.25, at["sap+tcm 0.8 0.25"]), (0.5, at["sap+tcm 0.8 0.5"]),
            (0.75, at["sap+tcm 0.8 0.75"]),
        ],
        "tcm.positive_margin 0.9": [
            (0.25, at["sap+tcm 0.9 0.25"]), (0.5, at["sap+tcm"]), (0.75, at["sap+tcm 0.9 0.75"]),
        ],
        "tcm.positive_margin 1.0": [
            (0.25, at["sap+tcm 1 0.25"]), (0.5, at["sap+tcm 1 0.5"]), (0.75, at["sap+tcm 1 0.75"]),
        ],
    }  # fmt: skip
    assert drawn_lines(consistency)["sap"] == [(0.0, 0.0), (1.0, 0.0)]
    assert consistency.get_ylabel() == "1000 x opis"


def test_figures_that_cannot_be_drawn_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no figure 'tcm/figure-99' of tables"):
        benchmark.paper_figure("tcm/figure-99", [tmp_path])
    with pytest.raises(InputError, match="holds no table: its benchmark is not finished"):
        benchmark.paper_figure("tcm/figure-3", [tmp_path])
    scores = {name: {"hit@1": 0.5} for name in ("rs@k", "rs@k+tcm")}
    folder = finished(tmp_path / "one", "tcm/table-3-resnet50", scores)
    with pytest.raises(InputError, match="which no row of the tables has"):
        benchmark.paper_figure("tcm/figure-3", [folder])


@pytest.mark.slow
def test_a_run_draws_the_figures_of_its_table(
    roots: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("truerank.benchmark.runner.Workers", Here)
    monkeypatch.setattr("truerank.benchmark.tables.KINDS", ("svg",))
    config = confined(small("tcm/table-2", roots["inaturalist-2018"]), ["sap", "sap+tcm"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruerankWarning)  # replicas are not complete
        table = benchmark.run(config, tmp_path / "out")
    figures = {path.stem for path in (tmp_path / "out" / "figures").glob("*.svg")}
    assert {"figure-3", "figure-8", "curves"} <= figures
    assert "1000 x opis" in str(table)
    assert "percent (OPIS: thousandths)" in str(table)


@pytest.mark.slow
def test_digits_in_two_dimensions_as_the_guide_has_them(tmp_path: Path) -> None:
    guide = Path(__file__).parents[2] / "docs/guides/papers.md"
    (given,) = (
        block
        for block in re.findall("```yaml\n(.*?)```", guide.read_text(), re.DOTALL)
        if "mnist" in block
    )
    random = np.random.default_rng(0)
    for number, each in itertools.product(range(10), range(6)):
        path = tmp_path / "mnist" / ("train" if each < 4 else "test") / f"{number}/{each}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        image = Image.new("L", (28, 28))
        ImageDraw.Draw(image).text(random.integers(4, 14, 2).tolist(), str(number), fill=255)
        image.save(path)
    config = {**yaml.safe_load(given), "training": {"epochs": 1, "iterations": 2, "device": "cpu"}}
    config["data"]["root"] = str(tmp_path / "mnist")
    config["loss"]["plus"] = [{"name": "tcm"}]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruerankWarning)  # classes are trained on and tested
        run = truerank.training.train(config, folder=tmp_path / "run")
        data = truerank.datasets.read("folder", tmp_path / "mnist").subset("test")
    points = truerank.training.embed(tmp_path / "run/best.pt", data)
    assert np.abs(np.hypot(*points.T) - 1).max() < 1e-6
    assert set(run.result) == {"hit@1", "opis"}
    result = truerank.evaluate(points, data.fine_labels)
    drawn = truerank.plot(result, "map", coordinates=points)
    assert drawn.figure_ is not None
