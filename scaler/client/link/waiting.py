"""Waiting: advice if no scheduler answers, questions about why tasks wait, and a watch of the oldest task.

Used by the protocol. The client itself answers a question if no scheduler is connected, or if the task was not sent
yet.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from math import inf
from typing import TypeAlias

from scaler import starters
from scaler.amounts import read_amounts
from scaler.client.link.open_work import Lane, OpenWork
from scaler.endpoint import Endpoint
from scaler.ids import TaskId
from scaler.transport.lookup import Lookup, forbidden, listens
from scaler.wire.messages.client import ExplainRequest, ExplainResponse
from scaler.wire.messages.vocabulary import ENDED, NO_SCHEDULER, NOT_ABLE, STUCK, TRANSFER, UNKNOWN, WINDOW, Reason

logger = logging.getLogger("scaler.client")


_COMMAND = re.compile(
    r"start (?:one|workers) with scaler_cluster ADDRESS"
    r"(?: --capabilities ([^;]+)| --functions ([^=]+)=MODULE:FUNCTION, or one in another language)?"
)
"""matches the command in a scheduler's advice; a client that has started its workers itself replaces this command"""


def advised(sentence: str, address: str) -> str:
    """Return a scheduler's sentence with the advice adapted to this client. Commands get the address that the client
    uses; if the client has started the cluster, arguments of `Client` replace the commands.
    """
    if address in starters.own_clusters:
        return _COMMAND.sub(_as_arguments, sentence)
    return sentence.replace("ADDRESS", address)


def _as_arguments(command: re.Match[str]) -> str:
    capabilities, function = command.groups()
    if function:
        return f'make the client with Client(functions={{"{function}": "MODULE:FUNCTION"}})'
    if capabilities:
        return f"make the client with Client(capabilities={json.dumps(read_amounts(capabilities.split(',')))})"
    return "the workers of this client are starting or have died: see its log"


class ConnectionAdvice:
    """Tells users why a scheduler may not answer, and what to check.

    Args:
        timeout_seconds: how long open work waits for the scheduler.
        is_nested: whether the client is in a task. The host name of the scheduler is not looked up then, because the
            agent could resolve it.
    """

    def __init__(self, endpoint: Endpoint, timeout_seconds: float, is_nested: bool = False) -> None:
        self.endpoint = endpoint
        self._timeout_seconds = timeout_seconds
        looked_up = Endpoint("") if is_nested else endpoint
        self._lookup = Lookup(looked_up, partial(logger.warning, "%s. The client keeps trying"))
        self.stranger_reason = ""
        """the reason why another program seems to have taken the scheduler's address; empty if none is known"""

    def start_lookup(self) -> None:
        """Start to look up the host name of the scheduler."""
        self._lookup.begin()

    def warn_of_stranger(self, reason: str) -> None:
        """Log, once for each reason, that another program seems to have taken the address of the scheduler."""
        if reason != self.stranger_reason:
            self.stranger_reason = reason
            text = "another program answers at %s, or its scheduler has changed: %s. The client keeps trying for %g s"
            logger.warning(text, self.endpoint, reason, self._timeout_seconds)

    def what_to_check(self) -> str:
        """Return a possible reason why no scheduler answers, as the end of a sentence."""
        if self.stranger_reason:
            return f"another program answers there, not the scheduler that accepted this client: {self.stranger_reason}"
        if self._lookup.problem:
            return self._lookup.problem
        endpoint = self.endpoint
        if endpoint.address in starters.own_clusters:
            return "this client has started the scheduler, whose log says why it does not answer; make a new client"
        if listens(endpoint):
            return (
                "something listens there that does not answer as a scheduler does: check the port, and the log of the "
                "scheduler if it is one"
            )
        return forbidden(endpoint) or self._what_may_be_missing(endpoint)

    def _what_may_be_missing(self, endpoint: Endpoint) -> str:
        """Return what to check at an address where nothing listens."""
        runs = f"check that one runs there (scaler_scheduler {endpoint})"
        if endpoint.file is not None:
            gone = "" if endpoint.file.parent.is_dir() else f"; there is no folder {endpoint.file.parent}"
            return f"{runs}, on this machine{gone}"
        name = f" knows the name {endpoint.host!r} and" if endpoint.has_name else ""
        return f"{runs} and that this machine{name} can reach it"

    def timed_out(self) -> TimeoutError:
        """Return the error of work that has waited for a scheduler until the timeout of the client."""
        return self.silent_for(self._timeout_seconds)

    def silent_for(self, seconds: float) -> TimeoutError:
        """Return the error of work that has waited for a scheduler for `seconds`."""
        return TimeoutError(f"no scheduler answered at {self.endpoint} for {seconds:g} seconds; {self.what_to_check()}")

    def no_scheduler(self) -> str:
        """Return a sentence for tasks that wait because no scheduler answers."""
        return (
            f"no scheduler answers at {self.endpoint}; {self.what_to_check()}; waiting tasks fail after "
            f"{self._timeout_seconds:g} seconds without an answer"
        )


OnAnswer: TypeAlias = Callable[[ExplainResponse], None]
"""A callback that receives the answer to a question about a task. Called in the link's thread: must not block."""


