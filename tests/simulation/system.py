"""System: a scheduler, agents and programs, their network, and what must be so at the end."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from functools import partial

from scaler.actors.sessions.agent_session import AgentSession
from scaler.settings import ClusterConfig, SchedulerConfig
from tests.simulation.contact import Contacts
from tests.simulation.disk import DiskModel
from tests.simulation.kept import Kept
from tests.simulation.network import Network
from tests.simulation.parties import ADDRESS, AgentParty, ProgramParty, SchedulerParty, owner_of
from tests.simulation.record import SCHEDULER, Record
from tests.simulation.strangers import StrangerParty
from tests.simulation.users import User
from tests.simulation.world import World

HANG_SECONDS = 1_500.0
"""When nothing disturbs any more, everything has ended after this time, transfers included."""


class System:
    """All parties of a run.

    Args:
        limits: the settings of the scheduler.
        beat: seconds between two heartbeats, of agents and clients.
        is_hard: whether processes of waiting tasks are stopped.
        limit_seconds: how long a task may run; 0: no limit.
    """

    def __init__(
        self, world: World, limits: SchedulerConfig, beat: float = 2.0, is_hard: bool = False, check_each: int = 8
    ) -> None:
        self.world = world
        self.limits = limits
        self.beat = beat
        self.is_hard = is_hard
        self.capabilities = ""
        """of each agent"""
        self.disks: tuple[int, ...] = ()
        """the bytes that an agent may have on disk: one of these"""
        self.is_choppy = False
        """whether the scheduler does little at a time"""
        self.job_disk: DiskModel | None = None
        """where the scheduler keeps jobs, if it does"""
        self.network = Network(world)
        may_refuse = limits.max_number_of_tasks_waiting >= 0
        self.record = Record(world, limits.crash_limit, may_refuse, check_each=check_each)
        self.contacts = self.network.contacts = Contacts(world, self.record, limits, beat)
        self.agents: list[AgentParty] = []
        self.programs: list[ProgramParty] = []
        self.strangers: list[StrangerParty] = []
        self.scheduler: SchedulerParty
        self._names = 0

    def new_name(self, kind: str) -> str:
        self._names += 1
        return f"{kind}{self._names}"

    # Parties

    def start_scheduler(self) -> None:
        party = SchedulerParty(
            self.world, self.network, self.record, self.contacts, self.limits, self.is_choppy, self.job_disk
        )
        self.scheduler = party

    def start_agent(self, workers: int) -> AgentParty:
        name = self.new_name("agent")
        config = ClusterConfig(
            ADDRESS,
            workers,
            worker_names=tuple(f"{name}.w{index}" for index in range(workers)),
            heartbeat_interval_seconds=self.beat,
            death_timeout_seconds=100_000.0,
            hard_processor_suspend=self.is_hard,
        )
        disk = self.world.random.choice(self.disks) if self.disks else None
        agent = AgentParty(self.world, self.network, self.record, name, config, self.capabilities, disk)
        self.agents.append(agent)
        return agent

    def start_program(self, owner: str = "") -> ProgramParty:
        name = self.new_name("client")
        while owner and owner_of(name) != owner:
            name = self.new_name("client")
        program = ProgramParty(self.world, self.network, self.record, name, self.beat)
        self.programs.append(program)
        return program

    def start_stranger(self) -> StrangerParty:
        stranger = StrangerParty(self.world, self.network, self.new_name("stranger"))
        self.strangers.append(stranger)
        return stranger

    def living_agents(self) -> list[AgentParty]:
        return [agent for agent in self.agents if agent.is_alive and not agent.may_end]

    def living_programs(self) -> list[ProgramParty]:
        return [program for program in self.programs if program.is_alive and not program.user.is_leaving]

    def kill_scheduler(self) -> None:
        self.contacts.forget_lines()
        self.scheduler.die()

    def pause_scheduler(self) -> None:
        self.scheduler.pause()

    def wake_scheduler(self) -> None:
        self.scheduler.go_on()

    # The end

    def finish(self) -> None:
        """From now on nothing bad happens: everything must end well."""
        self._be_well()
        world = self.world
        self._have_jobs(Kept.finish, Kept.finish_rival)
        if not self._await(lambda: all(program.user.has_all for program in self.living_programs()), "has no result"):
            return
        self._check_promises()
        for program in self.living_programs():
            program.user.is_at_end = True
            program.act(lambda user: user.look())
        if not self._await(lambda: all(program.user.is_done for program in self.living_programs()), "was not read"):
            return
        self._check_rivals()
        self._have_jobs(Kept.forget, Kept.forget)
        if not self._await(
            lambda: all(program.user.is_done for program in self.living_programs()), "was not forgotten"
        ):
            return
        for program in self.living_programs():
            program.act(lambda user: user.forget())
        world.run(5.0)
        for program in self.living_programs():
            for left in program.user.left():
                world.complain(left)
            program.act(lambda user: user.leave())
        self._end_clients()
        # The results of an agent whose session has ended wait as long for who may claim them.
        has_dead = bool(self.contacts.lost) or any(
            not party.is_alive for party in (*self.agents, *self.programs, *self.strangers)
        )
        # Another scheduler keeps for so long what agents had for tasks that nobody says again.
        has_dead = has_dead or any(name == SCHEDULER for _at, name in self.record.losses)
        timeout = max(self.limits.client_timeout_seconds, self.limits.worker_timeout_seconds) if has_dead else 0.0
        world.run(timeout + 5.0)
        self._end_clients()  # a task of a dead client may have begun elsewhere meanwhile
        world.run(self.limits.object_retention_seconds + 10.0)
        if not world.violations:
            self._check_empty()

    def _check_promises(self) -> None:
        """Complain of a value that its holder does not have, unless the value is on its way there."""
        self.world.run(5.0)
        broken = self._broken_promises()
        if broken:
            self.world.run(5.0)
            for wrong in broken & self._broken_promises():
                self.world.complain(wrong)

    def _broken_promises(self) -> set[str]:
        """Return a sentence for each value that an agent lacks although the scheduler has it as the value's holder."""
        inside, table = self.scheduler.inside, self.scheduler.tree.objects
        names = {each.actor_ref: self.contacts.name_of(each._peer.key[1]) for each in inside.sessions(AgentSession)}
        agents = {agent.name: agent for agent in self.living_agents() if agent.runs}
        broken: set[str] = set()
        for object_id, stored in table.objects.items():
            hosts = table.copies.hosts.get(object_id, ())
            promised = [(host, b"") for host in hosts if not stored.is_awaited_by(host)]
            if stored.is_with_agent and stored.source is not None and not stored.lost:
                promised.append((stored.source, stored.location))
            for host, location in promised:
                agent = agents.get(names.get(host, ""))
                if agent is not None and (wrong := agent.breaks_promise(object_id, location)):
                    broken.add(wrong)
        return broken

    def _have_jobs(self, act: Callable[[Kept], None], act_of_rivals: Callable[[Kept], None]) -> None:
        """Have somebody do this with each job."""
        for job in self.record.jobs.values():
            self.program_of(job.owner).act(partial(User.keep, job=job, act=act))
        for job in (job for both in self.record.rivals for job in both):
            self.program_of(job.owner).act(partial(User.keep, job=job, act=act_of_rivals))
        self.world.run(0.01)  # until all have begun

    def _check_rivals(self) -> None:
        for one, other in self.record.rivals:
            if not (one.is_mine or other.is_mine):
                self.world.complain(f"of two programs neither can finish the job {one.name}")

    def program_of(self, owner: str) -> ProgramParty:
        """Return a program of this owner, which may have to be started."""
        known = [program for program in self.living_programs() if program.owner == owner]
        if known:
            return known[0]
        program = self.start_program(owner)
        self.world.run(0.01)
        return program

    def _end_clients(self) -> None:
        for agent in self.living_agents():
            agent.end_clients()

    def _be_well(self) -> None:
        world = self.world
        world.log("from now on nothing bad happens")
        for host in self.network.ways:
            self.network.heal(host)
        if self.job_disk is not None and self.job_disk.fails:
            self.job_disk.fails, self.record.disk_failed_until = False, world.now
        if not self.scheduler.is_alive:
            self.start_scheduler()
        self.wake_scheduler()
        for party in (*self.agents, *self.programs):
            party.go_on()
        for stranger in self.strangers:
            stranger.leave()
        if not self.living_agents():
            self.start_agent(2)
        world.run(0.5)

    def _await(self, condition: Callable[[], bool], what: str) -> bool:
        n_seen, n_started = -1, len(self.record.starts)
        while n_seen < n_started and not self.world.violations:  # long tasks may have only one worker
            n_seen = n_started
            if self.world.run(HANG_SECONDS, condition):
                return not self.world.violations
            n_started = len(self.record.starts)
        if self.world.violations:
            return False
        for program in self.living_programs():
            for call in program.user.calls:
                if not call.is_over:
                    self.world.log(f"task {call.script.key} of {program.name} {what}: {call.future!r}")
        self.world.complain(f"something {what} after {HANG_SECONDS:g} s in which no further task started")
        return False

    def _check_empty(self) -> None:
        try:
            self.scheduler.inside.check()
            self.scheduler.inside.check_empty()
            assert self.scheduler.tree.objects.retained.ends == {}
        except AssertionError as error:
            self.world.lines.append(traceback.format_exc())
            for object_id, stored in self.scheduler.tree.objects.objects.items():
                owners = [self.contacts.name_of(owner) for owner in stored.owners]
                self.world.log(f"object {object_id.hex()} is held by {owners}")
            self.world.complain(f"left at the scheduler: {error}")
        for agent in self.living_agents():
            for left in agent.left():
                self.world.complain(left)
        for problem in self.job_disk.problems() if self.job_disk is not None else ():
            self.world.complain(problem)

    def close(self) -> None:
        """Let go of all that the parties hold."""
        for party in (*self.agents, *self.programs):
            party.is_alive = False
        for program in self.programs:
            program.end_routines()
        if self.job_disk is not None:
            self.job_disk.close()
        self.network.contacts = None
