"""Pages as text: what they hold, what they must not hold, and what is refused."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import sys
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from scipy.sparse import csr_matrix

import truerank
from tests.builders import clusters
from tests.report.pages import HOSTILE, hierarchy, leave_one_out, open_set
from truerank import Task, report
from truerank.competition.task import public_result
from truerank.core.registry import display_name
from truerank.report.details import look
from truerank.report.page import as_json

LEVELS = hierarchy()
"""Held here: a result keeps no rows alive."""


def page_of(path: Path) -> tuple[str, dict[str, Any]]:
    """The text of a page, and the data in it."""
    text = path.read_text(encoding="utf-8")
    data = re.search(r'<script id="data" type="application/json">(.*?)</script>', text, re.DOTALL)
    assert data is not None
    return text, json.loads(data[1])


def without_scripts(text: str) -> str:
    """A page without what it runs; its data are still there."""
    return re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)


@pytest.fixture(scope="module")
def result() -> truerank.Result:
    return truerank.evaluate(**LEVELS, metrics=["precision@1", "map@r", "h_ap"])


@pytest.fixture
def written(result: truerank.Result, tmp_path: Path) -> tuple[str, dict[str, Any]]:
    result.to_html(tmp_path / "page.html")
    return page_of(tmp_path / "page.html")


def test_the_policy_names_the_very_scripts(written: tuple[str, dict[str, Any]]) -> None:
    text, _ = written
    policy = re.search(r'http-equiv="Content-Security-Policy" content="(.*?)"', text)
    assert policy is not None
    allowed = policy[1].replace("&#39;", "'")
    assert "default-src 'none'" in allowed
    assert "connect-src 'none'" in allowed
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert len(scripts) == 2
    for script in scripts:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in allowed
    assert "unsafe-eval" not in allowed
    assert "showSendToCloud: false" in text
    assert not re.search(r"""(src|href)=["']?https?:""", without_scripts(text))


def test_data_are_no_markup() -> None:
    text = as_json({"a": HOSTILE, "b": "</script><b>&amp;"})
    assert not set("<>&") & set(text)
    assert json.loads(text) == {"a": HOSTILE, "b": "</script><b>&amp;"}


def test_the_method_of_intervals_is_worded_as_in_the_notes(tmp_path: Path) -> None:
    x, y = clusters(0, classes=40, size=4)
    query, gallery = slice(None, None, 2), slice(1, None, 2)
    result = truerank.evaluate(
        x[query], y[query], gallery=x[gallery], gallery_labels=y[gallery], metrics=["map", "eer"]
    )
    assert "where the data set" in result.provenance["intervals"]["method"]
    result.to_html(tmp_path / "page.html", sections=["reproduce"])
    (model,) = page_of(tmp_path / "page.html")[1]["models"]
    shown = dict(model["provenance"]["facts"])["intervals"]
    assert "for metrics whose threshold the data determine" in shown
    assert any(shown in note for note in result.notes)


def test_levels_are_called_by_their_names(tmp_path: Path) -> None:
    """The finest level may be called label, as a column of a file is: its classes have a table."""
    arguments = hierarchy(noise=3.0)
    columns = np.asarray(arguments["labels"]).T
    arguments["labels"] = dict(zip(("level1", "family", "label"), columns, strict=True))
    result = truerank.evaluate(**arguments, metrics=["map@r", "h_ap"], confidence=None)
    result.to_html(tmp_path / "page.html")
    (model,) = page_of(tmp_path / "page.html")[1]["models"]
    assert [table["title"] for table in model["parts"]] == ["Classes", "level1", "family"]
    assert model["severity"]["names"] == ["shares family", "shares level1", "shares nothing"]


def test_a_page_has_every_section(written: tuple[str, dict[str, Any]]) -> None:
    (model,) = written[1]["models"]
    assert model["missing"] is None
    assert len(model["stops"]["threshold"]) == 1001
    assert [table["title"] for table in model["parts"]] == ["Classes", "Level 1", "Level 2"]
    assert model["severity"]["errors"]
    assert model["ranked"]["worst"][0]["neighbours"][0]["shares"] in (None, "1", "2", "right")
    assert len(model["map"]["x"]) == len(model["map"]["y"]) == 180
    assert list(model["map"]["kinds"]) == ["1", "nearest item"]
    assert model["ties"]["queries"] == 180
    assert model["audit"]["of"] == "embeddings"
    assert "truerank.evaluate(" in model["provenance"]["again"]
    words = {row["metric"]: row["words"] for row in model["headline"]["rows"]}
    assert model["headline"]["rows"][1]["cells"][0] == "MAP@R"
    assert words["precision@1"] == "How often the nearest item is relevant."


