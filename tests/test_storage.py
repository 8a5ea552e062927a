"""Arrays larger than memory: in a temporary file, without a name, and with the same bits."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import truerank
from truerank._util import arrays
from truerank._util.arrays import allocate, fits, memory, take
from truerank._util.settings import settings

SOURCE = Path(truerank.__file__).parents[1]


@pytest.fixture
def spilled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing fits into memory any more; the folder in which files are made."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(arrays, "memory", lambda: 0)
    monkeypatch.setattr(arrays, "available", lambda: 1 << 40)
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def is_mapped(array: Any) -> bool:
    while array is not None:
        if isinstance(array, np.memmap):
            return True
        array = getattr(array, "base", None)
    return False


def test_memory_is_at_most_the_machines() -> None:
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 1 << 20 < memory() <= machine
    assert fits(memory() // 4)
    assert not fits(memory() // 4 + 1)


def test_room_in_memory_and_in_a_file(spilled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = allocate((3, 4), np.int32)
    assert is_mapped(array)
    assert type(array) is np.ndarray
    assert (array.shape, array.dtype) == ((3, 4), np.int32)
    array[...] = np.arange(12).reshape(3, 4)
    assert array.sum() == 66
    assert os.listdir(spilled) == []  # the file has no name
    monkeypatch.setattr(arrays, "memory", lambda: 4 * 48)
    assert not is_mapped(allocate((3, 4), np.int32))
    assert is_mapped(allocate((3, 5), np.int32))


def test_a_disk_that_is_too_small(spilled: Path) -> None:
    with pytest.raises(truerank.InputError, match=r"set the environment variable TMPDIR"):
        allocate((1 << 40, 1 << 10), np.int32)
    assert os.listdir(spilled) == []


def test_addresses_that_run_out(spilled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under a limit on address space a mapped file may not fit either: that is no full disk."""

    def refuse(*arguments: Any, **options: Any) -> Any:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(np, "memmap", refuse)
    with pytest.raises(MemoryError):
        allocate((3, 4), np.int32)


