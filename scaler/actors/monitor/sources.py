"""Sources: what the monitor reads of the scheduler, and whom it asks. It changes none of it."""

from __future__ import annotations

from dataclasses import dataclass

from scaler.actors.insight.events import Events
from scaler.actors.insight.output_table import OutputTable
from scaler.actors.objects.object_store import ObjectTable
from scaler.actors.peers.directory import Directory
from scaler.ids import SchedulerId, public_id
from scaler.kit import ActorRef
from scaler.wire.session.traffic import Traffic


@dataclass(frozen=True)
class Sources:
    """The parts of the scheduler that the monitor sees."""

    scheduler_id: SchedulerId
    directory: Directory
    objects: ObjectTable
    events: Events
    sent: Traffic
    received: Traffic
    balancer: ActorRef
    outputs: OutputTable

    @property
    def short_id(self) -> bytes:
        """The short id of this run of the scheduler."""
        return public_id(self.scheduler_id)
