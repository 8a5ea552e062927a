"""Metrics as values: how they are written, named, documented and refused."""

from __future__ import annotations

import itertools
import re
import warnings
from typing import Any

import numpy as np
import pytest

import truerank
from tests import registered
from truerank.core import metric as definitions
from truerank.core import registry
from truerank.core.metric import Definition, Metric, RankingDefinition, ThresholdDefinition
from truerank.core.parameters import Choice
from truerank.core.registry import parse

RANKING = dict.fromkeys(parse(text).name for text in registered.ranking())


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("map", "map"),
        ("map@r", "map@r"),
        ("map@10", "map@10"),
        ("map@10,divisor=min", "map@10,divisor=min"),
        ("map@10,divisor=r", "map@10"),
        ("map@divisor=min,10", "map@10,divisor=min"),
        (" MAP@R ", "map@r"),
        ("map @ 10 , divisor = min", "map@10,divisor=min"),
        ("hit@010", "hit@10"),
        ("precision_at_1", "precision@1"),
        ("Precision@1", "precision@1"),
        ("p@10", "precision@10"),
        ("P@1", "precision@1"),
        ("prec@3", "precision@3"),
        ("precision@r", "r_precision"),
        ("R-Precision", "r_precision"),
        ("rprec", "r_precision"),
        ("rp", "r_precision"),
        ("mean_average_precision", "map"),
        ("mean_average_precision_at_r", "map@r"),
        ("mean_average_precision_at_10", "map@10"),
        ("map_cut_10", "map@10"),
        ("ap", "map"),
        ("AP@5", "map@5"),
        ("ap@r", "map@r"),
        ("mean_reciprocal_rank", "mrr"),
        ("recip_rank", "mrr"),
        ("rr", "mrr"),
        ("mean_inverse_negative_penalty", "minp"),
        ("cmc@5", "hit@5"),
        ("CMC@1", "hit@1"),
        ("rank-1", "hit@1"),
        ("Rank1", "hit@1"),
        ("rank@20", "hit@20"),
        ("top5", "hit@5"),
        ("hits@10", "hit@10"),
        ("hit_rate@3", "hit@3"),
        ("success_5", "hit@5"),
        ("recall_at_4", "recall@4"),
        ("recall@4", "recall@4"),
        ("recall_1000", "recall@1000"),
        ("recall.5", "recall@5"),
        ("P.5", "precision@5"),
        ("P_5", "precision@5"),
        ("map_at_10", "map@10"),
        ("map_cut.10", "map@10"),
        ("mrr@10", "mrr@10"),
        ("MRR@10", "mrr@10"),
        ("mrr_at_10", "mrr@10"),
        ("RR@10", "mrr@10"),
        ("accuracy@1", "hit@1"),
        ("accuracy_at_5", "hit@5"),
        ("hit_rate_at_10", "hit@10"),
    ],
)
def test_metrics_parse_and_print(text: str, canonical: str) -> None:
    metric = parse(text)
    assert str(metric) == canonical
    assert parse(canonical) == metric
    assert hash(parse(canonical)) == hash(metric)


def test_every_metric_prints_as_it_parses() -> None:
    cuts = {"none": [None], "number": [1, 2, 10, 2**31 - 1], "optional": [None, "r", 1, 10]}
    cuts["number or none"] = [None, 1, 10]
    for name in RANKING:
        entry = registry.definition(Metric(name))
        choices = {one.name: one.kind.words for one in entry.parameters if one.name != "level"}
        options = [
            dict(zip(choices, values, strict=True))
            for values in itertools.product(*choices.values())
        ]
        for cut, chosen in itertools.product(cuts[entry.cut], options):
            if "divisor" in chosen and not isinstance(cut, int):
                continue
            text = str(Metric(name, cut, tuple(chosen.items())))
            metric = parse(text)
            assert (metric.name, metric.cut) == (name, cut)
            assert parse(str(metric)) == metric
            assert parse(text.upper()) == metric
            assert {key: metric[key] for key in chosen} == chosen
    for text in definitions.examples():
        assert str(parse(text)) == text


