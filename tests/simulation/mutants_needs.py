"""Needs: mutants of tasks that need results of other tasks, chosen from the how-tos of graphs and futures as arguments.

Each breaks one sentence about such tasks: when they run, what a failure, a cancel or a loss becomes, what is made again
and what is not. Three are defects that the simulation has found in the first version of that code.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

import scaler.actors.dependencies.waiting_tasks
from scaler.actors.dependencies.input_values import InputValues
from scaler.actors.dependencies.waiting_task import WaitingTask
from scaler.actors.dependencies.waiting_tasks import WaitingTasks
from scaler.actors.messages.adoption import AgentsReturned
from scaler.actors.messages.tasks import TaskDone
from scaler.actors.sessions.client_session import ClientSession
from scaler.actors.vocabulary.owners import Owner
from scaler.client.link.needed_results import NeededResults
from scaler.client.link.open_work import OpenWork
from scaler.ids import ObjectId, TaskId
from scaler.wire.messages.common import TaskStatus
from tests.simulation.mutants import Mutant

Patches = AbstractContextManager[Any]


def _cancels_reach_no_dependents() -> Patches:
    return patch.object(scaler.actors.dependencies.waiting_tasks, "_dependents_of", lambda _node: iter(()))


def _a_cancel_reaches_the_needs() -> Patches:
    cancel = WaitingTasks.cancel

    def cancel_all(self: WaitingTasks, task_id: TaskId) -> None:
        node = self.find(task_id)
        for need in () if node is None else node.needs:
            self._cancel_running(need.task_id)
        cancel(self, task_id)

    return patch.object(WaitingTasks, "cancel", cancel_all)


def _other_futures_outlive_their_graph() -> Patches:
    return patch.object(WaitingTasks, "_fail_others", lambda *_: None)


def _a_refused_claim_is_final() -> Patches:
    resolve = WaitingTasks.resolve

    def fail(self: WaitingTasks, done: TaskDone) -> None:
        if done.result.status and self.is_awaited(done.result.task_id):
            self._fail(self._by_id[done.result.task_id], done.result.status, done.result.payload)
        else:
            resolve(self, done)

    return patch.object(WaitingTasks, "resolve", fail)


def _a_graph_does_not_know_who_awaits_it() -> Patches:
    return patch.object(WaitingTasks, "_take_awaited", lambda *_: None)


def _a_task_of_a_graph_that_has_ended_is_cancelled() -> Patches:
    def is_dropped(self: WaitingTask) -> bool:
        return self.status == TaskStatus.SUCCESS and not (self.is_stored or self.payload)

    return patch.object(WaitingTask, "was_dropped", property(is_dropped))


def _an_answered_graph_is_cancelled_for_all() -> Patches:
    end = WaitingTasks._end_given_up

    def end_for_all(self: WaitingTasks, node: WaitingTask) -> None:
        if node.graph is not None:
            node.graph.is_answered = False
        end(self, node)

    return patch.object(WaitingTasks, "_end_given_up", end_for_all)


def _a_new_session_runs_graphs_again() -> Patches:
    return patch.object(WaitingTasks, "_is_answered", lambda *_: False)


def _runs_of_waiting_tasks_are_not_kept() -> Patches:
    return patch.object(ClientSession, "_name_waiting", lambda *_: None)


def _who_waits_long_does_not_ask_for_its_run() -> Patches:
    def forget(self: ClientSession, _news: AgentsReturned) -> None:
        self._context.adoption = None
        self._start_held()

    return patch.dict(ClientSession.handlers, {AgentsReturned: forget})


def _who_comes_back_late_is_held() -> Patches:
    back = ClientSession.handlers[AgentsReturned]

    def hold(self: ClientSession, news: AgentsReturned) -> None:
        with patch.object(ClientSession, "_start_held", lambda _self: None):
            back(self, news)

    return patch.dict(ClientSession.handlers, {AgentsReturned: hold})


def _graphs_have_no_quota() -> Patches:
    begin = WaitingTasks._begin

    def accept(self: WaitingTasks, *first: Any) -> Any:
        with patch.object(Owner, "room", lambda _self: 1 << 30):
            return begin(self, *first)

    return patch.object(WaitingTasks, "_begin", accept)


def _results_stay_when_nobody_needs_them() -> Patches:
    def forget(self: InputValues, task: WaitingTask) -> None:
        task.is_stored, task.made_by, task.dependents = False, None, None
        self._stored.pop(task.task_id, None)

    return patch.object(InputValues, "release", forget)


def _what_a_graph_has_lost_is_not_made_again() -> Patches:
    return patch.object(NeededResults, "_make_again", lambda *_: None)


def _only_what_its_client_has_is_supplied() -> Patches:
    supply = NeededResults.supply

    def known_only(self: NeededResults, object_id: ObjectId) -> bool:
        return self._known(TaskId(object_id)) is None or supply(self, object_id)

    return patch.object(NeededResults, "supply", known_only)


def _a_graph_and_its_lost_results_both_run() -> Patches:
    return patch.object(OpenWork, "_return_to_graphs", lambda _self: None)


GRAPHS, CHAINS = ("graphs",), ("chains",)

NEEDS = (
    Mutant("dependents", "who needs a task that has failed waits for ever", _cancels_reach_no_dependents, GRAPHS),
    Mutant("needs", "a cancel reaches what the task needs", _a_cancel_reaches_the_needs, GRAPHS),
    Mutant("others", "futures that need a cancelled graph wait for ever", _other_futures_outlive_their_graph, GRAPHS),
    Mutant("refused-claim", "a claim that is refused fails who needs it", _a_refused_claim_is_final, GRAPHS),
    Mutant("awaited", "a graph comes after who needs its result", _a_graph_does_not_know_who_awaits_it, GRAPHS),
    Mutant(
        "has-ended",
        "a task that its client says has ended counts as cancelled",
        _a_task_of_a_graph_that_has_ended_is_cancelled,
        GRAPHS,
    ),
    Mutant("answered", "who needs a graph whose results are known", _an_answered_graph_is_cancelled_for_all, CHAINS),
    Mutant("graph-again", "a graph runs again in a new session", _a_new_session_runs_graphs_again, GRAPHS),
    Mutant("named", "runs of tasks that wait are not kept", _runs_of_waiting_tasks_are_not_kept, CHAINS),
    Mutant("late-ask", "who waits long does not ask for its run", _who_waits_long_does_not_ask_for_its_run, CHAINS),
    Mutant("held-late", "what comes long after a restart is held for ever", _who_comes_back_late_is_held, CHAINS),
    Mutant("graph-quota", "a graph is accepted beyond the quota", _graphs_have_no_quota, GRAPHS),
    Mutant("kept-results", "results stay when nobody needs them", _results_stay_when_nobody_needs_them, GRAPHS),
    Mutant("made-again", "what a graph has lost is not made again", _what_a_graph_has_lost_is_not_made_again, GRAPHS),
    Mutant("supplied", "lost results of calls are not made again", _only_what_its_client_has_is_supplied, GRAPHS),
    Mutant("graph-twice", "a graph and its lost results both run", _a_graph_and_its_lost_results_both_run, GRAPHS),
)
