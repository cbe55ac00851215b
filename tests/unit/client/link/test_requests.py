from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from scaler.client.link.open_work import OpenWork
from scaler.client.link.requests import Answer, Inquiry, JobQuestion, OutputFollower, OutputQuery, Requests
from scaler.ids import NO_ID, TaskId
from scaler.peer.conversation_state import TRIES_MOST
from scaler.wire.messages.client import (
    InfoRequest,
    InfoResponse,
    JobVerb,
    OutputLine,
    OutputRequest,
    OutputResponse,
    WorkerDetails,
)
from scaler.wire.messages.common import OutputStream


class Asked(Inquiry[list[str]]):
    """An inquiry that records each answer."""

    def __init__(self, detailed: int = 0, workers: int = 0, restart: bool = False) -> None:
        super().__init__(lambda _, described: [each.name for each in described], detailed, workers, restart)
        self.heard: list[tuple[int, list[str]]] = []

    def receive(self, response: InfoResponse, described: list[Any]) -> bool:
        self.heard.append((response.workers, [each.name for each in described]))
        return super().receive(response, described)


def described(number: int, name: str) -> WorkerDetails:
    return WorkerDetails(number, name, 0, 0, 0, "", "", "")


def test_each_inquiry_has_its_own_number_and_answers() -> None:
    work, one, other = OpenWork(), Asked(detailed=True), Asked(workers=3)
    inquiries = work.inquiries
    for asked in (one, other, Asked(restart=True)):
        work.inquire(asked)
    assert work.out == [InfoRequest(1, 1, 0), InfoRequest(2, 0, 3), InfoRequest(3, restart=1)]
    inquiries.on_rows([described(1, "w")])
    inquiries.on_responses([InfoResponse(2, 1, 1, 1, 0)])
    inquiries.on_responses([InfoResponse(1, 1, 1, 1, 0)])
    assert (one.heard, other.heard, len(inquiries.open)) == ([(1, ["w"])], [(1, [])], 2)
    inquiries.on_responses([InfoResponse(2, 3, 1, 1, 0)])
    inquiries.on_responses([InfoResponse(2, 4, 1, 1, 0)])
    assert (other.heard, len(inquiries.open)) == ([(1, []), (3, [])], 1)


def test_a_partial_answer_is_dropped_on_the_next_connection() -> None:
    work, asked = OpenWork(), Asked(detailed=True)
    work.inquire(asked)
    assert work.is_waiting()
    work.inquiries.on_rows([described(1, "of the lost answer")])
    work.start_over()
    assert work.out == [InfoRequest(1, 1, 0)]
    work.inquiries.on_rows([described(1, "w")])
    work.inquiries.on_responses([InfoResponse(1, 1, 1, 1, 0)])
    assert asked.heard == [(1, ["w"])]
    assert not work.is_waiting()


def test_a_withdrawn_inquiry_is_forgotten_on_both_sides() -> None:
    work, asked = OpenWork(), Asked(workers=2)
    work.inquire(asked)
    work.withdraw(asked)
    assert work.out == [InfoRequest(1, 0, 2), InfoRequest(1)]
    assert not work.is_waiting()
    work.inquiries.on_responses([InfoResponse(1, 5, 1, 1, 0)])
    assert asked.heard == []


def test_inquiries_fail_without_a_scheduler() -> None:
    work, asked = OpenWork(), Asked()
    work.inquire(asked)
    work.give_up(TimeoutError, KeyError, tell=False)
    assert isinstance(asked.exception(0), KeyError)
    assert not work.is_waiting()


ONE, OTHER, ALL = TaskId(b"1" * 16), TaskId(b"2" * 16), TaskId(NO_ID)


def line(number: int, text: str) -> OutputLine:
    return OutputLine(number, ONE, OutputStream.STANDARD_OUTPUT, 7, 0, "name", "worker", text)


class Scene:
    def __init__(self) -> None:
        self.said: list[Any] = []
        self.outputs: Requests[OutputLine, OutputResponse] = Requests(self.said.append)
        self.taken: list[tuple[list[str], int]] = []
        self.streamed: list[str] = []
        self.has_ended = False

    def take_log(self, lines: Sequence[OutputLine], dropped: int) -> None:
        self.taken.append(([each.text for each in lines], dropped))

    def ask(self, task_id: TaskId) -> None:
        self.outputs.add(OutputQuery(self.take_log), lambda number: OutputRequest(number, task_id))

    def follow(self) -> None:
        follower = OutputFollower(self)
        self.outputs.add(follower, lambda number: OutputRequest(number, ALL), follower)

    # A stream

    def take(self, line: OutputLine) -> None:
        self.streamed.append(line.text)

    def end(self) -> None:
        self.has_ended = True