def test_one_metric_under_two_names_is_computed_once() -> None:
    assert [str(m) for m in registry.parse_all(["hit@5", "cmc@5", "map"])] == ["hit@5", "map"]
    assert [str(m) for m in registry.parse_all("cmc@5")] == ["hit@5"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("maq", ["unknown metric 'maq'", "did you mean 'map'"]),
        ("prescision@5", ["unknown", "did you mean 'precision@5'"]),
        ("mrrr", ["did you mean 'mrr'"]),
        ("hits", ["'hits'", "cut-off"]),
        ("cmc", ["'cmc'", "cut-off"]),
        ("rank", ["'rank'", "cut-off"]),
        ("p", ["'p'", "cut-off"]),
        ("zzzzzz", ["unknown metric 'zzzzzz'", "known are", "map", "hit", "minp"]),
        ("hit", ["needs a cut-off", "hit@10"]),
        ("precision", ["needs a cut-off", "precision@10"]),
        ("recall", ["needs a cut-off"]),
        ("hit@0", ["'k' parameter of hit", "int >= 1", "'0'"]),
        ("cmc@0", ["'k' parameter of hit", "int >= 1", "'0'"]),
        ("hit@-1", ["'k' parameter of hit", "int >= 1", "'-1'"]),
        ("hit@1.5", ["'k' parameter of hit", "'1.5'"]),
        ("hit@r", ["'k' parameter of hit", "'r'"]),
        ("cmc@r", ["'k' parameter of hit", "'r'"]),
        ("hit@", ["'k' parameter of hit", "''"]),
        ("hit@²", ["'k' parameter of hit", "'²'"]),
        ("hit@1e3", ["'k' parameter of hit"]),
        ("hit@99999999999999999999", ["'k' parameter of hit"]),
        ("map@all", ["'k' parameter of map", "int >= 1 or r", "'all'"]),
        ("mrr@r", ["'k' parameter of mrr", "int >= 1", "'r'"]),
        ("mapr", ["did you mean 'map@r'?"]),
        ("minp@r", ["'minp' takes no cut-off", "'r'"]),
        ("hit@5,6", ["two cut-offs", "name@k,key=value"]),
        ("hit@5,divisor=min", ["'hit' has no option 'divisor'"]),
        ("map@10,divizor=min", ["'map' has no option 'divizor'", "known are divisor"]),
        ("map@10,divisor=k", ["'divisor' option of map", "r, min", "'k'"]),
        ("map@10,divisor=", ["'divisor' option of map", "r, min"]),
        ("map@divisor=min", ["divisor", "number as cut-off"]),
        ("map@r,divisor=min", ["divisor", "number as cut-off"]),
        ("", ["'map@r' or 'hit@10'", "''"]),
        ("  ", ["'map@r' or 'hit@10'"]),
        ("@5", ["unknown metric '@5'"]),
        (5, ["'map@r' or 'hit@10'", "5"]),
        (None, ["'map@r' or 'hit@10'", "None"]),
    ],
)
def test_metrics_that_do_not_exist(text: Any, words: list[str]) -> None:
    with pytest.raises(truerank.InputError) as caught:
        parse(text)
    message = str(caught.value)
    assert "\n" not in message
    assert [word for word in words if word not in message] == [], message


def test_an_option_given_twice_is_refused() -> None:
    with pytest.raises(truerank.InputError, match="divisor"):
        parse("map@10,divisor=min,divisor=r")


