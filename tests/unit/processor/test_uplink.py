"""Uplink: bundled results, reports after results, and permission during a task."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from scaler.ids import ObjectId, TaskId
from scaler.processor import uplink
from scaler.processor.channel import Channel, ChannelClosedError
from scaler.processor.uplink import BATCH_NS, LATE_NS, REPORT_NS, SEND_AT_ONCE_US, TICK_SECONDS, Uplink
from scaler.wire.codec.codec import decode, encode
from scaler.wire.messages.common import InstructionKind, ObjectInstruction, OutputStream, TaskStatus
from scaler.wire.messages.directions import AGENT_TO_PROCESSOR, PROCESSOR_TO_AGENT
from scaler.wire.messages.processor import EndProcessor, ResumeTask, TaskOutput, TaskUnblocked
from scaler.wire.messages.worker import RunResult, RunTask
from tests.support.timing import at_best

FUNCTION = ObjectId(b"f" * 16)


class Agent:
    """The other end of the uplink."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        ours.settimeout(None)
        self.channel = Channel(ours)
        self.uplink = Uplink(Channel(theirs))

    def send(self, *items: Any) -> None:
        for header, frames in encode(AGENT_TO_PROCESSOR, items):
            self.channel.send(header, frames)

    def receive(self) -> list[Any]:
        messages = self.channel.receive()
        return [
            item
            for header, frames in messages
            for batch in decode(PROCESSOR_TO_AGENT, header, frames)
            for item in batch
        ]

    def close(self) -> None:
        self.channel.close()
        self.uplink._channel.close()


@pytest.fixture
def agent() -> Iterator[Agent]:
    one = Agent()
    yield one
    one.close()


def result(number: int) -> RunResult:
    return RunResult(TaskId(number.to_bytes(16, "big")), 0, 1, TaskStatus.SUCCESS, b"", 0, ())


def test_a_large_result_is_sent_before_the_next_task_can_change_it(agent: Agent) -> None:
    memory = bytearray(b"first")
    large = RunResult(TaskId(b"2" * 16), 0, 1, TaskStatus.SUCCESS, b"", 0, (memory,))
    agent.uplink.put(result(1), is_last=False)
    agent.uplink.put(large, is_last=False)
    memory[:] = b"other"
    assert [bytes(frame) for item in agent.receive() for frame in item.frames] == [b"first"]


def test_the_result_of_a_slow_task_is_sent_at_once(agent: Agent) -> None:
    slow = RunResult(TaskId(b"2" * 16), 0, 1, TaskStatus.SUCCESS, b"", SEND_AT_ONCE_US + 1, ())
    agent.uplink.put(slow, is_last=False)
    assert [item.duration_us for item in agent.receive()] == [slow.duration_us]


def test_results_of_short_tasks_are_sent_together(agent: Agent) -> None:
    agent.uplink.put(result(1), is_last=False)
    agent.uplink.put(result(2), is_last=True)
    agent.uplink.send_results()
    assert agent.receive() == [result(1), result(2)]


def patient(number: int, microseconds: int = 0) -> RunResult:
    return RunResult(TaskId(number.to_bytes(16, "big")), 0, 1, TaskStatus.SUCCESS, b"", microseconds, ())


