"""What users can read about one task."""

from __future__ import annotations

import threading
import time
from concurrent.futures import TimeoutError as FutureTimeoutError

import pytest

from scaler.client import Client
from scaler.client.insight.explanation import ANSWER_SECONDS, Story
from scaler.errors import DisconnectedError
from scaler.ids import TaskId
from scaler.wire.messages.client import ExplainRequest, ExplainResponse, Task
from scaler.wire.messages.vocabulary import NO_SCHEDULER, NO_WORKER, UNKNOWN
from tests.support.fake_scheduler import FakeScheduler

SENTENCE = "no worker is connected to the scheduler"


class Answers:
    """A thread that answers the first request of the client that does not only report a waiting thread."""

    def __init__(self, scheduler: FakeScheduler) -> None:
        self._scheduler = scheduler
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        request, *_ = self._scheduler.wait_for(ExplainRequest, where=lambda each: not each.wanted)
        self._scheduler.say(
            ExplainResponse(request.task_id, "inactive", NO_WORKER, SENTENCE, "", 2, "try 1 crashed: x", 40_500)
        )

    def join(self) -> None:
        self._thread.join()


def test_a_story_contains_the_reply_of_the_scheduler(client: Client, scheduler: FakeScheduler) -> None:
    scheduler.answers_tasks = False
    future = client.submit(abs, -1)
    answers = Answers(scheduler)
    story = client.story(future)
    answers.join()
    assert story == Story(future.task_id, "abs", "inactive", NO_WORKER, SENTENCE, "", 2, "try 1 crashed: x", 40.5)
    assert str(story) == f"task abs ({future.task_id.hex()[-8:]}): {SENTENCE}. This is try 2; try 1 crashed: x."
    assert repr(story).startswith(f"Story(task_id='{future.task_id.hex()}', name='abs', state='inactive', ")


def test_an_open_task_can_be_asked_about_by_its_id(client: Client, scheduler: FakeScheduler) -> None:
    scheduler.answers_tasks = False
    future = client.submit(abs, -1)
    answers = Answers(scheduler)
    story = client.story(future.task_id)
    assert story.sentence == SENTENCE
    assert str(story).startswith(f"task {future.task_id.hex()[-8:]}: {SENTENCE}.")
    answers.join()
    with pytest.raises(ValueError, match="16 bytes"):
        client.story(b"short")


def test_the_end_of_a_task_is_explained_without_the_scheduler(client: Client, scheduler: FakeScheduler) -> None:
    good, bad = client.submit(abs, -1), client.submit(divmod, 1, 0)
    assert good.result(10) == 1
    assert good.explain() == "it has finished, and its result is available"
    assert isinstance(bad.exception(10), ZeroDivisionError)
    assert "ZeroDivisionError" in bad.explain()
    scheduler.answers_tasks = False
    gone = client.submit(abs, -1)
    gone.cancel()
    assert (gone.story().state, gone.story().worker) == ("canceled", "")
    assert scheduler.of(ExplainRequest) == []
    client.disconnect()
    assert (bad.story().state, bad.story().worker) == ("failed", "")


def test_the_worker_of_an_ended_task_is_known_from_the_scheduler(client: Client, scheduler: FakeScheduler) -> None:
    good, bad = client.submit(abs, -1), client.submit(divmod, 1, 0)
    assert (good.result(10), type(bad.exception(10))) == (1, ZeroDivisionError)
    assert [(each.story().state, each.story().worker) for each in (good, bad)] == [("success", "w"), ("failed", "w")]
    assert client.story(good.task_id).worker == "w"
    assert client.story(good.task_id).sentence == "this client has no open task with this id: it has ended"


def test_the_story_of_a_task_of_another_client_is_requested_from_the_scheduler(
    client: Client, scheduler: FakeScheduler
) -> None:
    theirs = TaskId(b"x" * 16)
    scheduler.begun.add(theirs)
    assert client.story(theirs).sentence == "it runs at worker w"


@pytest.mark.thorough
def test_a_story_without_an_answer_of_the_scheduler_ends_after_a_time_out(
    client: Client, scheduler: FakeScheduler
) -> None:
    scheduler.answers_tasks = False
    future = client.submit(abs, -1)
    started = time.monotonic()
    assert future.story().waits_for == UNKNOWN
    assert ANSWER_SECONDS - 0.1 <= time.monotonic() - started < ANSWER_SECONDS + 5


@pytest.mark.thorough
def test_a_timeout_error_names_the_task_and_what_it_waits_for(
    client: Client, scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scaler.client.insight.explanation.TIMEOUT_ANSWER_SECONDS", 30.0)  # however busy the machine is
    scheduler.answers_tasks = False
    future = client.submit(abs, -1)
    with pytest.raises(FutureTimeoutError, match=r"task abs \(\w+\) has not ended within 0.01 seconds$"):
        future.result(0.01)
    assert scheduler.of(ExplainRequest) == []
    answers = Answers(scheduler)
    with pytest.raises(FutureTimeoutError, match=f"within 1 seconds: {SENTENCE}"):
        future.result(1)
    answers.join()
    with pytest.raises(FutureTimeoutError, match="has not ended"):
        future.exception(0)


@pytest.mark.thorough
def test_without_a_scheduler_the_client_explains_the_task_itself() -> None:
    with Client("tcp://127.0.0.1:1") as client:
        story = client.submit(abs, -1).story()
        assert story.waits_for == NO_SCHEDULER
        assert "scaler_scheduler tcp://127.0.0.1:1" in story.sentence


def test_a_disconnected_client_has_no_stories(client: Client) -> None:
    client.disconnect()
    with pytest.raises(DisconnectedError):
        client.story(TaskId(b"x" * 16))


def test_a_request_for_a_story_is_sent_after_its_task(client: Client, scheduler: FakeScheduler) -> None:
    scheduler.answers_tasks = False
    future = client.submit(abs, -1)
    answers = Answers(scheduler)
    future.explain()
    answers.join()
    kinds = [type(item) for item in scheduler.heard if type(item) in (Task, ExplainRequest)]
    assert kinds == [Task, ExplainRequest]
