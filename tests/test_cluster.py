"""Connecting to a cluster, its tasks and their errors; tests/whole has a cluster of processes."""

from __future__ import annotations

import pickle
import sys
from typing import Any

import numpy as np
import pytest

import truerank
from tests.in_process_cluster import InProcess, in_process
from tests.refusals import assert_refused, refused
from truerank._util import cluster
from truerank._util.cluster import SHARED_BYTES, Call, Cluster, LocalLock
from truerank._util.errors import ClusterError, InputError

pytest.importorskip("ray")
ROWS, LABELS = np.eye(4), ["a", "a", "b", "b"]


@pytest.mark.parametrize(
    "address",
    [3, "", "local", "nonsense", "127.0.0.1:1", "ray://127.0.0.1:1", "127.0.0.1:99999", True],
)
def test_where_no_cluster_is(address: Any) -> None:
    assert_refused(lambda: truerank.evaluate(ROWS, LABELS, cluster=address), ["luster"])


def test_a_gpu_that_the_cluster_has_not() -> None:
    with pytest.raises(InputError, match="the cluster has no GPU"):
        Cluster(InProcess(1), gpu=True)


@pytest.fixture
def _with_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is a fresh worker to which Ray has given its first GPU."""
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", lambda share: None)
    monkeypatch.setattr(cluster, "_taken", {})
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")


@pytest.mark.usefixtures("_with_a_gpu")
def test_a_worker_keeps_the_gpu_that_it_began_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA would go on with the first one, whatever the environment says later."""
    assert cluster.gpu_share() == 1.0
    for share in (0.25, 0.5):
        cluster._take_gpu(share)
        assert cluster.gpu_share() == share
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    with pytest.raises(SystemExit):
        cluster._take_gpu(0.25)


def test_a_worker_that_sees_no_gpu_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with refused("torch sees none"):
        cluster._take_gpu(1.0)
    monkeypatch.setitem(sys.modules, "torch", None)
    with refused("has no torch"):
        cluster._take_gpu(1.0)


def test_only_what_needs_a_gpu_asks_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shards are read, and clusters found, by the cores: there are more of them."""
    asked: dict[str, dict[str, Any]] = {}

    class Noted(InProcess):
        def remote(self, function: Any) -> Any:
            inner = super().remote(function)

            class Remote:
                def options(self, **wants: Any) -> Any:
                    asked[function.__name__] = wants
                    return inner.options(**wants)

            return Remote()

    ray = Noted(3)
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 3.0, "GPU": 1.0})
    monkeypatch.setattr(cluster, "_take_gpu", lambda share: None)
    both = Cluster(ray, gpu=None, share=0.5)
    assert {name: one.get("num_gpus", 0) for name, one in asked.items()} == {
        "_call": 0,
        "_call_and_keep": 0,
        "_call_on_gpu": 0.5,
    }
    assert [one["num_cpus"] for one in asked.values()] == [1, 1, 0]
    calls = [call(n, double, n, gpu=True) for n in range(5)]
    assert dict(both.gather(calls)) == {n: [2 * n] for n in range(5)}
    Cluster(Noted(0), gpu=False)  # machines that offer no core at all must do
    assert asked["_call"]["num_cpus"] == 0


def test_without_ray_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert_refused(lambda: truerank.evaluate(ROWS, LABELS, cluster="auto"), ["pip install ray"])


# -- tasks, which find these functions by their names ------------------------------------------


def double(held: list[Any], *given: Any) -> Any:
    return [*held, *(2 * one for one in given)]


def refuse(held: list[Any], name: str) -> None:
    raise InputError(f"{name} cannot be read.")


def fill(held: list[Any]) -> float:
    held[0][0] = 7.0
    return float(held[0].sum())


def tasks(*calls: Call) -> dict[Any, Any]:
    with in_process() as ray:
        return dict(Cluster(ray, gpu=False).gather(calls))


def call(key: Any, function: Any, *given: Any, **more: Any) -> Call:
    return Call(key, f"{__name__}:{function.__name__}", given=given, **more)


def test_answers_come_with_the_keys_of_their_calls() -> None:
    assert tasks(*(call(n, double, n) for n in range(20))) == {n: [2 * n] for n in range(20)}


def test_values_are_put_once_and_arrive_as_asked_for() -> None:
    with in_process() as ray:
        cluster = Cluster(ray, gpu=False)
        small, large = np.zeros(4), np.zeros(SHARED_BYTES // 8 + 1)
        assert cluster.put(small) is cluster.put(small)
        fresh = cluster.put(small, fresh=True)
        for _ in range(2):  # each task has a copy of its own
            assert dict(cluster.gather([call(0, fill, held=(fresh,))])) == {0: 7.0}
        with pytest.raises(ray.exceptions.RayTaskError) as caught:
            dict(cluster.gather([call(0, fill, held=(cluster.put(large),))]))
        assert "read-only" in str(caught.value.cause)


def test_an_answer_may_be_what_another_task_is_given() -> None:
    with in_process() as ray:
        cluster = Cluster(ray, gpu=False)
        first = cluster.start(call(None, double, 5))
        again = [call(0, double, 1, after=(first,))]
        assert dict(cluster.gather(again)) == {0: [2, [10, 10]]}


def test_after_an_error_nothing_is_begun_and_what_runs_is_heard() -> None:
    begun = []

    def calls() -> Any:
        for number in range(100):
            begun.append(number)
            yield call(number, refuse, "shard 3") if number == 3 else call(number, double, 1)

    heard = []
    with in_process(workers=2) as ray, refused("shard 3 cannot be read"):
        heard.extend(key for key, _ in Cluster(ray, gpu=False).gather(calls()))
    assert len(begun) < 100
    assert sorted([*heard, 3]) == begun


def test_a_worker_that_dies_each_time_is_told_in_one_sentence() -> None:
    with in_process() as ray:
        cluster = Cluster(ray, gpu=False)
        reference = cluster.start(call(None, double))
        reference.error = ray.exceptions.WorkerCrashedError()
        with pytest.raises(ClusterError, match="its worker died each time"):
            cluster.answer(reference)


def test_a_value_that_cannot_be_had_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """tests/whole sees Ray run the task again; here it has been run as often as it may."""
    monkeypatch.setattr(cluster, "LOOK_SECONDS", 0.0)
    with in_process() as ray:
        connected = Cluster(ray, gpu=False)
        for error in (ray.exceptions.ObjectLostError("0" * 56, None, ""), OSError("broken pipe")):
            held = connected.put(np.zeros(4))
            held.reference.error = error
            cluster._kept.clear()
            reference = connected.start(call(None, double, held=(held,)))
            assert isinstance(reference.error.cause, cluster.LostError)
            with pytest.raises(ClusterError, match=f"could not get .*{type(error).__name__}"):
                connected.answer(reference)
            connected.forget()


def test_a_lock_stays_in_its_process() -> None:
    lock = LocalLock()
    with lock, pickle.loads(pickle.dumps(lock)):
        pass
