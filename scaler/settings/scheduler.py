"""The settings of a scheduler process."""

from __future__ import annotations

from dataclasses import dataclass, field

from scaler.config import check_address, entry
from scaler.settings.base import ADDRESS, EVENT_LOOP, EVENT_LOOPS, IO_THREADS, LoggingConfig, Settings

POLICIES = ("fair", "fifo")


def _check_listening_address(address: str) -> None:
    check_address(address, may_be_any_port=True)


@dataclass(frozen=True)
class SchedulerConfig(Settings):
    """Settings of a scheduler process."""

    TABLE = "scheduler"

    address: str = field(metadata=entry(ADDRESS, "address", check=_check_listening_address, metavar="ADDRESS"))
    io_threads: int = field(default=1, metadata=entry(IO_THREADS, "--io-threads", least=1))
    max_number_of_tasks_waiting: int = field(
        default=-1,
        metadata=entry(
            "new tasks are refused with NoWorkerError when so many wait and no worker has a free place; "
            "-1: none is refused",
            "-mt",
            "--max-number-of-tasks-waiting",
            least=-1,
        ),
    )
    client_timeout_seconds: float = field(
        default=60,
        metadata=entry(
            "a client silent for so long is dead: its tasks are cancelled",
            "-ct",
            "--client-timeout-seconds",
            unit="s",
            least=1,
        ),
    )
    worker_timeout_seconds: float = field(
        default=60,
        metadata=entry(
            "a cluster silent for so long is dead: its tasks go to other workers",
            "-wt",
            "--worker-timeout-seconds",
            unit="s",
            least=1,
        ),
    )
    object_retention_seconds: float = field(
        default=60,
        metadata=entry(
            "clusters keep the functions that are not needed any more for so long",
            "-ot",
            "--object-retention-seconds",
            unit="s",
        ),
    )
    load_balance_seconds: float = field(
        default=1,
        metadata=entry(
            "the shortest time between two rounds of balancing, in which waiting tasks are taken from busy workers "
            "for idle ones; 0: there are none",
            "-ls",
            "--load-balance-seconds",
            unit="s",
        ),
    )
    load_balance_trigger_times: int = field(
        default=2,
        metadata=entry(
            "how many looks in a row, 25 ms apart, must find idle workers while tasks wait at others, before there is "
            "a round of balancing",
            "-lbt",
            "--load-balance-trigger-times",
            least=1,
        ),
    )
    policy: str = field(
        default="fair",
        metadata=entry(
            "in which order waiting tasks go: fair: clients take turns; fifo: first come, first served, whoever it is",
            "--policy",
            choices=POLICIES,
            metavar="NAME",
        ),
    )
    per_worker_queue_size: int = field(
        default=1000,
        metadata=entry(
            "the most tasks at one worker, the running one included", "-qs", "--per-worker-queue-size", least=1
        ),
    )
    crash_limit: int = field(
        default=3,
        metadata=entry(
            "how often a task may be running when its process dies before it fails", "--crash-limit", least=1
        ),
    )
    protected: bool = field(
        default=True, metadata=entry("whether clients that ask for a shutdown are refused", "-p", "--protected")
    )
    event_loop: str = field(
        default="builtin",
        metadata=entry(EVENT_LOOP, "-e", "--event-loop", choices=EVENT_LOOPS, metavar="LOOP"),
    )
    logging: LoggingConfig = field(default_factory=LoggingConfig)
