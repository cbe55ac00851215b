"""Shares: what each owner gets of the scheduler while others wait, heard at the order of the waiting tasks.

While an owner has a task that waits, each other one may have as many turns before it as its share is, and no turn is
longer than `TURN_US` and one task. To whom an account belongs is known from the programs themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from scaler.actors.policy.fair_share import TURN_US, FairShare, a_turn_each
from scaler.ids import ObjectId


class Shares:
    """Watches the order of one balancer.

    Args:
        order: of its tasks.
        owner_of: returns the owner of an account, as programs have it; empty if nobody has it.
        shares: of the owners; there are no others.
        complain: is told what must not be.
    """

    def __init__(
        self,
        order: FairShare,
        owner_of: Callable[[int], str],
        shares: dict[str, int],
        complain: Callable[[str], object],
    ) -> None:
        self._complain = complain
        self._owner_of = owner_of
        self._shares = shares
        self._order = order
        self._had_us: dict[str, Counter[str]] = {}
        """of an owner that waits: what each other one has had since"""
        self._longest_us: Counter[str] = Counter()
        """the longest task that an owner has had meanwhile"""
        self._before: tuple[dict[str, Counter[str]], Counter[str]] = {}, Counter()
        self._drain, self._remove, self._put_back, self._clear = order.drain, order.remove, order.put_back, order.clear
        order.drain, order.remove = self.drain, self.remove  # type: ignore[method-assign]
        order.put_back, order.pass_turn = self.put_back, self.pass_turn(order.pass_turn)  # type: ignore[method-assign]
        order.clear = self.clear  # type: ignore[method-assign]

    def waiting(self) -> set[str]:
        """Return whose tasks wait. To ask a queue whether it is empty may tidy it up, while somebody takes from it."""
        return {self._owner_of(account) for account, queue in self._order._queues.items() if len(queue)}

    def _see(self) -> None:
        waiting = self.waiting()
        self._had_us = {owner: self._had_us.get(owner, Counter()) for owner in waiting}

    def drain(self, expected_us: Callable[[ObjectId], float] = a_turn_each) -> Iterator[Any]:
        """As the order does, and count."""
        for ready in self._drain(expected_us):
            self._before = {owner: had.copy() for owner, had in self._had_us.items()}, self._longest_us.copy()
            self._count(self._owner_of(ready.account), expected_us(ready.spec.function_id) * (ready.spec.rows or 1))
            yield ready

    def _count(self, owner: str, us: float) -> None:
        self._had_us.pop(owner, None)
        self._see()
        self._longest_us[owner] = max(self._longest_us[owner], us)  # type: ignore[assignment] - a counter of times
        for waits, had in self._had_us.items():
            if waits == owner or not (waits and owner):
                continue
            had[owner] += us  # type: ignore[assignment] - the same
            most = self._shares[owner] * (TURN_US + self._longest_us[owner])
            if had[owner] > most:
                self._complain(
                    f"{owner} has had {had[owner] / 1000:.1f} ms while {waits} waited, and may have {most / 1000:.1f}"
                )

    def remove(self, *task: Any) -> Any:
        """As the order does; who has nothing any more does not wait."""
        removed = self._remove(*task)
        self._see()
        return removed

    def clear(self) -> None:
        """Clear the order, and all counts: when all tasks have reported again, turns start anew."""
        self._clear()
        self._had_us.clear()

    def put_back(self, ready: Any) -> None:
        """As the order does: that task was not taken."""
        self._put_back(ready)
        self._had_us, self._longest_us = self._before

    def pass_turn(self, pass_turn: Callable[[], None]) -> Callable[[], None]:
        """As the order does: an owner has had its turn with tasks of another kind."""

        def passed() -> None:
            self._had_us.clear()
            pass_turn()

        return passed
