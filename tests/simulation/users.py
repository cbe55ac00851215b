"""Users: programs that use the real client: they submit, wait, read, cancel, and check what they get.

User --Client, futures, maps--> ClientLink <-- Driver, in place of its thread
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from typing import Any

from scaler.client.calls.job_names import MAP_WINDOW
from scaler.client.client import Client
from scaler.client.core import Core
from scaler.client.future import ScalerFuture
from scaler.client.large_values import ResultFetch
from scaler.client.link.link import ClientLink
from scaler.client.maps.map_run import MapCall, MapRun
from scaler.client.maps.map_stream import MapStream
from scaler.client.object_reference import ObjectReference
from scaler.endpoint import Endpoint
from scaler.errors import MissingObjects, NoWorkerError, ProcessorDiedError, TaskNotFoundError, WorkerDiedError
from scaler.ids import ClientId, ObjectId, TaskId, random_id
from scaler.pickling.serialization import DEFAULT_SERIALIZER
from tests.simulation.kept import Kept, NamedJob
from tests.simulation.loop import RESOLUTION_SECONDS
from tests.simulation.programs import MANY_GPUS, Script, value_of, work
from tests.simulation.record import Record
from tests.simulation.world import Event, Party, ViolationError

TURNS_MOST = 1_000
WINDOW = 6
"""The window of maps whose results are read as they arrive."""
ITEM = re.compile(r"\(item (\d+) of the map\)")
"""Which item of a map has failed, in its error."""


class WatchedFuture(ScalerFuture):
    """A future that may end once only."""

    ends = 0
    _is_inside = False

    def _ended(self, by: Any, *arguments: Any) -> None:
        if self._is_inside:
            by(*arguments)
            return
        self.ends += 1
        if self.ends > 1:
            raise ViolationError(f"{self!r} has ended twice")
        self._is_inside = True
        try:
            by(*arguments)
        finally:
            self._is_inside = False

    def deliver(self, result: Any) -> None:
        self._ended(super().deliver, result)

    def refuse(self, result: Any) -> None:
        self._ended(super().refuse, result)

    def store(self, result: Any) -> None:
        self._ended(super().store, result)

    def fail(self, make_error: Any) -> None:
        self._ended(super().fail, make_error)


class Driver:
    """Does the work of a link's thread, with virtual sleep."""

    def __init__(self, party: Any, link: ClientLink) -> None:
        self._party = party
        self._link = link
        self._planned: Event | None = None
        self._planned_at = 0.0
        self._is_asleep = False
        self.has_ended = False
        party.soon(self._begin)

    def _begin(self) -> None:
        self._link._turn.acquire()
        self._link._protocol.act(self._party.world.monotonic())
        self._turn()

    def is_readable(self, descriptor: int) -> bool:
        link = self._link
        socket = link._protocol._connection._socket
        if descriptor == link._inbox.descriptor:
            return bool(link._inbox._receiver.count)  # type: ignore[attr-defined]
        if socket is None:
            return False
        if descriptor == socket.descriptor:
            return bool(socket.is_readable)  # type: ignore[attr-defined]
        return bool(socket.is_cut)  # type: ignore[attr-defined]

    def wake(self) -> None:
        self._plan(self._party.world.random.random() * 0.0005)

    def _plan(self, seconds: float) -> None:
        if self.has_ended:
            return
        at = self._party.world.now + seconds
        if self._planned is not None:
            if self._planned_at <= at:
                return
            self._planned.cancel()
        self._planned, self._planned_at = self._party.soon(self._woken, seconds), at

    def _woken(self) -> None:
        self._planned = None
        if not self.has_ended:
            self._turn()

    def _turn(self) -> None:
        link, protocol = self._link, self._link._protocol
        for _ in range(TURNS_MOST):
            if self._is_asleep:
                self._is_asleep = False
                link._wake_up(link._connection.wait(0))
            if link._ending is not None or protocol.ended_because:
                self._end()
                return
            seconds = link._fall_asleep()
            self._is_asleep = True
            if seconds > 0 and not link._connection.wait(0):
                self._plan(min(seconds, 3600.0) + RESOLUTION_SECONDS)
                return
        raise ViolationError(f"the link of {self._party.name} turns without an end")

    def _end(self) -> None:
        self.has_ended = True
        try:
            self._link._protocol.send_goodbye()
        finally:
            self._link._end()
            self._link._turn.release()


