"""Embedding with a checkpoint, from Python and from the command line."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import truerank
from tests.cli.driving import run as truerank_command
from tests.training.sketches import settings, sketches, tiny
from truerank._util.errors import InputError
from truerank.training.embedding import embed, load_embedder
from truerank.training.run import train


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a named trunk."""
    where = tmp_path_factory.mktemp("run")
    train(settings(training={"epochs": 1, "iterations": 2}), data=sketches(), folder=where)
    return where


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first test images as files, in folders by class."""
    where = tmp_path_factory.mktemp("images")
    test = sketches().subset("test")
    for row in range(0, 40, 4):
        path = where / str(test.labels[row]) / f"{row:02d}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(test.images[row]).save(path)
    return where


def test_a_checkpoint_gives_the_embeddings_of_its_run(folder: Path) -> None:
    test = sketches().subset("test")
    stored = np.load(folder / "test.npz")["embeddings"]
    for given in (test, test.images, np.stack(list(test.images))):
        embedded = embed(folder / "best.pt", given, batch=256)
        assert embedded.dtype == np.float32
        np.testing.assert_allclose(embedded, stored, atol=1e-6)


def test_an_array_file_will_do(folder: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "sketches.npy", np.stack(list(sketches().subset("test").images))[..., 0])
    done = truerank_command(
        "embed", folder / "best.pt", tmp_path / "sketches.npy", "-o", tmp_path / "out.npy"
    )
    assert done.status == 0, done
    stored = np.load(folder / "test.npz")["embeddings"]
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), stored, atol=1e-6)


def test_the_batch_is_a_matter_of_memory(folder: Path) -> None:
    test = sketches().subset("test").images
    calls = []
    small = embed(folder / "best.pt", test, batch=7, progress=lambda *done: calls.append(done))
    np.testing.assert_allclose(small, embed(folder / "best.pt", test), atol=1e-5)
    assert calls[0] == (7, 320)
    assert calls[-1] == (320, 320)


def test_files_come_in_sorted_order(folder: Path, images: Path) -> None:
    paths = sorted(images.rglob("*.png"))
    rows = [int(path.stem) for path in paths]
    stored = np.load(folder / "test.npz")["embeddings"][rows]
    # Files are cut by Pillow, which rounds to whole levels.
    np.testing.assert_allclose(embed(folder / "best.pt", images), stored, atol=0.02)
    np.testing.assert_allclose(embed(folder / "best.pt", paths), stored, atol=0.02)
    np.testing.assert_allclose(embed(folder / "best.pt", paths[3]), stored[3:4], atol=0.02)


def test_the_command_writes_what_evaluate_reads(folder: Path, images: Path, tmp_path: Path) -> None:
    done = truerank_command("embed", folder / "best.pt", images, "-o", tmp_path / "emb.npy")
    assert done.status == 0, done
    assert done.err.endswith("truerank: embedded 10 images in 16 dimensions.\n")
    assert done.wrote[0].startswith(f"Wrote {tmp_path / 'emb.npy'} (")
    alone = np.load(tmp_path / "emb.npy")
    assert (
        truerank_command("embed", folder / "best.pt", images, "-o", tmp_path / "emb.npz").status
        == 0
    )
    with np.load(tmp_path / "emb.npz") as arrays:
        np.testing.assert_array_equal(arrays["embeddings"], alone)
        ids = arrays["id"].tolist()
    assert ids == sorted(path.relative_to(images).as_posix() for path in images.rglob("*.png"))
    labels = tmp_path / "labels.csv"
    labels.write_text("label\n" + "\n".join(name.split("/")[0] for name in ids) + "\n")
    evaluated = truerank_command("evaluate", tmp_path / "emb.npz", "--labels", labels)
    assert evaluated.status == 0, evaluated
    by_folder = truerank_command("evaluate", tmp_path / "emb.npz")
    assert by_folder.out == evaluated.out


def test_labelled_faces_in_the_wild(folder: Path, tmp_path: Path) -> None:
    """Folders named as LFW's are, its pairs.txt as it is distributed, and nothing in between."""
    test = sketches().subset("test")
    rng = np.random.default_rng(0)
    people = [f"Person_{letter}" for letter in "ABCDEFGHIJKL"]
    numbers = {one: np.flatnonzero(test.labels == test.labels[0]) for one in people}
    for place, one in enumerate(people):
        numbers[one] = np.flatnonzero(test.labels == np.unique(test.labels)[place % 8])[:3]
        (tmp_path / "lfw" / one).mkdir(parents=True)
        for number, row in enumerate(numbers[one], 1):
            Image.fromarray(test.images[row]).save(tmp_path / f"lfw/{one}/{one}_{number:04d}.png")
    lines = ["3\t4"]
    for fold in range(3):
        own = people[4 * fold : 4 * fold + 4]
        lines += [f"{one}\t1\t{rng.integers(2, 4)}" for one in own]
        lines += [f"{own[k]}\t{rng.integers(1, 4)}\t{own[k - 1]}\t2" for k in range(4)]
    pairs = tmp_path / "pairs.txt"
    pairs.write_text("\n".join(lines) + "\n", encoding="utf-8")
    target = tmp_path / "lfw.npz"
    assert truerank_command("embed", folder / "best.pt", tmp_path / "lfw", "-o", target).status == 0
    done = truerank_command("verify", target, "--pairs", pairs)
    assert done.status == 0, done
    assert "Accuracy over 3 folds, each at the best threshold of the other folds" in done.out
    assert "shares of the people" in done.out
    result = truerank.verify(target, pairs)  # the ids are in the file
    assert str(result) == done.out.rstrip("\n")
    assert next(iter(result)) == "accuracy"
    assert result["auc"].interval is not None
    assert result.provenance["people"] == 12
    with np.load(target) as arrays:
        rows, ids = arrays["embeddings"], arrays["id"]
    assert dict(truerank.verify(rows, pairs, ids=ids)) == dict(result)


