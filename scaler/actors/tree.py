"""The supervision tree of the scheduler, as one literal.

    scheduler (one for one)
    |-- object store     restarted with its table
    |-- balancer         restarted empty; requests all reports again
    |-- adoption         restarted with its table
    |-- census           restarted empty
    |-- outputs          restarted with its table
    |-- job keeper       if jobs are kept; restarted from their records
    |   `-- job              not restarted: the next request opens it again
    |       `-- task             not restarted: reported as failed
    `-- acceptor         restarted with the directory of peers
        |-- client session   not restarted: its client sends a new hello
        |   `-- task             not restarted: reported as failed
        `-- agent session    not restarted: its agent sends a new hello
            `-- worker proxy     ends with its session

The monitor, if there is one, has a supervisor of its own, which restarts it without a limit. A scheduler that exceeds
its budget of restarts ends with a non-zero exit code, so that the failure is noticed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from math import inf

from scaler.actors.insight.census import Census
from scaler.actors.insight.task_outputs import OutputState, TaskOutputs
from scaler.actors.jobs.job_catalog import JobCatalog, SeenJobs
from scaler.actors.jobs.job_keeper import JobKeeper
from scaler.actors.messages.peers import ReportStatistics
from scaler.actors.monitor import Board, Monitor, Sources
from scaler.actors.objects.object_store import ObjectStore
from scaler.actors.objects.object_table import ObjectTable
from scaler.actors.policy import Placement, make_policy
from scaler.actors.sessions.acceptor import Acceptor
from scaler.actors.tasks.adoption import Adoption, AdoptionTable
from scaler.actors.vocabulary.directory import Directory
from scaler.actors.vocabulary.events import Events, PartRestarted
from scaler.actors.vocabulary.outbox import Outbox
from scaler.actors.vocabulary.peer import OpenPipe
from scaler.actors.vocabulary.services import Options, Services, WriteAudit, no_audit
from scaler.actors.workers.balancer import Balancer
from scaler.ids import SchedulerId, attempt_numbers
from scaler.kit import ActorRef, ChildSpec, Dispatcher, RestartBudget, Strategy, Supervisor
from scaler.process.report import Report
from scaler.settings import SchedulerConfig
from scaler.settings.scheduler import FAIR
from scaler.wire.session.traffic import Traffic
from scaler.wire.session.transfer import WINDOW_BYTES

ENDLESS = RestartBudget(times=sys.maxsize, within_seconds=60.0)
MONITOR = "monitor"
OBJECT_STORE, BALANCER, ADOPTION, CENSUS, OUTPUTS = "object store", "balancer", "adoption", "census", "outputs"
ACCEPTOR, JOBS = "acceptor", "job keeper"


def _was_never_paused(_since: float) -> float:
    return 0.0


def _message_limit(value_bytes: Callable[[], int]) -> float:
    """Return the size above which only the header of a message is kept: a quarter more than the limit of a value."""
    return value_bytes() * 5 // 4 or inf


def _jobs(catalog: JobCatalog | None, services: Callable[[Mapping[str, ActorRef]], Services]) -> tuple[ChildSpec, ...]:
    return () if catalog is None else (ChildSpec(JOBS, JobKeeper, lambda peers: JobKeeper(catalog, services(peers))),)


class SchedulerTree:
    """The running supervision tree, and the state that outlives the actors in the tree.

    Args:
        shut_down: called when an authorised client requests the end of the scheduler.
        paused_since: returns for how many seconds the scheduler was stopped since a time of its clock.
        board: where the monitor publishes; None: no monitor.
        window_bytes: limit of the unacknowledged bytes of large items for one peer.
        value_bytes: returns the present size limit of one value in bytes; 0: no limit.
        catalog: the list of the jobs; None: this scheduler keeps no jobs.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        scheduler_id: SchedulerId,
        package_version: str,
        config: SchedulerConfig,
        shut_down: Callable[[], None],
        read_options: Callable[[bytes], Options],
        new_pipe: OpenPipe,
        paused_since: Callable[[float], float] = _was_never_paused,
        board: Board | None = None,
        window_bytes: int = WINDOW_BYTES,
        value_bytes: Callable[[], int] = int,
        audit: WriteAudit = no_audit,
        catalog: JobCatalog | None = None,
    ) -> None:
        self._audit = audit
        self.outbox = Outbox()
        self.sent, self.received = Traffic(), Traffic()
        self.config = config
        self.clock = dispatcher.clock
        room = partial(_message_limit, value_bytes)
        open_pipe = partial(new_pipe, window_bytes=window_bytes, counts=self.sent.items, room=room)
        self.directory = Directory(attempt_numbers(scheduler_id), self.outbox, config.policy == FAIR)
        self.objects = ObjectTable()
        self.adoptions = AdoptionTable()
        self.jobs: SeenJobs = {} if catalog is None else catalog.seen
        self.outputs = OutputState(config.task_output_retention_seconds)
        self.events = Events(self.objects.function_name)

        self._owner = "" if catalog is None else catalog.owner
        services = partial(
            self._services, read_options=read_options, paused_since=paused_since, value_bytes=value_bytes
        )
        accept = (scheduler_id, package_version, open_pipe, shut_down)
        self.supervisor = self._supervisor(lambda actors: Acceptor(services(actors), *accept), _jobs(catalog, services))
        dispatcher.spawn(self.supervisor)
        self.monitor: ActorRef | None = None
        if board is not None:
            self._add_monitor(dispatcher, board, scheduler_id)

    def _services(
        self,
        actors: Mapping[str, ActorRef],
        read_options: Callable[[bytes], Options],
        paused_since: Callable[[float], float],
        value_bytes: Callable[[], int],
    ) -> Services:
        return Services(
            self.config,
            self.directory,
            self.outbox,
            self.events,
            acceptor=actors[ACCEPTOR],
            balancer=actors[BALANCER],
            object_store=actors[OBJECT_STORE],
            adoption=actors[ADOPTION],
            census=actors[CENSUS],
            outputs=actors[OUTPUTS],
            jobs=actors.get(JOBS),
            owner=self._owner,
            read_options=read_options,
            paused_since=paused_since,
            value_bytes=value_bytes,
            payer_of=self.objects.payer_of,
            is_stored=self.objects.objects.__contains__,
            supplier_of=self.objects.supplier_of,
            maker_of=self.objects.maker_of,
            result_bytes=self.objects.result_bytes,
            function_name=self.objects.function_name,
            awaited_by=self.objects.awaited_by,
            audit=self._audit,
        )

    def _add_monitor(self, dispatcher: Dispatcher, board: Board, scheduler_id: SchedulerId) -> None:
        """Start the monitor below a supervisor of its own, so that failures of the monitor affect no other part."""
        balancer = self.supervisor.children[BALANCER]
        known = Sources(
            scheduler_id,
            self.directory,
            self.objects,
            self.events,
            self.sent,
            self.received,
            balancer,
            self.outputs.table,
            self.jobs,
        )
        supervisor = Supervisor(
            (ChildSpec(MONITOR, Monitor, lambda _peers: Monitor(board, known)),),
            budget=ENDLESS,
            on_restart=self._report_restart,
        )
        dispatcher.spawn(supervisor)
        self.monitor = supervisor.children[MONITOR]
        self.events.listen(self.monitor, wants_objects=False)

    def _supervisor(
        self, acceptor: Callable[[Mapping[str, ActorRef]], Acceptor], jobs: tuple[ChildSpec, ...]
    ) -> Supervisor:
        config = self.config
        return Supervisor(
            (
                ChildSpec(OBJECT_STORE, ObjectStore, lambda _peers: self._object_store()),
                ChildSpec(BALANCER, Balancer, lambda peers: self._balancer(peers[ACCEPTOR])),
                ChildSpec(ADOPTION, Adoption, lambda _peers: Adoption(self.adoptions, config.client_timeout_seconds)),
                ChildSpec(
                    CENSUS, Census, lambda peers: Census(self.directory, self.outbox, peers[BALANCER], self.objects)
                ),
                ChildSpec(OUTPUTS, TaskOutputs, lambda _peers: TaskOutputs(self.outputs, self.outbox, self.objects)),
                *jobs,
                ChildSpec(ACCEPTOR, Acceptor, acceptor),
            ),
            strategy=Strategy.ONE_FOR_ONE,
            budget=RestartBudget(times=10, within_seconds=60.0),
            on_restart=self._report_restart,
        )

    def _balancer(self, acceptor: ActorRef) -> Balancer:
        policy: Placement = make_policy(self.config, self.directory.accounts.owner_of)
        return Balancer(acceptor, policy, self.directory.next_attempt)

    def _object_store(self) -> ObjectStore:
        return ObjectStore(self.objects, self.outbox, self.events, self.config.object_retention_seconds)

    def _report_restart(self, part: str, error: BaseException) -> None:
        if self.events.listener is not None:
            self.events.listener.send(PartRestarted(part, repr(error)))

    @property
    def acceptor(self) -> ActorRef:
        """The address of the acceptor, to which the edge sends hellos."""
        return self.supervisor.children[ACCEPTOR]

    @property
    def job_keeper(self) -> ActorRef | None:
        """The address of the job keeper; None if this scheduler keeps no jobs."""
        return self.supervisor.children.get(JOBS)

    def report(self) -> Report:
        """Make all running actors report their counts. The report is complete after the next run of the dispatcher."""
        report = Report()
        for part in self.supervisor.children.values():
            part.notify(ReportStatistics(report))
        return report

    def statistics(self) -> dict[str, int]:
        """Return the numbers of peers, of sessions, of objects, and of hosts that have copies of objects."""
        directory = self.directory
        return {"peers": len(directory.connected), "sessions": len(directory.peers), **self.objects.statistics()}