@dataclass
class GraphOfCalls:
    """What the calls of a graph have in common, also those whose futures are gone."""

    keys: set[str]
    is_canceled: bool = False


class Call:
    """One task, node or map of a user, and what is known of it."""

    def __init__(self, user: User, future: Any, script: Script, expected: Any, is_lazy: bool) -> None:
        self.user = user
        self.future = future
        self.script = script
        self.expected = expected
        """its value, or the type of the error that it raises"""
        self.is_lazy = is_lazy
        """a large result is read at the very end"""
        self.is_canceled = self.is_dropped = False
        self.since = user.party.world.now
        """when it was submitted"""
        self.graph: GraphOfCalls | None = None
        self.needed: set[str] = set()
        """the nodes that it needs, or the tasks whose futures are its arguments, and all that these need"""
        self.after: Sequence[Call] = ()
        """the calls whose futures are its arguments"""
        self.is_over = False
        """it was read"""

    def fetch(self) -> None:
        """Ask for a large result, as `ScalerFuture.result` does before it waits."""
        future = self.future
        if future._outcome is None and future._is_stored() and future._pending_fetch is None:
            arrival = future._pending_fetch = ResultFetch(future._link)
            future._link.fetch(ObjectId(future.task_id), arrival, future._input is not None)

    @property
    def is_here(self) -> bool:
        """Whether the result can be read without a wait."""
        future = self.future
        arrival = future._pending_fetch
        return future.done() and (arrival is None or future._outcome is not None or arrival.done())

    @property
    def is_coming(self) -> bool:
        """Whether its large result is on its way: who makes an argument of it waits for that."""
        return self.future._pending_fetch is not None and not self.is_here

    @property
    def may_be_canceled(self) -> bool:
        is_canceled = self.is_canceled or (self.graph is not None and self.graph.is_canceled)
        return is_canceled or any(call.may_be_canceled for call in self.after)

    def be_read(self) -> None:
        """Let it be read as soon as that does not block, and say that somebody waits for it."""
        self.is_lazy = False
        self.future._link.mark_wanted(self.future.task_id)

    def look(self, is_end: bool) -> None:
        """Read the result as soon as that does not block."""
        if not self.future.done() or (self.is_lazy and not is_end):
            return
        self.fetch()
        if self.is_here:
            self.is_over = True
            self.check()

    def check(self) -> None:
        """Compare the result with what it should be.

        Raises:
            ViolationError: if it is another one.
        """
        record, key = self.user.record, self.script.key
        try:
            value = self.future.result(0)
        except CancelledError:
            if not (self.may_be_canceled or self.user.is_leaving):
                raise ViolationError(f"task {key} was cancelled by nobody") from None
        except (ProcessorDiedError, WorkerDiedError, MissingObjects, TaskNotFoundError, TimeoutError) as error:
            self._excuse(error)
        except NoWorkerError as error:
            record.excuse_refused(key, self.script.gpus > MANY_GPUS, error)
        except ValueError as error:
            if self.expected is not ValueError and key not in record.excused:
                raise ViolationError(f"task {key} raised {error!r}") from error
        except BaseException as error:
            raise ViolationError(f"task {key} ended with {error!r}") from error
        else:
            if value != self.expected:
                raise ViolationError(f"task {key} returned {value!r:.80}, not {self.expected!r:.80}")

    @property
    def cannot_repeat(self) -> bool:
        """Whether it, or what it needs, is not run again when it is lost: it must not, or nobody has its future."""
        needed = (call.cannot_repeat or call.is_dropped for call in self.after)
        return self.script.once or any(needed)

    def _excuse(self, error: BaseException) -> None:
        record, key, script = self.user.record, self.script.key, self.script
        if isinstance(error, TimeoutError):  # it may end in time nevertheless, while its agent is stopped
            is_wrong = not 0 < script.limit < script.seconds
        else:
            is_wrong = isinstance(error, TaskNotFoundError) and not self.cannot_repeat
        if is_wrong:
            raise ViolationError(f"task {key} ended with {error!r}") from error
        if self.cannot_repeat:
            record.excuse_once(key, self.needed, self.since, error)
        elif isinstance(error, MissingObjects):
            record.excuse_unread(key, self.user.name, self.needed, error)
        elif not isinstance(error, TimeoutError):
            record.excuse(key, self.needed, error)


