"""What leaves the organiser's house: no label, no class, no single query, and no way to guess."""

from __future__ import annotations

import itertools
import json
import warnings
from hashlib import blake2b
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import truerank
from tests.refusals import assert_refused
from tests.results import SCHEMA
from tests.stored.files import FOLDER, in_words
from truerank import Task
from truerank.competition.leaderboards import check_submission, warn_of_giveaways
from truerank.competition.task import PublicTask, check_revealed, public_result, reveal

CLASSES, SIZE = 12, 5
RNG = np.random.default_rng(7)
ANIMALS = np.array([f"animal-{number:02}" for number in range(CLASSES)])
LABELS = RNG.permutation(np.repeat(ANIMALS, SIZE))
KINDS = np.array([f"kind-{int(name[-2:]) % 3}" for name in LABELS])
IDS = np.array([f"{number:03}.png" for number in RNG.permutation(len(LABELS))])
ROWS = RNG.standard_normal((len(LABELS), 6)).astype(np.float32)
GROUPS = np.array([f"camera-{number % 2}" for number in range(len(LABELS))])


def evaluated(**options: Any) -> truerank.Result:
    task = Task(np.stack([KINDS, LABELS], axis=1), ids=IDS, groups=GROUPS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", truerank.TruerankWarning)
        return task.evaluate(ROWS, ids=IDS, **options)


# --- results


def numbers_in(value: Any) -> int:
    """The longest list in a JSON value."""
    if isinstance(value, dict):
        return max(map(numbers_in, value.values()), default=0)
    if isinstance(value, list):
        return max([len(value), *map(numbers_in, value)])
    return 0


@pytest.fixture(scope="module")
def full() -> truerank.Result:
    return evaluated(metrics="all", full=True)


def test_a_public_result_names_no_label_and_no_query(full: truerank.Result, tmp_path: Path) -> None:
    result = public_result(full)
    text = result.to_json(tmp_path / "result.json")
    for secret in (
        "animal-",
        "kind-",
        "camera-",
        ".png",
        "digest",
        '"units": [',
        "level_units",
        "per_query",
        "ties",
    ):
        assert secret not in text, secret
    data = json.loads(text)
    jsonschema.validate(data, SCHEMA)
    assert numbers_in(data) <= 2  # the two ends of an interval
    assert all(score["replicates"] is None for score in data["scores"].values())
    assert all("threshold" not in score for score in data["scores"].values())
    assert truerank.Result.from_json(tmp_path / "result.json").to_dict() == data
    assert str(result)
    assert result.public


def test_a_public_result_has_the_headline_of_the_full_one(full: truerank.Result) -> None:
    assert not full.public
    assert full.units is not None
    public = public_result(full)
    for name, score in public.items():
        for field in ("interval", "chance", "attainable", "n", "reason"):
            assert getattr(score, field) == getattr(full[name], field), name
        np.testing.assert_equal(score.value, full[name].value)
        assert not score.tied
    left_out = set(full) - set(public)
    assert left_out == set(public.skipped) - set(full.skipped)
    assert {name.partition("@")[0] for name in left_out} == {"threshold", "tau_max"}


def test_a_task_evaluates_to_the_public_result() -> None:
    by_default, all_of_it = evaluated(), evaluated(full=True)
    assert by_default.to_dict() == public_result(all_of_it).to_dict() | {
        "provenance": by_default.provenance  # another salt
    }


def test_lower_is_better_keeps_its_own_end() -> None:
    tied = np.ones((len(LABELS), 2))
    score = Task(LABELS).evaluate(tied, metrics=["eer", "map"])
    assert score["eer"].upper == score["eer"].value
    assert score["map"].lower == score["map"].value
    assert np.isnan([score["map"].expected, score["map"].upper]).all()


def test_a_public_result_says_what_it_lacks() -> None:
    result = evaluated()
    assert_refused(lambda: result.curve("cmc"), ["public result", "curves"])
    assert_refused(lambda: result.by("label"), ["public result"])
    assert_refused(lambda: truerank.compare(result, result), ["public result", "--full"])


# --- the commitment


def test_a_digest_confirms_a_guess_and_a_commitment_does_not() -> None:
    """Ten binary labels: all 512 partitions are tried, against what the participant holds."""
    labels = np.array([0, 1, 1, 0, 1, 0, 0, 0, 1, 1])
    task = Task(labels, ids=range(10))
    result = task.evaluate(np.eye(10), ids=range(10), metrics=["map"], confidence=None)
    told = result.to_json()
    guesses = [Task(list(guess), ids=range(10)) for guess in itertools.product((0, 1), repeat=10)]
    assert sum(guess.digest == task.digest for guess in guesses) == 1
    for guess in guesses:
        assert guess.digest not in told
        assert guess.commitment not in told  # the same labels with another salt
    assert task.commitment in told


def test_a_commitment_depends_on_labels_rules_and_salt(tmp_path: Path) -> None:
    task = Task(LABELS, ids=IDS)
    task.save(tmp_path / "task")
    assert Task.load(tmp_path / "task").commitment == task.commitment
    order = np.random.default_rng(0).permutation(len(IDS))
    salted: list[Task] = []
    for labels, options in (
        (LABELS[order], {"ids": IDS[order]}),
        (LABELS[order], {"ids": IDS}),
        (LABELS, {"ids": IDS, "unmated": "zero"}),
        (LABELS, {"ids": IDS, "groups": GROUPS}),
    ):
        salted.append(Task(labels, **options))
        salted[-1].__dict__["salt"] = task.salt
    assert salted[0].commitment == task.commitment
    assert len({other.commitment for other in salted}) == len(salted)


def test_a_file_without_a_salt_is_read_and_gets_one(tmp_path: Path) -> None:
    old = FOLDER / "0.1.0" / f"task-{in_words('cameras')}.npz"
    with np.load(old) as archive:
        assert b'"salt"' not in archive["header"].tobytes()
    task = Task.load(old)
    assert task.salt is task.commitment is None
    assert_refused(lambda: reveal(task), ["no salt"])
    task.save(tmp_path / "new.task")
    again = Task.load(tmp_path / "new.task")
    assert again.salt == task.salt is not None
    assert again.commitment == task.commitment is not None
    assert again.digest == Task.load(old).digest


def test_a_task_without_a_salt_has_results_without_a_commitment() -> None:
    task = Task(LABELS)
    task.__dict__["salt"] = None
    assert task.evaluate(ROWS, metrics=["map"]).provenance["task_commitment"] is None


def test_what_was_committed_to_can_be_checked(tmp_path: Path) -> None:
    task = Task(LABELS, ids=IDS)
    path = tmp_path / "revealed.json"
    reveal(task, path)
    assert check_revealed(path, task.commitment) == len(LABELS)
    told = json.loads(path.read_text())
    text = f"rules {json.dumps(told['rules'], sort_keys=True)}\n{told['text']}"
    by_hand = blake2b(text.encode(), key=bytes.fromhex(told["salt"]), digest_size=32).hexdigest()
    assert by_hand == task.commitment
    assert all(f"{name}" in told["text"] for name in (*IDS, *ANIMALS))
    changed = told | {"text": told["text"].replace(str(LABELS[0]), str(LABELS[0])[::-1], 1)}
    path.write_text(json.dumps(changed))
    assert_refused(lambda: check_revealed(path, task.commitment), ["committed to"])


@pytest.mark.parametrize(
    "change",
    [{"salt": "xyz"}, {"salt": None}, {"salt": "00" * 99}, {"text": 5}, {"rules": {1: set()}}],
)
def test_a_damaged_revelation_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "revealed.json"
    task = Task(LABELS)
    told = json.loads(reveal(task))
    path.write_text(json.dumps(told | change, default=str))
    assert_refused(lambda: check_revealed(path, task.commitment), ["revealed.json"])
    path.write_text("{}")
    assert_refused(lambda: check_revealed(path, task.commitment), ["not a revealed task"])


# --- public tasks


def test_a_public_task_holds_ids_in_an_order_of_their_own(tmp_path: Path) -> None:
    task = Task(LABELS, ids=IDS)
    task.public().save(tmp_path / "public.task")
    text = (tmp_path / "public.task").read_text()
    assert "animal" not in text
    assert task.digest not in text
    assert task.salt.hex() not in text
    again = PublicTask.load(tmp_path / "public.task")
    assert again == PublicTask(len(IDS), sorted(IDS.tolist()), task.commitment)


def test_a_submission_is_checked_as_the_organiser_would() -> None:
    public = Task(LABELS, ids=IDS).public()
    assert check_submission(public, ROWS, IDS, "cosine") == "60 rows, as the task requires."
    assert_refused(lambda: public.check(ROWS), ["pass ids="])
    assert_refused(lambda: public.check(ROWS[1:], IDS[1:]), ["1 missing"])
    bad = ROWS.copy()
    bad[3, 1] = np.nan
    assert_refused(lambda: public.check(bad, IDS), ["NaN", "row 3"])
    assert_refused(lambda: public.check(ROWS[0], IDS), ["shape"])
    assert_refused(lambda: public.check(ROWS, IDS, distance="precomputed"), ["distance"])
    in_order = Task(LABELS).public()
    assert in_order.check(ROWS).words() == []
    assert_refused(lambda: in_order.check(ROWS[1:]), ["60 rows", "Got 59"])
    assert_refused(lambda: in_order.check(ROWS, IDS), ["no ids"])
    assert_refused(lambda: Task(LABELS, gallery_labels=LABELS).public(), ["needs ids"])


def test_degenerate_submissions_are_named() -> None:
    public = Task(LABELS, ids=IDS).public()
    repeated = ROWS.copy()
    repeated[1:4] = repeated[0]
    repeated[10:12] = 0
    for rows, words in (
        (np.ones((60, 2)), "constant: all rows are equal"),
        (np.zeros((60, 2)), "all rows are zero"),
        (repeated, "2 rows of zeros; 6 equal another, as rows of equal items do"),
    ):
        assert f"degenerate: {words}." in check_submission(public, rows, IDS, "cosine")


@pytest.mark.parametrize(
    "content",
    [
        "{}",
        "[1]",
        '{"format": "truerank-public-task", "version": 2, "rows": 1, "ids": null}',
        '{"format": "truerank-public-task", "version": 1, "rows": 0, "ids": null}',
        '{"format": "truerank-public-task", "version": 1, "rows": 2, "ids": ["a"]}',
        '{"format": "truerank-public-task", "version": 1, "rows": 2, "ids": ["a", "a"]}',
        '{"format": "truerank-public-task", "version": 1, "rows": 1, "ids": [[]]}',
        '{"format": "truerank-public-task", "version": 1, "rows": 1, "commitment": 5}',
    ],
)
def test_files_that_hold_no_public_task(content: str, tmp_path: Path) -> None:
    path = tmp_path / "public.task"
    path.write_text(content)
    assert_refused(lambda: PublicTask.load(path), ["public task"])


def test_ids_and_orders_that_tell_labels_are_noticed() -> None:
    with pytest.warns(truerank.TruerankWarning, match="2 ids of the task contain the row's label"):
        warn_of_giveaways(Task(["cat", "dog", "dog"], ids=["Cat_1.png", "dog7", "x"]))
    with pytest.warns(truerank.TruerankWarning, match="sorted by class"):
        warn_of_giveaways(Task(["cat", "cat", "dog", "dog"]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_giveaways(Task(LABELS, ids=IDS))
        warn_of_giveaways(Task(LABELS))
