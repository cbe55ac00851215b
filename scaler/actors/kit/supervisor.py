"""Supervisor: keeps children alive, as their specifications say.

A failed child is restarted at the same address, so that whoever wrote to it need not know; its mail waits. Restarts are
counted against a budget: a supervisor that restarts more often than `times` within `within_seconds` fails itself, and its
own supervisor decides (escalation). A root that fails ends the process.

Only failures are charged to the budget. A permanent child that ends in good order is started again at no charge, so an
actor must not end in good order at once after it started.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from scaler.actors.kit.actor import Actor, ActorRef, SupervisedRef, handles
from scaler.actors.kit.lifecycle import ChildFailed, ChildStopped
from scaler.message import message

logger = logging.getLogger(__name__)

Peers: TypeAlias = Mapping[str, ActorRef]
"""The addresses of all children of a supervisor, by name; complete before the first child starts."""


class Restart(Enum):
    """When a child is started again."""

    PERMANENT = "permanent"
    """always"""
    TRANSIENT = "transient"
    """after a failure only"""
    TEMPORARY = "temporary"
    """never"""


class Strategy(Enum):
    """Who else is restarted with a failed child."""

    ONE_FOR_ONE = "one for one"
    """nobody"""
    REST_FOR_ONE = "rest for one"
    """the children that were started after it"""
    ONE_FOR_ALL = "one for all"
    """all children"""


@dataclass(frozen=True)
class ChildSpec:
    """How a child is made, and when it is made again."""

    name: str
    actor_type: type[Actor]
    factory: Callable[[Peers], Actor]
    restart: Restart = Restart.PERMANENT


@dataclass(frozen=True)
class RestartBudget:
    """How many failures within how many seconds a supervisor bears before it fails itself."""

    times: int = 5
    within_seconds: float = 10.0


@dataclass(frozen=True)
class BackOff:
    """How long to wait before a restart: at once the first time, then `first_seconds`, growing by `factor` to the most."""

    first_seconds: float = 0.05
    factor: float = 2.0
    most_seconds: float = 5.0

    def delay_seconds(self, recent_failures: int) -> float:
        """Return the wait before a restart after so many recent failures, in seconds."""
        if recent_failures <= 1:
            return 0.0
        return min(self.most_seconds, self.first_seconds * self.factor ** (recent_failures - 2))


class RestartBudgetExceededError(RuntimeError):
    """A supervisor restarted its children too often."""


@message
class _RestartDue:
    names: tuple[str, ...]


class Supervisor(Actor):
    """Starts its children in order, stops them in reverse order, and restarts them by its strategy."""

    def __init__(
        self,
        children: tuple[ChildSpec, ...],
        strategy: Strategy = Strategy.ONE_FOR_ONE,
        budget: RestartBudget = RestartBudget(),
        back_off: BackOff = BackOff(),
        on_change: Callable[[Peers], None] | None = None,
    ) -> None:
        self._specs = {spec.name: spec for spec in children}
        if len(self._specs) != len(children):
            raise ValueError("two children have the same name")
        self._strategy = strategy
        self._budget = budget
        self._back_off = back_off
        self._on_change = on_change
        self._addresses: dict[str, SupervisedRef] = {}
        self._names: dict[ActorRef, str] = {}
        self._failure_times: deque[float] = deque()

    @property
    def children(self) -> Peers:
        """The addresses of the children by name."""
        return self._addresses

    def on_start(self) -> None:
        for spec in self._specs.values():
            self._give_address(spec)
        for name in self._specs:
            self._start(name)

    def _give_address(self, spec: ChildSpec) -> None:
        ref = self.actor_ref._dispatcher.address(spec.actor_type, self.actor_ref)
        self._addresses[spec.name] = ref
        self._names[ref] = spec.name

    def add(self, spec: ChildSpec) -> ActorRef:
        """Start one more child.

        Raises:
            ValueError: if a child of that name exists.
        """
        if spec.name in self._specs:
            raise ValueError(f"there is a child named {spec.name} already")
        self._specs[spec.name] = spec
        self._give_address(spec)
        self._start(spec.name)
        return self._addresses[spec.name]

    @handles(ChildFailed)
    def _child_failed(self, failed: ChildFailed) -> None:
        name = self._names.get(failed.child)
        if name is None:
            return  # forgotten since: its failure was on the way when it was removed
        if self._specs[name].restart is Restart.TEMPORARY:
            self._forget(name)
            return
        affected = self._affected_by(name)
        for other in reversed(affected):
            self.actor_ref._dispatcher.withdraw(self._addresses[other])
        delay_seconds = self._back_off.delay_seconds(self._charge(failed.error))
        logger.warning("restarting %s in %.2f s after %r", ", ".join(affected), delay_seconds, failed.error)
        if delay_seconds == 0.0:
            self._restart(_RestartDue(affected))
        else:
            self.schedule(delay_seconds, _RestartDue(affected))

    @handles(ChildStopped)
    def _child_stopped(self, stopped: ChildStopped) -> None:
        name = self._names.get(stopped.child)
        if name is None:
            return
        if self._specs[name].restart is Restart.PERMANENT:
            self._names.pop(stopped.child)
            self._give_address(self._specs[name])
            self._start(name)
        else:
            self._forget(name)

    @handles(_RestartDue)
    def _restart(self, due: _RestartDue) -> None:
        for name in due.names:
            ref = self._addresses.get(name)
            if ref is not None and ref._actor is None:
                self._start(name)

    def _start(self, name: str) -> None:
        self.actor_ref._dispatcher.put_behind(self._addresses[name], self._specs[name].factory(self._addresses))

    def _affected_by(self, name: str) -> tuple[str, ...]:
        names = tuple(self._specs)
        if self._strategy is Strategy.ONE_FOR_ONE:
            return (name,)
        return names if self._strategy is Strategy.ONE_FOR_ALL else names[names.index(name) :]

    def _charge(self, error: BaseException) -> int:
        """Count a failure against the budget. Returns the number of recent ones."""
        now, times = self.now(), self._failure_times
        times.append(now)
        while times[0] < now - self._budget.within_seconds:
            times.popleft()
        if len(times) > self._budget.times:
            raise RestartBudgetExceededError(
                f"{len(times)} failures within {self._budget.within_seconds:g} s, the last one: {error!r}"
            ) from error
        return len(times)

    def _forget(self, name: str) -> None:
        ref = self._addresses.pop(name)
        del self._names[ref], self._specs[name]
        self.actor_ref._dispatcher.stop(ref)

    def on_stop(self) -> None:
        for ref in reversed(tuple(self._addresses.values())):
            self._names.pop(ref, None)
            self.actor_ref._dispatcher.stop(ref)

    def on_failure(self, *_error: object) -> None:
        self.on_stop()
