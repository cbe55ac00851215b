"""The faults of a storm: each is made at a moment, some end at a later one, and each says whom it has taken."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import random
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import psutil

from tests.faults.storms.members import Member, Members
from tests.faults.storms.network import SCHEDULER, Network


@dataclass
class Fault:
    """What was done, and whose executions it may have ended or made worthless: processes, all of an agent
    or a client, or all.

    `until` is when it was over; a kill has none, but that of a scheduler is over when the next one listens.
    The system takes its time to end what was killed: `dead_at` is when all of it was seen to have ended.
    """

    kind: str
    victim: str
    at: float
    took: frozenset[int] = frozenset()
    took_life: str | None = None
    took_client: str | None = None
    took_all: bool = False
    until: float | None = None
    heal: Callable[[], None] | None = None
    cut_off_life: str | None = None
    """the life of a member that neither hears nor says anything for so long"""
    dying: list[psutil.Process] = field(default_factory=list)
    """what a kill took and was not seen to have ended"""
    dead_at: float | None = None


@dataclass(frozen=True)
class Plan:
    """How often faults of a kind are made, on whom, how long each lasts, and from when to when they are made."""

    kind: str
    every_seconds: float
    whom: Sequence[str] = ()
    lasts_seconds: tuple[float, float] = (0.0, 0.0)
    most: int = 1_000_000
    from_second: float = 0.0
    to_second: float = math.inf


@dataclass
class Place:
    """Where faults are made. Whoever is silent for `silence_seconds` is taken for gone, and loses its work."""

    members: Members
    network: Network
    chance: random.Random
    silence_seconds: float
    clock: Callable[[], float]
    scheduler_since: float = math.inf
    """when the present scheduler began to listen"""
    afflicted: set[str] = field(default_factory=set)
    """those whose fault has not ended: no other one is made on them"""


Maker = Callable[[Place, Plan], "Fault | None"]


def make(place: Place, plan: Plan) -> Fault | None:
    """Make one fault of the kind of the plan. Returns None if there is no victim at present."""
    return MAKERS[plan.kind](place, plan)


def _running(place: Place, kind: str) -> list[Member]:
    return [each for each in place.members.of(kind) if each.is_running and each.name not in place.afflicted]


def _below(process: int) -> list[psutil.Process]:
    """Return a process and all below it."""
    with contextlib.suppress(psutil.Error):
        top = psutil.Process(process)
        return [top, *top.children(recursive=True)]
    return []


def note_deaths(faults: Sequence[Fault], clock: Callable[[], float]) -> None:
    """Look which of the killed processes have ended; each may begin something until then."""
    for fault in faults:
        if fault.dying:
            fault.dying = [each for each in fault.dying if _lives(each)]
            fault.dead_at = clock()


def _lives(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def was_killed(faults: Sequence[Fault], process: int, since: float) -> bool:
    """Return whether a fault has taken a process. The system gives its number to others, before and after.

    Args:
        since: when the process began.
    """
    return any(process in fault.took and fault.at >= since for fault in faults)


def _kill(kind: str, victim: str, process: int, place: Place, **took: Any) -> Fault:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGSTOP)  # so that nothing is born between the look and the kill
    below = _below(process)
    at = place.clock()
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
    return Fault(kind, victim, at, frozenset(each.pid for each in below), dying=below, **took)


def _kill_processor(place: Place, plan: Plan) -> Fault | None:
    processors = [each for agent in _running(place, "agent") for each in agent.processors()]
    return _kill(plan.kind, "processor", place.chance.choice(processors).pid, place) if processors else None


def _kill_fork_server(place: Place, plan: Plan) -> Fault | None:
    servers = [server for agent in _running(place, "agent") if (server := agent.fork_server())]
    return _kill(plan.kind, "fork server", place.chance.choice(servers).pid, place) if servers else None


def _kill_agent(place: Place, plan: Plan) -> Fault | None:
    agents = _running(place, "agent")
    if not agents:
        return None
    agent = place.chance.choice(agents)
    return _kill(plan.kind, agent.name, agent.pid, place, took_life=agent.life)


def _kill_scheduler(place: Place, plan: Plan) -> Fault | None:
    lives = place.clock() - place.scheduler_since
    if SCHEDULER in place.afflicted or lives < plan.every_seconds / 2:
        return None  # it is to have some time for work, however slowly it starts
    return _kill(plan.kind, SCHEDULER, place.members.scheduler.pid, place, took_all=True)


def _kill_client(place: Place, plan: Plan) -> Fault | None:
    clients = [each for each in _running(place, "client") if each.name.startswith("victim")]
    return _kill(plan.kind, clients[0].name, clients[0].pid, place) if clients else None


def _lasting(place: Place, plan: Plan, member: Member, heal: Callable[[], None], is_cut_off: bool = True) -> Fault:
    """Return a fault that ends by `heal`. It takes the work of a peer that is silent for too long by it."""
    seconds = place.chance.uniform(*plan.lasts_seconds)
    now = place.clock()
    fault = Fault(plan.kind, member.name, now, until=now + seconds, heal=heal)
    fault.cut_off_life = member.life if is_cut_off else None
    if seconds >= place.silence_seconds:
        fault.took_life, fault.took_client = member.life, member.name
        # A scheduler that was stopped itself takes nobody for gone.
        fault.took_all = member.kind == SCHEDULER and plan.kind != "stopped"
    return fault


def _stop(place: Place, plan: Plan) -> Fault | None:
    kind = place.chance.choice(plan.whom or ("scheduler", "agent", "client", "fork server", "processor"))
    members = _running(place, kind if kind in {"scheduler", "client"} else "agent")
    if not members:
        return None
    member = place.chance.choice(members)
    pids = [each.pid for each in member.processors()] if kind == "processor" else [member.pid]
    if kind == "fork server":
        pids = [server.pid] if (server := member.fork_server()) else []
    if not pids:
        return None
    pid = place.chance.choice(pids)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
    return _lasting(place, plan, member, functools.partial(_continue, pid), pid == member.pid)


def _continue(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


def _host(place: Place, plan: Plan) -> Member | None:
    kind = place.chance.choice(plan.whom or ("scheduler", "agent", "client"))
    members = _running(place, kind)
    return place.chance.choice(members) if members else None


def _on_network(place: Place, plan: Plan, act: Callable[[str], None]) -> Fault | None:
    member = _host(place, plan)
    if member is None:
        return None
    act(member.name)
    return _lasting(place, plan, member, lambda: place.network.heal(member.name))


def _hole(place: Place, plan: Plan) -> Fault | None:
    return _on_network(place, plan, lambda host: place.network.drop(host, True, True))


def _input_dropped(place: Place, plan: Plan) -> Fault | None:
    return _on_network(place, plan, lambda host: place.network.drop(host, False, True))


def _output_dropped(place: Place, plan: Plan) -> Fault | None:
    return _on_network(place, plan, lambda host: place.network.drop(host, True, False))


def _unplugged(place: Place, plan: Plan) -> Fault | None:
    return _on_network(place, plan, place.network.unplug)


def _reset(place: Place, plan: Plan) -> Fault | None:
    member = _host(place, plan)
    if member is None:
        return None
    at = place.clock()
    place.network.reset(member.name)
    return Fault(plan.kind, member.name, at, until=at)


CLOSED_SECONDS = {"agent": 2.0, "client": 5.0}
"""So long a peer whose connection was closed may take to come back before its work moves: the scheduler's own rule."""
AT_ONCE_SECONDS = 1.0
"""A peer whose connection was reset may not be back yet when it is cut off so soon after that."""


