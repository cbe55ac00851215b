"""Explanation: tells users why a task waits, and what has happened to it.

Called by futures and clients in the thread of the user, which waits briefly for the scheduler's answer.
"""

from __future__ import annotations

from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, fields, replace

from scaler.client.calls.inputs import EndedFuture
from scaler.client.link.link import ClientLink
from scaler.client.link.requests import Answer
from scaler.ids import ID_BYTES, TaskId
from scaler.texts import described, shown
from scaler.wire.messages.client import ExplainResponse
from scaler.wire.messages.vocabulary import ENDED, UNKNOWN

ANSWER_SECONDS = 2.0
"""The longest time that a user waits for the scheduler's answer about a task."""
SECOND_TRY_SECONDS = 0.1
"""The longest time that a user waits for the answer to a second request, if the first one was not answered in time."""
TIMEOUT_ANSWER_SECONDS = 0.25
"""The longest time by which a `TimeoutError` is delayed by the request for its reason."""
WORTH_ASKING_SECONDS = 1.0
"""The shortest time-out whose `TimeoutError` gives a reason. Users take shorter time-outs only to poll a future."""


@dataclass(frozen=True, repr=False)
class Story:
    """The known facts about a task at one moment.

    Attributes:
        task_id: the id of the task, 16 bytes.
        name: the name of the task; empty if only its id was given.
        state: *inactive* (the task waits), *running* (a worker has the task), *canceling*, *success*, *failed*,
            *canceled*, or empty if unknown.
        waits_for: why the task waits, in a word or two: `no worker`, `no worker can take it`, `taken`, `no room`,
            `inputs`, `worker`, `children`, `window`, `transfer`, `no scheduler`, ...
        sentence: why the task waits, as a sentence with advice.
        worker: the worker that has or had the task; empty if unknown, such as after 10,000 more tasks have ended.
        tries: the number of the current try, from 1; 0 if unknown.
        past: why the earlier tries ended; empty if there were none.
        seconds: for how long, at least, the task has waited in this state or has run; None if unknown.
    """

    task_id: bytes
    name: str
    state: str
    waits_for: str
    sentence: str
    worker: str = ""
    tries: int = 0
    past: str = ""
    seconds: float | None = None

    def __repr__(self) -> str:
        given = {each.name: getattr(self, each.name) for each in fields(self)} | {"task_id": self.task_id.hex()}
        return f"Story({', '.join(f'{name}={value!r}' for name, value in given.items())})"

    def __str__(self) -> str:
        again = f" This is try {self.tries}; {self.past}." if self.past else ""
        short = self.task_id.hex()[-8:]
        return f"task {f'{self.name} ({short})' if self.name else short}: {self.sentence}.{again}"


def checked_task_id(task: object) -> TaskId:
    """Return `task`. Raise `ValueError` unless it is the id of a task."""
    if not isinstance(task, bytes) or len(task) != ID_BYTES:
        raise ValueError(
            f"pass the task's future from this class of client, or the task's id of {ID_BYTES} bytes, not {shown(task)}"
        )
    return TaskId(task)


def request_story(link: ClientLink, task_id: TaskId, name: str, future: EndedFuture | None, seconds: float) -> Story:
    """Return the story of a task. Wait at most `seconds` for the scheduler's answer.

    Args:
        future: the future of the task, if this client has one.
    """
    answer = None
    if future is None or not future.done():
        answer = _ask(link, task_id, seconds) or _ask(link, task_id, SECOND_TRY_SECONDS)
    elif may_know(link, future):
        answer = _ask(link, task_id, seconds)
    return story_of(task_id, name, future, answer, seconds)


def may_know(link: ClientLink, future: EndedFuture) -> bool:
    """Return whether the scheduler may know where an ended task ran."""
    return not (link.closed_because or future.cancelled())


def question() -> Answer[ExplainResponse]:
    """Return a new future for the scheduler's answer about a task."""
    return Answer(lambda answer: answer)


def _ask(link: ClientLink, task_id: TaskId, seconds: float) -> ExplainResponse | None:
    answer = question()
    link.ask(task_id, answer.take)
    try:
        return answer.result(seconds)
    except FutureTimeoutError:
        return None


def story_of(
    task_id: TaskId, name: str, future: EndedFuture | None, answer: ExplainResponse | None, seconds: float
) -> Story:
    """Return the story of a task.

    Args:
        future: the future of the task, if this client has one.
        answer: the answer of the scheduler; None if no answer has arrived after `seconds`.
    """
    if future is not None and future.done():
        return replace(_from_end(task_id, name, future), worker="" if answer is None else answer.worker)
    if answer is None:
        sentence = f"the scheduler did not answer within {seconds:g} seconds: it is busy or unreachable"
        return Story(task_id, name, "", UNKNOWN, sentence)
    if answer.waits_for == ENDED:
        return Story(task_id, name, "", ENDED, "this client has no open task with this id: it has ended", answer.worker)
    since = answer.state_ms / 1000 if answer.state_ms else None
    known = (answer.waits_for, answer.sentence, answer.worker, answer.tries, answer.past, since)
    return Story(task_id, name, answer.state or "inactive", *known)


def _from_end(task_id: TaskId, name: str, future: EndedFuture) -> Story:
    if future.cancelled():
        return Story(task_id, name, "canceled", ENDED, "it was cancelled")
    error = future.exception()
    if error is None:
        return Story(task_id, name, "success", ENDED, "it has finished, and its result is available")
    return Story(task_id, name, "failed", ENDED, f"it has failed: {described(error)}"[:400])


def timeout_text(link: ClientLink, future: EndedFuture, task_id: TaskId, name: str, timeout: float) -> str:
    """Return the text of a `TimeoutError` for an open task. It says why the task is open, unless `timeout` is short."""
    text = f"task {name} ({task_id.hex()[-8:]}) has not ended within {timeout:g} seconds"
    if timeout < WORTH_ASKING_SECONDS:
        return text
    return f"{text}: {request_story(link, task_id, name, future, TIMEOUT_ANSWER_SECONDS).sentence}"


def unfetched_text(task_id: TaskId, name: str) -> str:
    """Return the text of a `TimeoutError` for a task that has ended, whose large result has not arrived in time."""
    return (
        f"the result of task {name} ({task_id.hex()[-8:]}) has not arrived in time: it is in transit, or its host "
        f"was lost and the task must run again; request the result again"
    )