class TaskQuestions:
    """The open questions of a client about why tasks wait.

    Args:
        endpoint: the endpoint of the scheduler, whose address is put into the scheduler's advice.
        no_scheduler: returns the client's own answer, a sentence, while no scheduler is connected.
    """

    def __init__(self, work: OpenWork, endpoint: Endpoint, no_scheduler: Callable[[], str]) -> None:
        self._work = work
        self._address = endpoint.address
        self._no_scheduler = no_scheduler
        self._open: dict[TaskId, list[OnAnswer]] = {}
        self._not_ours: set[TaskId] = set()
        """tasks in open questions that this client does not know: an admin may ask about tasks of other clients"""

    def ask(self, task_id: TaskId, on_answer: OnAnswer, lane: Lane | None, may_connect: bool = False) -> None:
        """Answer a question, or send it to the scheduler.

        Args:
            lane: shows which items are in transit to the scheduler; None if no scheduler is connected.
            may_connect: whether to keep the question while no scheduler is connected, because one may connect soon.
        """
        request = self._work.request_about(task_id)
        if request is None and (lane is not None or may_connect):
            self._not_ours.add(task_id)
        if lane is None and may_connect:
            self._open.setdefault(task_id, []).append(on_answer)
        elif lane is None and request is None:
            on_answer(_ended(task_id))
        elif lane is None:
            on_answer(_answer(task_id, NO_SCHEDULER, self._no_scheduler()))
        elif task_id in self._work.window.waiting:
            on_answer(_answer(task_id, WINDOW, self._work.window.sentence()))
        elif request is not None and (n_bytes := lane.bytes_before(request)):
            on_answer(_answer(task_id, TRANSFER, _transfer(n_bytes)))
        else:
            self._open.setdefault(task_id, []).append(on_answer)
            self._work.out.append(request or ExplainRequest(task_id))

    def on_answers(self, answers: Iterable[ExplainResponse]) -> None:
        for answer in answers:
            task_id, adapted = answer.task_id, replace(answer, sentence=advised(answer.sentence, self._address))
            if task_id in self._not_ours:
                self._not_ours.discard(task_id)
                if answer.waits_for == UNKNOWN:  # it is not open at the scheduler either
                    adapted = _ended(task_id, answer.worker)
            for on_answer in self._open.pop(task_id, ()):
                on_answer(adapted)

    def resend(self) -> None:
        """Send the open questions on a new connection. Drop questions about tasks that have ended or were not sent."""
        asked, self._open = self._open, {}
        for task_id, callbacks in asked.items():
            request = self._work.request_about(task_id)
            if request is None and task_id in self._not_ours:
                request = ExplainRequest(task_id)
            if request is not None and task_id not in self._work.window.waiting:
                self._open[task_id] = callbacks
                self._work.out.append(request)


def _answer(task_id: TaskId, reason: Reason, sentence: str) -> ExplainResponse:
    return ExplainResponse(task_id, "", reason, sentence)


def _ended(task_id: TaskId, worker: str = "") -> ExplainResponse:
    return replace(_answer(task_id, ENDED, "it has ended"), worker=worker)


def _transfer(n_bytes: int) -> str:
    return (
        f"its arguments are on their way to the scheduler: {n_bytes / 2**20:,.1f} MiB of this client are not sent yet; "
        "send_object sends a large value once for all tasks that need it"
    )


WARN_SECONDS = 5.0
"""How long a task must have been the oldest open task before the watch asks the scheduler about it."""
ASK_SECONDS_MOST = 60.0
"""The longest pause between two questions of the watch about the same task."""
LOOK_SECONDS = 1.0


class TaskWatch:
    """Watches the oldest open task of a client, and logs a warning if that task cannot run.

    Args:
        is_off: whether the watch does nothing. It is off for a client in a task: the client of that task watches.
    """

    def __init__(self, work: OpenWork, ask: Callable[[TaskId, OnAnswer], None], is_off: bool = False) -> None:
        self.look_at = inf if is_off else -inf
        """the earliest time of the next call of `look`"""
        self.due_at = inf
        """when to ask the scheduler about the oldest task; infinite if nothing is open"""
        self.concern = ""
        """the reason why no task progresses, as a sentence; empty if none is known"""
        self._work = work
        self._ask = ask
        self._logged_reason = ""
        """the reason that was logged last; empty if tasks progress"""
        self._oldest: TaskId | None = None
        self._pause_seconds = WARN_SECONDS

    @property
    def next_at(self) -> float:
        """The time at which `look` is due next."""
        return max(self.look_at, self.due_at)

    def look(self, now: float) -> None:
        """Request the reason why the oldest open task waits, if it has been the oldest one for long enough."""
        self.look_at = now + LOOK_SECONDS
        oldest = self._work.oldest()
        if oldest is None or oldest != self._oldest:
            self._oldest = oldest
            self._pause_seconds = WARN_SECONDS
            self.due_at = inf if oldest is None else now + WARN_SECONDS
            self._set_concern("", "")
        elif now >= self.due_at:
            self.due_at = now + self._pause_seconds
            self._pause_seconds = WARN_SECONDS if self.concern else min(2 * self._pause_seconds, ASK_SECONDS_MOST)
            self._ask(oldest, self._on_answer)

    def forget(self) -> None:
        """Forget the concern without a log line, because all waiting tasks have failed."""
        self.concern = self._logged_reason = ""

    def _on_answer(self, answer: ExplainResponse) -> None:
        is_stuck = answer.waits_for in STUCK
        self._set_concern(*(answer.waits_for, answer.sentence) if is_stuck else ("", ""))

    def _set_concern(self, reason: str, concern: str) -> None:
        self.concern = concern  # a longer wait alone is not logged
        if reason == self._logged_reason:
            return
        self._logged_reason = reason
        if reason:
            logger.warning("%s: %s", _who_waits(self._work.n_open, reason), concern)
        else:
            logger.warning("tasks are progressing again")


def _who_waits(n_open: int, reason: str) -> str:
    if n_open == 1:
        return "1 task waits"
    return f"the oldest of {n_open:,} open tasks waits" if reason == NOT_ABLE else f"{n_open:,} tasks wait"