def test_patient_results_are_sent_before_the_next_task_would_delay_them(agent: Agent) -> None:
    agent.uplink.put_batched(patient(1, BATCH_NS // 2000), FUNCTION)
    assert not agent.channel.has_input()
    agent.uplink.put_batched(patient(2, BATCH_NS // 1000), FUNCTION)
    assert len(agent.receive()) == 2
    agent.uplink.put_batched(patient(3, BATCH_NS // 1000 + 1), FUNCTION)
    assert len(agent.receive()) == 1, "the result of a long task does not wait"


@pytest.mark.parametrize(
    ("microseconds", "expected"),
    [(10_000, [0, 0, 3, 0]), (5_000, [0, 2, 0, 0]), (1_000, [0, 0, 0, 0])],
    ids=["before the last one", "earlier if they are shorter", "not when all are soon done"],
)
def test_patient_results_are_sent_while_enough_tasks_are_left(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, microseconds: int, expected: list[int]
) -> None:
    monkeypatch.setattr(uplink, "perf_counter_ns", lambda: 0)
    counts = []
    for left in (3, 2, 1, 0):
        agent.uplink.put_batched(patient(left, microseconds), FUNCTION, left)
        counts.append(len(agent.receive()) if agent.channel.has_input() else 0)
    assert counts == expected


def test_patient_results_wait_for_the_next_message_and_are_sent_before_an_idle_wait(agent: Agent) -> None:
    drops = [ObjectInstruction(InstructionKind.DELETE, bytes(15) + b"%d" % number, "", ()) for number in range(2)]
    received = agent.uplink.receive()
    for drop in drops:
        agent.uplink.put_batched(patient(1), FUNCTION)
        agent.uplink.send_urgent()
        agent.send(drop)
        assert next(received)[0] == drop
    assert not agent.channel.has_input()
    waiter = threading.Thread(target=next, args=(received,))
    waiter.start()
    assert len(agent.receive()) == 2
    agent.send(drops[0])
    waiter.join(10)
    assert not waiter.is_alive()


def test_a_running_range_ends_when_its_results_are_late_and_not_with_other_results(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ns = 0
    monkeypatch.setattr(uplink, "perf_counter_ns", lambda: now_ns)
    rows = agent.uplink.open_rows(RunTask(TaskId(bytes(16)), 0, 1, FUNCTION, b"", b"", rows=3))
    rows.blocks.append(b"of the first row")
    agent.uplink.put(result(7), is_last=False)
    now_ns = LATE_NS
    agent.uplink.send_results()
    assert agent.receive() == [result(7)], "such as a result from before the range"
    now_ns = LATE_NS + 1
    agent.uplink.send_results()
    assert [(item.task_id, item.rows, item.running) for item in agent.receive()] == [(bytes(16), 1, 2)]
    assert rows.is_over
    agent.uplink.send([TaskUnblocked(2)])
    assert agent.receive() == [TaskUnblocked(2)], "a range ends once"
    assert agent.uplink.close_rows(0) is False


def test_a_range_whose_last_row_has_just_ended_does_not_end_early(agent: Agent) -> None:
    rows = agent.uplink.open_rows(RunTask(TaskId(bytes(16)), 0, 1, FUNCTION, b"", b"", rows=2))
    rows.blocks += [b"first", b"second"]
    agent.uplink.end_rows()
    assert [(item.rows, item.running) for item in agent.receive()] == [(2, 0)]


@pytest.mark.parametrize(("function", "leaves"), [(b"f", False), (b"g", True)])
def test_patient_results_are_sent_before_a_range_of_unknown_duration(
    agent: Agent, function: bytes, leaves: bool
) -> None:
    agent.uplink.put_batched(patient(1), FUNCTION)
    agent.uplink.send_before(RunTask(TaskId(bytes(16)), 0, 1, ObjectId(function * 16), b"", b"", rows=2))
    assert agent.channel.has_input() is leaves
    assert agent.uplink.is_batching is not leaves


def test_an_urgent_result_is_sent_at_once_together_with_patient_results(agent: Agent) -> None:
    agent.uplink.put_batched(patient(1), FUNCTION)
    agent.uplink.put(result(2), is_last=False)
    assert agent.receive() == [patient(1), result(2)]
    agent.uplink.put(result(3), is_last=False)
    agent.uplink.put_batched(patient(4), FUNCTION)
    assert not agent.uplink.is_batching
    agent.uplink.send_urgent()
    assert agent.receive() == [result(3), patient(4)]


def test_patient_results_do_not_wait_for_a_long_task(agent: Agent) -> None:
    agent.uplink.start()
    for number in range(2):
        agent.uplink.put_batched(patient(number), FUNCTION)
        assert agent.receive() == [patient(number)]
        agent.uplink.put(result(number), is_last=False)
        assert agent.receive() == [result(number)]


def test_the_second_thread_does_not_send_patient_results_early(agent: Agent) -> None:
    def messages() -> int:
        agent.uplink.put(result(1), is_last=False)
        assert agent.receive() == [result(1)]
        agent.uplink.put_batched(patient(2), FUNCTION)
        time.sleep(3 * TICK_SECONDS)
        arrived = agent.channel.has_input()
        agent.uplink.send_results()
        agent.receive()
        return arrived

    agent.uplink.start()
    assert at_best(messages, 1) == 0


def test_a_line_of_the_next_task_makes_patient_results_urgent(agent: Agent) -> None:
    agent.uplink.put_batched(patient(1), FUNCTION)
    line = TaskOutput(2, OutputStream.STANDARD_OUTPUT, 7, 0, "said")
    agent.uplink.put_line(line)
    assert not agent.uplink.is_batching
    agent.uplink.send_results()
    assert agent.receive() == [patient(1), line]


def test_reports_are_sent_after_earlier_results(agent: Agent) -> None:
    agent.uplink.put(result(1), is_last=True)
    agent.uplink.send([TaskUnblocked(2)])
    assert agent.receive() == [result(1), TaskUnblocked(2)]


def test_a_result_does_not_wait_for_a_long_task(agent: Agent) -> None:
    agent.uplink.start()
    agent.uplink.put(result(1), is_last=False)
    assert agent.receive() == [result(1)]


def test_messages_received_during_a_task_are_kept_in_their_order(agent: Agent) -> None:
    drop = ObjectInstruction(InstructionKind.DELETE, b"o" * 16, "", ())
    agent.send(drop, ResumeTask(4), EndProcessor("enough"), ResumeTask(5))
    agent.uplink.await_permission(5)
    received = agent.uplink.receive()
    assert [next(received)[0], next(received)[0]] == [drop, EndProcessor("enough")]


def test_permission_for_another_task_is_ignored(agent: Agent) -> None:
    agent.send(ResumeTask(4))
    waiter = threading.Thread(target=agent.uplink.await_permission, args=(5,))
    waiter.start()
    agent.send(ResumeTask(5))
    waiter.join(10)
    assert not waiter.is_alive()


def test_the_end_of_the_agent_ends_the_received_messages(agent: Agent) -> None:
    agent.send(EndProcessor("last words"))
    agent.channel.close()
    received = agent.uplink.receive()
    assert next(received)[0] == EndProcessor("last words")
    with pytest.raises(ChannelClosedError):
        next(received)


def report(text: str) -> TaskOutput:
    return TaskOutput(1, OutputStream.REPORT, 7, 0, text)


def test_of_many_progress_reports_only_the_latest_are_sent_at_a_limited_rate(agent: Agent) -> None:
    agent.uplink.start()
    started_ns = time.monotonic_ns()
    for number in range(20_000):
        agent.uplink.put_report(report(str(number)))
    received: list[Any] = []
    while not received or received[-1].text != "19999":
        received += agent.receive()
    seconds = (time.monotonic_ns() - started_ns) / REPORT_NS
    assert len(received) <= seconds + 2  # two threads may take one each
    agent.uplink.put_report(report("later"))
    assert [line.text for line in agent.receive()] == ["later"]
