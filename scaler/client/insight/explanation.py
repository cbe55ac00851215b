"""Explanation: what a task waits for, and its story, for users.

Called by futures and clients, in the thread of the user, which waits for the scheduler's answer for a moment. Must
never: wait for longer than that.
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
"""How long a user waits for the answer of the scheduler."""
AGAIN_SECONDS = 0.1
"""The same for what the client knows itself, when the scheduler has not answered."""
TIMEOUT_ANSWER_SECONDS = 0.25
"""The same for the sentence in a `TimeoutError`, which must not come late."""
WORTH_ASKING_SECONDS = 1.0
"""A time-out that is shorter is a look at the future, and has no time to ask."""


@dataclass(frozen=True, repr=False)
class Story:
    """What is known of a task at one moment.

    Attributes:
        task_id: its id, 16 bytes.
        name: its name; empty if only its id was known.
        state: *inactive* (it waits), *running* (a worker has it), *canceling*, *success*, *failed*, *canceled*, or
            empty if it is not known.
        waits_for: in a word or two: `no worker`, `no worker can take it`, `taken`, `no room`, `inputs`, `worker`,
            `children`, `window`, `transfer`, `no scheduler`, ...
        sentence: the same for people, with what to do about it.
        worker: the worker that has it; if it has ended, the one that ran it, as long as it is among the last 10,000
            tasks of the scheduler; or an empty text.
        tries: which try this is, from 1; 0 if it is not known.
        past: why the earlier tries ended, or an empty text.
        seconds: for how long at least it waits in this state, or runs; None: not known.
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
    """Return the id of a task that a user gave.

    Raises:
        ValueError: if it is not one.
    """
    if not isinstance(task, bytes) or len(task) != ID_BYTES:
        raise ValueError(
            f"pass the task's future, from this kind of client, or its id of {ID_BYTES} bytes; not {shown(task)}"
        )
    return TaskId(task)


def tell(link: ClientLink, task_id: TaskId, name: str, future: EndedFuture | None, seconds: float) -> Story:
    """Return the story of a task. The scheduler is asked about it: where it ran, if it has ended.

    Args:
        future: its future, if there is one.
        seconds: the longest wait for the answer.
    """
    answer = None
    if future is None or not future.done():
        answer = _ask(link, task_id, seconds) or _ask(link, task_id, AGAIN_SECONDS)
    elif may_know(link, future):
        answer = _ask(link, task_id, seconds)
    return story_of(task_id, name, future, answer, seconds)


def may_know(link: ClientLink, future: EndedFuture) -> bool:
    """Return whether the scheduler may know where a task ran that has ended."""
    return not (link.closed_because or future.cancelled())


def question() -> Answer[ExplainResponse]:
    """Return what takes the answer to a question about a task."""
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
    """Return the story of a task: how it ended, or the scheduler's answer; None: none came within so many seconds."""
    if future is not None and future.done():
        return replace(_from_end(task_id, name, future), worker="" if answer is None else answer.worker)
    if answer is None:
        sentence = f"the scheduler did not say within {seconds:g} seconds what it waits for: it is busy, or not there"
        return Story(task_id, name, "", UNKNOWN, sentence)
    if answer.waits_for == ENDED:
        return Story(task_id, name, "", ENDED, "this client has no open task of that id: it has ended", answer.worker)
    since = answer.state_ms / 1000 if answer.state_ms else None
    known = (answer.waits_for, answer.sentence, answer.worker, answer.tries, answer.past, since)
    return Story(task_id, name, answer.state or "inactive", *known)


def _from_end(task_id: TaskId, name: str, future: EndedFuture) -> Story:
    if future.cancelled():
        return Story(task_id, name, "canceled", ENDED, "it was cancelled")
    error = future.exception()
    if error is None:
        return Story(task_id, name, "success", ENDED, "it has ended, and its result is there")
    return Story(task_id, name, "failed", ENDED, f"it has failed: {described(error)}"[:400])


def late(link: ClientLink, future: EndedFuture, task_id: TaskId, name: str, timeout: float) -> str:
    """Return the text of a `TimeoutError`: which task was not ready, and why if there is time to ask."""
    text = f"task {name} ({task_id.hex()[-8:]}) has not ended within {timeout:g} seconds"
    if timeout < WORTH_ASKING_SECONDS:
        return text
    return f"{text}: {tell(link, task_id, name, future, TIMEOUT_ANSWER_SECONDS).sentence}"


def not_here(task_id: TaskId, name: str) -> str:
    """Return the text of a `TimeoutError`: a task has ended, and its large result has not come in time."""
    return (
        f"the result of task {name} ({task_id.hex()[-8:]}) has not come in time: it is on its way, or its host is gone "
        f"and the task runs again, for which it needs a worker; ask for it again"
    )
