"""Tables that train nothing: files of models, untrained networks and random systems, scored."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
import yaml
from click.testing import CliRunner
from scipy.io import savemat
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

import truerank
from tests.benchmark.test_papers import drawn_lines, finished
from tests.datasets import replicas
from tests.refusals import refused
from truerank import benchmark
from truerank._util.errors import TruerankWarning
from truerank.cli.commands import commands
from truerank.training import trunks
from truerank.training.config import AugmentationConfig
from truerank.training.devices import borrowed
from truerank.training.embedding import compute_features

NAMES = [table.name for table in benchmark.paper_tables() if "methods" not in table.config]
PEOPLE, B = 12, 3000
GALLERY_LABELS = np.r_[np.repeat(np.arange(PEOPLE), 3), [-1] * 4, 100]
GALLERY_CAMERAS = np.arange(len(GALLERY_LABELS)) % 3
QUERY_LABELS = np.arange(PEOPLE)
QUERY_CAMERAS = np.zeros(PEOPLE, int)
SIDES = {
    "query_label": QUERY_LABELS, "query_cam": QUERY_CAMERAS,
    "gallery_label": GALLERY_LABELS, "gallery_cam": GALLERY_CAMERAS,
}  # fmt: skip
STRANGERS = 5
VERI = "data.name: veri-776 (paper: veri-776, for which it does not state B)"
TINY = {
    "networks": (
        "rows.trunks={ResNet50: convnet, GoogleNet: convnet}",
        "rows.pretrained=false",
        "rows.augmentation={resize: 16, crop: 16}",
        "rows.device=cpu",
    ),
    "files": (),
    "random": ("rows.systems=3", "rows.classes=4", "rows.each=5", "rows.dimensions=6"),
}


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruerankWarning)  # replicas are not complete
        yield


def embeddings(seed: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    """Of queries, of unmated queries, and of the gallery."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(200, 6))
    centres[-1] *= 6  # items of label -1 are the farthest

    def near(labels: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return centres[labels] + 0.8 * rng.normal(size=(len(labels), 6))

    return near(QUERY_LABELS), near(np.arange(150, 150 + STRANGERS)), near(GALLERY_LABELS)


def distances(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.sqrt(((a[:, None] - b[None]) ** 2).sum(axis=2))


def write_models(folder: Path) -> Path:
    """The released layout, both sides' features, and a matrix with labels in files beside it."""
    folder.mkdir()
    query, strangers, gallery = embeddings(1)
    savemat(folder / "ResNet-50.mat", {"distmat": distances(query, gallery), **SIDES})
    others = {**SIDES, "query_label": np.arange(STRANGERS), "query_cam": np.zeros(STRANGERS, int)}
    savemat(folder / "100_ResNet-50.mat", {"distmat": distances(strangers, gallery), **others})
    query, strangers, gallery = embeddings(2)
    np.savez(folder / "AGW.npz", query=query, gallery=gallery, **SIDES)
    np.savez(folder / "100_AGW.npz", embeddings=strangers)
    query, _, gallery = embeddings(3)
    np.save(folder / "Matrix.npy", distances(query, gallery))
    for side, labels, cameras in (
        ("query", QUERY_LABELS, QUERY_CAMERAS),
        ("gallery", GALLERY_LABELS, GALLERY_CAMERAS),
    ):
        lines = [f"{label},{camera}" for label, camera in zip(labels, cameras, strict=True)]
        (folder / f"{side}.csv").write_text("\n".join(["label,camera", *lines]) + "\n")
    return folder


def invoke(*words: Any) -> Any:
    ran = CliRunner().invoke(commands, ["benchmark", *map(str, words)])
    if ran.exception is not None and not isinstance(ran.exception, SystemExit):
        raise ran.exception
    assert ran.exit_code == 0, ran.output
    return ran


def roots(tmp_path: Path, data: str, kind: str) -> Path | None:
    """A replica of a table's data."""
    if kind == "random":
        return None
    if kind == "files":
        return write_models(tmp_path / "models")
    numbers = [*range(1, 5), *range(101, 105)]
    if data == "cub-200-2011":
        species = {n: f"{n:03}.Bird_{n}" for n in numbers}
        return replicas.cub(tmp_path / "cub", species, each=3)
    if data == "cars-196":
        cars = [number for number in numbers for _ in range(3)]
        return replicas.cars_csv(tmp_path / "cars", cars[::2], cars[1::2])
    articles = {
        "Ebay_train.txt": [(n, 1, "chair_final") for n in range(1, 5)],
        "Ebay_test.txt": [(n, 1, "chair_final") for n in range(11319, 11323)],
    }
    return replicas.products(tmp_path / "products", articles, each=3)


def small(name: str, tmp_path: Path) -> benchmark.ScoredConfig:
    config = benchmark.read_scored(name)
    assert config is not None
    root = roots(tmp_path, config.data.name, config.rows.kind)
    settings = list(TINY[config.rows.kind])
    if getattr(config.rows, "pca", None) is not None:
        settings.append("rows.pca.dimensions=4")
    chosen = benchmark.read_scored(name, settings, root=root)
    assert chosen is not None
    return chosen


def check(name: str, tmp_path: Path) -> None:
    config = small(name, tmp_path)
    table = benchmark.score_table(config, tmp_path / "out")
    assert json.loads((tmp_path / "out" / "table.json").read_text()) == table.content
    assert list(table.rows[0]["scores"]) == config.chosen
    for row in table.rows:
        for metric, score in row["scores"].items():
            assert (score["value"] is None) == (score["reason"] is not None)
            if row["name"] != "mean":
                result = truerank.Result.from_json(tmp_path / "out/results" / f"{row['name']}.json")
                assert score["value"] in (None, result[metric].value)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_table_runs_on_a_replica(name: str, tmp_path: Path) -> None:
    check(name, tmp_path)


@pytest.mark.parametrize("name", ["gom/table-4", "reality-check/table-1-cub"])
def test_a_table_of_each_paper_runs_on_a_replica(name: str, tmp_path: Path) -> None:
    check(name, tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_the_papers_own_settings_have_no_difference(name: str) -> None:
    config = benchmark.read_scored(name)
    assert config is not None
    code = {"gom": ["preset: exact (paper: published)"], "ties": []}.get(name.split("/")[0])
    if name == "gom/table-4":
        code = [VERI, *(code or [])]
    said = "rows.pca.standardise: True (paper: not said in the text, yes in its code)"
    assert config.deviations == ([said] * ("table-1" in name) if code is None else code)


def released(matrix: npt.NDArray[Any], strangers: npt.NDArray[Any]) -> dict[str, float]:
    """CMC@1, mAP and MFR by loops: the matrix scaled to [0, 1], thresholds 0, .01, ..., 1."""
    firsts, precisions = [], []
    for row, label in zip(matrix, QUERY_LABELS, strict=True):
        junk = (GALLERY_LABELS < 0) | ((label == GALLERY_LABELS) & (GALLERY_CAMERAS == 0))
        hits = GALLERY_LABELS[~junk][np.argsort(row[~junk])] == label
        firsts.append(hits[0])
        ranks = np.flatnonzero(hits) + 1
        precisions.append(np.mean(np.arange(1, len(ranks) + 1) / ranks))
    every = np.vstack([matrix, strangers])
    scaled = (strangers - every.min()) / (every.max() - every.min())
    kept = scaled[:, GALLERY_LABELS >= 0]
    rates = [np.minimum((kept <= tau).sum(axis=1) / B, 1).mean() for tau in np.arange(101) / 100]
    area = (np.sum(rates) - (rates[0] + rates[-1]) / 2) / 100
    return {"hit@1": np.mean(firsts), "map": np.mean(precisions), "mfr": area}


def test_files_of_models_have_the_papers_numbers(tmp_path: Path) -> None:
    folder, out = write_models(tmp_path / "models"), tmp_path / "out"
    settings = ("--set", "preset=published")
    planned = invoke("gom/table-4", "--data", folder, *settings, "--dry-run").output
    assert "veri-776: 3 rows, nothing is trained." in planned
    assert "Rows: AGW, Matrix, ResNet-50." in planned
    assert f"Deviates from the paper: {VERI}." in planned
    assert not out.exists()
    ran = invoke("gom/table-4", "--data", folder, *settings, "-o", out)
    table = json.loads((out / "table.json").read_text())
    scores = {row["name"]: row["scores"] for row in table["rows"]}
    query, strangers, gallery = embeddings(1)
    wanted = released(distances(query, gallery), distances(strangers, gallery))
    for metric, score in scores["ResNet-50"].items():
        name = metric.partition("@")[0] if metric != "hit@1" else metric
        if name in wanted:
            assert score["value"] == pytest.approx(wanted[name], rel=1e-12), metric
    query, _, gallery = embeddings(3)
    assert scores["Matrix"]["map"]["value"] == pytest.approx(
        released(distances(query, gallery), distances(query, gallery))["map"]
    )
    mfr = "mfr@integral=trapezoid,scale=minmax"
    assert scores["Matrix"][mfr]["value"] is None
    assert "(Matrix)." in ran.output
    assert scores["AGW"][mfr]["value"] is not None
    assert scores["ResNet-50"]["map"]["stated"] == 65.0
    assert {path.name for path in (out / "figures").iterdir()} == {
        f"{curve}.{kind}" for curve in ("mrep", "mfr") for kind in ("svg", "png")
    }
    assert (out / "table.md").read_text().startswith("| row | ")
    assert (out / "table.tex").read_text().count(r"\\") >= 4


def test_finished_rows_are_kept(tmp_path: Path) -> None:
    folder, out = write_models(tmp_path / "models"), tmp_path / "out"
    first = invoke("gom/table-4", "--data", folder, "-o", out)
    with refused("holds a benchmark already; resume it"):
        invoke("gom/table-4", "--data", folder, "-o", out)
    before = (out / "table.json").read_bytes()
    (out / "results" / "AGW.json").unlink()
    again = invoke("gom/table-4", "--data", folder, "-o", out, "--resume")
    assert again.stderr.count("scoring") == 1
    assert (out / "table.json").read_bytes() == before
    assert again.stdout == first.stdout
    with refused("holds another configuration"):
        invoke("gom/table-4", "--data", folder, "-o", out, "--resume", "--set", "preset=published")


def test_rows_of_changed_files_are_scored_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, out = write_models(tmp_path / "models"), tmp_path / "out"
    monkeypatch.chdir(tmp_path)
    first = benchmark.score_table(read("gom/table-4", Path("models")), out, resume=True)
    query, _, gallery = embeddings(7)
    np.save(folder / "Matrix.npy", distances(query, gallery))
    said: list[str] = []
    config = read("gom/table-4", folder, "stated.rows={}")
    with refused("holds another configuration"):
        benchmark.score_table(config, out, resume=True)
    again = benchmark.score_table(read("gom/table-4", folder), out, resume=True, note=said.append)
    assert said == ["scoring Matrix"]
    row = {name: again.rows[place] for place, name in enumerate(again.content["results"])}
    wanted = released(distances(query, gallery), distances(query, gallery))["map"]
    assert row["Matrix"]["scores"]["map"]["value"] == pytest.approx(wanted)
    assert again.rows[0] == first.rows[0]


def test_random_systems_of_a_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "x.npz", embeddings=rng.normal(size=(40, 3)), labels=np.arange(40) % 4)
    config = benchmark.read_scored(
        "ties/random-systems", ["rows.systems=4"], root=tmp_path / "x.npz"
    )
    assert config is not None
    table = benchmark.score_table(config, tmp_path / "out")
    values = [row["scores"]["map"]["value"] for row in table.rows[:-1]]
    mean = table.rows[-1]
    assert len(set(values)) == 4
    assert mean["name"] == "mean"
    assert mean["scores"]["map"]["value"] == pytest.approx(np.mean(values))
    assert mean["scores"]["map"]["deviation"] == pytest.approx(np.std(values, ddof=1))
    assert "stated" not in mean["scores"]["map"]
    assert table.content["deviations"] == [
        "rows.systems: 4 (paper: 30)",
        "rows.classes: that of the file (paper: 10)",
        "rows.each: that of the file (paper: 100)",
        "rows.dimensions: that of the file (paper: 1000)",
    ]
    config = benchmark.read_scored("ties/random-systems", TINY["random"])
    assert config is not None
    own = benchmark.score_table(config, tmp_path / "own")
    assert own.rows[-1]["scores"]["map"]["stated"] == 10.4


def test_a_papers_figures_stand_beside_its_metrics_and_data_alone(tmp_path: Path) -> None:
    folder = write_models(tmp_path / "models")
    other = "metrics.exact=[mfr@scale=minmax, map, mrep@scale=minmax, minp, mfr@far=0.2]"
    config = read("gom/table-4", folder, other)
    table = benchmark.score_table(config, tmp_path / "out")
    (row,) = (row for row in table.rows if row["name"] == "ResNet-50")
    stated = {metric: score.get("stated") for metric, score in row["scores"].items()}
    assert list(stated.values()) == [46.6, 65.0, 34.9, None, None]
    assert any(one.startswith("metrics.exact: ['mfr@") for one in config.deviations)
    config = read("gom/table-4", folder, "data.name=msmt17")
    table = benchmark.score_table(config, tmp_path / "other")
    assert not any("stated" in one for row in table.rows for one in row["scores"].values())
    with refused("rows.a must have 1 value, as metrics.exact has"):
        benchmark.read_scored("ties/random-systems", ["stated.rows={a: [1, 2]}"])


def test_what_the_paper_has_and_a_configuration_has_not_is_a_difference() -> None:
    settings = ["rows.pca=null", "rows.trunks={ResNet50: 'timm:resnet50.tv_in1k'}"]
    config = benchmark.read_scored("reality-check/table-1-cub", settings)
    assert config is not None
    assert config.deviations == [
        "rows.trunks.GoogleNet: none (paper: torchvision:googlenet)",
        "rows.trunks.BN-Inception: none (paper: bn_inception)",
        "rows.pca.dimensions: none (paper: 512)",
        "rows.pca.standardise: none (paper: not said in the text, yes in its code)",
    ]


def test_networks_are_scored_on_the_principal_axes_of_the_test_split(tmp_path: Path) -> None:
    config = small("reality-check/table-1-cub", tmp_path)
    table = benchmark.score_table(config, tmp_path / "out")
    assert [row["name"] for row in table.rows] == ["ResNet50", "GoogleNet"]
    data = truerank.datasets.read("cub-200-2011", config.data.root).subset("test")
    cpu = torch.device("cpu")
    with borrowed(0, cpu):
        trunk = trunks.get("convnet", pretrained=False, size=16)
    augmentation = AugmentationConfig(resize=16, crop=16).build()
    features = compute_features(trunk, data.images, augmentation, cpu, copies=0, seed=0)[0]
    rows = PCA(4, svd_solver="full").fit_transform(StandardScaler().fit_transform(features))
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    nearest = (units @ units.T - 3 * np.eye(len(units))).argmax(axis=1)
    wanted = np.mean(data.fine_labels[nearest] == data.fine_labels)
    assert 0 < wanted < 1
    assert table.rows[0]["scores"]["precision@1"]["value"] == wanted
    assert "rows.pretrained: False (paper: True)" in table.content["deviations"]
    assert "rows.pca.dimensions: 4 (paper: 512)" in table.content["deviations"]


def test_a_configuration_of_ones_own(tmp_path: Path) -> None:
    folder = write_models(tmp_path / "models")
    given = {
        "data": {"name": "mine", "root": str(folder)},
        "rows": {"kind": "files", "junk_labels": [-1]},
        "metrics": {"exact": ["minp"]},
    }
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(given))
    table = benchmark.score_table(path, tmp_path / "out")
    assert [row["name"] for row in table.rows] == ["AGW", "Matrix", "ResNet-50"]
    assert table.content["deviations"] == []


def scores_of(folder: Path, *settings: str) -> tuple[benchmark.ScoredTable, dict[str, Any]]:
    """The table of the published settings, and the scores of its only row."""
    config = read("gom/table-4", folder, "preset=published", *settings)
    table = benchmark.score_table(config, folder / "out")
    (row,) = table.rows
    return table, {metric.partition("@")[0]: one["value"] for metric, one in row["scores"].items()}


def write_csv(path: Path, **columns: Any) -> None:
    rows = [",".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
    path.write_text("\n".join([",".join(columns), *rows]) + "\n")


def test_cameras_of_a_csv_file_go_with_labels_of_the_models_file(tmp_path: Path) -> None:
    query, _, gallery = embeddings(1)
    matrix = distances(query, gallery)
    labels = {name: column for name, column in SIDES.items() if "label" in name}
    savemat(tmp_path / "AGW.mat", {"distmat": matrix, **labels})
    table, scores = scores_of(tmp_path)
    assert "No cameras, so that no item of the query's camera is excluded: AGW." in table.notes
    without = scores["map"]
    write_csv(tmp_path / "query.csv", label=QUERY_LABELS, camera=QUERY_CAMERAS)
    write_csv(tmp_path / "gallery.csv", label=GALLERY_LABELS, camera=GALLERY_CAMERAS)
    (tmp_path / "out" / "config.yaml").unlink()
    table, scores = scores_of(tmp_path)
    assert scores["map"] == pytest.approx(released(matrix, matrix)["map"]) != without
    assert not any("No cameras" in note for note in table.notes)
    write_csv(tmp_path / "query.csv", label=QUERY_LABELS[::-1], camera=QUERY_CAMERAS)
    (tmp_path / "out" / "config.yaml").unlink()
    with refused("has other labels than"):
        scores_of(tmp_path)


def test_rows_of_a_csv_file_are_matched_by_id(tmp_path: Path) -> None:
    query, _, gallery = embeddings(1)
    ids = np.array([f"q{label}" for label in QUERY_LABELS])
    order = np.random.default_rng(0).permutation(PEOPLE)
    matrix = distances(query, gallery)
    np.savez(tmp_path / "AGW.npz", distmat=matrix, id=ids)
    write_csv(
        tmp_path / "query.csv",
        id=ids[order], label=QUERY_LABELS[order], camera=QUERY_CAMERAS[order],
    )  # fmt: skip
    write_csv(tmp_path / "gallery.csv", label=GALLERY_LABELS, camera=GALLERY_CAMERAS)
    wanted = released(matrix, matrix)
    scores = scores_of(tmp_path)[1]
    assert (scores["hit"], scores["map"]) == pytest.approx((wanted["hit@1"], wanted["map"]))


def test_the_distance_of_embeddings_is_said_and_can_be_set(tmp_path: Path) -> None:
    folder = write_models(tmp_path / "models")
    table = benchmark.score_table(read("gom/table-4", folder), tmp_path / "out")
    assert "Distance: cosine (AGW)." in table.notes
    assert "Distance: precomputed (Matrix, ResNet-50)." in table.notes
    config = read("gom/table-4", folder, "rows.distance=euclidean", "preset=published")
    assert "rows.distance: euclidean (paper: none)" in config.deviations
    table = benchmark.score_table(config, tmp_path / "other")
    assert "Distance: euclidean (AGW)." in table.notes
    query, strangers, gallery = embeddings(2)
    wanted = released(distances(query, gallery), distances(strangers, gallery))
    mfr = table.rows[0]["scores"]["mfr@integral=trapezoid,scale=minmax"]["value"]
    assert mfr == pytest.approx(wanted["mfr"], rel=1e-6)
    with refused("must be one of cosine, euclidean, dot, cityblock, hamming"):
        read("gom/table-4", folder, "rows.distance=precomputed")


def test_unmated_queries_of_another_kind_or_gallery_are_refused(tmp_path: Path) -> None:
    query, strangers, gallery = embeddings(1)
    far = distances(strangers, gallery)
    np.savez(tmp_path / "AGW.npz", distmat=distances(query, gallery), **SIDES)
    for sentence, held in (
        ("holds embeddings and", {"embeddings": strangers}),
        ("has 30 columns and", {"distmat": far[:, :30]}),
        ("has other gallery labels than", {
            "distmat": far, "query_label": np.arange(STRANGERS),
            "gallery_label": GALLERY_LABELS[::-1],
        }),
    ):  # fmt: skip
        np.savez(tmp_path / "100_AGW.npz", **held)
        with refused(sentence):
            benchmark.score_table(read("gom/table-4", tmp_path), tmp_path / "out", resume=True)
    (tmp_path / "100_AGW.npz").unlink()
    np.savez(tmp_path / "AGW.npz", distmat=distances(gallery, query), **SIDES)
    with refused("embeddings have 41 rows but there are 12 labels"):
        benchmark.score_table(read("gom/table-4", tmp_path), tmp_path / "out", resume=True)


def test_labels_of_few_bits_and_hidden_files(tmp_path: Path) -> None:
    query, strangers, gallery = embeddings(1)
    matrix, far = distances(query, gallery), distances(strangers, gallery)
    kept = GALLERY_LABELS >= 0
    narrow = {
        **SIDES,
        "query_label": (QUERY_LABELS + 155).astype(np.uint8),
        "gallery_label": (GALLERY_LABELS + 155)[kept].astype(np.uint8),
        "gallery_cam": GALLERY_CAMERAS[kept],
    }
    savemat(tmp_path / "AGW.mat", {"distmat": matrix[:, kept], **narrow})
    savemat(tmp_path / "100_AGW.mat", {"distmat": far[:, kept]})
    (tmp_path / "._AGW.mat").write_bytes(b"\0\5\26\7")
    every = np.vstack([matrix, far])[:, kept]
    scaled = (far[:, kept] - every.min()) / (every.max() - every.min())
    counts = [(scaled <= tau).sum(axis=1) / B for tau in np.arange(101) / 100]
    rates = [one.mean() for one in counts]
    wanted = (np.sum(rates) - (rates[0] + rates[-1]) / 2) / 100
    assert scores_of(tmp_path)[1]["mfr"] == pytest.approx(wanted, rel=1e-12)


def test_headings_and_figures_are_distinct(tmp_path: Path) -> None:
    given = {
        "data": {"root": str(write_models(tmp_path / "models"))},
        "rows": {"kind": "files"},
        "metrics": {"exact": ["mrep_max@scale=minmax", "mrep_max@fp=frozen,scale=minmax", "map"]},
        "curves": {"exact": ["mrep@scale=minmax", "mrep@fp=frozen,scale=minmax", "roc"]},
    }
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(given))
    table = benchmark.score_table(path, tmp_path / "out")
    header = str(table).splitlines()[0]
    assert "scale=minmax" in header
    assert "fp=frozen" in header
    assert "No row has the curve roc." in table.notes
    assert len(list((tmp_path / "out" / "figures").iterdir())) == 4
    path.write_text(yaml.safe_dump({**given, "curves": {"exact": ["nonsense"]}}))
    with refused("there is no curve 'nonsense'; there are roc, det"):
        benchmark.read_scored(path)


def rewrite(folder: Path, file: str, to: str | None = None) -> None:
    if to is None:
        (folder / file).unlink()
    else:
        (folder / file).rename(folder / to)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("AGW.npz",), "100_AGW.npz but no file AGW"),
        (("AGW.npz", "ResNet-50.npz"), "two files of a model with different endings"),
        (("query.csv",), "Matrix.npy holds no labels; put query_label"),
    ],
)
def test_folders_of_other_contents_are_refused(
    tmp_path: Path, change: tuple[str, ...], sentence: str
) -> None:
    folder = write_models(tmp_path / "models")
    rewrite(folder, *change)
    with refused(sentence):
        benchmark.score_table(read("gom/table-4", folder), tmp_path / "out")


