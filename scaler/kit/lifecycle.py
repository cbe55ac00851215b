"""Mail about the life of actors. It is sent in the urgent lane, ahead of all other mail.

The dispatcher sends this mail when an actor fails or stops, and the actor's parent receives it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scaler.message import message

if TYPE_CHECKING:
    from scaler.kit.actor import ActorRef


@message
class ChildFailed:
    """Notifies a parent that a child raised an error. The child handles no mail until the parent decides."""

    child: ActorRef
    error: BaseException


@message
class ChildStopped:
    """Notifies a supervisor that a child ended normally, without a failure."""

    child: ActorRef


@message
class MessageRefused:
    """Notifies a sender that an actor could not handle the sender's message. That actor drops it and continues."""

    message: Any
    error: Exception


class ExplainedError(RuntimeError):
    """An actor cannot continue, but not because of a bug. The text of the error suffices, so no traceback is logged."""


class UnknownMessageError(TypeError):
    """An actor received a message for which it has no handler. The bug is in the sender, but the receiver fails."""


class ActorStoppedError(RuntimeError):
    """An actor or a dispatcher was used after its end."""