def test_a_result_read_back_shows_what_its_file_holds(
    result: truerank.Result, written: tuple[str, dict[str, Any]], tmp_path: Path
) -> None:
    result.to_json(tmp_path / "full.json")
    report.write([tmp_path / "full.json"], tmp_path / "again.html", names=["embeddings"])
    again = page_of(tmp_path / "again.html")[1]["models"][0]
    first = written[1]["models"][0]
    assert again.keys() == first.keys()
    for name in again:
        assert again[name] == first[name], name
    fresh = truerank.evaluate(**hierarchy(), metrics=["map@r"])
    fresh.to_json(tmp_path / "bare.json")
    report.write([tmp_path / "bare.json"], tmp_path / "bare.html")
    bare = page_of(tmp_path / "bare.html")[1]["models"][0]
    assert "not at hand" in bare["missing"]
    assert (bare["stops"], bare["ranked"], bare["ties"]) == (None, None, None)
    assert bare["parts"]
    assert "cmc" in bare["curves"]


def test_details_are_kept_below_a_megabyte(result: truerank.Result) -> None:
    look(result)
    with_details = len(result.to_json())
    plain = {name: value for name, value in result.to_dict().items() if name != "details"}
    without = len(truerank.Result.from_dict(plain).to_json())
    assert 0 < with_details - without < 1_000_000
    schema = json.loads((Path(truerank.__file__).parent / "result/result.schema.json").read_text())
    jsonschema.validate(result.to_dict(), schema)


def test_details_of_another_version_are_not_shown(result: truerank.Result, tmp_path: Path) -> None:
    data = result.to_dict() | {"details": {"version": 99, "stops": {}}}
    other = truerank.Result.from_dict(data)
    other.to_html(tmp_path / "page.html")
    assert page_of(tmp_path / "page.html")[1]["models"][0]["stops"] is None


def test_details_of_the_first_version_are_shown(result: truerank.Result, tmp_path: Path) -> None:
    """They have class centres in place of a map, and strips without the first relevant item."""
    data = result.to_dict()
    details = data["details"]
    details["version"] = 1
    del details["map"]
    for name in ("examples", "classes"):
        del details["confusions"][name]
    for query in [*details["ranked"]["worst"], *details["ranked"]["best"]]:
        del query["first"]
    truerank.Result.from_dict(data).to_html(tmp_path / "page.html")
    model = page_of(tmp_path / "page.html")[1]["models"][0]
    assert model["missing"] is None
    assert model["map"] is None
    assert model["ranked"]["worst"]
    assert model["confusions"]["table"]["rows"]


def test_the_same_rows_give_the_same_page(tmp_path: Path) -> None:
    texts = []
    arguments = leave_one_out()
    for name in ("a", "b"):
        result = truerank.evaluate(**arguments, metrics=["map@r"], confidence=None)
        result.provenance["seconds"] = 0.0
        result.to_html(tmp_path / f"{name}.html")
        texts.append((tmp_path / f"{name}.html").read_text())
    assert texts[0] == texts[1]


def test_a_public_result_gives_nothing_away(tmp_path: Path) -> None:
    arguments = open_set()
    rows, ids = arguments["gallery"], arguments["gallery_ids"]
    task = Task(arguments["gallery_labels"], ids=ids, groups=arguments["gallery_groups"])
    full = task.evaluate(rows, ids=ids, full=True)
    look(full)
    public = public_result(full)
    assert public.held is None
    assert "details" not in public.to_dict()
    public.to_html(tmp_path / "page.html")
    text, data = page_of(tmp_path / "page.html")
    for secret in ("person", "camera", "g17", full.provenance["task_digest"]):
        assert secret not in without_scripts(text), secret
    (model,) = data["models"]
    assert "public result" in model["missing"]
    assert model["parts"] == []
    assert model["curves"] == {}


def test_a_list_of_trials_has_a_page(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(20, 4))
    rows[10:] = rows[:10] + 0.1
    pairs = [(a, b, b - a == 10) for a in range(10) for b in range(10, 20)]
    verified = truerank.verify(rows, pairs, ["eer", "auc"])
    verified.to_html(tmp_path / "page.html")
    model = page_of(tmp_path / "page.html")[1]["models"][0]
    assert model["facts"][0] == ["trials", "100"]
    assert "roc" in model["curves"]


