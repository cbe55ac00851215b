"""What a client asks about the output of its tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scaler.client.link.outputs import OPEN_MOST, Outputs
from scaler.ids import NO_ID, TaskId
from scaler.wire.messages.client import OutputLine, OutputRequest, OutputResponse
from scaler.wire.messages.common import OutputStream

ONE, OTHER, ALL = TaskId(b"1" * 16), TaskId(b"2" * 16), TaskId(NO_ID)


def line(number: int, text: str) -> OutputLine:
    return OutputLine(number, ONE, OutputStream.STANDARD_OUTPUT, 7, 0, "name", "worker", text)


class Scene:
    def __init__(self) -> None:
        self.said: list[Any] = []
        self.outputs = Outputs(self.said.append)
        self.taken: list[tuple[list[str], int]] = []
        self.streamed: list[str] = []
        self.has_ended = False

    def take_log(self, lines: Sequence[OutputLine], dropped: int) -> None:
        self.taken.append(([each.text for each in lines], dropped))

    # A stream

    def take(self, line: OutputLine) -> None:
        self.streamed.append(line.text)

    def end(self) -> None:
        self.has_ended = True


def test_each_answer_goes_to_who_has_asked() -> None:
    scene = Scene()
    scene.outputs.ask(ONE, scene.take_log)
    scene.outputs.ask(OTHER, scene.take_log)
    assert scene.said == [OutputRequest(1, ONE), OutputRequest(2, OTHER)]
    scene.outputs.on_lines([line(2, "b"), line(1, "a"), line(2, "c"), line(99, "x")])
    scene.outputs.on_responses([OutputResponse(2, 5), OutputResponse(99, 0)])
    assert scene.taken == [(["b", "c"], 5)]
    scene.outputs.on_responses([OutputResponse(1, 0)])
    assert scene.taken[1:] == [(["a"], 0)]


def test_a_stream_takes_what_comes_without_being_asked_for() -> None:
    scene = Scene()
    scene.outputs.follow(scene)
    assert scene.said == [OutputRequest(1, ALL)]
    scene.outputs.on_lines([line(1, "a"), line(1, "b")])
    assert scene.streamed == ["a", "b"]


def test_a_new_session_is_asked_again_from_the_beginning() -> None:
    scene = Scene()
    scene.outputs.follow(scene)
    scene.outputs.ask(ONE, scene.take_log)
    scene.outputs.on_lines([line(2, "lost")])
    scene.said.clear()
    scene.outputs.resend()
    assert scene.said == [OutputRequest(1, ALL), OutputRequest(2, ONE)]
    scene.outputs.on_lines([line(2, "a")])
    scene.outputs.on_responses([OutputResponse(2, 0)])
    assert scene.taken == [(["a"], 0)]
    scene.said.clear()
    scene.outputs.resend()
    assert scene.said == [OutputRequest(1, ALL)]


def test_at_the_end_nobody_waits() -> None:
    scene = Scene()
    scene.outputs.follow(scene)
    scene.outputs.ask(ONE, scene.take_log)
    scene.outputs.end()
    assert (scene.taken, scene.has_ended) == ([([], 0)], True)


def test_requests_that_were_given_up_are_forgotten() -> None:
    scene = Scene()
    for _ in range(OPEN_MOST + 10):
        scene.outputs.ask(ONE, scene.take_log)
    scene.said.clear()
    scene.outputs.resend()
    assert len(scene.said) == OPEN_MOST


def test_a_question_for_a_report_is_said_again_as_such() -> None:
    scene = Scene()
    scene.outputs.ask(ONE, scene.take_log, report=True)
    scene.outputs.resend()
    assert scene.said == [OutputRequest(1, ONE, 1)] * 2
