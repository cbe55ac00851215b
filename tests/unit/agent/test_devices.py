"""The GPUs that each run of a node gets."""

from __future__ import annotations

import pytest

from scaler.agent.devices import DEVICES_MOST, Devices, check_gpus, devices_of
from scaler.amounts import GPUS_VARIABLE
from scaler.config import ConfigError
from scaler.ids import ObjectId, TaskId
from scaler.settings import ClusterConfig
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.worker import RecallResponse, RunBlocked, RunResult, RunTask, RunUnblocked


def run(number: int, gpus: int = 1, worker: int = 0, attempt: int = 1) -> RunTask:
    options = RunOptions(profiling=True, capabilities=(("gpu", gpus),) if gpus else ()).encode()
    return RunTask(TaskId(bytes([number]) * 16), worker, attempt, ObjectId(bytes(16)), b"", b"", options=options)


def numbers(devices: Devices, *runs: RunTask) -> list[tuple[int, ...]]:
    return [RunOptions.decode(task.options).devices for task in devices.number(Batch[RunTask](runs))]


def result(task: RunTask) -> RunResult:
    return RunResult(task.task_id, task.worker, task.attempt, TaskStatus.SUCCESS, b"", 0, ())


def test_runs_get_different_devices_and_keep_their_other_options() -> None:
    devices = Devices(3)
    plain = RunTask(TaskId(bytes(16)), 0, 1, ObjectId(bytes(16)), b"", b"")
    tasks = Batch[RunTask]([run(1), plain, run(2, gpus=2, worker=1), run(3, gpus=0)])
    one, same, two, other = devices.number(tasks)
    assert RunOptions.decode(one.options) == RunOptions(True, capabilities=(("gpu", 1),), devices=(0,))
    assert RunOptions.decode(two.options).devices == (1, 2)
    assert (same, other) == (tasks[1], tasks[3])


def test_a_device_is_free_when_its_run_has_ended_or_was_recalled() -> None:
    devices = Devices(2)
    tasks = [run(1), run(2, worker=1)]
    assert numbers(devices, *tasks) == [(0,), (1,)]
    assert numbers(devices, tasks[1]) == [(1,)]  # the same run, assigned again
    devices.end([result(tasks[1])])
    devices.end([result(tasks[1])])
    assert numbers(devices, run(3, worker=2)) == [(1,)]
    devices.end([RecallResponse(tasks[0].task_id, 0, 1)])
    assert numbers(devices, run(4, worker=3)) == [(0,)]
    devices.end([result(run(9))])
    assert devices._users == [1, 1]


def test_a_worker_gets_its_last_device_again_if_that_is_free() -> None:
    devices = Devices(3)
    tasks = [run(number, worker=number) for number in range(3)]
    assert numbers(devices, *tasks) == [(0,), (1,), (2,)]
    devices.end(map(result, tasks))
    again = [run(10 + number, worker=number) for number in reversed(range(3))]
    assert numbers(devices, *again) == [(2,), (1,), (0,)]


def test_a_blocked_run_lends_its_device() -> None:
    devices = Devices(1)
    parent, child = run(1), run(2, worker=1)
    assert numbers(devices, parent) == [(0,)]
    blocked = RunBlocked(parent.task_id, 0, 1)
    devices.block([blocked, blocked])
    assert numbers(devices, child) == [(0,)]
    assert devices._users == [1]
    devices.resume([RunUnblocked(parent.task_id, 0, 1)] * 2)
    assert devices._users == [2]
    devices.block([blocked])
    devices.end([result(parent), result(child)])
    assert (devices._users, devices._runs, devices._blocked) == ([0], {}, set())


def test_a_run_gets_at_most_all_devices() -> None:
    assert numbers(Devices(2), run(1, gpus=9)) == [(0, 1)]
    assert devices_of([("memory", 5)]) is None
    assert devices_of([("gpu", DEVICES_MOST + 1)]) is None
    assert isinstance(devices_of([("gpu", 1)]), Devices)


@pytest.mark.parametrize(
    ("offered", "value", "refused"),
    [
        ("gpu=2", None, ""),
        ("gpu=2", "5,7", ""),
        ("gpu=2", " GPU-8932f937,MIG-41b35 ", ""),
        ("memory=2", "", ""),
        (f"gpu={DEVICES_MOST + 1}", "0", ""),
        ("gpu=2", "2", "='2' names 1 GPU; offer gpu=1, or name more GPUs in this variable"),
        ("gpu=3", "0,1,1,0", "names 2 GPUs; offer gpu=2"),
        ("gpu=2", "0,-1,1", "names 1 GPU;"),
        ("gpu=1", "-1", "names 0 GPUs; leave gpu out"),
        ("gpu=1", "NoDevFiles", "names 0 GPUs"),
        ("gpu=1", "", "='' names 0 GPUs"),
    ],
)
def test_more_gpus_than_the_environment_names_are_refused(offered: str, value: str | None, refused: str) -> None:
    environment = {} if value is None else {GPUS_VARIABLE: value}
    config = ClusterConfig("tcp://127.0.0.1:1", capabilities=(offered,))
    check_gpus(ClusterConfig("tcp://127.0.0.1:1", capabilities=(offered,), engine="ray"), environment)
    if not refused:
        check_gpus(config, environment)
        return
    with pytest.raises(ConfigError, match=refused):
        check_gpus(config, environment)
