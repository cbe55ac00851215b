"""Kinds of stories: which things can happen in one, and the settings that make them interesting."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Container
from dataclasses import dataclass
from itertools import islice
from math import inf

from scaler.settings.scheduler import FAIR, POLICIES


@dataclass(frozen=True)
class Kind:
    """A kind of story: which actions there are, and the settings that make them interesting."""

    name: str
    acts: tuple[str, ...]
    timeouts: tuple[float, ...] = (8.0,)
    crash_limits: tuple[int, ...] = (20,)
    pauses: tuple[float, ...] = (0.0, 0.1, 0.5, 2.0)
    """between two actions"""
    rates: tuple[float, ...] = (inf,)
    """of the ways to the scheduler, in bytes a second"""
    seconds: tuple[float, ...] = (0.0, 0.001, 0.02, 0.3, 2.0, 6.0)
    """how long tasks take"""
    resisting: float = 0.05
    """how many tasks do not heed an interrupt"""
    stops: tuple[float, ...] = (0.3, 2.0, 7.0, 15.0)
    """how long processes are stopped"""
    sizes: tuple[int, ...] = (20_000, 100_000)
    """of large arguments, results and objects"""
    steps: tuple[int, int] = (8, 25)
    disks: tuple[int, ...] = ()
    """the bytes that agents may have on disk, with memory for one large value; none: some have memory for all"""
    kept: tuple[int, ...] = ()
    """the bytes that the scheduler keeps for a peer that is away; none: its default"""
    policies: tuple[str, ...] = ()
    """none: the default"""
    waiting: tuple[int, ...] = ()
    """how many tasks may wait when no worker has room; none: any number"""
    is_alone: bool = False
    """there is one agent, and it lives: whatever it has it goes on with, however long it was away"""
    counts_deaths: bool = False
    """no agent is away without being dead: each death of a task counts"""
    cancel_seconds: float = inf
    """after this time, a run that was cancelled is over"""
    agents: int = 1
    """so many there are at least, when it begins"""
    is_single: bool = False
    """the older of two runs of a task is cancelled when its agent is back"""
    drains: tuple[float, ...] = (1.0, 20.0)
    """how long agents that leave wait for their tasks"""
    is_orderly: bool = False
    """nothing is ever lost: no task runs again, and those of a high priority go first"""
    keeps_jobs: bool = False
    """the scheduler has a folder of jobs"""
    is_choppy: bool = False
    """the scheduler does little at a time, and is checked after each turn"""


AWAY_SECONDS = 20.0
"""A cancel is heard after this time: two time-outs, and some."""
HEEDED_SECONDS = 3.0
"""The same where all hear each other all the time; a process that does not heed it is killed after a second."""

WORK = ("submit", "submit", "submit_many", "submit_large", "submit_graph", "submit_nested", "map", "objects", "cancel")

KINDS = (
    Kind(
        "calm",
        (*WORK, "drop_object", "program_joins", "agent_joins", "agent_leaves", "agent_drains"),
        cancel_seconds=HEEDED_SECONDS,
    ),
    Kind(
        "network",
        (*WORK, "hole", "hole", "half_hole", "reset", "half_reset", "pause_scheduler", "pause_agent", "pause_program"),
        timeouts=(60.0, 600.0),
        crash_limits=(1,),
        pauses=(0.0, 0.1, 1.0, 8.0),
    ),
    Kind(
        "crashes",
        (*WORK, "kill_processor", "kill_agent", "kill_agent_silently", "kill_program", "agent_joins", "program_joins"),
        crash_limits=(1, 3, 20),
    ),
    Kind("restarts", (*WORK, "restart_scheduler", "restart_scheduler", "pause_agent", "submit_lazy", "submit_lazy")),
    Kind(
        "everything",
        (
            *(*WORK, "submit_lazy", "drop_object", "hole", "half_hole", "reset", "half_reset", "kill_processor"),
            *("kill_agent", "kill_agent_silently", "agent_joins", "agent_leaves", "agent_drains", "kill_program"),
            *(
                "strange",
                "restart_scheduler",
                "pause_scheduler",
                "pause_agent",
                "pause_program",
                "jump_clock",
                "program_joins",
            ),
        ),
    ),
    Kind("paused", (*WORK, "pause_scheduler", "pause_scheduler", "reset"), crash_limits=(1,), stops=(12.0, 30.0)),
    Kind(
        "returns",
        ("submit_many", "submit_many", "program_returns_late", "submit"),
        pauses=(0.5, 2.0),
        seconds=(0.3, 6.0, 15.0),
        resisting=0.6,
        steps=(6, 12),
    ),
    Kind(
        "silence",
        ("submit_many", "submit", "submit_large", "submit_lazy", "objects", "long_hole", "long_hole"),
        timeouts=(60.0, 600.0),
        crash_limits=(1,),
        seconds=(0.3, 15.0, 60.0),
        steps=(4, 8),
    ),
    Kind("strange", (*WORK, "strange", "strange", "strange", "foreign", "agent_joins"), pauses=(0.0, 0.1, 0.5)),
    Kind("fair", ("crowd", "lone", "lone"), pauses=(0.5, 2.0), steps=(2, 5)),
    Kind(
        "slow",
        ("submit", "submit_large", "submit_large", "submit_large", "objects", "submit_lazy", "map", "submit_large"),
        rates=(100_000.0, 300_000.0),
        sizes=(20_000, 100_000, 1_200_000),
        crash_limits=(1,),
        steps=(3, 10),
    ),
)


FUTURES = Kind(
    "futures",
    (
        *("submit", "submit_many", "submit_after", "submit_after", "submit_after", "submit_lazy", "submit_large"),
        *("submit_graph", "cancel", "restart_scheduler", "reset", "hole", "pause_program", "kill_processor"),
        *("kill_agent", "agent_joins", "submit_after"),
    ),
    timeouts=(8.0, 60.0),
)
"""Futures as arguments."""

ONCE = Kind(
    "once",
    (
        *("submit_once", "submit_many_once", "submit_many_once", "submit_graph_once"),
        *("submit", "submit_lazy", "submit_large"),
        *("strange", "reset", "half_reset", "hole", "half_hole", "restart_scheduler", "pause_program", "pause_agent"),
        *("pause_scheduler", "kill_processor", "kill_agent", "kill_agent_silently", "agent_joins", "agent_leaves"),
        *("program_returns_late", "program_returns_late"),
    ),
    timeouts=(8.0, 60.0),
    kept=(256 * 1024 * 1024, 20_000),
)
"""Tasks that must not begin twice."""

OPTIONS = Kind(
    "options",
    (
        *(
            "submit_retried",
            "submit_limited",
            "submit_limited",
            "submit_gpu",
            "submit_gpu",
            "submit_gpu",
            "submit_nested_gpu",
        ),
        *("submit", "submit_lazy", "submit_graph", "cancel", "reset", "hole", "restart_scheduler", "pause_program"),
        *("pause_agent", "kill_processor", "kill_agent", "kill_agent_silently", "agent_joins", "agent_leaves"),
    ),
    timeouts=(8.0, 60.0),
)
"""Tasks that are run again when they raise, are ended when they take too long, or take GPUs of their node."""

MAPS = Kind(
    "maps",
    (
        *("map_many", "map_many", "map_many", "map_many", "map", "submit_many", "submit_nested", "objects"),
        *("reset", "reset", "reset", "half_reset", "restart_scheduler", "hole", "pause_agent", "pause_scheduler"),
        *("kill_processor", "kill_agent", "agent_joins", "agent_leaves", "agent_drains"),
    ),
    timeouts=(8.0, 60.0),
    pauses=(0.0, 0.01, 0.03, 0.1),
    seconds=(0.004, 0.008, 0.008, 0.008),
)
"""Many tasks of some milliseconds, whose results wait for each other at their agent."""

CHOPPY = Kind(
    "choppy",
    (
        *(*WORK, "submit_lazy", "submit_first", "submit_first", "drop_object", "garbage"),
        *("submit_gpu", "submit_gpu", "submit_gpu", "submit_unfit", "reset", "half_reset", "agent_drains"),
        *("reset", "hole", "restart_scheduler", "pause_agent", "pause_program", "kill_processor", "kill_agent"),
        *("kill_program", "program_joins", "agent_joins", "agent_leaves", "agent_drains"),
    ),
    pauses=(0.0, 0.0, 0.1, 0.5, 2.0),
    policies=POLICIES,
    waiting=(-1, 3),
    is_choppy=True,
)
"""Whatever happens between two messages of the scheduler. Some tasks are refused."""

PARTS = dataclasses.replace(
    CHOPPY,
    name="parts",
    acts=(*WORK, "submit_first", "submit_gpu", "submit_unfit", "garbage", "kill_processor", "agent_joins")
    + ("part_fails",) * 4,
    steps=(5, 15),
)
"""Parts of the scheduler fail."""

LATE = Kind(
    "late",
    (
        *("submit_many", "submit_many", "submit", "submit_lazy", "map", "agent_returns_late"),
        *("agent_returns_late", "cancel_unheard", "cancel_unheard", "cancel", "spoil_program", "spoil_program"),
        *("garble_program", "garble_program"),
    ),
    pauses=(0.1, 0.5, 2.0),
    seconds=(0.3, 6.0, 60.0),
    crash_limits=(2,),
    resisting=0.0,
    steps=(6, 14),
    is_alone=True,
    cancel_seconds=AWAY_SECONDS,
)
"""The agent is back after the end of its session, and users cancel while nothing passes, or say all again."""

DEATHS = Kind(
    "deaths",
    (
        *("submit_nested", "submit_nested", "submit_nested", "submit", "submit_many", "kill_young", "kill_young"),
        *("kill_processor", "kill_agent", "kill_agent_silently", "agent_joins", "agent_joins"),
    ),
    crash_limits=(1, 2),
    pauses=(0.1, 0.5, 3.0),
    seconds=(0.3, 6.0, 15.0),
    counts_deaths=True,
)
"""Agents and processors die, some before they are up, beside tasks that wait for others."""

SPARED = Kind(
    "spared",
    (
        *("map_many", "map_many", "submit_many", "submit_many", "submit", "submit_nested", "cancel", "cancel_graph"),
        *("agent_leaves", "agent_leaves", "agent_drains", "agent_joins", "agent_joins", "agent_joins"),
        *("kill_busy", "kill_busy", "kill_busy"),
    ),
    crash_limits=(1,),
    pauses=(0.0, 0.01, 0.03, 0.1),
    seconds=(0.004, 0.008, 0.008, 0.02),
    cancel_seconds=HEEDED_SECONDS,
)
"""One mark is the end of a task, and only what ran in a process that was killed gets one."""

ANEW = Kind(
    "anew",
    (
        *(
            "submit_many",
            "submit_many",
            "submit",
            "map",
            "submit_unread",
            "submit_unread",
            "cancel_lost",
            "cancel_lost",
        ),
        *("restart_scheduler", "restart_scheduler", "program_joins", "submit_nested", "forsake", "cancel"),
    ),
    pauses=(0.1, 0.5, 2.0),
    seconds=(0.3, 6.0, 60.0),
    resisting=0.0,
    steps=(6, 14),
    is_alone=True,
    cancel_seconds=AWAY_SECONDS,
)
"""The only agent goes on with all that it has under one scheduler after the other, but not with what nobody wants."""

VALUES = Kind(
    "values",
    (
        *("submit_lazy", "submit_lazy", "submit_lazy", "submit_large", "submit_graph", "submit_graph", "submit_after"),
        *(
            "submit_after",
            "submit_shared",
            "submit_shared",
            "submit",
            "cancel",
            "kill_agent",
            "kill_agent_silently",
            "agent_joins",
            "agent_joins",
        ),
        *("agent_leaves", "agent_drains", "kill_processor", "reset", "restart_scheduler", "pause_agent"),
        *("submit_value_once", "submit_value_once", "drop_result", "objects", "drop_object", "spoil_program"),
        *("read_result", "read_result", "agent_returns_late"),
    ),
    timeouts=(8.0, 60.0),
    seconds=(0.0, 0.02, 0.3, 2.0),
    sizes=(100_000, 100_000, 1_200_000),
    steps=(10, 30),
    disks=(0, 1_500_000, 1_500_000, 1 << 40),
)
"""Agents with little memory, and little disk, go while they have results that were not read."""

ORDERLY = Kind(
    "orderly",
    ("submit_first", "submit_first", "submit_lazy", "submit_lazy", "submit", "agent_drains", "agent_drains")
    + ("agent_joins",) * 3,
    pauses=(0.0, 0.5, 2.0),
    seconds=(0.02, 0.3, 2.0, 6.0),
    resisting=0.0,
    drains=(60.0,),
    is_orderly=True,
)
"""Agents leave when what they run has ended and the values that they alone have are with the scheduler."""

STEADY = Kind(
    "steady",
    ("submit_many", "submit_many", "submit", "submit", "program_joins", "restart_scheduler", "restart_scheduler"),
    pauses=(0.1, 0.5, 2.0),
    seconds=(0.3, 6.0, 60.0),
    resisting=0.0,
    steps=(5, 10),
    is_alone=True,
    agents=2,
)
"""Two agents go on with all that they have: no other one gets it before both are back."""

TWICE = Kind(
    "twice",
    ("submit_many", "submit_many", "submit", "agent_returns_late", "agent_returns_late", "agent_joins"),
    pauses=(0.5, 2.0),
    seconds=(6.0, 60.0, 60.0),
    resisting=0.0,
    steps=(5, 9),
    agents=2,
    is_single=True,
)
"""What an agent has that is away for long begins elsewhere."""

ROWS = Kind(
    "rows",
    (
        *("map_rows", "map_rows", "map_rows", "map_rows", "map_nested", "map_nested", "cancel_map", "cancel_map"),
        *("submit", "kill_busy", "kill_busy", "kill_busy", "kill_processor", "program_joins", "agent_joins"),
        "agent_drains",
    ),
    crash_limits=(1, 2),
    pauses=(0.0, 0.05, 0.3, 2.0),
    seconds=(0.02, 0.3, 2.0, 6.0),
    resisting=0.0,
    cancel_seconds=HEEDED_SECONDS,
)
"""Maps whose rows nest, raise, are cancelled and die with their processors, while all hear each other."""

RESUMED = Kind(
    "resumed",
    (
        *("map_rows", "map_rows", "map_rows", "map_rows", "map_nested", "cancel_map", "submit", "kill_busy"),
        *("spoil_program", "spoil_program", "garble_program", "reset", "reset", "half_reset", "pause_agent", "hole"),
        *("restart_scheduler", "pause_program", "kill_agent", "agent_joins"),
    ),
    pauses=(0.0, 0.05, 0.3, 2.0),
    seconds=(0.02, 0.3, 2.0, 6.0),
    resisting=0.0,
)
"""Such maps, while sessions go on after cuts, begin anew, or lose their scheduler."""

SHARED = Kind(
    "shared",
    ("map_many", "map_many", "map_many", "map_many", "program_joins", "program_joins"),
    pauses=(0.0, 0.01, 0.03),
    seconds=(0.001, 0.002, 0.003),
)
"""Clients have maps of short rows at the same time, and take turns."""

KEPT = Kind(
    "kept",
    (
        *("new_job", "new_job", "new_job", "same_job", "same_job", "same_job", "same_job", "read_job", "read_job"),
        *(
            "retry_job",
            "cancel_job",
            "submit",
            "map",
            "program_joins",
            "program_joins",
            "program_joins",
            "kill_program",
        ),
        *("kill_program", "kill_program", "restart_scheduler", "restart_scheduler", "restart_writing"),
        *(
            "restart_writing",
            "restart_writing",
            "kill_processor",
            "kill_agent",
            "agent_joins",
            "agent_joins",
            "agent_drains",
            "reset",
        ),
        *("spoil_program", "pause_scheduler", "pause_agent", "hole", "desert_job"),
    ),
    timeouts=(8.0, 60.0),
    pauses=(0.0, 0.05, 0.3, 2.0),
    seconds=(0.001, 0.02, 0.3, 2.0),
    resisting=0.0,
    steps=(10, 30),
    keeps_jobs=True,
)
"""Jobs that outlive programs, agents and schedulers."""

RIVALS = dataclasses.replace(
    KEPT,
    name="rivals",
    acts=(
        *("rival_jobs", "rival_jobs", "rival_jobs", "same_rival", "same_rival", "program_joins", "program_joins"),
        *("kill_program", "restart_scheduler", "agent_joins", "reset", "spoil_program", "hole"),
    ),
)
"""Programs that have other rows under one name, at the same time: nobody gets results of the rows of another one."""

FULL = dataclasses.replace(KEPT, name="full", acts=(*KEPT.acts, *("disk_fails",) * 5, *("retry_job", "cancel_job") * 3))
"""The disk is full for a while: what was acknowledged is on it."""

GRAPHS = Kind(
    "graphs",
    (
        *(
            "submit_graph",
            "submit_graph_lazy",
            "submit_graph_lazy",
            "submit_graph_lazy",
            "submit_after",
            "submit_after",
        ),
        *("submit_after", "submit_chain", "submit_chain", "submit_shared", "submit_nested_chain", "map_after"),
        *(
            "submit_graph_once",
            "submit_after_once",
            "need_whatever",
            "submit",
            "submit_lazy",
            "objects",
            "program_joins",
        ),
        *("cancel", "cancel_graph", "drop_result", "drop_result", "read_result", "read_result", "kill_agent"),
        *("kill_agent_silently", "agent_joins", "agent_joins", "agent_leaves", "agent_drains", "kill_processor"),
        *("kill_program", "reset", "hole", "restart_scheduler", "spoil_program", "pause_agent", "pause_program"),
        *("agent_returns_late", "lose_while_open", "lose_while_open", "end_unheard"),
    ),
    timeouts=(8.0, 60.0),
    pauses=(0.0, 0.0, 0.05, 0.5, 2.0),
    seconds=(0.0, 0.02, 0.3, 2.0),
    sizes=(100_000, 100_000, 1_200_000),
    steps=(10, 30),
    policies=(FAIR,),
    waiting=(-1, -1, 3),
)
"""Results that other tasks need, in graphs and as futures, are lost, dropped and requested, in all ways."""

CHAINS = Kind(
    "chains",
    (
        *("submit_graph", "submit_graph", "submit_after", "submit_after", "submit_chain", "submit_chain", "cancel"),
        *("submit", "cancel_graph", "restart_scheduler", "restart_scheduler", "spoil_program", "program_joins"),
        *("end_unheard", "end_unheard"),
    ),
    pauses=(0.1, 0.5, 2.0),
    seconds=(0.3, 6.0, 60.0),
    resisting=0.0,
    steps=(6, 14),
    is_alone=True,
    cancel_seconds=AWAY_SECONDS,
    policies=(FAIR,),
    waiting=(-1, 3),
)
"""What runs goes on under the next scheduler, though that has yet to make the results that it needs."""

OF_24 = {
    13: KEPT,
    10: RIVALS,
    12: FULL,
    5: ONCE,
    17: OPTIONS,
    20: MAPS,
    2: CHOPPY,
    11: PARTS,
    14: LATE,
    23: DEATHS,
    9: SPARED,
    16: ANEW,
    8: VALUES,
    3: ORDERLY,
    15: STEADY,
    19: TWICE,
    21: ROWS,
    6: RESUMED,
    18: SHARED,
    22: FUTURES,
    7: GRAPHS,
    4: CHAINS,
}
"""Some fresh seeds, by what is left of them. None of these had been found to fail as another kind."""

FRESH = 1000
"""The first fresh seed."""


def kind_of(seed: int) -> Kind:
    if seed >= FRESH and seed % 24 in OF_24:
        return OF_24[seed % 24]
    return KINDS[seed % len(KINDS)]


def seeds_of(kinds: Container[str], first: int, count: int) -> list[int]:
    """Return the first seeds of these kinds; none: of all."""
    return list(islice((seed for seed in itertools.count(first) if not kinds or kind_of(seed).name in kinds), count))
