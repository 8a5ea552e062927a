"""Pages from the command line: `report`, `evaluate --report`, `demo --report`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.builders import clusters
from tests.cli.driving import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report")
    x, y = clusters(3, classes=12, size=4)
    np.save(path / "a.npy", x)
    np.save(path / "b.npy", x + np.random.default_rng(0).normal(size=x.shape))
    (path / "photos").mkdir()
    lines = ["label,id,photo"]
    for number, label in enumerate(y):
        Image.new("RGB", (4, 4)).save(path / "photos" / f"{number}.png")
        lines.append(f"class {label},{number},photos/{number}.png")
    (path / "labels.csv").write_text("\n".join(lines) + "\n")
    for name in ("a", "b"):
        options = ("--labels", path / "labels.csv", "-m", "map@r hit@1", "--no-intervals")
        done = run("evaluate", path / f"{name}.npy", *options, "-o", path / f"{name}.json")
        assert done.status == 0, done
    return path


@pytest.mark.parametrize("images", ["photos", "photo"])
def test_evaluate_writes_a_page(folder: Path, tmp_path: Path, images: str) -> None:
    page, out = tmp_path / "page.html", tmp_path / "out.json"
    chosen = folder / "photos" if images == "photos" else images
    done = run(
        "evaluate", folder / "a.npy", "--labels", folder / "labels.csv", "--no-intervals",
        "--report", page, "--images", chosen, "-o", out,
    )  # fmt: skip
    assert done.status == 0, done
    text = page.read_text(encoding="utf-8")
    assert "<h1>a</h1>" in text
    assert "data:image/webp;base64," in text
    assert len(json.loads(out.read_text())["details"]["stops"]["threshold"]) == 1001
    again = run("report", out, "-o", tmp_path / "again.html", "--images", folder / "photos")
    assert again.status == 0, again
    assert "data:image/webp;base64," in (tmp_path / "again.html").read_text(encoding="utf-8")


def test_report_compares_results(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = run("report", folder / "a.json", folder / "b.json", "-o", page)
    assert (done.status, done.out) == (0, ""), done
    assert "<h1>a against b</h1>" in page.read_text(encoding="utf-8")
    named = run("report", folder / "a.json", folder / "b.json", "-o", page, "--names", "old,new")
    assert named.status == 0, named
    assert "<h1>old against new</h1>" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("command", ["evaluate", "report"])
def test_title_and_sections_are_chosen(folder: Path, tmp_path: Path, command: str) -> None:
    page = tmp_path / "page.html"
    command_line: tuple[object, ...] = ("report", folder / "a.json", "-o", page)
    if command == "evaluate":
        labels = ("--labels", folder / "labels.csv", "--no-intervals")
        command_line = ("evaluate", folder / "a.npy", *labels, "--report", page)
    done = run(*command_line, "--title", "Twelve <classes>", "--sections", "classes, scores")
    assert done.status == 0, done
    text = page.read_text(encoding="utf-8")
    assert "<h1>Twelve &lt;classes&gt;</h1>" in text
    assert '"sections":["scores","classes"]' in text
    assert '"provenance":null' in text
    wrong = run(*command_line, "--sections", "scores,nothing").complaint()
    assert "must be one of comparison, head-to-head, scores" in wrong
    assert "Got 'nothing'" in wrong


def test_what_cannot_be_shown_is_refused(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    labels = ("--labels", folder / "labels.csv")
    evaluate = ("evaluate", folder / "a.npy", *labels)
    assert "goes with --report" in run(*evaluate, "--images", "photo").complaint()
    for option in ("--title", "--sections"):
        assert f"{option} goes with --report" in run(*evaluate, option, "scores").complaint()
    missing = run(*evaluate, "--report", page, "--images", "picture").complaint()
    assert missing.startswith("picture is neither a folder nor a column of")
    assert "photo" in missing
    nowhere = run(*evaluate, "--report", tmp_path / "no" / "page.html").complaint()
    assert nowhere.startswith("cannot write")
    plain = tmp_path / "page"
    same = run(*evaluate, "--report", plain, "-o", plain).complaint()
    assert "-o and --report both name" in same
    (folder / "plain").write_bytes((folder / "a.json").read_bytes())
    over = run("report", folder / "plain", "-o", folder / "plain").complaint()
    assert "would be written over the input" in over
    assert "no-such.json" in run("report", tmp_path / "no-such.json", "-o", page).complaint()
    bare = run("report", folder / "a.json", "-o", page, "--images", folder / "photos")
    assert "which this result does not hold" in bare.complaint()
    assert not page.exists()


def test_the_page_of_a_hidden_task_names_no_query(folder: Path, tmp_path: Path) -> None:
    task, page = tmp_path / "hidden.task", tmp_path / "page.html"
    made = run("task", "make", folder / "labels.csv", "-o", task)
    assert made.status == 0, made
    ids = np.array([str(number) for number in range(48)])
    np.savez(tmp_path / "s.npz", embeddings=np.load(folder / "a.npy"), id=ids)
    done = run("evaluate", tmp_path / "s.npz", "--task", task, "--report", page)
    assert done.status == 0, done
    text = page.read_text(encoding="utf-8")
    assert "class 1" not in text
    assert "public result" in text
    images = ("--images", folder / "photos")
    refused = run("evaluate", tmp_path / "s.npz", "--task", task, "--report", page, *images)
    assert "names no row" in refused.complaint()