def read(name: str, root: Path, *settings: str) -> benchmark.ScoredConfig:
    config = benchmark.read_scored(name, settings, root=root)
    assert config is not None
    return config


def test_wrong_configurations_are_refused(tmp_path: Path) -> None:
    folder = write_models(tmp_path / "models")
    with refused("gom/table-4 trains nothing: leave the options of trainings out"):
        invoke("gom/table-4", "--data", folder, "--jobs", 2)
    with refused("gom/table-4 trains nothing: pass it to truerank.benchmark.score_table"):
        benchmark.read_config("gom/table-4")
    with refused("preset must be one of exact, published"):
        benchmark.read_scored("gom/table-4", ["preset=code"])
    for field in ("pca.dimensions=0", "augmentation.crop=wide"):
        name = f"rows.{field.partition('=')[0]}"
        with refused(f"the field '{name}' must be "):
            benchmark.read_scored("reality-check/table-1-cub", [f"rows.{field}"])
    with refused("a field 'rows.sede' that is not known; did you mean 'seed'?"):
        benchmark.read_scored("reality-check/table-1-cub", ["rows.sede=1"])
    with refused("'rows.kind' must be one of 'files', 'networks', 'random'. Got 'net' instead."):
        benchmark.read_scored("reality-check/table-1-cub", ["rows.kind=net"])
    with refused("lacks the field 'rows.kind'."):
        benchmark.read_scored("reality-check/table-1-cub", ["rows={}"])
    np.savez(folder / "Other.npz", dist_mat=np.eye(3), query_label=[1] * 3, gallery_label=[1] * 3)
    with refused("'dist_mat', 'query_label', 'gallery_label'; expected distmat, or query_f and"):
        invoke("gom/table-4", "--data", folder, "-o", tmp_path / "none")
    with refused("pass the folder of the models' files (--data, data.root). Got None."):
        invoke("gom/table-4", "--dry-run")
    with refused("is a configuration of trainings: pass it to benchmark.run"):
        benchmark.score_table("reality-check/table-3", tmp_path / "out")
    with refused("paper must be one of happier, reality-check, tcm"):
        benchmark.BenchmarkConfig.of(
            {"paper": "gom", "data": {"name": "emoji"}, "methods": ["triplet"]}
        )
    cub = small("reality-check/table-1-cub", tmp_path)
    with refused("rows.pca.dimensions is 512, which is more than the 256 features"):
        config = benchmark.read_scored(
            "reality-check/table-1-cub", TINY["networks"], root=cub.data.root
        )
        assert config is not None
        benchmark.score_table(config, tmp_path / "out")


