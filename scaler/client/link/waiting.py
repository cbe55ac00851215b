"""Why a client waits: what to check when no scheduler answers, questions about tasks, and a watch that asks by itself.

Used by the protocol, and by everything that waits for an answer of a scheduler. What this client knows it answers
itself: that no scheduler is there, or that the scheduler does not have the task yet.
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
from scaler.ids import NO_ID, GraphId, TaskId
from scaler.transport.lookup import Lookup, forbidden, listens
from scaler.wire.messages.client import ExplainRequest, ExplainResponse
from scaler.wire.messages.vocabulary import ENDED, NO_SCHEDULER, NOT_ABLE, STUCK, TRANSFER, UNKNOWN, WINDOW, Reason

logger = logging.getLogger("scaler.client")


_COMMAND = re.compile(
    r"start (?:one|workers) with scaler_cluster ADDRESS"
    r"(?: --capabilities ([^;]+)| --functions ([^=]+)=MODULE:FUNCTION, or one in another language)?"
)
"""The advice of a scheduler, which does not know whether its workers are those of a client."""


def advised(sentence: str, address: str) -> str:
    """Return a sentence of a scheduler with advice that fits this client.

    The commands in it get the address under which the client sees the scheduler. If the client has started the cluster,
    arguments of `Client` replace them.
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
    return "those of this client start, or have died: its log says which"


class ConnectionAdvice:
    """What to tell users of a scheduler that does not answer.

    Args:
        endpoint: where it should be.
        timeout_seconds: how long open work waits for it.
        is_nested: whether this is a client in a task: its agent has found the scheduler.
    """

    def __init__(self, endpoint: Endpoint, timeout_seconds: float, is_nested: bool = False) -> None:
        self.endpoint = endpoint
        self._timeout_seconds = timeout_seconds
        looked_up = Endpoint("") if is_nested else endpoint
        self._lookup = Lookup(looked_up, partial(logger.warning, "%s. The client keeps trying"))
        self.stranger = ""
        """why what listens there now is not taken for the scheduler that had accepted this client; empty if it is"""

    def find_out(self) -> None:
        """Have the host name looked up."""
        self._lookup.begin()

    def warn_of_stranger(self, reason: str) -> None:
        """Log, once for each reason, that another program seems to have taken the address."""
        if reason != self.stranger:
            self.stranger = reason
            text = "another program answers at %s, or its scheduler has changed: %s. The client keeps trying for %g s"
            logger.warning(text, self.endpoint, reason, self._timeout_seconds)

    def what_to_check(self) -> str:
        """Return what may be the reason that no scheduler answers, as the end of a sentence."""
        if self.stranger:
            return f"what answers there is not the scheduler that had accepted this client: {self.stranger}"
        if self._lookup.problem:
            return self._lookup.problem
        endpoint = self.endpoint
        if endpoint.address in starters.own_clusters:
            return "this client has started it, and its log says why it does not answer; make a new client"
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
        """Return the error of what has waited for long enough."""
        return self.silent_for(self._timeout_seconds)

    def silent_for(self, seconds: float) -> TimeoutError:
        """Return the error of what has waited for so long."""
        return TimeoutError(f"no scheduler answered at {self.endpoint} for {seconds:g} seconds; {self.what_to_check()}")

    def nobody(self) -> str:
        """Return what a task waits for, as a sentence."""
        return (
            f"no scheduler answers at {self.endpoint}; {self.what_to_check()}; what waits fails when there was no "
            f"answer for {self._timeout_seconds:g} seconds"
        )


OnAnswer: TypeAlias = Callable[[ExplainResponse], None]
"""Takes an answer, in the link's thread: must not block."""