class User:
    """A program with one client."""

    def __init__(
        self, party: Party, name: str, address: str, record: Record, timeout_seconds: float = 3600.0, beat: float = 2.0
    ) -> None:
        self.party = party
        self.name = name
        self.record = record
        self.client_id = ClientId(random_id())
        record.clients[self.client_id] = name
        self.link = ClientLink(Endpoint.parse(address), self.client_id, timeout_seconds, beat)
        self.core = Core(self.link, (timeout_seconds, beat), DEFAULT_SERIALIZER, profiling=False, is_shared=False)
        self.client = Client.__new__(Client)
        self.client._core = self.core
        self.driver = Driver(party, self.link)
        self.calls: list[Call] = []
        self.maps: list[Mapped] = []
        self.unread: list[Call | Mapped | Kept] = []
        """those of both that are not over, oldest first, and what it does with jobs"""
        self.references: dict[ObjectId, tuple[ObjectReference, Any]] = {}
        self.dropped: set[TaskId] = set()
        """the tasks of futures that are gone, and were not read"""
        self.is_leaving = self.is_at_end = False

    # What it does

    def submit(
        self, script: Script, values: Sequence[Any] = (), *, is_lazy: bool = False, parent_run: str = ""
    ) -> Call:
        """Submit a task; references stand for their values."""
        script = replace(script, parent_run=parent_run)
        known = [self.references[each.object_id][1] if isinstance(each, ObjectReference) else each for each in values]
        future = self._client_for(script).submit(work, script, *values)
        return self._called(future, script, known, is_lazy)

    def _client_for(self, script: Script) -> Any:
        options: dict[str, Any] = {}
        if script.once:
            options["at_most_once"] = True
        if script.raises:
            options["retries"] = script.raises
        if script.limit:
            options["timeout"] = script.limit
        if script.gpus:
            options["capabilities"] = {"gpu": script.gpus}
        if script.gpus > MANY_GPUS:
            options["no_worker_timeout"] = 1.0
        if script.priority:
            options["priority"] = script.priority
        return self.client.options(**options) if options else self.client

    def submit_after(self, script: Script, calls: Sequence[Call], *, is_lazy: bool, parent_run: str = "") -> Call:
        """Submit a task whose arguments are the futures of others."""
        script = replace(script, parent_run=parent_run)
        known = [call.expected for call in calls]
        future = self._client_for(script).submit(work, script, *(call.future for call in calls))
        call = self._called(future, script, known, is_lazy)
        call.after = calls
        call.needed = self._needed_by(script, calls)
        return call

    def _needed_by(self, script: Script, calls: Sequence[Call]) -> set[str]:
        """Note that a task needs the results of these, and return all tasks that it needs."""
        for each in calls:
            self.record.dependents[each.script.key].add(script.key)
        return {each.script.key for each in calls}.union(*(each.needed for each in calls))

    def _called(self, future: Any, script: Script, known: Sequence[Any], is_lazy: bool) -> Call:
        self._own(script)
        if self.record.is_orderly:
            self.record.waiting[script.key] = script, self.party.world.now, future.task_id
        call = Call(self, future, script, _expected(script, known), is_lazy)
        self.calls.append(call)
        self.unread.append(call)
        return call

    def _own(self, script: Script) -> None:
        self.record.owners[script.key] = self.name
        self.record.single.add(script.key)

    def submit_graph(
        self, nodes: Sequence[tuple[Script, Sequence[int]]], wanted: Sequence[int], lazy: Container[int] = ()
    ) -> list[Call]:
        """Submit a graph: of each node its script and the nodes whose results it takes."""
        graph = {
            f"n{position}": (work, script, *(f"n{each}" for each in needed))
            for position, (script, needed) in enumerate(nodes)
        }
        results: list[Any] = []
        below: list[set[str]] = []
        for script, needed in nodes:
            below.append({nodes[each][0].key for each in needed}.union(*(below[each] for each in needed)))
            self._own(script)
            for each in needed:
                self.record.dependents[nodes[each][0].key].add(script.key)
            results.append(_expected(script, [results[each] for each in needed]))
        futures = self._client_for(nodes[0][0]).get(graph, [f"n{position}" for position in wanted], block=False)
        calls, of_all = [], GraphOfCalls({script.key for script, _ in nodes})
        for position in wanted:
            call = self._called(futures[f"n{position}"], nodes[position][0], (), is_lazy=position in lazy)
            call.expected, call.needed = results[position], below[position]
            call.graph = of_all
            calls.append(call)
        return calls

    def map(self, scripts: Sequence[Script], is_tolerant: bool = False, after: Sequence[Sequence[Call]] = ()) -> None:
        """Map over scripts; the items have the futures of the calls in `after` as further arguments."""
        for script in scripts:
            self.record.owners[script.key] = self.name
        mapped = Mapped(self, scripts, is_tolerant, after or [()] * len(scripts))
        self.maps.append(mapped)
        self.unread.append(mapped)

    def keep(self, job: NamedJob, act: Callable[[Kept], None]) -> None:
        """Do something with a job."""
        self.unread.append(Kept(self, job, act))

    def send_object(self, value: bytes) -> ObjectReference:
        reference = self.client.send_object(value)
        self.references[reference.object_id] = reference, value
        return reference

    def drop_object(self, object_id: ObjectId) -> None:
        del self.references[object_id]

    def cancel(self, call: Call) -> None:
        if call.future.cancel():
            call.is_canceled, keys = True, {call.script.key}
            if call.graph is not None:
                call.graph.is_canceled = True
                keys = call.graph.keys
            self.record.canceled |= dict.fromkeys(keys, self.party.world.now)

    def drop(self, call: Call) -> None:
        """Let go of a future: its task is not cancelled, and nobody reads its result."""
        self.dropped.add(call.future.task_id)
        call.is_dropped, call.future = True, None
        self.calls.remove(call)
        self.unread.remove(call)

    def leave(self) -> None:
        self.is_leaving = True
        self.link.close(0)

    # What it checks

    def look(self) -> None:
        for each in list(self.unread):
            if not each.is_over:
                each.look(self.is_at_end)
            if each.is_over:
                self.unread.remove(each)

    @property
    def has_all(self) -> bool:
        """Whether it waits for nothing but what it reads at the very end, and no task goes on whose future is gone."""
        return all(each.is_lazy for each in self.unread) and not any(map(self.link._work.is_open, self.dropped))

    @property
    def is_done(self) -> bool:
        return not self.unread

    def forget(self) -> None:
        """Let go of all futures and objects."""
        for call in self.calls:
            error = (call.future._outcome or (None, None))[1]
            if error is not None:
                error.__traceback__ = None  # it has the frames of `look`, and so other calls
        self.calls, self.maps, self.unread = [], [], []
        self.references = {}

    def left(self) -> list[str]:
        """Return what the client still has, of which there should be nothing."""
        work_ = self.link._work
        tables: dict[str, Any] = {
            "tasks": work_._tasks,
            "requests": work_.large.requests,
            "held objects": work_._stored,
            "unread results": work_.large.unread,
            "graphs": list(work_.graphs),
            "tasks at the scheduler": work_.window._sent,
            "bytes of tasks at the scheduler": range(abs(work_.window._sent_bytes)),
            "tasks that wait": work_.window.waiting,
        }
        return [f"{self.name} has {len(table)} {name} left" for name, table in tables.items() if table]