def test_take(spilled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.arange(60.0).reshape(20, 3)
    assert take(array, np.arange(20)) is array
    monkeypatch.setattr(arrays, "_CHUNK_BYTES", 100)
    order = np.random.default_rng(0).permutation(20)[:17]
    np.testing.assert_array_equal(take(array, order), array[order])


@pytest.mark.parametrize("distance", ["cosine", "euclidean", "dot", "cityblock", "hamming"])
def test_rows_in_a_file_give_the_same_bits(
    distance: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    rows = rng.integers(0, 5, size=(90, 6)).astype(np.int16 if distance == "hamming" else float)
    labels = rng.integers(20, size=90)
    sides = {"gallery": rows[30:], "gallery_labels": labels[30:], "query_ids": np.arange(30)}
    sides["gallery_ids"] = np.arange(30, 90)

    def found() -> list[str]:
        results = [
            truerank.evaluate(rows, labels, distance=distance),
            truerank.evaluate(rows[:30], labels[:30], distance=distance, **sides),
        ]
        for method in ("filter", "symmetric"):
            with settings(method=method, side=20, gallery_rows=20, sort_share=1.0):
                results.append(truerank.evaluate(rows, labels, distance=distance))
        return [json.dumps(result.to_dict()["scores"]) for result in results]

    expected = found()
    monkeypatch.setattr(arrays, "memory", lambda: 0)
    monkeypatch.setattr(arrays, "available", lambda: 1 << 40)
    assert found() == expected


def test_parquet_in_batches(spilled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    from truerank.io import tables
    from truerank.io.reading import read

    monkeypatch.setattr(tables, "_BATCH", 7)
    rows = np.random.default_rng(2).standard_normal((50, 3)).astype(np.float32)
    kinds = {
        "list": arrow.list_(arrow.float32()),
        "large list": arrow.large_list(arrow.float32()),
        "fixed": arrow.list_(arrow.float32(), 3),
    }
    for kind in kinds.values():
        columns = {"embedding": arrow.array(rows.tolist(), kind), "label": list(range(50))}
        parquet.write_table(arrow.table(columns), tmp_path / "x.parquet", row_group_size=20)
        bundle = read(tmp_path / "x.parquet")
        assert is_mapped(bundle.embeddings)
        assert bundle.embeddings.dtype == np.float32
        np.testing.assert_array_equal(bundle.embeddings, rows)
        assert bundle.labels == list(range(50))


def test_parquet_with_lists_of_another_length_in_a_later_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    from truerank.io import tables
    from truerank.io.reading import read

    monkeypatch.setattr(tables, "_BATCH", 4)
    table = arrow.table({"embedding": [[1.0, 2.0]] * 4 + [[1.0, 2.0, 3.0]] * 4})
    parquet.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(truerank.InputError, match=r"lists of one length. Got 2, 3\."):
        read(tmp_path / "x.parquet")


LIMITED = """
    import json, resource, sys
    import numpy as np
    import truerank
    from truerank import engine
    from truerank._util import arrays

    def bits():
        result = truerank.evaluate(
            folder + "/query." + form, np.load(folder + "/query_labels.npy"),
            gallery=folder + "/gallery." + form, gallery_labels=labels, threads=1)
        return json.dumps(result.to_dict()["scores"])

    folder, form, megabytes, hold = sys.argv[1:]
    labels = np.load(folder + "/gallery_labels.npy")
    with engine.settings(query_rows=256):
        truerank.evaluate(np.eye(8), np.arange(8) // 2)
        with engine.settings(method="filter"):
            truerank.evaluate(np.eye(8), np.arange(8) // 2)
        if form == "parquet":
            import pyarrow.parquet
        used = int(open("/proc/self/statm").read().split()[5]) * resource.getpagesize()
        limit = used + (int(megabytes) << 20)
        if int(megabytes):
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
            real = arrays.memory
            arrays.memory = lambda: real() - used  # what is left of the limit
        if hold == "hold":
            arrays.fits = lambda size: True
        try:
            print(bits())
        except MemoryError as error:
            print("out of memory")
            if not hold:
                raise
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="no limit on data alone here")
@pytest.mark.parametrize(("form", "megabytes"), [("npy", 120), ("parquet", 250)])
def test_a_gallery_larger_than_memory(form: str, megabytes: int, tmp_path: Path) -> None:
    """320 MB of gallery in less memory, which RLIMIT_DATA enforces: it does not count mapped files.

    (It counts the stacks of pyarrow's threads.)
    """
    count, dimension = 80_000, 1024
    rng = np.random.default_rng(3)
    centres = rng.standard_normal((1000, dimension)).astype(np.float32)
    labels = rng.integers(1000, size=count)

    def noisy(some: np.ndarray) -> np.ndarray:
        noise = rng.standard_normal((len(some), dimension), np.float32)
        return centres[some] + np.float32(2.5) * noise

    chunks = [noisy(labels[start : start + 10_000]) for start in range(0, count, 10_000)]
    query_labels = rng.integers(1000, size=300)
    query = noisy(query_labels)
    np.save(tmp_path / "gallery_labels.npy", labels)
    np.save(tmp_path / "query_labels.npy", query_labels)
    if form == "npy":
        np.save(tmp_path / "query.npy", query)
        np.save(tmp_path / "gallery.npy", np.concatenate(chunks))
    else:
        arrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        def table(rows: np.ndarray) -> Any:
            flat = arrow.array(rows.ravel())
            return arrow.table({"embedding": arrow.FixedSizeListArray.from_arrays(flat, dimension)})

        parquet.write_table(table(query), tmp_path / "query.parquet")
        with parquet.ParquetWriter(tmp_path / "gallery.parquet", table(query).schema) as writer:
            for rows in chunks:
                writer.write_table(table(rows))

    def run(megabytes: int, hold: str = "") -> str:
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(LIMITED), tmp_path, form, str(megabytes), hold],
            env=os.environ
            | {"PYTHONPATH": str(SOURCE), "TMPDIR": str(tmp_path)}
            | {"ARROW_DEFAULT_MEMORY_POOL": "system"},  # others reserve what they may never use
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    small = run(megabytes)
    assert small == run(0)
    assert run(megabytes, "hold") == "out of memory"  # the limit is real
    assert json.loads(small)["map@r"]["value"] > 0.05


def test_less_is_free_than_there_is() -> None:
    assert 0 < arrays.available() <= memory()


def test_a_limit_on_addresses_counts_what_is_taken() -> None:
    """A process that may take up 1 GB more has about that much free."""
    code = """
        import resource
        from truerank._util.arrays import available
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30), resource.RLIM_INFINITY))
        print(available())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
        check=True,
        timeout=120,
    )
    assert 0 <= int(done.stdout) <= 1 << 30
