"""Parts of a result beside each other, the worst first."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest

import truerank
from tests.builders import clusters
from truerank._util.errors import InputError
from truerank.result.tables import Parts

X, Y = clusters(6, classes=12, size=5)
TREE = {"genus": Y // 4, "species": Y}
RESULT = truerank.evaluate(X, TREE, metrics=["map@r", "eer", "fmr@tau=0.5", "hit@1"])


def test_a_level_splits_by_its_labels() -> None:
    parts = RESULT.by("genus")
    assert list(parts) == [0, 1, 2]
    each = RESULT["map@r"].per_query.lower
    for genus, part in parts.items():
        assert part["map@r"].value == pytest.approx(each[genus == Y // 4].mean())
        assert part["map@r"].n == 20
    species, label = RESULT.by("species"), RESULT.by("label")
    assert {k: v["map@r"].value for k, v in species.items()} == {
        k: v["map@r"].value for k, v in label.items()
    }
    with pytest.raises(InputError, match="known are genus, species, label"):
        RESULT.by("family")


def test_the_worst_come_first() -> None:
    found = Parts.of_result(RESULT, "species", 5)
    each = RESULT["map@r"].per_query.lower
    means = np.array([each[code == Y].mean() for code in range(12)])
    values = [part["map@r"].value for _, part in found.rows]
    assert values == pytest.approx(np.sort(means)[:5])
    assert found.metrics == ["map@r", "hit@1"]  # what is no mean over queries has no parts
    assert (found.of, len(found.rows)) == (12, 5)


def test_where_lower_is_better_the_highest_are_the_worst() -> None:
    labels = np.where(np.arange(len(Y)) < 10, 100 + np.arange(len(Y)), Y)
    result = truerank.evaluate(X, labels, metrics=["far@tau=0.5", "map"])
    rows = Parts.of_result(result, "label").rows
    values = [part["far@tau=0.5"].value for _, part in rows]
    assert values[:10] == sorted(values[:10], reverse=True)
    assert all(np.isnan(value) for value in values[10:])  # classes with a mate, at the end


def test_in_every_form() -> None:
    found = Parts.of_result(RESULT, "genus")
    forms = found.forms()
    rows = list(csv.DictReader(io.StringIO(forms["csv"]())))
    assert [float(row["map@r"]) for row in rows] == [p["map@r"].value for _, p in found.rows]
    assert [row["queries"] for row in rows] == ["20"] * 3
    data = json.loads(forms["json"]())
    assert [part["value"] for part in data["parts"]] == [row["genus"] for row in rows]
    assert data["by"] == "genus"
    assert forms["markdown"]().startswith("| genus | MAP@R | Recall@1 | queries |\n| --- | ---: |")
    assert forms["latex"]().startswith(r"\begin{tabular}{lrrr}")
    assert found.to_text().endswith("\n3 parts by genus, the worst in MAP@R first.")


def test_without_a_mean_over_queries_there_are_no_parts() -> None:
    result = truerank.evaluate(X, Y, metrics=["eer"])
    with pytest.raises(InputError, match="mean over queries"):
        Parts.of_result(result, "label")