def _late_seconds(cut: Fault) -> float:
    """Return how long after a cut a peer may be back. What it has said meanwhile, the kernel repeats after pauses that
    double: so the next time may be as long after the cut as that has lasted, and only then it hears of a reset.
    """
    assert cut.until is not None
    return AT_ONCE_SECONDS if cut.kind == "stopped" else max(AT_ONCE_SECONDS, cut.until - cut.at)


def closed_while_cut_off(faults: Sequence[Fault]) -> list[Fault]:
    """Return what faults have done together: a connection was reset when its peer could not come back in time."""
    cuts = sorted((each for each in faults if each.cut_off_life), key=lambda cut: cut.at)
    peers = {(cut.victim, cut.cut_off_life) for cut in cuts if cut.victim != SCHEDULER}
    found = []
    for reset in (each for each in faults if each.kind == "reset"):
        for victim, life in sorted(peers):
            if reset.victim in {victim, SCHEDULER}:
                own = [cut for cut in cuts if cut.cut_off_life == life or cut.victim == SCHEDULER]
                found += _closed_too_long(reset, victim, own, took_life=life, took_client=victim)
        found += _closed_too_long(reset, "agent", [cut for cut in cuts if cut.victim == SCHEDULER], took_all=True)
    return found


def _closed_too_long(reset: Fault, victim: str, cuts: Sequence[Fault], **took: Any) -> list[Fault]:
    """Return the fault that a reset is for a peer that these faults, in order, keep away, if that is for too long."""
    back, late, kinds = reset.at, AT_ONCE_SECONDS, []
    for cut in cuts:
        assert cut.until is not None
        if cut.at - late <= back <= cut.until:
            back, late = cut.until, _late_seconds(cut)
            kinds.append(cut.kind)
    most = next((seconds for kind, seconds in CLOSED_SECONDS.items() if victim.startswith(kind)), math.inf)
    if back + late - reset.at < most or not kinds:
        return []
    return [Fault(f"reset, and {kinds[0]}", victim, reset.at, until=back + late, **took)]


MAKERS: dict[str, Maker] = {
    "processor killed": _kill_processor,
    "fork server killed": _kill_fork_server,
    "agent killed": _kill_agent,
    "scheduler killed": _kill_scheduler,
    "client killed": _kill_client,
    "stopped": _stop,
    "black hole": _hole,
    "input dropped": _input_dropped,
    "output dropped": _output_dropped,
    "unplugged": _unplugged,
    "reset": _reset,
}
