"""The scenarios of storms, by name: which work is done, and what goes wrong meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.faults.storms.faults import Plan


@dataclass(frozen=True)
class Hostile:
    """Hostile peers that begin at some second of the storm; `amount` grows with the number of tasks."""

    what: str
    amount: int
    at_second: float = 1.0
    grows: bool = False


@dataclass(frozen=True)
class Scenario:
    """One storm. Its sizes are those of one with many cores; options of the program make them smaller."""

    about: str
    plans: tuple[Plan, ...] = ()
    work: tuple[str, ...] = ("plain",)
    network: str = "loopback"
    is_thrifty: bool = False
    """whether no execution may be repeated that no fault explains"""
    rate: float | None = None
    delay: float = 0.0
    loss: float = 0.0
    n_agents: int = 3
    n_processors: int = 2
    n_clients: int = 2
    n_victims: int = 0
    silence_seconds: float = 60.0
    heartbeat_seconds: float = 2.0
    crash_limit: int = 20
    agent_options: tuple[str, ...] = ()
    hostile: tuple[Hostile, ...] = ()
    expected: tuple[str, ...] = ()
    n_expected: int = 10
    """how many tasks of each kind that must fail"""
    scheduler_files: int = 0
    agent_memory_bytes: int = 0
    mean_seconds: float = 0.02
    size: int = 2_000_000
    graph_tasks: int = 20
    """how many tasks a graph has"""
    most_seconds: float = 600.0
    """after so long no more faults are made, however much work is left"""
    is_soak: bool = False


ALL_WORK = ("plain", "large", "objects", "graph", "nested", "map")
MORE_WORK = ("large", "objects", "graph", "nested")
OF_PROCESSORS = (Plan("processor killed", 0.2),)
OF_AGENTS = (Plan("agent killed", 2.0),)
OF_SCHEDULER = (Plan("scheduler killed", 5.0),)


def _network(about: str, *plans: Plan, **settings: object) -> Scenario:
    return replace(Scenario(about, plans, network="spaces", is_thrifty=True), **settings)  # type: ignore[arg-type]


def _with_each_work(name: str, scenario: Scenario) -> dict[str, Scenario]:
    """Return a scenario with plain work, and one for each other work."""
    return {name: scenario, **{f"{name}-{work}": replace(scenario, work=(work,)) for work in MORE_WORK}}


SCENARIOS: dict[str, Scenario] = {
    **_with_each_work("processors", Scenario("processors are killed, five a second", OF_PROCESSORS)),
    "processors-suspended": Scenario(
        "the same; processes of waiting tasks are stopped",
        OF_PROCESSORS,
        ("nested",),
        agent_options=("--hard-processor-suspend",),
    ),
    "fork-servers": Scenario("fork servers are killed", (Plan("fork server killed", 5.0),)),
    **_with_each_work("agents", Scenario("agents are killed and started again", OF_AGENTS)),
    **_with_each_work("scheduler", Scenario("the scheduler is killed and started again", OF_SCHEDULER)),
    "scheduler-suspended": Scenario(
        "the same; processes of waiting tasks are stopped",
        OF_SCHEDULER,
        ("nested",),
        agent_options=("--hard-processor-suspend",),
    ),
    "stops": Scenario(
        "any process is stopped for a while (SIGSTOP)",
        (Plan("stopped", 3.0, lasts_seconds=(1.0, 10.0)),),
        is_thrifty=True,
    ),
    "stops-beyond-time-outs": Scenario(
        "the same, for longer than the time-outs",
        (Plan("stopped", 1.5, lasts_seconds=(0.5, 4.0)),),
        silence_seconds=1.0,
        heartbeat_seconds=0.2,
        is_thrifty=True,
    ),
    "clients": Scenario(
        "clients are killed",
        (Plan("client killed", 4.0),),
        ("plain", "large", "nested"),
        n_victims=3,
        silence_seconds=5.0,
    ),
    "holes": _network("nothing passes from or to one host", Plan("black hole", 4.0, (), (2.0, 9.0))),
    "hole-of-40-seconds": _network(
        "nothing passes from or to one agent or client for 40 s; the time-outs are 600 s",
        Plan("black hole", 2.0, ("agent", "client"), (40.0, 40.0), most=2),
        silence_seconds=600.0,
    ),
    "holes-scheduler": _network(
        "nothing passes from or to the scheduler", Plan("black hole", 10.0, ("scheduler",), (8.0, 16.0))
    ),
    "unplugged": _network(
        "the link of the scheduler is down", Plan("unplugged", 6.0, ("scheduler",), (2.0, 8.0)), most_seconds=60.0
    ),
    "resets": _network("all connections of a host are reset (TCP RST)", Plan("reset", 0.6)),
    "input-dropped": _network("nothing passes to one host", Plan("input dropped", 5.0, (), (2.0, 8.0))),
    "output-dropped": _network("nothing passes from one host", Plan("output dropped", 5.0, (), (2.0, 8.0))),
    "loss": _network("one packet in ten is lost", loss=0.1),
    "slow": _network("2 MB/s for each host", rate=2_000_000.0, work=("plain", "large", "objects"), size=500_000),
    "delay": _network("bytes take 100 ms each way", delay=0.1, network="proxies"),
    "delay-resets": _network(
        "bytes take 100 ms each way, and connections are reset", Plan("reset", 1.5), delay=0.1, network="proxies"
    ),
    "memory": Scenario(
        "tasks want more memory than there is",
        work=("plain", "hogs"),
        expected=("hogs",),
        agent_memory_bytes=8 << 30,
        is_thrifty=True,
    ),
    "poison": Scenario("tasks kill their processes", work=("plain", "poison"), expected=("poison",), crash_limit=3),
    "garbage": Scenario(
        "fifty peers send garbage, some after a genuine hello",
        work=("plain", "objects"),
        silence_seconds=5.0,
        heartbeat_seconds=0.5,
        hostile=(Hostile("garbage", 3, grows=True),),
    ),
    "flood": Scenario("connections that say nothing or little", hostile=(Hostile("flood", 500),), is_thrifty=True),
    "descriptors": Scenario(
        "more connections than the scheduler may have open files",
        hostile=(Hostile("flood", 300),),
        scheduler_files=128,
    ),
    "huge": Scenario("frames of 200 MB from peers that said no hello", hostile=(Hostile("huge", 5),), is_thrifty=True),
    "soak": Scenario(
        "all of it, of each something",
        (
            Plan("processor killed", 1.0),
            Plan("fork server killed", 45.0),
            Plan("agent killed", 30.0),
            Plan("stopped", 20.0, (), (1.0, 8.0)),
            Plan("black hole", 30.0, ("agent", "client"), (2.0, 8.0)),
            Plan("black hole", 120.0, ("scheduler",), (2.0, 8.0)),
            Plan("input dropped", 45.0, (), (2.0, 8.0)),
            Plan("output dropped", 45.0, (), (2.0, 8.0)),
            Plan("reset", 5.0),
        ),
        work=(*ALL_WORK,),
        network="spaces",
        hostile=(Hostile("garbage", 2000, 10.0), Hostile("flood", 100, 20.0)),
        size=200_000,
        is_soak=True,
    ),
}

SOAK_FULL_SECONDS = 300.0
LEAST_OF_SOAK = 0.1
SCHEDULER_EVERY_SECONDS = 20.0


def soak_of(seconds: float) -> Scenario:
    """Return the soak of a length; short ones have more and shorter faults.

    The scheduler is killed in the first quarter alone, and its memory watched after that.
    """
    soak = SCENARIOS["soak"]
    scale = max(LEAST_OF_SOAK, min(1.0, seconds / SOAK_FULL_SECONDS))
    kills = Plan("scheduler killed", SCHEDULER_EVERY_SECONDS, to_second=seconds / 4)
    plans = tuple(_scaled(each, scale) for each in (*soak.plans, kills))
    hostile = tuple(replace(each, at_second=each.at_second * scale) for each in soak.hostile)
    return replace(soak, plans=plans, hostile=hostile, most_seconds=seconds)


def _scaled(plan: Plan, scale: float) -> Plan:
    every = max(plan.every_seconds * scale, min(plan.every_seconds, 0.5))
    shortest, longest = plan.lasts_seconds
    return replace(plan, every_seconds=every, lasts_seconds=(shortest * scale, longest * scale))
