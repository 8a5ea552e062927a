"""Figures of rows and classes: strips of neighbours, scores per class, maps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import truerank
from tests.builders import clusters
from truerank.plots.rows import VERDICTS


def axes() -> Any:
    return Figure().subplots()


def legend(display: Any) -> list[str]:
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


@pytest.fixture(scope="module")
def rows() -> npt.NDArray[np.float64]:
    return clusters(0, classes=40, size=6, noise=1.5)[0]


@pytest.fixture(scope="module")
def result(rows: npt.NDArray[np.float64]) -> truerank.Result:
    labels = np.repeat(np.arange(40), 6)
    levels = {"genus": labels % 8, "species": labels}
    return truerank.evaluate(rows, levels, metrics=["map@r", "precision@1"])


def pictures(count: int) -> list[npt.NDArray[np.uint8]]:
    return [np.full((8, 12, 3), number, np.uint8) for number in range(count)]


def test_strips_end_with_the_first_relevant_item(result: truerank.Result) -> None:
    display = result.plot("strips", images=pictures(240), worst=4, k=3, ax=axes())
    held = display.drawn_["strips"]
    values = result["map@r"].per_query.lower
    worst = [one["query"] for one in held]
    assert values[worst[0]] == values.min()
    assert len({row // 6 for row in worst}) == 4  # of four classes
    shown = [int(np.asarray(image.get_array())[0, 0, 0]) for image in display.ax_.get_images()]
    expected, colours = [], []
    for one, known in zip(held, result.neighbors(worst, 3), strict=True):
        assert one["items"] == known.nearest.row.tolist()
        relevant = bool(known.nearest.right.any())
        assert (one["first relevant"] is None) == relevant
        last = [] if relevant else [known.mates.row[0]]
        expected += [known.query, *known.nearest.row, *last]
        colours += [known.nearest.verdict(place, ["genus", "species"]) for place in range(3)]
        colours += ["right"] * len(last)
        if not relevant:
            ranks = [text.get_text() for text in display.ax_.texts]
            assert f"rank {known.mates.first[0]}" in ranks
    assert shown == expected
    borders = [to_hex(patch.get_edgecolor()) for patch in display.ax_.patches]
    hues = {verdict: colour.lower() for verdict, (colour, _) in VERDICTS.items()}
    edges = [edge for edge in borders if edge in hues.values()]
    assert edges == [hues[verdict] for verdict in colours]
    assert legend(display)[0] == "relevant"
    display.figure_.canvas.draw()


def test_strips_of_chosen_queries_from_a_folder(tmp_path: Path) -> None:
    from PIL import Image

    rows, labels = clusters(1, classes=5, size=4)
    ids = [f"row{number}" for number in range(20)]
    for name in ids[:10]:
        Image.new("RGB", (4, 4)).save(tmp_path / f"{name}.png")
    task = {"gallery": rows[8:], "gallery_labels": labels[8:], "gallery_ids": ids[8:]}
    queries = rows[:8]  # a result keeps no array alive
    found = truerank.evaluate(queries, labels[:8], query_ids=ids[:8], confidence=None, **task)
    named = {"queries": ["row3"], "k": 4, "credits": "Drawn for this test."}
    display = found.plot("strips", images=tmp_path, ax=axes(), **named)
    nearest = display.drawn_["strips"][0]["items"]
    assert len(display.ax_.get_images()) == 1 + sum(row < 2 for row in nearest)
    assert display.ax_.texts[-1].get_text() == "Drawn for this test."
    with pytest.raises(truerank.InputError, match="images must be one for each of 12 rows"):
        found.plot("strips", images=tmp_path, gallery_images=[None], queries=[0])
    read = truerank.Result.from_dict(found.to_dict())
    for kind, options in (("strips", {"images": tmp_path}), ("map", {})):
        with pytest.raises(truerank.InputError, match="came without its rows"):
            read.plot(kind, **options)


def test_classes_from_worst_to_best(result: truerank.Result) -> None:
    by_class = {str(name): part["map@r"].value for name, part in result.by("label").items()}
    display = result.plot("classes", ax=axes())
    held = display.drawn_["classes"]
    assert held == by_class
    assert list(held.values()) == sorted(held.values())
    (named,) = [text.get_text() for text in display.ax_.texts]
    assert f"{next(iter(held))} (6)" in named
    coarse = result.plot("classes", by="genus", metric="precision@1", ax=axes())
    assert len(coarse.ax_.patches) == 8
    assert coarse.ax_.get_xlabel() == "Precision@1"
    assert legend(coarse) == [f"mean over queries, {100 * result['precision@1'].value:.2f} %"]
    first = next(iter(coarse.drawn_["classes"]))
    assert coarse.ax_.get_yticklabels()[0].get_text() == f"{first} (30)"


def test_map_of_rows(rows: npt.NDArray[np.float64], result: truerank.Result) -> None:
    display = result.plot("map", ax=axes())
    places = display.drawn_["places"]
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    axis = np.linalg.svd(unit - unit.mean(axis=0))[2][0]
    assert np.allclose(np.abs(places[:, 0]), np.abs((unit - unit.mean(axis=0)) @ axis))
    assert legend(display)[-1] == "2 others (60)"
    assert len(legend(display)) == 7
    fine = result.plot("map", by="species", coordinates=rows[:, :2], ax=axes())
    assert np.array_equal(fine.drawn_["places"], rows[:, :2])
    assert legend(fine)[-1] == "34 others (204)"
    with pytest.raises(truerank.InputError, match=r"coordinates must be of shape \(240, 2\)"):
        result.plot("map", coordinates=rows[:, :3])
    with pytest.raises(truerank.InputError, match="there is no level 'family'; there are genus"):
        result.plot("map", by="family")


def test_a_map_has_the_gallery_and_unlabelled_rows() -> None:
    rows, labels = clusters(1, classes=5, size=4)
    rows = rows.astype(np.float32)
    gallery = {"gallery": rows[8:], "gallery_labels": [*labels[8:-1].tolist(), None]}
    options = {"unlabelled": "distractor", "confidence": None, "distance": "euclidean"}
    queries = rows[:8]
    found = truerank.evaluate(queries, labels[:8].tolist(), **gallery, **options)
    display = found.plot("map", ax=axes())
    assert len(display.drawn_["places"]) == 20
    assert display.drawn_["labels"][-1] == "unlabelled"