def test_figures_3_and_4_of_the_reality_check_come_from_its_table(tmp_path: Path) -> None:
    methods = [one.name for one in benchmark.read_config("reality-check/table-3").methods]
    scores = {
        name: {"map@r": number / 100, "precision@1": 0.5 + number / 100}
        for number, name in enumerate(methods)
    }
    folder = finished(tmp_path / "one", "reality-check/table-3", scores)
    table = json.loads((folder / "table.json").read_text())
    for row in table["rows"]:
        row["concatenated"] = {"map@r": {"mean": row["separated"]["map@r"]["mean"] + 0.1}}
        row["year"] = 2006 if row["method"] in ("contrastive", "triplet") else 2019
    (folder / "table.json").write_text(json.dumps(table))
    (axes,) = benchmark.paper_figure("reality-check/figure-3", [folder]).axes
    assert drawn_lines(axes) == {
        name: [(0, number + 10), (1, number)] for number, name in enumerate(methods)
    }
    assert [text.get_text() for text in axes.get_xticklabels()] == ["map@r, concatenated", "map@r"]
    (axes,) = benchmark.paper_figure("reality-check/figure-4", [folder]).axes
    assert drawn_lines(axes)["contrastive"] == [(2006, 50)]
    assert drawn_lines(axes)["soft_triple"] == [(2019, 61)]
    colours = {tuple(one.get_color()) for one in axes.get_lines() if one.get_label() in methods}
    assert len(colours) == len(methods) == 12


def test_without_matplotlib_there_is_a_table_and_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(3)
    for name in ("A", "B"):
        np.savez(tmp_path / f"{name}.npz", embedding=rng.random((12, 4)), label=np.arange(12) % 3)
    config = {
        "data": {"name": "shop", "root": str(tmp_path)},
        "rows": {"kind": "files"},
        "metrics": {"exact": ["map"]},
        "curves": {"exact": ["cmc"]},
    }
    (tmp_path / "shop.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    chosen = benchmark.read_scored(tmp_path / "shop.yaml")
    assert chosen is not None
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.warns(TruerankWarning, match="no figures were drawn"):
        benchmark.score_table(chosen, tmp_path / "out")
    assert (tmp_path / "out" / "table.json").is_file()
