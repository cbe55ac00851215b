"""Views of the cluster as a whole: the scheduler, its clients, objects, failures, events and messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from scaler.monitor import units
from scaler.monitor.model.verdict import verdict
from scaler.monitor.views.field_types import BYTES, CLOCK, COUNT, NAME, SECONDS, SHARE, STATE, TEXT
from scaler.monitor.views.view import (
    BAD,
    FINE,
    LOST,
    TABLE,
    TEXT_BLOCK,
    Empty,
    Field,
    Part,
    View,
    ViewState,
    counter,
    fact,
    gauge,
    hidden,
    known,
    scaled,
    total_of,
)
from scaler.monitor.views.work import word_of
from scaler.wire.messages.monitor import StateClient, StateEvent, StateFailure, StateObject

_BAD_EVENTS = frozenset({"cut", "refused", "restarted"})
_OBJECT_KINDS = dict(enumerate(("value", "function", "argument", "result of")))
_OBJECT_PLACES = dict(enumerate(("scheduler", "client", "agent", "lost")))
_FUNCTION_KIND = 1

# --------------------------------------------------------------------------------------------------------- clients


def _client_state(_: ViewState, each: StateClient) -> str:
    return "away" if each.is_away else "in a task" if each.root not in (b"", each.client) else "connected"


def _root(state: ViewState, each: StateClient) -> bytes:
    return each.root if each.root != each.client and each.root in state.model.clients else b""


def _root_label(state: ViewState, each: StateClient) -> str | None:
    root = state.model.clients.get(_root(state, each))
    return root.label if root else None


def _tasks_of_client(state: ViewState, key: Any, _: Any) -> Iterable[Any]:
    return [task for task in reversed(state.model.tasks.values()) if task.client == key]


CLIENTS = View(
    "clients", "client", "Clients", lambda state: state.model.clients.values(), lambda each: each.client,
    (
        Field("name", NAME, lambda _, each: each.label or each.client.hex(), "Client", "program, process, user, host",
              "client", key="n", old=("label",)),
        Field("owner", NAME, known("owner"), "Owner", "the user of the client", width=12, key="u"),
        Field("open", COUNT, scaled("open"), "Open", "tasks that have not ended", width=10, key="o",
              metric=gauge("scaler_client_open_tasks")),
        Field("waiting", COUNT, scaled("waiting"), "Waiting", "of these, tasks that no worker has", width=10, key="w",
              metric=gauge("scaler_client_waiting_tasks")),
        Field("seen", SECONDS, scaled("seen_ms"), "Seen", "time since its last message", width=5, key="s",
              shown=lambda _, each, __: units.ago(each.seen_ms / 1000)),
        Field("state", STATE, _client_state, "State", "connected, away, or in a task", width=10),
        hidden("root", NAME, _root_label, "Works for", "the client of the task in which it is", "works for",
               link=("clients", _root)),
    ),
    "-open", Empty("No client is connected."), "This client is no longer connected.",
    less=("seen", "state", "owner", "waiting"),
    mark=lambda _, each: LOST if each.is_away else FINE,
    labels=(("client", lambda each: each.client.hex()), ("label", lambda each: each.label),
            ("owner", lambda each: each.owner)),
    parts=(Part(TABLE, "tasks", _tasks_of_client, "tasks", ("client", "owner"), most=50),),
    total=total_of("clients"),
)  # fmt: skip

# -------------------------------------------------------------------------------------------------------- failures


def _failures(state: ViewState) -> list[StateFailure]:
    model = state.model
    old = [each for key, each in state.old_failures.items() if key not in model.failures]
    return [*reversed(model.failures.values()), *old]


def _failure_name(_: ViewState, each: StateFailure) -> str:
    return f"{each.type}: {each.message}" if each.message else each.type


def _example(_: ViewState, each: StateFailure) -> str | None:
    return each.task.hex() or None


def _failed_so(state: ViewState, _: Any, failure: StateFailure | None) -> Iterable[Any]:
    same = (task for task in reversed(state.model.tasks.values()) if failure and task.function == failure.function)
    return [task for task in same if word_of(task.state) == "failed" and state.model.failure_of(task) is failure]


FAILURES = View(
    "failures", "failure", "Failures", _failures, lambda each: each.failure,
    (
        Field("name", NAME, _failure_name, "Failure", "type and message", "failure", key="n"),
        Field("count", COUNT, scaled("times"), "Count", "how often it has happened", width=7, key="c",
              metric=counter("scaler_failures")),
        Field("last", CLOCK, known("last_us"), "Last", "when it last happened", width=8, key="l", old=("last_us",)),
        Field("function", NAME, known("function_name"), "Function", "the function", width=14, key="f",
              shown=lambda _, each, __: each.function_name, link=("functions", lambda _, each: each.function)),
        Field("example", NAME, _example, "Example", "the last task that failed so", width=9,
              shown=lambda _, each, __: f"#{each.task.hex()[:8]}" if each.task else units.UNKNOWN,
              link=("tasks", lambda _, each: each.task), old=("task",)),
        Field("worker", NAME, known("worker"), "Worker", "the worker of this task", width=12, key="w"),
        fact("first", CLOCK, known("first_us"), "First", "when it first happened", old=("first_us",)),
        hidden("type", NAME, scaled("type"), "Type", "the type of the error", is_fact=False),
        hidden("message", TEXT, scaled("message"), "Message", "the message of the error", is_fact=False),
        hidden("traceback", TEXT, scaled("traceback"), "Traceback", "the traceback of the example", is_fact=False),
    ),
    "-last", Empty("No task has failed since the scheduler started."), "This failure is no longer kept.",
    less=("worker", "example", "function", "last"),
    mark=lambda *_: BAD,
    at=lambda each: each.last_us / 1e6,
    flag=lambda state, each: "" if each.failure in state.model.failures else "of an earlier scheduler",
    heading=lambda _, __, each: f"failure {each.type}" if each else "failure",
    labels=(("failure", lambda each: each.failure.hex()), ("type", lambda each: each.type),
            ("function", lambda each: each.function_name)),
    parts=(
        Part(TEXT_BLOCK, "traceback of the example; numbers in the messages of others may differ",
             lambda _, __, each: (each.traceback or "no traceback was kept") if each else ""),
        Part(TABLE, "tasks", _failed_so, "tasks", ("function",), most=20),
    ),
    total=total_of("failures"),
)  # fmt: skip

# ---------------------------------------------------------------------------------------------------------- events


def _events(state: ViewState) -> list[StateEvent]:
    return list(reversed(state.model.events if state.events is None else state.events))


EVENTS = View(
    "events", "event", "Events", _events, lambda each: (each.time_us, each.kind, each.subject),
    (
        Field("name", NAME,
              lambda _, each: f"{each.kind}: {each.subject}" + (f" ({each.reason})" if each.reason else ""), "Event",
              "what happened to whom, and why", "event", key="n"),
        Field("when", CLOCK, known("time_us"), "When", "when it happened", width=14, key="w"),
        hidden("kind", TEXT, scaled("kind"), "What", "what happened", "what"),
        hidden("subject", TEXT, known("subject"), "Who", "to whom", "who"),
        hidden("reason", TEXT, known("reason"), "Why", "why", "why"),
    ),
    "-when", Empty("Nothing has happened since the scheduler started."), "This event is no longer kept.",
    mark=lambda _, each: BAD if each.kind in _BAD_EVENTS else FINE,
    at=lambda each: each.time_us / 1e6,
    heading=lambda _, __, each: f"event {each.kind}" if each else "event",
    total=total_of("events"),
)  # fmt: skip

# --------------------------------------------------------------------------------------------------------- objects


def _object_name(_: ViewState, each: StateObject) -> str:
    return f"{_OBJECT_KINDS.get(each.kind, 'object')} {each.name or each.object.hex()[:8]}"


def _object_owner(state: ViewState, each: StateObject) -> str | None:
    """Return the owner of an object; None for a function, which has no owner."""
    client = state.model.clients.get(each.client)
    return each.owner or (client.label if client and each.kind != _FUNCTION_KIND else None)


def _place(_: ViewState, each: StateObject) -> str | None:
    return _OBJECT_PLACES.get(each.place)


OBJECTS = View(
    "objects", "object", "Objects", lambda state: state.model.objects.values(), lambda each: each.object,
    (
        Field("name", NAME, _object_name, "Object", "its kind and its name", "object", key="n"),
        Field("size", BYTES, scaled("size_bytes"), "Size", "the size of the serialised object", width=6, key="s"),
        Field("where", STATE, _place, "Where", "the process that has its bytes, or lost", width=9, key="w"),
        Field("copies", COUNT, scaled("copies"), "Copies", "hosts that have fetched it", width=6, key="c"),
        Field("readers", COUNT, scaled("users"), "Readers", "tasks and nodes that need it", width=7, key="r"),
        Field("owner", NAME, _object_owner, "Owner", "the user of its client", width=12, key="u",
              link=("clients", lambda state, each: each.client in state.model.clients and each.client)),
    ),
    "-size", Empty("No objects are stored.", loading="objects"),
    "This object was deleted, or it is not one of the largest.",
    less=("owner", "readers", "copies", "where"),
    mark=lambda state, each: LOST if _place(state, each) == "lost" else FINE,
    heading=lambda state, _, each: _object_name(state, each) if each else "object",
    total=total_of("objects"),
)  # fmt: skip

# ------------------------------------------------------------------------------------------- the scheduler, counters


def _verdict(name: str) -> Callable[[ViewState, Any], str | None]:
    return lambda state, _: getattr(verdict(state.model, state.now), name) or None


_LAG = "Delay of the event loop of the scheduler: the median of the last second, and 95 % of it"
SCHEDULER = View(
    "scheduler", "scheduler", "Scheduler",
    lambda state: [state.model.scheduler] if state.model.scheduler else [], lambda _: "",
    (
        Field("name", NAME, scaled("address"), "Scheduler", "its address", "scheduler", old=("address",)),
        Field("version", TEXT, scaled("package_version"), "Version", "its version", width=10),
        Field("started", CLOCK, known("started_us"), "Started", "when it was started", width=14, old=("started_us",),
              metric=gauge("scaler_scheduler_start_time_seconds")),
        Field("cpu", SHARE, scaled("cpu_permille"), "CPU", "its processor time, at most one core", width=6,
              old=("cpu_permille",), metric=gauge("scaler_scheduler_cpu_cores")),
        Field("rss", BYTES, known("rss_bytes"), "Memory", "its memory", width=6, old=("rss_bytes",),
              metric=gauge("scaler_scheduler_resident_memory_bytes")),
        Field("rss_free", BYTES, known("free_bytes"), "Host free", "memory that its host has left", width=8,
              old=("rss_free_bytes",), metric=gauge("scaler_scheduler_host_free_memory_bytes")),
        fact("lag", SECONDS, scaled("lag_us"), "Lag", "the usual delay of its loop",
             metric=gauge("scaler_scheduler_loop_lag_seconds", _LAG, percentile="50")),
        Field("lag_most", SECONDS, scaled("lag_most_us"), "Loop lag", "the delay of its loop, 95 % of the time",
              "loop lag", 8, old=("loop_lag_us",),
              metric=gauge("scaler_scheduler_loop_lag_seconds", _LAG, percentile="95")),
        Field("waiting", COUNT, scaled("waiting"), "Waiting", "tasks that no worker has", width=9,
              metric=gauge("scaler_tasks_waiting")),
        Field("running", COUNT, scaled("running"), "Running", "tasks at workers, queued or executed", width=9,
              metric=gauge("scaler_tasks_running")),
        fact("verdict", TEXT, _verdict("word"), "Bound by", "what limits the cluster, in a word", "bound by"),
        fact("advice", TEXT, _verdict("sentence"), "Advice", "the same in a sentence, and what to do"),
        fact("warning", TEXT, _verdict("warning"), "Warning", "which tasks no worker can run", bad=True),
        fact("left", SECONDS, lambda state, _: state.model.left_seconds, "Left",
             "the estimated time until the open tasks have ended", metric=gauge("scaler_left_seconds")),
        fact("objects", COUNT, scaled("objects"), "Objects", "objects that are stored",
             metric=gauge("scaler_objects")),
        fact("object_bytes", BYTES, scaled("object_bytes"), "Object bytes", "bytes of these objects",
             metric=gauge("scaler_object_bytes")),
        fact("shared_bytes", BYTES, scaled("shared_bytes"), "Shared", "bytes in shared memory of clients",
             metric=gauge("scaler_object_shared_bytes")),
        fact("agents", COUNT, scaled("agents"), "Agents", "agents that are connected or awaited",
             metric=gauge("scaler_agents")),
        fact("workers", COUNT, scaled("workers"), "Workers", "workers of these agents",
             metric=gauge("scaler_workers")),
        fact("busy", COUNT, lambda state, _: state.model.busy if "workers" in state.model.heads else None, "Busy",
             "workers that execute a task", metric=gauge("scaler_workers_busy")),
        fact("stuck", COUNT,
             lambda state, _: len(state.model.stuck.reasons) if "workers" in state.model.heads else None,
             "Look stuck", "workers that look stuck", bad=True, metric=gauge("scaler_workers_stuck")),
        fact("clients", COUNT, scaled("clients"), "Clients", "root clients that are connected or awaited",
             metric=gauge("scaler_clients")),
    ),
    "name", Empty("The scheduler has sent nothing yet."), less=("version", "started", "rss_free"),
)  # fmt: skip


@dataclass(frozen=True)
class NamedCount:
    """A named counter of the scheduler, as the subject of a row; None: it does not count there."""

    name: str
    first: int | None
    second: int | None = None
    first_rate: float | None = None
    second_rate: float | None = None


def _messages(state: ViewState) -> Iterable[NamedCount]:
    model = state.model
    rates = model.rates
    for name in sorted({**model.sent, **model.received}):
        amounts = model.sent.get(name), model.received.get(name)
        yield NamedCount(name, *amounts, rates.sent.get(name), rates.received.get(name))


MESSAGES = View(
    "messages", "message", "Messages", _messages, lambda each: each.name,
    (
        Field("name", NAME, scaled("name"), "Item", "the name of the item in the protocol", "item", key="n"),
        Field("sent", COUNT, scaled("first"), "Sent", "items that the scheduler has sent", width=11, key="w",
              metric=counter("scaler_scheduler_items_sent")),
        Field("received", COUNT, scaled("second"), "Received", "items that the scheduler has received", width=11,
              key="r", metric=counter("scaler_scheduler_items_received")),
        Field("sent_rate", COUNT, scaled("first_rate"), "Sent/s", "sent per second", "sent/s", 9,
              shown=lambda _, each, width: units.rate(each.first_rate, width)),
        Field("received_rate", COUNT, scaled("second_rate"), "Received/s", "received per second", "received/s", 10,
              shown=lambda _, each, width: units.rate(each.second_rate, width)),
    ),
    "-received", Empty("The scheduler has sent nothing yet."), topics=("scheduler",),
    less=("sent_rate", "received_rate"),
    labels=(("item", lambda each: each.name),),
)  # fmt: skip

ENDED = View(
    "ended", "outcome", "Ended tasks",
    lambda state: [NamedCount(name, count) for name, count in state.model.ended.items()], lambda each: each.name,
    (
        Field("name", NAME, scaled("name"), "Outcome", "how tasks have ended, as programs compare it", "outcome",
              key="n"),
        Field("state", STATE, lambda _, each: word_of(each.name), "State", "success, failed or canceled", width=9),
        Field("count", COUNT, scaled("first"), "Tasks", "tasks that have ended so", "tasks", 11, "c",
              metric=counter("scaler_tasks_ended")),
    ),
    "-count", Empty("No task has ended since the scheduler started."), topics=("scheduler",),
    labels=(("state", lambda each: each.name),),
    report="outcomes",
)  # fmt: skip
