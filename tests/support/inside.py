"""The inside of a scheduler: its actors, and the invariants that hold whenever no actor has mail. Only reads."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import chain
from typing import Any, cast

from scaler.actors.dependencies.waiting_task import WAITING, TaskGraph, WaitingTask
from scaler.actors.policy import WORK_AHEAD_US
from scaler.actors.sessions.agent_session import AgentSession
from scaler.actors.sessions.client_session import ClientSession
from scaler.actors.sessions.nested_session import NestedSession
from scaler.actors.tasks.task import TaskActor
from scaler.actors.tree import ACCEPTOR, ADOPTION, BALANCER, JOBS, OBJECT_STORE, SchedulerTree
from scaler.actors.vocabulary.owners import Owner
from scaler.actors.vocabulary.task_states import CANCELING, DELAYED, LEAVING, READY, RETURNING, RUNNING
from scaler.actors.workers.balancer import Balancer
from scaler.actors.workers.worker_proxy import WorkerPhase, WorkerProxy
from scaler.ids import NO_CONNECTION, TaskId, split_ids
from scaler.kit import Actor, ActorRef, Dispatcher
from scaler.pickling.serialization import size_of
from scaler.settings import SchedulerConfig
from scaler.wire.codec.structs import RunOptions


class Inside:
    """A view of the inside of a scheduler; `goes_on`: whether a blocked task may have resumed, which needs no slot."""

    def __init__(
        self, tree: SchedulerTree, dispatcher: Dispatcher, limits: SchedulerConfig, *, goes_on: bool = False
    ) -> None:
        self.tree = tree
        self.dispatcher = dispatcher
        self.limits = limits
        self.goes_on = goes_on

    def actor(self, name: str) -> Any:
        """Return the actor of the tree with this name, or None while it waits for its restart."""
        return self.tree.supervisor.children[name]._actor

    def sessions(self, kind: type[Actor]) -> list[Any]:
        actors = (peer.session._actor for peer in self.tree.directory.peers.values())
        return [actor for actor in actors if type(actor) is kind]

    def proxies(self) -> list[WorkerProxy]:
        refs = (ref for session in self.sessions(AgentSession) for ref in session._workers)
        return [cast("WorkerProxy", ref._actor) for ref in refs if ref._actor is not None]

    def jobs(self) -> list[Any]:
        keeper = self.actor(JOBS) if JOBS in self.tree.supervisor.children else None
        found = [ref._actor for ref in keeper._jobs.values()] if keeper is not None else []
        return [job for job in found if job is not None]

    def _rows_of(self, job: Any) -> Iterator[tuple[TaskId, ActorRef]]:
        """Yield the tasks of a job's rows, except those whose large results are in transfer from their agents."""
        for row, task in job._tasks.items():
            task_id = TaskId(job._state.terms.prefix + row.to_bytes(8, "big"))
            if task_id not in job._large._awaited:
                yield task_id, task

    def all_client_sessions(self) -> list[ClientSession]:
        """Return the sessions of clients, including those inside tasks."""
        actors = (peer.session._actor for peer in self.tree.directory.peers.values())
        return [actor for actor in actors if isinstance(actor, ClientSession)]

    def graphs(self) -> list[TaskGraph]:
        """Return the open graphs of all clients."""
        return [graph for session in self.all_client_sessions() for graph in session._waiting.graphs.values()]

    def task(self, task_id: TaskId) -> TaskActor | None:
        for session in self.sessions(ClientSession):
            if task_id in session._tasks:
                return cast("TaskActor", session._tasks[task_id]._actor)
        return None

    # Invariants

    def check(self) -> None:
        """Check all invariants while no mail is in transit. Raises `AssertionError` about what is wrong."""
        self._check_sessions()
        proxies = self.proxies()
        tasks = self._check_tasks(proxies)
        self._check_runs(proxies, tasks)
        self._check_actors(proxies, tasks)
        self._check_orphans(proxies, tasks)
        self._check_places(proxies)
        self._check_store(tasks)
        self._check_owners()
        self.tree.events.ended_of.check()

    def _check_owners(self) -> None:
        """Check that the counts of each owner are right, and that no owner exceeds the quota."""
        directory = self.tree.directory
        clients, tasks, held, came_back = Counter[Owner](), Counter[Owner](), Counter[Owner](), set[Owner]()
        needed = Counter[Owner]()
        for session in (*self.sessions(ClientSession), *self.sessions(NestedSession)):
            owner = session._owner
            tasks[owner] += session._tasks.n_rows + session._waiting.n_waiting
            tasks[owner] += sum(graph.size - len(graph.nodes) for graph in session._waiting.graphs.values())
            if type(session) is not ClientSession:
                continue
            clients[owner] += 1
            again = (task for task in session._waiting._by_id.values() if task.is_open)
            needed[owner] += sum(task.n_users > 0 or (task.is_again and task.graph is not None) for task in again)
            if session._adoption is not None:
                came_back.add(owner)  # its open tasks at the last scheduler continue
            held[owner] += len(session._held)
            is_awaited = session._held.awaits_agents or session.actor_ref in owner._waiting
            assert not session._held or not owner.room() or is_awaited, (
                "a task is held although its owner is below the quota"
            )
        for job in self.jobs():
            owner = job._context.owner
            tasks[owner] += job._tasks.n_rows
            if not job._state.is_new:
                came_back.add(owner)
        for owner in (*directory.owners, directory.owners.nested):
            assert owner.tasks == tasks[owner], f"{owner} has {tasks[owner]} open tasks, but counts {owner.tasks}"
        for owner in directory.owners:
            if self.actor(ACCEPTOR) is not None:
                assert owner.clients == clients[owner]
            assert owner.held == held[owner]
            assert not (owner._waiting and owner.room()), "sessions wait although their owner is below the quota"
            if owner.terms.tasks and owner not in came_back:
                n_tasks = owner.tasks - needed[owner]  # else those that wait for them might wait for ever
                assert n_tasks <= owner.terms.tasks, f"{owner} has {owner.tasks} tasks, more than the quota"

    def _check_actors(self, proxies: list[WorkerProxy], tasks: dict[ActorRef, TaskActor]) -> None:
        """Have each actor check what it knows alone."""
        shared = (ref._actor for ref in self.tree.supervisor.children.values())
        refs = (peer.session for peer in self.tree.directory.peers.values())
        jobs = (*self.jobs(),)
        for actor in (*shared, *(ref._actor for ref in refs), *proxies, *tasks.values(), *jobs):
            if actor is not None:
                actor.check()

    def _check_sessions(self) -> None:
        """Check that no task is in two sessions."""
        open_in: dict[ActorRef, ClientSession] = {}
        for session in self.sessions(ClientSession):
            for task_id, ref in session._tasks.items():
                assert open_in.setdefault(ref, session) is session, f"{task_id!r} is in two sessions"
        if self.actor(ACCEPTOR) is None:
            return  # sessions that have ended are forgotten after its restart
        for peer in self.tree.directory.peers.values():
            session = cast("ClientSession | AgentSession | None", peer.session._actor)
            assert session is not None, f"a session that has ended is still known: {peer.key}"
            if type(session) in (ClientSession, AgentSession):
                waits = session._silence_timer is not None and session._silence_timer.is_pending
                assert waits, f"{session} has no timer that notices the loss of its peer"

    def _check_orphans(self, proxies: list[WorkerProxy], tasks: dict[ActorRef, TaskActor]) -> None:
        """Check that each orphaned run is cancelled, is held for its task, or is or was offered to a task."""
        if self.actor(ADOPTION) is None:
            return
        held = {(task_id, worker) for (_owner, task_id), (worker, *_) in self.tree.adoptions.held.items()}
        offers = {(cancel.task_id, worker) for _due, _task, worker, cancel in self.tree.adoptions.offered}
        offers |= {(task._spec.task_id, task._offer.worker) for task in tasks.values() if task._offer is not None}
        for proxy in proxies:
            for task_id, orphan in proxy._orphans._runs.items():
                is_known = (task_id, proxy.actor_ref) in held | offers
                assert orphan.canceled or is_known, f"{proxy.name} has an orphan without a claim: {task_id!r}"

    def _check_tasks(self, proxies: list[WorkerProxy]) -> dict[ActorRef, TaskActor]:
        """Check that each open task has exactly one owner: the balancer's queue, or the proxy that has its run."""
        balancer: Balancer | None = self.actor(BALANCER)
        queued = _queued(balancer) if balancer is not None else None
        owners: dict[tuple[ActorRef, int], int] = {}
        for proxy in proxies:
            for run in proxy._runs.values():
                owners[run.task, run.attempt] = owners.get((run.task, run.attempt), 0) + 1
        tasks: dict[ActorRef, TaskActor] = {}
        of_sessions = (each for session in self.all_client_sessions() for each in session._tasks.items())
        of_jobs = (each for job in self.jobs() for each in self._rows_of(job))
        for task_id, ref in (*of_sessions, *of_jobs):
            task = ref._actor
            assert task is not None, f"a task with a waiting client or job has ended: {task_id!r}"
            tasks[ref] = task
            at_workers = owners.get((ref, task._attempt), 0)
            in_queue = queued is not None and (ref, task._attempt) in queued
            where = f"{task_id!r} is {task.state}; in the queue: {in_queue}; at workers: {at_workers}"
            if task.state in (RETURNING, LEAVING, DELAYED):
                assert at_workers == 0, where
                assert not in_queue, where
            elif task.state is READY:
                assert at_workers == 0, where
                assert in_queue or queued is None, where
            else:
                assert task.state in (RUNNING, CANCELING) or queued is None, where
                assert at_workers == 1 or queued is None, where
                assert not in_queue, where
        for ref, attempt in queued or ():
            actor = cast("TaskActor | None", ref._actor)
            assert actor is not None, "a task in the queue has ended"
            assert (actor.state, actor._attempt) == (READY, attempt), (
                "the queue has an old attempt or a task that is not ready"
            )
        return tasks

    def _check_runs(self, proxies: list[WorkerProxy], tasks: dict[ActorRef, TaskActor]) -> None:
        for proxy in proxies:
            for run in proxy._runs.values():
                task = cast("TaskActor | None", run.task._actor)
                current = task is not None and task._attempt == run.attempt and task._worker is proxy.actor_ref
                assert current or run.canceled, f"{proxy.name} has a run without a waiting task"
                if task is not None:
                    tasks[run.task] = task

    def _check_places(self, proxies: list[WorkerProxy]) -> None:
        balancer: Balancer | None = self.actor(BALANCER)
        if balancer is None or self.actor(ACCEPTOR) is None:
            return
        places, most = cast("Any", balancer._policy)._loads, self.limits.per_worker_queue_size
        connected = [proxy for proxy in proxies if proxy._peer.connection != NO_CONNECTION]
        present = [proxy for proxy in connected if proxy._phase is WorkerPhase.WORK]
        loads = {proxy.actor_ref: proxy.load for proxy in present}
        assert {ref: places.load(ref) for ref in places._workers} == loads
        first = cast("Any", balancer._policy)._queue.first()
        self._check_amounts(balancer, present)
        for proxy in present:
            tasks, work_us = loads[proxy.actor_ref]
            has_room = places.has_room(proxy.actor_ref)
            assert tasks <= most or self.goes_on, f"{proxy.name} has too many tasks"
            fits = first is not None and (not tasks or tasks + first.spec.rows <= most)
            assert not (has_room and fits), f"tasks wait although {proxy.name} has room: {tasks} of {work_us} us"
            runs = list(proxy._runs.values())
            if tasks == len(runs) > 1 and not self.goes_on and not any(run.was_adopted for run in runs):
                ahead_us = sum(run.expected_us for run in runs[:-1])
                assert ahead_us < WORK_AHEAD_US, f"{proxy.name} had {ahead_us} us of work and got one more task"

    def _check_amounts(self, balancer: Balancer, present: list[WorkerProxy]) -> None:
        """Check the free amounts of each node, and that no task waits that fits somewhere."""
        policy = cast("Any", balancer._policy)
        nodes, places = policy._constrained._nodes, policy._loads
        taken: dict[ActorRef, Counter[str]] = defaultdict(Counter)
        for proxy in present:
            at_host = taken[proxy._host]
            for run in proxy._runs.values():
                for name, amount in RunOptions.decode(run.spec.options).capabilities:
                    at_host[name] += amount * (run.counted - run.released)
        assert set(taken) == set(nodes.hosts())
        for host, node in nodes._nodes.items():
            for name, total in node.total.items():
                assert node.free[name] == total - taken[host][name], f"the free amount of {name} at {host} is wrong"
                assert node.free[name] >= 0 or self.goes_on, f"more than {total} of {name} is taken"
        first = policy._queue.first()
        is_blocked = first is not None and places.with_room and places.room_in_next() < first.spec.rows
        for kind in () if is_blocked else policy._constrained.classes.values():  # a range that waits for room is next
            for host, node in nodes._nodes.items():
                has_room = any(places.has_room(worker) for worker in places._hosts[host])
                fits = has_room and node.can_take(kind.needs)
                assert not (kind.queue and fits), f"a task that requests {kind.needs} waits, although it fits"

    def _check_store(self, tasks: dict[ActorRef, TaskActor]) -> None:
        table = self.tree.objects
        if self.actor(OBJECT_STORE) is None:
            return
        users: dict[bytes, int] = {}
        for task in tasks.values():
            for used in split_ids(task._spec.object_ids):
                users[used] = users.get(used, 0) + 1
        for used in self._used_by_waiting():
            users[used] = users.get(used, 0) + 1
        nodes = {session.actor_ref for session in self.sessions(AgentSession)}
        assert table.copies.objects.keys() <= nodes, "copies are recorded for an agent that has left"
        if self.actor(BALANCER) is not None:  # else tasks of clients that left may wait for it to withdraw them
            assert table.users == users
            waiting = (each.frames for each in self._waiting() if each.status == WAITING)
            carried = sum(map(size_of, (*waiting, *(task._spec.frames for task in tasks.values()))))
            assert table.size_bytes == carried + sum(stored.size_bytes for stored in table.objects.values())
            paid = sum(stored.size_bytes for stored in table.objects.values() if stored.payer is not None)
            assert sum(owner.n_bytes for owner in self.tree.directory.owners) == carried + paid

    def _waiting(self) -> list[WaitingTask]:
        """Return all tasks that wait for results, or whose results tasks need."""
        found: dict[int, WaitingTask] = {}
        for session in self.all_client_sessions():
            waiting = session._waiting
            of_graphs = (task for graph in waiting.graphs.values() for task in graph.nodes)
            stored = chain.from_iterable(waiting._values._stored.values())
            found |= {id(task): task for task in (*waiting._by_id.values(), *of_graphs, *stored)}
        return list(found.values())

    def _used_by_waiting(self) -> Iterator[bytes]:
        for task in self._waiting():
            yield from split_ids(task.object_ids)
            if task.is_stored:
                yield task.task_id

    def check_empty(self) -> None:
        """Check that nothing is left when all clients have left and all runs have ended. Raises `AssertionError`."""
        assert self.sessions(ClientSession) == []
        assert self.graphs() == []
        assert self.actor(BALANCER).statistics()["ready_tasks"] == 0
        assert [proxy.load for proxy in self.proxies() if proxy.load != (0, 0)] == []
        counts = [(owner.clients, owner.tasks, owner.n_bytes) for owner in self.tree.directory.owners]
        assert set(counts) == {(0, 0, 0)}
        table = self.tree.objects
        assert (table.objects, table.owned, table.users, table.size_bytes) == ({}, {}, {}, 0)
        assert table.copies.hosts.keys() == table.retained.ends.keys()


def _queued(balancer: Balancer) -> set[tuple[ActorRef, int]]:
    policy = cast("Any", balancer._policy)
    return {(ready.task, ready.attempt) for ready in (*policy._queue, *policy._constrained)}
