"""The search: a resumed one equals one that was never stopped, and diverging trials score 0."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from truerank._util.errors import InputError
from truerank.benchmark.methods import Method
from truerank.benchmark.search import Studies
from truerank.benchmark.tasks import FoldOutcome
from truerank.losses.registry import SearchChoice, SearchRange

METHOD = Method(
    "mine", "embedding", {}, {},
    {"x": SearchRange(0.0, 1.0), "lr": SearchRange(1e-5, 1e-2, log=True),
     "n": SearchRange(1, 9, integer=True), "kind": SearchChoice(("a", "b"))},
    {"x": 0.5, "lr": 1e-3, "n": 3, "kind": "b"},
)  # fmt: skip
TRIALS = 8


def outcome(score: float, state: str = "finished") -> FoldOutcome:
    return FoldOutcome(score, 1, 1, state, 0.0, [[0, None, 0.0]])


def studies(path: Path, methods: tuple[Method, ...] = (METHOD,)) -> Studies:
    return Studies(path, methods, trials=TRIALS, startup=3, folds=2, seed=0)


def objective(parameters: dict[str, Any], fold: int) -> float:
    return 1 - (parameters["x"] - 0.3) ** 2 - 0.01 * parameters["n"] + 0.001 * fold


def search(path: Path, stops: tuple[int, ...] = ()) -> list[Any]:
    """All trials; the study is closed and opened anew after some numbers of folds."""
    found = studies(path)
    folds = 0
    while (trial := found.current("mine")) is not None:
        for fold in range(2):
            if fold in trial.folds:
                continue
            found.record("mine", trial, fold, outcome(objective(trial.parameters, fold)))
            folds += 1
            if folds in stops:
                break
        if folds in stops:
            found.close()
            found = studies(path)
            stops = tuple(stop for stop in stops if stop != folds)
    result = [(trial.parameters, trial.score) for trial in found.found["mine"]]
    found.close()
    return result


def test_a_resumed_search_is_as_never_stopped(tmp_path: Path) -> None:
    whole = search(tmp_path / "whole.sqlite")
    assert whole == search(tmp_path / "stopped.sqlite", (1, 4, 9, 10, 13))
    assert len(whole) == TRIALS
    assert whole[0][0] == METHOD.defaults
    assert len({str(parameters) for parameters, _ in whole}) == TRIALS
    for parameters, _ in whole:
        assert 0 <= parameters["x"] <= 1
        assert 1e-5 <= parameters["lr"] <= 1e-2
        assert isinstance(parameters["n"], int)
        assert parameters["kind"] in ("a", "b")


def test_what_is_searched_does_not_depend_on_other_methods(tmp_path: Path) -> None:
    alone = search(tmp_path / "alone.sqlite")
    other = Method("other", "embedding", {}, {}, METHOD.space, METHOD.defaults)
    found = studies(tmp_path / "both.sqlite", (other, METHOD))
    for number in range(TRIALS):
        for name in ("other", "mine"):
            trial = found.current(name)
            assert trial is not None
            for fold in range(2):
                found.record(name, trial, fold, outcome(objective(trial.parameters, fold)))
        assert found.found["mine"][number].parameters == alone[number][0]
    assert [t.parameters for t in found.found["other"]][1:] != [p for p, _ in alone][1:]
    found.close()


def test_a_trial_with_a_diverged_fold_scores_0_and_is_shown(tmp_path: Path) -> None:
    found = studies(tmp_path / "study.sqlite")
    first = found.current("mine")
    assert first is not None
    found.record("mine", first, 0, outcome(0.8))
    found.record("mine", first, 1, outcome(0.0, "diverged"))
    second = found.current("mine")
    assert second is not None
    found.record("mine", second, 0, outcome(0.1))
    found.record("mine", second, 1, outcome(0.2))
    assert (first.score, first.state) == (0.0, "diverged")
    assert found.best("mine") is second
    states = [(row["trial"], row["fold"], row["state"]) for row in found.rows()]
    assert states[:2] == [(0, 0, "finished"), (0, 1, "diverged")]
    found.close()


def test_of_equal_trials_the_first_is_the_best(tmp_path: Path) -> None:
    found = studies(tmp_path / "study.sqlite")
    for _ in range(2):
        trial = found.current("mine")
        assert trial is not None
        for fold in range(2):
            found.record("mine", trial, fold, outcome(0.5))
    assert found.best("mine").number == 0
    found.close()


def test_a_file_that_is_no_study_is_refused(tmp_path: Path) -> None:
    (tmp_path / "study.sqlite").write_bytes(b"no database, but long enough to be looked at" * 99)
    with pytest.raises(InputError, match="cannot open the searches in"):
        studies(tmp_path / "study.sqlite")


def test_a_full_disk_ends_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = studies(tmp_path / "study.sqlite")
    trial = found.current("mine")
    assert trial is not None

    def full(*given: Any) -> None:
        raise OSError("database or disk is full")

    monkeypatch.setattr(found._storage, "set_trial_user_attr", full)
    with pytest.raises(InputError, match=r"cannot write to study.sqlite: database or disk is full"):
        found.record("mine", trial, 0, outcome(0.5))
    found.close()


def test_trials_whose_outcomes_are_known_are_taken_in(tmp_path: Path) -> None:
    whole = search(tmp_path / "whole.sqlite")
    told = studies(tmp_path / "told.sqlite")
    for parameters, _ in whole[:5]:
        folds = {fold: outcome(objective(parameters, fold)) for fold in range(2)}
        told.add("mine", parameters, folds)
    told.close()
    assert search(tmp_path / "told.sqlite") == whole  # which goes on as if it had searched itself