def test_several_results_are_compared(tmp_path: Path) -> None:
    arguments = {"a": hierarchy(), "b": hierarchy(noise=3.0)}
    results = [truerank.evaluate(**one, metrics=["hit@1", "map@r"]) for one in arguments.values()]
    report.write(results, tmp_path / "page.html", names=arguments)
    found = page_of(tmp_path / "page.html")[1]["comparison"]
    compared = truerank.compare(*results, names=list(arguments))
    shown = {row[0]: row[3:5] for row in found["differences"]["rows"]}
    for row in compared.differences:
        sign = "+" if row.value >= 0 else "-"
        low, high = (f"{100 * end:.2f}" for end in row.interval)
        difference = f"{sign}{100 * abs(row.value):.2f}"
        assert shown[display_name(row.metric)] == [difference, f"{low} to {high}"]
    assert found["scores"] is None  # two models: the differences say it
    for at, row in enumerate(found["differences"]["rows"]):
        metric = list(results[0])[at]
        assert row[0] == display_name(metric)
        assert found["differences"]["scores"][at] == [
            f"{100 * result[metric].value:.2f}" for result in results
        ]
    (pair,) = found["solved"]["pairs"]
    first, second = (one["hit@1"].per_query.lower == 1 for one in results)
    assert pair["both"] == int((first & second).sum())
    assert [row[0] for row in pair["first_list"]] == np.flatnonzero(first & ~second)[:100].tolist()
    assert pair["only_second"] == len(pair["second_list"]) == int((second & ~first).sum())
    only_first, only_second = pair["strips"]
    assert 0 < len(only_first) <= 3
    for both in only_first:
        assert both["first"]["row"] == both["second"]["row"]
        assert first[both["first"]["row"]]
        assert not second[both["first"]["row"]]
        assert both["first"]["first_mate"] == 1 < both["second"]["first_mate"]
    assert len(only_second) == min(3, pair["only_second"])


def test_three_models_have_letters(tmp_path: Path) -> None:
    arguments = {"a": hierarchy(), "b": hierarchy(noise=3.0), "c": hierarchy(noise=3.1)}
    results = [truerank.evaluate(**one, metrics=["map@r"]) for one in arguments.values()]
    report.write(results, tmp_path / "page.html", names=arguments)
    data = page_of(tmp_path / "page.html")[1]
    letters = {row[1]: row[5] for row in data["comparison"]["scores"]["rows"]}
    assert letters["a"] not in (letters["b"], letters["c"])


def test_the_page_begins_with_its_conclusion(tmp_path: Path) -> None:
    """The finding of the comparison stands in the markup, above all that scripts draw."""
    arguments = {"good": hierarchy(), "poor": hierarchy(noise=3.0)}
    results = [truerank.evaluate(**one, metrics=["map@r"]) for one in arguments.values()]
    report.write(results, tmp_path / "page.html", names=arguments)
    text = without_scripts((tmp_path / "page.html").read_text())
    assert "<h1>good against poor</h1>" in text
    finding = truerank.compare(*results, names=list(arguments)).finding
    assert f"<p>{html.escape(finding)}</p>" in text.replace("\xa0", " ")
    assert "p\xa0&lt;\xa00.001" in text  # in one line


def test_the_conclusion_of_one_result(tmp_path: Path) -> None:
    result = truerank.evaluate(**open_set(), metrics=["map@r", "precision@1", "dir@far=0.1"])
    result.to_html(tmp_path / "page.html", title=HOSTILE)
    text = without_scripts((tmp_path / "page.html").read_text()).replace("\xa0", " ")
    score = result["precision@1"]
    by_chance = f"the chance level is {100 * score.chance:.2f} %.</p>"
    assert HOSTILE not in text
    assert f"<p>Precision@1 is {100 * score.value:.2f} %; {by_chance}" in text
    mated = f"<p>{score.n} of 90 queries have a relevant item in the gallery"
    assert f"{mated}; {90 - score.n} are unmated.</p>" in text


def test_the_conclusion_has_an_interval(
    result: truerank.Result, written: tuple[str, dict[str, Any]]
) -> None:
    score = result["precision@1"]
    low, high = (f"{100 * end:.2f}" for end in score.interval)
    expected = f"<p>Precision@1 is {100 * score.value:.2f} % (95 % interval {low} to {high});"
    assert expected in written[0].replace("\xa0", " ")


