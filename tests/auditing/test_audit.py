"""The audit: everything planted is found, with the rows named; clean data are left alone."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import truerank
from tests.builders import clusters
from tests.conftest import Within
from tests.refusals import refusal
from truerank._util.errors import InputError
from truerank._util.settings import settings
from truerank.analysis.audit import _bfloat16, _first_changed, neighbors
from truerank.distance.catalogue import build


def clean(seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    return clusters(seed, classes=40, size=6, noise=1.0, dimensions=24)


def names(found: truerank.Audit) -> set[str]:
    return {finding.name for finding in found.findings if finding.severity != "note"}


@pytest.mark.parametrize(
    ("classes", "size", "noise", "dimensions"),
    [(50, 6, 1.0, 32), (30, 20, 1.5, 64), (300, 2, 0.4, 32), (100, 4, 1.0, 128), (20, 30, 0.7, 8)],
)
@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
def test_clean_data_are_not_flagged(
    classes: int, size: int, noise: float, dimensions: int, distance: str
) -> None:
    x, y = clusters(2, classes=classes, size=size, noise=noise, dimensions=dimensions)
    train = clusters(3, classes=60, size=5, noise=noise, dimensions=dimensions)[0]
    found = truerank.audit(x, y, train=train, distance=distance)
    assert found.clean, found
    assert str(found).startswith("No problems found")
    assert found.finding in ("No problems found.", "No problems found, 1 note.")


def test_duplicates() -> None:
    x, y = clean()
    x[100], x[7] = x[3], 4 * x[200]  # of other classes; a scaled copy has the same direction
    x[12] = x[13]  # of one class
    found = truerank.audit(x, y)
    assert found["duplicates across classes"].rows == ((3, 100), (7, 200))
    assert found["duplicates across classes"].severity == "error"
    assert found["duplicates"].rows == ((12, 13),)
    assert found["duplicates"].count == 2
    assert not found.clean


def test_near_duplicates() -> None:
    x, y = clean()
    rng = np.random.default_rng(4)
    x[100] = x[3] + 0.01 * rng.standard_normal(24)
    x[12] = x[13] + 0.01 * rng.standard_normal(24)
    found = truerank.audit(x, y)
    assert found["near duplicates across classes"].rows == ((3, 100),)
    assert found["near duplicates"].rows == ((12, 13),)
    assert names(found) == {"near duplicates across classes"}
    without = truerank.audit(x)
    assert without["near duplicates"].rows == ((3, 100), (12, 13))


def test_leaks() -> None:
    x, y = clean()
    train = clusters(5, classes=40, size=6, dimensions=24)[0]
    train[[30, 31]] = x[[9, 90]]
    train[40] = x[77] + 0.005
    found = truerank.audit(x, y, train=train)
    assert found["leaks"].rows == ((9, 30), (90, 31))
    assert found["leaks"].severity == "error"
    assert found["near leaks"].rows == ((77, 40),)
    assert names(found) == {"leaks", "near leaks"}


def test_collapse() -> None:
    x, y = clean()
    narrow = np.zeros((len(x), 64))
    narrow[:, :2] = x[:, :2]
    found = truerank.audit(narrow, y)
    assert {"dimensional collapse", "constant dimensions"} <= names(found)
    assert found["constant dimensions"].count == 62
    assert found.facts["effective rank"] == pytest.approx(2, abs=0.2)
    assert "collapsed vectors" in names(truerank.audit(x + 50, y))
    x[17] = 0
    found = truerank.audit(x, y)
    assert found["zero vectors"].rows == ((17,),)


def test_constant_embeddings() -> None:
    _, y = clean()
    found = truerank.audit(np.ones((len(y), 16)), y)
    assert {"duplicates across classes", "collapsed vectors", "ties"} <= names(found)
    assert "100.00" in found["ties"].message


def test_norms_and_hubs() -> None:
    x, y = clean()
    x[5] *= 1000
    found = truerank.audit(x, y)
    assert found["norm anomalies"].rows == ((5,),)
    assert names(found) == {"norm anomalies"}
    rng = np.random.default_rng(6)
    far = rng.standard_normal((300, 300))
    far /= np.linalg.norm(far, axis=1, keepdims=True)
    far[:3] = 0.05 * rng.standard_normal((3, 300)) / np.sqrt(300)  # close to the middle of all
    hubs = truerank.audit(far, np.arange(300) // 3, distance="euclidean")["hubness"]
    assert set(hubs.rows[:3]) == {(0,), (1,), (2,)}
    assert hubs.severity == "warning"


def test_classes() -> None:
    x, y = clusters(7, classes=60, size=4, dimensions=24)
    y = y.copy()
    y[:100] = 0
    y[100:104] = np.arange(100, 104)
    found = truerank.audit(x, y)
    assert found["class imbalance"].count == 100
    assert found["singletons"].count == 4
    assert found["singletons"].severity == "note"


def test_ties_and_what_row_order_could_gain() -> None:
    x, y = clean()
    found = truerank.audit(np.rint(x / 2), y, distance="euclidean")
    result = truerank.evaluate(np.rint(x / 2), y, distance="euclidean", confidence=None)
    gap = max(score.upper - score.lower for score in result.values())
    assert found.facts["largest gap left open by ties"] == gap
    assert found["ties"].severity == "error"
    worst = max(result.values(), key=lambda score: score.upper - score.lower)
    ends = f"{100 * worst.lower:.2f} to {100 * worst.upper:.2f} %"
    said = f"the leave-one-out {worst.metric} of these rows is anywhere from {ends}"
    assert found["ties"].message.startswith(f"Because of ties, {said}")
    assert f"(leave-one-out {worst.metric})" in str(found)


def test_half_precision() -> None:
    """Embeddings that differ in small parts: half precision cannot rank them."""
    x, y = clean()
    found = truerank.audit(5 + 0.2 * x, y)
    facts = found.facts["bfloat16 scoring"]
    exact = truerank.evaluate(5 + 0.2 * x, y, metrics="map", confidence=None)["map"].value
    assert facts["map"] == pytest.approx(exact, abs=1e-9)
    low, high = facts["map, lower and upper"]
    assert low < exact < high
    assert facts["queries with another or a tied nearest row"] > len(y) // 2
    assert found["bfloat16 scoring"].severity == "note"


def test_bfloat16_rounds_like_torch() -> None:
    torch = pytest.importorskip("torch")
    values = np.random.default_rng(8).standard_normal(1000) * 10.0 ** np.arange(-5, 5).repeat(100)
    expected = torch.from_numpy(values.astype(np.float32)).bfloat16().float().numpy()
    assert np.array_equal(_bfloat16(values), expected)


def test_a_nearest_row_that_changes() -> None:
    exact = np.array([[0.9, 0.8, 0.1], [0.9, 0.8, 0.1], [0.9, 0.8, 0.1]])
    rounded = np.array([[0.9, 0.8, 0.1], [0.8, 0.9, 0.1], [0.9, 0.9, 0.1]])
    assert _first_changed(exact, rounded).tolist() == [False, True, True]


@pytest.mark.parametrize("labelled", [True, False])
def test_neighbours_by_brute_force(labelled: bool, within: Within) -> None:
    within(settings(neighbor_rows=7, neighbor_items=11))
    x, y = clusters(9, classes=8, size=5)
    codes = y if labelled else np.arange(len(y))
    seen = neighbors(build("euclidean", x), codes, codes, True)
    apart = np.sqrt(((x[:, None] - x[None]) ** 2).sum(axis=2))
    np.fill_diagonal(apart, np.inf)
    occurrences = np.zeros(len(y), int)
    for row in range(len(y)):
        for item in np.argsort(apart[row])[:10]:
            occurrences[item] += 1
    assert seen.occurrences.tolist() == occurrences.tolist()
    for kind, mask in ((seen.same, codes[:, None] == codes), (seen.other, codes[:, None] != codes)):
        held = np.sort(np.where(mask, apart, np.inf), axis=1)
        np.testing.assert_allclose(kind.first, held[:, 0], rtol=1e-6)
        np.testing.assert_allclose(kind.second, held[:, 1], rtol=1e-6)


def test_json_and_refusals() -> None:
    x, y = clean()
    x[0] = x[100]
    data = json.loads(truerank.audit(x, y).to_json())
    assert data["findings"][0]["rows"] == [[0, 100]]
    for call, words in (
        (lambda: truerank.audit(x, y[:5]), "pass one label for each row"),
        (lambda: truerank.audit(x, y, train=x[:, :3]), "train must have 24 dimensions"),
        (lambda: truerank.audit(x, y, distance="dot"), "must be one of cosine, euclidean"),
    ):
        with pytest.raises(InputError, match=words):
            call()


@pytest.mark.parametrize("value", ["1", 1.5, None, -1, 2**63, 10**400, True])
@pytest.mark.parametrize("name", ["seed", "threads"])
def test_what_is_no_number_is_refused(name: str, value: Any) -> None:
    if (name, value) == ("threads", None):
        return
    rows, labels = [[0.0, 1], [0, 2], [1, 0], [1, 1]], [0, 0, 1, 1]
    message = refusal(lambda: truerank.audit(rows, labels, **{name: value}))
    assert f"'{name}' parameter must be an int" in message
