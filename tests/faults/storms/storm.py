"""Runs one storm: starts the members, makes the faults while the clients work, calms down, and looks what is left."""

from __future__ import annotations

import dataclasses
import datetime as dt
import heapq
import itertools
import json
import math
import os
import random
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.storms import faults, journal, report
from tests.faults.storms.faults import Fault, Place, Plan
from tests.faults.storms.members import Member, Members, marked, python
from tests.faults.storms.network import SCHEDULER, Loopback, Namespaces, Network, Proxies
from tests.faults.storms.scenarios import Scenario
from tests.faults.storms.work import Orders
from tests.support.processes import REPOSITORY

WORK = Path(__file__).with_name("work.py")
TURN_SECONDS = 0.02
SAMPLE_SECONDS = 0.5
SETTLE_SECONDS = 20.0
SPARE_DESCRIPTORS = 40
"""Members may have so many more open files in the end: clients inside of processors stay connected, for one thing."""


@dataclass(frozen=True)
class Sizes:
    """How much work a storm is, and how many faults there must be: the work goes on until there were so many."""

    tasks: int
    seed: int
    window: int = 1000
    seconds: float | None = None
    patience_seconds: float = 60.0
    force_proxies: bool = False
    least_faults: int = 0


def network_of(scenario: Scenario, force_proxies: bool) -> Network:
    if scenario.network == "loopback":
        return Loopback()
    if scenario.network == "spaces" and not force_proxies and Namespaces.can_be_made():
        return Namespaces(scenario.rate, scenario.loss)
    return Proxies(scenario.rate, scenario.delay)