def test_each_answer_is_delivered_to_its_request() -> None:
    scene = Scene()
    scene.ask(ONE)
    scene.ask(OTHER)
    assert scene.said == [OutputRequest(1, ONE), OutputRequest(2, OTHER)]
    scene.outputs.on_rows([line(2, "b"), line(1, "a"), line(2, "c"), line(99, "x")])
    scene.outputs.on_responses([OutputResponse(2, 5), OutputResponse(99, 0)])
    assert scene.taken == [(["b", "c"], 5)]
    scene.outputs.on_responses([OutputResponse(1, 0)])
    assert scene.taken[1:] == [(["a"], 0)]


def test_a_stream_takes_lines_as_they_arrive() -> None:
    scene = Scene()
    scene.follow()
    assert scene.said == [OutputRequest(1, ALL)]
    scene.outputs.on_rows([line(1, "a"), line(1, "b")])
    assert scene.streamed == ["a", "b"]


def test_open_requests_are_sent_again_in_a_new_session() -> None:
    scene = Scene()
    scene.follow()
    scene.ask(ONE)
    scene.outputs.on_rows([line(2, "lost")])
    scene.said.clear()
    scene.outputs.resend()
    assert scene.said == [OutputRequest(1, ALL), OutputRequest(2, ONE)]
    scene.outputs.on_rows([line(2, "a")])
    scene.outputs.on_responses([OutputResponse(2, 0)])
    assert scene.taken == [(["a"], 0)]
    scene.said.clear()
    scene.outputs.resend()
    assert scene.said == [OutputRequest(1, ALL)]


def test_at_the_end_all_requests_and_streams_end() -> None:
    scene = Scene()
    scene.follow()
    scene.ask(ONE)
    scene.outputs.fail(KeyError)
    assert (scene.taken, scene.has_ended) == ([([], 0)], True)


GOOD = {"verb": JobVerb.ROWS, "name": "job", "first": 0, "amount": 1, "body": b"", "frames": (b"block",)}


@pytest.mark.parametrize(
    "wrong",
    [
        {"verb": 99},
        {"verb": "open"},
        {"name": 23},
        {"name": None},
        {"name": b"job"},
        {"first": 2.5},
        {"first": -1},
        {"first": 2**64},
        {"first": None},
        {"first": "1"},
        {"amount": 2**32},
        {"amount": None},
        {"body": None},
        {"body": 5},
        {"frames": None},
        {"frames": ("text",)},
        {"frames": (None,)},
    ],
    ids=str,
)
def test_a_job_request_that_cannot_be_written_is_refused_when_it_is_made(wrong: dict[str, Any]) -> None:
    JobQuestion(**GOOD)
    with pytest.raises((TypeError, ValueError)):
        JobQuestion(**{**GOOD, **wrong})


@pytest.mark.parametrize(
    "wrong", [{"workers": 2**32}, {"workers": -1}, {"workers": 2.5}, {"leave": 5}, {"cancel_tasks": None}], ids=str
)
def test_an_inquiry_that_cannot_be_written_is_refused_when_it_is_made(wrong: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        Inquiry(lambda *answer: answer, **wrong)


def test_after_many_unreadable_messages_output_requests_end_empty_and_streams_continue() -> None:
    heard: list[Any] = []
    requests: Requests[OutputLine, OutputResponse] = Requests(lambda _item: None)
    requests.add(OutputQuery(lambda lines, dropped: heard.append((lines, dropped))), lambda n: OutputRequest(n, ONE))
    stream = SimpleNamespace(take=heard.append, end=lambda: heard.append("ended"))
    requests.add(OutputFollower(stream), lambda n: OutputRequest(n, ALL))
    for _ in range(TRIES_MOST):
        assert heard == []
        requests.on_unreadable(KeyError)
    assert heard == [((), 0)]
    assert list(requests.open) == [2]


def test_an_answer_that_is_canceled_while_it_is_read_stays_canceled() -> None:
    def reads(value: int) -> int:
        assert answer.cancel()  # as a coroutine in another thread does that awaits it
        return value

    answer: Answer[int] = Answer(reads)
    answer.take(1)
    assert answer.cancelled()

    def fails() -> BaseException:
        assert other.cancel()
        return ValueError()

    other: Answer[int] = Answer(reads)
    other.fail(fails)
    assert other.cancelled()