def test_images_that_lie_in_no_folder_have_no_label(
    folder: Path, images: Path, tmp_path: Path
) -> None:
    mixed = tmp_path / "mixed"
    shutil.copytree(images, mixed)
    first = next(mixed.rglob("*.png"))
    first.rename(mixed / first.name)
    target = tmp_path / "emb.npz"
    assert truerank_command("embed", folder / "best.pt", mixed, "-o", target).status == 0
    with np.load(target) as arrays:
        assert set(arrays) == {"embeddings", "id"}


def test_the_train_command(tmp_path: Path, images: Path) -> None:
    """A folder of images by class: read, halved by class, trained, tested, refused, resumed."""
    for path in list(images.rglob("*.png")):
        for copy in ("a", "b", "c"):
            target = tmp_path / "data" / f"{path.parent.name}-{path.stem}" / f"{copy}.png"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    config = tmp_path / "my.yaml"
    config.write_text(
        f"data: {{name: folder, root: {tmp_path / 'data'}, fold: null}}\n"
        "model: {trunk: convnet, dimensions: 8}\n"
        "augmentation: {resize: 28, crop: 28}\n"
        "sampler: {classes: 4, samples: 2}\n"
        "loss: {name: contrastive}\n"
        "optimiser: {name: adam, lr: 1e-3}\n"
        "training: {epochs: 2, iterations: 2, device: cpu}\n"
    )
    out = tmp_path / "run"
    done = truerank_command("train", config, "-o", out, "--set", "training.seed=5")
    assert done.status == 0, done
    assert "MAP@R" in done.out
    assert "epoch 1 of 2, loss " in done.err
    assert "was the best." in done.err
    assert done.wrote[0].startswith(f"Wrote {out} (")
    assert "seed: 5" in (out / "config.yaml").read_text()
    again = truerank_command("train", config, "-o", out)
    assert again.complaint() == (
        f"{out} holds a run already; resume it (--resume, resume=True) or name another folder."
    )
    more = ("--set", "training.seed=5", "--set", "training.epochs=3")
    assert truerank_command("train", config, "-o", out, "--resume", *more).status == 0
    assert len((out / "log.jsonl").read_text().splitlines()) == 4
    wrong = truerank_command("train", config, "--set", "sampler.clases=3")
    assert wrong.complaint() == (
        f"{config} has a field 'sampler.clases' that is not known; did you mean 'classes'?"
    )


def test_refusals(folder: Path, images: Path, tmp_path: Path) -> None:
    checkpoint = folder / "best.pt"
    with pytest.raises(InputError, match=r"must be an int >= 1\. Got 0 instead"):
        embed(checkpoint, images, batch=0)
    with pytest.raises(
        InputError, match=r"'workers' parameter of embed must be an int >= 1\. Got 0"
    ):
        embed(checkpoint, images, workers=0)
    with pytest.raises(InputError, match="holds no image"):
        embed(checkpoint, tmp_path)
    with pytest.raises(InputError, match="there are no images to embed"):
        embed(checkpoint, np.zeros((0, 8, 8), np.uint8))
    with pytest.raises(InputError, match=r"cannot read .*none.pt: No such file"):
        embed(tmp_path / "none.pt", images)
    (tmp_path / "x.npy").write_bytes(b"nonsense")
    with pytest.raises(InputError, match=r"cannot read .*x\.npy: it is no array of numbers"):
        embed(checkpoint, tmp_path / "x.npy")
    refused = truerank_command("embed", checkpoint, images, "-o", tmp_path / "emb.txt")
    assert "embeddings are written as .npy or .npz" in refused.complaint()
    refused = truerank_command("embed", checkpoint, images, "-o", tmp_path / "no" / "emb.npy")
    assert "cannot write" in refused.complaint()


class Dangerous:
    def __reduce__(self) -> tuple[object, ...]:
        return (print, ("this code must not run",))


def test_a_file_that_is_no_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "evil.pt"
    path.write_bytes(pickle.dumps({"model": Dangerous()}, protocol=2))
    with pytest.raises(InputError, match="is no checkpoint of truerank, or it is damaged"):
        load_embedder(path)
    torch.save({"format": 1, "config": {}, "model": Dangerous()}, path)
    with pytest.raises(InputError, match="is no checkpoint of truerank, or it is damaged"):
        load_embedder(path)
    assert capsys.readouterr().out == ""
    torch.save({"weights": torch.zeros(1)}, path)
    with pytest.raises(InputError, match=r"evil\.pt is no checkpoint of truerank\."):
        load_embedder(path)
    torch.save({"format": 99, "config": {}, "model": {}}, path)
    with pytest.raises(InputError, match="another version of truerank"):
        load_embedder(path)


def test_a_trunk_of_ones_own_must_be_given_again(tmp_path: Path) -> None:
    train(
        settings(training={"epochs": 1, "iterations": 1}),
        data=sketches(), trunk=tiny, folder=tmp_path,
    )  # fmt: skip
    test = sketches().subset("test")
    with pytest.raises(InputError, match="a trunk of your own; pass trunk="):
        embed(tmp_path / "best.pt", test)
    with pytest.raises(InputError, match="do not fit the trunk"):
        embed(tmp_path / "best.pt", test, trunk=lambda: torch.nn.Sequential(
            torch.nn.AvgPool2d(28), torch.nn.Flatten()))  # fmt: skip
    stored = np.load(tmp_path / "test.npz")["embeddings"]
    np.testing.assert_allclose(embed(tmp_path / "best.pt", test, trunk=tiny), stored, atol=1e-6)
