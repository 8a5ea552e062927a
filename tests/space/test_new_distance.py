"""A distance is a class and a registration: nothing else in the package names distances.

The worked example is the angle between two vectors. It is no distance of the package, because an
arccosine may differ in its last bit from one machine to the next.
"""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import truerank
from tests import registered
from tests.cli.driving import run
from truerank.distance import catalogue
from truerank.distance.base import Distances
from truerank.distance.catalogue import Distance, build
from truerank.distance.cosine import Cosine


class Angular(Cosine):
    """The angle as a share of a half turn, in [0, 1]; it ranks as cosine does."""

    def in_unit(self, distances: Distances) -> Distances:
        """arccos(1 - D/2) / pi."""
        return np.arccos(np.maximum(1 - super().in_unit(distances), -1)) / np.pi

    def raw(self, threshold: Fraction) -> Fraction:
        """The largest distance that is shown as no more than the threshold."""
        at = bisect_right(range(2**53), threshold, key=lambda d: self.in_unit(np.float64(d)))
        return Fraction(at - 1)


ANGULAR = Distance("angular", "the angle as a share of pi", Angular.of, points="directions")


@pytest.fixture
def angular() -> Iterator[str]:
    catalogue.register(ANGULAR)
    yield ANGULAR.name
    catalogue.unregister(ANGULAR.name)


LABELS = np.repeat(np.arange(12), 6)


def clusters() -> np.ndarray:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(12, 8))[LABELS] + rng.normal(size=(72, 8))
    rows[5] = rows[70]  # a tie
    rows[9] = 0.0
    return rows.astype(np.float32)


def signs() -> np.ndarray:
    """Rows whose unit vectors are multiples of 1/8, which no rounding moves."""
    rng = np.random.default_rng(1)
    flips = np.where(rng.random((72, 64)) < 0.25, -1, 1)
    return np.where(rng.random((12, 64)) < 0.5, -1, 1)[LABELS] * flips


def fields(score: truerank.Score) -> list[object]:
    shown = [score.value, score.lower, score.expected, score.upper, score.interval, score.chance]
    if score.per_query is not None:
        each = score.per_query
        shown += [np.asarray(part).tobytes() for part in (each.lower, each.expected, each.upper)]
    return [repr(one) for one in shown]


