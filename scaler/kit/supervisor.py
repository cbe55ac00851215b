"""Supervisor: keeps children alive, by their specifications.

A failed child is restarted at the same address, where its mail waits, so the senders of the mail need not know of the
failure. A supervisor has a budget: if its children fail more than `times` times within `within_seconds`, the supervisor
fails itself, and its own supervisor decides (escalation). A root that fails ends the process.

A permanent child that ends normally is also restarted at the same address. Its end does not count against the budget,
and its restart waits for its turn behind other mail. So a child that ends at once, again and again, wastes time but
blocks no other actor.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from scaler.kit.actor import Actor, ActorRef, SupervisedRef, handles
from scaler.kit.lifecycle import ChildFailed, ChildStopped
from scaler.message import message

if TYPE_CHECKING:
    from scaler.kit.clock import Timer

logger = logging.getLogger(__name__)

Peers: TypeAlias = Mapping[str, ActorRef]
"""The addresses of all children of a supervisor, by name; complete before the first child starts."""


class Restart(Enum):
    """The cases in which a child is restarted after its end."""

    PERMANENT = "permanent"
    """after every end, normal or by a failure"""
    TRANSIENT = "transient"
    """only after a failure"""


class Strategy(Enum):
    """The children that are restarted when one child fails."""

    ONE_FOR_ONE = "one for one"
    REST_FOR_ONE = "rest for one"
    """the failed child and the children that were started after it"""
    ONE_FOR_ALL = "one for all"


@dataclass(frozen=True)
class ChildSpec:
    """How to create a child, and when to restart the child. If `factory` raises, the child has failed."""

    name: str
    actor_type: type[Actor]
    factory: Callable[[Peers], Actor]
    restart: Restart = Restart.PERMANENT


@dataclass(frozen=True)
class RestartBudget:
    """The maximum number of failures in a number of seconds. After one more failure, the supervisor itself fails."""

    times: int = 5
    within_seconds: float = 10.0


@dataclass(frozen=True)
class BackOff:
    """The wait before a restart: 0, then `first_seconds`, then `factor` times the last wait, up to `most_seconds`."""

    first_seconds: float = 0.05
    factor: float = 2.0
    most_seconds: float = 5.0

    def delay_seconds(self, recent_failures: int) -> float:
        """Return the wait before a restart; `recent_failures`: the failures that count against the budget now."""
        if recent_failures <= 1:
            return 0.0
        exponent = min(recent_failures - 2, 64)  # far beyond any sensible limit, far below what a float can hold
        return min(self.most_seconds, self.first_seconds * self.factor**exponent)


class RestartBudgetExceededError(RuntimeError):
    """The children of a supervisor failed more often than its budget allows."""


@message
class _RestartDue:
    names: tuple[str, ...]


DEFAULT_BUDGET = RestartBudget()
DEFAULT_BACK_OFF = BackOff()


class Supervisor(Actor):
    """Starts its children in order, stops them in reverse order, and restarts them according to its strategy.

    A supervisor that is itself restarted creates new addresses for its children.

    Args:
        on_restart: called with the name and the error of each child that failed and will be restarted; must not raise.
    """

    def __init__(
        self,
        children: tuple[ChildSpec, ...],
        strategy: Strategy = Strategy.ONE_FOR_ONE,
        budget: RestartBudget = DEFAULT_BUDGET,
        back_off: BackOff = DEFAULT_BACK_OFF,
        on_restart: Callable[[str, BaseException], None] | None = None,
    ) -> None:
        self._specs = {spec.name: spec for spec in children}
        if len(self._specs) != len(children):
            raise ValueError("two children have the same name")
        self._strategy = strategy
        self._budget = budget
        self._back_off = back_off
        self._on_restart = on_restart
        self._addresses: dict[str, SupervisedRef] = {}
        self._names: dict[ActorRef, str] = {}
        self._restarts: dict[str, Timer] = {}
        self._failure_times: deque[float] = deque()

    @property
    def children(self) -> Peers:
        """The addresses of the children, by name of the child."""
        return self._addresses

    def on_start(self) -> None:
        for spec in self._specs.values():
            self._create_address(spec)
        self._start_waiting(tuple(self._specs))

    def add(self, spec: ChildSpec) -> ActorRef:
        """Start another child, the last in the order of children. Raises `ValueError` if the name is taken."""
        if spec.name in self._specs:
            raise ValueError(f"there is a child named {spec.name} already")
        self._specs[spec.name] = spec
        ref = self._create_address(spec)
        self._start_waiting((spec.name,))
        return ref

    def on_stop(self) -> None:
        for ref in reversed(tuple(self._addresses.values())):
            self.actor_ref._dispatcher.end(ref)

    def on_failure(self, *_error: object) -> None:
        self.on_stop()

    # Children that failed or stopped

    @handles(ChildFailed)
    def _child_failed(self, failed: ChildFailed) -> None:
        name = self._name_if_open(failed.child)
        if name is None:
            return
        affected = self._affected_by(name)
        delay_seconds = self._back_off.delay_seconds(self._charge(failed.error))
        for other in reversed(affected):
            self._detach(other)
        logger.warning("restarting %s in %.2f s after %r", ", ".join(affected), delay_seconds, failed.error)
        if self._on_restart is not None:
            self._on_restart(name, failed.error)
        if delay_seconds == 0.0:
            self._start_waiting(affected)
        else:
            self._restarts |= dict.fromkeys(affected, self.schedule(delay_seconds, _RestartDue(affected)))

    @handles(ChildStopped)
    def _child_stopped(self, stopped: ChildStopped) -> None:
        name = self._name_if_open(stopped.child)
        if name is None:
            return
        affected = self._affected_by(name)
        if self._specs[name].restart is Restart.PERMANENT:
            self.actor_ref.send(_RestartDue(affected))
        else:
            self._forget(name)
            self._start_waiting(affected)

    @handles(_RestartDue)
    def _start_due(self, due: _RestartDue) -> None:
        self._start_waiting(due.names)

    def _name_if_open(self, child: ActorRef) -> str | None:
        """Return the child's name if its end still has to be handled; None if the message about it is out of date."""
        name = self._names.get(child)
        return name if name is not None and self._is_waiting(name) else None

    def _affected_by(self, name: str) -> tuple[str, ...]:
        names = tuple(self._specs)
        if self._strategy is Strategy.ONE_FOR_ONE:
            return (name,)
        return names if self._strategy is Strategy.ONE_FOR_ALL else names[names.index(name) :]

    def _charge(self, error: BaseException) -> int:
        now, times = self.now(), self._failure_times
        times.append(now)
        while times[0] < now - self._budget.within_seconds:
            times.popleft()
        if len(times) > self._budget.times:
            raise RestartBudgetExceededError(
                f"{len(times)} failures within {self._budget.within_seconds:g} s, the last one: {error!r}"
            ) from error
        return len(times)

    # Children

    def _create_address(self, spec: ChildSpec) -> SupervisedRef:
        ref = self.actor_ref._dispatcher.address(spec.actor_type, self.actor_ref)
        self._addresses[spec.name] = ref
        self._names[ref] = spec.name
        return ref

    def _is_waiting(self, name: str) -> bool:
        ref = self._addresses.get(name)
        if ref is None or ref._actor is not None or ref.is_stopped():
            return False
        restart = self._restarts.get(name)
        return restart is None or not restart.is_pending

    def _start_waiting(self, names: tuple[str, ...]) -> None:
        """Start those children that do not run, in order. Stop at the first failure, except with `ONE_FOR_ONE`."""
        for name in names:
            if self._is_waiting(name):
                self._start(name)
                if self._strategy is not Strategy.ONE_FOR_ONE and self._is_waiting(name):
                    return

    def _start(self, name: str) -> None:
        ref, dispatcher = self._addresses[name], self.actor_ref._dispatcher
        try:
            actor = self._specs[name].factory(self._addresses)
        except BaseException as error:
            dispatcher.report_failure(ref, error)
        else:
            dispatcher.attach(ref, actor)

    def _detach(self, name: str) -> None:
        restart = self._restarts.pop(name, None)
        if restart is not None:
            restart.cancel()
        self.actor_ref._dispatcher.detach(self._addresses[name])

    def _forget(self, name: str) -> None:
        ref = self._addresses.pop(name)
        del self._names[ref], self._specs[name]
        self.actor_ref._dispatcher.end(ref)