class Storm:
    """One run of a scenario."""

    def __init__(self, scenario: Scenario, sizes: Sizes) -> None:
        self._scenario = scenario
        self._sizes = sizes
        self.folder = Path(tempfile.mkdtemp(prefix="storm-"))
        self._network = network_of(scenario, sizes.force_proxies)
        self._members = Members(self.folder, uuid.uuid4().hex)
        self._place = Place(
            self._members, self._network, random.Random(sizes.seed), scenario.silence_seconds, time.monotonic
        )
        self._samples = report.Samples()
        self._faults: list[Fault] = []
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._hostile: list[subprocess.Popen[bytes]] = []
        self._is_calm = False

    def run(self) -> dict[str, Any]:
        """Return the figures; the logs stay in the folder."""
        try:
            self._start()
            self._rage()
            self._calm()
            self._end()
        finally:
            for each in self._hostile:
                each.kill()
                each.wait()
            self._members.close()
            self._network.close()
        notes = [self.folder / f"{name}.notes" for name in self._clients()]
        seen = journal.read(self.folder / "runs", notes)
        return report.figures(seen.of(self._clients()), self._faults, self._samples, self._scenario.expected)

    def _clients(self) -> list[str]:
        return [f"client{number}" for number in range(self._scenario.n_clients)]

    # ---------------------------------------------------------------------------------------------------- start

    def _start(self) -> None:
        scenario = self._scenario
        self._network.add(SCHEDULER)
        timeouts = ["-wt", f"{scenario.silence_seconds:g}", "-ct", f"{scenario.silence_seconds:g}"]
        command = python("-m", "scaler.cli.scheduler", self._network.address(SCHEDULER), *timeouts)
        command += ["--crash-limit", str(scenario.crash_limit)]
        self._add(SCHEDULER, SCHEDULER, _limited("nofile", scenario.scheduler_files, command))
        for number in range(scenario.n_agents):
            self._add_agent(f"agent{number}")
        agents = self._members.of("agent")
        self._members.until(lambda: "address" in self._members.scheduler.output, "the scheduler listens")
        self._members.until(lambda: all(len(each.processors()) for each in agents), "the agents have processors")
        for member in [self._members.scheduler, *agents]:
            self._samples.descriptors[member.name] = [member.n_descriptors()]
        victims = [f"victim{number}" for number in range(scenario.n_victims)]
        for name in (*self._clients(), *victims):
            self._add_client(name)

    def _add(self, kind: str, name: str, command: list[str]) -> None:
        self._members.add(kind, name, [*self._network.prefix(name), *command])

    def _add_agent(self, name: str) -> None:
        scenario = self._scenario
        self._network.add(name)
        command = python("-m", "scaler.cli.cluster", self._network.address(name), "-n", str(scenario.n_processors))
        command += ["-hi", f"{scenario.heartbeat_seconds:g}", *scenario.agent_options]
        self._add("agent", name, _limited("as", scenario.agent_memory_bytes, command))

    def _add_client(self, name: str) -> None:
        scenario, sizes = self._scenario, self._sizes
        self._network.add(name)
        kinds = [kind for kind in scenario.work if kind not in scenario.expected]
        if name == "client0":
            kinds += scenario.expected
        orders = Orders(
            name=name,
            address=self._network.address(name),
            runs=str(self.folder / "runs"),
            notes=str(self.folder / f"{name}.notes"),
            kinds=kinds,
            tasks={
                kind: scenario.n_expected
                if kind in scenario.expected
                else max(1, sizes.tasks // scenario.n_clients // len(scenario.work))
                for kind in kinds
            },
            seconds=sizes.seconds,
            goes_on=sizes.least_faults > 0,
            mean_seconds=scenario.mean_seconds,
            size=scenario.size,
            graph_tasks=scenario.graph_tasks,
            window=sizes.window,
            seed=sizes.seed,
            patience_seconds=sizes.patience_seconds,
            heartbeat_seconds=scenario.heartbeat_seconds,
            timeout_seconds=600.0,
        )
        self._add("client", name, python(str(WORK), json.dumps(dataclasses.asdict(orders))))

    # ---------------------------------------------------------------------------------------------------- faults

    def _rage(self) -> None:
        self._began = time.monotonic()
        for plan in self._scenario.plans:
            self._plan(plan, plan.most)
        for hostile in self._scenario.hostile:
            amount = hostile.amount * (self._sizes.tasks if hostile.grows else 1)
            self._later(hostile.at_second, lambda what=hostile.what, amount=amount: self._start_hostile(what, amount))
        self._later(0.0, self._sample)
        survivors = [self._members[name] for name in self._clients()]
        while any(each.is_running for each in survivors):
            self._is_calm |= self._has_enough() and time.monotonic() - self._began > self._scenario.most_seconds
            for each in survivors:
                if self._is_calm and not self._place.afflicted:
                    each.calm()
                elif self._has_enough():
                    each.say_enough()
            self._turn()

    def _has_enough(self) -> bool:
        return len(self._faults) >= self._sizes.least_faults

    def _turn(self) -> None:
        now = time.monotonic()
        while self._due and self._due[0][0] <= now:
            heapq.heappop(self._due)[2]()
        faults.note_deaths(self._faults, time.monotonic)
        for member in (self._members.scheduler, *self._members.of("agent")):
            if not member.is_running:
                self._resurrect(member)
        if not self._is_up() and "address" in self._members.scheduler.output:
            self._place.scheduler_since = now
            for fault in self._faults:
                fault.until = now if fault.took_all and fault.until is None else fault.until
        time.sleep(TURN_SECONDS)

    def _is_up(self) -> bool:
        return self._place.scheduler_since < math.inf

    def _resurrect(self, member: Member) -> None:
        if not self._was_killed(member):
            self._samples.ended_by_itself.append(f"{member.name} with {member.process.returncode}")
        if member.kind == SCHEDULER:
            self._place.scheduler_since = math.inf
        member.start()

    def _was_killed(self, member: Member) -> bool:
        return faults.was_killed(self._faults, member.pid, member.since)

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._due, (time.monotonic() + seconds, next(self._numbers), act))

    def _plan(self, plan: Plan, rest: int) -> None:
        """Make the next fault of a plan at about its time, and so on."""

        def act() -> None:
            if not self._is_calm and time.monotonic() - self._began < plan.to_second:
                self._plan(plan, rest - self._make(plan))

        if rest:
            self._later(plan.every_seconds * self._place.chance.uniform(0.5, 1.5), act)

    def _make(self, plan: Plan) -> bool:
        fault = faults.make(self._place, plan)
        if fault is None:
            return False
        self._faults.append(fault)
        self._note(f"{fault.kind}: {fault.victim}")
        if fault.heal is not None and fault.until is not None:
            self._place.afflicted.add(fault.victim)
            self._later(fault.until - time.monotonic(), lambda: self._heal(fault))
        return True

    def _note(self, what: str) -> None:
        with (self.folder / "faults.log").open("a") as log:
            log.write(f"{dt.datetime.now(dt.timezone.utc):%H:%M:%S.%f} {time.monotonic():.3f} {what}\n")

    def _heal(self, fault: Fault) -> None:
        assert fault.heal is not None
        fault.heal()
        fault.until = time.monotonic()
        self._note(f"{fault.kind}: {fault.victim} is healed")
        self._place.afflicted.discard(fault.victim)

    def _start_hostile(self, what: str, amount: int) -> None:
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
        arguments = [what, self._network.listens, str(amount), str(self._sizes.seed)]
        prefix = self._network.prefix(SCHEDULER)
        command = [*prefix, *python("-m", "tests.faults.storms.hostile", *arguments)]
        with (self.folder / "hostile.log").open("ab") as log:
            process = subprocess.Popen(command, cwd=REPOSITORY, env=environment, stdout=log, stderr=log)
        self._hostile.append(process)
        self._faults.append(Fault(what, SCHEDULER, time.monotonic(), until=time.monotonic()))

    def _sample(self) -> None:
        if size := self._members.scheduler.memory_bytes():
            self._samples.scheduler.append((time.monotonic() - self._began, size))
        self._samples.agents += [size for each in self._members.of("agent") if (size := each.memory_bytes())]
        self._later(SAMPLE_SECONDS, self._sample)

    # ------------------------------------------------------------------------------------------------------- end

    def _calm(self) -> None:
        """Heal what is broken, let hostile peers end, and let the members settle."""
        self._is_calm = True
        for member in (self._members.scheduler, *self._members.of("agent")):
            if self._was_killed(member):
                member.process.wait()  # at the last moment: the next turn starts it again
        self._turn()
        deadline = time.monotonic() + SETTLE_SECONDS
        while self._place.afflicted or any(each.poll() is None for each in self._hostile):
            self._turn()
        agents = self._members.of("agent")
        while not (self._is_up() and all(each.processors() for each in agents)) and time.monotonic() < deadline:
            self._turn()
        while self._too_many_descriptors() and time.monotonic() < deadline:
            self._turn()
        for name in self._samples.descriptors:
            self._samples.descriptors[name].append(self._members[name].n_descriptors())

    def _too_many_descriptors(self) -> list[str]:
        return [
            f"{name} has {now} descriptors open, and began with {first[0]}"
            for name, first in self._samples.descriptors.items()
            if (now := self._members[name].n_descriptors()) > first[0] + SPARE_DESCRIPTORS
        ]

    def _end(self) -> None:
        """End all members as a user does; whatever is there after that is left behind."""
        left = self._samples.left_behind
        left += self._too_many_descriptors()
        for name in self._clients():
            code = self._members[name].process.returncode
            left += [f"{name} ended with {code}"] if code not in {0, 3} else []  # 3: it has hung tasks, which count
        for member in (*self._members.of("agent"), self._members.scheduler):
            code = member.terminate()
            left += [f"{member.name} ended with {code}"] if code else [f"{member.name} does not end"] * (code is None)
        left += [f"process {pid} {_command(pid)}" for pid in marked(self._members.marker)]
        left += [f"file {each.name}" for each in (self.folder / "tmp").iterdir()]
        left += [f"file /dev/shm/{each.name}" for each in Path("/dev/shm").glob("scaler*")]


def _limited(resource: str, most: int, command: list[str]) -> list[str]:
    return ["prlimit", f"--{resource}={most}", *command] if most else command


def _command(pid: int) -> str:
    try:
        return (Path("/proc") / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:120]
    except OSError:
        return "has ended"