def test_sections_are_chosen(tmp_path: Path) -> None:
    """What is not shown is not in the file either."""
    arguments = open_set()
    result = truerank.evaluate(**arguments, metrics=["map@r"], confidence=None)
    result.to_html(tmp_path / "page.html", sections=["scores", "curves"])
    text, data = page_of(tmp_path / "page.html")
    assert data["sections"] == ["scores", "curves"]
    (model,) = data["models"]
    assert model["stops"] is not None  # they draw ROC and DET
    empty = ("ranked", "parts", "confusions", "severity", "map", "audit", "ties", "provenance")
    assert all(model[name] is None for name in empty)
    assert "person 3" not in without_scripts(text)
    result.to_html(tmp_path / "page.html", sections=["reproduce", "scores"])
    assert page_of(tmp_path / "page.html")[1]["models"][0]["stops"] is None
    with pytest.raises(truerank.InputError, match="'sections' parameter must be one of comparison"):
        result.to_html(tmp_path / "page.html", sections=["nowhere"])


def test_the_map_may_have_coordinates_of_its_own(tmp_path: Path) -> None:
    arguments = open_set()
    result = truerank.evaluate(**arguments, metrics=["precision@1"], confidence=None)
    given = np.random.default_rng(0).normal(size=(90, 2))
    result.to_html(tmp_path / "page.html", coordinates=given)
    found = page_of(tmp_path / "page.html")[1]["models"][0]["map"]
    scale = np.abs(given).max()
    np.testing.assert_allclose(np.array([found["x"], found["y"]]).T, given / scale, atol=1e-4)
    assert found["share"] is None
    right = result["precision@1"].per_query.lower
    expected = [2 if value != value else 1 - int(value) for value in right.tolist()]
    assert found["kinds"]["nearest item"]["codes"] == expected
    assert found["titles"] == arguments["labels"]
    with pytest.raises(truerank.InputError, match=r"shape \(90, 2\), one row per query. Got"):
        result.to_html(tmp_path / "page.html", coordinates=given[:5])