@pytest.mark.parametrize("name", definitions.names())
def test_every_metric_is_documented(name: str) -> None:
    entry = registry.definition(Metric(name))
    assert entry.name == name
    for text in (entry.title, entry.definition, entry.citation):
        assert text.strip() == text
        assert text
    assert any(str(year) in entry.citation for year in range(1950, 2040))
    low, high = entry.range
    assert low < high
    assert isinstance(entry.higher_is_better, bool)
    assert entry.cut in ("none", "number", "number or none", "optional")
    assert entry.examples
    assert {parse(text).name for text in entry.examples} == {name}
    for parameter in entry.parameters:
        if isinstance(parameter.kind, Choice):
            shown = {parse(text)[parameter.name] for text in entry.examples}
            assert shown == set(parameter.kind.words)
    kinds = (RankingDefinition, ThresholdDefinition)
    assert isinstance(entry, kinds) == (entry.family != "clustering")  # which looks at the rows
    known = {parameter.name for parameter in entry.parameters}
    assert len(known) == len(entry.parameters)
    assert known >= {*entry.one_of, *(name for pair in entry.needs for name in pair)}
    assert known >= {name for pair in entry.exclusive for name in (pair.first, pair.second)}


def test_no_metric_is_registered_twice() -> None:
    entry = registry.definition(Metric("map"))
    with pytest.raises(ValueError, match="'map' is registered twice"):
        definitions.register(Definition("map", "again", "the same", entry.citation))


def test_the_default_metrics_exist() -> None:
    assert [str(parse(text)) for text in registry.DEFAULT] == list(registry.DEFAULT)


@pytest.mark.parametrize("deep", [False, True])
def test_all_is_the_defaults_and_one_form_of_every_other_metric(deep: bool) -> None:
    """As many strings as metrics, but for the defaults that are forms of one metric."""
    rng = np.random.default_rng(0)
    fine = np.repeat(np.arange(24), 5)
    labels = np.stack([fine // 2, fine], axis=1) if deep else fine
    rows = rng.normal(size=(120, 8))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", truerank.TruerankWarning)
        found = truerank.evaluate(rows, labels, metrics="all", confidence=None)
        usual = truerank.evaluate(rows, labels, confidence=None)
    assert list(found)[: len(usual)] == list(usual)
    asked = [parse(text).name for text in (*found, *found.skipped)]
    of_lists = {"accuracy"}
    assert set(asked) == set(definitions.names()) - of_lists
    counted = {name: asked.count(name) for name in asked if asked.count(name) > 1}
    assert counted == {"hit": 2, "map": 2}  # hit@5 and hit@10, map@r and map


def test_all_has_every_metric_at_its_default_parameters() -> None:
    """A form names a cut-off, tau or far only where the metric has no form without."""
    forms = definitions.plainest()
    assert len({parse(text).name for text in forms}) == len(forms)
    bare = {name for name in definitions.names() if parses(name)}
    for text in forms:
        name, _, parameters = text.partition("@")
        if name in bare:
            assert parameters == "", text
        else:
            assert re.fullmatch(r"\d+|(far|tau)=[\d.]+", parameters), text


def parses(text: str) -> bool:
    try:
        return str(parse(text)) == text
    except truerank.InputError:
        return False


def test_all_of_a_list_of_trials_has_every_metric_once() -> None:
    trials = [(str(n), str(n + 1), n % 2 == 0) for n in range(400)]
    values = np.random.default_rng(0).standard_normal(400) + np.arange(400) % 2 * -1
    found = truerank.verify(values, trials, "all", confidence=None)
    asked = [parse(text).name for text in (*found, *found.skipped)]
    families = ("verification", "trials")
    known = [name for name in definitions.names() if definitions.entry(name).family in families]
    assert sorted(asked) == sorted(known)


def test_recall_at_1_is_questioned() -> None:
    rows, labels = np.eye(4), [0, 0, 1, 1]
    for text in ("recall@1", "recall_at_1"):
        with pytest.warns(truerank.TruerankWarning, match=r"papers mean hit@1") as caught:
            truerank.evaluate(rows, labels, metrics=[text, "map"])
        assert len(caught) == 1
        assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        truerank.evaluate(rows, labels, metrics=["recall@2", "hit@1", "precision@1"])
        truerank.evaluate(rows, labels, metrics="all")
