"""AdoptableTask: the part of a task that takes over a run which an agent has already, and that knows whether it may
begin a second time.

Written to by the adoption and worker proxies; sends to them. Must never: have two runs of one task go on.
"""

from __future__ import annotations

from abc import abstractmethod

from scaler.actors.home import Home
from scaler.actors.kit import Actor, ActorRef, handles
from scaler.actors.messages.adoption import AdoptRun, AskForRun, NotHeld, RunAdopted, RunFound
from scaler.actors.messages.tasks import CancelRun
from scaler.actors.policy.needs import Needs
from scaler.actors.repeats import given_up
from scaler.actors.task_states import ADOPTED, FOUND, GIVEN_UP, NOT_HELD, READY, RETURNING, Event, State
from scaler.wire.messages.client import Task
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.worker import RunResult


class AdoptableTask(Actor):
    """A task whose client may have had another scheduler."""

    _spec: Task
    _home: Home
    _state: State
    _attempt: int
    _crashes: int
    _worker: ActorRef | None

    _offer: RunFound | None = None
    """the run that it has asked a worker proxy for, before the answer"""

    _suspect = -1
    """the attempt that counted last as a crash because its worker was lost: no crash, if that comes back"""

    _adopted = -1
    """the attempt that was adopted last"""

    _is_unstarted = False
    """whether it was said before, and this scheduler knows that it was not started"""

    @abstractmethod
    def _move(self, event: Event, result: RunResult | None = None, worker: ActorRef | None = None) -> None:
        """Change the state as the table says."""

    # At most once

    def _is_at_most_once(self) -> bool:
        options = self._spec.options
        return bool(options) and self._home.read_options(options).at_most_once

    def _may_have_been_started(self) -> bool:
        """Return whether it was said before, here or to another scheduler, and must not be started again."""
        options = self._spec.options
        return bool(options) and self._home.read_options(options).was_said and not self._is_unstarted

    def _needs(self) -> Needs | None:
        """Return what it asks for beside a place."""
        options = self._spec.options
        return self._home.needs_of(options) if options else None

    def _given_up(self, sentence: str, status: TaskStatus) -> RunResult:
        return given_up(self._spec.task_id, self._attempt, sentence, status)

    # A run that an agent has already

    @handles(RunFound)
    def _found(self, found: RunFound) -> None:
        task_id = self._spec.task_id
        if found.attempt == self._suspect:  # its agent lives
            self._suspect = -1
            self._crashes -= 1
        if self._state is READY or (self._state is RETURNING and self._offer is None):
            self._offer = found
            self._move(FOUND)
        else:
            found.worker.send(CancelRun(task_id, found.attempt))

    @handles(RunAdopted)
    def _run_adopted(self, adopted: RunAdopted) -> None:
        if self._state is not RETURNING:
            adopted.worker.send(CancelRun(self._spec.task_id, adopted.attempt))
            return
        self._offer = None
        self._worker, self._attempt, self._adopted = adopted.worker, adopted.attempt, adopted.attempt
        self._move(ADOPTED, None, adopted.worker)

    @handles(NotHeld)
    def _not_held(self, _not_held: NotHeld) -> None:
        self._has_no_run("its scheduler has ended, and no worker that has come back has it")

    def _has_no_run(self, sentence: str) -> None:
        if self._state is RETURNING and self._may_have_been_started():
            self._move(GIVEN_UP, self._given_up(sentence, TaskStatus.NOT_FOUND))
        else:
            self._move(NOT_HELD)

    def _enter_returning(self) -> None:
        """Ask for the run that was offered, or whether there is one. At a scheduler that has no runs of former tasks of
        its client, a task that may have been started has ended, and its result was lost with the session.
        """
        home, spec, offer = self._home, self._spec, self._offer
        if offer is not None:
            offer.worker.send(AdoptRun(self.actor_ref, spec, offer.attempt, home.account, self._needs()))
        elif home.adoption is not None:
            home.adoption.send(AskForRun(spec.task_id, self.actor_ref, self._may_have_been_started()))
        else:
            self._has_no_run("its client's session began anew, and its result was lost with the former one")

    def _drop_offer(self) -> None:
        if self._offer is not None:
            self._offer.worker.send(CancelRun(self._spec.task_id, self._offer.attempt))
            self._offer = None