class TaskQuestions:
    """The open questions of a client.

    Args:
        work: its open work.
        endpoint: of the scheduler, which does not know under which one it is seen.
        no_scheduler: returns a sentence for when no scheduler answers.
    """

    def __init__(self, work: OpenWork, endpoint: Endpoint, no_scheduler: Callable[[], str]) -> None:
        self._work = work
        self._address = endpoint.address
        self._no_scheduler = no_scheduler
        self._open: dict[TaskId, list[OnAnswer]] = {}
        self._not_ours: set[TaskId] = set()
        """those that were not open here when somebody asked: an admin may ask about tasks of others"""

    def ask(self, task_id: TaskId, on_answer: OnAnswer, lane: Lane | None, may_come: bool = False) -> None:
        """Answer a question, or ask the scheduler.

        Args:
            lane: what is on its way to the scheduler; None if there is no scheduler.
            may_come: whether a scheduler is likely to answer soon if there is none; then the question waits for it.
        """
        request = self._work.request_about(task_id)
        if request is None and (lane is not None or may_come):
            self._not_ours.add(task_id)
        if lane is None and may_come:
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
            self._work.out.append(request or ExplainRequest(task_id, GraphId(NO_ID)))

    def on_answers(self, answers: Iterable[ExplainResponse]) -> None:
        for answer in answers:
            task_id, heard = answer.task_id, replace(answer, sentence=advised(answer.sentence, self._address))
            if task_id in self._not_ours:
                self._not_ours.discard(task_id)
                if answer.waits_for == UNKNOWN:  # it is open nowhere
                    heard = _ended(task_id, answer.worker)
            for on_answer in self._open.pop(task_id, ()):
                on_answer(heard)

    def resend(self) -> None:
        """Ask on a new connection: what was asked may be lost, or was not asked yet."""
        asked, self._open = self._open, {}
        for task_id, callbacks in asked.items():
            request = self._work.request_about(task_id)
            if request is None and task_id in self._not_ours:
                request = ExplainRequest(task_id, GraphId(NO_ID))
            if request is not None and task_id not in self._work.window.waiting:
                self._open[task_id] = callbacks
                self._work.out.append(request)


def _answer(task_id: TaskId, reason: Reason, sentence: str) -> ExplainResponse:
    return ExplainResponse(task_id, "", reason, sentence)


def _ended(task_id: TaskId, worker: str = "") -> ExplainResponse:
    return replace(_answer(task_id, ENDED, "it has ended"), worker=worker)


def _transfer(n_bytes: int) -> str:
    return (
        f"its arguments are on their way to the scheduler: {n_bytes / 2**20:,.1f} MiB of this client are still to be "
        "sent; large values that several tasks need are sent once with send_object"
    )


WARN_SECONDS = 5.0
"""After so long without an end of the oldest task, it is asked about."""
ASK_SECONDS_MOST = 60.0
"""The longest time between two questions about the same task."""
LOOK_SECONDS = 1.0


class TaskWatch:
    """Watches the oldest open task of a client.

    Args:
        work: the open work.
        ask: asks what a task waits for.
        is_off: whether it never looks: in a task: the client outside watches.
    """

    def __init__(self, work: OpenWork, ask: Callable[[TaskId, OnAnswer], None], is_off: bool = False) -> None:
        self.look_at = inf if is_off else -inf
        """when to look again, at the earliest"""
        self.due_at = inf
        """when to ask about the oldest task; infinite: nothing is open"""
        self.concern = ""
        """why nothing goes on, as a sentence; empty: nothing is known to be wrong"""
        self._work = work
        self._ask = ask
        self._told = ""
        """the reason of the concern, which the log has"""
        self._oldest: TaskId | None = None
        self._pause_seconds = WARN_SECONDS

    @property
    def next_at(self) -> float:
        """When there is something to do, if nothing happens until then."""
        return max(self.look_at, self.due_at)

    def look(self, now: float) -> None:
        """See whether the oldest task is still the same."""
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
        """Nothing that has waited goes on: all of it has failed."""
        self.concern = self._told = ""

    def _on_answer(self, answer: ExplainResponse) -> None:
        is_stuck = answer.waits_for in STUCK
        self._set_concern(*(answer.waits_for, answer.sentence) if is_stuck else ("", ""))

    def _set_concern(self, reason: str, concern: str) -> None:
        self.concern = concern  # it tells for how long they wait, which alone is no news
        if reason == self._told:
            return
        self._told = reason
        if reason:
            logger.warning("%s: %s", _who_waits(self._work.n_open, reason), concern)
        else:
            logger.warning("tasks are progressing again")


def _who_waits(n_open: int, reason: str) -> str:
    if n_open == 1:
        return "1 task waits"
    return f"the oldest of {n_open:,} open tasks waits" if reason == NOT_ABLE else f"{n_open:,} tasks wait"