class Mapped:
    """A call of `map`, or of `map_unordered` for some numbers of items, without the thread that would wait in it.

    Args:
        is_tolerant: whether the exception of a row is its result.
        after: of each row the calls whose futures are its arguments.
    """

    is_lazy = False

    def __init__(
        self, user: User, scripts: Sequence[Script], is_tolerant: bool, after: Sequence[Sequence[Call]]
    ) -> None:
        core = user.core
        self._after, self._since = after, user.party.world.now
        known = [[call.expected for call in calls] for calls in after]
        self._expected = list(map(_expected, scripts, known))
        self._needed = [user._needed_by(script, calls) for script, calls in zip(scripts, after, strict=True)]
        self._keys = [script.key for script in scripts]
        self._user = user
        function = core.functions.get(work)
        self._scripts, self._is_tolerant = scripts, is_tolerant
        retries = max(script.raises for script in scripts)
        terms = core.terms(replace(core.options, retries=retries) if retries else core.options)
        self._is_stream = not is_tolerant and len(scripts) % 3 == 1
        call = MapCall(function, terms, core.serializer, core.link, MAP_WINDOW, return_exceptions=is_tolerant)
        self._run = MapStream(call._replace(window=WINDOW)) if self._is_stream else MapRun(call)
        self.is_over = False
        futures = [[call.future for call in calls] for calls in after]
        self._run.begin([(script, *needed) for script, needed in zip(scripts, futures, strict=True)])
        self._take_steps()

    def _take_steps(self) -> None:
        run = self._run
        while True:
            if isinstance(run, MapStream) and run.has_next:
                run.results.append(run.next())
            elif run.is_over() or not run.step():
                return

    def look(self, _is_end: bool) -> None:
        run = self._run
        try:
            self._take_steps()
            run.collect()
        except ValueError:
            is_right = ValueError in self._expected or not self._user.record.excused.isdisjoint(self._keys)
            self._end(is_right, "raised")
            self._give_up()
        except (ProcessorDiedError, WorkerDiedError, NoWorkerError) as error:
            record, is_refused = self._user.record, isinstance(error, NoWorkerError)
            item = ITEM.search(str(error))
            was_hit = item is not None and record.hits[self._keys[int(item[1])]] >= record.crash_limit
            self._end(record.may_refuse if is_refused else was_hit, repr(error))
            self._give_up()
        except CancelledError as error:
            may_be_canceled = any(call.may_be_canceled for calls in self._after for call in calls)
            self._end(may_be_canceled or self._user.is_leaving, repr(error))
            self._give_up()
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is wrong
            self._end(self._user.is_leaving, repr(error))
        else:
            if run.is_over():
                run.end(is_complete=True)
                if self._is_tolerant:
                    run.results = list(map(self._checked, range(len(self._scripts)), run.results, self._expected))
                if self._is_stream:
                    run.results.sort(key=repr)
                    self._expected.sort(key=repr)
                self._end(run.results == self._expected, f"returned {run.results!r:.80}")

    def _checked(self, row: int, result: Any, expected: Any) -> Any:
        """Return the result of a row, and what is expected if it has failed as it may."""
        record, key = self._user.record, self._keys[row]
        if isinstance(result, CancelledError) and any(call.may_be_canceled for call in self._after[row]):
            record.excused.add(key)
        elif isinstance(result, (ProcessorDiedError, WorkerDiedError)):
            record.excuse(key, self._needed[row], result)
        elif isinstance(result, MissingObjects) and any(
            call.cannot_repeat or call.is_dropped for call in self._after[row]
        ):
            record.excuse_once(key, self._needed[row], self._since, result)
        elif isinstance(result, MissingObjects):
            record.excuse_unread(key, self._user.name, self._needed[row], result)
        elif isinstance(result, NoWorkerError):
            record.excuse_refused(key, False, result)
        elif not isinstance(result, ValueError) or (expected is not ValueError and key not in record.excused):
            return result
        return expected

    def cancel(self) -> None:
        """Interrupt it: nobody wants its rows any more."""
        self._give_up()
        self.is_over = True

    def _give_up(self) -> None:
        user = self._user
        user.record.canceled.update(dict.fromkeys(self._keys, user.party.world.now))
        self._run.end(is_complete=False)

    def _end(self, is_right: bool, how: str) -> None:
        self.is_over = True
        if not is_right:
            raise ViolationError(f"a map of tasks {self._keys} {how}")


def _expected(script: Script, known: Sequence[Any]) -> Any:
    """Return the value of a task that needs these, or the type of the error that it raises, as what it needs may."""
    try:
        return ValueError if ValueError in known else value_of(script, known)
    except ValueError:
        return ValueError
