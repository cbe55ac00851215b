"""Contacts: when the scheduler's host last heard from each party, and whether a session had to end therefore.

A session ends by silence only after its time-out, in which nothing came although the scheduler listened; and by a cut
only when its connection was closed, by an end that was not silent before, and no new one came in time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from scaler.actors.sessions import agent_session, client_session, session
from scaler.actors.vocabulary.directory import Directory
from scaler.actors.vocabulary.events import CLIENT
from scaler.ids import Connection
from scaler.settings import SchedulerConfig
from tests.simulation.record import Record
from tests.simulation.world import World

if TYPE_CHECKING:
    from tests.simulation.network import Line
    from tests.simulation.parties import SchedulerParty

COME_BACK_SECONDS = {True: client_session.COME_BACK_SECONDS, False: agent_session.COME_BACK_SECONDS}
SILENT_LEAST_SECONDS = session.SILENT_LEAST_SECONDS
"""As the project has them, whatever a mutant changes."""
TOLERANCE_SECONDS = 1.2
"""Messages are late by up to so much."""


@dataclass
class _Contact:
    heard_at: float
    closed_at: float | None = None
    silent_before: float = 0.0
    before: _Contact | None = None
    """on another connection, which was closed"""


class Contacts:
    """What has arrived at the scheduler's host, whether the scheduler has read it or was stopped meanwhile."""

    def __init__(self, world: World, record: Record, limits: SchedulerConfig, beat: float) -> None:
        self._world = world
        self._record = record
        self._limits = limits
        self._beat = beat
        self._contacts: dict[str, _Contact] = {}
        self._heard_last: dict[str, float] = {}
        """on whichever line"""
        self._lines: dict[str, Line] = {}
        self._closed_last: dict[str, float] = {}
        """when any line of a party was closed, also one that another one had replaced"""
        self.lost: set[str] = set()
        """whose session has ended for want of contact"""
        self._given_up: set[Connection] = set()
        """connections on which the scheduler does not listen any more"""
        self._scheduler: SchedulerParty
        self._directory: Directory

    def listen(self, scheduler: SchedulerParty, directory: Directory) -> None:
        """A scheduler begins."""
        self._scheduler, self._directory = scheduler, directory

    def forget_lines(self) -> None:
        """The scheduler is gone, and all its connections."""
        self._lines.clear()
        self._given_up.clear()

    def name_of(self, peer_id: bytes) -> str:
        return self._record.clients.get(peer_id, peer_id.hex())

    def heard(self, line: Line) -> None:
        if line.connection in self._given_up:
            return
        name = line.dialer.party.name
        self._heard_last[name] = self._world.now
        known = self._lines.get(name)
        if known is None or known.connection <= line.connection:
            before = self._contacts.get(name)
            is_new = known is not line and before is not None and before.closed_at is not None
            self._lines[name] = line
            self._contacts[name] = _Contact(self._world.now, before=before if is_new else None)

    def closed(self, line: Line) -> None:
        """The scheduler's host knows that this connection is over."""
        if line.connection in self._given_up:
            return
        name = line.dialer.party.name
        self._closed_last[name] = self._world.now
        contact = self._contacts.get(name)
        if contact is not None and self._lines.get(name) is line:
            if contact.before is not None and contact.heard_at == self._world.now:
                # Its hello and its end came at once: nobody could answer, and the session waits as it did before.
                self._contacts[name] = contact.before
                return
            contact.closed_at, contact.silent_before = self._world.now, self._world.now - contact.heard_at
            if contact.silent_before < SILENT_LEAST_SECONDS - TOLERANCE_SECONDS:
                for is_client in (True, False):
                    seconds = COME_BACK_SECONDS[is_client] + TOLERANCE_SECONDS
                    self._world.at(seconds, partial(self._check_ended, self._scheduler, name, contact, is_client))

    def _check_ended(self, scheduler: SchedulerParty, name: str, contact: _Contact, is_client: bool) -> None:
        """Complain if the session of a party goes on whose connection was closed, and has not come back.

        A client in a task has no time-out: its agent says that its process is dead, or ends with its own session.
        """
        if scheduler is not self._scheduler or not scheduler.runs or self._contacts.get(name) is not contact:
            return
        assert contact.closed_at is not None
        if self._heard_last[name] > contact.closed_at:
            return  # on another line, which it prefers
        if self._closed_last[name] > contact.closed_at:  # its hello was overtaken: the session was on that other line
            contact.closed_at = self._closed_last[name]
            left = contact.closed_at + COME_BACK_SECONDS[is_client] + TOLERANCE_SECONDS - self._world.now
            self._world.at(left, partial(self._check_ended, scheduler, name, contact, is_client))
            return
        was_stopped = scheduler.stopped_at >= contact.heard_at - session.LATE_MAIL_SECONDS
        if self._may_go_on(name, contact):
            again = partial(self._check_ended, scheduler, name, contact, is_client)
            self._world.at(self._limits.worker_timeout_seconds, again)
            return
        for (kind, peer_id), peer in self._directory.peers.items():
            if self.name_of(peer_id) == name and not (peer.connection or was_stopped) and (kind == CLIENT) == is_client:
                self._world.complain(f"the session of {name} goes on though its connection was closed, and is not back")

    def _may_go_on(self, name: str, contact: _Contact) -> bool:
        """Return whether the session of a client in a task may go on without a connection: its process lives, or
        nothing has come since from its agent, which would say that it does not, and whose own session goes on.
        """
        agent = name.partition(".")[0]
        its = self._contacts.get(agent)
        assert contact.closed_at is not None
        if its is None or its is contact:
            return False
        if self._lines[name].dialer.party.is_alive:
            return True
        is_silent = its.heard_at <= contact.closed_at + self._beat + TOLERANCE_SECONDS
        return is_silent and any(self.name_of(peer_id) == agent for _, peer_id in self._directory.peers)

    def dropped(self, name: str) -> None:
        """The scheduler itself has given the connection of a party up, and asked for another one: that is as if it was
        closed, and the party may not have heard of it.
        """
        contact, line = self._contacts.get(name), self._lines.get(name)
        if contact is not None:
            contact.closed_at = self._world.now
        if line is not None:
            self._given_up.add(line.connection)

    def check_lost(self, name: str, is_client: bool) -> None:
        """A session has ended for want of contact: complain if it need not have."""
        self.lost.add(name)
        contact = self._contacts.get(name)
        if contact is None:
            return
        limits = self._limits
        timeout = limits.client_timeout_seconds if is_client else limits.worker_timeout_seconds
        silent = self._world.now - contact.heard_at
        line = self._lines.get(name)
        if line is not None and line.up.is_moving:
            self._world.complain(f"the session of {name} has ended while its bytes arrive")
            return
        if silent >= timeout - self._beat - TOLERANCE_SECONDS:
            return
        was_cut = contact.closed_at is not None and contact.silent_before <= (
            max(SILENT_LEAST_SECONDS, 3 * self._beat) + TOLERANCE_SECONDS
        )
        waited = 0.0 if contact.closed_at is None else self._world.now - contact.closed_at
        if was_cut and waited >= min(timeout, COME_BACK_SECONDS[is_client]) - TOLERANCE_SECONDS:
            return
        self._world.complain(
            f"the session of {name} has ended without need: silent for {silent:.2f} of {timeout:g} s, "
            + ("its connection stands" if contact.closed_at is None else f"closed for {waited:.2f} s")
        )