@pytest.mark.filterwarnings("ignore::truerank.TruerankWarning")
@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_ranking_scores_are_those_of_cosine(angular: str, device: str) -> None:
    paths = np.stack([LABELS // 4, LABELS], axis=1)
    ours, theirs = (
        truerank.evaluate(
            clusters(), paths, distance=distance, metrics=registered.of_rankings(), device=device
        )
        for distance in (angular, "cosine")
    )
    assert ours.provenance["distance"]["distance"] == "angular"
    for name in theirs:
        assert fields(ours[name]) == fields(theirs[name]), name


@pytest.mark.parametrize("far", ["0", "0.001", "0.02", "0.3"])
def test_thresholds_are_angles(angular: str, far: str) -> None:
    rows = signs()
    pair = np.triu_indices(len(rows), 1)
    products = (rows @ rows.T)[pair]
    impostors = np.sort(products[LABELS[pair[0]] != LABELS[pair[1]]])[::-1]
    limit = impostors[int(Fraction(far) * len(impostors))]
    nearer = products[products > limit].min()
    metric = f"threshold@far={far}"
    found = truerank.evaluate(rows, LABELS, distance=angular, metrics=[metric])[metric]
    assert found.value == pytest.approx(np.arccos(nearer / 64) / np.pi, abs=1e-12)


@pytest.mark.parametrize("tau", ["0", "0.25", "0.4", "0.5", "1"])
def test_pairs_are_accepted_up_to_an_angle(angular: str, tau: str) -> None:
    rows = signs()
    pair = np.triu_indices(len(rows), 1)
    angles = np.arccos((rows @ rows.T)[pair] / 64) / np.pi
    impostors = angles[LABELS[pair[0]] != LABELS[pair[1]]]
    metric = f"fmr@tau={tau}"
    found = truerank.evaluate(rows, LABELS, distance=angular, metrics=[metric])[metric]
    assert found.value == np.mean(impostors <= float(tau))


def test_every_distance_is_accepted_by_the_threshold_that_shows_it(angular: str) -> None:
    space = build(angular, clusters())
    distances = np.unique(space.block(np.arange(72))(0, 72))
    shown = space.in_unit(distances)
    assert shown[0] == 0
    assert (np.diff(shown) > 0).all()
    back = [space.raw(Fraction(float(one))) for one in shown]
    assert all(low <= at for low, at in zip(distances, back, strict=True))
    assert all(at < high for at, high in zip(back, distances[1:], strict=False))


def test_a_threshold_is_chosen(angular: str) -> None:
    ours, theirs = (
        truerank.choose_threshold(clusters(), LABELS, far=0.02, distance=distance)
        for distance in (angular, "cosine")
    )
    assert "Accept a pair if its angular distance is at most" in str(ours)
    assert ours.threshold == pytest.approx(np.arccos(1 - theirs.threshold) / np.pi, abs=1e-12)
    assert ours.values == theirs.values


@pytest.mark.filterwarnings("ignore::truerank.TruerankWarning")
def test_trials_clusters_and_audits_know_it(angular: str) -> None:
    rows = clusters()
    trials = [(0, 1, True), (0, 70, False), (6, 7, True), (6, 66, False)]
    verified = truerank.verify(rows, trials, ["auc"], distance=angular)
    assert verified["auc"].value == truerank.verify(rows, trials, ["auc"])["auc"].value
    scores = [
        truerank.evaluate(rows, LABELS, distance=d, metrics=["nmi"]) for d in (angular, "cosine")
    ]
    assert scores[0]["nmi"].value == scores[1]["nmi"].value
    audits = [truerank.audit(rows, LABELS, distance=d) for d in (angular, "cosine")]
    assert (
        audits[0]["duplicates across classes"].rows == audits[1]["duplicates across classes"].rows
    )


def test_a_gpu_makes_its_tiles_as_those_of_cosine(angular: str) -> None:
    torch = pytest.importorskip("torch")
    from truerank.engine.cuda import rows, torch_kernels
    from truerank.engine.cuda import rows as placing

    space = build(angular, clusters())
    placed = placing.place(space, torch.device("cpu"), torch_kernels)
    assert isinstance(placed, rows.InnerProducts)
    every = np.arange(72)
    assert np.array_equal(placed.tiles(every)(0, 72), space.block(every)(0, 72))


def test_lists_of_choices_name_it(angular: str) -> None:
    assert "angular (the angle as a share of pi)" in " ".join(run("evaluate", "--help").out.split())
    assert "cosine, euclidean or angular." in run("audit", "--help").out
    with pytest.raises(truerank.InputError, match=r"similarity, angular\. Got 'angle' instead"):
        truerank.evaluate(clusters(), LABELS, distance="angle")


def test_it_is_gone_afterwards() -> None:
    with pytest.raises(truerank.InputError, match=r"similarity\. Got 'angular' instead"):
        truerank.evaluate(clusters(), LABELS, distance="angular")


def test_a_name_is_registered_once() -> None:
    with pytest.raises(ValueError, match="'cosine' is registered twice"):
        catalogue.register(Distance("cosine", "another", Cosine.of))


def test_nobody_else_compares_with_names_of_distances() -> None:
    source = Path(truerank.__file__).parent
    found = []
    for path in source.rglob("*.py"):
        if path.parent.name in ("distance", "conformance"):  # which has those of other tools
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Compare) and "distance" in ast.unparse(node.left):
                literals = {n.value for n in ast.walk(node) if isinstance(n, ast.Constant)}
                if literals & set(catalogue.names()):
                    found.append(f"{path.relative_to(source)}: {ast.unparse(node)}")
    assert found == []