def test_models_without_a_test_share_no_letter(tmp_path: Path) -> None:
    """Five classes are too few for a test, which is not the same as one that found nothing."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(5), 4)
    rows = [rng.normal(size=(20, 8)) for _ in "abc"]
    results = [truerank.evaluate(one, labels, metrics=["map@r"]) for one in rows]
    report.write(results, tmp_path / "page.html", names=["a", "b", "c"])
    found = page_of(tmp_path / "page.html")[1]["comparison"]
    assert [row[5] for row in found["scores"]["rows"]] == ["no test"] * 3


def test_a_benchmark_shows_its_table_and_figures(tmp_path: Path) -> None:
    folder = tmp_path / "emoji"
    (folder / "figures").mkdir(parents=True)
    (folder / "config.yaml").write_text("data: emoji\n")
    with pytest.raises(truerank.InputError, match="is not finished"):
        report.write([folder], tmp_path / "page.html")
    score = {"mean": 0.5, "interval": [0.46, 0.54], "n": 5}
    untrained = {"name": "Untrained", "notes": []}
    searched = {
        "name": HOSTILE, "ranks": {"concatenated": [1, 1], "separated": [1, 2]},
        "parameters": {"margin": 0.123456, "bins": 3}, "notes": ["bins at the low end"],
        "default": {"separated": {"map@r": {**score, "mean": 0.25}}},
    }  # fmt: skip
    parts = {"concatenated": {"map@r": score}, "separated": {"map@r": score}}
    alone = {part: {"map@r": {**score, "interval": None}} for part in parts}
    rows = [{**untrained, **alone}, {**searched, **parts}]
    table = {"metric": "map@r", "metrics": ["map@r"], "rows": rows}
    (folder / "table.json").write_text(json.dumps(table))
    (folder / "table.md").write_text(f"| a table |\n\n- One sentence.\n- {HOSTILE}\n")
    (folder / "figures" / "search.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (folder / "figures" / "search.png").write_bytes(b"not taken")
    report.write([folder], tmp_path / "page.html")
    (shown,) = page_of(tmp_path / "page.html")[1]["benchmarks"]
    assert shown["name"] == "emoji"
    concatenated, separated, found = shown["tables"]
    assert concatenated["rows"] == [
        ["Untrained", 0.5, None, ""],
        [HOSTILE, 0.5, pytest.approx(0.04), "1"],
    ]
    assert [row[-1] for row in separated["rows"]] == ["", "1-2"]
    assert found["rows"] == [[HOSTILE, "margin 0.1235, bins 3", "bins at the low end", 0.25, 0.5]]
    assert shown["notes"] == ["One sentence.", HOSTILE]
    assert [figure["name"] for figure in shown["figures"]] == ["search"]
    assert shown["figures"][0]["image"].startswith("data:image/svg+xml;base64,")


def test_rows_that_changed_are_noticed(tmp_path: Path) -> None:
    arguments = leave_one_out()
    result = truerank.evaluate(**arguments, metrics=["map@r"], confidence=None)
    arguments["embeddings"][0] += 1
    with pytest.raises(truerank.InputError, match="have changed since"):
        result.to_html(tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_rows_that_are_gone_are_missed_in_a_sentence(tmp_path: Path) -> None:
    result = truerank.evaluate(**leave_one_out(), metrics=["map@r"], confidence=None)
    result.to_html(tmp_path / "page.html")
    model = page_of(tmp_path / "page.html")[1]["models"][0]
    assert "not at hand" in model["missing"]
    assert model["parts"]


def test_without_jinja2_it_says_what_to_install(
    result: truerank.Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(truerank.InputError, match=r"needs jinja2: pip install '\.\[report\]' in"):
        result.to_html(tmp_path / "page.html")
    with pytest.raises(truerank.InputError, match="needs jinja2"):
        report.write([], tmp_path / "page.html")


def test_no_result_is_no_report(tmp_path: Path) -> None:
    with pytest.raises(truerank.InputError, match="at least one result"):
        report.write([], tmp_path / "page.html")


def every_kind() -> dict[str, dict[str, Any]]:
    """Tasks of all shapes, some of which leave next to nothing to show."""
    rng = np.random.default_rng(2)
    rows, labels = rng.normal(size=(40, 5)), np.arange(40) // 4
    grades = np.where(rng.random((40, 25)) < 0.2, rng.integers(1, 4, (40, 25)), 0)
    others = rng.normal(size=(25, 5))
    with_gallery = {"embeddings": rows, "labels": labels, "gallery": others}
    unlabelled = np.array([None if n % 5 == 0 else n % 12 for n in range(25)], object)
    return {
        "judgements": {"embeddings": rows, "gallery": others, "relevance": csr_matrix(grades)},
        "judgements in a dense matrix": {
            "embeddings": rows,
            "gallery": others,
            "relevance": grades,
        },
        "given distances": {
            "embeddings": np.abs(rows @ others.T),
            "labels": labels,
            "gallery_labels": np.arange(25) % 12,
            "distance": "precomputed",
        },
        "given similarities": {
            "embeddings": rows @ rows.T,
            "labels": labels,
            "distance": "similarity",
        },
        "nobody has a mate": {"embeddings": rows, "labels": np.arange(40)},
        "one class": {"embeddings": rows, "labels": np.zeros(40, int)},
        "two rows": {"embeddings": rows[:2], "labels": [0, 0]},
        "zero vectors": {"embeddings": np.zeros((40, 5)), "labels": labels},
        "distractors": with_gallery | {"gallery_labels": unlabelled, "unlabelled": "distractor"},
        "junk labels": with_gallery | {"gallery_labels": np.arange(25) % 12, "junk_labels": [3]},
        "labels that are no JSON": {"embeddings": rows, "labels": [(n, n) for n in labels]},
        "by class, no mate is 0": {
            "embeddings": rows,
            "labels": np.maximum(labels, 2),
            "average": "class",
            "unmated": "zero",
        },
    }


@pytest.mark.parametrize("kind", list(every_kind()))
@pytest.mark.filterwarnings("ignore::truerank.TruerankWarning")
def test_every_kind_of_task_has_a_page(kind: str, tmp_path: Path) -> None:
    arguments = every_kind()[kind]
    result = truerank.evaluate(**arguments)
    result.to_html(tmp_path / "page.html")
    (model,) = page_of(tmp_path / "page.html")[1]["models"]
    assert model["headline"]["rows"] or result.skipped
    if kind == "judgements in a dense matrix":
        assert "not at hand" in model["missing"]
    else:
        assert len(model["stops"]["threshold"]) == 1001
    result.to_json(tmp_path / "result.json")
    report.write([tmp_path / "result.json"], tmp_path / "again.html")
    (again,) = page_of(tmp_path / "again.html")[1]["models"]
    assert again["stops"] == model["stops"]
